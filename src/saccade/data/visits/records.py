"""Patients with their visits: the records of the task ``visits``, from a made cohort, from files or from memory. No torch.

    a long table      patient, time, code (one code per row, or several with a separator between them): TSV, CSV, JSONL, Parquet
    omop              the table condition_occurrence:  person_id, condition_start_date, condition_concept_id
    mimic             a folder with DIAGNOSES_ICD and ADMISSIONS:  subject_id, hadm_id, icd_code and hadm_id, admittime
    one per patient   {"patient": "17", "visits": [{"time": "2020-01-07", "codes": ["I10", "E11"]}, …], "outcome": 1}

Outcomes are columns of the same table or of a second one (``outcomes``), or "one of these codes comes later" (``target``). What
comes later must not be seen: of a patient who gets such a code only the visits before its first time are read, of one who never
does only the visits before the last one. With ``outcome_time`` the time of an outcome in the second table ends what is read.

A time is a date, a date with a time of day, or a number of days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files.fields import columns_of, format_of, scan_fields
from saccade.data.files.records import Fault, fault
from saccade.data.files.tables import TABLES
from saccade.data.files.tables import Row as Cells
from saccade.data.memory import WHERE, columns_in, items_of, missing, short
from saccade.data.paths import locate
from saccade.data.reading import FaultCounts, load_parts, valid_records, warnings_about
from saccade.data.splits import Splits
from saccade.data.toy.visits import Cohort, generate
from saccade.errors import InputError

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
    """When it was, as it is written, and what was written down."""

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

    source: Literal["visits"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "omop", "mimic"] | None = None
    columns: VisitColumns = field(default_factory=VisitColumns)
    separator: str | None = None  # what stands between codes, where one cell holds several
    outcomes: str | None = None  # a second table: the patients' outcomes
    outcome_time: str | None = None  # its column with the time of the outcomes
    target: tuple[str, ...] = ()  # the outcome is that one of these codes comes later
    gap: float = 0.0  # so many days before an outcome are not read either
    names: str | None = None  # a table of codes and what they are called, in its first two columns or ``name_columns``
    name_columns: tuple[str, str] | None = None
    at: Literal["end", "every"] = "end"  # outcomes are predicted after the last visit, or after every visit
    min_visits: int = 1  # patients with fewer are left out, and counted
    max_visits: int = 200
    too_long: TooLong = "truncate"  # of patients with more visits the last ones are read
    min_count: int = 1  # codes that fewer training patients have are not read
    visits: Cohort = field(default_factory=Cohort)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, gap=0, min_visits=1, max_visits=self.min_visits, min_count=1)
        if self.target and self.outcomes is not None:
            raise ValueError(f"outcomes must be left out where target says what is predicted: got {self.outcomes!r}")
        if self.outcome_time is not None and self.outcomes is None:
            raise ValueError(f"outcome_time must be left out without a table of outcomes: got {self.outcome_time!r}")
        if not self.columns.outcome:
            raise ValueError("columns.outcome must name at least one column: got none")

    @property
    def outcome_names(self) -> tuple[str, ...]:
        """What the outcomes are called."""
        return (" or ".join(self.target),) if self.target else self.columns.outcome


# What a record is made of ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """Fields of a file or of memory by their names, and where they stood."""

    fields: Mapping[str, Any]
    where: str | Path
    line: int | None = None
    place: str | None = None

    def error(self, name: str, expected: str, found: Any) -> InputError:
        shown = "nothing" if missing(found) or found in ("", [], ()) else short(found)
        field, line = (name, self.line) if self.place is None else (f"{self.place}: {name}", None)
        return InputError(self.where, line=line, field=field, expected=expected, found=shown)


def days_of(time: str) -> float:
    """A time in days: since the year 1, or as many as the number says.

    >>> days_of("2020-01-31 12:00") - days_of("2020-01-01"), days_of("2.5")
    (30.5, 2.5)
    """
    try:
        number = float(time)
    except ValueError:
        moment = datetime.fromisoformat(time).replace(tzinfo=None)
        return moment.toordinal() + (moment - datetime.min).seconds / 86_400
    if not abs(number) < float("inf"):
        raise ValueError(f"expected {TIME}, found {time!r}")
    return number


def _time(value: Any, name: str, row: Row) -> str:
    text = str(value).strip()
    try:
        days_of(text)
    except ValueError:
        raise row.error(name, TIME, value) from None
    return text


def _codes(value: Any, data: VisitData, names: Mapping[str, str]) -> tuple[str, ...]:
    """Different codes in their order, called by their names where they have one."""
    texts = [str(part).strip() for part in (value if isinstance(value, list | tuple) else [value]) if not missing(part)]
    if data.separator is not None:
        texts = [part.strip() for text in texts for part in text.split(data.separator)]
    return tuple(dict.fromkeys(names.get(text, text) for text in texts if text))


def _truths(values: Sequence[Any], data: VisitData, row: Row) -> tuple[int, ...]:
    found = [TRUTH.get(str(value).strip().lower()) for value in values]
    for name, value, truth in zip(data.columns.outcome, values, found, strict=False):
        if truth is None:
            raise row.error(name, "0 or 1, true or false", value)
    return tuple(truth for truth in found if truth is not None)


def visits_of(value: Any, row: Row, data: VisitData, names: Mapping[str, str] | None = None) -> tuple[Visit, ...]:
    """Visits out of a list of {"time", "codes"} or (time, codes): in the order of their times, those of one time as one."""
    if not isinstance(value, list | tuple) or not value:
        raise row.error(data.columns.visits, 'a list of visits, {"time": …, "codes": […]}', value)
    events = []
    for number, visit in enumerate(value, start=1):
        name = f"{data.columns.visits}[{number}]"
        pair = (visit.get("time"), visit.get("codes")) if isinstance(visit, Mapping) else visit
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], list | tuple):
            raise row.error(name, 'a visit, {"time": …, "codes": […]}', visit)
        events.append((_time(pair[0], f"{name}.time", row), _codes(pair[1], data, names or {})))
    return _merged(events)


def _merged(events: Iterable[tuple[str, Sequence[str]]]) -> tuple[Visit, ...]:
    visits: dict[float, tuple[str, dict[str, None]]] = {}
    for time, codes in events:
        visits.setdefault(days_of(time), (time, {}))[1].update(dict.fromkeys(codes))
    return tuple(Visit(visits[day][0], tuple(visits[day][1])) for day in sorted(visits))


def record_of(
    patient: str | None,
    visits: tuple[Visit, ...],
    outcomes: Sequence[tuple[tuple[Any, ...], str | None]],
    data: VisitData,
) -> Patient:
    """A patient whose visits end before what is predicted: nothing at or after its time, nor in the ``gap`` before, is read.

    ``outcomes`` are rows of (values, time): an outcome is positive where a row is, and its time is the first of such a row.
    """
    if data.target:
        hits = [visit.time for visit in visits if set(data.target).intersection(visit.codes)]
        # Of a patient who never gets the code, the last visit is the one at which it might have come.
        outcomes = [((int(bool(hits)),), hits[0] if hits else visits[-1].time)]
    target = (
        outcomes[0][0] if len(outcomes) == 1 else tuple(map(max, zip(*(values for values, _ in outcomes), strict=True)))
    )
    times = [days_of(time) for values, time in outcomes if time is not None and any(values) == any(target)]
    if times:
        visits = tuple(visit for visit in visits if days_of(visit.time) < min(times) - data.gap)
    return Patient(visits, target, patient)


def patients(
    rows: Iterable[Row | Patient | Fault], data: VisitData, tables: Tables | None = None
) -> Iterator[Patient | Fault]:
    """Every patient and every fault: rows that are whole patients one by one, those of a long table grouped by patient."""
    tables, columns, where = tables or Tables(), data.columns, WHERE
    names = tables.names
    data = replace(data, target=tuple(names.get(code, code) for code in data.target))
    events: dict[str, list[tuple[str, Sequence[str]]]] = {}
    outcomes = dict(tables.outcomes)
    for row in rows:
        if not isinstance(row, Row):
            yield row
            continue
        where, values = str(row.where), row.fields
        try:
            name = "" if missing(values.get(columns.patient)) else str(values[columns.patient]).strip()
            own = [] if data.target or data.outcomes is not None else [values.get(column) for column in columns.outcome]
            if columns.visits in values:
                visits = visits_of(values[columns.visits], row, data, names)
                known = [_outcome(own, visits, data, row)] if own else outcomes.get(name, [])
                yield from _enough(name or None, visits, known, data, where)
                continue
            if not name:
                raise row.error(columns.patient, "a patient", None)
            time = tables.time(values.get(columns.time), columns.time, row)
            codes = _codes(values.get(columns.code), data, names)
            if not codes:
                raise row.error(columns.code, "a code", None)
            if own:
                outcomes.setdefault(name, []).append((_truths(own, data, row), None))
            events.setdefault(name, []).append((time, codes))
        except InputError as error:
            yield Fault(row.line or 0, f"where {error.expected} was expected", error)
    for name, listed in events.items():
        yield from _enough(name, _merged(listed), outcomes.get(name, []), data, where)


def _outcome(own: list[Any], visits: Sequence[Visit], data: VisitData, row: Row) -> tuple[tuple[Any, ...], None]:
    """The outcomes that a record holds itself: one of each kind, or a list with one per visit."""
    if not any(isinstance(value, list | tuple) for value in own):
        return _truths(own, data, row), None
    if data.at == "end" or any(not isinstance(value, list | tuple) or len(value) != len(visits) for value in own):
        expected = f"one outcome, or with data.at: every one for each of {len(visits)} visits"
        raise row.error(data.columns.outcome[0], expected, own[0])
    return tuple(_truths(values, data, row) for values in zip(*own, strict=True)), None


def _enough(
    name: str | None, visits: tuple[Visit, ...], outcomes: Sequence[Any], data: VisitData, where: str
) -> Iterator[Patient | Fault]:
    """The patient, unless there is no outcome or too few visits: such ones are passed over, and counted."""
    if not outcomes and not data.target:
        yield fault(
            0, "without an outcome", where, expected=f"an outcome of patient {name!r}", found="none", skipped=True
        )
        return
    record = record_of(name, visits, outcomes, data)
    if len(record.source) >= data.min_visits:
        yield record
    else:
        reason, found = "with too few visits before what is predicted", str(len(record.source))
        yield fault(0, reason, where, expected=f"{data.min_visits} visits", found=found, skipped=True)


# Files ---------------------------------------------------------------------------------------------------------------


def load_visits(data: VisitData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    drawn = generate(data.visits) if data.source is not None else {}
    return load_parts(data, folder, seed, {name: records_of(part, data) for name, part in drawn.items()}, gather)


def gather(path: str | Path, data: VisitData, *, strict: bool = False) -> tuple[list[Patient], list[str]]:
    """The patients of a file or folder, and warnings about them."""
    path, dropped = Path(path), FaultCounts()
    found = patients(_rows(path, data), data, Tables.of(path, data))
    records = list(valid_records(found, data, dropped, strict=strict, called="rows"))
    return records, warnings_about(path, records, dropped, expected="at least one patient with visits and an outcome")


def _rows(path: Path, data: VisitData) -> Iterator[Row | Fault]:
    """The rows of a file, their fields called as in ``data.columns``."""
    published, columns = PUBLISHED.get(str(data.format)), data.columns
    file = _in_folder(path, "DIAGNOSES_ICD") if data.format == "mimic" else path
    there = _header(file, data)
    own = () if data.target or data.outcomes is not None else columns.outcome
    called: tuple[str, ...] = (columns.patient, columns.time, columns.code, *own)
    if published:
        wanted = (*(_named(there, known, file) for known in published), *own)
    else:
        called = wanted = (columns.patient, columns.visits, *own) if columns.visits in there else called
    for found in scan_fields(file, wanted, format=None if published else data.format, encoding=data.encoding):
        if isinstance(found, Fault):
            yield found
        else:
            yield Row(dict(zip(called, found.values, strict=True)), file, found.line, found.place)


@dataclass(frozen=True)
class Tables:
    """What other tables say: outcomes by patient, when each visit was, what codes are called."""

    outcomes: Mapping[str, list[tuple[tuple[Any, ...], str | None]]] = field(default_factory=dict)
    times: Mapping[str, str] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, data: VisitData) -> Tables:
        folder = path if path.is_dir() else path.parent
        outcomes: dict[str, list[tuple[tuple[Any, ...], str | None]]] = {}
        if data.outcomes is not None:
            file, (known, *_) = (
                locate(data.outcomes, folder),
                PUBLISHED.get(str(data.format), ((data.columns.patient,),)),
            )
            wanted = (
                _named(_header(file, data), known, file),
                *data.columns.outcome,
                *filter(None, [data.outcome_time]),
            )
            for row in _strict(file, wanted, data):
                name, *values = row.fields.values()
                time = None if data.outcome_time is None else _time(values.pop(), data.outcome_time, row)
                outcomes.setdefault(str(name).strip(), []).append((_truths(values, data, row), time))
        times = names = None
        if data.format == "mimic":
            file = _in_folder(path, "ADMISSIONS")
            wanted = tuple(_named(_header(file, data), (name,), file) for name in ("hadm_id", "admittime"))
            times = {
                str(visit).strip(): time for visit, time in (row.fields.values() for row in _strict(file, wanted, data))
            }
        if data.names is not None:
            file = locate(data.names, folder)
            wanted = data.name_columns or tuple(_header(file, data)[:2])
            names = {
                str(code).strip(): str(name).strip()
                for code, name in (row.fields.values() for row in _strict(file, wanted, data))
            }
        return cls(outcomes, times, names or {})

    def time(self, value: Any, name: str, row: Row) -> str:
        """The time of a row, or of the visit that it names."""
        if self.times is None:
            return _time(value, name, row)
        if str(value).strip() not in self.times:
            raise row.error(name, "a visit of the table ADMISSIONS", value)
        return _time(self.times[str(value).strip()], name, row)


def _header(file: Path, data: VisitData) -> list[str]:
    """What can be named as a column: of tables, which must have a header, their first line."""
    format = None if str(data.format) in PUBLISHED else data.format
    if (kind := format_of(file, format)) in TABLES:
        return next((row.cells for row in TABLES[kind](file, data.encoding) if isinstance(row, Cells)), [])
    return [str(name) for name in columns_of(file, format, data.encoding)]


def _strict(file: Path, wanted: Sequence[str], data: VisitData) -> Iterator[Row]:
    for found in scan_fields(file, wanted, encoding=data.encoding):
        if isinstance(found, Fault):
            raise found.error
        yield Row(dict(zip(wanted, found.values, strict=True)), file, found.line, found.place)


def _named(there: Sequence[str], known: Sequence[str], path: Path) -> str:
    """The column with one of the known names, in capitals or not."""
    name = next((name for name in there if name in known or name.lower() in known), None)
    if name is None:
        raise InputError(path, expected=f"a column {' or '.join(known)}", found=f"the columns {', '.join(there[:20])}")
    return name


def _in_folder(folder: Path, name: str) -> Path:
    """A table of a folder by its name, in capitals or not, packed or not."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    file = next((file for file in files if file.name.lower().split(".")[0] == name.lower()), None)
    if file is None:
        raise InputError(
            folder, expected=f"a folder with {name}.csv", found="no such file" if files else "no such folder"
        )
    return file


