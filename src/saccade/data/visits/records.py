"""Patients with their visits: the records of the task ``visits``, from a made cohort, from files or from memory. No torch.

    a long table      patient, time, code (one code per row, or several with a separator between them): TSV, CSV, JSONL, Parquet
    omop              the table condition_occurrence, or its folder:  person_id, condition_start_date, condition_concept_id
    mimic             a folder with DIAGNOSES_ICD and ADMISSIONS:  subject_id, hadm_id, icd_code and hadm_id, admittime
    one per patient   {"patient": "17", "visits": [{"time": "2020-01-07", "codes": ["I10", "E11"]}, …], "outcome": 1}

Outcomes are columns of the same table or of a second one (``outcomes``), or "one of these codes comes later" (``target``). What
comes later must not be seen: of a patient who gets such a code only the visits before its first time are read, of one who never
does only the visits before the last one. With ``outcome_time`` the time of an outcome in the second table ends what is read.

A time is a date, a date with a time of day, or a number of days.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files.fields import columns_of, first_row, format_of, scan_fields
from saccade.data.files.lines import Encoding
from saccade.data.files.records import Fault, Fields, fault
from saccade.data.memory import WHERE, WRONG_SHAPE, missing, names_of, rows_of_table, short
from saccade.data.paths import locate
from saccade.data.reading import FaultCounts, load_splits, read_records, valid_records
from saccade.data.splits import Splits
from saccade.data.toy.visits import Cohort
from saccade.errors import InputError

LONGEST = 1e7  # days; a larger number is not a time
COMPACT = re.compile(r"(18|19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")  # a date, not a number of days
TIME = "a date (2020-01-31) or a number of days"
TRUTH = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1, "0.0": 0, "1.0": 1}
# What published tables call the patient, the time (or the visit) and the code.
PUBLISHED: dict[str, tuple[tuple[str, ...], ...]] = {
    "omop": (("person_id",), ("condition_start_date",), ("condition_concept_id",)),
    "mimic": (("subject_id",), ("hadm_id",), ("icd_code", "icd9_code")),
}
ACCEPTED = "patients (dicts with visits), or a table of patient, time and code"


@dataclass(frozen=True, slots=True, order=True)
class Visit:
    """The time of a visit, as written in the data, and its codes."""

    time: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Patient:
    """Visits in the order of their times; per outcome 0 or 1, or such a row per visit; the patient's name."""

    source: tuple[Visit, ...]
    target: tuple[Any, ...]
    group: str | None = None


@dataclass(frozen=True)
class VisitColumns:
    """The columns of a long table, or the keys of a record; a record with the key ``visits`` is a whole patient."""

    patient: str = "patient"
    time: str = "time"
    code: str = "code"
    outcome: tuple[str, ...] = ("outcome",)
    visits: str = "visits"


