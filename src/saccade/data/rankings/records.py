"""Questions, the candidates of each, and how well each candidate answers: the records of the task ``rank``. No torch.

    tables, JSONL, Parquet, the hub   one row per candidate: question, candidate, relevance; rows of a question belong together
    JSONL, Parquet                    also one row per question, its candidates and their relevance being lists
    folders                           a.toks, b.toks, sim.txt: parallel lines (:mod:`saccade.data.files.answer_files`)

Relevance is 0 or 1, true or false, or a grade; what is above 0 answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from saccade.data.columns import ColumnNames
from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files import fields as columnar
from saccade.data.files.answer_files import NAMES, scan_toks
from saccade.data.files.fields import COLUMNAR as TABLES
from saccade.data.files.fields import columns_of, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding
from saccade.data.files.records import NOT_TEXT, Fault, Fields, kind_of
from saccade.data.memory import WHERE, fields_in, group_of, records_in
from saccade.data.reading import FaultCounts, load_splits, own_format, read_records
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import WordTokens
from saccade.data.tokenizers.vectors import Vectors, check_vectors
from saccade.data.toy.facts import Facts
from saccade.errors import InputError

EMPTY = "no question or no candidate"
NO_GRADE = "no relevance"
UNEVEN = "lists of unequal length"
TWO_QUESTIONS = "two questions in one group"
SMALLEST, LARGEST = 1e-30, 1e30  # of grades above 0: the losses add them up in single precision


@dataclass(frozen=True, slots=True)
class Ranked:
    """A question, its candidates, and the relevance of each. Records with the same question are held out together."""

    source: str
    candidates: tuple[str, ...]
    target: tuple[float, ...]

    @property
    def asked(self) -> tuple[str, tuple[str, ...]]:
        """A network's input: the record without its relevance."""
        return self.source, self.candidates

    @property
    def answered(self) -> bool:
        """Whether any candidate answers."""
        return any(grade > 0 for grade in self.target)


@dataclass(frozen=True)
class RankColumns(ColumnNames):
    """Which columns (tables) or keys (JSONL) hold what. Rows with the same ``group`` are of one question; without it, rows with
    the same question."""

    question: str | int = "question"
    candidate: str | int = "candidate"
    relevance: str | int = "relevance"
    group: str | int | None = None

    def among(self, names: Iterable[Any]) -> RankColumns:
        """The columns, ``candidate`` being ``candidates`` where it is not named and only that is among the names."""
        several = self.candidate == "candidate" and "candidate" not in names and "candidates" in names
        return replace(self, candidate="candidates") if several else self


