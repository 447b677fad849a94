"""Generates misspelt names → the names, from CLDR's names of languages, countries, currencies and cities (Babel's copy), not
downloaded; or misspelt words of a text of the user's.

    "Portugese"  →  "Portuguese"        "Kyrgystan"  →  "Kyrgyzstan"

A name gets one or two typical misspellings (`SLIPS`); longer names get more. A misspelling
belongs to one split alone and never spells another name, so no source of `valid` or `test` was trained on; the names
themselves occur in every split, as the words of a language do.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.data.config import check_least
from saccade.data.files.lines import text_lines
from saccade.data.paths import locate
from saccade.errors import InputError

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
ALIKE = {  # heard alike, so written for one another
    "a": "e", "e": "ia", "i": "ey", "y": "i", "o": "u", "u": "o", "c": "ks", "k": "c", "s": "cz", "z": "s", "g": "j",
    "j": "g", "f": "v", "v": "fw", "w": "v", "b": "p", "p": "b", "d": "t", "t": "d", "m": "n", "n": "m",
}  # fmt: skip
UNCHANGED = 0.1  # the share of names that need no correction: a corrector must leave them alone
SLIPS_PER_LETTER = 0.06
EXAMPLES = ("Portugese", "Kyrgystan", "Reykyavik")


@dataclass(frozen=True)
class Spelling:
    """Which names, the number of misspellings, and the seed of the draw."""

    language: str = "en"  # CLDR's locale of the names
    words: str | None = None  # a text file instead (plain, .gz or .xz): its words …
    least: int = 2  # … that occur at least so often
    train: int = 40_000
    valid: int = 1_000
    test: int = 2_000
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1, least=1)


def generate(spelling: Spelling, folder: Path = Path()) -> dict[str, list[tuple[str, str]]]:
    """(misspelt, right) pairs of each split; a relative ``spelling.words`` starts at ``folder``."""
    if spelling.words is None:
        names = names_of(spelling.language)
    else:
        names = words_of(text_lines(locate(spelling.words, folder)), spelling.least)
    if len(names) < 2:
        where, expected = spelling.words or "data.spelling", f"words that occur at least {spelling.least} times"
        raise InputError(where, expected=expected, found=f"{len(names)} such words")
    wanted = {"train": spelling.train, "valid": spelling.valid, "test": spelling.test}
    draw, right = random.Random(spelling.seed), set(names)
    pairs: dict[str, str] = {}
    tries = 0
    while len(pairs) < sum(wanted.values()):
        tries += 1
        if tries > 50 * sum(wanted.values()):
            raise InputError(
                spelling.words or "data.spelling", expected=f"{sum(wanted.values()):,} different misspellings",
                found=f"{len(pairs):,} of {len(names):,} words: lower data.spelling.train",
            )  # fmt: skip
        name = draw.choice(names)
        spoilt = name if draw.random() < UNCHANGED else misspell(name, draw)
        if spoilt not in pairs and (spoilt == name or spoilt not in right):
            pairs[spoilt] = name
    shuffled = sorted(pairs.items())
    draw.shuffle(shuffled)
    made, start = {}, 0
    for split in ("test", "valid", "train"):
        made[split] = shuffled[start : start + wanted[split]]
        start += wanted[split]
    return made


def names_of(language: str) -> list[str]:
    """CLDR's names of languages, territories, currencies and cities in one language, sorted, each once."""
    from babel import Locale, UnknownLocaleError
    from babel.core import get_global

    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError) as fault:
        expected = "a locale of CLDR, such as en, pt or de"
        raise InputError("recipe", field="data.spelling.language", expected=expected, found=repr(language)) from fault
    names = [*locale.languages.values(), *locale.territories.values(), *locale.currencies.values()]
    zones = get_global("zone_territories")  # Europe/Lisbon: the city is the zone's own name unless CLDR gives another
    own = {
        zone: zone.rpartition("/")[2].replace("_", " ") for zone in zones if "/" in zone and not zone.startswith("Etc")
    }
    given = {zone: str(names["city"]) for zone, names in locale.time_zones.items() if "city" in names}
    names += (own | given).values()
    # A bracket is an explanation: Myanmar (Burma), Bolivian Peso (1863–1963).
    plain = {re.sub(r"\s*\(.*?\)", "", name).strip() for name in names}
    return sorted(name for name in plain if 4 <= len(name) <= 30 and not re.search(r"\d", name))


def words_of(lines: Iterable[str], least: int) -> list[str]:
    """The words of a text that occur at least so often, four letters or more, sorted."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(re.findall(r"[^\W\d_]{4,}", line.lower()))
    return sorted(word for word, count in counts.items() if count >= least)


# ---- The slips: each takes a name and a place in it, and gives the name with one slip there


def _drop(name: str, at: int, draw: random.Random) -> str:
    return name[:at] + name[at + 1 :]


def _double(name: str, at: int, draw: random.Random) -> str:
    return name[: at + 1] + name[at:]


def _swap(name: str, at: int, draw: random.Random) -> str:
    return name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :]


def _neighbour(name: str, at: int, draw: random.Random) -> str:
    return name[:at] + _next_key(name[at], draw) + name[at + 1 :]


def _slipped_in(name: str, at: int, draw: random.Random) -> str:
    return name[: at + 1] + _next_key(name[at], draw).lower() + name[at + 1 :]


def _heard(name: str, at: int, draw: random.Random) -> str:
    letters = ALIKE.get(name[at].lower(), name[at])
    letter = draw.choice(letters)
    return name[:at] + (letter.upper() if name[at].isupper() else letter) + name[at + 1 :]


def _small(name: str, at: int, draw: random.Random) -> str:
    return name.lower()


SLIPS: dict[Callable[[str, int, random.Random], str], float] = {
    _heard: 0.30, _drop: 0.20, _double: 0.12, _swap: 0.13, _neighbour: 0.10, _slipped_in: 0.05, _small: 0.10,
}  # fmt: skip


def misspell(name: str, draw: random.Random) -> str:
    """The name with one slip, or more if it is long; letters are hit, blanks and marks are not."""
    slips = 1 + sum(draw.random() < SLIPS_PER_LETTER for _ in name)
    for _ in range(min(slips, max(1, len(name) // 6))):  # a short name with two slips could be any
        letters: Sequence[int] = [place for place, letter in enumerate(name) if letter.isalpha()]
        slip = draw.choices(list(SLIPS), weights=list(SLIPS.values()))[0]
        name = slip(name, draw.choice(letters), draw) if letters else name
    return name


def _next_key(letter: str, draw: random.Random) -> str:
    small = letter.lower()
    for row in KEYBOARD:
        if small in row:
            place = row.index(small)
            near = row[max(0, place - 1) : place] + row[place + 1 : place + 2]
            return draw.choice(near).upper() if letter.isupper() else draw.choice(near)
    return letter
