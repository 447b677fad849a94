"""What a tagger is asked and what it answers: a text or its words, every word with its tag, the spans, and a labelled trace.

A text is cut into words by the rule of the tokens ``words``: letters and digits that stand together, every other sign alone.
Words may be given instead, as a list or as JSON: ["U.N.", "official"] stays two words.
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
TEXT, TAG = "text", "tag"  # the axes: what is looked at, and what looks


@dataclass(frozen=True)
class TagInput:
    """An input: its text, its words and the characters that each covers, and what the reader must know of it."""

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
        wrong = next((each for each in listed if not isinstance(each, str) or not each.strip()), None)
        if wrong is not None or not listed:
            found = "an empty list" if not listed else repr(wrong)[:40]
            raise InputError(where, expected="words, each a text", found=found)
        words, start, spans = tuple(map(str, listed)), 0, list[tuple[int, int]]()
        for word in words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return TagInput(" ".join(words), words, tuple(spans))
    cut = tuple(found.span() for found in WORDS.finditer(given))
    if not cut:
        raise InputError(where, expected="a text", found="nothing" if not given else "blanks only")
    return TagInput(given, tuple(given[start:end] for start, end in cut), cut)


def _listed(given: Any) -> list[Any] | None:
    """The list of words that was given, if it was one."""
    if isinstance(given, tuple | list):
        return list(given)
    if isinstance(given, str) and given.lstrip().startswith("["):
        try:
            found = json.loads(given)
        except (ValueError, RecursionError):
            return None
        # "[3]" is a text that begins so; with a text in it, or with nothing, a list was meant.
        meant = isinstance(found, list) and (not found or any(isinstance(each, str) for each in found))
        return found if meant else None
    return None


def typed(words: Sequence[str]) -> str:
    """Words as a person types them: with blanks between, or as JSON where the text would be cut otherwise."""
    text = " ".join(words)
    return text if WORDS.findall(text) == list(words) else json.dumps(list(words), ensure_ascii=False)


def answer_tokens(asked: TagInput, tags: Sequence[str], shares: Sequence[float]) -> tuple[dict[str, Any], ...]:
    """Every word with its tag, the tag's probability and its characters."""
    rows = zip(asked.words, tags, shares, asked.spans, strict=True)
    return tuple(
        {"text": word, "tag": tag, "probability": share, "start": start, "end": end}
        for word, tag, share, (start, end) in rows
    )


