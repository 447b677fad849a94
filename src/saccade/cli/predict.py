"""``saccade predict``: prints a model's outputs, or writes them to a file, as they are made.

The inputs are arguments, lines of standard input, or columns of a table; a table's rows keep their cells and get their
prediction and score beside them. No torch.

``FILE.state`` beside ``--out FILE`` holds the number of inputs that are done, the size of their outputs in bytes, and checksums
of these inputs, the run and the options; it is removed at the end. It is written after each chunk, so a killed process may
leave more outputs than it counts: these are cut off and written again.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from os.path import isfile
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from saccade.cli.options import Force, Inputs, Json, Run, decoded, line_chunks, print_notes
from saccade.cli.printing import print, printable
from saccade.cli.search_options import SEARCH, Steering, with_options
from saccade.data.files.fields import COLUMNAR, columns_of, first_row, format_of, scan_fields
from saccade.data.files.lines import codec_of, suffix_of
from saccade.data.files.records import Fault, Fields, Name
from saccade.errors import InputError, SaccadeError
from saccade.storage import current_file, locked, read_json, write_json

EVERY = 1.0  # seconds between two reports of progress on a terminal
TOGETHER = 256  # rows of a table that are predicted and written at a time
ADDED = ("prediction", "score")  # the columns that a table gets

RECORDINGS = "Recordings"
MOST_NOTES = 5  # of a recording's windows
TRANSCRIPTS = (".srt", ".vtt", ".json", ".textgrid")  # endings of files with a recording's transcript and its times
DRAWS = 8  # pictures per input in a grid, unless --n-best says otherwise


@with_options(Steering)
def predict(
    run: Run,
    inputs: Inputs = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of outputs per input, with scores. Default: the recipe's.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="INPUT is a table (csv, tsv, jsonl, parquet): predict from this column of it, and write its rows with their "
            "predictions. May be repeated, for pairs.",
        ),
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of the table, with --column.")] = "utf-8",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to this file; the same command continues after an interruption."),
    ] = None,
    on_error: Annotated[
        Literal["continue", "stop"],
        typer.Option(
            help="After an input that cannot be read or predicted: print an empty line and continue, or stop."
        ),
    ] = "continue",
    chunk_seconds: Annotated[
        float | None,
        typer.Option(
            "--chunk",
            metavar="SECONDS",
            help="Of a recording: transcribe it in windows of this length; default 20.",
            rich_help_panel=RECORDINGS,
        ),
    ] = None,
    overlap: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="What neighbouring windows share; default a fifth of one.",
            rich_help_panel=RECORDINGS,
        ),
    ] = None,
    as_json: Json = False,
    force: Force = False,
    *,
    options: Steering,
) -> None:
    """Print a model's output for each input.

    \b
    saccade predict runs/my "a text"
    saccade predict runs/my < texts.txt --out outputs.txt
    saccade predict runs/my "a text" --beam 5 --n-best 3
    saccade predict runs/my "a text" --prefix "It is" --require "house"
    saccade predict runs/my "a text" --sample --temperature 0.8 --n-best 3
    saccade predict runs/my "a text" --with runs/other
    saccade predict runs/my texts.csv --column text --out labelled.csv
    saccade predict runs/my circle square --seed 7 --out samples.png
    saccade predict runs/my talk.wav --out talk.srt

    A recording of any length becomes subtitles (.srt, .vtt) or a file with the times of words (.json, .TextGrid).

    Outputs are written in order, some lines at a time, and flushed. Pictures are written as one grid (.png), a row per input;
    without INPUT a row per class.
    """
    if force and out is None:
        raise SaccadeError("--force: expected --out FILE too, found none")
    if column and (len(inputs or ()) != 1 or as_json):
        found = "--json, which prints inputs without their rows" if as_json else f"{len(inputs or ())} of them"
        raise SaccadeError(f"--column: expected one table as INPUT, found {found}")
    bundle = options.load(run)
    if _is_transcribed(bundle, out, chunk_seconds, overlap) or (
        out is None and n_best is None and not as_json and not column and _is_long(bundle, inputs)
    ):
        _refuse_with_times(options, {"--column": column, "--n-best": n_best, "--json": as_json})
        _write_transcript(bundle, inputs or [], options.search(bundle), out, chunk_seconds, overlap, force=force)
        return
    weights = [current_file(folder, "model.safetensors") for folder in (run, *(options.together or ()))] if out else []
    if column and inputs:
        table = PredictedTable(bundle, Path(inputs[0]), column, out, encoding)
        job = {"run": checksum(*weights), "command": checksum(options, column, encoding)}
        with Outputs(out, job, force=force) as outputs:
            _write_table(table, options.predictor(bundle), outputs, stop=on_error == "stop")
        return
    if bundle.task.output == "image" and not as_json:
        _write_pictures(bundle, inputs, options.predictor(bundle, n_best=n_best or DRAWS), out, force=force)
        return
    wanted = n_best or _default_n_best(bundle, options)
    predictor = options.predictor(bundle, n_best=wanted)
    form = _as_json if as_json else _Lines(scored=n_best is not None or wanted > 1)
    job = {"run": checksum(*weights), "command": checksum(options, wanted, as_json, n_best is None)}
    _note_names_of_files(inputs or ())
    chunks = [[text.encode("utf-8", "surrogateescape") for text in inputs]] if inputs else line_chunks()
    with Outputs(out, job, force=force) as outputs:
        for before, chunk in outputs.left(chunks):
            answers = _answers(bundle, predictor, chunk, before, "input" if inputs else "stdin, line")
            faults = [answer for _, answer in answers if isinstance(answer, SaccadeError)]
            if inputs and len(faults) == len(answers):
                raise faults[0]
            if faults and on_error == "stop":
                answers = answers[: next(n for n, (_, answer) in enumerate(answers) if answer is faults[0])]
            rows = [line for number, row in enumerate(answers, start=before) for line in form(number, *row)]
            outputs.write(rows, chunk[: len(answers)], faults=0 if on_error == "stop" else len(faults))
            _print_messages(answers)
            if faults and on_error == "stop":
                raise faults[0]
        outputs.complete()
    if outputs.faults:
        raise typer.Exit(1)


def _note_names_of_files(inputs: Sequence[str]) -> None:
    """Say that a name was predicted where a file's content may have been meant."""
    for text in inputs:
        if suffix_of(text) in (*COLUMNAR, "txt") and isfile(text):
            meant = f"--column NAME predicts from a table, `saccade predict RUN < {text}` from lines"
            print(f"note: {text!r} is taken for a text, but is the name of a file: {meant}", file=sys.stderr)


