"""Runs with a user's own parts: trained, saved, loaded, looked at, resumed. The package is examples/own_parts."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import saccade
from saccade import api
from saccade import plugins as parts
from saccade.cli import main
from saccade.errors import Interrupted
from saccade.models import luong
from saccade.recipes.recipe import Recipe, read_recipe
from saccade.storage import load_tensors
from saccade.trace import Lens
from saccade.training.report import Silence

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_parts"
FEW = [
    "data.count=120",
    "data.longest=3",
    "train.epochs=2",
    "train.batch_records=16",
    "train.save_every=2",
    "train.device=cpu",
]
SMALL = ["model.hidden=6", "model.embedding=4"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The example in a folder of its own, which is the current one."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    before = Path.cwd()
    forget_mine()  # somebody else's, perhaps
    os.chdir(folder)
    yield folder
    os.chdir(before)
    forget_mine()


def forget_mine() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]
    parts._HOMES.pop("mine", None)


def few(recipe: str, *overrides: str) -> Recipe:
    small = SMALL if recipe == "parts.yaml" else ["model.width=6"]
    return read_recipe(recipe, [*FEW, *small, *overrides])


@pytest.fixture(scope="module")
def trained(project: Path) -> dict[str, api.Bundle]:
    return {
        "parts": api.train(few("parts.yaml"), folder=project / "runs" / "parts"),
        "network": api.train(few("aloud.yaml"), folder=project / "runs" / "network"),
    }


@pytest.mark.parametrize("name", ["parts", "network"])
def test_a_run_with_own_parts_is_saved_loaded_and_predicts_the_same(trained, name):
    bundle = trained[name]
    again = saccade.load(bundle.folder, device="cpu", trust=["mine"])
    inputs = ["305", "7", "42"]
    assert [one.value for one in again.predict(inputs)] == [one.value for one in bundle.predict(inputs)]
    assert again.recipe.to_plain() == bundle.recipe.to_plain()
    assert again.evaluate() == bundle.figures["test"]


@pytest.mark.parametrize("name", ["parts", "network"])
def test_where_an_own_part_looks_can_be_seen(trained, name, tmp_path, capsys):
    prediction = trained[name].predict("305", lens=Lens())[0]
    weights = prediction.trace.map("decoder.attention").weights
    assert weights.shape == (len(prediction.trace.axes["target"]), 4)
    prediction.trace.show()
    assert "decoder.attention" in capsys.readouterr().out
    assert prediction.trace.save(tmp_path / "x.svg").stat().st_size > 1000


def test_an_own_window_hides_what_it_hides(trained):
    weights = trained["parts"].predict("305", lens=Lens())[0].trace.map().weights
    assert weights[0, :2].sum() == pytest.approx(1)
    assert not weights[0, 2:].any()


def test_the_parameters_of_own_parts_are_trained_and_kept(trained):
    kept, _ = load_tensors(trained["parts"].folder / "model.safetensors")
    torch.manual_seed(trained["parts"].recipe.train.seed)
    task = trained["parts"].task
    fresh = dict(task.network(luong.Luong, trained["parts"].recipe.model).named_parameters())
    for name in ("attention.own.part.project.weight", "attention.normalise.part.raw"):
        assert not torch.equal(kept[name], fresh[name])


@pytest.mark.parametrize("recipe", ["parts.yaml", "aloud.yaml"])
def test_a_run_with_own_parts_that_was_stopped_and_resumed_equals_a_whole_one(trained, project, tmp_path, recipe):
    class Stop(Silence):
        def update(self, done: int, epoch: int, loss: float) -> None:
            if done == 5:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        api.train(few(recipe), folder=tmp_path / "run", report=Stop())
    resumed = api.resume(tmp_path / "run", trust=["mine"])
    whole = trained["parts" if recipe == "parts.yaml" else "network"]
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], tensor), name


def saccade_in(folder: Path, *arguments: object, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as installed: the current folder is not on its Python path."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", "from saccade.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_command_line_finds_own_parts_in_the_current_folder(trained, project):
    done = saccade_in(project, "predict", "runs/parts", "305", "--trust", "mine")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == trained["parts"].predict("305")[0].value


def test_from_another_folder_the_command_line_says_what_to_do(trained, project, tmp_path):
    command = ("predict", project / "runs" / "parts", "305", "--trust", "mine")
    done = saccade_in(tmp_path, *command)
    assert done.returncode == 1
    expected = (
        rf"error: .*config\.json: task: expected a module 'mine' on .* in {tmp_path} \(the current folder\), found none"
    )
    hint = rf"\(its recipe was in {project}, which contains one: if you trust it, set PYTHONPATH to that folder\)"
    assert re.fullmatch(f"{expected} {hint}\n", done.stderr)
    assert saccade_in(tmp_path, *command, path=project).returncode == 0


def test_an_error_in_an_own_network_is_one_line_for_the_command_line(project, monkeypatch, capsys):
    (project / "own_fault.py").write_text(
        "from mine.network import Glance\n\nclass Faulty(Glance):\n    def start(self, memory):\n        return memory.absent\n"
    )
    command = ["train", "aloud.yaml", *FEW, "model.name=own_fault:Faulty", "--out", "runs/faulty"]
    monkeypatch.setattr(sys, "argv", ["saccade", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err.strip()
    assert told == f"error: AttributeError: 'tuple' object has no attribute 'absent' ({project}/own_fault.py, line 5)"


# The example and its tutorial ------------------------------------------------------------------------------------------------


def test_the_examples_own_test_passes(project):
    runpy.run_path("test_mine.py")["test_my_parts_keep_their_promises"]()


def test_the_tutorial_shows_the_very_files():
    page = (ROOT / "docs" / "tutorials" / "own-parts.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"`([\w/]+\.(?:py|yaml))`[^`]*\n```(?:python|yaml)\n(.*?)```", page, re.S))
    files = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*.*") if path.suffix in (".py", ".yaml")}
    assert set(shown) == files - {"mine/__init__.py"}
    for name, text in shown.items():
        assert text == (EXAMPLE / name).read_text(encoding="utf-8"), name
