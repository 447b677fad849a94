"""What labelled texts hold and whether they would train: labels and their shares, lengths, repeats, contradictions, and what
a test set shares with them. In bounded memory: texts are counted and forgotten, repeats are told by their hashes.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from saccade.data.files.fields import FORMATS, Fields, Name, columns_of, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import unpacked
from saccade.data.files.records import NOT_UTF8
from saccade.data.files.semeval import ENTITY_MARKS as MARKS
from saccade.data.files.semeval import unmarked
from saccade.data.labels.classes import UNEVEN, labels_in
from saccade.data.labels.records import Labelled, LabelledData, label_of, scan
from saccade.data.pairs.records import Fault
from saccade.data.reading import FaultCounts
from saccade.data.splits import HELD_OUT_AT_MOST, too_few
from saccade.data.survey.language_id import script_shares
from saccade.data.survey.limits import beyond, drawn, overlapping
from saccade.data.survey.recipe import OFTEN, quoted, seen_from, unspaced
from saccade.data.survey.tallies import WORD, Lengths
from saccade.data.tokenizers.tokenizer import counting
from saccade.errors import InputError

FEW = 10  # records of a label below which little can be learnt of it
EVERY = 2000  # records between two words of progress
ROUGH = 30  # held-out records below which a figure says little
FINE = 100  # … from which on accuracy tells one state of the network from another
ABSENT = 0.1  # a chance that is told: that no record of a label is held out
BATCH = 32  # records of a batch
UPDATES, PATIENCE = 300, 60  # at least so many updates are planned, and so many without a better figure are allowed
MOST_EPOCHS = 100
DIRECTED = re.compile(r"\S+\(e[12], ?e[12]\)")  # a relation and its direction: Cause-Effect(e1,e2)
ENCODED = "; another encoding? --encoding latin-1 or windows-1252, in a recipe data.encoding"


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
    characters: Lengths = field(default_factory=Lengths)
    letters: Counter[str] = field(default_factory=Counter)  # every character, and how often it occurs
    tokens: Lengths = field(default_factory=Lengths)  # as a recipe cuts, held-out files too; empty where none does yet
    units: dict[str, int] = field(default_factory=dict)  # of each label: texts or groups to hold out, counted up to FEW
    parted: int = 0  # of all labels, counted up to FEW
    grouped: bool = False  # whether any of them is a group
    unmet: int = 0  # different texts that no held-out file has
    faults: FaultCounts = field(default_factory=FaultCounts)
    skipped: int = 0  # of these, what the data itself passes over: folders that data.labels does not list
    first_fault: str = ""
    repeated: int = 0  # records whose text and label came before
    contradicted: int = 0  # texts that have more than one label
    example: str = ""  # such a text
    firsts: int = 0  # different first texts, where records are pairs
    sharing: int = 0  # pairs whose first text came before, with another second one
    marked: int = 0  # records whose text marks two nouns, as those of a relation are
    tests: Sequence[TestSet] = ()
    planned: bool = False  # no recipe yet: the one that is written here may leave faults out

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
            told = f"{self._faulty}, the first: {self.first_fault}{self._encoded}"
            if not self.planned:
                found.append(f"{told} (data.faults: drop leaves them out)")
            elif self.fault_count > OFTEN * (self.records + self.fault_count):
                found.append(f"{told} (more than {OFTEN:.0%}: mend the file)")
        if self.records and self.records < len(self.counts) * 3:
            found.append(f"{self.records} records are too few for {len(self.counts)} labels")
        elif self.parted < 1 + len(self._drawn):
            found.append(too_few(self.records, self.parted, self._drawn, "group" if self.grouped else "source"))
        found += [
            f"{test.name} has labels that training lacks: {', '.join(test.strange)}"
            for test in self.tests
            if test.strange
        ]
        if self.data.faults == "error":
            found += [test.first_fault for test in self.tests if test.first_fault]
        return found + self._against_recipe

    @property
    def _against_recipe(self) -> list[str]:
        """What a recipe's own rules refuse."""
        if self.planned:
            return []
        data, shared = self.data, {test.name: (test.met, test.records) for test in self.tests}
        kind = data.tokens.kind
        long = beyond(self.tokens, data.max_length, texts="texts", tokens=kind, remedy="data.too_long: truncate")
        return overlapping(data.overlap, shared, self.unmet, records="texts") + long

    @property
    def notes(self) -> list[str]:
        """What is worth knowing."""
        found = []
        if self.drops:
            found.append(
                f"{self._faulty} and left out by data.faults: drop, the first: {self.first_fault}{self._encoded}"
            )
        if self.imbalance > UNEVEN:
            found.append(
                f"the commonest label has {self.imbalance:.1f} times the records of the rarest: data.balance: weights"
            )
        rare = [label for label, count in self.counts.items() if count < FEW]
        if rare:
            found.append(f"fewer than {FEW} records of {', '.join(rare[:8])}{' …' if len(rare) > 8 else ''}")
        if self.contradicted:
            found.append(f"{self.contradicted:,} texts have more than one label, such as {self.example!r}")
        if self.wants_group:
            pairs = "1 pair has" if self.sharing == 1 else f"{self.sharing:,} pairs have"
            group = f"data.columns.group: {quoted(self.data.columns.text)}"
            found.append(f"{pairs} the first text of another one: {group} holds them out together")
        if self.repeated:
            found.append(f"{self.repeated:,} records repeat another one, label and all")
        found += [
            f"{test.met:,} of {test.records:,} texts of {test.name} are in the training records too (data.overlap)"
            for test in self.tests
            if test.met
        ]
        return found + self._held_out

    @property
    def fault_count(self) -> int:
        """Lines that are no records, without those that the data itself passes over."""
        return len(self.faults) - self.skipped

    @property
    def drops(self) -> bool:
        """Whether the recipe that is written here leaves faults out."""
        return self.planned and bool(self.first_fault) and not self.problems

    @property
    def _faulty(self) -> str:
        return "1 line is no record" if self.fault_count == 1 else f"{self.fault_count:,} lines are no records"

    @property
    def _encoded(self) -> str:
        return ENCODED if NOT_UTF8 in self.faults.counts and self.data.encoding == "utf-8" else ""

    @property
    def _held_out(self) -> list[str]:
        """What is to be said of the splits that training will hold out."""
        names = " and ".join(self._drawn)
        share = self.data.hold_out
        count = min(max(1, round(share * self.records)), HELD_OUT_AT_MOST)
        if not names or len(self.counts) < 2:
            return []
        found = []
        larger = min(0.2, math.ceil(100 * ROUGH / self.records) / 100)
        if count < ROUGH:
            advice = f"data.hold_out: {larger:g} (now {share:g}), or" if larger > share else "give"
            records = "record" if count == 1 else "records"
            found.append(
                f"{names}: about {count} {records} held out of train, so figures are rough: {advice} files of your own"
            )
        # A record is held out by chance, with the probability `share`.
        absent = [label for label, records in self.counts.items() if (1 - share) ** records > ABSENT]
        if absent:
            found.append(f"{names}: may have no record of {', '.join(absent[:8])}{' …' if len(absent) > 8 else ''}")
        if self.rare and self.data.labels is None and not self.planned:
            rare = f"{', '.join(self.rare[:8])}{' …' if len(self.rare) > 8 else ''}"
            told = f"train: may have no record of {rare}, where all are held out"
            found.append(f"{told}: training stops then, unless data.labels lists every label")
        return found

    @property
    def _drawn(self) -> list[str]:
        """The splits that training will hold out."""
        return drawn(self.data, beside=bool(self.tests))

    @property
    def rare(self) -> list[str]:
        """The labels that so few texts or groups have that all of them may be held out of training."""
        return [label for label in self.counts if self.units.get(label, 0) < FEW and self._drawn]

    @property
    def marks(self) -> bool:
        """Whether texts mark two nouns whose relation is the label."""
        return 2 * self.marked > self.records

    @property
    def wants_group(self) -> bool:
        """Whether pairs with the same first text are many enough to leak from one side to the other, and not all of them."""
        columns = self.data.columns
        return columns.second is not None and columns.group is None and self.sharing > 0 and self.firsts >= FEW

    @property
    def relations(self) -> bool:
        """Whether the labels are relations with their direction."""
        return self.data.format == "relations" or (self.marks and any(map(DIRECTED.fullmatch, self.counts)))

    def length(self, share: float) -> int:
        """So many words that this share of the texts has no more."""
        return self.words.within(share)

    @property
    def unspaced(self) -> bool:
        """Whether words are written without spaces; marks around nouns can only be kept whole among words."""
        return unspaced(script_shares(self.letters)) and not self.marks

    @property
    def max_length(self) -> int:
        """A limit of tokens under which 95 of 100 texts stay whole."""
        lengths = self.characters if self.unspaced else self.words
        return max(8, math.ceil(lengths.within(0.95) / 8) * 8)

    def recipe(self, folder: Path | None = None) -> str:
        """A recipe for these records, which will lie in ``folder``: paths in it start there."""
        columns, data = self.data.columns, self.data
        named = {name: getattr(columns, name) for name in ("text", "label", "second")}
        named["group"] = columns.text if self.wants_group else columns.group
        default = {"text": "text", "label": "label", "second": None, "group": None}
        chosen = [f"{name}: {quoted(value)}" for name, value in named.items() if value != default[name]]
        about = f"Labels for {Path(self.path).name}."
        lines = [
            f"about: {quoted(about)}",
            "task: classify",
            "data:",
            f"  train: {quoted(seen_from(folder, self.path))}",
        ]
        lines += [f"  test: {quoted(seen_from(folder, self.tests[0].name))}"] if self.tests else []
        lines += [f"  columns: {{{', '.join(chosen)}}}"] if chosen else []
        lines += [f"  format: {data.format}"] if data.format else []
        lines += [f"  encoding: {data.encoding}"] if data.encoding != "utf-8" else []
        lines += [f"  labels: [{', '.join(map(quoted, self.counts))}]"] if self.rare else []
        lines += [f"  faults: drop  # {self._faulty}"] if self.drops else []
        kept = f", whole: [{', '.join(map(quoted, MARKS))}]" if self.marks else ""
        lines += [
            "  tokens: {kind: characters}"
            if self.unspaced
            else f"  tokens: {{kind: words, lower: true, min_count: 2{kept}}}",
            f"  max_length: {self.max_length}",
            "  too_long: truncate",
        ]
        lines += ["  balance: weights"] if self.imbalance > UNEVEN else []
        name = {"aspects": "atae_lstm, variant: atae, scorer: summed", "relations": "att_blstm"}.get(data.format or "")
        lines += [f"model: {{name: {name or 'attentive_classifier'}, embedding: 128, hidden: 128, dropout: 0.3}}"]
        lines += [self._training, f"metrics: [{'relation_f1, ' * self.relations}accuracy, f1]"]
        return "\n".join(lines) + "\n"

    @property
    def _training(self) -> str:
        """``train`` of a recipe: an epoch of few records has few updates, so there are more epochs, and larger steps."""
        updates = max(1, math.ceil(self.records * (1 - 2 * self.data.hold_out) / BATCH))  # an epoch
        epochs = min(max(10, math.ceil(UPDATES / updates)), MOST_EPOCHS)
        patience = min(max(3, math.ceil(PATIENCE / updates)), epochs // 2)
        rate = "3e-3" if epochs > 10 else "1e-3"
        # Of few records many states have the best accuracy there is, and the first of them has hardly learnt.
        watch = "accuracy" if self.data.hold_out * self.records >= FINE else "loss"
        return (
            f"train: {{epochs: {epochs}, batch_records: {BATCH}, lr: {rate}, watch: {watch}, stop_after: {patience}}}"
        )

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
    *,
    planned: bool = False,
) -> LabelSurvey:
    """Count what a file or folder of labelled texts holds; ``planned`` where ``data`` is no recipe's, but to become one."""
    found = LabelSurvey(str(path), data, planned=planned)
    counts: Counter[str] = Counter()
    labels: dict[int, str] = {}  # hash of a text → its first label
    contradicted: set[int] = set()
    firsts: set[int] = set()
    units: defaultdict[str, set[int]] = defaultdict(set)  # of a label, what is held out together: the first few
    parted: set[int] = set()  # of all labels
    count = counting(data.tokens) if not planned and data.too_long == "error" else None
    for number, item in enumerate(scan(path, data), start=1):
        if number % EVERY == 0:
            progress("reading", number, None)
        if isinstance(item, Fault):
            found.faults.add(item)
            if item.skipped:
                found.skipped += 1
            else:
                found.first_fault = found.first_fault or str(item.error)
            continue
        counts[item.target] += 1
        found.words.add([_words(item)])
        found.characters.add([sum(map(len, _texts(item)))])
        found.letters.update(chain.from_iterable(_texts(item)))
        found.tokens.add([sum(map(count, _texts(item)))] if count is not None else [])
        # The recipe that is written here may make groups of first texts.
        together = item.group or (item.first if planned else None) or item.source
        if len(units[item.target]) < FEW:
            units[item.target].add(hash(together))
        if len(parted) < FEW:
            parted.add(hash(item.group or item.source))
        found.grouped = found.grouped or item.group is not None
        found.marked += not unmarked(_texts(item)[0])
        key = hash(item.source)
        if item.first is not None:
            again = hash(item.first) in firsts
            found.sharing += again and key not in labels
            firsts.add(hash(item.first))
        if key not in labels:
            labels[key] = item.target
        elif labels[key] == item.target:
            found.repeated += 1
        elif key not in contradicted:
            contradicted.add(key)
            found.example = found.example or " | ".join(_texts(item))[:60]
    if not counts:
        told = f"none: {found.faults}; the first: {found.first_fault}" if found.first_fault else "nothing"
        raise InputError(path, expected="at least one text with its label", found=f"{told}{found._encoded}")
    found.counts = {label: counts[label] for label in labels_in(Labelled("", label) for label in counts)}
    found.contradicted, found.firsts = len(contradicted), len(firsts)
    found.units, found.parted = {label: len(few) for label, few in units.items()}, len(parted)
    met = set[int]()
    found.tests = [_test(test, found, labels, met, count) for test in tests]
    found.unmet = len(labels) - len(met)
    return found


