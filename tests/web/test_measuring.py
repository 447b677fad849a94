"""How faithful the weights are, measured from the live page: progress, cancel, and the curves of ``erasure.curve``."""

from __future__ import annotations

import re
import time

import pytest

from saccade.explain import erasure
from tests.web.explorer import number
from tests.web.made_model import INPUT, serving


@pytest.fixture(scope="module")
def address(bundle):
    with serving(bundle) as address:
        yield address


@pytest.fixture
def slowly(monkeypatch) -> list[int]:
    """Each step of a measurement takes a moment; the steps taken."""
    whole, taken = erasure.measurement, []

    def slow(*given, **options):
        steps = whole(*given, **options)
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return end.value
            taken.append(step[0])
            time.sleep(0.25)
            yield step

    monkeypatch.setattr(erasure, "measurement", slow)
    return taken


def test_truth_is_measured_from_the_page_and_shows_what_python_measures(visit, address, bundle):
    page = visit(f"{address}#view=truth")
    page.button("measure it now").click()
    page.stage.locator(".verdict").wait_for()
    expected = erasure.curve(bundle, INPUT)
    assert page.stage.locator(".verdict").inner_text() == expected["sentence"]
    rows = page.settled().table()
    assert rows[0][1:] == [curve["name"] for curve in expected["curves"]]
    shown = [[number(cell) for cell in row[1:]] for row in rows[1:]]
    measured = list(zip(*(curve["y"] for curve in expected["curves"]), strict=True))
    assert shown == [pytest.approx(row, abs=6e-4) for row in measured]
    assert page.faults() == []
    page.tab("Steps").tab("Truth")
    assert page.stage.locator(".verdict").count() == 1, "it is kept"


def test_progress_is_told_and_goes_on_while_the_reader_looks_elsewhere(visit, address, slowly):
    page = visit(f"{address}#view=truth")
    page.button("measure it now").click()
    page.page.get_by_text(re.compile(r"asked \d+ of")).wait_for()
    assert page.stage.get_by_role("progressbar").count() == 1
    page.tab("Alignment")
    page.page.wait_for_timeout(1000)
    before = len(slowly)
    page.tab("Truth")
    assert int(page.stage.get_by_role("status").inner_text().split()[1]) >= before - 1 > 1
    page.stage.locator(".verdict").wait_for()


def test_cancel_ends_it_on_the_server_too_and_it_can_be_begun_again(visit, address, slowly):
    page = visit(f"{address}#view=truth")
    page.button("measure it now").click()
    page.page.get_by_text(re.compile(r"asked \d+ of")).wait_for()
    page.button("cancel").click()
    page.button("measure it now").wait_for()
    page.page.wait_for_timeout(700)
    taken = len(slowly)
    page.page.wait_for_timeout(700)
    assert len(slowly) == taken
    page.button("measure it now").click()
    page.stage.locator(".verdict").wait_for()


def test_what_a_reader_changed_is_not_measured_as_the_models_own(visit, address):
    page = visit(f"{address}#view=steps")
    page.page.get_by_role("button", name="make all equal").click()
    page.page.get_by_role("region", name="what you changed").wait_for()
    page.page.get_by_text("asking the model").wait_for(state="detached")
    page.tab("Truth")
    assert page.button("measure it now").is_disabled()
    assert "take your changes back" in page.stage.inner_text()


def test_a_second_reader_is_told_that_a_measurement_runs(visit, address, slowly, complaints):
    one, other = visit(f"{address}#view=truth"), visit(f"{address}#view=truth")
    one.button("measure it now").click()
    one.page.get_by_text(re.compile(r"asked \d+ of")).wait_for()
    other.button("measure it now").click()
    assert "another measurement" in other.page.get_by_role("alert").inner_text()
    assert all("503" in told for told in complaints)
    complaints.clear()
    one.button("cancel").click()
    one.button("measure it now").wait_for()
