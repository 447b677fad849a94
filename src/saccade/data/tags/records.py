"""Sentences with a tag per word: the records of the task ``label``, from a generated data set, from files, or from memory. No
torch.

    conll       columns by tabs or spaces, one word per line; word and tag are the first and the last unless ``columns`` says
                otherwise (:mod:`saccade.data.files.conll`)
    conllu      CoNLL-U; the tag is ``upos`` unless ``columns`` names another of its ten
    csv         a table with one row per word: ``sentence``, whose value changes with the sentence, ``word`` and ``tag``
    jsonl, parquet, the hub     one record per sentence: a list of words under ``tokens``, one of tags under ``tags``

``scheme`` says whether tags mark spans, and how (:mod:`saccade.data.tags.schemes`): sentences must follow it. ``learn`` is the
scheme that the network is taught; its output is converted to the file's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from saccade.data.columns import ColumnNames
from saccade.data.config import DataConfig, check_least
from saccade.data.files import fields as columnar
from saccade.data.files.conll import NO_TAG, Sentence, scan_conll
from saccade.data.files.fields import scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.limits import MAX_RECORD, max_record, raised
from saccade.data.files.lines import LINE_LIMIT
from saccade.data.files.records import LONG, NOT_TEXT, Fault, Fields, Name, fault, kind_of, label_of
from saccade.data.memory import WHERE, columns_in, fields_in, group_of, missing, records_in, rows_of_table
from saccade.data.reading import FaultCounts, load_splits, own_format, read_records
from saccade.data.splits import Splits
from saccade.data.tags.schemes import Scheme, fault_in, is_tag
from saccade.data.tokenizers.vectors import Vectors, check_vectors
from saccade.data.tokenizers.words import TagTokens
from saccade.data.toy.repeats import Repeats
from saccade.errors import InputError

UNEVEN = "not as many tags as words"
ILLEGAL = "tags that the scheme does not allow"
UNLISTED = "a tag that data.labels does not list"
SUFFIXES = {"conllu": "conllu", "csv": "csv", "jsonl": "jsonl", "parquet": "parquet"} | dict.fromkeys(
    ("conll", "txt", "tsv", "iob", "iob2", "bio", "bioes", "col"), "conll"
)
DEFAULTS: dict[str, tuple[str | int, str | int]] = {
    "conll": (1, -1),
    "conllu": ("form", "upos"),
    "csv": ("word", "tag"),
}
LISTS = ("tokens", "tags")
FEW_DOCUMENTS = 10  # fewer cannot be held out whole: then sentences are


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence, a tag for each, and its document, which is held out whole or not at all."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    group: str | None = None


@dataclass(frozen=True)
class TagColumns(ColumnNames):
    """Which columns or keys hold what. Numbers count from 1, in CoNLL files also from the end: -1 is the last. ``sentence`` is
    for tables with one row per word: the column whose value changes with the sentence."""

    own: ClassVar[tuple[str, ...]] = ("word", "tag", "sentence")
    from_end: ClassVar[bool] = True

    word: str | int | None = None
    tag: str | int | None = None
    sentence: str | int | None = None
    group: str | int | None = None

    def of(self, format: str) -> tuple[str | int, str | int]:
        """The columns of words and tags in a format."""
        word, tag = DEFAULTS.get(format, LISTS)
        return (word if self.word is None else self.word), (tag if self.tag is None else self.tag)

    @property
    def grouped(self) -> tuple[Name, ...]:
        """The column of the group, where one is named."""
        return () if self.group is None else (self.group,)


@dataclass(frozen=True)
class TaggedData(DataConfig):
    """The ``data`` part of a recipe for sentences with a tag per word."""

    rereads: ClassVar[tuple[str, ...]] = (*DataConfig.rereads, "columns", "max_length", "too_long")

    source: Literal["repeats"] | None = None
    format: Literal["conll", "conllu", "csv", "jsonl", "parquet"] | None = None
    columns: TagColumns = field(default_factory=TagColumns)
    scheme: Scheme = "none"  # how the file's tags mark spans; none: a tag is a name
    learn: Literal["iob1", "bio", "bioes"] | None = None  # the scheme that is taught; the file's own unless given
    labels: tuple[str, ...] | None = None  # all tags there are; in files that number them, in the order of the numbers
    repeats: Repeats = field(default_factory=Repeats)
    tokens: TagTokens = field(default_factory=TagTokens)
    vectors: str | Vectors | None = None  # a file or a run that word embeddings begin with
    max_length: int = 200  # tokens of a sentence
    too_long: Literal["error", "split"] = "error"  # split: read in parts, each by itself

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=2)
        if self.learn is not None and self.scheme == "none":
            raise ValueError(f"learn must be left out where data.scheme is none, without spans: got {self.learn}")
        if self.labels is not None and (len(self.labels) < 2 or len(set(self.labels)) < len(self.labels)):
            raise ValueError(f"labels must be two or more different names: got {list(self.labels)}")
        for label in self.labels or ():
            if label.split() != [label]:
                raise ValueError(f"labels must be names without blanks: got {label!r}")
            if not is_tag(label, self.scheme):
                raise ValueError(f"labels must be tags of the scheme {self.scheme}: got {label!r}")
        check_vectors(self.vectors, self.tokens)


# Records from files --------------------------------------------------------------------------------------------------


def load_tagged(data: TaggedData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    return load_splits(data, folder, seed, lambda values: Tagged(*values), lambda path, split: gather(path, data))


def read_file(path: Path, data: TaggedData, dropped: FaultCounts | None = None) -> list[Tagged]:
    """The records of one more file, read strictly unless ``dropped`` counts malformed ones."""
    format = own_format(path, data, SUFFIXES)
    sentence = data.columns.sentence if format_of(path, format) == "csv" else None
    columns = replace(data.columns, group=None, sentence=sentence)
    return gather(path, replace(data, format=format, columns=columns), dropped, strict=dropped is None)[0]


def gather(
    path: str | Path, data: TaggedData, dropped: FaultCounts | None = None, *, strict: bool = False
) -> tuple[list[Tagged], list[str]]:
    """The records of a file, and warnings about them."""
    expected = "at least one sentence with its tags"
    items = scan(path, data)
    records, notes = read_records(path, items, data, dropped, strict=strict, called="sentences", expected=expected)
    if data.columns.group is None and len({record.group for record in records}) < FEW_DOCUMENTS:
        records = [replace(record, group=None) for record in records]
    return records, notes


def format_of(path: str | Path, format: str | None = None) -> str:
    """The given format, or else the one of the file's suffix; of the hub ``parquet``, which has lists too."""
    if on_hub(path):
        return "parquet"
    expected = "a file of tagged words (.conll, .conllu, .txt, .tsv, .csv, .jsonl, .parquet, also .gz or .xz)"
    return columnar.format_of(path, format, suffixes=SUFFIXES, expected=expected, hint="set data.format")


