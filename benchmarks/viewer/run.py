"""How long a reader waits for 144 heads, and how large the page is: saccade, BertViz and CircuitsVis in one browser.

    python benchmarks/viewer/run.py --out FILE [--sizes 64,128,256,512] [--repeats 3]
                                    [--peers VENV/bin/python --scripts FOLDER] [--peer-sizes 64,128]

12 layers × 12 heads over T tokens, the same random rows for all: softmax of scores whose spread grows from head to head, from
nearly even to nearly one-hot. Each page is a file; headless Chromium opens it in a fresh profile, and the time runs from the
navigation's start until the view is usable: what ``TOOLS`` says of each is drawn, and the page's thread is free (two frames
have passed). What is not usable in 120 s has failed.

BertViz's page asks a CDN for three scripts and stays empty without them. To let it run at all, its requests are answered from
``--scripts``, a folder with require.min.js, d3.min.js and jquery.min.js (from the npm packages requirejs 2.3.6, d3 5.7.0 and
jquery 2.1.4; the 2.0.0 that it asks for is not on npm); every other request is refused.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from playwright.sync_api import Browser, Error, Route, sync_playwright

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace
from saccade.views.html import page as html

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name

LAYERS, HEADS = 12, 12
TIMEOUT = 120  # seconds
GRACE = 15  # seconds more, for the browser to start and to end
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Tool:
    """A viewer: what it calls itself, what makes it usable (in words, and as a script), and where its page opens."""

    title: str
    usable: str
    script: str
    hash: str = ""


TOOLS = {
    "saccade": Tool(
        "saccade, wall of heads",
        "the wall of all 144 heads is painted: any of them answers the pointer and zooms",
        """T => performance.getEntriesByName("saccade:usable").length > 0
             && !document.querySelector("[aria-busy=true]") && painted(document.querySelector("main canvas"))""",
        "view=heads",
    ),
    "bertviz-head": Tool(
        "BertViz head view",
        "the lines of the first layer's 12 heads are in the document (the other 11 layers are drawn when chosen)",
        "T => document.getElementsByTagName('line').length >= 12 * T * T",
    ),
    "bertviz-model": Tool(
        "BertViz model view",
        "the lines of all 144 thumbnails are in the document",
        "T => document.getElementsByTagName('line').length >= 144 * T * T",
    ),
    "circuitsvis-12": Tool(
        "CircuitsVis attention heads, 12 of the 144",
        "the 12 small pictures are painted",
        "T => document.querySelectorAll('canvas').length >= 12 && painted([...document.querySelectorAll('canvas')].at(-1))",
    ),
    "circuitsvis-144": Tool(
        "CircuitsVis attention heads",
        "the 144 small pictures are painted",
        "T => document.querySelectorAll('canvas').length >= 144 && painted([...document.querySelectorAll('canvas')].at(-1))",
    ),
}
# Runs in the page from its first moment. Nothing is asked of the page until it has told: a question would wait in line.
WATCH = """(usable, T) => {
  const look = () => usable(T)
    ? requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => window.usableAfter = performance.now() / 1000)))
    : setTimeout(look, 10);
  addEventListener("DOMContentLoaded", look);
}"""
PAINTED = """canvas => {
  if (!canvas || !canvas.width || !canvas.height) return false;
  const small = document.createElement("canvas");
  small.width = small.height = 16;
  const pen = small.getContext("2d");
  pen.drawImage(canvas, 0, 0, 16, 16);
  return new Set(new Uint32Array(pen.getImageData(0, 0, 16, 16).data.buffer)).size > 2;
}"""


# ---- What is shown


def attention(T: int) -> torch.Tensor:
    """Rows [layers, heads, T, T] from nearly even to nearly one-hot."""
    generator = torch.Generator().manual_seed(T)
    spread = torch.linspace(0.3, 6.0, LAYERS * HEADS).reshape(LAYERS, HEADS, 1, 1)
    return (torch.randn(LAYERS, HEADS, T, T, generator=generator) * spread).softmax(-1)


def ours(weights: torch.Tensor, path: Path) -> float:
    """Writes our page; the seconds that took."""
    T = weights.shape[-1]
    start = time.perf_counter()
    maps = [
        AttentionMap(
            f"layers.{layer}.attention", "text", "text", "dense", {"weights": weights[layer, head]}, head, keys=T
        )
        for layer in range(LAYERS)
        for head in range(HEADS)
    ]
    html.save(Trace({"text": Tokens(tuple(f"token{i}" for i in range(T)))}, tuple(maps)), path)
    return time.perf_counter() - start


# ---- What is measured


@contextmanager
def chromium() -> Iterator[Browser]:
    program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
    if program is None:
        raise SystemExit("no Chromium here: install it (apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def opened(name: str, path: Path, T: int, scripts: Path | None) -> float | str:
    """Seconds until the page is usable, or why it never was."""
    tool = TOOLS[name]

    def answer(route: Route) -> None:
        address = route.request.url
        served = scripts / address.rsplit("/", 1)[-1] if scripts else None
        if address.startswith("file:"):
            route.continue_()
        elif served is not None and served.is_file():
            route.fulfill(path=served, content_type="text/javascript")
        else:
            route.abort()

    try:
        # A browser of its own each time: what one page left in memory must not slow the next.
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.route("**/*", answer)
            page.add_init_script(f"{{ const painted = {PAINTED}; ({WATCH})({tool.script}, {T}) }}")
            page.set_default_timeout(TIMEOUT * 1000)
            page.goto(f"{path.as_uri()}#{tool.hash}", wait_until="commit")
            return float(page.wait_for_function("() => window.usableAfter").json_value())
    except Error as error:
        return "the page crashed" if "crash" in str(error).lower() else f"nothing in {TIMEOUT} s"


def asked(name: str, path: Path, T: int, scripts: Path | None) -> float | str:
    """:func:`opened` in a process of its own: a page that never lets go would keep its browser, and us, from ending."""
    command = [sys.executable, __file__, "--open", name, str(path), str(T), *([str(scripts)] if scripts else [])]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        said, _ = child.communicate(timeout=TIMEOUT + GRACE)
        found: float | str = json.loads(said.splitlines()[-1]) if child.returncode == 0 else "the browser failed"
        return found
    except subprocess.TimeoutExpired:
        return f"nothing in {TIMEOUT} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # the browser is in the child's session
        child.wait()


def measured(name: str, path: Path, T: int, scripts: Path | None, repeats: int) -> dict[str, object]:
    times = []
    for _ in range(repeats):
        found = asked(name, path, T, scripts)
        if isinstance(found, str):
            return {"seconds": found}
        times.append(found)
        if found > 20:  # the second decimal of so long a wait is nobody's concern
            break
    return {"seconds": statistics.median(times), "runs": times}


def rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        for T in options.sizes:
            weights = attention(T)
            path = Path(folder) / "saccade.html"
            written = ours(weights, path)
            yield row("saccade", T, path, written, options)
            if options.peers and T in options.peer_sizes:
                yield from peer_rows(weights, T, Path(folder), options)


def peer_rows(weights: torch.Tensor, T: int, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    np.save(folder / "weights.npy", weights.numpy())
    script = Path(__file__).with_name("peers.py")
    for name in options.tools:
        made = subprocess.run(
            [options.peers, script, folder / "weights.npy", folder, name], capture_output=True, text=True, timeout=900
        )
        if made.returncode:
            yield {"name": name, "T": T, "seconds": f"no page: {made.stderr.strip().splitlines()[-1][:120]}"}
            continue
        told = json.loads(made.stdout.splitlines()[-1])
        yield row(name, T, Path(told["path"]), told["seconds"], options) | {"versions": told["versions"]}
        Path(told["path"]).unlink()


def row(name: str, T: int, path: Path, written: float, options: argparse.Namespace) -> dict[str, object]:
    result = {"name": name, "T": T, "bytes": path.stat().st_size, "written": written}
    result |= measured(name, path, T, options.scripts, options.repeats)
    print(json.dumps(result), flush=True)
    return result


# ---- What is written down


def table(found: list[dict[str, object]], options: argparse.Namespace) -> str:
    with chromium() as browser:
        version = browser.version
    versions = next((row["versions"] for row in found if "versions" in row), {})
    named = "".join(f", {name} {number}" for name, number in versions.items())
    cores = f"{cpu_name()}, {len(os.sched_getaffinity(0))}"
    lines = [
        "# 144 heads in a browser",
        "",
        f"{datetime.date.today()} · {cores} cores · Chromium {version}, headless · Python {platform.python_version()}{named}",
        "",
        "12 layers × 12 heads over T tokens, the same random rows for all tools. The time runs from the start of the",
        f"navigation until the view is usable; medians of up to {options.repeats} runs, each in a browser of its own. What is",
        f"not usable in {TIMEOUT} s has failed.",
        "",
        "| T | tool | page | written in | usable after |",
        "|---|---|---|---|---|",
    ]
    lines += [line(row) for row in found]
    lines += ["", "Usable means:", ""]
    lines += [
        f"- {tool.title}: {tool.usable};" for name, tool in TOOLS.items() if any(row["name"] == name for row in found)
    ]
    lines += [
        "",
        "and then that the page's thread is free (two frames have passed).",
        "",
        "BertViz's page asks a CDN for require.js, d3 and jQuery, and without a network it stays empty; here those three",
        "requests were answered from local files (jQuery 2.1.4 in place of 2.0.0), so its times hold no network. CircuitsVis",
        "is measured with its script inside the page. saccade's page asks for nothing.",
        "",
    ]
    return "\n".join(lines)


def line(row: dict[str, object]) -> str:
    size = f"{row['bytes'] / 1e6:.1f} MB" if "bytes" in row else "–"
    written = f"{row['written']:.1f} s" if "written" in row else "–"
    seconds = row["seconds"] if isinstance(row["seconds"], str) else f"{row['seconds']:.2f} s"
    return f"| {row['T']} | {TOOLS[str(row['name'])].title} | {size} | {written} | {seconds} |"


def main() -> None:
    numbers = lambda text: [int(part) for part in text.split(",") if part]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=numbers, default=[64, 128, 256, 512])
    parser.add_argument("--peer-sizes", type=numbers, default=[64, 128])
    parser.add_argument("--peers", help="a Python that has bertviz and circuitsvis")
    parser.add_argument("--scripts", type=Path, help="a folder with the three scripts that BertViz asks a CDN for")
    parser.add_argument(
        "--tools", type=lambda text: text.split(","), default=[name for name in TOOLS if name != "saccade"]
    )
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.out.write_text(table(list(rows(options)), options), encoding="utf-8")
    print(options.out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--open"]:
        name, path, T, *scripts = sys.argv[2:]
        print(json.dumps(opened(name, Path(path), int(T), Path(scripts[0]) if scripts else None)))
    else:
        main()
