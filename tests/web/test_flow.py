"""Steps draws the flow that the model declares, and claims nothing where a model declares none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saccade.models import han, luong
from saccade.trace.maps import Trace
from tests.web import made


def declared(flow: dict | None) -> Trace:
    trace = made.decode()
    about = {name: part for name, part in trace.about.items() if name != "flow"}
    return replace(trace, about=about if flow is None else {**about, "flow": {made.SITE: flow}})


def text_of(page, place: str) -> str:
    return " ".join(page.stage.locator(f"div{place}, p{place}").inner_text().split())


def test_rnnsearch_asks_with_the_state_of_the_step_before_and_moves_after_it_wrote(opened):
    page = opened(made.decode(), hash="view=steps&step=2")
    asks = text_of(page, ".at-q")
    assert "s2 → e, p3, s3" in asks and "y2 Garten → p3, s3" in asks
    assert page.stage.get_by_role("img", name="s2, which step 3 has before it reads").count() == 1
    assert "Then the state moves: s3 = f(s2, y2, c3)" in text_of(page, ".at-next")
    assert "The next step has s3 and y3 war" in text_of(page, ".at-next")
    assert "p3 = g(s2, y2, c3)" in text_of(page, ".eq-p")
    assert page.stage.locator(".at-s").count() == 0, "nothing stands between the context and the output"
    places = page.stage.locator("div.at-q, .steps-row .at-e, div.at-c, div.at-p").evaluate_all(
        "all => [...new Set(all.map(each => each.getBoundingClientRect().left))]"
    )
    assert places == sorted(places) and len(places) == 4


def test_the_strip_at_the_left_holds_the_state_of_the_step_before(opened):
    """Each number a cell: the page's own drawing of the first and the second state differ as those of the trace do."""
    trace = made.decode()
    state = trace.signals["decoder.state"]
    same = replace(state, values=state.values[:1].repeat(len(state.values), 1))
    page = opened({"as it is": trace, "all alike": replace(trace, signals={**trace.signals, "decoder.state": same})})

    def drawn(number: int, step: int) -> str:
        page.go(trace=number, view="steps", step=step)
        return page.stage.locator(".at-q canvas").evaluate("canvas => canvas.toDataURL()")

    assert drawn(1, 1) == drawn(1, 2), "steps 2 and 3 have states 1 and 2, which are alike"
    assert drawn(0, 1) == drawn(1, 1), "step 2 has state 1"
    assert drawn(0, 2) != drawn(1, 2)


def test_luong_moves_first_and_asks_with_the_new_state(opened):
    page = opened(declared(luong.FLOW.to_json()), hash="view=steps&step=2")
    assert "h3 → e, p3" in text_of(page, ".at-q")
    assert "First the state moves: h3 = f(h2, y2, h̃2)" in text_of(page, ".at-next")
    assert "p3 = g(c3, h3)" in text_of(page, ".eq-p")
    assert "tanh(W h3 + U h̄" in text_of(page, ".eq-e")


def test_a_trace_that_declares_nothing_is_drawn_without_the_claim(opened):
    page = opened(declared(None), hash="view=steps&step=2")
    assert page.stage.locator(".at-q, .at-s").count() == 0
    assert page.stage.get_by_role("slider").count() == len(made.READ)
    assert "g(" not in text_of(page, ".eq-p") and "f(" not in page.stage.inner_text()
    assert "computed from" not in page.stage.inner_text()
    assert "The state that was kept of this step" in text_of(page, ".at-next")


def test_a_context_that_goes_elsewhere_does_not_appear_to_decide(opened):
    flow = han.WORDS.flow.to_json()
    page = opened(declared(flow), hash="view=steps&step=2")
    assert page.stage.locator(".likely").count() == 0
    assert "the context goes into the vector of its sentence" in text_of(page, ".at-p")
    assert page.sideways() == []


@pytest.mark.parametrize("flow", [{"output": 3, "query": "s"}, {"recorded": []}, [], "x", {"state": [None]}])
def test_a_declaration_that_cannot_be_read_claims_nothing(opened, flow):
    page = opened(declared(flow), hash="view=steps&step=2")
    assert page.stage.get_by_role("slider").count() == len(made.READ)


def test_what_the_step_begins_with_stands_above_the_rows_on_a_narrow_page(opened):
    page = opened(made.decode(), hash="view=steps&step=2", width=390)
    above = page.stage.locator("div.at-q").bounding_box()
    row = page.stage.locator(".steps-row").first.bounding_box()
    assert above["y"] + above["height"] <= row["y"]
    assert above["width"] > 300


def test_without_attention_the_state_moves_before_the_output_that_is_computed_from_it(opened):
    flow = made.bottleneck().about["flow"]["decoder.state"]
    assert flow["state"][0] in flow["output"]
    page = opened(made.bottleneck(), hash="view=steps&step=2")
    assert "First the state moves: s3 = " in text_of(page, ".at-next")


def test_the_context_is_the_sum_of_what_is_read_not_of_what_is_scored(opened):
    flow = {"query": ["x[t]"], "key": "x[j]", "output": ["c[t]", "h[t]"], "recorded": {"h": "encoder.state"}}
    page = opened(declared(flow), hash="view=steps&step=2&key=1")
    assert text_of(page, ".eq-e").startswith("e3,2 = v⊤ tanh(W x3 + U x2)")
    assert text_of(page, ".eq-c") == "c3 = Σi α3,i hi", "the states that were kept add up to it"
    assert page.stage.locator(".at-h.steps-head").inner_text().split()[-1] == "h"
