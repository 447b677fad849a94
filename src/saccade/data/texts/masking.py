"""Makes rows for pre-training from documents (Devlin et al. 2019, 3.1): two texts with some words masked.

    row       [CLS] A [SEP] B [SEP]        segments 0 for [CLS] A [SEP], 1 for B [SEP]
    A B       a stretch of a document, split at a sentence boundary; in half of the rows B is replaced by a stretch of
              another document that starts at a sentence and is as long, or ends with its document if the true B does
    chosen    round(0.15 · length) positions (the length includes special tokens, which are never chosen); 80 % of them become
              [MASK], 10 % another piece, 10 % stay; all of them are predicted

All random choices are functions of the draw (seed and epoch), the row and the position: they differ in every epoch, are the
same in every process and for every batch size, and have no state.

Legend: B rows, S positions, K chosen positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, rounded
from saccade.errors import SaccadeError

IGNORED = -100  # the target of positions that are not predicted
FOLLOWS, ELSEWHERE = 0, 1
MASKED, REPLACED = 0.8, 0.1  # shares of the chosen positions; the others stay
SPLIT, SIDE, DOCUMENT, SENTENCE, CHOICE, KIND, PIECE = range(7)  # what is drawn

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Documents:
    """The ids of all documents in one array, with the bounds of sentences and documents (one entry more than there are)."""

    ids: Numbers
    sentences: Numbers  # first token of each sentence, and the end
    documents: Numbers  # first sentence of each document, and the end

    @classmethod
    def of(cls, documents: Iterable[Sequence[Sequence[int]]]) -> Documents:
        """From documents of sentences of ids; empty sentences and documents are left out."""
        parts, sizes, counts = list[Numbers](), list[int](), list[int]()
        for document in documents:
            sentences = [sentence for sentence in document if len(sentence)]
            if sentences:
                own = [len(sentence) for sentence in sentences]
                parts.append(np.fromiter(chain.from_iterable(sentences), dtype=np.int64, count=sum(own)))
                sizes += own
                counts.append(len(sentences))
        ids = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        return cls(ids, _bounds(sizes), _bounds(counts))

    def __len__(self) -> int:
        return len(self.documents) - 1

    @cached_property
    def by_length(self) -> tuple[Numbers, Numbers, Numbers]:
        """The tokens per document, the documents by decreasing length, and the rank of each document in that order."""
        lengths = np.diff(self.sentences[self.documents])
        order = np.argsort(-lengths, kind="stable")
        return lengths, order, np.argsort(order, kind="stable")


@dataclass(frozen=True)
class Stretches:
    """The stretches of documents that rows are made of: tokens ``start`` to ``stop`` of ``document``."""

    start: Numbers
    stop: Numbers
    document: Numbers

    def __len__(self) -> int:
        return len(self.start)

    def within_a_sentence(self, documents: Documents) -> int:
        """How many stretches lie within one sentence. Split, their second text begins in mid-sentence, while one of another
        document never does, so its first word reveals whether it follows."""
        left, right = _sentence_starts(documents, self.start, self.stop)
        return int((left == right).sum())


@dataclass(frozen=True)
class Marks:
    """The ids of the special tokens, and of all other pieces."""

    padding: int
    first: int
    last: int
    mask: int
    ordinary: Numbers


class Visit(list[int]):
    """The rows of one batch, and their draw (seed and epoch)."""

    def __init__(self, numbers: Iterable[int], draw: int) -> None:
        super().__init__(numbers)
        self.draw = draw


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Masked rows, the original words, and whether the second text follows."""

    text: Int64[Tensor, "B S"]
    lengths: Int64[Tensor, " B"]  # special tokens included
    segments: Int64[Tensor, "B S"]
    chosen: Int64[Tensor, "B K"]  # positions; 0 where a row has fewer
    words: Int64[Tensor, "B K"]  # the original words; IGNORED where a row has fewer
    follows: Int64[Tensor, " B"]  # FOLLOWS, ELSEWHERE; IGNORED in rows of one text
    indices: list[int]
    tokens: int  # chosen positions, the units of the loss: known on the host
    longest: int | None = None  # the most positions of a row

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes; the padding has no weight."""
        (B, S), K = self.text.shape, self.chosen.shape[1]
        below, more = rounded(B, 8) - B, rounded(K, 2) - K
        right = (rounded(S, 4) if self.longest is None else min(rounded(S, 4), self.longest)) - S
        return replace(
            self,
            text=functional.pad(self.text, (0, right, 0, below)),
            lengths=functional.pad(self.lengths, (0, below), value=2),
            segments=functional.pad(self.segments, (0, right, 0, below)),
            chosen=functional.pad(self.chosen, (0, more, 0, below)),
            words=functional.pad(self.words, (0, more, 0, below), value=IGNORED),
            follows=functional.pad(self.follows, (0, below), value=IGNORED),
        )


def stretches_of(documents: Documents, room: int, short: float) -> Stretches:
    """Every document cut into stretches of ``room`` tokens; a random share ``short`` of them is shorter."""
    starts, stops, owners = list[int](), list[int](), list[int]()
    limits = documents.sentences[documents.documents]
    lots = np.arange(len(documents) + len(documents.ids) // max(1, room))
    shorter = (_uniform(1, lots, SPLIT) < short).tolist()
    sizes = (2 + _below(np.full(len(lots), max(1, room - 1)), 2, lots, SPLIT)).tolist()
    for number, (begin, end) in enumerate(zip(limits[:-1].tolist(), limits[1:].tolist(), strict=True)):
        place = begin
        while place < end:
            lot = len(starts) % len(lots)
            starts.append(place)
            stop = min(place + (sizes[lot] if shorter[lot] else room), end)
            # A single remaining token could not be split, so its second text would always be from another document.
            place = stop - (end - stop == 1 and stop - place > 2)
            stops.append(place)
            owners.append(number)
    made = [np.asarray(column, dtype=np.int64) for column in (starts, stops, owners)]
    return Stretches(made[0], made[1], made[2])


def collate(
    documents: Documents, stretches: Stretches, visit: Sequence[int], marks: Marks, *, masked: float, pairs: bool
) -> Batch:
    """The rows of one batch, masked."""
    rows, draw = np.asarray(visit, dtype=np.int64), getattr(visit, "draw", 0)
    first, second, follows = _texts(documents, stretches, rows, draw, pairs)
    text, lengths, segments, inside = _laid_out(documents.ids, first, second, marks)
    chosen, known = _chosen(inside, lengths, rows, draw, masked)
    words = np.take_along_axis(text, chosen, axis=1)
    seen = _seen(words, chosen, rows, draw, marks)
    shown = text.copy()
    # Unused positions are 0, which is [CLS]: write only the positions in use.
    where = np.nonzero(known)
    shown[where[0], chosen[where]] = seen[where]
    return Batch(
        text=torch.from_numpy(shown),
        lengths=torch.from_numpy(lengths),
        segments=torch.from_numpy(segments),
        chosen=torch.from_numpy(chosen),
        words=torch.from_numpy(np.where(known, words, IGNORED)),
        follows=torch.from_numpy(follows),
        indices=rows.tolist(),
        tokens=int(known.sum()),
    )


def _texts(
    documents: Documents, stretches: Stretches, rows: Numbers, draw: int, pairs: bool
) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers], Numbers]:
    """The bounds of A and B of each row among all ids, and whether B follows."""
    start, stop, owner = stretches.start[rows], stretches.stop[rows], stretches.document[rows]
    if not pairs:
        return (start, stop), (stop, stop), np.full(len(rows), IGNORED, dtype=np.int64)
    # A stretch without a sentence boundary is split in its middle.
    left, right = _sentence_starts(documents, start, stop)
    pick = left + _below(right - left, draw, rows, SPLIT)
    middle = start + (stop - start + 1) // 2
    parted = np.where(right > left, documents.sentences[np.minimum(pick, len(documents.sentences) - 1)], middle)
    elsewhere = (_uniform(draw, rows, SIDE) < 0.5) | (parted == stop)
    begin, end = _elsewhere(documents, stop, parted, owner, rows, draw)
    second = np.where(elsewhere, begin, parted), np.where(elsewhere, end, stop)
    return (start, parted), second, np.where(elsewhere, ELSEWHERE, FOLLOWS).astype(np.int64)


def _sentence_starts(documents: Documents, start: Numbers, stop: Numbers) -> tuple[Numbers, Numbers]:
    """The first sentence that starts inside each stretch, after its first token, and the first that starts after it."""
    left = np.searchsorted(documents.sentences, start, side="right")
    return left, np.searchsorted(documents.sentences, stop, side="left")


def _elsewhere(
    documents: Documents, stop: Numbers, parted: Numbers, owner: Numbers, rows: Numbers, draw: int
) -> tuple[Numbers, Numbers]:
    """The bounds of a text in another document that replaces ``parted`` to ``stop``.

    Neither the length of a row nor its end may reveal that its second text does not follow. So the text ends with its document
    if the true one does, and otherwise has the same length, or less if no other document is long enough.
    """
    size = np.maximum(stop - parted, 1)
    lengths, order, rank = documents.by_length
    enough = np.searchsorted(
        -lengths[order], -size, side="right"
    )  # documents that are long enough, the row's own included
    among = np.where(enough > 1, enough, len(documents))
    pick = _below(among - 1, draw, rows, DOCUMENT)
    other = order[pick + (pick >= rank[owner])]
    first, last = documents.documents[other], documents.documents[other + 1]
    end = documents.sentences[last]
    # From the start of sentences up to `long` there are enough tokens to the document's end; after it there are fewer.
    long = np.searchsorted(documents.sentences, end - size, side="right") - 1
    anywhere = first + _below(np.maximum(long + 1 - first, 1), draw, rows, SENTENCE)
    exact = documents.sentences[np.maximum(long, first)] == end - size
    at_the_end = np.clip(np.where(exact, long, long + 1), first, last - 1)
    ends = stop == documents.sentences[documents.documents[owner + 1]]
    begin = documents.sentences[np.where(ends, at_the_end, anywhere)]
    return begin, np.minimum(begin + size, end)


def _laid_out(
    ids: Numbers, first: tuple[Numbers, Numbers], second: tuple[Numbers, Numbers], marks: Marks
) -> tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]:
    """Rows with special tokens, their lengths, their segments, and the positions of ordinary tokens."""
    a, b = (stop - start for start, stop in (first, second))
    lengths = a + b + np.where(b > 0, 3, 2)
    column = np.arange(int(lengths.max()))[None]
    in_first = (column >= 1) & (column <= a[:, None])
    in_second = (column >= (a + 2)[:, None]) & (column < (a + 2 + b)[:, None])
    place = np.where(in_first, first[0][:, None] + column - 1, second[0][:, None] + column - (a + 2)[:, None])
    inside = in_first | in_second
    text = np.where(inside, ids[np.where(inside, place, 0)], marks.padding)
    text[:, 0] = marks.first
    every = np.arange(len(a))
    text[every, a + 1] = marks.last
    text[every, lengths - 1] = marks.last
    segments = ((column >= (a + 2)[:, None]) & (column < lengths[:, None])).astype(np.int64)
    return text, lengths, segments, inside


def _chosen(
    inside: NDArray[np.bool_], lengths: Numbers, rows: Numbers, draw: int, masked: float
) -> tuple[Numbers, NDArray[np.bool_]]:
    """The positions to predict, in order, [B, K], and which of them are in use."""
    wanted = np.clip(np.rint(lengths * masked).astype(np.int64), 1, inside.sum(1))
    most = int(wanted.max())
    lot = drawn(draw, rows[:, None], np.arange(inside.shape[1])[None], CHOICE)
    lot = np.where(inside, lot >> np.uint64(1), np.uint64(2**64 - 1))  # special tokens and padding come last
    order = np.argpartition(lot, most - 1, axis=1)[:, :most] if most < lot.shape[1] else np.argsort(lot, axis=1)
    order = np.take_along_axis(order, np.argsort(np.take_along_axis(lot, order, axis=1), axis=1), axis=1)
    known = np.arange(most)[None] < wanted[:, None]
    order = np.sort(np.where(known, order, inside.shape[1]), axis=1)
    return np.where(known, order, 0).astype(np.int64), known


def _seen(words: Numbers, chosen: Numbers, rows: Numbers, draw: int, marks: Marks) -> Numbers:
    """The input at the chosen positions."""
    kind = _uniform(draw, rows[:, None], chosen, KIND)
    piece = marks.ordinary[_below(np.full(words.shape, len(marks.ordinary)), draw, rows[:, None], chosen, PIECE)]
    return np.where(kind < MASKED, marks.mask, np.where(kind < MASKED + REPLACED, piece, words))


# Random numbers as a hash of their keys (SplitMix64, Steele, Lea & Flood 2014) ---------------------------------------------


def drawn(*keys: int | Numbers) -> NDArray[np.uint64]:
    """A random 64-bit number for each combination of keys, the same at every call."""
    state = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2⁶⁴
        for key in keys:
            state = (state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray(state)


def _uniform(*keys: int | Numbers) -> NDArray[np.float64]:
    """Uniform in [0, 1)."""
    return (drawn(*keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _below(limit: Numbers, *keys: int | Numbers) -> Numbers:
    """A random integer below each limit; 0 where the limit is 0."""
    return (_uniform(*keys) * limit).astype(np.int64)


def draw_of(seed: int, epoch: int) -> int:
    """The number that identifies the draw of an epoch."""
    if seed < 0 or epoch < 0:
        raise SaccadeError(f"seed and epoch must be at least 0: got {seed} and {epoch}")
    return seed * 1_000_003 + epoch


def _bounds(sizes: Sequence[int]) -> Numbers:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.asarray(sizes, dtype=np.int64), dtype=np.int64)])
