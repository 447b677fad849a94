"""A translation memory gives the two languages that are named; XML's traps are refused."""

from __future__ import annotations

import lzma
import tracemalloc
from pathlib import Path

import pytest

from saccade.data.files import lines
from saccade.data.files.tmx import ENTITY, NO_LANGUAGE
from saccade.data.pairs.records import Columns, Fault, Found, Pair, gather, header_of, read_pairs, scan
from saccade.errors import InputError

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en-GB"/><body>\n'


def unit(*texts: tuple[str, str], more: str = "", lang: str = "xml:lang") -> str:
    variants = "".join(f'<tuv {lang}="{language}"><seg>{text}</seg></tuv>' for language, text in texts)
    return f"<tu>{more}{variants}</tu>\n"


def tmx(folder: Path, *units: str, head: str = HEAD, name: str = "a.tmx") -> Path:
    path = folder / name
    content = (head + "".join(units) + "</body></tmx>").encode()
    path.write_bytes(lzma.compress(content) if name.endswith("xz") else content)
    return path


def test_the_two_languages_of_a_memory_need_no_names(tmp_path: Path) -> None:
    units = unit(("pt-BR", "cor"), ("en-GB", "colour")), unit(("en-GB", "a &amp; b"), ("pt-BR", "a\ne b"), lang="lang")
    pairs = [Pair("colour", "cor"), Pair("a & b", "a\ne b")]
    assert read_pairs(tmx(tmp_path, *units)) == pairs
    assert read_pairs(tmx(tmp_path, *units, name="a.tmx.xz")) == pairs
    assert header_of(tmp_path / "a.tmx") == ["en-GB", "pt-BR"]


@pytest.mark.parametrize(
    ("source", "target", "pair"),
    [
        ("en", "pt-BR", Pair("colour", "cor")),
        ("EN_gb", "pt", Pair("colour", "cór")),
        ("fr", "en", Pair("couleur", "colour")),
        ("pt-PT", "en-US", Pair("cór", "color")),
        ("fr", "es", Pair("couleur", "color (es)")),
    ],
)
def test_languages_are_named_with_or_without_their_country(
    tmp_path: Path, source: str, target: str, pair: Pair
) -> None:
    texts = ("en-GB", "colour"), ("en-US", "color"), ("pt-PT", "cór"), ("PT_br", "cor"), ("fr", "couleur")
    texts = (*texts, ("es-AR", "color (AR)"), ("es", "color (es)"))
    assert read_pairs(tmx(tmp_path, unit(*texts)), source=source, target=target) == [pair]


def test_a_unit_without_the_language_is_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmx(tmp_path, unit(("en", "a"), ("pt", "b")), unit(("en", "c"), ("fr", "d")), unit(("en", "e"), ("pt", "f")))
    pairs, left_out = gather(path, columns=Columns("en", "pt"))
    assert pairs == [Pair("a", "b"), Pair("e", "f")]
    assert left_out.counts == {NO_LANGUAGE: 1}
    assert left_out.first == {NO_LANGUAGE: 2}


def test_another_country_is_another_language(tmp_path: Path) -> None:
    path = tmx(
        tmp_path, unit(("en", "a"), ("pt-PT", "b")), unit(("en", "c"), ("pt", "d")), unit(("en", "e"), ("pt-BR", "f"))
    )
    assert read_pairs(path, source="en", target="pt-br") == [Pair("e", "f")]


def test_a_language_that_is_nowhere_is_told_with_those_that_are(tmp_path: Path) -> None:
    path = tmx(tmp_path, unit(("en", "a"), ("pt", "b")), unit(("en", "c"), ("fr", "d")))
    with pytest.raises(InputError, match="expected the languages 'en' and 'de' in a unit, found en, pt, fr"):
        list(scan(path, columns=Columns("en", "de")))
    with pytest.raises(InputError, match="columns: expected the names of languages, found the number 1"):
        list(scan(path, columns=Columns(1, 2)))
    with pytest.raises(InputError, match=r"expected two languages, found en, pt, fr \(columns: "):
        list(scan(tmx(tmp_path, unit(("en", "a"), ("pt", "b"), ("fr", "c")))))


