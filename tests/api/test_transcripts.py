"""What was written of a sound, and when the attention heard it."""

import base64
import wave
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import saccade
from saccade.api.transcripts import pieces_of
from saccade.cli import app
from saccade.data.audio.config import SoundFeatures
from saccade.data.audio.recordings import InFile
from saccade.errors import InputError, SaccadeError
from saccade.kinds import TEXT
from saccade.recipes.recipe import read_recipe
from saccade.task import Prediction
from saccade.trace.axes import Frames, Positions, Tokens
from saccade.trace.maps import AttentionMap, Trace


def heard(labels: tuple[str, ...], text: str, rows: list[list[float]], heads: int = 1, special: tuple[int, ...] = ()):
    """A prediction whose tokens looked at frames of half a second."""
    weights = torch.tensor(rows)
    axes = {"target": Tokens(labels, text=text, special=special), "sound": Frames.of(weights.shape[1], 0.5)}
    maps = [
        AttentionMap("decoder.attention", "target", "sound", "dense", {"weights": part}, head=head, keys=part.shape[1])
        for head, part in enumerate([weights, weights.flip(1)][:heads])
    ]
    own = AttentionMap("encoder.self", "sound", "sound", "dense", {"weights": torch.eye(weights.shape[1])}, keys=7)
    return Prediction(text, 0.0, 0.0, "eos", (), Trace(axes, (own, *maps)))


ROWS = [
    [0.9, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.04, 0.5, 0.41, 0.05, 0.0, 0.0],
    [0.1, 0.0, 0.0, 0.0, 0.0, 0.2, 0.7],
]


def test_a_token_was_heard_in_the_frames_around_its_largest_weight() -> None:
    a, b, c = pieces_of(heard(("a", "b", "c"), "abc", ROWS))
    assert (a.start, a.end) == (0.0, 1.0) and a.at == pytest.approx((0.5 * 0.9 + 1.5 * 0.1) * 0.5)
    assert (b.start, b.end) == (1.0, 2.5), "a frame with less than a tenth of the largest weight is left out"
    assert b.at == pytest.approx(0.5 * (2.5 * 0.5 + 3.5 * 0.41 + 4.5 * 0.05) / 0.96)
    assert (c.start, c.end) == (2.5, 3.5), "a look elsewhere is not part of the stretch"


def test_seconds_are_those_of_the_recording_and_end_with_the_window() -> None:
    a, _, c = pieces_of(heard(("a", "b", "c"), "abc", ROWS), start=10.0, end=13.2)
    assert (a.start, a.end) == (10.0, 11.0)
    assert (c.start, c.end) == (12.5, 13.2), "the last frame may be longer than the recording"


@pytest.mark.parametrize(
    ("labels", "text", "pieces"),
    [
        (("a", " ", "b"), "a b", ["a", " ", "b"]),
        (("the", "moon", "rose"), "the moon rose", ["the", " moon", " rose"]),
        (("th", "e", "moon"), "the moon", ["th", "e", " moon"]),
        (("<unk>", "x", "b"), "ab", ["<unk>", "x", "b"]),
        ((" ", "a", " "), "a", [" ", "a", " "]),
    ],
)
def test_pieces_have_the_spaces_of_their_text(labels: tuple[str, ...], text: str, pieces: list[str]) -> None:
    assert [piece.text for piece in pieces_of(heard(labels, text, ROWS))] == pieces


def test_marks_are_no_pieces_and_heads_are_averaged() -> None:
    one, two = pieces_of(heard(("a", "b", "<eos>"), "ab", ROWS, heads=2, special=(2,)))
    assert (one.text, two.text) == ("a", "b")
    assert one.start in (0.0, 2.5) and (two.start, two.end) == (1.0, 2.5)


def test_broken_weights_hear_nothing_and_raise_nothing() -> None:
    rows = [[float("nan")] * 7, [0.0] * 7, ROWS[0]]
    assert [(piece.start, piece.end) for piece in pieces_of(heard(("a", "b", "c"), "abc", rows))] == [
        (0.0, 0.0), (0.0, 0.0), (0.0, 1.0)
    ]  # fmt: skip


