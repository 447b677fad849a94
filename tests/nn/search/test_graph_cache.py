"""What was recorded serves again while the network lies unchanged, within its share of memory, one search at a time."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch

from saccade.attention.normalise import sparsemax
from saccade.models.transformer import Config, Transformer
from saccade.nn.cuda_graphs import EagerDevice, leaves
from saccade.nn.search.beam_search import Search, search
from saccade.nn.search.fast_beam import Recorder
from saccade.nn.search.graph_cache import GraphCache, held_recorder

BOS, EOS, PLENTY = 1, -1, 1 << 40  # an end that is never written: no lane is left out

pytestmark = pytest.mark.usefixtures("shapes_unchecked")  # a recorded step's place is no number


def small(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(Config(8, 2, 12, 1, tied="none"), 11, 13).eval()


@torch.no_grad()
def searched(network: Transformer, recorder: Recorder | None, rows: int = 3) -> Any:
    source = torch.arange(rows * 5).view(rows, 5) % 8 + 3
    memory = network.encode(source, torch.full((rows,), 5))
    return search(network, memory, [6] * rows, Search(beam=3), bos=BOS, eos=EOS, recorder=recorder)


def lent(held: GraphCache, network: Transformer) -> Recorder:
    """A prediction: what it was lent."""
    with held.lent(network):
        recorder = held_recorder(network, EagerDevice())
        searched(network, recorder)
        return recorder


def test_a_second_prediction_replays_what_the_first_recorded_and_finds_the_same() -> None:
    network, held = small(), GraphCache(PLENTY)
    alone = searched(network, None)
    for _ in range(2):
        with held.lent(network):
            recorder = held_recorder(network, EagerDevice())
            assert [each[0].tokens for each in searched(network, recorder)] == [each[0].tokens for each in alone]
        assert held.recorder is recorder
        assert len(recorder.recordings) == 1


def test_without_being_lent_every_prediction_has_a_recorder_of_its_own() -> None:
    network, held = small(), GraphCache(PLENTY)
    assert held_recorder(network, EagerDevice()) is not held_recorder(network, EagerDevice())
    with held.lent(network):
        assert held_recorder(small(1), EagerDevice()) is not held_recorder(network, EagerDevice())
    assert held_recorder(network, EagerDevice()) is not held.recorder


def test_weights_that_were_written_or_moved_are_recorded_again() -> None:
    network, held = small(), GraphCache(PLENTY)
    first = lent(held, network)
    assert lent(held, network) is first
    with torch.no_grad():
        network.target_embedding.weight.mul_(2)
    second = lent(held, network)
    assert second is not first
    network.target_embedding.weight.data = network.target_embedding.weight.data.clone()
    assert lent(held, network) not in (first, second)


def test_other_rounding_of_products_is_recorded_again() -> None:
    network, held, before = small(), GraphCache(PLENTY), torch.get_float32_matmul_precision()
    first = lent(held, network)
    try:
        torch.set_float32_matmul_precision("high")
        assert lent(held, network) is not first
    finally:
        torch.set_float32_matmul_precision(before)


def size_of(recording: Any) -> int:
    return sum(part.nbytes for part in leaves(recording.beams) if isinstance(part, torch.Tensor))


def test_what_was_used_longest_ago_is_given_up_beyond_the_share_of_memory() -> None:
    network, held = small(), GraphCache(PLENTY)
    with held.lent(network):
        recorder = held_recorder(network, EagerDevice())
        for rows in (3, 5, 4, 3):  # three was recorded first and is used last
            searched(network, recorder, rows)
    five, four, three = recorder.recordings
    sizes = {key: size_of(each) for key, each in recorder.recordings.items()}
    assert sizes[five] > sizes[four] > sizes[three]
    assert held.size == sum(sizes.values())
    for most, kept in ((held.size, [five, four, three]), (held.size - 1, [four, three]), (sizes[three], [three])):
        held.most = most
        with held.lent(network):
            pass
        assert list(recorder.recordings) == kept
    held.most = 1
    with held.lent(network):
        pass
    assert held.recorder is None, "a recorder without recordings cannot record into the memory they had"


def test_all_share_one_part_of_the_memory() -> None:
    first, second = GraphCache(PLENTY), GraphCache(PLENTY)
    networks = small(1), small(2)
    lent(first, networks[0])
    second.most = first.size
    lent(second, networks[1])
    assert first.recorder is not None and second.recorder is None


def test_a_hook_or_a_field_that_changes_is_recorded_again() -> None:
    network, held = small(), GraphCache(PLENTY)
    recorders = [lent(held, network)]
    assert lent(held, network) is recorders[0]
    hook = network.decoder.register_forward_hook(lambda module, given, out: None)
    recorders.append(lent(held, network))
    hook.remove()
    recorders.append(lent(held, network))
    network.decoder.layers[0].feed_forward.activation = "gelu"
    recorders.append(lent(held, network))
    network.decoder.layers[0].attention.normalise = sparsemax
    recorders.append(lent(held, network))
    assert len(set(map(id, recorders))) == 5
    assert lent(held, network) is recorders[-1]


def test_inference_tensors_are_not_written_over_outside_inference_mode() -> None:
    network, held = small(), GraphCache(PLENTY)
    with torch.inference_mode():
        first = lent(held, network)
    assert lent(held, network) is not first


def test_under_autocast_nothing_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    network, held = small(), GraphCache(PLENTY)
    mine = lent(held, network)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "is_autocast_enabled", lambda device="cuda": device == "cuda")
        assert lent(held, network) is not mine
    assert lent(held, network) is mine


def test_a_search_beside_another_records_for_itself() -> None:
    network, held = small(), GraphCache(PLENTY)
    found: list[Recorder] = []
    with held.lent(network):
        mine = held_recorder(network, EagerDevice())
        searched(network, mine)
        beside = threading.Thread(target=lambda: found.append(lent(held, network)))
        beside.start()
        beside.join()
        assert lent(held, network) is not mine, "one inside another, too"
        assert held_recorder(network, EagerDevice()) is mine
    assert found[0] is not mine
    assert lent(held, network) is mine


def test_what_could_not_be_recorded_is_tried_again() -> None:
    network, held = small(), GraphCache(PLENTY)
    with held.lent(network):
        refused = held_recorder(network, EagerDevice())
        searched(network, refused)
        refused.refused = "no room"
    assert lent(held, network) is not refused


def test_a_copy_holds_nothing() -> None:
    network, held = small(), GraphCache(7)
    lent(held, network)
    again = copy.deepcopy(held)
    assert (again.most, again.recorder) == (7, None)


def test_fields_that_hold_tensors_are_told_apart_without_comparing_numbers() -> None:
    network, held = small(), GraphCache(PLENTY)
    network.decoder.scales = (torch.ones(2), torch.zeros(3))
    first = lent(held, network)
    assert lent(held, network) is first
    network.decoder.scales = (torch.ones(2), torch.zeros(3))
    assert lent(held, network) is not first
