"""A plain beam without waiting for the device: the same outputs as the search that waits at every step."""

from __future__ import annotations

import gc
import math
import random
import sys
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from saccade.errors import SaccadeError
from saccade.models.luong import Config as LuongConfig
from saccade.models.luong import Luong
from saccade.models.rnnsearch import Config as RNNSearchConfig
from saccade.models.rnnsearch import RNNSearch
from saccade.models.seq2seq import Config as Seq2SeqConfig
from saccade.models.seq2seq import Seq2Seq
from saccade.models.transformer import Config as TransformerConfig
from saccade.models.transformer import Transformer
from saccade.nn.cuda_graphs import EagerDevice
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import Hypothesis, Search, search
from saccade.nn.search.fast_beam import (
    AHEAD,
    BeamBookkeeping,
    Beams,
    Goal,
    Recorder,
    Stepping,
    Steps,
    SyncPolicy,
    exact_room,
    halved_room,
)
from saccade.nn.search.selection import going_on, largest
from saccade.tasks.decoding import read_and_search

module = sys.modules["saccade.nn.search.beam_search"]
BOS, EOS = 0, 1
STATES = 997
pytestmark = pytest.mark.usefixtures("shapes_unchecked")


class Rolling(EncoderDecoder):
    """What comes next depends on all that was written, by way of one rolling number; each row by itself."""

    def __init__(self, size: int = 6, *, seed: int = 0, ends: float = 0.0, ties: bool = False) -> None:
        super().__init__()
        logits = torch.randn(STATES, size, generator=torch.Generator().manual_seed(seed)) * 2
        logits[:, EOS] += ends
        self.logits = (logits * (logits.abs() > 3)).round() if ties else logits
        self.offsets: list[Any] = []

    def encode(self, source: Tensor, lengths: Tensor, *, lens: Any = None) -> Any:
        return (source[:, 0],)

    def start(self, memory: Any) -> Any:
        return (memory[0],)

    def step(self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Any = None) -> tuple[Tensor, Any]:
        self.offsets.append(offset)
        moved = (state[0] * 31 + token * 17 + memory[0] + 5) % STATES
        return self.logits[moved], (moved,)


def run(network: EncoderDecoder, how: Search, limits: list[int], **options: Any) -> list[list[Hypothesis]]:
    memory = network.encode(torch.arange(len(limits)).unsqueeze(1) * 7, torch.ones(len(limits), dtype=torch.int64))
    return search(network, memory, limits, how, bos=BOS, eos=EOS, **{"forbidden": (BOS,), **options})


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The search that reads back every step."""

    def searched(*given: Any, **options: Any) -> list[list[Hypothesis]]:
        with monkeypatch.context() as patch:
            patch.setattr(module, "is_plain", lambda *_: False)
            return run(*given, **options)

    return searched


def ways(count: int) -> list[tuple[int, Search, list[int]]]:
    """Seeds, searches and limits of many kinds."""
    drawn = random.Random(5)
    cases = []
    for seed in range(count):
        beam = drawn.choice([1, 3, 5])
        how = Search(
            beam=beam,
            n_best=drawn.randint(1, beam),
            length_penalty=drawn.choice([0.0, 0.6, 1.0, 2.0]),
            stop=drawn.choice(["exact", "beam"]),
        )
        cases.append((seed, how, [drawn.randint(1, 11) for _ in range(drawn.choice([1, 3, 7, 13]))]))
    return cases


@pytest.mark.parametrize("ties", [False, True])
def test_the_outputs_and_their_scores_are_those_of_the_search_that_waits(waiting: Any, ties: bool) -> None:
    stops = set()
    for seed, how, limits in ways(20):
        network = Rolling(random.Random(seed).choice([3, 6, 50]), seed=seed, ends=seed % 3 - 1.5, ties=ties)
        found = run(network, how, limits)
        assert found == waiting(network, how, limits)
        stops |= {each.stopped for many in found for each in many}
    assert stops == {"eos", "length"}


@pytest.mark.parametrize(
    "pace",
    [
        SyncPolicy(3, 0, exact_room),
        SyncPolicy(1, 2, exact_room),
        SyncPolicy(4, 1, halved_room),
        SyncPolicy(40, 1, halved_room),
    ],
    ids=["three together", "two ahead", "as on a GPU", "all together"],
)
def test_steps_taken_before_anybody_asked_change_nothing(pace: SyncPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, how, limits in ways(10):
        network = Rolling(seed=seed, ends=seed % 3 - 1.5)
        before = run(network, how, limits)
        with monkeypatch.context() as patch:
            patch.setattr(module, "policy_of", lambda device: pace)
            network.offsets.clear()
            assert run(network, how, limits) == before
        assert network.offsets == list(range(len(network.offsets)))
        assert len(network.offsets) <= max(limits)


def test_items_that_are_done_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    step = Rolling.step

    def counted(self: Rolling, token: Tensor, *given: Any, **options: Any) -> Any:
        sizes.append(len(token))
        return step(self, token, *given, **options)

    monkeypatch.setattr(Rolling, "step", counted)
    limits = [2] * 30 + [3] * 9 + [15]
    run(Rolling(ends=-math.inf), Search(beam=3), limits)
    assert sizes == [120] * 2 + [30] + [3] * 12
    monkeypatch.setattr(module, "policy_of", lambda device: SyncPolicy(1, 1, halved_room))
    sizes.clear()
    run(Rolling(ends=-math.inf), Search(beam=3), limits)
    assert sizes == [64 * 3] * 3 + [16 * 3] * 12  # one step ahead of the books, and in few sizes


def test_empty_room_beside_the_last_item_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    network, how, limits = Rolling(seed=1, ends=-math.inf), Search(beam=3, n_best=3), [2] * 27 + [17] * 5
    before = run(network, how, limits)
    monkeypatch.setattr(module, "policy_of", lambda device: AHEAD)
    assert run(network, how, limits) == before


def test_room_is_never_too_small_and_comes_in_few_sizes() -> None:
    assert [halved_room(n, n) for n in (1, 3, 17, 250, 256)] == [1, 4, 32, 256, 256]
    rooms = {halved_room(live, 256) for live in range(1, 257)}
    assert rooms == {16, 32, 64, 128, 256}
    assert all(halved_room(live, 256) >= live for live in range(1, 257))


def test_outputs_that_are_not_numbers_are_an_error() -> None:
    network = Rolling()
    network.logits = network.logits * math.nan
    with pytest.raises(SaccadeError, match="NaN or infinite"):
        run(network, Search(beam=3), [4, 5])


def test_no_items_have_no_outputs() -> None:
    assert run(Rolling(), Search(beam=3), []) == []


class _Reads(TorchDispatchMode):
    """Counts what a host would wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations.append(str(function))
        return function(*args, **(kwargs or {}))


