"""Reads the inputs of the task ``classify``: texts become ids, batches, and the axes of a trace.

A text, or a pair of texts, is one row (:class:`Rows`). With ``data.sentences`` a text is read sentence by sentence
(:class:`Sentenced`), for networks of the layout ``sentences``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from saccade.data.config import CUT
from saccade.data.files.semeval import MARKED, unmarked
from saccade.data.labels.batch import Batch, Ids, Layout, collate, fit, marks_of
from saccade.data.labels.nested_batch import NestedBatch, collate_nested, fit_nested, nested
from saccade.data.labels.records import LabelledData, Text
from saccade.data.tokenizers.sentences import sentences
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.errors import InputError
from saccade.nn.classifier import Classifier
from saccade.tasks.axes import nested_axes, row_axis
from saccade.trace.axes import Axis


@dataclass(frozen=True)
class ClassifyInput:
    """An input: its text or texts, their ids, and its notes."""

    text: Text
    ids: Any
    notes: tuple[str, ...] = ()


class ClassifyReader(ABC):
    """Turns texts into ids and batches, by the settings of a recipe's ``data``."""

    layouts: tuple[Layout, ...]

    def __init__(self, data: LabelledData, tokenizer: Tokenizer, *, pairs: bool) -> None:
        self.data, self.tokenizer, self.pairs = data, tokenizer, pairs

    @abstractmethod
    def encoded(self, sources: Sequence[Text]) -> list[Any]:
        """The ids of many inputs, not yet cut."""

    @abstractmethod
    def fit(self, ids: Any, where: str) -> tuple[Any, bool]:
        """The ids within the recipe's limits, and whether any were cut."""

    @abstractmethod
    def tokens(self, ids: Any) -> list[int]:
        """All tokens of an input, one after the other."""

    @abstractmethod
    def size(self, ids: Any) -> int:
        """How many positions an input takes, special tokens included."""

    @abstractmethod
    def batch(self, ids: Sequence[Any], labels: Sequence[int], numbers: Sequence[int]) -> Batch | NestedBatch:
        """Inputs as tensors."""

    @abstractmethod
    def axes(self, item: ClassifyInput, layout: Layout) -> dict[str, Axis]:
        """The axes of a trace for a network of this layout, labelled with the words."""

    @property
    def limits(self) -> str:
        """The limit to which texts are cut."""
        return f"{self.data.keep} {self.data.max_length} tokens"

    def check(self, network: Classifier, name: str) -> None:
        """Raise if the network does not read this layout."""
        if network.layout in self.layouts:
            return
        if network.layout == "sentences":
            expected = f"{{most: 50, words: 50}} or the like: {name} reads a text sentence by sentence"
            raise InputError("recipe", field="data.sentences", expected=expected, found="nothing")
        expected = f"nothing: {name} reads a text as one row"
        raise InputError("recipe", field="data.sentences", expected=expected, found=str(self.data.sentences))

    def check_kind(self, source: Text, where: str) -> None:
        """Raise on one text where pairs are expected, or the other way round."""
        if isinstance(source, tuple) != self.pairs:
            kinds = ("two texts", "one text") if self.pairs else ("one text", "two texts")
            raise InputError(where, expected=f"{kinds[0]}, as in training", found=kinds[1])
        self._check_marks(source, where)

    def _check_marks(self, source: Text, where: str) -> None:
        fault = unmarked(texts_of(source)[0]) if self.data.format == "relations" else ""
        if fault:
            raise InputError(where, expected=MARKED, found=fault)

    def read(self, given: Any, where: str) -> ClassifyInput:
        """One input, checked, as ids."""
        source = self._parted(given, where)
        for text in texts_of(source):
            if not isinstance(text, str):
                raise InputError(where, expected="a text", found=type(text).__name__)
            if not text.strip():
                raise InputError(where, expected="a text", found="nothing" if not text else "whitespace only")
        self._check_marks(source, where)
        ids, cut = self.fit(self.encoded([source])[0], where)
        notes = [f"{CUT} its {self.limits}"] if cut else []
        read = self.tokens(ids)
        notes += unknown_notes(read, self.tokenizer.UNK)
        return ClassifyInput(source, ids, tuple(notes))

    def _parted(self, given: Any, where: str) -> Text:
        if not self.pairs:
            if not isinstance(given, str):
                raise InputError(where, expected="a text", found=type(given).__name__)
            return given
        parts = given.split("\t") if isinstance(given, str) else given
        if not isinstance(parts, tuple | list) or len(parts) != 2:
            found = f"{len(parts)} text(s)" if isinstance(parts, tuple | list) else type(parts).__name__
            hint = "a tuple, or one text with a tab between the two"
            raise InputError(where, expected="two texts, as in training", found=found, hint=hint)
        return parts[0], parts[1]


