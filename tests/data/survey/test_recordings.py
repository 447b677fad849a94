"""What ``saccade data`` says of recordings with transcripts, and that the recipe it writes trains."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import saccade
from saccade.data.audio.recordings import Recording
from saccade.data.survey import recordings
from saccade.data.survey.recordings import heard_in
from saccade.recipes.recipe import read_recipe
from tests.data.audio.recorded import sound, wav, write


@pytest.fixture
def data(command, monkeypatch, tmp_path):
    """Runs the command in this process: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return partial(command, "data")


def report(data: Any, *words: object) -> dict[str, Any]:
    _, out, err = data(*words, "--json")
    assert not err
    found: dict[str, Any] = json.loads(out)
    return found


def corpus(folder: Path, count: int, *, speakers: int = 5, rate: int = 8000) -> list[list[str]]:
    """Rows of (file, transcript, speaker), whose recordings are in the folder."""
    rows = []
    for number in range(count):
        write(folder / f"{number}.wav", 4001 + 400 * (number % 7), seed=number, rate=rate)
        rows.append([f"{number}.wav", f"say {number % 10}", f"s{number % speakers}"])
    return rows


def table(path: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ("audio", "text", "speaker")) -> None:
    separator = "\t" if path.endswith("tsv") else ","
    Path(path).write_text("\n".join(separator.join(row) for row in [header, *rows]) + "\n")


def test_a_table_is_counted_by_hours_rates_channels_speakers_and_fault(data):
    rows = corpus(Path("wav"), 30)
    Path("wav/3.wav").write_bytes(wav(np.stack([sound(8000), sound(8000, 2)], 1), 16_000))
    Path("wav/4.wav").write_bytes(wav(np.clip(sound(4001).astype(int) * 9, -32768, 32767).astype(np.int16)))
    quiet = np.concatenate([sound(2000), np.zeros(6001, np.int16)])
    Path("wav/5.wav").write_bytes(wav(quiet))
    Path("wav/6.wav").write_bytes(wav(sound(4001))[:-3000])
    Path("wav/7.wav").write_bytes(wav(np.zeros(4001, np.int16)))
    Path("wav/8.wav").write_bytes(b"")
    rows[9][1] = "far too many words for half a second of sound"
    rows[10][0] = "gone.wav"
    rows += [[rows[11][0], rows[11][1], "s1"], [rows[12][0], "say something else", "s2"]]
    table("list.csv", rows)
    found = report(data, "list.csv")
    assert (found["kind"], found["task"], found["would_train"], found["records"]) == (
        "recordings",
        "transcribe",
        True,
        28,
    )
    counts = {reason: fault["count"] for reason, fault in found["faults"].items()}
    assert counts == {
        "a damaged recording": 1, "a silent recording": 1, "no recording, or one that cannot be read": 1,
        "without its recording": 1,
    }  # fmt: skip
    assert (found["rates"], found["channels"]) == ({"8000": 27, "16000": 1}, {"1": 27, "2": 1})
    assert (found["clipped"], found["mostly_silent"], found["too_fast"], found["speakers"]) == (1, 1, 1, 5)
    assert (found["repeated"], found["contradicted"]) == (1, 1)
    assert found["seconds"]["longest"] == 1.0 and 17 / 3600 < found["hours"] < 19 / 3600
    notes = " ".join(found["notes"])
    assert (
        "the recordings are in wav, as seen from the file" in notes and "resampled to 8,000 Hz: 1 of 16,000 Hz" in notes
    )
    assert "the channels of 1 recording are mixed" in notes and "faults: drop" in found["recipe"]
    status, out, _ = data("list.csv")
    assert status == 0 and "28 recordings (28 wav) with a transcript each by 5 speakers" in out
    assert "Sample rates" in out and "Minutes per speaker" in out and "4 faulty recordings" in out


