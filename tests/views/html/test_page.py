"""A trace as one HTML file: nothing of it is markup, nothing comes from elsewhere, and a notebook shows it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html as entities
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.trace import AttentionMap, Trace
from saccade.trace.axes import Frames, Positions, Sentences, Tokens
from saccade.views.html import page as html

HOSTILE = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "]]>", "&amp;", "'\"", "\u2028",
           "\x00", "\ud800", "a" * 5000, "", "שלום", "日本", "👩‍👩‍👧")  # fmt: skip
SCRIPT = "const end = '</script>', open = '<!--', style = '</STYLE >'; // ä\n"
STYLE = ".end::after { content: '</style><b>' }"


class Reader(HTMLParser):
    """What a browser finds: elements with their attributes and the text right inside them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.inside = False
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), ""))
        self.inside = True

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data)

    def all(self, tag):
        return [(attributes, text) for name, attributes, text in self.elements if name == tag]

    @property
    def header(self):
        return json.loads(
            next(text for attributes, text in self.all("script") if attributes.get("id") == "saccade-data")
        )


@pytest.fixture(autouse=True)
def assets(tmp_path, monkeypatch):
    """A script and a style that try to end too early, in place of the built ones."""
    folder = tmp_path / "assets"
    folder.mkdir()
    (folder / "explorer.js").write_text(SCRIPT, encoding="utf-8")
    (folder / "explorer.css").write_text(STYLE, encoding="utf-8")
    for name in ("heads", "sources", "sound", "beam", "sheet", "tour", "live", "judging"):
        (folder / f"{name}.js").write_text(f"{name}()", encoding="utf-8")
        (folder / f"{name}.css").write_text("", encoding="utf-8")
    monkeypatch.setattr(html, "ASSETS", folder)
    return folder


@pytest.fixture
def trace():
    source = Tokens(HOSTILE, text="".join(HOSTILE))
    weights = torch.rand(3, len(HOSTILE)).softmax(-1)
    map = AttentionMap("decoder.attention", "target", "source", "dense", {"weights": weights}, keys=len(HOSTILE))
    about = {"input": HOSTILE[0], "output": HOSTILE[1], "recipe": "<b>"}
    return Trace({"source": source, "target": Tokens(("a", "b", "c"))}, (map,), about=about)


