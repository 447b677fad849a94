"""Makes labels visible and safe to print.

A token may be a space, half a syllable, a newline, an escape sequence or a right-to-left letter. Each becomes visible text
without control characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal

from saccade.trace.axes import Axis, Tokens

DOTTED_CIRCLE = "◌"
LEFT_TO_RIGHT = "\u200e"
JOINERS = "\u200c\u200d"
# Markers among single characters are drawn as one sign, explained in a legend.
MARKERS = {"<eos>": "■", "</s>": "■", "<bos>": "▸", "<s>": "▸", "<unk>": "?"}
MARKER = "◆"
# ASCII replacements for our signs, and for letters that are not an ASCII letter with an accent.
IN_ASCII = {
    "␣": "_", "∅": "''", "■": "#", "▸": ">", "◆": "*", "◌": "", "…": "~", "←": "<", "→": "->", "·": ".", "×": "x", "√": "sqrt",
    "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "ø": "o",
    "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "ð": "d", "þ": "th", "ı": "i",
}  # fmt: skip

Controls = Literal["pictures", "escapes"]


def visible(label: str, controls: Controls = "pictures") -> str:
    """The label with leading and trailing spaces, control characters and lone combining marks made visible.

    >>> visible(" "), visible("\\x1b[31m"), visible("\\n", "escapes"), visible("\\u202e"), visible("")
    ('␣', '␛[31m', '\\\\n', 'U+202E', '∅')
    """
    if not label:
        return "∅"
    core = label.strip(" ")
    before, after = len(label) - len(label.lstrip(" ")), len(label) - len(label.rstrip(" "))
    if not core:
        return "␣" * len(label)
    shown = "".join(_shown(character, controls, alone=len(core) == 1) for character in core)
    lone_mark = unicodedata.category(shown[0]).startswith("M")
    return "␣" * before + (DOTTED_CIRCLE if lone_mark else "") + shown + "␣" * after


def _shown(character: str, controls: Controls, alone: bool) -> str:
    category, code = unicodedata.category(character), ord(character)
    if category == "Zs":
        return "␣" if alone else " "
    if code < 0x20 or code == 0x7F:
        picture = "␡" if code == 0x7F else chr(0x2400 + code)
        return picture if controls == "pictures" else character.encode("unicode_escape").decode()
    # Joiners are kept: they shape the letters around them and emoji families.
    if character in JOINERS and not alone:
        return character
    if category[0] == "C" or category in ("Zl", "Zp"):
        return code_point(character)
    return character


def code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def plain(label: str) -> str:
    """The label in ASCII: accents are dropped, other characters are escaped."""
    return "".join(character if character.isascii() else _plain(character) for character in label)


def _plain(character: str) -> str:
    if character in IN_ASCII:
        return IN_ASCII[character]
    letters = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return letters if letters.strip() else character.encode("unicode_escape").decode()


def runs_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)


def is_complex(text: str) -> bool:
    """Whether letters change with their neighbours (Arabic, Devanagari, …), so that a word cannot be stacked."""
    return runs_right_to_left(text) or any(
        unicodedata.category(character) in ("Mn", "Mc") or character in JOINERS for character in text
    )


def is_marker(axis: Axis, position: int) -> bool:
    """Whether a position holds a marker such as ``<eos>`` rather than text."""
    if isinstance(axis, Tokens) and axis.special:
        return position in axis.special
    label = axis.labels[position]
    return len(label) > 2 and label[0] == "<" and label[-1] == ">" and " " not in label


def is_character(label: str) -> bool:
    """Whether a label is one character: a letter with its combining marks, an emoji, a sign."""
    if len(label) <= 1:
        return True
    from rich.cells import cell_len

    marks = all(unicodedata.category(character)[0] == "M" for character in label[1:])
    emoji = len(label) <= 12 and cell_len(label) <= 2 and any(character > "\U0001f000" for character in label)
    return (marks and len(label) <= 4) or emoji


def words_of(axis: Axis) -> tuple[int, ...]:
    """The number of the word of each position. Tokens without word numbers are split where the kind of character changes
    (letters, digits, each other sign by itself); on other axes each position is a word."""
    if not isinstance(axis, Tokens):
        return tuple(range(len(axis)))
    if len(axis.words) == len(axis.labels):
        return axis.words
    numbers: list[int] = []
    last = ""
    for position, label in enumerate(axis.labels):
        kind = _kind(label) if not is_marker(axis, position) else ""
        same = bool(numbers) and kind != "" and kind == last
        numbers.append(numbers[-1] + (not same) if numbers else 0)
        last = kind
    return tuple(numbers)


def _kind(label: str) -> str:
    if not is_character(label) or not label:
        return ""
    category = unicodedata.category(label[0])
    # A mark belongs to the letter before it.
    return {"L": "letter", "M": "letter", "N": "digit"}.get(category[0], "letter" if label in JOINERS else "")


def word_at(axis: Axis, words: Sequence[int], position: int) -> tuple[str, list[int]]:
    """The word around a position, as text, and its positions."""
    first = last = position
    while first > 0 and words[first - 1] == words[position]:
        first -= 1
    while last + 1 < len(words) and words[last + 1] == words[position]:
        last += 1
    return "".join(axis.labels[first : last + 1]), list(range(first, last + 1))
