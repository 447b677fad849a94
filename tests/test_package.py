"""The wheel: it holds the package with its recipes and types, nothing else, and says what it is."""

import os
import shutil
import subprocess
import sys
import tarfile
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
def checkout(tmp_path_factory) -> Path:
    """A fresh checkout, where nothing is built: a build leaves files behind where it runs."""
    pytest.importorskip("setuptools", minversion="77", reason="the wheel is built by setuptools")
    modules = ROOT / "web/node_modules"
    if not (modules / ".package-lock.json").is_file():
        pytest.skip("make setup fetches what the explorer is built with")
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "web", folder / "web", ignore=shutil.ignore_patterns("node_modules"))
    unwanted = shutil.ignore_patterns("*.egg-info", "__pycache__", ".*", "assets")
    shutil.copytree(ROOT / "src", folder / "src", ignore=unwanted)
    fetched = folder / "web/node_modules"
    fetched.mkdir()
    shutil.copy(modules / ".package-lock.json", fetched)
    for package in modules.iterdir():
        if not package.name.startswith("."):
            (fetched / package.name).symlink_to(package)
    left = folder / "build/lib/saccade/gone.py"  # by an earlier build, of a module that is gone
    left.parent.mkdir(parents=True)
    left.touch()
    return folder


def pip_wheel(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without a network."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir"]
    given = {**os.environ, "npm_config_offline": "true", **environment}
    return subprocess.run([*command, folder / "dist", folder], env=given, capture_output=True, text=True, check=False)


def built_in(folder: Path, done: subprocess.CompletedProcess[str]) -> zipfile.ZipFile:
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    (built,) = (folder / "dist").glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def wheel(checkout) -> zipfile.ZipFile:
    return built_in(checkout, pip_wheel(checkout))


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
    assert "saccade/views/assets/explorer.js" in carried, "the build backend builds the explorer"
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


def test_an_sdist_carries_the_explorer_and_becomes_the_same_wheel_without_node(wheel, checkout, tmp_path):
    ask = "import build_backend, sys; print(build_backend.build_sdist(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": str(checkout / "scripts")}
    subprocess.run(
        [sys.executable, "-c", ask, tmp_path], cwd=checkout, env=environment, capture_output=True, check=True
    )
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / sdist.name.removesuffix(".tar.gz")
    assert not (folder / "web").exists()
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    assert inside(built_in(folder, pip_wheel(folder, PATH=str(nothing)))) == inside(wheel)


def test_without_the_explorer_there_is_no_wheel_and_one_line_says_why(checkout, tmp_path):
    folder = tmp_path / "checkout"
    shutil.copytree(checkout, folder, ignore=shutil.ignore_patterns("web", "assets", "build", "dist"))
    done = pip_wheel(folder)
    assert done.returncode != 0 and not list((folder / "dist").glob("*.whl"))
    said = done.stdout + done.stderr
    assert "the explorer was not built" in said and str(folder / "web") in said and "Traceback" not in said
