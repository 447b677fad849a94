"""Sound in a page: letters play their stretch, the spectrogram says who listened; a live page takes files and records."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import saccade
from saccade.recipes.recipe import read_recipe
from saccade.views.html import page as html
from saccade.views.html.payload import page_data
from tests.web import made_model, made_sources
from tests.web.made_media import HOP

AT = "parseFloat(document.querySelector('.time').textContent)"


def looked_at(frame: int) -> list[int]:
    """The rows whose weight at a frame is a tenth of their largest or more, the greatest first."""
    weights = made_sources.sound().map().weights
    rows = [row for row in range(len(weights)) if weights[row, frame] >= 0.1 * weights[row].max()]
    return sorted(rows, key=lambda row: -float(weights[row, frame]))[:5]


def click(page: Any, second: float, y: float) -> None:
    """A click on the picture at this second and this many pixels from its top."""
    box = page.matrix.bounding_box()
    left = page.stage.locator(".audio .playhead").evaluate("e => new DOMMatrix(getComputedStyle(e).transform).e")
    span = box["width"] - left - 1  # at the start the playhead stands where the time line begins
    frames = made_sources.sound().map().weights.shape[1]
    page.matrix.click(position={"x": left + (second / (frames * HOP)) * span, "y": y})


def test_the_spectrogram_says_who_listened_where_it_is_clicked(show):
    page = show("sound", view="audio", step=4)
    frame = 42
    click(page, (frame + 0.5) * HOP, 70)
    page.page.mouse.move(1, 1)
    said = page.settled().said
    weights = made_sources.sound().map().weights
    labels = made_sources.sound().axes["target"].labels
    assert said.startswith(f"At {frame * HOP:.2f} s ") and said.endswith(" listened.")
    shown = {" ": "␣"}
    for row in looked_at(frame):
        assert f"{shown.get(labels[row], labels[row])} ({float(weights[row, frame]):.2f})" in said
    assert said.count("(") == len(looked_at(frame)) > 1
    assert page.page.evaluate(AT) == pytest.approx(frame * HOP, abs=0.01), "it goes on from there"
    assert page.button("play the sound").is_enabled()


def test_a_letter_plays_its_stretch_and_stops(show):
    page = show("sound", view="audio")
    weights = made_sources.sound().map().weights
    page.stage.locator(".transcript span").nth(12).click()  # the first o of moon
    assert "step=12" in page.settled().address
    page.button("pause the sound").wait_for()
    page.button("play the sound").wait_for()
    heard = np.nonzero((weights[12] >= 0.1 * weights[12].max()).numpy())[0]
    stopped = page.page.evaluate(AT)
    assert heard[-1] * HOP - 0.1 <= stopped <= (heard[-1] + 1) * HOP + 0.25


def test_a_label_beside_the_map_plays_too(show):
    page = show("sound", view="audio")
    box = page.matrix.bounding_box()
    page.matrix.click(position={"x": 8, "y": box["height"] - 26 - 4})
    page.button("pause the sound").wait_for()
    last = made_sources.sound().map().queries - 1
    assert f"step={last}" in page.settled().address and "key=" not in page.address
    page.button("play the sound").wait_for()


def test_true_boundaries_are_named_and_leave_with_the_picture(show):
    page = show("sound", view="audio")
    assert "Lines are true boundaries." in page.stage.inner_text()
    svg = page.saved("SVG").read_text(encoding="utf-8")
    names = [symbol for symbol, _, _ in made_sources.sound().axes["frame"].segments if symbol.strip()]
    assert all(f">{name}</text>" in svg for name in names)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_view_fits_and_reads_well(show, width, dark):
    page = show("sound", view="audio", width=width, dark=dark)
    assert not page.sideways()
    assert not page.faults()


# Live -----------------------------------------------------------------------------------------------------------------


@contextmanager
def answering(live: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server whose model writes the same of every sound, and what it was asked."""
    trace, asked = made_sources.sound(), []
    shown = html.page([], title="listener", live=live).encode()
    answer = json.dumps({"predictions": [{"output": "x", "page": page_data(trace).to_json()}]}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send("text/html; charset=utf-8", shown)

        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self._send("application/json", answer)

        def _send(self, kind: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", asked
    server.shutdown()
    thread.join()
    server.server_close()


SMALL_TONES = [
    "data.tones={train: 40, valid: 3, test: 3}", "data.features.mels=8", "model.hidden=6", "model.state=6",
    "model.embedding=4", "model.alignment=6", "model.maxout=4", "data.max_length=11", "train.updates=3",
    "train.device=cpu", "train.threads=1", "expect=null",
]  # fmt: skip
LIVE = {"model": "listener", "api": "/v1", "examples": [], "measures": False, "input": "audio"}


def wav(samples: np.ndarray, rate: int = 8000) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return buffer.getvalue()


def test_a_live_page_asks_about_a_chosen_and_a_dropped_sound(visit):
    with answering(LIVE) as (address, asked):
        page = visit(address)
        one, other = (wav(np.sin(np.arange(800) * step)) for step in (0.1, 0.2))
        page.page.locator("input[type=file]").set_input_files(
            {"name": "talk.wav", "mimeType": "audio/wav", "buffer": one}
        )
        page.stage.locator(".transcript").wait_for()
        assert base64.b64decode(asked[0]["inputs"][0]["base64"]) == one, "a WAV is sent as it is"
        assert page.page.get_by_role("region", name="input").inner_text().count("talk.wav") == 1
        drop = """bytes => {
          const moved = new DataTransfer();
          moved.items.add(new File([new Uint8Array(bytes)], "other.wav", {type: "audio/wav"}));
          document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: moved, bubbles: true, cancelable: true}));
        }"""
        page.page.evaluate(drop, list(other))
        page.page.get_by_text("other.wav").wait_for()
        page.page.wait_for_function("() => !/running/.test(document.querySelector('.asking').textContent)")
        assert base64.b64decode(asked[1]["inputs"][0]["base64"]) == other
        assert "input" not in page.address, "a file does not fit into an address"
        assert not page.faults()


def test_a_live_page_records_from_the_microphone_as_wav(visit):
    with answering(LIVE) as (address, asked):
        page = visit(address, permissions=["microphone"])
        page.button("record").click()
        page.page.get_by_role("button", name="stop and run (1 s)").wait_for()
        page.page.get_by_role("button", name="stop and run").click()
        page.stage.locator(".transcript").wait_for()
        with wave.open(io.BytesIO(base64.b64decode(asked[0]["inputs"][0]["base64"]))) as file:
            assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16_000)
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        assert 0.5 < len(samples) / 16_000 < 10
        assert np.abs(samples).max() > 1000, "the browser's fake microphone beeps"
        assert "a recording" in page.page.get_by_role("region", name="input").inner_text()


def test_a_file_that_is_no_sound_is_one_sentence(visit):
    with answering(LIVE) as (address, asked):
        page = visit(address)
        page.page.locator("input[type=file]").set_input_files(
            {"name": "talk.m4a", "mimeType": "audio/mp4", "buffer": b"no sound at all"}
        )
        assert page.page.get_by_role("alert").inner_text().startswith("This browser cannot read that file as sound.")
        assert asked == []


def test_edits_ask_again_about_the_same_sound(visit):
    with answering(LIVE) as (address, asked):
        page = visit(address)
        sound = wav(np.sin(np.arange(700) * 0.1))
        page.page.locator("input[type=file]").set_input_files(
            {"name": "talk.wav", "mimeType": "audio/wav", "buffer": sound}
        )
        page.stage.locator(".transcript").wait_for()
        page.tab("Steps")
        page.page.get_by_role("group", name="what if").get_by_role("button", name="make all equal").click()
        page.page.get_by_role("list", name="your changes").wait_for()
        assert asked[1]["inputs"] == asked[0]["inputs"]
        assert asked[1]["edits"][0]["edit"] == "even"


def test_a_model_behind_a_page_hears_a_recording_and_hears_it_again_under_an_edit(visit, tmp_path):
    recipe = read_recipe("listen_tones", SMALL_TONES)
    bundle = saccade.train(recipe, folder=tmp_path / "run", progress=False)
    (tmp_path / "talk.wav").write_bytes(wav(np.sin(np.arange(7000) * 0.3)))
    with made_model.serving(bundle, str(tmp_path / "talk.wav")) as address:
        page = visit(address, permissions=["microphone"])
        assert "Audio" in page.tabs and page.button("play the sound").is_enabled()
        page.tab("Steps")
        page.page.get_by_role("group", name="what if").get_by_role("button", name="make all equal").click()
        changes = page.page.get_by_role("list", name="your changes")
        changes.wait_for()  # the page asked about the sound that it plays
        page.page.get_by_role("button", name="take back").first.click()
        changes.wait_for(state="detached")
        page.button("record").click()
        page.page.get_by_role("button", name="stop and run (1 s)").wait_for()
        page.page.get_by_role("button", name="stop and run").click()
        page.page.get_by_text("a recording").wait_for()
        page.page.wait_for_function("() => !/running/.test(document.querySelector('.asking').textContent)")
        page.tab("Audio")
        seconds = float(re.fullmatch(r"0 of (\S+) s", page.stage.locator(".time").inner_text())[1])
        assert 0.9 < seconds < 10, "what was recorded, not the 0.88 s of before"


def test_a_live_page_of_texts_carries_no_sound():
    scripts = html.chunks({"traces": [], "live": {**LIVE, "input": "text"}})
    assert "sound" not in scripts and "live" in scripts
