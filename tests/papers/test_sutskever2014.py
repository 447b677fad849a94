"""Sutskever, Vinyals & Le 2014, "Sequence to Sequence Learning with Neural Networks": a deep LSTM and a reversed source."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from saccade.models.seq2seq import Config, Seq2Seq
from saccade.nn.recurrent import reverse_within
from saccade.nn.search.beam_search import Search, search
from saccade.trace import Lens
from tests.written_out import below, check_decoder, drawn, linear, lstm, run, unit_of

PAPER = {"hidden": 1000, "embedding": 1000, "layers": 4, "cell": "lstm", "context": "start", "reverse": True}
LENGTHS = torch.tensor([4, 7, 2])


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def small() -> Seq2Seq:
    return Seq2Seq(Config(**{**PAPER, "hidden": 6, "embedding": 5}, init="torch"), 20, 13).eval()


def sources() -> torch.Tensor:
    source = torch.randint(3, 20, (3, 7))
    for row, length in enumerate(LENGTHS.tolist()):
        source[row, length - 1], source[row, length:] = 2, 0
    return source


@torch.no_grad()
def test_the_equations_written_out() -> None:
    """Four layers of an LSTM, the source reversed but for its end mark, each layer's h and c handed to the same layer."""
    network, source, target = drawn(small()), sources(), torch.randint(3, 13, (3, 5))
    weights = network.state_dict()

    def expected(row: int) -> tuple[torch.Tensor, torch.Tensor]:
        words = source[row, : LENGTHS[row]].tolist()
        inputs = list(weights["source_embedding.weight"][[*words[-2::-1], words[-1]]])
        outputs = list(weights["target_embedding.weight"][target[row]])
        for layer in range(4):
            inputs, state = run(lstm, unit_of(below(weights, "encoder"), layer), inputs)
            outputs, _ = run(lstm, unit_of(below(weights, "decoder"), layer), outputs, state)
        return torch.stack([linear(below(weights, "output"), h) for h in outputs]), torch.empty(0)

    check_decoder(network, source, LENGTHS, target, expected)


def test_the_paper_has_384_million_parameters() -> None:
    """160k · 1000 + 80k · 1000 + 80k · 1000 + 2 · 4 · (4 · 2000 · 1000), without biases."""
    with torch.device("meta"):
        model = Seq2Seq(Config(**PAPER, bias=False), 160_000, 80_000)
    assert parameters(model) == 384_000_000
    assert parameters(model.encoder) == parameters(model.decoder) == 32_000_000


def test_pytorchs_lstms_add_two_biases_a_gate() -> None:
    with torch.device("meta"):
        counts = [parameters(Seq2Seq(Config(**PAPER, bias=bias), 1, 1).encoder) for bias in (True, False)]
    assert counts[0] - counts[1] == 4 * 8000


def test_the_sentence_is_8000_numbers() -> None:
    with torch.device("meta"):
        model = Seq2Seq(Config(**PAPER), 1, 1)
    state = model.encoder.zero_state(1, torch.zeros(()))
    assert sum(part.numel() for part in state) == 8000
    memory = small().encode(sources(), LENGTHS)
    assert [tuple(part.shape) for part in memory.start] == [(3, 4, 6), (3, 4, 6)]  # h and c of all four layers
    assert memory.context.numel() == 0  # and nothing else


def test_the_source_is_reversed_before_padding_with_its_end_mark_last() -> None:
    rows = torch.tensor([[7, 8, 9, 2, 0, 0], [5, 2, 0, 0, 0, 0]])
    reversed_rows = [[9, 8, 7, 2, 0, 0], [5, 2, 0, 0, 0, 0]]
    assert reverse_within(rows, torch.tensor([4, 2]) - 1).tolist() == reversed_rows
    model = small()
    plain = Seq2Seq(Config(**{**PAPER, "hidden": 6, "embedding": 5, "reverse": False}, init="torch"), 20, 13).eval()
    plain.load_state_dict(model.state_dict())
    target = torch.tensor([[1, 3, 4], [1, 5, 6]])
    expected = plain(torch.tensor(reversed_rows), torch.tensor([4, 2]), target)
    torch.testing.assert_close(model(rows, torch.tensor([4, 2]), target), expected)


