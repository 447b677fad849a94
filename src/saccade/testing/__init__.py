"""Contract tests for your own parts: a score, a normaliser, a window, a network, a task.

    from saccade.testing import check_score
    from mine.score import Clipped

    def test_my_score_keeps_its_promises():
        check_score(Clipped)

Each function takes the part, its class or its name (``package.module:Name``), returns the promises that were checked, and
raises :class:`ContractBroken`, an AssertionError that lists the broken ones with numbers.
"""

from saccade.testing.attention import check_normaliser, check_score, check_window
from saccade.testing.networks import check_classifier, check_model, check_ranker, check_tagger
from saccade.testing.promises import ContractBroken
from saccade.testing.tasks import check_task

__all__ = [
    "ContractBroken",
    "check_classifier",
    "check_model",
    "check_normaliser",
    "check_ranker",
    "check_score",
    "check_tagger",
    "check_task",
    "check_window",
]
