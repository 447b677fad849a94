"""Writes the log of a run: ``log.csv`` (a row per update), ``evaluations.csv`` (a row per validation), TensorBoard on request.

Numbers are written so that reading them back gives the same bits. A resumed run first drops the rows after its checkpoint.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from saccade.errors import SaccadeError
from saccade.extras import need

UPDATES = ("update", "epoch", "loss", "lr", "norm", "tokens", "seconds")


class Logs:
    """Open logs of one run; ``since`` is the update after which rows are dropped (0: new logs).

    With several ``phases`` each has its own columns: ``loss_NAME``, ``lr_NAME``, ``norm_NAME``, empty in updates in which the
    phase did not run.
    """

    def __init__(self, folder: Path, *, since: int = 0, tensorboard: bool = False, phases: Sequence[str] = ()) -> None:
        self._columns: tuple[str, ...] = UPDATES
        if len(phases) > 1:
            own = (f"{figure}_{name}" for figure in ("loss", "lr", "norm") for name in phases)
            self._columns = ("update", "epoch", *own, "tokens", "seconds")
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._updates = _reopen(folder / "log.csv", since)
            self._evaluations = _reopen(folder / "evaluations.csv", since)
        self._board: Any = _tensorboard(folder, since) if tensorboard else None

    def update(self, row: Mapping[str, float]) -> None:
        with _writing(self._updates.name):
            _write(self._updates, self._columns, row)
        if self._board is not None:
            for name, figure in row.items():
                if name not in ("update", "epoch", "tokens", "seconds"):
                    self._board.add_scalar(f"train/{name}", figure, int(row["update"]))

    def evaluation(self, row: Mapping[str, float]) -> None:
        with _writing(self._evaluations.name):
            _write(self._evaluations, tuple(row), row)
            self._evaluations.flush()
        self.flush()
        if self._board is not None:
            for name, figure in row.items():
                if name not in ("update", "epoch"):
                    self._board.add_scalar(f"valid/{name}", figure, int(row["update"]))

    def flush(self) -> None:
        with _writing(self._updates.name):
            self._updates.flush()

    def close(self) -> None:
        for file in (self._updates, self._evaluations):
            # Rows that matter were flushed with the checkpoint; those after it are written again by a resumed run.
            with suppress(OSError):
                file.close()
        if self._board is not None:
            self._board.close()


@contextmanager
def _writing(place: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SaccadeError(
            f"{place}: could not write the log: {error.strerror or error}; free some space and resume the run"
        ) from error


def _reopen(path: Path, since: int) -> TextIO:
    if since and path.is_file():
        with open(path, newline="", encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
        # A run that was killed may have left half a row; only complete rows up to the checkpoint stay.
        whole = [line for line in lines[1:] if line.endswith("\n") and line.split(",")[0].isdigit()]
        rows = lines[:1] + [line for line in whole if int(line.split(",")[0]) <= since]
        path.write_text("".join(rows), encoding="utf-8", newline="")
        return open(path, "a", newline="", encoding="utf-8")
    return open(path, "w", newline="", encoding="utf-8")


def _write(file: TextIO, columns: tuple[str, ...], row: Mapping[str, float]) -> None:
    writer = csv.writer(file)
    if file.tell() == 0:
        writer.writerow(columns)
    writer.writerow([repr(row[name]) if name in row else "" for name in columns])


def _tensorboard(folder: Path, since: int) -> Any:
    need("tensorboard", extra="tensorboard", for_="train.tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"), purge_step=since or None)
