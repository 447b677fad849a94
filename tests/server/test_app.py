"""Requests and answers: what a bundle predicts is what HTTP says, and what is wrong is one line."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import asdict
from functools import partial

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("httpx2", reason="httpx2, of the test client, is not installed")

from fastapi.testclient import TestClient
from starlette.requests import Request

import saccade
from saccade.errors import InputError, SaccadeError
from saccade.explain import erasure
from saccade.kinds import IMAGE
from saccade.nn.search.beam_search import Search
from saccade.recipes.recipe import read_recipe
from saccade.server import Limits, create_app
from saccade.server.app import Worker, _body, examples_of
from saccade.server.requests import Refusal
from saccade.trace import Boost, Lens, Mask, Set
from saccade.trace.lens import DETAILS
from saccade.views.html.payload import page_data

TEXT = "der hund ist rot"
ADDRESS = "/v1/models/my/predict"
EDITS = {
    "set": [Set(row=(0.0, 4.0, 0.0, 0.0, 0.0), step=3)],
    "mask": [Mask(keys=(1, 2, 3, 4))],
    "boost": [Boost(keys=(0,), factor=1e6, site="decoder.attention", head=0)],
    "both": [Mask(keys=(0, 2), step=1), Set(row=(0.0, 0.0, 0.0, 4.0, 0.0), step=1)],
}


def ask(client, **body):
    response = client.post(ADDRESS, json={"inputs": [TEXT], **body})
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("trace", [False, True])
def test_an_edit_through_http_is_the_same_edit_of_bundle_predict(client, bundle, name, trace) -> None:
    edits = EDITS[name]
    [answer] = ask(client, trace=trace, edits=[edit.to_json() for edit in edits])
    lens = Lens(edits=edits, detail=DETAILS if trace else ())
    [expected] = bundle.predict(TEXT, lens=lens)
    assert (answer["output"], answer["score"]) == (expected.value, expected.score)
    assert answer["page"] == (json.loads(json.dumps(page_data(expected.trace).to_json())) if trace else None)


def test_edits_change_what_is_written(client) -> None:
    [plain] = ask(client)
    outputs = {
        name: ask(client, edits=[edit.to_json() for edit in edits])[0]["output"] for name, edits in EDITS.items()
    }
    assert outputs["set"] != plain["output"] != outputs["mask"]


def test_an_edit_counts_steps_by_target_position_under_a_prefix_too(client, bundle) -> None:
    row = (0.25, 0.0, 0.75, 0.0, 0.0)
    edit = Set(row=row, step=2)
    [answer] = ask(client, trace=True, prefix="the cat", edits=[edit.to_json()])
    [expected] = bundle.predict(TEXT, lens=Lens(edits=[edit], detail=DETAILS), prefix="the cat")
    assert expected.trace.maps[0].weights[2].tolist() == pytest.approx(row)
    assert answer["output"] == expected.value
    assert answer["page"]["blocks"] == page_data(expected.trace).to_json()["blocks"]


@pytest.mark.parametrize("prefix", ["the cat", "the mouse is", "red"])
def test_a_prefix_is_kept(client, bundle, prefix) -> None:
    [answer] = ask(client, prefix=prefix)
    assert answer["output"].startswith(prefix)
    assert answer["output"] == bundle.predict(TEXT, prefix=prefix)[0].value


def test_several_inputs_are_answered_in_their_order(client, bundle) -> None:
    texts = ["der maus ist neu", TEXT, "katze"]
    answers = client.post(ADDRESS, json={"inputs": texts}).json()["predictions"]
    assert [each["output"] for each in answers] == [each.value for each in bundle.predict(texts)]
    assert [each["page"] for each in answers] == [None] * 3
    assert answers[0]["notes"] == []


def test_what_the_reader_must_know_stands_on_the_page_too(client) -> None:
    [answer] = client.post(ADDRESS, json={"inputs": ["der zebra ist rot"], "trace": True}).json()["predictions"]
    assert answer["notes"] == ["1 of 4 tokens not in the vocabulary"]
    assert answer["page"]["header"]["traces"][0]["about"]["notes"] == answer["notes"]


def test_a_search_changes_the_recipes_own(client, bundle) -> None:
    [answer] = ask(client, search={"beam": 5, "n_best": 3, "length_penalty": 0.6})
    [expected] = bundle.predict(TEXT, search=Search(beam=5, n_best=3, length_penalty=0.6))
    outputs = [(each["output"], each["score"]) for each in (answer, *answer["alternatives"])]
    assert outputs == [(each.value, each.score) for each in (expected, *expected.alternatives)]
    [widened] = ask(client, search={"n_best": 7})  # the recipe's beam of 3 would not hold them
    assert len(widened["alternatives"]) == 6
    assert ask(client, search={"sample": {"seed": 3}}) == ask(client, search={"sample": {"seed": 3}})


def test_a_beam_as_large_as_the_list_passes_where_nothing_is_searched(tmp_path, shapes_unchecked) -> None:
    changes = {"model": {"hidden": 5, "embedding": 6}, "train": {"updates": 1, "device": "cpu"}}
    changes["data.opinions"] = {"train": 30, "valid": 9, "test": 9}
    labels = saccade.train(read_recipe("attentive_opinions", changes=changes), folder=tmp_path / "run")
    with TestClient(create_app({"my": labels}), base_url="http://localhost") as client:
        both = [ask(client, search=search)[0] for search in ({"n_best": 2}, {"beam": 2, "n_best": 2})]
        assert both[0] == both[1] and len(both[0]["alternatives"]) == 1
        assert "alternatives" not in ask(client, search={"beam": 1})[0]
        for search in ({"beam": 2}, {"beam": 3, "n_best": 2}, {"n_best": 2, "stop": "beam"}):
            refused = client.post(ADDRESS, json={"inputs": [TEXT], "search": search})
            assert refused.status_code == 422 and "without a search" in refused.text


def test_models_say_what_they_are_and_what_may_be_asked(client, bundle) -> None:
    [model] = client.get("/v1/models").json()["models"]
    assert (model["name"], model["task"], model["model"]) == ("my", "translate", "rnnsearch")
    assert model["parameters"] == bundle.parameters
    assert model["figures"]["test"] == bundle.figures["test"]
    assert model["metrics"] == ["perplexity"]
    assert model["search"]["beam"] == 3 and model["prefix"] is True
    assert model["limits"] == {**asdict(Limits()), "tokens": 30}


# What is wrong ---------------------------------------------------------------------------------------------------------

LONG = "x" * 20_001
FAULTS = {
    "no JSON": (b"{", 400, None, "expected JSON"),
    "no UTF-8": (b'{"inputs": ["\xff"]}', 400, None, "expected JSON"),
    "half a character": (b'{"inputs": ["\\ud800"]}', 400, None, "expected JSON"),
    "deep": (b"[" * 100_000, 400, None, "expected JSON"),
    "NaN": (b'{"inputs": ["a"], "edits": [{"edit": "boost", "keys": [0], "factor": NaN}]}', 400, None, "JSON"),
    "a list": ([], 422, None, "expected a mapping with inputs, found a list"),
    "nothing": ({}, 422, "inputs", "expected a list of inputs, found nothing"),
    "unknown field": ({"inputs": ["a"], "input": "a"}, 422, None, "found 'input'"),
    "a text": ({"inputs": "a"}, 422, "inputs", "expected a list of inputs, found a text"),
    "no input": ({"inputs": []}, 422, "inputs", "expected 1 to 64 inputs, found 0"),
    "too many": ({"inputs": ["a"] * 65}, 422, "inputs", "found 65"),
    "too many traces": ({"inputs": ["a"] * 9, "trace": True}, 422, "inputs", "expected 1 to 8 inputs, found 9"),
    "no text": ({"inputs": ["a", 3]}, 422, "inputs[1]", "expected a text, found a number"),
    "empty": ({"inputs": ["a", " "]}, 422, "inputs[1]", "input 2: expected a text, found whitespace only"),
    "too long": ({"inputs": [LONG]}, 422, "inputs[0]", "expected at most 20,000 characters, found 20,001"),
    "too many tokens": ({"inputs": ["a " * 31]}, 422, "inputs[0]", "30"),
    "trace": ({"inputs": ["a"], "trace": "yes"}, 422, "trace", "expected true or false, found a text"),
    "prefix": ({"inputs": ["a"], "prefix": ["a"]}, 422, "prefix", "expected a text, found a list"),
    "long prefix": ({"inputs": ["a"], "prefix": LONG}, 422, "prefix", "at most 2,000 characters"),
    "search": ({"inputs": ["a"], "search": [5]}, 422, "search", "expected a mapping"),
    "beam": ({"inputs": ["a"], "search": {"beam": 10**9}}, 422, "search.beam", "expected at most 64"),
    "samples": ({"inputs": ["a"], "search": {"sample": {}, "n_best": 10**9}}, 422, "search.n_best", "at most 64"),
    "half a list": ({"inputs": ["a"], "search": {"n_best": 7.5}}, 422, "search.n_best", "a whole number"),
    "beyond reckoning": ({"inputs": ["a"], "search": {"length_penalty": 1e300}}, 422, "search", "too large"),
    "a run of ours": ({"inputs": ["a"], "search": {"lm": {"run": "/etc"}}}, 422, "search.lm", "a request cannot"),
    "not for texts": ({"inputs": ["a"], "search": {"ctc": 0.3}}, 422, "search.ctc", "does not listen"),
    "misspelt": ({"inputs": ["a"], "search": {"baem": 3}}, 422, "search.baem", "did you mean 'beam'?"),
    "a number as text": ({"inputs": ["a"], "search": {"beam": "3"}}, 422, "search.beam", "a whole number"),
}  # fmt: skip
BAD_EDITS = {
    "no list": ({"edit": "mask"}, "edits", "expected a list of edits, found a mapping"),
    "no mapping": (["mask"], "edits[0]", "expected an edit"),
    "no kind": ([{"keys": [0]}], "edits[0].edit", "expected one of mask, boost, set, even, found nothing"),
    "unknown": ([{"edit": "__class__"}], "edits[0].edit", "expected one of mask, boost, set, even, found '__class__'"),
    "unknown field": ([{"edit": "mask", "keys": [0], "row": [1]}], "edits[0]", "found 'row'"),
    "no keys": ([{"edit": "mask"}], "edits[0].keys", "expected numbers, found nothing"),
    "a text of keys": ([{"edit": "mask", "keys": "12"}], "edits[0].keys", "found a text"),
    "a text among them": ([{"edit": "set", "row": [0, "1"]}], "edits[0].row", "found a text among them"),
    "half a key": ([{"edit": "mask", "keys": [0.5]}], "edits[0]", "keys must be positions"),
    "factor": ([{"edit": "boost", "keys": [0], "factor": True}], "edits[0].factor", "found true or false"),
    "negative": ([{"edit": "boost", "keys": [0], "factor": -1}], "edits[0]", "factor must be a positive number"),
    "huge": ([{"edit": "set", "row": [10**400]}], "edits[0]", "expected numbers that a float can hold"),
    "step": ([{"edit": "mask", "keys": [0], "step": -1}], "edits[0]", "step must be 0 or a positive whole number"),
    "beyond the input": ([{"edit": "mask", "keys": [10**30]}], "edits", "found key 1000"),
    "another row": ([{"edit": "set", "row": [1.0]}], "edits", "expected 5 weights, one per key, found 1"),
    "another site": ([{"edit": "mask", "keys": [0], "site": "x"}], "edits", "the model has sites decoder.attention"),
    "a step that never came": ([{"edit": "mask", "keys": [0], "step": 99}], "edits", "never applied"),
    "too many": ([{"edit": "mask", "keys": [0]}] * 1001, "edits", "expected at most 1,000 edits, found 1,001"),
}  # fmt: skip


def refused(response, status, field, words) -> None:
    """One line that tells, and not the body once more."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "field"}
    assert words in error["message"] and error["field"] == field
    assert len(error["message"]) <= 400 and error["message"].isprintable()
    assert "Traceback" not in response.text


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_request_is_one_clear_error(client, fault) -> None:
    body, status, field, words = FAULTS[fault]
    content = body if isinstance(body, bytes) else json.dumps(body)
    refused(client.post(ADDRESS, content=content, headers={"Content-Type": "application/json"}), status, field, words)


