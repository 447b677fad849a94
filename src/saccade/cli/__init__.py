"""The command line: parses arguments, calls the API and prints.

A command's module is imported when the command is run or its help is shown; torch is imported inside commands.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from saccade.api.runs import terminating
from saccade.cli.printing import print
from saccade.cli.search_options import GroupedHelp
from saccade.errors import DataWarning, Interrupted, SaccadeError
from saccade.plugins import blame

__all__ = ["app", "main"]

# Command name → "module:function", in the order of --help. A module may define COMMAND_CLASS, the class of its command.
COMMANDS = {
    "train": "saccade.cli.train:train",
    "predict": "saccade.cli.predict:predict",
    "view": "saccade.cli.view:view",
    "evaluate": "saccade.cli.evaluate:evaluate",
    "compare": "saccade.cli.compare:compare",
    "calibrate": "saccade.cli.calibrate:calibrate",
    "words": "saccade.cli.words:words",
    "align": "saccade.cli.align:align",
    "data": "saccade.cli.data:data",
    "runs": "saccade.cli.runs:runs",
    "recipes": "saccade.cli.recipes:recipes",
    "export": "saccade.cli.import_export:export",
    "vectors": "saccade.cli.vectors:vectors",
    "import": "saccade.cli.import_export:import_model",
}


class LazyCommands(TyperGroup):
    """The commands of the table ``COMMANDS``, each imported when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # the names, for "did you mean"

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        home = importlib.import_module(module)
        single.command(cmd_name, cls=getattr(home, "COMMAND_CLASS", GroupedHelp))(getattr(home, function))
        return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyCommands,
    name="saccade",
    help="Train, see and ship neural networks that pay attention.",
    epilog="Start here: saccade train rnnsearch_dates · saccade recipes · saccade COMMAND --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        from saccade import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line. Errors meant for users are one line on stderr and exit status 1; Ctrl-C and SIGTERM are 130."""
    warnings.simplefilter("ignore", DataWarning)  # commands print the notes themselves
    try:
        with terminating():
            try:
                app()
            finally:
                sys.stdout.flush()
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
    except OSError as error:
        # A full disk, most often; with no file name it was standard output.
        print(f"error: {error.filename or 'stdout'}: {error.strerror or error}", file=sys.stderr)
        _discard_stdout()
        sys.exit(1)
    except Exception as error:
        message = blame(error)
        if message is None:
            raise
        print(f"error: {message}", file=sys.stderr)  # the user's own plugin failed: its file and line
        sys.exit(1)
    except SystemExit:
        raise
    except BaseException as error:  # a panic of a tokenizer, which is written in Rust
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)


def _discard_stdout() -> None:
    """Discard output that could not be written: Python would try again at exit and print a traceback."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
