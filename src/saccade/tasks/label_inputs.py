"""Reads the inputs of the task ``label`` and builds its outputs: words with tags, spans, and a labelled trace.

A text is split into words as by the tokenizer ``words``: runs of letters and digits, and every other character by itself. Words
may be given instead, as a list or as JSON: ["U.N.", "official"] stays two words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.labels.batch import Layout
from saccade.data.tags.schemes import OUTSIDE, converted, may_follow, parted, spans_of, tags_with, types_in
from saccade.data.tags.tagset import Tags
from saccade.data.tokenizers.words import WordReader
from saccade.errors import InputError
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Record, Site, assemble
from saccade.trace.maps import Outputs, Trace

WORDS = re.compile(r"(?:\w[\u0300-\u036f]*)+|[^\w\s]")
TEXT, TAG = "text", "tag"  # the axes of keys and queries


@dataclass(frozen=True)
class TagInput:
    """An input: its text, its words, their character spans, and its notes."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()


def read_words(given: Any, where: str) -> TagInput:
    """The words of an input: a text, a list of words, or such a list as JSON."""
    listed = _listed(given)
    if listed is None and not isinstance(given, str):
        raise InputError(where, expected="a text or a list of words", found=type(given).__name__)
    if listed is not None:
        wrong = next((word for word in listed if not isinstance(word, str) or not word.strip()), None)
        if wrong is not None or not listed:
            found = "an empty list" if not listed else repr(wrong)[:40]
            raise InputError(where, expected="words, each a text", found=found)
        words, start, spans = tuple(map(str, listed)), 0, list[tuple[int, int]]()
        for word in words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return TagInput(" ".join(words), words, tuple(spans))
    cut = tuple(match.span() for match in WORDS.finditer(given))
    if not cut:
        raise InputError(where, expected="a text", found="nothing" if not given else "whitespace only")
    return TagInput(given, tuple(given[start:end] for start, end in cut), cut)


def _listed(given: Any) -> list[Any] | None:
    """The words, if they were given as a list or as JSON."""
    if isinstance(given, tuple | list):
        return list(given)
    if isinstance(given, str) and given.lstrip().startswith("["):
        try:
            listed = json.loads(given)
        except (ValueError, RecursionError):
            return None
        # "[3]" is a text; a list with a string in it, or an empty one, is a list of words.
        is_words = isinstance(listed, list) and (not listed or any(isinstance(word, str) for word in listed))
        return listed if is_words else None
    return None


def typed(words: Sequence[str]) -> str:
    """Words as a text, or as JSON if the text would be split into other words."""
    text = " ".join(words)
    return text if WORDS.findall(text) == list(words) else json.dumps(list(words), ensure_ascii=False)


def answer_tokens(item: TagInput, tags: Sequence[str], shares: Sequence[float]) -> tuple[dict[str, Any], ...]:
    """Every word with its tag, the tag's probability and its characters."""
    rows = zip(item.words, tags, shares, item.spans, strict=True)
    return tuple(
        {"text": word, "tag": tag, "probability": share, "start": start, "end": end}
        for word, tag, share, (start, end) in rows
    )


