"""``saccade data``: what is in this file, and would it train."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.data.labels import labels_instead, shown_as_labelled
from saccade.cli.data.rankings import Candidate, Question, Relevance, shown_as_ranked
from saccade.cli.data.shared import check_vectors
from saccade.cli.data.tags import shown_as_tagged
from saccade.cli.data.texts import shown_as_raw
from saccade.cli.options import Json
from saccade.errors import InputError, SaccadeError

if TYPE_CHECKING:
    from saccade.data.pairs.records import Columns, PairData
    from saccade.data.survey.columns import UnknownColumns
    from saccade.data.survey.pairs import Progress, Reading, Survey
    from saccade.data.survey.recipe import Advice

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE [FILE2]", help="A file of pairs, two text files, labelled texts, raw text, or a recipe."
    ),
]
Source = Annotated[str | None, typer.Option(metavar="COLUMN", help="The source's column: a name, or a number from 1.")]
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="The target's column.")]
Group = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="A third column for the cleaned file: document, author.")
]
Format = Annotated[
    str | None,
    typer.Option(
        help="tsv, csv, jsonl, parquet, po, tmx, lines (a label, its text), aspects, relations, conll or conllu, "
        "where the name does not say."
    ),
]
Text = Annotated[str | None, typer.Option(metavar="COLUMN", help="The text's column, where texts have labels.")]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="The label's column.")]
Word = Annotated[str | None, typer.Option(metavar="COLUMN", help="The word's column, where words have tags.")]
Tag = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The tag's column: -1 is the last; of CoNLL-U upos, xpos …")
]
Second = Annotated[str | None, typer.Option(metavar="COLUMN", help="The second text's column, where two have a label.")]
Encoding = Annotated[str | None, typer.Option(help="utf-8, latin-1 or windows-1252, of texts with labels.")]
Test = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="A test set, read the same way (beside two text files: one of sources): what is in both? May be repeated.",
    ),
]
Clean = Annotated[
    Path | None, typer.Option(metavar="OUT", help="Write the good pairs: .tsv, .csv or .jsonl, also .gz.")
]
Log = Annotated[Path | None, typer.Option(help="Where each line left out is told; OUT.log.jsonl unless given.")]
Keep = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="Leave nothing out by this rule. May be repeated.")
]
Drop = Annotated[list[str] | None, typer.Option(metavar="RULE", help="Leave out by this rule too. May be repeated.")]
Tidy = Annotated[bool, typer.Option("--tidy", help="First make every run of blanks one space, with none at the ends.")]
Force = Annotated[bool, typer.Option("--force", help="Write over OUT, its log and the recipe.")]
Save = Annotated[Path | None, typer.Option("--recipe", metavar="YAML", help="Write the recipe for it, ready to train.")]


@dataclass(frozen=True)
class _Asked:
    """What is to be read: training pairs, test sets, and the recipe's own data where a recipe was given."""

    train: Reading
    tests: dict[str, Reading] = field(default_factory=dict)
    recipe: PairData | None = None


