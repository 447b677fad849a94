"""The sheet for papers: a picture in millimetres, in light colours, without what a reader chose, as PDF, SVG and PNG."""

from __future__ import annotations

import io
import re
import zlib
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace
from tests.web import made
from tests.web.gallery import FIRST

SVG = "{http://www.w3.org/2000/svg}"
ACCENT = "#b0480b"


def laid(page, *, width: float | None = None, **fields: object):
    """The sheet of the picture in front, with this width in millimetres."""
    page.button("paper: a sheet for papers").click()
    sheet = page.page.get_by_role("dialog", name="a sheet for papers")
    if width is not None:
        sheet.get_by_label("width, mm").fill(str(width))
    for label, text in fields.items():
        sheet.get_by_label(label.replace("_", " ")).fill(str(text))
    page.settled()
    return sheet


def saved(page, sheet, kind: str) -> bytes:
    return page.downloaded(sheet.get_by_role("button", name=f"save {kind}").click).read_bytes()


def drawn(page, sheet) -> ElementTree.Element:
    return ElementTree.fromstring(saved(page, sheet, "SVG"))


def texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def painted(root: ElementTree.Element) -> list[ElementTree.Element]:
    """The rectangles with a colour inside, of the first clipped group: the cells."""
    cells = next(node for node in root.iter(f"{SVG}g") if node.get("clip-path"))
    return [node for node in cells.iter(f"{SVG}rect") if node.get("fill") != "none"]


def streams(pdf: bytes) -> list[bytes]:
    found = re.finditer(rb"/Length (\d+) >>\nstream\n", pdf)
    return [zlib.decompress(pdf[match.end() : match.end() + int(match[1])]) for match in found]


@pytest.mark.parametrize("millimetres", [88, 180])
def test_a_picture_is_as_wide_as_the_column_in_every_format(show, millimetres):
    page = show("decode", view="alignment", step=2)
    sheet = laid(page, width=millimetres)
    root = drawn(page, sheet)
    assert root.get("width") == f"{millimetres}mm"
    height = float(root.get("height").removesuffix("mm"))
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", saved(page, sheet, "PDF"))
    assert [float(side) for side in box.groups()] == pytest.approx(
        [millimetres / 25.4 * 72, height / 25.4 * 72], abs=0.1
    )
    picture = Image.open(io.BytesIO(saved(page, sheet, "PNG")))
    assert picture.width == round(millimetres / 25.4 * 600)
    assert picture.info["dpi"][0] == pytest.approx(600, abs=0.1)
    sheet.get_by_role("button", name="close").click()


def test_letters_have_the_size_that_was_asked_for_whatever_the_width(show):
    page = show("decode", view="alignment", step=2)
    for millimetres, points in ((88, 8), (180, 6)):
        sheet = laid(page, width=millimetres, letters=points)
        root = drawn(page, sheet)
        across = float(root.get("viewBox").split()[2])
        size = {float(node.get("font-size")) for node in root.iter(f"{SVG}text")}
        assert size == {13.0}
        assert 13 * millimetres / 25.4 * 72 / across == pytest.approx(points, rel=0.01)
        sheet.get_by_role("button", name="close").click()


def test_a_dark_page_gives_a_light_sheet_with_titles_and_bar_and_nothing_chosen(show):
    page = show("decode", dark=True, view="alignment", step=2, key=4)
    shown = page.saved("SVG").read_text(encoding="utf-8")
    assert "#ffb057" in shown, "on the page a cell is chosen"
    sheet = laid(page, title_across="English", title_down="Deutsch")
    text = saved(page, sheet, "SVG").decode("utf-8")
    root = ElementTree.fromstring(text)
    assert {"English", "Deutsch", "weight", "der", "garden"} < set(texts(root))
    assert not {"source", "target"} & set(texts(root))
    assert not [colour for colour in (ACCENT, "#ffb057", 'font-weight="600"') if colour in text]
    inks = {node.get("fill") for node in root.iter(f"{SVG}text")}
    assert inks <= {"#1a1d23", "#5d636e", "rgb(93, 99, 110)"}, "the ink of the light page"
    picture = Image.open(io.BytesIO(saved(page, sheet, "PNG"))).convert("RGB")
    assert picture.getpixel((0, 0)) == (255, 255, 255)
    sheet.get_by_role("button", name="close").click()
    assert page.page.evaluate("getComputedStyle(document.body).colorScheme") == "dark", "the page stays as it was"


