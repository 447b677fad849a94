"""The command line: it parses, calls the api, and prints. Heavy imports happen inside the commands, so ``--help`` is quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from saccade.cli.align import align
from saccade.cli.calibrate import calibrate
from saccade.cli.compare import compare
from saccade.cli.data.command import DataCommand, data
from saccade.cli.evaluate import evaluate
from saccade.cli.import_export import export, import_model
from saccade.cli.predict import predict
from saccade.cli.recipes import recipes
from saccade.cli.runs import runs
from saccade.cli.search_options import Grouped
from saccade.cli.train import train
from saccade.cli.vectors import vectors
from saccade.cli.view import view
from saccade.cli.words import words
from saccade.errors import Interrupted, SaccadeError
from saccade.plugins import blame

__all__ = ["app", "main"]

app = typer.Typer(
    name="saccade",
    help="Train, see and ship neural networks that pay attention.",
    epilog="Start here: saccade train rnnsearch_dates · saccade recipes · saccade COMMAND --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

for command in (train, predict, view, evaluate, compare, calibrate, words, align, data, runs, recipes, export, vectors):
    app.command(cls=DataCommand if command is data else Grouped)(command)
app.command("import", cls=Grouped)(import_model)  # a word of Python's own


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        from saccade import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """The command's entry: an error meant for a person is one line on stderr and exit status 1; Ctrl-C is 130."""
    try:
        app()
    except SaccadeError as error:
        interrupted = isinstance(error, Interrupted)
        print(str(error) if interrupted else f"error: {error}", file=sys.stderr)
        sys.exit(130 if interrupted else 1)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:
        told = blame(error)
        if told is None:
            raise
        print(f"error: {told}", file=sys.stderr)  # a user's own part failed: its file and line
        sys.exit(1)
