"""Pairs from gettext catalogues (.po): a message and its translation.

    #: library/os.rst:17          → the group ``file``
    msgctxt "menu"                → the group ``msgctxt``
    msgid "%d file"               → a pair with msgstr[0] …
    msgid_plural "%d files"       → … and one with each further form
    msgstr[0] "%d arquivo"
    msgstr[1] "%d arquivos"

The header entry is no pair. Entries that the catalogue itself marks as unfinished, fuzzy (``#, fuzzy``), obsolete
(``#~``) or untranslated ones, are passed over and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from saccade.data.files import lines
from saccade.data.files.lines import Line, lines_of
from saccade.data.files.records import LONG, SOURCE, TARGET, Columns, Fault, Found, fault, found, text_fault
from saccade.errors import InputError

MESSAGE, TRANSLATION, CONTEXT, FILE = "msgid", "msgstr", "msgctxt", "file"
NO_ENTRY = "not a catalogue entry"
FUZZY, OBSOLETE, UNTRANSLATED = "fuzzy", "obsolete", "untranslated"
SAID = re.compile(r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)\s*)?"([^"\\]*(?:\\.[^"\\]*)*)"')
FIRST = re.compile(r"msg(ctxt|id)\b")
ESCAPE = re.compile(r"(?:\\(?:x[0-9a-fA-F]{2}|[0-3]?[0-7]{1,2}))+|\\.")
CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"'}
CHARSET = re.compile(r"charset=([\w.:-]+)", re.IGNORECASE)
UTF8 = ("utf-8", "utf8", "us-ascii", "ascii", "charset")  # a template says CHARSET


@dataclass
class _Entry:
    """An entry as its lines come in: the pieces of each text, still escaped."""

    obsolete: bool = False
    line: int = 0
    fuzzy: bool = False
    file: str | None = None
    texts: dict[str, list[str]] = field(default_factory=dict)
    broken: Fault | None = None
    size: int = 0

    @property
    def translated(self) -> bool:
        return any(name.startswith(TRANSLATION) for name in self.texts)


def scan_catalogue(path: Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of a gettext catalogue."""
    _check(columns, path)
    entry = _Entry()
    for line in lines_of(path):
        text = line.text.strip()
        obsolete = text.startswith("#~")
        text = text.removeprefix("#~").strip()
        if _begins(text, entry, obsolete):
            yield from _pairs(entry, columns, path)
            entry = _Entry(obsolete)
        if text.startswith(("#", "|")):
            _remark(text, entry)
        else:
            _take(text, line, entry, path)
    yield from _pairs(entry, columns, path)


def _check(columns: Columns, path: Path) -> None:
    sides = (columns.source, columns.target)
    if columns.named and set(sides) != {MESSAGE, TRANSLATION}:
        raise InputError(path, field="columns", expected=f"{MESSAGE!r} and {TRANSLATION!r}", found=str(columns))
    if columns.group not in (None, CONTEXT, FILE):
        expected = f"{CONTEXT!r} or {FILE!r}"
        raise InputError(path, field="columns.group", expected=expected, found=repr(columns.group))


def _begins(text: str, entry: _Entry, obsolete: bool) -> bool:
    """Whether a line is the first of another entry, or a blank one that ends this one."""
    if not entry.texts and entry.broken is None:
        entry.obsolete = obsolete
        return False
    if not text:
        return entry.translated or not entry.texts
    if obsolete != entry.obsolete:
        return True
    if text.startswith("#"):
        return entry.translated or entry.broken is not None
    return FIRST.match(text) is not None and (MESSAGE in entry.texts or entry.broken is not None)


def _remark(text: str, entry: _Entry) -> None:
    if text.startswith("#,") and re.search(r"\bfuzzy\b", text):
        entry.fuzzy = True
    elif text.startswith("#:") and entry.file is None:
        places = text[2:].split()
        entry.file = re.sub(r":\d+$", "", places[0]) if places else None


