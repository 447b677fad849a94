"""What is written from right to left stands so: the columns of a map, its thumbnails, the steps; and the arrows follow."""

from __future__ import annotations

import pytest
import torch

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace

READ = ("הגן", "היה", "ירוק", "מאוד", "<eos>")
WRITTEN = ("der", "Garten", "war", "<eos>")
# How manieth from the left the darkest cell of a row of the heatmap is.
STRONGEST = """row => {
  const canvas = document.querySelector(".heatmap canvas"), d = canvas.width / canvas.clientWidth;
  const [left, top, across, down] = canvas.dataset.cells.split(" ").map(Number);
  const [rows, columns] = canvas.getAttribute("aria-label").match(/(\\d+) rows, (\\d+) columns/).slice(1).map(Number);
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, -left * d, -(top + (row + 0.5) * down / rows) * d);
  const shades = Array.from({ length: columns }, (_, c) => {
    const [r, g, b] = copy.getImageData((c + 0.5) * across * d / columns, 0, 1, 1).data;
    return r + g + b;
  });
  return shades.indexOf(Math.min(...shades));
}"""


def trace(read=READ, written=WRITTEN, heads: int = 1) -> Trace:
    weights = torch.full((len(written), len(read)), 0.02)
    weights[range(len(written)), range(len(written))] = 0.9
    axes = {"source": Tokens(read), "target": Tokens(written)}
    maps = [
        AttentionMap("decoder.attention", "target", "source", "dense", {"weights": weights}, head, keys=len(read))
        for head in range(heads)
    ]
    return Trace(axes, tuple(maps), about={"input": " ".join(read[:-1]), "output": " ".join(written[:-1])})


@pytest.mark.parametrize(
    ("read", "places"), [(READ, [4, 3, 2]), (("the", "garden", "was", "green", "<eos>"), [0, 1, 2])]
)
def test_the_first_word_that_was_read_stands_where_its_script_begins(opened, read, places):
    page = opened(trace(read), hash="view=alignment&step=3")
    assert [page.page.evaluate(STRONGEST, row) for row in range(3)] == places


def test_pointer_and_arrows_find_the_words_where_they_stand(opened):
    page = opened(trace(), hash="view=alignment&step=0")
    canvas = page.stage.locator(".heatmap canvas")
    left, top, across, _ = map(float, canvas.get_attribute("data-cells").split())
    canvas.hover(position={"x": left + across - 8, "y": top + 8})
    assert READ[0] in page.settled().said
    canvas.click(position={"x": left + across - 8, "y": top + 8})
    page.matrix.focus()
    assert READ[1] in page.press("ArrowLeft").said
    assert READ[0] in page.press("ArrowRight").said


def test_thumbnails_run_as_the_map_does(opened):
    page = opened(trace(heads=2), hash="view=heads")
    darkest = """() => {
      const canvas = document.querySelector(".heads-wall canvas"), mark = document.querySelector(".heads-mark.chosen");
      const d = canvas.width / canvas.clientWidth, side = (mark.offsetWidth - 6) * d;
      const at = [(mark.offsetLeft + 3) * d, (mark.offsetTop + 3) * d];
      const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, -at[0], -at[1]);
      const grey = x => { const [r, g, b] = copy.getImageData(x * side, 0.1 * side, 1, 1).data; return r + g + b; };
      return [grey(0.1), grey(0.9)];
    }"""
    page.go(view="heads", site="decoder.attention", head=0)
    left, right = page.page.evaluate(darkest)
    assert right < left - 100


def test_an_output_from_right_to_left_has_its_steps_so_and_the_arrows_go_along(opened):
    page = opened(trace(("the", "garden", "was", "green", "<eos>"), (*READ[:3], "<eos>")), hash="view=alignment")
    buttons = page.page.get_by_role("group", name="output, one button a step").get_by_role("button")
    lefts = buttons.evaluate_all("all => all.map(each => each.getBoundingClientRect().left)")
    assert lefts == sorted(lefts, reverse=True)
    assert page.press("ArrowLeft", "ArrowLeft").count == "step 3 of 4"
    assert page.press("ArrowRight").count == "step 2 of 4"