def test_hostile_tokens_never_become_markup(trace):
    page = html.page(trace)
    found = Reader(page)
    names = {tag for tag, _, _ in found.elements}
    assert names == {"html", "head", "meta", "link", "title", "style", "body", "div", "noscript", "p", "bdi", "script"}
    runs = [text for attributes, text in found.all("script") if "type" not in attributes]
    assert len(runs) == 2 and runs[1] == "sheet()", "the explorer's own scripts run, and no other"
    labels = found.header["traces"][0]["axes"]["source"]["labels"]
    assert labels == [*HOSTILE]
    data = re.search(r'id="saccade-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None and "<" not in data[1] and data[1].isascii()


def test_blocks_stand_beside_the_header_and_hold_the_weights(trace):
    found = Reader(html.page(trace))
    blocks = {attributes["data-block"]: text for attributes, text in found.all("script") if "data-block" in attributes}
    assert list(blocks) == [str(number) for number in range(len(blocks))]
    where = found.header["traces"][0]["maps"][0]["tensors"]["weights"]["block"]
    numbers = gzip.decompress(base64.b64decode(blocks[str(where)]))
    assert numbers == trace.maps[0].weights.numpy().tobytes()


def test_a_script_that_holds_the_end_of_a_script_is_carried_whole(trace):
    found = Reader(html.page(trace))
    script, _ = [text for attributes, text in found.all("script") if "type" not in attributes]
    assert script == SCRIPT.replace("</script", "<\\/script").replace("<!--", "\\x3c!--").replace(
        "</STYLE", "<\\/STYLE"
    )
    [(_, style)] = found.all("style")
    assert style == STYLE.replace("</style", "<\\/style")


def test_the_policy_lets_these_scripts_run_and_nothing_be_fetched(trace):
    found = Reader(html.page(trace))
    scripts = [text for attributes, text in found.all("script") if "type" not in attributes]
    [policy] = [meta["content"] for meta, _ in found.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert rules["default-src"] == "'none'" and rules["connect-src"] == "'none'"
    assert rules["script-src"] == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert "http" not in policy and "*" not in policy
    live = dict(rule.split(" ", 1) for rule in html.policy(scripts, live=True).split("; "))
    assert live["connect-src"] == "'self'"


def test_no_address_outside_the_page_is_named(trace):
    page = html.page(trace)
    assert not re.search(r"https?://|//[a-z]+\.", page)
    for tag, attributes, _ in Reader(page).elements:
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "data:").startswith("data:"), tag


def test_the_page_has_a_language_a_title_and_words_for_those_without_scripts(trace):
    found = Reader(html.page(trace))
    assert found.all("html")[0][0] == {"lang": "en"}
    assert found.all("title")[0][1] == f"<b> · {HOSTILE[0]}"
    assert {"charset": "utf-8"} in [meta for meta, _ in found.all("meta")]
    assert [text for _, text in found.all("bdi")] == [HOSTILE[0], HOSTILE[1]]
    assert "allow JavaScript" in "".join(text for _, text in found.all("p"))
    assert Reader(html.page(trace, title="mine")).all("title")[0][1] == "mine"


def test_a_saved_page_is_utf_8_and_the_same_every_time(trace, tmp_path):
    one, other = tmp_path / "one.html", tmp_path / "other.HTML"
    assert trace.save(one) == one
    trace.save(other, title=None)
    assert one.read_bytes() == other.read_bytes()
    assert "שלום" not in one.read_text(encoding="utf-8"), "JSON escapes what is not ASCII"
    trace.save(one, title="mine")
    assert "<title>mine</title>" in one.read_text(encoding="utf-8")


def test_several_traces_make_one_page(trace):
    header = Reader(html.page([trace, trace, Trace(about={"input": "x"})])).header
    assert [each["name"] for each in header["traces"]] == [HOSTILE[0], f"{HOSTILE[0]} · 2", "x"]
    assert Reader(html.page({"mine": trace}, live={"model": "m", "api": "/v1"})).header["live"]["api"] == "/v1"


def test_where_the_explorer_is_not_built_the_error_says_how(trace, assets, tmp_path):
    (assets / "explorer.css").unlink()
    with pytest.raises(SaccadeError, match=r"explorer\.css is not built: run `make setup`.*wheel"):
        trace.save(tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()
    assert trace._repr_html_() is None, "a notebook falls back to the trace's text"


class TestNotebooks:
    @pytest.fixture
    def shown(self, monkeypatch):
        """A kernel of IPython that keeps what it is asked to display."""
        kept = []
        shell = SimpleNamespace(kernel=object())
        ipython = SimpleNamespace(
            get_ipython=lambda: shell, display=SimpleNamespace(display=lambda *what, **how: kept.append((what, how)))
        )
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        return SimpleNamespace(kept=kept, shell=shell)

    def test_show_displays_a_frame_that_carries_the_page(self, trace, shown, capsys):
        trace.show()
        [((bundle,), how)] = shown.kept
        assert how == {"raw": True} and bundle["text/plain"] == repr(trace)
        [(frame, _)] = Reader(bundle["text/html"]).all("iframe")
        assert frame["srcdoc"] == html.page(trace)
        assert "height: 720px" in str(frame["style"]) and frame["title"]
        assert capsys.readouterr().out == ""

    def test_a_trace_at_the_end_of_a_cell_shows_itself(self, trace):
        [(frame, _)] = Reader(trace._repr_html_()).all("iframe")
        assert frame["srcdoc"] == html.page(trace)

    def test_one_site_can_be_shown(self, trace, shown):
        with pytest.raises(SaccadeError, match=r"site: expected one of decoder\.attention, found 'x'"):
            trace.show("x")

    @pytest.mark.parametrize("shell", [None, SimpleNamespace(), SimpleNamespace(kernel=None)])
    def test_a_terminal_draws_as_it_does_without_ipython(self, trace, shown, monkeypatch, capsys, shell):
        monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
        trace.show()
        assert shown.kept == [] and "decoder.attention" in capsys.readouterr().out


def test_srcdoc_survives_every_character(trace):
    frame = html.frame(trace)
    inside = frame.partition('srcdoc="')[2].partition('"')[0]
    assert entities.unescape(inside) == html.page(trace)


def test_a_page_carries_the_scripts_of_the_views_that_its_traces_need(trace):
    def carried(traces, **options):
        found = Reader(html.page(traces, **options))
        texts = [text for attributes, text in found.all("script") if "type" not in attributes]
        return [text.removesuffix("()") for text in texts[1:]]

    [map] = trace.maps
    tokens = replace(trace, axes={map.query: Tokens(("x", "y", "z")), map.key: trace.axes[map.key]})
    assert carried(tokens) == ["sheet"]
    assert carried(replace(tokens, maps=())) == [], "nothing that could be laid on a sheet"
    assert carried(replace(tokens, maps=(map, replace(map, head=1)))) == ["heads", "sheet"]
    assert carried([tokens, tokens]) == ["sheet", "judging"]
    assert carried(replace(tokens, axes={**tokens.axes, "sentence": Sentences(("one",))})) == ["sources", "sheet"]
    pooled = replace(tokens, axes={**tokens.axes, map.query: Positions.of(3)})
    assert carried(pooled) == ["sources", "sheet"], "pooled"
    tested = replace(tokens, about={**tokens.about, "faithfulness": {"sentence": "no"}})
    assert carried(tested) == ["sheet", "judging"]
    live = {"model": "m", "api": "/v1"}
    assert carried(tokens, live=live) == ["heads", "sources", "beam", "sheet", "tour", "live", "judging"]
    heard = replace(tokens, axes={**tokens.axes, map.key: Frames.of(len(trace.axes[map.key]), 0.1)})
    assert carried(heard) == ["sound", "sheet"]
    assert "sound" in carried(tokens, live={**live, "input": "audio"})
    assert "sound" not in carried(tokens, live={**live, "input": "text"})
