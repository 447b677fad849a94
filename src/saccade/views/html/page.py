"""Writes a trace as one self-contained HTML file: the explorer, its data and a Content-Security-Policy.

Text of a trace is never markup: it travels as JSON in which ``<`` is written ``\\u003c``, and the policy allows only the
page's own scripts (:func:`chunks`). In a notebook the same page is shown in a frame.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from saccade.errors import SaccadeError
from saccade.storage import write_bytes
from saccade.trace.maps import Trace
from saccade.views.html.payload import PageData, Traces, names, page_data

ASSETS = resources.files("saccade.views").joinpath("assets")  # built from web/
HEIGHT = 720  # pixels of the frame in a notebook
MOST_LISTED, LONGEST_LISTED = 20, 2000  # traces, and characters of each text, for readers without scripts


def page(traces: Traces, *, title: str | None = None, live: Mapping[str, Any] | None = None) -> str:
    """The explorer's page with one trace, several, or a mapping of names to traces.

    Args:
        title: the title of the page; by default derived from the traces.
        live: ``{"model": …, "api": …}`` if a server answers the page.
    """
    data = page_data(traces, title=title, live=live)
    carried = chunks(data.header)
    scripts = [asset(f"{name}.js") for name in carried]
    style = "".join(asset(f"{name}.css") for name in carried)
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts, live is not None)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(data.header['title'])}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        '<div id="saccade"></div>',
        f"<noscript>{_listed(traces)}</noscript>",
        *_data(data),
        *(f"<script>{script}</script>" for script in scripts),
        "</body>",
        "</html>",
        "",
    ]
    # Half of a surrogate pair cannot be encoded in UTF-8.
    return "\n".join(parts).encode("utf-8", "replace").decode("utf-8")


def save(trace: Traces, path: str | Path, *, title: str | None = None) -> None:
    """Write the page of a trace, or of several, as one file."""
    write_bytes(path, page(trace, title=title).encode("utf-8"))


def chunks(header: Mapping[str, Any]) -> list[str]:
    """The scripts that a page with this header needs: the explorer, and those of rarer views.

    A live page has all of them: its next trace may need any; that of sound only where the model reads sound.
    """
    traces, live = header["traces"], header["live"] is not None
    needed = {
        "explorer": True,
        "heads": live or any(len(trace["maps"]) > 1 for trace in traces),
        "sources": live or any(map(_has_other_sources, traces)),
        "sound": _reads_sound(header["live"]) or any("frames" in _kinds(trace) for trace in traces),
        "beam": live or any(trace["tree"] for trace in traces),
        "sheet": live or any(trace["maps"] or trace["outputs"] or trace["signals"] for trace in traces),
        "tour": live or any(trace["outputs"] for trace in traces),
        "live": live,
        "judging": live or len(traces) > 1 or any("faithfulness" in trace["about"] for trace in traces),
    }
    return [name for name, holds in needed.items() if holds]


def _has_other_sources(trace: Mapping[str, Any]) -> bool:
    """Whether it has more than texts that are read and written token by token."""
    kinds = _kinds(trace)
    pooled = any(
        map["queries"] == 1 or trace["axes"].get(map["query"], {}).get("kind") != "tokens" for map in trace["maps"]
    )
    return pooled or "labels" in trace["about"] or not kinds <= {"tokens", "positions", "frames"}


def _kinds(trace: Mapping[str, Any]) -> set[str]:
    return {axis["kind"] for axis in trace["axes"].values()}


def _reads_sound(live: Mapping[str, Any] | None) -> bool:
    return live is not None and live.get("input") == "audio"


def policy(scripts: Sequence[str], live: bool = False) -> str:
    """The Content-Security-Policy of a page: its own scripts, its own media, and its own server if it is live."""
    digests = (base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode() for script in scripts)
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{digest}'" for digest in digests),
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "media-src": "data: blob:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())


def policy_of(page: str) -> str:
    """The policy in a page, for a server that also sends it as a header."""
    match = re.search('http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    if match is None:
        raise SaccadeError("expected a page that saccade.views.html.page wrote, found one without a policy")
    return match[1]


def asset(name: str) -> str:
    """A script or style of the explorer, safe to include in a page."""
    try:
        text = ASSETS.joinpath(name).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise SaccadeError(
            f"the explorer's {name} is not built: run `make setup` in the checkout, or install saccade's wheel, "
            "which carries it"
        ) from None
    # HTML parsers end a script at these letters even inside strings, where a backslash changes nothing.
    text = re.sub(r"</(?=script|style)", r"<\\/", text, flags=re.IGNORECASE)
    return text.replace("<!--", "\\x3c!--") if name.endswith(".js") else text


def _data(data: PageData) -> list[str]:
    # ASCII only: this also escapes the two line separators of JavaScript.
    header = json.dumps(data.header, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    blocks = (
        f'<script type="text/plain" class="saccade-block" data-block="{number}">{base64.b64encode(block).decode()}</script>'
        for number, block in enumerate(data.blocks)
    )
    return [f'<script type="application/json" id="saccade-data">{header}</script>', *blocks]


def _listed(traces: Traces) -> str:
    """The inputs and outputs, for readers without scripts."""
    rows = []
    for name, trace in list(names(traces))[:MOST_LISTED]:
        given, output = (trace.about.get(part) for part in ("input", "output"))
        parts = (given if given is not None else name, output)
        texts = [escape(str(part)[:LONGEST_LISTED]) for part in parts if part is not None]
        rows.append("<p>" + " → ".join(f'<bdi dir="auto">{text}</bdi>' for text in texts) + "</p>")
    return "".join(rows) + "<p>This page draws attention with a script: allow JavaScript to see it.</p>"


def frame(trace: Trace, *, height: int = HEIGHT) -> str:
    """The page inside an iframe (``srcdoc``), so that a saved notebook still shows it."""
    return (
        f'<iframe srcdoc="{escape(page(trace), quote=True)}" title="Where the model looked" '
        f'style="width: 100%; height: {height}px; border: 0" allow="clipboard-write; fullscreen"></iframe>'
    )


def show(trace: Trace) -> None:
    """Display the trace in a notebook; a console without HTML gets its description."""
    # A kernel has imported it.
    display = sys.modules["IPython"].display.display
    display({"text/html": frame(trace), "text/plain": repr(trace)}, raw=True)
