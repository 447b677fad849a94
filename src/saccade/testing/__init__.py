"""The promises that parts must keep, as functions for your own tests: a score, a normaliser, a window, a network, a task.

    from saccade.testing import check_score
    from mine.score import Clipped

    def test_my_score_keeps_its_promises():
        check_score(Clipped)

Each takes the part, its class or its name (``package.module:Name``), returns the promises that were kept, and raises
:class:`ContractBroken`, an AssertionError that lists those that were not, with numbers.
"""

from saccade.testing.classifiers import check_classifier
from saccade.testing.models import check_model
from saccade.testing.normalisers import check_normaliser
from saccade.testing.promises import ContractBroken
from saccade.testing.rankers import check_ranker
from saccade.testing.scores import check_score
from saccade.testing.taggers import check_tagger
from saccade.testing.tasks import check_task
from saccade.testing.windows import check_window

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
