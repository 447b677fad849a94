"""Sentences with a tag for each word: the records of the task ``label``, from a built-in source, from files, or from memory. No
torch.

    conll       columns by tabs or spaces, a word a line; word and tag are the first and the last unless ``columns`` says
                otherwise (:mod:`saccade.data.files.conll`)
    conllu      CoNLL-U; the tag is ``upos`` unless ``columns`` names another of its ten
    jsonl, parquet, the hub     a record a sentence: a list of words under ``tokens``, one of tags under ``tags``

``scheme`` says whether tags mark spans, and how (:mod:`saccade.data.tags.schemes`): sentences must follow it. ``learn`` is the
scheme that the network is taught; what it says is told in the file's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, check_least
from saccade.data.files.conll import NO_TAG, Sentence, scan_conll
from saccade.data.files.fields import Fields, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import unpacked
from saccade.data.files.records import NOT_TEXT, Fault, fault, kind_of, text_fault
from saccade.data.labels.records import label_of
from saccade.data.memory import check_text, columns_in, items_of, made_of, missing, short, values_under
from saccade.data.reading import FaultCounts, load_parts, valid_records, warnings_about
from saccade.data.splits import Splits
from saccade.data.tags.schemes import Scheme, fault_in, is_tag
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.data.tokenizers.vectors import Vectors, check_vectors
from saccade.data.toy.repeats import Repeats, generate
from saccade.errors import InputError

UNEVEN = "not as many tags as words"
ILLEGAL = "tags that the scheme does not allow"
UNLISTED = "a tag that data.labels does not list"
SUFFIXES = {"conllu": "conllu", "jsonl": "jsonl", "parquet": "parquet"} | dict.fromkeys(
    ("conll", "txt", "tsv", "iob", "iob2", "bio", "bioes", "col"), "conll"
)
DEFAULTS: dict[str, tuple[str | int, str | int]] = {"conll": (1, -1), "conllu": ("form", "upos")}
LISTS = ("tokens", "tags")
FEW_DOCUMENTS = 10  # fewer cannot be held out whole: then sentences are


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence, a tag for each, and the document that it stands in: one is held out whole or not at all."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    group: str | None = None


@dataclass(frozen=True)
class TagColumns:
    """Which columns or keys hold what. Numbers count from 1, in CoNLL files also from the end: -1 is the last. ``sentence`` is
    for tables in memory with a row a word: the column whose value changes with the sentence."""

    word: str | int | None = None
    tag: str | int | None = None
    sentence: str | int | None = None
    group: str | int | None = None

    def __post_init__(self) -> None:
        taken: dict[str | int, str] = {}
        for name in ("word", "tag", "sentence", "group"):
            column = getattr(self, name)
            if column in ("", 0):
                raise ValueError(
                    f"{name} must be a column's name or its number, from 1 or from the end with -1: got {column!r}"
                )
            if column in taken:
                raise ValueError(f"{name} must be another column than {taken[column]}: got {column!r}")
            if column is not None:
                taken[column] = name

    def of(self, format: str) -> tuple[str | int, str | int]:
        """The columns of words and tags in a format."""
        word, tag = DEFAULTS.get(format, LISTS)
        return (word if self.word is None else self.word), (tag if self.tag is None else self.tag)


@dataclass(frozen=True)
class TagTokens(TokenizerConfig):
    """How the words of a file become tokens: each is one (``words``), or is cut to BERT's pieces (``bert``).

    ``digits`` makes every digit 0 before a word is looked up or spelled. ``characters`` is how many characters of a word a
    network may read; of a longer one the first and the last."""

    kind: Literal["words", "bert"] = "words"
    size: int = 50_000
    digits: bool = False
    characters: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.characters < 2:
            raise ValueError(f"characters must be at least 2: got {self.characters}")
        if self.whole:
            raise ValueError("whole must be left out: words are taken as they are given")


@dataclass(frozen=True)
class TaggedData(DataConfig):
    """The ``data`` part of a recipe for sentences with a tag per word."""

    source: Literal["repeats"] | None = None
    format: Literal["conll", "conllu", "jsonl", "parquet"] | None = None
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
            raise ValueError(
                f"learn must be left out where data.scheme is none, which marks no spans: got {self.learn}"
            )
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
    made: dict[str, list[Tagged]] = {}
    if data.source is not None:
        made = {name: [Tagged(*each) for each in part] for name, part in generate(data.repeats).items()}
    return load_parts(data, folder, seed, made, gather)


def read_file(path: Path, data: TaggedData) -> list[Tagged]:
    """The records of one more file, read strictly: a figure on what happens to be left would mean nothing."""
    suffix = unpacked(path).suffix.lower().removeprefix(".")
    format = None if on_hub(path) or suffix in SUFFIXES else data.format
    columns = replace(data.columns, group=None, sentence=None)
    return gather(path, replace(data, format=format, columns=columns), strict=True)[0]


def gather(path: str | Path, data: TaggedData, *, strict: bool = False) -> tuple[list[Tagged], list[str]]:
    """The records of a file, and what the reader must know of how they were come by.

    The first fault is raised, with the word that ``data.faults: drop`` leaves its sentence out; ``strict`` reading leaves none
    out.
    """
    left_out = FaultCounts()
    records = list(valid_records(scan(path, data), data, left_out, strict=strict, called="sentences"))
    expected = "at least one sentence with its tags"
    told = warnings_about(path, records, left_out, expected=expected, called="sentence(s)")
    if data.columns.group is None and len({record.group for record in records}) < FEW_DOCUMENTS:
        records = [replace(record, group=None) for record in records]
    return records, told


def format_of(path: str | Path, format: str | None = None) -> str:
    """The format that is said, or else that the file's suffix says; of the hub ``parquet``, which has lists too."""
    if on_hub(path):
        return "parquet"
    suffix = unpacked(Path(path)).suffix.lower().removeprefix(".")
    kind = format or SUFFIXES.get(suffix)
    if kind is None:
        found = f"the suffix {suffix!r}" if suffix else "a name without a suffix"
        expected = "a file of tagged words (.conll, .conllu, .txt, .tsv, .jsonl, .parquet, also .gz or .xz)"
        raise InputError(path, expected=expected, found=found, hint="set data.format")
    return kind


