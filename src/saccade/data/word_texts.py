"""Raw text to learn word vectors from: the ``data`` part of a recipe for the task ``vectors``. No torch.

Texts are read and held out as for pre-training (:mod:`saccade.data.raw`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from saccade.data.raw import PretrainData
from saccade.data.text import Kind, Tokens
from saccade.data.texts import Format
from saccade.data.topics import Topics
from saccade.splits import Overlap


@dataclass(frozen=True)
class CommonWords(Tokens):
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
class WordData:
    """The ``data`` part of a recipe for word vectors.

    Either ``source`` names texts that the package makes itself, or train, valid and test are files or folders, or lists of
    them ($VARIABLES are filled in, relative paths start at the recipe's folder).
    """

    source: Literal["topics"] | None = None
    train: str | tuple[str, ...] | None = None
    valid: str | tuple[str, ...] | None = None
    test: str | tuple[str, ...] | None = None
    topics: Topics = field(default_factory=Topics)
    format: Format | None = None  # where the file's ending does not say it
    column: str | int = "text"  # of a table (its name, or its number from 1), a key of JSONL, a column of Parquet
    unit: Literal["line", "file", "blank_line"] = "line"  # what a text is in plain text
    tokens: CommonWords = field(default_factory=CommonWords)
    window: int = 5  # words before and after a word, at most; how many is drawn for each
    negatives: int = 5  # words drawn against each word that is there
    subsample: float = 1e-4  # a word of a larger share of the text than this is passed over in part; 0: none is
    chunk: int = 200  # words of a text that are read together; no window reaches beyond them
    hold_out: float = 0.05  # the share of train for each of valid and test that is not given
    overlap: Overlap = "keep"  # what becomes of held-out texts that also occur in train

    def __post_init__(self) -> None:
        if (self.source is None) == (self.train is None):
            raise ValueError("source or train must be given, and not both: 'source: topics' or 'train: FILE'")
        for name, least in (("window", 1), ("negatives", 1), ("chunk", 4), ("subsample", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}: got {getattr(self, name)}")
        if self.subsample >= 1:
            raise ValueError(f"subsample must be a share of the text, below 1: got {self.subsample}")
        if not 0 < self.hold_out < 0.5:
            raise ValueError(f"hold_out must be above 0 and below 0.5: got {self.hold_out}")
        if (isinstance(self.column, int) and self.column < 1) or self.column == "":
            raise ValueError(f"column must be a column's name or its number from 1: got {self.column!r}")

    @property
    def reading(self) -> PretrainData:
        """How texts are read and held out."""
        return PretrainData(
            source=self.source, train=self.train, valid=self.valid, test=self.test, topics=self.topics,
            format=self.format, column=self.column, unit=self.unit, hold_out=self.hold_out, overlap=self.overlap,
        )  # fmt: skip