def scan(path: str | Path, data: TaggedData) -> Iterator[Tagged | Fault]:
    """Every record and every fault of a file, or of a dataset of the hub."""
    format = format_of(path, data.format)
    word, tag = data.columns.of(format)
    if format in ("conll", "conllu"):
        for name in ("sentence", "group"):
            column = getattr(data.columns, name)
            if column is not None:
                expected = f"no column {name}, since a file of this format marks sentences and documents itself"
                raise InputError(path, field="columns", expected=expected, found=repr(column))
        kind: Literal["conll", "conllu"] = "conllu" if format == "conllu" else "conll"
        for sentence in scan_conll(Path(path), word, tag, format=kind, encoding=data.encoding):
            yield sentence if isinstance(sentence, Fault) else _of_sentence(sentence, data, path)
        return
    wanted = [word, tag, *data.columns.grouped]
    if format == "csv":
        column = "sentence" if data.columns.sentence is None else data.columns.sentence
        items = sentences_of(scan_fields(path, [column, *wanted], format=format, encoding=data.encoding), path, column)
    else:
        items = scan_fields(path, wanted, format=format, encoding=data.encoding)
    for fields in items:
        yield fields if isinstance(fields, Fault) else record_of(fields, data, path, (word, tag))


def _of_sentence(sentence: Sentence, data: TaggedData, where: str | Path) -> Tagged | Fault:
    tags = [named(tag, data) for tag in sentence.tags]
    wrong = tag_fault(tags, data)
    if wrong is not None:
        place, reason, expected = wrong
        return fault(sentence.lines[place], reason, where, expected=expected, found=tags[place])
    return Tagged(tuple(sentence.words), tuple(tags), sentence.document)


