"""The file of the pairs that were kept, and the log of every line that was left out.

Both are written beside their names as the pairs come and take their places at the end: whole, or not at all.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from saccade.data.pairs import Fault, Found
from saccade.errors import SaccadeError

CUT = 200  # characters of a text in the log
PACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    # No name and no time in the file: the same pairs give the same bytes.
    ".gz": lambda file: gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0),
    ".xz": lambda file: lzma.LZMAFile(file, mode="wb"),  # noqa: SIM115 (closed by its owner)
}
FORMATS = ("tsv", "csv", "jsonl")


def written_format(path: Path) -> str:
    """The format that a name asks for."""
    name = path.with_suffix("") if path.suffix.lower() in PACKERS else path
    suffix = name.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise SaccadeError(
            f"{path}: expected a name that ends in .tsv, .csv or .jsonl (also .gz, .xz), found {path.name!r}"
        )
    return suffix


class Cleaned:
    """Takes pairs and what was left out; on a clean exit both files stand in their places.

    `grouped` adds the pairs' groups as a third column. `reads` are the files that are being read: neither file may be one
    of them. Files that exist are only replaced with `force`.
    """

    def __init__(
        self,
        out: Path,
        log: Path | None = None,
        *,
        grouped: bool = False,
        reads: Sequence[Path] = (),
        force: bool = False,
    ) -> None:
        self.out, self.log = out, log or out.with_name(f"{out.name}.log.jsonl")
        self.format = written_format(out)
        self.names = ("source", "target", "group") if grouped else ("source", "target")
        self.written = self.left_out = 0
        if self.out.resolve() == self.log.resolve():
            raise SaccadeError(f"{out}: expected another file for the log, found the same name")
        for path in (self.out, self.log):
            if any(path.resolve() == read.resolve() or _same(path, read) for read in reads):
                raise SaccadeError(f"{path}: expected a new file, found the one that is read; choose another name")
            if path.is_dir():
                raise SaccadeError(f"{path}: expected the name of a file to write, found a folder")
            if path.exists() and not force:
                raise SaccadeError(f"{path}: expected a new file, found one that exists (--force writes over it)")

    def __enter__(self) -> Cleaned:
        self._pairs = _Partial(self.out)
        try:
            self._left = _Partial(self.log)
        except BaseException:
            self._pairs.discard()
            raise
        self._put = self._putter()
        if self.format != "jsonl":
            self._put(self.names)
        return self

    def _putter(self) -> Callable[[Sequence[str]], object]:
        text = self._pairs.text
        if self.format == "csv":
            # All quoted: the writer leaves a lone carriage return bare, and the reader would end the row at it.
            return csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow
        if self.format == "tsv":
            return lambda values: text.write("\t".join(values) + "\n")
        return lambda values: text.write(
            json.dumps(dict(zip(self.names, values, strict=True)), ensure_ascii=False) + "\n"
        )

    def keep(self, found: Found) -> None:
        """Write a pair."""
        with _told(self.out):
            # A group is a label: blanks within it may be any, so that a table can hold them.
            group = " ".join((found.group or "").split())
            self._put((found.pair.source, found.pair.target, group)[: len(self.names)])
        self.written += 1

    def leave(self, left: Found | Fault, name: str, why: str) -> None:
        """Log a line that is left out, with its texts' first characters."""
        entry: dict[str, object] = {"line": left.line, "rule": name, "reason": why}
        if isinstance(left, Fault):
            entry["text"] = str(left.error)[:CUT]
        else:
            entry |= {"source": left.pair.source[:CUT], "target": left.pair.target[:CUT]}
        with _told(self.log):
            self._left.text.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.left_out += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._left.place()
                self._pairs.place()
        finally:
            self._left.discard()
            self._pairs.discard()


class _Partial:
    """A file under another name until it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The process's number keeps two writers of one file out of each other's way.
        self.partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        with _told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.bytes = open(self.partial, "wb")  # noqa: SIM115 (closed by place or discard)
            packer = PACKERS.get(path.suffix.lower())
            self.packed = self.bytes if packer is None else cast(IO[bytes], packer(self.bytes))
            self.text = io.TextIOWrapper(self.packed, encoding="utf-8", newline="")

    def place(self) -> None:
        with _told(self.path):
            self.text.flush()
            self.text.detach()
            if self.packed is not self.bytes:
                self.packed.close()
            self.bytes.flush()
            os.fsync(self.bytes.fileno())
            self.bytes.close()
            os.replace(self.partial, self.path)

    def discard(self) -> None:
        with suppress(OSError, ValueError):
            self.bytes.close()
        with suppress(OSError):
            self.partial.unlink(missing_ok=True)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)  # under another name: a link
    except OSError:
        return False


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise SaccadeError(f"{path}: could not write it: {reason}; what stood there is unchanged") from error
