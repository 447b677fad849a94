"""The record of a run: ``log.csv`` (a row an update), ``evaluations.csv`` (a row an evaluation), TensorBoard if asked for.

Numbers are written so that reading them back gives the same bits. A resumed run first drops the rows after its checkpoint.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from saccade.extras import need

UPDATES = ("update", "epoch", "loss", "lr", "norm", "tokens", "seconds")


class Logs:
    """Open logs of one run; ``since`` is the update after which rows are dropped (0: start afresh)."""

    def __init__(self, folder: Path, *, since: int = 0, tensorboard: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._since = since
        self._updates = _reopen(folder / "log.csv", since)
        self._evaluations_path = folder / "evaluations.csv"
        self._evaluations = _reopen(self._evaluations_path, since)
        self._board: Any = _tensorboard(folder, since) if tensorboard else None

    def update(self, row: Mapping[str, float]) -> None:
        _write(self._updates, UPDATES, row)
        if self._board is not None:
            for name in ("loss", "lr", "norm"):
                self._board.add_scalar(f"train/{name}", row[name], int(row["update"]))

    def evaluation(self, row: Mapping[str, float]) -> None:
        _write(self._evaluations, tuple(row), row)
        self._updates.flush()
        self._evaluations.flush()
        if self._board is not None:
            for name, figure in row.items():
                if name not in ("update", "epoch"):
                    self._board.add_scalar(f"valid/{name}", figure, int(row["update"]))

    def flush(self) -> None:
        self._updates.flush()

    def close(self) -> None:
        self._updates.close()
        self._evaluations.close()
        if self._board is not None:
            self._board.close()


def _reopen(path: Path, since: int) -> TextIO:
    if since and path.is_file():
        with open(path, newline="", encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
        # A run that was killed may have left half a row; only whole rows up to the checkpoint stay.
        whole = [line for line in lines[1:] if line.endswith("\n") and line.split(",")[0].isdigit()]
        kept = lines[:1] + [line for line in whole if int(line.split(",")[0]) <= since]
        path.write_text("".join(kept), encoding="utf-8", newline="")
        return open(path, "a", newline="", encoding="utf-8")
    return open(path, "w", newline="", encoding="utf-8")


def _write(file: TextIO, columns: tuple[str, ...], row: Mapping[str, float]) -> None:
    writer = csv.writer(file)
    if file.tell() == 0:
        writer.writerow(columns)
    writer.writerow([repr(row[name]) for name in columns])


def _tensorboard(folder: Path, since: int) -> Any:
    need("tensorboard", extra="tensorboard", for_="train.tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"), purge_step=since or None)
