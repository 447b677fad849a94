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


REACHED = """() => {
  const here = document.activeElement;
  const style = getComputedStyle(here);
  const seen = style.outlineStyle !== "none" || style.boxShadow !== "none" || here.matches("[type=range], [type=checkbox]");
  return [tabbable.indexOf(here), seen, here.outerHTML.slice(0, 120)];
}"""


@each_view
def test_the_keyboard_reaches_every_control_and_shows_where_it_is(show, place):
    page = at(show, place).page
    count = page.evaluate(
        """() => {
          const all = document.querySelectorAll("button, select, input, textarea, [tabindex]");
          window.tabbable = [...all].filter(each => each.tabIndex >= 0 && !each.disabled && each.checkVisibility());
          tabbable[0].focus();
          return tabbable.length;
        }"""
    )
    reached = {0}
    for _ in range(count - 1):
        page.keyboard.press("Tab")
        place_in_order, is_seen, markup = page.evaluate(REACHED)
        assert is_seen, f"no focus to be seen on {markup}"
        reached.add(place_in_order)
    assert reached == set(range(count))


@pytest.mark.parametrize("harm", HARMED)
@each_view
def test_a_harmed_trace_opens_runs_nothing_and_overflows_nothing(show, place, harm):
    page = show(f"{harm} {place.trace}", **place.state)
    # A trace of nothing may lack the view; the page then shows another, or says that there is nothing to show.
    assert harm == "empty" or page.stage.get_attribute("aria-label").lower() == place.view, page.tabs
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