@dataclass(frozen=True)
class RankedData(DataConfig):
    """The ``data`` part of a recipe for questions with candidates: files, or folders with a.toks, b.toks and sim.txt."""

    rereads: ClassVar[tuple[str, ...]] = (*DataConfig.rereads, "columns", "max_length", "too_long")

    source: Literal["facts"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "toks"] | None = None
    columns: RankColumns = field(default_factory=RankColumns)
    unanswered: Literal["keep", "drop"] = "keep"  # training questions of which no candidate is relevant
    facts: Facts = field(default_factory=Facts)
    tokens: WordTokens = field(default_factory=WordTokens)
    vectors: str | Vectors | None = None  # word vectors that the embeddings begin with
    max_length: int = 100  # tokens of a question, and of a candidate
    too_long: TooLong = "error"
    loss: Literal["listwise", "pointwise"] = "listwise"  # candidates against one another, or each alone

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=1)
        check_vectors(self.vectors, self.tokens)


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate of a question, or all of its candidates, and where they stood."""

    line: int
    question: str
    candidates: tuple[str, ...]
    target: tuple[float, ...]
    group: str | None = None


# Records from files --------------------------------------------------------------------------------------------------


def load_ranked(data: RankedData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    splits = load_splits(data, folder, seed, lambda values: Ranked(*values), lambda path, split: gather(path, data))
    splits = without_unanswered(splits, data)
    for name in ("train", "valid", "test"):
        records: Sequence[Ranked] = getattr(splits, name)
        if not any(record.answered for record in records):
            relevance = "columns.relevance may name another column"
            hint = relevance if name == "train" else "no metric can be computed on them"
            expected = "a question with a relevant candidate"
            raise InputError(f"data.{name}", expected=expected, found=f"none among {len(records):,}", hint=hint)
    return splits


def without_unanswered(splits: Splits, data: RankedData) -> Splits:
    """The splits; with ``data.unanswered: drop``, without the training questions that have no answer."""
    kept = [record for record in splits.train if record.answered]
    if data.unanswered == "keep" or len(kept) == len(splits.train):
        return splits
    if not kept:
        hint = "columns.relevance may name another column"
        raise InputError("data.train", expected="a question with a relevant candidate", found="none", hint=hint)
    dropped = f"{len(splits.train) - len(kept):,} of {len(splits.train):,}"
    note = f"train: {dropped} questions have no relevant candidate: dropped (data.unanswered)"
    return replace(splits, train=kept, notes=(*splits.notes, note))


def read_file(path: Path, data: RankedData, dropped: FaultCounts | None = None) -> list[Ranked]:
    """The records of one more file or folder, read strictly."""
    format = None if path.is_dir() else own_format(path, data, TABLES)
    return gather(path, replace(data, format=format), dropped, strict=dropped is None)[0]


def gather(
    path: str | Path, data: RankedData, dropped: FaultCounts | None = None, *, strict: bool = False
) -> tuple[list[Ranked], list[str]]:
    """The records of a file or folder, and warnings about them."""
    expected = "at least one question with a candidate"
    rows, notes = read_records(path, scan(path, data), data, dropped, strict=strict, called="rows", expected=expected)
    return collected(rows), notes


def collected(rows: Iterable[Row]) -> list[Ranked]:
    """Rows brought together to questions, in the order of their first rows."""
    questions: dict[tuple[int, str], tuple[str, list[str], list[float]]] = {}
    for row in rows:
        key = (1, row.question) if row.group is None else (0, row.group)
        _, candidates, target = questions.setdefault(key, (row.question, [], []))
        candidates += row.candidates
        target += row.target
    return [Ranked(question, tuple(texts), tuple(grades)) for question, texts, grades in questions.values()]


def scan(path: str | Path, data: RankedData) -> Iterator[Row | Fault]:
    """Every row and every fault of a file, of a folder, or of a dataset of the hub."""
    if not on_hub(path) and (data.format == "toks" or Path(path).is_dir()):
        columns, items = RankColumns(*NAMES), scan_toks(Path(path), data.encoding)
    else:
        format = data.format if on_hub(path) else format_of(path, data.format)
        columns = settled(path, data.columns, format, data.encoding)
        items = scan_fields(path, columns.wanted, format=format, encoding=data.encoding)
    questions: dict[str, str] = {}  # of each group
    for item in items:
        row = item if isinstance(item, Fault) else row_of(item, columns, path)
        if isinstance(item, Fields) and isinstance(row, Row) and row.group is not None:
            first = questions.setdefault(row.group, row.question)
            if first != row.question:
                expected = f"{first[:60]!r}, as in the rows of the group {row.group!r} before"
                row = item.fault(TWO_QUESTIONS, path, columns.question, expected, repr(row.question[:60]))
        yield row


def format_of(path: str | Path, format: str | None = None) -> str:
    """The given format, or else the one of the file's suffix."""
    expected = f"questions with candidates ({', '.join(TABLES)}, also .gz or .xz, or a folder with {NAMES[0]})"
    suffixes = {name: name for name in TABLES}
    return columnar.format_of(path, format, suffixes=suffixes, expected=expected, hint="set data.format")


def settled(path: str | Path, columns: RankColumns, format: str | None, encoding: Encoding) -> RankColumns:
    """The columns, ``candidate`` being ``candidates`` where it is not named and a file of lists has it so."""
    if columns.candidate != "candidate" or (format not in ("jsonl", "parquet") and not on_hub(path)):
        return columns
    return columns.among(columns_of(path, format, encoding))


