"""Paths of overrides start where the command was typed; those of the file beside it."""

from pathlib import Path

import pytest

from saccade.data.images.records import CaptionData
from saccade.errors import SaccadeError
from saccade.recipes import recipe as recipes
from saccade.recipes.located import locate, node_at
from saccade.recipes.recipe import change, read_recipe


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "recipes" / "my.yaml"
    file.write_text("task: translate\ndata: {train: a.tsv, test: b.tsv}\nmodel: {name: rnnsearch, hidden: 7}\n")
    return file


def test_a_path_on_the_command_line_starts_at_the_working_folder_and_one_in_the_file_does_not(recipe):
    data = read_recipe(recipe, ["data.test=c.tsv"]).data
    assert (data.train, data.test) == ("a.tsv", str(Path.cwd() / "c.tsv"))
    data = read_recipe(recipe, changes={"data": {"valid": "../d.tsv"}}).data
    assert data.valid == str(Path.cwd() / "../d.tsv")


def test_both_files_of_a_pair_start_there_one_by_one_or_together(recipe):
    together = read_recipe(recipe, ["data.test={source: s.de, target: /t.en}"]).data.test
    assert (together.source, together.target) == (str(Path.cwd() / "s.de"), "/t.en")
    again = change(read_recipe(recipe, ["data.test={source: s.de, target: t.en}"]), ["data.test.source=u.de"]).data.test
    assert (again.source, again.target) == (str(Path.cwd() / "u.de"), str(Path.cwd() / "t.en"))


def test_every_file_that_a_kind_of_data_declares_starts_there(recipe):
    recipe.write_text("task: visits\ndata: {train: a.csv}\nmodel: {name: retain}\n")
    data = read_recipe(recipe, ["data.outcomes=o.csv", "data.test=b.csv"]).data
    assert (data.outcomes, data.test) == (str(Path.cwd() / "o.csv"), str(Path.cwd() / "b.csv"))


@pytest.mark.parametrize("name", ["$HOME/x.tsv", "~/x.tsv", "/x.tsv", "hf://owner/name"])
def test_what_says_itself_where_it_starts_is_left_alone(recipe, name):
    assert read_recipe(recipe, [f"data.train={name}"]).data.train == name


def test_the_words_of_a_shipped_recipe_are_found_beside_the_person_who_names_them(recipe):
    data = read_recipe("rnnsearch_spelling", ["data.spelling.words=notes.txt"]).data
    assert data.spelling.words == str(Path.cwd() / "notes.txt")


def test_null_unsets_and_a_number_stays_one(recipe):
    assert read_recipe(recipe, ["data.test=null"]).data.test is None
    assert read_recipe("pointer_sorting", ["data.train=30"]).data.train == 30


def test_paths_of_a_whole_mapping_start_at_the_working_folder_too(recipe):
    data = read_recipe(recipe, ["data={train: q.tsv, max_length: 9}"]).data
    assert (data.train, data.max_length) == (str(Path.cwd() / "q.tsv"), 9)


def test_of_word_vectors_the_file_is_a_path_and_nothing_else(recipe):
    file = str(Path.cwd() / "v.txt")
    alone = read_recipe("glove_trec", ["data.vectors=v.txt"]).data.vectors
    inside = read_recipe("glove_trec", ["data.vectors.file=v.txt", "data.vectors.frozen=true"]).data.vectors
    whole = read_recipe("glove_trec", ["data.vectors={file: v.txt, extend: true}"]).data.vectors
    assert (alone, inside.file, whole.file) == (file, file, file)
    with pytest.raises(SaccadeError, match=r"data\.vectors\.frozen: expected true or false, found 'maybe'"):
        read_recipe("glove_trec", ["data.vectors.frozen=maybe"])


@pytest.mark.parametrize("name", ["efficientnet_lite0", "mine.net:Net", "models/net", "/models/net"])
def test_a_backbone_is_a_path_only_if_it_is_a_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recipes, "data_class", lambda task: CaptionData)
    monkeypatch.setattr(recipes, "TASKS", {"describe": None})
    settings = {"backbone": name, "weights": "w.bin", "cache": "kept"}
    tree = locate({"task": "describe", "data": {"train": "a.csv", "features": settings}}, "my.yaml")
    folder = tmp_path / "recipes"

    def found(root):
        return [node_at(root, f"data.features.{part}").value for part in settings]

    expected = str(folder / name) if name == "models/net" else name
    assert found(recipes.with_vocabulary(tree, folder)) == [expected, str(folder / "w.bin"), str(folder / "kept")]
    expected = str(tmp_path / name) if name == "models/net" else name
    typed = recipes.from_here(tree, ["data.features.backbone", "data.features.cache"])
    assert found(typed) == [expected, "w.bin", str(tmp_path / "kept")]
