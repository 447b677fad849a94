"""A user's own parts by name: where they are looked for, and what is said when they cannot be had."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from saccade import plugins as parts
from saccade.errors import InputError
from saccade.models import luong, network_class
from saccade.nn.config import check
from saccade.plugins import EVERYTHING, PartError, Trust, blame, load, searching
from saccade.recipes.recipe import change, from_plain, read_recipe
from saccade.tasks import task_class

RECIPE = """\
task: translate
data: {source: dates}
model:
  name: luong
  hidden: 12
  score: SCORE
"""
SCORE = """\
from torch import nn

class Twice(nn.Module):
    def __init__(self, query_width, key_width):
        super().__init__()

    def forward(self, query, key):
        return 2 * query @ key.mT

def function(query, key):
    return query @ key.mT
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imported is unknown to the next."""
    before = set(sys.modules)
    monkeypatch.setattr(parts, "_OWN", set())
    monkeypatch.setattr(parts, "_HOMES", {})
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0].startswith("own_"):
            del sys.modules[name]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: empty, and not the recipe's."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def recipe_with(folder: Path, score: str, code: str = SCORE) -> Path:
    """A recipe that names this score, and ``own_score.py`` beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "own_score.py").write_text(code)
    path = folder / "my.yaml"
    path.write_text(RECIPE.replace("SCORE", score))
    return path


# Where parts are looked for ------------------------------------------------------------------------------------------------


def test_a_part_is_found_beside_the_recipe(tmp_path, elsewhere):
    before = list(sys.path)
    recipe = read_recipe(recipe_with(tmp_path / "recipes", "own_score:Twice"))
    assert recipe.model.score == "own_score:Twice"
    assert sys.modules["own_score"].__file__ == str(tmp_path / "recipes" / "own_score.py")
    assert sys.path == before


def test_a_part_is_found_in_the_current_folder(tmp_path, elsewhere):
    path = recipe_with(tmp_path, "own_here:Twice")
    (elsewhere / "own_here.py").write_text(SCORE)
    read_recipe(path)
    assert sys.modules["own_here"].__file__ == str(elsewhere / "own_here.py")


def test_the_python_path_comes_first_then_the_recipes_folder_then_the_current_one(tmp_path, elsewhere, monkeypatch):
    (tmp_path / "path").mkdir()
    for name, homes in {"own_a": ("path", "recipes", "elsewhere"), "own_b": ("recipes", "elsewhere")}.items():
        path = recipe_with(tmp_path / "recipes", f"{name}:Twice")
        for home in homes:
            (tmp_path / home / f"{name}.py").write_text(SCORE)
        monkeypatch.syspath_prepend(tmp_path / "path")
        read_recipe(path)
        assert sys.modules[name].__file__ == str(tmp_path / homes[0] / f"{name}.py")


def test_a_recipe_in_hand_still_finds_what_lies_beside_its_file(tmp_path, elsewhere):
    recipe = read_recipe(recipe_with(tmp_path / "recipes", "own_score:Twice"))
    (tmp_path / "recipes" / "own_other.py").write_text(SCORE)
    assert change(recipe, ["model.score=own_other:Twice"]).model.score == "own_other:Twice"


def test_a_bundle_leads_to_no_folder_that_it_names(tmp_path, elsewhere):
    home = tmp_path / "recipes"
    plain = read_recipe(recipe_with(home, "own_score:Twice")).to_plain()
    del sys.modules["own_score"]
    parts._HOMES.clear()
    with pytest.raises(InputError, match=r"config\.json: model\.score: expected a module 'own_score' on the Python path or "
                       r"in .*elsewhere \(the current folder\), found none \(its recipe was in .*recipes, which contains one: "
                       r"if you trust it, set PYTHONPATH"):  # fmt: skip
        from_plain(plain, name="my", folder=home, where="config.json", trust=Trust(("own_score",)))
    assert "own_score" not in sys.modules


def test_two_modules_of_one_name_are_never_taken_for_each_other(tmp_path, elsewhere):
    read_recipe(recipe_with(tmp_path / "a", "own_score:Twice"))
    with pytest.raises(InputError, match=r"one module 'own_score' in a process, found .*/b/own_score\.py, .*/a/own_"):
        read_recipe(recipe_with(tmp_path / "b", "own_score:Twice"))
    read_recipe(tmp_path / "a" / "my.yaml")