@dataclass(frozen=True)
class VisitData(DataConfig):
    """The ``data`` part of a recipe for patients. ``outcomes`` and ``names`` are looked for beside the file of visits."""

    paths: ClassVar[tuple[str, ...]] = (*DataConfig.paths, "outcomes", "names")
    rereads: ClassVar[tuple[str, ...]] = (
        *DataConfig.rereads, "columns", "separator", "outcomes", "outcome_time", "names", "name_columns", "min_visits",
        "max_visits", "too_long",
    )  # fmt: skip

    source: Literal["visits"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "omop", "mimic"] | None = None
    columns: VisitColumns = field(default_factory=VisitColumns)
    separator: str | None = None  # between codes, if one cell holds several
    outcomes: str | None = None  # a second table: the patients' outcomes
    outcome_time: str | None = None  # its column with the time of the outcomes
    target: tuple[str, ...] = ()  # the outcome: does one of these codes occur later?
    gap: float = 0.0  # days before an outcome that are not read either
    names: str | None = None  # a table of what codes are called
    name_columns: tuple[str, str] | None = None  # its columns of codes and names; the first two unless given
    at: Literal["end", "every"] = "end"  # outcomes are predicted after the last visit, or after every visit
    min_visits: int = 1  # patients with fewer are left out, and counted
    max_visits: int = 200
    too_long: TooLong = "truncate"  # only the last visits of a patient with more are read
    min_count: int = 1  # training patients that a code needs to be read
    visits: Cohort = field(default_factory=Cohort)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, gap=0, min_visits=1, max_visits=self.min_visits, min_count=1)
        if self.target and self.outcomes is not None:
            raise ValueError(f"outcomes must be left out if target is given: got {self.outcomes!r}")
        if self.outcome_time is not None and self.outcomes is None:
            raise ValueError(f"outcome_time must be left out without a table of outcomes: got {self.outcome_time!r}")
        if not self.columns.outcome:
            raise ValueError("columns.outcome must name at least one column: got none")

    @property
    def outcome_names(self) -> tuple[str, ...]:
        """The names of the outcomes."""
        return (" or ".join(self.target),) if self.target else self.columns.outcome

    def wanted(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns to read of a table with these ``names``: that of whole patients, or of a code per row."""
        own = () if self.target or self.outcomes is not None else self.columns.outcome
        whole = self.columns.visits in names
        return (
            self.columns.patient,
            *((self.columns.visits,) if whole else (self.columns.time, self.columns.code)),
            *own,
        )


# What a record is made of ---------------------------------------------------------------------------------------------

Outcome = tuple[tuple[Any, ...], str | None]  # a value per outcome, and the time


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of a row by name, and the line or position of the row."""

    fields: Mapping[str, Any]
    where: str | Path
    line: int | None = None
    place: str | None = None

    def error(self, name: str, expected: str, found: Any = None) -> InputError:
        shown = "nothing" if missing(found) or found in ("", [], ()) else short(found)
        field, line = (name, self.line) if self.place is None else (f"{self.place}: {name}", None)
        return InputError(self.where, line=line, field=field, expected=expected, found=shown)

    def fault(self, reason: str, *, expected: str, found: str, skipped: bool = False) -> Fault:
        return fault(
            self.line or 0, reason, self.where, expected=expected, found=found, place=self.place, skipped=skipped
        )

    def text(self, name: str, expected: str) -> str:
        """A field that must not be empty."""
        value = self.fields.get(name)
        if missing(value) or not str(value).strip():
            raise self.error(name, expected)
        return str(value).strip()


def days_of(time: str) -> float:
    """A time in days: since the year 1, or as many as the number says.

    >>> days_of("2020-01-31 12:00") - days_of("20200101"), days_of("2.5")
    (30.5, 2.5)
    """
    try:
        number = None if COMPACT.fullmatch(time) else float(time)
    except ValueError:
        number = None
    if number is None:
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is not None:  # times of several zones are compared
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        return moment.toordinal() + (moment - datetime.min).seconds / 86_400
    if not abs(number) < LONGEST:  # nan is not, either
        raise ValueError(f"expected {TIME}, found {time!r}")
    return number


def is_date(time: str) -> bool:
    """Whether a time is a date rather than a number of days."""
    try:
        float(time)
    except ValueError:
        return True
    return COMPACT.fullmatch(time) is not None


def _time(value: Any, name: str, row: Row, first: str | None = None) -> str:
    """The days of a time; raises unless it is a date or a number as the ``first`` time of the record is."""
    text = str(value).strip()
    try:
        days_of(text)
    except ValueError:
        raise row.error(name, TIME, value) from None
    if first is not None and is_date(text) != is_date(first):
        raise row.error(name, f"a {'date' if is_date(first) else 'number of days'}, as the record's {first}", value)
    return text


def _codes(value: Any, data: VisitData, names: Mapping[str, str]) -> tuple[str, ...]:
    """The codes without repeats, in order, each replaced by its name if it has one."""
    texts = [str(part).strip() for part in (value if isinstance(value, list | tuple) else [value]) if not missing(part)]
    if data.separator is not None:
        texts = [part.strip() for text in texts for part in text.split(data.separator)]
    return tuple(dict.fromkeys(names.get(text, text) for text in texts if text))


def _truths(values: Sequence[Any], data: VisitData, row: Row) -> tuple[int, ...]:
    for name, value in zip(data.columns.outcome, values, strict=True):
        if str(value).strip().lower() not in TRUTH:
            raise row.error(name, "0 or 1, true or false", value)
    return tuple(TRUTH[str(value).strip().lower()] for value in values)


def visits_of(value: Any, row: Row, data: VisitData, names: Mapping[str, str] | None = None) -> tuple[Visit, ...]:
    """Visits from a list of {"time", "codes"} or (time, codes), sorted by time; entries with equal times are merged."""
    if not isinstance(value, list | tuple) or not value:
        raise row.error(data.columns.visits, 'a list of visits, {"time": …, "codes": […]}', value)
    events: list[tuple[str, Sequence[str]]] = []
    for number, visit in enumerate(value, start=1):
        name = f"{data.columns.visits}[{number}]"
        pair = (visit.get("time"), visit.get("codes")) if isinstance(visit, Mapping) else visit
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], list | tuple):
            raise row.error(name, 'a visit, {"time": …, "codes": […]}', visit)
        first = events[0][0] if events else None
        events.append((_time(pair[0], f"{name}.time", row, first), _codes(pair[1], data, names or {})))
    return _merged(events)


def _merged(events: Iterable[tuple[str, Sequence[str]]]) -> tuple[Visit, ...]:
    visits: dict[float, tuple[str, dict[str, None]]] = {}
    for time, codes in events:
        visits.setdefault(days_of(time), (time, {}))[1].update(dict.fromkeys(codes))
    return tuple(Visit(visits[day][0], tuple(visits[day][1])) for day in sorted(visits))


def record_of(
    patient: str | None, visits: tuple[Visit, ...], outcomes: Sequence[Outcome], data: VisitData, row: Row
) -> Patient | Fault:
    """A patient, without the visits at or after the time of the predicted outcome, or within the ``gap`` before it.

    The outcome is positive if any of ``outcomes`` is; its time is that of the first positive one. A patient without an
    outcome, or with too few visits, is excluded: a fault that is skipped and counted, at the patient's first ``row``.
    """
    if data.target:
        hits = [visit.time for visit in visits if set(data.target).intersection(visit.codes)]
        # Of a patient who never gets the code, the last visit is the one at which it might have come.
        outcomes = [((int(bool(hits)),), hits[0] if hits else visits[-1].time)]
    if not outcomes:
        return row.fault("without an outcome", expected="an outcome", found="none", skipped=True)
    values = [value for value, _ in outcomes]
    target = values[0] if len(values) == 1 else tuple(map(max, zip(*values, strict=True)))
    times = [days_of(time) for value, time in outcomes if time is not None and any(value) == any(target)]
    other = next((time for _, time in outcomes if time is not None and is_date(time) != is_date(visits[0].time)), None)
    if other is not None:
        found = f"{visits[0].time} and the outcome's {other}"
        return row.fault("with times of two kinds", expected="dates only, or numbers of days only", found=found)
    if times:
        visits = tuple(visit for visit in visits if days_of(visit.time) < min(times) - data.gap)
    if len(visits) < data.min_visits:
        reason, expected = "with too few visits before the outcome", f"{data.min_visits} visits"
        return row.fault(reason, expected=expected, found=str(len(visits)), skipped=True)
    return Patient(visits, target, patient)


History = tuple[
    str | None, tuple[Visit, ...], Sequence[Outcome], Row
]  # the patient, all visits, outcomes, the first row


