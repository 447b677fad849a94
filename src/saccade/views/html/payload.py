"""Traces → the header and the blocks of a page, version 1 (``web/src/types.ts`` says what each field is)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import chain, count
from typing import Any

import numpy as np
from numpy import ndarray
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.trace.axes import Axis, Frames, Grid, Positions, Tokens
from saccade.trace.maps import AttentionMap, Outputs, Trace, Tree
from saccade.views.colours import scale
from saccade.views.html.binary import THREADS, Array, Blocks, numbers
from saccade.views.html.head_patterns import habits
from saccade.views.html.media import image_address, sound_address
from saccade.views.html.plan import LARGEST_PAGE, Plan, plan
from saccade.views.html.weights import can_be_quantised, entropy, fewer, quantised, thumbnail, top
from saccade.views.html.words import spans_in, words_in

FORMAT = "saccade-page"
VERSION = 1
KEPT = 16  # weights kept of each row of a very large map
LONGEST_NAME = 80

Traces = Trace | Sequence[Trace] | Mapping[str, Trace]


@dataclass(frozen=True)
class PageData:
    """What a page shows: ``header`` is plain data for JSON, ``blocks`` are gzipped numbers that it points to."""

    header: dict[str, Any]
    blocks: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes that it takes in a page."""
        return len(json.dumps(self.header)) + sum(-(-len(block) // 3) * 4 for block in self.blocks)

    def to_json(self) -> dict[str, Any]:
        """As a server answers: the header, and the blocks in base64."""
        return {"header": self.header, "blocks": [base64.b64encode(block).decode() for block in self.blocks]}


def page_data(
    traces: Traces, *, title: str | None = None, live: Mapping[str, Any] | None = None, keep: int = KEPT
) -> PageData:
    """The data of a page about one trace, several, or several with names of their own.

    Args:
        title: what the page is called; the first trace's input and output unless given.
        live: ``{"model": …, "api": …}`` where a server answers the page.
        keep: how many weights of each row are kept of maps with more than 512 × 512.

    No page is larger than 64 megabytes: of the largest weights of each row fewer are kept, and the page says so; what is
    too large all the same is an error.
    """
    if keep < 1:
        raise SaccadeError(f"keep: expected 1 weight a row or more, found {keep}")
    named = dict(names(traces))
    blocks = Blocks()
    planned = plan(list(named.values()), keep)
    if planned.most == 0:
        raise _too_large(named)
    writer = _Writer(blocks, planned)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "title": title or title_of(named),
        "traces": [writer.trace(name, trace, number) for number, (name, trace) in enumerate(named.items())],
        "scale": {"light": _scale(dark=False), "dark": _scale(dark=True)},
        "live": None if live is None else plain(live),
    }
    page = PageData(header, blocks.gzipped())
    if page.size > LARGEST_PAGE:
        raise _too_large(named)
    return page


def _too_large(named: Mapping[str, Trace]) -> SaccadeError:
    maps = [map for trace in named.values() for map in trace.maps]
    rows = sum(map.queries for map in maps)
    hint = "save fewer traces, or one site or head (trace.save(path, site=…, head=…), saccade view --site --head)"
    return SaccadeError(
        f"a page holds at most {LARGEST_PAGE // 10**6} MB, and {len(maps):,} maps with {rows:,} rows need more: {hint}"
    )


def names(traces: Traces) -> Iterable[tuple[str, Trace]]:
    """Each trace and what a menu calls it: its input, numbered where two are alike."""
    if isinstance(traces, Mapping):
        return traces.items()
    found: dict[str, Trace] = {}
    for trace in [traces] if isinstance(traces, Trace) else traces:
        said = trace.about.get("input")
        name = shortened(said) if isinstance(said, str) and said.strip() else "trace"
        numbered = (f"{name} · {number}" for number in count(2))
        found[next(each for each in chain([name], numbered) if each not in found)] = trace
    return found.items()


def title_of(named: Mapping[str, Trace]) -> str:
    """What a page is called that was given no title: whose traces it shows."""
    models = {str(trace.about.get("recipe") or trace.about.get("model") or "") for trace in named.values()} - {""}
    whose = f"{models.pop()} · " if len(models) == 1 else ""
    return f"{whose}{next(iter(named), 'no trace')}" if len(named) <= 1 else f"{whose}{len(named)} inputs"


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"


def plain(content: Any) -> Any:
    """Content as JSON knows it: numbers that are none (NaN, infinity) become null, what has no form its text."""
    if isinstance(content, Tensor | ndarray | np.generic):
        content = numbers(content).tolist() if not isinstance(content, np.generic) else content.item()
    if isinstance(content, Mapping):
        return {str(name): plain(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [plain(part) for part in content]
    if isinstance(content, set | frozenset):  # in an order of its own at each start of Python
        return sorted((plain(part) for part in content), key=repr)
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    return content if content is None or isinstance(content, bool | int | str) else str(content)


def _scale(dark: bool) -> str:
    return base64.b64encode(np.rint(scale(dark) * 255).astype(np.uint8).tobytes()).decode()


class _Writer:
    """Writes the parts of traces as plain data, their numbers into ``blocks``."""

    def __init__(self, blocks: Blocks, plan: Plan) -> None:
        self.blocks, self.plan = blocks, plan

    def trace(self, name: str, trace: Trace, number: int) -> dict[str, Any]:
        about = plain(trace.about)
        if "probabilities" in about:  # of a classifier's labels
            about.setdefault("labels", about["probabilities"])
        said = about.get("notes") or []
        notes = [*(said if isinstance(said, list) else [said]), *self.plan.notes(trace, number)]
        kept = self.plan.signals[number]
        return {
            "name": name,
            "about": about | ({"notes": notes} if notes else {}),
            "axes": {name: self.axis(axis) for name, axis in _axes(trace).items()},
            "maps": self.maps(trace),
            "signals": {
                name: {"axis": signal.axis, "step": signal.step, "values": self.blocks.add(signal.values, "f32")}
                for name, signal in trace.signals.items()
                if name in kept
            },
            "outputs": None if trace.outputs is None else self.outputs(trace.outputs),
            "tree": None if trace.tree is None else _tree(trace.tree),
        }

    def outputs(self, outputs: Outputs) -> dict[str, Any]:
        return {
            "axis": outputs.axis,
            "labels": [list(labels) for labels in outputs.labels],
            "probability": self.blocks.add(outputs.probability, "f32"),
            "index": self.blocks.add(outputs.index, "i32"),
        }

    def axis(self, axis: Axis) -> dict[str, Any]:
        written: dict[str, Any] = {"kind": axis.kind}
        for field in fields(axis):
            content = getattr(axis, field.name)
            if not isinstance(content, Tensor):
                written[field.name] = plain(content)
            elif isinstance(axis, Grid):
                written["image"] = image_address(content)
            elif isinstance(axis, Frames) and field.name == "audio":
                written["audio"] = sound_address(content, axis.rate)
            else:
                written[field.name] = self.blocks.add(content, "f32")
        if isinstance(axis, Tokens):
            written["words"] = words_in(axis)
            written["spans"] = spans_in(axis) or ()
        return {name: content for name, content in written.items() if content is not None or name == "parent"}

    def maps(self, trace: Trace) -> list[dict[str, Any]]:
        """All maps of a trace. NumPy lets other threads run while it works, so several are at it."""
        with ThreadPoolExecutor(max_workers=THREADS) as pool:
            prepared = list(pool.map(self.prepared, trace.maps))
        thumbs = [each.thumb.reshape(-1) for each in prepared if each.thumb is not None]
        shared = self.blocks.add(np.concatenate(thumbs), "u8") if thumbs else None
        written, at = [], 0
        for map, each in zip(trace.maps, prepared, strict=True):
            thumb = None
            if each.thumb is not None:
                thumb = {"rows": each.thumb.shape[0], "columns": each.thumb.shape[1], "block": shared, "at": at}
                at += each.thumb.size
            written.append(
                {
                    "site": map.site,
                    "head": map.head,
                    "query": map.query,
                    "key": map.key,
                    "kind": each.kind,
                    "step": map.step,
                    "queries": map.queries,
                    "keys": map.keys,
                    "tensors": {name: self.tensor(part) for name, part in each.tensors.items()},
                    "entropy": each.entropy,
                    "habits": habits(map, trace.axes),
                    "thumb": thumb,
                }
            )
        return written

    def prepared(self, map: AttentionMap) -> _Prepared:
        kind, tensors = map.kind, dict(map.tensors)
        if id(map) in self.plan.topped:
            kind, tensors = "top", top(tensors["weights"].detach().float(), self.plan.keep)
        elif kind == "top" and self.plan.most is not None:
            tensors = fewer(tensors, self.plan.most)
        elif kind == "dense" and id(map) not in self.plan.scores:
            tensors.pop("scores", None)
        arrays: dict[str, Array | Bytes] = {name: numbers(tensor) for name, tensor in tensors.items()}
        weights = arrays.get("weights")
        if self.plan.large and isinstance(weights, ndarray) and weights.ndim == 2 and can_be_quantised(weights):
            # Of the largest few of each row none is small.
            arrays["weights"] = quantised(weights, self.plan.levels if kind == "dense" else None)
        return _Prepared(kind, arrays, entropy(map), thumbnail(map))

    def tensor(self, part: Array | Bytes) -> dict[str, Any]:
        if isinstance(part, tuple):
            steps, largest = part
            return self.blocks.add(steps, "u8") | {"rows": self.blocks.add(largest, "f32")}
        return self.blocks.add(part, "f32" if part.dtype.kind == "f" else "i32")


Bytes = tuple[Array, Array]  # weights as bytes, and the largest of each row


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What a page says of a map, before it has its place there."""

    kind: str
    tensors: Mapping[str, Array | Bytes]
    entropy: float | None
    thumb: Array | None


def _tree(tree: Tree) -> dict[str, Any]:
    parts = ("parent", "step", "log_prob", "ended", "chosen")
    return {"labels": list(tree.labels)} | {part: plain(getattr(tree, part)) for part in parts}


def _axes(trace: Trace) -> dict[str, Axis]:
    """The trace's axes, and bare positions for those that its maps and signals name and nobody labelled."""
    sizes: dict[str, int] = {}
    for map in trace.maps:
        for name, size in ((map.query, map.step + map.queries), (map.key, map.keys)):
            sizes[name] = max(sizes.get(name, 0), size)
    for signal in trace.signals.values():
        sizes[signal.axis] = max(sizes.get(signal.axis, 0), signal.step + len(signal.values))
    return {name: Positions.of(size) for name, size in sizes.items()} | dict(trace.axes)
