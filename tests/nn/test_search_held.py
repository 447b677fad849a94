"""What was recorded serves again while the network lies unchanged, within its share of memory, one search at a time."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import nn

from saccade.models.transformer import Config, Transformer
from saccade.nn.captured import Plainly, leaves
from saccade.nn.search import Search, search
from saccade.nn.searching.held import Held, held_recorder
from saccade.nn.searching.plain import Recorder

BOS, EOS, PLENTY = 1, -1, 1 << 40  # an end that is never written: no lane is left out

pytestmark = pytest.mark.usefixtures("shapes_unchecked")  # a recorded step's place is no number


def small(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(Config(8, 2, 12, 1, tied="none"), 11, 13).eval()


def lent(held: Held, network: nn.Module) -> Recorder:
    with held.lent(network):
        return held_recorder(network, Plainly())


@torch.no_grad()
def searched(network: Transformer, recorder: Recorder | None, rows: int = 3) -> Any:
    source = torch.arange(rows * 5).view(rows, 5) % 8 + 3
    memory = network.encode(source, torch.full((rows,), 5))
    return search(network, memory, [6] * rows, Search(beam=3), bos=BOS, eos=EOS, recorder=recorder)


def test_a_second_prediction_replays_what_the_first_recorded_and_finds_the_same() -> None:
    network, held = small(), Held(PLENTY)
    alone = searched(network, None)
    for _ in range(2):
        with held.lent(network):
            recorder = held_recorder(network, Plainly())
            assert [each[0].tokens for each in searched(network, recorder)] == [each[0].tokens for each in alone]
        assert held.recorder is recorder
        assert len(recorder.recordings) == 1


def test_without_being_lent_every_prediction_has_a_recorder_of_its_own() -> None:
    network, held = small(), Held(PLENTY)
    assert held_recorder(network, Plainly()) is not held_recorder(network, Plainly())
    with held.lent(network):
        assert held_recorder(small(1), Plainly()) is not held_recorder(network, Plainly())
    assert held_recorder(network, Plainly()) is not held.recorder


def test_weights_that_were_written_or_moved_are_recorded_anew() -> None:
    network, held = small(), Held(PLENTY)
    first = lent(held, network)
    assert lent(held, network) is first
    with torch.no_grad():
        network.target_embedding.weight.mul_(2)
    second = lent(held, network)
    assert second is not first
    network.target_embedding.weight.data = network.target_embedding.weight.data.clone()
    assert lent(held, network) not in (first, second)


def test_other_rounding_of_products_is_recorded_anew() -> None:
    network, held, before = small(), Held(PLENTY), torch.get_float32_matmul_precision()
    first = lent(held, network)
    try:
        torch.set_float32_matmul_precision("high")
        assert lent(held, network) is not first
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_oldest_are_given_up_beyond_the_share_of_memory() -> None:
    network, held = small(), Held(PLENTY)
    with held.lent(network):
        recorder = held_recorder(network, Plainly())
        for rows in (5, 3):
            searched(network, recorder, rows)
    first, second = recorder.recordings
    sizes = [
        sum(part.nbytes for part in leaves(each.beams) if isinstance(part, torch.Tensor))
        for each in recorder.recordings.values()
    ]
    assert sizes[0] > sizes[1]
    for most, kept in ((sum(sizes), [first, second]), (sum(sizes) - 1, [second]), (sizes[1], [second]), (1, [])):
        held.most = most
        assert lent(held, network) is recorder
        assert list(recorder.recordings) == kept


def test_a_search_beside_another_records_for_itself() -> None:
    network, held = small(), Held(PLENTY)
    found: list[Recorder] = []
    with held.lent(network):
        mine = held_recorder(network, Plainly())
        beside = threading.Thread(target=lambda: found.append(lent(held, network)))
        beside.start()
        beside.join()
        assert lent(held, network) is not mine, "one inside another, too"
        assert held_recorder(network, Plainly()) is mine
    assert found[0] is not mine
    assert lent(held, network) is mine


def test_what_could_not_be_recorded_is_tried_again() -> None:
    network, held = small(), Held(PLENTY)
    with held.lent(network):
        refused = held_recorder(network, Plainly())
        refused.refused = "no room"
    assert lent(held, network) is not refused


def test_a_copy_holds_nothing() -> None:
    network, held = small(), Held(7)
    lent(held, network)
    again = copy.deepcopy(held)
    assert (again.most, again.recorder) == (7, None)
