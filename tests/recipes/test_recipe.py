"""Recipes: every shipped one reads; every fault names its file, line and field."""

import re
import subprocess
import sys

import pytest
import yaml

from saccade.errors import InputError
from saccade.recipes.recipe import change, from_plain, read_recipe, shipped_recipes

GOOD = """\
task: translate
data: {source: dates}
model: {name: rnnsearch, hidden: 12}
train: {epochs: 2, lr: 1e-3}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str):
        path = tmp_path / "my.yaml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_reads_and_survives_a_round_trip(name, tmp_path):
    recipe = read_recipe(name)
    again = from_plain(recipe.to_plain(), name=recipe.name, folder=recipe.folder, where="again")
    assert again == recipe
    assert recipe.about
    assert recipe.expect is not None
    assert recipe.expect.metric in recipe.metrics


def test_numbers_are_read_by_the_fields_type(write):
    recipe = read_recipe(write(GOOD), ["train.lr=5e-4"])
    assert recipe.train.lr == 5e-4
    assert recipe.model.hidden == 12
    assert recipe.changed == ("train.lr",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hidden: 12", "hiden: 12", r"my\.yaml:3: model\.hiden: expected one of .*did you mean 'hidden'"),
        ("hidden: 12", "hidden: wide", r"my\.yaml:3: model\.hidden: expected a whole number, found 'wide'"),
        ("hidden: 12", "hidden: -3", r"my\.yaml:3: model\.hidden: .*at least 1, found -3"),
        ("rnnsearch", "rnsearch", r"my\.yaml:3: model\.name: expected one of .*did you mean 'rnnsearch'"),
        ("task: translate", "task: translat", r"my\.yaml:1: task: expected one of .*did you mean 'translate'"),
        ("task: translate\n", "", r"my\.yaml:?1?: task: .*required"),
        ("train:", "trian:", r"my\.yaml:4: trian: .*did you mean 'train'"),
        ("{source: dates}", "{source: date}", r"my\.yaml:2: data\.source: expected .*dates"),
        ("{source: dates}", "{}", r"my\.yaml:2: data.*source or train must be given"),
        ("epochs: 2", "epochs: [2]", r"my\.yaml:4: train\.epochs: expected a whole number, found a list"),
        ("epochs: 2", "epochs: 2, watch: blue", r"my\.yaml.*train.*blue"),
        ("name: rnnsearch, ", "", r"my\.yaml:3: model\.name: expected one of"),
        ("task: translate", "task: [translate", r"my\.yaml:2"),
    ],
)
def test_a_fault_names_its_file_line_and_field(write, old, new, message):
    with pytest.raises(InputError, match=message):
        read_recipe(write(GOOD.replace(old, new)))


CLASSIFIER = """\
task: classify
data: {source: opinions}
model: {name: attentive_classifier, hidden: 12}
"""


@pytest.mark.parametrize(
    "search",
    ["beam: 5", "length_penalty: 1.0", "sample: {}", "unknown: copy", "diverse: {groups: 2}", "sample: {}, n_best: 3"],
)
def test_search_settings_are_refused_for_tasks_without_a_search(write, search):
    name = search.partition(":")[0]
    message = rf"my\.yaml:4: search\.{name}: expected nothing: the task classify .* without a search"
    with pytest.raises(InputError, match=message):
        read_recipe(write(CLASSIFIER + f"search: {{{search}}}\n"))


def test_the_number_of_labels_may_be_set_without_a_search(write):
    for said in ("n_best: 3, beam: 3", "n_best: 3", "n_best: 3, beam: 1, sample: null"):
        search = read_recipe(write(CLASSIFIER + f"search: {{{said}}}\n")).search
        assert (search.n_best, search.beam) == (3, 3)
    recipe = read_recipe(write(CLASSIFIER + "search: {beam: 1, stop: exact}\n"))
    assert recipe == from_plain(recipe.to_plain(), name=recipe.name, folder=recipe.folder, where="again")


def test_how_many_labels_are_wanted_may_be_changed_without_a_beam(write):
    recipe = read_recipe(write(CLASSIFIER), ["search.n_best=3"])
    for count in (2, 5):
        search = change(recipe, [f"search.n_best={count}"]).search
        assert (search.n_best, search.beam) == (count, count)


MISFITS = {
    "classify": (
        "{source: opinions}",
        "attentive_classifier",
        "sampling: 0.5",
        "train.sampling",
        "0: the task classify",
    ),
    "label": ("{source: repeats}", "attentive_tagger", "sampling: 0.5", "train.sampling", "0: the task label"),
    "rank": ("{source: facts}", "siamese", "sampling: 0.5", "train.sampling", "0: the task rank"),
    "pretrain": ("{source: topics}", "bert", "sampling: 0.5", "train.sampling", "0: the task pretrain"),
    "vectors": ("{source: topics}", "skipgram", "sampling: 0.5", "train.sampling", "0: the task vectors"),
    "vectors smoothed": (
        "{source: topics}",
        "skipgram",
        "label_smoothing: 0.5",
        "train.label_smoothing",
        "0: the task",
    ),
    "point": (
        "{source: sorting}",
        "pointer, revisit: false",
        "sampling: 0.5",
        "train.sampling",
        "0: with model.revisit",
    ),
    "point smoothed": ("{source: sorting}", "pointer", "label_smoothing: 0.5", "train.label_smoothing", "0: it would"),
    "language": (
        "{source: agreement, layout: stream, streams: 3}",
        "recurrent_lm",
        "sampling: 0.5",
        "train.sampling",
        "0: with",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_setting_that_a_task_has_no_use_for_is_refused_at_its_line(write, case):
    data, model, given, field, expected = MISFITS[case]
    path = write(f"task: {case.split()[0]}\ndata: {data}\nmodel: {{name: {model}}}\ntrain: {{{given}}}\n")
    with pytest.raises(InputError) as error:
        read_recipe(path)
    assert str(error.value).startswith(f"{path}:4: {field}: expected {expected}")
    assert str(error.value).endswith(", found 0.5")
    with pytest.raises(InputError, match=rf"command line: {field}: .*, found 0\.25"):
        read_recipe(path, [f"{field}=0.25"])
    sound = read_recipe(path, [f"{field}=0"])
    with pytest.raises(InputError, match=rf"overrides: {field}: .*, found 0\.25"):
        change(sound, changes={field: 0.25})
    plain = sound.to_plain()
    plain["train"][field.partition(".")[2]] = 0.5
    assert from_plain(plain, name="old", folder=sound.folder, where="old").train  # a run is read as it is


@pytest.mark.parametrize(
    ("rest", "place"),
    [
        ("metrics: [mlm_accuracy, nsp_accuracy]\n", "4: metrics[1]"),
        ("train: {watch: nsp_accuracy}\n", "4: train.watch"),
        ("train: {epochs: 2}\nexpect: {metric: nsp_accuracy, at_least: 0.5}\n", "5: expect.metric"),
    ],
)
def test_a_figure_of_pairs_is_refused_where_there_are_none(write, rest, place):
    text = "task: pretrain\ndata: {source: topics, pairs: none}\nmodel: {name: bert}\n" + rest
    message = f":{place}: expected metrics of masked words (mlm_…), since data.pairs is none, found 'nsp_accuracy'"
    with pytest.raises(InputError, match=re.escape(message)):
        read_recipe(write(text))
    assert read_recipe(write(text), ["data.pairs=next"]).data.pairs == "next"


def test_a_beam_wider_than_the_labels_wanted_is_reported_how_wide(write):
    with pytest.raises(InputError, match=r"search\.beam: expected 3, as n_best: .*classify.*, found '5'"):
        read_recipe(write(CLASSIFIER + "search: {n_best: 3, beam: 5}\n"))


def test_tags_have_no_n_best_list(write):
    text = "task: label\ndata: {source: repeats}\nmodel: {name: attentive_tagger}\nsearch: {beam: 3, n_best: 3}\n"
    with pytest.raises(InputError, match=r"my\.yaml:4: search\.n_best: expected 1: the task label has no n-best list"):
        read_recipe(write(text))


def test_a_run_that_was_trained_with_unused_search_settings_is_still_read(write):
    recipe = read_recipe(write(CLASSIFIER))
    plain = recipe.to_plain()
    plain["search"]["beam"] = 5
    saved = from_plain(plain, name="old", folder=recipe.folder, where="old")
    assert saved.search.beam == 5
    assert change(saved, ["train.epochs=2"]).train.epochs == 2
    with pytest.raises(InputError, match=r"search\.beam: expected nothing"):
        change(saved, ["search.beam=4"])


@pytest.mark.parametrize("model", ["rnnsearch", "luong", "seq2seq"])
def test_an_initialisation_is_read_by_its_former_name(model):
    written = {"task": "translate", "data": {"source": "dates"}, "model": {"name": model, "init": "default"}}
    assert read_recipe(written).model.init == "torch"
    assert read_recipe({**written, "model": {"name": model}}).model.init == "uniform"
    with pytest.raises(InputError, match="init"):
        read_recipe({**written, "model": {"name": model, "init": "defaults"}})


def test_a_search_is_refused_for_a_users_own_task_that_has_none(write, tmp_path):
    (tmp_path / "unsearched.py").write_text(
        "from saccade.data.labels.records import LabelledData\nfrom saccade.tasks.classify import Classify\n"
        "class Mine(Classify):\n    Data = LabelledData\n"
    )
    with pytest.raises(InputError, match=r"search\.beam: expected nothing: .* without a search"):
        read_recipe(write(CLASSIFIER.replace("task: classify", "task: unsearched:Mine") + "search: {beam: 5}\n"))


def test_a_name_without_its_suffix_suggests_the_file(tmp_path):
    (tmp_path / "my.yaml").write_text("task: translate\n")
    with pytest.raises(InputError, match=r"did you mean '.*my\.yaml'"):
        read_recipe(tmp_path / "my")


def test_a_file_of_data_in_the_place_of_a_recipe_is_reported_how_to_get_one(tmp_path):
    (tmp_path / "pairs.csv").write_text("a,b\n")
    with pytest.raises(InputError, match=r"expected a recipe \(\.yaml\), found a data file \(saccade data .* --recipe"):
        read_recipe(tmp_path / "pairs.csv")


def test_an_unknown_name_suggests_a_shipped_recipe():
    with pytest.raises(InputError, match="did you mean 'rnnsearch_dates'"):
        read_recipe("rnnsearch_date")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.yaml"):
        read_recipe(tmp_path / "absent.yaml")


@pytest.mark.parametrize("fault", ["train.lr=fast", "data.source=date", "tain.lr=1", "model.name=x", "task=x"])
def test_most_faults_are_found_before_torch_is_loaded(fault):
    program = f"""
