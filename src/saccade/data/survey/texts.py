"""Surveys plain texts: the data of the tasks ``language``, ``pretrain`` and ``vectors``. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding, lines_of, without_end
from saccade.data.files.records import Fault
from saccade.data.survey.columns import suffix_of
from saccade.data.survey.survey import Entry, Survey, several
from saccade.data.texts.records import Text, TextData, read_texts

SMALL, MIDDLING = 20_000, 500_000  # words up to which a small vocabulary and small batches do


class TextSurvey(Survey):
    kind, task, unit, expected = "texts", "language", "line", "line of text"
    roles = ()
    combine, targets = sum, False

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        return format in (None, "txt") and suffix_of(file) == "txt"

    def scan(self, files: Any) -> Iterator[Text | Fault]:
        if isinstance(files, tuple):
            return chain.from_iterable(map(self.scan, files))
        if not on_hub(files) and suffix_of(str(files)) == "txt" and not Path(files).is_dir():
            lines = ((line.fault, without_end(line.text)) for line in lines_of(Path(files), self.data.encoding))
            return (fault or Text(text) for fault, text in lines if fault or text.strip())
        reading = self.data if isinstance(self.data, TextData) else self.data.reading
        return iter(read_texts(files, reading))

    def entry(self, record: Text) -> Entry:
        return Entry(((record.source,),), record.source)

    def headline(self) -> str:
        words = self.train.sides["text"].vocabulary.running
        return f"{self.train.name}: {several(self.train.records, 'line')} of text, {words:,} words"

    def own_notes(self) -> Sequence[str]:
        notes = ["plain text serves the tasks language (predict the next word), pretrain (masked words) and vectors"]
        if not self.has_recipe:
            notes.append("if every line begins with its label, add --format lines; if it is a table, --format tsv")
        return notes

    def recommend(self) -> dict[str, Any]:
        words = self.train.sides["text"].vocabulary.running
        size = 500 if words < SMALL else 2000 if words < MIDDLING else 8000
        batch = 512 if words < SMALL else 4096
        return {
            "data": {"tokens": {"kind": "bpe", "size": size}, "chunk": 64},
            "model": {"name": "recurrent_lm", "hidden": 128, "embedding": 64, "dropout": 0.2},
            "train": {"epochs": 20, "batch_tokens": batch, "lr": 0.003, "stop_after": 3},
            "metrics": ["perplexity", "word_perplexity", "bits_per_character"],
        }
