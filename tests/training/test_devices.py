"""The thread count follows from sizes alone."""

from torch import nn

from saccade.training.config import Train
from saccade.training.devices import choose_threads


def test_small_recurrent_steps_get_one_thread():
    assert choose_threads(Train(), nn.GRU(16, 32), records=32) == 1


def test_what_was_asked_for_is_taken():
    assert choose_threads(Train(threads=3), nn.GRU(16, 32), records=32) == 3


def test_networks_without_a_recurrence_get_every_core():
    import os

    assert choose_threads(Train(), nn.Linear(16, 17), records=1) == len(os.sched_getaffinity(0))