def answer_spans(item: TagInput, tags: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The spans that the tags mark; ``first`` and ``last`` count words from 0."""
    spans = []
    for start, end, type in spans_of(tags):
        first, last = item.spans[start][0], item.spans[end - 1][1]
        text = item.text[first:last]
        spans.append({"type": type, "text": text, "start": first, "end": last, "first": start, "last": end - 1})
    return tuple(spans)


def trace_of(
    item: TagInput,
    tags: Sequence[str],
    records: Sequence[Record],
    reader: WordReader,
    layout: Layout,
    last: str | None,
) -> Trace:
    """The labelled trace: keys are words; queries of the last site are words with their predicted tags. ``about["tags"]`` has
    the tag of each position, "" for special tokens and later pieces of a word."""
    text = _axis(item, reader, layout)
    labels, own = list(text.labels), [""] * len(text.labels)
    for place, tag in zip(first_pieces(text), tags, strict=True):
        labels[place], own[place] = f"{labels[place]} [{tag}]", tag
    axes: dict[str, Axis] = {TEXT: text, TAG: Tokens(tuple(labels), special=text.special, words=text.words)}
    made = assemble([_with_tag_queries(record, last) for record in records], 0) if records else Trace()
    return made.labelled(axes, tags=own)


def first_pieces(text: Tokens) -> list[int]:
    """The positions at which words begin, without special tokens."""
    before = [None, *text.words]
    return [place for place, word in enumerate(text.words) if word != before[place] and place not in text.special]


def _with_tag_queries(record: Record, last: str | None) -> Record:
    """A record of the last site gets the axis of tags for its queries; others stay as they are."""
    site = record.site
    if record.kind == "signal" or site.name != last or (site.query, site.key) != (TEXT, TEXT):
        return record
    return replace(record, site=replace(site, query=TAG))


def _axis(item: TagInput, reader: WordReader, layout: Layout) -> Tokens:
    """The positions of a row: words or their pieces, and special tokens."""
    cut, tokenizer = reader.cut(item.words), reader.tokenizer
    labels, spans, words = list[str](), list[tuple[int, int]](), list[int]()
    for number, (word, (start, end)) in enumerate(zip(item.words, item.spans, strict=True)):
        inside = [(0, len(word))] if reader.config.kind == "words" else tokenizer.spans(word) or [(0, len(word))]
        labels += [word[first:last] or "·" for first, last in inside]
        spans += [(min(start + first, end), min(start + last, end)) for first, last in inside]
        words += [number] * len(inside)
    if len(labels) != len(cut.ids):
        raise InputError("input", expected=f"{len(cut.ids)} tokens", found=f"{len(labels)} spans")
    special: tuple[int, ...] = ()
    if layout == "marked":
        begin, close = (tokenizer.pieces([mark])[0] for mark in (tokenizer.BOS, tokenizer.EOS))
        labels, spans = [begin, *labels, close], [(0, 0), *spans, (len(item.text), len(item.text))]
        words, special = [0, *(number + 1 for number in words), len(item.words) + 1], (0, len(labels) - 1)
    return Tokens(tuple(labels), text=item.text, spans=tuple(spans), words=tuple(words), special=special)


def outputs_of(
    shares: Float[Tensor, "words K"], predicted: Sequence[str], places: Sequence[int], tags: Tags, rows: int
) -> Outputs:
    """The probabilities of the file's tags at each word, the likeliest first; ``places`` are the words' rows of ``rows``
    positions. Positions where no word begins have no tag."""
    names, summed = file_shares(shares, predicted, tags)
    likeliest, order = summed.sort(dim=-1, descending=True)  # [words, tags of the file]
    probability, index = (part.new_zeros(rows, len(names)) for part in (likeliest, order))
    probability[list(places)], index[list(places)] = likeliest, order
    labels: list[tuple[str, ...]] = [()] * rows
    for place, row in zip(places, order.tolist(), strict=True):
        labels[place] = tuple(names[number] for number in row)
    return Outputs(TAG, tuple(labels), probability, index)


def file_shares(
    shares: Float[Tensor, "words K"], predicted: Sequence[str], tags: Tags
) -> tuple[tuple[str, ...], Float[Tensor, "words tags"]]:
    """The file's tags and their probability at each word: learnt tags that convert to the same tag are summed."""
    if tags.learn == tags.scheme:
        return tags.names, shares
    names = tuple(tags_with(types_in(tags.names), tags.scheme))
    number = {name: place for place, name in enumerate(names)}
    around = [OUTSIDE, *predicted, OUTSIDE]
    summed = shares.new_zeros(len(predicted), len(names))
    for word, (before, after) in enumerate(zip(around[:-2], around[2:], strict=True)):
        becomes = [number[_in_file_scheme(before, tag, after, tags)] for tag in tags.names]
        summed[word].index_add_(0, torch.tensor(becomes, device=shares.device), shares[word])
    return names, summed


def _in_file_scheme(before: str, tag: str, after: str, tags: Tags) -> str:
    """A learnt tag in the file's scheme, given the predicted tags before and after it."""
    mark, type = parted(tag)
    if mark in "IE" and not may_follow(before, tag, tags.learn):
        # An inside tag continues a span, so one must begin before it, whatever tag was predicted there.
        before = f"B-{type}"
    return converted([before, tag, after], tags.scheme)[1]


def last_site(sites: Sequence[Site]) -> str | None:
    """The name of the last attention site before the tags are predicted."""
    return sites[-1].name if sites else None
