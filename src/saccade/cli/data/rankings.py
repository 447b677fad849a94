"""``saccade data`` for questions with candidates: how many there are, how many answer, how long they are, would it train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.data.shared import check_options, data_asked, is_recipe_of, seed_of, shares, show_survey, verdict
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.data.survey.rankings import RankedSurvey

Question = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The question's column, where candidates are ranked.")
]
Candidate = Annotated[str | None, typer.Option(metavar="COLUMN", help="The candidate's column.")]
Relevance = Annotated[str | None, typer.Option(metavar="COLUMN", help="Its relevance: 0, 1 or a grade.")]
NAMED = ("--question", "--candidate", "--relevance")


def is_ranked(files: Sequence[str], options: dict[str, Any], unused: dict[str, Any], recipe: Path | None) -> bool:
    """Whether questions with candidates are meant: a column of theirs is named, a folder or a file is of the kind, or a recipe
    is of the task ``rank``."""
    if any(options.get(name) for name in NAMED) or options.get("--format") == "toks":
        return True
    if recipe is not None:
        return is_recipe_of(recipe, "rank")
    if len(files) != 1 or any(unused.values()) or not Path(files[0]).exists():
        return False
    from saccade.data.files.answer_files import is_toks
    from saccade.data.files.lines import unpacked
    from saccade.data.rankings.records import TABLES
    from saccade.data.survey.rankings import holds_ranked

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
    from saccade.data.rankings.records import RankColumns, RankedData
    from saccade.data.survey.rankings import survey_ranked

    check_options(options, unused, recipe, beside="another file", records="questions with candidates")
    if len(files) != 1:
        raise SaccadeError(f"expected one file or folder of questions with candidates, found {len(files)}")
    keys = ("question", "candidate", "relevance", "group")
    path, data, held_out = data_asked(RankedData, RankColumns, keys, files[0], options, tests, recipe)
    show_survey(
        lambda told: survey_ranked(path, data, held_out, told, planned=recipe is None, seed=seed_of(recipe)),
        page, recipe, save, force=force, as_json=as_json, progress=progress,
    )  # fmt: skip
    return True


def page(survey: RankedSurvey, recipe: str | None, saved: Path | None = None) -> Iterator[str]:
    """The whole page, line by line."""
    from saccade.data.survey.rankings import several

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
        yield f"{name}: {shares(lengths.within, most='the most')}"
    if len(survey.faults):
        yield f"no candidate: {survey.faults}"
    yield from verdict(survey, recipe, saved)
