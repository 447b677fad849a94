"""The tour: five stops with this trace's own numbers; it comes once unasked, can always be left, and blocks nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.web import made

WEIGHTS = made.decode().maps[0].weights


def tour(page):
    return page.page.get_by_role("dialog")


def test_it_comes_unasked_on_the_first_visit_and_never_again(opened):
    page = opened(made.decode(), tour=True)
    tour(page).wait_for()
    page.press("Escape")
    assert tour(page).count() == 0
    page.page.evaluate("location.hash = ''")
    page.page.reload()
    page.settled()
    page.page.wait_for_timeout(300)
    assert tour(page).count() == 0


def test_who_was_sent_to_a_place_in_the_page_is_left_there(opened):
    page = opened(made.decode(), tour=True, hash="view=alignment&step=2")
    page.page.wait_for_timeout(300)
    assert tour(page).count() == 0
    assert page.count == "step 3 of 5"


@pytest.fixture
def asked(show):
    page = show("decode", view="alignment")
    page.button("What am I looking at?").click()
    tour(page).wait_for()
    return page.settled()


def test_five_stops_walk_from_the_scores_to_the_end(asked):
    titles = []
    for stop in range(5):
        titles.append(tour(asked).get_by_role("heading").inner_text())
        assert f"{stop + 1} of 5" in tour(asked).inner_text()
        assert tour(asked).bounding_box()["x"] >= 0
        tour(asked).get_by_role("button", name="next" if stop < 4 else "done").click()
    assert [title.split()[0].strip(":,") for title in titles] == ["Scores", "Softmax", "Context", "Output", "And"]
    assert tour(asked).count() == 0


def test_who_decides_once_is_not_said_to_write_step_by_step(opened):
    trace = made.decode()
    trace = replace(trace, about={**trace.about, "labels": {"der": 0.9, "die": 0.1}})
    page = opened(trace, hash="view=steps")
    page.button("What am I looking at?").click()
    said = ""
    for stop in range(4):
        said += tour(page).inner_text()
        tour(page).get_by_role("button", name="next" if stop < 3 else "done").click()
    assert tour(page).count() == 0
    assert "each label" in said and "That is its answer" in said
    assert "step by step" not in said and "next piece" not in said


def test_it_speaks_of_this_trace(asked):
    assert "the unseen garden was green" in tour(asked).inner_text()
    step = int(asked.count.split()[1]) - 1
    key = int(WEIGHTS[step].argmax())
    scores = made.decode().maps[0].tensors["scores"]
    assert f"{float(scores[step, key]):.2f}" in tour(asked).inner_text()
    tour(asked).get_by_role("button", name="next").click()
    assert "together 1" in tour(asked).inner_text()


def test_the_page_stays_in_use_under_it_and_escape_ends_it(asked):
    asked.button("next step").click()
    assert tour(asked).count() == 1
    assert tour(asked).get_attribute("aria-modal") != "true"
    asked.press("Escape")
    assert tour(asked).count() == 0


def test_axe_finds_nothing_to_mend_in_it(asked):
    assert asked.faults() == []


def test_it_fits_a_phone(show):
    page = show("decode", view="steps", width=390, height=844)
    page.button("What am I looking at?").click()
    tour(page).wait_for()
    assert page.sideways() == []
    box = tour(page).bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
