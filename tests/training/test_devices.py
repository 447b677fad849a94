"""The thread count follows from sizes alone."""

import pytest
from torch import nn

from saccade.models.transformer import Config, Transformer
from saccade.nn.recurrent import Recurrent
from saccade.training import devices
from saccade.training.config import Train
from saccade.training.devices import WORK_A_THREAD, CoreWatch, choose_threads


def test_small_recurrent_steps_get_one_thread():
    assert choose_threads(Train(), nn.GRU(16, 32), records=32) == 1


def test_what_was_asked_for_is_taken():
    assert choose_threads(Train(threads=3), nn.GRU(16, 32), records=32) == 3


@pytest.fixture
def many_cores(monkeypatch) -> int:
    monkeypatch.setattr(devices, "cores", lambda: 11)
    return 11


NOT_RECURRENT = {
    "a layer": nn.Linear(16, 17),
    "a feed-forward layer four times as wide": nn.TransformerEncoderLayer(12, 3, 48),
    "our Transformer": Transformer(Config(layers=1, width=12, heads=3, hidden=36), 24, 48),
    "a table of three times as many words": nn.Embedding(36, 12),
}


@pytest.mark.parametrize("network", NOT_RECURRENT.values(), ids=NOT_RECURRENT)
def test_networks_without_a_recurrence_get_every_core(many_cores, network):
    assert choose_threads(Train(), network, records=1) == many_cores


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "paper"])
def test_every_recurrent_cell_is_known_by_what_it_is(many_cores, cell):
    network = nn.Sequential(nn.Linear(20, 80), Recurrent(cell, 7, 100))
    gates = {"rnn": 1, "gru": 3, "lstm": 4, "paper": 2}[cell]
    busy = 5 * WORK_A_THREAD / (gates * 100 * 100)
    assert [choose_threads(Train(), network, records) for records in (1, busy + 1, 9 * busy)] == [1, 5, many_cores]


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_a_single_cell_is_a_recurrence_too(many_cores, cell):
    assert choose_threads(Train(), cell(7, 9), records=3) == 1


class Clock:
    """Seconds that pass only when a test says so: of the wall, and of the thread while it has a core."""

    def __init__(self) -> None:
        self.wall = self.busy = 0.0

    def pass_by(self, wall: float, busy: float) -> None:
        self.wall, self.busy = self.wall + wall, self.busy + busy


def watched(monkeypatch, threads: int, busy: float, updates: int = 11) -> CoreWatch:
    """A watch of updates of one second, in which the training thread had a core for ``busy`` seconds."""
    clock, watch = Clock(), CoreWatch(threads)
    monkeypatch.setattr(devices.time, "perf_counter", lambda: clock.wall)
    monkeypatch.setattr(devices.time, "thread_time", lambda: clock.busy)
    for _ in range(updates):
        with watch.update():
            clock.pass_by(1.0, busy)
        clock.pass_by(100.0, 0.0)  # validation, checkpoints: not an update
    return watch


def test_a_busy_machine_is_reported_with_the_time_of_an_update_and_what_to_set(monkeypatch) -> None:
    watch = watched(monkeypatch, threads=2, busy=0.125)
    assert watch.done
    assert "8.0 times" in watch.note and "train.threads: 1" in watch.note and "1 s" in watch.note
    assert "train.threads" not in watched(monkeypatch, threads=1, busy=0.125).note


def test_a_free_machine_is_not_mentioned(monkeypatch) -> None:
    assert watched(monkeypatch, threads=2, busy=0.9).note == ""


def test_a_few_or_a_moment_of_updates_tell_nothing_yet(monkeypatch) -> None:
    assert not watched(monkeypatch, threads=2, busy=0.1, updates=3).done
    assert not CoreWatch(2).done
