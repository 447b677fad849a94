"""Completion as a shell asks for it: words in environment variables, offers on stdout, no torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.cli.options import begun_runs, metric_names, module_names, recipe_names, trained_runs

PROGRAM = "from saccade.cli import app; app(prog_name='saccade')"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a trained run, one that has only begun, a sweep of one, and what is none of them."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs/done", "runs/sweep/hidden-7", "runs/.cache/gone"):
        Path(name).mkdir(parents=True)
        for file in ("model.safetensors", "run.json"):
            Path(name, file).touch()
    for name in ("runs/begun", "notes"):
        Path(name).mkdir()
    Path("runs/begun/run.json").touch()
    for file in ("my.yaml", "notes/other.yml", "pairs.tsv"):
        Path(file).touch()
    return tmp_path


def ask(words: str, shell: str = "bash") -> list[str]:
    """What the shell is offered for the last of these words."""
    environment = {**os.environ, "_SACCADE_COMPLETE": f"complete_{shell}", "COMP_WORDS": words}
    environment |= {"COMP_CWORD": str(words.count(" ")), "_TYPER_COMPLETE_ARGS": words}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout.splitlines()


def test_the_shell_is_offered_recipes(here):
    assert ask("saccade train rnnsearch_d") == ["rnnsearch_dates"]


def test_the_shell_is_offered_runs(here):
    assert ask("saccade predict runs/") == ["runs/done", "runs/sweep/hidden-7"]
    assert ask("saccade train --resume runs/b") == ["runs/begun"]


def test_zsh_sees_what_a_recipe_is_about(here):
    offer = "".join(ask("saccade train rnnsearch_d", "zsh"))
    assert '"rnnsearch_dates":"RNNsearch reads dates' in offer


def test_completing_loads_no_torch(here):
    program = (
        "import sys\nimport saccade.cli.options as c\n"
        "c.recipe_names(''), c.trained_runs(''), c.begun_runs(''), c.metric_names('')\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_recipes_are_the_shipped_ones_and_files(here):
    names = [name for name, _ in recipe_names("")]
    assert "pointer_hull" in names
    assert names[-1] == "my.yaml"
    assert recipe_names("notes/o") == [("notes/other.yml", "a file")]
    assert recipe_names("zz") == []


def test_runs_are_found_below_and_hidden_folders_left_out(here):
    assert trained_runs("") == ["runs/done", "runs/sweep/hidden-7"]
    assert trained_runs("runs/s") == ["runs/sweep/hidden-7"]
    assert begun_runs("") == ["runs/begun", "runs/done", "runs/sweep/hidden-7"]
    assert trained_runs(f"{here}/runs/d") == [f"{here}/runs/done"]


def test_a_home_folder_stays_as_it_was_typed(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    assert trained_runs("~/runs/d") == ["~/runs/done"]


@pytest.mark.parametrize("typed", ["nowhere/", "pairs.tsv/"])
def test_what_cannot_be_read_offers_nothing(here, typed):
    assert trained_runs(typed) == []


def test_metrics_are_offered_by_name():
    assert metric_names("c") == ["cer", "chrf", "cider"]


def test_modules_to_trust_are_those_of_the_current_folder(here):
    Path("mine").mkdir()
    for file in ("mine/__init__.py", "myscore.py", "not-a-module.py"):
        Path(file).touch()
    assert module_names("m") == ["mine", "myscore"]
    assert module_names("no") == []
