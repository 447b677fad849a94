"""Every number on the page comes from the trace: change the model, or one weight of a map, and the page changes with it."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import pytest
import torch

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Outputs, Trace
from tests.web import made
from tests.web.explorer import number
from tests.web.gallery import NAMES
from tests.web.made_model import seen, serving

VIEWS = ("steps", "alignment", "arcs", "beam")
STILL = {"reduced_motion": "reduce"}  # a step that moves says nothing before its last stage


def tables(page) -> dict[str, list[list[str]]]:
    """The numbers of each view: its table twin."""
    return {view: page.go(view=view).table() for view in VIEWS}


def test_changing_one_weight_of_the_bundle_changes_the_page(opened, bundle):
    changed = copy.copy(bundle)
    changed.network = copy.deepcopy(bundle.network)
    with torch.no_grad():
        changed.network.v[3] += 0.75
    (output, trace), (other_output, other) = seen(bundle), seen(changed)
    assert output == other_output, "the same words, so that the tables can be laid one on the other"
    before, after = tables(opened(trace)), tables(opened(other))
    for view in VIEWS:
        assert before[view] != after[view], view
        assert [row[0] for row in before["alignment"]] == [row[0] for row in after["alignment"]]
    assert shown(before["alignment"]) == pytest.approx(trace.maps[0].weights.flatten().tolist(), abs=6e-4)
    assert shown(after["alignment"]) == pytest.approx(other.maps[0].weights.flatten().tolist(), abs=6e-4)


def shown(table: list[list[str]]) -> list[float]:
    return [number(text) for row in table[1:] for text in row[1:]]


def nudged(trace: Trace, row: int, column: int) -> Trace:
    """The same trace with one weight of its map changed."""
    (map,) = trace.maps
    weights = map.tensors["weights"].clone()
    weights[row, column] += 0.125
    return replace(trace, maps=(replace(map, tensors={**map.tensors, "weights": weights}),))


def test_changing_one_weight_of_the_map_changes_that_number_and_no_other(opened):
    page = opened({"before": made.decode(), "after": nudged(made.decode(), 2, 4)}, hash="view=alignment")
    before = page.table()
    after = page.go(trace=1, view="alignment").table()
    different = [(r, c) for r, row in enumerate(before) for c, text in enumerate(row) if text != after[r][c]]
    assert different == [(1 + 2, 1 + 4)]


def test_the_sentence_says_the_number_of_the_trace(opened):
    page = opened({"before": made.decode(), "after": nudged(made.decode(), 2, 4)}, hash="view=alignment&step=2&key=4")
    weight = float(made.decode().maps[0].weights[2, 4])
    assert f"{weight:.2f}" in page.said
    assert f"{weight + 0.125:.2f}" in page.go(trace=1, view="alignment", step=2, key=4).said


def uniform(trace: Trace) -> Trace:
    (map,) = trace.maps
    weights = torch.full_like(map.tensors["weights"], 1 / map.keys)
    return replace(trace, maps=(replace(map, tensors={**map.tensors, "weights": weights}),))


def test_nothing_was_looked_at_most_where_all_weigh_the_same(opened):
    page = opened(uniform(made.decode()), hash="view=alignment")
    page.page.get_by_text("It looked at 7 positions alike (0.14 each) to write der.").first.wait_for()


def test_the_word_looked_at_most_is_the_one_whose_parts_weigh_most_together(opened):
    trace = made.decode()
    (map,) = trace.maps
    weights = torch.tensor([[0.1, 0.3, 0.25, 0.35, 0.0, 0.0, 0.0]]).repeat(len(made.WRITTEN), 1)
    map = replace(map, tensors={**map.tensors, "weights": weights})
    page = opened(replace(trace, maps=(map,)), hash="view=alignment")
    page.page.get_by_text("It looked at unseen (0.55) to write der.").first.wait_for()


def test_after_all_are_made_equal_the_score_is_still_the_models_own(visit, bundle):
    _, trace = seen(bundle)
    scores = trace.maps[0].tensors["scores"][0]
    with serving(bundle) as address:
        page = visit(f"{address}#view=steps&key=2")
        page.page.get_by_role("button", name="make all equal").click()
        page.page.get_by_role("region", name="what you changed").wait_for()
        page.page.get_by_text("asking the model").wait_for(state="detached")
        equation = page.settled().stage.locator(".eq-e b").inner_text()
        assert number(equation) == pytest.approx(float(scores[2]), abs=6e-3)
        assert float(scores[2]) != 0
        page.press("Escape")
        assert re.match(r"It looked at 5 positions alike \(0\.20 each\)", page.said)
        assert "set by you" in page.stage.locator(".eq-a").inner_text()


def test_a_prompt_is_given_and_not_written(opened):
    text = ("the", "dogs", "run", "<eos>")
    weights = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4]])
    axes = {"output": Tokens(text, special=(3,)), "input": Tokens(("<bos>", *text[:-1]), special=(0,))}
    outputs = Outputs(
        "output", (("run", "ran"), ("<eos>", "!")), torch.tensor([[0.6, 0.4], [0.7, 0.3]]), torch.ones(2, 2)
    )
    maps = (AttentionMap("decoder.0.self", "output", "input", "dense", {"weights": weights}, 0, keys=4),)
    about = {"output_kind": "continuation", "input": "the dogs", "output": "run"}
    for given in ({"given": 2}, {}):  # older traces do not say it
        page = opened(Trace(axes, maps, outputs=outputs, about={**about, **given}), hash="view=steps&step=1", **STILL)
        assert page.said.startswith("For dogs it looked at"), page.said
        output = page.stage.locator(".output").inner_text()
        assert "given, not written" in output and "wrote" not in output
        assert page.press("ArrowRight").said.endswith("to write run.")
        assert page.button("run", exact=True).first.get_attribute("title") is None
        assert page.button("dogs", exact=True).first.get_attribute("title") == "given, not written"


def test_a_head_has_one_number_on_the_page_in_the_address_and_in_python(show):
    page = show("transformer", view="alignment", site="decoder.layers.0.cross", head=2)
    picker = page.page.get_by_label("head").first
    assert picker.evaluate("menu => menu.selectedOptions[0].textContent") == "2"
    assert picker.locator("option").all_inner_texts()[1:] == ["0", "1", "2"]
    page.go(trace=NAMES.index("transformer"), view="heads", site="decoder.layers.0.cross", head=2)
    assert "decoder.layers.0.cross, head 2" in page.said


def test_a_point_has_the_number_on_its_row_that_the_output_gives_it(opened):
    trace = made.decode()
    page = opened(replace(trace, about={**trace.about, "counts_from": {"source": -1}}), hash="view=steps&key=3")
    places = page.stage.locator(".steps-label .place").all_inner_texts()
    assert places == ["", "0", "1", "2", "3", "4", "5"]
    assert "e1,2" in page.stage.locator(".eq-e").inner_text().replace("\n", "")


def language(stopped: str) -> Trace:
    """A recurrent language model: it has an output at every step of the prompt too, and its first step sees nothing."""
    text = ("the", "dogs", "run", "away")
    weights = torch.tensor([[0.0, 0, 0, 0], [1.0, 0, 0, 0], [0.2, 0.8, 0, 0], [0.1, 0.2, 0.7, 0]])
    scores = torch.where(weights > 0, weights.clamp_min(1e-9).log(), torch.zeros(()))
    axes = {"output": Tokens(text), "input": Tokens(("<bos>", *text[:-1]), special=(0,))}
    likely = (("some", "the"), ("cats", "cows"), ("run", "ran"), ("away", "home"))
    outputs = Outputs("output", likely, torch.tensor([[0.6, 0.4]] * 4), torch.ones(4, 2))
    maps = (
        AttentionMap("decoder.0.self", "output", "input", "dense", {"weights": weights, "scores": scores}, 0, keys=4),
    )
    about = {"output_kind": "continuation", "input": "the dogs", "output": "run away", "given": 2, "stopped": stopped}
    return Trace(axes, maps, outputs=outputs, about=about)


def test_what_was_given_is_not_among_the_likely_as_written(opened):
    page = opened(language("eos"), hash="view=steps&step=1")
    output = page.stage.locator(".output").inner_text()
    assert "given: dogs, which is not among them" in output and "written" not in output
    title = page.go(view="steps", step=0).stage.locator(".likely.chosen button").get_attribute("title")
    assert title == "This was given, not written"


def test_a_step_that_sees_nothing_has_no_weights_to_say_something_of(opened):
    page = opened(language("eos"), hash="view=steps&step=0")
    assert page.said == "For the it looked at nothing."
    assert "softmax" not in page.stage.locator("figcaption").inner_text()


@pytest.mark.parametrize(("stopped", "end"), [("eos", "which means stop"), ("length", "it was cut off")])
def test_the_tour_counts_what_was_written_and_says_why_it_ended(opened, stopped, end):
    page = opened(language(stopped), hash="view=steps&step=2")
    page.button("What am I looking at?").click()
    tour = page.page.get_by_role("dialog")
    tour.wait_for()
    while tour.get_by_role("button", name="next").count():
        tour.get_by_role("button", name="next").click()
        page.settled()
    assert "After 2 steps" in tour.inner_text() and end in tour.inner_text()


def test_a_rating_is_decided_on_and_not_written(show):
    assert show("reviews", view="alignment").said.endswith("to decide on 2.9.")


def test_a_prompt_is_given_also_where_nothing_looks(opened):
    about = {"output_kind": "continuation", "input": "der Garten", "output": "war grün", "given": 2}
    flow = {"decoder.state": {"output": ["h[t]"], "state": ["h[t]", "h[t-1]", "x[t-1]"], "word": "x"}}
    flow["decoder.state"]["recorded"] = {"h": "decoder.state"}
    trace = made.decode()
    signals = {"decoder.state": trace.signals["decoder.state"]}
    page = opened(
        replace(trace, maps=(), signals=signals, tree=None, about={**about, "flow": flow}), hash="view=steps&step=1"
    )
    share = float(trace.outputs.probability[1, 0])
    assert page.said == f"Garten was given, not written; its probability was {share:.2f}."
    assert "the input" not in page.stage.inner_text() and "look back at the words before" in page.stage.inner_text()
    assert page.press("ArrowRight").said.startswith("It wrote war")
    size, onward = (page.stage.locator(f"div{place}").bounding_box() for place in (".at-s", ".at-next"))
    label = page.stage.locator(".at-s .size").bounding_box()
    assert label["y"] + label["height"] <= onward["y"] and size["height"] > 100
