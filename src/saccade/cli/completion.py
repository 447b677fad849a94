"""What the shell offers after Tab: shipped recipes and recipe files, folders of runs, metrics, modules. Loads no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten

DEPTH = 3  # folders below what was typed: runs/NAME, and runs/SWEEP/NAME
MOST = 200  # offers; more help nobody
LINE = 44  # characters that stand beside a recipe's name: a shell's list breaks at longer ones


def recipe_names(incomplete: str) -> list[tuple[str, str]]:
    """Shipped recipes, each with what it is about, and recipe files, that begin with what was typed."""
    import yaml

    from saccade.recipes.recipe import shipped_recipes

    offers = [
        (name, shorten(str(yaml.safe_load(path.read_text(encoding="utf-8")).get("about", "")), LINE, placeholder=" …"))
        for name, path in shipped_recipes().items()
        if name.startswith(incomplete)
    ]
    typed, here, _ = _split(incomplete)
    files = [(typed + path.name, "a file") for path in sorted(_inside(here)) if path.suffix in (".yaml", ".yml")]
    return offers + [file for file in files if file[0].startswith(incomplete)]


def trained_runs(incomplete: str) -> list[str]:
    """Folders that hold a trained model and begin with what was typed."""
    return _holding("model.safetensors", incomplete)


def begun_runs(incomplete: str) -> list[str]:
    """Folders of runs and sweeps, finished or not, that begin with what was typed."""
    return sorted({*_holding("run.json", incomplete), *_holding("sweep.json", incomplete)})[:MOST]


def module_names(incomplete: str) -> list[str]:
    """Modules and packages in the current folder."""
    modules = [path.stem for path in _inside(Path()) if path.suffix == ".py"]
    modules += [path.name for path in _inside(Path()) if (path / "__init__.py").is_file()]
    return sorted(name for name in modules if name.isidentifier() and name.startswith(incomplete))


def metric_names(incomplete: str) -> list[str]:
    from saccade.tasks import TASKS, metrics_of

    known = dict.fromkeys(name for task in TASKS for name in metrics_of(task))
    return [name for name in known if name.startswith(incomplete)]


def _holding(file: str, incomplete: str) -> list[str]:
    typed, here, name = _split(incomplete)
    offers: list[str] = []
    for folder in sorted(_inside(here)):
        if folder.name.startswith(name):
            offers += (typed + found.relative_to(here).as_posix() for found in _descend(folder, file, DEPTH))
    return offers[:MOST]


def _split(incomplete: str) -> tuple[str, Path, str]:
    """(what was typed up to the last slash, the folder it names, the beginning of the name in it)."""
    above, slash, name = incomplete.rpartition("/")
    return above + slash, Path(os.path.expanduser(above + slash) or "."), name


def _descend(folder: Path, file: str, depth: int) -> Iterator[Path]:
    if (folder / file).is_file():
        yield folder
    elif depth > 1 and folder.is_dir():
        for inner in sorted(_inside(folder)):
            yield from _descend(inner, file, depth - 1)


def _inside(folder: Path) -> list[Path]:
    """What a folder holds, hidden things left out; nothing where it cannot be read: Tab has no place for errors."""
    try:
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []
