"""What the eye sees of documents, pictures, sounds and records: colours, veils, a cursor that follows, stars."""

from __future__ import annotations

import re

import pytest

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
