"""The task caption with a backbone that it trains: its own rate, fixed statistics, bundles without the folder, exact resume."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import saccade
from saccade import api
from saccade.bundle_format import WEIGHTS
from saccade.data.images.batch import scaled
from saccade.data.images.config import Augment, FeatureConfig, Tune
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.records import CaptionData
from saccade.data.toy.shapes import Shapes
from saccade.errors import InputError, SaccadeError
from saccade.models.show_attend_tell import Config, ShowAttendTell
from saccade.nn.backbones import Backbone, TunedBackbone, backbone_like
from saccade.nn.captioner import Seen
from saccade.plugins import EVERYTHING, searching
from saccade.tasks.caption import Caption
from saccade.trace import Lens
from saccade.training import stepping
from saccade.training.config import Train
from saccade.training.stepping import Stepper
from tests.training.recorders import Repeater
from tests.training.small_tasks import DieAt, Died
from tests.training.test_loop import assert_same_run

transformers: Any = pytest.importorskip("transformers", reason="pip install 'saccade[transformers]'")

OWN = """
import torch
from torch import nn
class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.convolution, self.norm = nn.Conv2d(3, 7, 8, stride=8, bias=False), nn.BatchNorm2d(7)
    def forward(self, pixels):
        return torch.relu(self.norm(self.convolution(pixels)))
"""
SMALL = Config(hidden=5, embedding=4, alignment=3, dropout=0.0)
GRID = (3, 3, 7)  # of 24 × 24 pixels, by both backbones
NAMES = ("resnet in a folder", "own class")


@pytest.fixture
def backbones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a backbone and returns its name: a random ResNet in a folder, or a class of one's own."""
    (tmp_path / "own_tuned_backbone.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_tuned_backbone", raising=False)

    def write(kind: str) -> str:
        if kind == "own class":
            return "own_tuned_backbone:Tiny"
        torch.manual_seed(5)
        config = transformers.ResNetConfig(embedding_size=5, hidden_sizes=[6, 7], depths=[1, 1], layer_type="basic")
        model = transformers.ResNetModel(config)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
        model.save_pretrained(tmp_path / "resnet")
        return str(tmp_path / "resnet")

    yield write
    sys.modules.pop("own_tuned_backbone", None)


def data(backbone: str, **changes: Any) -> CaptionData:
    features = FeatureConfig(backbone, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), tune=Tune(0.02))
    shapes = Shapes(train=23, valid=5, test=7, size=24)
    sizes: dict[str, Any] = {"image": ImageConfig(size=24), "max_length": 12}
    return CaptionData(source="shapes", shapes=shapes, features=features, **sizes, **changes)


def made(backbone: str, **changes: Any) -> tuple[Caption, ShowAttendTell, Any]:
    """The task, a network, and a batch of three pictures."""
    own = data(backbone, **changes)
    with searching(trust=EVERYTHING):
        splits = Caption.load(own, Path("."), 1)
        task = Caption.learn(own, splits.train)
    torch.manual_seed(1)
    network: Any = task.network(ShowAttendTell, SMALL)
    return task, network, task.batch(task.corpus(splits.train, "data.train"), [4, 0, 2])


@pytest.mark.parametrize("kind", NAMES)
def test_pixels_go_through_the_backbone_which_is_part_of_the_network(
    kind: str, backbones: Callable[[str], str]
) -> None:
    task, network, batch = made(backbones(kind))
    assert batch.source.dtype is torch.uint8 and batch.source.shape == (3, 3, 24, 24)
    assert network.grid == GRID[:2] and isinstance(network.cnn, TunedBackbone)
    with torch.no_grad():
        found = network.encode(scaled(batch.source)).annotations
        torch.testing.assert_close(found, network.cnn.backbone(batch.source), rtol=1e-4, atol=1e-4)
    other = task.network(ShowAttendTell, SMALL)  # each network has a backbone of its own, that starts equal
    for (name, one), another in zip(network.cnn.named_parameters(), other.cnn.parameters(), strict=True):
        assert torch.equal(one, another) and one is not another, name


