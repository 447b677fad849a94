"""A real browser for the explorer: the system's Chromium, through Playwright, cut off from every network.

A page that asks for anything which is not local, writes an error to its console, throws, or opens a dialog fails the
test that looked at it. Without a browser, or without the built explorer, these tests are skipped; where the variable CI
is set, or SACCADE_BROWSER=required, they fail instead. SACCADE_ASSETS names another build of the explorer to look at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import saccade
from saccade.trace.maps import Trace
from saccade.views.html import page as html
from tests.web import made_model
from tests.web.explorer import TOUR, Explorer, Watch
from tests.web.gallery import GALLERY, NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",  # a microphone that beeps
    "--use-fake-ui-for-media-stream",
)


def _lacking(reason: str) -> NoReturn:
    if os.environ.get("CI") or os.environ.get("SACCADE_BROWSER") == "required":
        pytest.fail(f"{reason} (required here)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser, one a worker, closed before other tests begin: while it runs, no test may have a loop of its own."""
    program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
    if program is None:
        _lacking("no Chromium here: install it (apt install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _lacking("no Playwright here: pip install playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package", autouse=True)
def built() -> Iterator[None]:
    """The explorer's script and style."""
    with pytest.MonkeyPatch.context() as patch:
        if "SACCADE_ASSETS" in os.environ:
            patch.setattr(html, "ASSETS", Path(os.environ["SACCADE_ASSETS"]))
        if not html.ASSETS.joinpath("explorer.js").is_file():
            _lacking("the explorer is not built: make setup")
        yield


@pytest.fixture(scope="package")
def bundle(tmp_path_factory) -> saccade.Bundle:
    """A small trained model."""
    return made_model.trained(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="package")
def gallery(browser, built, tmp_path_factory) -> Iterator[tuple[Explorer, Watch]]:
    """One page of all generated traces, which most tests share: opening one takes longer than most of them."""
    path = tmp_path_factory.mktemp("gallery") / "gallery.html"
    html.save({name: make() for name, make in GALLERY.items()}, path)
    with _context(browser, Watch()) as (context, watch):
        explorer = Explorer(_opened(context, path.as_uri())).settled()
        watch.check()
        yield explorer, watch


@pytest.fixture
def show(gallery) -> Iterator[Callable[..., Explorer]]:
    """Shows one of the generated traces as a fresh page would: ``show("decode", view="alignment", step=2)``."""
    explorer, watch = gallery
    page = explorer.page
    if watch.seen:  # another test's fault, told there
        watch.seen.clear()
        page.reload()
        explorer.settled()
        watch.check()
    page.mouse.move(0, 0)
    if page.locator("dialog[open]").count():  # another test's, over everything
        page.keyboard.press("Escape")
        page.locator("dialog[open]").wait_for(state="detached")

    def show(name: str, *, width: int = 1280, height: int = 800, dark: bool = False, **state: object) -> Explorer:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light", media="screen", reduced_motion="reduce")
        explorer.go(trace=NAMES.index("nothing"))  # what a view remembers goes with its trace
        return explorer.go(trace=NAMES.index(name), **state)

    yield show
    watch.check()


@pytest.fixture
def complaints() -> list[str]:
    """What pages that ``visit`` opened did and may not do; a test takes out what it meant to happen."""
    return []


@pytest.fixture
def visit(browser, complaints) -> Iterator[Callable[..., Explorer]]:
    """Opens an address in a fresh profile: ``visit(address, width=390, color_scheme="dark", tour=True)``."""
    watch = Watch(complaints)
    with ExitStack() as stack:

        def visit(address: str, *, tour: bool = False, framed: bool = False, **options: object) -> Explorer:
            context, _ = stack.enter_context(_context(browser, watch, tour, **options))
            explorer = Explorer(_opened(context, address))
            return explorer if framed else explorer.settled()

        yield visit
    watch.check()


@contextmanager
def _context(
    browser: Browser, watch: Watch, tour: bool = False, *, width: int = 1280, height: int = 800, **options: Any
) -> Iterator[tuple[BrowserContext, Watch]]:
    context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **options)
    watch.over(context)
    if not tour:  # as for a reader who has been here before
        context.add_init_script(f"try {{ localStorage.setItem({TOUR!r}, 'seen') }} catch {{}}")
    yield context, watch
    context.close()


def _opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.set_default_timeout(30_000)  # a busy machine is slow, not wrong
    page.goto(address)
    return page


@pytest.fixture
def opened(visit, tmp_path) -> Callable[..., Explorer]:
    """Saves traces as a page and opens it: ``opened(trace, hash="view=heads")``."""

    def opened(traces: Trace | list[Trace] | Mapping[str, Trace], *, hash: str = "", **options: object) -> Explorer:
        path = tmp_path / "page.html"
        html.save(traces, path)
        # A step that moves says nothing before its last stage: only a test of motion waits for it.
        return visit(f"{path.as_uri()}#{hash}", **{"reduced_motion": "reduce", **options})

    return opened
