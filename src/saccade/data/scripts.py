"""Which writing system a text is in: Latin, Cyrillic, Arabic, Han …, by the names that Unicode gives its letters.

A letter's Unicode name begins with its script ("CYRILLIC SMALL LETTER A"), so no table of ranges is needed. Digits,
marks and blanks belong to no script. A corpus is judged by its counted characters, each looked up once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache

USUAL = 0.05  # a script with this share of a side's letters belongs there
ALIASES = {"Cjk": "Han", "Ideographic": "Han", "Katakana-Hiragana": "Katakana"}  # names that do not begin with it
NOTHING = r"(?!)"
FAMILIES = (frozenset({"Han", "Hiragana", "Katakana"}), frozenset({"Hangul", "Han"}))  # written side by side
WITHOUT_SPACES = frozenset({"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})


@cache
def script_of(character: str) -> str | None:
    """The script of a letter, None for everything else.

    >>> script_of("a"), script_of("я"), script_of("字"), script_of("7")
    ('Latin', 'Cyrillic', 'Han', None)
    """
    if not character.isalpha():
        return None
    # By the letter it stands for: a full-width, raised or mathematical one is still Latin.
    name = unicodedata.name(unicodedata.normalize("NFKC", character)[0], "")
    first = name.split()[0].title() if name else ""
    return None if first in ("", "Modifier") else ALIASES.get(first, first)


def script_shares(characters: Mapping[str, int]) -> dict[str, float]:
    """The share of each script among the letters, largest first; empty where there is no letter."""
    counts: dict[str, int] = {}
    for character, count in characters.items():
        script = script_of(character)
        if script is not None:
            counts[script] = counts.get(script, 0) + count
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {script: count / total for script, count in ordered}


def usual_scripts(shares: Mapping[str, float]) -> frozenset[str]:
    """The scripts a side is written in; what Japanese or Korean writes side by side comes together."""
    return _with_family(frozenset(script for script, share in shares.items() if share >= USUAL))


def main_scripts(shares: Mapping[str, float]) -> frozenset[str]:
    """The script most letters are in, with those written beside it; none where there are no letters."""
    return _with_family(frozenset(list(shares)[:1]))


def _with_family(scripts: frozenset[str]) -> frozenset[str]:
    return scripts.union(*(family for family in FAMILIES if scripts & (family - {"Han"})))


def letters_of(scripts: frozenset[str], characters: Iterable[str]) -> re.Pattern[str]:
    """A pattern for one letter of these scripts, made of the characters that occur; it matches nothing where none does."""
    letters = "".join(sorted(character for character in characters if script_of(character) in scripts))
    return re.compile(f"[{re.escape(letters)}]" if letters else NOTHING)
