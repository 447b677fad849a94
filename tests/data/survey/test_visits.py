"""What ``saccade data`` finds out about patients and their visits, and whether their recipe trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from saccade import api
from saccade.cli.data import _of_files
from saccade.data.survey.visits import VisitSurvey, guessed_columns, guessed_separator
from saccade.data.visits.records import VisitColumns, VisitData, load_visits
from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml

# 60 patients, the odd ones with the outcome; each has three visits ten days apart, and a code of its own parity.
ROWS = [
    (f"p{n}", f"2021-{n % 12 + 1:02}-{1 + 10 * visit:02}", f"k{(n + visit) % 7}", n % 2)
    for n in range(60)
    for visit in range(3)
]


def table(path: Path, rows: Any = ROWS, header: str = "patient,time,code,outcome") -> Path:
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def look(path: Path, *tests: Path, columns: dict[str, Any] | None = None, format: str | None = None) -> VisitSurvey:
    survey = _of_files([str(path)], columns or {}, format, None, [str(test) for test in tests]).read()
    assert isinstance(survey, VisitSurvey)
    return survey


def read(found: VisitSurvey, folder: Path) -> Any:
    """The splits of the recipe that is written."""
    (folder / "my.yaml").write_text(dump_yaml(found.recipe(folder)), encoding="utf-8")
    recipe = read_recipe(folder / "my.yaml")
    return load_visits(recipe.data, folder, recipe.train.seed)


def test_a_long_table_is_surveyed_and_its_recipe_trains(tmp_path, module_unchecked: None) -> None:
    found = look(table(tmp_path / "v.csv"))
    plain = found.to_json()
    assert (plain["records"], plain["visits"], plain["codes"], plain["outcomes"]) == (60, 180, 180, {"outcome": 0.5})
    assert plain["times"] == ["2021-01-01", "2021-12-21"] and plain["days_between_visits"]["median"] == 10
    assert plain["would_train"] and "60 patients with 180 visits, 7 different codes" in found.headline()
    splits = read(found, tmp_path)
    assert all({record.target for record in part} == {(0,), (1,)} for part in (splits.train, splits.valid, splits.test))
    small = {"embedding": 3, "alpha": 3, "beta": 3}
    run = api.train(str(tmp_path / "my.yaml"), folder=tmp_path / "run", model=small, train={"epochs": 1, "threads": 1})
    assert 0 <= run.figures["test"]["auc"] <= 1


def test_columns_separators_and_the_outcome_are_guessed_by_names_and_values(tmp_path) -> None:
    rows = [(n, f"2020-01-0{1 + n % 3}", f"{n % 4} 1{n % 9}", n // 9 % 2, "x") for n in range(30)]
    path = table(tmp_path / "v.csv", rows, "Person_ID,Visit Date,codes,Died,ward")
    assert guessed_columns(path, None) == VisitColumns("Person_ID", "Visit Date", "codes", ("Died",))
    assert guessed_separator(path, None, "codes") == " " and guessed_separator(path, None, "ward") is None
    prose = table(tmp_path / "w.csv", [(1, 1, "heart failure")] * 3, "patient,time,code")
    assert guessed_separator(prose, None, "code") is None and guessed_columns(prose, None).outcome == ("",)
    assert look(path).recipe()["data"]["separator"] == " "


def test_whole_patients_and_named_outcomes(tmp_path) -> None:
    patients = [
        {"patient": n, "visits": [[0, [f"k{n % 3}"]], [n + 1, ["z"]]], "died": n % 2, "ill": int(n % 3 == 0)}
        for n in range(30)
    ]
    path = tmp_path / "v.jsonl"
    path.write_text("".join(json.dumps(patient) + "\n" for patient in patients), encoding="utf-8")
    found = look(path, columns={"outcome": "died,ill"})
    assert found.to_json()["outcomes"] == {"died": 0.5, "ill": 0.3333}
    assert found.recipe()["data"]["columns"]["outcome"] == ("died", "ill") and read(found, tmp_path).train


def test_without_an_outcome_a_code_that_comes_later_is_predicted_and_said(tmp_path) -> None:
    rows = [
        (f"p{n}", visit, "first" if visit == 0 else "late" if n % 4 == 0 else f"k{n}")
        for n in range(40)
        for visit in range(3)
    ]
    found = look(table(tmp_path / "v.csv", rows, "patient,time,code"))
    assert found.recipe()["data"]["target"] == ["late"] and found.to_json()["outcomes"] == {"late": 0.25}
    (note,) = [note for note in found.notes if "data.target" in note]
    assert "late" in note and "10 of 40" in note
    alone = table(tmp_path / "w.csv", [(f"p{n}", 0, "k") for n in range(9)], "patient,time,code")
    with pytest.raises(InputError, match=r"--column outcome=NAME.* 9 patients"):
        look(alone)


def test_published_folders_are_recognised(tmp_path) -> None:
    omop, mimic = tmp_path / "omop", tmp_path / "mimic"
    omop.mkdir(), mimic.mkdir()
    rows = [
        (n, f"2020-01-0{visit + 1}", 7 if visit == 2 and n % 3 == 0 else n + 100)
        for n in range(30)
        for visit in range(3)
    ]
    table(omop / "condition_occurrence.csv", rows, "person_id,condition_start_date,condition_concept_id")
    for path in (omop, omop / "condition_occurrence.csv"):
        found = look(path)
        assert (found.data.format, found.data.target, found.train.records) == ("omop", ("7",), 30)
    assert read(found, tmp_path).train
    table(mimic / "DIAGNOSES_ICD.csv", [(n, n + 1000, f"I{n % 5}") for n in range(30)], "subject_id,hadm_id,icd_code")
    admissions = [(n, n + 1000, f"2150-01-01 0{n % 10}:00:00", n % 2) for n in range(30)]
    table(mimic / "ADMISSIONS.csv", admissions, "subject_id,hadm_id,admittime,hospital_expire_flag")
    found = look(mimic)
    assert found.data.format == "mimic" and found.to_json()["outcomes"] == {"hospital_expire_flag": 0.5}
    assert found.to_json()["future"] == 30 and any("discharge" in note for note in found.notes)
    assert read(found, tmp_path).train


def test_what_is_suspicious_is_reported(tmp_path) -> None:
    rows = [
        *ROWS,
        *((f"p{n}", "2021-12-30", "hospice", 1) for n in range(1, 40, 2)),
    ]  # 20 patients, all with the outcome
    found = look(table(tmp_path / "v.csv", rows))
    assert found.telling == ["hospice"] and any("hospice" in note for note in found.notes)
    same = look(table(tmp_path / "same.csv", [(*row[:3], 1) for row in ROWS]))
    assert any("all 60 patients" in problem for problem in same.problems)
    once = look(table(tmp_path / "once.csv", [row for row in ROWS if row[1].endswith("-01")]))
    assert any("one visit only" in note for note in once.notes)
    rows = [(name, f"19{10 + int(name[1:]) % 60}-01-01", code, value) for name, _, code, value in ROWS]
    assert any("1 January" in note for note in look(table(tmp_path / "years.csv", rows)).notes)


def test_patients_of_a_test_file_that_training_has_are_counted(tmp_path) -> None:
    train, test = (
        table(tmp_path / "v.csv"),
        table(tmp_path / "t.csv", [("p3", "2022-01-01", "k9", 1), ("new", "2022-01-01", "k1", 0)]),
    )
    found = look(train, test)
    sections = {section.title: section.rows for section in found.sections()}
    assert ("1", "have the identifier of a patient in the training file") in sections[f"2 patients of {test}"]


def test_a_recipe_is_judged_by_its_own_settings(tmp_path) -> None:
    path = table(tmp_path / "v.csv")
    data = VisitData(train=str(path), max_visits=2, target=("k3",))
    found = VisitSurvey(data, has_recipe=True, folder=tmp_path).read()
    assert "k3" in found.rates and 0 < found.train.records < 60 and not found.problems
    assert any("too few visits" in note for note in found.notes)


@pytest.mark.parametrize("header", ["patient,time,text,label", "text,label,id,place", "source,target,date,code"])
def test_other_tables_are_not_taken_for_visits(tmp_path, header: str) -> None:
    path = table(tmp_path / "v.csv", [(f"a text number {n}", "ab"[n % 2], n, "x") for n in range(40)], header)
    assert not VisitSurvey.looks_right(str(path), None, "utf-8")
