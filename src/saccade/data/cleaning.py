"""Rules by which pairs are left out of a corpus, each a value with a name: what it looks for, and why that is bad.

A rule is asked about a pair alone. Rules that need to know the whole corpus (its scripts, its languages, its test set)
are made for it; those about repeats compare a key of the pair with those that came before. They are meant to be right
when they speak, so a text that is merely odd is counted and kept: `on` says which rules leave out by themselves.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeVar

from saccade.data.languages import short_words, words_of
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
