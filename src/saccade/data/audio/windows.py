"""Cuts a long recording into windows that overlap, and joins what was written of each by when it was heard. No torch.

A network that was trained on sentences does not read an hour at once, nor would it fit into memory. Of two windows that
overlap, both write down what was said in the overlap, each best where it has heard what comes before and after: the transcripts
are joined at a piece that both wrote of the same time, the one nearest to the middle of the overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from saccade.errors import SaccadeError

SAME = 0.3  # seconds between two looks at the same sound, of two windows
AGAIN = 0.1  # and of one window
RUN = 3  # pieces in a row that both windows wrote: one alone may be the same by chance


@dataclass(frozen=True)
class Piece:
    """A piece of a transcript (a character, a word or a part of one, with the space before it) and when it was heard.

    ``start`` and ``end`` are those of the frames that its attention looked at, ``at`` is their mean, in seconds.
    """

    text: str
    start: float
    end: float
    at: float


def windows(seconds: float, length: float, overlap: float) -> list[tuple[float, float]]:
    """Windows of this length over a recording, each beginning ``overlap`` before the last one ended.

    The last is as long as the others, and overlaps more.

    >>> windows(25, 10, 2)
    [(0.0, 10.0), (8.0, 18.0), (15.0, 25.0)]
    """
    if not 0 < length < float("inf") or not 0 <= overlap <= length / 2:
        expected = "a window of some seconds, and an overlap of at most half of it"
        raise SaccadeError(f"windows: expected {expected}; found {length:g} and {overlap:g}")
    if seconds <= length:
        return [(0.0, float(seconds))]
    starts = [0.0]
    while starts[-1] + length < seconds:
        starts.append(min(starts[-1] + length - overlap, seconds - length))
    return [(start, min(start + length, float(seconds))) for start in starts]


def without_repeats(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces of a window without what was written again: a network that lost its place goes back and repeats itself.

    Repeated is what equals a piece that was heard at the same time, if other sound was listened to in between; so two letters
    of one moment, as in "all", stay.
    """
    kept: list[Piece] = []
    furthest, repeats = float("-inf"), False
    for piece in pieces:
        repeats = repeats or furthest - piece.at > AGAIN
        if repeats and not piece.text.isspace():
            repeats = any(other.text == piece.text and abs(other.at - piece.at) <= AGAIN for other in kept)
            if repeats:
                continue
        kept.append(piece)
        furthest = max(furthest, piece.at)
    return kept


def join(parts: Iterable[tuple[tuple[float, float], Sequence[Piece]]]) -> list[Piece]:
    """The pieces of a recording from those of its windows, in order: ((start, end), pieces) of each."""
    joined: list[Piece] = []
    end, sizes = 0.0, [0, 0]
    for (start, stop), written in parts:
        pieces = without_repeats(written)
        last = max(0, len(joined) - sum(sizes[-2:]))  # what two windows wrote: the last one may reach over both
        joined[last:] = stitch(joined[last:], pieces, start, end) if joined else pieces
        end, sizes = stop, [sizes[-1], len(pieces)]
    return joined


def stitch(before: Sequence[Piece], after: Sequence[Piece], start: float, end: float) -> list[Piece]:
    """The pieces of two windows as one list; both heard the stretch from ``start`` to ``end``."""
    middle = (start + end) / 2
    mine = [place for place, piece in enumerate(before) if piece.at >= start - SAME]
    theirs = [place for place, piece in enumerate(after) if piece.at <= end + SAME]
    pairs = _pairs([before[place] for place in mine], [after[place] for place in theirs])
    agreed = [(mine[one], theirs[other]) for one, other in _in_runs(pairs)]
    if agreed:
        one, other = min(agreed, key=lambda pair: abs(before[pair[0]].at - middle))
        return [*before[: one + 1], *after[other + 1 :]]
    kept = [piece for piece in before if piece.at < middle]
    rest = [piece for piece in after if piece.at >= middle]
    spaced = any(map(_has_space, (*before, *after)))
    if kept and rest and spaced and not (kept[-1].text[-1:].isspace() or rest[0].text[:1].isspace()):
        kept.append(Piece(" ", middle, middle, middle))  # two halves of different words do not make one
    return kept + rest


def _has_space(piece: Piece) -> bool:
    return any(map(str.isspace, piece.text))


