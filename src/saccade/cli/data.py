"""``saccade data``: reports what is in a file, whether it would train, and writes a recipe for it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from saccade.cli.options import Json
from saccade.cli.printing import print
from saccade.cli.search_options import GroupedHelp
from saccade.errors import InputError, SaccadeError

if TYPE_CHECKING:
    from saccade.data.survey.columns import UnknownColumns
    from saccade.data.survey.survey import Progress, Survey

Names = Annotated[
    list[str],
    typer.Argument(metavar="FILE [FILE2]", help="A data file or folder, two line-aligned text files, or a recipe."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="The column of a role, by name or by number from 1. Roles: source, target (pairs); text, label, second (labelled "
        "texts); word, tag, sentence (tagged words); question, candidate, relevance (rankings); image, label, caption "
        "(pictures); audio, text, speaker, times, start, end, duration, split (recordings); "
        "patient, time, code, outcome, several with commas (visits); group (any). May be repeated.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="The format, unless the file's name tells: tsv, csv, jsonl, parquet, lines (a label, its text), aspects, "
        "relations, conll, conllu, toks, coco, flickr, idx, kaldi, librispeech, commonvoice, omop or mimic."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="The encoding, by its name in Python: latin-1, cp1252, cp1251, shift_jis, … Default: utf-8."),
]
Test = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="A test set to compare with the training file; read in the same way. May be repeated. With two text files, give "
        "the sources and then the targets, or the sources only.",
    ),
]
Backbone = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="For pictures with captions: a network that is not trained and reads the pictures, such as efficientnet_lite0, a "
        "folder or package.module:Class. Default: a small CNN that is trained along.",
    ),
]
Save = Annotated[Path | None, typer.Option("--recipe", metavar="YAML", help="Write the recipe for it, ready to train.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the recipe if it exists.")]
Make = Annotated[
    str | None,
    typer.Option(
        metavar="espeak",
        help="Make a set of spoken sentences in the folder FILE, with the times of all phonemes. espeak-ng must be installed.",
    ),
]

ROLES = (
    "source", "target", "group", "text", "label", "second", "sentence", "word", "tag", "question", "candidate", "relevance",
    "image", "caption", "audio", "speaker", "times", "start", "end", "duration", "split", "patient", "time", "code", "outcome",
    "visits",
)  # fmt: skip
REMOVED = ("--clean", "--log", "--keep", "--drop", "--tidy")

BAR, NAMES = 30, 20  # characters of the longest bar, names that are listed
NUMBER = re.compile(r"[<>]? ?[\d.,]+\+?( %)?")
WIDTH = 44  # characters of a sample


class DataCommand(GroupedHelp):
    """Reads ``--ROLE NAME``, as earlier releases had it, as ``--column ROLE=NAME``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_columns(args)))


COMMAND_CLASS = DataCommand