def scan(path: str | Path, data: TaggedData) -> Iterator[Tagged | Fault]:
    """Every record and every fault of a file, or of a dataset of the hub."""
    format = format_of(path, data.format)
    word, tag = data.columns.of(format)
    if format in ("conll", "conllu"):
        for name in ("sentence", "group"):
            column = getattr(data.columns, name)
            if column is not None:
                expected = f"no column {name}, since a file of this format tells sentences and documents itself"
                raise InputError(path, field="columns", expected=expected, found=repr(column))
        kind: Literal["conll", "conllu"] = "conllu" if format == "conllu" else "conll"
        for found in scan_conll(Path(path), word, tag, format=kind, encoding=data.encoding):
            yield found if isinstance(found, Fault) else _of_sentence(found, data, path)
        return
    wanted = [word, tag, *(() if data.columns.group is None else (data.columns.group,))]
    for fields in scan_fields(path, wanted, format=format, encoding=data.encoding):
        yield fields if isinstance(fields, Fault) else _of_lists(fields, data, path, str(word), str(tag))


def _of_sentence(found: Sentence, data: TaggedData, where: str | Path) -> Tagged | Fault:
    tags = [named(tag, data) for tag in found.tags]
    wrong = tag_fault(tags, data)
    if wrong is not None:
        place, reason, expected = wrong
        return fault(found.lines[place], reason, where, expected=expected, found=tags[place])
    return Tagged(tuple(found.words), tuple(tags), found.document)


def _of_lists(fields: Fields, data: TaggedData, where: str | Path, word: str, tag: str) -> Tagged | Fault:
    given, group = fields.values[:2], fields.values[2] if len(fields.values) > 2 else None
    columns = []
    for name, value in zip((word, tag), given, strict=True):
        listed = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(listed, list | tuple) or not listed:
            found = "an empty list" if isinstance(listed, list | tuple) else kind_of(listed)
            return _fault(fields, NOT_TEXT, where, name, "a list", found)
        columns.append(list(listed))
    words, tags = columns
    for place, each in enumerate(words):
        broken = text_fault(each, f"{word}[{place}]", fields.line, where, place=fields.place)
        if broken is not None:
            return broken
        if not each.strip():
            return _fault(fields, NO_TAG, where, f"{word}[{place}]", "a word", repr(each))
    if len(words) != len(tags):
        return _fault(fields, UNEVEN, where, tag, f"{len(words)} tags, as many as words", str(len(tags)))
    names = [named(each, data) for each in tags]
    for place, name in enumerate(names):
        if name.split() != [name]:
            return _fault(fields, NO_TAG, where, f"{tag}[{place}]", "a tag without blanks", repr(tags[place])[:40])
    wrong = tag_fault(names, data)
    if wrong is not None:
        place, reason, expected = wrong
        return _fault(fields, reason, where, f"{tag}[{place}]", expected, names[place])
    kept = None if group is None else str(group).strip() or None
    return Tagged(tuple(map(str, words)), tuple(names), kept)


def _fault(fields: Fields, reason: str, where: str | Path, column: str, expected: str, found: str) -> Fault:
    return fault(fields.line, reason, where, field=column, expected=expected, found=found, place=fields.place)


def named(tag: Any, data: TaggedData) -> str:
    """A tag as a name; a number is the place of its name among ``data.labels``, where they are given."""
    name = label_of(tag) or ""
    if data.labels is not None and name not in data.labels and name.isdecimal() and int(name) < len(data.labels):
        return data.labels[int(name)]
    return name


def tag_fault(tags: Sequence[str], data: TaggedData) -> tuple[int, str, str] | None:
    """The first tag that cannot be, why in words that can be counted, and what was expected; None where all can."""
    if data.labels is not None:
        place = next((place for place, tag in enumerate(tags) if tag not in data.labels), None)
        if place is not None:
            return place, UNLISTED, f"one of {', '.join(data.labels[:20])}"
    wrong = fault_in(tags, data.scheme)
    return None if wrong is None else (wrong[0], ILLEGAL, wrong[1])


