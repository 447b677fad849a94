"""Prepares the inputs of a foreign model: text by its tokenizer, images and sounds by its processor, tensors unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.foreign import labels
from saccade.foreign.labels import Labeller


@dataclass
class ModelInputs:
    """The arguments of the model, and the labels of its axes."""

    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, Labeller] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


def prepare_inputs(model: nn.Module, host: Any, tokenizer: Any, inputs: Any) -> ModelInputs:
    """Inputs as this model takes them. ``host``: the transformers model, if it is one."""
    if isinstance(inputs, Mapping | tuple) and not inputs:
        raise SaccadeError(f"inputs: expected a text, an image or tensors, found an empty {type(inputs).__name__}")
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    if isinstance(inputs, Tensor) or (isinstance(inputs, tuple) and all(isinstance(each, Tensor) for each in inputs)):
        parts = (inputs,) if isinstance(inputs, Tensor) else inputs
        found = ModelInputs(positional=tuple(each.to(device) for each in parts))
        if host is not None and len(parts) == 1:
            found = ModelInputs(named={host.main_input_name: found.positional[0]})
    else:
        found = _encoded(tokenizer, inputs)
        if host is not None and "token_type_ids" not in inspect.signature(host.forward).parameters:
            found.named.pop("token_type_ids", None)  # tokenizers return them even for models that take none
        found.named = {
            name: part.to(device) if isinstance(part, Tensor) else part for name, part in found.named.items()
        }
    if host is not None:
        _label(found, host, tokenizer)
    return found


def listed_texts(inputs: Any) -> Any:
    """A generator, or a Series or an array of texts, as a list; anything else as it is."""
    if isinstance(inputs, Iterator):
        return list(inputs)
    if getattr(inputs, "ndim", None) == 1 and not isinstance(inputs, Tensor):
        values = inputs.tolist()
        return values if all(isinstance(value, str) for value in values) else inputs
    return inputs


def encode_target(host: Any, tokenizer: Any, target: str) -> tuple[Tensor, dict[str, Labeller]]:
    """The decoder's input [1, T] to force ``target``, and the axes ``target`` and ``prefix``."""
    if tokenizer is None:
        raise SaccadeError("target: expected a tokenizer to encode it, found None")
    words = getattr(tokenizer, "tokenizer", tokenizer)
    written = words(text_target=target, return_tensors="pt")["input_ids"]
    if hasattr(host, "prepare_decoder_input_ids_from_labels"):
        read = host.prepare_decoder_input_ids_from_labels(labels=written.to(host.device))
    else:
        config = getattr(host, "generation_config", None) or host.config
        start = config.decoder_start_token_id
        start = config.bos_token_id if start is None else start
        read = torch.cat([torch.full_like(written[:, :1], start), written[:, :-1]], dim=1)
    axes = {"target": written[0], "prefix": read[0]}
    return read.to(host.device), {
        name: labels.exactly(labels.tokens(words, ids.tolist(), target if name == "target" else ""))
        for name, ids in axes.items()
    }


def _encoded(tokenizer: Any, inputs: Any) -> ModelInputs:
    if isinstance(inputs, Mapping) and all(isinstance(part, Tensor) for part in inputs.values()):
        return ModelInputs(named=dict(inputs))
    if tokenizer is None:
        raise SaccadeError(
            f"expected tensors without a tokenizer, found {type(inputs).__name__}: pass the model's tokenizer or "
            "processor, or the tensors that it returns"
        )
    if not callable(tokenizer):
        raise SaccadeError(
            f"tokenizer: expected a tokenizer or processor of transformers, found {type(tokenizer).__name__}"
        )
    try:
        return _by(tokenizer, inputs)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = (str(error).strip().splitlines() or [""])[0]
        raise SaccadeError(
            f"inputs: {type(tokenizer).__name__} cannot read this {type(inputs).__name__} ({type(error).__name__}: {message})"
        ) from error


def _by(tokenizer: Any, inputs: Any) -> ModelInputs:
    if isinstance(inputs, str):
        return _text(getattr(tokenizer, "tokenizer", tokenizer), inputs)  # a processor's tokenizer gives the spans
    if isinstance(inputs, Mapping):
        return ModelInputs(named=dict(tokenizer(**inputs, return_tensors="pt")))
    if isinstance(inputs, tuple) and all(isinstance(each, str) for each in inputs):
        return ModelInputs(named=dict(tokenizer(*inputs, return_tensors="pt")), about={"input": " | ".join(inputs)})
    return ModelInputs(named=dict(tokenizer(images=inputs, return_tensors="pt")))


def _text(tokenizer: Any, text: str) -> ModelInputs:
    fast = getattr(tokenizer, "is_fast", False)
    encoded = dict(tokenizer(text, return_tensors="pt", **({"return_offsets_mapping": True} if fast else {})))
    spans = encoded.pop("offset_mapping", None)
    if encoded["input_ids"].shape[-1] == 0:
        raise SaccadeError(f"expected at least one token, found none in {text!r}")
    spans = [] if spans is None else [(int(start), int(end)) for start, end in spans[0]]
    axis = labels.tokens(tokenizer, encoded["input_ids"][0].tolist(), text, spans)
    return ModelInputs(named=encoded, axes={"input": labels.exactly(axis)}, about={"input": text})


def _label(found: ModelInputs, host: Any, tokenizer: Any) -> None:
    """Label axes of tokens and images that have no labels yet."""
    for name, part in found.named.items():
        if isinstance(part, Tensor) and not part.numel():
            raise SaccadeError(f"inputs: expected a non-empty tensor, found {list(part.shape)} ({name})")
    words = getattr(tokenizer, "tokenizer", tokenizer)
    words = words if hasattr(words, "convert_ids_to_tokens") else None
    for argument, axis in (("input_ids", "input"), ("decoder_input_ids", "target")):
        ids = found.named.get(argument)
        if isinstance(ids, Tensor) and ids.dim() == 2 and axis not in found.axes:
            found.axes[axis] = labels.exactly(labels.tokens(words, ids[0].tolist()))
    pixels, side = found.named.get("pixel_values"), _patch(host.config)
    if isinstance(pixels, Tensor) and pixels.dim() == 4 and side is not None:
        found.axes["image"] = labels.patches(pixels[0], side, labels.picture(pixels[0], tokenizer))


def _patch(config: Any) -> tuple[int, int] | None:
    for part in (config, getattr(config, "vision_config", None), getattr(config, "encoder", None)):
        side = getattr(part, "patch_size", None)
        if isinstance(side, int):
            return side, side
        if isinstance(side, tuple | list) and len(side) == 2:
            return int(side[0]), int(side[1])
    return None
