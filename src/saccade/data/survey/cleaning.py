"""Rules by which pairs are left out of a corpus, each a value with a name: what it looks for, and why that is bad.

A rule is asked about a pair alone. Rules that need to know the whole corpus (its scripts, its languages, its test set)
are made for it; those about repeats compare a key of the pair with those that came before. They are meant to be right
when they speak, so a text that is merely odd is counted and kept: `on` says which rules leave out by themselves.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar, cast

from saccade.data.pairs.records import Fault, Found
from saccade.data.survey.language_id import short_words, words_of
from saccade.data.survey.tallies import Repeats
from saccade.errors import SaccadeError

RATIO, RATIO_FROM = 9, 20  # one side more than 9 times as long as the other, and at least 20 characters
NAME_WORDS, NAME_LENGTH = 3, 30  # "Tom", "New York", "Visual Studio Code": so many words may stand untranslated

LETTER = re.compile(r"[^\W\d_]")
LETTER_OR_DIGIT = re.compile(r"[^\W_]")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")  # tabs, line ends and NEL are blanks
BREAKS = re.compile(r"[\t\n\r]")
TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?/?>")
MARKUP = re.compile(TAG.pattern + r"|(?:https?|ftp)://\S+|www\.\S+|\S+@\S+\.\S+")
# UTF-8 read as Latin-1 or Windows-1252: "Ã©" was é, "â€™" was ’, "Ð¿Ñ€" was пр. A word in capitals may well end in
# Ã before » or a no-break space, so those two need a small letter in front.
HIGH = "\x80-\x9f¡-º¼-¿€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
GARBLED = re.compile(
    f"(?=[\ufffdÃÂâÐÑï])(?:\ufffd|[ÃÂ][{HIGH}]|(?<=[a-z])[ÃÂ][\xa0»]|â€|(?:[ÐÑ][{HIGH}\xa0»]){{2}}|ï¿½|ï»¿)"
)
PUNCTUATION = r"!-/:-@\[-`{-~¡«·»¿\u2010-\u205e\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\u060c\u061b\u061f\u0964"
MARKS = re.compile(rf"(?<!\d)[{PUNCTUATION}]|[{PUNCTUATION}](?!\d)")  # a mark between digits is part of a number


@dataclass(frozen=True)
class Rule:
    """`test(source, target)` is True for a pair that the rule speaks of; `on`: it is left out unless kept by name."""

    name: str
    why: str
    test: Callable[[str, str], bool]
    on: bool = True


@dataclass(frozen=True)
class Repeated:
    """A rule about what came before: pairs with an equal key are repeats, and the first of them stays."""

    name: str
    why: str
    key: Callable[[str, str], object]
    on: bool = True


AnyRule = TypeVar("AnyRule", Rule, Repeated)


def either(pattern: re.Pattern[str]) -> Callable[[str, str], bool]:
    """True when the pattern is found on either side."""
    find = pattern.search
    return lambda source, target: find(source) is not None or find(target) is not None


def _garbled(source: str, target: str) -> bool:
    # Asking whether a text is ASCII costs nothing, and ASCII is never garbled.
    return any(not text.isascii() and GARBLED.search(text) is not None for text in (source, target))


def _blanks(source: str, target: str) -> bool:
    return any(text != text.strip() or "  " in text or "\t" in text for text in (source, target))


def _no_letters(source: str, target: str) -> bool:
    return LETTER_OR_DIGIT.search(source) is None or LETTER_OR_DIGIT.search(target) is None


def _markup_only(source: str, target: str) -> bool:
    return _only_markup(source) or _only_markup(target)


def _only_markup(text: str) -> bool:
    hinted = "<" in text or "://" in text or "www." in text or "@" in text
    return hinted and LETTER_OR_DIGIT.search(MARKUP.sub("", text)) is None and LETTER_OR_DIGIT.search(text) is not None


def _copied(source: str, target: str) -> bool:
    return source.strip() == target.strip() and not _may_be_name(source)


def _may_be_name(text: str) -> bool:
    return len(text) <= NAME_LENGTH and len(words_of(text)) <= NAME_WORDS


def _ratio(source: str, target: str) -> bool:
    one, other = len(source), len(target)
    return (one > RATIO * other and one >= RATIO_FROM) or (other > RATIO * one and other >= RATIO_FROM)


TEXT_RULES = (
    Rule("control", "control characters", either(CONTROL)),
    Rule("garbled", "characters that were decoded wrongly, such as Ã© or �", _garbled),
    Rule("no_letters", "a side without any letter or digit", _no_letters),
    Rule("markup", "a side of nothing but tags or web addresses", _markup_only),
    Rule("copied", f"the target is the source, and more than a name of {NAME_WORDS} words", _copied),
    Rule("ratio", f"one side more than {RATIO} times as long as the other, from {RATIO_FROM} characters on", _ratio),
    Rule("tags", "HTML tags inside a text", either(TAG), on=False),
    Rule("blanks", "blanks at an end, or several in a row (--tidy mends them)", _blanks, on=False),
)
REPEATED_RULES = (
    Repeated("duplicate", "the same pair came before", lambda source, target: (source, target)),
    Repeated("same_source", "the same source came before", lambda source, target: source, on=False),
    Repeated("same_target", "the same target came before", lambda source, target: target, on=False),
)
CORPUS_RULES = {  # made for a corpus by the functions below
    "swapped": "the two sides are the wrong way round",
    "script": "a side in none of the scripts it is usually in",
    "leaked": "the source is in a test set too, but for case, blanks and marks",
}
NAMES = (*(rule.name for rule in TEXT_RULES), *CORPUS_RULES, *(rule.name for rule in REPEATED_RULES))


def unexpected_script(source: re.Pattern[str], target: re.Pattern[str]) -> Rule:
    """The patterns match one letter of the scripts each side is usually in. A few Latin words are taken for a name."""

    def stray(text: str, usual: re.Pattern[str]) -> bool:
        if usual.search(text) is not None or LETTER.search(text) is None:
            return False
        return not (text.isascii() and _may_be_name(text))

    return Rule("script", CORPUS_RULES["script"], lambda one, other: stray(one, source) or stray(other, target))


def swapped_scripts(source: re.Pattern[str], target: re.Pattern[str]) -> Rule:
    """For sides mostly in different scripts: each side has letters of the other's script and none of its own."""

    def test(one: str, other: str) -> bool:
        if source.search(one) is not None or target.search(other) is not None:
            return False
        return target.search(one) is not None and source.search(other) is not None

    return Rule("swapped", CORPUS_RULES["swapped"], test)


