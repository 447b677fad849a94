"""Surveys texts with a label each: the data of the task ``classify``. No torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding
from saccade.data.files.semeval import BLOCKS, unmarked
from saccade.data.files.semeval import ENTITY_MARKS as MARKS
from saccade.data.labels.classes import UNEVEN, labels_in
from saccade.data.labels.records import Labelled, scan
from saccade.data.survey.columns import has_columns, label_columns, suffix_of
from saccade.data.survey.survey import (
    SEPARATOR,
    Entry,
    Part,
    Section,
    Survey,
    epochs_for,
    listed,
    longest_of,
    several,
)
from saccade.data.survey.tallies import hashes

FEW = 10  # records of a label below which little can be learnt of it
FINE = 100  # held-out records from which on accuracy tells one state of the network from another
ABSENT = 0.1  # the probability that no record of a label is held out, from which on it is noted
SMALL, FEW_UPDATES = 2000, 200  # texts up to which a network without an encoder learns more, and its updates
BATCH, UPDATES, PATIENCE, MOST_EPOCHS = 32, 300, 60, 100  # PATIENCE: updates without a better metric
DIRECTED = re.compile(r"\S+\(e[12], ?e[12]\)")  # a relation and its direction: Cause-Effect(e1,e2)


class LabelCounts(Survey):
    """What surveys of records with a label each count by label, and say of it."""

    def count_labels(self) -> None:
        """Count by label, and say of which label few different records can be held out."""
        train = self.train
        self.counts = {label: train.counts[label] for label in labels_in(Labelled("", each) for each in train.counts)}
        both = np.unique(np.stack([hashes(train.targets), hashes(train.units)], axis=1), axis=0)[:, 0]
        self.rare = [label for label in self.counts if (both == hash(label)).sum() < FEW and self.drawn]

    @property
    def imbalance(self) -> float:
        """How many times as many records the most frequent label has as the rarest."""
        return max(self.counts.values()) / min(self.counts.values())

    def checks(self) -> Iterator[tuple[int, str]]:
        yield from super().checks()
        yield self.contradicted, f"{self.unit}s have more than one label{self.shown('contradicted')}"

    def own_problems(self) -> Iterator[str]:
        labels, records = len(self.counts), self.train.records
        if labels < 2:
            yield f"a classifier needs at least two labels, found only {', '.join(self.counts)}"
        elif records < 3 * labels:
            yield f"too few {self.unit}s ({records}) for {labels} labels"
        for part in self.tests:
            unknown = sorted({*part.counts} - {*self.counts, *(self.data.labels or ())})
            if unknown:
                yield f"{part.name} has labels that the training file lacks: {listed(unknown)}"

    def frequency_notes(self) -> Iterator[str]:
        if self.imbalance > UNEVEN:
            times = f"{self.imbalance:.1f} times the {self.unit}s of the rarest"
            yield f"the most frequent label has {times}: data.balance: weights"
        few = [label for label, count in self.counts.items() if count < FEW]
        if few:
            yield f"fewer than {FEW} {self.unit}s of {listed(few)}"

    def absence_notes(self) -> Iterator[str]:
        share, splits = self.data.hold_out, " and ".join(self.drawn)
        absent = [label for label, count in self.counts.items() if (1 - share) ** count > ABSENT]
        if absent and splits and len(self.counts) > 1:
            yield f"{splits} may have no {self.unit} of {listed(absent)}"


class LabelSurvey(LabelCounts):
    kind, task, unit, expected = "labels", "classify", "text", "text with its label"
    roles = ("text", "label", "second", "group")
    formats = ("lines", *BLOCKS)
    combine = sum

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        if not on_hub(file) and Path(file).is_dir():
            return any(inner.is_dir() for inner in Path(file).iterdir())
        named = has_columns(file, format, "text", "label", encoding=encoding)
        return named or label_columns(file, format, encoding) is not None

    def settle(self) -> None:
        """Guess the columns where nobody named any."""
        self.guessed, self.firsts = None, set[int]()  # hashes of first texts, where records are pairs
        format, encoding = self.data.format, self.data.encoding
        if not self.named and not has_columns(self.files, format, "text", "label", encoding=encoding):
            self.guessed = label_columns(self.files, format, encoding)
        if self.guessed is not None:
            columns = replace(self.data.columns, text=self.guessed.text, label=self.guessed.label)
            self.data = replace(self.data, columns=columns)

    def sides(self) -> Sequence[str]:
        return ("text", "second") if self.data.columns.second is not None or self._block.get("second") else ("text",)

    @property
    def _block(self) -> dict[str, str]:
        return BLOCKS.get(self.data.format or "", {})

    def scan(self, files: Any) -> Iterator[Any]:
        return scan(files, self.data)

    def entry(self, record: Labelled) -> Entry:
        texts = _texts(record)
        # The recipe that is written here may make groups of first texts.
        unit = record.first if not self.has_recipe and record.group is None else None
        return Entry(tuple((text,) for text in texts), SEPARATOR.join(texts), record.target, record.group, unit)

    def count(self, record: Labelled, part: Part) -> None:
        part.counts[record.target] += 1
        part.numbers["marked"] += not unmarked(_texts(record)[0])
        if record.first is not None and part.files is self.files:
            self.firsts.add(hash(record.first))

    def measure(self, record: Labelled) -> Iterable[tuple[str, int]]:
        tokens = self.data.tokens
        yield f"text in {tokens.kind}", sum(self.token_count(text, tokens) for text in _texts(record))

    def finish(self) -> None:
        """Count by label, and how many texts or groups of each label can be held out."""
        train = self.train
        self.count_labels()
        self.marks = 2 * train.numbers["marked"] > train.records
        paired = len(self.sides()) == 2
        self.sharing = self.different - len(self.firsts) if paired else 0
        columns = self.data.columns
        self.wants_group = columns.second is not None and columns.group is None and self.sharing > 0
        self.wants_group = self.wants_group and len(self.firsts) >= FEW
        if not self.wants_group and not train.grouped:
            self.units = self.different  # only records with the same texts are held out together

    # The report -------------------------------------------------------------------------------------------------------

    def headline(self) -> str:
        columns = self.data.columns
        names = self._block or {"text": columns.text, "second": columns.second, "label": columns.label}
        how = f"columns {' and '.join(str(names[side]) for side in self.sides())} → {names['label']}"
        if not on_hub(self.files) and Path(self.files).is_dir():
            how = "one folder per label"
        elif (self.data.format or suffix_of(str(self.files))) in ("lines", "txt"):
            how = "the first word of each line is the label"
        return f"{self.train.name}: {several(self.train.records, 'text')} with a label each ({how})"

    def own_sections(self) -> Iterator[Section]:
        yield Section(several(len(self.counts), "label"), bars=self.counts)

    def own_notes(self) -> Iterator[str]:
        if self.guessed is not None:
            yield f"{self.guessed}; if they are pairs, use --column source=… --column target=…"
        yield from self.frequency_notes()
        if self.wants_group:
            group = f"data.columns.group: {self.data.columns.text}"
            yield f"{several(self.sharing, 'pair')} with the first text of another pair: {group} holds them out together"
        yield from self.absence_notes()
        if self.rare and self.data.labels is None and self.has_recipe:
            rare = f"train may have no text of {listed(self.rare)}, where all are held out"
            yield f"{rare}: training then stops, unless data.labels lists every label"

    def own_json(self) -> dict[str, Any]:
        return {"labels": self.counts, "imbalance": self.imbalance}

    # The recipe -------------------------------------------------------------------------------------------------------

    def recommend(self) -> dict[str, Any]:
        # Marks around nouns can only be kept whole among words.
        characters = any(side.unspaced for side in self.train.sides.values()) and not self.marks
        records, share = self.train.records, self.data.hold_out
        few = records < SMALL
        data: dict[str, Any] = {"columns": {"group": self.data.columns.text}} if self.wants_group else {}
        data |= {"labels": list(self.counts)} if self.rare else {}
        words = {"kind": "words", "lower": True, "min_count": 1 if few else 2}
        data["tokens"] = {"kind": "characters"} if characters else words
        data["tokens"] |= {"whole": list(MARKS)} if self.marks else {}
        data |= {"max_length": longest_of(self._measured(data["tokens"]["kind"])), "too_long": "truncate"}
        data |= {"balance": "weights"} if self.imbalance > UNEVEN else {}
        models: dict[str, dict[str, Any]] = {
            "aspects": {"name": "atae_lstm", "variant": "atae", "scorer": "summed"},
            "relations": {"name": "att_blstm"},
        }
        model = models.get(self.data.format or "", {"name": "attentive_classifier"})
        model = {**model, "embedding": 128, "hidden": 128, "dropout": 0.3}
        epochs, per_epoch = epochs_for(records, share, batch=BATCH, updates=UPDATES, fewest=10, most=MOST_EPOCHS)
        train: dict[str, Any] = {"epochs": epochs, "batch_records": BATCH}
        if few and not characters and model["name"] == "attentive_classifier":
            # An encoder would learn few texts by heart, and few validation records would choose among its states by chance:
            # attention over the words, held back by weight decay, for as many updates as it needs (benchmarks/first_results).
            epochs, _ = epochs_for(records, share, batch=BATCH, updates=FEW_UPDATES, fewest=10, most=MOST_EPOCHS)
            model = {
                "name": "attentive_classifier",
                "encoder": "none",
                "embedding": 128,
                "attention": 2,
                "dropout": 0.3,
            }
            train |= {"epochs": epochs, "optimiser": "adamw", "weight_decay": 3.0, "lr": 0.005, "schedule": "linear"}
            train |= {"keep": "last", "threads": 1}  # so small a network gains nothing by a second thread
        else:
            train |= {
                "lr": 0.003 if epochs > 10 else 0.001,  # few updates per epoch: larger steps
                # Of few records many states have the best accuracy there is, and the first of them has hardly learnt.
                "watch": "accuracy" if share * records >= FINE else "loss",
                "stop_after": min(max(3, math.ceil(PATIENCE / per_epoch)), epochs // 2),
            }
        relations = self.data.format == "relations" or (self.marks and any(map(DIRECTED.fullmatch, self.counts)))
        metrics = ["relation_f1"] * relations + ["accuracy", "f1"]
        return {"data": data, "model": model, "train": train, "metrics": metrics}


def _texts(record: Labelled) -> tuple[str, ...]:
    return record.source if isinstance(record.source, tuple) else (record.source,)