def networks(size: int = 13) -> list[EncoderDecoder]:
    return [
        RNNSearch(RNNSearchConfig(hidden=8, embedding=6, maxout=5, init="torch"), 11, size).eval(),
        Luong(LuongConfig(hidden=8, embedding=6, init="torch", bidirectional=True), 11, size).eval(),
        Luong(LuongConfig(hidden=8, embedding=6, init="torch", layers=2, window="local-p", radius=2), 11, size).eval(),
        Seq2Seq(Seq2SeqConfig(hidden=8, embedding=6, init="torch"), 11, size).eval(),
        Transformer(TransformerConfig(8, 2, 12, 2, tied="none"), 11, size).eval(),
    ]


def sources(count: int = 7) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(1, 8, (count,))
    lengths[0] = 7
    return torch.randint(2, 11, (count, 7)), lengths


@torch.no_grad()
def test_a_step_reads_nothing_back() -> None:
    for network in networks():
        memory = network.encode(*sources(6))
        stepping = Stepping(network, EOS, (BOS,), torch.device("cpu"))
        beams = Beams(torch.zeros(6, dtype=torch.int64), torch.zeros(2, 3), network.start(memory), memory)
        with _Reads() as reads:
            stepping.take(beams, 0)
        told = ("_local_scalar_dense", "nonzero", "_to_cpu", "lift_fresh", "index_put", "masked_select")
        assert not [each for each in reads.operations if any(word in each for word in told)]


class _Counting(EagerDevice):
    """A machine that says what was asked of it."""

    def __init__(self) -> None:
        self.warmed = self.recorded = self.replayed = 0

    def warm(self, step: Any) -> None:
        self.warmed += 1
        step()

    def record(self, step: Any) -> Any:
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            step()

        return replay


def same(one: list[list[Hypothesis]], other: list[list[Hypothesis]]) -> None:
    """Equal up to the last bits, which go with the size of a batch."""
    for many, more in zip(one, other, strict=True):
        assert [(each.tokens, each.stopped) for each in many] == [(each.tokens, each.stopped) for each in more]
        for field in ("log_prob", "score"):
            ours, theirs = ([getattr(each, field) for each in group] for group in (many, more))
            assert ours == pytest.approx(theirs, abs=1e-5)


