"""The point task: positions counted from 0 for people and from 1 for the network, and a map that is the output."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from saccade import api
from saccade.data.points.records import PointData, Points, generate
from saccade.errors import InputError, SaccadeError
from saccade.models.pointer import Config, Pointer
from saccade.models.rnnsearch import Config as TextConfig
from saccade.models.rnnsearch import RNNSearch
from saccade.nn.search.beam_search import Search
from saccade.recipes.recipe import read_recipe
from saccade.tasks.point import IGNORED, STOP, Point, collate, point_labels
from saccade.trace.edits import Mask, Set
from saccade.trace.lens import Lens

HULL = PointData(source="hull", train=23, valid=5, test=7, least=3, most=7)
TRIANGLE = ((0.1, 0.7), (0.4, 0.2), (0.9, 0.5))


def made(revisit: bool = True, data: PointData = HULL) -> tuple[Point, Pointer, list[Points]]:
    records = generate(data, ["train"])["train"]
    task = Point.learn(data, records)
    network = task.network(Pointer, Config(hidden=9, revisit=revisit))
    for parameter in network.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)  # so that its answers differ with its input
    return task, network, records


# A record becomes a batch ----------------------------------------------------------------------------------------


def test_the_network_counts_from_one_and_the_end_is_zero() -> None:
    batch = collate([Points(TRIANGLE, (2, 0)), Points(TRIANGLE[:2], (1,))], [4, 3])
    assert batch.target_in.tolist() == [[0, 3, 1], [0, 2, 0]]
    assert batch.target_out.tolist() == [[3, 1, 0], [2, 0, IGNORED]]
    assert batch.points.shape == (2, 3, 2)
    assert batch.points[1, 2].tolist() == [0, 0]
    assert batch.lengths.tolist() == [3, 2]
    assert (batch.indices, batch.tokens, batch.repeats) == ([4, 3], 5, None)
    assert collate([Points(TRIANGLE, (2,)), Points(TRIANGLE, (1, 0, 1))], [4, 3]).repeats == 4


@pytest.mark.parametrize("revisit", [True, False])
def test_padding_changes_neither_the_loss_nor_the_gradient(revisit: bool) -> None:
    task, network, records = made(revisit)
    records = sorted(records, key=lambda record: len(record.source))[::7]
    corpus = task.corpus(records, "train")
    assert len({len(record.source) for record in records}) > 2
    together = task.loss(network, task.batch(corpus, range(len(records))))
    together.total.backward()
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    apart = [task.loss(network, task.batch(corpus, [number])) for number in range(len(records))]
    sum(loss.total for loss in apart).backward()
    assert together.count == sum(loss.count for loss in apart) == sum(len(record.target) + 1 for record in records)
    torch.testing.assert_close(together.total, sum(loss.total for loss in apart))
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        assert gradient.isfinite().all()
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_log_probability_of_the_true_positions() -> None:
    task, network, records = made()
    record = records[0]
    loss = task.loss(network, task.batch(task.corpus([record], "train"), [0]))
    steps = torch.tensor([[0, *(position + 1 for position in record.target)]])
    weights = network(torch.tensor([record.source]), torch.tensor([len(record.source)]), steps).detach().exp()[0]
    true = [*(position + 1 for position in record.target), 0]
    assert loss.total.item() == pytest.approx(
        -sum(math.log(float(weights[t, at])) for t, at in enumerate(true)), rel=1e-5
    )


def test_a_plan_visits_each_record_once_and_is_the_same_again() -> None:
    task, _, records = made()
    corpus = task.corpus(records, "train")
    batches = task.plan(corpus, tokens=None, records=5, seed=3, epoch=1)
    assert sorted(number for batch in batches for number in batch) == list(range(23))
    assert batches == task.plan(corpus, tokens=None, records=5, seed=3, epoch=1)
    assert batches != task.plan(corpus, tokens=None, records=5, seed=3, epoch=2)


def test_the_task_is_restored_from_its_file() -> None:
    task, _, _ = made()
    again = Point.restore(HULL, task.files())
    assert (again.width, again.least, again.most) == (task.width, task.least, task.most) == (2, 3, 7)
    for files in ({}, {"points.json": "{"}, {"points.json": '{"width": 2}'}, {"points.json": "[]"}):
        with pytest.raises(InputError, match=r"points\.json:(1:| least:)? expected "):
            Point.restore(HULL, files)


# An input becomes a prediction -----------------------------------------------------------------------------------


def test_a_few_records_are_learnt_by_heart(shapes_unchecked: None) -> None:
    task, _, records = made(data=PointData(source="sorting", train=5, least=2, most=4))
    network = task.network(Pointer, Config(hidden=23))
    corpus = task.corpus(records, "train")
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-2)
    before = task.evaluate(network, corpus, how=Search(), metrics=["exact_match", "perplexity"])
    for _ in range(80):
        loss = task.loss(network, task.batch(corpus, range(5))).mean
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = task.evaluate(network, corpus, how=Search(), metrics=["exact_match", "perplexity"])
    assert before.figures["exact_match"] < 0.5
    assert after.figures["exact_match"] == 1
    assert after.figures["perplexity"] < 1.2 < before.figures["perplexity"]
    assert after.outputs == [list(record.target) for record in records]
    assert after.higher_is_better == {"exact_match": True, "perplexity": False}
    assert task.evaluate(network, corpus, how=Search(), metrics=["exact_match"], limit=3).outputs == after.outputs[:3]


def test_an_input_is_lists_arrays_or_json_text_of_points_and_the_answer_is_the_same() -> None:
    task, network, _ = made()
    forms: list[Any] = [TRIANGLE, [list(point) for point in TRIANGLE], torch.tensor(TRIANGLE, dtype=torch.float64)]
    forms.append("[[0.1, 0.7], [0.4, 0.2], [0.9, 0.5]]")
    values = [prediction.value for prediction in task.predict(network, forms, how=Search())]
    assert values == [values[0]] * 4
    task, network, _ = made(revisit=False, data=PointData(source="sorting", train=5))
    numbers = task.predict(network, [[0.3, 0.1, 0.7], [[0.3], [0.1], [0.7]], "[0.3, 0.1, 0.7]"], how=Search())
    assert numbers[0].value == numbers[1].value == numbers[2].value


@pytest.mark.parametrize(("revisit", "beam"), [(True, 1), (False, 1), (False, 3)])
def test_inputs_of_different_lengths_are_answered_in_their_order_as_if_alone(
    revisit: bool, beam: int, shapes_unchecked: None
) -> None:
    task, network, records = made(revisit)
    sources = [record.source for record in records[:9]]
    assert len({len(source) for source in sources}) > 2
    together = task.predict(network, sources, how=Search(beam=beam))
    alone = [task.predict(network, [source], how=Search(beam=beam))[0] for source in sources]
    assert [each.value for each in together] == [each.value for each in alone]
    assert [each.log_prob for each in together] == pytest.approx([each.log_prob for each in alone], abs=1e-4)
    assert len({tuple(each.value) for each in together}) > 1
    assert task.predict(network, [], how=Search()) == []


def test_without_revisits_no_point_is_chosen_twice_and_every_output_ends() -> None:
    task, network, records = made(revisit=False)
    sources = [record.source for record in records]
    for prediction in task.predict(network, sources, how=Search(beam=3, n_best=3)):
        for each in (prediction, *prediction.alternatives):
            assert len(set(each.value)) == len(each.value)
            assert each.stopped == "eos"


def test_a_wide_beam_names_each_possible_output_once_and_no_impossible_one() -> None:
    task, network, _ = made(revisit=False)
    pair, triangle = task.predict(network, [TRIANGLE[:2], TRIANGLE], how=Search(beam=11, n_best=11))
    values = [tuple(each.value) for each in (pair, *pair.alternatives)]
    assert sorted(values) == [(), (0,), (0, 1), (1,), (1, 0)]
    assert sum(math.exp(each.log_prob) for each in (pair, *pair.alternatives)) == pytest.approx(1, abs=1e-4)
    assert all(max(each.value, default=0) < 3 for each in (triangle, *triangle.alternatives))


def test_the_length_limit_is_reported() -> None:
    task, network, _ = made()
    endless = Lens(edits=[Mask((0,), site="decoder.pointer")])
    prediction = task.predict(network, [TRIANGLE], how=Search(), lens=endless)[0]
    assert prediction.stopped == "length"
    assert len(prediction.value) == 9
    assert prediction.notes == ("reached the length limit without an end",)
    assert prediction.trace is not None
    assert STOP not in prediction.trace.axes["target"].labels


def test_more_points_than_in_training_are_noted() -> None:
    task, network, _ = made()
    few, many = task.predict(network, [TRIANGLE, [(i / 9, i * i / 99) for i in range(9)]], how=Search())
    assert not [note for note in few.notes if "training" in note]
    assert "9 points, where training had 3 to 7" in many.notes


# What it looked at becomes a labelled trace ----------------------------------------------------------------------


@pytest.mark.parametrize("beam", [1, 3])
def test_the_map_is_the_distribution_that_each_position_was_chosen_from(beam: int) -> None:
    task, network, records = made(revisit=False)
    inputs = [TRIANGLE, records[0].source, TRIANGLE]
    for prediction, source in zip(
        task.predict(network, inputs, how=Search(beam=beam), lens=Lens()), inputs, strict=True
    ):
        trace = prediction.trace
        assert trace is not None
        weights = trace.map("decoder.pointer").weights
        chosen = [*(position + 1 for position in prediction.value), 0]
        assert weights.shape == (len(chosen), len(source) + 1)
        torch.testing.assert_close(weights.sum(-1), torch.ones(len(chosen)))
        likelihood = sum(math.log(float(weights[t, at])) for t, at in enumerate(chosen))
        assert likelihood == pytest.approx(prediction.log_prob, abs=1e-4)
        if beam == 1:
            assert weights.argmax(-1).tolist() == chosen
        forced = network(torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([[0, *chosen[:-1]]]))
        torch.testing.assert_close(weights, forced[0].exp(), atol=1e-5, rtol=1e-4)


def test_axes_are_labelled_with_the_points_and_the_end() -> None:
    task, network, _ = made(revisit=False)
    prediction = task.predict(network, ["[[0.1, 0.7], [0.4, 0.2], [0.9, 0.5]]"], how=Search(), lens=Lens())[0]
    trace = prediction.trace
    assert trace is not None
    source, target = trace.axes["source"], trace.axes["target"]
    assert source.labels == (STOP, "(0.1, 0.7)", "(0.4, 0.2)", "(0.9, 0.5)")
    assert target.labels == (*(source.labels[position + 1] for position in prediction.value), STOP)
    assert (source.special, target.special) == ((0,), (len(target) - 1,))
    assert trace.about["input"] == "[[0.1, 0.7], [0.4, 0.2], [0.9, 0.5]]"
    assert trace.about["output"] == str(prediction.value)


def test_details_are_labelled_too() -> None:
    task, network, _ = made(revisit=False)
    lens = Lens(detail=["outputs", "beam", "state", "scores"])
    trace = task.predict(network, [TRIANGLE], how=Search(beam=3), lens=lens)[0].trace
    assert trace is not None
    labels = trace.axes["source"].labels
    assert trace.outputs is not None
    assert trace.tree is not None
    for names, row in zip(trace.outputs.labels, trace.outputs.index.tolist(), strict=True):
        assert names == tuple(labels[position] for position in row)
    assert trace.tree.labels == tuple(labels[position] for position in trace.tree.token.tolist())
    assert trace.signals["decoder.state"].values.shape == (len(trace.axes["target"]), 9)
    assert trace.signals["encoder.state"].values.shape == (4, 9)


def test_an_edit_makes_the_network_point_elsewhere() -> None:
    task, network, _ = made(revisit=False)
    for position in range(3):
        row = [float(at == position + 1) for at in range(4)]
        lens = Lens(edits=[Set(tuple(row), site="decoder.pointer", step=0)])
        assert task.predict(network, [TRIANGLE], how=Search(), lens=lens)[0].value[0] == position
    rows = ((0.0, 1.0, 0.0, 0.0), (0.0, 0.9, 0.1, 0.0))  # a point again, though the network would not see it any more
    again = Lens(edits=[Set(row, site="decoder.pointer", step=step) for step, row in enumerate(rows)])
    for beam in (1, 3):
        assert task.predict(network, [TRIANGLE], how=Search(beam=beam, n_best=beam), lens=again)[0].value[:2] == [0, 0]


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        (((0.3125,), (0.1,), (0.72,)), ("0.31", "0.1", "0.72")),
        (((0.3125,), (0.3149,)), ("0.312", "0.315")),
        (((0.5, 3.0), (0.5, 3.0)), ("(0.5, 3)", "(0.5, 3)")),
        (((1e-9,), (2e-9,)), ("0", "0")),
    ],
)
def test_labels_have_the_fewest_decimals_that_tell_points_apart(source: Any, labels: tuple[str, ...]) -> None:
    assert point_labels(source) == labels


# Faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "0.3 0.1",
            "expected points as JSON, such as [[0.3, 0.1], [0.7, 0.2]], found no JSON: Extra data (character 5)",
        ),
        ("{}", "points: expected a list of points, found an object"),
        ([], "points: expected a list of points, found an empty list"),
        ([[0.1, "x"]], "points[0][1]: expected a number, found text"),
        ([0.3, 0.1], "expected points of 2 number(s), as in training, found points of 1"),
        (
            0.3,
            "expected a list of points, found a number (an input is a list of points; inputs are a list of such lists)",
        ),
        (None, "points: expected a list of points, found null"),
    ],
)
def test_an_input_that_is_not_a_list_of_points_is_refused(given: Any, message: str) -> None:
    task, network, _ = made()
    with pytest.raises(InputError) as caught:
        task.predict(network, [TRIANGLE, given], how=Search())
    assert str(caught.value) == f"input 2: {message}"


def test_records_of_another_width_are_refused_by_number() -> None:
    task, _, records = made()
    message = r"data\.valid, record 2: expected points of 2 number\(s\), as in training, found points of 1"
    with pytest.raises(InputError, match=message):
        task.corpus([records[0], Points(((1.0,), (2.0,)), (0,))], "data.valid")


def test_a_metric_of_texts_is_refused_with_the_ones_there_are() -> None:
    task, network, records = made()
    with pytest.raises(InputError, match="metrics: expected any of exact_match, perplexity, found 'bleu'"):
        task.evaluate(network, task.corpus(records, "test"), how=Search(), metrics=["exact_match", "bleu"])


def test_training_that_would_reward_what_cannot_be_chosen_is_refused() -> None:
    task, network, records = made(revisit=False)
    batch = task.batch(task.corpus(records, "train"), range(5))
    with pytest.raises(InputError, match=r"train\.label_smoothing: expected 0.*found 0\.1"):
        read_recipe("pointer_hull", ["train.label_smoothing=0.1"])
    with pytest.raises(InputError, match=r"train\.sampling: expected 0.*model\.revisit.*found 0\.5"):
        read_recipe("pointer_sorting", ["model.revisit=false", "train.sampling=0.5"])
    with pytest.raises(SaccadeError, match=r"model\.revisit must be true .*: got false with train\.sampling 0\.5"):
        task.loss(network, batch, sampling=0.5)
    twice = task.corpus([records[0], Points(TRIANGLE, (0, 1, 0))], "train")
    with pytest.raises(SaccadeError, match=r"model\.revisit must be true .*: got false with a point twice in record 2"):
        task.loss(network, task.batch(twice, [0, 1]))
    _, free, _ = made(revisit=True)
    assert task.loss(free, task.batch(twice, [0, 1]), sampling=0.5).total.isfinite()


def test_a_network_of_texts_is_refused() -> None:
    task, _, _ = made()
    with pytest.raises(InputError, match=r"model\.name: expected a network that reads points, .* found 'rnnsearch'"):
        task.network(RNNSearch, TextConfig())


# The whole way ---------------------------------------------------------------------------------------------------

SMALL = ("data.train=90", "data.valid=7", "data.test=9", "model.hidden=9", "train.epochs=2", "train.device=cpu")


@pytest.mark.parametrize("name", ["pointer_sorting", "pointer_hull"])
def test_a_recipe_trains_and_its_run_loads_evaluates_predicts_and_draws(
    name: str, tmp_path: Path, shapes_unchecked: None, capsys: pytest.CaptureFixture[str]
) -> None:
    api.train(read_recipe(name, SMALL), folder=tmp_path / "run")
    bundle = api.load(tmp_path / "run", device="cpu")
    assert bundle.evaluate() == pytest.approx({key: bundle.figures["test"][key] for key in bundle.recipe.metrics})
    example = bundle.examples(3)[0]
    prediction = bundle.predict(example, lens=Lens())[0]
    assert set(prediction.value) <= set(range(10))
    assert prediction.trace is not None
    prediction.trace.show()
    assert STOP in capsys.readouterr().out


def test_a_program_trains_on_its_own_points(tmp_path: Path, shapes_unchecked: None) -> None:
    recipe = read_recipe("pointer_hull", SMALL)
    data = [([[x / 7, x * x / 49, 0.5] for x in range(start, start + 3)], [0, 2]) for start in range(40)]
    bundle = api.train(replace(recipe, changed=("data",)), data, folder=tmp_path / "run")
    assert bundle.task.width == 3
    assert len(bundle.predict([data[0][0]])) == 1