def _test(
    path: str | Path, survey: LabelSurvey, labels: dict[int, str], met: set[int], count: Callable[[str], int] | None
) -> TestSet:
    """A held-out file, compared with the hashes of training texts; those met in it are added to ``met``."""
    data, records, shared, found, first = survey.data, 0, 0, set[str](), ""
    for item in scan(path, data):
        if isinstance(item, Labelled):
            key = hash(item.source)
            records, shared = records + 1, shared + (key in labels)
            met.update([key] if key in labels else [])
            found.add(item.target)
            survey.tokens.add([sum(map(count, _texts(item)))] if count is not None else [])
        elif not item.skipped:
            first = first or str(item.error)
    strange = tuple(sorted(found - {*survey.counts, *(data.labels or ())}))
    return TestSet(str(path), records, shared, strange, first)


def _texts(record: Labelled) -> tuple[str, ...]:
    return record.source if isinstance(record.source, tuple) else (record.source,)


def _words(record: Labelled) -> int:
    return sum(len(WORD.findall(text)) for text in _texts(record))


# ----------------------------------------------------------------------------------------------------
# Which columns of a file hold a text and its label, when nobody said: told from the first rows.
#
# A column of labels has few different values, each met again and again; the text beside it is hardly ever the same twice.

LOOKED_AT = 20_000  # rows: many files are sorted by their label
FEWEST_ROWS = 20  # in fewer, what comes again may do so by chance
MOST_VALUES = 20
TIMES = 5  # how often a label is met in the mean, at least
LONGEST = 40  # characters of a label
# Of several columns with few values, the one that is called so is the label.
CALLED = frozenset({"label", "labels", "class", "category", "sentiment", "intent", "topic", "target"})


