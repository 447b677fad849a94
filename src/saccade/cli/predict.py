"""``saccade predict``: prints a model's outputs, or writes them to a file, as they are made."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from saccade.cli.options import Force, Inputs, Json, Run, decoded, line_chunks, print_notes
from saccade.cli.outputs import Outputs, checksum
from saccade.cli.predicted_table import PredictedTable
from saccade.cli.printing import print
from saccade.cli.search_options import SEARCH, Steering, with_options
from saccade.errors import InputError, SaccadeError
from saccade.storage import current_file

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
    encoding: Annotated[str, typer.Option(help="With --column: of the table, as Python names it.")] = "utf-8",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to this file; the same command continues after an interruption."),
    ] = None,
    on_error: Annotated[
        Literal["continue", "stop"],
        typer.Option(help="After an input that cannot be read or predicted; by default it gives an empty line."),
    ] = "continue",
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

    Outputs are written in order, some lines at a time, and flushed. Pictures are written as one grid (.png), a row per input;
    without INPUT a row per class.
    """
    if force and out is None:
        raise SaccadeError("--force: expected --out FILE too, found none")
    if column and (len(inputs or ()) != 1 or as_json):
        found = "--json, which prints inputs without their rows" if as_json else f"{len(inputs or ())} of them"
        raise SaccadeError(f"--column: expected one table as INPUT, found {found}")
    bundle = options.load(run)
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


def _write_table(
    table: PredictedTable, predictor: Callable[[list[Any]], list[Any]], outputs: Outputs, *, stop: bool
) -> None:
    """Write the rows of a table with their predictions, in order and as they are made; ``stop`` after rows with a fault."""
    header = [] if outputs.done else table.header()
    for _, chunk in outputs.left(table.chunks()):
        before = table.faults
        outputs.write([*header, *table.lines(chunk, predictor)], chunk, faults=table.faults - before)
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
            bundle.task.read(parsed[number], where, bundle.network)
        except InputError as error:
            parsed.pop(number, None)
            answers[number] = error
    predicted = dict(zip(parsed, _predicted(predictor, list(parsed.values())), strict=True))
    for number, answer in predicted.items():
        inner = isinstance(answer, InputError) and str(answer.where).startswith("input ")
        answers[number] = answer.at(f"{called} {before + number + 1}") if inner else answer
    reasons = {_reason(answer) for answer in predicted.values()}
    if not before and len(reasons) == 1 and None not in reasons:  # all fail alike: it is an option, not an input
        raise answers[min(predicted)]
    return [(text, answers[number]) for number, text in enumerate(texts)]


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
