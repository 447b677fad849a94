"""What is around every view: tabs, colours, the address, the keys, the steps, and what stands where data should be."""

from __future__ import annotations

import base64
import re

import pytest

from saccade.views.html import page as html
from tests.web import made


@pytest.fixture
def page(show):
    return show("decode", view="alignment")


def test_the_header_says_whose_trace_it_is_in_the_traces_own_numbers(page):
    facts = page.page.locator(".facts").inner_text()
    assert "made_up" in facts
    assert re.search(r"273\s?K parameters", facts)
    assert re.search(r"exact match 87\.5\s?%", facts)
    read = page.page.locator(".read")
    assert read.locator("bdi").all_inner_texts() == ["the unseen garden was green", "der Garten war grün"]


def test_only_the_views_that_serve_a_trace_have_a_tab(show):
    assert "Alignment" in show("decode").tabs
    assert "Alignment" not in show("bottleneck").tabs


def test_a_tab_opens_its_view_and_the_address_remembers_it(page):
    for title in page.tabs:
        page.tab(title)
        assert page.stage.get_attribute("aria-label") == title
        current = page.page.get_by_role("navigation", name="views").locator("[aria-current]")
        assert current.inner_text() == title
        assert f"view={title.lower()}" in page.address


def test_tabs_are_reached_and_opened_by_the_keyboard(page):
    tabs = page.page.get_by_role("navigation", name="views").get_by_role("button")
    tabs.first.focus()
    page.press("Enter")
    assert tabs.first.get_attribute("aria-current") == "page"
    outline = page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_colours_follow_the_system_and_the_button_changes_them(opened):
    page = opened(made.decode(), color_scheme="dark")
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--paper')"
    dark = page.page.evaluate(paper)
    page.button("light colours").click()
    light = page.settled().page.evaluate(paper)
    assert light != dark
    assert "theme=light" in page.address
    page.page.reload()
    assert page.settled().page.evaluate(paper) == light


def test_share_copies_the_address_that_brings_the_same_view_back(opened):
    page = opened(made.decode(), hash="view=alignment", permissions=["clipboard-read", "clipboard-write"])
    page.matrix.focus()
    page.press("ArrowDown", "ArrowRight", "Enter")
    said = page.said
    page.button("share").click()
    page.page.get_by_text("address copied").wait_for()
    copied = page.page.evaluate("navigator.clipboard.readText()")
    page.page.goto("about:blank")
    page.page.goto(copied)
    assert page.settled().said == said


@pytest.mark.parametrize(
    "rubbish",
    [
        "view=nothing&step=99999&key=-4&head=7&site=nowhere&trace=12&other=80&threshold=NaN&theme=pink",
        "%E0%A4%A&&&==&x.=&x.__proto__=1&x.constructor=2&view=__proto__",
        "<img src=x onerror=alert(1)>",
        "x." + "a" * 5000 + "=" + "b" * 5000,
    ],
)
def test_an_address_full_of_rubbish_still_shows_the_page(show, rubbish):
    page = show("decode")
    page.page.evaluate("hash => { location.hash = hash }", rubbish)
    page.settled()
    assert page.stage.is_visible()
    assert page.page.get_by_role("alert").count() == 0
    assert not page.executed()


def test_the_transport_steps_plays_pauses_and_stops_at_the_end(page):
    last = len(made.WRITTEN)
    page.button("next step").click()
    assert page.settled().count == f"step 2 of {last}"
    page.button("step back").click()
    assert page.settled().count == f"step 1 of {last}"
    page.button("last step").click()
    assert page.settled().count == f"step {last} of {last}"
    assert page.button("next step").is_disabled()
    page.button("play").click()  # from the end it begins again
    page.page.get_by_text(f"step 2 of {last}").wait_for()
    page.button("pause").click()
    page.page.wait_for_timeout(1500)
    assert page.count == f"step 2 of {last}"
    page.button("first step").click()
    assert page.settled().count == f"step 1 of {last}"


def test_playing_ends_by_itself_at_the_last_step(show):
    page = show("decode", view="alignment", step=len(made.WRITTEN) - 2)
    page.button("play").click()
    page.page.get_by_text(f"step {len(made.WRITTEN)} of").wait_for()
    page.button("play").wait_for()


