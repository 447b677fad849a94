"""The file of a trace: one safetensors file, its tensors bit for bit, everything else in the JSON header.

The header's ``format`` and ``version`` say how to read the rest. Version 1 carries axes of every kind, maps of every
kind (dense, top, statistics, edges), signals, outputs, the beam's tree and ``about``; later ones may add, not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from saccade.errors import InputError, SaccadeError
from saccade.storage import load_tensors, save_tensors
from saccade.trace.axes import axis_from_json, axis_to_json
from saccade.trace.maps import AttentionMap, Outputs, Signal, Trace, Tree

FORMAT = "saccade-trace"
VERSION = 1


def save(trace: Trace, path: str | Path) -> None:
    tensors, header = unpack(trace)
    save_tensors(path, tensors, header)


def load(path: str | Path) -> Trace:
    tensors, header = load_tensors(path)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(path, expected="a trace", found="a saccade file of another kind")
    if header.get("version") != VERSION:
        raise InputError(path, expected=f"a trace of version {VERSION}", found=f"version {header.get('version')!r}")
    try:
        trace = pack(tensors, header)
        for map in trace.maps:
            _check(map, trace)
        for name, signal in trace.signals.items():
            if signal.values.dim() not in (2, 3):  # [T, n], or with heads [T, H, n]
                raise SaccadeError(f"signal {name!r} has shape {list(signal.values.shape)}")
        return trace
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, SaccadeError) as error:
        raise InputError(path, expected="a whole trace", found=f"a damaged one: {error}") from None


def unpack(trace: Trace) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a trace by name, and everything else as JSON."""
    store: dict[str, Tensor] = {}
    axes = {name: axis_to_json(axis, store, f"axes.{name}") for name, axis in trace.axes.items()}
    maps = [_keep(map, store, f"maps.{number}", skip="tensors") for number, map in enumerate(trace.maps)]
    for number, map in enumerate(trace.maps):
        maps[number]["tensors"] = {name: f"maps.{number}.{name}" for name in map.tensors}
        store |= {f"maps.{number}.{name}": tensor for name, tensor in map.tensors.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "axes": axes,
        "maps": maps,
        "signals": {name: _keep(signal, store, f"signals.{name}") for name, signal in trace.signals.items()},
        "outputs": None if trace.outputs is None else _keep(trace.outputs, store, "outputs"),
        "tree": None if trace.tree is None else _keep(trace.tree, store, "tree"),
        "about": dict(trace.about),
    }
    return store, header


def pack(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Trace:
    """The trace whose parts :func:`unpack` laid out."""
    maps = (
        AttentionMap(**{**part, "tensors": {name: tensors[key] for name, key in part["tensors"].items()}})
        for part in header["maps"]
    )
    outputs, tree = header["outputs"], header["tree"]
    return Trace(
        axes={name: axis_from_json(part, tensors) for name, part in header["axes"].items()},
        maps=tuple(maps),
        signals={name: Signal(**_restore(part, tensors)) for name, part in header["signals"].items()},
        outputs=None if outputs is None else Outputs(**_restore(outputs, tensors)),
        tree=None if tree is None else Tree(**_restore(tree, tensors)),
        about=_with_output_kind(header["about"]),
    )


# Traces written before tasks declared the kind of their output say only the task's name.
OUTPUT_KINDS = {"translate": "text", "point": "order", "classify": "label", "label": "tags", "rank": "ranking"}
OUTPUT_KINDS |= {"language": "continuation", "pretrain": "text", "vectors": "text"}


def _with_output_kind(about: dict[str, Any]) -> dict[str, Any]:
    kind = OUTPUT_KINDS.get(str(about.get("task")))
    return about if kind is None or "output_kind" in about else {**about, "output_kind": kind}


# The tensors that each kind of map has, and their shapes: T queries, k kept per row, S keys, E edges.
SHAPES: dict[str, dict[str, str]] = {
    "dense": {"weights": "TS"},
    "top": {"index": "Tk", "weights": "Tk", "residual": "T"},
    "statistics": {"entropy": "T", "maximum": "T", "argmax": "T", "received": "S"},
    "edges": {"edges": "2E", "weights": "E"},
}


def _check(map: AttentionMap, trace: Trace) -> None:
    """A map from a file is what its kind says, and points at nothing outside it: views rely on that."""
    if map.kind not in SHAPES:
        raise SaccadeError(f"unknown kind of map {map.kind!r}")
    sizes = {"S": map.keys, "2": 2}
    for name, letters in SHAPES[map.kind].items():
        shape = tuple(map.tensors[name].shape)
        if len(shape) != len(letters) or any(
            sizes.setdefault(*pair) != pair[1] for pair in zip(letters, shape, strict=True)
        ):
            raise SaccadeError(f"{name} of {map.site!r} has shape {list(shape)}")
    for places, size in _places(map):
        if places.is_floating_point() or bool(((places < 0) | (places >= size)).any()):
            raise SaccadeError(f"the map of {map.site!r} points outside itself")
    for axis, size in ((map.query, map.step + map.queries), (map.key, map.keys)):
        if axis in trace.axes and len(trace.axes[axis]) < size:
            raise SaccadeError(f"the axis {axis!r} has {len(trace.axes[axis])} labels for {size} positions")


def _places(map: AttentionMap) -> list[tuple[Tensor, int]]:
    """The tensors of a map that hold positions, and how many positions there are."""
    if map.kind == "top":
        return [(map.tensors["index"], map.keys)]
    if map.kind == "statistics":
        return [(map.tensors["argmax"], max(map.keys, 1))]
    if map.kind == "edges":
        return list(zip(map.tensors["edges"], (map.queries, map.keys), strict=True))
    return []


def _keep(part: Any, store: dict[str, Tensor], prefix: str, skip: str = "") -> dict[str, Any]:
    document: dict[str, Any] = {}
    for field in fields(part):
        content = getattr(part, field.name)
        if field.name == skip:
            continue
        if isinstance(content, Tensor):
            store[f"{prefix}.{field.name}"] = content
            content = {"tensor": f"{prefix}.{field.name}"}
        elif isinstance(content, tuple):
            content = [list(item) if isinstance(item, tuple) else item for item in content]
        document[field.name] = content
    return document


def _restore(document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, part in document.items():
        if isinstance(part, dict):
            part = tensors[part["tensor"]]
        elif isinstance(part, list):
            part = tuple(tuple(item) if isinstance(item, list) else item for item in part)
        content[name] = part
    return content
