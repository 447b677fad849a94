"""Labels the axes of a foreign model's maps: tokens by its tokenizer, patches by their image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.trace.axes import Axis, Grid, Positions, Tokens
from saccade.trace.maps import AttentionMap, Trace

MOST_SPECIAL = 16
"""The most tokens beside the patches (a class token, registers) of an image model."""

Labeller = Callable[[int], Axis | None]
"""The axis for a number of positions, or None if the labels do not fit."""


def tokens(tokenizer: Any, ids: Sequence[int], text: str = "", spans: Sequence[tuple[int, int]] = ()) -> Axis:
    """Tokens as the tokenizer decodes them, special ones by name; with ``spans``, as they are in ``text``."""
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        return Positions(tuple(map(str, ids)))
    special = set(getattr(tokenizer, "all_special_ids", ()))
    names = tokenizer.convert_ids_to_tokens(list(ids))
    labels = []
    for place, (token, name) in enumerate(zip(ids, names, strict=True)):
        if token in special:
            labels.append(str(name))
        elif spans and spans[place][0] < spans[place][1]:
            labels.append(text[slice(*spans[place])])
        else:
            # Ids beyond the tokenizer's have no name: some models have more rows than their tokenizer has pieces.
            labels.append(str(token) if name is None else tokenizer.decode([token]) or str(name))
    marked = tuple(place for place, token in enumerate(ids) if token in special)
    return Tokens(tuple(labels), text=text, spans=tuple((start, end) for start, end in spans), special=marked)


def exactly(axis: Axis) -> Labeller:
    return lambda size: axis if size == len(axis) else None


def patches(pixels: Tensor, side: tuple[int, int], image: Tensor | None) -> Labeller:
    """Patches of an image [3, rows, columns], and special tokens before them."""
    height, width = pixels.shape[-2] // side[0], pixels.shape[-1] // side[1]
    names = tuple(f"{row},{column}" for row in range(height) for column in range(width))

    def label(size: int) -> Axis | None:
        before = size - len(names)
        if before == 0:
            return Grid(names, height=height, width=width, image=image)
        if not 0 < before <= MOST_SPECIAL:
            return None
        special = ("[CLS]", *(f"[{number}]" for number in range(1, before)))
        return Tokens((*special, *names), special=tuple(range(before)))

    return label


def picture(pixels: Tensor, processor: Any) -> Tensor | None:
    """The image [rows, columns, 3] in bytes behind a processor's pixels [3, rows, columns]; None without 1 or 3 channels."""
    if len(pixels) not in (1, 3):
        return None
    pixels = pixels.detach().float().cpu()
    processor = getattr(processor, "image_processor", processor)
    mean, deviation = getattr(processor, "image_mean", None), getattr(processor, "image_std", None)
    if mean is not None and deviation is not None and len(pixels) == len(mean):
        pixels = pixels * torch.tensor(deviation)[:, None, None] + torch.tensor(mean)[:, None, None]
    else:
        low, high = pixels.min(), pixels.max()
        pixels = (pixels - low) / (high - low).clamp(min=1e-12)
    return (pixels.expand(3, -1, -1).permute(1, 2, 0).clamp(0, 1) * 255).round().to(torch.uint8).contiguous()


def given(axes: Mapping[str, Axis | Sequence[str]]) -> dict[str, Labeller]:
    """Labels chosen by the caller, which must fit."""

    def fitting(name: str, axis: Axis) -> Labeller:
        def label(size: int) -> Axis:
            if size != len(axis):
                raise SaccadeError(f"axes[{name!r}]: expected {size} labels, found {len(axis)}")
            return axis

        return label

    made = {name: axis if isinstance(axis, Axis) else Tokens(tuple(map(str, axis))) for name, axis in axes.items()}
    return {name: fitting(name, axis) for name, axis in made.items()}


def labelled(trace: Trace, labels: Mapping[str, Labeller], *, chosen: Iterable[str] = (), **about: Any) -> Trace:
    """The trace with labelled axes. If maps over one axis differ in size, its name stays with the size that the labels fit,
    or else with the first; other sizes are named ``name:size``. ``chosen``: axes that must exist."""
    axes: dict[str, Axis] = {}
    maps = []
    for map in trace.maps:
        query = _named(map.query, map.step + map.queries, labels, axes)
        key = _named(map.key, map.keys, labels, axes)
        maps.append(replace(map, query=query, key=key))
    unknown = [name for name in chosen if name not in axes]
    if unknown:
        raise SaccadeError(f"axes: expected names among {', '.join(sorted(axes))}, found {unknown[0]!r}")
    image = axes.get("image")
    if isinstance(image, Tokens) and "image" in labels:
        patch = labels["image"](len(image) - len(image.special))
        axes |= {} if patch is None else {"patches": patch}
    whole = replace(trace, axes=axes, maps=tuple(maps))
    grids = [each for map in whole.maps for each in _on_the_grid(map, axes)]
    return replace(whole, maps=(*whole.maps, *grids)).labelled(axes, **about)


def _named(name: str, size: int, labels: Mapping[str, Labeller], axes: dict[str, Axis]) -> str:
    """The name of the axis of this size, which is added if it is missing."""
    axis = labels[name](size) if name in labels else None
    if name in axes and len(axes[name]) == size:
        return name
    if axis is not None or (name not in axes and name not in labels):
        axes[name] = Positions.of(size) if axis is None else axis
        return name
    axes[f"{name}:{size}"] = Positions.of(size)
    return f"{name}:{size}"


def _on_the_grid(map: AttentionMap, axes: dict[str, Axis]) -> list[AttentionMap]:
    """For a map over patches and special tokens, a further map over the patches only, which can be drawn as pictures.

    Its rows do not sum to 1: the weight of special tokens is left out (in a ``top`` map, it is in the residual).
    """
    grid = axes.get("patches")
    if not isinstance(grid, Grid) or map.key != "image" or map.kind not in ("dense", "top"):
        return []
    before = map.keys - len(grid)
    tensors = dict(map.tensors)
    if map.kind == "dense":
        tensors = {name: tensor[:, before:] for name, tensor in tensors.items()}
    else:
        beside = tensors["index"] < before
        order = torch.argsort(beside.long(), dim=-1, stable=True)  # what is kept moves to the front, still falling
        weights = tensors["weights"].masked_fill(beside, 0.0).gather(-1, order)
        index = (tensors["index"] - before).clamp(min=0).masked_fill(beside, 0).gather(-1, order)
        residual = tensors["residual"] + tensors["weights"].masked_fill(~beside, 0.0).sum(-1)
        tensors = {"index": index, "weights": weights, "residual": residual}
    return [replace(map, site=f"{map.site}.patches", key="patches", tensors=tensors, keys=len(grid))]
