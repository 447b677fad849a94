"""The task ``generate``: its contract, its two phases, what decides a picture, and what pictures are compared by."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import saccade
from saccade import api
from saccade.cli import app
from saccade.data.images.batch import scaled
from saccade.data.images.pictures import ImageConfig, grid_of
from saccade.data.images.records import GenerateData
from saccade.data.toy.twins import Twins
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.metrics.pictures import frechet_distance
from saccade.models import network_class
from saccade.models.image_classifier import ImageClassifier
from saccade.models.sagan import Config, Sagan
from saccade.nn import Search
from saccade.nn.gan import discriminator_loss, generator_loss
from saccade.nn.search.selection import Sampling
from saccade.recipes.recipe import read_recipe
from saccade.tasks.generate import Generate, noise_of, pixels_from
from saccade.testing import check_task
from saccade.trace import Lens, Mask
from saccade.training.config import Train
from saccade.training.report import Silence
from saccade.training.stepping import Stepper

FEW = Twins(train=31, valid=5, test=9, size=12)
DATA = GenerateData(source="twins", twins=FEW, image=ImageConfig(size=12))
SMALL = Config(channels=3, most_channels=6, noise=5, attention=6)
SETTINGS = Train(device="cpu", threads=1, batch_tokens=None, batch_records=8, clip=None, betas=(0.0, 0.9))


def made(config: Config = SMALL, data: GenerateData = DATA) -> tuple[Generate, Sagan, Any]:
    records = Generate.load(data, Path(), 1).train
    task = Generate.learn(data, records)
    torch.manual_seed(3)
    network = task.network(Sagan, config)
    return task, network, task.corpus(records, "data.train")


def pixels(prediction: Any) -> np.ndarray:
    return prediction.pixels


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, attention=None), replace(SMALL, keys="pooled")])
def test_the_task_keeps_every_promise(config: Config) -> None:
    check_task("generate", DATA, "sagan", config, metrics=["pixel_distance"])


# Training -----------------------------------------------------------------------------------------------------------------


def test_each_phase_minimises_the_papers_loss_of_its_own_network() -> None:
    task, network, corpus = made()
    network.train()
    batch = task.batch(corpus, [4, 0, 7])
    noise_labels = batch.labels
    discriminator, generator = task.phases(network)
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    for phase in (discriminator, generator):
        network.load_state_dict(state)
        torch.manual_seed(11)
        found = phase.loss(network, batch)
        network.load_state_dict(state)
        torch.manual_seed(11)
        drawn = network.generator(torch.randn(3, 5), noise_labels)
        if phase.name == "discriminator":
            real = network.discriminator(scaled(batch.pixels), noise_labels)
            expected = discriminator_loss(real, network.discriminator(drawn, noise_labels)).mean()
        else:
            expected = generator_loss(network.discriminator(drawn, noise_labels)).mean()
        torch.testing.assert_close(found.mean, expected)
        assert found.count == 3


def test_each_network_has_its_rate_and_the_generator_waits_for_the_steps_of_the_other() -> None:
    task, network, corpus = made(replace(SMALL, steps=3, lr_discriminator=0.02))
    stepper = Stepper(task, network, SETTINGS)
    batch, names, rates = task.batch(corpus, range(8)), [], set()
    for update in range(6):
        steps = stepper.update_phases([batch], lambda settings: settings.lr, update=update)
        names.append([step.phase for step in steps])
        rates |= {(step.phase, step.lr) for step in steps}
    assert names == [["discriminator"], ["discriminator"], ["discriminator", "generator"]] * 2
    assert rates == {("discriminator", 0.02), ("generator", SETTINGS.lr)}


def test_padding_of_a_batch_has_no_weight() -> None:
    task, network, corpus = made()
    network.eval()
    batch = task.batch(corpus, [4, 0, 7])
    padded = batch.bucketed()
    assert len(padded.labels) == 8
    torch.testing.assert_close(task.loss(network, padded).total, task.loss(network, batch).total)
    assert task.phases(network)[0].loss(network, padded).count == 3


RECIPE = {
    "task": "generate",
    "data": {"source": "twins", "twins": {"train": 31, "valid": 5, "test": 9, "size": 12}, "image": {"size": 12},
             "augment": {"flip": True, "shift": 0.1}},
    "model": {"name": "sagan", "channels": 3, "most_channels": 6, "noise": 5, "attention": 6},
    "train": {"epochs": 2, "batch_records": 8, "batch_tokens": None, "betas": [0.0, 0.9], "clip": None, "keep": "last",
              "device": "cpu", "threads": 1, "save_every": 3},
    "metrics": ["pixel_distance"],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("generate") / "run"
    saccade.train(RECIPE, folder=folder, progress=False)
    return folder


def test_the_log_has_both_losses_and_gamma(run: Path) -> None:
    head, *rows = (run / "log.csv").read_text().splitlines()
    columns = head.split(",")
    assert {"loss_discriminator", "loss_generator", "lr_discriminator", "lr_generator"} < set(columns) and len(
        rows
    ) == 8
    last = dict(zip(columns, rows[-1].split(","), strict=True))
    assert (last["lr_discriminator"], last["lr_generator"]) == ("0.0004", "0.001")
    head, *rows = (run / "evaluations.csv").read_text().splitlines()
    assert {"gamma_generator", "gamma_discriminator"} < set(head.split(",")) and len(rows) == 2


def test_a_run_that_was_stopped_resumes_bit_for_bit(run: Path, tmp_path: Path) -> None:
    class StopAt(Silence):
        def update(self, update: int, epoch: int, loss: float) -> None:
            if update == 5:
                raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        saccade.train(RECIPE, folder=tmp_path / "cut", report=StopAt())
    torch.manual_seed(99)
    api.resume(tmp_path / "cut", progress=False)
    ours, theirs = (saccade.load(folder).network.state_dict() for folder in (tmp_path / "cut", run))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    logs = [
        [row.split(",")[:-1] for row in (folder / "log.csv").read_text().splitlines()]
        for folder in (tmp_path / "cut", run)
    ]
    assert logs[0] == logs[1]


# Predicting ---------------------------------------------------------------------------------------------------------------


def test_a_picture_follows_from_class_seed_and_draw_alone() -> None:
    task, network, _ = made()
    for block in network.generator.blocks:  # at first all classes are alike
        torch.nn.init.normal_(block.before.gain.weight)

    def predict(*given: str, **how: Any) -> list[Any]:
        return task.predict(network, list(given), how=Search(**how))

    circle, cross = predict("circle", "cross")
    assert np.array_equal(pixels(predict("circle")[0]), pixels(circle)) and circle.value.startswith(
        "data:image/png;base64,"
    )
    decoded = Image.open(io.BytesIO(base64.b64decode(circle.value.partition(",")[2])))
    assert np.array_equal(np.asarray(decoded), pixels(circle)) and pixels(circle).shape == (12, 12, 3)
    assert not np.array_equal(pixels(circle), pixels(cross))
    seven = predict("circle", sample=Sampling(seed=7), n_best=3)[0]
    assert (seven.seed, seven.draw, [one.draw for one in seven.alternatives]) == (7, 0, [1, 2])
    assert np.array_equal(pixels(predict("circle 7")[0]), pixels(seven))
    different = {pixels(one).tobytes() for one in (circle, seven, *seven.alternatives)}
    assert len(different) == 4
    calm = (
        predict("circle", sample=Sampling(temperature=1e-6))[0],
        predict("circle", sample=Sampling(temperature=1e-6, seed=3))[0],
    )
    assert np.array_equal(*map(pixels, calm)), "without noise there is one picture"
    assert json.loads(json.dumps(circle.to_json()))["label"] == "circle"


def test_noise_is_normal_and_the_same_everywhere() -> None:
    drawn = noise_of([(0, number) for number in range(500)], 7)
    assert abs(float(drawn.mean())) < 0.05 and abs(float(drawn.std()) - 1) < 0.05
    assert torch.equal(noise_of([(0, 3), (1, 3)], 7)[0], drawn[3])
    assert noise_of([(5, 2)], 2).tolist() == [[pytest.approx(value) for value in noise_of([(5, 2)], 2)[0].tolist()]]


@pytest.mark.parametrize("given", ["star", "circle x", "circle 7 7", "circle -1", 7, None, ["circle"]])
def test_what_is_no_class_is_refused_by_its_place(given: Any) -> None:
    with pytest.raises(InputError, match=r"input 7: expected one of the classes circle, cross, square"):
        made()[0].read(given, "input 7")


def test_a_trace_says_for_each_place_of_the_picture_where_it_drew_from() -> None:
    task, network, _ = made()
    torch.nn.init.constant_(network.generator.attention.gamma, 0.8)
    prediction = task.predict(network, ["cross 4"], how=Search(), lens=Lens())[0]
    trace = prediction.trace
    assert trace.map("generator").weights.shape == (36, 36) and trace.about["input"] == "cross 4"
    assert np.array_equal(trace.axes["image"].image.numpy(), prediction.pixels)
    blind = task.predict(
        network, ["cross 4"], how=Search(), lens=Lens(edits=[Mask(site="generator", keys=tuple(range(30)))])
    )
    assert not np.array_equal(blind[0].pixels, prediction.pixels)


def test_settings_of_other_searches_are_refused() -> None:
    task, network, _ = made()
    with pytest.raises(SaccadeError, match="top_k"):
        task.predict(network, ["circle"], how=Search(sample=Sampling(top_k=3)))


# Figures ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judge(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("judge") / "run"
    data = {**RECIPE["data"], "twins": {**RECIPE["data"]["twins"], "train": 60}}  # type: ignore[dict-item]
    model = {"name": "image_classifier", "channels": 3, "halvings": 1, "width": 7}
    train = {"epochs": 1, "batch_records": 8, "batch_tokens": None, "device": "cpu", "threads": 1}
    recipe = {"task": "classify_images", "data": data, "model": model, "train": train, "metrics": ["accuracy"]}
    saccade.train(recipe, folder=folder, progress=False)
    return folder


def test_a_judge_gives_the_distance_of_its_features_and_the_classes_it_sees(run: Path, judge: Path) -> None:
    bundle, classifier = saccade.load(run, device="cpu"), saccade.load(judge, device="cpu").network.eval()
    assert isinstance(classifier, ImageClassifier)
    evaluation = bundle.evaluation(
        metrics=["feature_distance", "judged_accuracy", "pixel_distance"], **{"data.judge": str(judge)}
    )
    records = Generate.load(bundle.task.data, Path(), 1).test
    labels = torch.tensor([bundle.task.labels.index(record.target) for record in records])
    with torch.no_grad():
        drawn = pixels_from(bundle.network.eval()(noise_of([(0, number) for number in range(9)], 5), labels))
        real = torch.stack([torch.from_numpy(record.source.read()) for record in records])
        sets = [scaled(pictures.permute(0, 3, 1, 2)) for pictures in (drawn, real)]
        features = [classifier.features(pictures).double().numpy() for pictures in sets]
        seen = classifier(sets[0]).argmax(-1)
    found = evaluation.figures
    assert found["feature_distance"] == pytest.approx(frechet_distance(*features), rel=1e-3)
    assert found["judged_accuracy"] == pytest.approx(float((seen == labels).float().mean()))
    assert any(note.startswith("feature_distance") and "95 % interval" in note for note in evaluation.notes)
    assert str(judge) in evaluation.signatures["feature_distance"]
    assert evaluation.higher_is_better == {"feature_distance": False, "judged_accuracy": True, "pixel_distance": False}


def test_real_pictures_are_nearer_than_generated_ones(run: Path) -> None:
    bundle = saccade.load(run)
    real = [torch.from_numpy(record.source.read()).permute(2, 0, 1) for record in Generate.load(DATA, Path(), 1).train]
    cells = torch.nn.functional.adaptive_avg_pool2d(scaled(torch.stack(real)), 4).flatten(1).double().numpy()
    assert frechet_distance(cells[::2], cells[1::2]) < bundle.evaluate()["pixel_distance"]


def test_what_cannot_judge_is_refused(run: Path, judge: Path, tmp_path: Path) -> None:
    bundle = saccade.load(run)
    with pytest.raises(InputError, match=r"classify_images in data\.judge, for feature_distance"):
        bundle.evaluate(metrics=["feature_distance"])
    with pytest.raises(InputError, match="a run of the task classify_images"):
        bundle.evaluate(metrics=["feature_distance"], **{"data.judge": str(run)})
    with pytest.raises(InputError, match="no such folder"):
        bundle.evaluate(metrics=["judged_accuracy"], **{"data.judge": str(tmp_path / "gone")})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (["train.label_smoothing=0.1"], "label_smoothing"),
        (["data.balance=weights"], "balance"),
        (["model.name=retain"], "model"),
    ],
)
def test_settings_without_an_effect_are_refused(changes: list[str], field: str) -> None:
    def prepared() -> None:
        recipe = read_recipe("sagan_twins", changes)
        Generate.check_recipe(recipe)
        made()[0].network(network_class(recipe.model_name), recipe.model)

    with pytest.raises(InputError, match=field):
        prepared()


# The command line -----------------------------------------------------------------------------------------------------------


def test_predict_writes_a_grid_with_a_row_per_class_and_refuses_other_files(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "samples.png"
    runner = CliRunner()
    result = runner.invoke(app, ["predict", str(run), "--seed", "7", "--n-best", "5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "circle: 5 pictures, seed 7" in result.output and str(out) in result.output
    picture = np.asarray(Image.open(out))
    drawn = saccade.load(run).predict(["circle", "cross", "square"], search=Search(sample=Sampling(seed=7), n_best=5))
    rows = [[pixels(each) for each in (one, *one.alternatives)] for one in drawn]
    assert np.array_equal(picture, grid_of(rows)) and picture.shape == (3 * 62 + 2, 5 * 62 + 2, 3)
    for arguments, fact in [
        (["--out", str(out)], "existing"),
        (["circle"], "expected FILE.png"),
        (["--out", str(tmp_path / "a.txt")], "a.txt"),
        (["star", "--out", str(tmp_path / "b.png")], "circle, cross, square"),
    ]:
        result = runner.invoke(app, ["predict", str(run), *arguments])
        assert result.exit_code != 0 and fact in f"{result.output}{result.exception}"
    printed = runner.invoke(app, ["predict", str(run), "cross", "--seed", "7", "--json"])
    assert json.loads(printed.stdout)["output"] == drawn[1].value
