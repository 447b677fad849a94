"""Which weight gets which colour: the reader's choice, with a colour bar; an even map is pale on every scale."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace
from tests.web import made, made_sources

SCALES = ("map", "row", "even", "shared")
# The lightness (0 to 255) of a cell's middle: row, column of the first heatmap.
LIGHTNESS = """([row, column, rows, columns]) => {
  const canvas = document.querySelector(".heatmap canvas");
  const [left, top, across, down] = canvas.dataset.cells.split(" ").map(Number);
  const density = canvas.width / canvas.clientWidth;
  const x = (left + (column + 0.5) * across / columns) * density, y = (top + (row + 0.5) * down / rows) * density;
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, -Math.round(x), -Math.round(y));
  const [r, g, b] = copy.getImageData(0, 0, 1, 1).data;
  return 0.3 * r + 0.6 * g + 0.1 * b;
}"""


def square(weights: torch.Tensor) -> Trace:
    T, S = weights.shape
    axes = {"text": Tokens(tuple(f"w{i}" for i in range(S))), "out": Tokens(tuple(f"o{i}" for i in range(T)))}
    return Trace(axes, (AttentionMap("layer.0", "out", "text", "dense", {"weights": weights}, 0, keys=S),))


def shades(page, cells, rows: int, columns: int) -> list[float]:
    return [page.page.evaluate(LIGHTNESS, [row, column, rows, columns]) for row, column in cells]


@pytest.mark.parametrize("scale", SCALES)
def test_an_even_map_looks_even_and_pale(opened, scale):
    page = opened(square(torch.full((5, 9), 1 / 9)), hash=f"view=alignment&x.scale={scale}&step=4")
    found = shades(page, [(0, 0), (1, 4), (2, 8)], 5, 9)
    assert max(found) - min(found) < 2, "even"
    assert 170 < min(found) < 254, "pale, and not nothing"


def test_one_weight_of_one_does_not_blank_a_long_map(opened):
    weights = torch.full((3, 600), 0.5 / 599)
    weights[:, :10] = 0.05
    weights[1] = 0
    weights[1, 599] = 1.0
    bar = re.compile("colours of weight")
    page = opened(square(weights), hash="view=alignment&step=2")
    assert page.page.locator(".picker", has_text="colours").locator("select").input_value() == "even", (
        "the choice for so many keys"
    )
    near = shades(page, [(0, 5)], 3, 600)[0]
    page.go(view="alignment", step=2, **{"x.scale": "shared"})
    assert near < 170 < shades(page, [(0, 5)], 3, 600)[0]
    assert page.stage.get_by_role("img", name=bar).get_attribute("aria-label") == "colours of weight: 0, 1.00"


def test_the_strongest_colour_is_where_the_chosen_scale_puts_it(opened):
    weights = torch.tensor([[0.9, 0.1] + [0.0] * 8, [0.0, 0.6] + [0.05] * 8, [0.1] * 10])
    page = opened(square(weights), hash="view=alignment&step=2")
    cells = [(0, 0), (1, 1)]
    by_map = shades(page, cells, 3, 10)
    assert by_map[0] < by_map[1] - 20, "0.6 is paler than 0.9"
    assert "a weight of 0.90" in page.stage.locator("figcaption").inner_text()
    page.page.locator(".picker", has_text="colours").locator("select").select_option(label="each row")
    by_row = shades(page.settled(), cells, 3, 10)
    assert by_row[0] == pytest.approx(by_row[1], abs=2)
    assert "x.scale=row" in page.address
    assert page.stage.locator(".colour-bar").inner_text().split("\n")[-1] == "largest of its row"


def test_the_colour_bar_leaves_with_the_picture(opened):
    page = opened(square(torch.eye(3, 5)), hash="view=alignment&step=2")
    svg = page.saved("SVG").read_text(encoding="utf-8")
    assert svg.count("<rect") > 60 and ">weight</text>" in svg


def test_on_the_wall_an_even_head_is_not_the_darkest(opened):
    trace = made.transformer()
    even = torch.full((7, 7), 1 / 7)
    maps = tuple(
        replace(map, tensors={"weights": even}) if map.head == 1 and map.query == map.key else map for map in trace.maps
    )
    page = opened(replace(trace, maps=maps), hash="view=heads")
    darkest = """([x, y, side]) => {
      const canvas = document.querySelector(".heads-wall canvas"), d = canvas.width / canvas.clientWidth;
      const copy = document.createElement("canvas");
      copy.width = copy.height = side * d;
      const ctx = copy.getContext("2d", { willReadFrequently: true });
      ctx.drawImage(canvas, -x * d, -y * d);
      const { data } = ctx.getImageData(0, 0, side * d, side * d);
      let least = 255;
      for (let i = 0; i < data.length; i += 4) least = Math.min(least, 0.3 * data[i] + 0.6 * data[i + 1] + 0.1 * data[i + 2]);
      return least;
    }"""
    marks = []
    for head in (1, 2):
        page.go(view="heads", site="encoder.layers.0.self_attention", head=head)
        box = page.page.locator(".heads-mark.chosen").evaluate("m => [m.offsetLeft, m.offsetTop, m.offsetWidth]")
        marks.append(page.page.evaluate(darkest, [box[0] + 5, box[1] + 5, box[2] - 10]))
    assert marks[0] > 150 > marks[1]


@pytest.mark.parametrize("name", ["document", "sentence"])
def test_a_document_looked_at_evenly_is_pale_and_has_a_bar(opened, name):
    trace = getattr(made_sources, name)()

    def even(map: AttentionMap) -> AttentionMap:
        weights = (map.tensors["weights"] > 0).float()
        return replace(map, tensors={"weights": weights / weights.sum(1, keepdim=True)})

    page = opened({"as it is": trace, "even": replace(trace, maps=tuple(map(even, trace.maps)))})

    def lightness(number: int, **more: str) -> list[float]:
        page.go(trace=number, view="document", **more)
        colours = page.stage.locator(".word").evaluate_all("all => all.map(w => getComputedStyle(w).backgroundColor)")
        parts = [[float(part) for part in re.findall(r"[\d.]+", colour)] for colour in colours]
        return [0.3 * r + 0.6 * g + 0.1 * b for r, g, b, *clear in parts if clear != [0]]

    assert min(lightness(0)) < 100, "the word looked at most is dark"
    for scale in ("map", "even", "shared"):
        assert min(lightness(1, **{"x.scale": scale})) > 130, scale
        assert page.stage.locator(".colour-bar").count() == 1
    choices = page.page.locator(".picker", has_text="colours").locator("option").all_inner_texts()
    assert "each row" not in choices, "there is one row"


def test_two_maps_beside_each_other_have_one_scale(opened):
    weights = torch.tensor([[0.9, 0.1, 0.0, 0.0], [0.1, 0.9, 0.0, 0.0]])
    one, other = square(weights), square(weights * 0.5)
    page = opened({"one": one, "other": other}, hash="view=compare&other=1&step=1")
    bars = page.stage.locator(".colour-bar").all_inner_texts()
    assert len(bars) == 2 and bars[0] == bars[1]
    page.page.locator(".picker", has_text="colours").locator("select").select_option(label="shared, 0 to 1")
    assert page.settled().stage.locator(".colour-bar").first.inner_text().endswith("1.00")


def test_a_sound_has_the_choice_of_scales_and_a_bar(show):
    page = show("sound", view="audio")
    assert page.stage.locator(".colour-bar").count() == 1
    before = page.stage.locator("canvas").first.evaluate("canvas => canvas.toDataURL()")
    page.page.locator(".picker", has_text="colours").locator("select").select_option(label="shared, 0 to 1")
    assert page.settled().stage.locator("canvas").first.evaluate("canvas => canvas.toDataURL()") != before
