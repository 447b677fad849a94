"""Erasure: a model that goes by what it looks at loses its output when that is hidden, one that does not keeps it."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pandas as pd
import pytest
import torch
from torch import nn

import saccade
from saccade import api
from saccade.attention.core import attend
from saccade.attention.scores import dot
from saccade.data.pairs.batch import collate
from saccade.errors import SaccadeError
from saccade.explain import erasure
from saccade.recipes.recipe import read_recipe
from saccade.task import Prediction, Probabilities, Scores
from saccade.tasks.scoring import choice_scorer
from saccade.trace.edits import Mask
from saccade.trace.lens import Lens, Site
from saccade.trace.maps import Trace

pytestmark = pytest.mark.usefixtures("module_unchecked")
ASKED = "der hund ist neu"
ANIMALS = (("hund", "dog"), ("katze", "cat"), ("maus", "mouse"))
COLOURS = (("rot", "red"), ("alt", "old"), ("neu", "new"))
RECIPE = """
task: translate
data: {train: pairs.tsv, valid: pairs.tsv, test: pairs.tsv, tokens: {kind: words}, max_length: 30}
model: {name: rnnsearch, hidden: 16, embedding: 8, maxout: 8}
train: {updates: 40, batch_records: 9, lr: 0.02, device: cpu, watch: loss}
metrics: [perplexity]
"""
SCORES = (0.3, 4.0, 0.1, -1.0, 0.2, 0.0, -0.5)  # of seven positions: it looks at number 1
AXES = Site("pool", query="label", key="text")


class Judge(Scores):
    """Says "yes" by the logit that it reads: values of seven positions, weighed. It is its own bundle."""

    network = nn.Identity()

    def __init__(self, values: tuple[float, ...], *, site: Site = AXES, rows: int = 1) -> None:
        self.values, self.site, self.rows = torch.tensor(values, dtype=torch.float32).reshape(1, 7, 1), site, rows
        self.task = self

    def predict(self, *given, how=None, lens=None):
        query, key = torch.ones(1, self.rows, 1), torch.tensor(SCORES).reshape(1, 7, 1)
        looking = lens or Lens()
        read = attend(query, key, self.values, score=dot, lens=looking, site=self.site)[0, 0, 0]
        yes = float(torch.sigmoid(read))
        trace = looking.trace.labelled({}, output="yes")
        return [Prediction("yes", yes, log(yes), trace=trace, detail=Probabilities({"yes": yes, "no": 1 - yes}))]

    def scorer(self, network, given, output, *, ended=True):
        return choice_scorer(self, network, given, output)


def drops(found) -> list[float]:
    return [found["figures"][f"drop, {name}"] for name in (erasure.MOST, erasure.CHANCE, erasure.LEAST)]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> saccade.Bundle:
    home = tmp_path_factory.mktemp("erasure")
    rows = [f"der {a} ist {b}\tthe {c} is {d}\n" for a, c in ANIMALS for b, d in COLOURS]
    (home / "pairs.tsv").write_text("".join(rows * 3))
    (home / "my.yaml").write_text(RECIPE)
    return api.train(read_recipe(home / "my.yaml"), folder=home / "run")


def test_hiding_what_decides_and_is_looked_at_costs_most() -> None:
    found = erasure.curve(Judge((0, 5, 0, 0, 0, 0, 0)), "x")
    most, chance, least = drops(found)
    assert most > 0.3 > chance > least
    assert "show what the prediction depends on" in found["sentence"]


def test_a_model_that_does_not_read_what_it_weighs_loses_nothing() -> None:
    found = erasure.curve(Judge((2,) * 7), "x")  # a sum of weights is 1 whatever is hidden
    assert drops(found) == pytest.approx([0, 0, 0], abs=1e-6)
    assert "hardly changed" in found["sentence"]


def test_weights_that_cost_little_more_than_chance_are_called_weak_evidence() -> None:
    drops = {erasure.MOST: 0.3, erasure.CHANCE: 0.2, erasure.LEAST: 0.0}
    assert "weak evidence" in erasure._sentence(drops, per_step=True)
    assert "at each step" in erasure._sentence(drops, per_step=True)
    assert "show what" in erasure._sentence({**drops, erasure.MOST: 0.4}, per_step=False)
    assert "do not show" in erasure._sentence({**drops, erasure.MOST: 0.2}, per_step=False)


def test_hiding_may_make_an_output_more_likely_and_no_drop_is_minus_nothing() -> None:
    drops = {erasure.MOST: -0.3, erasure.CHANCE: -0.001, erasure.LEAST: 0.0}
    rose = erasure._sentence(drops, per_step=False)
    assert "raised the probability of the output by 0.30" in rose and "do not show" in rose
    assert "-0.00" not in erasure._sentence({**drops, erasure.MOST: -0.001}, per_step=False)
    assert "random positions by 0.00" in erasure._sentence({**drops, erasure.MOST: 0.3}, per_step=False)


def test_the_first_point_is_the_untouched_output_and_k_doubles_to_half_of_the_positions() -> None:
    judge = Judge((0, 5, 0, 0, 0, 0, 0))
    curves = erasure.curve(judge, "x")["curves"]
    assert [each["x"] for each in curves] == [[0, 1, 2]] * 3
    untouched = judge.predict(["x"])[0].score
    assert [each["y"][0] for each in curves] == pytest.approx([untouched] * 3)


def test_each_point_is_what_the_model_says_under_these_masks() -> None:
    judge = Judge((0, 5, 1, -2, 3, 1, 0.5))
    most = erasure.curve(judge, "x")["curves"][0]
    masked = judge.predict(["x"], lens=Lens(edits=[Mask((1, 0), site="pool", step=0)]))[0].score
    assert most["y"][2] == pytest.approx(masked)


def test_where_no_step_of_the_output_looks_positions_are_hidden_from_all() -> None:
    inside = Site("encoder", query="text", key="text")
    judge = Judge((0, 5, 0, 0, 0, 0, 0), site=inside, rows=7)
    found = erasure.curve(judge, "x")
    assert drops(found)[0] > 0.3
    assert found["curves"][0]["x_label"] == "positions hidden"


def test_random_draws_come_from_the_seed_alone() -> None:
    judge = Judge((0, 5, 1, -2, 3, 1, 0.5))
    assert erasure.curve(judge, "x", seed=3) == erasure.curve(judge, "x", seed=3)
    assert erasure.curve(judge, "x", seed=3) != erasure.curve(judge, "x", seed=4)


def test_an_untouched_text_is_as_likely_as_its_search_said(bundle) -> None:
    made = bundle.predict([ASKED], lens=Lens())[0]
    found = erasure.curve(bundle, ASKED, draws=1)
    tokens = len(made.trace.axes["target"])
    assert made.stopped == "eos"
    assert found["curves"][0]["y"][0] == pytest.approx(exp(made.log_prob / tokens), rel=1e-4)


def test_a_text_under_masks_is_as_likely_as_when_it_is_forced_under_them(bundle) -> None:
    made = bundle.predict([ASKED], lens=Lens())[0]
    weights = made.trace.map().weights
    hidden = [Mask((int(row.argmax()),), step=step) for step, row in enumerate(weights)]
    forced = bundle.predict([ASKED], lens=Lens(edits=hidden), prefix=made.value)[0]
    assert forced.value == made.value, "the search under masks goes on after the output: choose another input"
    most = erasure.curve(bundle, ASKED, draws=1)["curves"][0]
    assert most["y"][1] == pytest.approx(exp(forced.log_prob / len(weights)), rel=1e-4)


def test_an_output_that_did_not_end_is_tested_without_an_end_however_long_it_is(bundle, monkeypatch) -> None:
    written = "the dog is red " * 9  # 36 tokens, where data.max_length is 30
    curves = erasure.curve(bundle, ASKED, written.strip(), ended=False, draws=1)["curves"]
    tokens = bundle.task.target.encode(written.strip())
    batch = collate([(bundle.task.source.encode(ASKED), tokens)], [0])
    with torch.no_grad():
        logits = bundle.network.eval()(batch.source, batch.source_lengths, batch.target_in)[0].log_softmax(-1)
    likely = [float(logits[step, token]) for step, token in enumerate(tokens)]
    assert curves[0]["y"][0] == pytest.approx(exp(sum(likely) / 36), rel=1e-4)
    seen: dict = {}
    monkeypatch.setattr(erasure, "curve", lambda *_, **options: seen.update(options) or {})
    for stopped in ("length", "eos"):
        erasure.tested(bundle, ASKED, Trace(about={"output": "the dog", "stopped": stopped}))
        assert seen["ended"] is (stopped == "eos")


def test_one_input_may_lie_in_a_table_or_a_dict(bundle) -> None:
    curves = erasure.curve(bundle, ASKED, draws=2)
    for given in ({"source": ASKED}, {"source": [ASKED], "id": [7]}, pd.DataFrame({"source": [ASKED]})):
        assert erasure.curve(bundle, given, draws=2) == curves
    with pytest.raises(SaccadeError, match="given: expected one input, found a DataFrame of 3"):
        erasure.curve(bundle, pd.DataFrame({"source": [ASKED] * 3}))


def test_a_tested_trace_carries_its_curves_and_nothing_else_changes(bundle) -> None:
    trace = bundle.predict([ASKED], lens=Lens())[0].trace
    told = erasure.tested(bundle, ASKED, trace)
    assert told.about["faithfulness"] == erasure.curve(bundle, ASKED, trace.about["output"])
    assert told.maps is trace.maps
    assert {name: told.about[name] for name in trace.about} == dict(trace.about)


class Blind(Judge):
    def predict(self, *given, how=None, lens=None):
        return [replace(made, trace=Trace(about=made.trace.about)) for made in super().predict(*given, lens=lens)]


def test_a_model_that_looks_at_nothing_and_an_unknown_label_are_refused() -> None:
    with pytest.raises(SaccadeError, match="no attention on its input"):
        erasure.curve(Blind((1,) * 7), "x")
    with pytest.raises(SaccadeError, match=r"expected one of .*yes, no, found 'perhaps'"):
        erasure.curve(Judge((1,) * 7), "x", "perhaps")
    with pytest.raises(SaccadeError, match="draws must be at least 1"):
        erasure.curve(Judge((1,) * 7), "x", draws=0)
