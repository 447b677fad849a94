"""``saccade data`` for words with tags: how many sentences, which tags and spans, in which scheme, would it train."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from saccade.errors import InputError, SaccadeError

if TYPE_CHECKING:
    from saccade.data.tag_survey import TagSurvey
    from saccade.data.tagged import TaggedData

BAR = 30  # characters of the longest bar
SHOWN = 20  # tags or types that are listed
FORMATS = ("conll", "conllu")
SUFFIXES = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".bioes", ".col")  # of files that hold nothing else


def is_tagged(files: Sequence[str], options: dict[str, Any], recipe: Path | None) -> bool:
    """Whether tagged words are meant: a column of them is named, the file is of the kind, or a recipe of the task ``label``."""
    if any(options.get(name) for name in ("--word", "--tag")) or options.get("--format") in FORMATS:
        return True
    if recipe is not None:
        from saccade.recipes.located import read_yaml

        root: Any = read_yaml(recipe).value if recipe.is_file() else None
        return isinstance(root, dict) and "task" in root and root["task"].text == "label"
    from saccade.data.files.lines import unpacked

    return len(files) == 1 and unpacked(Path(files[0])).suffix.lower() in SUFFIXES


def shown_as_tagged(
    files: Sequence[str], options: dict[str, Any], unused: dict[str, Any], tests: Sequence[str], recipe: Path | None,
    save: Path | None, *, force: bool, as_json: bool, progress: Any,
) -> bool:  # fmt: skip
    """Whether tagged words were meant; if so, they were surveyed and shown. Exit status 1 where they would not train."""
    if not is_tagged(files, options, recipe):
        return False
    given = [name for name, value in unused.items() if value]
    given += [name for name, value in options.items() if value] if recipe is not None else []
    if given:
        found = "a recipe, which says that itself" if recipe is not None else "tagged words"
        raise SaccadeError(f"{given[0]}: expected another file beside it, found {found}")
    if len(files) != 1:
        raise SaccadeError(f"expected one file of tagged words, found {len(files)}")
    _show(files[0], options, tests, recipe, save, force=force, as_json=as_json, progress=progress)
    return True


def _show(
    file: str, options: dict[str, Any], tests: Sequence[str], recipe: Path | None, save: Path | None, *, force: bool,
    as_json: bool, progress: Any,
) -> None:  # fmt: skip
    from saccade.data.tag_survey import survey_tags
    from saccade.storage import write_text

    path, data, held_out = _asked(file, options, tests, recipe)
    if save is not None and (recipe is not None or (save.exists() and not force)):
        found = "a recipe already" if recipe is not None else "one that exists"
        hint = None if recipe else "add --force"
        raise InputError(save, field="--recipe", expected="a new file", found=found, hint=hint)
    with progress as told:
        survey = survey_tags(path, data, held_out, told, planned=recipe is None)
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
) -> tuple[str | Path, TaggedData, list[str | Path]]:
    from saccade.data.files.hub import on_hub
    from saccade.data.sources import locate
    from saccade.data.tagged import TagColumns, TaggedData
    from saccade.recipes.located import locate as located
    from saccade.recipes.located import read_yaml
    from saccade.recipes.schema import build

    if recipe is not None:
        root: Any = read_yaml(recipe).value
        if "data" not in root:
            raise InputError(recipe, field="data", expected="a mapping", found="nothing")
        data = build(TaggedData, root["data"], "data")
        if data.train is None:
            raise InputError(recipe, field="data.train", expected="a file", found="a built-in source")
        files = [each for each in (data.train, data.valid, data.test) if each]
        paths = [each if on_hub(each) else locate(each, recipe.parent) for each in files]
        return paths[0], data, paths[1:]
    named = {key: options.get(f"--{key}") for key in ("word", "tag", "group")}
    columns = {key: _column(text) for key, text in named.items() if text is not None}
    plain: dict[str, Any] = {"train": name, "columns": columns}
    plain |= {key: options[f"--{key}"] for key in ("format", "encoding") if options.get(f"--{key}")}
    try:
        TagColumns(**columns)
    except ValueError as error:
        raise SaccadeError(f"--{error}") from None
    return name, build(TaggedData, located(plain, "command line"), "data"), list(tests)


def _column(text: str) -> str | int:
    return int(text) if text.removeprefix("-").isdecimal() else text


def page(survey: TagSurvey, recipe: str | None, saved: Path | None = None) -> Iterator[str]:
    """The whole page, line by line."""
    documents = f" in {survey.documents:,} documents" if survey.documents else ""
    different = f"{survey.words:,} words, {survey.vocabulary:,} of them different"
    yield f"{survey.path}: {survey.sentences:,} sentences{documents}, {different}"
    yield ""
    if survey.spans:
        yield f"{sum(survey.spans.values()):,} spans of {len(survey.spans)} types, written as {survey.scheme}"
        yield from _bars(survey.spans)
    else:
        yield f"{len(survey.tags)} tags, which mark no spans"
        yield from _bars(survey.tags)
    yield ""
    yield "words a sentence: " + ", ".join(
        f"{name} {survey.lengths.within(share):,}"
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


def _bars(counts: dict[str, int]) -> Iterator[str]:
    total, most = sum(counts.values()), max(counts.values())
    shown = list(counts.items())[:SHOWN]
    width = max(len(name) for name, _ in shown)
    for name, count in shown:
        bar = "█" * max(1, round(BAR * count / most))
        yield f"  {name:<{width}}  {count:>9,}  {100 * count / total:5.1f} %  {bar}"
    if len(counts) > SHOWN:
        yield f"  … and {len(counts) - SHOWN} more"
