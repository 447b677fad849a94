"""Detects what a terminal can show (true colour, 256 colours, shade characters or ASCII) and writes text and cells in it."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TextIO

import numpy as np
from numpy import ndarray
from rich.cells import cell_len, set_cell_size

from saccade.errors import SaccadeError
from saccade.views.colours import STEPS, needs_white_text, shade, shades_256
from saccade.views.labels import LEFT_TO_RIGHT, plain, runs_right_to_left, visible

Colour = Literal["truecolor", "256", "none"]
Background = Literal["dark", "light"]

SHADES = " ░▒▓█"
ASCII_SHADES = " .:-=+*#%@"
EIGHTHS = " ▁▂▃▄▅▆▇█"
BAR_EIGHTHS = " ▏▎▍▌▋▊▉█"
RESET = "\x1b[0m"
CUBE = np.array([0, 95, 135, 175, 215, 255])  # the levels of a component in the cube of a 256-colour terminal
# Below this strength a colour cannot be distinguished from the background, which is only guessed: nothing is drawn.
FAINTEST = 0.025


def colours_of(stream: TextIO) -> Colour:
    """The colours that a stream supports (https://no-color.org; COLORTERM and TERM as terminals set them)."""
    name = os.environ.get("TERM", "").lower()
    forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
    if os.environ.get("NO_COLOR") or name == "dumb" or not (forced or stream.isatty()):
        return "none"
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or name.endswith("-direct"):
        return "truecolor"
    if "WT_SESSION" in os.environ:  # the only variable that Windows Terminal sets
        return "truecolor"
    return "256" if "256color" in name or forced else "none"


def writes_unicode(stream: TextIO) -> bool:
    try:
        (SHADES + EIGHTHS + BAR_EIGHTHS + "←→↓·…■◌␣年").encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def background_of_terminal() -> Background:
    """The last number of COLORFGBG (``15;0``) where a terminal sets it; dark otherwise, like most terminals."""
    last = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if last in ("7", "15") else "dark"


@dataclass(frozen=True)
class Style:
    """Writes labels, cells and bars in the colours and characters of a terminal. Strengths are between 0 and 1."""

    width: int
    colour: Colour
    unicode: bool
    background: Background

    @classmethod
    def of(cls, width: int | None, colour: Colour | None, unicode: bool | None, background: Background | None) -> Style:
        """The style with these settings; None means as standard output allows."""
        if colour not in (None, "truecolor", "256", "none"):
            raise SaccadeError(f"colour must be 'truecolor', '256' or 'none': got {colour!r}")
        if background not in (None, "dark", "light"):
            raise SaccadeError(f"background must be 'dark' or 'light': got {background!r}")
        return cls(
            max(20, width or shutil.get_terminal_size().columns),
            colour or colours_of(sys.stdout),
            writes_unicode(sys.stdout) if unicode is None else unicode,
            background or background_of_terminal(),
        )

    # Text ---------------------------------------------------------------------------------------------------------

    def label(self, text: str) -> str:
        """Text of a trace, made safe to print."""
        return visible(text) if self.unicode else plain(visible(text, "escapes"))

    def own(self, text: str) -> str:
        """Our own text, which is safe but may need ASCII replacements."""
        return text if self.unicode else plain(text)

    def quiet(self, text: str) -> str:
        return f"\x1b[2m{text}{RESET}" if self.colour != "none" and text.strip() else text

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}{RESET}" if self.colour != "none" and text.strip() else text

    def red(self, text: str) -> str:
        """Text in red, a colour outside the scale of weights."""
        colour = {"truecolor": "38;2;205;62;58", "256": "38;5;167", "none": ""}[self.colour]
        return f"\x1b[{colour}m{text}{RESET}" if colour and text.strip() else text

    def fit(self, text: str, width: int, align: Literal["left", "right", "centre"] = "left") -> str:
        """Safe text in exactly ``width`` cells, shortened with … if too long; right-to-left text keeps its place."""
        text = self.short(text, width)
        room = width - cell_len(text)
        before = {"left": 0, "right": room, "centre": room // 2}[align]
        if runs_right_to_left(text):
            text = LEFT_TO_RIGHT + text + LEFT_TO_RIGHT
        return " " * before + text + " " * (room - before)

    def short(self, text: str, width: int) -> str:
        text = text[: 8 * width]  # combining marks have no width, so that any number of them would fit
        if cell_len(text) <= width:
            return text
        return set_cell_size(text, width - 1).rstrip() + ("…" if self.unicode else "~")

    # Strength -----------------------------------------------------------------------------------------------------

    def row(self, cells: Iterable[tuple[float, str]]) -> str:
        """A row of cells, each a strength (NaN: unknown) and a text as wide as the cell."""
        styled = (self._cell(strength, text) for strength, text in cells)
        parts = []
        for style, run in groupby(styled, key=lambda cell: cell[0]):
            text = "".join(text for _, text in run)
            parts.append(f"\x1b[{style}m{text}{RESET}" if style else text)
        return "".join(parts)

    def _cell(self, strength: float, text: str) -> tuple[str, str]:
        width = cell_len(text)
        if math.isnan(strength):
            return "", text if text.strip() else self.fit("?", width, "centre")
        strength = min(max(strength, 0.0), 1.0)
        if self.colour == "none":
            ramp = SHADES if self.unicode else ASCII_SHADES
            character = ramp[round(strength * (len(ramp) - 1))]
            return "", text if character == " " or text.strip() else character * width
        if strength < FAINTEST:
            return "", text
        step = round(strength * (STEPS - 1))
        dark = self.background == "dark"
        red, green, blue = shade(strength, dark)
        letters = ""
        if text.strip():
            letters = ";97" if needs_white_text((red / 255, green / 255, blue / 255)) else ";30"
        if self.colour == "256":
            return f"48;5;{shades_256(dark)[step]}{letters}", text
        return f"48;2;{red};{green};{blue}{letters}", text

    def pixels(self, image: ndarray) -> list[str]:
        """An image [2 R, C, 3], from 0 to 1, in R lines of C cells: the upper pixel of a pair is the ink of a half block, the
        lower one its ground. Needs colours and Unicode."""
        lines = []
        for upper, lower in zip(image[0::2], image[1::2], strict=True):
            pairs = [
                f"38;{self._code(above)};48;{self._code(below)}" for above, below in zip(upper, lower, strict=True)
            ]
            runs = ((pair, len(list(run))) for pair, run in groupby(pairs))
            lines.append("".join(f"\x1b[{pair}m{'▀' * length}{RESET}" for pair, length in runs))
        return lines

    def _code(self, pixel: ndarray) -> str:
        """A colour as a terminal takes it: its bytes, or the nearest in the 6 × 6 × 6 cube of 256 colours."""
        if self.colour == "256":
            red, green, blue = (int(np.abs(CUBE - part).argmin()) for part in pixel * 255)
            return f"5;{16 + 36 * red + 6 * green + blue}"
        red, green, blue = (int(part) for part in np.rint(pixel * 255))
        return f"2;{red};{green};{blue}"

    @property
    def paper(self) -> tuple[float, float, float]:
        """The colour that the background is taken to have, from 0 to 1."""
        return (0.0, 0.0, 0.0) if self.background == "dark" else (1.0, 1.0, 1.0)

    def height(self, strength: float) -> str:
        """One cell filled from the bottom."""
        if math.isnan(strength):
            return "?"
        ramp = EIGHTHS if self.unicode else ASCII_SHADES
        return ramp[round(min(max(strength, 0.0), 1.0) * (len(ramp) - 1))]

    def bar(self, strength: float, width: int) -> str:
        """A bar filled from the left, in eighths of a cell."""
        if math.isnan(strength):
            return "?".ljust(width)
        filled = min(max(strength, 0.0), 1.0) * width
        if not self.unicode:
            return ("#" * round(filled)).ljust(width)
        whole, eighths = divmod(round(filled * 8), 8)
        return ("█" * whole + (BAR_EIGHTHS[eighths] if eighths else "")).ljust(width)

    def scale(self, width: int) -> str:
        """The colour scale from 0 to 1."""
        return self.row((step / max(width - 1, 1), " ") for step in range(width))