def record_of(fields: Fields, data: TaggedData, where: str | Path, columns: Sequence[Name] = LISTS) -> Tagged | Fault:
    """The record of a list of words, a list of tags and perhaps a group, or what is wrong with them; ``columns`` are what the
    two lists are called."""
    lists = []
    for column, value in zip(columns, fields.values, strict=False):
        items = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(items, list | tuple) or not items:
            found = "an empty list" if isinstance(items, list | tuple) else kind_of(items)
            hint = "split a text into its words first" if isinstance(items, str) else None
            return fields.fault(NOT_TEXT, where, column, "a list", found, hint=hint)
        lists.append(list(items))
    (words, tags), (word_column, tag_column) = lists, columns
    for place, word in enumerate(words):
        broken = fields.text_fault(word, f"{word_column}[{place}]", where)
        if broken is not None:
            return broken
        if not word.strip():
            return fields.fault(NO_TAG, where, f"{word_column}[{place}]", "a word", repr(word))
    if len(words) != len(tags):
        return fields.fault(UNEVEN, where, tag_column, f"{len(words)} tags, as many as words", str(len(tags)))
    names = [named(tag, data) for tag in tags]
    for place, name in enumerate(names):
        if name.split() != [name]:
            found = repr(tags[place])[:40]
            return fields.fault(NO_TAG, where, f"{tag_column}[{place}]", "a tag without blanks", found)
    wrong = tag_fault(names, data)
    if wrong is not None:
        place, reason, expected = wrong
        return fields.fault(reason, where, f"{tag_column}[{place}]", expected, names[place])
    return Tagged(tuple(map(str, words)), tuple(names), group_of(fields.values[2]) if len(fields.values) > 2 else None)


def named(tag: Any, data: TaggedData) -> str:
    """A tag as a name; a number is the place of its name among ``data.labels``, where they are given."""
    name = label_of(tag) or ""
    if data.labels is not None and name not in data.labels and name.isdecimal() and int(name) < len(data.labels):
        return data.labels[int(name)]
    return name


def tag_fault(tags: Sequence[str], data: TaggedData) -> tuple[int, str, str] | None:
    """The first tag that is not allowed: its place, the reason, and what was expected; None where all are allowed."""
    if data.labels is not None:
        place = next((place for place, tag in enumerate(tags) if tag not in data.labels), None)
        if place is not None:
            return place, UNLISTED, f"one of {', '.join(data.labels[:20])}"
    wrong = fault_in(tags, data.scheme)
    return None if wrong is None else (wrong[0], ILLEGAL, wrong[1])


# Records from memory -------------------------------------------------------------------------------------------------
#
#     a list of (words, tags), of dicts with both lists, or of records
#     a table with one row per sentence:  tokens, tags              two columns of lists
#     a table with one row per word:      sentence, word, tag       a new sentence begins where the first column's value changes
#
# In a table with one row per word, an empty ``sentence`` belongs to the sentence above it. A sentence that comes again after
# another one is an error: in a shuffled table the order of the words is lost.

BY_WORD = ("sentence", "word", "tag")


