"""Questions, the candidates of each, and how well each candidate answers: the records of the task ``rank``. No torch.

    tables, JSONL, Parquet, the hub   a row a candidate: question, candidate, relevance; the rows of a question belong together
    JSONL, Parquet                    also a row a question, its candidates and their relevance being lists
    folders                           a.toks, b.toks, sim.txt: parallel lines (:mod:`saccade.data.files.answer_files`)

Relevance is 0 or 1, true or false, or a grade; what is above 0 answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files.answer_files import NAMES, is_toks, scan_toks
from saccade.data.files.fields import FORMATS, Fields, Name, columns_of, format_of, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding, unpacked
from saccade.data.files.records import NOT_TEXT, Fault, fault, kind_of, text_fault
from saccade.data.labels.records import WordTokens
from saccade.data.memory import columns_in, items_of, made_of, missing, short, values_under
from saccade.data.reading import FaultCounts, load_parts, valid_records, warnings_about
from saccade.data.splits import Splits
from saccade.data.tokenizers.vectors import Vectors, check_vectors
from saccade.data.toy.facts import Facts, generate
from saccade.errors import InputError

EMPTY = "no question or no candidate"
NO_GRADE = "no relevance"
UNEVEN = "lists of unequal length"
TWO_QUESTIONS = "two questions in one group"
TABLES = tuple(name for name in FORMATS if name != "lines")
SMALLEST, LARGEST = 1e-30, 1e30  # of grades above 0: the losses add them up in single precision


@dataclass(frozen=True, slots=True)
class Ranked:
    """A question, its candidates, and the relevance of each. Records with the same question are held out together."""

    source: str
    candidates: tuple[str, ...]
    target: tuple[float, ...]

    @property
    def asked(self) -> tuple[str, tuple[str, ...]]:
        """What a network is asked: the record without what it is to find out."""
        return self.source, self.candidates

    @property
    def answered(self) -> bool:
        """Whether any candidate answers."""
        return any(grade > 0 for grade in self.target)


@dataclass(frozen=True)
class RankColumns:
    """Which columns (tables) or keys (JSONL) hold what: names, or numbers from 1. Rows with the same ``group`` are of one
    question; without it, rows with the same question."""

    question: str | int = "question"
    candidate: str | int = "candidate"
    relevance: str | int = "relevance"
    group: str | int | None = None

    def __post_init__(self) -> None:
        for name in ("question", "candidate", "relevance", "group"):
            column = getattr(self, name)
            if column == "" or (isinstance(column, int) and column < 1):
                raise ValueError(f"{name} must be a column's name or its number from 1: got {column!r}")
        if self.candidate == self.question:
            raise ValueError(f"candidate must be another column than the question's: got {self.candidate!r}")
        if self.relevance in (self.question, self.candidate):
            raise ValueError(f"relevance must be another column than the texts': got {self.relevance!r}")

    @property
    def wanted(self) -> tuple[Name, ...]:
        """The columns to look for: question, candidate, relevance, then the group where it is named."""
        named = (self.question, self.candidate, self.relevance, self.group)
        return tuple(name for name in named if name is not None)


@dataclass(frozen=True)
class RankedData(DataConfig):
    """The ``data`` part of a recipe for questions with candidates: files, or folders with a.toks, b.toks and sim.txt."""

    source: Literal["facts"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "toks"] | None = None
    columns: RankColumns = field(default_factory=RankColumns)
    unanswered: Literal["keep", "drop"] = "keep"  # training questions of which no candidate is relevant
    facts: Facts = field(default_factory=Facts)
    tokens: WordTokens = field(default_factory=WordTokens)
    vectors: str | Vectors | None = None  # word vectors that the embeddings begin with
    max_length: int = 100  # tokens of a question, and of a candidate
    too_long: TooLong = "error"
    loss: Literal["listwise", "pointwise"] = "listwise"  # candidates against one another, or each by itself

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=1)
        check_vectors(self.vectors, self.tokens)


@dataclass(frozen=True, slots=True)
class Row:
    """What a line holds: a candidate of a question, or all of its candidates."""

    line: int
    question: str
    candidates: tuple[str, ...]
    target: tuple[float, ...]
    group: str | None = None


# Records from files --------------------------------------------------------------------------------------------------


def load_ranked(data: RankedData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    made: dict[str, list[Ranked]] = {}
    if data.source is not None:
        made = {name: [Ranked(*each) for each in part] for name, part in generate(data.facts).items()}
    splits = without_unanswered(load_parts(data, folder, seed, made, gather), data)
    for name in ("train", "valid", "test"):
        held: Sequence[Ranked] = getattr(splits, name)
        if not any(record.answered for record in held):
            hint = "columns.relevance may name another column" if name == "train" else "no figure could be had of them"
            expected = "a question with a relevant candidate"
            raise InputError(f"data.{name}", expected=expected, found=f"none among {len(held):,}", hint=hint)
    return splits


def without_unanswered(splits: Splits, data: RankedData) -> Splits:
    """The splits, of train's questions only those that have an answer where ``data.unanswered`` says so."""
    kept = [record for record in splits.train if record.answered]
    if data.unanswered == "keep" or len(kept) == len(splits.train):
        return splits
    if not kept:
        hint = "columns.relevance may name another column"
        raise InputError("data.train", expected="a question with a relevant candidate", found="none", hint=hint)
    dropped = len(splits.train) - len(kept)
    note = (
        f"train: {dropped:,} of {len(splits.train):,} questions have no relevant candidate: dropped (data.unanswered)"
    )
    return replace(splits, train=kept, notes=(*splits.notes, note))


