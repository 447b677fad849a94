"""``saccade data`` for texts with labels: which labels there are and how often, how long the texts are, would it train."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.cli.data.shared import bars, check_options, data_asked, is_recipe_of, shares, show_survey, verdict
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.data.survey.labels import LabelSurvey


def is_labelled(files: Sequence[str], options: dict[str, Any], recipe: Path | None) -> bool:
    """Whether labelled texts are meant: a column of labels is named, a folder, or a recipe of the task ``classify``."""
    from saccade.data.files.semeval import BLOCKS

    if any(options.get(name) for name in ("--text", "--label", "--second")) or options.get("--format") in BLOCKS:
        return True
    if recipe is not None:
        return is_recipe_of(recipe, "classify")
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
    check_options(options, unused, recipe, beside="a file of pairs", records="labelled texts")
    survey_and_show(files, options, tests, recipe, save, force=force, as_json=as_json, progress=progress)
    return True


def labels_instead(
    file: str, format: str | None, among: Sequence[str | int] | None = None
) -> tuple[list[str], list[str]]:
    """Where a file that is read for pairs seems to hold labels: a note, and the command that reads it so; else nothing."""
    from saccade.data.survey.labels import labelled_columns

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
    from saccade.data.labels.records import LabelColumns, LabelledData
    from saccade.data.survey.labels import survey_labels

    if len(files) != 1:
        raise SaccadeError(f"expected one file or folder of labelled texts, found {len(files)}")
    keys = ("text", "label", "second", "group")
    path, data, held_out = data_asked(LabelledData, LabelColumns, keys, files[0], options, tests, recipe)
    show_survey(
        lambda told: survey_labels(path, data, held_out, told, planned=recipe is None), page, recipe, save,
        force=force, as_json=as_json, progress=progress,
    )  # fmt: skip


def page(survey: LabelSurvey, recipe: str | None, saved: Path | None = None) -> Iterator[str]:
    """The whole page, line by line."""
    from saccade.data.files.semeval import BLOCKS

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
    yield from bars(survey.counts)
    yield ""
    yield f"words a text: {shares(survey.length)}"
    if len(survey.faults):
        yield f"no record: {survey.faults}"
    yield from verdict(survey, recipe, saved)