def _write_pictures(
    bundle: Any, inputs: list[str] | None, predictor: Callable[[list[Any]], list[Any]], out: Path | None, *, force: bool
) -> None:
    """Write the pictures of every input as a row of one PNG; without inputs, of every class."""
    from saccade.data.images.pictures import grid_of, png_of
    from saccade.storage import write_bytes

    if out is None or out.suffix.lower() != ".png":
        found = "none" if out is None else repr(out.name)
        raise SaccadeError(f"--out: expected FILE.png, since outputs are pictures (--json prints them), found {found}")
    if out.exists() and not force:
        hint = "add --force to overwrite it"
        raise InputError(out, field="--out", expected="a new file", found="an existing one", hint=hint)
    names = inputs or list(bundle.task.labels)
    predictions = predictor(names)
    rows = [[one.pixels for one in (prediction, *prediction.alternatives)] for prediction in predictions]
    write_bytes(out, png_of(grid_of(rows)))
    for prediction in predictions:
        drawn = len(prediction.alternatives) + 1
        print(f"{prediction.label}: {drawn} picture{'s' * (drawn > 1)}, seed {prediction.seed}")
    print(out)


def _is_transcribed(bundle: Any, out: Path | None, chunk: float | None, overlap: float | None) -> bool:
    """Whether a recording is to be transcribed with times, window by window."""
    heard = bundle.task.input.name == "audio"
    asked = next((name for name, given in (("--chunk", chunk), ("--overlap", overlap)) if given is not None), None)
    if asked is not None and not heard:
        raise SaccadeError(f"{asked}: expected a model that reads recordings, found one of the task {bundle.task.name}")
    return heard and (asked is not None or (out is not None and out.suffix.lower() in TRANSCRIPTS))


