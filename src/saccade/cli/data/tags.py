"""``saccade data`` for words with tags: how many sentences, which tags and spans, in which scheme, would it train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.cli.data.shared import bars, check_options, data_asked, is_recipe_of, shares, show_survey, verdict
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.data.survey.tags import TagSurvey

FORMATS = ("conll", "conllu")
SUFFIXES = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".bioes", ".col")  # of files that hold nothing else


def is_tagged(files: Sequence[str], options: dict[str, Any], recipe: Path | None) -> bool:
    """Whether tagged words are meant: a column of them is named, the file is of the kind, or a recipe of the task ``label``."""
    if any(options.get(name) for name in ("--word", "--tag")) or options.get("--format") in FORMATS:
        return True
    if recipe is not None:
        return is_recipe_of(recipe, "label")
    from saccade.data.files.lines import unpacked

    return len(files) == 1 and unpacked(Path(files[0])).suffix.lower() in SUFFIXES


def shown_as_tagged(
    files: Sequence[str], options: dict[str, Any], unused: dict[str, Any], tests: Sequence[str], recipe: Path | None,
    save: Path | None, *, force: bool, as_json: bool, progress: Any,
) -> bool:  # fmt: skip
    """Whether tagged words were meant; if so, they were surveyed and shown. Exit status 1 where they would not train."""
    if not is_tagged(files, options, recipe):
        return False
    from saccade.data.survey.tags import survey_tags
    from saccade.data.tags.records import TagColumns, TaggedData

    check_options(options, unused, recipe, beside="another file", records="tagged words")
    if len(files) != 1:
        raise SaccadeError(f"expected one file of tagged words, found {len(files)}")
    keys = ("word", "tag", "group")
    path, data, held_out = data_asked(TaggedData, TagColumns, keys, files[0], options, tests, recipe, column=_column)
    show_survey(
        lambda told: survey_tags(path, data, held_out, told, planned=recipe is None), page, recipe, save,
        force=force, as_json=as_json, progress=progress,
    )  # fmt: skip
    return True


def _column(text: str) -> str | int:
    return int(text) if text.removeprefix("-").isdecimal() else text  # -1: the last


def page(survey: TagSurvey, recipe: str | None, saved: Path | None = None) -> Iterator[str]:
    """The whole page, line by line."""
    documents = f" in {survey.documents:,} documents" if survey.documents else ""
    different = f"{survey.words:,} words, {survey.vocabulary:,} of them different"
    yield f"{survey.path}: {survey.sentences:,} sentences{documents}, {different}"
    yield ""
    if survey.spans:
        yield f"{sum(survey.spans.values()):,} spans of {len(survey.spans)} types, written as {survey.scheme}"
        yield from bars(survey.spans)
    else:
        yield f"{len(survey.tags)} tags, which mark no spans"
        yield from bars(survey.tags)
    yield ""
    yield f"words a sentence: {shares(survey.lengths.within)}"
    if len(survey.faults):
        yield f"no record: {survey.faults}"
    yield from verdict(survey, recipe, saved)
