"""Every language model keeps the same promises; a new one is added to CASES.

Legend: B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from saccade.models import lstmn, recurrent_lm, transformer
from saccade.nn.ensemble import Ensemble
from saccade.nn.language import LanguageModel
from saccade.nn.search.beam_search import Search, search, select
from saccade.nn.search.selection import Sampling
from saccade.trace.lens import Lens, assemble

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

PAD, BOS, EOS = 0, 1, 2
V, T, LENGTHS = 13, 7, (7, 3, 5)
LIMIT = 6
MARKS = {"bos": BOS, "eos": EOS, "forbidden": (PAD, BOS)}


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], LanguageModel]

    def build(self) -> LanguageModel:
        torch.manual_seed(3)
        network = self.make().double().eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(2)  # away from a fresh network's one answer to everything
        return network

    def __str__(self) -> str:
        return self.name


def _recurrent(**config: object) -> Callable[[], LanguageModel]:
    return lambda: recurrent_lm.RecurrentLM(recurrent_lm.Config(**{"hidden": 6, "embedding": 4, **config}), V)


def _transformer(**config: object) -> Callable[[], LanguageModel]:
    sizes = {"width": 8, "heads": 2, "hidden": 12, "layers": 2, "dropout": 0.0, **config}
    return lambda: transformer.TransformerLM(transformer.LanguageConfig(**sizes), V)


def _lstmn(**config: object) -> Callable[[], LanguageModel]:
    return lambda: lstmn.LstmnLM(lstmn.Config(**{"hidden": 6, "embedding": 4, **config}), V)


CASES = [
    Case("lstm", _recurrent()),
    Case("gru, two layers, tied", _recurrent(cell="gru", layers=2, output="tied")),
    Case("lstm, tied without a projection", _recurrent(embedding=6, output="tied")),
    Case("transformer", _transformer()),
    Case("transformer, learned positions, pre-norm", _transformer(positions="learned", norm="pre", places=20)),
    Case("transformer, rotary", _transformer(positions="rotary")),
    Case("lstmn", _lstmn()),
    Case("lstmn, two layers, tied", _lstmn(layers=2, output="tied")),
    Case("lstmn, as in the authors' code", _lstmn(query="code")),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, V, (len(LENGTHS), T), generator=generator)
    tokens[:, 0] = BOS
    for row, length in enumerate(LENGTHS):
        tokens[row, length:] = PAD
    return tokens, torch.tensor(LENGTHS)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


@every_case
def test_step_by_step_equals_the_whole(case: Case) -> None:
    network, (tokens, _) = case.build(), batch()
    whole, lens, steps = network(tokens, lens=(seen := Lens(detail=["state"]))), seen, Lens(detail=["state"])
    assert whole.shape == (len(LENGTHS), T, V)
    state = network.blank(len(LENGTHS))
    for t in range(T):
        row, state = network.step(tokens[:, t], state, (), offset=t, lens=steps)
        close(row, whole[:, t])
    for ours, theirs in zip(lens.traces, steps.traces, strict=True):
        assert ours.signals.keys() == theirs.signals.keys()
        close(ours.signals["decoder.state"].values, theirs.signals["decoder.state"].values)
        for map, expected in zip(ours.maps, theirs.maps, strict=True):
            assert (map.query, map.key) == ("output", "input")
            close(map.weights, expected.weights)
            assert not map.weights.triu(1).any(), "a row looks at what comes after it"


@every_case
def test_padding_changes_nothing_and_an_item_alone_is_what_it_is_in_a_batch(case: Case) -> None:
    network, (tokens, lengths) = case.build(), batch()
    logits = network(tokens, lengths)
    assert torch.isfinite(logits).all()
    other = tokens.clone()
    for row, length in enumerate(LENGTHS):
        other[row, length:] = 5
        alone = network(tokens[row : row + 1, :length])
        close(logits[row : row + 1, :length], alone)
    for row, length in enumerate(LENGTHS):
        close(network(other, lengths)[row, :length], logits[row, :length])


@every_case
def test_a_token_sees_nothing_of_later_ones(case: Case) -> None:
    network, (tokens, _) = case.build(), batch()
    other = tokens.clone()
    other[:, 4:] = (other[:, 4:] + 3) % (V - 3) + 3
    close(network(other)[:, :4], network(tokens)[:, :4])


@every_case
def test_prompts_of_unequal_length_go_on_as_if_read_whole(case: Case) -> None:
    """One of them is nothing but its opening mark."""
    network, (tokens, _) = case.build(), batch()
    lengths = torch.tensor([5, 1, 3])
    memory = network.encode(tokens, lengths)
    first, state, rest = network.begin(memory, 3, BOS)
    assert first.tolist() == [int(tokens[row, length - 1]) for row, length in enumerate(lengths)]
    for t in range(2):
        given = first if t == 0 else tokens.gather(1, (lengths + t - 1).unsqueeze(1)).squeeze(1)
        logits, state = network.step(given, state, rest, offset=t)
        for row, length in enumerate(lengths.tolist()):
            # What the padded batch holds after the prompt is what the row goes on with.
            close(logits[row], network(tokens[row : row + 1, : length + t])[0, -1])


@every_case
def test_rows_can_be_selected_and_reordered(case: Case) -> None:
    network, (tokens, _) = case.build(), batch()
    rows = torch.tensor([2, 0, 0, 1])
    _, state = network.read(tokens[:, :4])
    straight, _ = network.step(tokens[:, 4], state, (), offset=4)
    moved, _ = network.step(tokens[rows, 4], select(state, rows), (), offset=4)
    close(moved, straight[rows])


@every_case
def test_the_lens_sees_the_sites_that_are_named_and_changes_nothing(case: Case) -> None:
    network, (tokens, lengths) = case.build(), batch()
    plain = network(tokens, lengths)
    for lens in (Lens(), Lens("top", k=2), Lens("statistics")):
        close(network(tokens, lengths, lens=lens), plain)
        assert {record.site.name for record in lens.records} == {site.name for site in network.sites}
        assert all((site.query, site.key) == ("output", "input") for site in network.sites)


@every_case
def test_gradients_reach_every_parameter_and_a_saved_state_is_the_network(case: Case) -> None:
    network, (tokens, lengths) = case.build(), batch()
    functional.cross_entropy(network(tokens, lengths).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        if "positions" not in name:
            assert parameter.grad.any(), name
    other = case.make().double().eval()
    other.load_state_dict(network.state_dict())
    close(other(tokens, lengths), network(tokens, lengths))


# Continuing prompts ---------------------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize(
    "how",
    [Search(), Search(beam=3, n_best=3), Search(sample=Sampling(seed=4), n_best=2), Search(beam=2, block_ngrams=2)],
    ids=["greedy", "beam", "samples", "no repeats"],
)
def test_each_continuation_scores_and_looks_as_when_it_is_forced(case: Case, how: Search) -> None:
    network, (tokens, _) = case.build(), batch()
    prompts = tokens[:, :4]
    lens = Lens()
    reading = lens.fresh()
    memory = network.encode(prompts, torch.tensor([4, 4, 4]), lens=reading)
    found = search(network, memory, [LIMIT] * 3, how, lens=lens, **MARKS)
    plain = search(network, network.encode(prompts, torch.tensor([4, 4, 4])), [LIMIT] * 3, how, **MARKS)
    assert [[each.tokens for each in best] for best in plain] == [[each.tokens for each in best] for best in found]
    for row, hypotheses in enumerate(found):
        for each in hypotheses:
            written = [*each.tokens, *[EOS] * (each.stopped == "eos")]
            whole = torch.tensor([[*prompts[row].tolist(), *written]])
            forced = Lens()
            log_probs = torch.log_softmax(network(whole[:, :-1], lens=forced), dim=-1)[0].detach()
            expected = sum(float(log_probs[3 + t, token]) for t, token in enumerate(written))
            assert each.log_prob == pytest.approx(expected, abs=1e-4)
            if network.sites:
                read = [record.select(torch.tensor([row])) for record in reading.records]
                ours = assemble([*read, *each.records], 0)
                for map, theirs in zip(ours.maps, forced.trace.maps, strict=True):
                    assert map.queries == whole.shape[1] - 1
                    close(map.weights, theirs.weights)


@every_case
def test_a_plain_search_continues_prompts_of_unequal_length_as_each_alone(case: Case) -> None:
    network, (tokens, _) = case.build(), batch()
    lengths = [5, 1, 3]
    together = search(network, network.encode(tokens, torch.tensor(lengths)), [LIMIT] * 3, Search(beam=2), **MARKS)
    for row, length in enumerate(lengths):
        memory = network.encode(tokens[row : row + 1, :length], torch.tensor([length]))
        [alone] = search(network, memory, [LIMIT], Search(beam=2), **MARKS)
        assert [each.tokens for each in alone] == [each.tokens for each in together[row]]


@every_case
def test_an_ensemble_of_one_network_twice_is_the_network(case: Case) -> None:
    network, (tokens, _) = case.build(), batch()
    both, lengths = Ensemble([network, network]).eval(), torch.tensor([4, 4, 4])
    for lens in (None, Lens()):
        expected = search(network, network.encode(tokens, lengths), [LIMIT] * 3, Search(), lens=lens, **MARKS)
        found = search(both, both.encode(tokens, lengths), [LIMIT] * 3, Search(), lens=lens, **MARKS)
        assert [best[0].tokens for best in found] == [best[0].tokens for best in expected]


# What is carried ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if case.build().carries], ids=str)
def test_a_state_that_is_carried_makes_chunks_one_text(case: Case) -> None:
    network, (tokens, _) = case.build(), batch()
    network.carry(3)
    whole = network(tokens)
    never, always = torch.zeros(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    first = network(tokens[:, :4], continues=never)
    second = network(tokens[:, 4:], continues=torch.tensor([True, False, True]))
    close(torch.cat([first, second], dim=1)[[0, 2]], whole[[0, 2]])
    close(second[1], network(tokens[1:2, 4:])[0])
    network.train()  # has a place of its own for it
    close(network(tokens[:, :4], continues=never), first)
    close(network(tokens[:, 4:], continues=always), whole[:, 4:])
    assert not any("carried" in name for name in network.state_dict())