def _is_long(bundle: Any, inputs: list[str] | None) -> bool:
    """Whether the input is one recording that is longer than any in training."""
    if bundle.task.input.name != "audio" or len(inputs or ()) != 1 or bundle.recipe.data.features.kind == "given":
        return False
    from saccade.data.audio.recordings import Recording

    name, most = (inputs or [""])[0], bundle.recipe.data.audio.max_seconds
    try:
        seconds = Recording.named(name).seconds
    except InputError:
        return False  # said where it is read
    if seconds > most:
        longer = f"{seconds:,.0f} s are more than data.audio.max_seconds, {most:g}"
        print(f"note: {name}: {longer}: transcribed window by window (--chunk)", file=sys.stderr)
    return bool(seconds > most)


def _refuse_with_times(options: Steering, wanted: Mapping[str, Any]) -> None:
    """Raise on options that transcripts with times do not take."""
    constraints = {f"--{name}": getattr(options, name) for name in ("prefix", "require", "forbid", "dictionary")}
    given = next((name for name, value in {**wanted, **constraints}.items() if value), None)
    if given is not None:
        raise SaccadeError(f"command line: {given} cannot be combined with --chunk, nor with --out of a transcript")


def _write_transcript(
    bundle: Any,
    inputs: list[str],
    search: Any,
    out: Path | None,
    chunk: float | None,
    overlap: float | None,
    *,
    force: bool,
) -> None:
    """Write one recording's transcript with its times, or print its text."""
    from rich.console import Console
    from rich.progress import Progress

    from saccade.api import transcribe

    if len(inputs) != 1:
        raise SaccadeError(f"command line: expected one recording as INPUT, found {len(inputs)}")
    if out is not None and out.suffix.lower() not in TRANSCRIPTS:
        raise SaccadeError(f"--out: expected FILE.srt, .vtt, .json or .TextGrid, found {out.name!r}")
    if out is not None and out.exists() and not force:
        hint = "add --force to overwrite it"
        raise InputError(out, field="--out", expected="a new file", found="an existing one", hint=hint)
    file = bundle.task.input.from_argument(inputs[0], "input 1")
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("transcribing", total=1.0)
        transcript = transcribe(
            bundle, file, chunk=chunk, overlap=overlap, search=search,
            progress=lambda share: bar.update(line, completed=share),
        )  # fmt: skip
    for note in transcript.notes[:MOST_NOTES]:
        print(f"note: {note}", file=sys.stderr)
    if len(transcript.notes) > MOST_NOTES:
        print(f"note: and {len(transcript.notes) - MOST_NOTES} more", file=sys.stderr)
    if out is None:
        print(printable(transcript.text))
        return
    transcript.save(out)
    print(f"{len(transcript.words):,} words in {transcript.seconds:.1f} s  {out}")


def _write_table(
    table: PredictedTable, predictor: Callable[[list[Any]], list[Any]], outputs: Outputs, *, stop: bool
) -> None:
    """Write the rows of a table with their predictions, in order and as they are made; ``stop`` after rows with a fault."""
    header = [] if outputs.done else table.header()
    for done, chunk in outputs.left(table.chunks()):
        before = table.faults
        outputs.write([*header, *table.lines(chunk, predictor, done)], chunk, faults=table.faults - before)
        header = []
        if stop and table.faults:
            raise typer.Exit(1)
    outputs.write(header, [])  # of a table without rows
    outputs.complete()
    if outputs.faults or table.faults:
        raise typer.Exit(1)


