"""Traces that mean harm, or nothing: labels that try to be markup, numbers that are none, axes without positions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from saccade.trace.axes import Axis, Grid
from saccade.trace.maps import Trace, Tree

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "<!--",
    "]]>",
    "x" * 5000,
    "مرحبا بالعالم",
    "שלום",
    "漢字かな交じり文",
    "👩‍👩‍👧‍👦",
    "\u0301",
    "\u202eevil",
    "",
    " ",
    "\n\t",
    "\x00",
    "\ud800",
    "javascript:alert(1)",
    "{{7*7}}",
    "__proto__",
)
KNOWN = {  # what the page looks for by these names
    *("task", "input", "output", "score", "stopped", "model", "recipe", "parameters", "metrics", "notes", "note"),
    *("scores", "gold", "aer", "labels", "probabilities", "faithfulness", "sentence", "figures", "curves", "name"),
    *("x_label", "y_label", "x", "y"),
}
WRONG = (math.nan, math.inf, -math.inf, 0.5, -0.25, 1e30, 0.0)


def hostile(trace: Trace) -> Trace:
    """The same trace with hostile text wherever it has text."""
    axes = {name: _renamed(axis) for name, axis in trace.axes.items()}
    outputs, tree = trace.outputs, trace.tree
    if outputs is not None:
        outputs = replace(outputs, labels=tuple(tuple(_words(len(row))) for row in outputs.labels))
    if tree is not None:
        tree = replace(tree, labels=tuple(_words(len(tree.labels))))
    return replace(trace, axes=axes, outputs=outputs, tree=tree, about=_told(trace.about))


def _words(count: int) -> Iterable[str]:
    return islice(cycle(HOSTILE), count)


def _renamed(axis: Axis) -> Axis:
    labels = tuple(_words(len(axis)))
    changes: dict[str, Any] = {"labels": labels}
    names = {field.name for field in fields(axis)}
    if "text" in names:
        changes |= {"text": " ".join(labels), "spans": (), "special": ()}
    if "times" in names:
        changes["times"] = labels
    return replace(axis, **changes)


def _told(about: Any) -> Any:
    """Every text of ``about`` becomes hostile, and every name that is the trace's own."""
    if isinstance(about, str):
        return HOSTILE[len(about) % len(HOSTILE)]
    if isinstance(about, list):
        return [_told(each) for each in about]
    if isinstance(about, dict):
        words = (key if key in KNOWN else f"{HOSTILE[i % len(HOSTILE)]}{i}" for i, key in enumerate(about))
        return {word: _told(value) for word, value in zip(words, about.values(), strict=True)}
    return about


def broken(trace: Trace) -> Trace:
    """The same trace after its network diverged: no number is to be trusted to be one."""
    maps = tuple(
        replace(map, tensors={name: _diverged(part) for name, part in map.tensors.items()}) for map in trace.maps
    )
    signals = {name: replace(signal, values=_diverged(signal.values)) for name, signal in trace.signals.items()}
    outputs, tree = trace.outputs, trace.tree
    if outputs is not None:
        outputs = replace(outputs, probability=_diverged(outputs.probability))
    if tree is not None:
        tree = replace(tree, log_prob=_diverged(tree.log_prob))
    axes = {name: _places_lost(axis) for name, axis in trace.axes.items()}
    about = {key: _not_a_number(value) for key, value in trace.about.items() if key != "gold"}
    return replace(trace, axes=axes, maps=maps, signals=signals, outputs=outputs, tree=tree, about=about)


def _diverged(numbers: Tensor) -> Tensor:
    if not numbers.is_floating_point():
        return numbers
    return torch.tensor(list(islice(cycle(WRONG), numbers.numel())), dtype=numbers.dtype).reshape(numbers.shape)


def _places_lost(axis: Axis) -> Axis:
    measured = (name for name in ("places", "spectrogram") if getattr(axis, name, None) is not None)
    lost: dict[str, Any] = {name: _diverged(getattr(axis, name)) for name in measured}
    if hasattr(axis, "ratings"):
        lost["ratings"] = tuple(islice(cycle(WRONG), len(axis)))
    return replace(axis, **lost)


def _not_a_number(value: Any) -> Any:
    if isinstance(value, float):
        return math.nan
    if isinstance(value, dict):
        return {key: _not_a_number(each) for key, each in value.items()}
    return [_not_a_number(each) for each in value] if isinstance(value, list) else value


def empty(trace: Trace) -> Trace:
    """A trace of the same kind of nothing: no axis has a position."""
    axes = {name: _emptied(axis) for name, axis in trace.axes.items()}
    maps = tuple(
        replace(map, tensors={name: _none_of(part) for name, part in map.tensors.items()}, keys=0) for map in trace.maps
    )
    signals = {name: replace(signal, values=signal.values[:0]) for name, signal in trace.signals.items()}
    outputs = trace.outputs and replace(
        trace.outputs, labels=(), probability=trace.outputs.probability[:0], index=trace.outputs.index[:0]
    )
    none = torch.zeros(0, dtype=torch.long)
    tree = trace.tree and Tree((), none, none, none, torch.zeros(0), none.bool(), none.bool())
    return Trace(axes, maps, signals, outputs, tree, {"input": "", "output": ""})


def _emptied(axis: Axis) -> Axis:
    changes: dict[str, Any] = {"labels": (), "within": (), "parent": None}
    for field in fields(axis):
        value = getattr(axis, field.name)
        if isinstance(value, Tensor) or field.name == "image":
            changes[field.name] = None
        elif isinstance(value, tuple):
            changes[field.name] = ()
    if isinstance(axis, Grid):
        changes |= {"height": 0, "width": 0, "box": axis.box}
    if "text" in {field.name for field in fields(axis)}:
        changes["text"] = ""
    return replace(axis, **changes)


def _none_of(part: Tensor) -> Tensor:
    """Tensors over queries, over keys, or over edges [2, E]: none of each."""
    if part.ndim == 2 and part.shape[0] == 2 and not part.is_floating_point():
        return part[:, :0]
    return part[:0, :0] if part.ndim == 2 else part[:0]