@pytest.mark.parametrize("layout", ["folder", "librispeech", "kaldi", "commonvoice", "jsonl", "tsv"])
def test_every_layout_is_recognised(layout, data):
    rows = corpus(Path("all/clips" if layout == "commonvoice" else "all"), 12)
    if layout == "folder":
        for name, text, _ in rows:
            Path("all", name).with_suffix(".txt").write_text(text)
    if layout == "librispeech":
        for number, (name, _, _) in enumerate(rows):
            Path("all", name).rename(Path("all", f"{number % 4}-1-{number:04}.wav"))
        lines = [f"{number % 4}-1-{number:04} SAY {number}" for number in range(12)]
        Path("all/1.trans.txt").write_text("\n".join(lines))
    if layout == "kaldi":
        Path("all/wav.scp").write_text("\n".join(f"u{number} {row[0]}" for number, row in enumerate(rows)))
        Path("all/text").write_text("\n".join(f"u{number} {row[1]}" for number, row in enumerate(rows)))
    if layout == "commonvoice":
        table("all/train.tsv", [[who, name, text] for name, text, who in rows], ("client_id", "path", "sentence"))
    if layout == "tsv":
        table("all/list.tsv", rows, ("wav", "transcript", "spk"))
    if layout == "jsonl":
        lines = [json.dumps({"audio_filepath": name, "text": text, "duration": 0.5}) for name, text, _ in rows]
        Path("all/list.jsonl").write_text("\n".join(lines))
    found = report(data, f"all/list.{layout}" if layout in ("jsonl", "tsv") else "all")
    assert (found["kind"], found["records"], found["would_train"]) == ("recordings", 12, True)
    speakers = {"librispeech": 4, "commonvoice": 5, "tsv": 5}.get(layout, 0)
    assert found["speakers"] == speakers
    assert any("speakers are not known" in note for note in found["notes"]) == (not speakers)


def test_columns_that_are_named_and_a_test_set_are_read_as_the_training_file_is(data):
    rows = corpus(Path("wav"), 20)
    header = ("words", "what", "phones", "who")
    table("list.csv", [[text, f"wav/{name}", text[-1], who] for name, text, who in rows[:15]], header)
    table("test.csv", [[text, f"wav/{name}", text[-1], f"{who}x" if number else who]
                       for number, (name, text, who) in enumerate(rows[14:])], header)  # fmt: skip
    named = ("--column", "audio=what", "--column", "text=phones", "--column", "speaker=who")
    found = report(data, "list.csv", *named, "--test", "test.csv")
    assert {role: name for role, name in found["columns"].items() if name} == {
        "audio": "what", "text": "phones", "speaker": "who",
    }  # fmt: skip
    assert (found["sides"]["text"]["words"]["longest"], found["speakers"]) == (1, 5)
    assert (found["tests"][0]["records"], found["tests"][0]["met"]) == (6, 1)
    _, out, _ = data("list.csv", *named, "--test", "test.csv")
    assert "1  are of speakers who are in the training file" in " ".join(out.split("\n")).replace("  1  are", "1  are")


def test_a_table_without_a_header_has_columns_by_number(data):
    table("list.tsv", corpus(Path(), 12)[1:], corpus(Path(), 1)[0])
    found = report(data, "list.tsv", "--column", "audio=1", "--column", "text=2", "--column", "speaker=3")
    assert (found["records"], found["speakers"], found["would_train"]) == (12, 5, True)
    assert "audio: 1" in found["recipe"]


def test_given_frames_are_counted_by_the_recipe_that_names_them(data):
    lengths = [50 + number for number in range(20)]
    feats = np.random.RandomState(1).standard_normal((sum(lengths), 5))
    np.savez("all.npz", feats=feats, offsets=np.cumsum([0, *lengths]))
    rows = [
        [f"u{number}", f"say {number % 4}", f"s{number % 5}", "test" if number > 14 else "train"]
        for number in range(20)
    ]
    table("list.tsv", rows, ("utt", "words", "speaker", "part"))
    Path("my.yaml").write_text(
        "task: transcribe\ndata:\n  train: list.tsv\n  test: list.tsv\n  columns: {text: words, split: part}\n"
        "  features: {kind: given, archive: all.npz, hop: 0.02}\n"
    )
    found = report(data, "my.yaml")
    assert (found["records"], found["tests"][0]["records"], found["speakers"]) == (15, 5, 5)
    assert found["seconds"]["longest"] == 1.3 and found["would_train"]
    assert "clipped" not in data("my.yaml")[1]
    np.savez("all.npz", feats=feats, offsets=np.cumsum([0, *lengths])[:-1])
    assert data("my.yaml")[0] == 1


def test_tables_of_other_kinds_stay_what_they_are(data):
    Path("texts.csv").write_text("path,text\nnews/1,a text of words\nnews/2,and another text\n" * 4)
    Path("pairs.tsv").write_text("the house\ta casa\nthe dog\to cão\n" * 3)
    assert report(data, "texts.csv")["kind"] != "recordings" and report(data, "pairs.tsv")["kind"] == "pairs"


@pytest.mark.parametrize(("rate", "wanted"), [(44_100, 16_000), (11_025, 8000), (8000, 8000), (6000, 6000)])
def test_the_recipe_reads_at_a_rate_that_the_recordings_have(rate, wanted, data, tmp_path):
    table("list.csv", corpus(Path(), 12, rate=rate))
    assert data("list.csv", "--recipe", "my.yaml")[0] == 0
    assert read_recipe(tmp_path / "my.yaml").data.audio.rate == wanted


