"""Documents, pictures, sounds, graphs, visits and reviews: each by pointer and by keys, each with its trace's numbers."""

from __future__ import annotations

import re

import pytest

from tests.web import made_sources
from tests.web.explorer import number

DECIMAL = re.compile(r"\d+\.\d+")


def middle(box: dict[str, float], x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def test_words_of_a_document_are_shaded_by_word_and_sentence(show):
    page = show("document", view="document")
    trace = made_sources.document()
    words = next(map for map in trace.maps if trace.axes[map.key].parent is not None)
    sentences = next(map for map in trace.maps if trace.axes[words.key].parent == map.key)
    within = trace.axes[words.key].within
    rows = page.table()[1:]
    place = 5
    inner = float(words.weights[within[place] if words.queries > 1 else 0, place])
    outer = float(sentences.weights[0, within[place]])
    assert [number(text) for text in rows[place][2:]] == pytest.approx([inner, outer, outer**0.5 * inner], abs=6e-4)


def test_a_word_is_pointed_at_locked_and_left(show):
    page = show("document", view="document")
    word = page.stage.locator(".word").nth(7)
    before = page.settled().said
    word.hover()
    assert word.inner_text().strip() in page.settled().said
    word.click()
    assert "key=" in page.settled().address
    page.page.mouse.move(1, 1)
    assert word.inner_text().strip() in page.settled().said
    text = page.page.get_by_role("group", name=re.compile("the text"))
    text.focus()
    at = page.address
    page.press("ArrowRight")
    assert page.address != at
    page.press("Escape")
    assert "key=" not in page.address
    page.page.mouse.move(1, 1)
    assert page.settled().said == before


def test_a_sentence_shows_its_classes(show):
    page = show("sentence", view="document")
    labels = made_sources.sentence().about.get("labels") or made_sources.sentence().about.get("probabilities")
    text = page.stage.inner_text()
    for name, share in labels.items():
        assert name in text
        assert f"{share:.2f}" in text


def test_a_picture_shows_where_each_word_looked(show):
    page = show("picture", view="image")
    trace = made_sources.picture()
    (map,) = {map.site: map for map in trace.maps if trace.axes[map.key].kind == "grid"}.values()
    canvas = page.matrix
    page.page.mouse.move(*middle(canvas.bounding_box(), 0.3, 0.6))
    said = page.settled().said
    row, column = (int(part) for part in re.search(r"row (\d+), column (\d+)", said).groups())
    key = (row - 1) * trace.axes[map.key].width + column - 1
    assert any(abs(float(text) - float(map.weights[0, key])) < 0.0051 for text in DECIMAL.findall(said)) or "e−" in said
    small = page.page.get_by_role("group", name="one small picture a word").get_by_role("button")
    assert small.count() == map.queries
    small.nth(2).click()
    assert "step=2" in page.settled().address
    canvas.focus()
    page.press("Enter")
    first = page.address
    assert "key=" in first
    page.press("ArrowRight")
    page.press("ArrowDown")
    assert page.address != first
    page.press("Escape")
    assert "key=" not in page.address
    page.page.get_by_label("veil").fill("0.3")
    page.page.get_by_label("smooth").uncheck()
    assert "image.smooth=false" in page.settled().address


def test_a_sound_plays_and_shows_what_was_heard_where(show):
    page = show("sound", view="audio")
    picture = page.matrix
    page.page.mouse.move(*middle(picture.bounding_box(), 0.5, 0.7))
    assert re.search(r"\d\.\d+ s|\d s", page.settled().said)
    picture.focus()
    page.press("ArrowRight", "ArrowDown")
    assert "key=" in page.address
    page.button("play the sound").click()
    page.button("pause the sound").wait_for()
    page.page.wait_for_timeout(250)
    page.button("pause the sound").click()
    page.button("play the sound").wait_for()
    trace = made_sources.sound()
    map = next(map for map in trace.maps if trace.axes[map.key].kind == "frames")
    rows = page.table()[1:]
    values = {round(value, 3) for value in map.weights.flatten().tolist()}
    shown = [number(text) for text in rows[1][1:] if re.fullmatch(r"≈?0\.\d{3}", text)]
    assert shown and all(min(abs(each - value) for value in values) < 6e-4 for each in shown)


def test_a_node_of_a_graph_leads_to_its_neighbours(show):
    page = show("graph", view="graph")
    nearest = page.page.get_by_role("list", name="neighbours by weight").get_by_role("button")
    weights = [number(text) for text in nearest.locator("span:last-child").all_inner_texts() if DECIMAL.search(text)]
    assert weights == sorted(weights, reverse=True)
    names = nearest.locator("bdi").all_inner_texts()
    nearest.nth(1).hover()
    assert names[1] in page.settled().said
    nearest.nth(1).focus()
    page.press("Enter")
    assert names[1] in page.stage.locator("figcaption").inner_text()
    page.page.get_by_label("lines").select_option("in")
    assert "looked at" in page.settled().said
    page.page.get_by_role("combobox", name="node", exact=True).select_option(index=3)
    assert made_sources.graph().axes[made_sources.graph().maps[0].key].labels[3] in page.settled().said


def test_the_table_of_a_graph_holds_its_weights(show):
    trace = made_sources.graph()
    page = show("graph", view="graph", head=0, site=trace.maps[0].site, step=0)
    labels = trace.axes[trace.maps[0].key].labels
    weights = trace.maps[0].weights[0]
    for name, text in page.table()[1:]:
        assert number(text) == pytest.approx(float(weights[labels.index(name)]), abs=6e-4)


@pytest.mark.parametrize("name", ["visits", "reviews"])
def test_marks_of_a_timeline_open_what_lies_in_them(show, name):
    page = show(name, view="timeline")
    line = page.page.get_by_role("group", name=re.compile("marks on a line"))
    line.focus()
    page.press("Home")
    assert "key=" in page.address
    first = page.page.get_by_role("region", name="the chosen one").inner_text()
    page.press("ArrowRight")
    second = page.page.get_by_role("region", name="the chosen one").inner_text()
    assert first != second
    line.locator(".stop").nth(0).locator("rect").first.click(position={"x": 2, "y": 60})
    assert page.settled().page.get_by_role("region", name="the chosen one").inner_text() == first
    page.page.get_by_role("combobox", name="by", exact=True).select_option("weight")
    assert "timeline.sort=weight" in page.settled().address
    trace = getattr(made_sources, name)()
    map = next(map for map in trace.maps if trace.axes[map.key].kind == name)
    weights = [number(row[-1]) for row in page.table()[1:]]
    assert weights == pytest.approx(map.weights[0].tolist(), abs=6e-4)
