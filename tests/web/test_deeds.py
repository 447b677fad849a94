"""Who tags, ranks or decides writes nothing: the page says what each did, and lists what it chose among."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from saccade.data.labels.records import Labelled, LabelledData
from saccade.data.rankings.records import Ranked, RankedData
from saccade.data.tags.records import Tagged, TaggedData
from saccade.models import attentive_classifier, attentive_tagger, siamese
from saccade.nn.search.beam_search import Search
from saccade.tasks.classify import Classify
from saccade.tasks.label import Label
from saccade.tasks.rank import Rank
from saccade.trace import Lens
from saccade.trace.maps import Trace
from tests.web import made

TOWNS = [
    Tagged(("She", "lives", "in", "Lisbon"), ("O", "O", "O", "B-LOC")),
    Tagged(("New", "York"), ("B-LOC", "I-LOC")),
]
FACTS = [Ranked("who is a nurse ?", ("rosa is one", "no"), (1.0, 0.0)), Ranked("who ?", ("no", "me"), (0.0, 1.0))]
OPINIONS = [Labelled("a lovely film", "praise"), Labelled("a dull film", "blame")]
WRITING = ("write", "wrote", "written", "begin with", "decoder", "not among them", "next piece")


def seen(task, network_class, config, given) -> tuple[object, Trace]:
    """What a network that was never trained says, and the trace as a page shows it."""
    torch.manual_seed(5)
    made = task.network(network_class, config).eval()
    (found,) = task.predict(
        made, [given], how=Search(), lens=Lens("all", detail=("outputs", "state", "scores", "context"))
    )
    return found.value, found.trace


def tagged(attention: str = "scaled_dot") -> tuple[object, Trace]:
    task = Label.learn(TaggedData(train="x", scheme="bio", learn="bioes"), TOWNS)
    config = attentive_tagger.Config(5, characters="none", hidden=3, attention=attention, dropout=0.0)
    return seen(task, attentive_tagger.AttentiveTagger, config, "She lives in New Lisbon")


def ranked() -> tuple[object, Trace]:
    task = Rank.learn(RankedData(train="x"), FACTS)
    config = siamese.Config(5, encoder="gru", hidden=4, mlp=3, compare="alignment")
    return seen(task, siamese.Siamese, config, "who is rosa ?\trosa is one\tnot one\tme or rosa")


def decided(pool: str) -> tuple[object, Trace]:
    task = Classify.learn(LabelledData(train="x"), OPINIONS)
    config = attentive_classifier.Config(5, encoder="gru", hidden=4, pool=pool)
    return seen(task, attentive_classifier.AttentiveClassifier, config, "a lovely film")


def listed(page) -> tuple[list[str], list[str]]:
    """What was likely, and which of it is marked as what came out."""
    likely = page.stage.locator(".likely")
    return likely.locator("button").all_inner_texts(), page.stage.locator(".likely.chosen button").all_inner_texts()


@pytest.mark.parametrize("attention", ["scaled_dot", "none"])
def test_at_each_word_the_tag_that_was_said_is_marked_among_those_of_the_file(opened, attention):
    tags, trace = tagged(attention)
    page = opened(trace, hash="view=steps", reduced_motion="reduce")  # a step at once, not in stages
    for step, tag in enumerate(tags):
        page.go(view="steps", step=step)
        names, chosen = listed(page)
        assert sorted(names) == ["B-LOC", "I-LOC", "O"] and chosen == [tag]
        assert f"[{tag}]" in page.said and "tag" in page.said


def test_the_candidate_that_was_scored_is_marked_and_its_score_is_said(opened):
    best, trace = ranked()
    page = opened(trace, hash="view=steps")
    names, chosen = listed(page)
    assert sorted(names) == ["me or rosa", "not one", "rosa is one"] and chosen == [best]
    assert page.said.endswith(f"to score the candidate {trace.about['score']:.3f}.")
    page.go(view="steps", site="alignment")
    assert page.said.startswith(f"For {best.split()[0]} it looked")
    assert listed(page) == ([], []) and "the comparison m of this word" in page.stage.inner_text()
    assert f"To score the candidate {trace.about['score']:.3f} it" in page.go(view="document", site="candidate").said


def test_a_score_without_a_list_is_said(opened):
    _, trace = ranked()
    trace = Trace(trace.axes, trace.maps, about=trace.about)
    text = opened(trace, hash="view=steps").stage.inner_text()
    assert f"scored {trace.about['score']:.2f}" in text.split("\n")


@pytest.mark.parametrize("pool", ["mean", "last"])
def test_a_classifier_that_does_not_look_has_states_and_a_label(opened, pool):
    label, trace = decided(pool)
    page = opened(trace, hash="view=steps")
    heads = page.stage.locator(".steps-head button").all_inner_texts()
    assert [head.split()[0] for head in heads] == ["text", "states", "output"]
    assert listed(page) == (list(trace.about["probabilities"]), [label])
    assert "no attention" in page.stage.inner_text() and page.said.startswith(f"It decided on {label}")
    assert page.page.get_by_role("group", name="what if").count() == 0, "there is nothing to change"


MADE = {
    "tagger": tagged,
    "tagger that does not look": lambda: tagged("none"),
    "ranker": ranked,
    "classifier": lambda: decided("additive"),
    "classifier that does not look": lambda: decided("mean"),
}


@pytest.mark.parametrize("name", MADE)
def test_nothing_is_said_to_be_written_on_the_page_or_the_tour(opened, name):
    _, trace = MADE[name]()
    page = opened(trace, hash="view=steps")
    told = page.page.locator("body").inner_text()
    page.button("What am I looking at?").click()
    tour = page.page.get_by_role("dialog")
    tour.wait_for()
    while tour.count():
        told += tour.inner_text()
        tour.get_by_role("button", name="next").or_(tour.get_by_role("button", name="done")).click()
        page.settled()
    assert [word for word in WRITING if word in told.lower()] == []
    assert page.faults() == []


def toured(page) -> list[str]:
    """What the tour says, stop by stop."""
    page.button("What am I looking at?").click()
    tour, said = page.page.get_by_role("dialog"), []
    tour.wait_for()
    while tour.count():
        said.append(tour.inner_text())
        tour.get_by_role("button", name="next").or_(tour.get_by_role("button", name="done")).click()
        page.settled()
    return said


def test_the_context_of_a_tagged_word_is_shown(opened):
    _, trace = tagged()
    page = opened(trace, hash="view=steps")
    context = trace.signals["attention.context"].values
    assert "not kept" not in page.stage.inner_text()
    assert f"{context.shape[1]} numbers" in page.stage.locator(".at-c.vector").inner_text()


def test_of_a_ranker_the_score_is_computed_from_the_context_and_not_the_probability(opened):
    _, trace = ranked()
    text = opened(trace, hash="view=steps").stage.inner_text()
    assert "The candidate’s score is computed from" in text and "The output is computed from" not in text
    assert "score1 = g(" in text.replace("\n", "")


def test_the_tour_says_no_output_where_none_is_read_off(opened):
    trace = made.decode()
    trace = replace(
        trace, about={**trace.about, "flow": {made.SITE: {"query": ["u"], "into": "the vector of its sentence"}}}
    )
    output = next(each for each in toured(opened(trace, hash="view=steps")) if each.startswith("Output"))
    assert "No output is read off here: the context goes into the vector of its sentence." in output
    assert "how likely" not in output


def test_the_tour_calls_weights_a_softmax_only_where_that_was_checked(opened):
    _, trace = decided("additive")
    assert any("Softmax" in each for each in toured(opened(trace, hash="view=steps")))
    (map,) = trace.maps
    bare = replace(map, tensors={"weights": map.tensors["weights"]})
    assert not any("Softmax" in each for each in toured(opened(replace(trace, maps=(bare,)), hash="view=steps")))