Answer = Any  # a Prediction, or the SaccadeError of an input that has none


def _answers(
    bundle: Any, predictor: Callable[[list[Any]], list[Any]], chunk: Sequence[bytes], before: int, called: str
) -> list[tuple[str, Answer]]:
    """The inputs of a chunk as text, each with its prediction or its error; ``before`` counts the inputs before it, and
    ``called`` is what an error calls one."""
    texts = [line.decode("utf-8", "replace") for line in chunk]
    answers: dict[int, Answer] = {}
    parsed: dict[int, Any] = {}
    for number, line in enumerate(chunk):
        where = f"{called} {before + number + 1}"
        try:
            parsed[number] = bundle.task.input.from_argument(decoded(line, where), where)
        except InputError as error:
            answers[number] = error
    numbers = list(parsed)
    places = [f"{called} {before + number + 1}" for number in numbers]
    for place, refusal in bundle.refusals(list(parsed.values()), places).items():
        answers[numbers[place]] = refusal
        del parsed[numbers[place]]
    answers |= _predictions(predictor, parsed, places=lambda number: f"{called} {before + number + 1}", done=before)
    return [(text, answers[number]) for number, text in enumerate(texts)]


def _predictions(
    predictor: Callable[[list[Any]], list[Any]], inputs: Mapping[int, Any], places: Callable[[int], str], done: int
) -> dict[int, Answer]:
    """The predictions of numbered inputs, or their errors with their places; ``done`` counts the inputs before them."""
    answers = dict(zip(inputs, _predicted(predictor, list(inputs.values())), strict=True))
    reasons = {_reason(answer) for answer in answers.values()}
    for number, answer in answers.items():
        if isinstance(answer, InputError) and str(answer.where).startswith("input "):
            answers[number] = answer.at(places(number))
    if not done and len(reasons) == 1 and None not in reasons:  # all fail alike: it is an option, not an input
        raise answers[min(answers)]
    return answers


def _reason(answer: Answer) -> str | None:
    """Why there is no prediction, without its place; None if there is one."""
    if not isinstance(answer, SaccadeError):
        return None
    return str(answer).removeprefix(str(answer.where)) if isinstance(answer, InputError) else str(answer)


def _predicted(predictor: Callable[[list[Any]], list[Any]], inputs: list[Any]) -> list[Answer]:
    """The predictions of these inputs; where one makes them fail, the others are predicted without it."""
    if not inputs:
        return []
    try:
        return predictor(inputs)
    except SaccadeError as error:
        if len(inputs) == 1:
            return [error]
    half = len(inputs) // 2
    return _predicted(predictor, inputs[:half]) + _predicted(predictor, inputs[half:])


def _print_messages(answers: Sequence[tuple[str, Answer]]) -> None:
    for text, answer in answers:
        if isinstance(answer, SaccadeError):
            print(f"error: {answer}", file=sys.stderr)
        else:
            print_notes(text, answer)


def _default_n_best(bundle: Any, options: Steering) -> int:
    """The number of outputs of the recipe's search, at most the given beam."""
    own: int = bundle.recipe.search.n_best
    return own if options.beam is None else min(own, options.beam)


class _Lines:
    """The printed lines of an answer: its outputs, with scores where ``scored``."""

    def __init__(self, *, scored: bool) -> None:
        self.scored = scored

    def __call__(self, number: int, text: str, answer: Answer) -> list[str]:
        if isinstance(answer, SaccadeError):
            return [""]  # lines of inputs and outputs still correspond
        printed = answer.detail.lines()
        if printed is not None:  # several lines per input: a blank line between inputs
            return ["", *printed] if number else list(printed)
        outputs = (answer, *answer.alternatives)
        written = [(output.score, output.readable or output.value) for output in outputs]
        return [f"{score:.4f}\t{text}" if self.scored else f"{text}" for score, text in written]