def patients(rows: Iterable[Row | Patient | Fault], data: VisitData, tables: Tables) -> Iterator[Patient | Fault]:
    """Every patient and every fault."""
    data = replace(data, target=tuple(tables.names.get(code, code) for code in data.target))
    for item in histories(rows, data, tables):
        if isinstance(item, Patient | Fault):
            yield item
        else:
            patient, visits, outcomes, row = item
            yield record_of(patient, visits, outcomes, data, row)


def histories(
    rows: Iterable[Row | Patient | Fault], data: VisitData, tables: Tables
) -> Iterator[History | Patient | Fault]:
    """Patients with all their visits: one per row, or the rows of a long table grouped by patient."""
    columns, names = data.columns, tables.names
    events: dict[str, list[tuple[str, Sequence[str]]]] = {}
    first: dict[str, Row] = {}  # of each patient
    outcomes = dict(tables.outcomes)
    own = not data.target and data.outcomes is None
    for row in rows:
        if not isinstance(row, Row):
            yield row
            continue
        try:
            values = [row.fields.get(column) for column in columns.outcome] if own else []
            if columns.visits in row.fields:
                name = str(row.fields[columns.patient]) if row.fields.get(columns.patient) is not None else ""
                visits = visits_of(row.fields[columns.visits], row, data, names)
                stated = [(_outcomes(values, visits, data, row), None)] if own else outcomes.get(name, [])
                yield name or None, visits, stated, row
                continue
            name = row.text(columns.patient, "a patient")
            earlier = events[name][0][0] if name in events else None
            time = tables.time(row.fields.get(columns.time), columns.time, row, earlier)
            codes = _codes(row.fields.get(columns.code), data, names)
            if not codes:
                raise row.error(columns.code, "a code")
            if own:
                outcomes.setdefault(name, []).append((_truths(values, data, row), time))
            events.setdefault(name, []).append((time, codes))
            first.setdefault(name, row)
        except InputError as error:
            yield Fault(row.line or 0, f"where {error.expected} was expected", error)
    for name, listed in events.items():
        known: Sequence[Outcome] = outcomes.get(name, [])
        if own and len({value for value, _ in known}) == 1:
            known = [(known[0][0], None)]  # the same value in all rows describes the patient and has no time
        yield name, _merged(listed), known, first[name]


def _outcomes(values: list[Any], visits: Sequence[Visit], data: VisitData, row: Row) -> tuple[Any, ...]:
    """The outcomes that a whole patient holds: one of each kind, or a list with one per visit."""
    if not any(isinstance(value, list | tuple) for value in values):
        return _truths(values, data, row)
    if data.at == "end" or any(not isinstance(value, list | tuple) or len(value) != len(visits) for value in values):
        expected = f"one outcome, or with data.at: every one for each of {len(visits)} visits"
        raise row.error(data.columns.outcome[0], expected, values[0])
    # Outcomes stand in the order of the visits as given; visits are in the order of their times.
    given = row.fields[data.columns.visits]
    days = [days_of(str(visit["time"] if isinstance(visit, Mapping) else visit[0]).strip()) for visit in given]
    truths = [_truths(one, data, row) for one in zip(*values, strict=True)]
    return tuple(truths[number] for number in sorted(range(len(days)), key=days.__getitem__))


# Files ---------------------------------------------------------------------------------------------------------------


