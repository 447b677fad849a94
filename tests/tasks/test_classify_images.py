"""The task ``classify_images``: its contract, what it reads, how it trains, and where the network looks."""

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

import saccade
from saccade.data.images.batch import augmented
from saccade.data.images.config import Augment, FeatureConfig
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.records import LabelledImageData
from saccade.data.toy.dots import Dots
from saccade.errors import InputError, SaccadeError
from saccade.models.image_classifier import Config, ImageClassifier, window_of
from saccade.models.retain import Retain
from saccade.recipes.recipe import read_recipe
from saccade.task import Prediction
from saccade.tasks.classify_images import ClassifyImages
from saccade.testing import check_task
from saccade.trace import Lens
from saccade.trace.axes import Grid

FEW = Dots(train=29, valid=5, test=11, size=12, apart=7)
DATA = LabelledImageData(source="dots", dots=FEW, image=ImageConfig(size=12))
SMALL = Config(channels=3, halvings=1, width=5, attention=6)


def made(data: LabelledImageData = DATA) -> ClassifyImages:
    return ClassifyImages.learn(data, ClassifyImages.load(data, Path(), 1).train)


def predicted(given: Any, config: Config = SMALL, **options: Any) -> Prediction:
    task = made()
    torch.manual_seed(1)
    network = task.network(ImageClassifier, config)
    return task.predict(network, [given], how=saccade.nn.Search(), **options)[0]


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, attention=None), replace(SMALL, attention=12, keys="pooled")])
def test_the_task_keeps_every_promise(config: Config) -> None:
    check_task("classify_images", DATA, "image_classifier", config)


def test_a_picture_in_any_form_is_read_alike(tmp_path: Path) -> None:
    pixels = ClassifyImages.load(DATA, Path(), 1).test[0].source.read()
    picture = Image.fromarray(pixels)
    picture.save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    task = made()
    forms: list[Any] = [
        str(tmp_path / "a.png"), tmp_path / "a.png", content, {"base64": base64.b64encode(content).decode()}, pixels, picture,
        torch.from_numpy(pixels.copy()).permute(2, 0, 1),
    ]  # fmt: skip
    for form in forms:
        assert len(task.inputs(form)) == 1
        assert torch.equal(task.read(form, "input 1").pixels, torch.from_numpy(pixels.copy()).permute(2, 0, 1))
    assert len(task.inputs([pixels, picture])) == 2 and len(task.inputs(np.stack([pixels] * 3))) == 3


@pytest.mark.parametrize(
    ("given", "fact"),
    [(b"no picture", "a picture"), (7, "found a int"), (np.zeros((2, 3, 4, 5)), "shape"), ({"base64": "!"}, "base64"),
     ("gone.png", "no such file")],
)  # fmt: skip
def test_what_is_no_picture_is_refused_by_its_place(given: Any, fact: str) -> None:
    with pytest.raises(InputError, match=fact) as error:
        made().read(given, "input 7")
    assert "input 7" in str(error.value) or "gone.png" in str(error.value)


def test_a_trace_has_the_picture_and_a_row_per_place() -> None:
    pixels = np.random.default_rng(3).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    prediction = predicted(pixels, lens=Lens())
    trace = prediction.trace
    assert trace is not None
    map, axis = trace.map("attention"), trace.axes["image"]
    assert isinstance(axis, Grid) and (axis.height, axis.width) == (6, 6) and list(axis.image.shape) == [12, 12, 3]
    assert list(map.weights.shape) == [36, 36]
    torch.testing.assert_close(map.weights.sum(-1), torch.ones(36))
    assert trace.about["framing"] == {"box": (10.0, 0.0, 50.0, 40.0), "original": (40, 60), "size": (12, 12)}
    assert trace.about["output"] == prediction.value == next(iter(prediction.probabilities))
    json.dumps(trace.about)


def test_the_next_labels_are_the_alternatives() -> None:
    task = made()
    network = task.network(ImageClassifier, SMALL)
    pixels = np.zeros((12, 12, 3), np.uint8)
    found = task.predict(network, [pixels], how=saccade.nn.Search(beam=2, n_best=2))[0]
    assert {found.value, found.alternatives[0].value} == {"same", "different"}
    assert found.score + found.alternatives[0].score == pytest.approx(1.0)


def test_labels_that_are_rare_weigh_more_where_the_recipe_says_so() -> None:
    records = ClassifyImages.load(DATA, Path(), 1).train
    few = [record for record in records if record.target == "same"][:2]
    records = [*few, *(record for record in records if record.target == "different")]
    totals = {}
    for balance in ("none", "weights"):
        task = ClassifyImages.learn(replace(DATA, balance=balance), records)
        torch.manual_seed(1)
        network, corpus = task.network(ImageClassifier, SMALL).eval(), task.corpus(records, "data.train")
        losses = [float(task.loss(network, task.batch(corpus, [number])).total) for number in range(len(records))]
        totals[balance] = losses
    counts = {"same": 2, "different": len(records) - 2}
    expected = [len(records) / (2 * counts[record.target]) for record in records]
    assert [one / other for one, other in zip(totals["weights"], totals["none"], strict=True)] == pytest.approx(
        expected
    )


def test_pictures_vary_in_training_alone_and_by_the_seed() -> None:
    task = made(replace(DATA, augment=Augment(flip=True, shift=0.25, colour=0.3)))
    network = task.network(ImageClassifier, SMALL)
    corpus = task.corpus(ClassifyImages.load(DATA, Path(), 1).train, "data.train")
    batch = task.batch(corpus, range(7))

    def loss(seed: int) -> float:
        torch.manual_seed(seed)
        return float(task.loss(network, batch).total)

    assert loss(1) == loss(1) != loss(2)
    network.eval()
    assert loss(1) == loss(2)