def test_what_was_imported_once_is_found_wherever_the_program_went_since(tmp_path, elsewhere):
    with searching(trust=EVERYTHING, beside=recipe_with(tmp_path / "recipes", "own_score:Twice").parent):
        found = load("own_score:Twice")
    assert load("own_score:Twice") is found


def test_a_file_written_a_moment_ago_is_found(tmp_path, elsewhere):
    with searching(trust=EVERYTHING):
        with pytest.raises(PartError):
            load("own_late:Twice")
        (elsewhere / "own_late.py").write_text(SCORE)
        assert load("own_late:Twice").__name__ == "Twice"


# What is said when they cannot be had ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "code", "message"),
    [
        ("own_scor:Twice", SCORE, r"'own_scor' on the Python path or in .*recipes \(beside the recipe\), in .*\(the current"),
        ("own_scor:Twice", SCORE, r"a module 'own_scor' .*, found none \(did you mean 'own_score'\?\)"),
        ("own_nothing_like:Twice", SCORE, r"found none \(start in its folder, or set PYTHONPATH to it\)"),
        ("own_score.deep:Twice", SCORE, r"a module 'own_score.deep' in 'own_score', found no 'own_score.deep' in it"),
        ("own_score:Twic", SCORE, r"'own_score' to have 'Twic', found no such name in .*own_score\.py \(did you mean 'Twice'"),
        ("own_score:function", SCORE, r"a class derived from torch\.nn\.Module, found a function"),
        ("own_score:nn", SCORE, r"a class derived from torch\.nn\.Module, found a module"),
        ("own_score:Twice", "import own_absent", r"to import, found ModuleNotFoundError: .*'own_absent' \(.*py, line 1\)"),
        ("own_score:Twice", "\n\ndef f(:", r"to import, found SyntaxError: invalid syntax \(.*own_score\.py, line 3\)"),
        ("own_score:Twice", "x = 1\ny = x / 0", r"found ZeroDivisionError: division by zero \(.*own_score\.py, line 2\)"),
        ("own_score:Twice", "import sys\nsys.exit(3)", r"found SystemExit: 3 \(.*own_score\.py, line 2\)"),
        ("own_score:Twice", SCORE.replace("query_width, ", ""), r"made by \(query_width, key_width\), found Twice\(key"),
        ("own_score.py:Twice:3", SCORE, r"expected package\.module:Name, found 'own_score\.py:Twice:3'"),
        ("lib/own_score:Twice", SCORE, r"expected package\.module:Name, found 'lib/own_score:Twice' .*not its file"),
        (":Twice", SCORE, r"expected package\.module:Name"),
        ("genral", SCORE, r"one of dot, general, concat, location, or your own .*, found 'genral' \(did you mean 'general'"),
    ],
)  # fmt: skip
def test_every_fault_names_the_recipes_line_and_what_is_wrong(tmp_path, elsewhere, score, code, message):
    with pytest.raises(
        InputError, match=rf"my\.yaml:6: model\.score: expected .*{message.removeprefix('expected ')}"
    ) as raised:
        read_recipe(recipe_with(tmp_path / "recipes", score, code))
    assert "\n" not in str(raised.value)


def test_a_config_made_in_python_is_checked_alike(elsewhere, monkeypatch):
    (elsewhere / "own_score.py").write_text(SCORE)
    with pytest.raises(
        ValueError, match="a module that this program has imported, found 'own_score', which it has not"
    ):
        luong.Config(score="own_score:Twice")
    assert "own_score" not in sys.modules
    monkeypatch.syspath_prepend(elsewhere)
    importlib.import_module("own_score")
    with pytest.raises(
        ValueError, match=r"score: own_score:Twic: expected 'own_score' to have 'Twic'.*did you mean 'Twice'"
    ):
        luong.Config(score="own_score:Twic")
    assert luong.Config(score="own_score:Twice").score == "own_score:Twice"