def load_visits(data: VisitData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    return load_splits(
        data, folder, seed, lambda value: records_of([value], data)[0], lambda path, split: gather(path, data)
    )


def read_file(path: Path, data: VisitData, dropped: FaultCounts | None = None) -> list[Patient]:
    """The patients of one more file or folder, read strictly unless ``dropped`` counts malformed ones."""
    return gather(path, data, dropped, strict=dropped is None)[0]


def gather(
    path: str | Path, data: VisitData, dropped: FaultCounts | None = None, *, strict: bool = False
) -> tuple[list[Patient], list[str]]:
    """The patients of a file or folder, and warnings about them."""
    file, found = scan(path, data)
    expected = "a patient with visits and an outcome"
    return read_records(file, found, data, dropped, strict=strict, expected=expected, called="rows and patients")


def scan(path: str | Path, data: VisitData) -> tuple[Path, Iterator[Patient | Fault]]:
    """The file with the codes, and every patient and every fault of it."""
    file, tables = file_of(path, data), Tables.of(Path(path), data)
    return file, patients(rows_of(file, data), data, tables)


def file_of(path: str | Path, data: VisitData) -> Path:
    """The file with the codes: of a folder in a published format, the table that has them."""
    folder, table = Path(path), {"mimic": "DIAGNOSES_ICD", "omop": "condition_occurrence"}.get(str(data.format))
    return folder if table is None or (data.format == "omop" and not folder.is_dir()) else _in_folder(folder, table)


def rows_of(file: Path, data: VisitData) -> Iterator[Row | Fault]:
    """The rows of a file, their fields called as in ``data.columns``."""
    published = PUBLISHED.get(str(data.format))
    called = data.wanted(() if published else header_of(file, data.format, data.encoding))
    wanted = called if published is None else (*(_named(file, known, data) for known in published), *called[3:])
    return _scan(file, wanted, called, data, optional=called[:1])


def _scan(
    file: Path, wanted: Sequence[str], called: Sequence[str], data: VisitData, optional: Sequence[str] = ()
) -> Iterator[Row | Fault]:
    format = None if str(data.format) in PUBLISHED or optional == () else data.format
    for found in scan_fields(file, wanted, format=format, encoding=data.encoding, optional=optional):
        if isinstance(found, Fault):
            yield found
        else:
            yield Row(dict(zip(called, found.values, strict=True)), file, found.line, found.place)


@dataclass(frozen=True)
class Tables:
    """The contents of other tables: outcomes by patient, times of visits, names of codes."""

    outcomes: Mapping[str, list[Outcome]] = field(default_factory=dict)
    times: Mapping[str, str] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, data: VisitData) -> Tables:
        """The tables that ``data`` names beside a file of visits."""
        folder = path if path.is_dir() else path.parent
        outcomes: dict[str, list[Outcome]] = {}
        if data.outcomes is not None:
            file = locate(data.outcomes, folder)
            patient = _named(file, PUBLISHED.get(str(data.format), ((data.columns.patient,),))[0], data)
            when = [] if data.outcome_time is None else [data.outcome_time]
            for row in _pairs(file, (patient, *data.columns.outcome, *when), data):
                values = [row.fields[name] for name in data.columns.outcome]
                time = _time(row.fields[when[0]], when[0], row) if when else None
                outcomes.setdefault(row.text(patient, "a patient"), []).append((_truths(values, data, row), time))
        times: dict[str, str] | None = None
        if data.format == "mimic":
            file = _in_folder(path, "ADMISSIONS")
            times = _mapping(file, [_named(file, (name,), data) for name in ("hadm_id", "admittime")], data)
        if data.names is None:
            return cls(outcomes, times)
        file = locate(data.names, folder)
        return cls(
            outcomes, times, _mapping(file, data.name_columns or header_of(file, data.format, data.encoding)[:2], data)
        )

    def time(self, value: Any, name: str, row: Row, first: str | None) -> str:
        """The time of a row, or of the visit that it names, of the same kind as the patient's ``first``."""
        if self.times is None:
            return _time(value, name, row, first)
        if str(value).strip() not in self.times:
            raise row.error(name, "a visit of the table ADMISSIONS", value)
        return _time(self.times[str(value).strip()], name, row, first)


def _pairs(file: Path, wanted: Sequence[str], data: VisitData) -> Iterator[Row]:
    """The rows of a second table, read strictly."""
    for row in _scan(file, wanted, wanted, data):
        if isinstance(row, Fault):
            raise row.error
        yield row


