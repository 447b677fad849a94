"""Only requests by the server's own names, from its own page."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("httpx2", reason="httpx2, of the test client, is not installed")

from fastapi.testclient import TestClient

from saccade.server import create_app
from saccade.server.host_guard import ADDRESSES, HostGuard, names_of

OURS = ["localhost", "localhost:8100", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8100", "[::1]", "[::1]:8100"]
OTHERS = [
    "evil.example", "evil.example:8100", "localhost.evil.example", "localhost.", "evil.example@localhost", "localhost/x",
    "", "[", "[::1", "::1", "localhost:", "localhost:x", "10.0.0.3", "127.0.0.1.nip.io", "local host",
]  # fmt: skip


async def nobody(scope, receive, send) -> None: ...


@pytest.mark.parametrize("host", OURS)
def test_a_server_knows_its_own_names(host) -> None:
    assert HostGuard(nobody).knows(host)


@pytest.mark.parametrize("host", OTHERS)
def test_a_server_knows_no_other_names(host) -> None:
    assert not HostGuard(nobody).knows(host)


def test_a_server_for_others_knows_every_number_and_still_no_other_name() -> None:
    door = HostGuard(nobody, names_of("0.0.0.0"))
    assert door.knows("10.0.0.3:8100") and door.knows("[fe80::1]") and door.knows("localhost")
    assert not door.knows("evil.example") and not door.knows(ADDRESSES)
    assert HostGuard(nobody, names_of("10.0.0.3")).knows("10.0.0.3")
    assert not HostGuard(nobody, names_of("10.0.0.3")).knows("10.0.0.4")
    assert HostGuard(nobody, names_of("my.machine")).knows("my.machine:8100")


def test_another_name_is_refused_everywhere(client) -> None:
    for path in ("/", "/health", "/v1/models"):
        response = client.get(path, headers={"Host": "evil.example"})
        assert response.status_code == 403
        assert response.json()["error"]["field"] == "Host"
        assert "evil" not in response.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:9", "http://localhost.evil.example"]
)
def test_another_page_is_refused(client, origin) -> None:
    response = client.post("/v1/models/my/predict", json={"inputs": ["hund"]}, headers={"Origin": origin})
    assert response.status_code == 403
    assert response.json()["error"]["field"] == "Origin"


def test_the_servers_own_page_is_served(client) -> None:
    response = client.post("/v1/models/my/predict", json={"inputs": ["hund"]}, headers={"Origin": "http://localhost"})
    assert response.status_code == 200


def test_no_answer_is_for_other_pages(bundle, explorer) -> None:
    with TestClient(create_app({"my": bundle}), base_url="http://localhost") as client:
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        preflight = client.options("/v1/models/my/predict", headers={"Origin": "http://localhost", **asked})
        assert preflight.status_code == 405
        for response in (client.get("/"), client.get("/health"), client.get("/nothing"), preflight):
            assert not [name for name in response.headers if name.startswith("access-control")]
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["cross-origin-resource-policy"] == "same-origin"
            assert response.headers["x-frame-options"] == "DENY"
            assert response.headers["cache-control"] == "no-store"