@pytest.mark.parametrize("fault", BAD_EDITS)
def test_a_wrong_edit_is_one_clear_error(client, fault) -> None:
    edits, field, words = BAD_EDITS[fault]
    refused(client.post(ADDRESS, json={"inputs": [TEXT], "edits": edits}), 422, field, words)


async def body_in_parts(limits: Limits, parts: int, pause: float) -> bytes:
    """The body of a request that announces one part more than it sends."""
    sent = 0

    async def receive():
        nonlocal sent
        await asyncio.sleep(pause if sent < parts else 100)
        sent += 1
        return {"type": "http.request", "body": b"part", "more_body": True}

    return await _body(Request({"type": "http", "headers": []}, receive), 1_000, limits)


@pytest.mark.parametrize(("limits", "parts"), [(Limits(silence=1.0), 9), (Limits(seconds=0.5), 900)])
def test_a_body_that_stops_or_comes_too_slowly_is_refused(limits, parts) -> None:
    begun = time.monotonic()
    with pytest.raises(Refusal, match="expected its body within") as refusal:
        asyncio.run(body_in_parts(limits, parts, pause=0.15))
    assert refusal.value.status == 408
    if parts == 9:
        assert time.monotonic() - begun > 9 * 0.15 + 1  # parts that come in time are waited for