def test_the_text_of_inline_tags_is_kept(tmp_path: Path) -> None:
    texts = ("en", 'a <bpt i="1">&lt;b></bpt>bold<ept i="1">&lt;/b></ept> <hi>word</hi>'), ("pt", "b<ph/>c")
    assert read_pairs(tmx(tmp_path, unit(*texts))) == [Pair("a <b>bold</b> word", "bc")]


def test_a_group_is_an_attribute_or_a_property_of_the_unit(tmp_path: Path) -> None:
    path = tmx(tmp_path, unit(("en", "a"), ("pt", "b"), more='<prop type="doc">one.txt</prop><note>n</note>'))
    assert [item.group for item in scan(path, columns=Columns("en", "pt", "doc"))] == ["one.txt"]
    path.write_text(path.read_text().replace("<tu>", '<tu tuid="7">'))
    assert [item.group for item in scan(path, columns=Columns("en", "pt", "tuid"))] == ["7"]


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "utf-8"])
def test_the_encoding_that_xml_declares_is_read(tmp_path: Path, encoding: str) -> None:
    content = HEAD.replace("UTF-8", encoding) + unit(("en", "é"), ("pt", "ç")) + "</body></tmx>"
    (tmp_path / "a.tmx").write_bytes(content.encode(encoding))
    assert read_pairs(tmp_path / "a.tmx") == [Pair("é", "ç")]


def test_declarations_are_refused_but_a_reference_to_the_dtd_is_not_followed(tmp_path: Path) -> None:
    one = unit(("en", "a"), ("pt", "b"))
    start = '<?xml version="1.0"?>\n'
    body = '<tmx version="1.4"><header srclang="en"/><body>'
    bomb = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n'
    with pytest.raises(InputError, match=r":2: expected a file that declares nothing of its own, found declarations"):
        list(scan(tmx(tmp_path, unit(("en", "&b;"), ("pt", "b")), head=start + bomb + body)))
    bare = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    path = tmx(tmp_path, one, unit(("en", "a&nbsp;b"), ("pt", "c")), one, head=start + bare + body)
    found = list(scan(path))
    assert [getattr(item, "reason", "pair") for item in found] == ["pair", ENTITY, "pair"]
    with pytest.raises(InputError, match=r"unit 2 \(line 4\): expected text, found an undeclared entity"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "expected XML, found none: no element found"),
        ("<tmx><body><tu>", "expected XML, found none: no element found"),
        ("<html></html>", "expected a <tmx> document, found <html>"),
        ("<tmx>" + "<a>" * 100, "expected at most 64 elements in one another"),
        ("<tmx>\x00</tmx>", "expected XML, found none"),
        ("not xml", ":1: expected XML, found none: syntax error"),
        ("<tmx>" + "<!--" + "x" * 9_000_000, "expected tags of at most"),
        ('<tmx a="' + "x" * 9_000_000, "expected tags of at most"),
    ],
)
def test_what_is_no_memory_is_told(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "a.tmx").write_text(content)
    with pytest.raises(InputError, match=told):
        list(scan(tmp_path / "a.tmx"))


def test_what_stood_before_the_damage_was_given(tmp_path: Path) -> None:
    path = tmx(tmp_path, unit(("en", "a"), ("pt", "b")), "<tu><oops")
    read = scan(path)
    assert isinstance(next(read), Found)
    with pytest.raises(InputError, match="expected XML"):
        next(read)


def test_an_over_long_unit_is_a_fault_and_memory_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 100_000)
    one = unit(("en", "a"), ("pt", "b"))
    many = "<tu>" + "".join(f'<tuv xml:lang="x{n}"><seg/></tuv>' for n in range(100_000)) + "</tu>"
    path = tmx(tmp_path, one, unit(("en", "x" * 10_000_000), ("pt", "b")), many, one)
    tracemalloc.start()
    kinds = [item.reason if isinstance(item, Fault) else "pair" for item in scan(path, columns=Columns("en", "pt"))]
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    assert kinds == ["pair", "an over-long line", "an over-long line", "pair"]
