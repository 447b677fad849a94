"""The task visits: outcomes of patients, what each code contributes to them, and a run that keeps no patient's record."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import saccade
from saccade import api
from saccade.data.toy.visits import CAUSE, EXAMPLES, Cohort, deciding
from saccade.data.visits.batch import IGNORED
from saccade.data.visits.records import Patient, Visit, VisitColumns, VisitData
from saccade.errors import InputError, SaccadeError
from saccade.explain.erasure import _looked, curve
from saccade.metrics.outcomes import auc
from saccade.models.retain import Config, Retain
from saccade.models.rnnsearch import Config as TextConfig
from saccade.models.rnnsearch import RNNSearch
from saccade.models.visit_baselines import GruConfig, LogisticConfig, VisitGru, VisitLogistic
from saccade.nn.search.beam_search import Search
from saccade.task import Scores
from saccade.tasks.visits import VisitTask
from saccade.testing import check_task
from saccade.trace.edits import Mask
from saccade.trace.lens import Lens

COHORT = VisitData(source="visits", visits=Cohort(train=23, valid=7, test=9))
EVERY = VisitData(source="visits", visits=Cohort(train=23, valid=7, test=9), at="every")
SMALL = Config(embedding=5, alpha=3, beta=7, time="log")
NETWORKS = [(Retain, SMALL), (VisitGru, GruConfig(5, 3, time="log")), (VisitLogistic, LogisticConfig())]
NAMES = [network.__name__ for network, _ in NETWORKS]


def made(data: VisitData = COHORT, network: Any = Retain, config: Any = SMALL) -> tuple[VisitTask, Any, Any]:
    splits = VisitTask.load(data, Path("."), 1)
    task = VisitTask.learn(data, splits.train)
    made = task.network(network, config).eval()
    for parameter in made.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    with torch.no_grad():
        made.embedding.weight[0] = 0.0
    return task, made, splits


@pytest.mark.parametrize(("network", "config"), NETWORKS, ids=NAMES)
@pytest.mark.parametrize("data", [COHORT, EVERY], ids=["end", "every"])
def test_the_task_keeps_its_promises(data: VisitData, network: Any, config: Any) -> None:
    assert check_task("visits", data, network, config)


def test_erasing_what_the_last_visit_looked_at_is_measured_from_a_trace() -> None:
    task, network, _ = made()
    given = {"visits": [{"time": f"2020-01-0{day}", "codes": [CAUSE]} for day in (1, 3, 4, 7)]}
    (prediction,) = task.predict(network, [given], how=Search(), lens=Lens())
    bundle = SimpleNamespace(task=task, network=network)
    found = curve(bundle, given, prediction.trace.about["output"])  # as `saccade view --truth` passes it
    assert found["figures"]["probability of its output"] == pytest.approx(prediction.probabilities["outcome"], rel=1e-5)
    last = prediction.trace.maps[0].weights[-1]
    scored = task.scorer(network, given, None)(Lens())
    assert torch.equal(_looked(scored).weights[0], last), "weights of the last visit, not the mean over all"


def test_an_outcome_that_all_or_no_training_patients_have_is_refused_before_training() -> None:
    patients = [Patient((Visit("2020-01-01", ("x",)),), (0,), str(number)) for number in range(3)]
    with pytest.raises(InputError, match=r"with and without the outcome outcome, found 3 records, all without it"):
        VisitTask.learn(VisitData(train="unused"), patients)


# A record becomes a batch, a batch a loss -------------------------------------------------------------------------


@pytest.mark.parametrize("data", [COHORT, EVERY], ids=["end", "every"])
def test_the_loss_is_the_log_probability_of_the_outcomes_and_padding_weighs_nothing(data: VisitData) -> None:
    task, network, splits = made(data)
    corpus = task.corpus(splits.train, "data.train")
    numbers = [0, 5, 3]
    batch = task.batch(corpus, numbers)
    losses = []
    for found, record in zip(task.probabilities(network, corpus), splits.train, strict=True):
        true = found[:, 0] if record.target[0] else 1 - found[:, 0]
        losses.append(-np.log(true).sum())
    expected = sum(losses[number] for number in numbers)
    for each in (batch, batch.bucketed()):
        loss = task.loss(network, each)
        assert loss.total.item() == pytest.approx(expected, rel=1e-4)
        assert loss.count == (3 if data is COHORT else sum(len(splits.train[number].source) for number in numbers))
    assert (batch.bucketed().outcomes == IGNORED).any() and batch.bucketed().codes.shape[0] == 8


def test_smoothing_moves_the_targets_towards_a_half() -> None:
    task, network, splits = made()
    corpus = task.corpus(splits.train, "data.train")
    batch = task.batch(corpus, range(7))
    plain, wrong = task.loss(network, batch).total, 0.0
    flipped = task.batch(corpus, range(7))
    flipped.outcomes.mul_(-1).add_(1)
    wrong = task.loss(network, flipped).total
    torch.testing.assert_close(task.loss(network, batch, smoothing=0.2).total, 0.9 * plain + 0.1 * wrong)


def test_codes_are_learnt_from_training_records_and_rare_ones_are_not_read() -> None:
    records = [
        Patient((Visit("0", ("a", "b")), Visit("1", ("a",))), (1,)),
        Patient((Visit("0", ("b",)),), (0,)),
    ]
    data = VisitData(train="x", min_count=2)
    assert VisitTask.learn(VisitData(train="x"), records).codes == ("a", "b")
    task = VisitTask.learn(data, records)
    assert task.codes == ("b",)  # a is in two visits of one patient
    corpus = task.corpus(records, "data.train")
    assert corpus.rows[0][0] == ([[1], []], [0.0, 1.0])
    assert "2 of 4 codes" in task.unknown_tokens(corpus)[0]
    assert "2 patients, 3 visits, 1 with outcome" in corpus.note


def test_long_records_keep_their_last_visits_or_are_refused() -> None:
    record = Patient(tuple(Visit(str(day), (f"c{day}",)) for day in range(5)), (1,))
    task = VisitTask.learn(VisitData(train="x", max_visits=3), [record])
    corpus = task.corpus([record], "data.train")
    assert corpus.costs == [3] and "1 of 1 patients cut" in corpus.cut and corpus.rows[0][0][1] == [0.0, 1.0, 2.0]
    assert [visit.time for visit in task.read(record, "input 1").visits] == ["2", "3", "4"]
    strict = VisitTask.learn(VisitData(train="x", max_visits=3, too_long="error"), [record])
    with pytest.raises(InputError, match=r"data.train, record 1: expected at most 3 visits, found 5"):
        strict.corpus([record], "data.train")


def test_an_outcome_per_visit_is_predicted_per_visit() -> None:
    visits = [{"time": day, "codes": [f"c{day}"]} for day in range(4)]
    data = VisitData(train="x", at="every", columns=VisitColumns(outcome=("ill", "dead")))
    records = VisitTask.records([{"visits": visits, "ill": [0, 0, 1, 1], "dead": [0, 0, 0, 1]}], data)
    task = VisitTask.learn(data, records)
    batch = task.batch(task.corpus(records, "data.train"), [0])
    assert batch.outcomes.tolist() == [[[0, 0], [0, 0], [1, 0], [1, 1]]] and batch.tokens == 8
    network = task.network(Retain, SMALL)
    assert task.loss(network, batch).count == 8
    value = task.predict(network, [{"visits": visits}], how=Search())[0].value
    assert list(value) == ["ill", "dead"]


def test_a_network_of_texts_is_refused() -> None:
    with pytest.raises(InputError, match="rnnsearch"):
        made(network=RNNSearch, config=TextConfig())


def test_the_task_is_restored_from_its_file() -> None:
    task, network, _ = made()
    again = VisitTask.restore(task.data, task.files())
    one, other = (each.predict(network, [EXAMPLES[0]], how=Search())[0].value for each in (task, again))
    assert one == other and again.labels == ("outcome",)
    with pytest.raises(InputError, match=r"codes.json"):
        VisitTask.restore(task.data, {})


# An input becomes a prediction ------------------------------------------------------------------------------------


def test_an_input_is_a_record_a_list_of_visits_json_or_a_patient() -> None:
    task, network, splits = made()
    record = splits.test[0]
    listed = [[visit.time, list(visit.codes)] for visit in record.source]
    forms = [
        task.input_of(record),
        listed,
        json.dumps(listed),
        json.dumps(task.input_of(record)),
        record,
        record.source,
    ]
    values = [prediction.value for prediction in task.predict(network, forms, how=Search())]
    assert values == pytest.approx([values[0]] * len(forms)) and 0 < values[0] < 1


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"visits": []}, ["input 2", "visits", "a list of visits"]),
        ({"codes": ["a"]}, ["input 2", "visits", "a list of visits", "nothing"]),
        ({"visits": [{"time": "soon", "codes": ["c1"]}]}, ["input 2", "visits[1].time", "a date", "soon"]),
        ("tomorrow", ["input 2", "JSON", "tomorrow"]),
        (7, ["input 2", "a list of visits", "7"]),
    ],
)
def test_an_input_that_is_not_a_record_is_refused(given: Any, facts: list[str]) -> None:
    task, network, _ = made()
    with pytest.raises(InputError) as error:
        task.predict(network, [EXAMPLES[0], given], how=Search())
    assert all(fact in str(error.value) for fact in facts), error.value


def test_unknown_codes_are_noted_and_not_read() -> None:
    task, network, _ = made()
    known = {"visits": [{"time": 0, "codes": ["c1"]}]}
    with_more = {"visits": [{"time": 0, "codes": ["c1", "c99"]}]}
    one, other = task.predict(network, [known, with_more], how=Search())
    assert one.value == pytest.approx(other.value) and not one.notes and "c99" in other.notes[0]
    nothing = task.predict(network, [{"visits": [{"time": 0, "codes": ["c99"]}]}], how=Search(), lens=Lens())[0]
    assert math.isfinite(nothing.value) and nothing.contributions == ()


@pytest.mark.parametrize("data", [COHORT, EVERY], ids=["end", "every"])
def test_contributions_add_up_to_the_logit_and_risk_ends_at_the_prediction(data: VisitData) -> None:
    task, network, splits = made(data)
    inputs = [task.input_of(record) for record in splits.test]
    for prediction, record in zip(task.predict(network, inputs, how=Search(), lens=Lens()), splits.test, strict=True):
        logit = math.log(prediction.value / (1 - prediction.value))
        total = sum(each["outcome"] for each in prediction.contributions)
        assert logit == pytest.approx(total + network.output.bias.item(), abs=1e-4)
        assert prediction.risk[-1]["outcome"] == pytest.approx(prediction.value, abs=1e-6)
        assert [each["time"] for each in prediction.risk] == [visit.time for visit in record.source]
        told = [(each["visit"], each["code"]) for each in prediction.contributions]
        assert told == [(n, code) for n, visit in enumerate(record.source, start=1) for code in visit.codes]
        trace = prediction.trace
        assert trace.axes["visits"].kind == "visits" and trace.axes["codes"].parent == "visits"
        assert len(trace.axes["codes"]) == len(told) == len(trace.signals["contributions"].values)


def test_an_edit_makes_the_network_look_elsewhere() -> None:
    task, network, _ = made()
    plain = task.predict(network, [EXAMPLES[0]], how=Search(), lens=Lens())[0]
    edited = task.predict(network, [EXAMPLES[0]], how=Search(), lens=Lens(edits=[Mask([3], site="visits")]))[0]
    assert edited.value != plain.value
    assert all(each["outcome"] == 0 for each in edited.contributions if each["visit"] == 4)


def test_how_likely_an_outcome_is_can_be_asked_by_its_name() -> None:
    task, network, _ = made()
    assert isinstance(task, Scores)
    value = task.predict(network, [EXAMPLES[0]], how=Search())[0].value
    for output in (None, "outcome"):
        scored = task.scorer(network, EXAMPLES[0], output)(Lens())
        assert scored.log_probs[0] == pytest.approx(math.log(value), abs=1e-5) and scored.steps == (3,)
    with pytest.raises(SaccadeError, match="other"):
        task.scorer(network, EXAMPLES[0], "other")


def test_days_that_are_numbers_are_told_as_days() -> None:
    task, network, _ = made()
    trace = task.predict(network, [[[0, ["c1"]], [2.5, ["c2"]]]], how=Search(), lens=Lens())[0].trace
    assert trace.axes["visits"].times == ("day 0", "day 2.5")


def test_a_record_that_has_what_is_predicted_already_is_noted() -> None:
    task = VisitTask(VisitData(train="x.csv", target=("c7", "c9")), ["c1", "c7"], ["c7 or c9"])
    (note,) = task.read([[0, ["c1"]], [1, ["c7"]]], "input 1").notes
    assert "c7" in note and "c9" not in note and "already" in note
    assert task.read([[0, ["c1"]]], "input 1").notes == ()


def test_dates_beside_numbers_of_days_cannot_be_predicted_from() -> None:
    task, _, _ = made()
    with pytest.raises(InputError, match=r"visits\[2\].time"):
        task.read([["2020-01-01", ["c1"]], [3, ["c7"]]], "input 1")


# Figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [COHORT, EVERY], ids=["end", "every"])
def test_figures_and_outputs_are_of_all_predictions(data: VisitData) -> None:
    task, network, splits = made(data)
    corpus = task.corpus(splits.test, "data.test")
    found = task.evaluate(network, corpus, how=Search(), metrics=["auc", "auprc", "nll", "brier", "ece"])
    probabilities = task.probabilities(network, corpus)
    counts = [len(each) for each in probabilities]
    assert counts == ([1] * 9 if data is COHORT else [len(record.source) for record in splits.test])
    truths = np.repeat([record.target[0] for record in splits.test], counts)
    assert found.figures["auc"] == pytest.approx(auc(np.concatenate(probabilities)[:, 0], truths))
    assert [each["outcome"] for each in found.outputs] == [each[:, 0].tolist() for each in probabilities]
    assert [float(each["outcome"][-1]) for each in found.outputs] == [float(each[-1, 0]) for each in probabilities]
    assert found.higher_is_better["auc"] and not found.higher_is_better["nll"]


# A whole run ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory, module_unchecked: None) -> Any:
    return api.train(
        "retain_visits", folder=tmp_path_factory.mktemp("runs") / "run", train={"threads": 1, "device": "cpu"}
    )


def test_the_shipped_recipe_finds_the_planted_code_first(run: Any) -> None:
    assert run.figures["test"]["auc"] >= 0.98
    records = VisitTask.load(run.task.data, Path("."), 1).test
    positive = [record for record in records if record.target[0]]
    inputs = [run.task.input_of(record) for record in positive]
    hits = 0
    for prediction, record in zip(run.predict(inputs, lens=Lens()), positive, strict=True):
        best = max(prediction.contributions, key=lambda each: each["outcome"])
        hits += best["code"] == CAUSE and best["visit"] - 1 in deciding([visit.codes for visit in record.source])
    assert hits > 0.95 * len(positive)


def test_a_cause_of_long_ago_contributes_little(run: Any) -> None:
    trace = run.predict(EXAMPLES[1], lens=Lens())[0]
    assert trace.value < 0.5
    old = next(each["outcome"] for each in trace.contributions if each["code"] == CAUSE)
    assert abs(old) < 0.1 * max(abs(each["outcome"]) for each in trace.contributions)


def test_a_run_loads_predicts_and_draws(run: Any, tmp_path: Path) -> None:
    again = saccade.load(run.folder, device="cpu")
    prediction = again.predict(EXAMPLES[0], lens=Lens())[0]
    assert prediction.value == run.predict(EXAMPLES[0])[0].value > 0.9
    for ending in (".png", ".trace"):
        assert prediction.trace.save(tmp_path / f"x{ending}").stat().st_size > 500


def test_a_run_on_a_persons_own_table_keeps_no_record(tmp_path: Path, module_unchecked: None, capsys) -> None:
    rows = ["patient\ttime\tcode\toutcome"]
    for number in range(60):
        secret = f"2021-{number % 12 + 1:02}-{number % 28 + 1:02}T0{number % 10}:17"
        rows += [
            f"person-{number}\t{secret}\tcode{number % 7}\t{number % 2}",
            f"person-{number}\t2022-01-01\tcode3\t{number % 2}",
        ]
    (tmp_path / "v.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    small = {"embedding": 3, "alpha": 3, "beta": 3}
    bundle = api.train(
        "retain_visits", folder=tmp_path / "run", model=small, train={"epochs": 1, "watch": "loss", "threads": 1},
        **{"data.source": None, "data.train": str(tmp_path / "v.tsv"), "data.hold_out": 0.2},
    )  # fmt: skip
    assert bundle.examples(3)
    for file in (tmp_path / "run").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert b"person-" not in content and b":17" not in content.replace(b"T00:", b""), file
    # The card shows how to predict, with a record that is made up.
    snippet = (tmp_path / "run" / "card.md").read_text(encoding="utf-8").split("```")[1].removeprefix("python")
    assert '{"visits": [{"time": "2020-01-01", "codes": ["code' in snippet
    exec(snippet.replace("this folder", str(tmp_path / "run")), {})
    assert 0 < float(capsys.readouterr().out.splitlines()[-1]) < 1


def test_a_program_trains_on_its_own_table(tmp_path: Path, module_unchecked: None) -> None:
    patients = [
        {"patient": n, "visits": [{"time": day, "codes": [f"c{(n + day) % 5}"]} for day in range(3)], "outcome": n % 2}
        for n in range(40)
    ]
    bundle = api.train(
        "retain_visits", patients, folder=tmp_path / "run", train={"epochs": 1, "watch": "loss", "threads": 1},
        model={"embedding": 3, "alpha": 3, "beta": 3}, **{"data.hold_out": 0.2},
    )  # fmt: skip
    assert 0 < bundle.predict({"visits": [[0, ["c1"]]]})[0].value < 1
    assert set(bundle.evaluate(patients)) == {"auc", "auprc", "nll"}