def _pairs(before: Sequence[Piece], after: Sequence[Piece]) -> list[tuple[int, int]]:
    """The longest list of pairs of equal pieces that were heard at the same time, in order in both; of those as long the
    one whose times are nearest."""
    gains = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            gain = _gain(before[i], after[j])
            paired = gain + gains[i + 1][j + 1] if gain else 0.0
            gains[i][j] = max(paired, gains[i + 1][j], gains[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        gain = _gain(before[i], after[j])
        if gain and gains[i][j] == gain + gains[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif gains[i][j] == gains[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _gain(one: Piece, other: Piece) -> float:
    apart = abs(one.at - other.at)
    return 1.0 + (1 - apart / SAME) / 1000 if one.text == other.text and apart <= SAME else 0.0


def _in_runs(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs in runs of neighbours: of at least ``RUN``, or the longest runs that there are."""
    runs: list[list[tuple[int, int]]] = []
    for pair in pairs:
        follows = runs and runs[-1][-1] == (pair[0] - 1, pair[1] - 1)
        if follows:
            runs[-1].append(pair)
        else:
            runs.append([pair])
    longest = max(map(len, runs), default=0)
    return [pair for run in runs if len(run) >= min(RUN, longest) for pair in run]


# Words and segments ---------------------------------------------------------------------------------------------------

PAUSE = 0.7  # seconds of silence between two segments
LONGEST = 6.0  # seconds of a segment
LINE = 42  # characters of a line of subtitles, of which a segment has two at most


@dataclass(frozen=True)
class Stretch:
    """A word or a segment, and when it was heard, in seconds."""

    text: str
    start: float
    end: float


def has_words(pieces: Sequence[Piece]) -> bool:
    """Whether there are spaces between words, or no more than one word."""
    return any(map(_has_space, pieces)) or sum(len(piece.text) for piece in pieces) <= LINE


def words_of(pieces: Sequence[Piece]) -> list[Stretch]:
    """The words of a transcript. One ends where its last piece was heard, at most where the next one begins.

    Where a script has no spaces, or a model writes none, every piece is a word.
    """
    if not has_words(pieces):
        return _apart([(Stretch(piece.text, piece.start, piece.end), piece.at, piece.at) for piece in pieces])
    letters = [(letter, piece) for piece in pieces for letter in piece.text]
    groups: list[list[tuple[str, Piece]]] = [[]]
    for letter, piece in letters:
        if letter.isspace():
            groups.append([])
        else:
            groups[-1].append((letter, piece))
    groups = [group for group in groups if group]
    found = []
    for group in groups:
        start = min(piece.start for _, piece in group)
        end = max(piece.end for _, piece in group)
        found.append((Stretch("".join(letter for letter, _ in group), start, end), group[0][1].at, group[-1][1].at))
    return _apart(found)


def _apart(found: Sequence[tuple[Stretch, float, float]]) -> list[Stretch]:
    """Stretches that do not overlap: where two do, the border lies between their looks."""
    starts, ends = [each.start for each, _, _ in found], [each.end for each, _, _ in found]
    for place, ((_, _, last), (_, first, _)) in enumerate(pairwise(found)):
        if ends[place] > starts[place + 1]:
            border = min(max((last + first) / 2, starts[place]), max(ends[place + 1], starts[place]))
            ends[place] = starts[place + 1] = border
    return [
        Stretch(each.text, start, max(start, end)) for (each, _, _), start, end in zip(found, starts, ends, strict=True)
    ]


def segments_of(words: Sequence[Stretch], gap: str = " ") -> list[Stretch]:
    """Words as segments of at most two lines and six seconds, parted at pauses and at the ends of sentences; ``gap`` stands
    between words."""
    groups: list[list[Stretch]] = []
    for word in words:
        last = groups[-1] if groups else None
        if last is None or _parts(last, word, gap):
            groups.append([word])
        else:
            last.append(word)
    return [Stretch(gap.join(word.text for word in group), group[0].start, group[-1].end) for group in groups]


def _parts(group: Sequence[Stretch], word: Stretch, gap: str) -> bool:
    length = sum(len(each.text) + len(gap) for each in group) + len(word.text)
    sentence = group[-1].text[-1:] in (".", "!", "?", "。") and length > LINE
    return (
        sentence
        or word.start - group[-1].end >= PAUSE
        or word.end - group[0].start > LONGEST
        or (len(lines_of([*(each.text for each in group), word.text])) > 2 if gap else length > 2 * LINE)
    )


def lines_of(words: Sequence[str]) -> list[str]:
    """Words in lines of at most 42 characters; a longer word has a line of its own."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= LINE:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
