"""The file of a trace: one safetensors file, with the tensors bit for bit and everything else in the JSON header.

The header's ``format`` and ``version`` say how to read the rest. Version 1 has axes and maps of every kind (dense, top,
statistics, edges), signals, outputs, the beam's tree and ``about``; later versions may add to it, not change it.

The dataclasses of traces and axes are the schema of the header. Beyond their types, views rely on shapes that fit together and
on positions that exist, which :func:`load` checks too: a trace may come from anyone.

Legend: T queries, S keys, k kept per row, E edges, n width of a state, H heads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.documents import checked
from saccade.errors import InputError, SaccadeError
from saccade.storage import load_tensors, same_bits, save_tensors
from saccade.trace.axes import AXES, LATEST, Axis, Frames, Grid, Nodes, Reviews, Tokens, Visits
from saccade.trace.maps import AttentionMap, Outputs, Signal, Trace, Tree

FORMAT = "saccade-trace"
VERSION = 1
LARGEST = 4 * 2**30  # bytes of a trace's file


def save(trace: Trace, path: str | Path) -> None:
    tensors, header = unpack(trace)
    save_tensors(path, tensors, header)


def load(path: str | Path) -> Trace:
    """The trace in a file; every field is checked before it is used."""
    tensors, header = load_tensors(path, most=LARGEST)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(path, expected="a trace", found="a saccade file of another kind")
    if header.get("version") != VERSION:
        raise InputError(path, expected=f"a trace of version {VERSION}", found=f"version {header.get('version')!r:.60}")
    trace = pack(tensors, header, path)
    try:
        _check(trace)
    except SaccadeError as error:
        raise InputError(path, expected="a complete trace", found=f"a damaged one: {error}") from None
    return trace


def same(one: Trace, other: Trace) -> bool:
    """Whether two traces are equal, bit for bit."""
    (ours, header), (theirs, other_header) = unpack(one), unpack(other)
    return (
        # As text, where NaN equals NaN, and a tuple equals the list that it becomes in a file.
        _text(header) == _text(other_header)
        and ours.keys() == theirs.keys()
        and all(same_bits(ours[name], theirs[name]) for name in ours)
    )


def _text(header: Mapping[str, Any]) -> str:
    return json.dumps(header, sort_keys=True, default=repr)


# ---- Writing -----------------------------------------------------------------------------------------------------------


def unpack(trace: Trace) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a trace by name, and everything else as JSON."""
    store: dict[str, Tensor] = {}
    axes = {name: {"kind": axis.kind, **_keep(axis, store, f"axes.{name}")} for name, axis in trace.axes.items()}
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


def _keep(part: Any, store: dict[str, Tensor], prefix: str, skip: str = "") -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name in (each.name for each in fields(part)):
        content = getattr(part, name)
        if name == skip:
            continue
        if isinstance(content, Tensor):
            store[f"{prefix}.{name}"] = content
            content = {"tensor": f"{prefix}.{name}"}
        document[name] = content
    return document


# ---- Reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Header:
    """The header of a trace's file; ``axes`` are read by their kinds."""

    axes: dict[str, Axis]
    maps: tuple[AttentionMap, ...]
    signals: dict[str, Signal]
    outputs: Outputs | None
    tree: Tree | None
    about: dict[str, Any]


def pack(tensors: Mapping[str, Tensor], header: Mapping[str, Any], where: str | Path = "trace") -> Trace:
    """The trace that :func:`unpack` took apart; ``where`` names the file in errors."""

    def tensor(reference: Any, field: str) -> Tensor:
        name = reference.get("tensor") if isinstance(reference, dict) else reference
        if not isinstance(name, str) or name not in tensors:
            raise ValueError("a tensor of the file")
        return tensors[name]

    def axis(document: Any, field: str) -> Axis:
        kind = document.get("kind") if isinstance(document, dict) else None
        if not isinstance(kind, str) or kind not in AXES:
            raise ValueError(f"an axis of a kind among {', '.join(AXES)}")
        return checked(AXES[kind], document, where, field, readers={Tensor: tensor})

    parts = checked(_Header, header, where, readers={Tensor: tensor, Axis: axis})
    return Trace(parts.axes, parts.maps, parts.signals, parts.outputs, parts.tree, _with_output_kind(parts.about))


# Traces written before tasks declared the kind of their output say only the task's name.
OUTPUT_KINDS = {"translate": "text", "point": "order", "classify": "label", "label": "tags", "rank": "ranking"}
OUTPUT_KINDS |= {"language": "continuation", "pretrain": "text", "vectors": "text"}


def _with_output_kind(about: dict[str, Any]) -> dict[str, Any]:
    kind = OUTPUT_KINDS.get(str(about.get("task")))
    return about if kind is None or "output_kind" in about else {**about, "output_kind": kind}


# ---- What types do not say: shapes, kinds of numbers, and positions --------------------------------------------------------

MOST_POSITIONS = 1_000_000  # of an axis without labels
FASTEST = 192_000  # Hz
MOST_SAMPLES = 16_000 * 3600  # an hour of sound at 16 kHz
MOST_PIXELS = 2**26  # of a spectrogram: an hour of 100 columns a second has 360,000 columns

