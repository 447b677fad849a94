"""``saccade data`` for questions with candidates: how many there are, how many answer, how long they are, would it train."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.errors import InputError, SaccadeError

if TYPE_CHECKING:
    from saccade.data.ranked import RankedData
    from saccade.data.ranked_survey import RankedSurvey

Question = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The question's column, where candidates are ranked.")
]
Candidate = Annotated[str | None, typer.Option(metavar="COLUMN", help="The candidate's column.")]
Relevance = Annotated[str | None, typer.Option(metavar="COLUMN", help="Its relevance: 0, 1 or a grade.")]
NAMED = ("--question", "--candidate", "--relevance")
SHARES = (("half up to", 0.5), ("95 % up to", 0.95), ("the most", 1.0))


def is_ranked(files: Sequence[str], options: dict[str, Any], unused: dict[str, Any], recipe: Path | None) -> bool:
    """Whether questions with candidates are meant: a column of theirs is named, a folder or a file is of the kind, or a recipe
    is of the task ``rank``."""
    if any(options.get(name) for name in NAMED) or options.get("--format") == "toks":
        return True
    if recipe is not None:
        from saccade.recipes.located import read_yaml

        root: Any = read_yaml(recipe).value if recipe.is_file() else None
        return isinstance(root, dict) and "task" in root and root["task"].text == "rank"
    if len(files) != 1 or any(unused.values()) or not Path(files[0]).exists():
        return False
    from saccade.data.files.lines import unpacked
    from saccade.data.files.toks import is_toks
    from saccade.data.ranked import TABLES
    from saccade.data.ranked_survey import holds_ranked

    path = Path(files[0])
    format = options.get("--format") or unpacked(path).suffix.lower().removeprefix(".")
    return is_toks(path) or (path.is_file() and format in TABLES and holds_ranked(path, format))


def shown_as_ranked(
    files: Sequence[str], options: dict[str, Any], unused: dict[str, Any], tests: Sequence[str], recipe: Path | None,
    save: Path | None, *, force: bool, as_json: bool, progress: Any,
) -> bool:  # fmt: skip
    """Whether questions with candidates were meant; if so, they were surveyed and shown. Exit status 1 where they would not
    train. ``options`` may hold those of tagged words too, which are refused beside questions."""
    unused = unused | {name: options.get(name) for name in ("--word", "--tag")}
    options = {name: value for name, value in options.items() if name not in unused}
    if not is_ranked(files, options, unused, recipe):
        return False
    given = [name for name, value in unused.items() if value]
    given += [name for name, value in options.items() if value] if recipe is not None else []
    if given:
        found = "a recipe, which says that itself" if recipe is not None else "questions with candidates"
        raise SaccadeError(f"{given[0]}: expected another file beside it, found {found}")
    if len(files) != 1:
        raise SaccadeError(f"expected one file or folder of questions with candidates, found {len(files)}")
    _show(files[0], options, tests, recipe, save, force=force, as_json=as_json, progress=progress)
    return True


def _show(
    file: str, options: dict[str, Any], tests: Sequence[str], recipe: Path | None, save: Path | None, *, force: bool,
    as_json: bool, progress: Any,
) -> None:  # fmt: skip
    from saccade.data.ranked_survey import survey_ranked
    from saccade.storage import write_text

    path, data, held_out = _asked(file, options, tests, recipe)
    if save is not None and (recipe is not None or (save.exists() and not force)):
        found = "a recipe already" if recipe is not None else "one that exists"
        hint = None if recipe else "add --force"
        raise InputError(save, field="--recipe", expected="a new file", found=found, hint=hint)
    with progress as told:
        survey = survey_ranked(path, data, held_out, told, planned=recipe is None)
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


def _asked(
    name: str, options: dict[str, Any], tests: Sequence[str], recipe: Path | None
) -> tuple[str | Path, RankedData, list[str | Path]]:
    from saccade.data.files.hub import on_hub
    from saccade.data.ranked import RankColumns, RankedData
    from saccade.data.sources import locate
    from saccade.recipes.located import locate as located
    from saccade.recipes.located import read_yaml
    from saccade.recipes.schema import build

    if recipe is not None:
        root: Any = read_yaml(recipe).value
        if "data" not in root:
            raise InputError(recipe, field="data", expected="a mapping", found="nothing")
        data = build(RankedData, root["data"], "data")
        if data.train is None:
            raise InputError(recipe, field="data.train", expected="a file or folder", found="a built-in source")
        files = [each for each in (data.train, data.valid, data.test) if each]
        paths = [each if on_hub(each) else locate(each, recipe.parent) for each in files]
        return paths[0], data, paths[1:]
    named = {key: options.get(f"--{key}") for key in ("question", "candidate", "relevance", "group")}
    columns = {key: int(text) if text.isdecimal() else text for key, text in named.items() if text is not None}
    plain: dict[str, Any] = {"train": name, "columns": columns}
    plain |= {key: options[f"--{key}"] for key in ("format", "encoding") if options.get(f"--{key}")}
    try:
        RankColumns(**columns)
    except ValueError as error:
        raise SaccadeError(f"--{error}") from None
    return name, build(RankedData, located(plain, "command line"), "data"), list(tests)


def page(survey: RankedSurvey, recipe: str | None, saved: Path | None = None) -> Iterator[str]:
    """The whole page, line by line."""
    from saccade.data.ranked_survey import several

    share = f"{survey.relevant / survey.candidates:.1%}".replace("%", " %")
    questions, candidates = several(survey.questions, "question"), several(survey.candidates, "candidate")
    yield f"{survey.path}: {questions} with {candidates}, {survey.relevant:,} of them relevant ({share})"
    if survey.grades - {0.0, 1.0}:
        yield f"grades of relevance: {', '.join(f'{grade:g}' for grade in sorted(survey.grades)[:20])}"
    yield ""
    for name, lengths in (
        ("candidates a question", survey.sizes),
        ("words a question", survey.asked),
        ("words a candidate", survey.said),
    ):
        yield f"{name}: " + ", ".join(f"{what} {lengths.within(part):,}" for what, part in SHARES)
    if len(survey.faults):
        yield f"no candidate: {survey.faults}"
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
