"""Surveys patients with their visits: the data of the task ``visits``. No torch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from saccade.data.files.fields import COLUMNAR, Name, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding
from saccade.data.files.records import Fault, Fields
from saccade.data.splits import hold_out
from saccade.data.survey.columns import suffix_of
from saccade.data.survey.survey import Entry, Part, Section, Survey, epochs_for, listed, percent, several
from saccade.data.survey.tallies import Lengths, hashes
from saccade.data.visits.records import (
    PUBLISHED,
    TRUTH,
    Patient,
    Tables,
    VisitColumns,
    VisitData,
    days_of,
    file_of,
    header_of,
    histories,
    is_date,
    rows_of,
    scan,
)
from saccade.errors import InputError, SaccadeError

# What columns are called, without case, blanks and underscores.
CALLED = {
    "patient": ("patient", "patientid", "pid", "person", "personid", "subject", "subjectid", "mrn"),
    "time": ("time", "date", "datetime", "timestamp", "day", "days", "visitdate", "visittime", "startdate", "admittime",
             "charttime", "conditionstartdate"),
    "code": ("code", "codes", "icd", "icdcode", "icd9", "icd9code", "icd10", "icd10code", "diagnosis", "diagnoses", "dx",
             "concept", "conceptid", "conditionconceptid", "event", "snomed", "atc"),
}  # fmt: skip
OUTCOMES = (
    "outcome",
    "outcomes",
    "died",
    "death",
    "dead",
    "expired",
    "mortality",
    "readmitted",
    "readmission",
    "label",
    "target",
)
LOOKED_AT = 200  # rows from which columns and separators are guessed
SEPARATORS = ("|", ";", ",", " ")  # between codes of one cell
LATER = (0.05, 0.5)  # the share of patients who get a code later, of one that a recipe may predict
OLDEST = date(1900, 1, 1)
TELLING, MOST_RATE = (
    10,
    0.6,
)  # patients with a code, all with the outcome, while at most this share of all patients have it
RARE, UNEVEN, FIRSTS = 0.01, 1.5, 0.2
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3)  # of data.hold_out that are tried
BATCH, UPDATES, MOST_EPOCHS = 50, 600, 30


class VisitSurvey(Survey):
    kind, task, unit, expected, word = "visits", "visits", "patient", "patient with visits and an outcome", "code"
    roles = ("patient", "time", "code", "outcome", "visits")
    formats = tuple(PUBLISHED)
    tokenised = True

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        return (format is None and _published(file) is not None) or guessed_columns(file, format, encoding) is not None

    @classmethod
    def columns(cls, given: Mapping[str, Name]) -> dict[str, Any]:
        return {role: str(name).split(",") if role == "outcome" else name for role, name in given.items()}

    # Reading ----------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Guess the columns, what separates codes, and what is predicted."""
        self.guesses: list[str] = []
        self.recorded: list[Patient] = []
        self.visits, self.gaps = Lengths(), Lengths()  # per patient; days between visits, rounded down
        self.patients_of: Counter[str] = Counter()  # code → patients who have it
        self.cases_of: Counter[str] = Counter()  # code → those of them with the first outcome
        self.span: list[tuple[float, str]] = []  # the first and the last time
        if self.has_recipe:
            return
        data: VisitData = self.data
        data = replace(data, format=data.format or _published(self.files))  # type: ignore[arg-type]
        if data.format == "mimic":
            columns = replace(data.columns, outcome=("hospital_expire_flag",)) if not self.named else data.columns
            admissions = next(
                file.name for file in Path(self.files).iterdir() if file.name.lower().startswith("admissions.")
            )
            data = replace(data, columns=columns, outcomes=admissions)
            self.guesses.append(
                "MIMIC codes diagnoses at discharge: those of the last admission may reveal the outcome"
            )
        elif data.format != "omop":
            columns = (
                guessed_columns(self.files, data.format, data.encoding, data.columns if self.named else None)
                or data.columns
            )
            data = replace(data, columns=columns, separator=guessed_separator(self.files, data.format, columns.code))
        if data.outcomes is None and (data.format == "omop" or not data.columns.outcome[0]):
            data = self._with_target(replace(data, columns=replace(data.columns, outcome=VisitColumns().outcome)))
        self.data = data

    def _with_target(self, data: VisitData) -> VisitData:
        """The data with a code to predict: the most frequent one that enough patients get after their first visit."""
        blank, later, patients = replace(data, target=("\0",)), Counter[str](), 0
        file = file_of(self.files, data)
        for item in histories(rows_of(file, blank), blank, Tables.of(Path(self.files), blank)):
            if not isinstance(item, Patient | Fault):
                patients += 1
                before = set(item[1][0].codes)
                later.update({code for visit in item[1] for code in visit.codes} - before)
        least, most = (share * patients for share in LATER)
        likely = [(code, count) for code, count in later.most_common() if least <= count <= most and count > 1]
        if not likely:
            expected = "a column of outcomes (--column outcome=NAME), or a code that some patients get later"
            raise InputError(file, expected=expected, found=f"neither in {several(patients, 'patient')}")
        code, count = likely[0]
        others = f", or one of {listed([name for name, _ in likely[1:]])}" if likely[1:] else ""
        self.guesses.append(
            f"no outcome is given: the recipe predicts whether {code} comes later, as in {count:,} of {patients:,} patients; "
            f"set data.target to the code that you mean{others}"
        )
        return replace(data, target=(code,))

    def sides(self) -> Sequence[str]:
        return ("visit",)

    def scan(self, files: Any) -> Iterator[Patient | Fault]:
        return scan(files, self.data)[1]

    def entry(self, record: Patient) -> Entry:
        key = "; ".join(f"{visit.time} {' '.join(visit.codes)}" for visit in record.source)
        return Entry((tuple(visit.codes for visit in record.source),), key, record.target, record.group)

    def count(self, record: Patient, part: Part) -> None:
        last = record.target[-1] if isinstance(record.target[0], tuple) else record.target
        part.counts.update(name for name, value in zip(self.data.outcome_names, last, strict=True) if value)
        days = [days_of(visit.time) for visit in record.source]
        part.numbers["visits"] += len(days)
        part.numbers["single"] += len(days) == 1
        part.numbers["codes"] += sum(len(visit.codes) for visit in record.source)
        if part.files is not self.files:
            return
        codes = {code for visit in record.source for code in visit.codes}
        self.patients_of.update(codes)
        self.cases_of.update(codes if last[0] else ())
        self.visits.add([len(days)])
        self.gaps.add(int(after - before) for before, after in pairwise(days))
        for visit, day in zip(record.source, days, strict=True):
            dated = is_date(visit.time)
            part.numbers["undated"] += not dated
            part.numbers["future"] += dated and day > date.today().toordinal() + 1
            part.numbers["old"] += dated and day < OLDEST.toordinal()
            part.numbers["firsts"] += visit.time[4:10] in ("-01-01", "0101")
        ends = sorted([*self.span, *((day, visit.time) for day, visit in zip(days, record.source, strict=True))])
        self.span = [ends[0], ends[-1]]
        part.numbers["visits of cases"] += len(days) * bool(last[0])
        self.recorded.append(record)

    def finish(self) -> None:
        """Without a recipe, hold out enough patients that some have the outcome and some do not."""
        numbers, names = self.train.numbers, self.data.outcome_names
        self.rates = {name: self.train.counts[name] / self.train.records for name in names}
        cases = self.train.counts[names[0]]
        self.telling = [
            code for code, count in self.patients_of.most_common()
            if count == self.cases_of[code] >= TELLING and self.rates[names[0]] <= MOST_RATE
        ]  # fmt: skip
        others = self.train.records - cases
        of_cases = numbers["visits of cases"] / max(1, cases)
        self.lengths = (of_cases, (numbers["visits"] - numbers["visits of cases"]) / max(1, others))
        self.unheld = True
        given = {name: self.recorded for name in ("valid", "test") if name not in self.drawn}
        for share in (self.data.hold_out, *(share for share in SHARES if share > self.data.hold_out)):
            try:
                splits = hold_out({"train": self.recorded, **given}, share, self.seed)
            except SaccadeError:
                continue
            if all(self._both(part) for part in (splits.train, splits.valid, splits.test)):
                self.unheld = share > self.data.hold_out and self.has_recipe
                self.data = self.data if self.has_recipe else replace(self.data, hold_out=share)
                return

    def _both(self, records: Iterable[Patient]) -> bool:
        """Whether, for each outcome, some patients have it and some do not."""
        ends = np.array([np.atleast_2d(np.asarray(record.target))[-1] for record in records])
        return bool((ends.min(axis=0) < ends.max(axis=0)).all())

    # The report -------------------------------------------------------------------------------------------------------

    def headline(self) -> str:
        numbers = self.train.numbers
        read = f"{several(self.train.records, 'patient')} with {several(numbers['visits'], 'visit')}"
        first, last = (time for _, time in self.span)
        return f"{self.train.name}: {read}, {several(len(self.patients_of), 'different code')}, {first} to {last}"

    def own_sections(self) -> Iterator[Section]:
        rates = [(name, f"{self.train.counts[name]:,}", percent(rate)) for name, rate in self.rates.items()]
        yield Section("Outcomes", [("", "patients", "rate"), *rates])
        rows = [("visits per patient", self.visits), ("days between visits", self.gaps)]
        shares = (0.5, 0.95, 1.0)
        table = [(name, f"{of.mean:.1f}", *(f"{of.within(share):,}" for share in shares)) for name, of in rows]
        yield Section("Visits", [("", "mean", "median", "95 %", "most"), *table])
        common = [(code, f"{n:,}", percent(n / self.train.records)) for code, n in self.patients_of.most_common(10)]
        yield Section("Codes of most patients", [("", "patients", "share"), *common])

    def checks(self) -> Iterator[tuple[int, str]]:
        numbers = self.train.numbers
        yield self.repeated, "patients have the same visits and outcomes as an earlier one"
        yield numbers["single"], "patients have one visit only"
        yield numbers["future"], "visits are in the future"
        yield numbers["old"], f"visits are before {OLDEST.year}"
        yield len(self.telling), f"codes occur only in patients with the outcome: {listed(self.telling) or 'none'}"

    def test_checks(self, part: Part) -> Iterator[tuple[int, str]]:
        same = int(np.isin(hashes(part.units), hashes(self.train.units)).sum()) if part.grouped else 0
        yield same, "have the identifier of a patient in the training file"

    def own_problems(self) -> Iterator[str]:
        for name, rate in self.rates.items():
            if rate in (0.0, 1.0):
                yield f"all {self.train.records:,} patients are {'with' if rate else 'without'} the outcome {name}"

    def own_notes(self) -> Iterator[str]:
        numbers, records = self.train.numbers, self.train.records
        yield from self.guesses
        if self.train.skipped:
            yield f"{several(self.train.skipped, 'patient')} left out: {self.train.faults}"
        for name, rate in self.rates.items():
            if 0 < rate < RARE:
                yield f"only {percent(rate)} of the patients have the outcome {name}: auprc tells more than auc"
        if self.telling:
            yield (
                f"{listed(self.telling)}: at least {TELLING} patients have it, all of them with the outcome; if a code records "
                "the outcome itself, leave it out, or predict it with data.target"
            )
        with_, without = self.lengths
        if min(with_, without) and max(with_ / without, without / with_) > UNEVEN:
            yield (
                f"patients with the outcome have {with_:.1f} visits, others {without:.1f}: the number of visits alone is "
                "informative, so compare with visit_logistic"
            )
        if numbers["firsts"] > FIRSTS * numbers["visits"]:
            yield f"{percent(numbers['firsts'] / numbers['visits'])} of the visits are on 1 January: is only their year known?"
        if numbers["future"] or numbers["old"]:
            strange = several(numbers["future"] + numbers["old"], "visit")
            yield f"{strange} in the future or before {OLDEST.year}: moved for privacy, or wrong"
        if over := self.visits.above(self.data.max_visits):
            yield f"{several(over, 'patient')} with more than data.max_visits={self.data.max_visits} visits: the last are read"
        if numbers["single"] == records:
            yield "every patient has one visit only: is the column of times the right one?"
        if self.unheld and self.drawn and not self.problems:
            splits = " or ".join(self.drawn)
            yield (
                f"{splits} may have only patients with, or only without, the outcome, and then auc is not defined: give your "
                "own files, or raise data.hold_out"
            )

    def own_json(self) -> dict[str, Any]:
        numbers = {name: self.train.numbers[name] for name in ("visits", "codes", "single", "future", "old")}
        spans = {"visits_per_patient": self.visits.to_json(), "days_between_visits": self.gaps.to_json()}
        rates = {name: round(rate, 4) for name, rate in self.rates.items()}
        times = [time for _, time in self.span]
        return {**numbers, **spans, "outcomes": rates, "times": times, "telling_codes": self.telling}

    # The recipe -------------------------------------------------------------------------------------------------------

    def recommend(self) -> dict[str, Any]:
        records, data = self.train.records, self.data
        epochs, _ = epochs_for(records, data.hold_out, batch=BATCH, updates=UPDATES, fewest=5, most=MOST_EPOCHS)
        own = {"separator": data.separator, "outcomes": data.outcomes, "target": list(data.target)}
        return {
            "data": {name: value for name, value in own.items() if value} | {"min_count": 5 if records >= 1000 else 2},
            "model": {"name": "retain", "embedding": 64, "alpha": 64, "beta": 64, "time": "log"},
            "train": {
                "epochs": epochs, "batch_records": BATCH, "batch_tokens": None, "lr": 0.002, "weight_decay": 0.0001,
                "watch": "loss", "stop_after": max(3, epochs // 4),
            },
            "metrics": ["auc", "auprc", "nll"],
        }  # fmt: skip


# What is guessed ------------------------------------------------------------------------------------------------------


def _published(file: Any) -> str | None:
    """The published format that a file or folder has."""
    path = Path(file)
    if on_hub(file) or not path.exists():
        return None
    tables = {each.name.lower().split(".")[0] for each in path.iterdir()} if path.is_dir() else set[str]()
    if {"diagnoses_icd", "admissions"} <= tables:
        return "mimic"
    names = {str(name).lower() for name in _head(file, None)[0]}
    omop = "condition_occurrence" in tables or {known[0] for known in PUBLISHED["omop"]} <= names
    return "omop" if omop else None


def _head(file: Any, format: str | None, encoding: Encoding = "utf-8") -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of a file's columns, and its first rows; nothing where it cannot be read as a table with a header."""
    if on_hub(file) or not Path(file).is_file() or (format or suffix_of(str(file))) not in COLUMNAR:
        return [], []
    try:
        names = [name for name in header_of(Path(file), format, encoding) if name]
        items = islice(scan_fields(file, names, format=format, encoding=encoding, optional=names), LOOKED_AT)
        return names, [item.values for item in items if isinstance(item, Fields)]
    except InputError:
        return [], []


def guessed_columns(
    file: Any, format: str | None, encoding: Encoding = "utf-8", given: VisitColumns | None = None
) -> VisitColumns | None:
    """The columns of a long table by their names, or of a file of whole patients; ``given`` ones stay. None where there are
    none. An outcome of "" means that no column holds one."""
    names, rows = _head(file, format, encoding)
    plain = {re.sub(r"[\s_-]", "", name).lower(): name for name in reversed(names)}
    usual = VisitColumns()
    found = {role: next((plain[name] for name in known if name in plain), None) for role, known in CALLED.items()}
    if given is not None:
        for role in CALLED:
            found[role] = getattr(given, role) if getattr(given, role) != getattr(usual, role) else found[role]
    whole = (given or usual).visits in names
    if not whole and None in found.values():
        return None
    outcome: tuple[str, ...] = given.outcome if given is not None else usual.outcome
    if outcome == usual.outcome:
        taken = {*found.values(), (given or usual).visits}
        binary = [
            name for place, name in enumerate(names)
            if name not in taken and rows and all(_truth(row[place]) for row in rows)
        ]  # fmt: skip
        named = [name for name in binary if re.sub(r"[\s_-]", "", name).lower() in OUTCOMES]
        outcome = tuple(named[:1] or (binary if len(binary) == 1 else [""]))
    columns = {role: name or getattr(usual, role) for role, name in found.items()}
    return replace(given or usual, **columns, outcome=outcome)


def _truth(value: Any) -> bool:
    values = value if isinstance(value, list) and value else [value]
    return all(str(one).strip().lower() in TRUTH for one in values)


def guessed_separator(file: Any, format: str | None, column: str) -> str | None:
    """The separator of codes, if cells of this column hold several; parts between commas or blanks must contain digits."""
    names, rows = _head(file, format)
    cells = [str(row[names.index(column)]) for row in rows] if column in names else []
    for separator in SEPARATORS:
        parts = [part.strip() for cell in cells if separator in cell.strip() for part in cell.strip().split(separator)]
        several = sum(separator in cell.strip() for cell in cells) > 0.1 * len(cells)
        if several and (separator in "|;" or all(re.search(r"\d", part) and " " not in part for part in parts)):
            return separator
    return None