@torch.no_grad()
def test_recorded_steps_give_the_same_and_each_size_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    how = Search(beam=5, n_best=2, length_penalty=1.0)
    for network in networks():
        torch.nn.init.normal_(network.output.weight, std=2.0)
        source, lengths = sources(19)
        memory, limits = network.encode(source, lengths), [4 + 3 * (number % 7) for number in range(19)]
        plain = search(network, memory, limits, how, bos=BOS, eos=EOS, forbidden=(BOS,))
        machine = _Counting()
        recorder = Recorder(machine)
        with monkeypatch.context() as patch:
            patch.setattr(module, "policy_of", lambda device: AHEAD)
            for _ in range(3):
                same(search(network, memory, limits, how, bos=BOS, eos=EOS, forbidden=(BOS,), recorder=recorder), plain)
        assert recorder.refused == ""  # also: nothing here asks for its place in the output
        assert machine.warmed == machine.recorded == len(recorder.recordings) <= 2
        assert machine.replayed > 20


def test_what_was_recorded_is_freed_with_its_recorder_and_not_when_garbage_is_collected() -> None:
    network, recorder = Rolling(seed=3), Recorder(EagerDevice())
    run(network, Search(beam=3), [9, 5, 7], recorder=recorder)
    recording = next(iter(recorder.recordings.values()))
    kept = [weakref.ref(recorder), weakref.ref(recording.beams.totals), weakref.ref(recording.found.best)]
    gc.disable()
    try:
        del recorder, recording
        assert [each() for each in kept] == [None, None, None]
    finally:
        gc.enable()


def test_recorded_steps_do_not_mix_what_is_forbidden_or_ends() -> None:
    network, recorder = Rolling(seed=3), Recorder(EagerDevice())
    how, limits = Search(beam=3, n_best=3), [9, 5, 7]
    for options in ({"forbidden": (BOS,)}, {"forbidden": (BOS, 4)}, {"forbidden": ()}):
        assert run(network, how, limits, **options, recorder=recorder) == run(network, how, limits, **options)


class Restarting(Rolling):
    """Its state begins as a tensor of its memory, which every step reads."""

    def encode(self, source: Tensor, lengths: Tensor, *, lens: Any = None) -> Any:
        return source[:, 0], source[:, 0] + 3

    def start(self, memory: Any) -> Any:
        return (memory[1],)

    def step(self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Any = None) -> tuple[Tensor, Any]:
        return super().step(token, state, (memory[1],), offset=offset, lens=lens)


def test_a_recorded_state_does_not_write_over_the_memory_it_came_from() -> None:
    network, how, limits = Restarting(seed=2), Search(beam=3, n_best=3), [9, 5, 7]
    assert run(network, how, limits, recorder=Recorder(EagerDevice())) == run(network, how, limits)


class Placed(Rolling):
    """It writes otherwise at odd places."""

    def step(self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Any = None) -> tuple[Tensor, Any]:
        logits, moved = super().step(token, state, memory, offset=offset)
        return logits * (1 if offset % 2 else -1), moved


class Growing(Rolling):
    """It keeps all it wrote."""

    def start(self, memory: Any) -> Any:
        return memory[0], memory[0].unsqueeze(1)

    def step(self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Any = None) -> tuple[Tensor, Any]:
        logits, moved = super().step(token + state[1].sum(1) % 5, state, memory, offset=offset)
        return logits, (*moved, torch.cat([state[1], token.unsqueeze(1)], dim=1))


class Listing(Rolling):
    """Its state holds something that is no tensor."""

    def start(self, memory: Any) -> Any:
        return memory[0], [1, 2]

    def step(self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Any = None) -> tuple[Tensor, Any]:
        logits, moved = super().step(token, state, memory, offset=offset)
        return logits, (*moved, state[1])


@pytest.mark.parametrize("kind", [Placed, Growing, Listing])
def test_what_cannot_be_recorded_is_stepped_as_it_is_without_a_word(
    kind: type[Rolling], waiting: Any, recwarn: pytest.WarningsRecorder
) -> None:
    network, how, limits = kind(seed=4), Search(beam=3, n_best=3), [9, 5, 7, 3]
    recorder = Recorder(EagerDevice())
    assert run(network, how, limits, recorder=recorder) == waiting(network, how, limits)
    assert recorder.refused
    assert not recorder.recordings and not recwarn.list