NETWORK = """\
from dataclasses import dataclass
import saccade.task
from torch import nn
from saccade.nn import EncoderDecoder

@dataclass(frozen=True)
class Config:
    width: int = 3

    def __post_init__(self):
        if self.width == 13:
            raise KeyError("unlucky")
        if self.width < 1:
            raise ValueError(f"width must be at least 1: got {self.width}")

@dataclass(frozen=True)
class Odd:
    layer: nn.Module = None

class Net(EncoderDecoder):
    config_class = Config

class Plain(nn.Module):
    config_class = Config

class Strange(EncoderDecoder):
    config_class = Odd

class Without(EncoderDecoder):
    pass

class Task(saccade.task.Task):
    def load(self): ...
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.name=own_net:Nett"], r"model\.name: expected 'own_net' to have 'Nett'.*did you mean 'Net'"),
        (["model.name=own_net:Without"], r"model\.name: expected a network with a config_class, .*found none"),
        (["model.name=own_net:Config"], r"model\.name: expected a class derived from torch\.nn\.Module, found the class"),
        (["model.name=own_net:Plain"], r"model\.name: expected a class derived from saccade\.nn\.EncoderDecoder for the task"),
        (["model.widht=5"], r"model\.widht: expected one of width, found 'widht' \(did you mean 'width'"),
        (["model.width=wide"], r"model\.width: expected a whole number, found 'wide'"),
        (["model.width=0"], r"model\.width: .*at least 1, found 0"),
        (["model.width=13"], r"model: expected own_net:Net's Config .*found KeyError: 'unlucky' .*own_net\.py, line 12"),
        (["model.name=own_net:Strange", "model.layer=3"], r"model: expected own_net:Strange's Odd .*TypeError: model\.layer"),
        (["task=own_net:Task"], r"task: expected the methods .* of saccade\.task\.Task, found none named .*read_file, records"),
        (["task=own_net:Net"], r"task: expected a class derived from saccade\.task\.Task, found the class"),
    ],
)  # fmt: skip
def test_a_network_or_task_that_cannot_serve_is_refused_before_any_data_is_read(elsewhere, changes, message):
    (elsewhere / "own_net.py").write_text(NETWORK)
    (elsewhere / "my.yaml").write_text("task: translate\ndata: {source: dates}\nmodel: {name: own_net:Net}\n")
    with pytest.raises(InputError, match=message) as raised:
        read_recipe("my.yaml", changes)
    assert "\n" not in str(raised.value)


def test_a_task_needs_a_data_class(elsewhere):
    (elsewhere / "own_task.py").write_text(
        "from saccade.tasks.translate import Translate\n\nclass Mine(Translate):\n    Data = 3\n"
    )
    with (
        searching(trust=EVERYTHING),
        pytest.raises(PartError, match=r"own_task:Mine: expected a task whose Data is the dataclass .*, found 3"),
    ):
        task_class("own_task:Mine")


def test_the_metrics_of_an_own_task_are_its_own(elsewhere):
    (elsewhere / "own_task.py").write_text(
        "from saccade.data.pairs.records import PairData\nfrom saccade.tasks.translate import Translate\n\n"
        "class Loud(Translate):\n    Data = PairData\n    metrics = ('loudness', 'exact_match')\n"
    )
    text = "task: own_task:Loud\ndata: {source: dates}\nmodel: {name: luong}\nmetrics: [loudness]\n"
    (elsewhere / "my.yaml").write_text(text)
    assert read_recipe("my.yaml", ["train.watch=loudness"]).metrics == ("loudness",)
    for fault in ("metrics=[bleu]", "train.watch=bleu", "expect={metric: bleu, at_least: 3}"):
        with pytest.raises(InputError, match=r"expected (loss or )?one of loudness, exact_match, found 'bleu'"):
            read_recipe("my.yaml", [fault])


def test_the_shipped_names_still_mean_what_they_did():
    assert network_class("luong") is luong.Luong
    for name, score in {"dot": "dot", "location": "location"}.items():
        assert luong.Config(score=name).score == score
    check(luong.Config())


# An error in a user's code ---------------------------------------------------------------------------------------------------


def test_an_error_is_blamed_on_the_last_line_of_a_part_that_ran(elsewhere):
    (elsewhere / "own_deep_fault.py").write_text("import math\n\ndef deep(x):\n    return math.sqrt(x)\n")
    with searching(trust=EVERYTHING):
        deep = load("own_deep_fault:deep")
    with pytest.raises(ValueError) as raised:
        deep(-1)
    assert str(blame(raised.value)).startswith("ValueError: ")
    assert str(blame(raised.value)).endswith(f"({elsewhere / 'own_deep_fault.py'}, line 4)")


def test_an_error_elsewhere_is_nobodys_part():
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0
    assert blame(raised.value) is None


def test_names_are_resolved_without_torch():
    program = "import sys, saccade.plugins, saccade.tasks, saccade.models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
