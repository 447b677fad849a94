"""What is in a file of pairs, and would it train: in two passes and bounded memory.

The first pass counts (census). From that the scripts and languages of the two sides are known, and so the rules of
cleaning; the second pass asks every pair by these rules, and writes what is kept where that is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from saccade.data.census import Census, HeldOut, Progress, Reading
from saccade.data.cleaned import Cleaned
from saccade.data.cleaning import (
    REPEATED_RULES,
    TEXT_RULES,
    Rule,
    check_names,
    leaked,
    swapped_languages,
    swapped_scripts,
    switched,
    unexpected_script,
    writable,
)
from saccade.data.files.records import GROWING
from saccade.data.languages import Guess, guess, line_shares, short_words
from saccade.data.pairs import Fault, without_header
from saccade.data.scripts import letters_of, main_scripts, script_shares, usual_scripts
from saccade.data.sieve import RuleTally, Sieve
from saccade.data.tallies import Lengths, Repeats, with_several
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