def _as_json(number: int, text: str, answer: Answer) -> list[str]:
    row = {"input": text, "error": str(answer)} if isinstance(answer, SaccadeError) else _plain(text, answer)
    return [json.dumps(row, ensure_ascii=False)]


def _plain(text: str, prediction: Any) -> dict[str, Any]:
    plain = {"input": text, **_output(prediction)}
    if prediction.alternatives:
        plain["alternatives"] = [_output(each) for each in prediction.alternatives]
    return plain


def _output(prediction: Any) -> dict[str, Any]:
    return {**prediction.to_json(), "parts": dict(prediction.parts), "notes": list(prediction.notes)}


class PredictedTable:
    """The rows of a table with their predictions, some at a time; ``faults`` counts the rows that have none.

    Args:
        columns: the inputs, by name or number from 1; those that the recipe names unless given.
        out: its suffix decides between commas and tabs.
    """

    def __init__(self, bundle: Any, file: Path, columns: Sequence[str], out: Path | None, encoding: str) -> None:
        try:
            codec_of(encoding)
        except ValueError as error:
            raise SaccadeError(f"--{error}") from None
        self.bundle, self.file, self.encoding, self.faults = bundle, file, encoding, 0
        hint = "--column reads the inputs from a table"
        kinds = {name: name for name in COLUMNAR}
        kind = format_of(file, suffixes=kinds, expected="a csv, tsv, jsonl or parquet", hint=hint)
        first = first_row(file, kind, encoding) or []
        self.names: list[Name] = columns_of(file, kind, encoding)
        if first and not all(map(str.isdecimal, columns)):  # named, so there is a header, whatever it looks like
            self.names = [name if name.strip() else number for number, name in enumerate(first, start=1)]
        self.columns = tuple(map(self._column, columns)) or bundle.task.input_columns(self.names)
        self._divider = "\t" if suffix_of(out or file) == "tsv" else ","

    def _column(self, name: str) -> Name:
        number = int(name) if name.isdecimal() and name not in self.names else 0
        column = self.names[number - 1] if 1 <= number <= len(self.names) else name
        if column not in self.names:
            there = f"one of the columns {', '.join(map(str, self.names))}"
            raise InputError(self.file, field="--column", expected=there, found=repr(name))
        return column

    def header(self) -> list[str]:
        """The line of names, where the table has one; an added name that the table has already is numbered."""
        if all(isinstance(name, int) for name in self.names):
            return []
        names = ["" if isinstance(name, int) else name for name in self.names]
        for name in ADDED:
            others = (f"{name}_{number}" for number in range(2, len(names) + 3))
            names.append(next(each for each in (name, *others) if each not in names))
        return self._lines([names])

    def chunks(self) -> Iterator[list[bytes]]:
        """The rows, each as bytes that :meth:`lines` reads; a malformed row is reported and left out."""
        chunk: list[bytes] = []
        for item in scan_fields(self.file, self.names, encoding=self.encoding, optional=self.names):
            if isinstance(item, Fault):
                self._refuse(item.error)
                continue
            chunk.append(json.dumps([item.line, item.values], default=str).encode())
            if len(chunk) == TOGETHER:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def _located(self, name: Any) -> Any:
        """The name of a file as seen from the table's folder, unless it is only found from the current one."""
        if not isinstance(name, str):
            return name
        beside = self.file.parent / name
        stretch = name.rpartition("#")[0]
        here = any(Path(part).is_file() for part in (name, stretch) if part)
        there = any((self.file.parent / part).is_file() for part in (name, stretch) if part)
        return name if here and not there else str(beside)

    def lines(self, chunk: Sequence[bytes], predict: Callable[[list[Any]], list[Any]], done: int) -> list[str]:
        """The rows with their predictions, as lines of a table; an input that is refused or fails has none, and is reported.
        ``done`` counts the rows before them."""
        rows = [Fields(line, tuple(values)) for line, values in map(json.loads, chunk)]
        columns = [self.names.index(column) for column in self.columns]
        fields = [Fields(row.line, tuple(row.values[column] for column in columns)) for row in rows]
        inputs = self.bundle.task.inputs_of_table(self.columns, fields)
        if self.bundle.task.input.largest is not None:
            inputs = list(map(self._located, inputs))
        if len(inputs) != len(rows):
            raise SaccadeError(f"--column: the inputs of the task {self.bundle.task.name} are not one per row")
        places = [f"{self.file}:{row.line}" for row in rows]
        answers: dict[int, Answer] = dict(self.bundle.refusals(inputs, places))
        kept = {number: one for number, one in enumerate(inputs) if number not in answers}
        answers |= _predictions(predict, kept, places=places.__getitem__, done=done)
        added = {}
        for number, answer in sorted(answers.items()):
            if isinstance(answer, SaccadeError):
                self._refuse(answer)
                continue
            print_notes(str(inputs[number]), answer)
            added[number] = (answer.readable or answer.value, f"{answer.score:.4f}")
        return self._lines([*map(_cell, row.values), *map(_cell, added.get(n, ("", "")))] for n, row in enumerate(rows))

    def _refuse(self, error: SaccadeError) -> None:
        self.faults += 1
        print(f"error: {error}", file=sys.stderr)

    def _lines(self, rows: Any) -> list[str]:
        lines = []
        for row in rows:
            text = io.StringIO()
            csv.writer(text, delimiter=self._divider, lineterminator="").writerow(row)
            lines.append(text.getvalue())
        return lines


