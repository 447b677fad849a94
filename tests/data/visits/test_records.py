"""Patients from tables, from published formats and from memory; and nothing of the outcome in what is read."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from saccade.data.reading import FaultCounts
from saccade.data.visits.records import (
    Patient,
    Visit,
    VisitColumns,
    VisitData,
    days_of,
    gather,
    load_visits,
    records_of,
)
from saccade.errors import InputError

SHARED = Path(os.environ.get("SACCADE_DATA", ""))
LONG = """patient\ttime\tcode\toutcome
b\t2020-03-01\tx\t0
a\t2020-02-03\ty\t1
a\t2020-01-31\tz\t1
b\t2020-03-01\ty\t0
a\t2020-02-03\tz\t1
a\t2020-02-03\ty\t1
"""
TWO = [
    Patient((Visit("2020-03-01", ("x", "y")),), (0,), "b"),
    Patient((Visit("2020-01-31", ("z",)), Visit("2020-02-03", ("y", "z"))), (1,), "a"),
]


def data(**settings: Any) -> VisitData:
    return VisitData(train="unused", **settings)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_long_table_in_any_order_becomes_patients_whose_visits_are_in_order(tmp_path) -> None:
    assert gather(written(tmp_path / "v.tsv", LONG), data()) == (TWO, [])
    assert gather(written(tmp_path / "v.csv", LONG.replace("\t", ",")), data())[0] == TWO
    names, *rows = (line.split("\t") for line in LONG.splitlines())
    lines = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    assert gather(written(tmp_path / "v.jsonl", lines), data())[0] == TWO


def test_parquet_and_data_frames_are_read_as_files_are(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    names, *rows = (line.split("\t") for line in LONG.splitlines())
    frame = pandas.DataFrame(rows, columns=names)
    assert records_of(frame, data()) == TWO
    frame["outcome"] = frame["outcome"].astype(int)
    frame.to_parquet(tmp_path / "v.parquet")
    assert gather(tmp_path / "v.parquet", data())[0] == TWO
    frame["time"] = pandas.to_datetime(frame["time"])
    assert [len(record.source) for record in records_of(frame, data())] == [1, 2]
    assert records_of({name: frame[name].tolist() for name in names}, data()) == records_of(frame, data())


def test_whole_patients_from_a_file_and_from_memory_are_the_same(tmp_path) -> None:
    whole = [
        {"patient": "b", "visits": [{"time": "2020-03-01", "codes": ["x", "y", "x"]}], "outcome": 0},
        {"patient": "a", "visits": [["2020-02-03", ["y", "z"]], ["2020-01-31", ["z"]]], "outcome": True},
    ]
    path = written(tmp_path / "v.jsonl", "".join(json.dumps(record) + "\n" for record in whole))
    assert gather(path, data())[0] == TWO == records_of(whole, data()) == records_of(TWO, data())


def test_several_codes_in_a_cell_and_their_names(tmp_path) -> None:
    path = written(tmp_path / "v.tsv", "pid\tdate\tcodes\n7\t2020-01-01\t3 4\n7\t2020-01-05\t9\n7\t2020-01-09\t4\n")
    written(tmp_path / "names.tsv", "idx\tn\tdesc\n3\t1\tasthma\n9\t1\tobesity\n")
    columns = VisitColumns("pid", "date", "codes")
    settings = data(columns=columns, separator=" ", target=("9",), names="names.tsv", name_columns=("idx", "desc"))
    assert gather(path, settings)[0] == [Patient((Visit("2020-01-01", ("asthma", "4")),), (1,), "7")]


# What is predicted must not be seen ----------------------------------------------------------------------------------


LATER = [
    {"patient": "case", "visits": [[0, ["a"]], [5, ["b"]], [9, ["b", "X"]], [12, ["c", "X"]]]},
    {"patient": "control", "visits": [[0, ["a"]], [5, ["b"]], [9, ["d"]]]},
    {"patient": "at once", "visits": [[3, ["X"]], [9, ["d"]]]},
]


def test_nothing_at_or_after_the_target_is_read() -> None:
    case, control = records_of(LATER, data(target=("X", "Y")))
    assert [visit.time for visit in case.source] == ["0", "5"] and case.target == (1,)
    assert [visit.time for visit in control.source] == ["0", "5"] and control.target == (0,)


def test_a_gap_before_the_target_is_not_read_either() -> None:
    case, control = records_of(LATER, data(target=("X",), gap=4.0))
    assert [visit.time for visit in case.source] == ["0"] == [visit.time for visit in control.source]
    with pytest.raises(InputError, match="none"):
        records_of(LATER, data(target=("X",), gap=10.0))


def test_patients_with_too_few_visits_are_left_out_and_counted(tmp_path) -> None:
    path = written(tmp_path / "v.jsonl", "".join(json.dumps(record) + "\n" for record in LATER))
    records, (note,) = gather(path, data(target=("X",), min_visits=2))
    assert [record.group for record in records] == ["case", "control"]
    assert "dropped 1 of 3" in note and "too few visits" in note


def test_patients_that_are_left_out_are_found_by_the_line_of_their_first_row(tmp_path) -> None:
    rows = "patient,time,code\na,1,x\na,2,y\nb,1,x\na,3,X\nc,1,x\n"
    _, (note,) = gather(written(tmp_path / "v.csv", rows), data(target=("X",)))
    assert (
        note.startswith(f"{tmp_path / 'v.csv'}: dropped 2 of 3") and "too few visits" in note and "(first: 4)" in note
    )


@pytest.mark.parametrize(("first", "second"), [("2020-01-01", "3"), ("3", "2020-01-01"), ("20200101", "3.5")])
def test_dates_and_numbers_of_days_in_one_record_are_an_error_with_its_place(tmp_path, first: str, second: str) -> None:
    rows = f"patient,time,code,outcome\na,{first},x,1\nb,{second},x,0\na,{second},y,1\n"
    with pytest.raises(InputError) as error:
        gather(written(tmp_path / "v.csv", rows), data())
    assert all(fact in str(error.value) for fact in ("v.csv:4: time", first, repr(second)))
    with pytest.raises(InputError, match=r"visits\[2\]\.time"):
        records_of([{"visits": [(first, ["x"]), (second, ["y"])], "outcome": 1}], data())


def test_an_outcome_at_a_date_does_not_end_visits_at_numbers_of_days(tmp_path) -> None:
    path = written(tmp_path / "v.csv", "patient,time,code\nb,1,x\na,1,x\na,2,y\n")
    written(tmp_path / "o.csv", "patient,outcome,when\na,1,2020-02-03\nb,0,9\n")
    with pytest.raises(InputError) as error:
        gather(path, data(outcomes="o.csv", outcome_time="when"))
    assert all(fact in str(error.value) for fact in ("v.csv:3", "1", "2020-02-03"))


def test_outcomes_per_visit_follow_their_visits_into_the_order_of_time() -> None:
    visits = [{"time": time, "codes": [time]} for time in ("2020-03-01", "2020-01-01", "2020-02-01")]
    (patient,) = records_of([{"visits": visits, "outcome": [1, 0, 0]}], data(at="every"))
    assert [visit.time for visit in patient.source] == ["2020-01-01", "2020-02-01", "2020-03-01"]
    assert patient.target == ((0,), (0,), (1,))


def test_an_outcome_that_comes_in_the_course_of_a_long_table_ends_what_is_read() -> None:
    rows = [("2020-01-01", "x", 0), ("2020-01-02", "y", 0), ("2020-02-01", "death", 1), ("2020-03-01", "after", 1)]
    table = [{"patient": "a", "time": time, "code": code, "outcome": value} for time, code, value in rows]
    (patient,) = records_of(table, data())
    assert patient.target == (1,) and [visit.codes for visit in patient.source] == [("x",), ("y",)]


def test_patients_in_memory_that_are_excluded_are_counted_and_malformed_ones_are_errors() -> None:
    whole = {"visits": [("2020-01-01", ["x"]), ("2020-01-05", ["y"])], "outcome": 1}
    short = {"visits": [("2020-01-01", ["x"])], "outcome": 0}
    counts = FaultCounts(skipped_only=True)
    assert len(records_of([whole, short], data(min_visits=2), counts)) == 1 and len(counts) == 1
    with pytest.raises(InputError, match="outcome"):
        records_of([whole, {**whole, "outcome": "perhaps"}], data(), FaultCounts(skipped_only=True))


def test_records_in_memory_never_lose_the_table_that_says_when_outcomes_were() -> None:
    with pytest.raises(InputError, match=r"data\.outcomes: early\.csv"):
        records_of([{"visits": [("2020-01-01", ["x"])], "outcome": 1}], data(outcomes="early.csv", outcome_time="date"))


def test_a_second_table_gives_outcomes_and_their_time(tmp_path) -> None:
    path = written(tmp_path / "v.tsv", LONG.replace("\toutcome", "").replace("\t0\n", "\n").replace("\t1\n", "\n"))
    written(tmp_path / "o.csv", "patient,died,ill,when\na,0,1,2020-02-03\na,1,0,2020-06-01\n")
    columns = VisitColumns(outcome=("died", "ill"))
    records, (note,) = gather(path, data(columns=columns, outcomes="o.csv", outcome_time="when"))
    assert records == [Patient((Visit("2020-01-31", ("z",)),), (1, 1), "a")]
    assert "1 without an outcome" in note  # b
    records, _ = gather(path, data(columns=columns, outcomes="o.csv"))
    assert len(records[0].source) == 2


def test_an_outcome_per_visit(tmp_path) -> None:
    record = {"patient": "a", "visits": [[0, ["x"]], [1, ["y"]]], "outcome": [0, 1]}
    assert records_of([record], data(at="every"))[0].target == ((0,), (1,))
    with pytest.raises(InputError, match="2 visits"):
        records_of([record], data())
    with pytest.raises(InputError, match="2 visits"):
        records_of([{**record, "outcome": [1]}], data(at="every"))


# Faults --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        ("a\t2020-02-31\ty\t1", [":3", "time", "a date", "2020-02-31"]),
        ("a\t\ty\t1", [":3", "time", "a date", "nothing"]),
        ("a\tnan\ty\t1", [":3", "time", "a date", "nan"]),
        ("a\t2020-02-01\t\t1", [":3", "code", "nothing"]),
        ("\t2020-02-01\tx\t1", [":3", "patient", "nothing"]),
        ("a\t2020-02-01\tx\tmaybe", [":3", "outcome", "0 or 1", "maybe"]),
        ("a\t2020-02-01\tx", [":3", "4 columns", "3"]),
    ],
)
def test_a_malformed_row_is_an_error_with_its_place_or_counted(tmp_path, row: str, facts: list[str]) -> None:
    lines = LONG.splitlines()
    path = written(tmp_path / "v.tsv", "\n".join([*lines[:2], row, *lines[2:]]) + "\n")
    with pytest.raises(InputError) as error:
        gather(path, data())
    assert all(fact in str(error.value) for fact in [*facts, "data.faults: drop"]), error.value
    records, (note,) = gather(path, data(faults="drop"))
    assert records == TWO and "dropped 1 of" in note


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"visits": []}, ["visits", "a list of visits", "nothing"]),
        ({"visits": [{"time": "soon", "codes": ["x"]}]}, ["visits[1].time", "a date", "soon"]),
        ({"visits": [{"time": 3, "codes": "x"}]}, ["visits[1]", "a visit"]),
        ({"outcome": None}, ["outcome", "0 or 1", "nothing"]),
    ],
)
def test_a_malformed_record_in_memory_is_an_error_with_its_number_or_counted(change: dict, facts: list[str]) -> None:
    good = {"patient": "a", "visits": [[0, ["x"]]], "outcome": 1}
    with pytest.raises(InputError) as error:
        records_of([good, {**good, **change}], data())
    assert all(fact in str(error.value) for fact in ["data:2", *facts]), error.value
    dropped = FaultCounts()
    assert len(records_of([good, {**good, **change}], data(faults="drop"), dropped)) == 1 and len(dropped) == 1


def test_settings_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="outcomes"):
        data(target=("X",), outcomes="o.csv")
    with pytest.raises(ValueError, match="outcome_time"):
        data(outcome_time="when")
    with pytest.raises(ValueError, match="max_visits"):
        data(min_visits=3, max_visits=2)


# Splits --------------------------------------------------------------------------------------------------------------


def test_a_patient_is_in_one_split_and_the_toy_has_its_own(tmp_path) -> None:
    rows = [f"p{number % 40}\t2020-01-{number // 40 + 1:02}\tc{number % 7}\t{number % 40 % 2}" for number in range(200)]
    path = written(tmp_path / "v.tsv", "patient\ttime\tcode\toutcome\n" + "\n".join(rows) + "\n")
    splits = load_visits(VisitData(train=str(path), hold_out=0.2), tmp_path, 1)
    groups = [{record.group for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert sum(map(len, groups)) == 40 == len(set().union(*groups)) and all(groups)
    toy = load_visits(VisitData(source="visits"), tmp_path, 1)
    assert (len(toy.train), len(toy.valid), len(toy.test)) == (1500, 200, 400)


def test_compact_dates_are_dates_and_times_of_several_zones_are_compared() -> None:
    assert days_of("20200201") - days_of("20200131") == 1
    assert days_of("2020-01-01T00:00+02:00") < days_of("2019-12-31T23:00+00:00")
    for time in ("20201399", "1e300", "-inf", "nan"):  # no such date, and no number of days
        with pytest.raises(ValueError):
            days_of(time)


def test_days_are_counted_over_months_and_hours() -> None:
    assert days_of("2020-03-01") - days_of("2020-02-28") == 2
    assert days_of("2164-10-23 21:00:00") - days_of("2164-10-23T09:00") == 0.5


# Published tables ----------------------------------------------------------------------------------------------------


def test_omop_by_its_own_column_names(tmp_path) -> None:
    header = "condition_occurrence_id,person_id,condition_concept_id,condition_start_date"
    rows = f"{header}\n1,7,320128,2010-05-01\n2,7,201826,2011-05-01\n"
    path = written(tmp_path / "condition_occurrence.csv", rows)
    assert gather(path, data(format="omop", target=("201826",)))[0] == [
        Patient((Visit("2010-05-01", ("320128",)),), (1,), "7")
    ]


@pytest.mark.parametrize("code", ["icd_code", "ICD9_CODE"])
def test_mimic_joins_diagnoses_with_admissions(tmp_path, code: str) -> None:
    patient, visit = ("subject_id", "hadm_id") if code.islower() else ("SUBJECT_ID", "HADM_ID")
    admissions = (
        f"{patient},{visit},admittime,hospital_expire_flag\n7,11,2150-01-01 10:00:00,0\n7,12,2151-01-01 10:00:00,1\n"
    )
    (tmp_path / "ADMISSIONS.csv.gz").write_bytes(gzip.compress(admissions.encode()))
    written(
        tmp_path / "diagnoses_icd.csv", f"{patient},{visit},seq_num,{code}\n7,12,1,4019\n7,11,1,25000\n7,11,2,41401\n"
    )
    columns = VisitColumns(outcome=("hospital_expire_flag",))
    records, _ = gather(tmp_path, data(format="mimic", columns=columns, outcomes="ADMISSIONS.csv.gz"))
    visits = (Visit("2150-01-01 10:00:00", ("25000", "41401")), Visit("2151-01-01 10:00:00", ("4019",)))
    assert records == [Patient(visits, (1,), "7")]
    written(tmp_path / "diagnoses_icd.csv", f"{patient},{visit},seq_num,{code}\n7,99,1,4019\n")
    with pytest.raises(InputError, match="ADMISSIONS"):
        gather(tmp_path, data(format="mimic", columns=columns, outcomes="ADMISSIONS.csv.gz"))
    with pytest.raises(InputError, match="no such folder"):
        gather(tmp_path / "elsewhere", data(format="mimic", target=("4019",)))


@pytest.mark.skipif(
    not (SHARED / "ehr_physionet_demos").is_dir(), reason="SACCADE_DATA has no folder ehr_physionet_demos"
)
def test_the_mimic_demo_is_read_whole() -> None:
    columns = VisitColumns(outcome=("hospital_expire_flag",))
    settings = data(format="mimic", columns=columns, outcomes="ADMISSIONS.csv.gz", faults="drop")
    records, _ = gather(SHARED / "ehr_physionet_demos" / "mimic3_demo", settings)
    assert len(records) == 100 and sum(record.target[0] for record in records) == 40
    assert sum(len(record.source) for record in records) == 129 and max(len(record.source) for record in records) == 15
    codes = {code for record in records for visit in record.source for code in visit.codes}
    assert len(codes) == 581 or len(codes) == 580


@pytest.mark.skipif(
    not (SHARED / "ehr_synthea_visits").is_dir(), reason="SACCADE_DATA has no folder ehr_synthea_visits"
)
def test_synthea_has_the_patients_that_get_hypertension() -> None:
    settings = data(
        columns=VisitColumns("pid", "date", "codes"), separator=" ", names="codes.tsv", name_columns=("idx", "desc"),
        target=("Essential hypertension (disorder)",),
    )  # fmt: skip
    path = SHARED / "ehr_synthea_visits" / "visits.tsv"
    records, _ = gather(path, settings)
    assert 350 < sum(record.target[0] for record in records) <= 468 and len(records) > 1000
    seen = {code for record in records for visit in record.source for code in visit.codes}
    assert "Essential hypertension (disorder)" not in seen and len(seen) > 200
