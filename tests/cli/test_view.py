"""``saccade view``: pages from runs, from traces, and live."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from saccade import api, server
from saccade.recipes.recipe import read_recipe
from saccade.trace import Trace
from saccade.views.html import page as html

RECIPE = """
task: translate
data: {source: dates, dates: {train: 60, valid: 5, test: 7, languages: [de]}}
model: {name: rnnsearch, hidden: 7, embedding: 5, maxout: 3}
train: {updates: 2, device: cpu}
search: {beam: 3}
metrics: [exact_match]
"""
PLAIN = RECIPE.replace("rnnsearch, hidden: 7, embedding: 5, maxout: 3", "seq2seq, hidden: 7, embedding: 5")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run that looks back and one that does not."""
    home = tmp_path_factory.mktemp("home")
    for name, recipe in (("one", RECIPE), ("plain", PLAIN)):
        (home / f"{name}.yaml").write_text(recipe)
        api.train(read_recipe(home / f"{name}.yaml"), folder=home / name)
    Trace(about={"input": "5. Mai"}).save(home / "a.trace")
    return home


@pytest.fixture
def saccade(command, monkeypatch, runs, tmp_path):
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("explorer", "heads", "sources", "beam", "sheet", "judging", "tour", "sound"):
        for kind in (".js", ".css"):
            (assets / f"{name}{kind}").write_text("")
    monkeypatch.setattr(html, "ASSETS", assets)
    monkeypatch.chdir(runs)
    return command


