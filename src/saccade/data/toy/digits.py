"""Strings of digits said by one speaker each, joined from the recordings of the Free Spoken Digit Dataset (FSDD).

    "3197"  →  four recordings of one speaker, with pauses between them

``data.digits.file`` is the data set as one NumPy archive: ``audio_delta`` int16, the differences of the samples of all
recordings one after the other, ``offsets``, ``labels``, ``speakers`` and ``index``. The speakers of ``valid`` and ``test`` are
in no other split. A recording occurs in many strings, and no string twice. The true times of every digit are known.
"""

from __future__ import annotations

import random
import zipfile
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int16
from numpy import ndarray

from saccade.data.paths import locate
from saccade.data.toy import check_ranges, drawn_splits
from saccade.errors import InputError

RATE = 8000
NAMES = ("audio_delta", "offsets", "labels", "speakers")
LOUDNESS = 0.08  # root mean square of each recording: those of some speakers are eight times as loud as others
MOST_DIGITS = 10_000
EXAMPLES: tuple[str, ...] = ()  # strings of the test set


@dataclass(frozen=True)
class Digits:
    """The number of strings, their lengths, the speakers that are held out, and the file of recordings."""

    file: str = "$SACCADE_DATA/fsdd/fsdd.npz"
    train: int = 4000
    valid: int = 200
    test: int = 500
    symbols: tuple[int, int] = (3, 8)  # digits per string, from and to
    pauses: tuple[float, float] = (0.0, 0.25)  # seconds after each digit, from and to
    valid_speaker: str = "nicolas"
    test_speaker: str = "theo"
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(self)
        least, longest = self.symbols
        if not 1 <= least <= longest <= MOST_DIGITS:
            raise ValueError(f"symbols must be two ordered numbers from 1 to {MOST_DIGITS:,}: got {[least, longest]}")
        shortest, most = self.pauses
        if not 0 <= shortest <= most <= 10:
            raise ValueError(f"pauses must be two ordered numbers from 0 to 10: got {[shortest, most]}")
        if self.valid_speaker == self.test_speaker:
            raise ValueError(f"valid_speaker and test_speaker must differ: got {self.test_speaker!r} twice")


class Recordings(NamedTuple):
    """All recordings one after the other, where each begins, and who says which digit."""

    samples: Int16[ndarray, " n"]
    offsets: tuple[int, ...]
    labels: tuple[int, ...]
    speakers: tuple[str, ...]

    def length(self, number: int) -> int:
        return self.offsets[number + 1] - self.offsets[number]


@dataclass(frozen=True, slots=True)
class DigitString:
    """A string as the numbers of its recordings in a file, and the samples of silence after each."""

    file: str
    recordings: tuple[int, ...]
    pauses: tuple[int, ...]

    @property
    def rate(self) -> int:
        return RATE

    @property
    def text(self) -> str:
        known = read(self.file)
        return "".join(str(known.labels[number]) for number in self.recordings)

    @property
    def speaker(self) -> str:
        return read(self.file).speakers[self.recordings[0]]

    @property
    def starts(self) -> list[int]:
        """The first sample of each digit, and the end of the string."""
        known = read(self.file)
        lengths = zip(self.recordings, self.pauses, strict=True)
        return [0, *accumulate(known.length(number) + pause for number, pause in lengths)]

    @property
    def count(self) -> int:
        """The number of samples."""
        return self.starts[-1]

    @property
    def times(self) -> tuple[tuple[str, float, float], ...]:
        """Each digit with its start and its end in seconds, without the pause after it."""
        ends = [end - pause for end, pause in zip(self.starts[1:], self.pauses, strict=True)]
        return tuple(
            (digit, start / RATE, end / RATE) for digit, start, end in zip(self.text, self.starts, ends, strict=False)
        )

    def draw(self) -> Float32[ndarray, " n"]:
        """The sound, from −1 to 1."""
        known, starts = read(self.file), self.starts
        sound = np.zeros(starts[-1], np.float32)
        for number, start in zip(self.recordings, starts, strict=False):
            said = known.samples[known.offsets[number] : known.offsets[number + 1]].astype(np.float32)
            said *= LOUDNESS / max(float(said.std()), 1.0)
            sound[start : start + len(said)] = said
        return np.clip(sound, -1.0, 1.0)


def generate(settings: Digits, folder: Path = Path()) -> dict[str, list[DigitString]]:
    """The strings of each split; a relative ``settings.file`` starts at ``folder``."""
    file = str(locate(settings.file, folder).resolve())
    known = read(file)
    held_out = {"valid": settings.valid_speaker, "test": settings.test_speaker}
    for split, speaker in held_out.items():
        if speaker not in known.speakers:
            names = ", ".join(sorted(set(known.speakers)))
            raise InputError(
                file, field=f"data.digits.{split}_speaker", expected=f"one of {names}", found=repr(speaker)
            )
    others = sorted(set(known.speakers) - set(held_out.values()))
    if not others:
        raise InputError(file, field="speakers", expected="three or more speakers", found="none to train on")
    speakers = {"train": others, **{split: [speaker] for split, speaker in held_out.items()}}
    seeds = drawn_splits(settings, "digits", lambda draw: draw.randrange(2**63))
    own = {split: _by_speaker(known, names) for split, names in speakers.items()}
    return {
        split: [_string(random.Random(seed), settings, file, own[split]) for seed in drawn]
        for split, drawn in seeds.items()
    }


def _by_speaker(known: Recordings, speakers: list[str]) -> list[list[int]]:
    """The numbers of the recordings of each speaker."""
    return [[number for number, other in enumerate(known.speakers) if other == speaker] for speaker in speakers]


def _string(draw: random.Random, settings: Digits, file: str, by_speaker: list[list[int]]) -> DigitString:
    own = draw.choice(by_speaker)
    recordings = tuple(draw.choices(own, k=draw.randint(*settings.symbols)))
    return DigitString(file, recordings, tuple(round(draw.uniform(*settings.pauses) * RATE) for _ in recordings))


@cache
def read(file: str) -> Recordings:
    """The recordings of a file, which is read once."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            missing = [name for name in NAMES if name not in archive.files]
            if missing:
                raise InputError(file, expected=f"arrays {', '.join(NAMES)}", found=f"no {', '.join(missing)}")
            if any(archive[name].ndim != 1 for name in NAMES):
                raise InputError(file, expected=f"one axis in each of {', '.join(NAMES)}", found="more")
            samples = np.cumsum(archive["audio_delta"], dtype=np.int16)
            offsets, labels, speakers = (archive[name].tolist() for name in NAMES[1:])
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(file, expected="a NumPy archive of FSDD's recordings", found=str(error)) from None
    ordered = all(0 <= start < end for start, end in pairwise(offsets))
    if not ordered or offsets[-1] > len(samples) or not len(labels) == len(speakers) == len(offsets) - 1:
        found = f"{len(offsets):,} offsets, {len(labels):,} labels, {len(speakers):,} speakers"
        raise InputError(file, expected="ordered offsets within the samples, and a label and speaker each", found=found)
    return Recordings(samples, tuple(offsets), tuple(labels), tuple(speakers))
