"""Shows the progress of training: a bar with loss and metric in a terminal or a notebook, a line per validation elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from saccade.trace.maps import in_notebook

OFTEN = 0.2  # seconds between two updates of a notebook's line
WIDTH = 30  # of its bar, in characters


class Report(Protocol):
    """Receives the progress of a run."""

    def begin(self, total: int, done: int, epochs: int) -> None: ...
    def update(self, done: int, epoch: int, loss: float) -> None: ...
    def evaluated(self, epoch: int, update: int, line: str, figure: str) -> None: ...
    def say(self, text: str) -> None: ...
    def testing(self, done: int, total: int) -> None: ...
    def end(self) -> None: ...


class Silence:
    """Ignores the progress."""

    def begin(self, total: int, done: int, epochs: int) -> None: ...
    def update(self, done: int, epoch: int, loss: float) -> None: ...
    def evaluated(self, epoch: int, update: int, line: str, figure: str) -> None: ...
    def say(self, text: str) -> None: ...
    def testing(self, done: int, total: int) -> None: ...
    def end(self) -> None: ...


class Terminal:
    """A bar where the console is a terminal; plain lines where it is a file or a pipe. ``name`` before the bar tells several
    runs apart."""

    def __init__(self, console: Console, name: str = "") -> None:
        self.console, self.name = console, name
        self.epochs = 0
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._figure = ""

    def begin(self, total: int, done: int, epochs: int) -> None:
        self.epochs = epochs
        if self.console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=None),
                TextColumn("loss {task.fields[loss]}  {task.fields[figure]}"),
                TimeElapsedColumn(),
                TextColumn("eta"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self.console, expand=True)
            self._bar.start()
            self._task = self._bar.add_task(
                f"{self.name} epoch 1".strip(), total=total, completed=done, loss="…", figure=""
            )

    def update(self, done: int, epoch: int, loss: float) -> None:
        if self._bar is not None:
            text = f"{self.name} epoch {epoch + 1}/{self.epochs}".strip()
            self._bar.update(self._task, completed=done, description=text, loss=f"{loss:.4f}", figure=self._figure)

    def evaluated(self, epoch: int, update: int, line: str, figure: str) -> None:
        self._figure = figure
        self.console.print(
            f"epoch {epoch + 1:>3}/{self.epochs}, update {update:,}: {line}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)  # a label may look like markup

    def testing(self, done: int, total: int) -> None:
        """``done`` of the held-out records are predicted, which may take long."""
        if not done:
            self.say(f"testing on {total:,} held-out records")
        if self.console.is_terminal and not done:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=None),
                TextColumn("{task.completed}/{task.total}"),
            )
            self._bar = Progress(*columns, TimeElapsedColumn(), console=self.console, expand=True, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(f"{self.name} test".strip(), total=total)
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        if done == total:
            self.end()

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self.end()


class Notebook(Silence):
    """A bar that is updated in place in a notebook's output, with a line per validation below it."""

    def __init__(self, name: str = "") -> None:
        self.name, self.epochs, self.total = name, 0, 0
        self._figure, self._text, self._began, self._shown = "", "", 0.0, 0.0
        self._first, self._passing = 0, False  # what was done before; the bar goes at its end
        self._handle: Any = None

    def begin(self, total: int, done: int, epochs: int) -> None:
        self.epochs, self._figure = epochs, ""
        self._open("epoch 1", total, done)

    def update(self, done: int, epoch: int, loss: float) -> None:
        self._draw(f"epoch {epoch + 1}/{self.epochs}", done, f"loss {loss:.4f}  {self._figure}".rstrip())

    def evaluated(self, epoch: int, update: int, line: str, figure: str) -> None:
        self._figure = figure
        print(f"epoch {epoch + 1:>3}/{self.epochs}, update {update:,}: {line}", flush=True)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def testing(self, done: int, total: int) -> None:
        if not done:
            self._open("test", total, 0, passing=True)
        self._draw("test", done)
        if done == total:
            self.end()

    def end(self) -> None:
        if self._handle is not None:
            self._text = "" if self._passing else self._text
            self._show()
        self._handle = None

    def _open(self, stage: str, total: int, done: int, *, passing: bool = False) -> None:
        self.total, self._first, self._began, self._passing = total, done, time.monotonic(), passing
        self._draw(stage, done)
        show = sys.modules["IPython"].display.display
        self._handle = show({"text/plain": self._text}, raw=True, display_id=True)

    def _draw(self, stage: str, done: int, more: str = "") -> None:
        share, spent = done / max(1, self.total), time.monotonic() - self._began
        left = f", {_clock(spent * (self.total - done) / (done - self._first))} left" if done > self._first else ""
        filled = round(WIDTH * share)
        bar = f"{'━' * filled}{'╌' * (WIDTH - filled)} {share:4.0%}"
        self._text = f"{self.name} {stage}  {bar}  {more}  {_clock(spent)}{left}".strip()
        if self._handle is not None and time.monotonic() - self._shown > OFTEN:
            self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        self._handle.update({"text/plain": self._text}, raw=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def progress_report(progress: bool, name: str = "") -> Report:
    """The report of a call in Python: in a notebook's output, else on standard error; none without ``progress``."""
    if not progress:
        return Silence()
    return Notebook(name) if in_notebook() else Terminal(Console(stderr=True), name)