@pytest.mark.parametrize("kind", NAMES)
def test_the_backbone_is_trained_at_its_own_rate(kind: str, backbones: Callable[[str], str]) -> None:
    task, network, batch = made(backbones(kind))
    stepper = Stepper(task, network, Train(device="cpu", optimiser="sgd", lr=0.3, clip=None))
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    stepper.update(batch, 0.15)  # a schedule halves the rate
    reached = 0
    for name, parameter in network.named_parameters():
        rate = 0.01 if name.startswith("cnn.") else 0.15
        if parameter.grad is not None and (name.startswith("cnn.") and bool(parameter.grad.any())):
            reached += 1
        if parameter.grad is not None:
            torch.testing.assert_close(before[name] - parameter.detach(), rate * parameter.grad, atol=1e-6, rtol=1e-3)
    assert reached > 2


@pytest.mark.parametrize("kind", NAMES)
def test_statistics_of_batch_normalisation_stay_those_that_the_backbone_came_with(
    kind: str, backbones: Callable[[str], str]
) -> None:
    task, network, batch = made(backbones(kind))
    norms = [part for part in network.cnn.modules() if isinstance(part, nn.BatchNorm2d)]
    before = [(norm.running_mean.clone(), norm.running_var.clone()) for norm in norms]
    network.train()
    assert norms and network.training and not any(part.training for part in network.cnn.backbone.modules())
    together = network.encode(scaled(batch.source)).annotations
    alone = network.encode(scaled(batch.source[1:2])).annotations
    torch.testing.assert_close(together[1:2], alone)  # a picture's features do not depend on its batch
    Stepper(task, network, Train(device="cpu")).update(batch, 0.1)
    for norm, (mean, variance) in zip(norms, before, strict=True):
        assert torch.equal(norm.running_mean, mean) and torch.equal(norm.running_var, variance)


