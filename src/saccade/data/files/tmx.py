"""Pairs from translation memories (TMX, LISA 2005): units of one text in several languages, read as a stream.

    <tu><tuv xml:lang="en-GB"><seg>colour</seg></tuv><tuv xml:lang="pt-BR"><seg>cor</seg></tuv></tu>

``columns`` name languages: ``en`` is also ``en-GB`` and ``EN_us``, ``pt-BR`` is no ``pt-PT``. Unless named they are the
header's ``srclang`` and the only other one. The text of inline tags is kept. A unit without one of the two is passed
over and counted. XML can define its own abbreviations, which may stand for gigabytes: a file that does is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from saccade.data.files import lines
from saccade.data.files.jsonl import check_names
from saccade.data.files.lines import CHUNK, opened
from saccade.data.files.records import LONG, Columns, Fault, Found, fault, found, text_fault
from saccade.errors import InputError

DEEPEST = 64  # elements in elements
NO_LANGUAGE = "a missing language"
ENTITY = "an undeclared entity"
SAMPLE = 1000  # units that are looked at for their languages


@dataclass
class _Unit:
    """One ``<tu>``: its texts by language, as the file writes it; ``names`` are what may be named as a group."""

    number: int
    line: int
    names: dict[str, str]
    texts: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    size: int = 0

    @property
    def place(self) -> str:
        return f"unit {self.number} (line {self.line})"


class _Reader:
    """Expat's events gathered into units; never more than one of them at a time is in the making."""

    def __init__(self, path: Path) -> None:
        self.path, self.units = path, list[_Unit]()
        self.source_language: str | None = None
        self.count = self.depth = self.seg_depth = 0
        self.unit: _Unit | None = None
        self.language = self.prop = ""
        self.pieces: list[str] | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler, self.parser.EndElementHandler = self.start, self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.StartDoctypeDeclHandler, self.parser.EntityDeclHandler = self.doctype, self.declared
        self.parser.SkippedEntityHandler = self.skipped

    def read(self, file: BinaryIO) -> Iterator[_Unit]:
        fed = 0
        while chunk := file.read(CHUNK):
            yield from self.feed(chunk, final=False)
            fed += len(chunk)
            # An event that does not end (a comment, a tag) is held whole by expat.
            if fed - self.parser.CurrentByteIndex > 2 * lines.LINE_LIMIT:
                self.refuse(f"tags of at most {lines.LINE_LIMIT:,} bytes", "a longer one")
        yield from self.feed(b"", final=True)

    def feed(self, chunk: bytes, *, final: bool) -> Iterator[_Unit]:
        fault = None
        try:
            self.parser.Parse(chunk, final)
        except expat.ExpatError as error:
            fault = error
        units, self.units = self.units, []
        yield from units
        if fault is not None:
            self.refuse("XML", f"none: {expat.ErrorString(fault.code)}", fault.lineno)

    def refuse(self, expected: str, found: str, line: int | None = None) -> None:
        raise InputError(self.path, line=line or self.parser.CurrentLineNumber, expected=expected, found=found)

    def doctype(self, name: str, system: str | None, public: str | None, declares: bool) -> None:
        # A bare reference to the format's own DTD is common and is not followed.
        if declares:
            self.refuse("a file that declares nothing of its own", "declarations in its DOCTYPE")

    def declared(self, name: str, *rest: object) -> None:
        self.refuse("a file that declares nothing of its own", f"a declaration of the entity {name[:40]!r}")

    def skipped(self, name: str, parameter: bool) -> None:
        if self.unit is not None:
            self.unit.reason = ENTITY

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(f"at most {DEEPEST} elements in one another", "more")
        if self.depth == 1 and name != "tmx":
            self.refuse("a <tmx> document", f"<{name[:40]}>")
        if name == "header":
            self.source_language = attributes.get("srclang")
        elif name == "tu":
            self.count += 1
            self.pieces = None  # a <prop> of the header is no text of this unit
            self.unit = _Unit(self.count, self.parser.CurrentLineNumber, attributes)
        elif name == "tuv":
            self.language = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif name == "seg" or (name == "prop" and not self.language):
            self.pieces, self.seg_depth, self.prop = [], self.depth, attributes.get("type", "")

    def text(self, text: str) -> None:
        if self.pieces is None or self.unit is None:
            return
        self.unit.size += len(text) + 1
        if self.unit.size > lines.LINE_LIMIT:
            self.unit.reason = LONG
        else:
            self.pieces.append(text)

    def end(self, name: str) -> None:
        if self.pieces is not None and self.depth == self.seg_depth and self.unit is not None:
            kept = self.unit.texts if name == "seg" else self.unit.names
            self.unit.size += 100  # what an entry takes, so that empty ones count too
            if self.unit.size > lines.LINE_LIMIT:
                self.unit.reason = LONG
            else:
                kept.setdefault(self.language if name == "seg" else self.prop, "".join(self.pieces))
            self.pieces = None
        elif name == "tuv":
            self.language = ""
        elif name == "tu" and self.unit is not None:
            self.units.append(self.unit)
            self.unit = None
        self.depth -= 1


