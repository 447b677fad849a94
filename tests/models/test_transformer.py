"""The Transformer and its decoder alone; what every network keeps is in tests/contracts/test_models.py."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.attention.layers import MultiHead
from saccade.attention.normalise import sparsemax
from saccade.data.pairs.records import PairData
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.models.rnnsearch import Config as RNNSearchConfig
from saccade.models.rnnsearch import RNNSearch
from saccade.models.transformer import Config, LanguageConfig, Transformer, TransformerLM
from saccade.nn.cache import make_room
from saccade.nn.cuda_graphs import EagerDevice
from saccade.nn.ensemble import Ensemble
from saccade.nn.search.beam_search import Hypothesis, Search, search
from saccade.nn.search.constraints import Constraints
from saccade.nn.search.fast_beam import AHEAD, Recorder
from saccade.nn.search.selection import Sampling, follow
from saccade.task import OutputConstraints
from saccade.tasks.translate import Translate
from saccade.trace import Lens, assemble

PAD, BOS, EOS = 0, 1, 2
SOURCE = torch.tensor([[4, 5, 6, 7, 2], [7, 2, 0, 0, 0], [8, 4, 5, 2, 0]])
LENGTHS = torch.tensor([5, 2, 4])
TARGET = torch.tensor([[1, 3, 4, 9], [1, 5, 6, 4], [1, 8, 8, 3]])
SMALL = {"width": 8, "heads": 2, "hidden": 12, "layers": 2, "dropout": 0.0}


def network(seed: int = 0, **options: Any) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(Config(**{**SMALL, **options}), 9, 11).eval()
    torch.nn.init.normal_(model.target_embedding.weight, std=0.7)  # so that outputs differ
    return model


def searched(
    model: Any, how: Search, limit: int = 9, lens: Lens | None = None, **options: Any
) -> list[list[Hypothesis]]:
    marks: dict[str, Any] = {"bos": BOS, "eos": EOS, "forbidden": (PAD, BOS), **options}
    with torch.no_grad():
        return search(model, model.encode(SOURCE, LENGTHS), [limit] * 3, how, lens=lens, **marks)


def agrees_with_teaching(model: Any, found: list[list[Hypothesis]]) -> None:
    """Each hypothesis has the log-probability that it has when it is fed, without any cache."""
    for row, hypotheses in enumerate(found):
        assert hypotheses
        for each in hypotheses:
            written = torch.tensor([[*each.tokens, *[EOS] * (each.stopped == "eos")]])
            target = torch.cat([torch.tensor([[BOS]]), written[:, :-1]], dim=1)
            with torch.no_grad():
                logits = model(SOURCE[row : row + 1], LENGTHS[row : row + 1], target)
            log_probs = torch.log_softmax(logits, -1).gather(2, written.unsqueeze(-1))
            assert each.log_prob == pytest.approx(float(log_probs.sum()), abs=1e-4)


# What is shared and how large it is ------------------------------------------------------------------------------------


def test_what_is_tied_is_one_tensor() -> None:
    sizes = {}
    for tied in ("all", "target", "none"):
        model = Transformer(Config(**SMALL, tied=tied), 11, 11)  # type: ignore[arg-type]
        sizes[tied] = sum(parameter.numel() for parameter in model.parameters())
        assert len(model.state_dict()) == len({tensor.data_ptr() for tensor in model.state_dict().values()})
    assert sizes["target"] - sizes["all"] == sizes["none"] - sizes["target"] == 11 * 8


def test_the_output_is_the_embedding_and_is_not_scaled() -> None:
    model = network()
    states, _ = model._decode(TARGET, None, model.encode(SOURCE, LENGTHS), 0, None)
    torch.testing.assert_close(model(SOURCE, LENGTHS, TARGET), states @ model.target_embedding.weight.mT)


def test_embeddings_are_scaled_by_the_root_of_the_width_before_positions_are_added() -> None:
    model, heard = network(), []
    for stack in (model.encoder, model.decoder):
        stack.register_forward_pre_hook(lambda layer, given: heard.append(given[0]))
    model(SOURCE, LENGTHS, TARGET)
    place = torch.tensor([0.0, 1.0] * 4)  # PE(0): all sines 0, all cosines 1
    torch.testing.assert_close(heard[0][:, 0], model.source_embedding(SOURCE[:, 0]) * 8**0.5 + place)
    torch.testing.assert_close(heard[1][:, 0], model.target_embedding(TARGET[:, 0]) * 8**0.5 + place)


def test_rotary_looks_know_the_distance_alone() -> None:
    """Where all tokens are the same, how much more is looked at one place than at the next is the same for every query."""
    model, lens = network(positions="rotary"), Lens()
    model(torch.full((1, 5), 4), torch.tensor([5]), torch.full((1, 5), 4), lens=lens)
    for site in ("encoder.0.self", "decoder.0.self"):
        logs = lens.trace.map(site, head=0).weights.log()
        ratios = torch.stack([logs[place, place] - logs[place, place - 1] for place in range(1, 5)])
        torch.testing.assert_close(ratios, ratios[:1].expand(4), rtol=1e-4, atol=1e-5)
        assert abs(float(ratios[0])) > 1e-3


def test_one_vocabulary_is_needed_where_all_is_tied() -> None:
    with pytest.raises(SaccadeError, match=r"data.shared: true; or set tied: target\), found 9 source and 11 target"):
        network(tied="all")
    data = PairData(train="-")
    one, other = (Tokenizer.train(["ab", "cd"], data.tokens) for _ in range(2))
    assert Translate(data, one, one).network(Transformer, Config(**SMALL, tied="all"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"model.tied: expected one vocabulary .*, found two .*data.shared: true"):
        Translate(data, one, other).network(Transformer, Config(**SMALL, tied="all"))  # type: ignore[arg-type]


def test_learned_places_must_reach_as_far_as_the_texts() -> None:
    data = PairData(train="-", max_length=50)
    tokenizer = Tokenizer.train(["ab", "cd"], data.tokens)
    task, config = Translate(data, tokenizer, tokenizer), {**SMALL, "positions": "learned"}
    with pytest.raises(InputError, match=r"model.places: expected at least 51: .*, found 50"):
        task.network(Transformer, Config(**config, places=50))  # type: ignore[arg-type]
    made = task.network(Transformer, Config(**config, places=51)).eval()  # type: ignore[arg-type]
    # Its limit would be 3 · 49 + 10: the places end before, and it says so.
    [found] = task.predict(made, ["abcd" * 12], how=Search(beam=2))
    assert found.stopped == "eos" or "reached the length limit without an end" in found.notes


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"heads": 3}, "heads must divide width=8: got 3"),
        ({"heads": 8, "positions": "rotary"}, "width / heads must be even with rotary positions: got 8"),
        ({"attention_dropout": 1.0}, "attention_dropout must be at least 0 and below 1"),
        ({"norm": "both"}, "norm must be one of post, pre: got 'both'"),
        ({"positions": "none"}, "positions must be one of sinusoidal, learned, rotary"),
        ({"layers": 0}, "layers must be at least 1: got 0"),
        ({"decoder_layers": 0}, "decoder_layers must be at least 1: got 0"),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_settings_that_mean_nothing_are_refused(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Config(**{**SMALL, **options})


# Every search through the cache ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_search_finds_what_teaching_says(positions: str, norm: str) -> None:
    model = network(positions=positions, norm=norm, places=20)
    for how in (Search(), Search(beam=4, n_best=4, length_penalty=0.6), Search(sample=Sampling(seed=3), n_best=3)):
        agrees_with_teaching(model, searched(model, how))
    prefixed = searched(model, Search(beam=3, n_best=2), constraints=[Constraints(prefix=(5, 6))] * 3)
    assert all(each.tokens[:2] == (5, 6) for found in prefixed for each in found)
    agrees_with_teaching(model, prefixed)
    required = searched(model, Search(beam=6), constraints=[Constraints(require=((7, 8),))] * 3)
    assert any((7, 8) in zip(found[0].tokens, found[0].tokens[1:], strict=False) for found in required)
    agrees_with_teaching(model, required)


@pytest.mark.usefixtures("shapes_unchecked")
def test_an_ensemble_keeps_a_cache_for_each_member() -> None:
    together = Ensemble([network(1), network(2, norm="pre", layers=3)]).eval()
    agrees_with_teaching(together, searched(together, Search(beam=3, n_best=3)))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("members", [1, 2])
def test_recorded_steps_write_the_same_also_when_the_room_grows(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["saccade.nn.search.beam_search"], "policy_of", lambda device: AHEAD)
    each = [network(seed, positions=positions) for seed, positions in ((1, "sinusoidal"), (2, "rotary"))][:members]
    model: Any = each[0] if members == 1 else Ensemble(each).eval()
    recorder = Recorder(EagerDevice())
    options: dict[str, Any] = {"limit": 40, "eos": -1}  # an end that can never be written
    for how in (Search(beam=3, n_best=2), Search(), Search(beam=3, n_best=2)):
        recorded = searched(model, how, **options, recorder=recorder)
        for ours, theirs in zip(recorded, searched(model, how, **options), strict=True):
            assert [one.tokens for one in ours] == [other.tokens for other in theirs]
            assert [one.log_prob for one in ours] == pytest.approx([other.log_prob for other in theirs], abs=1e-4)
        assert {len(one.tokens) for found in recorded for one in found} == {40}  # more than the first room has
    assert recorder.refused == ""
    assert len(recorder.recordings) >= 2


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("first", [0, 1])
def test_an_ensemble_shares_its_memory_only_if_all_members_do(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["saccade.nn.search.beam_search"], "policy_of", lambda device: AHEAD)
    other = RNNSearch(RNNSearchConfig(hidden=5, embedding=4, maxout=3), 9, 11).eval()
    together = Ensemble([network(1), other][:: 1 - 2 * first]).eval()
    assert not together.shares_memory and Ensemble([network(1), network(2)]).shares_memory
    recorder = Recorder(EagerDevice())
    recorded = searched(together, Search(beam=3, n_best=3), recorder=recorder)
    assert recorder.refused == ""
    agrees_with_teaching(together, recorded)


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_look_of_another_kind_is_honoured_in_every_beam() -> None:
    class Doubled(MultiHead):
        def look(self, *given: Any, **more: Any) -> Tensor:
            return 2 * super().look(*given, **more)

    model, twice = network(), network()
    for layer in model.decoder.layers:
        layer.attention.normalise = layer.cross.normalise = sparsemax
    for layer in twice.decoder.layers:
        layer.attention.__class__ = layer.cross.__class__ = Doubled
    for each in (model, twice):
        assert not each.decoder.layers[0].cross.looks_once
        with pytest.raises(SaccadeError, match="look_once supports only scaled_dot with softmax"):
            each.decoder.layers[0].cross.look_once(torch.zeros(1, 2, 1, 4), *[torch.zeros(1, 2, 3, 4)] * 2, LENGTHS[:1])
        agrees_with_teaching(each, searched(each, Search(beam=3, n_best=3)))
        agrees_with_teaching(each, searched(each, Search(beam=3, n_best=3), recorder=Recorder(EagerDevice())))


def test_dropout_of_weights_goes_the_long_way() -> None:
    model = network(attention_dropout=0.5)
    attention = model.decoder.layers[0].attention
    assert attention.looks_once and not model.train().decoder.layers[0].attention.looks_once


def test_a_step_of_ones_own_is_given_a_memory_row_a_token() -> None:
    class Longer(Transformer):
        def step(self, token: Any, state: Any, memory: Any, **more: Any) -> Any:
            logits, state = super().step(token, state, memory, **more)
            return logits + memory.lengths.unsqueeze(1), state

    class Sharing(Longer):
        shares_memory = True

    assert Transformer.shares_memory and not Longer.shares_memory and Sharing.shares_memory
    model = network()
    model.__class__ = Longer
    agrees = [each[0].tokens for each in searched(model, Search(beam=3))]
    assert agrees == [each[0].tokens for each in searched(network(), Search(beam=3))]


@torch.no_grad()
def test_a_row_that_continues_from_another_copies_nothing() -> None:
    room = make_room(network().start(network().encode(SOURCE, LENGTHS)), 0)
    after = follow((room,), torch.tensor([2, 0, 0]))[0]
    assert [one is other for one, other in zip(after.keys + after.values, room.keys + room.values, strict=True)] == [
        True
    ] * 4
    room = room._replace(read=torch.tensor([2, 2, 2]))
    once = room.followed(torch.tensor([1, 0, 0]))
    assert once.line[:, :3].tolist() == [[1, 1, 0], [-1, -1, 0], [-2, -2, 0]]
    twice = once._replace(read=once.read + 1).followed(torch.tensor([2, 2, 1]))
    assert twice.line[:, :4].tolist() == [[0, 0, 2, 0], [-1, -1, 1, 0], [-2, -2, -1, 0]]


def test_a_step_computes_one_token_and_the_source_is_projected_once() -> None:
    """A step's queries, keys and values are those of one token; keys and values of the source come from the memory."""
    model, sizes = network(), list[tuple[int, ...]]()
    memory = model.encode(SOURCE, LENGTHS)
    for layer in model.decoder.layers:
        layer.attention.key.register_forward_hook(lambda m, given, out: sizes.append(tuple(given[0].shape)))
        layer.cross.key.register_forward_hook(lambda m, given, out: pytest.fail("the source was projected again"))
    state: Any = model.start(memory)
    for offset in range(4):
        _, state = model.step(TARGET[:, offset], state, memory, offset=offset)
    assert sizes == [(3, 1, 8)] * 2 * 4
    assert [part.shape for part in state.keys] == [(3, 2, 4, 4)] * 2