def test_a_folder_without_recordings_and_a_recording_alone_are_refused_as_such(data):
    Path("empty").mkdir()
    Path("notes").mkdir()
    Path("notes/a.md").write_text("nothing to hear")
    write(Path("talk.wav"), 900)
    for name, found in (
        ("empty", "an empty folder"),
        ("notes", "a folder with neither"),
        ("talk.wav", "one recording"),
    ):
        status, _, err = data(name)
        assert status == 1 and err.startswith(f"error: {name}: expected ") and found in err and "recordings" in err


def test_a_few_recordings_that_are_far_longer_are_left_out(data, tmp_path):
    rows = corpus(Path(), 120, rate=1000)
    write(tmp_path / "0.wav", 70_000, rate=1000)
    table("list.csv", rows)
    found = report(data, "list.csv", "--recipe", "my.yaml")
    assert any("1 recording longer than data.audio.max_seconds=40" in note for note in found["notes"])
    audio = read_recipe(tmp_path / "my.yaml").data.audio
    assert (audio.max_seconds, audio.too_long) == (40.0, "drop")
    again = report(data, "my.yaml")
    assert again["records"] == 119 and again["would_train"]


def test_a_recipe_is_judged_by_its_own_limits(data):
    rows = corpus(Path(), 20)
    Path("3.wav").write_bytes(b"no sound")
    table("list.csv", rows)
    text = "task: transcribe\ndata: {train: list.csv, max_length: 3}\nmodel: {name: listen_attend}\n"
    Path("my.yaml").write_text(text)
    status, out, _ = data("my.yaml")
    assert status == 1 and "3.wav" in out and "data.faults: drop leaves them out" in out
    assert "exceed data.max_length=3 characters" in out
    Path("my.yaml").write_text(text.replace("max_length: 3", "max_length: 9, faults: drop"))
    assert report(data, "my.yaml")["would_train"]


def test_the_recipe_that_is_written_trains(data):
    table("list.csv", corpus(Path("wav"), 24))
    Path("wav/3.wav").write_bytes(wav(sound(4001))[:-3000])
    status, out, _ = data("list.csv", "--recipe", "recipes/my.yaml")
    assert status == 0 and "saccade train recipes/my.yaml" in out
    small = {"hidden": 5, "state": 5, "alignment": 5, "reach": 3}
    recipe = yaml.safe_load(Path("recipes/my.yaml").read_text())
    recipe["data"]["features"] |= {"cache": "cache", "mels": 7}
    recipe["train"] |= {"epochs": 1, "batch_records": 8, "warmup": 1}
    recipe["model"] |= small
    Path("recipes/my.yaml").write_text(yaml.safe_dump(recipe))
    bundle = saccade.train("recipes/my.yaml", folder="run", progress=False)
    heard = bundle.predict("wav/2.wav")[0]
    assert isinstance(heard.value, str)
    assert set(bundle.evaluate()) == {"cer", "wer"}
    again = saccade.load("run").predict("wav/2.wav")[0]
    assert again.value == heard.value and again.score == pytest.approx(heard.score)


def test_sound_is_looked_at_in_parts(monkeypatch):
    samples = np.concatenate([np.zeros(4000), sound(4000), np.zeros(2400), [32767] * 3, sound(9)]).astype(np.int16)
    whole = heard_in(Recording.in_memory((samples, 8000), "given"))
    assert whole.quiet == pytest.approx(0.8, abs=0.03) and whole.clipped and whole.fault is None
    monkeypatch.setattr("saccade.data.survey.recordings.BLOCK", 0.24)
    parts = heard_in(Recording.in_memory((samples, 8000), "given"))
    assert parts.quiet == pytest.approx(whole.quiet, abs=0.03) and parts.clipped
    samples[-12:] = 0
    assert not heard_in(Recording.in_memory((samples, 8000), "given")).clipped


def test_of_a_very_long_recording_the_start_is_looked_at(monkeypatch):
    monkeypatch.setattr(recordings, "BLOCK", 0.5)
    monkeypatch.setattr(recordings, "MEASURED", 1.3)
    read, part = [], Recording.part
    monkeypatch.setattr(Recording, "part", lambda self, start, end=None: read.append(end) or part(self, start, end))
    samples = np.zeros(3 * 8000, np.float32)
    samples[2 * 8000 :] = 0.5
    found = heard_in(Recording.in_memory((samples, 8000), "given"))
    assert found.fault is None and read == [0.5, 1.0, 1.5]  # the sound comes later: it is not taken for silent
