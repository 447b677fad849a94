"""The first page shows the model's own example."""

from __future__ import annotations

import json
import re
import threading

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("httpx2", reason="httpx2, of the test client, is not installed")

from fastapi.testclient import TestClient

from saccade.errors import InputError, SaccadeError
from saccade.server import create_app
from saccade.views.html import page as html


def shown(page: str) -> dict:
    [found] = re.findall(r'<script type="application/json" id="saccade-data">(.*?)</script>', page)
    return json.loads(found)


def first_page(bundle, path: str = "/", **options):
    with TestClient(create_app({"my": bundle, "other": bundle}, **options), base_url="http://localhost") as client:
        return client.get(path)


class Without:
    """A bundle that has lost its data."""

    def __init__(self, bundle) -> None:
        self.bundle = bundle

    def __getattr__(self, name):
        return getattr(self.bundle, name)

    def examples(self, count):
        raise SaccadeError("pairs.tsv: no such file")


def test_the_page_shows_a_held_out_input_and_is_live(bundle, explorer, monkeypatch) -> None:
    # As after training; a loaded run shows none.
    monkeypatch.setattr(bundle, "test_records", bundle.held_out("test")[0])
    response = first_page(bundle)
    data = shown(response.text)
    examples = bundle.examples(5)
    assert data["traces"][0]["about"]["input"] == examples[0]
    assert data["traces"][0]["about"]["output"] == bundle.predict(examples[0])[0].value
    assert {"decoder.state", "decoder.context"} & set(data["traces"][0]["signals"]) or data["traces"][0]["outputs"]
    assert data["live"] == {"model": "my", "api": "/v1", "examples": examples, "measures": True, "input": "text"}


def test_another_model_has_a_page_of_its_own(bundle, explorer) -> None:
    assert shown(first_page(bundle, "/?model=other").text)["live"]["model"] == "other"


def test_inputs_that_were_asked_for_come_first(bundle, explorer) -> None:
    data = shown(first_page(bundle, inputs=["der maus ist alt", "katze"]).text)
    assert [each["about"]["input"] for each in data["traces"]] == ["der maus ist alt", "katze"]
    with pytest.raises(InputError, match="input 2: expected a text, found whitespace only"):
        create_app({"my": bundle}, inputs=["katze", " "])


def test_without_examples_the_page_is_empty_and_still_live(bundle, explorer) -> None:
    data = shown(first_page(Without(bundle)).text)
    assert data["traces"] == []
    assert data["live"] == {"model": "my", "api": "/v1", "examples": [], "measures": True, "input": "text"}


def read_examples() -> None:
    """Wait until the thread that reads examples has ended."""
    for thread in threading.enumerate():
        if thread.name == "saccade-examples":
            thread.join(100)


def test_a_page_does_not_wait_long_for_examples(bundle, explorer, monkeypatch) -> None:
    ready = threading.Event()

    class Late(Without):
        def examples(self, count):
            assert ready.wait(100)
            return self.bundle.examples(count)

    # As after training; a loaded run shows none.
    monkeypatch.setattr(bundle, "test_records", bundle.held_out("test")[0])
    monkeypatch.setattr("saccade.server.app.PATIENCE", 0.05)
    with TestClient(create_app({"my": Late(bundle)}), base_url="http://localhost") as client:
        assert shown(client.get("/").text)["traces"] == []
        ready.set()
        read_examples()
        assert len(shown(client.get("/").text)["traces"]) == 1


def test_examples_that_come_while_a_page_is_made_are_on_the_next(bundle, explorer, monkeypatch) -> None:
    asked = threading.Event()

    class Late(Without):
        def examples(self, count):
            assert asked.wait(100)
            return ["der hund ist rot"]

    def making(*traces, **options):
        asked.set()
        read_examples()
        return page(*traces, **options)

    page = html.page
    monkeypatch.setattr("saccade.server.app.PATIENCE", 0.05)
    monkeypatch.setattr(html, "page", making)
    with TestClient(create_app({"my": Late(bundle)}), base_url="http://localhost") as client:
        assert shown(client.get("/").text)["live"]["examples"] == []
        assert shown(client.get("/").text)["live"]["examples"] == ["der hund ist rot"]


def test_the_policy_lets_the_pages_own_script_ask_its_own_server_and_nothing_else(bundle, explorer) -> None:
    policy = dict(part.split(" ", 1) for part in first_page(bundle).headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert re.fullmatch(r"('sha256-[\w+/=]+' ?)+", policy["script-src"])
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"


def test_a_server_without_a_page_has_none(bundle) -> None:
    assert first_page(bundle, page=False).status_code == 404


def test_a_page_that_was_not_built_says_how_to_build_it(bundle, monkeypatch) -> None:
    def missing(name: str) -> str:
        raise SaccadeError(f"the explorer's {name} is not built: run `make setup`")

    monkeypatch.setattr("saccade.views.html.page.asset", missing)
    response = first_page(bundle)
    assert "make setup" in response.json()["error"]["message"]