def test_an_error_does_not_send_a_large_body_back(client) -> None:
    edits = [{"edit": "set", "row": [0.5] * 100_000, "step": 77}]
    refused(client.post(ADDRESS, json={"inputs": [TEXT], "edits": edits}), 422, "edits", "never applied")
    refused(client.post(ADDRESS, json={"inputs": [TEXT], "y" * 100_000: 1}), 422, None, "found 'yyy")


def test_a_body_is_capped_before_it_is_read_as_json(client, monkeypatch) -> None:
    monkeypatch.setattr("saccade.server.app.read_ask", lambda *_: pytest.fail("it was read"))
    words = "expected at most 1,000,000 bytes, found more"
    headers = {"Content-Type": "application/json"}
    refused(client.post(ADDRESS, content=b" " * 1_000_001, headers=headers), 413, None, words)
    said = {**headers, "Content-Length": "1000001"}  # known before a byte is read
    refused(client.post(ADDRESS, content=b"{}", headers=said), 413, None, words)
    in_parts = (b" " * 100_000 for _ in range(11))  # without a length said before
    refused(client.post(ADDRESS, content=in_parts, headers=headers), 413, None, words)


def test_what_is_not_there_is_one_clear_error(client) -> None:
    for path in ("/nothing", "/docs", "/openapi.json", "/v1/models/my", "/v1/models/..%2f..%2fetc/predict"):
        refused(client.get(path), 404, None, "/v1/models")
    refused(client.get(ADDRESS), 405, None, "expected POST, found GET")
    for name in ("other", "..", "%2e%2e", "my%00", "__class__"):
        response = client.post(f"/v1/models/{name}/predict", json={"inputs": [TEXT]})
        assert response.status_code == 404 and "error" in response.json()
    refused(client.post("/v1/models/other/predict", json={"inputs": [TEXT]}), 404, "model", "expected one of my")
    refused(client.get("/?model=other"), 404, "model", "expected one of my")


