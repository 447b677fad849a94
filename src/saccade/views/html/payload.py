"""Writes traces as the data of a page, version 1: a JSON header and blocks of numbers (fields: ``web/src/types.ts``).

Pictures and sounds become ``data:`` addresses, so that a page needs no other file.
"""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import unicodedata
import wave
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import chain, count
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.trace.axes import Axis, Frames, Grid, Positions, Tokens
from saccade.trace.maps import AttentionMap, Outputs, Trace, Tree
from saccade.views.colours import scale
from saccade.views.html.weights import (
    LARGEST_PAGE,
    THREADS,
    Array,
    Blocks,
    Plan,
    can_be_quantised,
    entropy,
    fewer,
    head_patterns,
    largest_weight,
    numbers,
    plan,
    quantised,
    thumbnail,
    top,
)
from saccade.views.labels import JOINERS, is_marker, words_of
from saccade.views.picture import shrunk

LONGEST_SIDE = 1024  # pixels of a picture in a page
LOUDEST = 32767
MOST_SAMPLES = 15_500_000  # of a sound: 41 MB of a page
FASTEST = 2**31 - 1  # the highest sample rate of a WAV


def image_address(image: Tensor) -> str | None:
    """A picture, uint8 [rows, columns, 3], as a PNG in a ``data:`` address, scaled down if large; None without pixels."""
    if image.dtype is not torch.uint8 or image.dim() != 3 or image.shape[2] != 3:
        found = f"{str(image.dtype).removeprefix('torch.')} {list(image.shape)}"
        raise SaccadeError(f"image of a grid: expected uint8 [rows, columns, 3], found {found}")
    if not image.numel():
        return None
    return "data:image/png;base64," + base64.b64encode(png(shrunk(numbers(image), LONGEST_SIDE))).decode()


def sound_address(audio: Tensor, rate: int) -> str | None:
    """A sound [samples], between −1 and 1 or in 16-bit steps, as a WAV in a ``data:`` address; None without a rate.

    Of a long sound (16 minutes at 16 kHz, or more) every two samples become their mean, until it fits into a page.
    """
    if not 0 < rate <= FASTEST:
        return None
    samples = numbers(audio).reshape(-1)
    if samples.dtype.kind == "f":
        samples = np.rint(np.nan_to_num(samples, posinf=1, neginf=-1).clip(-1, 1) * LOUDEST)
    while len(samples) > MOST_SAMPLES and rate > 1:
        pairs = samples[: len(samples) // 2 * 2].reshape(-1, 2)
        samples, rate = np.rint(pairs.mean(1, dtype=np.float32)), rate // 2
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(buffer.getvalue()).decode()


def png(image: Array) -> bytes:
    """A picture, uint8 [rows, columns, 3], as a PNG file with unfiltered rows."""
    height, width = image.shape[:2]
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 1:] = image.reshape(height, width * 3)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )


# Scripts that put no spaces between words: there each character stands for itself.
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


def words_in(axis: Tokens) -> list[int]:
    """The number of each token's word: from the axis, else from its place in the text, else from its letters.
    Empty if every token is a word."""
    numbers = list(axis.words) if len(axis.words) == len(axis.labels) else _by_place(axis)
    return numbers if len(set(numbers)) < len(numbers) else []


def spans_in(axis: Tokens) -> list[tuple[int, int]] | None:
    """The characters of each token: from the axis if they lie in its text, else where its label is found, else None."""
    within = all(0 <= start <= end <= len(axis.text) for start, end in axis.spans)
    return list(axis.spans) if within and len(axis.spans) == len(axis.labels) else _located(axis)


def _by_place(axis: Tokens) -> list[int]:
    spans = spans_in(axis)
    if spans is None:
        return list(words_of(axis))
    words = _words(axis.text)
    numbers: list[int] = []
    last: int | None = None
    for position, (start, end) in enumerate(spans):
        begins = next((place for place in range(start, end) if not axis.text[place].isspace()), None)
        word = None if begins is None or is_marker(axis, position) else words[begins]
        numbers.append(numbers[-1] + (word is None or word != last) if numbers else 0)
        last = word
    return numbers


def _located(axis: Tokens) -> list[tuple[int, int]] | None:
    """The spans of the labels in the text, in order, with only spaces between them; None if they are not there."""
    spans, place = [], 0
    for position, label in enumerate(axis.labels):
        if is_marker(axis, position):
            spans.append((place, place))
            continue
        start = place
        while not axis.text.startswith(label, start) and axis.text[start : start + 1].isspace():
            start += 1
        if not axis.text.startswith(label, start):
            return None
        place = start + len(label)
        spans.append((start, place))
    return spans


def _words(text: str) -> list[int]:
    """The number of each character's word: letters, marks and digits together, other signs alone."""
    numbers: list[int] = []
    last = ""
    for character in text:
        kind = _kind(character)
        # A mark belongs to whatever it is put on.
        same = bool(numbers) and (kind == "mark" or (kind == "word" and last == "word"))
        numbers.append(numbers[-1] + (not same) if numbers else 0)
        last = kind if kind != "mark" else last
    return numbers


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "M" or character in JOINERS:
        return "mark"
    if category[0] not in "LN" or unicodedata.name(character, "").startswith(UNSPACED):
        return ""
    return "word"


FORMAT = "saccade-page"
VERSION = 1
KEPT = 16  # weights kept per row of a very large map
LONGEST_NAME = 80

Traces = Trace | Sequence[Trace] | Mapping[str, Trace]


