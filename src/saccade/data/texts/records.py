"""Texts: the records of the tasks ``language``, ``pretrain`` and ``vectors``, generated, from files or from memory. No torch.

    plain text     one text per line (``unit: line``), per file (``file``), or up to a blank line (``blank_line``)
    other files    one text per row: a column of a table, a key of JSONL, a column of Parquet, a dataset of the hub

Blank lines and empty rows are skipped. Files may be gzipped or xz'd.

For pre-training, a sentence ends at . ! ? or … before a blank (with closing quotes and brackets), at 。！？, at ``<br />`` and
at a line's end. That is all: "Mr. Smith" is cut in two. The next-sentence task tolerates that, and no text is lost by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from saccade.data.config import DataConfig, check_least
from saccade.data.files.fields import format_of, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.limits import MAX_RECORD, Total, max_record, raised
from saccade.data.files.lines import lines_of, suffix_of, without_end
from saccade.data.files.records import LONG, Fault, Fields, fault
from saccade.data.memory import WHERE, fields_in, records_in
from saccade.data.reading import FaultCounts, Files, load_splits, read_records
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import Kind, TokenizerConfig
from saccade.data.toy.agreement import Agreement
from saccade.data.toy.topics import Topics
from saccade.errors import InputError

Format = Literal["txt", "csv", "tsv", "jsonl", "parquet"]
FORMATS: tuple[str, ...] = get_args(Format)
ENDS = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s|$)|[。！？]+["'”’」』）]*|(?:<br\s*/?>\s*)+|\n+""")
BLANK_LINES = re.compile(r"\n\s*\n")
MARKS = 3  # [CLS] A [SEP] B [SEP]


@dataclass(frozen=True, slots=True)
class Text:
    """A text to learn from."""

    source: str


@dataclass(frozen=True)
class TextFiles(DataConfig):
    """Which texts are read: files or folders, or lists of them."""

    rereads: ClassVar[tuple[str, ...]] = (*DataConfig.rereads, "column", "unit")
    most_files: ClassVar[float] = math.inf

    train: str | tuple[str, ...] | None = None  # type: ignore[assignment]
    valid: str | tuple[str, ...] | None = None  # type: ignore[assignment]
    test: str | tuple[str, ...] | None = None  # type: ignore[assignment]
    format: Format | None = None
    column: str | int = "text"  # of a table (its name, or its number from 1), a key of JSONL, a column of Parquet
    unit: Literal["line", "file", "blank_line"] = "line"  # what a record is in plain text

    def __post_init__(self) -> None:
        super().__post_init__()
        if (isinstance(self.column, int) and self.column < 1) or self.column == "":
            raise ValueError(f"column must be a column's name or its number from 1: got {self.column!r}")


@dataclass(frozen=True)
class TextData(TextFiles):
    """The ``data`` part of a recipe for language models."""

    source: Literal["agreement"] | None = None
    agreement: Agreement = field(default_factory=Agreement)
    tokens: TokenizerConfig = field(default_factory=TokenizerConfig)
    layout: Literal["records", "stream"] = "records"  # stream: all records of a split as one text
    chunk: int = 128  # tokens that are predicted in one row; longer texts are cut into several
    context: int = 0  # tokens before its own that a chunk also reads
    streams: int | None = None  # rows that continue from chunk to chunk, with their state carried over
    longest: int = 100  # tokens of a continuation

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, chunk=1, context=0, streams=1, longest=1)
        if self.streams is not None and self.layout != "stream":
            raise ValueError(f"streams must be left out unless layout is stream: got {self.streams}")
        if self.streams is not None and self.context:
            raise ValueError(f"context must be 0 with streams, whose state is carried: got {self.context}")


@dataclass(frozen=True)
class PieceTokens(TokenizerConfig):
    """How text is cut: BERT's way, in lower case, unless said otherwise."""

    kind: Kind = "bert"
    lower: bool = True
    size: int = 16_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "bert":
            raise ValueError(f"kind must be bert, which has the token [MASK]: got {self.kind}")


@dataclass(frozen=True)
class PretrainData(TextFiles):
    """The ``data`` part of a recipe for pre-training."""

    source: Literal["topics"] | None = None
    topics: Topics = field(default_factory=Topics)
    tokens: PieceTokens = field(default_factory=PieceTokens)
    length: int = 128  # positions of a row, special tokens included
    short: float = 0.1  # share of rows that are made shorter, at random
    pairs: Literal["next", "none"] = (
        "next"  # rows of two texts, the second of which may follow the first; or of one text
    )
    masked: float = 0.15  # share of positions whose word is to be predicted

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, length=MARKS + 2)
        for name, least, most in (("masked", 0.01, 0.9), ("short", 0.0, 1.0)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be between {least:g} and {most:g}: got {getattr(self, name)}")

    @property
    def room(self) -> int:
        """Tokens of a row without its special tokens."""
        return self.length - (MARKS if self.pairs == "next" else MARKS - 1)


@dataclass(frozen=True)
class CommonWords(TokenizerConfig):
    """How text is cut: into words in lower case, those seen five times or more, unless said otherwise."""

    kind: Kind = "words"
    lower: bool = True
    size: int = 100_000
    min_count: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "words":
            raise ValueError(f"kind must be words, since vectors are learnt for words: got {self.kind}")


@dataclass(frozen=True)
class WordData(TextFiles):
    """The ``data`` part of a recipe for word vectors."""

    source: Literal["topics"] | None = None
    topics: Topics = field(default_factory=Topics)
    tokens: CommonWords = field(default_factory=CommonWords)
    window: int = 5  # largest number of words before and after a word; how many is drawn for each
    negatives: int = 5  # words drawn as negative examples for each observed word
    subsample: float = 1e-4  # words with a larger share of the text than this are skipped in part; 0: none
    chunk: int = 200  # words of a text that are read together; windows end at their edges

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, window=1, negatives=1, chunk=4, subsample=0)
        if self.subsample >= 1:
            raise ValueError(f"subsample must be a share of the text, below 1: got {self.subsample}")


