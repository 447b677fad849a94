"""What the typeface lacks is borrowed from an installed font, or written as a code point: never an empty box."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.font_manager import fontManager

from saccade.views.figure import fonts
from saccade.views.figure.fonts import Typeface


def small_font(path: Path, family: str, characters: str) -> None:
    """A font whose every glyph is a square."""
    pen = TTGlyphPen(None)
    for step, place in (("moveTo", (0, 0)), ("lineTo", (0, 700)), ("lineTo", (700, 700)), ("lineTo", (700, 0))):
        getattr(pen, step)(place)
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "square"])
    builder.setupCharacterMap({ord(character): "square" for character in characters})
    builder.setupGlyf({".notdef": square, "square": square})
    builder.setupHorizontalMetrics({".notdef": (800, 0), "square": (800, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=800, usWeightClass=400)
    builder.setupPost()
    builder.save(path)


def forget() -> None:
    for cache in (fonts._families, fonts._installed, fonts._covered):
        cache.cache_clear()


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[str]:
    """A font with four ideographs, as if installed on the machine."""
    small_font(tmp_path / "small.ttf", "Noto Sans Tiny", "\U00020b9f\U00020bb7\U0002070e\U00020731")
    before = list(fontManager.ttflist)
    fontManager.addfont(tmp_path / "small.ttf")
    forget()
    yield "Noto Sans Tiny"
    fontManager.ttflist[:] = before
    forget()


def test_latin_greek_and_arabic_need_no_other_font() -> None:
    face = Typeface(["terça-feira", "Σ", "مرحبا", "◌\u064e", "␣", "<eos>"])
    assert face.families == ("DejaVu Sans",)
    assert face.missing == frozenset()


def test_a_character_of_an_installed_font_brings_its_family(installed: str) -> None:
    face = Typeface(["a\U00020b9f"])
    assert face.families == ("DejaVu Sans", installed)
    assert face.write("\U00020b9f") == ("\U00020b9f", 1.0)


def test_a_character_in_no_font_is_written_small_as_its_code_point() -> None:
    forget()
    face = Typeface(["\U00020b9f", "x\U00020b9f\U00020bb7y"])
    assert face.missing == {"\U00020b9f", "\U00020bb7"}
    assert face.write("\U00020b9f") == ("U+20B9F", 0.62)
    assert face.write("x\U00020b9f\U00020bb7y") == ("x U+20B9F U+20BB7 y", 0.62)
    assert face.write("plain") == ("plain", 1.0)


def test_control_characters_are_escaped() -> None:
    assert Typeface(["\n"]).write("\n\x1b\ud800") == ("\\n\\x1bU+D800", 1.0)


def test_where_the_layout_does_not_turn_words_round_they_are_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    face = Typeface(["שָלום"])
    monkeypatch.setattr(fonts, "LAYS_OUT", True)
    assert face.write("שָלום")[0] == "שָלום"
    monkeypatch.setattr(fonts, "LAYS_OUT", False)
    assert face.write("שָלום")[0] == "םולשָ"
    assert face.write("left")[0] == "left"


def test_fonts_that_are_no_text_are_never_taken() -> None:
    assert not any(name.startswith(("cm", "STIXSize", "Last Resort")) for name in fonts._installed())


def test_width_grows_with_text_and_size() -> None:
    face = Typeface(["iW"])
    assert face.width("W", 9) > face.width("i", 9) > 0
    assert face.width("W", 18) == pytest.approx(2 * face.width("W", 9), rel=0.1)