def test_a_file_has_at_most_one_shape_for_a_run_of_equal_cells(opened):
    weights = torch.zeros(31, 57)
    weights[:, 10:40] = 1 / 30
    weights[3] = 0
    weights[3, 5] = 1.0
    text = Tokens(tuple(f"w{i}" for i in range(57)))
    axes = {"text": text, "out": Tokens(tuple(f"o{i}" for i in range(31)))}
    map = AttentionMap("layer.0", "out", "text", "dense", {"weights": weights}, 0, keys=57)
    page = opened(Trace(axes, (map,)), hash="view=alignment&step=2")
    sheet = laid(page)
    cells = painted(drawn(page, sheet))
    assert len(cells) == 31, "one for each row"
    wide = [float(cell.get("width")) for cell in cells]
    assert wide[0] / wide[3] == pytest.approx(30, rel=0.1)
    page_stream = max(streams(saved(page, sheet, "PDF")), key=lambda each: each.count(b" re f"))
    assert page_stream.count(b" re f") <= 31 + 60 + 5, "cells, the bar, and what is around"


def test_a_map_of_many_cells_is_one_picture_with_a_pixel_for_each(opened):
    n = 300
    weights = torch.rand(n, n, generator=torch.Generator().manual_seed(1)).softmax(1)
    text = Tokens(tuple(f"w{i}" for i in range(n)))
    page = opened(
        Trace({"text": text}, (AttentionMap("layer.0", "text", "text", "dense", {"weights": weights}, 0, keys=n),)),
        hash="view=alignment",
    )
    sheet = laid(page)
    pdf = saved(page, sheet, "PDF")
    assert b"/Width 300 /Height 300" in pdf
    assert not painted(drawn(page, sheet))


def test_letters_of_a_pdf_are_shapes_so_that_no_font_is_missing(opened):
    trace = made.decode()
    axes = {**trace.axes, "target": Tokens(("عين", "Łódź", "日本", "α≈β", "<eos>"), special=(4,))}
    page = opened(replace(trace, axes=axes, outputs=None, tree=None), hash="view=alignment&step=2")
    pdf = saved(page, laid(page), "PDF")
    assert b"/Font" not in pdf
    forms = [stream for stream in streams(pdf) if stream.endswith(b"f*")]
    letters = set("theunseengardenwasgreen#<eos>Łódź日本α≈βsourcetargetweight01.") | {"عين"}
    assert len(forms) == pytest.approx(len(letters), abs=4), "each letter once"
    assert all(stream.count(b" l") >= 3 for stream in forms)


@pytest.mark.parametrize("place", FIRST, ids=str)
def test_every_view_leaves_as_a_pdf_that_looks_as_its_svg(show, place):
    page = show(place.trace, **place.state)
    sheet = laid(page)
    page.page.wait_for_timeout(50)
    root = drawn(page, sheet)
    pdf = saved(page, sheet, "PDF")
    assert pdf.startswith(b"%PDF-1.4")
    assert pdf.endswith(b"%%EOF\n")
    said = sum(bool(node.text and node.text.strip()) for node in root.iter(f"{SVG}text"))
    page_stream = next(stream for stream in streams(pdf) if re.match(rb"[\d.]+ 0 0 -[\d.]+ 0 [\d.]+ cm", stream))
    letters = page_stream.count(b" cm /X")
    assert letters >= said
    assert b"NaN" not in page_stream
    assert page_stream.count(b"\nq") + page_stream.count(b" q ") <= page_stream.count(b"Q") + 1
    sheet.get_by_role("button", name="close").click()


def test_the_sheet_can_be_read_and_used_by_everyone(show):
    page = show("decode", view="alignment", step=2)
    sheet = laid(page)
    assert page.faults() == []
    page.press("Escape")
    assert sheet.count() == 0


def test_what_is_no_width_does_no_harm(show):
    page = show("decode", view="alignment", step=2)
    sheet = laid(page, width="")
    assert drawn(page, sheet).get("width") == "20mm"
    sheet.get_by_label("width, mm").fill("100000")
    assert drawn(page.settled(), sheet).get("width") == "400mm"
    sheet.get_by_role("button", name="close").click()


def test_on_a_phone_the_sheet_stays_in_the_window(show):
    page = show("decode", view="alignment", step=2, width=390, height=844)
    laid(page, width=180)
    assert page.sideways() == []
