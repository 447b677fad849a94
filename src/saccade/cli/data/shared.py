"""What the pages of ``saccade data`` have in common, whatever a file holds: read its data, show it, say what is next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from saccade.errors import InputError, SaccadeError

BAR = 30  # characters of the longest bar
SHOWN = 20  # names that are listed

Page = Callable[[Any, str | None, Path | None], Iterator[str]]
Column = Callable[[str], str | int]


def is_recipe_of(recipe: Path, task: str) -> bool:
    """Whether a file is a recipe of this task."""
    from saccade.recipes.located import read_yaml

    root: Any = read_yaml(recipe).value if recipe.is_file() else None
    return isinstance(root, dict) and "task" in root and root["task"].text == task


def check_options(
    options: Mapping[str, Any], unused: Mapping[str, Any], recipe: Path | None, *, beside: str, records: str
) -> None:
    """Raise where an option is given that means nothing for such ``records``, or that the recipe says itself."""
    given = [name for name, value in unused.items() if value]
    given += [name for name, value in options.items() if value] if recipe is not None else []
    if given:
        found = "a recipe, which says that itself" if recipe is not None else records
        raise SaccadeError(f"{given[0]}: expected {beside} beside it, found {found}")


def number_or_name(text: str) -> str | int:
    """A column as it is typed: its number from 1, or its name."""
    return int(text) if text.isdecimal() else text


def data_asked(
    kind: Any,
    columns_kind: Any,
    keys: Sequence[str],
    name: str,
    options: Mapping[str, Any],
    tests: Sequence[str],
    recipe: Path | None,
    *,
    column: Column = number_or_name,
) -> tuple[str | Path, Any, list[str | Path]]:
    """What to survey, the ``data`` to read it by, and what is held out: as a recipe says, or as options do.

    ``kind`` is the dataclass of a recipe's ``data``, ``columns_kind`` that of its columns, which the options ``keys`` name.
    """
    from saccade.data.files.hub import on_hub
    from saccade.data.paths import locate
    from saccade.recipes.located import locate as located
    from saccade.recipes.located import read_yaml
    from saccade.recipes.schema import build

    if recipe is not None:
        root: Any = read_yaml(recipe).value
        if "data" not in root:
            raise InputError(recipe, field="data", expected="a mapping", found="nothing")
        data = build(kind, root["data"], "data")
        if data.train is None:
            raise InputError(recipe, field="data.train", expected="data of your own", found="a built-in source")
        files = [each for each in (data.train, data.valid, data.test) if each]
        paths = [each if on_hub(each) else locate(each, recipe.parent) for each in files]
        return paths[0], data, paths[1:]
    named = {key: options.get(f"--{key}") for key in keys}
    columns = {key: column(text) for key, text in named.items() if text is not None}
    plain: dict[str, Any] = {"train": name, "columns": columns}
    plain |= {key: options[f"--{key}"] for key in ("format", "encoding") if options.get(f"--{key}")}
    try:
        columns_kind(**columns)
    except ValueError as error:
        raise SaccadeError(f"--{error}") from None
    return name, build(kind, located(plain, "command line"), "data"), list(tests)


def show_survey(
    surveyed: Callable[[Any], Any],
    page: Page,
    recipe: Path | None,
    save: Path | None,
    *,
    force: bool,
    as_json: bool,
    progress: Any,
) -> None:
    """Count, print the page, and write the recipe where that is wanted; exit status 1 where the records would not train."""
    from saccade.storage import write_text

    if save is not None and (recipe is not None or (save.exists() and not force)):
        found = "a recipe already" if recipe is not None else "one that exists"
        hint = None if recipe else "add --force"
        raise InputError(save, field="--recipe", expected="a new file", found=found, hint=hint)
    with progress as told:
        survey = surveyed(told)
    written = None if recipe is not None else survey.recipe(None if save is None else save.parent)
    if save is not None and written is not None and not survey.problems:
        write_text(save, written)
    if as_json:
        print(json.dumps(survey.to_plain(written), ensure_ascii=False))
    else:
        for line in page(survey, written, save):
            print(line)
    if survey.problems:
        raise typer.Exit(1)


def shares(length: Callable[[float], int], most: str = "the longest") -> str:
    """How long half of something is at most, and nearly all, and all."""
    parts = (("half up to", 0.5), ("95 % up to", 0.95), (most, 1.0))
    return ", ".join(f"{name} {length(share):,}" for name, share in parts)


def bars(counts: Mapping[str, int]) -> Iterator[str]:
    """A line a name, the commonest where there are many."""
    total, most = sum(counts.values()), max(counts.values())
    listed = list(counts.items())
    if len(listed) > SHOWN:
        listed = sorted(listed, key=lambda item: -item[1])[:SHOWN]
    width = max(len(name) for name, _ in listed)
    for name, count in listed:
        bar = "█" * max(1, round(BAR * count / most))
        yield f"  {name:<{width}}  {count:>9,}  {100 * count / total:5.1f} %  {bar}"
    if len(counts) > SHOWN:
        yield f"  … and {len(counts) - SHOWN} more"


def verdict(survey: Any, recipe: str | None, saved: Path | None) -> Iterator[str]:
    """The end of a page: notes, whether the records would train, a recipe for them, and what to do next."""
    for note in survey.notes:
        yield f"note: {note}"
    yield ""
    yield "It would train." if not survey.problems else f"It would not train: {'; '.join(survey.problems)}"
    if recipe is not None and not survey.problems:
        yield ""
        yield "A recipe for it:" if saved is None else f"A recipe for it, written to {saved}:"
        yield from (f"  {line}" for line in recipe.splitlines())
        yield ""
        yield "Next:"
        if saved is None:
            yield "  the same command with --recipe my.yaml, which writes it"
        yield f"  saccade train {shlex.quote(str(saved or 'my.yaml'))}"


def check_vectors(recipe: Path | None) -> None:
    """Refuse a recipe whose vectors cannot be read, as training would: their first word is looked at."""
    from saccade.data.paths import locate
    from saccade.data.tokenizers.vectors import Vectors, words_in
    from saccade.recipes.located import node_at, read_yaml

    if recipe is None or not recipe.is_file():
        return
    root = read_yaml(recipe)
    node = node_at(root, "data.vectors.file") or node_at(root, "data.vectors")
    file = None if node is None else node.value
    if isinstance(file, str) and file.strip():
        next(words_in(Vectors(str(locate(file, recipe.parent))), Path()), None)


def seed_of(recipe: Path | None) -> int:
    """The recipe's ``train.seed``, by which records are held out; 1, as training has it, where it does not say."""
    from saccade.recipes.located import node_at, read_yaml
    from saccade.recipes.schema import build
    from saccade.training.config import Train

    node = None if recipe is None else node_at(read_yaml(recipe), "train")
    return Train().seed if node is None else build(Train, node, "train").seed
