"""The wheel: it holds the package with its recipes and types, nothing else, and says what it is."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import saccade

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """Built from a copy, without a network: a build leaves files behind where it runs."""
    setuptools = pytest.importorskip("setuptools", minversion="77", reason="the wheel is built by setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__", ".*"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir"]
    done = subprocess.run([*command, folder / "dist", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"setuptools {setuptools.__version__}: {done.stdout}{done.stderr}"
    (built,) = (folder / "dist").iterdir()
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def metadata(wheel) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def inside(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def test_every_file_of_the_package_is_in_the_wheel_and_no_other(wheel):
    source = (path for path in (ROOT / "src/saccade").rglob("*") if path.is_file())
    kept = {str(path.relative_to(ROOT / "src")) for path in source if "__pycache__" not in path.parts}
    assert inside(wheel) == {name for name in kept if not Path(name).name.startswith(".")}


def test_recipes_and_types_are_in_the_wheel(wheel):
    names = inside(wheel)
    assert "saccade/py.typed" in names
    assert {f"saccade/recipes/{path.name}" for path in (ROOT / "src/saccade/recipes").glob("*.yaml")} <= names
    assert "saccade/recipes/rnnsearch_dates.yaml" in names


def test_the_wheel_is_small_and_for_every_machine(wheel):
    assert Path(wheel.filename).name == f"saccade-{saccade.__version__}-py3-none-any.whl"
    assert Path(wheel.filename).stat().st_size < 2_000_000  # a quarter of it the gallery's traces
    carried = {name for name in wheel.namelist() if name.startswith("saccade/views/")}
    assert "saccade/views/assets/explorer.js" in carried, "make setup builds the explorer"
    assert "saccade/views/html/gallery/rnnsearch_dates.trace.gz" in carried


def test_the_version_is_one(metadata):
    assert metadata["Version"] == PROJECT["version"] == saccade.__version__


def test_the_metadata_say_what_it_is(metadata):
    assert metadata["Name"] == "saccade"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# saccade")


def test_the_extras_are_those_of_the_project(metadata):
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


def test_the_licence_and_the_command_come_along(wheel):
    texts = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert wheel.read(texts["licenses/LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert "saccade = saccade.cli:main" in wheel.read(texts["entry_points.txt"]).decode()


def test_what_development_needs_is_not_asked_of_users(metadata):
    needed = [line.split()[0] for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert not any(line.startswith(("pytest", "ruff", "mypy", "zensical", "tensorboard", "pyarrow")) for line in needed)
