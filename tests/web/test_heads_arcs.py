"""The wall of heads and the arcs: found by a pointer, moved over by keys, opened and left."""

from __future__ import annotations

import re

import pytest
import torch

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace
from tests.web import made
from tests.web.explorer import number

TRACE = made.transformer()
# How many points of the picture have the colour of a token in the sentence below it.
ACCENTED = """() => {
  const token = [...document.querySelectorAll(".readout p *")].find(each => each.children.length === 0);
  const accent = getComputedStyle(token).color.match(/\\d+/g).slice(0, 3).join();
  const canvas = document.querySelector(".arcs-window canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4) found += `${data[i]},${data[i + 1]},${data[i + 2]}` === accent;
  return found;
}"""


@pytest.fixture
def wall(show):
    return show("transformer", view="heads")


def entropies() -> list[float]:
    return [float(-(map.weights * map.weights.log()).sum(1).mean()) for map in TRACE.maps]


def test_the_wall_holds_every_head_with_its_entropy(wall):
    rows = wall.table()[1:]
    assert len(rows) == len(TRACE.maps)
    assert [number(row[1]) for row in rows] == pytest.approx(entropies(), abs=6e-4)


def test_heads_can_be_sorted_by_entropy(wall):
    wall.page.get_by_label("order").select_option("entropy")
    rows = wall.settled().table()[1:]
    assert [number(row[1]) for row in rows] == pytest.approx(sorted(entropies()), abs=6e-4)
    assert "heads.sort=entropy" in wall.address


def test_only_one_kind_of_site_can_be_shown(wall):
    wall.page.get_by_label("show").select_option("cross")
    assert len(wall.settled().table()) - 1 == 3


def test_keys_move_over_the_wall_enter_opens_a_head_and_escape_comes_back(wall):
    wall.matrix.focus()
    wall.press("Home", "ArrowRight", "ArrowDown")
    assert "head=1" in wall.address
    assert "site=encoder.layers.1.self_attention" in wall.address
    wall.press("Enter")
    wall.button("← all heads").wait_for()
    rows = wall.table()[1:]
    weights = TRACE.map("encoder.layers.1.self_attention", 1).weights
    assert [number(text) for text in rows[2][1:]] == pytest.approx(weights[2].tolist(), abs=6e-4)
    wall.press("Escape")
    if wall.button("← all heads").count():
        wall.press("Escape")  # the first let go of a cell
    assert wall.button("← all heads").count() == 0
    assert wall.page.evaluate("document.activeElement.getAttribute('role')") == "application"


def test_a_click_opens_a_head_and_the_next_one_is_a_click_away(wall):
    box = wall.matrix.bounding_box()
    for share in (0.15, 0.25, 0.35, 0.5):
        wall.page.mouse.move(box["x"] + share * box["width"], box["y"] + 40)
        wall.settled()
        if "head" in wall.said.lower():
            break
    wall.page.mouse.down()
    wall.page.mouse.up()
    wall.settled().button("the next head").click()
    assert "heads.open=true" in wall.settled().address
    wall.button("← all heads").click()
    assert "heads.open=true" not in wall.settled().address


def test_steps_are_offered_where_something_follows_them(show):
    wall = show("transformer", view="heads")
    assert wall.page.locator(".scrubber").count() == 0
    wall.press("Space")
    wall.tab("Truth")
    assert wall.page.locator(".scrubber").count() == 0
    assert wall.tab("Steps").count == "step 1 of 5"
    assert wall.button("play").count() == 1, "nothing was played unseen"
    opened = show("transformer", view="heads", **{"x.heads.open": "true", "site": "decoder.layers.0.cross", "head": 1})
    assert opened.count == "step 1 of 5"


@pytest.fixture
def arcs(show):
    return show("decode", view="arcs")


def test_the_slider_of_arcs_chooses_how_much_of_each_row_is_drawn(arcs):
    slider = arcs.stage.get_by_role("slider").first
    few = len(arcs.table())
    slider.focus()
    arcs.press("End")
    rows = arcs.table()[1:]
    assert len(rows) + 1 > few
    arcs.stage.get_by_role("slider").first.focus()
    arcs.press("Home")
    assert len(arcs.table()) - 1 <= len(rows)
    assert "arcs.mass" in arcs.address