@dataclass(frozen=True)
class PageData:
    """The data of a page: ``header`` for JSON, and the gzipped ``blocks`` of numbers that it refers to."""

    header: dict[str, Any]
    blocks: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Its bytes in a page."""
        return len(json.dumps(self.header)) + sum(-(-len(block) // 3) * 4 for block in self.blocks)

    def to_json(self) -> dict[str, Any]:
        """For a server's answer: the header, and the blocks in base64."""
        return {"header": self.header, "blocks": [base64.b64encode(block).decode() for block in self.blocks]}


def page_data(
    traces: Traces, *, title: str | None = None, live: Mapping[str, Any] | None = None, keep: int = KEPT
) -> PageData:
    """The data of a page with one trace, several, or a mapping of names to traces.

    Args:
        title: the title of the page; by default derived from the traces.
        live: ``{"model": …, "api": …}`` if a server answers the page.
        keep: weights kept per row in maps larger than 512 × 512.

    Raises if the page would exceed 64 megabytes even with fewer weights per row.
    """
    if keep < 1:
        raise SaccadeError(f"keep: expected 1 or more weights per row, found {keep}")
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
    """Each trace with its name in the menu: its input, numbered if two are equal."""
    if isinstance(traces, Mapping):
        return traces.items()
    named: dict[str, Trace] = {}
    for trace in [traces] if isinstance(traces, Trace) else traces:
        text = trace.about.get("input")
        name = shortened(text) if isinstance(text, str) and text.strip() else "trace"
        numbered = (f"{name} · {number}" for number in count(2))
        named[next(free for free in chain([name], numbered) if free not in named)] = trace
    return named.items()


def title_of(named: Mapping[str, Trace]) -> str:
    """The default title of a page: the model, and the input or the number of inputs."""
    models = {str(trace.about.get("recipe") or trace.about.get("model") or "") for trace in named.values()} - {""}
    whose = f"{models.pop()} · " if len(models) == 1 else ""
    return f"{whose}{next(iter(named), 'no trace')}" if len(named) <= 1 else f"{whose}{len(named)} inputs"


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"


def plain(content: Any) -> Any:
    """Content for JSON: NaN and infinity become null, unknown types their text."""
    if isinstance(content, Tensor | ndarray | np.generic):
        content = numbers(content).tolist() if not isinstance(content, np.generic) else content.item()
    if isinstance(content, Mapping):
        return {str(name): plain(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [plain(part) for part in content]
    if isinstance(content, set | frozenset):  # whose order changes with every start of Python
        return sorted((plain(part) for part in content), key=repr)
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    return content if content is None or isinstance(content, bool | int | str) else str(content)


def _scale(dark: bool) -> str:
    return base64.b64encode(np.rint(scale(dark) * 255).astype(np.uint8).tobytes()).decode()


class _Writer:
    """Writes traces as plain data, and their numbers into ``blocks``."""

    def __init__(self, blocks: Blocks, plan: Plan) -> None:
        self.blocks, self.plan = blocks, plan

    def trace(self, name: str, trace: Trace, number: int) -> dict[str, Any]:
        about = plain(trace.about)
        if "probabilities" in about:  # of a classifier's labels
            about.setdefault("labels", about["probabilities"])
        own = about.get("notes") or []
        notes = [*(own if isinstance(own, list) else [own]), *self.plan.notes(trace, number)]
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
                written[field.name] = self.blocks.add(content, "u8" if content.dtype is torch.uint8 else "f32")
        if isinstance(axis, Tokens):
            written["words"] = words_in(axis)
            written["spans"] = spans_in(axis) or ()
        return {name: content for name, content in written.items() if content is not None or name == "parent"}

    def maps(self, trace: Trace) -> list[dict[str, Any]]:
        """All maps of a trace, prepared by several threads (NumPy releases the interpreter lock)."""
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
                    "largest": largest_weight(map),
                    "habits": head_patterns(map, trace.axes),
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
            # The largest weights of a row need no rounding of small ones.
            arrays["weights"] = quantised(weights, self.plan.levels if kind == "dense" else None)
        return _Prepared(kind, arrays, entropy(map), thumbnail(map))

    def tensor(self, part: Array | Bytes) -> dict[str, Any]:
        if isinstance(part, tuple):
            steps, largest = part
            return self.blocks.add(steps, "u8") | {"rows": self.blocks.add(largest, "f32")}
        return self.blocks.add(part, "f32" if part.dtype.kind == "f" else "i32")


Bytes = tuple[Array, Array]  # weights as bytes, and the largest weight of each row


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A map as a page keeps it, before it is written."""

    kind: str
    tensors: Mapping[str, Array | Bytes]
    entropy: float | None
    thumb: Array | None


def _tree(tree: Tree) -> dict[str, Any]:
    parts = ("parent", "step", "log_prob", "ended", "chosen")
    return {"labels": list(tree.labels)} | {part: plain(getattr(tree, part)) for part in parts}


def _axes(trace: Trace) -> dict[str, Axis]:
    """The trace's axes, and numbered positions for axes of maps and signals that have no labels."""
    sizes: dict[str, int] = {}
    for map in trace.maps:
        for name, size in ((map.query, map.step + map.queries), (map.key, map.keys)):
            sizes[name] = max(sizes.get(name, 0), size)
    for signal in trace.signals.values():
        sizes[signal.axis] = max(sizes.get(signal.axis, 0), signal.step + len(signal.values))
    return {name: Positions.of(size) for name, size in sizes.items()} | dict(trace.axes)