def read_file(path: Path, data: RankedData) -> list[Ranked]:
    """The records of one more file or folder, read strictly: a figure on what happens to be left would mean nothing."""
    suffix = unpacked(path).suffix.lower().removeprefix(".")
    format = None if on_hub(path) or path.is_dir() or suffix in TABLES else data.format
    return gather(path, replace(data, format=format), strict=True)[0]


def gather(path: str | Path, data: RankedData, *, strict: bool = False) -> tuple[list[Ranked], list[str]]:
    """The records of a file or folder, and what the reader must know of how they were come by.

    The first fault is raised, with the word that ``data.faults: drop`` leaves it out; ``strict`` reading leaves none out.
    """
    left_out = FaultCounts()
    records = collected(valid_records(scan(path, data), data, left_out, strict=strict, called="rows"))
    return records, warnings_about(path, records, left_out, expected="at least one question with a candidate")


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
    named: dict[str, str] = {}  # group → its question
    columns, found = _opened(path, data)
    for item in found:
        row = item if isinstance(item, Fault) else row_of(item, columns, path)
        if isinstance(row, Row) and row.group is not None and named.setdefault(row.group, row.question) != row.question:
            expected = f"{named[row.group][:60]!r}, as in the rows of the group {row.group!r} before"
            place = item.place if isinstance(item, Fields) else None
            yield fault(row.line, TWO_QUESTIONS, path, field=str(columns.question), expected=expected,
                        found=repr(row.question[:60]), place=place)  # fmt: skip
        else:
            yield row


def _opened(path: str | Path, data: RankedData) -> tuple[RankColumns, Iterator[Fields | Fault]]:
    if not on_hub(path) and (data.format == "toks" or Path(path).is_dir()):
        folder = Path(path)
        if not is_toks(folder):
            found = (
                "a file" if folder.is_file() else "no such folder" if not folder.exists() else "a folder without them"
            )
            raise InputError(folder, expected=f"a folder with {', '.join(NAMES)}", found=found)
        return RankColumns(*NAMES), scan_toks(folder, data.encoding)
    format = data.format if on_hub(path) else _format(Path(path), data.format)
    columns = settled(path, data.columns, format, data.encoding)
    return columns, scan_fields(path, columns.wanted, format=format, encoding=data.encoding)


def _format(path: Path, format: str | None) -> str:
    suffix = unpacked(path).suffix.lower().removeprefix(".")
    if format is None and suffix not in TABLES:
        found = f"the suffix {suffix!r}" if suffix else "a name without a suffix"
        expected = f"questions with candidates ({', '.join(TABLES)}, also .gz or .xz, or a folder with {NAMES[0]})"
        raise InputError(path, expected=expected, found=found, hint="set data.format")
    return format_of(path, format)


def settled(path: str | Path, columns: RankColumns, format: str | None, encoding: Encoding) -> RankColumns:
    """The columns, ``candidate`` being ``candidates`` where nobody named it and the file says it so."""
    if columns.candidate != "candidate" or (format not in ("jsonl", "parquet") and not on_hub(path)):
        return columns
    there = columns_of(path, format, encoding)
    several = "candidate" not in there and "candidates" in there
    return replace(columns, candidate="candidates") if several else columns


# What a row holds ----------------------------------------------------------------------------------------------------