# Records from files --------------------------------------------------------------------------------------------------


def load_texts(data: TextFiles, folder: Path, seed: int) -> Splits:
    """The texts that ``data`` names; relative paths start at ``folder``. Generated splits are drawn independently: without the
    texts that they have in common, their entropy would differ from the grammar's."""
    return load_splits(data, folder, seed, Text, lambda files, split: gather(files, data), independent=True)


def read_texts(path: Files, data: TextFiles, dropped: FaultCounts | None = None) -> list[Text]:
    """The texts of a file, a folder, a dataset or several, read strictly unless ``dropped`` counts malformed ones."""
    return gather(path, data, dropped, strict=dropped is None)[0]


def gather(
    files: Files, data: TextFiles, dropped: FaultCounts | None = None, *, strict: bool = False
) -> tuple[list[Text], list[str]]:
    """The texts of a file, a folder, a dataset or several of these, and warnings about them."""
    texts: list[Text] = []
    notes: list[str] = []
    for path in files if isinstance(files, tuple) else (files,):
        part, about = read_records(
            path, scan(path, data), data, dropped, strict=strict, called="texts", expected="at least one text"
        )
        texts += part
        notes += about
    return texts, notes


def scan(path: str | Path, data: TextFiles) -> Iterator[Text | Fault]:
    """Every text and every fault of a file, of the files of a folder, or of a dataset of the hub."""
    if not on_hub(path) and Path(path).is_dir():
        files = [file for file in sorted(Path(path).rglob("*")) if file.is_file() and suffix_of(file) in FORMATS]
        if not files:
            raise InputError(path, expected=f"a folder with files ({', '.join(FORMATS)})", found="none of them")
        total = Total(path)
        for file in files:
            for text in scan(file, data):
                total.add(0 if isinstance(text, Fault) else len(text.source))
                yield text
        return
    records = records_of(_fields(path, data), str(data.column), path)
    for record in records:
        if isinstance(record, Fault) or data.unit != "blank_line":
            yield record
        else:
            yield from (Text(part) for part in BLANK_LINES.split(record.source) if part.strip())


def _fields(path: str | Path, data: TextFiles) -> Iterable[Fields | Fault]:
    expected = f"a file of texts ({', '.join(FORMATS)}, also .gz or .xz) or a folder of them"
    suffixes = {name: name for name in FORMATS}
    kind = "" if on_hub(path) else format_of(
        path, data.format, suffixes=suffixes, expected=expected, hint="data.format says how to read it"
    )  # fmt: skip
    if kind == "txt":
        return _plain(Path(path), data)
    column = str(data.column) if kind == "jsonl" else data.column
    return scan_fields(
        path, (column,), format=kind or None, encoding=data.encoding, texts=(column,), headless=column == "text"
    )


def _plain(path: Path, data: TextFiles) -> Iterator[Fields | Fault]:
    lines = lines_of(path, data.encoding)
    if data.unit == "line":
        for line in lines:
            yield line.fault or Fields(line.number, (without_end(line.text),))
        return
    texts: list[str] = []
    size, most = 0, max_record()
    for line in lines:
        size += len(line.text)
        if line.fault is not None or (data.unit == "file" and size > most):
            hint = raised(MAX_RECORD, most)
            long = fault(1, LONG, path, expected=f"a text of at most {most:,} bytes", found="a longer one", hint=hint)
            yield line.fault or long
            return
        texts.append(without_end(line.text))
    yield Fields(1, ("\n".join(texts),))


def records_of(items: Iterable[Fields | Fault], column: str, where: str | Path) -> Iterator[Text | Fault]:
    """The text of each record's field, or what is wrong with it; empty texts are skipped."""
    for item in items:
        if isinstance(item, Fault):
            yield item
            continue
        (text,) = item.values
        broken = item.text_fault(text, column, where)
        if broken is not None:
            yield broken
        elif text.strip():
            yield Text(text)


# Records from memory -------------------------------------------------------------------------------------------------


def texts_of(given: Any, data: TextFiles, dropped: FaultCounts | None = None) -> list[Text]:
    """Texts from a list of texts or of dicts, from a dict of columns, or from a table with the column ``data.column``."""

    def values_of(item: Any) -> tuple[Any, ...] | None:
        return (item.source if isinstance(item, Text) else item,)

    accepted = "a list of texts, of dicts, a DataFrame or a dict of columns"
    fields = fields_in(given, lambda names: (data.column,), values_of, accepted=accepted, shape="a text")
    expected = "at least one text"
    return records_in(records_of(fields, str(data.column), WHERE), dropped, expected=expected)


# Sentences -----------------------------------------------------------------------------------------------------------


def sentences_of(document: str) -> Iterator[str]:
    """The sentences of a document, as the module says.

    >>> list(sentences_of('"No!" he said. It was 3.5 m.<br /><br />The end'))
    ['"No!"', 'he said.', 'It was 3.5 m.<br /><br />', 'The end']
    """
    start = 0
    for end in ENDS.finditer(document):
        sentence = document[start : end.end()].strip()
        if sentence:
            yield sentence
        start = end.end()
    rest = document[start:].strip()
    if rest:
        yield rest