def test_a_window_that_moves_with_the_output_is_not_recorded() -> None:
    network = Luong(LuongConfig(hidden=8, embedding=6, init="torch", window="local-m", radius=2), 11, 13).eval()
    source, lengths = sources(5)
    recorder = Recorder(EagerDevice())
    with torch.no_grad():
        memory = network.encode(source, lengths)
    found = [
        search(network, memory, [6] * 5, Search(beam=3), bos=BOS, eos=EOS, recorder=each) for each in (recorder, None)
    ]
    assert found[0] == found[1]
    assert "position" in recorder.refused


class _Failing(EagerDevice):
    def __init__(self, when: str) -> None:
        self.when = when

    def warm(self, step: Any) -> None:
        if self.when == "warm":
            raise RuntimeError("called a synchronizing CUDA operation")
        step()

    def record(self, step: Any) -> Any:
        raise RuntimeError("no\nroom")


@pytest.mark.parametrize(("when", "why"), [("warm", "synchronizing"), ("record", "no room")])
def test_where_recording_fails_one_line_says_so_and_the_outputs_are_the_same(when: str, why: str) -> None:
    network, how, limits = Rolling(seed=6), Search(beam=3, n_best=3), [9, 5, 7, 3]
    recorder = Recorder(_Failing(when))
    with pytest.warns(UserWarning, match=f"Rolling: steps cannot be captured.*{why}") as told:
        found = run(network, how, limits, recorder=recorder)
    assert len(told) == 1 and "\n" not in str(told[0].message)
    assert found == run(network, how, limits) == run(network, how, limits, recorder=recorder)


def test_an_error_of_the_network_is_not_hidden_by_recording() -> None:
    class Broken(Rolling):
        def step(self, *given: Any, **options: Any) -> Any:
            raise ZeroDivisionError("my own fault")

    with pytest.raises(ZeroDivisionError, match="my own fault"):
        run(Broken(), Search(beam=3), [4], recorder=Recorder(EagerDevice()))


@torch.no_grad()
def test_sources_padded_for_recording_give_the_same_outputs() -> None:
    how = Search(beam=3, n_best=2)
    for network in networks():
        source, lengths = sources(5)
        options: dict[str, Any] = {"limits": [9] * 5, "how": how, "bos": BOS, "eos": EOS, "forbidden": (BOS,)}
        padded = read_and_search(network, source, lengths, recorder=Recorder(EagerDevice()), **options)
        as_is = read_and_search(network, source, lengths, **options)
        same([found for found, _ in padded], [found for found, _ in as_is])


def test_of_two_candidates_the_better_one_that_does_not_end_goes_on() -> None:
    eos, V = 2, 7
    best, index = (
        torch.tensor([[-0.5, -1.5], [-0.25, -4.0], [-1.0, -math.inf]]),
        torch.tensor([[3, eos], [eos, 5], [eos, 4]]),
    )
    totals, places, tokens = going_on(best, index, 1, V, eos)
    assert (totals.tolist(), places.tolist()) == ([[-0.5], [-4.0], [-math.inf]], [[0], [0], [0]])
    assert tokens.tolist() == [[3], [5], [4]]


@pytest.mark.parametrize(("lanes", "numbers", "count"), [(3, 5, 4), (2, 64, 10), (3, 700, 10), (1, 1301, 6)])
def test_the_largest_by_pieces_are_the_largest(lanes: int, numbers: int, count: int) -> None:
    sums = torch.randn(lanes, numbers)
    best, index = largest(sums, count)
    expected = sums.topk(count, dim=-1)
    assert torch.equal(best, expected.values) and torch.equal(index, expected.indices)
    few = torch.full_like(sums, -math.inf)
    few[:, numbers // 2] = 1.0
    best, index = largest(few, count)
    assert best[:, 0].tolist() == [1.0] * lanes and index[:, 0].tolist() == [numbers // 2] * lanes
    assert int(index.max()) < numbers


def test_empty_room_is_never_an_output() -> None:
    tally = BeamBookkeeping([2, 3], Goal(width=1, wanted=1, enough=1, penalty=lambda length: 1.0, eos=EOS))
    best = np.array([[[-1.0, -2.0]] * 4], dtype=np.float32)
    tally.add(Steps(np.array([0, 1, -1, -1]), best, np.array([[[3, 1], [1, 3], [1, 3], [1, 3]]]), 5))
    assert tally.live.tolist() == [True, False, False]
    tally.add(Steps(np.array([0, -1]), best[:, :2], np.array([[[2, 1], [1, 3]]]), 5))
    [(first, tokens)], [(second, ended)] = tally.outputs()
    assert (first.stopped, tokens, first.log_prob) == ("length", (3, 2), -1.0)
    assert (second.stopped, ended, second.step) == ("eos", (EOS,), 0)