def test_what_looked_at_no_sound_is_refused() -> None:
    trace = heard(("a", "b", "c"), "abc", ROWS).trace
    blind = Trace({**trace.axes, "sound": Positions.of(7)}, trace.maps)
    with pytest.raises(SaccadeError, match="attention from tokens to frames"):
        pieces_of(Prediction("abc", 0.0, 0.0, "eos", (), blind))
    with pytest.raises(SaccadeError, match="with its trace"):
        pieces_of(Prediction("abc", 0.0, 0.0, "eos", (), None))


# With a network -------------------------------------------------------------------------------------------------------

SMALL = [
    "data.tones={train: 40, valid: 3, test: 3, rate: 8000}", "data.audio.rate=8000", "data.features.mels=8",
    "model.hidden=6", "model.state=6", "model.embedding=4", "model.alignment=6", "model.maxout=4", "data.max_length=11",
    "train.updates=3", "train.device=cpu", "train.threads=1", "expect=null",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones") / "run"
    saccade.train(read_recipe("listen_tones", SMALL), folder=folder, progress=False)
    return folder


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Seven seconds of noise at another rate than the model's."""
    path = tmp_path / "talk.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(11_025)
        noise = np.random.default_rng(1).standard_normal(7 * 11_025)
        file.writeframes((noise * 3000).astype("<i2").tobytes())
    return path


def test_a_short_recording_is_what_predict_writes_of_it(run: Path, talk: Path) -> None:
    bundle = saccade.load(run)
    transcript = saccade.transcribe(bundle, talk)
    (prediction,) = bundle.predict([talk], lens=saccade.Lens())
    assert prediction.value and transcript.text == prediction.value
    assert transcript.seconds == pytest.approx(7.0) and transcript.name == str(talk)
    assert list(transcript.pieces) == pieces_of(prediction, end=7.0)
    assert list(transcript.notes) == list(prediction.notes)


def test_a_long_recording_is_read_a_window_at_a_time(run: Path, talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    decode = InFile.decode

    def spy(self: InFile, start: int, count: int, where: str) -> Any:
        asked.append((start, count))
        return decode(self, start, count, where)

    monkeypatch.setattr(InFile, "decode", spy)
    shares: list[float] = []
    monkeypatch.setattr("saccade.api.transcripts.TOGETHER", 2)
    transcript = saccade.transcribe(saccade.load(run), talk, chunk=2, overlap=0.5, progress=shares.append)
    assert max(count for _, count in asked) == 2 * 11_025
    assert {start for start, _ in asked} == {0, round(1.5 * 11_025), 3 * 11_025, round(4.5 * 11_025), 5 * 11_025}
    assert shares == [2 / 5, 4 / 5, 1.0]
    ends = [piece.end for piece in transcript.pieces]
    assert max(ends) <= 7.0 and any(piece.at > 5 for piece in transcript.pieces), "seconds of the whole recording"
    assert [note for note in transcript.notes if "resampled" in note] == ["resampled from 11,025 to 8,000 Hz"]


def test_models_of_texts_and_of_given_frames_are_refused(run: Path, talk: Path) -> None:
    bundle = saccade.load(run)
    with pytest.raises(SaccadeError, match="overlap of at most half"):
        saccade.transcribe(bundle, talk, chunk=2, overlap=1.5)
    with pytest.raises(InputError, match=r"none\.wav"):
        saccade.transcribe(bundle, "none.wav")
    bundle.recipe = replace(bundle.recipe, data=replace(bundle.recipe.data, features=SoundFeatures("given", deltas=0)))
    with pytest.raises(SaccadeError, match="expected a model that reads recordings"):
        saccade.transcribe(bundle, talk)
    bundle.task = SimpleNamespace(input=TEXT, name="translate")  # type: ignore[assignment]
    with pytest.raises(SaccadeError, match="expected a model that reads sound, found one of the task translate"):
        saccade.transcribe(bundle, talk)


class TestCommandLine:
    def called(self, *words: str | Path) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["predict", *map(str, words)])
        return done.exit_code, done.output if done.exception is None else f"{done.output}{done.exception}"

    @pytest.mark.parametrize("ending", ["srt", "vtt", "json", "TextGrid"])
    def test_the_ending_of_out_says_what_is_written(self, run: Path, talk: Path, ending: str, tmp_path: Path) -> None:
        out = tmp_path / f"talk.{ending}"
        code, said = self.called(run, talk, "--out", out, "--chunk", "2")
        transcript = saccade.transcribe(saccade.load(run), talk, chunk=2)
        assert code == 0 and f"{len(transcript.words)} words in 7.0 s" in said
        transcript.save(tmp_path / f"own.{ending}")
        assert out.read_bytes() == (tmp_path / f"own.{ending}").read_bytes()
        code, said = self.called(run, talk, "--out", out)
        assert code == 1 and "found an existing one (add --force" in said
        assert self.called(run, talk, "--out", out, "--force")[0] == 0

    def test_without_out_the_text_is_printed(self, run: Path, talk: Path) -> None:
        done = CliRunner().invoke(app, ["predict", str(run), str(talk), "--chunk", "2"])
        transcript = saccade.transcribe(saccade.load(run), talk, chunk=2)
        assert done.exit_code == 0 and done.stdout == f"{transcript.text}\n"
        assert done.stderr.splitlines().count("note: reached 12 tokens without an end") == 1  # though every window did

    def test_what_is_longer_than_training_recordings_is_read_in_windows(self, run: Path, tmp_path: Path) -> None:
        path = tmp_path / "hour.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(np.random.default_rng(2).integers(-2000, 2000, 8000 * 41, dtype="<i2").tobytes())
        done = CliRunner().invoke(app, ["predict", str(run), str(path)])
        assert done.exit_code == 0 and "41 s are more than data.audio.max_seconds, 40: transcribed" in done.stderr
        assert done.stdout == f"{saccade.transcribe(saccade.load(run), path).text}\n"

    def test_what_does_not_fit_is_one_line(self, run: Path, talk: Path, tmp_path: Path) -> None:
        srt = tmp_path / "x.srt"
        for words, expected in (
            ((run, talk, talk, "--out", srt), "expected one recording as INPUT, found 2"),
            ((run, talk, "--out", srt, "--n-best", "2"), "--n-best cannot be combined with --chunk"),
            ((run, talk, "--out", srt, "--prefix", "a"), "--prefix cannot be combined with --chunk"),
            ((run, talk, "--out", tmp_path / "x.txt", "--chunk", "2"), "expected FILE.srt, .vtt, .json or .TextGrid"),
            ((run, tmp_path / "none.wav", "--out", srt), "none.wav"),
            ((run, talk, "--out", srt, "--overlap", "19"), "overlap of at most half"),
        ):
            code, said = self.called(*words)
            assert code == 1 and expected in said.replace("\n", ""), said
        assert not srt.exists()


def test_the_live_page_shows_plays_and_asks_about_sounds(run: Path, talk: Path) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed")
    pytest.importorskip("httpx2", reason="httpx2, of the test client, is not installed")
    from fastapi.testclient import TestClient

    from saccade.server import create_app

    bundle = saccade.load(run)
    for given in ([], [str(talk)]):
        with TestClient(create_app({"my": bundle}, inputs=given), base_url="http://localhost") as client:
            page = client.get("/").text
            assert '"input":"audio"' in page and "data:audio/wav;base64," in page and '"kind":"frames"' in page
            sent = {"inputs": [{"base64": base64.b64encode(talk.read_bytes()).decode()}], "trace": True}
            answer = client.post("/v1/models/my/predict", json=sent).json()["predictions"][0]
            axis = next(
                axis for axis in answer["page"]["header"]["traces"][0]["axes"].values() if axis["kind"] == "frames"
            )
            assert axis["rate"] == 8000 and axis["spectrogram"]["dtype"] == "u8"
            content = base64.b64decode(axis["audio"].partition(",")[2])
            again = client.post(
                "/v1/models/my/predict", json={"inputs": [{"base64": base64.b64encode(content).decode()}]}
            )
            assert again.json()["predictions"][0]["output"] == answer["output"], "the page asks about what it plays"
