"""One pass over a file of pairs that counts what it holds: lengths, words, characters, repeats, faults, and what test sets
share with it. In bounded memory: texts are counted and forgotten, repeats are told by 64-bit hashes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from saccade.data.cleaning import REPEATED_RULES, plain, tidy
from saccade.data.pairs import Columns, Fault, Files, Found, Pair, scan
from saccade.data.tallies import Lengths, Sample, Side
from saccade.errors import InputError

Progress = Callable[[str, int, int | None], None]  # what is going on, how many lines, of how many where that is known

CHUNK, CHUNK_SIZE = 2000, 1 << 22  # pairs that are counted together, unless they have more characters than this
SAMPLED, SAMPLED_LENGTH = 2000, 1000  # pairs whose language is guessed, each by its first characters


@dataclass(frozen=True)
class Reading:
    """How a file is read: what scan is given, and whether blanks are tidied first."""

    files: Files
    columns: Columns = field(default_factory=Columns)
    format: str | None = None
    tidy: bool = False

    def __iter__(self) -> Iterator[Found | Fault]:
        stream = scan(self.files, columns=self.columns, format=self.format)
        return map(_tidied, stream) if self.tidy else stream

    @property
    def paths(self) -> list[Path]:
        return [Path(path) for path in (self.files if isinstance(self.files, tuple) else (self.files,))]


def _tidied(item: Found | Fault) -> Found | Fault:
    if isinstance(item, Fault):
        return item
    return Found(item.line, Pair(tidy(item.pair.source), tidy(item.pair.target)), item.group)


@dataclass
class FaultTally:
    """Lines that are no pair, for one reason; the first of them. `skipped`: the file says so itself."""

    reason: str
    line: int
    example: str
    skipped: bool
    count: int = 0


class HeldOut:
    """A test set: which of its sources are met in the training pairs, exactly or in plain form."""

    def __init__(self, name: str, reading: Reading) -> None:
        self.name, self.read, self.faults = name, 0, 0
        # A text file of sources is read beside itself, and has no pairs to compare.
        self.sources_only = isinstance(reading.files, tuple) and reading.files[0] == reading.files[1]
        self.sources: dict[int, int] = {}  # how many test pairs have the source with this hash
        self.plain: dict[int, int] = {}
        self.pairs: dict[int, int] = {}
        self.met_sources, self.met_plain, self.met_pairs = set[int](), set[int](), set[int]()
        self.line: int | None = None
        self.example = ""
        for item in reading:
            if isinstance(item, Fault):
                self.faults += 1
                continue
            self.read += 1
            source, target = item.pair.source, item.pair.target
            keys = (self.sources, source), (self.plain, plain(source)), (self.pairs, (source, target))
            for known, key in keys:
                known[hash(key)] = known.get(hash(key), 0) + 1

    def meet(self, line: int, source: str, target: str) -> None:
        """Compare a training pair with the test set."""
        key = hash(plain(source))
        if key not in self.plain:
            return
        self.met_plain.add(key)
        if hash(source) in self.sources:
            if not self.met_sources:
                self.line, self.example = line, source
            self.met_sources.add(hash(source))
            if hash((source, target)) in self.pairs:
                self.met_pairs.add(hash((source, target)))

    @property
    def exact(self) -> int:
        """How many test pairs have a source that was met exactly."""
        return sum(self.sources[key] for key in self.met_sources)

    @property
    def near(self) -> int:
        """How many have one that was met but for case, blanks and marks; exact ones are among them."""
        return sum(self.plain[key] for key in self.met_plain)

    @property
    def whole(self) -> int | None:
        """How many were met as whole pairs; None where only the sources are known."""
        return None if self.sources_only else sum(self.pairs[key] for key in self.met_pairs)


class Census:
    """What is counted."""

    def __init__(self) -> None:
        self.source, self.target = Side(), Side()
        self.longer_characters, self.longer_words = Lengths(), array("I")  # of each pair's longer side
        self.keys = {rule.name: array("q") for rule in REPEATED_RULES}  # hashes
        self.sample: Sample[Pair] = Sample(SAMPLED)
        self.pairs = self.fault_count = self.grouped = 0
        self.faults: dict[str, FaultTally] = {}
        self.broken: InputError | None = None

    @property
    def read(self) -> int:
        return self.pairs + self.fault_count

    def count(self, reading: Reading, held_out: Sequence[HeldOut], progress: Progress) -> None:
        """Read the whole file. Where it breaks off, what came before is counted and `broken` says why."""
        chunk: list[Found] = []
        size = 0
        try:
            for item in reading:
                if isinstance(item, Fault):
                    self._fault(item)
                    continue
                chunk.append(item)
                size += len(item.pair.source) + len(item.pair.target)
                if len(chunk) == CHUNK or size > CHUNK_SIZE:
                    self._add(chunk, held_out)
                    chunk, size = [], 0
                    progress("reading", self.read, None)
        except InputError as error:
            if not (chunk or self.read):
                raise
            self.broken = error
        self._add(chunk, held_out)

    def _fault(self, fault: Fault) -> None:
        tally = self.faults.get(fault.reason)
        if tally is None:
            tally = FaultTally(fault.reason, fault.line, str(fault.error), fault.skipped)
            self.faults[fault.reason] = tally
        tally.count += 1
        self.fault_count += 1

    def _add(self, chunk: Sequence[Found], held_out: Sequence[HeldOut]) -> None:
        pairs = [item.pair for item in chunk]
        self.grouped += sum(item.group is not None for item in chunk)
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        self.longer_words.extend(map(max, self.source.add(sources), self.target.add(targets)))
        self.longer_characters.add(map(max, map(len, sources), map(len, targets)))
        for rule in REPEATED_RULES:
            self.keys[rule.name].extend(map(hash, map(rule.key, sources, targets)))
        self.sample.add([Pair(pair.source[:SAMPLED_LENGTH], pair.target[:SAMPLED_LENGTH]) for pair in pairs])
        self.pairs += len(pairs)
        for held in held_out:
            for item in chunk:
                held.meet(item.line, item.pair.source, item.pair.target)
