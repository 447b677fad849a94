"""Optional packages: one that is missing is one line that says what for, and how to get it."""

import ast
import doctest
import sys
import tomllib
from pathlib import Path

import pytest

import saccade.extras
from saccade.errors import SaccadeError
from saccade.extras import need
from saccade.training.logs import Logs

ROOT = Path(__file__).parents[1]


def test_a_package_that_is_there_is_returned():
    assert need("json.decoder", extra="x", for_="this").JSONDecoder


def test_a_missing_package_names_the_job_and_the_extra():
    with pytest.raises(SaccadeError) as caught:
        need("no_such_package.part", extra="parquet", for_="reading Parquet")
    assert str(caught.value) == "reading Parquet needs the package 'no_such_package': pip install 'saccade[parquet]'"
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_dependency", "No module named 'no_such_dependency'"),
        ("raise ImportError('built for another Python\\nsecond line')", "built for another Python"),
    ],
)
def test_a_package_that_is_there_but_broken_is_not_called_missing(tmp_path, monkeypatch, text, reason):
    (tmp_path / "broken_package.py").write_text(text + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SaccadeError) as caught:
        need("broken_package", extra="hub", for_="the hub")
    sys.modules.pop("broken_package", None)
    assert str(caught.value) == (
        f"the hub needs the package 'broken_package', which is installed but fails to import ({reason}): "
        "pip install 'saccade[hub]'"
    )


def test_a_run_that_wants_tensorboard_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(SaccadeError, match=r"train.tensorboard needs the package 'tensorboard': pip install"):
        Logs(tmp_path, tensorboard=True)


def test_every_extra_that_the_code_names_can_be_installed():
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in (ROOT / "src").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "need":
                named = next(word.value for word in call.keywords if word.arg == "extra")
                assert isinstance(named, ast.Constant), f"{path}:{call.lineno}: name the extra where it is needed"
                assert named.value in offered, f"{path}:{call.lineno}: pyproject.toml has no extra {named.value!r}"


def test_the_example_is_true():
    assert doctest.testmod(saccade.extras, optionflags=doctest.IGNORE_EXCEPTION_DETAIL).failed == 0
