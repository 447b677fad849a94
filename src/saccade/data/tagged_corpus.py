"""Tagged sentences made ready for batching: their rows, and a table that spells their words.

A sentence of more tokens than ``data.max_length`` is an error, or with ``data.too_long: split`` several rows, each of which is
read by itself. A batch holds all rows of its records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from saccade.data.tagged import Tagged, TaggedData
from saccade.data.tagged_rows import MARKS, Row, parts_of, tags_within
from saccade.data.tags import Tags
from saccade.data.word_reader import Letters, WordReader
from saccade.errors import InputError, begins

TOGETHER = 64  # rows read in one batch where nothing is learnt …
POSITIONS_TOGETHER = 32_768  # … and positions at most, padding included
SHOWN = 12  # words of a sentence that an error begins to quote


@dataclass(frozen=True)
class Corpus:
    """Records and their rows: ``rows[n]`` are those of record n; ``letters`` spells the words that rows point to.

    ``parted`` says how many sentences are read in parts, ``note`` that and what there is.
    """

    records: Sequence[Tagged]
    rows: Sequence[list[Row]]
    letters: Letters | None
    parted: str = ""
    note: str = ""

    def __len__(self) -> int:
        return len(self.records)

    @property
    def ids(self) -> list[list[int]]:
        """The tokens of each record."""
        return [[number for row in rows for number in row.ids] for rows in self.rows]

    def first(self, count: int | None) -> Corpus:
        return self if count is None else replace(self, records=self.records[:count], rows=self.rows[:count])


def corpus_of(
    records: Sequence[Tagged], reader: WordReader, tags: Tags, data: TaggedData, where: str, first: int = 1
) -> Corpus:
    """The rows of records; those without tags are inputs. ``where`` names a record in errors, numbered from ``first``."""
    words = dict.fromkeys(word for record in records for word in record.source)
    places = {word: number for number, word in enumerate(words, start=1)}  # 0 is no word
    letters = reader.spelled(["", *places]) if reader.alphabet else None
    rows = [
        _rows(each, reader, tags, data, f"{where} {number}{_begins(each)}", places if reader.alphabet else None)
        for number, each in enumerate(records, start=first)
    ]
    count = sum(len(each) > 1 for each in rows)
    told = f"{count:,} of {len(rows):,} sentences read in parts of at most {data.max_length} tokens"
    return Corpus(records, rows, letters, told if count else "")


def _begins(record: Tagged) -> str:
    """How a sentence begins, in brackets after its number; of an input nothing, it is at hand."""
    return f" ({begins(' '.join(record.source[:SHOWN]))})" if record.target else ""


def _rows(
    record: Tagged, reader: WordReader, tags: Tags, data: TaggedData, where: str, places: Mapping[str, int] | None
) -> list[Row]:
    cut, limit = reader.cut(record.source), data.max_length
    if len(cut.ids) > limit and data.too_long == "error":
        hint = f"set data.too_long: split, or data.max_length: {len(cut.ids)}"
        raise InputError(where, expected=f"at most {limit} tokens", found=f"{len(cut.ids)}", hint=hint)
    made, ends = [], [*cut.places, len(cut.ids)]
    for part in parts_of(cut, limit):
        start = cut.places[part.start]
        end = min(ends[part.end], start + limit)  # one word may have more pieces than a row has room for
        own = [place - start for place in cut.places[part.start : part.end]]
        numbers = [0] * len(own)
        if record.target:
            numbers = tags.numbers(tags_within(record.target, part, tags.scheme), where)
        spelled = [] if places is None else [places[word] for word in record.source[part.start : part.end]]
        made.append(Row(cut.ids[start:end], own, numbers, spelled))
    return made


def together(corpus: Corpus) -> Iterator[list[int]]:
    """Records of similar length, as many as fit into a batch."""
    sizes = [max(len(row.ids) for row in rows) + MARKS for rows in corpus.rows]
    order, batch, rows = sorted(range(len(sizes)), key=sizes.__getitem__), list[int](), 0
    for number in order:
        own = len(corpus.rows[number])
        if batch and (rows + own > TOGETHER or sizes[number] * (rows + own) > POSITIONS_TOGETHER):
            yield batch
            batch, rows = [], 0
        batch.append(number)
        rows += own
    if batch:
        yield batch
