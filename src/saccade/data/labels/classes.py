"""The labels of a classifier: their names, their order, and their counts in the training records. No torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from saccade.documents import Count, checked, parse
from saccade.errors import InputError

UNEVEN = 3.0  # times as many records of the most frequent label as of the rarest: worth a note


class WithLabel(Protocol):
    """A record with a label: a text, two texts, a picture."""

    @property
    def source(self) -> Any: ...
    @property
    def target(self) -> str: ...


@dataclass(frozen=True)
class Classes:
    """The labels, their counts in the training records, and whether records are pairs of texts."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    pairs: bool = False

    @classmethod
    def of(cls, records: Sequence[WithLabel], labels: Sequence[str] | None = None) -> Classes:
        """The labels of these records; ``labels`` names all there are and their order, where it is given."""
        found = labels_in(records)
        names = tuple(labels or found)
        if len(names) < 2:
            raise InputError(
                "data.train", expected="records of two labels at least", found=f"the label {names[0]!r} alone"
            )
        return cls(names, tuple(found.get(name, 0) for name in names), isinstance(records[0].source, tuple))

    def counted(self, records: Iterable[WithLabel]) -> Classes:
        """The same labels, with their counts in these records."""
        found = labels_in(records)
        return replace(self, counts=tuple(found.get(name, 0) for name in self.names))

    def number(self, label: str, where: str) -> int:
        """The index of a label."""
        if label not in self.names:
            shown = ", ".join(self.names[:20]) + (" …" if len(self.names) > 20 else "")
            hint = "data.labels can list labels that the training records lack"
            raise InputError(where, expected=f"a label of the training records ({shown})", found=repr(label), hint=hint)
        return self.names.index(label)

    def to_json(self) -> str:
        """The file that a bundle keeps."""
        return json.dumps({"labels": self.names, "counts": self.counts, "pairs": self.pairs}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> Classes:
        """Read what :meth:`to_json` wrote; ``where`` names the file in errors."""
        kept = checked(_Stored, parse(text, where), where)
        check_counted(kept.labels, kept.counts, where, "labels")
        return cls(kept.labels, kept.counts, kept.pairs)

    def remark(self, found: dict[str, int], balance: str, *, training: bool) -> str:
        """What to add to the counts: which labels are missing, and for training records whether labels are unbalanced."""
        pairs = zip(self.names, self.counts, strict=True)
        absent = [name for name, count in pairs if name not in found and (training or count)]
        missing = f"; none of {', '.join(absent[:8])}{' …' if len(absent) > 8 else ''}" if absent else ""
        counts = [count for count in self.counts if count]
        if training and balance == "weights":
            return f"{missing}; every label counts alike in the loss"
        if training and max(counts) > UNEVEN * min(counts):
            return f"{missing}; data.balance: weights makes every label count alike"
        return missing

    @property
    def weights(self) -> list[float]:
        """N / (C · N_c): every label counts alike in the sum over the training records; one that never occurs counts 0."""
        total, present = sum(self.counts), sum(count > 0 for count in self.counts)
        return [total / (present * count) if count else 0.0 for count in self.counts]


@dataclass(frozen=True)
class _Stored:
    labels: tuple[str, ...]
    counts: tuple[Count, ...]
    pairs: bool


def check_counted(names: Sequence[str], counts: Sequence[int], where: str, field: str) -> None:
    """Raise unless names from a file are distinct, two at least, and each has its count."""
    if len(set(names)) < max(2, len(names)):
        raise InputError(
            where, field=field, expected="two at least, each once", found=f"{len(set(names))} of {len(names)}"
        )
    if len(counts) != len(names):
        raise InputError(where, field="counts", expected=f"one for each of the {len(names)}", found=str(len(counts)))


def labels_in(records: Iterable[WithLabel]) -> dict[str, int]:
    """The count of each label, in numeric order where all labels are whole numbers, else in alphabetical order."""
    counts: dict[str, int] = {}
    for record in records:
        counts[record.target] = counts.get(record.target, 0) + 1
    numeric = all(label.removeprefix("-").isdecimal() for label in counts)
    ordered = sorted(counts, key=lambda label: (int(label), label) if numeric else (0, label))
    return {label: counts[label] for label in ordered}


def described(counts: dict[str, int], most: int = 12) -> str:
    """Labels and their counts in a sentence: only the most frequent where there are many.

    >>> described({"neg": 3, "pos": 1})
    'neg 3 (75.0 %), pos 1 (25.0 %)'
    """
    total = max(1, sum(counts.values()))
    ordered: Sequence[tuple[str, int]] = list(counts.items())
    if len(counts) > most:
        ordered = sorted(ordered, key=lambda item: -item[1])[:most]
    shown = ", ".join(f"{label} {count:,} ({count / total:.1%})".replace("%", " %") for label, count in ordered)
    return shown if len(counts) <= most else f"{shown} and {len(counts) - most} more"