def row_of(fields: Fields, columns: RankColumns, where: str | Path) -> Row | Fault:
    """A row, checked; ``fields`` has its values in the order of ``columns.wanted``."""
    question, given, relevance, *rest = fields.values
    candidates, grades = _lists(given), _lists(relevance)
    if not candidates:
        return _fault(fields, EMPTY, where, columns.candidate, "at least one candidate", "none")
    if len(candidates) != len(grades):
        expected = f"as many as there are candidates ({len(candidates)})"
        return _fault(fields, UNEVEN, where, columns.relevance, expected, str(len(grades)))
    for column, value in ((columns.question, question), *((columns.candidate, each) for each in candidates)):
        broken = text_fault(value, str(column), fields.line, where, place=fields.place)
        if broken is not None:
            return broken
        if not value.strip():
            return _fault(fields, EMPTY, where, column, "a text", "nothing" if not value else "only spaces")
    target = [relevance_of(each) for each in grades]
    wrong = next((each for each, grade in zip(grades, target, strict=True) if grade is None), None)
    if None in target:
        found = repr(wrong)[:60] if isinstance(wrong, str | int | float) else kind_of(wrong)
        reason = NO_GRADE if isinstance(wrong, str | int | float | None) else NOT_TEXT
        return _fault(fields, reason, where, columns.relevance, "a relevance: 0, 1 or a grade above 0", found)
    group = str(rest[0]).strip() if rest and rest[0] is not None else ""
    texts = tuple(str(each) for each in candidates)
    return Row(fields.line, str(question), texts, tuple(grade or 0.0 for grade in target), group or None)


def relevance_of(value: Any) -> float | None:
    """A relevance as a number; None for what can be none.

    >>> [relevance_of(each) for each in (True, "1", 0, "0.5", "no", -1, 1e300)]
    [1.0, 1.0, 0.0, 0.5, None, None, None]
    """
    if hasattr(value, "item") and not isinstance(value, list | tuple):  # numpy's numbers
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError):  # several of them
            return None
    if isinstance(value, str):
        said = value.strip().lower()
        value = {"true": 1.0, "false": 0.0}.get(said, said)
    try:
        grade = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return grade if grade == 0 or SMALLEST <= grade <= LARGEST else None


def _lists(given: Any) -> Sequence[Any]:
    """Several as they are, one as a list of it."""
    if isinstance(given, list | tuple):
        return given
    several = getattr(given, "tolist", None)  # an array of them, as a table in memory may hold
    made = given if isinstance(given, str) or several is None else several()
    return made if isinstance(made, list) else [made]


def _fault(fields: Fields, reason: str, where: str | Path, column: Name, expected: str, found: str) -> Fault:
    return fault(fields.line, reason, where, field=str(column), expected=expected, found=found, place=fields.place)


# ----------------------------------------------------------------------------------------------------
# Questions with candidates from what a program has in hand: lists, dicts, a dict of columns, a DataFrame.

WHERE = "data"
ACCEPTED = (
    "questions with candidates: a list of (question, candidates, relevance), of dicts, a DataFrame, a dict of columns"
)


def ranked_of(given: Any, data: RankedData, left_out: FaultCounts | None = None) -> list[Ranked]:
    """Records from a list of (question, candidates, relevance) or of rows (question, candidate, relevance), of dicts of
    either, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the row's number, from 1; faults are counted in ``left_out``
    where that is given.
    """
    found = _fields(given, data.columns)
    rows = made_of(found, lambda fields, _: _row(fields, data.columns), left_out, expected="questions with candidates")
    return collected(rows)


def _row(fields: Fields, columns: RankColumns) -> Row:
    # A table in memory has NaN where there is nothing.
    values = tuple(None if missing(value) else value for value in fields.values)
    found = row_of(Fields(fields.line, values), columns, WHERE)
    if isinstance(found, Fault):
        raise found.error
    return found


def _fields(given: Any, columns: RankColumns) -> Iterator[Fields]:
    def of_table(table: Any, names: list[Any]) -> Iterator[Fields]:
        rows = zip(*columns_in(table, names, _wanted(columns, names), columns.wanted), strict=True)
        return (Fields(number, row) for number, row in enumerate(rows, start=1))

    return items_of(given, ACCEPTED, of_table, lambda item, number: _of_item(item, number, columns))


def _of_item(item: Any, number: int, columns: RankColumns) -> Fields:
    if isinstance(item, Ranked):
        return Fields(number, (item.source, item.candidates, item.target))
    if isinstance(item, Mapping):
        return Fields(number, tuple(values_under(item, _wanted(columns, item), number)))
    if isinstance(item, tuple | list) and len(item) == 3:
        return Fields(number, tuple(item))
    expected = "(question, candidates, relevance), (question, candidate, relevance) or a dict"
    raise InputError(WHERE, line=number, expected=expected, found=short(item))


def _wanted(columns: RankColumns, there: Iterable[Any]) -> tuple[str | int, ...]:
    """The columns; ``candidate`` is ``candidates`` where nobody named it and that is what there is."""
    several = columns.candidate == "candidate" and "candidate" not in there and "candidates" in there
    return tuple("candidates" if several and name == "candidate" else name for name in columns.wanted)