# What it looks at ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("keep", ["all", "top", "statistics"])
def test_a_search_shows_what_forced_decoding_shows_at_every_site_and_head(keep: Any) -> None:
    model = network()
    for row, hypotheses in enumerate(searched(model, Search(beam=3, n_best=2), lens=Lens(keep, k=3))):
        for each in hypotheses:
            lens, written = Lens(keep, k=3), [*each.tokens, *[EOS] * (each.stopped == "eos")]
            one = SOURCE[row : row + 1, : LENGTHS[row]], LENGTHS[row : row + 1]
            model(*one, torch.tensor([[BOS, *written[:-1]]]), lens=lens)
            expected = [map for map in lens.trace.maps if map.query == "target"]
            found = assemble(each.records, 0).maps
            assert [(map.site, map.head) for map in found] == [(map.site, map.head) for map in expected]
            assert len(found) == 2 * 2 * 2  # layers, back and across, heads
            for ours, theirs in zip(found, expected, strict=True):
                for name in ("weights", "residual") if keep == "top" else theirs.tensors.keys() - {"index"}:
                    one_, other = ours.tensors[name], theirs.tensors[name]
                    size = min(one_.shape[-1], other.shape[-1])
                    torch.testing.assert_close(one_[..., :size], other[..., :size], rtol=1e-4, atol=1e-5)