def test_a_token_of_the_output_is_a_button_that_goes_to_its_step(page):
    page.page.get_by_role("group", name=re.compile("output")).get_by_role("button", name="war").click()
    assert page.settled().count == "step 3 of 5"
    assert "war" in page.said


def test_keys_step_move_play_and_list_themselves(page):
    assert page.press("ArrowRight", "ArrowRight").count == "step 3 of 5"
    assert page.press("ArrowLeft").count == "step 2 of 5"
    assert page.press("End").count == "step 5 of 5"
    assert page.press("Home").count == "step 1 of 5"
    most = int(made.decode().maps[0].weights[0].argmax())
    assert f"key={most + 1}" in page.press("ArrowDown").address
    assert f"key={most}" in page.press("ArrowUp").address
    assert "key=" not in page.press("Escape").address
    page.press(" ")
    page.button("pause").wait_for()
    page.press(" ")
    page.button("play").wait_for()
    page.press("?")
    page.page.get_by_role("dialog", name="keys").wait_for()
    page.press("Escape")
    assert page.page.get_by_role("dialog", name="keys").count() == 0


def test_a_screen_reader_is_told_the_moment_once_in_one_place(page):
    page.press("ArrowRight")
    live = page.page.locator("[aria-live]")
    assert live.count() == 1
    page.page.wait_for_function(
        "said => document.querySelector('[aria-live]').textContent.trim() === said", arg=page.said
    )


def test_several_traces_have_a_menu(opened):
    page = opened({"first": made.decode(), "second": made.transformer()})
    page.page.get_by_label("example").select_option(label="second")
    assert "trace=1" in page.settled().address
    assert "transformer" in page.page.locator(".facts").inner_text()


def test_a_page_prints_in_ink_on_paper(page):
    page.page.emulate_media(media="print", color_scheme="light")
    assert page.settled().stage.is_visible()
    assert page.sideways() == []


def test_a_trace_that_kept_nothing_says_what_to_do(show):
    assert "Look again with a lens that keeps some" in show("nothing").stage.inner_text()


def damaged(change) -> str:
    """The page of a decode after something happened to its text."""
    return change(html.page(made.decode()))


def cut_data(text: str) -> str:
    return re.sub(r'(id="saccade-data">).{200}', r"\1", text, count=1)


def newer(text: str) -> str:
    return text.replace('"version":1', '"version":99', 1)


def no_blocks(text: str) -> str:
    return re.sub(r'<script type="text/plain".*?</script>', "", text)


def torn_blocks(text: str) -> str:
    return re.sub(r'(data-block="\d+">)[^<]*', lambda found: found[1] + base64.b64encode(b"no gzip").decode(), text)


@pytest.mark.parametrize(
    ("change", "told"),
    [(cut_data, "cannot be read"), (newer, "version 99"), (no_blocks, "missing"), (torn_blocks, "damaged")],
)
def test_a_damaged_page_says_what_is_wrong_and_what_to_do(visit, tmp_path, change, told):
    (tmp_path / "page.html").write_text(damaged(change), encoding="utf-8")
    page = visit(f"{(tmp_path / 'page.html').as_uri()}#view=alignment")
    alert = page.page.get_by_role("alert").first.inner_text()
    assert told in alert
    assert "Save it again" in alert


def test_without_scripts_the_input_and_the_output_can_be_read(browser, tmp_path):
    html.save(made.decode(), tmp_path / "page.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    text = page.locator("noscript").inner_text()
    context.close()
    assert "the unseen garden was green" in text
    assert "der Garten war grün" in text


def test_in_a_notebooks_frame_the_page_works_without_an_address(visit, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{html.frame(made.decode())}", encoding="utf-8")
    page = visit((tmp_path / "notebook.html").as_uri(), tour=True, framed=True)
    frame = page.page.frame_locator("iframe")
    frame.get_by_role("button", name="next step").click()
    frame.get_by_text("step 2 of 5").wait_for()
    assert frame.get_by_role("dialog").count() == 0, "no tour inside another page"
    assert frame.get_by_role("button", name="share").count() == 0
