"""Shows the progress of training: a bar with loss and metric in a terminal, a line per validation elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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


class Notes(Silence):
    """Prints nothing, and collects the messages that begin with one of ``prefixes``, for JSON output."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self.prefixes = prefixes
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        if text.startswith(self.prefixes):
            self.notes.append(text)


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