def _mapping(file: Path, columns: Sequence[str], data: VisitData) -> dict[str, str]:
    rows = _pairs(file, columns, data)
    return {str(row.fields[columns[0]]).strip(): str(row.fields[columns[1]]).strip() for row in rows}


def header_of(file: Path, format: str | None, encoding: Encoding = "utf-8") -> list[str]:
    """The names of the columns; a table must have a header."""
    format = None if format in PUBLISHED else format
    first = first_row(file, format_of(file, format), encoding)
    return first if first is not None else [str(name) for name in columns_of(file, format, encoding)]


def _named(file: Path, known: Sequence[str], data: VisitData) -> str:
    """The column with one of the known names, in capitals or not."""
    there = header_of(file, data.format, data.encoding)
    name = next((name for name in there if name in known or name.lower() in known), None)
    if name is None:
        found = f"the columns {', '.join(there[:20])}"
        raise InputError(file, expected=f"a column {' or '.join(known)}", found=found)
    return name


def _in_folder(folder: Path, name: str) -> Path:
    """A table of a folder by its name, in capitals or not, packed or not."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    file = next((file for file in files if file.name.lower().split(".")[0] == name.lower()), None)
    if file is None:
        found = "no such file" if files else "no such folder"
        raise InputError(folder, expected=f"a folder with {name}.csv", found=found)
    return file


# Memory --------------------------------------------------------------------------------------------------------------


def records_of(given: Any, data: VisitData, dropped: FaultCounts | None = None) -> list[Patient]:
    """Patients from a list of records, or from a long table (a DataFrame, a dict of columns, a list of rows as dicts). Their
    outcomes stand beside them, or ``data.target`` tells."""
    if data.outcomes is not None:  # a table beside a file: without it, visits after the outcome would be read
        found, hint = (
            f"data.outcomes: {data.outcomes}",
            "set data.outcomes and data.outcome_time to null, or pass the file's name",
        )
        raise InputError(WHERE, expected="outcomes among the records in memory", found=found, hint=hint)
    counts = FaultCounts() if dropped is None else dropped
    rows = patients(_given(given, data), data, Tables())
    strict = dropped is None or dropped.skipped_only
    records = list(valid_records(rows, data, counts, strict=strict, called="rows"))
    if not records:
        raise InputError(WHERE, expected=ACCEPTED, found=f"none: dropped were {counts}" if counts else "none")
    return records


def _given(given: Any, data: VisitData) -> Iterator[Row | Patient | Fault]:
    if isinstance(given, str | bytes | Path) or not isinstance(given, Iterable):
        raise InputError(WHERE, expected=ACCEPTED, found=short(given))
    names = names_of(given)
    if names is not None:
        wanted = data.wanted(names)
        for fields in rows_of_table(given, names, wanted):
            yield Row(dict(zip(wanted, fields.values, strict=True)), WHERE, fields.line)
        return
    for number, item in enumerate(given, start=1):
        if isinstance(item, Mapping):
            yield Row(item, WHERE, number)
        else:
            wrong = fault(number, WRONG_SHAPE, WHERE, expected=ACCEPTED, found=short(item))
            yield item if isinstance(item, Patient) else wrong


def visits_by_patient(rows: Iterable[Fields], data: VisitData, where: str) -> dict[str, tuple[Visit, ...]]:
    """The visits of each patient, from rows of (patient, time, code), whatever their outcomes."""
    called = (data.columns.patient, data.columns.time, data.columns.code)
    events: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for fields in rows:
        row = Row(dict(zip(called, fields.values, strict=True)), where, fields.line)
        name, time = row.text(called[0], "a patient"), _time(row.fields[called[1]], called[1], row)
        codes = _codes(row.fields[called[2]], data, {})
        if not codes:
            raise row.error(called[2], "a code")
        events.setdefault(name, []).append((time, codes))
    return {name: _merged(listed) for name, listed in events.items()}