def scan_tmx(path: Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of a translation memory."""
    check_names(columns, path, "languages")
    sides = (str(columns.source), str(columns.target)) if columns.named else None
    matched, seen = False, dict[str, None]()
    with opened(path) as file:
        reader = _Reader(path)
        for unit in reader.read(file):
            if sides is None and len(unit.texts) > 1:
                sides = _languages(unit, reader.source_language, path)
            if len(seen) < SAMPLE:
                seen |= dict.fromkeys(unit.texts)
            item = _pair(unit, sides, columns, path)
            matched |= isinstance(item, Found) or item.reason != NO_LANGUAGE
            yield item
    if seen and not matched:
        languages = ", ".join(list(seen)[:20])
        expected = "two languages" if sides is None else f"the languages {sides[0]!r} and {sides[1]!r} in a unit"
        raise InputError(path, field="columns", expected=expected, found=languages)


def _languages(unit: _Unit, source: str | None, path: Path) -> tuple[str, str]:
    """The two languages of a memory that has no more."""
    first = _match(source, unit) or next(iter(unit.texts))
    others = [language for language in unit.texts if language != first]
    if len(others) != 1:
        hint = "columns: {source: …, target: …} chooses two"
        languages = ", ".join(list(unit.texts)[:20])
        raise InputError(path, field="columns", expected="two languages", found=languages, hint=hint)
    return first, others[0]


def _match(wanted: str | None, unit: _Unit) -> str | None:
    """The language of a unit that is the wanted one, or the first that is a kind of it."""
    if wanted is None:
        return None
    if wanted in unit.texts:
        return wanted
    plain = wanted.casefold().replace("_", "-")
    kinds = {language: language.casefold().replace("_", "-") for language in unit.texts}
    exact = [language for language, kind in kinds.items() if kind == plain]
    near = [language for language, kind in kinds.items() if kind.startswith(f"{plain}-")]
    return next(iter(exact + near), None)


def _pair(unit: _Unit, sides: tuple[str, str] | None, columns: Columns, path: Path) -> Found | Fault:
    if unit.reason is not None:
        expected = f"at most {lines.LINE_LIMIT:,} characters" if unit.reason == LONG else "text"
        return fault(unit.number, unit.reason, path, expected=expected, found=unit.reason, place=unit.place)
    languages = [_match(side, unit) for side in sides or ()]
    if len(languages) < 2 or None in languages:
        missing = "two languages" if sides is None else f"the language {sides[languages.index(None)]!r}"
        has = ", ".join(list(unit.texts)[:20]) or "none"
        return fault(unit.number, NO_LANGUAGE, path, expected=missing, found=has, place=unit.place, skipped=True)
    source, target = (str(language) for language in languages)
    texts = unit.texts[source], unit.texts[target]
    for name, text in zip((source, target), texts, strict=True):
        broken = text_fault(text, name, unit.number, path, place=unit.place)
        if broken is not None:
            return broken
    group = None if columns.group is None else unit.names.get(str(columns.group))
    return found(*texts, unit.number, path, sides=(source, target), group=group, place=unit.place)


def header_of_tmx(path: Path) -> list[str] | None:
    """The languages of a memory, the header's source language first."""
    seen: dict[str, None] = {}
    with opened(path) as file:
        reader = _Reader(path)
        for unit in reader.read(file):
            first = _match(reader.source_language, unit) if not seen else None
            seen |= dict.fromkeys(([first] if first else []) + list(unit.texts))
            if unit.number >= SAMPLE:
                break
    return list(seen) or None
