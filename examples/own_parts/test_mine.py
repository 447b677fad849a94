from mine.looking import Clipped, Temperature, wait2
from mine.network import Config, Glance
from mine.task import Aloud, AloudData

from saccade.testing import check_model, check_normaliser, check_score, check_task, check_window


def test_my_parts_keep_their_promises():
    check_score(Clipped)
    check_normaliser(Temperature)
    check_window(wait2)
    check_model(Glance, Config(width=6))
    check_task(Aloud, AloudData(count=80), Glance, Config(width=6))
