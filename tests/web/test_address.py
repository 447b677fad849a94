"""The address remembers what was asked, edits and all; “back” goes back to the tab and the question before."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, quote

import pytest

from saccade.trace.edits import Even, Mask
from tests.web import made
from tests.web.made_model import INPUT, seen, serving

SITE = "decoder.attention"


@pytest.fixture(scope="module")
def address(bundle):
    with serving(bundle) as address:
        yield address


@pytest.fixture
def page(visit, address):
    page = visit(f"{address}#view=steps")
    page.asked = []
    page.page.on(
        "request", lambda request: page.asked.append(request.post_data_json) if request.method == "POST" else None
    )
    return page


def answered(page) -> str:
    page.page.get_by_role("region", name="what you changed").wait_for()
    page.page.get_by_text("asking the model").wait_for(state="detached")
    return page.settled().page.locator(".outcome .now .written").inner_text()


def unchanged(page) -> None:
    page.page.get_by_role("region", name="what you changed").wait_for(state="detached")
    page.settled()


def changes(page) -> str:
    return page.page.get_by_role("list", name="your changes").inner_text()


def weights_of(page) -> list[float]:
    sliders = page.stage.get_by_role("slider")
    return [float(each) for each in sliders.evaluate_all("all => all.map(one => one.getAttribute('aria-valuenow'))")]


def make_even(page) -> str:
    page.page.get_by_role("button", name="make all equal").click()
    return answered(page)


def test_edits_are_there_again_after_a_reload_and_for_who_opens_the_address(page, visit, bundle):
    page.press("ArrowRight")
    make_even(page)
    page.page.get_by_label("begin with").fill("the cat")
    page.button("go").click()
    page.page.get_by_text("begins with").wait_for()
    output = answered(page)
    assert output == seen(bundle, Even(site=SITE, step=1, head=0), prefix="the cat")[0]
    (edit,) = json.loads(parse_qs(page.address[1:])["x.edits"][0])
    assert (edit["edit"], edit["step"]) == ("even", 1)
    weights, said = weights_of(page), changes(page)
    page.page.reload()
    assert (answered(page), weights_of(page), changes(page)) == (output, weights, said)
    other = visit(page.page.url)
    assert (answered(other), weights_of(other), changes(other)) == (output, weights, said)
    before = other.page.locator(".outcome .written").first.inner_text()
    assert before == seen(bundle)[0], "what was before the change is known too"


def test_an_input_is_there_again_after_a_reload_at_the_step_that_was_looked_at(page, bundle):
    page.page.get_by_role("textbox", name="input").fill("der maus ist neu")
    page.page.keyboard.press("Enter")
    page.stage.get_by_role("slider", name="maus").wait_for()
    for _ in range(2):
        page.button("next step").click()
    make_even(page)
    weights = weights_of(page)
    page.page.reload()
    answered(page)
    assert page.stage.get_by_role("slider", name="maus").count() == 1
    assert page.count.startswith("step 3 of") and weights_of(page) == weights


def test_back_goes_through_tabs_inputs_and_edits_and_forward_again(page):
    first = weights_of(page)
    page.tab("Alignment").tab("Arcs").tab("Steps")
    make_even(page)
    asked = len(page.asked)
    page.page.go_back()
    unchanged(page)
    assert weights_of(page) == first
    for title in ("Arcs", "Alignment"):
        page.page.go_back()
        assert page.settled().stage.get_attribute("aria-label") == title
    for _ in range(3):
        page.page.go_forward()
        page.settled()
    answered(page)
    assert weights_of(page) == pytest.approx([0.2] * 5, abs=1e-4)
    assert len(page.asked) == asked, "answers are remembered"
    page.page.get_by_role("textbox", name="input").fill("die katze ist alt")
    page.page.keyboard.press("Enter")
    page.stage.get_by_role("slider", name="katze").wait_for()
    page.page.go_back()
    answered(page)
    assert page.page.get_by_role("textbox", name="input").input_value() == INPUT


def test_back_leaves_no_step_behind(opened):
    page = opened(made.decode(), hash="view=steps")
    length = page.page.evaluate("history.length")
    page.press("ArrowRight", "ArrowRight")
    assert page.page.evaluate("history.length") == length
    page.tab("Alignment").press("ArrowLeft")
    assert page.page.evaluate("history.length") == length + 1
    page.page.go_back()
    assert page.settled().count == "step 3 of 5"


def test_undo_takes_back_one_change_after_the_other_whatever_they_were(page):
    first = weights_of(page)
    assert page.button("undo").is_disabled()
    make_even(page)
    page.press("ArrowRight")
    second = weights_of(page)
    page.page.get_by_role("group", name="what if").get_by_role("button", name="hide").click()
    page.page.get_by_text("is hidden at step 2").wait_for()
    answered(page)
    page.button("take all back").click()
    unchanged(page)
    page.button("undo").click()
    answered(page)
    assert "is hidden at step 2" in changes(page)
    page.page.keyboard.press("Control+z")
    page.page.get_by_text("is hidden at step 2").wait_for(state="detached")
    assert weights_of(page.settled()) == second
    page.button("undo").click()
    unchanged(page)
    assert weights_of(page.press("ArrowLeft")) == first
    assert page.button("undo").is_disabled()


def test_undo_after_a_reload_takes_the_last_change_of_the_address_back(visit, address):
    edits = [Even(site=SITE, step=0).to_json(), Mask((1,), site=SITE, step=2).to_json()]
    page = visit(f"{address}#view=steps&x.edits={quote(json.dumps(edits))}")
    answered(page)
    page.button("undo").click()
    page.page.get_by_text("is hidden").wait_for(state="detached")
    assert "all weigh the same at step 1" in changes(page.settled())


@pytest.mark.parametrize("edits", ["nonsense", "[1, null, {}]", '[{"edit": "open", "row": 3}]', '[{"edit": "mask"}]'])
def test_edits_that_cannot_be_read_change_nothing(visit, address, bundle, edits):
    page = visit(f"{address}#view=steps&x.edits={quote(edits)}")
    assert weights_of(page) == pytest.approx(seen(bundle)[1].maps[0].weights[0].tolist(), abs=1e-4)
    assert page.page.get_by_role("alert").count() == 0


def test_after_an_error_the_old_picture_goes_and_one_click_brings_the_last_answer_back(page, complaints):
    page.page.get_by_role("textbox", name="input").fill("x" * 20_001)
    page.button("run").click()
    page.page.get_by_role("alert").wait_for()
    page.page.get_by_text("no picture of it").wait_for()
    assert page.stage.count() == 0, "what is shown would be of another input"
    assert page.page.locator(".readout").count() == 0
    assert all("422" in told for told in complaints)
    complaints.clear()
    page.button("back to the last answer").click()
    assert page.settled().stage.get_attribute("aria-label") == "Steps"
    assert page.page.get_by_role("textbox", name="input").input_value() == INPUT
    assert page.page.get_by_role("alert").count() == 0


def test_edits_of_an_address_that_the_model_refuses_are_told_and_nothing_is_shown_as_theirs(visit, address, complaints):
    edits = [Mask((99,), site="elsewhere").to_json()]
    page = visit(f"{address}#view=steps&x.edits={quote(json.dumps(edits))}")
    page.page.get_by_role("alert").wait_for()
    assert "elsewhere" in page.page.get_by_role("alert").inner_text()
    assert page.stage.count() == 0
    complaints.clear()
