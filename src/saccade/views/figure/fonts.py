"""Chooses fonts for labels: DejaVu Sans, which comes with matplotlib, and installed fonts for characters that it lacks.

A character without any font is written as its code point (``U+5E74``) instead of an empty box.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from matplotlib import ft2font
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, findfont, fontManager

from saccade.views.labels import DOTTED_CIRCLE, JOINERS, code_point, runs_right_to_left, visible

FACE = "DejaVu Sans"
# Families that match DejaVu Sans come before others.
PREFERRED = ("Noto Sans", "Source Han Sans", "WenQuanYi", "Droid Sans", "Arial Unicode", "Nirmala", "Microsoft")
# Mathematical fonts that are not Unicode, fonts of empty boxes, and colour emoji.
UNFIT = ("cm", "STIXNonUnicode", "STIXSize", "Last Resort", "LastResort", "Noto Color Emoji", "Apple Color Emoji")
# Since matplotlib 3.11 libraqm lays out text: it joins letters and orders right-to-left text.
LONGEST = 2000  # characters that are typeset: a name in a file may have any length
LAYS_OUT = getattr(ft2font, "__libraqm_version__", None) is not None


class Typeface:
    """The fonts that a set of labels needs, and the width of text in them."""

    def __init__(self, labels: Iterable[str]) -> None:
        needed = frozenset(character for label in labels for character in visible(label, "escapes"))
        self.families, self.missing = _families(needed)
        self._properties: dict[float, FontProperties] = {}
        self._renderer: Any = RendererAgg(1, 1, 72)

    def write(self, label: str) -> tuple[str, float]:
        """A label as it is drawn, and its relative size: code points are smaller."""
        label = label if len(label) <= LONGEST else f"{label[:LONGEST]}…"
        shown = visible(label, "escapes")
        if self.missing.intersection(shown):
            shown = shown.removeprefix(DOTTED_CIRCLE)
            parts = (f" {code_point(character)} " if character in self.missing else character for character in shown)
            return " ".join("".join(parts).split()), 0.62
        return (_reversed(shown) if runs_right_to_left(shown) and not LAYS_OUT else shown), 1.0

    def properties(self, size: float) -> FontProperties:
        if size not in self._properties:
            self._properties[size] = FontProperties(family=list(self.families), size=size)
        return self._properties[size]

    def width(self, text: str, size: float) -> float:
        """The width of text in inches."""
        width, _, _ = self._renderer.get_text_width_height_descent(text, self.properties(size), False)
        return float(width) / 72


def _reversed(text: str) -> str:
    """Right-to-left text in visual order, combining marks after their letters."""
    import unicodedata

    clusters: list[str] = []
    for character in text:
        if clusters and (unicodedata.category(character)[0] == "M" or character in JOINERS):
            clusters[-1] += character
        else:
            clusters.append(character)
    return "".join(reversed(clusters))


@lru_cache(maxsize=64)
def _families(needed: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """DejaVu Sans and the installed families that cover what it lacks, and the characters that no font has."""
    missing = {character for character in needed if not character.isascii() and character not in JOINERS}
    missing -= _covered(FACE, frozenset(missing))
    families = [FACE]
    for family in _installed() if missing else ():
        found = _covered(family, frozenset(missing))
        if found:
            families.append(family)
            missing -= found
        if not missing:
            break
    return tuple(families), frozenset(missing)


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    """The installed families in a fixed order."""
    # Only upright fonts of normal weight and width: matplotlib warns about others on every use.
    regular = (font for font in fontManager.ttflist if (font.style, font.stretch) == ("normal", "normal"))
    names = {font.name for font in regular if font.weight in (400, "normal", "regular", "book")}
    fit = (name for name in names if name != FACE and not name.startswith(UNFIT))

    def rank(name: str) -> tuple[int, bool, str]:
        place = next((place for place, start in enumerate(PREFERRED) if name.startswith(start)), len(PREFERRED))
        return place, "Serif" in name or "Mono" in name, name

    return tuple(sorted(fit, key=rank))


@lru_cache(maxsize=1024)
def _covered(family: str, characters: frozenset[str]) -> frozenset[str]:
    """The characters that the family has glyphs for, in the file that matplotlib would use."""
    try:
        font = ft2font.FT2Font(str(findfont(FontProperties(family=family), fallback_to_default=False)))
        return frozenset(character for character in characters if font.get_char_index(ord(character)))
    except (ValueError, RuntimeError, OSError, TypeError):
        return frozenset()  # a font that cannot be opened covers nothing
