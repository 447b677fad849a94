"""Turns pictures into grids of features by a network that was trained elsewhere.

    a₁ … a_L = the output of one layer of the network for (pixels / 255 − mean) / std, cell by cell, row by row

The network is ``efficientnet_lite0``; a model of ``transformers`` in a local folder (config.json and safetensors: ResNet,
ConvNeXt, ViT, DINOv2, Swin …); or ``package.module:Class`` of your own, a module from normalised pixels [B, 3, S, S] to maps.
Nothing is downloaded, no code of a folder is run, and only safetensors are read. What follows the layer is not computed.

A :class:`Backbone` is a module: frozen, its features can be computed once (:mod:`saccade.data.images.features`); as part of
a network (:class:`TunedBackbone`) it is trained with it.

Legend: B batch, S pixels across and down, L cells of an h × w grid, C = D channels.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from saccade.errors import InputError, SaccadeError
from saccade.extras import need
from saccade.nn.efficientnet import MEAN, STD, EfficientNetLite0, efficientnet_lite0, published_weights
from saccade.plugins import call, is_own, load_class
from saccade.storage import read_json, stored_tensors

LAST = {"efficientnet_lite0": "head"}  # the layer whose output is taken unless one is named
MOST_SPECIAL = 8  # tokens before those of the patches: [CLS], registers
POOLED = ("pooler", "classifier", "head", "fc")  # parts that grids do not need
WEIGHTS = "*.safetensors"


class _Reached(Exception):
    """The layer whose output is wanted has been computed."""


class Backbone(nn.Module):
    """A network up to one of its layers, with the normalisation of its pixels.

    Args:
        network: takes normalised pixels [B, 3, S, S].
        layer: the name of the module whose output is the grid; the network's own output unless given.
        mean, std: of the channels, as shares of 255.
        name: what errors call it.
        special: how many tokens stand before those of the patches, where this is known.
        config: of a model of ``transformers``, the content of its config.json.

    Shapes: pixels [B, 3, S, S], 0 to 255 → features [B, L, D], and :meth:`grid` says L = h · w.

    >>> backbone = Backbone(nn.Sequential(nn.Conv2d(3, 5, 2, stride=2), nn.ReLU()), layer="0")
    >>> backbone(torch.zeros(7, 3, 6, 6, dtype=torch.uint8)).shape, backbone.grid(6)
    (torch.Size([7, 9, 5]), (3, 3, 5))
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        layer: str | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        name: str = "the backbone",
        special: int | None = None,
        source: str = "",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.network, self.layer, self.name, self.special, self.source = network, layer, name, special, source
        self.mean, self.std = tuple(mean or (0.0, 0.0, 0.0)), tuple(std or (1.0, 1.0, 1.0))
        self.config = config
        for part, values in (
            ("centre", self.mean),
            ("scale", self.std),
        ):  # on the device: a CUDA graph cannot copy them
            self.register_buffer(part, torch.tensor(values).view(3, 1, 1), persistent=False)
        if layer is not None:
            known = dict(network.named_modules())
            if layer not in known or not layer:
                raise InputError(
                    name, field="layer", expected="the name of a module in it", found=repr(layer), hint=_names(known)
                )

    def forward(self, pixels: UInt8[Tensor, "B 3 S S"] | Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B L D"]:
        features: Tensor = self.maps(pixels).flatten(2).mT
        return features

    def grid(self, size: int) -> tuple[int, int, int]:
        """The rows, the columns and the width of the features of pictures of this size."""
        like = next(self.parameters(), torch.zeros(()))
        with torch.no_grad(), _evaluating(self):
            _, D, h, w = self.maps(torch.zeros(1, 3, size, size, dtype=torch.uint8, device=like.device)).shape
        return h, w, D

    def maps(self, pixels: Tensor) -> Float[Tensor, "B D h w"]:
        """The features as maps."""
        like = next(self.parameters(), torch.zeros((), device=pixels.device))
        dtype = like.dtype if like.is_floating_point() else torch.float32
        mean, std = (part.to(pixels.device, dtype) for part in (self.get_buffer("centre"), self.get_buffer("scale")))
        found = self._output((pixels.to(dtype) / 255 - mean) / std)
        return self._as_maps(found, pixels.shape[2])

    def _output(self, pixels: Tensor) -> Any:
        if self.layer is None:
            return self._run(pixels)
        reached: list[Any] = []

        def stop(module: nn.Module, given: Any, output: Any) -> None:
            reached.append(output)
            raise _Reached

        handle = self.network.get_submodule(self.layer).register_forward_hook(stop)
        try:
            self._run(pixels)
        except _Reached:
            pass
        finally:
            handle.remove()
        if not reached:
            raise InputError(
                self.name, field="layer", expected="a module that pictures pass through", found=repr(self.layer)
            )
        return reached[0]

    def _run(self, pixels: Tensor) -> Any:
        try:
            return self.network(pixels)
        except (_Reached, SaccadeError, torch.OutOfMemoryError):
            raise
        except (ValueError, RuntimeError, TypeError) as error:
            size = f"pictures of {pixels.shape[2]} × {pixels.shape[3]} pixels"
            found = " ".join(str(error).split())[:200]
            hint = "data.image.size is the size of the pictures"
            raise InputError(self.name, expected=f"a network that takes {size}", found=found, hint=hint) from error

    def _as_maps(self, found: Any, size: int) -> Float[Tensor, "B D h w"]:
        tensor = _tensor_in(found)
        if tensor is not None and tensor.dim() == 4:
            # The grid of a square is square, so this has its channels last.
            return tensor.permute(0, 3, 1, 2) if tensor.shape[1] == tensor.shape[2] != tensor.shape[3] else tensor
        if tensor is not None and tensor.dim() == 3:
            tokens = tensor.shape[1]
            side = math.isqrt(tokens if self.special is None else max(tokens - self.special, 0))
            before = tokens - side * side
            if side and (before <= MOST_SPECIAL if self.special is None else before == self.special):
                maps: Tensor = tensor[:, before:].mT.unflatten(2, (side, side))
                return maps
        shape = f"the shape {list(tensor.shape)}" if tensor is not None else f"a {type(found).__name__}"
        where = "its output" if self.layer is None else f"the output of {self.layer}"
        known = _names(dict(self.network.named_modules()))
        expected = f"{where} to be maps [B, D, h, w] or a square of tokens [B, L, D]"
        raise InputError(self.name, field="layer", expected=expected, found=shape, hint=known)

    @property
    def architecture(self) -> dict[str, Any]:
        """What :func:`backbone_like` makes it from again, beside its name; the weights are not part of it."""
        return {"config": self.config, "mean": list(self.mean), "std": list(self.std), "special": self.special}

    @property
    def digest(self) -> str:
        """What the features of a picture depend on: the weights, the layer, the normalisation, the code of your own class."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(json.dumps([type(self.network).__name__, self.layer, self.mean, self.std, self.source]).encode())
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


class TunedBackbone(nn.Module):
    """A backbone as part of a network that is trained: pictures of values from −1 to 1 → annotations of their cells.

    It is in evaluation mode in training too: batch normalisation uses the statistics that the backbone came with, since those
    of small batches of few pictures would be worse, and nothing is dropped. Its gradients are those of this function.

    Shapes: pictures [B, 3, S, S] → annotations [B, L, D].
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.backbone.eval()

    def forward(self, pictures: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B L D"]:
        annotations: Tensor = self.backbone((pictures + 1) * 127.5)
        return annotations

    def train(self, mode: bool = True) -> TunedBackbone:
        super().train(mode)
        self.backbone.eval()
        return self


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in training.items():
            part.training = mode


def _tensor_in(found: Any) -> Tensor | None:
    """The tensor in what a module gave: itself, or the first of a tuple or of a model's output."""
    for _ in range(3):
        if isinstance(found, Tensor):
            return found
        if isinstance(found, dict):  # outputs of transformers are, too
            found = next(iter(found.values()), None)
        elif isinstance(found, tuple | list) and found:
            found = found[0]
    return None


def _names(modules: dict[str, Any], most: int = 12) -> str:
    """Names of modules to choose from: those of the upper levels."""
    names = sorted((name for name in modules if name), key=lambda name: name.count("."))[:most]
    return f"such as {', '.join(names)}" if names else "it has no parts"


# Finding one ----------------------------------------------------------------------------------------------------------


def load_backbone(
    name: str,
    *,
    layer: str | None = None,
    weights: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Backbone:
    """The backbone with this name, in evaluation mode.

    Args:
        name: ``efficientnet_lite0``, a folder with a model of ``transformers``, or ``package.module:Class``, which the trust in
            the caller's names must allow (:mod:`saccade.plugins`).
        layer: the module whose output is the grid; for a folder or a class the output of the whole, unless given.
        weights: of ``efficientnet_lite0`` a safetensors file in place of the installed package; of a class what it is called
            with.
        mean, std: of the channels, as shares of 255; as published or as the folder says, unless given.
    """
    if name in LAST:
        tensors = published_weights() if weights is None else _safetensors(Path(weights))
        network: nn.Module = efficientnet_lite0(tensors, name if weights is None else weights)
        made = Backbone(network, layer=layer or LAST[name], mean=mean or MEAN, std=std or STD, name=name)
    elif is_own(name):
        made = _own(name, layer, weights, mean, std)
    else:
        if weights is not None:
            raise InputError(
                name, field="weights", expected="none: a folder holds its weights", found=repr(str(weights))
            )
        made = _of_folder(Path(name), layer, mean, std)
    return _ready(made)


def backbone_like(
    name: str,
    architecture: Any,
    *,
    layer: str | None = None,
    weights: str | Path | None = None,
    where: str = "backbone",
) -> Backbone:
    """The backbone of this name and :attr:`Backbone.architecture` with other weights, to be replaced by those of a bundle; a
    folder need not be there. ``where`` is the file that errors in the architecture name."""
    stated = architecture if isinstance(architecture, dict) else {}
    mean, std = (_channels(stated, part, where) for part in ("mean", "std"))
    special = stated.get("special")
    if mean is None or std is None or not (special is None or isinstance(special, int)):
        raise InputError(where, expected="the architecture of a backbone", found="another document")
    if name in LAST:
        made = Backbone(EfficientNetLite0(), layer=layer or LAST[name], mean=mean, std=std, name=name)
    elif is_own(name):
        made = _own(name, layer, weights, mean, std)
    else:
        config = stated.get("config")
        if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
            raise InputError(where, field="config", expected="the config.json of a model", found="none")
        library: Any = need("transformers", extra="transformers", for_="a backbone of transformers")
        with _quiet(library), _described_as_model(where):
            known = library.AutoConfig.for_model(**{key: part for key, part in config.items() if key != "auto_map"})
            network = library.AutoModel.from_config(known, trust_remote_code=False, dtype=torch.float32)
        made = Backbone(network, layer=layer, mean=mean, std=std, name=name, special=special, config=config)
    return _ready(made)


def _ready(made: Backbone) -> Backbone:
    # With channels last, convolutions take about half of the time on a CPU.
    made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return made.eval()


def _own(
    name: str, layer: str | None, weights: str | Path | None, mean: Sequence[float] | None, std: Sequence[float] | None
) -> Backbone:
    made_by = load_class(name, nn.Module, "torch.nn.Module")
    given = () if weights is None else (str(weights),)
    expected = f"{name} to be made from {'its file of weights' if given else 'nothing'}"
    network: nn.Module = call(name, made_by, *given, expected=expected)
    try:
        source = inspect.getsource(inspect.getmodule(made_by) or made_by)
    except (OSError, TypeError):  # it has no file
        source = name
    return Backbone(network, layer=layer, mean=mean, std=std, name=name, source=source)


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    if path.suffix != ".safetensors":
        raise InputError(path, expected="a safetensors file: other formats may run code", found=repr(path.suffix))
    stored_tensors(path)  # refuses what is damaged
    return load_file(path)


def _of_folder(folder: Path, layer: str | None, mean: Sequence[float] | None, std: Sequence[float] | None) -> Backbone:
    """A model of ``transformers`` in a folder."""
    if not folder.is_dir():
        expected = f"{', '.join(LAST)}, package.module:Class, or a folder with a model of transformers"
        raise InputError(str(folder), expected=expected, found="a file" if folder.exists() else "no such folder")
    config = read_json(folder / "config.json")
    files = sorted(folder.glob(WEIGHTS))
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise InputError(
            folder / "config.json", field="model_type", expected="the name of an architecture", found="none"
        )
    if not files:
        hint = "other formats may run code: save the model again with save_pretrained"
        raise InputError(folder, expected="weights as safetensors", found="none", hint=hint)
    for file in files:
        stored_tensors(file)
    library: Any = need("transformers", extra="transformers", for_="a backbone in a folder")
    with _quiet(library), _described_as_model(folder):
        network, report = library.AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, output_loading_info=True,
            dtype=torch.float32,
        )  # fmt: skip
    if network.main_input_name != "pixel_values":
        raise InputError(folder, expected="a model of pictures", found=f"one of {network.main_input_name}")
    missing = sorted(name for name in report["missing_keys"] if not _pooled(name))
    if missing:
        found = f"none for {len(missing)} parts, such as {missing[0]}"
        raise InputError(folder, expected="weights of every part", found=found)
    shown = folder / "preprocessor_config.json"
    stated = read_json(shown) if shown.is_file() else {}
    stated = stated if isinstance(stated, dict) and stated.get("do_normalize", True) else {}
    return Backbone(
        network, layer=layer, mean=mean or _channels(stated, "image_mean", shown),
        std=std or _channels(stated, "image_std", shown), name=str(folder), special=_special(network, layer),
        config=config,
    )  # fmt: skip


@contextmanager
def _described_as_model(where: str | Path) -> Iterator[None]:
    """The library's errors, of many kinds from unknown architectures to tensors of other shapes, as one."""
    try:
        yield
    except Exception as error:
        found = " ".join(str(error).split())[:200]
        raise InputError(where, expected="a model of transformers", found=found) from None


def _pooled(name: str) -> bool:
    return any(part in POOLED for part in name.split("."))


def _channels(stated: dict[str, Any], name: str, where: str | Path) -> tuple[float, ...] | None:
    values = stated.get(name)
    if values is None:
        return None
    if not (isinstance(values, list) and len(values) == 3 and all(isinstance(value, int | float) for value in values)):
        raise InputError(where, field=name, expected="three numbers", found=repr(values)[:60])
    return tuple(map(float, values))


def _special(network: Any, layer: str | None) -> int | None:
    """How many tokens stand before those of the patches, where the configuration tells."""
    registers = network.config.to_dict().get("num_register_tokens")
    return 1 + registers if isinstance(registers, int) else None


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Without the library's progress bars and reports; what matters of them is an error here."""
    logging = library.utils.logging
    verbosity: int = logging.get_verbosity()
    shows: Callable[[], bool] = logging.is_progress_bar_enabled
    shown = shows()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
