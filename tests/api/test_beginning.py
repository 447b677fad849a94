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