def data(
    files: Names,
    source: Source = None,
    target: Target = None,
    group: Group = None,
    text: Text = None,
    label: Label = None,
    second: Second = None,
    word: Word = None,
    tag: Tag = None,
    question: Question = None,
    candidate: Candidate = None,
    relevance: Relevance = None,
    format: Format = None,
    encoding: Encoding = None,
    test: Test = None,
    clean: Clean = None,
    log: Log = None,
    keep: Keep = None,
    drop: Drop = None,
    tidy: Tidy = False,
    save: Save = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say what is in a file, and whether it would train. Pairs, which can be cleaned too, texts with labels, words with tags.

    \b
    saccade data pairs.tsv
    saccade data docs.jsonl.xz --source en --target pt
    saccade data train.de.gz train.en.gz --test test.de.gz
    saccade data pairs.tsv --clean pairs.clean.tsv
    saccade data pairs.tsv --recipe my.yaml
    saccade data my.yaml
    saccade data reviews.csv --text review --label stars
    saccade data aclImdb/train --test aclImdb/test
    saccade data TRAIN_FILE.TXT --format relations
    saccade data train.conllu --tag xpos
    saccade data answers.tsv --question q --candidate a --relevance right
    """
    labelled = {"--text": text, "--label": label, "--second": second, "--group": group, "--format": format}
    labelled["--encoding"] = encoding
    unused: dict[str, Any] = {"--source": source, "--target": target, "--clean": clean, "--log": log, "--tidy": tidy}
    unused |= {"--keep": keep, "--drop": drop}
    how: dict[str, Any] = {"force": force, "as_json": as_json, "progress": _bar()}
    tagged = {"--word": word, "--tag": tag, "--group": group, "--format": format, "--encoding": encoding}
    others = unused | {"--text": text, "--label": label, "--second": second}
    check_vectors(_recipe_path(files))
    ranked = {"--question": question, "--candidate": candidate, "--relevance": relevance, **tagged}
    if shown_as_ranked(files, ranked, others, test or [], _recipe_path(files), save, **how):
        return
    if shown_as_tagged(files, tagged, others, test or [], _recipe_path(files), save, **how):
        return
    if shown_as_labelled(files, labelled, unused, test or [], _recipe_path(files), save, **how):
        return
    unused |= {"--group": group, "--test": test}
    if shown_as_raw(files, _recipe_path(files), unused, format, save, force, as_json):
        return
    from saccade.data.survey.columns import UnknownColumns, first_row
    from saccade.data.survey.pairs import survey
    from saccade.data.survey.recipe import advise, recipe_text
    from saccade.storage import write_text

    options = {"--source": source, "--target": target, "--group": group, "--format": format}
    try:
        asked = _asked(files, options, test or [], tidy)
    except UnknownColumns as unknown:
        _show_columns(files, unknown, format, as_json)
        raise typer.Exit(1) from None
    _check_outputs(clean, log, save, asked, force)
    with _cleaned(clean, log, asked, force) as cleaned, _bar() as progress:
        found = survey(
            asked.train, held_out=asked.tests, keep=keep or (), drop=drop or (), cleaned=cleaned, progress=progress
        )
    advice = advise(found, asked.recipe)
    if asked.recipe is None and (row := first_row(asked.train)):
        header = f"--source {shlex.quote(row[0])} --target {shlex.quote(row[1])}"
        note = f"the first row, {row[0]!r} → {row[1]!r}, is read as a pair; if it is a header, add {header}"
        advice = replace(advice, notes=(note, *advice.notes))
    instead: list[str] = []
    if asked.recipe is None and len(files) == 1 and not (source or target):
        columns = asked.train.columns
        notes, instead = labels_instead(files[0], format, None if found.headless else (columns.source, columns.target))
        advice = replace(advice, notes=(*notes, *advice.notes))
    recipe = None
    if asked.recipe is None:
        recipe = recipe_text(found, advice) if save is None else recipe_text(found, advice, save.parent)
    if save is not None and recipe is not None and advice.would_train:
        write_text(save, recipe)
    again = _command(files, options, test or [], keep or [], drop or [], tidy)
    following = [*instead, *_following(found, advice.would_train, again, files, asked, save)]
    _show(found, advice, recipe, following, as_json, save)
    if not advice.would_train:
        raise typer.Exit(1)


# What is read ------------------------------------------------------------------------------------------------------


def _asked(files: Sequence[str], options: dict[str, str | None], tests: Sequence[str], tidy: bool) -> _Asked:
    from saccade.data.pairs.records import Columns
    from saccade.data.survey.columns import settle_columns
    from saccade.data.survey.pairs import Reading

    recipe = _recipe_path(files)
    if recipe is not None:
        taken = [name for name, value in (options | {"--test": tests}).items() if value]
        if taken:
            raise SaccadeError(
                f"{taken[0]}: expected a file of pairs beside it, found a recipe, which says that itself"
            )
        return _of_recipe(recipe, tidy)
    if len(files) > 2:
        raise SaccadeError(f"expected one file of pairs or two text files, found {len(files)} files")
    columns = _columns(options)
    if len(files) == 2:
        if columns != Columns() or options["--format"]:
            raise SaccadeError("expected two text files, plain lines, found columns or a format for them")
        alone = {name: Reading((name, name), tidy=tidy) for name in tests}
        return _Asked(Reading((files[0], files[1]), tidy=tidy), alone)
    train = settle_columns(Reading(files[0], columns, options["--format"], tidy))
    return _Asked(train, {name: _test(name, train, columns) for name in tests})


def _columns(options: dict[str, str | None]) -> Columns:
    from saccade.data.pairs.records import Columns

    given = {name: options[f"--{name}"] for name in ("source", "target", "group")}
    chosen = {name: int(text) if text.isdecimal() else text for name, text in given.items() if text is not None}
    try:
        return Columns(**chosen)
    except ValueError as error:
        raise SaccadeError(f"--{error}") from None


def _test(name: str, train: Reading, columns: Columns) -> Reading:
    from saccade.data.files.lines import unpacked
    from saccade.data.pairs.records import FORMATS
    from saccade.data.survey.columns import UnknownColumns, settle_columns

    format = None if unpacked(Path(name)).suffix.lower().removeprefix(".") in FORMATS else train.format
    try:
        return settle_columns(replace(train, files=name, columns=replace(columns, group=None), format=format))
    except UnknownColumns as unknown:
        raise SaccadeError(f"--test: {unknown}") from None


def _recipe_path(files: Sequence[str]) -> Path | None:
    """The recipe that is meant, if one is: a YAML file, or the name of a shipped one."""
    from saccade.recipes.recipe import shipped_recipes

    if len(files) != 1:
        return None
    path = Path(files[0])
    if path.suffix.lower() in (".yaml", ".yml"):
        return path
    return None if path.exists() else shipped_recipes().get(files[0])


def _of_recipe(path: Path, tidy: bool) -> _Asked:
    """The files of a recipe's data, read as it says; the rest of the recipe is not looked at."""
    from saccade.data.pairs.records import PairData, PairFiles, on_hub
    from saccade.data.paths import locate
    from saccade.data.survey.pairs import Reading
    from saccade.recipes.located import read_yaml
    from saccade.recipes.schema import build

    root: Any = read_yaml(path).value
    task = root["task"].text if "task" in root else "nothing"
    if task != "translate" or "data" not in root:
        found = "no data" if task == "translate" else str(task)
        raise InputError(path, field="task", expected="translate, with data of pairs", found=found)
    recipe = build(PairData, root["data"], "data")
    if recipe.train is None:
        raise InputError(path, field="data.train", expected="a file of pairs", found="a built-in source")

    def reading(files: str | PairFiles, grouped: bool) -> Reading:
        columns = recipe.columns if grouped else replace(recipe.columns, group=None)
        if isinstance(files, PairFiles):
            two = (locate(files.source, path.parent), locate(files.target, path.parent))
            return Reading(two, columns, None, tidy)
        located = files if on_hub(files) else locate(files, path.parent)
        return Reading(located, columns, recipe.format, tidy)

    held_out = {name: getattr(recipe, name) for name in ("valid", "test")}
    tests = {name: reading(files, False) for name, files in held_out.items() if files is not None}
    return _Asked(reading(recipe.train, True), tests, recipe)


def _check_outputs(clean: Path | None, log: Path | None, save: Path | None, asked: _Asked, force: bool) -> None:
    """Refuse before the file is read what could not be written after."""
    if clean is None and log is not None:
        raise SaccadeError("--log: expected --clean OUT beside it, found none")
    if clean is None and save is None and force:
        raise SaccadeError("--force: expected --clean OUT or --recipe YAML beside it, found neither")
    if save is None:
        return
    if asked.recipe is not None:
        raise SaccadeError("--recipe: expected a file of pairs beside it, found a recipe")
    if save.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(save, field="--recipe", expected="a name that ends in .yaml", found=repr(save.suffix))
    if save.exists() and not force:
        raise InputError(save, field="--recipe", expected="a new file", found="one that exists", hint="add --force")


# What is written and said ------------------------------------------------------------------------------------------


def _cleaned(clean: Path | None, log: Path | None, asked: _Asked, force: bool) -> Any:
    if clean is None:
        return nullcontext()
    from saccade.data.survey.cleaning import Cleaned

    reads = [path for reading in (asked.train, *asked.tests.values()) for path in reading.paths]
    return Cleaned(clean, log, grouped=asked.train.columns.group is not None, reads=reads, force=force)


@contextmanager
def _bar() -> Iterator[Progress]:
    """A bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda doing, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} lines"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("reading", total=None)
        yield lambda doing, done, total: progress.update(bar, description=doing, completed=done, total=total)


def _show(
    found: Survey, advice: Advice, recipe: str | None, following: Sequence[str], as_json: bool, save: Path | None
) -> None:
    if as_json:
        from saccade.data.survey.pairs import summary

        print(json.dumps(summary(found, advice, recipe, following), ensure_ascii=False))
        return
    from saccade.cli.data.pages import page

    for line in page(found, advice, recipe, following, save):
        print(line)


def _show_columns(files: Sequence[str], unknown: UnknownColumns, format: str | None, as_json: bool) -> None:
    from saccade.data.survey.columns import likely_pair

    pair = likely_pair(unknown.available) or ("COLUMN", "COLUMN")
    options = {"--source": str(pair[0]), "--target": str(pair[1]), "--format": format}
    following = _command(files, options, [], [], [], False)
    notes, instead = labels_instead(files[0], format)
    if as_json:
        from saccade.data.survey.pairs import without_columns

        plain = without_columns(files, str(unknown), unknown.available, following)
        plain["verdict"]["notes"], plain["next"] = notes, [*instead, following]
        print(json.dumps(plain, ensure_ascii=False))
        return
    from saccade.cli.data.pages import column_page

    for line in column_page(files[0], str(unknown), unknown.available, following):
        print(line)
    for note in notes:
        print(f"\n{note}")


def _command(
    files: Sequence[str],
    options: dict[str, str | None],
    tests: Sequence[str],
    keep: Sequence[str],
    drop: Sequence[str],
    tidy: bool,
) -> str:
    words = ["saccade", "data", *files]
    words += [word for name, value in options.items() if value is not None for word in (name, value)]
    for name, values in (("--test", tests), ("--keep", keep), ("--drop", drop)):
        words += [word for value in values for word in (name, value)]
    return shlex.join([*words, "--tidy"] if tidy else words)


def _following(
    found: Survey, would_train: bool, again: str, files: Sequence[str], asked: _Asked, save: Path | None
) -> list[str]:
    from saccade.data.survey.cleaning import Rule
    from saccade.data.survey.recipe import doubted

    commands = []
    if found.cleaned is None and 0 < found.left.pairs < found.census.read:
        # A rule about texts may simply describe them; what repeats is better left out, however much it is.
        kept = "".join(f" --keep {each.rule.name}" for each in doubted(found) if isinstance(each.rule, Rule))
        commands.append(f"{again}{kept} --clean {shlex.quote(_clean_name(files[0]))}")
    if would_train:
        if asked.recipe is None and save is None:
            made = None if found.cleaned is None else f"saccade data {shlex.quote(str(found.cleaned.out))}"
            commands.append(f"{made or again} --recipe my.yaml")
        recipe = str(save or "my.yaml") if asked.recipe is None else files[0]
        commands.append(f"saccade train {shlex.quote(recipe)}")
    return commands


def _clean_name(name: str) -> str:
    """A name for the cleaned file: pairs.jsonl.xz → pairs.clean.jsonl."""
    from saccade.data.files.lines import unpacked
    from saccade.data.survey.cleaning import FORMATS

    path = unpacked(Path(name))
    format = path.suffix.lower().removeprefix(".")
    return f"{path.stem}.clean.{format if format in FORMATS else 'tsv'}"
