"""Surveys pairs of texts: the data of the task ``translate``. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from saccade.data.files.lines import Encoding
from saccade.data.files.records import NO_KEY, Fault
from saccade.data.files.tables import TABLES, Row, bare
from saccade.data.pairs.records import Found, PairFiles, format_of, header_of, scan, without_header
from saccade.data.survey.columns import UnknownColumns, samples_of
from saccade.data.survey.survey import Entry, Part, Survey, epochs_for, several
from saccade.data.survey.tallies import Lengths, with_several
from saccade.errors import InputError

# Names that say which side a column is, in whatever order they stand
SOURCES = frozenset(
    {"source", "src", "input", "question", "prompt", "misspelled", "wrong", "before", "original", "word"}
)
TARGETS = frozenset({"target", "tgt", "trg", "output", "answer", "completion", "correct", "right", "after", "phonemes"})
LOOKED_AT = 50  # rows from which samples are taken
FEW_PAIRS = 1000
ROOMY = 40  # tokens that are allowed in any case: later texts may be longer than those at hand
SENTENCE = 4  # words: from this median on, texts are sentences rather than names, dates or terms
LARGEST_WORDS = 30_000  # a larger vocabulary of words is better split into subwords
SMALL, UPDATES, MOST_EPOCHS = 20_000, 1500, 60  # pairs up to which a smaller network does, and its updates
BATCHED = 64  # pairs of median length that a batch should hold


class PairSurvey(Survey):
    kind, task, unit, expected = "pairs", "translate", "pair", "pair"
    roles = ("source", "target", "group")
    combine, takes_two = max, True  # the length of a pair is that of its longer side

    @classmethod
    def recognises(cls, files: Sequence[str], columns: Any, format: str | None, encoding: Encoding) -> bool:
        return set(columns) <= set(cls.roles)

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        return True

    def located(self, file: Any) -> Any:
        if isinstance(file, PairFiles):
            return self.located(file.source), self.located(file.target)
        return super().located(file)

    def sides(self) -> Sequence[str]:
        return ("source", "target")

    def scan(self, files: Any) -> Iterator[Found | Fault]:
        if isinstance(files, tuple):
            return scan(files, columns=self.data.columns, encoding=self.data.encoding)
        if isinstance(self.files, tuple):  # a text file of sources beside two text files
            return scan((files, files), encoding=self.data.encoding)
        columns = self.data.columns if files is self.files else replace(self.data.columns, group=None)
        return scan(files, columns=columns, format=self.data.format, encoding=self.data.encoding)

    def entry(self, record: Found) -> Entry:
        source, target = record.pair.source, record.pair.target
        return Entry(((source,), (target,)), source, target, record.group, line=record.line)

    def count(self, record: Found, part: Part) -> None:
        if record.pair.source.strip() == record.pair.target.strip():
            part.numbers["identical"] += 1
            part.first.setdefault("identical", part.row)

    def measure(self, record: Found) -> Iterable[tuple[str, int]]:
        for name, tokens in (("source", self.data.tokens), ("target", self.data.target_tokens or self.data.tokens)):
            yield f"{name} in {tokens.kind}", self.token_count(getattr(record.pair, name), tokens)

    def finish(self) -> None:
        self.several_sources = with_several(self.train.targets, self.train.keys)[0]

    # Columns ----------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Take a header of two names for the columns. Raises UnknownColumns where those that are wanted are not there."""
        self.headless, self.first_row = False, None
        if isinstance(self.files, tuple):
            return
        columns, format = self.data.columns, self.data.format
        if not self.named and not columns.named:
            # A column without a name, as of the index of a DataFrame, is none of the two.
            names = [name for name in header_of(self.files, format, self.data.encoding) or [] if name.strip()]
            if len(names) == 2 and {*names} != {columns.source, columns.target}:
                swapped = bare(names[0]) in TARGETS or bare(names[1]) in SOURCES
                source, target = names[::-1] if swapped else names
                columns = replace(columns, source=source, target=target)
                self.data = replace(self.data, columns=columns)
        try:
            first = list(islice(self.scan(self.files), LOOKED_AT))
        except InputError as error:
            if error.expected in (str(columns), "a column of text") or error.field == "columns":
                raise self._unknown(error) from error
            raise
        faults = [item for item in first if isinstance(item, Fault) and item.reason == NO_KEY]
        if faults and len(faults) == len(first):
            raise self._unknown(faults[0].error)
        self.headless = without_header(self.files, columns.source, format, self.data.encoding)
        self.first_row = self._first_row() if self.headless and not self.has_recipe else None

    def _first_row(self) -> tuple[str, str] | None:
        """The first row of a table, where it might be a header."""
        rows = TABLES[format_of(Path(self.files), self.data.format)](Path(self.files), self.data.encoding)
        cells = next((row.cells for row in rows if isinstance(row, Row)), [])
        wordy = all(len(cell.split()) in (1, 2, 3) and not re.search(r"\d", cell) for cell in cells)
        return (cells[0], cells[1]) if len(cells) == 2 and wordy else None

    def _unknown(self, error: InputError) -> InputError:
        available = samples_of(str(self.files), self.data.format, self.data.encoding)
        return UnknownColumns(error, available) if len(available) > 1 else error

    # The report -------------------------------------------------------------------------------------------------------

    def headline(self) -> str:
        pairs, columns = several(self.train.records, "pair"), self.data.columns
        if isinstance(self.files, tuple):
            return f"{self.files[0]} → {self.files[1]}: {pairs} of lines"
        how = "two columns without a header" if self.headless else f"columns {columns.source} → {columns.target}"
        return f"{self.files}: {pairs} ({how})"

    def own_problems(self) -> Iterator[str]:
        group = self.data.columns.group
        if group is not None and not self.train.grouped:
            yield f"no record has the group {group!r}"

    def own_notes(self) -> Iterator[str]:
        if self.first_row is not None:
            source, target = self.first_row
            header = f'--column "source={source}" --column "target={target}"'
            yield f"the first row, {source!r} → {target!r}, is read as a pair; if it is a header, add {header}"
        if self.train.records < FEW_PAIRS:
            yield f"{several(self.train.records, 'pair')}: too few to learn from: a network memorises them"

    def checks(self) -> Iterator[tuple[int, str]]:
        yield from super().checks()
        yield self.contradicted, f"sources have several targets{self.shown('contradicted')}"
        yield self.several_sources, "targets have several sources"
        yield self.train.numbers["identical"], f"targets are identical to their source{self.shown('identical')}"

    def own_json(self) -> dict[str, Any]:
        kind, size, why = self.cut()
        return {
            "headless": self.headless, "identical": self.train.numbers["identical"], "several_sources": self.several_sources,
            "tokens": {"kind": kind, "size": size, "why": why},
        }  # fmt: skip

    # The recipe -------------------------------------------------------------------------------------------------------

    def cut(self) -> tuple[Literal["characters", "words", "bpe"], int | None, str]:
        """The recommended tokenizer: its kind, the size of the vocabulary, and the reason."""
        sides = list(self.train.sides.values())
        if any(side.unspaced for side in sides):
            return "characters", None, "a side is in a script without spaces between words"
        if min(side.word_lengths.within(0.5) for side in sides) < SENTENCE:
            return "characters", None, "the texts are short"
        sizes = [side.vocabulary.covering(0.99) or LARGEST_WORDS + 1 for side in sides]
        if max(sizes) > LARGEST_WORDS:
            return "bpe", 8000, f"99 % of the words need a vocabulary of more than {LARGEST_WORDS:,}"
        return "words", max(1000, nice(max(sizes))), "99 % of the words fit into a vocabulary"

    def recommend(self) -> dict[str, Any]:
        kind, size, _ = self.cut()
        limit, too_long, batch = limits_for(self.train.characters if kind == "characters" else self.train.words)
        tokens: dict[str, Any] = {"kind": kind} | ({"size": size} if size else {})
        if kind == "words":
            tokens["min_count"] = 2
        elif kind == "bpe":  # a word is split into two pieces at most, on average: a guess that holds
            limit, too_long = nice(2 * limit), "truncate"
            batch = max(batch, power_of_two(limit + 1))
        data: dict[str, Any] = {"tokens": tokens, "max_length": limit, "too_long": too_long}
        metrics = ["exact_match", "cer"] if kind == "characters" else ["bleu", "chrf"]
        model: dict[str, Any] = {"name": "rnnsearch"}
        train: dict[str, Any] = {"batch_tokens": batch}
        if self.train.records < SMALL:  # a smaller network, larger steps, and as many updates as it needs
            length = (self.train.characters if kind == "characters" else self.train.words).mean + 1
            pairs = max(1, round(batch / length))
            records, share = self.train.records, self.data.hold_out
            epochs, _ = epochs_for(records, share, batch=pairs, updates=UPDATES, fewest=10, most=MOST_EPOCHS)
            model |= {"hidden": 128, "embedding": 128, "maxout": 64, "dropout": 0.3}
            train |= {"epochs": epochs, "lr": 0.003, "stop_after": 4}
        return {"data": data, "model": model, "train": train, "search": {"beam": 5}, "metrics": metrics}


def limits_for(longer: Lengths) -> tuple[int, Literal["error", "truncate"], int]:
    """``data.max_length``, ``data.too_long`` and ``train.batch_tokens`` from the lengths of each pair's longer side.

    Nothing is cut, unless a few are far longer than the rest.
    """
    usual = longer.within(0.99)
    tail = longer.longest > 2 * usual and longer.longest > 100
    limit = nice(usual if tail else longer.longest)
    batch = power_of_two(BATCHED * (longer.within(0.5) + 1))
    return limit, "truncate" if tail else "error", max(min(max(batch, 1024), 8192), power_of_two(limit + 1))


def nice(length: int) -> int:
    """A round number with some room above: 3 → 40, 83 → 90, 217 → 250, 1234 → 1500."""
    step = next(step for bound, step in ((100, 10), (1000, 50), (10**9, 500)) if length <= bound)
    return max(ROOMY, -(-length // step) * step)


def power_of_two(number: int) -> int:
    """The number rounded up to a power of two."""
    return 1 << max(0, number - 1).bit_length()