def swapped_languages(source: str, target: str) -> Rule:
    """For two languages in one script: each side has two short words that only the other's uses, and none of its own."""
    first, second = short_words(source), short_words(target)
    first, second = first - second, second - first

    def reads_as(text: str, language: Collection[str], other: frozenset[str]) -> bool:
        words = set(text.lower().split())
        return other.isdisjoint(words) and len(words.intersection(language)) >= 2

    return Rule(
        "swapped",
        CORPUS_RULES["swapped"],
        lambda one, other: reads_as(one, second, first) and reads_as(other, first, second),
    )


def leaked(sources: Collection[int]) -> Rule:
    """For a test set, given as the hashes of its sources' plain forms."""
    return Rule("leaked", CORPUS_RULES["leaked"], lambda source, target: hash(plain(source)) in sources)


def plain(text: str) -> str:
    """A text for comparing: one case, single blanks, no marks but those between digits. Of marks alone it is itself.

    >>> plain("Hello,  World!"), plain("12-7 = 5.0")
    ('hello world', '12-7 5.0')
    """
    return " ".join(MARKS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split()) or text


def tidy(text: str) -> str:
    """Single blanks, none at the ends."""
    return " ".join(text.split())


def writable(divider: str) -> Rule:
    """For a file whose fields cannot hold some characters: the pairs that would break it."""
    return Rule("unwritable", f"a tab or a line end, which {divider} cannot hold (.csv and .jsonl can)", either(BREAKS))


def check_names(keep: Sequence[str], drop: Sequence[str], *, with_test: bool) -> None:
    """Refuse the names of rules that there are not, before anything is read."""
    for option, names in (("--keep", keep), ("--drop", drop)):
        for name in names:
            if name not in NAMES:
                close = get_close_matches(name, NAMES, n=1)
                hint = f" (did you mean {close[0]}?)" if close else ""
                raise SaccadeError(f"{option}: expected one of {', '.join(NAMES)}, found {name!r}{hint}")
            if name == "leaked" and not with_test:
                raise SaccadeError(f"{option} leaked: expected a test set to compare with, found none (give --test)")
    both = sorted(set(keep) & set(drop))
    if both:
        raise SaccadeError(f"--keep {both[0]} --drop {both[0]}: expected one of the two, found both")


def switched(rule: AnyRule, keep: Sequence[str], drop: Sequence[str]) -> AnyRule:
    """The rule, turned off or on where it is named."""
    return replace(rule, on=rule.name in drop or (rule.on and rule.name not in keep))


# ----------------------------------------------------------------------------------------------------
# The file of the pairs that were kept, and the log of every line that was left out.
#
# Both are written beside their names as the pairs come and take their places at the end: whole, or not at all.

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


# ----------------------------------------------------------------------------------------------------
# Cleaning at work: each pair is asked about by every rule, counted, and kept or left out for the first that is on.
#
# What is left out is never lost: whoever drives the sieve is told the rule, and the counts add up, kept + left out = read.

KEPT = 200  # characters of an example


@dataclass
class RuleTally:
    """How many pairs a rule speaks of, how many were left out for it, and the first of them."""

    rule: Rule | Repeated
    found: int = 0
    left_out: int = 0
    line: int | None = None
    source: str = ""
    target: str = ""

    def meet(self, line: int, source: str, target: str) -> None:
        if not self.found:
            self.line, self.source, self.target = line, source[:KEPT], target[:KEPT]
        self.found += 1


class Sieve:
    """Pairs go through in the order of the file; `row` counts them from 0."""

    def __init__(self, rules: Sequence[Rule], repeated: Sequence[tuple[Repeated, Repeats]]) -> None:
        self.texts = [(rule.test, RuleTally(rule)) for rule in rules]
        self.repeats = [(repeats, RuleTally(rule)) for rule, repeats in repeated]

    @property
    def tallies(self) -> list[RuleTally]:
        return [tally for _, tally in self.texts] + [tally for _, tally in self.repeats]

    def reason(self, row: int, line: int, source: str, target: str) -> Rule | Repeated | None:
        """The rule that this pair is left out for; None where it is kept."""
        first: RuleTally | None = None
        for test, tally in self.texts:
            if test(source, target):
                tally.meet(line, source, target)
                if first is None and tally.rule.on:
                    first = tally
        for repeats, tally in self.repeats:
            if repeats.came_before(row):
                tally.meet(line, source, target)
            # What a rule left out does not make its repeats superfluous: one of them is kept.
            if first is None and tally.rule.on and repeats.was_kept(row):
                first = tally
        if first is not None:
            first.left_out += 1
            return first.rule
        for repeats, _ in self.repeats:
            repeats.keep(row)
        return None