def answer_spans(asked: TagInput, tags: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The spans that the tags mark; ``first`` and ``last`` count words from 0."""
    found = []
    for start, end, type in spans_of(tags):
        first, last = asked.spans[start][0], asked.spans[end - 1][1]
        text = asked.text[first:last]
        found.append({"type": type, "text": text, "start": first, "end": last, "first": start, "last": end - 1})
    return tuple(found)


def trace_of(
    asked: TagInput,
    tags: Sequence[str],
    records: Sequence[Record],
    reader: WordReader,
    layout: Layout,
    last: str | None,
) -> Trace:
    """What was looked at, labelled: words across; down, at the site that looks last, the words with the tag that it led to.
    ``about["tags"]`` has the tag of each position, "" where a mark or a word's later piece has none."""
    text = _axis(asked, reader, layout)
    labels, own = list(text.labels), [""] * len(text.labels)
    for place, tag in zip(first_pieces(text), tags, strict=True):
        labels[place], own[place] = f"{labels[place]} [{tag}]", tag
    axes: dict[str, Axis] = {TEXT: text, TAG: Tokens(tuple(labels), special=text.special, words=text.words)}
    made = assemble([_asking(record, last) for record in records], 0) if records else Trace()
    return made.labelled(axes, tags=own)


def first_pieces(text: Tokens) -> list[int]:
    """The positions at which words begin, marks left out."""
    before = [None, *text.words]
    return [place for place, word in enumerate(text.words) if word != before[place] and place not in text.special]


def _asking(record: Record, last: str | None) -> Record:
    """The record of the site that looks last, its queries being the tags."""
    site = record.site
    if record.kind == "signal" or site.name != last or (site.query, site.key) != (TEXT, TEXT):
        return record
    return replace(record, site=replace(site, query=TAG))


def _axis(asked: TagInput, reader: WordReader, layout: Layout) -> Tokens:
    """The positions of a row: words, or their pieces; marks are special."""
    cut, tokenizer = reader.cut(asked.words), reader.tokenizer
    labels, spans, words = list[str](), list[tuple[int, int]](), list[int]()
    for number, (word, (start, end)) in enumerate(zip(asked.words, asked.spans, strict=True)):
        inside = [(0, len(word))] if reader.config.kind == "words" else tokenizer.spans(word) or [(0, len(word))]
        labels += [word[first:last] or "·" for first, last in inside]
        spans += [(min(start + first, end), min(start + last, end)) for first, last in inside]
        words += [number] * len(inside)
    if len(labels) != len(cut.ids):
        raise InputError("input", expected=f"{len(cut.ids)} tokens", found=f"{len(labels)} places of them")
    special: tuple[int, ...] = ()
    if layout == "marked":
        begin, close = (tokenizer.pieces([mark])[0] for mark in (tokenizer.BOS, tokenizer.EOS))
        labels, spans = [begin, *labels, close], [(0, 0), *spans, (len(asked.text), len(asked.text))]
        words, special = [0, *(number + 1 for number in words), len(asked.words) + 1], (0, len(labels) - 1)
    return Tokens(tuple(labels), text=asked.text, spans=tuple(spans), words=tuple(words), special=special)


def outputs_of(
    shares: Float[Tensor, "words K"], said: Sequence[str], places: Sequence[int], tags: Tags, rows: int
) -> Outputs:
    """The probabilities of the file's tags at each word, the likeliest first; ``places`` are the words' rows of ``rows``
    positions. Where no word begins there is no tag, and nothing likely."""
    names, found = told_shares(shares, said, tags)
    likeliest, order = found.sort(dim=-1, descending=True)  # [words, tags of the file]
    probability, index = (part.new_zeros(rows, len(names)) for part in (likeliest, order))
    probability[list(places)], index[list(places)] = likeliest, order
    labels: list[tuple[str, ...]] = [()] * rows
    for place, row in zip(places, order.tolist(), strict=True):
        labels[place] = tuple(names[number] for number in row)
    return Outputs(TAG, tuple(labels), probability, index)


def told_shares(
    shares: Float[Tensor, "words K"], said: Sequence[str], tags: Tags
) -> tuple[tuple[str, ...], Float[Tensor, "words told"]]:
    """The file's tags, and the probability of each at each word: those of learnt tags that become the same are added."""
    if tags.learn == tags.scheme:
        return tags.names, shares
    names = tuple(tags_with(types_in(tags.names), tags.scheme))
    number = {name: place for place, name in enumerate(names)}
    around = [OUTSIDE, *said, OUTSIDE]
    found = shares.new_zeros(len(said), len(names))
    for word, (before, after) in enumerate(zip(around[:-2], around[2:], strict=True)):
        becomes = [number[_told_between(before, tag, after, tags)] for tag in tags.names]
        found[word].index_add_(0, torch.tensor(becomes, device=shares.device), shares[word])
    return names, found


def _told_between(before: str, tag: str, after: str, tags: Tags) -> str:
    """What a learnt tag is in the file's scheme, between the learnt tags that were said beside it."""
    mark, type = parted(tag)
    if mark in "IE" and not may_follow(before, tag, tags.learn):
        # Where it goes on with a span, one began before it, whatever was likeliest there.
        before = f"B-{type}"
    return converted([before, tag, after], tags.scheme)[1]


def last_site(sites: Sequence[Site]) -> str | None:
    """The site that a tagger looks at last, before it says its tags."""
    return sites[-1].name if sites else None