def tagged_of(given: Any, data: TaggedData, dropped: FaultCounts | None = None) -> list[Tagged]:
    """Records from a list of (words, tags) or dicts, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the sentence's number, from 1; faults are counted in ``dropped``
    where that is given.
    """
    columns = data.columns
    lists = columns.of("jsonl")

    def values_of(item: Any) -> tuple[Any, ...] | None:
        if isinstance(item, Tagged):
            return item.source, item.target, item.group
        return tuple(item) if isinstance(item, tuple | list) and len(item) == 2 else None

    def table(given: Any, names: list[Any]) -> Iterator[Fields]:
        words = word_columns(columns, names)
        tag = BY_WORD[-1] if columns.tag is None else columns.tag
        if len(words) == 1 or (columns.sentence is None and tag not in names):
            return rows_of_table(given, names, [*lists, *columns.grouped])
        return by_word(columns_in(given, names, [*words, tag, *columns.grouped]), words[0])

    accepted = "tagged sentences: a list of (words, tags), of dicts, a DataFrame or a dict of columns"
    fields = fields_in(
        given,
        lambda names: [*lists, *columns.grouped],
        values_of,
        accepted=accepted,
        shape="(words, tags) or a dict",
        table=table,
    )
    items = (item if isinstance(item, Fault) else record_of(item, data, WHERE, lists) for item in fields)
    return records_in(items, dropped, expected="sentences with their tags")


def word_columns(columns: TagColumns, names: Iterable[Any]) -> tuple[Name, ...]:
    """The columns of a table that hold the words: of lists of words, or, with one row per word, of sentences and of words."""
    sentence, word = BY_WORD[:2]
    if columns.sentence is None and (LISTS[0] in names or not {sentence, word} <= {*map(str, names)}):
        return (columns.of("jsonl")[0],)
    return (columns.sentence or sentence, word if columns.word is None else columns.word)


def by_word(lists: Sequence[list[Any]], column: Name = BY_WORD[0]) -> Iterator[Fields]:
    """The sentences of a table with one row per word, numbered, from its columns: ``column``, word, perhaps tag and group."""
    numbers, words, *rest = lists
    nothing: list[Any] = [None] * len(words)
    tags, groups = (*rest, nothing, nothing)[:2]
    rows = zip(numbers, words, tags, groups, strict=True)
    fields = (Fields(number, row, f"row {number}") for number, row in enumerate(rows, start=1))
    for number, sentence in enumerate(sentences_of(fields, WHERE, column), start=1):
        if isinstance(sentence, Fields):
            yield Fields(number, sentence.values)


def sentences_of(rows: Iterable[Fields | Fault], where: str | Path, column: Name) -> Iterator[Fields | Fault]:
    """The sentences of a table with one row per word: (sentence, word, tag, and perhaps a group). A row with a fault makes its
    sentence one."""
    seen: set[tuple[Any, Any]] = set()  # sentences, each with its group, within which numbers may begin again
    first, broken = None, None  # the first row of the sentence, and its first fault
    words: list[Any] = []
    tags: list[Any] = []
    name, group, size, longest = None, None, 0, max_record(LINE_LIMIT)
    for row in rows:
        if isinstance(row, Fault):
            if row.skipped:
                yield row
            else:
                broken = broken or row
            continue
        row_name, word, tag, *rest = row.values
        row_group = rest[0] if rest and not missing(rest[0]) else None
        given = not missing(row_name) and row_name != ""
        if first is None or (given and (row_name != name or (row_group is not None and row_group != group))):
            if first is not None:
                yield broken or replace(first, values=(words, tags, group))
            first, broken = row, broken if first is None else None
            words, tags, name, group, size = [], [], row_name, row_group, 0
            if given and (name, group) in seen:
                expected = "the rows of a sentence one after another, in the order of its words"
                found, hint = f"{name!r} again after another sentence", "sort the rows; is there a column of groups?"
                raise row.fault(UNEVEN, where, column, expected, found, hint=hint).error
            seen.add((name, group))
        size += len(str(word)) + len(str(tag)) + 2
        if size > longest and broken is None:
            expected, hint = f"another sentence after at most {longest:,} bytes of words", raised(MAX_RECORD, longest)
            broken = first.fault(LONG, where, column, expected, "a longer one", hint=hint)
        if broken is None:
            words.append(word)
            tags.append(None if missing(tag) else tag)
        group = row_group if group is None else group
    if first is not None:
        yield broken or replace(first, values=(words, tags, group))
    elif broken is not None:
        yield broken