def test_updates_with_recorded_graphs_are_those_without(
    backbones: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, network, batch = made(backbones("resnet in a folder"))
    eager, recorder, found = copy.deepcopy(network), Repeater(), []
    for each, chosen in ((network, recorder), (eager, None)):
        monkeypatch.setattr(stepping, "recorder_for", lambda device, chosen=chosen: chosen)
        said: list[str] = []
        stepper = Stepper(task, each, Train(device="cpu", optimiser="sgd", lr=0.01), said.append)
        found.append([list(stepper.update(batch, 0.01).read()) for _ in range(3)])
        assert said == []
    assert recorder.recorded == 1 and torch.tensor(found[0]).allclose(torch.tensor(found[1]), rtol=1e-4)
    for one, other in zip(network.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_backbone_sees_varied_pictures_in_training_and_the_unchanged_ones_else(
    backbones: Callable[[str], str],
) -> None:
    augment = Augment(flip=True, shift=0.3, colour=0.4)
    task, network, batch = made(backbones("own class"), augment=augment)
    given: list[torch.Tensor] = []
    network.cnn.backbone.register_forward_pre_hook(lambda part, inputs: given.append(inputs[0].detach()))
    (phase,) = task.phases(network)
    phase.loss(network.train(), batch)
    phase.loss(network.eval(), batch)
    task.loss(network, batch)
    assert all((given[0][row] - batch.source[row]).abs().max() > 1 for row in range(3))
    assert given[0].min() >= 0 and given[0].max() <= 255
    for pixels in given[1:]:
        torch.testing.assert_close(pixels, batch.source.float(), atol=1e-3, rtol=1e-5)


def recipe(backbone: str, **changes: Any) -> dict[str, Any]:
    features = {"backbone": backbone, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "tune": {"lr": 0.02}}
    return {
        "task": "caption",
        "data": {
            "source": "shapes", "shapes": {"train": 23, "valid": 5, "test": 7, "size": 24}, "image": {"size": 24},
            "max_length": 12, "features": {**features, **changes.pop("features", {})},
            "augment": {"flip": True, "shift": 0.1},
        },
        "model": {"name": "show_attend_tell", "hidden": 5, "embedding": 4, "alignment": 3},
        "train": {
            "epochs": 2, "batch_records": 8, "batch_tokens": None, "threads": 1, "device": "cpu", "lr": 0.05,
            "save_every": 2, **changes.pop("train", {}),
        },
        "metrics": ["exact_match", "perplexity"],
        **changes,
    }  # fmt: skip


def frozen(backbone: str) -> dict[str, Any]:
    plain = recipe(backbone, features={"cache": "kept", "tune": None})
    del plain["data"]["augment"]
    return plain


PICTURE = np.random.default_rng(4).integers(0, 256, (30, 50, 3), dtype=np.uint8)


def test_a_bundle_holds_the_trained_backbone_and_needs_no_folder(
    backbones: Callable[[str], str], tmp_path: Path
) -> None:
    folder = Path(backbones("resnet in a folder"))
    bundle = saccade.train(recipe(str(folder)), folder=tmp_path / "run", progress=False)
    untrained = load_tensors_of(folder)
    name = next(name for name in untrained if name.endswith("convolution.weight"))
    trained = bundle.network.state_dict()[f"cnn.backbone.network.{name}"]
    assert trained.shape == untrained[name].shape and not torch.equal(trained, untrained[name])
    before = bundle.predict(PICTURE, lens=Lens())[0]
    shutil.rmtree(folder)
    again = saccade.load(tmp_path / "run")
    assert not any(part.training for part in again.network.modules())
    after = again.predict(PICTURE, lens=Lens())[0]
    assert after.value == before.value and after.log_prob == pytest.approx(before.log_prob, abs=1e-6)
    same = 1e-5 if torch.cuda.is_available() else 0.0  # a GPU chooses how to convolve anew in every network
    torch.testing.assert_close(after.trace.maps[0].weights, before.trace.maps[0].weights, atol=same, rtol=0)
    grid = after.trace.axes["image"]
    assert (grid.height, grid.width) == GRID[:2] and tuple(grid.image.shape) == PICTURE.shape
    assert again.evaluate() == pytest.approx(bundle.evaluate())
    assert again.evaluate(**{"data.max_length": 11})["perplexity"] > 1


def load_tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_a_class_of_ones_own_is_restored_with_trust_alone(backbones: Callable[[str], str], tmp_path: Path) -> None:
    bundle = saccade.train(recipe(backbones("own class")), folder=tmp_path / "run", progress=False)
    with pytest.raises(SaccadeError, match="own_tuned_backbone"):
        saccade.load(tmp_path / "run")
    again = saccade.load(tmp_path / "run", trust=["own_tuned_backbone"])
    assert again.predict(PICTURE)[0].log_prob == pytest.approx(bundle.predict(PICTURE)[0].log_prob, abs=1e-6)


@pytest.mark.parametrize("kind", NAMES)
def test_a_run_that_was_stopped_resumes_bit_for_bit(kind: str, backbones: Callable[[str], str], tmp_path: Path) -> None:
    settings = recipe(backbones(kind), train={"optimiser": "adam"})
    saccade.train(settings, folder=tmp_path / "whole", progress=False)
    with pytest.raises(Died):
        saccade.train(settings, folder=tmp_path / "cut", report=DieAt(5))
    torch.manual_seed(99)
    api.resume(tmp_path / "cut", trust=["own_tuned_backbone"], progress=False)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_tuning_starts_from_a_run_on_the_kept_features_of_the_same_backbone(
    backbones: Callable[[str], str], tmp_path: Path
) -> None:
    folder = Path(backbones("resnet in a folder"))
    parent = saccade.train(frozen(str(folder)), folder=tmp_path / "frozen", progress=False)
    child = recipe(str(folder), train={"from": str(tmp_path / "frozen"), "lr": 1e-9, "epochs": 1})
    child["data"]["features"]["tune"]["lr"] = 1e-9
    tuned = saccade.train(child, folder=tmp_path / "tuned", progress=False)
    state, before, untrained = tuned.network.state_dict(), parent.network.state_dict(), load_tensors_of(folder)
    for name, tensor in state.items():
        expected = before[name] if name in before else untrained[name.removeprefix("cnn.backbone.network.")]
        torch.testing.assert_close(tensor, expected, atol=1e-6, rtol=0)
    again = {**child, "train": {**child["train"], "from": str(tmp_path / "tuned")}}
    saccade.train(again, folder=tmp_path / "further", progress=False)
    another = recipe("own_tuned_backbone:Tiny", train=again["train"])
    with pytest.raises(
        InputError, match=r"data\.features\.backbone: expected '.*resnet', which the network was trained"
    ):
        saccade.train(another, folder=tmp_path / "another", progress=False)
    back = frozen(str(folder))
    back["train"]["from"] = str(tmp_path / "tuned")
    with pytest.raises(InputError, match=r"data\.features\.tune.*which the run has trained"):
        saccade.train(back, folder=tmp_path / "back", progress=False)
    tensors = load_tensors_of(folder)
    from safetensors.torch import save_file

    save_file({name: tensor * 1.5 for name, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="the backbone that the network was trained with"):
        saccade.train(child, folder=tmp_path / "another", progress=False)


class Blind(ShowAttendTell):
    """A captioner that leaves the backbone out."""

    def __init__(self, config: Config, size: int, seen: Seen, start: int) -> None:
        super().__init__(config, size, Seen(features=seen.features), start)


def test_what_cannot_be_tuned_is_one_error_that_names_the_field(
    backbones: Callable[[str], str], tmp_path: Path
) -> None:
    name = backbones("own class")
    for setting, value in {"cache": "kept", "batch": 4}.items():
        with pytest.raises(ValueError, match=f"{setting} must be left out with tune"):
            FeatureConfig(name, tune=Tune(0.1), **{setting: value})
        with pytest.raises(InputError, match=f"data.features.{setting}"):
            saccade.train(recipe(name, features={setting: value}), folder=tmp_path / "run", progress=False)
    with pytest.raises(ValueError, match="lr must be positive: got 0"):
        Tune(0)
    with pytest.raises(ValueError, match=r"augment must be left out.*features\.tune"):
        replace(data(name), features=FeatureConfig(name), augment=Augment(flip=True))
    task, network, _ = made(name)
    with pytest.raises(InputError, match=r"model\.name.*seen\.backbone.*data\.features\.tune"):
        task.network(Blind, SMALL)
    network.cnn.requires_grad_(False)
    with pytest.raises(InputError, match=r"data\.features\.tune.*cnn.*frozen"):
        task.phases(network)


def test_a_bundle_with_another_architecture_is_refused(backbones: Callable[[str], str], tmp_path: Path) -> None:
    saccade.train(recipe(backbones("resnet in a folder")), folder=tmp_path / "run", progress=False)
    file = next((tmp_path / "run").rglob("features.json"))
    stated = json.loads(file.read_text(encoding="utf-8"))
    assert stated["grid"] == list(GRID) and (tmp_path / "run" / WEIGHTS).exists()

    def refused(change: Callable[[dict[str, Any]], Any]) -> str:
        other = json.loads(json.dumps(stated))
        change(other)
        files = {**files_of(tmp_path), "features.json": json.dumps(other)}
        with pytest.raises(InputError) as error:
            Caption.restore(data(str(tmp_path / "resnet")), files).network(ShowAttendTell, SMALL)
        return str(error.value)

    assert "config" in refused(lambda other: other["tuned"].pop("config"))
    assert "a model of transformers" in refused(lambda other: other["tuned"]["config"].update(model_type="mine"))
    assert "grid" in refused(lambda other: other.update(grid=[3, 3]))
    assert "mean" in refused(lambda other: other["tuned"].update(mean=[1, 2]))
    assert "architecture" in refused(lambda other: other.update(tuned=[1]))


def files_of(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in (folder / "run").rglob("tokenizer.json")}


def test_a_backbone_is_made_again_from_its_architecture(backbones: Callable[[str], str]) -> None:
    backbone = Backbone(nn.Conv2d(3, 5, 2), mean=[0.1, 0.2, 0.3], std=[0.4, 0.5, 0.6])
    assert backbone.architecture == {"config": None, "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "special": None}
    name = backbones("own class")
    with searching(trust=EVERYTHING):
        like = backbone_like(name, backbone.architecture)
    assert like.mean == backbone.mean and like.std == backbone.std and not like.training