def test_the_target_is_not_reversed() -> None:
    model, source = small(), sources()
    target = torch.tensor([[1, 3, 4, 5]] * 3)
    other = torch.tensor([[1, 3, 4, 9]] * 3)
    torch.testing.assert_close(model(source, LENGTHS, target)[:, :3], model(source, LENGTHS, other)[:, :3])


def test_a_sentence_in_a_padded_batch_costs_what_it_costs_alone() -> None:
    model, source = small(), sources()
    target = torch.randint(3, 13, (3, 5))
    together = model(source, LENGTHS, target)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(source[row : row + 1, :length], LENGTHS[row : row + 1], target[row : row + 1])
        ours, theirs = (
            functional.cross_entropy(logits, target[row], reduction="sum").item()
            for logits in (together[row], alone[0])
        )
        assert abs(ours - theirs) < 1e-5


@pytest.mark.parametrize("lens", [None, Lens()], ids=["alone", "under a lens"])
@torch.no_grad()
def test_a_beam_of_one_takes_the_likeliest_token_of_every_step(lens: Lens | None) -> None:
    model, source = drawn(small(), 2.0), sources()
    model.output.bias[:2] += 5.0  # padding and the start mark would be the likeliest
    memory = model.encode(source, LENGTHS)
    found = search(model, memory, [6] * 3, Search(), bos=1, eos=2, forbidden=(0, 1), lens=lens)
    for row, [hypothesis] in enumerate(found):
        token, total, written = torch.tensor([1]), 0.0, list[int]()
        alone = model.encode(source[row : row + 1, : LENGTHS[row]], LENGTHS[row : row + 1])
        state = model.start(alone)
        while len(written) < 6:
            logits, state = model.step(token, state, alone, offset=len(written))
            log_probs = torch.log_softmax(logits[0], -1)
            token = log_probs[2:].argmax(keepdim=True) + 2  # not padding, not the start mark
            total += float(log_probs[token])
            if token == 2:
                break
            written.append(int(token))
        assert list(hypothesis.tokens) == written
        assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)
    assert len({tuple(hypothesis.tokens) for [hypothesis] in found}) > 1


@pytest.mark.parametrize("lens", [None, Lens()], ids=["alone", "under a lens"])
@torch.no_grad()
def test_the_list_is_sorted_by_total_log_probability(lens: Lens | None) -> None:
    """The total is log p(y | x), its end included, and there is no length normalisation."""
    model, source = drawn(small(), 1.0), sources()
    model.output.bias[2] += 3.0  # some outputs end before the limit
    memory = model.encode(source, LENGTHS)
    marks = {"bos": 1, "eos": 2, "forbidden": (0, 1)}
    greedy = search(model, memory, [6] * 3, Search(), **marks)
    many = search(model, memory, [6] * 3, Search(beam=4, n_best=4), **marks, lens=lens)
    ends = 0
    for row, ([one], found) in enumerate(zip(greedy, many, strict=True)):
        totals = [hypothesis.log_prob for hypothesis in found]
        assert totals == sorted(totals, reverse=True) == [hypothesis.score for hypothesis in found]
        assert one.score == one.log_prob
        for hypothesis in found:
            ended = hypothesis.stopped == "eos"
            written, ends = [*hypothesis.tokens, *[2] * ended], ends + ended
            given = torch.tensor([[1, *written[:-1]]])
            log_probs = torch.log_softmax(model(source[row : row + 1], LENGTHS[row : row + 1], given)[0], -1)
            total = sum(float(log_probs[step, token]) for step, token in enumerate(written))
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)
    assert ends


def test_everything_starts_evenly_between_minus_and_plus_008() -> None:
    model = Seq2Seq(Config(**{**PAPER, "hidden": 30, "embedding": 20}, init="paper"), 50, 50)
    for name, parameter in model.named_parameters():
        assert float(parameter.detach().abs().max()) <= 0.08, name
        if parameter.dim() == 2:
            assert float(parameter.detach().std()) == pytest.approx(0.08 / 3**0.5, rel=0.1), name