# The tensors of each kind of map with their shapes, and those that hold positions; scores are there only if recorded.
SHAPES: dict[str, dict[str, str]] = {
    "dense": {"weights": "TS", "scores": "TS"},
    "top": {"index": "Tk", "weights": "Tk", "residual": "T"},
    "statistics": {"entropy": "T", "maximum": "T", "argmax": "T", "received": "S"},
    "edges": {"edges": "2E", "weights": "E"},
}
PLACES = ("index", "argmax", "edges")
POSITIONS = (*PLACES, "parent", "step", "token")


def _check(trace: Trace) -> None:
    """Raise unless the parts of a trace fit together."""
    for name, axis in trace.axes.items():
        _check_axis(f"axes.{name}", axis, trace.axes)
    for number, map in enumerate(trace.maps):
        _check_map(f"maps.{number}", map, trace.axes)
    for name, signal in trace.signals.items():
        shape = "THn" if signal.values.dim() == 3 else "Tn"
        _check_shape(f"signals.{name}", {"values": signal.values}, {"values": shape}, {})
        _check_not_empty(f"signals.{name}.values", signal.values[:1] if len(signal.values) else None)
        _check_least(f"signals.{name}", step=signal.step)
        _check_length(f"signals.{name}", trace.axes, signal.axis, signal.step + len(signal.values))
    if trace.outputs is not None:
        _check_outputs(trace.outputs)
    if trace.tree is not None:
        _check_tree(trace.tree)


def _check_axis(where: str, axis: Axis, axes: Mapping[str, Axis]) -> None:
    n = len(axis)
    lists: dict[str, Sequence[Any]] = {"within": axis.within}
    tensors: dict[str, tuple[Tensor | None, str]] = {}
    if isinstance(axis, Tokens):
        lists |= {"spans": axis.spans, "words": axis.words}
        _check_range(f"{where}.special", axis.special, 0, n)
        _check_range(f"{where}.spans", [place for span in axis.spans for place in span], 0, None)
        if any(start > end for start, end in axis.spans):
            raise SaccadeError(f"{where}.spans: expected starts before their ends")
        _check_range(f"{where}.words", axis.words, -1, None)
    elif isinstance(axis, Grid):
        _check_least(where, height=axis.height, width=axis.width)
        tensors = {"image": (axis.image, "rc3")}
    elif isinstance(axis, Frames):
        _check_least(where, seconds=axis.seconds, rate=axis.rate, start=axis.start)
        _check_most(where, seconds=(axis.seconds, LATEST), rate=(axis.rate, FASTEST), start=(axis.start, LATEST))
        _check_most(where, segments=(len(axis.segments), MOST_POSITIONS))
        tensors = {"spectrogram": (axis.spectrogram, "bf"), "audio": (axis.audio, "s")}
        for name, dtype, most in (("spectrogram", torch.uint8, MOST_PIXELS), ("audio", torch.int16, MOST_SAMPLES)):
            tensor = tensors[name][0]
            if tensor is not None and tensor.dtype is not dtype and not tensor.is_floating_point():
                names = [str(kind).removeprefix("torch.") for kind in (dtype, tensor.dtype)]
                raise SaccadeError(f"{where}.{name}: expected {names[0]} or floating-point numbers, found {names[1]}")
            _check_most(f"{where}.{name}", size=(0 if tensor is None else tensor.numel(), most))
    elif isinstance(axis, Nodes):
        tensors = {"places": (axis.places, "n2")}
    elif isinstance(axis, Visits):
        lists |= {"times": axis.times}
    elif isinstance(axis, Reviews):
        lists |= {"ratings": axis.ratings}
    for name, items in lists.items():
        if len(items) not in (0, n):
            raise SaccadeError(f"{where}.{name}: expected {n}, one per label, found {len(items)}")
    if axis.within:
        parent = axes.get(axis.parent or "")
        _check_range(f"{where}.within", axis.within, 0, None if parent is None else len(parent))
    given = {name: tensor for name, (tensor, _) in tensors.items() if tensor is not None}
    heard = (name for name in ("spectrogram", "audio") if name in given and not given[name].is_floating_point())
    whole = ("image", *heard)
    _check_shape(where, given, {name: shape for name, (_, shape) in tensors.items()}, {"n": n}, whole=whole)
    for name in given.keys() & {"image", "spectrogram"} if n else ():
        _check_not_empty(f"{where}.{name}", given[name])


