"""The explorer's page as its reader meets it: by roles, names and keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Download, Locator, Page, Route

LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1:")
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
TOUR = "saccade.tour"
SETTLED = """async () => {
  const frame = () => new Promise(done => requestAnimationFrame(done));
  await frame();
  await frame();
  const waits = () => !document.querySelector(".page") || document.querySelector("[aria-busy=true]");
  for (let i = 0; i < 600 && waits(); i++) await frame();
  if (waits()) throw new Error("the page still waits for its numbers");
}"""
SIDEWAYS = """() => {
  const wide = document.documentElement.clientWidth;
  const scrolls = element => {
    for (let up = element; up; up = up.parentElement) {
      if (/auto|scroll|hidden|clip/.test(getComputedStyle(up).overflowX)) return true;
    }
    return false;
  };
  const out = [...document.body.querySelectorAll("*")].filter(element => {
    const box = element.getBoundingClientRect();
    const leaves = box.right > wide + 1 || box.left < -1;
    return leaves && box.width > 0 && !element.closest("svg *, .unseen") && !scrolls(element);
  });
  if (!out.length && document.documentElement.scrollWidth > wide) return ["the page scrolls sideways"];
  return out.map(element => `${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`);
}"""


@dataclass
class Watch:
    """What a page did that none may do: ask the network, complain, open a dialog."""

    seen: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        context.route("**/*", self._request)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.seen.append(f"threw {error.error}"))
        context.on("dialog", self._dialog)

    def check(self) -> None:
        """Fails if there was anything."""
        assert not self.seen, "\n".join(self.seen)

    def _request(self, route: Route) -> None:
        if route.request.url.startswith(LOCAL):
            return route.continue_()
        self.seen.append(f"asked for {route.request.url}")
        return route.abort()

    def _console(self, message: ConsoleMessage) -> None:
        told = f"wrote to the console: {message.text[:200]}"
        if message.type in ("error", "warning") and told not in self.seen:
            self.seen.append(told)

    def _dialog(self, dialog: Dialog) -> None:
        self.seen.append(f"opened a dialog: {dialog.message}")
        dialog.dismiss()


def number(text: str) -> float:
    """A number as the page writes it; of what is only told as less than another, half of that."""
    plain = text.replace("−", "-").replace("+", "").replace("\xa0", "").removeprefix("≈")
    return float(plain[1:]) / 2 if plain[:1] in ("<", ">") else float(plain)


class Explorer:
    """One page, opened."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def settled(self) -> Explorer:
        """Waits until what was asked for has been drawn: two frames, and no number still on its way."""
        self.page.evaluate(SETTLED)
        return self

    def go(self, **state: Any) -> Explorer:
        """Goes to what an address says: ``go(view="heads", step=3)``."""
        self.page.evaluate("hash => { location.hash = hash }", urlencode(state))
        return self.settled()

    @property
    def address(self) -> str:
        return self.page.evaluate("location.hash")

    def button(self, name: str | re.Pattern[str], exact: bool = True) -> Locator:
        return self.page.get_by_role("button", name=name, exact=exact)

    @property
    def tabs(self) -> list[str]:
        return self.page.get_by_role("navigation", name="views").get_by_role("button").all_inner_texts()

    def tab(self, title: str) -> Explorer:
        self.page.get_by_role("navigation", name="views").get_by_role("button", name=title, exact=True).click()
        return self.settled()

    def press(self, *keys: str) -> Explorer:
        for key in keys:
            self.page.keyboard.press(key)
        return self.settled()

    @property
    def said(self) -> str:
        """The sentence of the moment."""
        return self.page.locator(".readout p").first.inner_text().strip()

    @property
    def count(self) -> str:
        """ "step 3 of 5"."""
        return self.page.locator(".scrubber .count").inner_text()

    @property
    def stage(self) -> Locator:
        return self.page.get_by_role("main")

    @property
    def matrix(self) -> Locator:
        return self.stage.get_by_role("application").first

    def table(self) -> list[list[str]]:
        """The picture's twin, its heading first; the picture is back afterwards."""
        switch = self.stage.get_by_role("button", name="table", exact=True).first
        switch.click()
        rows = self.page.locator(".twin table").first.evaluate(
            "table => [...table.rows].map(row => [...row.cells].map(cell => cell.textContent))"
        )
        switch.click()
        self.settled()
        return rows

    def saved(self, kind: str) -> Path:
        """The file that the header's button (PNG or SVG) saves."""
        return self.downloaded(self.button(f"save the picture as {kind}").click)

    def downloaded(self, act: Callable[[], None]) -> Path:
        with self.page.expect_download() as waiting:
            act()
        download: Download = waiting.value
        return Path(download.path())

    def sideways(self) -> list[str]:
        """Elements that stick out of the window and cannot be scrolled to; empty when the page does not overflow."""
        return self.page.evaluate(SIDEWAYS)

    def faults(self) -> list[str]:
        """What axe finds wrong with the page for readers who do not see it, or see it otherwise."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{fault['id']}: {fault['help']}: {node['html'][:160]} ({node.get('failureSummary', '')[:200]})"
            for fault in found["violations"]
            for node in fault["nodes"][:3]
        ]

    def executed(self) -> bool:
        """Whether a token became a script or an element of its own."""
        made = "#saccade script, #saccade img[src=x], [onerror], [onload], #saccade [href^=javascript]"
        return self.page.evaluate("made => !!document.querySelector(made)", made)
