"""The server as a process: it says where it is, answers, and ends quietly when it is told to."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from saccade import extras, server
from saccade.errors import SaccadeError
from saccade.server.serve import GRACE, _address, run

SCRIPT = """
import sys, time, saccade
from saccade.server import Limits, run, serve

bundle = saccade.load(sys.argv[1], device="cpu")
predict, begin = bundle.predict, serve.Shutdown.begin
stopping = []

def begun(shutdown):
    stopping.append(True)
    begin(shutdown)

def slowly(inputs, **options):
    print(inputs[0], file=sys.stderr, flush=True)
    while inputs[0] == "katze" and not stopping:
        time.sleep(0.01)
    time.sleep({"katze": 0.1, "igel": 600.0}.get(inputs[0], 0.0))
    return predict(inputs, **options)

bundle.predict, serve.Shutdown.begin = slowly, begun
serve.GRACE = float(sys.argv[2])
serve.BACKSTOP = serve.GRACE + 5
run({"my": bundle}, port=0, page=False, limits=Limits(silence=0.3))
"""


@pytest.fixture
def process(run, monkeypatch, request):
    """The server. It answers "katze" once it is told to stop, and "igel" after ten minutes; stderr has what it has begun."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = [sys.executable, "-c", SCRIPT, str(run), str(getattr(request, "param", GRACE))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait(100)


def ask(port: int, text: str) -> tuple[int, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    body = json.dumps({"inputs": [text]})
    connection.request("POST", "/v1/models/my/predict", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


@pytest.mark.parametrize("process", [90.0], indirect=True)  # seconds of grace, however busy this machine is
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_server_answers_what_is_nearly_there_and_stops(process, bundle, sent) -> None:
    found = re.fullmatch(r"my: http://127\.0\.0\.1:(\d+)/ \(Ctrl-C stops\)\n", process.stdout.readline())
    port = int(found[1])
    assert ask(port, "hund")[1]["predictions"][0]["output"] == bundle.predict("hund")[0].value
    answers: list = []
    thread = threading.Thread(target=lambda: answers.append(ask(port, "katze")))
    thread.start()
    assert [process.stderr.readline() for _ in range(2)] == ["hund\n", "katze\n"]
    process.send_signal(sent)
    thread.join(100)
    assert answers[0][0] == 200
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_prediction_that_would_take_long_does_not_hold_the_server(process, sent) -> None:
    port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
    ask(port, "hund")  # everything is loaded
    answers: list = []
    thread = threading.Thread(target=lambda: answers.append(ask(port, "igel")))
    waiting = threading.Thread(target=lambda: answers.append(ask(port, "katze")))
    thread.start()
    assert [process.stderr.readline() for _ in range(2)] == ["hund\n", "igel\n"]
    waiting.start()
    time.sleep(0.3)
    begun = time.monotonic()
    process.send_signal(sent)
    out, err = process.communicate(timeout=100)
    took = time.monotonic() - begun
    thread.join(100)
    waiting.join(100)
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    assert took < 50, "a second, on a machine that has nothing else to do"
    stopping = {"error": {"message": "the server is stopping", "field": None}}
    assert answers == [(503, stopping)] * 2


def test_a_connection_that_says_nothing_is_closed(process) -> None:
    port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
    with socket.create_connection(("127.0.0.1", port), timeout=100) as silent:
        assert silent.recv(1) == b""


def test_a_request_that_never_ends_does_not_hold_the_server(process) -> None:
    port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
    with socket.create_connection(("127.0.0.1", port), timeout=100) as idle:
        head = f"POST /v1/models/my/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        idle.sendall(f'{head}Content-Length: 100\r\n\r\n{{"inputs"'.encode())
        time.sleep(0.3)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        took = time.monotonic() - begun
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out, err) == (0, "", "")
    assert took < 50, "a second, on a machine that has nothing else to do"


def test_a_port_that_is_taken_is_one_clear_error(bundle) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SaccadeError, match=rf"cannot listen at 127.0.0.1:{port}: .*in use"):
            run({"my": bundle}, port=port, page=False)


def test_a_host_or_port_that_cannot_be_is_one_clear_error(bundle) -> None:
    with pytest.raises(SaccadeError, match="port: expected 0 to 65535, found 70000"):
        run({"my": bundle}, port=70_000, page=False)
    with pytest.raises(SaccadeError, match=r"host: expected an address of this machine, found 'no\.such\.invalid'"):
        run({"my": bundle}, host="no.such.invalid", page=False)
    with pytest.raises(SaccadeError, match="this machine has no such address"):
        run({"my": bundle}, host="192.0.2.1", page=False)


def test_a_name_that_no_address_can_hold_is_one_clear_error(bundle) -> None:
    with pytest.raises(SaccadeError, match="host: expected an address of this machine, found 'aaaa"):
        run({"my": bundle}, host="a" * 70, page=False)


def test_addresses_can_be_clicked_on() -> None:
    assert _address("127.0.0.1", 8100) == "http://127.0.0.1:8100/"
    assert _address("0.0.0.0", 1) == "http://127.0.0.1:1/"
    assert _address("::1", 1) == "http://[::1]:1/"


def test_a_page_that_was_not_built_is_told_before_anything_is_served(bundle, monkeypatch) -> None:
    def missing(name: str) -> str:
        raise SaccadeError(f"the explorer's {name} is not built")

    monkeypatch.setattr("saccade.views.html.page.asset", missing)
    with pytest.raises(SaccadeError, match="is not built"):
        run({"my": bundle}, port=0)


def test_a_view_that_was_not_built_is_told_before_anything_is_served(bundle, monkeypatch) -> None:
    def missing(name: str) -> str:
        if name.startswith("explorer"):
            return ""
        raise SaccadeError(f"the explorer's {name} is not built")

    monkeypatch.setattr("saccade.views.html.page.asset", missing)
    monkeypatch.setattr("saccade.server.serve._serve", lambda *_: None)
    with pytest.raises(SaccadeError, match=r"heads\.js is not built"):
        run({"my": bundle}, port=0)


def test_without_its_packages_serving_says_how_to_install_them(monkeypatch) -> None:
    def absent(package: str):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(extras.importlib, "import_module", absent)
    with pytest.raises(
        SaccadeError, match=r"serving a model needs the package 'fastapi': pip install 'saccade\[serve\]'"
    ):
        server.run