def _check_map(where: str, map: AttentionMap, axes: Mapping[str, Axis]) -> None:
    if map.kind not in SHAPES:
        raise SaccadeError(f"{where}.kind: expected one of {', '.join(SHAPES)}, found {map.kind!r:.60}")
    missing = SHAPES[map.kind].keys() - map.tensors.keys() - {"scores"}
    if missing or map.tensors.keys() - SHAPES[map.kind].keys():
        expected, found = ", ".join(SHAPES[map.kind]), ", ".join(map.tensors)
        raise SaccadeError(f"{where}.tensors: expected {expected}, found {found:.100}")
    _check_least(where, step=map.step, keys=map.keys, head=map.head or 0)
    _check_shape(where, map.tensors, SHAPES[map.kind], {"S": map.keys}, whole=PLACES)
    for places, size in _places(map):
        if bool(((places < 0) | (places >= size)).any()):
            raise SaccadeError(f"{where}: expected positions from 0 to {size - 1}, found others")
    _check_length(where, axes, map.query, map.step + map.queries)
    _check_length(where, axes, map.key, map.keys)


def _places(map: AttentionMap) -> Iterator[tuple[Tensor, int]]:
    """The tensors of a map that hold positions, and how many positions there are."""
    if map.kind == "top" and map.tensors["index"].numel():
        yield map.tensors["index"], map.keys
    if map.kind == "statistics":
        yield map.tensors["argmax"], max(map.keys, 1)
    if map.kind == "edges":
        yield from zip(map.tensors["edges"], (map.queries, map.keys), strict=True)


def _check_outputs(outputs: Outputs) -> None:
    shown = {"probability": outputs.probability, "index": outputs.index}
    _check_shape("outputs", shown, {"probability": "Tk", "index": "Tk"}, {"T": len(outputs.labels)}, whole=("index",))
    wide = outputs.index.shape[1]
    if any(labels and len(labels) != wide for labels in outputs.labels):  # none: a position without an output
        raise SaccadeError(f"outputs.labels: expected {wide} per step or none, found others")


def _check_tree(tree: Tree) -> None:
    tensors = {name: getattr(tree, name) for name in ("parent", "step", "token", "log_prob", "ended", "chosen")}
    whole = ("parent", "step", "token", "ended", "chosen")
    _check_shape("tree", tensors, dict.fromkeys(tensors, "n"), {"n": len(tree.labels)}, whole=whole)
    before = torch.arange(len(tree.labels))
    if bool(((tree.parent < -1) | (tree.parent >= before)).any()):  # each node after its parent: no circles
        raise SaccadeError("tree.parent: expected nodes that were written before, or -1, found others")
    _check_range("tree.step", tree.step.tolist(), 0, None)


def _check_shape(
    where: str,
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, str],
    sizes: Mapping[str, int],
    *,
    whole: Sequence[str] = (),
) -> None:
    """Raise unless the tensors have these shapes, a letter per axis; those in ``whole`` are of whole numbers or truths."""
    known = {"2": 2, "3": 3, **sizes}
    for name, tensor in tensors.items():
        shape, letters = tuple(tensor.shape), shapes[name]
        fits = len(shape) == len(letters) and all(
            known.setdefault(letter, size) == size for letter, size in zip(letters, shape, strict=True)
        )
        if not fits:
            expected = " × ".join(str(known.get(letter, letter)) for letter in letters)
            raise SaccadeError(
                f"{where}.{name}: expected shape {expected}, found {' × '.join(map(str, shape)) or 'one number'}"
            )
        if tensor.is_floating_point() == (name in whole):
            expected = "whole numbers" if name in whole else "floating-point numbers"
            raise SaccadeError(f"{where}.{name}: expected {expected}, found {str(tensor.dtype).removeprefix('torch.')}")
        integers = (torch.int64, torch.int32) if name == "edges" else (torch.int64,)  # a caller's graph may have either
        if name in POSITIONS and tensor.dtype not in integers:  # others cannot index, or do so as masks
            raise SaccadeError(
                f"{where}.{name}: expected positions (int64), found {str(tensor.dtype).removeprefix('torch.')}"
            )


def _check_not_empty(where: str, tensor: Tensor | None) -> None:
    if tensor is not None and not tensor.numel():
        raise SaccadeError(f"{where}: expected one value or more, found none")


def _check_least(where: str, **numbers: float) -> None:
    for name, number in numbers.items():
        if not (number >= 0 and math.isfinite(number)):
            raise SaccadeError(f"{where}.{name}: expected a number of at least 0, found {number}")


def _check_most(where: str, **numbers: tuple[float, float]) -> None:
    for name, (number, most) in numbers.items():
        if number > most:
            raise SaccadeError(f"{where}.{name}: expected at most {most:,.0f}, found {number:,.10g}")


def _check_range(where: str, places: Sequence[int], least: int, size: int | None) -> None:
    if places and (min(places) < least or (size is not None and max(places) >= size)):
        end = "" if size is None else f" to {size - 1}"
        raise SaccadeError(f"{where}: expected positions from {least}{end}, found {min(places)} to {max(places)}")


def _check_length(where: str, axes: Mapping[str, Axis], axis: str, size: int) -> None:
    if axis in axes and len(axes[axis]) < size:
        raise SaccadeError(f"{where}: the axis {axis!r:.60} has {len(axes[axis])} labels for {size} positions")
    if size > MOST_POSITIONS:
        raise SaccadeError(f"{where}: expected at most {MOST_POSITIONS:,} positions, found {size:,}")