def _with_columns(words: Sequence[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in REMOVED:
            instead = "data.faults: drop leaves malformed lines out" if option == "--clean" else "nothing replaces it"
            raise SaccadeError(f"{option}: saccade data no longer cleans files; {instead}")
        if option.removeprefix("--") in ROLES and option.startswith("--"):
            yield "--column"
            yield f"{option[2:]}={value if equals else next(rest, '')}"
        else:
            yield word


def data(
    files: Names,
    column: Columns = None,
    format: Format = None,
    encoding: Encoding = None,
    test: Test = None,
    backbone: Backbone = None,
    save: Save = None,
    force: Force = False,
    make: Make = None,
    as_json: Json = False,
) -> None:
    """Report what is in a file and whether it would train. Texts, pairs, tags, rankings, pictures, recordings or visits.

    \b
    saccade data pairs.tsv
    saccade data pairs.tsv --recipe my.yaml
    saccade data my.yaml
    saccade data docs.jsonl.xz --column source=en --column target=pt
    saccade data train.de.gz train.en.gz --test test.de.gz
    saccade data reviews.csv --column text=review --column label=stars
    saccade data aclImdb/train --test aclImdb/test
    saccade data TRAIN_FILE.TXT --format relations
    saccade data train.conllu --column tag=xpos
    saccade data answers.tsv --column question=q --column candidate=a --column relevance=right
    saccade data photos --recipe my.yaml
    saccade data photos.csv --column image=file --column caption=title
    saccade data speech.tsv --column speaker=reader
    saccade data visits.csv --column patient=pid --column outcome=died
    saccade data speech --make espeak
    """
    from saccade.data.survey.columns import UnknownColumns
    from saccade.recipes.schema import dump_yaml
    from saccade.storage import write_text

    path, tests, columns = _recipe_path(files), test or [], _columns(column or [])
    options = {"--column": column, "--format": format, "--encoding": encoding, "--test": tests}
    options["--backbone"] = backbone
    if make is not None:
        _make(files, make, {**options, "--recipe": save, "--force": force}, as_json)
        return
    _check_outputs(save, force, path)
    try:
        survey = (
            _of_files(files, columns, format, encoding, tests, backbone) if path is None else _of_recipe(path, options)
        )
        with _bar() as progress:
            survey.read(progress)
    except UnknownColumns as unknown:
        unknown.args = (with_options(str(unknown)),)
        wanted = _examples(files, unknown, format, encoding)
        plain = {"files": files, "columns": None, "available": dict(unknown.available), "would_train": False}
        plain |= {"problems": [str(unknown)], "next": wanted}
        _print(plain if as_json else column_page(files[0], unknown, wanted))
        raise typer.Exit(1) from None
    except SaccadeError as error:
        if path is None:
            error.args = (with_options(str(error)),)
        raise
    recipe = None
    if path is None and not survey.problems:
        recipe = dump_yaml(survey.recipe(None if save is None else save.parent))
        if save is not None:
            write_text(save, recipe)
    trained = files[0] if path is not None else str(save or "my.yaml")
    following = [] if survey.problems else [f"saccade train {shlex.quote(trained)}"]
    if recipe is not None and save is None:
        following.insert(0, f"{_command(files, columns, format, encoding, tests, backbone)} --recipe my.yaml")
    plain = survey.to_json() | {"recipe": recipe, "next": following} if as_json else {}
    _print(plain or page(survey, recipe, save, following))
    if survey.problems:
        raise typer.Exit(1)


def _make(files: Sequence[str], what: str, options: Mapping[str, Any], as_json: bool) -> None:
    """Make a data set in a folder and print what is in it."""
    from saccade.data.audio import espeak

    taken = next((name for name, value in options.items() if value), None)
    if taken is not None:
        raise SaccadeError(f"{taken}: expected no other option beside --make, found it")
    if what != "espeak" or len(files) != 1:
        found = repr(what) if what != "espeak" else f"{len(files)} names"
        raise SaccadeError(f"--make: expected espeak and one folder, found {found}")
    folder = Path(files[0])
    with _bar() as progress:
        seconds = espeak.make(folder, progress=progress)
    shown = shlex.quote(str(folder))
    parts = " ".join(f"data.{split}={shown}/{split}.jsonl" for split in seconds)
    following = [f"saccade data {shown}/train.jsonl", f"saccade train listen_phonemes {parts}"]
    if as_json:
        print(json.dumps({"folder": str(folder), "seconds": seconds, "next": following}, ensure_ascii=False))
        return
    for split, length in seconds.items():
        print(f"{folder}/{split}.jsonl: {length / 60:.0f} minutes of speech")
    print("\nNext:")
    for command in following:
        print(f"  {command}")


# What is read ---------------------------------------------------------------------------------------------------------


def _columns(given: Sequence[str]) -> dict[str, str | int]:
    """The columns by their roles."""
    columns: dict[str, str | int] = {}
    for text in given:
        role, equals, name = text.partition("=")
        if not equals or role not in ROLES:
            found = repr(text) if not equals else f"the role {role!r}"
            raise SaccadeError(f"--column: expected ROLE=NAME with one of the roles {', '.join(ROLES)}, found {found}")
        columns[role] = int(name) if name.removeprefix("-").isdecimal() else name
    return columns


def _of_files(
    files: Sequence[str],
    columns: Mapping[str, str | int],
    format: str | None,
    encoding: str | None,
    tests: Sequence[str],
    backbone: str | None = None,
) -> Survey:
    """The survey of the first kind that recognises the files."""
    from saccade.data.files.lines import codec_of
    from saccade.data.survey import surveys
    from saccade.recipes.located import locate
    from saccade.recipes.schema import build
    from saccade.tasks import data_class

    kinds = list(surveys())
    formats = {kind: _formats(data_class(kind.task)) for kind in kinds}
    if format is not None and not any(format in known for known in formats.values()):
        known = ", ".join(dict.fromkeys(name for names in formats.values() for name in names))
        raise SaccadeError(f"--format: expected one of {known}, found {format!r}")
    try:
        codec_of(encoding or "utf-8")
    except ValueError as error:
        raise SaccadeError(f"--{error}") from None
    kinds = [kind for kind in kinds if format is None or format in formats[kind]]
    kind = next((kind for kind in kinds if kind.recognises(files, columns, format, encoding or "utf-8")), None)
    if kind is None:
        if not columns:  # a format of one kind, and files of another
            raise SaccadeError(f"--format {format}: expected one file beside it, found {len(files)}")
        roles = "; ".join(f"{kind.kind}: {', '.join(kind.roles)}" for kind in kinds if kind.roles)
        raise SaccadeError(f"--column: expected roles of one kind ({roles}), found {', '.join(columns)}")
    if kind.kind == "pairs" and len(files) == 1 and format is None:  # what no other kind recognised
        _refuse_folder_and_recording(Path(files[0]))
    if len(files) > 2 or (len(files) == 2 and not kind.takes_two):
        wanted = (
            "expected one file, or two line-aligned text files"
            if format is None
            else f"--format {format}: expected one file"
        )
        raise SaccadeError(f"{wanted}, found {len(files)} files")
    if backbone is not None and not kind.takes_backbone:
        raise SaccadeError(f"--backbone: expected pictures with captions, found {kind.kind}")
    two = len(files) == 2
    if two and (columns or format):
        raise SaccadeError(
            f"{'--column' if columns else '--format'}: two text files have plain lines, without columns or formats"
        )
    section = data_class(kind.task)
    plain: dict[str, Any] = {"train": {"source": files[0], "target": files[1]} if two else files[0]}
    plain |= {"columns": kind.columns(columns)} if columns else {}
    plain |= {"format": format} if format else {}
    plain |= {"encoding": encoding} if encoding else {}
    plain |= {"features": {"backbone": backbone}} if backbone else {}
    held_out: Sequence[Any] = tests
    if two and len(tests) % 2 == 0:  # a file of sources, then one of targets
        held_out = list(zip(tests[::2], tests[1::2], strict=True))
    elif two and len(tests) > 1:
        raise SaccadeError(
            f"--test: expected pairs of text files, sources first, or one of sources, found {len(tests)}"
        )
    return kind(build(section, locate(plain, "command line"), "data"), held_out, named=bool(columns))


def _refuse_folder_and_recording(path: Path) -> None:
    """Raise on what is no file of records: a folder without recordings or pictures, or a recording alone."""
    from saccade.data.audio.recordings import is_recording

    if path.is_dir():
        expected = "a file of records, or a folder of pictures or of recordings with their transcripts"
        found = "a folder with neither" if any(path.iterdir()) else "an empty folder"
        raise InputError(path, expected=expected, found=found)
    if is_recording(path.name):
        expected = "recordings with transcripts: a table of their names, or a folder with 17.txt beside 17.wav"
        raise InputError(path, expected=expected, found="one recording")


def _formats(section: type[Any]) -> tuple[str, ...]:
    """The formats that a kind of data can have."""
    return tuple(name for option in get_args(get_type_hints(section)["format"]) for name in get_args(option))


def with_options(message: str) -> str:
    """An error about fields of a recipe in terms of the options that set them.

    >>> with_options("a.csv: which? (data.columns names them; or set data.encoding: latin-1)")
    'a.csv: which? (--column ROLE=NAME names them; or set --encoding latin-1)'
    """
    message = message.removeprefix("command line: ")
    message = re.sub(r"\b(?:data\.)?columns\.(\w+)", r"--column \1=NAME", message)
    message = re.sub(r"\bdata\.columns?\b", "--column ROLE=NAME", message)
    message = message.replace("set data.format", "set data.format, such as lines for a label and its text")
    message = re.sub(r"(?<!in a recipe )\bdata\.(format|encoding)(: (?!expected))?", _option, message)
    return message


def _option(field: re.Match[str]) -> str:
    return f"--{field[1]}" + (" " if field[2] else "")


def _recipe_path(files: Sequence[str]) -> Path | None:
    """The recipe, if the argument names one: a YAML file, or a shipped recipe."""
    from saccade.recipes.recipe import shipped_recipes

    if len(files) != 1:
        return None
    path = Path(files[0])
    if path.suffix.lower() in (".yaml", ".yml"):
        return path
    return None if path.exists() else shipped_recipes().get(files[0])


def _of_recipe(path: Path, options: Mapping[str, Any]) -> Survey:
    """The survey of a recipe's data; the other sections are ignored, except ``train.seed``."""
    from saccade.data.survey import survey_class
    from saccade.plugins import EVERYTHING, searching
    from saccade.recipes.located import node_at, read_yaml, refusal
    from saccade.recipes.own import located
    from saccade.recipes.schema import build
    from saccade.task import Surveys
    from saccade.tasks import task_class
    from saccade.training.config import Train

    taken = next((name for name, value in options.items() if value), None)
    if taken is not None:
        raise SaccadeError(f"{taken}: expected a data file, found a recipe, which sets that itself")
    root = read_yaml(path)
    named, section, training = (node_at(root, name) for name in ("task", "data", "train"))
    if named is None or section is None:
        missing = "task" if named is None else "data"
        raise InputError(path, field=missing, expected="a recipe with task and data", found="none")
    with searching(trust=EVERYTHING, beside=path.parent):
        task = located(named, "task", task_class)
    if not issubclass(task, Surveys):
        raise refusal(named, "task", "a task whose data can be surveyed")
    data: Any = build(task.Data, section, "data")
    if data.train is None:
        hint = f"there is nothing to check: saccade train {path.stem}"
        raise InputError(path, field="data.train", expected="a file of your own", found="a built-in source", hint=hint)
    seed = (Train() if training is None else build(Train, training, "train")).seed
    return survey_class(task.survey)(data, has_recipe=True, folder=path.parent, seed=seed)


def _check_outputs(save: Path | None, force: bool, recipe: Path | None) -> None:
    """Fail before the file is read if the recipe could not be written afterwards."""
    if save is None:
        if force:
            raise SaccadeError("--force: expected --recipe YAML too, found none")
        return
    if recipe is not None:
        raise SaccadeError("--recipe: expected a data file, found a recipe")
    if save.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(save, field="--recipe", expected="a name that ends in .yaml", found=repr(save.suffix))
    if save.exists() and not force:
        raise InputError(save, field="--recipe", expected="a new file", found="one that exists", hint="add --force")


# What is printed ------------------------------------------------------------------------------------------------------


@contextmanager
def _bar() -> Iterator[Progress]:
    """A progress bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda name, records: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("reading {task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)
        yield lambda name, records: progress.update(bar, description=name, completed=records)


def _print(report: dict[str, Any] | Iterator[str]) -> None:
    if isinstance(report, dict):
        print(json.dumps(report, ensure_ascii=False))
        return
    for line in report:
        print(line)


def _examples(files: Sequence[str], unknown: UnknownColumns, format: str | None, encoding: str | None) -> list[str]:
    """Commands that name columns of the file."""
    from saccade.data.survey.columns import label_columns, likely_pair

    source, target = likely_pair(unknown.available) or ("COLUMN", "COLUMN")
    likely: list[dict[str, str | int]] = [{"source": source, "target": target}]
    labels = label_columns(files[0], format, encoding or "utf-8", sure=False)
    likely += [{"text": labels.text, "label": labels.label}] if labels is not None else []
    return [_command(files, columns, format, encoding, []) for columns in likely]


def _command(
    files: Sequence[str],
    columns: Mapping[str, str | int],
    format: str | None,
    encoding: str | None,
    tests: Sequence[str],
    backbone: str | None = None,
) -> str:
    words = ["saccade", "data", *files]
    given = [("--column", f"{role}={name}") for role, name in columns.items()]
    given += [(name, value) for name, value in (("--format", format), ("--encoding", encoding)) if value]
    given += [("--test", name) for name in tests]
    given += [("--backbone", backbone)] if backbone else []
    return shlex.join([*words, *(word for pair in given for word in pair)])


def page(survey: Survey, recipe: str | None, saved: Path | None, following: Sequence[str]) -> Iterator[str]:
    """The whole report, line by line; ``saved`` is where the recipe was written."""
    yield safe(survey.headline())
    for section in survey.sections():
        if section.rows or section.bars:
            yield ""
            yield safe(section.title)
            yield from _bars(section.bars)
            yield from _table(section.rows)
    yield ""
    yield "It would train." if not survey.problems else "It would not train:"
    yield from (f"  - {safe(problem)}" for problem in survey.problems)
    yield from (f"  note: {safe(note)}" for note in survey.notes)
    if recipe is not None:
        yield ""
        yield "A recipe for it:" if saved is None else f"A recipe for it, written to {saved}:"
        yield from (f"  {line}" for line in recipe.splitlines())
    if following:
        yield ""
        yield "Next:"
        yield from (f"  {command}" for command in following)


def column_page(file: str, unknown: UnknownColumns, following: Sequence[str]) -> Iterator[str]:
    """The report if the columns cannot be guessed: the columns of the file, and commands that name them."""
    yield f"{file}: cannot tell which column has which role"
    yield f"({safe(str(unknown))})"
    yield ""
    rows = [
        (str(name), "no text in the first rows" if text is None else _sample(text)) for name, text in unknown.available
    ]
    yield from _table([("column", "for example"), *rows])
    yield ""
    yield "Name the columns, for example:"
    yield from (f"  {command}" for command in following)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Aligned columns; those of numbers to the right."""
    if not rows:
        return
    cells = [tuple(map(safe, row)) for row in rows]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [
        any(map(NUMBER.fullmatch, column)) and sum(not NUMBER.fullmatch(c) for c in column if c) < 2
        for column in columns
    ]
    for row in cells:
        aligned = [f"{c:>{w}}" if n else f"{c:<{w}}" for c, w, n in zip(row, widths, numeric, strict=True)]
        yield f"  {'  '.join(aligned)}".rstrip()


def _bars(counts: Mapping[str, int]) -> Iterator[str]:
    """A line per name; of many the most frequent."""
    if not counts:
        return
    total, most = sum(counts.values()), max(counts.values())
    names = list(counts) if len(counts) <= NAMES else sorted(counts, key=lambda name: -counts[name])[:NAMES]
    width = max(len(safe(name)) for name in names)
    for name in names:
        bar = "█" * max(1, round(BAR * counts[name] / most))
        yield f"  {safe(name):<{width}}  {counts[name]:>9,}  {100 * counts[name] / total:5.1f} %  {bar}"
    if len(counts) > NAMES:
        yield f"  … and {len(counts) - NAMES} more"


def _sample(text: str) -> str:
    return f'"{text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"}"'


def safe(text: str) -> str:
    """The text with control characters written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