# ----------------------------------------------------------------------------------------------------
# Tagged sentences from what a program has in hand.
#
#     a list of (words, tags), of dicts with both lists, or of records
#     a table with a row a sentence:  tokens, tags                  two columns of lists
#     a table with a row a word:      sentence, word, tag           the sentence changes where the first column's value does
#
# A table is a dict of columns, a DataFrame, an Arrow table. In one with a row per word, an empty ``sentence`` belongs to
# the sentence above it.

WHERE = "data"
BY_WORD = ("sentence", "word", "tag")
ACCEPTED = "tagged sentences: a list of (words, tags), of dicts, a DataFrame or a dict of columns"
Values = tuple[Any, Any, Any]  # words, tags, group: still to be checked


def tagged_of(given: Any, data: TaggedData, left_out: FaultCounts | None = None) -> list[Tagged]:
    """Records from a list of (words, tags) or dicts, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the sentence's number, from 1; faults are counted in ``left_out``
    where that is given.
    """
    values = _values(given, data)
    return made_of(
        values, lambda each, number: _record(each, number, data), left_out, expected="sentences with their tags"
    )


def _record(values: Values, number: int, data: TaggedData) -> Tagged:
    words, tags, group = values
    lists = []
    for name, value in (("words", words), ("tags", tags)):
        each = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(each, list | tuple) or not each:
            found = "an empty list" if isinstance(each, list | tuple) else short(each)
            hint = "a text is no list of words: cut it first" if isinstance(each, str) else None
            raise InputError(WHERE, line=number, field=name, expected="a list", found=found, hint=hint)
        lists.append(list(each))
    if len(lists[0]) != len(lists[1]):
        expected = f"{len(lists[0])} tags, as many as words"
        raise InputError(WHERE, line=number, field="tags", expected=expected, found=str(len(lists[1])))
    for word in lists[0]:
        check_text(word, "words", number, expected="words that are texts", filled="a word")
    names = [_named(tag, number, data) for tag in lists[1]]
    wrong = tag_fault(names, data)
    if wrong is not None:
        place, _, expected = wrong
        raise InputError(WHERE, line=number, field=f"tags[{place}]", expected=expected, found=names[place])
    kept = None if missing(group) else str(group).strip()
    return Tagged(tuple(map(str, lists[0])), tuple(names), kept or None)


def _named(tag: Any, number: int, data: TaggedData) -> str:
    name = "" if missing(tag) else named(tag, data)
    if name.split() != [name]:
        raise InputError(WHERE, line=number, field="tags", expected="a tag without blanks", found=short(tag))
    return name


def _values(given: Any, data: TaggedData) -> Iterator[Values]:
    return items_of(
        given,
        ACCEPTED,
        lambda table, names: _of_table(table, names, data),
        lambda item, number: _of_record(item, number, data),
    )


def _of_record(item: Any, number: int, data: TaggedData) -> Values:
    if isinstance(item, Tagged):
        return item.source, item.target, item.group
    if isinstance(item, Mapping):
        wanted = [*data.columns.of("jsonl"), *(() if data.columns.group is None else (data.columns.group,))]
        values = values_under(item, wanted, number)
        return values[0], values[1], values[2] if len(values) > 2 else None
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1], None
    raise InputError(WHERE, line=number, expected="(words, tags) or a dict", found=short(item))


def _of_table(given: Any, names: Sequence[Any], data: TaggedData) -> Iterator[Values]:
    columns = data.columns
    by_word = columns.sentence is not None or (LISTS[0] not in names and {*BY_WORD} <= {*map(str, names)})
    if not by_word:
        wanted = [*columns.of("jsonl")]
    else:
        own = (columns.sentence, columns.word, columns.tag)
        wanted = [default if column is None else column for column, default in zip(own, BY_WORD, strict=True)]
    grouped = [] if columns.group is None else [columns.group]
    lists = columns_in(given, names, [*wanted, *grouped], [*wanted, *grouped])
    if by_word:
        return _by_word(lists)
    groups = lists[2] if grouped else [None] * len(lists[0])
    return zip(lists[0], lists[1], groups, strict=True)


def _by_word(lists: Sequence[list[Any]]) -> Iterator[Values]:
    """Rows of words, gathered to sentences."""
    sentences, words, tags, *rest = lists
    groups = rest[0] if rest else [None] * len(words)
    found: tuple[list[Any], list[Any], Any] = ([], [], None)
    before: Any = None
    for sentence, word, tag, group in zip(sentences, words, tags, groups, strict=True):
        if found[0] and not missing(sentence) and sentence != "" and sentence != before:
            yield found
            found = ([], [], None)
        before = before if missing(sentence) or sentence == "" else sentence
        found[0].append(word)
        found[1].append(tag)
        found = (found[0], found[1], group if found[2] is None else found[2])
    if found[0]:
        yield found
