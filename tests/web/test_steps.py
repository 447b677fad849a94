"""Steps: one step of a decode, every number of it the trace's, by mouse and by keyboard; what if is off in a saved page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from saccade.models import pointer as pointer_network
from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace
from tests.web import made
from tests.web.explorer import number

TRACE = made.decode()
WEIGHTS, SCORES = TRACE.maps[0].weights, TRACE.maps[0].tensors["scores"]
CHANCES = TRACE.outputs.probability
DECIMAL = re.compile(r"(?<![\w.])[−-]?\d+\.\d+(?![\w.])")


@pytest.fixture
def page(show):
    return show("decode", view="steps")


def weights_of(page) -> list[float]:
    sliders = page.stage.get_by_role("slider")
    return [
        float(value) for value in sliders.evaluate_all("all => all.map(each => each.getAttribute('aria-valuenow'))")
    ]


@pytest.mark.parametrize("step", [0, 3])
def test_the_table_twin_holds_scores_weights_and_outputs_of_the_step(show, step):
    rows = show("decode", view="steps", step=step).table()[1:]
    read, likely = rows[: len(made.READ)], rows[len(made.READ) :]
    assert [number(row[1]) for row in read] == pytest.approx(SCORES[step].tolist(), abs=6e-4)
    assert [number(row[2]) for row in read] == pytest.approx(WEIGHTS[step].tolist(), abs=6e-4)
    assert [number(row[3]) for row in likely] == pytest.approx(CHANCES[step].tolist(), abs=6e-4)


def test_one_row_a_position_shows_its_weight_and_stepping_moves_on(page):
    assert weights_of(page) == pytest.approx(WEIGHTS[0].tolist(), abs=1e-4)
    page.press("ArrowRight")
    assert weights_of(page) == pytest.approx(WEIGHTS[1].tolist(), abs=1e-4)


def test_every_decimal_on_the_stage_is_a_number_of_the_trace(page):
    """Weights, scores, chances; what the equations say of them; the parts of words together; nothing else."""
    step = 2
    page.go(trace=1, view="steps", step=step, key=3)
    known = [*WEIGHTS[step].tolist(), *SCORES[step].tolist(), *CHANCES[step].tolist(), float(WEIGHTS[step].sum())]
    known += [float(SCORES[step].exp().sum()), *SCORES[step].exp().tolist(), float(WEIGHTS[step, 1:3].sum())]
    known += [value for signal in TRACE.signals.values() for value in signal.values.flatten().tolist()]
    found = DECIMAL.findall(page.stage.inner_text() + page.said)
    assert len(found) > 6
    strange = [text for text in found if not any(abs(number(text) - value) < 0.0051 for value in known)]
    assert strange == []


def test_a_pointer_over_a_row_lights_it_in_every_column_and_a_click_locks_it(page):
    page.stage.get_by_role("slider").nth(3).hover()
    assert "garden" in page.settled().said
    assert f"{float(WEIGHTS[0, 3]):.2f}" in page.said or "weight" in page.said
    page.stage.locator(".steps-label", has_text="garden").click()
    assert "key=3" in page.settled().address
    page.press("Escape")
    assert "key=" not in page.address


LATER = {
    1: [
        ".weight .bar",
        ".weight .figure-at",
        ".eq-a",
        ".ribbons",
        ".at-c .strip",
        ".eq-c",
        ".output",
        ".eq-p",
        ".at-next",
    ],
    2: [".ribbons", ".at-c .strip", ".at-c .size", ".eq-c", ".output", ".eq-p", ".at-next"],
    3: [".output", ".eq-p", ".at-next"],
}
SEEN = """(all) => all.some(each => {
  const [box, style] = [each.getBoundingClientRect(), getComputedStyle(each)];
  return box.width > 2 && style.visibility !== "hidden" && !style.clipPath.includes("100%");
})"""
INK = "token => getComputedStyle(token).color"


def test_a_step_that_plays_shows_nothing_before_its_stage(opened):
    """Scores first; then weights; then the context; then the output, and what is said of it."""
    # A page of its own: on the one that tests share, the paused clock would let none after this one go on.
    page = opened(made.decode(), hash="view=steps")
    page.page.emulate_media(reduced_motion="no-preference")
    page.page.get_by_label("speed").select_option("0.25")
    page.page.clock.install()  # the stages wait for us
    page.page.clock.pause_at("2100-01-01")
    page.page.locator("body").click(position={"x": 2, "y": 2})
    for _ in range(2):  # the first in the page's own time: its step follows no other
        page.page.keyboard.press("ArrowRight")
        page.page.clock.run_for(10_000)
    page.page.keyboard.press("ArrowRight")

    def seen(place: str):
        return page.stage.locator(place).evaluate_all(SEEN)

    for stage, later in LATER.items():
        page.stage.locator(f".steps[data-stage='{stage}']").wait_for()
        page.page.evaluate("document.getAnimations().forEach(each => each.finish())")
        assert [place for place in later if seen(place)] == []
        assert seen(".score") and not page.page.locator(".readout").is_visible()
        assert page.page.locator(".token-button[aria-current]").evaluate(INK) == "rgba(0, 0, 0, 0)", "what it writes"
        page.page.clock.run_for(998)
        assert page.stage.locator(f".steps[data-stage='{stage}']").count() == 1, (
            "a quarter of the speed: a second a stage"
        )
        page.page.clock.run_for(2)
    page.stage.locator(".steps[data-stage='4']").wait_for()
    page.page.evaluate("document.getAnimations().forEach(each => each.finish())")
    assert all(seen(place) for place in LATER[1] if page.stage.locator(place).count())
    assert page.page.locator(".readout").is_visible()
    assert page.page.locator(".token-button[aria-current]").evaluate(INK) != "rgba(0, 0, 0, 0)"


def test_the_speed_is_remembered_by_the_address_and_paces_playing(opened):
    page = opened(made.decode(), hash="view=steps")
    page.page.get_by_label("speed").select_option("2")
    assert "speed=2" in page.settled().address
    page.page.clock.install()
    page.page.clock.pause_at("2100-01-01")
    page.button("play").click()
    page.page.clock.run_for(595)
    assert "step 1 of" in page.page.locator(".count").inner_text()
    page.page.clock.run_for(60)  # the page begins to wait in its next frame
    assert "step 2 of" in page.page.locator(".count").inner_text()


def test_up_and_down_go_from_row_to_row_and_begin_at_the_one_looked_at_most(page):
    most = int(WEIGHTS[0].argmax())
    page.press("ArrowDown", "ArrowDown")
    assert f"key={most + 2}" in page.address
    assert "##seen" in page.said
    assert f"key={most + 1}" in page.press("ArrowUp").address


def test_equations_hold_the_values_of_the_row_in_focus(page):
    before = page.go(trace=1, view="steps", step=1, key=3).stage.inner_text()
    assert f"{float(SCORES[1, 3]):.2f}".replace("-", "−") in before
    assert f"{float(WEIGHTS[1, 3]):.2f}" in before
    after = page.go(trace=1, view="steps", step=1, key=4).stage.inner_text()
    assert f"{float(SCORES[1, 4]):.2f}".replace("-", "−") in after


def test_playing_goes_through_the_steps(show, gallery):
    page = show("decode", view="steps")
    page.page.emulate_media(reduced_motion="no-preference")
    page.button("play").click()
    page.page.get_by_text("step 2 of 5").wait_for()
    page.button("pause").click()
    assert weights_of(page.settled()) == pytest.approx(WEIGHTS[1].tolist(), abs=1e-4)


def test_reduced_motion_jumps(page):
    moving = "() => document.getAnimations().filter(each => each.playState === 'running').length"
    page.press("ArrowRight")
    assert page.page.evaluate(moving) == 0


STRIP = "context of step 2"


def test_each_head_has_its_own_context_and_the_mean_shows_them_one_after_the_other(show):
    contexts = made.transformer().signals["decoder.layers.0.cross.context"].values
    for head in range(3):
        page = show("transformer", view="steps", step=1, head=head)
        strip = page.stage.get_by_role("img", name=STRIP)
        largest = float(contexts[1, head].abs().max())
        assert strip.get_attribute("aria-label") == f"{STRIP}: 13 numbers, the largest in size {largest:.2f}"
        assert "Σi α2,i vi" in page.stage.inner_text()
    page = show("transformer", view="steps", step=1)
    assert page.stage.get_by_role("img", name=STRIP).get_attribute("aria-label").startswith(f"{STRIP}: 39 numbers")
    text = page.stage.inner_text()
    assert "3 × 13" in text and "not kept" not in text


def test_a_context_that_nobody_kept_is_said_to_be_missing(show):
    page = show("transformer", view="steps", site="encoder.layers.0.self_attention")
    assert "The context was not kept." in page.stage.inner_text()


def test_who_points_has_no_context_to_draw(opened):
    trace = made.decode()
    signals = {name: signal for name, signal in trace.signals.items() if name.endswith("state")}
    flow = {made.SITE: pointer_network.FLOW.to_json()}
    pointer = replace(trace, signals=signals, about={**trace.about, "flow": flow})
    page = opened(pointer, hash="view=steps")
    text = page.stage.inner_text()
    assert "context" not in text and "not kept" not in text
    assert page.stage.locator(".ribbons, .at-c").count() == 0
    assert "weights are the output" in text
    heads = page.stage.locator(".steps-head").evaluate_all("all => all.map(each => each.getBoundingClientRect().left)")
    assert heads == sorted(heads) and len(set(heads)) == 6, "asks with, read, states, scores, weights, output"


def test_what_is_too_small_to_tell_is_said_to_be_less(opened):
    trace = made.decode()
    shares = torch.tensor([[0.999, 9e-4, 4e-7, 0.0]]).repeat(5, 1)
    page = opened(replace(trace, outputs=replace(trace.outputs, probability=shares)), hash="view=steps")
    told = page.stage.locator(".likely .figure-at").all_inner_texts()
    assert [text.replace("\xa0", " ") for text in told] == ["1.00", "< 0.001", "< 0.001", "0"]


@pytest.mark.parametrize("rows", [17, 31])
def test_everything_down_to_the_caption_stands_above_the_footer(opened, rows):
    labels = tuple(" a"[i % 2] for i in range(rows))
    weights = torch.full((3, rows), 1 / rows)
    tensors = {"weights": weights, "scores": torch.zeros(3, rows)}
    axes = {"source": Tokens(labels), "target": Tokens(("a", "b", "c"))}
    page = opened(
        Trace(axes, (AttentionMap(made.SITE, "target", "source", "dense", tensors, 0, keys=rows),)), hash="view=steps"
    )
    bottom = page.stage.locator("figcaption").bounding_box()
    assert bottom["y"] + bottom["height"] <= page.page.locator(".footer").bounding_box()["y"]
    signs = page.stage.locator(".steps-label").evaluate_all(INKED)
    assert signs == [], "a sign hangs into the row below"


# The labels whose ink ends in the row below: that of ␣ lies under its line.
INKED = """all => all.flatMap(label => {
  const text = label.querySelector("bdi"), row = label.closest(".steps-row").getBoundingClientRect();
  const pen = document.createElement("canvas").getContext("2d");
  const { fontSize, fontFamily } = getComputedStyle(text);
  pen.font = `${fontSize} ${fontFamily}`;
  const box = text.getBoundingClientRect(), ink = pen.measureText(text.textContent);
  const baseline = box.top + (box.height - ink.fontBoundingBoxAscent - ink.fontBoundingBoxDescent) / 2
    + ink.fontBoundingBoxAscent;
  return baseline + ink.actualBoundingBoxDescent > row.bottom ? [text.textContent] : [];
})"""


def test_in_a_saved_page_what_if_is_there_off_and_says_why(page):
    group = page.page.get_by_role("group", name="what if")
    assert "saved page" in group.inner_text()
    for button in group.get_by_role("button").all():
        assert button.is_disabled()
    slider = page.stage.get_by_role("slider").nth(1)
    before = weights_of(page)
    box = slider.bounding_box()
    page.page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2, steps=4)
    page.page.mouse.up()
    assert weights_of(page.settled()) == before


def test_a_decode_without_attention_shows_the_bottleneck(show):
    page = show("bottleneck", view="steps")
    text = page.stage.inner_text()
    assert "Everything it knows of it has passed through these 9 numbers." in text
    assert page.press("ArrowRight").count == "step 2 of 5"


def test_pictures_and_sounds_are_sources_too(show):
    assert show("picture", view="steps").stage.get_by_role("slider").count() > 0
    assert re.search(r"\d\.\d\d s", show("sound", view="steps").stage.inner_text())


def test_a_long_source_shows_what_was_looked_at_and_sums_up_the_rest(opened):
    weights = torch.full((3, 101), 0.1 / 99)
    weights[:, 7], weights[:, 50] = 0.6, 0.3
    axes = {"source": Tokens(tuple(f"s{i}" for i in range(101))), "target": Tokens(("a", "b", "c"))}
    maps = (AttentionMap(made.SITE, "target", "source", "dense", {"weights": weights}, 0, keys=101),)
    page = opened(Trace(axes, maps), hash="view=steps")
    assert re.search(r"\d+ others, together 0\.\d+", page.stage.inner_text())
    assert page.stage.get_by_role("slider").count() < 101


def test_a_bar_that_cannot_be_dragged_leaves_the_arrows_to_the_steps(page):
    page.stage.get_by_role("slider").nth(1).click(force=True)
    page.page.keyboard.press("ArrowRight")
    assert page.settled().count == f"step 2 of {len(made.WRITTEN)}"


def test_space_at_the_last_step_plays_from_the_first(show):
    page = show("decode", view="steps", step=len(made.WRITTEN) - 1)
    page.page.keyboard.press("Space")
    assert page.settled().count == f"step 1 of {len(made.WRITTEN)}"