def test_a_trace_is_labelled_on_all_three_axes() -> None:
    data = PairData(train="-")
    tokenizer = Tokenizer.train(["abcd", "dcba"], data.tokens)
    task = Translate(data, tokenizer, tokenizer)
    model = Transformer(Config(**SMALL), tokenizer.size, tokenizer.size)  # type: ignore[arg-type]
    inputs = ["abc", "d"]
    for keep in ("all", "top", "statistics"):
        for text, found in zip(inputs, task.predict(model, inputs, how=Search(beam=2), lens=Lens(keep)), strict=True):
            trace = found.trace
            assert trace is not None
            labels = {name: list(axis.labels) for name, axis in trace.axes.items()}
            assert labels["source"] == [*text, "<eos>"]
            assert labels["prefix"] == ["<bos>", *labels["target"][:-1]]
            assert {map.site for map in trace.maps} == {site.name for site in model.sites}
            for map in trace.maps:
                assert (map.queries, map.keys) == (len(labels[map.query]), len(labels[map.key]))
    wished = task.predict(
        model, ["abc"], how=Search(beam=4), constraints=[OutputConstraints(prefix="ba")], lens=Lens()
    )[0]
    assert wished.trace is not None
    assert wished.trace.axes["prefix"].labels[:3] == ("<bos>", "b", "a")