@dataclass(frozen=True)
class LabelledColumns:
    """The text's column and the label's, and how many different labels were seen in how many rows."""

    text: Name
    label: Name
    values: int
    rows: int

    def __str__(self) -> str:
        name = f"column {self.label}" if isinstance(self.label, int) else repr(self.label)
        return f"{name} has {self.values} different values in {self.rows:,} rows"


def labelled_columns(
    path: str | Path, format: str | None = None, among: Sequence[Name] | None = None
) -> LabelledColumns | None:
    """The text and label of a table, of JSONL or Parquet, if that is what it holds; ``among`` names the columns to choose from.

    None where no column has few values, or where not just one of the others holds texts: then it may be anything.
    """
    kind = format or unpacked(Path(path)).suffix.lower().removeprefix(".")
    if on_hub(path) or kind not in FORMATS or kind == "lines":
        return None
    try:
        names, rows = _rows(path, kind)
    except InputError:  # whoever reads the file says what is wrong with it
        return None
    if len(rows) < FEWEST_ROWS:
        return None
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names) if not among or name in among}
    labels = [name for name, values in columns.items() if _are_labels(values)]
    texts = [name for name, values in columns.items() if _are_texts(values)]
    if not labels or len(texts) != 1:
        return None
    label = next((name for name in labels if str(name).casefold() in CALLED), labels[-1])
    return LabelledColumns(texts[0], label, len(set(columns[label])), len(rows))


