"""A gettext catalogue gives its finished messages; the unfinished are counted, and damage costs one entry."""

from __future__ import annotations

import gzip
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from saccade.data.files import lines
from saccade.data.files.catalogue import NO_ENTRY
from saccade.data.pairs.records import Columns, Fault, Found, Pair, gather, header_of, read_pairs, scan
from saccade.errors import InputError

HEADER = 'msgid ""\nmsgstr ""\n"Language: pt_BR\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
BODY = r"""# a translator's remark
#. for the translator
#: library/os.rst:17 library/re.rst:3
#, python-format
msgctxt "menu"
msgid "Open %s"
msgstr "Abrir %s"

#: library/os.rst:99
#, fuzzy, python-format
#| msgid "old"
msgid "Close"
msgstr "Fexar"

msgid "Never"
msgstr ""

msgid ""
"Two "
"lines,\n\ta \"quote\" \\ and \303\251\x41"
msgstr "Duas "
"linhas"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d arquivo"
msgstr[1] "%d arquivos"
msgstr[2] ""

#~ msgid "gone"
#~ msgstr "foi"

#~ msgid "gone too"
#~ msgstr "foi também"
"""


def write(folder: Path, content: str | bytes, name: str = "a.po") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_messages_and_their_translations_are_pairs_and_the_unfinished_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + BODY)
    pairs, left_out = gather(path)
    assert pairs == [
        Pair("Open %s", "Abrir %s"),
        Pair('Two lines,\n\ta "quote" \\ and éA', "Duas linhas"),
        Pair("%d file", "%d arquivo"),
        Pair("%d files", "%d arquivos"),
    ]
    assert left_out.counts == {"fuzzy": 1, "untranslated": 2, "obsolete": 2}
    assert read_pairs(path) == pairs
    assert header_of(path) == ["msgid", "msgstr"]


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path, change: object) -> None:
    plain = read_pairs(write(tmp_path, HEADER + BODY))
    assert read_pairs(write(tmp_path, change(HEADER + BODY))) == plain  # type: ignore[operator]
    assert read_pairs(write(tmp_path, gzip.compress((HEADER + BODY).encode()), "a.po.gz")) == plain


def test_the_direction_can_be_turned_and_groups_are_contexts_or_files(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + BODY)
    assert read_pairs(path, source="msgstr", target="msgid")[0] == Pair("Abrir %s", "Open %s")
    by_file = [item for item in scan(path, columns=Columns(group="file")) if isinstance(item, Found)]
    assert by_file[0].group == "library/os.rst"
    by_context = [item for item in scan(path, columns=Columns(group="msgctxt")) if isinstance(item, Found)]
    assert [item.group for item in by_context] == ["menu", None, None, None]


@pytest.mark.parametrize(
    "columns", [Columns("en", "pt"), Columns(1, 2), Columns("msgid", "msgid_plural"), Columns(group="author")]
)
def test_other_columns_are_refused(tmp_path: Path, columns: Columns) -> None:
    with pytest.raises(InputError, match="columns"):
        list(scan(write(tmp_path, HEADER + BODY), columns=columns))


def test_a_catalogue_in_another_charset_says_how_to_convert_it(tmp_path: Path) -> None:
    header = (
        '# José\nmsgid ""\nmsgstr ""\n"Last-Translator: José\\n"\n"Content-Type: text/plain; charset=ISO-8859-1\\n"\n'
    )
    path = write(tmp_path, (header + '\nmsgid "a"\nmsgstr "ção"\n').encode("latin-1"))
    with pytest.raises(InputError, match=r":2: expected charset=UTF-8, found charset=ISO-8859-1 \(msgconv"):
        list(scan(path))


def test_damage_costs_one_entry_and_names_its_line(tmp_path: Path) -> None:
    content = HEADER.encode() + (
        b'msgid "a"\nmsgstr "1"\n\nmsgid "b\nmsgstr "2"\n\nmsgid "c"\nmsgstr "3"\n\nmsgid "d"\nmsgstr "\xff"\n\n'
        b'msgid "e"\nmsgstr "5"\n\nmsgid "f"\n\nmsgid "g"\nmsgstr "7\\q"\n\nrubbish\n\nmsgid "h"\nmsgstr "8"\n'
    )
    found = list(scan(write(tmp_path, content)))
    assert [item.pair.source for item in found if isinstance(item, Found)] == ["a", "c", "e", "h"]
    faults = [(item.line, item.reason) for item in found if isinstance(item, Fault)]
    assert faults == [(9, NO_ENTRY), (16, "not UTF-8"), (21, NO_ENTRY), (23, NO_ENTRY), (26, NO_ENTRY)]
    with pytest.raises(InputError, match=r":9: expected msgid"):
        read_pairs(write(tmp_path, content))


def test_an_entry_without_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 1000)
    path = write(tmp_path, HEADER + 'msgid "a"\nmsgstr ""\n' + '"xxxxxxxx"\n' * 5000 + '\nmsgid "b"\nmsgstr "2"\n')
    tracemalloc.start()
    found = list(scan(path))
    assert tracemalloc.get_traced_memory()[1] < 300_000
    tracemalloc.stop()
    assert Counter(type(item).__name__ for item in found) == {"Fault": 1, "Found": 1}
    assert "expected entries of at most 1,000 characters" in str(found[0].error)


def test_a_catalogue_without_a_finished_entry_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + 'msgid "a"\nmsgstr ""\n\n#, fuzzy\nmsgid "b"\nmsgstr "2"\n')
    with pytest.raises(
        InputError, match=r"at least one pair, found none: left out were 1 untranslated \(first: 6\), 1 fu"
    ):
        read_pairs(path)
