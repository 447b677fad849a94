"""Raw text to pre-train on: documents from files, folders or memory, and their sentences. No torch.

    plain text     a document a line (``unit: line``), a file (``file``), or up to a blank line (``blank_line``)
    other files    a document a row: a column of a table, a key of JSONL, a column of Parquet, a dataset of the hub

A sentence ends at . ! ? or … before a blank (closing quotes and brackets go with it), at 。！？, at ``<br />`` and at a line's
end. That is all: "Mr. Smith" is cut in two. The next-sentence task lives with that, and nothing is lost by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, check_least
from saccade.data.files.hub import on_hub
from saccade.data.paths import locate
from saccade.data.splits import Splits, hold_out, settle_overlap
from saccade.data.texts.records import Format, Text, TextData, read_texts, texts_of
from saccade.data.tokenizers.tokenizer import Kind, TokenizerConfig
from saccade.data.toy.topics import Topics, generate
from saccade.errors import InputError

SPLITS = ("train", "valid", "test")
ENDS = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s|$)|[。！？]+["'”’」』）]*|(?:<br\s*/?>\s*)+|\n+""")
BLANK_LINES = re.compile(r"\n\s*\n")
MARKS = 3  # [CLS] A [SEP] B [SEP]


@dataclass(frozen=True)
class PieceTokens(TokenizerConfig):
    """How text is cut: BERT's way, in lower case, unless said otherwise."""

    kind: Kind = "bert"
    lower: bool = True
    size: int = 16_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "bert":
            raise ValueError(f"kind must be bert, which has the mark for a masked word: got {self.kind}")


@dataclass(frozen=True)
class RawTexts(DataConfig):
    """The fields of a recipe's ``data`` that say which texts are read: files or folders, or lists of them."""

    source: Literal["topics"] | None = None
    train: str | tuple[str, ...] | None = None  # type: ignore[assignment]
    valid: str | tuple[str, ...] | None = None  # type: ignore[assignment]
    test: str | tuple[str, ...] | None = None  # type: ignore[assignment]
    format: Format | None = None
    topics: Topics = field(default_factory=Topics)
    column: str | int = "text"  # of a table (its name, or its number from 1), a key of JSONL, a column of Parquet
    unit: Literal["line", "file", "blank_line"] = "line"  # what a document is in plain text

    def __post_init__(self) -> None:
        super().__post_init__()
        if (isinstance(self.column, int) and self.column < 1) or self.column == "":
            raise ValueError(f"column must be a column's name or its number from 1: got {self.column!r}")

    @property
    def reading(self) -> TextData:
        """How files are read."""
        return TextData(
            train="-", format=self.format, column=self.column, unit="line" if self.unit == "line" else "file"
        )


@dataclass(frozen=True)
class PretrainData(RawTexts):
    """The ``data`` part of a recipe for pre-training."""

    tokens: PieceTokens = field(default_factory=PieceTokens)
    length: int = 128  # positions of a row, its marks counted
    short: float = 0.1  # the share of rows that are made shorter, by chance
    pairs: Literal["next", "none"] = "next"  # rows of two texts, the second of which may follow; or of one text
    masked: float = 0.15  # the share of positions whose word is to be found

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, length=MARKS + 2)
        for name, least, most in (("masked", 0.01, 0.9), ("short", 0.0, 1.0)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be between {least:g} and {most:g}: got {getattr(self, name)}")

    @property
    def room(self) -> int:
        """Tokens of a row without its marks."""
        return self.length - (MARKS if self.pairs == "next" else MARKS - 1)


def load_documents(data: RawTexts, folder: Path, seed: int) -> Splits:
    """The documents that ``data`` names; relative paths start at ``folder``."""
    if data.source is not None:
        made = generate(data.topics)
        train, valid, test = ([Text(text) for text in made[name]] for name in SPLITS)
        return Splits(train, valid, test)
    documents: dict[str, list[Text]] = {}
    for name in SPLITS:
        named = getattr(data, name)
        if named is not None:
            files = (named,) if isinstance(named, str) else named
            places = [file if on_hub(file) else locate(file, folder) for file in files]
            documents[name] = [document for place in places for document in read_documents(place, data)]
    return settle_overlap(hold_out(documents, data.hold_out, seed), data.overlap)


def read_documents(path: str | Path, data: RawTexts) -> list[Text]:
    """The documents of a file, a folder or a dataset; the first fault is raised."""
    texts = read_texts(path, data.reading)
    if data.unit != "blank_line":
        return texts
    return [Text(part) for text in texts for part in BLANK_LINES.split(text.source) if part.strip()]


def documents_of(given: Any, data: RawTexts) -> list[Text]:
    """Documents from a list of texts, a list of dicts or a DataFrame with the column ``data.column``."""
    if isinstance(given, Mapping):
        raise InputError("data", expected="a list of texts", found="a dictionary")
    return texts_of(given, data.reading)


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


# ----------------------------------------------------------------------------------------------------
# Raw text to learn word vectors from: the ``data`` part of a recipe for the task ``vectors``. No torch.
#
# Texts are read and held out as for pre-training (:mod:`saccade.data.texts.documents`).


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
            raise ValueError(f"kind must be words, since words are what vectors are learnt of: got {self.kind}")


@dataclass(frozen=True)
class WordData(RawTexts):
    """The ``data`` part of a recipe for word vectors."""

    tokens: CommonWords = field(default_factory=CommonWords)
    window: int = 5  # words before and after a word, at most; how many is drawn for each
    negatives: int = 5  # words drawn against each word that is there
    subsample: float = 1e-4  # a word of a larger share of the text than this is passed over in part; 0: none is
    chunk: int = 200  # words of a text that are read together; no window reaches beyond them

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, window=1, negatives=1, chunk=4, subsample=0)
        if self.subsample >= 1:
            raise ValueError(f"subsample must be a share of the text, below 1: got {self.subsample}")