# Memory --------------------------------------------------------------------------------------------------------------


def records_of(given: Any, data: VisitData, dropped: FaultCounts | None = None) -> list[Patient]:
    """Patients from a list of records, or from a long table (a DataFrame, a dict of columns, a list of rows as dicts).

    ``data.outcomes`` is a file, and is not read for these: their outcomes stand beside them, or ``data.target`` tells."""
    data = replace(data, outcomes=None, outcome_time=None)
    columns = data.columns
    called = (columns.patient, columns.time, columns.code, *(() if data.target else columns.outcome))

    def of_table(table: Any, names: list[Any]) -> Iterator[Row]:
        wanted = (columns.patient, columns.visits, *called[3:]) if columns.visits in names else called
        for number, values in enumerate(zip(*columns_in(table, names, wanted, wanted), strict=True), start=1):
            yield Row(dict(zip(wanted, values, strict=True)), WHERE, number)

    def of_item(item: Any, number: int) -> Row | Patient:
        if isinstance(item, Patient):
            return item
        if not isinstance(item, Mapping):
            raise InputError(WHERE, line=number, expected=ACCEPTED, found=short(item))
        return Row(item, WHERE, number)

    found = patients(items_of(given, ACCEPTED, of_table, of_item), data)
    records = list(
        valid_records(
            found, data, dropped if dropped is not None else FaultCounts(), strict=dropped is None, called="rows"
        )
    )
    if not records:
        raise InputError(WHERE, expected=ACCEPTED, found=f"none: left out were {dropped}" if dropped else "none")
    return records
