"""Computes metrics of transcripts: word, character and phoneme error rates, and lists the errors.

    WER, CER, PER = (substitutions + deletions + insertions) / |reference|    over the corpus, of a shortest way to edit

Words are split by spaces; a phoneme error rate is a word error rate of transcripts whose words are phonemes. ``per_39`` folds
TIMIT's 61 phones into the 39 in which results on TIMIT are reported (Lee & Hon 1989): other phones stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from saccade.metrics.labels import Confusion
from saccade.metrics.significance import Statistics, statistics
from saccade.metrics.text import Score, check_paired

ERROR_RATES = ("wer", "cer", "per", "per_39")
PAIRED_TRANSCRIPT_METRICS = (*ERROR_RATES, "exact_match")
TRANSCRIPT_METRICS = (*PAIRED_TRANSCRIPT_METRICS, "perplexity")
NOTHING = "∅"  # in lists of errors, what was not there, or not heard
LISTED = 12  # confusions in a note, and units in a confusion matrix

FOLDS = {
    "aa": "ao", "ah": "ax ax-h", "er": "axr", "hh": "hv", "ih": "ix", "l": "el", "m": "em", "n": "en nx", "ng": "eng",
    "sh": "zh", "uw": "ux", "sil": "pcl tcl kcl bcl dcl gcl h# pau epi", "": "q",
}  # fmt: skip
FOLDED = {phone: into for into, phones in FOLDS.items() for phone in phones.split()}


def folded(text: str) -> str:
    """A transcript in TIMIT's 61 phones, folded into 39: "q" is left out.

    >>> folded("h# sh ix q h#")
    'sil sh ih sil'
    """
    return " ".join(into for phone in text.split() if (into := FOLDED.get(phone, phone)))


def transcript_scores(names: Sequence[str], predictions: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
    """The named metrics of :data:`PAIRED_TRANSCRIPT_METRICS`."""
    found = {name: transcript_statistics(name, predictions, references) for name in names}
    return {name: Score(name, each.value, each.higher_is_better) for name, each in found.items()}


def transcript_statistics(name: str, predictions: Sequence[str], references: Sequence[str]) -> Statistics:
    """The statistics of a metric: [edits, length of the reference] of each transcript for error rates.

    >>> transcript_statistics("per", ["b a"], ["b ae d"]).value
    0.6666666666666666
    """
    if name == "per_39":
        predictions, references = ([folded(text) for text in texts] for texts in (predictions, references))
    if name in ("per", "per_39"):
        return replace(statistics("wer", predictions, references), name=name)
    return statistics(name, predictions, references)


@dataclass
class Errors:
    """How often each unit (word or character) was heard right, as another, or not at all, or was heard where it was not."""

    right: Counter[str] = field(default_factory=Counter)
    substituted: Counter[tuple[str, str]] = field(default_factory=Counter)  # (true, heard)
    deleted: Counter[str] = field(default_factory=Counter)
    inserted: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, predictions: Sequence[str], references: Sequence[str], unit: str = "words") -> Errors:
        """The errors of a shortest way to edit each prediction into its reference, counted in ``words`` or ``characters``.

        >>> Errors.of(["the cat"], ["the bad cat"]).deleted
        Counter({'bad': 1})
        """
        check_paired(predictions, references)
        errors = cls()
        for prediction, reference in zip(predictions, references, strict=True):
            said, true = (text.split() if unit == "words" else list(text) for text in (prediction, reference))
            for kind, before, after in _edits(true, said):
                if kind == "equal":
                    errors.right.update(before)
                elif kind == "replace":
                    errors.substituted.update(zip(before, after, strict=True))
                elif kind == "delete":
                    errors.deleted.update(before)
                else:
                    errors.inserted.update(after)
        return errors

    def by_unit(self) -> dict[str, dict[str, int]]:
        """Counts of every unit, the one with most errors first: how often it is true (``count``), and was substituted,
        deleted and inserted. ``all`` is their sum."""
        substituted = Counter[str]()
        for (true, _), count in self.substituted.items():
            substituted[true] += count
        units = {*self.right, *substituted, *self.deleted, *self.inserted}
        rows = {
            unit: {
                "count": self.right[unit] + substituted[unit] + self.deleted[unit],
                "substituted": substituted[unit],
                "deleted": self.deleted[unit],
                "inserted": self.inserted[unit],
            }
            for unit in units
        }
        wrong = {unit: sum(row.values()) - row["count"] for unit, row in rows.items()}
        order = sorted(units, key=lambda unit: (-wrong[unit], -rows[unit]["count"], unit))
        names = ("count", "substituted", "deleted", "inserted")
        whole = {name: sum(row[name] for row in rows.values()) for name in names}
        return {"all": whole, **{_written(unit): rows[unit] for unit in order}}

    @property
    def confused(self) -> list[tuple[str, str, int]]:
        """(true, heard, count) of every error, the most frequent first; :data:`NOTHING` where a unit is deleted or inserted."""
        pairs = [(true, said, count) for (true, said), count in self.substituted.items()]
        pairs += [(true, NOTHING, count) for true, count in self.deleted.items()]
        pairs += [(NOTHING, said, count) for said, count in self.inserted.items()]
        return sorted(pairs, key=lambda pair: (-pair[2], pair))

    def confusion(self, unit: str) -> Confusion:
        """How often each of the units in the most frequent errors was heard as each of them."""
        shown = list(dict.fromkeys(part for true, said, _ in self.confused[:LISTED] for part in (true, said)))[:LISTED]
        pairs = [(true, said) for true, said, count in self.confused for _ in range(count)]
        pairs += [(each, each) for each, count in self.right.items() for _ in range(count)]
        kept = [(_written(true), _written(said)) for true, said in pairs if true in shown and said in shown]
        return Confusion.of(kept, [_written(part) for part in shown], unit)

    def note(self, unit: str) -> str:
        """The most frequent errors in a sentence; empty where there are none."""
        listed = [f"{_written(true)} → {_written(said)} {count:,}" for true, said, count in self.confused[:LISTED]]
        return f"most frequent errors ({unit}, true → heard): {', '.join(listed)}" if listed else ""


def _edits(true: list[str], said: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    from rapidfuzz.distance import Levenshtein

    for code in Levenshtein.opcodes(true, said):
        yield code.tag, true[code.src_start : code.src_end], said[code.dest_start : code.dest_end]


def _written(unit: str) -> str:
    return "␣" if unit == " " else unit
