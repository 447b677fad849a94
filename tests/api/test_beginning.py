"""What a run begins with: what a task refuses of its recipe is told with the recipe's file, in the recipe's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade import api
from saccade.api.beginning import begin, read_splits
from saccade.errors import InputError
from saccade.models import MODELS, name_of, network_class
from saccade.recipes.recipe import Recipe, read_recipe

RECIPES = {
    "classify": ("{source: opinions, opinions: {train: 9, valid: 5, test: 5}}", "rnnsearch"),
    "translate": ("{source: dates, dates: {train: 9, valid: 5, test: 5}}", "bert"),
    "language": ("{train: lines.txt, valid: lines.txt, test: lines.txt}", "luong"),
    "pretrain": ("{source: topics, topics: {train: 9, valid: 5, test: 5}, tokens: {size: 90}}", "bert_classifier"),
    "point": ("{source: sorting, train: 9, valid: 5, test: 5}", "seq2seq"),
}


def recipe(folder: Path, task: str, model: str, data: str, name: str = "my.yaml") -> Recipe:
    (folder / "lines.txt").write_text("a b c\n" * 9)
    (folder / name).write_text(f"task: {task}\ndata: {data}\nmodel: {{name: {model}}}\ntrain: {{device: cpu}}\n")
    return read_recipe(folder / name)


@pytest.mark.parametrize("task", RECIPES)
def test_a_network_of_another_task_is_refused_by_its_own_name_and_the_recipes_file(tmp_path, task) -> None:
    data, model = RECIPES[task]
    mine = recipe(tmp_path, task, model, data)
    with pytest.raises(InputError) as error:
        begin(mine, read_splits(mine, None))
    assert str(error.value).startswith(f"{tmp_path / 'my.yaml'}: model.name: expected a ")
    assert str(error.value).endswith(f", found {model!r}")


def test_a_recipe_that_is_no_file_is_called_by_its_name(tmp_path) -> None:
    mine = recipe(tmp_path, "classify", "rnnsearch", RECIPES["classify"][0], "other.yml")
    splits = read_splits(mine, None)
    for path in (tmp_path / "other.yml", "other"):
        with pytest.raises(InputError) as error:
            begin(mine, splits)
        assert str(error.value).startswith(f"{path}: model.name")
        (tmp_path / "other.yml").unlink(missing_ok=True)


def test_what_a_built_in_source_refuses_names_the_file_too(tmp_path) -> None:
    pytest.importorskip("babel", reason="Babel is not installed")
    mine = recipe(tmp_path, "translate", "luong", "{source: spelling, spelling: {language: qq}}")
    with pytest.raises(InputError, match=r"my\.yaml: data\.spelling\.language: expected a locale of CLDR"):
        read_splits(mine, None)


def test_other_faults_keep_their_own_place(tmp_path) -> None:
    mine = recipe(tmp_path, "classify", "attentive_classifier", "{train: nothing.csv}")
    with pytest.raises(InputError, match=r"nothing\.csv"):
        api.train(mine, folder=tmp_path / "run")


def test_every_network_knows_what_recipes_call_it() -> None:
    assert [name_of(network_class(name)) for name in MODELS] == list(MODELS)
    assert name_of(Recipe) == "saccade.recipes.recipe:Recipe"


GIVEN: dict[str, tuple[str, list[object], list[object], str]] = {
    "classify": (
        "attentive_classifier", [(f"text {n}", "ab"[n % 2]) for n in range(40)], [("a text", float("nan")), (" ", "a"), 7],
        "where a label was expected",
    ),
    "translate": (
        "luong", [(f"text {n}", f"Text {n}") for n in range(40)], [("a text", None), ("a", "b", "c"), {"source": "a"}],
        "where text was expected",
    ),
    "label": (
        "attentive_tagger", [(["a", str(n)], ["B-X", "O"]) for n in range(40)], [(["a"], ["O", "O"]), "a b", (["a"], [None])],
        "where a tag without blanks was expected",
    ),
    "rank": (
        "siamese", [(f"what {n} ?", ("yes", "no"), (1, n % 2)) for n in range(40)],
        [("what ?", ("yes", "no"), (1,)), 7, ("", ("yes", "no"), (1, 0))], "where",
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", GIVEN)
def test_faulty_records_in_hand_are_dropped_and_counted_where_the_recipe_says_so(tmp_path, task) -> None:
    model, sound, faulty, reason = GIVEN[task]
    given = [*sound[:3], *faulty, *sound[3:]]
    strict = recipe(tmp_path, task, model, "{train: none.tsv}")
    with pytest.raises(InputError, match="data:4: "):
        read_splits(strict, given)
    splits = read_splits(recipe(tmp_path, task, model, "{train: none.tsv, faults: drop}"), given)
    assert (splits.train, splits.valid, splits.test) == tuple(
        getattr(read_splits(strict, sound), name) for name in ("train", "valid", "test")
    )
    told = splits.notes[0]
    assert told.startswith("data.train: 3 left out beside 40: ") and reason in told and "(first: 4)" in told


def test_faulty_rows_of_a_frame_are_dropped_and_evaluation_stays_strict(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [f"text {n}" for n in range(40)], "label": list("ab" * 20)})
    frame.loc[17, "label"] = None
    mine = recipe(tmp_path, "classify", "attentive_classifier", "{train: none.tsv, faults: drop}")
    bundle = api.train(mine, frame, folder=tmp_path / "run", train={"updates": 1}, model={"hidden": 3, "embedding": 3})
    with pytest.raises(InputError, match="data:18: label: expected a label, found nothing"):
        bundle.evaluate(frame, metrics=["accuracy"])
