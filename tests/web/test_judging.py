"""The beam's tree, how far to trust the weights, and two traces beside each other."""

from __future__ import annotations

import pytest

from tests.web import made
from tests.web.explorer import number
from tests.web.gallery import NAMES


@pytest.fixture
def beam(show):
    return show("decode", view="beam")


def test_the_table_of_the_beam_holds_every_node_and_its_sum(beam):
    rows = beam.table()[1:]
    tree = made.decode().tree
    assert len(rows) == len(tree.labels)
    assert sorted(number(row[4]) for row in rows) == pytest.approx(sorted(tree.log_prob.tolist()), abs=6e-4)


def test_keys_walk_the_tree_and_enter_opens_the_step(beam):
    beam.stage.get_by_role("application").focus()
    beam.press("Home", "ArrowRight")
    assert "Garten" in beam.said
    beam.press("ArrowDown")
    assert "Baum" in beam.said or "Blume" in beam.said
    beam.press("ArrowLeft", "ArrowRight", "Enter")
    assert "view=steps" in beam.address
    assert beam.count == "step 2 of 5"


def test_a_branch_that_was_not_chosen_says_so_and_cannot_be_forced_here(beam):
    beam.stage.get_by_text("Baum", exact=True).first.click()
    text = beam.settled().stage.inner_text()
    assert "not on the chosen path" in text
    assert beam.button("force this beginning").is_disabled()


def test_a_pointer_over_a_node_says_its_path(beam):
    beam.stage.get_by_text("Baum", exact=True).first.hover()
    assert "der Baum" in beam.settled().said


def test_trust_is_one_sentence_and_the_curves_behind_it(show):
    page = show("decode", view="truth")
    told = made.decode().about["faithfulness"]
    text = page.stage.inner_text()
    assert told["sentence"] in text
    for name in ("area most", "area chance"):
        assert name in text
    assert "0.36" in text
    page.stage.get_by_role("application").focus()
    page.press("Home", "ArrowRight")
    assert "0.40" in page.said and "0.80" in page.said


def test_where_nobody_tested_the_weights_that_is_said(show):
    text = show("transformer", view="truth").stage.inner_text()
    assert "not" in text.lower()
    assert "%" not in text


@pytest.fixture
def compared(show):
    return show("decode", view="compare", other=NAMES.index("other_decode"))


def test_the_difference_is_the_second_minus_the_first(compared):
    rows = compared.table()[1:]
    between = made.other_decode().maps[0].weights - made.decode().maps[0].weights
    assert [number(text) for text in rows[0][1:]] == pytest.approx(between[0].tolist(), abs=6e-3)


def test_one_hover_points_at_the_same_cell_in_all_pictures(compared):
    picture = compared.stage.get_by_role("application").nth(1)
    box = picture.bounding_box()
    compared.page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.6 * box["height"])
    said = compared.settled().said
    assert "made_up" in said and "another" in said
    compared.page.mouse.move(0, 0)


def test_what_differs_in_the_outputs_is_marked(compared):
    assert set(compared.stage.locator(".differs").all_inner_texts()) == {"Garten", "Hof"}


def test_the_largest_differences_lead_to_their_cells(compared):
    compared.stage.locator(".differences button").first.click()
    assert "key=" in compared.settled().address


def test_two_traces_of_different_inputs_cannot_be_subtracted(show):
    page = show("decode", view="compare", other=NAMES.index("long"))
    assert "do not look at the same" in page.stage.inner_text()