import sys
from saccade.errors import SaccadeError
from saccade.recipes.recipe import read_recipe
try:
    read_recipe("rnnsearch_dates", [{fault!r}])
except SaccadeError:
    sys.exit(7 if "torch" not in sys.modules else 8)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7


def test_a_folder_named_like_a_shipped_recipe_does_not_hide_it_but_a_file_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rnnsearch_dates").mkdir()
    assert read_recipe("rnnsearch_dates").to_plain()["model"]["name"] == "rnnsearch"
    (tmp_path / "luong_dates").write_text("task: translate\ndata: {train: a.tsv}\nmodel: {name: seq2seq}\n")
    assert read_recipe("luong_dates").to_plain()["model"]["name"] == "seq2seq"
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="mine"):
        read_recipe("mine")


def test_a_dict_is_read_as_a_file_is(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(GOOD.replace("{source: dates}", "{train: a.tsv, format: tsv}"))
    plain = yaml.safe_load(path.read_text()) | {"train": {"epochs": 2, "lr": 0.001}}  # to PyYAML 1e-3 is a text
    recipe = read_recipe(plain, ["model.hidden=13"], {"train.epochs": 3})
    assert recipe.to_plain() == read_recipe(path, ["model.hidden=13"], {"train.epochs": 3}).to_plain()
    assert (recipe.name, recipe.changed, recipe.folder.resolve()) == (
        "translate-rnnsearch",
        ("model.hidden", "train.epochs"),
        tmp_path,
    )
    assert read_recipe(recipe.to_plain()).to_plain() == recipe.to_plain()
    with pytest.raises(InputError, match=r"recipe: model\.hidden: .*at least 1, found -3"):
        read_recipe(plain | {"model": {"name": "rnnsearch", "hidden": -3}})
    with pytest.raises(InputError, match=r"expected a recipe's file, .*or a dict, found a list"):
        read_recipe([plain])


def test_an_error_of_tokens_names_the_file_the_line_and_the_field(tmp_path):
    (tmp_path / "my.yaml").write_text(
        "task: translate\ndata:\n  source: copies\n  tokens:\n    kind: words\n    size: 2\nmodel: {name: luong}\n"
    )
    with pytest.raises(InputError, match=r"my\.yaml:6: data\.tokens\.size: expected a whole number of at least"):
        read_recipe(tmp_path / "my.yaml")
