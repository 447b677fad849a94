"""Clients that say nothing, too much, or do not listen cannot keep others from the server."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import uvicorn

from saccade.server import Limits
from saccade.server.connections import RESERVED, BoundedLog, bound_logs, connections_of, most_connections

LIMITS = Limits(connections=5, silence=0.4)
HEAD = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
HALF_A_BODY = HEAD.replace("/", "/read", 1) + "half of it"
LARGE = 30_000_000


async def app(scope, receive, send) -> None:
    """Answers without reading the body, except at "/read"; "/large" with many bytes."""
    while scope["path"] == "/read" and (await receive()).get("more_body"):
        pass
    body = b"x" * LARGE if scope["path"] == "/large" else b"answer"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def limits() -> Limits:
    return LIMITS


@pytest.fixture
def port(limits) -> Iterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=connections_of(limits), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join(100)
    assert not thread.is_alive()


def connected(port: int, first: str = "") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=100)
    client.sendall(first.encode())
    return client


def rest_of(client: socket.socket) -> bytes:
    """All that the server still sends until it closes."""
    received = bytearray()
    try:
        while part := client.recv(1 << 20):
            received += part
    except ConnectionError:
        pass
    return bytes(received)


def letter_by_letter(client: socket.socket) -> None:
    for _ in range(2000):
        client.sendall(b"G")
        time.sleep(0.05)


def test_a_connection_that_says_nothing_is_closed(port) -> None:
    with connected(port) as client:
        assert rest_of(client) == b""


@pytest.mark.parametrize("before", ["", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_that_comes_letter_by_letter_is_cut_off(port, before) -> None:
    with connected(port, before) as client:
        while before and b"answer" not in client.recv(1000):
            pass
        with pytest.raises(ConnectionError):
            letter_by_letter(client)


def test_a_body_that_never_comes_is_not_waited_for_after_the_answer(port) -> None:
    with connected(port, HEAD) as client, pytest.raises(ConnectionError):
        letter_by_letter(client)


def test_an_answer_that_nobody_takes_is_dropped(port) -> None:
    for patience in (2, 10, 50):  # a busy machine may need longer to notice
        with connected(port, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n") as client:
            time.sleep(patience)
            if len(rest_of(client)) < LARGE:
                return
    pytest.fail("the server waited for the client")


@pytest.mark.parametrize("limits", [Limits(connections=5, silence=3)])
def test_a_client_that_takes_a_large_answer_slowly_gets_it_all(port) -> None:
    with connected(port, "GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as client:
        received = 0
        for _ in range(8):
            time.sleep(0.5)
            while received < LARGE and (part := client.recv(1 << 20)):
                received += len(part)
                if received % 3 == 0:
                    break
        assert received + len(rest_of(client)) > LARGE


@pytest.mark.parametrize("limits", [Limits(connections=5, silence=60)])
@pytest.mark.parametrize("first", ["G", HALF_A_BODY], ids=["half a head", "half a body"])
def test_of_too_many_connections_the_longest_silent_is_closed_and_others_are_served(port, first) -> None:
    silent = [connected(port, first) for _ in range(23)]
    assert all(rest_of(client) == b"" for client in silent[:18])
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    asking.request("GET", "/")
    assert asking.getresponse().read() == b"answer"
    for client in silent:
        client.close()
    asking.close()


def test_what_is_not_http_is_one_line_of_json(port) -> None:
    with connected(port, "\x16\x03\x01 what is this\r\n\r\n") as client:
        head, _, body = rest_of(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"application/json" in head
    assert json.loads(body)["error"]["message"].startswith("request: expected HTTP")


def test_connections_leave_file_descriptors_for_other_things(monkeypatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (RESERVED + 31, 4096))
    assert most_connections(Limits(connections=100)) == 31
    assert most_connections(Limits(connections=17)) == 17


def test_clients_cannot_fill_the_log(caplog, monkeypatch) -> None:
    log, now = logging.getLogger("tests.bounded"), [600.0]
    monkeypatch.setattr("saccade.server.connections.time.monotonic", lambda: now[0])
    bound_logs(log.name)
    bound_logs(log.name)
    most = BoundedLog().most
    for number in range(most + 13):
        log.warning("message %d", number)
    now[0] += 61
    log.warning("the next %s", "minute")
    assert len(caplog.messages) == most + 1
    assert caplog.messages[-1] == "(13 messages were left out) the next minute"