def _cell(value: Any) -> str:
    """A value as a cell: text as it is, lists and the like as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Outputs:
    """Standard output, or a file that can be continued; a context manager.

    Args:
        out: the file; None is standard output.
        job: what the outputs depend on besides the inputs, by the name that an error calls it: ``{"run": checksum, …}``.
        force: start again although the file exists.
    """

    def __init__(self, out: Path | None, job: Mapping[str, str], *, force: bool = False) -> None:
        self.out, self.job, self.done, self.size, self.faults = out, dict(job), 0, 0, 0
        self._digest, self._expected = hashlib.sha256(), ""
        self._state = None if out is None else out.with_name(f"{out.name}.state")
        self._file: FileIO | None = None
        self._open = ExitStack()
        self._progress = _Progress()
        self.force = force

    def __enter__(self) -> Outputs:
        if self.out is None or self._state is None:
            return self
        with ExitStack() as opening:  # released if the file cannot be written
            lock = self.out.with_name(f".{self.out.name}.lock")
            opening.enter_context(locked(lock, where=self.out, expected="a file that no other process is writing"))
            opening.callback(lock.unlink, missing_ok=True)
            self._begin(self.out, self._state, opening)
            self._open = opening.pop_all()
        return self

    def _begin(self, out: Path, state: Path, opening: ExitStack) -> None:
        if state.exists() and not self.force:
            self._continue(state)
        elif out.exists() and not self.force:
            hint = "it is complete, or was written by another command; add --force to overwrite it"
            raise InputError(out, field="--out", expected="a new file", found="an existing one", hint=hint)
        try:
            self._file = opening.enter_context(open(out, "r+b" if self.done else "wb", buffering=0))  # noqa: SIM115
        except OSError as error:
            raise InputError(out, field="--out", expected="a file to write", found=str(error.strerror)) from None
        self._file.truncate(self.size)
        self._file.seek(self.size)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._progress.end()
        self._open.close()
        if kind is KeyboardInterrupt and self.done and self.out is not None:
            print(f"{self.out}: stopped after {self.done:,} inputs; the same command continues", file=sys.stderr)

    def _continue(self, state: Path) -> None:
        before = read_json(state)
        try:
            done, size, inputs, job = int(before["done"]), int(before["bytes"]), str(before["inputs"]), before["job"]
            faults = int(before["faults"])
            there = self.out.stat().st_size if self.out is not None and self.out.exists() else 0
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(state, expected="the state of an output file", found=f"another one: {error}") from None
        differing = [name for name, value in self.job.items() if not isinstance(job, dict) or job.get(name) != value]
        if differing:
            self._refuse(f"outputs of this {differing[0]}", f"those of another {differing[0]}")
        if there < size:
            self._refuse(f"at least {size:,} bytes, as {state.name} says", f"{there:,}")
        self.done, self.size, self._expected, self.faults = done, size, inputs, faults

    def _refuse(self, expected: str, found: str) -> None:
        hint = "name another file, or add --force to start again"
        raise InputError(self.out or "stdout", field="--out", expected=expected, found=found, hint=hint)

    def left(self, chunks: Iterable[Sequence[bytes]]) -> Iterator[tuple[int, Sequence[bytes]]]:
        """The chunks of inputs that are not written yet, each with the number of inputs before it."""
        passed = 0
        for chunk in chunks:
            skipped = min(max(self.done - passed, 0), len(chunk))
            if passed < self.done:
                self._count(chunk[:skipped])
                passed += len(chunk)
                if passed >= self.done:
                    self._check()
            else:
                passed += len(chunk)
            if skipped < len(chunk):
                yield passed - len(chunk) + skipped, chunk[skipped:]
        if passed < self.done:
            self._refuse(f"outputs of these {passed:,} inputs", f"those of {self.done:,}")

    def _count(self, inputs: Sequence[bytes]) -> None:
        for given in inputs:
            self._digest.update(given + b"\n")

    def _check(self) -> None:
        if self._digest.hexdigest() != self._expected:
            self._refuse("outputs of these inputs", f"different inputs among the first {self.done:,}")
        print(f"{self.out}: continues after {self.done:,} inputs", file=sys.stderr)

    def write(self, lines: Sequence[str], inputs: Sequence[bytes], faults: int = 0) -> None:
        """Write and flush the lines of these inputs, ``faults`` of which have no output."""
        self.faults += faults
        text = "".join(f"{line}\n" for line in lines)
        if self._file is None:
            sys.stdout.write(printable(text))
            sys.stdout.flush()
            self._progress.add(len(inputs), shown=not sys.stdout.isatty())
            return
        self._count(inputs)
        try:
            left = text.encode("utf-8", "surrogatepass")
            while left:  # an unbuffered file may take a part; a buffer would try again when it is closed
                left = left[self._file.write(left) :]
            self.size = self._file.tell()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SaccadeError(
                f"{self.out}: could not write: {reason}; the outputs of {self.done:,} inputs are whole, and the same command "
                "continues after them"
            ) from None
        self.done += len(inputs)
        state: dict[str, Any] = {
            "done": self.done,
            "bytes": self.size,
            "inputs": self._digest.hexdigest(),
            "faults": self.faults,
        }
        state["job"] = self.job
        if self._state is not None:
            write_json(self._state, state)
        self._progress.add(len(inputs), shown=True)

    def complete(self) -> None:
        """All inputs are written: nothing is left to continue."""
        if self._state is not None:
            self._state.unlink(missing_ok=True)


class _Progress:
    """How many inputs are done, on standard error where that is a terminal."""

    def __init__(self) -> None:
        self.done, self.begun, self.last, self.width = 0, time.monotonic(), 0.0, 0

    def add(self, count: int, *, shown: bool) -> None:
        self.done += count
        now = time.monotonic()
        if shown and sys.stderr.isatty() and now - max(self.last, self.begun) > EVERY:
            self.last = now
            line = f"{self.done:,} inputs, {self.done / (now - self.begun):,.1f} per second"
            self.width = max(self.width, len(line))
            sys.stderr.write(f"\r{line:<{self.width}}")
            sys.stderr.flush()

    def end(self) -> None:
        if self.width:
            print(file=sys.stderr)


def checksum(*parts: Any) -> str:
    """A checksum of files (paths) and of other values by their ``repr``."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            with open(part, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        else:
            digest.update(repr(part).encode() + b"\0")
    return digest.hexdigest()
