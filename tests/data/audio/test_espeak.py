"""Spoken sentences that espeak-ng makes: true times, held-out speakers, and one clear error where it is not installed."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saccade.data.audio import espeak
from saccade.data.audio.espeak import SentenceCounts, phoneme_times
from saccade.errors import SaccadeError

COUNTS = SentenceCounts(train=41, valid=7, test=11)


def installed() -> bool:
    try:
        ctypes.CDLL(espeak.LIBRARY)
    except OSError:
        return False
    return True


needs_espeak = pytest.mark.skipif(not installed(), reason="espeak-ng is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("espeak") / "set"
    espeak.make(folder, COUNTS)
    return folder


def records(folder: Path, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]


def read(path: Path) -> tuple[np.ndarray, int]:
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 2**15, file.getframerate()


@needs_espeak
def test_phonemes_fill_their_recording_without_holes_in_the_order_of_the_text(made: Path) -> None:
    for record in records(made, "train"):
        samples, rate = read(made / record["audio"])
        starts, ends = ([time[place] for time in record["times"]] for place in (1, 2))
        assert [symbol for symbol, _, _ in record["times"]] == record["phonemes"].split()
        assert starts[1:] == ends[:-1] and starts[0] < 0.05
        assert ends[-1] == pytest.approx(len(samples) / rate, abs=1e-4)
        assert min(np.subtract(ends, starts)) > 0


@needs_espeak
def test_pauses_are_silent_and_vowels_are_loud_at_the_times_that_are_written(made: Path) -> None:
    silence, vowels = [], []
    for record in records(made, "test"):
        samples, rate = read(made / record["audio"])
        for symbol, start, end in record["times"]:
            part = samples[round(start * rate) : round(end * rate)]
            if symbol == "sil" and end - start > 0.1:
                silence.append(part[len(part) // 3 : -len(part) // 5].std())
            elif symbol in ("a", "aI", "i:", "oU", "O:", "eI"):
                vowels.append(part.std())
    assert len(silence) > 5 and len(vowels) > 20
    assert max(silence) < 0.25 * np.median(vowels)


@needs_espeak
def test_no_speaker_and_no_sentence_is_in_two_splits(made: Path) -> None:
    for key in ("text", "speaker"):
        splits = [{record[key] for record in records(made, split)} for split in ("train", "valid", "test")]
        assert not (splits[0] & splits[1] or splits[0] & splits[2] or splits[1] & splits[2])
    assert [len(records(made, split)) for split in ("train", "valid", "test")] == [41, 7, 11]
    assert len({record["speaker"] for record in records(made, "train")}) == 33


@needs_espeak
def test_two_processes_make_equal_sets(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from saccade.data.audio.espeak import SentenceCounts, make;"
        "make(Path(sys.argv[1]), SentenceCounts(5, 2, 3), seed=4)"
    )
    for name in ("one", "two"):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], check=True)
    files = [
        sorted(path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*.*")) for name in ("one", "two")
    ]
    assert files[0] == files[1] and len(files[0]) == 13
    assert all((tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes() for path in files[0])


@needs_espeak
def test_the_command_says_what_it_made_and_refuses_a_folder_with_files(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(espeak, "SentenceCounts", lambda: COUNTS)
    status, out, _ = command("data", tmp_path / "made", "--make", "espeak")
    assert status == 0 and len(records(tmp_path / "made", "test")) == 11
    assert f"saccade train listen_phonemes data.train={tmp_path}/made/train.jsonl" in out
    status, _, err = command("data", tmp_path / "made", "--make", "espeak")
    assert status and "expected a new or an empty folder, found one with files" in err


@pytest.mark.parametrize(
    ("words", "found"),
    [(["--make", "festival"], "'festival'"), (["--make", "espeak", "--encoding", "utf-8"], "--encoding")],
)
def test_other_options_beside_make_and_other_makers_are_refused(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, words: list[str], found: str
) -> None:
    status, _, err = command("data", tmp_path / "made", *words)
    assert status and found in err and not (tmp_path / "made").exists()


def test_without_espeak_there_is_one_error_that_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    monkeypatch.setattr(espeak.shutil, "which", lambda name: None)
    with pytest.raises(
        SaccadeError, match=r"espeak-ng: expected it to be installed, found neither .*apt install espeak-ng"
    ):
        espeak.make(tmp_path / "made", COUNTS)
    assert not (tmp_path / "made").exists()


def test_pauses_in_a_row_are_one_and_what_lasts_no_time_is_left_out() -> None:
    events = [("S", 7), ("i:", 19), ("_:", 31), ("_", 31), ("", 43), ("t", 57), ("_", 61)]
    assert phoneme_times(events, 73, 100) == (
        ("S", 0.07, 0.19), ("i:", 0.19, 0.31), ("sil", 0.31, 0.57), ("t", 0.57, 0.61), ("sil", 0.61, 0.73),
    )  # fmt: skip