def test_what_another_page_may_send_unasked_is_refused(client) -> None:
    body = json.dumps({"inputs": [TEXT]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        response = client.post(ADDRESS, content=body, headers={"Content-Type": kind})
        refused(response, 415, "Content-Type", "expected application/json")
    with_charset = client.post(ADDRESS, content=body, headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert with_charset.status_code == 200


# One at a time ---------------------------------------------------------------------------------------------------------


class Slow:
    """A bundle whose predictions wait until they are let go."""

    def __init__(self, bundle) -> None:
        self.bundle, self.go, self.begun, self.together, self.most = bundle, threading.Event(), 0, 0, 0

    def __getattr__(self, name):
        return getattr(self.bundle, name)

    def predict(self, *words, **options):
        self.begun += 1
        self.together += 1
        self.most = max(self.most, self.together)
        try:
            assert self.go.wait(100)
            return self.bundle.predict(*words, **options)
        finally:
            self.together -= 1


@pytest.fixture
def slow(bundle):
    slow = Slow(bundle)
    yield slow
    slow.go.set()


def in_thread(client, answers, **options) -> threading.Thread:
    def post() -> None:
        answers.append(client.post(ADDRESS, json={"inputs": [TEXT]}, **options))

    thread = threading.Thread(target=post)
    thread.start()
    return thread


def until(fact) -> None:
    end = time.monotonic() + 100
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_predictions_do_not_block_health(slow) -> None:
    answers: list = []
    with TestClient(create_app({"my": slow}), base_url="http://localhost") as client:
        thread = in_thread(client, answers)
        until(lambda: slow.begun == 1)
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/v1/models").status_code == 200
        assert not answers
        slow.go.set()
        thread.join(100)
    assert answers[0].status_code == 200


def test_a_model_predicts_one_request_at_a_time_and_two_models_do_not_wait_for_each_other(slow, bundle) -> None:
    answers: list = []
    with TestClient(create_app({"my": slow, "other": bundle}), base_url="http://localhost") as client:
        threads = [in_thread(client, answers) for _ in range(3)]
        until(lambda: slow.begun == 1)
        assert client.post("/v1/models/other/predict", json={"inputs": [TEXT]}).status_code == 200
        slow.go.set()
        for thread in threads:
            thread.join(100)
    assert [each.status_code for each in answers] == [200] * 3
    assert (slow.begun, slow.most) == (3, 1)


def test_too_long_a_queue_is_told(slow) -> None:
    answers: list = []
    with TestClient(create_app({"my": slow}, limits=Limits(waiting=1)), base_url="http://localhost") as client:
        threads = [in_thread(client, answers)]
        until(lambda: slow.begun == 1)
        threads += [in_thread(client, answers) for _ in range(2)]
        until(lambda: answers)
        refused(answers[0], 503, None, "1 requests")
        assert answers[0].headers["retry-after"] == "1"
        slow.go.set()
        for thread in threads:
            thread.join(100)
    assert [each.status_code for each in answers] == [503, 200, 200]


def test_too_long_a_wait_is_told_and_what_waited_in_vain_is_not_begun() -> None:
    go, begun = threading.Event(), []

    def work(name: str) -> str:
        begun.append(name)
        go.wait(100)
        return name

    async def asked() -> list:
        worker = Worker("my", Limits(seconds=0.1, waiting=2))
        waits = await asyncio.gather(*(worker.do(partial(work, name)) for name in "abcd"), return_exceptions=True)
        worker.limits = Limits()
        go.set()
        assert await worker.do(partial(work, "next")) == "next"
        return waits

    waits = asyncio.run(asked())
    assert [each.status for each in waits] == [504, 504, 504, 503]
    assert waits[0].message.startswith("no answer within 0.1 seconds")
    assert begun in (["a", "next"], ["next"]), "a machine that is busy may begin nothing in time"


async def leave(app, slow) -> None:
    """Two requests as a server hands them on: the second waits for the first, and whoever sent it goes."""
    body = json.dumps({"inputs": [TEXT]}).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": ADDRESS, "query_string": b"", "headers": headers}

    def receiver(stays: float):
        messages = [{"type": "http.request", "body": body}]

        async def receive():
            if not messages:
                await asyncio.sleep(stays)
            return messages.pop() if messages else {"type": "http.disconnect"}

        return receive

    async def send(message) -> None: ...

    first = asyncio.ensure_future(app(scope, receiver(300.0), send))
    while slow.begun == 0:
        await asyncio.sleep(0.01)
    await asyncio.wait_for(app(scope, receiver(0.0), send), 100)
    slow.go.set()
    await asyncio.wait_for(first, 100)


def test_what_was_asked_by_someone_who_has_gone_is_not_begun(slow) -> None:
    asyncio.run(leave(create_app({"my": slow}), slow))
    assert slow.begun == 1


def test_a_model_that_fails_is_one_clear_error_and_the_next_request_is_served(bundle, monkeypatch, caplog) -> None:
    slow = Slow(bundle)
    slow.go.set()
    monkeypatch.setattr(slow.bundle.task, "predict", lambda *_, **__: 1 / 0)
    with TestClient(create_app({"my": slow}), base_url="http://localhost") as client:
        refused(client.post(ADDRESS, json={"inputs": [TEXT]}), 500, None, "the model failed on this request")
        assert "division by zero" in caplog.text
        monkeypatch.undo()
        assert client.post(ADDRESS, json={"inputs": [TEXT]}).status_code == 200


def test_a_fault_outside_a_prediction_is_one_clear_error_too(bundle, monkeypatch) -> None:
    monkeypatch.setattr("saccade.server.app.described", lambda *_: 1 / 0)
    app = create_app({"my": bundle})
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        refused(client.get("/v1/models"), 500, None, "the server failed on this request")


class Panic(BaseException):
    """As a Rust extension raises it: not an Exception."""


def test_a_panic_in_a_tokenizer_is_one_clear_error_and_the_next_request_is_served(bundle, monkeypatch, caplog) -> None:
    def panic(*_, **__):
        raise Panic("called `Option::unwrap()` on a `None` value")

    monkeypatch.setattr(bundle.task, "read_all", panic)
    with TestClient(create_app({"my": bundle}), base_url="http://localhost") as client:
        refused(client.post(ADDRESS, json={"inputs": [TEXT]}), 500, None, "the model failed on this request")
        assert "Option::unwrap" in caplog.text
        monkeypatch.undo()
        assert client.post(ADDRESS, json={"inputs": [TEXT]}).status_code == 200


def test_a_panic_while_examples_are_read_leaves_a_page_without_them(bundle, monkeypatch) -> None:
    def panic(*_):
        raise Panic("no")

    monkeypatch.setattr(type(bundle), "examples", panic)
    assert examples_of(bundle) == []


def test_a_file_may_be_as_large_as_its_kind_allows(client, bundle, monkeypatch) -> None:
    monkeypatch.setattr(type(bundle.task), "input", IMAGE)
    most = client.get("/v1/models").json()["models"][0]["limits"]["body"]
    assert most == Limits().body_of(IMAGE) > IMAGE.largest * 4 / 3
    image = {"base64": "A" * 4_000_000}  # 3 MB
    refused(client.post(ADDRESS, json={"inputs": [image]}), 422, "inputs[0]", "expected a text, found bytes")
    headers = {"Content-Type": "application/json", "Content-Length": str(most + 1)}
    refused(client.post(ADDRESS, content=b"{}", headers=headers), 413, None, f"at most {most:,} bytes")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\nb"])
def test_a_name_that_cannot_stand_in_an_address_is_refused(bundle, name) -> None:
    with pytest.raises(InputError, match=r"model: name: expected .*, found "):
        create_app({name: bundle})


def test_nothing_to_serve_is_refused() -> None:
    with pytest.raises(SaccadeError, match=r"expected one or more models.*found none"):
        create_app({})


# Measuring ------------------------------------------------------------------------------------------------------------

TRUTH = "/v1/models/my/truth"


def lines_of(response) -> list[dict]:
    return [json.loads(line) for line in response.text.splitlines()]


def test_a_measurement_tells_how_far_it_is_and_ends_with_the_curves(client, bundle) -> None:
    response = client.post(TRUTH, json={"inputs": [TEXT]})
    assert response.status_code == 200, response.text
    *steps, last = lines_of(response)
    assert [step["done"] for step in steps] == list(range(1, steps[-1]["of"] + 1))
    assert last == {"faithfulness": json.loads(json.dumps(erasure.curve(bundle, TEXT)))}


def test_a_measurement_is_bounded_in_size_and_time(bundle) -> None:
    limits = Limits(dense=5, measuring=1e-9)
    with TestClient(create_app({"my": bundle}, limits=limits), base_url="http://localhost") as client:
        refused(client.post(TRUTH, json={"inputs": [TEXT]}), 422, "inputs[0]", "at most 5 characters")
        refused(client.post(TRUTH, json={"inputs": [TEXT, TEXT]}), 422, "inputs", "1 to 1 inputs")
        refused(client.post(TRUTH, json={"inputs": ["der"], "edits": []}), 422, None, "edits")
        (line,) = lines_of(client.post(TRUTH, json={"inputs": ["der"]}))
        assert "within 1e-09 seconds" in line["error"]["message"]


def endless(bundle, given):
    for number in range(10_000):
        endless.taken = number
        time.sleep(0.005)
        yield number, 10_000
    return {}


async def go_after(app, parts: int) -> None:
    """A reader of a measurement who goes after so many parts of the answer."""
    body = json.dumps({"inputs": [TEXT]}).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": TRUTH, "query_string": b"", "headers": headers}
    sent, enough, asked = 0, asyncio.Event(), iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict:
        for message in asked:
            return message
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message) -> None:
        nonlocal sent
        sent += 1
        if sent > parts:
            enough.set()

    await asyncio.wait_for(app(scope, receive, send), 100)


def test_who_goes_ends_the_measurement_and_the_next_may_begin(bundle, monkeypatch) -> None:
    monkeypatch.setattr(erasure, "measurement", endless)
    app = create_app({"my": bundle})
    asyncio.run(go_after(app, 3))
    until(lambda: not app.state.busy())
    taken = endless.taken
    assert 1 <= taken < 100
    time.sleep(0.1)
    assert endless.taken == taken, "no further step"
    asyncio.run(go_after(app, 1))


def test_one_measurement_runs_at_a_time_and_predictions_are_answered_meanwhile(bundle, monkeypatch) -> None:
    begun, enough = threading.Event(), threading.Event()

    def measured(bundle, given):
        while not enough.is_set():
            begun.set()
            time.sleep(0.005)
            yield 3, 7
        return {"figures": []}

    monkeypatch.setattr(erasure, "measurement", measured)
    with TestClient(create_app({"my": bundle}, limits=Limits(measuring=300)), base_url="http://localhost") as client:
        answers: list = []
        thread = threading.Thread(target=lambda: answers.append(client.post(TRUTH, json={"inputs": [TEXT]})))
        thread.start()
        try:
            assert begun.wait(100)
            refused(client.post(TRUTH, json={"inputs": [TEXT]}), 503, None, "another measurement")
            assert client.post(ADDRESS, json={"inputs": [TEXT]}).status_code == 200
            assert not answers
        finally:
            enough.set()
            thread.join(100)
        assert lines_of(answers[0])[-1] == {"faithfulness": {"figures": []}}
