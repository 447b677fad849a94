"""Pictures of every view for the documentation, taken from the gallery in headless Chromium.

    python scripts/screenshots.py [FOLDER] [NAME …]

FOLDER is docs/images unless given; with names only those are taken anew. Two pixels a side of each of the page's own, few
colours, so that each file stays small.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from saccade.views.html import gallery

FOLDER = Path(__file__).parents[1] / "docs" / "images"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
SETTLED = "() => document.querySelector('main') && !document.querySelector('[aria-busy=true]')"
MOST = 250_000  # bytes of a picture
SMALLER = ((None, 1), (256, 1), (256, 0.75), (64, 0.75))  # colours and scale, tried in turn


@dataclass(frozen=True)
class Shot:
    """A place in the gallery, as its address says it, and what a reader does there first."""

    example: str
    view: str
    state: dict[str, object] = field(default_factory=dict)
    act: Callable[[Page], None] = lambda page: None
    dark: bool = False
    width: int = 1280
    height: int = 800


def point(x: float, y: float) -> Callable[[Page], None]:
    """Moves the pointer over the picture, to shares of its width and height."""

    def act(page: Page) -> None:
        box = page.get_by_role("main").locator("canvas[role=application]").first.bounding_box()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])

    return act


def tour(page: Page) -> None:
    page.get_by_role("button", name="What am I looking at?").click()
    page.get_by_role("dialog").get_by_role("button", name="next").click()
    page.wait_for_timeout(500)


DATES, TRANSFORMER = "rnnsearch_dates", "transformer_dates"
SHOTS = {
    "steps": Shot(DATES, "steps", {"step": 6}),
    "steps-dark": Shot(DATES, "steps", {"step": 6}, dark=True),
    "steps-phone": Shot(DATES, "steps", {"step": 6}, width=390, height=844),
    "bottleneck": Shot("seq2seq_cho_dates", "steps", {"step": 6}, height=880),
    "tour": Shot(DATES, "steps", act=tour),
    "alignment": Shot(DATES, "alignment", {"step": 6}),
    "heads": Shot(TRANSFORMER, "heads", act=point(0.25, 0.47)),
    "arcs": Shot(TRANSFORMER, "arcs", {"step": 6}),
    "beam": Shot(DATES, "beam", {"step": 6}, height=880),
    "truth": Shot(DATES, "truth"),
    "compare": Shot(DATES, "compare", {"step": 6, "key": 19}, height=1080),
    "document": Shot("document", "document"),
    "image": Shot("picture", "image", {"step": 2}),
    "audio": Shot("sound", "audio", {"step": 3}),
    "graph": Shot("graph", "graph"),
    "timeline": Shot("visits", "timeline"),
}


def address(shot: Shot, page: Path) -> str:
    names = [*gallery.MODELS, *gallery.GENERATED]
    state = {"trace": names.index(shot.example), "view": shot.view, **shot.state}
    return f"{page.as_uri()}#{urlencode(state)}"


def take(page: Page, shot: Shot, path: Path) -> bytes:
    page.set_viewport_size({"width": shot.width, "height": shot.height})
    page.emulate_media(color_scheme="dark" if shot.dark else "light", reduced_motion="reduce")
    page.goto("about:blank")
    page.goto(address(shot, path))
    page.wait_for_function(SETTLED)
    if page.get_by_role("main").get_attribute("aria-label").lower() != shot.view:
        raise SystemExit(f"{shot.example} has no view {shot.view}")
    shot.act(page)
    page.wait_for_timeout(400)
    return small(page.screenshot())


def small(png: bytes) -> bytes:
    """The same picture in a small file: as it is where that does, else in fewer colours, at last with fewer pixels."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours, scale in SMALLER:
        size = (round(picture.width * scale), round(picture.height * scale))
        scaled = picture if scale == 1 else picture.resize(size, Image.Resampling.LANCZOS)
        out = io.BytesIO()
        (fewer(scaled, colours) if colours else scaled).save(out, "PNG", optimize=True)
        if out.tell() <= MOST:
            break
    return out.getvalue()


def fewer(picture: Image.Image, colours: int) -> Image.Image:
    """In so many colours: the most common ones exactly (paper, ink, the accent), the others as near as may be."""
    counted = sorted(picture.getcolors(picture.width * picture.height), reverse=True)
    flat = picture.quantize(colours, Image.Quantize.MAXCOVERAGE).getpalette()
    found = [tuple(flat[at : at + 3]) for at in range(0, len(flat), 3)]
    kept: list[tuple[int, ...]] = []
    for colour in [colour for _, colour in counted[: colours // 4]] + found:
        far = [max(abs(a - b) for a, b in zip(colour, other, strict=True)) for other in kept]
        # A near double of the paper would take pixels from it, since the nearest is only looked for roughly.
        if not far or (far[0] > 12 and min(far) > 4):
            kept.append(colour)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in kept[:colours] for part in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    names = sys.argv[2:] or list(SHOTS)
    program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
    if program is None:
        raise SystemExit("no Chromium here: install it (apt install chromium)")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        path = gallery.save(Path(scratch) / "gallery.html")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(device_scale_factor=2)
        for name in names:
            content = take(page, SHOTS[name], path)
            (folder / f"explorer-{name}.png").write_bytes(content)
            print(f"explorer-{name}.png  {len(content) / 1000:.0f} KB", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
