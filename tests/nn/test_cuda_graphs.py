"""Recording a step: what may not be asked for, whose tensors are whose, and, where there is one, a GPU."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from saccade.models.luong import Config as LuongConfig
from saccade.models.luong import Luong
from saccade.models.rnnsearch import Config as RNNSearchConfig
from saccade.models.rnnsearch import RNNSearch
from saccade.models.transformer import Config as TransformerConfig
from saccade.models.transformer import Transformer
from saccade.nn import cuda_graphs as captured
from saccade.nn.cuda_graphs import (
    EagerDevice,
    Gpu,
    UnknownStep,
    Unrecordable,
    leaves,
    owned,
    recovering,
    shape_of,
    write_over,
)
from saccade.nn.search.beam_search import Search, search
from saccade.nn.search.fast_beam import Recorder

USES: dict[str, Any] = {
    "truth": lambda place: place or 0,
    "sum": lambda place: 1 + place,
    "product": lambda place: place * 2,
    "remainder": lambda place: place % 2,
    "comparison": lambda place: place < 3,
    "equality": lambda place: place == 0,
    "range": lambda place: range(place),
    "list": lambda place: [1, 2][place],
    "slice": lambda place: [1, 2][place:],
    "dictionary": lambda place: {}.get(place),
    "arange": lambda place: torch.arange(place, 5),
    "column": lambda place: torch.zeros(3, 5)[:, place],
    "tensor's sum": lambda place: torch.zeros(3) + place,
    "tensor's product": lambda place: torch.zeros(3) * place,
    "tensor's comparison": lambda place: torch.zeros(3) < place,
    "tensor": lambda place: torch.tensor([place]),
    "full": lambda place: torch.full((3,), place),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_recorded_place_cannot_be_used(use: Any) -> None:
    use(1)
    with pytest.raises((Unrecordable, TypeError, IndexError, RuntimeError)):
        use(UnknownStep())


class Pair(NamedTuple):
    one: Tensor
    other: Any


def test_owned_tensors_are_nobody_elses() -> None:
    shared = torch.zeros(1, 5).expand(3, 5)
    pair = owned(Pair(shared, (shared, None)))
    assert isinstance(pair, Pair) and pair.other[1] is None
    pair.one[0, 0] = 1.0
    assert pair.one.sum() == 1.0
    assert pair.other[0].sum() == shared.sum() == 0.0


def test_new_values_are_written_where_the_old_ones_lay() -> None:
    old = Pair(torch.zeros(3), (torch.zeros(2, 5), "same"))
    places = [leaf.data_ptr() for leaf in leaves(old) if isinstance(leaf, Tensor)]
    write_over(old, Pair(torch.ones(3), (torch.ones(2, 5), "same")))
    assert [leaf.data_ptr() for leaf in leaves(old) if isinstance(leaf, Tensor)] == places
    assert old.one.tolist() == [1, 1, 1] and float(old.other[0].sum()) == 10.0


@pytest.mark.parametrize(
    "new",
    [
        Pair(torch.zeros(4), 1),
        Pair(torch.zeros(3).double(), 1),
        Pair(torch.zeros(3), 2),
        Pair(torch.zeros(3), None),
        (torch.zeros(3), 1),
    ],
    ids=["longer", "double", "another number", "none", "a plain tuple"],
)
def test_values_of_another_form_are_not_written(new: Any) -> None:
    with pytest.raises(Unrecordable):
        write_over(Pair(torch.zeros(3), 1), new)


def test_what_may_change_unseen_is_not_recorded() -> None:
    assert shape_of((torch.zeros(2, 3), None)) == shape_of((torch.ones(2, 3), None))
    with pytest.raises(Unrecordable, match="list"):
        shape_of((torch.zeros(2), [1]))


def test_what_stands_in_for_a_gpu_calls_the_step() -> None:
    counted = torch.zeros(())
    machine = EagerDevice()
    machine.warm(lambda: counted.add_(1) and None)
    replay = machine.record(lambda: counted.add_(10) and None)
    assert float(counted) == 1
    replay()
    [array] = machine.fetch(counted)()
    assert float(array) == 11


def test_what_a_gpu_brings_over_comes_as_arrays_after_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Event:
        def record(self, stream: str) -> None:
            told.append(f"record on {stream}")

        def synchronize(self) -> None:
            told.append("wait")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the stream in use")
    machine = object.__new__(Gpu)  # without a stream of its own, which only a GPU has
    machine.device = torch.device("cuda", 0)
    fetched = machine.fetch(torch.arange(3), torch.ones(2, 5))
    assert told == ["record on the stream in use"]
    assert [array.tolist() for array in fetched()] == [[0, 1, 2], [[1.0] * 5] * 2]
    assert told[1:] == ["wait"]


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_recording_that_fails_is_kept_and_nothing_else_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "SPOILT", [])

    class Generator:
        recorded = True

        def clone_state(self) -> str:
            return "its copy"

        def graphsafe_set_state(self, state: str) -> None:
            assert state == "its copy"
            self.recorded = False

    generator: Any = Generator()
    monkeypatch.setattr(torch.cuda, "default_generators", (None, generator))
    graph: Any = object()
    device = torch.device("cuda", 1)
    with recovering(graph, device):
        assert not gc.isenabled()
    assert gc.isenabled() and generator.recorded and not captured.SPOILT
    with pytest.raises(ValueError, match="mid-recording"), recovering(graph, device):
        raise ValueError("in mid-recording")
    assert gc.isenabled() and not generator.recorded and len(captured.SPOILT) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.usefixtures("shapes_unchecked")
@torch.no_grad()
def test_on_a_gpu_recorded_steps_give_what_the_others_give() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    how = Search(beam=5, n_best=3, length_penalty=1.0)
    for network in (
        RNNSearch(RNNSearchConfig(hidden=24, embedding=16, maxout=12, init="torch"), 50, 300),
        Luong(LuongConfig(hidden=24, embedding=16, init="torch", bidirectional=True), 50, 300),
        Transformer(TransformerConfig(32, 4, 48, 2, tied="none"), 50, 300),
    ):
        torch.nn.init.normal_(network.output.weight, std=2.0)
        network.to(device).eval()
        recorder = Recorder(Gpu(device))
        for count in (37, 5, 37):
            source, lengths = torch.randint(2, 50, (count, 9)), torch.randint(1, 10, (count,))
            lengths[0] = 9
            memory, limits = network.encode(source.to(device), lengths.to(device)), [5 + n % 37 for n in range(count)]
            options: dict[str, Any] = {"bos": 0, "eos": 1, "forbidden": (0,)}
            recorded = search(network, memory, limits, how, **options, recorder=recorder)
            as_is = search(network, memory, limits, how, **options)
            assert [[each.tokens for each in many] for many in recorded] == [
                [each.tokens for each in many] for many in as_is
            ]
            for many, more in zip(recorded, as_is, strict=True):
                assert [each.score for each in many] == pytest.approx([each.score for each in more], abs=1e-4)
        assert recorder.refused == "" and recorder.recordings
        assert torch.cuda.get_sync_debug_mode() == 0


def test_what_is_in_its_place_already_is_not_written_over() -> None:
    kept, moved = torch.randn(3, 5), torch.randn(4)
    before, new = kept._version, torch.randn(4)
    write_over((kept, moved), (kept, new))
    assert kept._version == before
    assert torch.equal(moved, new)
