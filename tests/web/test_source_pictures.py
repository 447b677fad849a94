"""What the eye sees of documents, pictures, sounds and records: colours, veils, a cursor that follows, stars."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from saccade.trace.maps import Signal, Trace
from tests.web import made_sources
from tests.web.made_media import HOP

GROUND = "all => all.map(each => [each.textContent, getComputedStyle(each).backgroundColor])"
# From a copy: a browser complains when the same canvas is read twice.
PIXEL = """canvas => {
  const copy = document.createElement("canvas").getContext("2d");
  copy.drawImage(canvas, 0, 0);
  return [...copy.getImageData(4, 4, 1, 1).data.slice(0, 3)];
}"""


def rounded(share: float) -> str:
    return f"{share:.2f}"


@pytest.mark.parametrize(("dark", "strongest"), [(False, min), (True, max)], ids=["light", "dark"])
def test_the_word_that_weighs_most_stands_out_most_from_the_paper(show, dark, strongest):
    page = show("document", view="document", dark=dark)
    colours = page.stage.locator(".word").evaluate_all(GROUND)
    painted = {word: colour for word, colour in colours if "rgba" not in colour}
    bright = {word: sum(map(int, re.findall(r"\d+", colour))) for word, colour in painted.items()}
    assert strongest(bright, key=bright.__getitem__) == "wonderful"


def test_the_veil_hides_what_was_not_looked_at_and_can_be_lifted(show):
    page = show("picture", view="image", step=2)
    veiled = page.matrix.evaluate(PIXEL)
    page.page.get_by_label("veil").fill("0")
    sky = page.settled().matrix.evaluate(PIXEL)
    assert sum(veiled) > sum(sky) + 100
    assert sky == pytest.approx(made_sources.picture().axes["image"].image[3, 3].tolist(), abs=8)


def photo(box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0), **beside: list[float]) -> Trace:
    """The caption of the picture, whose patches lie in a box of it, with numbers recorded beside its map."""
    made = made_sources.picture()
    part = made.maps[0].site.rpartition(".")[0]
    signals = {f"{part}.{name}": Signal("target", torch.tensor(numbers)[:, None]) for name, numbers in beside.items()}
    return replace(made, axes={**made.axes, "image": replace(made.axes["image"], box=box)}, signals=signals)


COLOUR = """(canvas, [across, down]) => {
  const other = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const copy = other.getContext("2d");
  copy.drawImage(canvas, 0, 0);
  return [...copy.getImageData(across * canvas.width, down * canvas.height, 1, 1).data.slice(0, 3)];
}"""


def test_a_caption_opens_as_its_picture_and_says_what_the_gate_let_in(opened):
    words = len(made_sources.CAPTION)
    page = opened(photo(gate=[0.25 + 0.05 * word for word in range(words)]))
    assert page.stage.get_attribute("aria-label").lower() == "image"
    small = page.stage.get_by_role("group", name="one small picture a word").locator("button")
    assert [text.split("β ")[1] for text in small.all_inner_texts()] == [
        f"{0.25 + 0.05 * word:.2f}" for word in range(words)
    ]
    assert "β = 0.35 was let in" in page.go(trace=0, step=2).stage.inner_text()


def test_a_click_on_the_picture_says_which_words_looked_there(opened):
    weights = made_sources.picture().maps[0].weights
    patch = int(weights[2].argmax())
    page = opened(photo(), hash=f"view=image&key={patch}")
    most = weights[:, patch].argsort(descending=True)[:3].tolist()
    said = page.stage.inner_text().split("Most of all looked here: ")[1]
    assert re.findall(r"([\w<>]+) \(", said) == [made_sources.CAPTION[word][0] for word in most]
    small = page.stage.get_by_role("group", name="one small picture a word").locator("button")
    assert f"here {float(weights[2, patch]):.2f}" in small.nth(2).inner_text()


def test_hard_attention_leaves_the_one_patch_that_it_read_clear(opened):
    chosen = [5.0] * len(made_sources.CAPTION)
    page = opened(photo(chosen=chosen), hash="view=image&step=2")
    row, column = divmod(5, made_sources.COLUMNS)
    height, width = made_sources.ROWS, made_sources.COLUMNS
    original = made_sources.picture().axes["image"].image
    inside = ((column + 0.5) / width, (row + 0.5) / height)
    there = original[int(inside[1] * original.shape[0]), int(inside[0] * original.shape[1])].tolist()
    assert page.matrix.evaluate(COLOUR, inside) == pytest.approx(there, abs=12)
    assert sum(page.matrix.evaluate(COLOUR, ((column + 1.5) / width, inside[1]))) > 660, "its neighbour is veiled"
    assert f"the patch in row {row + 1}, column {column + 1}, chosen by its weight" in page.stage.inner_text()


def test_what_lies_outside_the_box_is_veiled_and_its_patches_lie_in_it(opened):
    page = opened(photo((0.5, 0.0, 1.0, 1.0)), hash="view=image&step=2")
    assert sum(page.matrix.evaluate(COLOUR, (0.25, 0.9))) > 600
    bounds = page.matrix.bounding_box()
    page.matrix.click(position={"x": bounds["width"] * 0.51, "y": 2})
    assert "key=0" in page.address, "the first patch begins in the middle of the picture"


def test_what_was_written_follows_the_sound(show):
    page = show("sound", view="audio")
    page.button("play the sound").click()
    page.page.wait_for_function("() => /step ([5-9]|1\\d) /.test(document.querySelector('.count').textContent)")
    page.button("pause the sound").click()
    page.button("play the sound").wait_for()


def test_enter_plays_the_stretch_in_which_a_letter_was_heard(show):
    page = show("sound", view="audio", step=4)
    page.matrix.focus()
    page.press("ArrowDown")
    weights = made_sources.sound().map().weights
    frame = int(weights[4].argmax())
    assert page.said == f"To write a it gave {frame * HOP:.2f} s a weight of {rounded(weights[4, frame])}."
    page.press("Enter")
    heard = "at => Math.abs(parseFloat(document.querySelector('.time').textContent) - at) < 0.15"
    page.page.wait_for_function(heard, arg=frame * HOP)
    page.button("play the sound").wait_for()
    stopped = float(page.stage.locator(".time").inner_text().split()[0])
    assert stopped == pytest.approx(frame * HOP, abs=0.2), "it stops by itself where the stretch ends"


def test_a_visit_lists_what_was_written_down_with_its_weights(show):
    page = show("visits", view="timeline", key=0)
    weights = made_sources.visits().map("encoder.codes").weights[0, :2]
    listed = page.page.get_by_role("region", name="the chosen one").get_by_role("listitem").all_inner_texts()
    written = zip(made_sources.RECORD[0][3], weights, strict=True)
    assert [text.split("\n") for text in listed] == [[code, rounded(weight)] for (code, _), weight in written]


def test_a_review_shows_its_stars_and_its_text(show):
    page = show("reviews", view="timeline", key=2)
    chosen = page.page.get_by_role("region", name="the chosen one")
    weight = made_sources.reviews().map("item.reviews").weights[0, 2]
    assert chosen.get_by_role("heading").inner_text().split() == ["★★☆☆☆", "2.0", "weight", rounded(weight)]
    assert chosen.locator(".prose").inner_text() == made_sources.REVIEWS[2][2]