def header(path: str) -> dict:
    found = re.search(r'id="saccade-data">(.*?)</script>', Path(path).read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_page_holds_every_detail_of_a_decode(saccade) -> None:
    status, out, err = saccade("view", "one", "5. Mai 2009", "--out", "x.html")
    assert status == 0, err
    assert re.fullmatch(r"5\. Mai 2009 → .*  x\.html  \(\d+ kB\)\n", out)
    [trace] = header("x.html")["traces"]
    [look] = trace["maps"]
    assert set(look["tensors"]) == {"weights", "scores"}
    assert set(trace["signals"]) == {"encoder.state", "decoder.attention.context", "decoder.start", "decoder.state"}
    assert trace["outputs"]["labels"] and trace["tree"]["labels"]


def test_a_page_says_whose_trace_it_is_what_it_reached_and_by_which_score(saccade) -> None:
    assert saccade("view", "one", "5. Mai 2009", "--out", "x.html")[0] == 0
    about = header("x.html")["traces"][0]["about"]
    assert (about["model"], about["recipe"], about["input"]) == ("rnnsearch", "one", "5. Mai 2009")
    assert about["metrics"]["exact_match"] == api.load("one").figures["test"]["exact_match"]
    assert about["scores"] == {"decoder.attention": "additive"}
    assert "normalise" not in about, "a softmax needs no word"


def test_several_inputs_make_one_page_but_a_picture_each(saccade) -> None:
    status, out, err = saccade("view", "one", "5. Mai 2009", "6. Mai", "--out", "both.html")
    assert status == 0, err
    assert out.startswith("2 inputs  both.html  (")
    assert [trace["name"] for trace in header("both.html")["traces"]] == ["5. Mai 2009", "6. Mai"]
    assert saccade("view", "one", "5. Mai 2009", "6. Mai", "--out", "both.trace")[0] == 0
    assert Path("both-1.trace").exists() and Path("both-2.trace").exists()


def test_a_model_that_does_not_look_back_has_a_page_too(saccade) -> None:
    status, _, err = saccade("view", "plain", "5. Mai 2009", "--out", "plain.html")
    assert status == 0, err
    [trace] = header("plain.html")["traces"]
    assert trace["maps"] == [] and {"encoder.state", "decoder.state"} <= set(trace["signals"])
    assert len(trace["axes"]["source"]["labels"]) == len("5. Mai 2009") + 1
    status, _, err = saccade("view", "plain", "5. Mai 2009")
    assert status == 1 and "has no attention" in err and "--out x.html" in err


def test_a_trace_stands_in_for_a_run(saccade) -> None:
    assert saccade("view", "one", "5. Mai 2009", "--out", "b.trace")[0] == 0
    assert saccade("view", "one", "5. Mai 2009", "--out", "direct.html")[0] == 0
    assert saccade("view", "b.trace", "--out", "again.html")[0] == 0
    assert Path("again.html").read_bytes() == Path("direct.html").read_bytes()
    assert saccade("view", "a.trace", "b.trace", "--out", "both.html")[0] == 0
    assert len(header("both.html")["traces"]) == 2
    status, out, _ = saccade("view", "b.trace")
    assert status == 0 and "decoder.attention" in out
    assert Trace.load("b.trace").outputs is not None


FAULTS = {
    "nothing to draw": (["a.trace"], "no attention maps"),
    "an unknown ending": (["one", "x", "--out", "x.htm"], "x.htm: expected a file ending in one of .html, .pdf, .png"),
    "text after a trace": (["a.trace", "5. Mai"], "expected further .trace files after a.trace, found '5. Mai'"),
    "a beam for a trace": (["a.trace", "--beam", "3"], "a.trace: options of the search need a run"),
    "a trace that is not there": (["no.trace"], "no.trace"),
    "a trace to serve": (["a.trace", "--serve"], "a.trace: --serve needs a run"),
    "a port without serving": (["one", "x", "--port", "7"], "--port needs --serve"),
    "a host without serving": (["one", "x", "--host", "::"], "--host needs --serve"),
    "a file while serving": (["one", "--serve", "--out", "x.html"], "--out cannot be combined with --serve"),
    "a gallery to serve": (["--demo", "--serve"], "--serve cannot be combined with --demo"),
    "a gallery's weights to test": (["--demo", "--truth"], "--truth cannot be combined with --demo"),
    "a beam for the gallery": (["--demo", "--beam", "3"], "--demo has no model"),
    "a wish while serving": (["one", "--serve", "--prefix", "2"], "--prefix cannot be combined with --serve"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_line(saccade, fault) -> None:
    words, message = FAULTS[fault]
    status, out, err = saccade("view", *words)
    assert (status, out) == (1, "")
    assert len(err.strip().splitlines()) == 1 and message in err, err


def test_serving_hands_the_model_its_inputs_and_its_search_on(saccade, monkeypatch) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed")
    asked = SimpleNamespace()
    monkeypatch.setattr(
        server, "run", lambda bundles, **how: asked.__dict__.update(bundles=bundles, **how), raising=False
    )
    status, _, err = saccade("view", "one", "5. Mai", "--serve", "--port", "0", "--beam", "7")
    assert status == 0, err
    assert (asked.port, asked.inputs, asked.open_page) == (0, ["5. Mai"], False)
    assert not hasattr(asked, "host"), "the server's own default"
    [(name, bundle)] = asked.bundles.items()
    assert name == "one" and bundle.recipe.search.beam == 7


def test_a_tested_page_says_how_far_to_trust_its_weights(saccade) -> None:
    status, _, err = saccade("view", "one", "5. Mai 2009", "--truth", "--out", "tested.html")
    assert status == 0, err
    [trace] = header("tested.html")["traces"]
    found = trace["about"]["faithfulness"]
    assert found["sentence"] and {curve["name"] for curve in found["curves"]} and found["figures"]
    for words in (("one", "5. Mai", "--truth"), ("a.trace", "--truth", "--out", "x.html")):
        status, _, err = saccade("view", *words)
        assert status == 1 and "--truth needs a run and a page" in err


def test_the_gallery_is_a_page_that_needs_no_run(saccade, tmp_path) -> None:
    status, out, err = saccade("view", "--demo", "--out", str(tmp_path / "gallery.html"))
    assert status == 0, err
    assert "gallery.html" in out
    kinds = {
        axis["kind"] for trace in header(str(tmp_path / "gallery.html"))["traces"] for axis in trace["axes"].values()
    }
    assert {"tokens", "sentences", "grid", "frames", "nodes", "visits", "reviews"} <= kinds
    for words, told in (
        (("one", "--demo"), "expected no run, found one"),
        (("--demo", "--out", "x.png"), "expected a file ending in .html"),
        ((), "expected RUN"),
    ):
        status, _, err = saccade("view", *words)
        assert status == 1 and told in err
