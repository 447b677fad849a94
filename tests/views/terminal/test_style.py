"""What a terminal can show is found out without asking it to show what it cannot."""

import io
import math

import pytest
from rich.cells import cell_len

from saccade.errors import SaccadeError
from saccade.views.terminal.style import Style, background_of_terminal, colours_of, writes_unicode


class Screen(io.StringIO):
    def __init__(self, tty: bool = True, encoding: str = "utf-8") -> None:
        super().__init__()
        self.tty, self.name = tty, encoding

    def isatty(self) -> bool:
        return self.tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.name


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TERM", "COLORFGBG", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "tty", "expected"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, True, "truecolor"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, True, "truecolor"),
        ({"TERM": "xterm-direct"}, True, "truecolor"),
        ({"TERM": "xterm-256color"}, True, "256"),
        ({"TERM": "linux"}, True, "none"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, True, "none"),
        ({}, True, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, False, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, True, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": ""}, True, "truecolor"),
        ({"TERM": "xterm-256color", "FORCE_COLOR": "1"}, False, "256"),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, "none"),
    ],
)
def test_colours_follow_the_terminal(
    environment: dict[str, str], tty: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert colours_of(Screen(tty)) == expected


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", True), ("utf-16", True), ("ascii", False), ("latin-1", False), ("cp437", False)],
)
def test_shades_are_written_only_where_they_can_be_encoded(encoding: str, expected: bool) -> None:
    assert writes_unicode(Screen(encoding=encoding)) is expected
    assert not writes_unicode(Screen(encoding="no-such-encoding"))


@pytest.mark.parametrize(
    ("told", "expected"), [("15;0", "dark"), ("0;15", "light"), ("0;default;7", "light"), ("", "dark")]
)
def test_the_background_is_what_the_terminal_tells(told: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", told)
    assert background_of_terminal() == expected


def test_unknown_inks_are_refused() -> None:
    with pytest.raises(SaccadeError, match="colour must be"):
        Style.of(80, "16", True, None)  # type: ignore[arg-type]
    with pytest.raises(SaccadeError, match="background must be"):
        Style.of(80, "none", True, "pink")  # type: ignore[arg-type]


SHADED = Style(80, "none", True, "dark")
ASCII = Style(80, "none", False, "dark")
COLOURED = Style(80, "truecolor", True, "dark")


def test_strength_falls_back_from_colours_to_shades_to_ascii() -> None:
    strengths = [0.0, 0.25, 0.5, 0.75, 1.0]
    cells = [(strength, " ") for strength in strengths]
    assert SHADED.row(cells) == " ░▒▓█"
    assert ASCII.row([(step / 9, " ") for step in range(10)]) == " .:-=+*#%@"
    assert COLOURED.row(cells).count("\x1b[48;2;") == 4
    assert Style(80, "256", True, "dark").row(cells).count("\x1b[48;5;") == 4


@pytest.mark.parametrize("colour", ["truecolor", "256", "none"])
def test_zero_is_nothing_and_nan_is_a_question(colour: str) -> None:
    ink = Style(80, colour, True, "light")  # type: ignore[arg-type]
    assert ink.row([(0.0, "   "), (1e-4, "  ")]) == "     "
    assert ink.row([(math.nan, "   ")]) == " ? "
    assert ink.row([(math.nan, "word")]) == "word"


def test_neighbours_of_one_colour_share_an_escape() -> None:
    assert COLOURED.row([(1.0, " ")] * 5).count("\x1b") == 2


@pytest.mark.parametrize("text", ["年月日", "सलाम", "👨‍👩‍👧 family", "مرحبا", "plain", "a\u0301" * 200])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_fitted_text_takes_exactly_its_cells(text: str, width: int) -> None:
    for align in ("left", "right", "centre"):
        assert cell_len(SHADED.fit(text, width, align)) == width  # type: ignore[arg-type]


def test_right_to_left_text_is_held_in_place_by_marks() -> None:
    assert SHADED.fit("م", 1) == "\u200eم\u200e"
    assert SHADED.fit("٢", 1) == "\u200e٢\u200e"
    assert SHADED.fit("a", 1) == "a"


def test_bars_are_as_long_as_they_should_be() -> None:
    assert SHADED.bar(0.5, 8) == "████    "
    assert SHADED.bar(1 / 64, 8) == "▏       "
    assert ASCII.bar(0.5, 8) == "####    "
    assert SHADED.bar(math.nan, 3) == "?  "
    assert SHADED.bar(7.0, 3) == "███"