def test_augmentation_mirrors_shifts_and_colours_each_picture_by_itself() -> None:
    picture = torch.rand(1, 3, 8, 8) * 2 - 1
    many = picture.expand(200, 3, 8, 8)
    assert torch.equal(augmented(many, Augment()), many)
    mirrored = augmented(many, Augment(flip=True))
    ways = [(row == picture[0]).all() for row in mirrored], [(row == picture[0].flip(2)).all() for row in mirrored]
    assert all(one or other for one, other in zip(*ways, strict=True)) and 60 < sum(ways[1]) < 140
    shifted = augmented(many, Augment(shift=0.25))
    extended = torch.nn.functional.pad(picture, (2, 2, 2, 2), mode="replicate")[0]
    windows = [extended[:, row : row + 8, column : column + 8] for row in range(5) for column in range(5)]
    hits = [[torch.equal(row, window) for window in windows] for row in shifted]
    assert all(any(found) for found in hits) and all(any(column) for column in zip(*hits, strict=True))
    coloured = augmented(many, Augment(colour=0.4))
    assert float(coloured.min()) >= -1 and float(coloured.max()) <= 1
    assert len({float(row.mean()) for row in coloured}) > 190


@pytest.mark.parametrize(("halvings", "window"), [(0, 3), (1, 6), (2, 12), (3, 24)])
def test_without_attention_a_place_sees_its_window_alone(halvings: int, window: int) -> None:
    config = Config(channels=3, halvings=halvings, width=5)
    assert window_of(config) == window
    torch.manual_seed(2)
    network = ImageClassifier(config, 48, 2).double().eval()
    seen: list[torch.Tensor] = []
    network.mix.register_forward_hook(lambda layer, inputs, output: seen.append(output))
    x = torch.rand(1, 3, 48, 48, dtype=torch.float64, requires_grad=True)
    network(x)
    rows = seen[0].shape[-1]
    seen[0][0, :, rows // 2, rows // 2].sum().backward()
    assert x.grad is not None
    places = x.grad[0].abs().sum((0, 1)).nonzero().flatten()
    assert int(places.max() - places.min()) + 1 <= window


def test_at_gamma_0_the_network_is_the_one_without_attention() -> None:
    torch.manual_seed(2)
    network, plain = ImageClassifier(SMALL, 12, 3).eval(), ImageClassifier(replace(SMALL, attention=None), 12, 3).eval()
    network.load_state_dict({**network.state_dict(), **plain.state_dict()})
    x = torch.rand(2, 3, 12, 12)
    torch.testing.assert_close(network(x), plain(x))
    assert network.monitored() == {"gamma": 0.0} and plain.monitored() == {}
    torch.nn.init.constant_(network.attention.gamma, 0.5)
    assert not torch.allclose(network(x), plain(x))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (replace(SMALL, attention=7), r"\(12, 6\), or null: got 7"),
        (replace(SMALL, halvings=4, attention=None), "halvings"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(config: Config, message: str) -> None:
    with pytest.raises(SaccadeError, match=message):
        ImageClassifier(config, 12, 2)


def test_networks_and_settings_of_other_tasks_are_refused() -> None:
    with pytest.raises(InputError, match=r"model\.name"):
        made().network(Retain, None)
    recipe = read_recipe("dots_attention")
    recipe = replace(recipe, data=replace(recipe.data, features=FeatureConfig("folder")))
    with pytest.raises(InputError, match=r"data\.features"):
        ClassifyImages.check_recipe(recipe)


def test_a_run_learns_logs_gamma_and_predicts_from_files(tmp_path: Path) -> None:
    pixels = {"dark": 40, "light": 200}
    records = [
        (np.random.default_rng(number).integers(level - 30, level + 30, (9, 15, 3), dtype=np.uint8), name)
        for number in range(20)
        for name, level in pixels.items()
    ]
    section = {"image": {"size": 8}, "hold_out": 0.2}
    model = {"name": "image_classifier", "channels": 4, "halvings": 1, "width": 8, "attention": 4}
    train = {"epochs": 6, "batch_records": 8, "batch_tokens": None, "lr": 1e-2, "device": "cpu", "threads": 1}
    recipe = {
        "task": "classify_images",
        "data": section,
        "model": model,
        "train": train,
        "metrics": ["accuracy", "ece"],
    }
    bundle = saccade.train(recipe, records, folder=tmp_path / "run", progress=False)
    assert bundle.figures["test"]["accuracy"] == 1.0
    head, *rows = (tmp_path / "run/evaluations.csv").read_text().splitlines()
    assert head.split(",")[-1] == "gamma" and len({row.split(",")[-1] for row in rows}) == 6
    stream = io.BytesIO()
    Image.fromarray(np.full((20, 11, 3), 205, np.uint8)).save(stream, "PNG")
    (tmp_path / "x.png").write_bytes(stream.getvalue())
    loaded = saccade.load(tmp_path / "run")
    assert [one.value for one in loaded.predict([tmp_path / "x.png", stream.getvalue()])] == ["light", "light"]
    assert loaded.evaluate([(np.full((8, 8, 3), 30, np.uint8), "dark")]) == {
        "accuracy": 1.0,
        "ece": pytest.approx(0, abs=0.5),
    }
