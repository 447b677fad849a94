"""A small trained model, and the application that serves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import saccade
from tests.animals import trained

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


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
    from fastapi.testclient import TestClient

    from saccade.server import create_app

    with TestClient(create_app({"my": bundle}), base_url="http://localhost") as client:
        yield client
