"""Strings of digits joined from recordings: true times, equal loudness, held-out speakers, and clear errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from saccade.data.toy.digits import RATE, Digits, generate
from saccade.errors import InputError

SPEAKERS = ("ann", "bob", "cem", "dov")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two recordings of each digit by four speakers: digit d of speaker s is a tone of its own, louder by speaker."""
    labels, speakers, sounds = [], [], []
    for number, speaker in enumerate(SPEAKERS):
        for digit in range(10):
            for take in range(2):
                time = np.arange(1200 + 37 * digit + 11 * number + take)
                sounds.append((100 * 4**number * np.sin(time * (0.2 + 0.1 * digit))).astype(np.int16))
                labels.append(digit)
                speakers.append(speaker)
    samples = np.concatenate(sounds)
    np.savez(
        tmp_path / "digits.npz",
        audio_delta=np.diff(samples, prepend=np.int16(0)),
        offsets=np.cumsum([0, *map(len, sounds)]).astype(np.int32),
        labels=np.array(labels, np.uint8),
        speakers=np.array(speakers),
    )
    return tmp_path / "digits.npz"


def small(file: Path, **changes: object) -> Digits:
    settings = {"file": str(file), "train": 61, "valid": 7, "test": 11, "valid_speaker": "cem", "test_speaker": "ann"}
    return Digits(**{**settings, **changes})  # type: ignore[arg-type]


def test_each_digit_is_heard_between_its_times_and_pauses_are_silent(file: Path) -> None:
    for string in generate(small(file))["train"]:
        sound = string.draw()
        assert len(sound) == string.count and sound.dtype == np.float32
        assert "".join(digit for digit, _, _ in string.times) == string.text
        for number, (digit, start, end) in enumerate(string.times):
            inside = sound[round(start * RATE) : round(end * RATE)]
            spectrum = np.abs(np.fft.rfft(inside, 1 << 14))
            assert 2 * np.pi * spectrum.argmax() / (1 << 14) == pytest.approx(0.2 + 0.1 * int(digit), abs=0.01)
            assert inside.std() == pytest.approx(0.08, rel=0.02)
            assert not sound[round(end * RATE) : string.starts[number + 1]].any()


def test_held_out_speakers_are_in_no_other_split_and_a_string_has_one_speaker(file: Path) -> None:
    splits = generate(small(file))
    assert {string.speaker for string in splits["train"]} == {"bob", "dov"}
    assert {string.speaker for string in splits["valid"]} == {"cem"}
    assert {string.speaker for string in splits["test"]} == {"ann"}
    assert [len(splits[split]) for split in ("train", "valid", "test")] == [61, 7, 11]
    for strings in splits.values():
        assert all(len({number // 20 for number in string.recordings}) == 1 for string in strings)


def test_strings_have_the_lengths_asked_for_and_a_split_does_not_change_with_another(file: Path) -> None:
    splits = generate(small(file, symbols=(2, 5)))
    assert {len(string.text) for string in splits["train"]} == {2, 3, 4, 5}
    assert generate(small(file, symbols=(2, 5), train=3))["test"] == splits["test"]
    assert generate(small(file, symbols=(2, 5), seed=2))["test"] != splits["test"]


def test_a_relative_file_starts_at_the_folder_of_the_recipe(file: Path) -> None:
    assert generate(small(Path(file.name)), file.parent) == generate(small(file))


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"symbols": (5, 4)}, "symbols"), ({"pauses": (-1, 0)}, "pauses"), ({"test_speaker": "cem"}, "valid_speaker")],
)
def test_settings_that_cannot_be_are_refused_by_name(file: Path, changes: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} .*must"):
        small(file, **changes)


def test_files_that_hold_no_recordings_are_refused_with_their_name(file: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"digits\.npz: data\.digits\.test_speaker: expected one of ann, .*found 'eve'"
    ):
        generate(small(file, test_speaker="eve"))
    whole = file.read_bytes()
    for name, content in (("cut.npz", whole[: len(whole) // 2]), ("text.npz", b"no archive"), ("none.npz", None)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}: expected a NumPy archive of FSDD's recordings, found"):
            generate(small(tmp_path / name))
    arrays = dict(np.load(file))
    np.savez(tmp_path / "short.npz", **{**arrays, "labels": arrays["labels"][:-3]})
    with pytest.raises(InputError, match=r"expected ordered offsets within the samples.*found 81 offsets, 77 labels"):
        generate(small(tmp_path / "short.npz"))
    np.savez(tmp_path / "lost.npz", **{name: array for name, array in arrays.items() if name != "speakers"})
    with pytest.raises(InputError, match="found no speakers"):
        generate(small(tmp_path / "lost.npz"))