def _rows(path: str | Path, kind: str) -> tuple[list[Name], list[tuple[object, ...]]]:
    """The columns and the first rows. A first row that is like none below is taken for the header."""
    names = columns_of(path, kind)
    found = islice(scan_fields(path, names, format=kind), LOOKED_AT) if names else iter(())
    rows = [item.values for item in found if isinstance(item, Fields)]
    if rows and all(isinstance(name, int) for name in names):
        first, below = rows[0], rows[1:]
        again = any(row[place] == cell for row in below for place, cell in enumerate(first))
        short = all(cell.strip() and len(cell.split()) <= 3 for cell in first)
        if short and not again and len(set(first)) == len(first):
            return [*first], below
    return names, rows


def _are_labels(values: Sequence[object]) -> bool:
    names = {label_of(value) for value in values if not isinstance(value, list | dict)}
    if not 2 <= len(names) <= min(MOST_VALUES, len(values) // TIMES):
        return False
    return all(name is not None and 0 < len(name) <= LONGEST for name in names)


def _are_texts(values: Sequence[object]) -> bool:
    """Strings, most of them different, most of several words."""
    texts = [value for value in values if isinstance(value, str)]
    wordy = sum(len(text.split()) > 1 for text in texts)
    return 2 * len(set(texts)) > len(values) and 2 * wordy > len(values)
