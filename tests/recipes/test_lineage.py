"""A recipe that begins from a run: what it takes over, and what it may not contradict."""

import os
from pathlib import Path

import pytest

from saccade import api
from saccade.errors import InputError
from saccade.recipes.recipe import change, from_plain, read_recipe, read_written
from tests.tiny import tiny

CHILD = "task: translate\ndata: {train: new.tsv}\ntrain:\n  from: parent\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a trained run in it, of other sizes and another dropout than the defaults."""
    folder = tmp_path_factory.mktemp("runs")
    api.train(tiny("train.updates=1", "data.tokens={kind: words, lower: true}"), folder=folder / "parent")
    return folder


@pytest.fixture
def write(home):
    def write(text: str) -> Path:
        (home / "child.yaml").write_text(text)
        return home / "child.yaml"

    return write


def test_network_and_vocabulary_may_be_left_out(write):
    recipe = read_recipe(write(CHILD))
    assert recipe.model_name == "rnnsearch"
    assert (recipe.model.hidden, recipe.model.dropout) == (9, 0.2)
    assert (recipe.data.tokens.kind, recipe.data.tokens.lower) == ("words", True)
    assert recipe.data.train == "new.tsv"
    assert recipe.train.epochs == 10


def test_fields_that_agree_may_be_repeated_and_dropout_may_change(write):
    recipe = read_recipe(write(CHILD + "model: {name: rnnsearch, hidden: 9, dropout: 0.5}\n"))
    assert (recipe.model.hidden, recipe.model.embedding, recipe.model.dropout) == (9, 7, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("", "model: {hidden: 11}"), r"child\.yaml:5: model\.hidden: expected 9, as in .*parent, found 11"),
        (("", "model: {name: luong}"), r"child\.yaml:5: model\.name: expected 'rnnsearch', as in .*, found 'luong'"),
        (("", "model: {hiden: 9}"), r"child\.yaml:5: model\.hiden: .*did you mean 'hidden'"),
        (("new.tsv", "new.tsv, tokens: {lower: false}"), r":2: data\.tokens\.lower: expected True, .* found False"),
        (("new.tsv", "new.tsv, shared: true"), r"child\.yaml:2: data\.shared: expected False, .* found True"),
        (
            ("new.tsv", "new.tsv, target_tokens: {kind: bpe}"),
            r"child\.yaml:2: data\.target_tokens: expected nothing, .* found a mapping .*leave the field out",
        ),
        (("translate", "point"), r"child\.yaml:1: task: expected 'translate', as in .*, found 'point'"),
        (
            ("parent", "parents"),
            r"child\.yaml:4: train\.from: expected a run's folder, found no such folder: .*parents",
        ),
        (("parent", "child.yaml"), r"child\.yaml:4: train\.from: expected a run's folder, found a file"),
        (("parent", "."), r"child\.yaml:4: train\.from: expected a trained run"),
        (("parent", "''"), r"child\.yaml:4: train\.from: .*name the folder of a run"),
        (("parent", "$NOWHERE/x"), r"NOWHERE"),
        (("  from: parent", "  epochs: 2"), r"child\.yaml: model: .*required, unless train\.from names a run"),
    ],
)
def test_a_disagreement_names_file_line_and_field(write, change, message):
    old, new = change
    text = CHILD.replace(old, new, 1) if old else CHILD + new + "\n"
    with pytest.raises(InputError, match=message):
        read_recipe(write(text))


def test_a_file_counts_from_its_own_folder_and_the_command_line_from_the_working_folder(write, home, monkeypatch):
    path = write(CHILD)
    monkeypatch.chdir("/")
    assert read_recipe(path).train.from_ == str(home / "parent")
    with pytest.raises(InputError, match=r"command line: train\.from: .*no such folder: /parent"):
        read_recipe(path, ["train.from=parent"])
    monkeypatch.chdir(home)
    assert read_recipe("rnnsearch_dates", ["train.from=parent", *SIZES]).train.from_ == str(home / "parent")


SIZES = ("model.hidden=9", "model.embedding=7", "model.maxout=5", "data.tokens={kind: words, lower: true}")


def test_variables_and_the_home_folder_are_filled_in(write, home, monkeypatch):
    monkeypatch.setenv("RUNS", str(home))
    assert read_recipe(write(CHILD.replace("parent", "$RUNS/parent"))).train.from_ == str(home / "parent")
    monkeypatch.setenv("HOME", str(home))
    assert read_recipe(write(CHILD.replace("parent", "~/parent"))).train.from_ == str(home / "parent")


def test_what_was_written_is_read_again_without_the_parent(write, home):
    recipe = read_recipe(write(CHILD))
    os.rename(home / "parent", home / "elsewhere")
    try:
        again = from_plain(recipe.to_plain(), name=recipe.name, folder=recipe.folder, where="again")
        assert again == recipe
        from saccade.recipes.schema import dump_yaml

        path = write(dump_yaml(recipe.to_plain()))
        assert read_written(path, name=recipe.name, folder=recipe.folder) == recipe
    finally:
        os.rename(home / "elsewhere", home / "parent")


def test_a_recipe_in_hand_can_be_changed():
    recipe = read_recipe("rnnsearch_dates", ["train.epochs=3"])
    changed = change(recipe, ["model.hidden=5"], {"train": {"lr": 0.5}, "expect.at_least": 0.2})
    assert (changed.model.hidden, changed.train.lr, changed.train.epochs) == (5, 0.5, 3)
    assert changed.expect.at_least == 0.2
    assert changed.changed == ("train.epochs", "model.hidden", "train.lr")