def row_of(fields: Fields, columns: RankColumns, where: str | Path) -> Row | Fault:
    """The row of (question, candidate or several, relevance or several, and perhaps a group), or what is wrong with it."""
    question, given, relevance, *rest = fields.values
    candidates, grades = _lists(given), _lists(relevance)
    if not candidates:
        return fields.fault(EMPTY, where, columns.candidate, "at least one candidate", "none")
    if len(candidates) != len(grades):
        expected = f"as many as there are candidates ({len(candidates)})"
        return fields.fault(UNEVEN, where, columns.relevance, expected, str(len(grades)))
    for column, value in ((columns.question, question), *((columns.candidate, each) for each in candidates)):
        broken = fields.text_fault(value, column, where, EMPTY)
        if broken is not None:
            return broken
    target: list[float] = []
    for given_grade in grades:
        grade = relevance_of(given_grade)
        if grade is None:
            plain = isinstance(given_grade, str | int | float)
            reason = NO_GRADE if plain or given_grade is None else NOT_TEXT
            found = repr(given_grade)[:60] if plain else kind_of(given_grade)
            return fields.fault(reason, where, columns.relevance, "a relevance: 0, 1 or a grade above 0", found)
        target.append(grade)
    group = group_of(rest[0]) if rest else None
    return Row(fields.line, str(question), tuple(map(str, candidates)), tuple(target), group)


def relevance_of(value: Any) -> float | None:
    """A relevance as a number; None for a value that cannot be one.

    >>> [relevance_of(each) for each in (True, "1", 0, "0.5", "no", -1, 1e300)]
    [1.0, 1.0, 0.0, 0.5, None, None, None]
    """
    if hasattr(value, "item") and not isinstance(value, list | tuple):  # numpy's numbers
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError):  # an array of several
            return None
    if isinstance(value, str):
        written = value.strip().lower()
        value = {"true": 1.0, "false": 0.0}.get(written, written)
    try:
        grade = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return grade if grade == 0 or SMALLEST <= grade <= LARGEST else None


def _lists(given: Any) -> Sequence[Any]:
    """Several values as they are, one value as a list of it."""
    if isinstance(given, list | tuple):
        return given
    to_list = getattr(given, "tolist", None)  # an array, as a table in memory may hold
    values = given if isinstance(given, str) or to_list is None else to_list()
    return values if isinstance(values, list) else [values]


# Records from memory -------------------------------------------------------------------------------------------------


def ranked_of(given: Any, data: RankedData, dropped: FaultCounts | None = None) -> list[Ranked]:
    """Records from a list of (question, candidates, relevance) or of rows (question, candidate, relevance), of dicts of
    either, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the row's number, from 1; faults are counted in ``dropped``
    where that is given.
    """

    def values_of(item: Any) -> tuple[Any, ...] | None:
        if isinstance(item, Ranked):
            return item.source, item.candidates, item.target
        return tuple(item) if isinstance(item, tuple | list) and len(item) == 3 else None

    shape = "(question, candidates, relevance), (question, candidate, relevance) or a dict"
    accepted = f"questions with candidates: a list of {shape}, a DataFrame, a dict of columns"
    fields = fields_in(given, lambda names: data.columns.among(names).wanted, values_of, accepted=accepted, shape=shape)
    rows = (item if isinstance(item, Fault) else row_of(item, data.columns, WHERE) for item in fields)
    return collected(records_in(rows, dropped, expected="questions with candidates"))


def questions_of(rows: Iterable[Fields], columns: RankColumns, where: str) -> list[tuple[str, tuple[str, ...]]]:
    """Each question with its candidates, from rows of (question, candidate or several, and perhaps a group)."""

    def row(fields: Fields) -> Row:
        question, candidates, *group = fields.values
        ungraded = replace(fields, values=(question, candidates, [0.0] * len(_lists(candidates)), *group))
        made = row_of(ungraded, columns, where)
        if isinstance(made, Fault):
            raise made.error
        return made

    return [record.asked for record in collected(map(row, rows))]