def _take(text: str, line: Line, entry: _Entry, path: Path) -> None:
    """Add a line to its entry."""
    entry.size += len(line.text)
    if line.fault is not None:
        entry.broken = entry.broken or line.fault
    if not text:
        return
    said = SAID.fullmatch(text)
    name = None if said is None else said[1] or next(reversed(entry.texts), None)
    if entry.broken is None and entry.size > lines.LINE_LIMIT:
        expected, longer = f"entries of at most {lines.LINE_LIMIT:,} characters", "a longer one"
        entry.broken = fault(line.number, LONG, path, expected=expected, found=longer)
    if entry.size > lines.LINE_LIMIT:
        return
    if said is None or name is None or (said[1] and said[1] in entry.texts):
        expected = 'msgid "…", msgstr "…" (once an entry), "…" or a comment'
        shown = repr(text[:40])
        entry.broken = entry.broken or fault(line.number, NO_ENTRY, path, expected=expected, found=shown)
        return
    entry.texts.setdefault(name, []).append(said[2])
    if name == MESSAGE and said[1]:
        entry.line = line.number


def _pairs(entry: _Entry, columns: Columns, path: Path) -> Iterator[Found | Fault]:
    """What an entry gives, complete as it is."""
    texts = {name: _unescaped("".join(pieces)) for name, pieces in entry.texts.items()}
    if texts.get(MESSAGE) == "" and CONTEXT not in texts and not entry.obsolete:
        _check_header(texts.get(TRANSLATION) or "", entry.line, path)
        return
    if (entry.obsolete or entry.fuzzy) and texts:
        reason = OBSOLETE if entry.obsolete else FUZZY
        yield _unfinished(reason, entry.line, path)
    elif entry.broken is not None:
        yield entry.broken
    elif texts:
        yield from _forms(texts, entry, columns, path)


def _check_header(header: str, line: int, path: Path) -> None:
    charset = CHARSET.search(header)
    if charset is not None and charset[1].lower() not in UTF8:
        hint = "msgconv -t UTF-8 converts it"
        raise InputError(path, line=line, expected="charset=UTF-8", found=charset[0], hint=hint)


def _forms(texts: dict[str, str | None], entry: _Entry, columns: Columns, path: Path) -> Iterator[Found | Fault]:
    line = entry.line
    if MESSAGE not in texts or not entry.translated:
        expected, keys = "msgid and msgstr in an entry", ", ".join(texts)
        yield fault(line or 1, NO_ENTRY, path, expected=expected, found=f"only {keys}")
        return
    forms = [(name, text) for name, text in texts.items() if name.startswith(TRANSLATION)]
    group = texts.get(CONTEXT) if columns.group == CONTEXT else entry.file if columns.group == FILE else None
    for name, translation in forms:
        # The first form is the singular's; the others, however many a language has, are the plural's.
        plural = name not in (TRANSLATION, f"{TRANSLATION}[0]") and "msgid_plural" in texts
        message_name = "msgid_plural" if plural else MESSAGE
        message = texts[message_name]
        if message is None or translation is None:
            bad = message_name if message is None else name
            yield fault(line, NO_ENTRY, path, field=bad, expected=r"escapes such as \n and \"", found="another")
            continue
        if not translation:
            yield _unfinished(UNTRANSLATED, line, path)
            continue
        broken = text_fault(message, message_name, line, path) or text_fault(translation, name, line, path)
        pair, sides = (message, translation), (message_name, name)
        if columns.source in (SOURCE, MESSAGE) or columns.target == TARGET:
            yield broken or found(*pair, line, path, sides=sides, group=group)
        else:
            yield broken or found(*pair[::-1], line, path, sides=sides[::-1], group=group)


def _unfinished(reason: str, line: int, path: Path) -> Fault:
    return fault(line, reason, path, expected="a finished entry", found=f"one that is {reason}", skipped=True)


def _unescaped(text: str) -> str | None:
    """The text that escapes stand for; None where one stands for nothing."""
    if "\\" not in text:
        return text
    try:
        return ESCAPE.sub(_character, text)
    except (KeyError, ValueError):
        return None


def _character(escape: re.Match[str]) -> str:
    if escape[0][1] in "x01234567":
        codes = escape[0].split("\\")[1:]
        return bytes(int(code[1:], 16) if code[0] == "x" else int(code, 8) for code in codes).decode()
    return CONTROLS[escape[0][1]]


def header_of_catalogue(path: Path) -> list[str]:
    """The two that a catalogue has."""
    return [MESSAGE, TRANSLATION]
