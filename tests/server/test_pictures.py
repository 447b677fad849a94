"""A captioner behind the server and the command line: pictures come as base64 or as files, and traces keep every weight."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("httpx2", reason="httpx2, of the test client, is not installed")

from fastapi.testclient import TestClient

import saccade
from saccade.cli import app
from saccade.data.images.pictures import png_of
from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe
from saccade.server import create_app

ADDRESS = "/v1/models/shapes/predict"
SMALL = [
    "data.shapes.train=60", "data.shapes.valid=5", "data.shapes.test=5", "data.image.size=32", "data.shapes.size=32",
    "model.channels=[6, 8]", "model.hidden=8", "model.embedding=6", "model.selector=true", "train.updates=3",
    "train.device=cpu",
]  # fmt: skip
PHOTO = png_of(np.random.default_rng(1).integers(0, 256, (60, 90, 3), dtype=np.uint8))
SENT = {"base64": base64.b64encode(PHOTO).decode()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captions") / "shapes"
    saccade.train(read_recipe("captions_shapes", SMALL), folder=folder, progress=False)
    return folder


@pytest.fixture
def client(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr("saccade.views.html.page.asset", lambda name: f"/* {name} */")
    with TestClient(create_app({"shapes": saccade.load(run)}), base_url="http://localhost") as client:
        yield client


def test_a_picture_is_described_with_every_weight_and_edits_move_it(client: TestClient) -> None:
    assert len(SENT["base64"]) > 4_000, "a text of so many characters would keep the largest weights only"
    edits = [{"edit": "mask", "keys": [0, 1, 2], "site": "decoder.attention", "step": 0}]
    plain, edited = (
        client.post(ADDRESS, json={"inputs": [SENT], "trace": True, "prefix": "a", **more}).json()["predictions"][0]
        for more in ({}, {"edits": edits})
    )
    assert plain["output"].startswith("a")
    page = json.dumps(plain["page"])
    assert plain["page"] and page != json.dumps(edited["page"])
    for part in ("decoder.attention", "decoder.gate", '"grid"', '"box"'):
        assert part in page
    assert '"residual"' not in page, "every weight is there"


def test_what_is_no_picture_is_a_bad_request(client: TestClient) -> None:
    for given, field in (
        ("photo.png", "inputs[0]"),
        ({"base64": "%"}, "inputs[0].base64"),
        ({"base64": "AAAA"}, "inputs[0]"),
    ):
        response = client.post(ADDRESS, json={"inputs": [given]})
        assert response.status_code == 422 and response.json()["error"]["field"] == field, response.text


def test_a_page_begins_with_the_files_of_the_command_line(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.views.html.page.asset", lambda name: f"/* {name} */")
    (tmp_path / "photo.png").write_bytes(PHOTO)
    bundle = saccade.load(run)
    with TestClient(
        create_app({"shapes": bundle}, inputs=[str(tmp_path / "photo.png")]), base_url="http://localhost"
    ) as client:
        page = client.get("/").text
    assert "data:image/png;base64," in page and '"input":"image"' in page
    with pytest.raises(InputError, match=r"none\.png"):
        create_app({"shapes": bundle}, inputs=[str(tmp_path / "none.png")])


def test_the_command_line_takes_files(run: Path, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(PHOTO)
    (tmp_path / "half.png").write_bytes(PHOTO[:300])
    names = [str(tmp_path / name) for name in ("photo.png", "half.png", "none.png")]
    done = CliRunner().invoke(app, ["predict", str(run), *names, "--json", "--beam", "2"])
    assert done.exit_code == 1, "an input failed"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["input"] == names[0] and "output" in rows[0]
    assert "damaged" in rows[1]["error"] and "no file" in rows[2]["error"]
    shown = CliRunner().invoke(app, ["view", str(run), names[0], "--out", str(tmp_path / "where.png")])
    assert shown.exit_code == 0 and (tmp_path / "where.png").stat().st_size > 10_000, shown.output


def test_training_on_the_command_line_leaves_examples_to_try(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", "captions_shapes", *SMALL, "--out", str(tmp_path / "run")])
    assert "try next:" in done.output, done.output
    written = tmp_path / "run/example-1.png"
    assert f'saccade predict {tmp_path / "run"} "{written}"' in done.output
    assert CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(written)]).exit_code == 0
