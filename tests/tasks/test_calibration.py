"""A calibrated classifier: the temperature is kept, predictions go by it, answers and losses do not change."""

from __future__ import annotations

import json
import math

import pytest
import torch

from saccade.data.labels.records import Labelled, LabelledData
from saccade.errors import InputError
from saccade.models.attentive_classifier import AttentiveClassifier, Config
from saccade.nn.search.beam_search import Search
from saccade.tasks.calibration import CALIBRATION, Calibration, differences, fitted
from saccade.tasks.classify import Classify

RECORDS = [Labelled(f"word{n % 5} word{n % 7} end", "pos" if (n % 5 < 2) ^ (n % 11 == 0) else "neg") for n in range(60)]
DATA = LabelledData(train="x")


@pytest.fixture
def task() -> Classify:
    return Classify.learn(DATA, RECORDS)


@pytest.fixture
def network(task: Classify) -> AttentiveClassifier:
    made = task.network(AttentiveClassifier, Config(5, encoder="gru", hidden=4))
    with torch.no_grad():
        made.output.weight.mul_(20)
    return made.eval()


def test_a_prediction_is_the_softmax_of_the_logits_over_the_temperature(task, network) -> None:
    before = task.predict(network, [record.source for record in RECORDS], how=Search())
    task.calibration = Calibration(2.5, 7, "valid")
    after = task.predict(network, [record.source for record in RECORDS], how=Search())
    assert [each.value for each in before] == [each.value for each in after]
    for one, other in zip(before, after):
        odds = [math.log(each.probabilities["pos"] / each.probabilities["neg"]) for each in (one, other)]
        assert odds[1] == pytest.approx(odds[0] / 2.5, rel=1e-4, abs=1e-6)
        assert other.score == other.probabilities[other.value] and other.log_prob == pytest.approx(
            math.log(other.score)
        )


def test_figures_go_by_it_and_the_loss_does_not(task, network) -> None:
    corpus = task.corpus(RECORDS, "x")
    logits = task.logits_of(network, corpus)
    names = ("accuracy", "f1", "ece", "nll")

    def figures() -> dict[str, float]:
        return dict(task.evaluate(network, corpus, how=Search(), metrics=names).figures)

    before, loss = figures(), task.loss(network, task.batch(corpus, range(9))).mean.item()
    task.calibration = fitted(logits, task.targets_of(corpus), "x")
    after = figures()
    assert (after["accuracy"], after["f1"]) == (before["accuracy"], before["f1"])
    assert after["nll"] < before["nll"] and after["ece"] != before["ece"]
    assert task.loss(network, task.batch(corpus, range(9))).mean.item() == loss
    changed, bins = differences(task.calibration, logits, task.targets_of(corpus))
    for when, found in (("before", before), ("after", after)):
        assert changed[when]["nll"] == pytest.approx(found["nll"]) and bins[when].counts.sum() == len(RECORDS)
        assert changed[when]["ece"] == pytest.approx(found["ece"])


def test_the_logits_of_a_corpus_stand_in_its_order(task, network) -> None:
    mixed = [Labelled("end " * (n % 7 + 1) + f"word{n % 5}", "pos") for n in range(20)]
    corpus = task.corpus(mixed, "x")
    found = task.logits_of(network, corpus)
    for number in (0, 6, 19):
        alone = task.logits_of(network, task.corpus([mixed[number]], "x"))
        torch.testing.assert_close(found[number : number + 1], alone)


def test_a_bundle_keeps_it_and_a_run_that_begins_from_it_does_not(task, network) -> None:
    assert CALIBRATION not in task.files()
    task.calibration = Calibration(0.7, 9, "valid", {"valid": {"before": {"ece": 0.5}, "after": {"ece": 0.25}}})
    kept = Classify.restore(DATA, task.files())
    assert kept.calibration == task.calibration
    assert Classify.continue_from(DATA, RECORDS, task.files()).calibration is None
    assert (
        "divided by 0.7000, fitted on 9 records (valid); ece on valid 0.5000 before, 0.2500 after"
        in kept.calibration.described
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temperature": 0}, "temperature: expected a number above 0, found 0"),
        ({"temperature": math.nan}, "temperature: expected a number above 0, found nan"),
        ({"temperature": "warm"}, "temperature: expected a number, found 'warm'"),
        ({"method": "isotonic"}, "method: expected one of 'temperature', found 'isotonic'"),
        ({"records": None}, "records: expected a whole number, found null"),
    ],
)
def test_a_file_that_is_not_a_calibration_is_refused(change, said) -> None:
    plain = json.loads(Calibration(0.7, 9, "valid").to_json()) | change
    with pytest.raises(InputError, match=r"calibration\.json") as caught:
        Calibration.among({CALIBRATION: json.dumps(plain)})
    assert said in str(caught.value)