def test_the_table_of_arcs_holds_the_weights_of_the_trace(arcs):
    weights = {
        (query, key): float(TRACE_DECODE[i, j])
        for i, query in enumerate(made.WRITTEN)
        for j, key in enumerate(made.READ)
    }
    heading, *rows = arcs.table()
    found = 0
    for row in rows:
        texts = [text for text in row if text in made.WRITTEN or text in made.READ]
        numbers = [number(text) for text in row if text.replace(".", "").replace("≈", "").isdigit() and "." in text]
        if len(texts) >= 2 and numbers:
            assert any(abs(weights[texts[0], texts[1]] - each) < 6e-4 for each in numbers), row
            found += 1
    assert found, (heading, rows[:2])


TRACE_DECODE = made.decode().maps[0].weights


def test_arcs_of_one_token_alone_by_pointer_and_by_keys(arcs):
    picture = arcs.stage.get_by_role("application").first
    picture.focus()
    arcs.press("ArrowDown", "Enter")
    said = arcs.said
    assert any(word in said for word in (*made.WRITTEN, *made.READ))
    arcs.press("Escape")
    box = picture.bounding_box()
    for share in (0.3, 0.4, 0.5, 0.6, 0.7):
        arcs.page.mouse.move(box["x"] + 40, box["y"] + share * box["height"])
    assert arcs.settled().said


def test_more_arcs_than_can_be_drawn_are_cut_and_the_page_says_so(opened):
    T = 500  # of which some forty are in the window
    weights = torch.full((T, T), 1 / T)
    axes = {"text": Tokens(tuple(f"w{i}" for i in range(T)))}
    trace = Trace(axes, (AttentionMap("self", "text", "text", "dense", {"weights": weights}, 0, keys=T),))
    page = opened(trace, hash="view=arcs&x.arcs.mass=1", height=2600)
    told = page.stage.locator(".arcs-cut").inner_text().replace("\u202f", "")
    found = re.fullmatch(r"Of (\d+) arcs here the 12000 strongest are drawn\.", told)
    assert found and 12_000 < int(found[1]) <= T * T
    page.go(view="arcs", **{"x.arcs.mass": 0.2})
    assert page.stage.locator(".arcs-cut").count() == 0


def test_arcs_leave_the_page_whole_and_above_three_hundred_only_some_are_named(opened):
    def written(T: int) -> tuple[str, list[int]]:
        weights = torch.eye(T).roll(1, 0)
        axes = {"text": Tokens(tuple(f"w{i}" for i in range(T)))}
        trace = Trace(axes, (AttentionMap("self", "text", "text", "dense", {"weights": weights}, 0, keys=T),))
        page = opened(trace, hash="view=arcs")
        drawn = page.page.locator(".arcs-window canvas").evaluate("canvas => canvas.clientHeight")
        svg = page.saved("SVG").read_text(encoding="utf-8")
        assert int(re.search(r'height="(\d+)"', svg)[1]) > drawn + 500, "more than the window shows"
        assert svg.count("<path") >= T
        return svg, [int(name) for name in re.findall(r">w(\d+)</text>", svg)]

    _, named = written(120)
    assert named == list(range(120))
    svg, named = written(700)
    assert named[0] == 0 and named[-1] >= 695 and 200 < len(named) < 400
    assert int(re.search(r'height="(\d+)"', svg)[1]) < 6000


def test_many_arcs_are_thinner_than_few(opened):
    def widest(T: int) -> float:
        axes = {"text": Tokens(tuple(f"w{i}" for i in range(T)))}
        weights = torch.full((T, T), 1 / T)
        trace = Trace(axes, (AttentionMap("self", "text", "text", "dense", {"weights": weights}, 0, keys=T),))
        svg = opened(trace, hash="view=arcs&x.arcs.mass=1").saved("SVG").read_text(encoding="utf-8")
        return max(float(width) for width in re.findall(r'stroke-width="([\d.]+)"', svg))

    assert widest(40) < widest(12) / 1.5


@pytest.mark.parametrize("axes", [("written", "read"), ("text", "text")])
def test_the_window_of_arcs_follows_the_step_and_marks_it(opened, axes):
    T = 330
    weights = {"weights": torch.eye(T).roll(1, 0)}
    tokens = {name: Tokens(tuple(f"w{i}" for i in range(T))) for name in axes}
    trace = Trace(tokens, (AttentionMap("site", *axes, "dense", weights, 0, keys=T),))
    page = opened(trace, hash="view=arcs&step=200")
    window = page.stage.locator(".arcs-window")
    line, height = window.evaluate("box => [(box.scrollHeight - 8) / 330, box.clientHeight]")
    for step in (200, 329, 3):
        page.go(view="arcs", step=step)
        assert 0 < (step + 1) * line - window.evaluate("box => box.scrollTop") < height + line
        assert page.page.evaluate(ACCENTED) > 5, "its name has the colour that it has in the sentence below"
