"""What is in a file of pairs, and would it train: in two passes and bounded memory.

The first pass counts (census). From that the scripts and languages of the two sides are known, and so the rules of
cleaning; the second pass asks every pair by these rules, and writes what is kept where that is wanted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from saccade.data.files.records import GROWING
from saccade.data.pairs.records import Columns, Fault, Files, Found, Pair, scan, without_header
from saccade.data.survey.cleaning import (
    REPEATED_RULES,
    TEXT_RULES,
    Cleaned,
    Rule,
    RuleTally,
    Sieve,
    check_names,
    leaked,
    plain,
    swapped_languages,
    swapped_scripts,
    switched,
    tidy,
    unexpected_script,
    writable,
)
from saccade.data.survey.columns import Column
from saccade.data.survey.language_id import (
    Guess,
    guess,
    letters_of,
    line_shares,
    main_scripts,
    script_shares,
    short_words,
    usual_scripts,
)
from saccade.data.survey.recipe import Advice
from saccade.data.survey.tallies import Lengths, Repeats, Sample, Side, with_several
from saccade.errors import InputError

EVERY = 5000  # lines between two reports of progress


@dataclass(frozen=True)
class Tongue:
    """What a side is written in: shares of scripts among its letters, its language, and those of its lines."""

    scripts: Mapping[str, float]
    language: Guess
    lines: Mapping[str, float]  # shares of the sampled lines that a guess was sure of


@dataclass(frozen=True)
class Left:
    """What cleaning leaves."""

    pairs: int
    sources: int  # different ones
    characters: Lengths  # of the longer side
    words: Lengths


@dataclass(frozen=True)
class Survey:
    """What a file holds, what cleaning would leave out of it, and what test sets share with it."""

    reading: Reading
    census: Census
    source: Tongue
    target: Tongue
    several_targets: int  # sources with more than one target
    several_sources: int  # targets with more than one source
    rules: Sequence[RuleTally]
    left: Left
    held_out: Sequence[HeldOut]
    headless: bool  # a table without a header: its first line was read as a pair
    cleaned: Cleaned | None = None


def survey(
    reading: Reading,
    *,
    held_out: Mapping[str, Reading] | None = None,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    cleaned: Cleaned | None = None,
    progress: Progress = lambda doing, done, total: None,
) -> Survey:
    """Count what a file holds and what cleaning would leave out; `cleaned` is where the rest is written, if anywhere.

    `held_out` names the test sets to compare with; `keep` and `drop` turn rules off and on by name.
    """
    check_names(keep, drop, with_test=bool(held_out))
    tests = [HeldOut(name, test) for name, test in (held_out or {}).items()]
    census = Census()
    census.count(reading, tests, progress)
    if not census.read:
        raise InputError(reading.paths[0], expected="at least one pair", found="an empty file")
    sample = census.sample.items
    source = _tongue(census.source.characters.counts, [pair.source for pair in sample])
    target = _tongue(census.target.characters.counts, [pair.target for pair in sample])
    rules = [switched(rule, keep, drop) for rule in _rules(census, source, target, tests)]
    if cleaned is not None and cleaned.format == "tsv":
        rules.append(writable("a TSV"))
    sources, targets = census.keys["same_source"], census.keys["same_target"]
    repeated = [(switched(rule, keep, drop), Repeats(census.keys[rule.name])) for rule in REPEATED_RULES]
    sieve = Sieve(rules, repeated)
    left = _sift(reading, census, sieve, cleaned, progress)
    several = with_several(sources, targets), with_several(targets, sources)
    files, columns = reading.files, reading.columns
    headless = not isinstance(files, tuple) and without_header(files, columns.source, reading.format)
    return Survey(reading, census, source, target, *several, sieve.tallies, left, tests, headless, cleaned)


def _tongue(characters: Mapping[str, int], texts: Sequence[str]) -> Tongue:
    return Tongue(script_shares(characters), guess(texts), line_shares(texts))


def _rules(census: Census, source: Tongue, target: Tongue, tests: Sequence[HeldOut]) -> list[Rule]:
    """The rules of cleaning, with those that are made for this corpus."""
    rules = [*TEXT_RULES]
    characters = census.source.characters.counts, census.target.characters.counts
    main = main_scripts(source.scripts), main_scripts(target.scripts)
    codes = source.language.language or "", target.language.language or ""
    if main[0] and main[1] and not main[0] & main[1]:
        rules.append(swapped_scripts(letters_of(main[0], characters[0]), letters_of(main[1], characters[1])))
    elif codes[0] != codes[1] and short_words(codes[0]) and short_words(codes[1]):
        rules.append(swapped_languages(*codes))
    usual = usual_scripts(source.scripts), usual_scripts(target.scripts)
    rules.append(unexpected_script(letters_of(usual[0], characters[0]), letters_of(usual[1], characters[1])))
    if tests:
        rules.append(leaked(frozenset(chain.from_iterable(test.plain for test in tests))))
    return rules


def _sift(reading: Reading, census: Census, sieve: Sieve, cleaned: Cleaned | None, progress: Progress) -> Left:
    """The second pass, as far as the first came; a file that is no longer what it was is refused."""
    characters, words = Lengths(), Lengths()
    keys, longer = census.keys["duplicate"], census.longer_words
    row = line = seen = 0
    for seen, item in enumerate(islice(reading, census.read), start=1):
        line = item.line
        if seen % EVERY == 0:
            progress("checking", seen, census.read)
        if isinstance(item, Fault):
            if cleaned is not None:
                cleaned.leave(item, "fault", item.reason)
            continue
        if row == len(keys) and seen == census.read:  # the last line was a fault while it was still being written
            if cleaned is not None:
                cleaned.leave(item, "fault", GROWING)
            continue
        source, target = item.pair.source, item.pair.target
        if row == len(keys) or hash((source, target)) != keys[row]:
            raise _changed(reading, line)
        rule = sieve.reason(row, line, source, target)
        if rule is None:
            characters.counts[max(len(source), len(target))] += 1
            words.counts[longer[row]] += 1
            if cleaned is not None:
                cleaned.keep(item)
        elif cleaned is not None:
            cleaned.leave(item, rule.name, rule.why)
        row += 1
    if seen < census.read or row < len(keys):
        raise _changed(reading, line)
    left = sum(characters.counts.values())
    kept_sources = next(repeats for repeats, tally in sieve.repeats if tally.rule.name == "same_source")
    return Left(left, kept_sources.different_kept, characters, words)


def _changed(reading: Reading, line: int) -> InputError:
    expected = "a file that stays as it is while it is read"
    return InputError(reading.paths[0], line=line, expected=expected, found="other lines than a moment before")


# ----------------------------------------------------------------------------------------------------
# One pass over a file of pairs that counts what it holds: lengths, words, characters, repeats, faults, and what test sets
# share with it. In bounded memory: texts are counted and forgotten, repeats are told by 64-bit hashes.

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


# ----------------------------------------------------------------------------------------------------
# A survey as plain data, for programs: the keys stay as they are, new ones may come.

CUT = 200  # characters of an example


def summary(survey: Survey, advice: Advice, recipe: str | None, following: Sequence[str]) -> dict[str, Any]:
    """All that a survey found; `recipe` is the one to paste, `following` are commands to type next."""
    census, reading, cleaned = survey.census, survey.reading, survey.cleaned
    columns = None if isinstance(reading.files, tuple) else asdict(reading.columns)
    return {
        "files": [str(path) for path in (reading.files if isinstance(reading.files, tuple) else (reading.files,))],
        "format": reading.format,
        "columns": columns,
        "headless": survey.headless,
        "tidied": reading.tidy,
        "read": census.read,
        "pairs": census.pairs,
        "faults": [asdict(tally) for tally in census.faults.values()],
        "broken": None if census.broken is None else str(census.broken),
        "source": _side(census.source, survey.source),
        "target": _side(census.target, survey.target),
        "repeats": {
            "pairs": next(tally.found for tally in survey.rules if tally.rule.name == "duplicate"),
            "sources_with_several_targets": survey.several_targets,
            "targets_with_several_sources": survey.several_sources,
        },
        "rules": [_rule(tally) for tally in survey.rules],
        "left": {"pairs": survey.left.pairs, "sources": survey.left.sources},
        "leakage": [_leakage(held) for held in survey.held_out],
        "advice": {
            "characters": asdict(advice.characters),
            "words": asdict(advice.words),
            "tokens": asdict(advice.cut),
        },
        "verdict": {
            "would_train": advice.would_train,
            "because": list(advice.because),
            "notes": list(advice.notes),
        },
        "recipe": recipe,
        "next": list(following),
        "cleaned": None
        if cleaned is None
        else {
            "out": str(cleaned.out),
            "log": str(cleaned.log),
            "pairs": cleaned.written,
            "left_out": cleaned.left_out,
        },
    }


def without_columns(files: Sequence[str], error: str, columns: Sequence[Column], following: str) -> dict[str, Any]:
    """What can be said of a file whose pair of columns is not known."""
    return {
        "files": list(files),
        "columns": None,
        "available": [{"column": column.name, "sample": (column.sample or "")[:CUT] or None} for column in columns],
        "verdict": {"would_train": False, "because": [error], "notes": []},
        "next": [following],
    }


def _side(side: Side, tongue: Tongue) -> dict[str, Any]:
    vocabulary = side.vocabulary
    cover_95, cover_99 = vocabulary.covering(0.95, 0.99)
    return {
        "language": tongue.language.language,
        "candidates": list(tongue.language.near),
        "line_languages": {code: round(share, 4) for code, share in tongue.lines.items()},
        "scripts": {script: round(share, 6) for script, share in tongue.scripts.items()},
        "characters": {**_lengths(side.character_lengths), "different": len(side.characters.counts)},
        "words": {
            **_lengths(side.word_lengths),
            "running": vocabulary.running,
            "different": len(vocabulary.counts),
            "once": vocabulary.once,
            "cover_95": cover_95,
            "cover_99": cover_99,
            "capped": vocabulary.full,
        },
    }


def _lengths(lengths: Lengths) -> dict[str, Any]:
    return {
        "mean": round(lengths.mean, 2),
        "median": lengths.within(0.5),
        "p95": lengths.within(0.95),
        "p99": lengths.within(0.99),
        "longest": lengths.longest,
    }


def _rule(tally: RuleTally) -> dict[str, Any]:
    example = {"line": tally.line, "source": tally.source, "target": tally.target} if tally.found else None
    rule = tally.rule
    return {
        "name": rule.name,
        "why": rule.why,
        "on": rule.on,
        "found": tally.found,
        "left_out": tally.left_out,
        "example": example,
    }


def _leakage(held: HeldOut) -> dict[str, Any]:
    return {
        "name": held.name,
        "pairs": held.read,
        "faults": held.faults,
        "exact_sources": held.exact,
        "plain_sources": held.near,
        "whole_pairs": held.whole,
        "example": None if held.line is None else {"line": held.line, "source": held.example[:CUT]},
    }
