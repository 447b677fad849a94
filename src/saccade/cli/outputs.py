"""Writes the outputs of a long command in order, chunk by chunk, and continues a file that an earlier one began. No torch.

``FILE.state`` beside ``--out FILE`` holds the number of inputs that are done, the size of their outputs in bytes, and checksums
of these inputs, the run and the options; it is removed at the end. It is written after each chunk, so a killed process may
leave more outputs than it counts: these are cut off and written again.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any

from saccade.cli.printing import printable
from saccade.errors import InputError, SaccadeError
from saccade.storage import locked, read_json, write_json

EVERY = 1.0  # seconds between two reports of progress on a terminal


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
        lock = self.out.with_name(f".{self.out.name}.lock")
        self._open.enter_context(locked(lock, where=self.out, expected="a file that no other process is writing"))
        self._open.callback(lock.unlink, missing_ok=True)
        if self._state.exists() and not self.force:
            self._continue(self._state)
        elif self.out.exists() and not self.force:
            hint = "it is complete, or was written by another command; add --force to overwrite it"
            raise InputError(self.out, field="--out", expected="a new file", found="an existing one", hint=hint)
        try:
            self._file = self._open.enter_context(open(self.out, "r+b" if self.done else "wb", buffering=0))
        except OSError as error:
            raise InputError(self.out, field="--out", expected="a file to write", found=str(error.strerror)) from None
        self._file.truncate(self.size)
        self._file.seek(self.size)
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.end()
        self._open.close()

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
            print(f"\r{line:<{self.width}}", end="", file=sys.stderr, flush=True)

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