# The decoder alone -----------------------------------------------------------------------------------------------------------


def language(**options: Any) -> TransformerLM:
    torch.manual_seed(0)
    return TransformerLM(LanguageConfig(**{**SMALL, **options}), 11).eval()


@pytest.mark.usefixtures("shapes_unchecked")
@torch.no_grad()
def test_recorded_beams_continue_prompts_of_unequal_length_as_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    model = language(positions="rotary")
    torch.nn.init.normal_(model.embedding.weight, std=0.5)
    memory = model.encode(torch.tensor([[1, 4, 5, 6], [1, 7, 0, 0], [1, 0, 0, 0]]), torch.tensor([4, 2, 1]))
    limits, recorder = [40, 33, 35], Recorder(EagerDevice())  # more than the first room has
    asked: dict[str, Any] = {"bos": BOS, "eos": -1}
    how = Search(beam=3, n_best=3)
    plain = search(model, memory, limits, how, **asked)
    monkeypatch.setattr(sys.modules["saccade.nn.search.beam_search"], "policy_of", lambda device: AHEAD)
    for _ in range(2):
        for ours, theirs in zip(search(model, memory, limits, how, **asked, recorder=recorder), plain, strict=True):
            assert [one.tokens for one in ours] == [other.tokens for other in theirs]
            assert [one.log_prob for one in ours] == pytest.approx([other.log_prob for other in theirs], abs=1e-4)
    assert recorder.refused == "" and len(recorder.recordings) >= 2


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_prompts_of_unequal_length_go_on_as_they_would_alone(positions: str) -> None:
    model = language(positions=positions, places=20)
    prompts, lengths = torch.tensor([[1, 4, 5, 6], [1, 7, 0, 0], [1, 0, 0, 0]]), torch.tensor([4, 2, 1])
    new = torch.tensor([[8, 3], [4, 9], [5, 5]])

    def known(tokens: Tensor) -> Tensor:
        return model(tokens)

    with torch.no_grad():
        _, state = model.read(prompts, lengths)
        for count in range(2):
            hidden, state = model.read(new[:, count : count + 1], None, state)
            for row, length in enumerate(lengths.tolist()):
                whole = known(torch.cat([prompts[row, :length], new[row, : count + 1]]).unsqueeze(0))
                torch.testing.assert_close(model.write(hidden)[row, 0], whole[0, -1], rtol=1e-4, atol=1e-5)


def test_how_far_it_can_read_is_reported() -> None:
    assert language(positions="learned", places=20).longest == 20
    assert language().longest is None
    assert language(tied=False).output is not None
    assert language().output is None
