"""``saccade data`` for texts with labels: which labels there are and how often, how long the texts are, would it train."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from saccade.errors import InputError, SaccadeError

if TYPE_CHECKING:
    from saccade.data.label_survey import LabelSurvey
    from saccade.data.labelled import LabelledData

BAR = 30  # characters of the longest bar
SHOWN = 20  # labels that are listed


def is_labelled(files: Sequence[str], options: dict[str, Any], recipe: Path | None) -> bool:
    """Whether labelled texts are meant: a column of labels is named, a folder, or a recipe of the task ``classify``."""
    from saccade.data.files.blocks import BLOCKS

    if any(options.get(name) for name in ("--text", "--label", "--second")) or options.get("--format") in BLOCKS:
        return True
    if recipe is not None:
        from saccade.recipes.located import read_yaml

        root: Any = read_yaml(recipe).value if recipe.is_file() else None
        return isinstance(root, dict) and "task" in root and root["task"].text == "classify"
    return len(files) == 1 and Path(files[0]).is_dir() and any(inner.is_dir() for inner in Path(files[0]).iterdir())


def shown_as_labelled(
    files: Sequence[str], options: dict[str, str | None], unused: dict[str, Any], tests: Sequence[str],
    recipe: Path | None, save: Path | None, *, force: bool, as_json: bool, progress: Any,
) -> bool:  # fmt: skip
    """Whether labelled texts were meant; if so, they were surveyed and shown."""
    if not is_labelled(files, options, recipe):
        if options["--encoding"]:
            raise SaccadeError("--encoding: expected labelled texts beside it (--text, --label), found none")
        return False
    given = [name for name, value in unused.items() if value]
    given += [name for name, value in options.items() if value] if recipe is not None else []
    if given:
        found = "a recipe, which says that itself" if recipe is not None else "labelled texts"
        raise SaccadeError(f"{given[0]}: expected a file of pairs beside it, found {found}")
    survey_and_show(files, options, tests, recipe, save, force=force, as_json=as_json, progress=progress)
    return True


def labels_instead(
    file: str, format: str | None, among: Sequence[str | int] | None = None
) -> tuple[list[str], list[str]]:
    """Where a file that is read for pairs seems to hold labels: a note, and the command that reads it so; else nothing."""
    from saccade.data.label_columns import labelled_columns

    found = labelled_columns(file, format, among)
    if found is None:
        return [], []
    words = ["saccade", "data", file, "--text", str(found.text), "--label", str(found.label)]
    command = shlex.join([*words, "--format", format] if format else words)
    return [f"{found}: these look like labels: {command}"], [command]


def survey_and_show(
    files: Sequence[str], options: dict[str, Any], tests: Sequence[str], recipe: Path | None, save: Path | None, *,
    force: bool, as_json: bool, progress: Any,
) -> None:  # fmt: skip
    """Count, print the page, and write the recipe where that is wanted; exit status 1 where it would not train."""
    from saccade.data.label_survey import survey_labels
    from saccade.storage import write_text

    if len(files) != 1:
        raise SaccadeError(f"expected one file or folder of labelled texts, found {len(files)}")
    path, data, held_out = _asked(files[0], options, tests, recipe)
    if save is not None and (recipe is not None or (save.exists() and not force)):
        found = "a recipe already" if recipe is not None else "one that exists"
        raise InputError(
            save, field="--recipe", expected="a new file", found=found, hint=None if recipe else "add --force"
        )
    with progress as told:
        found_there = survey_labels(path, data, held_out, told, planned=recipe is None)
    written = None if recipe is not None else found_there.recipe(None if save is None else save.parent)
    if save is not None and written is not None and not found_there.problems:
        write_text(save, written)
    if as_json:
        print(json.dumps(found_there.to_plain(written), ensure_ascii=False))
    else:
        for line in page(found_there, written, save):
            print(line)
    if found_there.problems:
        raise typer.Exit(1)


def _asked(
    name: str, options: dict[str, Any], tests: Sequence[str], recipe: Path | None
) -> tuple[str | Path, LabelledData, list[str | Path]]:
    from saccade.data.labelled import LabelColumns, LabelledData
    from saccade.data.pairs import on_hub
    from saccade.data.sources import locate
    from saccade.recipes.located import locate as located
    from saccade.recipes.located import read_yaml
    from saccade.recipes.schema import build

    if recipe is not None:
        root: Any = read_yaml(recipe).value
        if "data" not in root:
            raise InputError(recipe, field="data", expected="a mapping", found="nothing")
        data = build(LabelledData, root["data"], "data")
        if data.train is None:
            raise InputError(recipe, field="data.train", expected="a file or folder", found="a built-in source")
        paths = [
            each if on_hub(each) else locate(each, recipe.parent)
            for each in (data.train, data.valid, data.test)
            if each
        ]
        return paths[0], data, paths[1:]
    named = {key: options.get(f"--{key}") for key in ("text", "label", "second", "group")}
    columns = {key: int(text) if text.isdecimal() else text for key, text in named.items() if text is not None}
    plain: dict[str, Any] = {"train": name, "columns": columns}
    plain |= {key: options[f"--{key}"] for key in ("format", "encoding") if options.get(f"--{key}")}
    try:
        LabelColumns(**columns)
    except ValueError as error:
        raise SaccadeError(f"--{error}") from None
    return name, build(LabelledData, located(plain, "command line"), "data"), list(tests)


def page(survey: LabelSurvey, recipe: str | None, saved: Path | None = None) -> Iterator[str]:
    """The whole page, line by line."""
    from saccade.data.files.blocks import BLOCKS

    columns = survey.data.columns
    second = f" and {columns.second}" if columns.second is not None else ""
    folder = Path(survey.path).is_dir()
    how = "a folder a label" if folder else f"{columns.text}{second} → {columns.label}"
    if survey.data.format == "lines":
        how = "the first word of each line"
    elif survey.data.format in BLOCKS:
        texts, label = BLOCKS[survey.data.format], BLOCKS[survey.data.format]["label"]
        how = f"{' and '.join(texts[name] for name in ('text', 'second') if name in texts)} → {label}"
    yield f"{survey.path}: {survey.records:,} texts with a label each ({how})"
    yield ""
    yield "1 label" if len(survey.counts) == 1 else f"{len(survey.counts)} labels"
    yield from _labels(survey.counts)
    yield ""
    yield "words a text: " + ", ".join(
        f"{name} {survey.length(share):,}"
        for name, share in (("half up to", 0.5), ("95 % up to", 0.95), ("the longest", 1.0))
    )
    if len(survey.faults):
        yield f"no record: {survey.faults}"
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


def _labels(counts: dict[str, int]) -> Iterator[str]:
    total, most = sum(counts.values()), max(counts.values())
    shown = list(counts.items())
    if len(shown) > SHOWN:
        shown = sorted(shown, key=lambda item: -item[1])[:SHOWN]
    width = max(len(label) for label, _ in shown)
    for label, count in shown:
        bar = "█" * max(1, round(BAR * count / most))
        yield f"  {label:<{width}}  {count:>9,}  {100 * count / total:5.1f} %  {bar}"
    if len(counts) > SHOWN:
        yield f"  … and {len(counts) - SHOWN} more"
