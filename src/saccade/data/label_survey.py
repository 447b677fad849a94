"""What labelled texts hold and whether they would train: labels and their shares, lengths, repeats, contradictions, and what
a test set shares with them. In bounded memory: texts are counted and forgotten, repeats are told by their hashes.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from saccade.data.advice import quoted
from saccade.data.classes import UNEVEN, labels_in
from saccade.data.files.hub import on_hub
from saccade.data.labelled import Labelled, LabelledData, scan
from saccade.data.pairs import Fault, Tally
from saccade.data.tallies import WORD, Lengths
from saccade.errors import InputError

FEW = 10  # records of a label below which little can be learnt of it
EVERY = 2000  # records between two words of progress


@dataclass(frozen=True)
class TestSet:
    """A held-out file: how many records, how many of their texts are met in the training records, which labels are not, and
    the first line that is no record."""

    name: str
    records: int
    met: int
    strange: tuple[str, ...]
    first_fault: str = ""


@dataclass
class LabelSurvey:
    """What was counted."""

    path: str
    data: LabelledData
    counts: dict[str, int] = field(default_factory=dict)
    words: Lengths = field(default_factory=Lengths)
    faults: Tally = field(default_factory=Tally)
    first_fault: str = ""
    repeated: int = 0  # records whose text and label came before
    contradicted: int = 0  # texts that have more than one label
    example: str = ""  # such a text
    tests: Sequence[TestSet] = ()

    @property
    def records(self) -> int:
        return sum(self.counts.values())

    @property
    def imbalance(self) -> float:
        """How many times as many records the commonest label has as the rarest."""
        return max(self.counts.values()) / min(self.counts.values()) if self.counts else 1.0

    @property
    def problems(self) -> list[str]:
        """Why it would not train."""
        found = []
        if len(self.counts) < 2:
            found.append(f"a classifier needs two labels at least, found {', '.join(self.counts) or 'none'} alone")
        if self.first_fault and self.data.faults == "error":
            found.append(
                f"{len(self.faults):,} faults, the first: {self.first_fault} (data.faults: drop leaves them out)"
            )
        if self.records and self.records < len(self.counts) * 3:
            found.append(f"{self.records} records are too few for {len(self.counts)} labels")
        found += [
            f"{test.name} has labels that training lacks: {', '.join(test.strange)}"
            for test in self.tests
            if test.strange
        ]
        if self.data.faults == "error":
            found += [test.first_fault for test in self.tests if test.first_fault]
        return found

    @property
    def notes(self) -> list[str]:
        """What is worth knowing."""
        found = []
        if self.imbalance > UNEVEN:
            found.append(
                f"the commonest label has {self.imbalance:.1f} times the records of the rarest: data.balance: weights"
            )
        rare = [label for label, count in self.counts.items() if count < FEW]
        if rare:
            found.append(f"fewer than {FEW} records of {', '.join(rare[:8])}{' …' if len(rare) > 8 else ''}")
        if self.contradicted:
            found.append(f"{self.contradicted:,} texts have more than one label, such as {self.example!r}")
        if self.repeated:
            found.append(f"{self.repeated:,} records repeat another one, label and all")
        found += [
            f"{test.met:,} of {test.records:,} texts of {test.name} are in the training records too (data.overlap)"
            for test in self.tests
            if test.met
        ]
        return found

    def length(self, share: float) -> int:
        """So many words that this share of the texts has no more."""
        return self.words.within(share)

    @property
    def max_length(self) -> int:
        """A limit of tokens under which 95 of 100 texts stay whole."""
        return max(8, math.ceil(self.length(0.95) / 8) * 8)

    def recipe(self, folder: Path | None = None) -> str:
        """A recipe for these records, which will lie in ``folder``: paths in it start there."""
        columns, data = self.data.columns, self.data
        named = {name: getattr(columns, name) for name in ("text", "label", "second", "group")}
        default = {"text": "text", "label": "label", "second": None, "group": None}
        chosen = [f"{name}: {quoted(value)}" for name, value in named.items() if value != default[name]]
        about = f"Labels for {Path(self.path).name}."
        lines = [
            f"about: {quoted(about)}",
            "task: classify",
            "data:",
            f"  train: {quoted(_seen_from(folder, self.path))}",
        ]
        lines += [f"  test: {quoted(_seen_from(folder, self.tests[0].name))}"] if self.tests else []
        lines += [f"  columns: {{{', '.join(chosen)}}}"] if chosen else []
        lines += [f"  format: {data.format}"] if data.format else []
        lines += [f"  encoding: {data.encoding}"] if data.encoding != "utf-8" else []
        lines += [
            "  tokens: {kind: words, lower: true, min_count: 2}",
            f"  max_length: {self.max_length}",
            "  too_long: truncate",
        ]
        lines += ["  balance: weights"] if self.imbalance > UNEVEN else []
        lines += ["model: {name: attentive_classifier, embedding: 128, hidden: 128, dropout: 0.3}"]
        lines += [
            "train: {epochs: 10, batch_records: 32, lr: 1e-3, watch: accuracy, stop_after: 3}",
            "metrics: [accuracy, f1]",
        ]
        return "\n".join(lines) + "\n"

    def to_plain(self, recipe: str | None = None) -> dict[str, Any]:
        """The survey as JSON has it."""
        tests = [{"file": test.name, "records": test.records, "met": test.met} for test in self.tests]
        shares = (0.5, 0.95, 1.0)
        return {
            "file": self.path, "task": "classify", "records": self.records, "labels": self.counts,
            "imbalance": self.imbalance, "words": {f"{share:g}": self.length(share) for share in shares},
            "faults": dict(self.faults.counts), "repeated": self.repeated, "contradicted": self.contradicted, "tests": tests,
            "would_train": not self.problems, "problems": self.problems, "notes": self.notes, "recipe": recipe,
        }  # fmt: skip


def survey_labels(
    path: str | Path,
    data: LabelledData,
    tests: Sequence[str | Path] = (),
    progress: Callable[[str, int, int | None], None] = lambda doing, done, total: None,
) -> LabelSurvey:
    """Count what a file or folder of labelled texts holds."""
    found = LabelSurvey(str(path), data)
    counts: Counter[str] = Counter()
    labels: dict[int, str] = {}  # hash of a text → its first label
    contradicted: set[int] = set()
    for number, item in enumerate(scan(path, data), start=1):
        if number % EVERY == 0:
            progress("reading", number, None)
        if isinstance(item, Fault):
            found.faults.add(item)
            if not item.skipped:
                found.first_fault = found.first_fault or str(item.error)
            continue
        counts[item.target] += 1
        found.words.add([_words(item)])
        key = hash(item.source)
        if key not in labels:
            labels[key] = item.target
        elif labels[key] == item.target:
            found.repeated += 1
        elif key not in contradicted:
            contradicted.add(key)
            found.example = found.example or " | ".join(_texts(item))[:60]
    if not counts:
        told = found.first_fault or "nothing"
        raise InputError(path, expected="at least one text with its label", found=told)
    found.counts = {label: counts[label] for label in labels_in(Labelled("", label) for label in counts)}
    found.contradicted = len(contradicted)
    found.tests = [_test(test, data, labels, found.counts) for test in tests]
    return found


def _test(path: str | Path, data: LabelledData, labels: dict[int, str], known: dict[str, int]) -> TestSet:
    records, met, found, first = 0, 0, set[str](), ""
    for item in scan(path, data):
        if isinstance(item, Labelled):
            records, met = records + 1, met + (hash(item.source) in labels)
            found.add(item.target)
        elif not item.skipped:
            first = first or str(item.error)
    strange = tuple(sorted(found - {*known, *(data.labels or ())}))
    return TestSet(str(path), records, met, strange, first)


def _seen_from(folder: Path | None, path: str) -> str:
    if folder is None or on_hub(path) or Path(path).is_absolute():
        return path
    return os.path.relpath(path, folder)


def _texts(record: Labelled) -> tuple[str, ...]:
    return record.source if isinstance(record.source, tuple) else (record.source,)


def _words(record: Labelled) -> int:
    return sum(len(WORD.findall(text)) for text in _texts(record))
