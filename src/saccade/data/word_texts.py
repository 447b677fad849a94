"""Raw text to learn word vectors from: the ``data`` part of a recipe for the task ``vectors``. No torch.

Texts are read and held out as for pre-training (:mod:`saccade.data.raw`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from saccade.data.raw import RawTexts
from saccade.data.text import Kind, Tokens


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
class WordData(RawTexts):
    """The ``data`` part of a recipe for word vectors."""

    tokens: CommonWords = field(default_factory=CommonWords)
    window: int = 5  # words before and after a word, at most; how many is drawn for each
    negatives: int = 5  # words drawn against each word that is there
    subsample: float = 1e-4  # a word of a larger share of the text than this is passed over in part; 0: none is
    chunk: int = 200  # words of a text that are read together; no window reaches beyond them

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("window", 1), ("negatives", 1), ("chunk", 4), ("subsample", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}: got {getattr(self, name)}")
        if self.subsample >= 1:
            raise ValueError(f"subsample must be a share of the text, below 1: got {self.subsample}")
