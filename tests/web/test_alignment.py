"""The picture people know: hover previews, click locks, arrows move, and its numbers are the trace's."""

from __future__ import annotations

import re

import pytest

from tests.web import made
from tests.web.explorer import number

WEIGHTS = made.decode().maps[0].weights
SENTENCE = re.compile(r"It gave (\S+)(?: \(in \S+\))? a weight of (\S+) to write (\S+)\.")


@pytest.fixture
def page(show):
    return show("decode", view="alignment")


def spoken(sentence: str) -> tuple[int, int]:
    """The cell that a sentence speaks of; its number must be the trace's."""
    read, weight, written = SENTENCE.fullmatch(sentence).groups()
    row, column = made.WRITTEN.index(written), made.READ.index(read)
    assert number(weight) == pytest.approx(float(WEIGHTS[row, column]), abs=5e-3, rel=0.5)
    return row, column


def test_the_table_twin_holds_the_weights_of_the_trace(page):
    heading, *rows = page.table()
    assert heading[1:] == list(made.READ)
    assert [row[0] for row in rows] == list(made.WRITTEN)
    for row, weights in zip(rows, WEIGHTS, strict=True):
        assert [number(text) for text in row[1:]] == pytest.approx(weights.tolist(), abs=6e-4)


def test_hovering_previews_a_cell_and_leaving_takes_the_preview_away(page):
    before = page.said
    box = page.matrix.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.settled()
    spoken(page.said)
    page.page.mouse.move(5, 5)
    assert page.settled().said == before


def test_a_click_locks_a_cell_and_a_second_click_lets_it_go(page):
    box = page.matrix.bounding_box()
    middle = {"x": box["width"] / 2, "y": box["height"] / 2}
    page.matrix.click(position=middle)
    page.page.mouse.move(5, 5)
    row, column = spoken(page.settled().said)
    assert f"key={column}" in page.address
    assert page.count == f"step {row + 1} of {len(made.WRITTEN)}"
    page.matrix.click(position=middle)
    page.page.mouse.move(5, 5)
    assert "key=" not in page.settled().address


def test_arrows_move_the_cell_enter_locks_it_and_escape_lets_it_go(page):
    page.matrix.focus()
    page.press("Home", "ArrowDown", "ArrowRight", "ArrowRight", "Enter")
    row, column = spoken(page.said)
    assert f"key={column}" in page.address
    assert f"step={row}" in page.address
    page.press("ArrowRight", "Enter")
    assert spoken(page.said) == (row, column + 1)
    page.press("Escape")
    assert "key=" not in page.address


def test_hidden_markers_and_whole_words_regroup_the_weights(page):
    page.page.get_by_label("special tokens").uncheck()
    heading, *rows = page.settled().table()
    assert heading[1:] == list(made.READ[:-1])
    assert len(rows) == len(made.WRITTEN) - 1
    page.page.get_by_label("whole words").check()
    heading, *rows = page.settled().table()
    assert heading[1:] == ["the", "unseen", "garden", "was", "green"]
    # What is read adds up over the parts of a word.
    assert number(rows[0][2]) == pytest.approx(float(WEIGHTS[0, 1] + WEIGHTS[0, 2]), abs=6e-4)


def test_gold_links_and_the_error_rate_are_told(page):
    caption = page.stage.locator("figcaption").inner_text()
    assert "gold links" in caption
    assert "Alignment error rate 25.0 %" in caption


def test_several_sites_and_heads_can_be_chosen(show):
    page = show("transformer", view="alignment")
    page.page.get_by_label("where").select_option("encoder.layers.1.self_attention")
    page.page.get_by_label("head").select_option(label="2")
    rows = page.settled().table()[1:]
    weights = made.transformer().map("encoder.layers.1.self_attention", 2).weights
    assert [number(text) for text in rows[4][1:]] == pytest.approx(weights[4].tolist(), abs=6e-4)
    page.page.get_by_label("head").select_option("")
    rows = page.settled().table()[1:]
    maps = [map.weights for map in made.transformer().only("encoder.layers.1.self_attention").maps]
    assert [number(text) for text in rows[4][1:]] == pytest.approx((sum(maps) / 3)[4].tolist(), abs=6e-4)


def test_a_large_map_zooms_pans_and_shows_what_was_not_kept(show):
    page = show("long", view="alignment")
    page.button("larger").click()
    page.button("larger").click()
    box = page.matrix.bounding_box()
    page.page.mouse.move(box["x"] + 400, box["y"] + 300)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 300, box["y"] + 200, steps=3)
    page.page.mouse.up()
    page.button("whole").click()
    assert page.button("smaller").is_disabled()
    page.matrix.focus()
    page.press("+", "ArrowDown", "ArrowRight", "Enter", "0")
    rows = page.table()[1:]
    assert len(rows) == 100, "a table of 150 rows comes in pages"
    page.stage.get_by_role("button", name="table", exact=True).click()
    for _ in range(3):
        page.button("later columns").click()
    assert page.button("later columns").is_disabled()
    last = page.page.locator(".twin tr").nth(5).locator("td").last.inner_text()
    assert number(last) == pytest.approx(0.15, abs=6e-4)


def test_keys_move_what_is_said_while_the_pointer_rests_on_the_picture(page):
    box = page.matrix.bounding_box()
    page.matrix.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    row, column = spoken(page.settled().said)
    page.page.keyboard.press("ArrowUp")
    assert spoken(page.settled().said) == (row - 1, column)
