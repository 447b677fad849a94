"""What every test stands on: shapes are checked, one thread, one seed.

The signatures of the attention core, the parts and the models carry their shapes (jaxtyping). Under test each call is
checked against them, arguments and results: a wrong axis fails where it arises.
"""

import os
import sys
from collections.abc import Callable, Iterator

import jaxtyping

# Before saccade is imported: the hook acts on modules as they load. An int is a float here, as it is for mypy.
jaxtyping.install_import_hook(
    ["saccade.attention", "saccade.nn", "saccade.models"],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)

# Processes that tests start in other folders find the package too, also where the path is a relative one.
if paths := os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths.split(os.pathsep))

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same numbers, whichever tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """For tests of many small calls, whose shapes other tests check: the checks would take most of their time."""
    yield from _unchecked()


@pytest.fixture(scope="module")
def module_unchecked() -> Iterator[None]:
    """The same for a whole module and the runs that its fixtures train."""
    yield from _unchecked()


def _unchecked() -> Iterator[None]:
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def command(monkeypatch, capfd) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: (exit status, stdout, stderr)."""
    from saccade.cli import main

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["saccade", *map(str, words)])
        try:
            main()
            status = 0
        except SystemExit as exit:
            status = exit.code or 0
        return (int(status), *capfd.readouterr())

    return run
