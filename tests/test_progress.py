"""Long computations report how far they are, and are stopped by whoever watches."""

from __future__ import annotations

import threading

import pytest

import saccade
from saccade.progress import Progress, is_watched, portion, report, watched
from tests.animals import trained


def test_a_portion_reports_its_share_of_the_whole() -> None:
    seen: list[Progress] = []
    with watched(seen.append):
        with portion(0.25, 0.5), portion(0.5, 0.5):
            report(0.5, 7, 3)
            report()
        report(1.0)
    assert seen == [Progress(0.625, 7, 12), Progress(), Progress(1.0)]


def test_a_watcher_sees_its_own_thread_only() -> None:
    others: list[bool] = []
    with watched(lambda _: None):
        thread = threading.Thread(target=lambda: others.append(is_watched()))
        thread.start()
        thread.join()
        assert is_watched()
    assert others == [False] and not is_watched()


@pytest.mark.parametrize("lens", [None, saccade.Lens()])
def test_a_search_that_is_stopped_at_a_step_can_be_run_again(tmp_path, lens) -> None:
    bundle = saccade.load(trained(tmp_path, "my"), device="cpu")
    shares: list[float] = []

    def third(progress: Progress) -> None:
        if progress.share:
            shares.append(progress.share)
        if len(shares) == 3:
            raise InterruptedError

    with watched(third), pytest.raises(InterruptedError):
        bundle.predict(["der hund ist alt", "katze"], lens=lens)
    assert shares == sorted(shares) and 0 < shares[0] < shares[2] < 1
    assert bundle.predict("katze", lens=lens)[0].value == bundle.predict("katze")[0].value
