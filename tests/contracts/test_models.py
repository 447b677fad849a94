"""What holds for EVERY sequence-to-sequence network, with every cell, score and window it has.

Legend: B batch, S source, T target, V vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.models import MODELS, luong, network_class, pointer, rnnsearch, seq2seq, transformer
from saccade.nn.captioner import Captioner
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.language import LanguageModel
from saccade.nn.listener import Listener
from saccade.nn.search.beam_search import Hypothesis, Search, search
from saccade.testing import check_model
from saccade.trace import Lens, Mask, Trace, assemble

PAD, BOS, EOS = 0, 1, 2
LENGTHS = [7, 3, 5]
SOURCE_SIZE, TARGET_SIZE, T, LIMIT = 20, 13, 5, 6


@dataclass(frozen=True)
class Case:
    """A network and what it reads and writes."""

    name: str
    build: Callable[[], EncoderDecoder]

    def __str__(self) -> str:
        return self.name

    @property
    def points(self) -> bool:
        return self.name.startswith("pointer")

    @property
    def marks(self) -> dict[str, Any]:
        if self.points:
            return {"bos": pointer.END, "eos": pointer.END}
        return {"bos": BOS, "eos": EOS, "forbidden": (PAD, BOS)}


def _texts(network: type, config: Any, **dropout: float) -> Callable[[], EncoderDecoder]:
    return lambda: network(replace(config, **dropout), SOURCE_SIZE, TARGET_SIZE)


def _cases() -> Iterator[Case]:
    for cell, context in itertools.product(("rnn", "gru", "lstm", "paper"), ("every_step", "start")):
        for reverse in (False, True) if cell in ("lstm", "paper") else (False,):
            config = seq2seq.Config(6, 4, layers=2, cell=cell, context=context, reverse=reverse, maxout=3, init="torch")
            yield Case(f"seq2seq {cell} {context}{' reversed' * reverse}", _texts(seq2seq.Seq2Seq, config))
    for cell in ("gru", "paper"):
        yield Case(
            f"rnnsearch {cell}",
            _texts(rnnsearch.RNNSearch, rnnsearch.Config(6, 4, 3, alignment=5, cell=cell, init="torch")),
        )
    yield Case(
        "rnnsearch entmax15", _texts(rnnsearch.RNNSearch, rnnsearch.Config(6, 4, 3, normalise="entmax15", init="torch"))
    )
    yield Case("luong sparsemax", _texts(luong.Luong, luong.Config(6, 4, 2, normalise="sparsemax", init="torch")))
    looks = itertools.product(("dot", "general", "concat", "location"), ("global", "local-m", "local-p"))
    for (score, window), fed in itertools.product(looks, (False, True)):
        config = luong.Config(6, 4, 2, score=score, window=window, radius=1, input_feeding=fed, places=5, init="torch")
        yield Case(f"luong {score} {window}{' fed' * fed}", _texts(luong.Luong, config))
    for cell, both, fed in (
        ("rnn", True, False), ("rnn", False, True), ("gru", True, True), ("gru", False, False),
        ("lstm", True, False), ("lstm", True, True), ("lstm", False, False), ("lstm", False, True),
    ):  # fmt: skip
        config = luong.Config(
            6, 4, 2, cell=cell, bidirectional=both, reverse=not both, input_feeding=fed, window="local-p", radius=2,
            init="torch",
        )  # fmt: skip
        yield Case(f"luong {cell} {'both ways' if both else 'reversed'}{' fed' * fed}", _texts(luong.Luong, config))
    for norm, positions, tied in (
        ("post", "sinusoidal", "target"), ("pre", "sinusoidal", "none"), ("pre", "rotary", "target"),
        ("post", "learned", "none"),
    ):  # fmt: skip
        config = transformer.Config(
            8, 2, 12, 2, norm=norm, positions=positions, places=9, dropout=0.0, decoder_layers=3, tied=tied
        )  # fmt: skip
        yield Case(f"transformer {norm} {positions} {tied}", _texts(transformer.Transformer, config))
    for cell, revisit in (("rnn", True), ("gru", False), ("lstm", True), ("lstm", False)):
        name = f"pointer {cell}{' again' * revisit}"
        yield Case(
            name, lambda cell=cell, revisit=revisit: pointer.Pointer(pointer.Config(6, cell=cell, revisit=revisit), 2)
        )


CASES = list(_cases())
every_network = pytest.mark.parametrize("case", CASES, ids=str)
LOOKING = [case for case in CASES if not case.name.startswith("seq2seq")]
every_looking_network = pytest.mark.parametrize("case", LOOKING, ids=str)


@cache
def built(case: Case) -> EncoderDecoder:
    torch.manual_seed(1)
    network = case.build().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            # Away from the even distributions of a fresh network; through many layers the factor is multiplied.
            parameter.mul_(1.5 if case.name.startswith("transformer") else 3)
    return network


@cache
def batch(points: bool) -> tuple[Tensor, Tensor, Tensor]:
    """source [B, S(, 2)], lengths [B], target [B, T] that begins with BOS."""
    generator = torch.Generator().manual_seed(2)
    lengths = torch.tensor(LENGTHS)
    if points:
        source = torch.rand(3, 7, 2, generator=generator)
        target = torch.tensor([[0, 3, 7, 1, 5], [0, 2, 3, 1, 0], [0, 5, 1, 2, 4]])
        return source, lengths, target
    source = torch.randint(3, SOURCE_SIZE, (3, 7), generator=generator)
    for row, length in enumerate(LENGTHS):
        source[row, length - 1], source[row, length:] = EOS, PAD
    target = torch.randint(3, TARGET_SIZE, (3, T), generator=generator)
    target[:, 0] = BOS
    return source, lengths, target


def alone(case: Case, item: int) -> tuple[Tensor, Tensor]:
    source, lengths, _ = batch(case.points)
    return source[item : item + 1, : LENGTHS[item]], lengths[item : item + 1]


def searched(
    case: Case, how: Search, lens: Lens | None = None, *, limit: int = LIMIT, **marks: Any
) -> list[list[Hypothesis]]:
    network = built(case)
    source, lengths, _ = batch(case.points)
    return search(network, network.encode(source, lengths), [limit] * 3, how, lens=lens, **{**case.marks, **marks})


def forced(case: Case, item: int, hypothesis: Hypothesis, lens: Lens | None = None) -> list[float]:
    """The log-probability of each token the hypothesis wrote when it is fed to the network, its item alone."""
    written = torch.tensor([*hypothesis.tokens, *[case.marks["eos"]] * (hypothesis.stopped == "eos")])
    target = torch.cat([torch.tensor([case.marks["bos"]]), written[:-1]]).unsqueeze(0)
    logits = built(case)(*alone(case, item), target, lens=lens)
    return torch.log_softmax(logits, -1)[0].gather(1, written.unsqueeze(1)).flatten().tolist()


def same_maps(ours: Trace, theirs: Trace, case: Case) -> None:
    """What was seen while writing: at every site, of every head."""
    written = [map for map in theirs.maps if map.query == "target"]
    assert [(map.site, map.head) for map in ours.maps] == [(map.site, map.head) for map in written]
    for map, other in zip(ours.maps, written, strict=True):
        weights, expected = map.weights, other.weights
        close = 5e-5 if torch.cuda.is_available() else 1e-5  # other kernels compute them
        torch.testing.assert_close(weights[:, : expected.shape[1]], expected, rtol=0, atol=close)
        assert not weights[:, expected.shape[1] :].any(), case  # nothing looks at padding


# Teaching ---------------------------------------------------------------------------------------------------------------


def test_every_model_is_here() -> None:
    networks = {name: network_class(name) for name in MODELS}
    names = {name for name, network in networks.items() if issubclass(network, EncoderDecoder)}
    assert {case.name.split()[0] for case in CASES} == {
        name for name in names if not issubclass(networks[name], LanguageModel | Captioner | Listener)
    }
    for name in names:
        network = networks[name]
        assert isinstance(network.sites, tuple)
        assert network.config_class() == network.config_class()


@pytest.mark.usefixtures("shapes_unchecked")
@every_network
def test_a_network_keeps_the_promises_of_networks(case: Case) -> None:
    """Padding, batches, later tokens, beams, the lens, gradients, saved states: see :mod:`saccade.testing.networks`."""
    network = case.build()
    check_model(type(network), network.config)  # type: ignore[arg-type]


@every_network
def test_step_by_step_equals_teaching(case: Case) -> None:
    network, (source, lengths, target) = built(case), batch(case.points)
    lens, step_lens = Lens(detail=["state", "context"]), Lens(detail=["state", "context"])
    logits = network(source, lengths, target, lens=lens)
    memory = network.encode(source, lengths, lens=step_lens)
    state = network.start(memory)
    for t in range(T):
        row, state = network.step(target[:, t], state, memory, offset=t, lens=step_lens)
        torch.testing.assert_close(row, logits[:, t], rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(lens.traces, step_lens.traces, strict=True):
        assert ours.signals.keys() == theirs.signals.keys() >= {"encoder.state", "decoder.state"}
        for name, signal in ours.signals.items():
            assert signal.axis == theirs.signals[name].axis
            torch.testing.assert_close(signal.values, theirs.signals[name].values, rtol=1e-4, atol=1e-5)
        sites = {site.name: (site.query, site.key) for site in network.sites}
        assert list(dict.fromkeys(map.site for map in ours.maps)) == list(sites)
        for map, expected in zip(ours.maps, theirs.maps, strict=True):
            assert (map.query, map.key) == sites[map.site]
            assert map.key == "source" or (map.query, map.key) == ("target", "prefix")
            torch.testing.assert_close(map.weights, expected.weights, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("case", [case for case in CASES if not case.points], ids=str)
def test_dropout_acts_in_training_alone(case: Case) -> None:
    network, (source, lengths, target) = case.build(), batch(case.points)
    dropping = type(network)(replace(network.config, dropout=0.4), SOURCE_SIZE, TARGET_SIZE)
    dropping.load_state_dict(network.state_dict())
    assert not torch.allclose(dropping(source, lengths, target), dropping(source, lengths, target))
    torch.testing.assert_close(
        dropping.eval()(source, lengths, target), network(source, lengths, target), rtol=0, atol=0
    )


@pytest.mark.usefixtures("shapes_unchecked")
@every_looking_network
def test_weights_are_a_distribution_over_real_positions(case: Case) -> None:
    network, (source, lengths, target), lens = built(case), batch(case.points), Lens()
    network(source, lengths, target, lens=lens)
    for (item, trace), number in itertools.product(enumerate(lens.traces), range(len(lens.traces[0].maps))):
        weights, looks_back = trace.maps[number].weights, trace.maps[number].key == "prefix"
        assert (weights >= 0).all()
        real = LENGTHS[item] + case.points  # a pointer also looks at its end mark
        assert not (weights.triu(1) if looks_back else weights[:, real:]).any()
        mass = weights.sum(-1)
        if "local" in case.name or "both ways" in case.name or "reversed" in case.name:
            assert (mass <= 1 + 1e-6).all()  # a window beyond the source, or a gain
        elif case.points and not network.config.revisit:
            torch.testing.assert_close(mass[:4], torch.ones(4))  # then the shortest item has no point left
        else:
            # Padding looks at nothing, so that it does not count in what real positions receive.
            reads = trace.maps[number].query == "source"
            torch.testing.assert_close(mass, (torch.arange(len(mass)) < (real if reads else T)).float())


# Searching --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shapes_unchecked")
@every_network
def test_a_beam_of_one_equals_a_naive_loop_of_argmax(case: Case) -> None:
    network = built(case)
    for item, [found] in enumerate(searched(case, Search())):
        memory = network.encode(*alone(case, item))
        state, token, written, total = network.start(memory), case.marks["bos"], [], 0.0
        for t in range(LIMIT):
            logits, state = network.step(torch.tensor([token]), state, memory, offset=t)
            log_probs = torch.log_softmax(logits[0], -1).tolist()
            allowed = [token for token in range(len(log_probs)) if token not in case.marks.get("forbidden", ())]
            token = max(allowed, key=log_probs.__getitem__)
            total += log_probs[token]
            if token == case.marks["eos"]:
                break
            written.append(token)
        assert list(found.tokens) == written, case
        assert found.stopped == ("eos" if token == case.marks["eos"] else "length")
        assert found.log_prob == pytest.approx(total, abs=1e-4)


@pytest.mark.usefixtures("shapes_unchecked")
@every_network
def test_each_hypothesis_scores_and_looks_as_in_forced_decoding(case: Case) -> None:
    """All of the n best: their log-probability, and every row they looked with."""
    for item, found in enumerate(searched(case, Search(beam=3, n_best=3), Lens())):
        assert found
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for hypothesis in found:
            lens = Lens()
            log_probs = forced(case, item, hypothesis, lens)
            assert hypothesis.log_prob == pytest.approx(sum(log_probs), abs=1e-4), case
            if built(case).sites:
                same_maps(assemble(hypothesis.records, 0), lens.trace, case)


@pytest.mark.usefixtures("shapes_unchecked")
@every_network
def test_a_wider_beam_keeps_the_tree_that_leads_to_its_best(case: Case) -> None:
    for [greedy], beam in zip(
        searched(case, Search()), searched(case, Search(beam=4), Lens(detail=["beam"])), strict=True
    ):
        best, tree = beam[0], beam[0].tree
        assert tree is not None
        path = tree.chosen.nonzero().flatten()
        assert tree.token[path].tolist() == [*best.tokens, *[case.marks["eos"]] * (best.stopped == "eos")]
        assert tree.parent[path].tolist() == [-1, *path[:-1].tolist()]
        assert float(tree.log_prob[path[-1]]) == pytest.approx(best.log_prob, abs=1e-5)
        if greedy.stopped == best.stopped == "eos" and greedy.tokens in _ended(tree, case.marks["eos"]):
            assert best.log_prob >= greedy.log_prob - 1e-5  # unless the beam pruned it


def _ended(tree: Any, eos: int) -> set[tuple[int, ...]]:
    outputs = set()
    for node in tree.ended.nonzero().flatten().tolist():
        tokens = []
        while node >= 0:
            tokens.append(int(tree.token[node]))
            node = int(tree.parent[node])
        outputs.add(tuple(reversed(tokens[1:])))
    return outputs


@pytest.mark.usefixtures("shapes_unchecked")
@every_network
def test_the_length_limit_is_reported(case: Case) -> None:
    marks = {**case.marks, "eos": -1}  # an end that can never be written
    network, (source, lengths, _) = built(case), batch(case.points)
    if case.points and not network.config.revisit:
        return  # each point once, then there is nothing left but the end
    found = search(network, network.encode(source, lengths), [2, 3, 1], Search(beam=2, n_best=2), **marks)
    for hypotheses, limit in zip(found, [2, 3, 1], strict=True):
        assert [h.stopped for h in hypotheses] == ["length"] * 2
        assert [len(h.tokens) for h in hypotheses] == [limit] * 2


@pytest.mark.usefixtures("shapes_unchecked")
@every_looking_network
def test_an_edit_applies_to_every_live_hypothesis_at_its_step(case: Case) -> None:
    """The search under an edit equals forced decoding under the same edit, for all of the n best."""
    site = next(site.name for site in built(case).sites if (site.query, site.key) == ("target", "source"))
    edit = Mask(keys=(1,), step=1, site=site)
    lens = Lens(edits=[edit])
    found = searched(case, Search(beam=3, n_best=3), lens, limit=3, eos=-1)  # no end: all of them reach step 1
    lens.check()
    for item, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            forced_lens = Lens(edits=[edit])
            log_probs = forced(case, item, hypothesis, forced_lens)
            assert hypothesis.log_prob == pytest.approx(sum(log_probs), abs=1e-4), case
            trace = assemble(hypothesis.records, 0)
            same_maps(trace, forced_lens.trace, case)
            for map in trace.maps:
                assert map.weights.shape[0] == 3
                assert map.site != site or map.weights[1, 1] == 0, case


@pytest.mark.usefixtures("shapes_unchecked")
@every_network
def test_scheduled_sampling_at_rate_one_is_the_greedy_output(case: Case) -> None:
    if case.points and not built(case).config.revisit:
        return  # fed with its own end mark it would go on, where a search stops
    network, (source, lengths, target) = built(case), batch(case.points)
    memory = network.encode(source, lengths)
    logits = network.sample(memory, target, 1.0)
    assert logits.shape == network.teach(memory, target).shape
    own = torch.cat([target[:, :1], logits.argmax(-1)[:, :-1]], dim=1)
    torch.testing.assert_close(network.teach(memory, own), logits, rtol=1e-4, atol=1e-5)
