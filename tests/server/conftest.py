"""A small trained model, and the application that serves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import saccade
from saccade.server import create_app
from tests.animals import trained


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """The folder of a trained run."""
    return trained(tmp_path_factory.mktemp("served"), "my")


@pytest.fixture(scope="session")
def bundle(run) -> saccade.Bundle:
    return saccade.load(run, device="cpu")


@pytest.fixture
def explorer(monkeypatch) -> None:
    """Pages are made although the explorer's script may not be built here."""
    monkeypatch.setattr("saccade.views.html.page.asset", lambda name: f"/* {name} */")


@pytest.fixture
def client(bundle, explorer) -> Iterator[TestClient]:
    with TestClient(create_app({"my": bundle}), base_url="http://localhost") as client:
        yield client