class Rows(ClassifyReader):
    """A text, or a pair of texts, as one row with special tokens."""

    layouts = ("plain", "marked")

    def encoded(self, sources: Sequence[Text]) -> list[Ids]:
        firsts = self._encoded([texts_of(source)[0] for source in sources])
        if not self.pairs:
            return [(ids, None) for ids in firsts]
        return list(zip(firsts, self._encoded([texts_of(source)[1] for source in sources]), strict=True))

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        # A text may be empty after normalisation; a row must not be.
        return [ids or [self.tokenizer.UNK] for ids in self.tokenizer.encode_all(texts)]

    def fit(self, ids: Ids, where: str) -> tuple[Ids, bool]:
        return fit(ids, self.data.max_length, self.data.too_long, self.data.keep, where)

    def tokens(self, ids: Ids) -> list[int]:
        return [*ids[0], *(ids[1] or ())]

    def size(self, ids: Ids) -> int:
        return len(ids[0]) + len(ids[1] or ()) + marks_of("marked", self.pairs)

    def batch(self, ids: Sequence[Ids], labels: Sequence[int], numbers: Sequence[int]) -> Batch:
        mark, longest = self.tokenizer, self.data.max_length + marks_of("marked", self.pairs)
        made = collate(ids, labels, numbers, first=mark.BOS, last=mark.EOS, padding=mark.PAD)
        return replace(made, longest=longest)

    def axes(self, item: ClassifyInput, layout: Layout) -> dict[str, Axis]:
        sizes = [len(part) for part in item.ids if part is not None]
        return {"text": row_axis(self.tokenizer, texts_of(item.text), sizes, layout=layout, keep=self.data.keep)}

    def check(self, network: Classifier, name: str) -> None:
        super().check(network, name)
        if network.needs_second is not None and not self.pairs:
            expected = f"a column with the {network.needs_second} of each text, which {name} needs"
            hint = "data.format: aspects has one; model.whole: true reads texts as a whole"
            raise InputError("recipe", field="data.columns.second", expected=expected, found="single texts", hint=hint)
        marks = marks_of(network.layout, self.pairs)
        if network.longest is not None and self.data.max_length + marks > network.longest:
            expected = (
                f"at most {network.longest - marks}: the network has {network.longest} positions with special tokens"
            )
            found = str(self.data.max_length)
            raise InputError("recipe", field="data.max_length", expected=expected, found=found)


class Sentenced(ClassifyReader):
    """A text as a list of sentences of ids; a sentence that is too long becomes several."""

    layouts = ("sentences",)

    def encoded(self, sources: Sequence[Text]) -> list[list[list[int]]]:
        cut = [[text[start:end] for start, end in sentences(text)] for (text, *_) in map(texts_of, sources)]
        flat = iter(self.tokenizer.encode_all([sentence for document in cut for sentence in document]))
        # A sentence may be empty after normalisation; a document must not be.
        documents = [[ids for ids in (next(flat) for _ in document) if ids] for document in cut]
        return [document or [[self.tokenizer.UNK]] for document in documents]

    def fit(self, ids: list[list[int]], where: str) -> tuple[list[list[int]], bool]:
        limits = nested(self.data.sentences)
        return fit_nested(ids, self.data.max_length, limits, self.data.too_long, self.data.keep, where)

    def tokens(self, ids: list[list[int]]) -> list[int]:
        return [token for sentence in ids for token in sentence]

    def size(self, ids: list[list[int]]) -> int:
        return sum(map(len, ids))

    def batch(self, ids: Sequence[list[list[int]]], labels: Sequence[int], numbers: Sequence[int]) -> NestedBatch:
        return collate_nested(ids, labels, numbers, padding=self.tokenizer.PAD)

    def axes(self, item: ClassifyInput, layout: Layout) -> dict[str, Axis]:
        text = texts_of(item.text)[0]
        sizes = [len(sentence) for sentence in item.ids]
        return nested_axes(self.tokenizer, text, sentences(text), sizes, keep=self.data.keep)

    @property
    def limits(self) -> str:
        return f"{super().limits} and {nested(self.data.sentences).most} sentences"


def reader_of(data: LabelledData, tokenizer: Tokenizer, *, pairs: bool) -> ClassifyReader:
    """The reader for a recipe's ``data``."""
    return (Rows if data.sentences is None else Sentenced)(data, tokenizer, pairs=pairs)


def texts_of(source: Text) -> tuple[str, ...]:
    """One text or two."""
    return source if isinstance(source, tuple) else (source,)
