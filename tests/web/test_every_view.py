"""What holds of every view: it opens without a word of complaint, it can leave as a picture, it is for everyone."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.web.explorer import AXE
from tests.web.gallery import FIRST, HARMED, NAMES, PLACES, SHOWN

SVG = "{http://www.w3.org/2000/svg}"
HREF = ("href", "{http://www.w3.org/1999/xlink}href")
PHONE = {"width": 390, "height": 844}
views = pytest.mark.parametrize("place", PLACES, ids=str)
each_view = pytest.mark.parametrize("place", FIRST, ids=str)


def at(show, place, **options):
    """The place, and no other: a view that does not serve its trace would leave another one standing there."""
    page = show(place.trace, **place.state, **options)
    assert f"view={place.view}" in page.address
    assert page.stage.get_attribute("aria-label").lower() == place.view, page.tabs
    return page


@views
def test_a_view_opens_and_draws_something(show, place):
    page = at(show, place)
    assert page.page.get_by_role("alert").count() == 0
    drawn = page.stage.locator("canvas, svg, img, table, p, li")
    assert drawn.count() > 0
    assert page.stage.bounding_box()["height"] > 100


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@each_view
def test_axe_finds_nothing_to_mend(show, place, dark):
    if not AXE.is_file():
        pytest.fail("axe is not installed: make setup (npm ci in web/)", pytrace=False)
    assert at(show, place, dark=dark).faults() == []


@views
def test_nothing_sticks_out_sideways_on_a_phone(show, place):
    assert at(show, place, **PHONE).sideways() == []


@each_view
def test_the_picture_leaves_as_svg_without_a_script_and_as_png(show, place):
    page = at(show, place)
    text = page.saved("SVG").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert len(list(root.iter())) > 5
    refused = [node.tag for node in root.iter() if node.tag in (f"{SVG}script", f"{SVG}foreignObject")]
    handlers = [name for node in root.iter() for name in node.attrib if name.startswith("on")]
    outside = [
        node.get(name)
        for node in root.iter()
        for name in HREF
        if not (node.get(name) or "#").startswith(("#", "data:image/"))
    ]
    assert (refused, handlers, outside) == ([], [], [])
    picture = Image.open(io.BytesIO(page.saved("PNG").read_bytes()))
    width, height = (float(root.get(side)) for side in ("width", "height"))
    assert picture.size == (round(2 * width), round(2 * height)), "two pixels a side of each of its own"
    assert len(picture.convert("RGB").getcolors(1 << 24)) > 3, "a picture of something"


@each_view
def test_every_picture_has_a_table_twin(show, place):
    heading, *rows = at(show, place).table()
    assert len(heading) > 1
    assert rows
    assert all(len(row) == len(heading) for row in rows)
    assert any(re.search(r"\d", text) for row in rows for text in row[1:])


@each_view
def test_every_control_has_a_name_and_the_keyboard_reaches_it(show, place):
    page = at(show, place)
    controls = page.page.locator(
        "button:visible, select:visible, input:visible, textarea:visible, [tabindex='0']:visible"
    )
    enabled = controls.evaluate_all("all => all.filter(each => !each.disabled).length")
    page.page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(enabled + 40):
        page.page.keyboard.press("Tab")
        found = page.page.evaluate(
            """() => {
              const here = document.activeElement;
              if (!here || here === document.body) return null;
              window.reached ??= new Map();
              if (!window.reached.has(here)) window.reached.set(here, window.reached.size);
              const style = getComputedStyle(here);
              return [window.reached.get(here), style.outlineStyle !== "none" || style.boxShadow !== "none", here.outerHTML.slice(0, 120)];
            }"""
        )
        if found is None:
            break
        number, visible, markup = found
        assert visible, f"no focus to be seen on {markup}"
        if number in reached:
            break
        reached.add(number)
    assert len(reached) >= min(enabled, 5)


@pytest.mark.parametrize("harm", HARMED)
@each_view
def test_a_harmed_trace_opens_runs_nothing_and_overflows_nothing(show, place, harm):
    page = show(f"{harm} {place.trace}", **place.state)
    if harm == "empty" and page.stage.get_attribute("aria-label").lower() != place.view:
        pytest.skip("a trace of nothing has no such view")
    assert page.stage.get_attribute("aria-label").lower() == place.view, page.tabs
    assert "could not be drawn" not in page.stage.inner_text()
    assert not page.executed()
    assert page.sideways() == []
    page.press("ArrowRight", "ArrowDown", "End", "ArrowUp", "Home")
    text = page.page.locator("#saccade").inner_text()
    assert "NaN" not in text
    assert "undefined" not in text
    assert "Infinity" not in text
    page.page.set_viewport_size(PHONE)
    assert page.settled().sideways() == []


def test_every_view_that_there_is_is_looked_at_here(show):
    seen = {title.lower() for name in NAMES[:13] for title in show(name).tabs}
    assert seen == set(SHOWN)
