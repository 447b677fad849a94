"""The settings of recordings, of their features and of how training varies them, as recipes write them. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from saccade.data.audio.recordings import LEAST_RATE, MOST_RATE

MOST_SPEED = 4.0


@dataclass(frozen=True)
class AudioConfig:
    """How recordings are read (``data.audio``).

    Attributes:
        rate: samples per second; recordings of another rate are resampled.
        max_seconds: the longest recording to train on.
        too_long: what to do with longer ones: an error, or leave them out and count them. A transcript cannot be cut where its
            recording is.
    """

    rate: int = 16_000
    max_seconds: float = 40.0
    too_long: Literal["error", "drop"] = "error"

    def __post_init__(self) -> None:
        if not LEAST_RATE <= self.rate <= MOST_RATE:
            raise ValueError(f"rate must be from {LEAST_RATE:,} to {MOST_RATE:,}: got {self.rate}")
        if not 0 < self.max_seconds < float("inf"):
            raise ValueError(f"max_seconds must be positive: got {self.max_seconds}")


@dataclass(frozen=True)
class SoundFeatures:
    """What a network reads of a recording (``data.features``): L frames of D values.

    Attributes:
        kind: ``log_mel``, the logarithm of mel filter banks; ``mfcc``, the first coefficients of its discrete cosine transform;
            ``given``, frames that were computed elsewhere.
        mels: filters of the bank, from ``low`` to ``high`` Hz (half the rate unless given).
        energy: the logarithm of the frame's mean square beside them.
        coefficients: of ``mfcc``.
        deltas: 1 adds the first differences over time, 2 the second too: 40 filters with energy are 41, 82 or 123 values.
        window, hop: seconds of a frame, and from frame to frame; of given frames ``hop`` says how long one is.
        normalise: to mean 0 and variance 1, as learnt from the training recordings: ``global``, ``speaker`` (each speaker's
            own, of the 2,000 who speak longest) or ``none``. A recording of another speaker is normalised by itself. Either is
            mixed with one second of the global mean and variance.
        archive: of given frames, the one file that holds those of all recordings, as seen from the file that lists them; else
            every recording is a file of its own.
        cache: the folder in which features are kept; ``~/.cache/saccade/features`` unless given.
    """

    kind: Literal["log_mel", "mfcc", "given"] = "log_mel"
    mels: int = 40
    energy: bool = True
    coefficients: int = 13
    deltas: Literal[0, 1, 2] = 2
    window: float = 0.025
    hop: float = 0.010
    low: float = 0.0
    high: float | None = None
    normalise: Literal["global", "speaker", "none"] = "global"
    archive: str | None = None
    cache: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.mels <= 256:
            raise ValueError(f"mels must be from 1 to 256: got {self.mels}")
        if self.kind == "mfcc" and not 1 <= self.coefficients <= self.mels:
            raise ValueError(f"coefficients must be from 1 to mels={self.mels}: got {self.coefficients}")
        if not 0.001 <= self.hop <= 1.0:
            raise ValueError(f"hop must be from 0.001 to 1 second: got {self.hop}")
        if not self.hop <= self.window <= 1.0 and self.kind != "given":
            raise ValueError(f"window must be from hop={self.hop:g} to 1 second: got {self.window}")
        if self.low < 0 or (self.high is not None and self.high <= self.low):
            raise ValueError(f"low and high must be frequencies, low below high: got {self.low:g} and {self.high}")
        if self.archive is not None and self.kind != "given":
            raise ValueError(f"archive must be left out unless kind is given: got {self.archive!r}")

    def check_rate(self, rate: int) -> None:
        """Raise unless the settings fit the rate at which recordings are read."""
        if self.high is not None and self.high > rate / 2:
            raise ValueError(f"high must be at most half of audio.rate={rate}: got {self.high:g}")
        if self.low >= rate / 2:
            raise ValueError(f"low must be below half of audio.rate={rate}: got {self.low:g}")


@dataclass(frozen=True)
class SoundAugment:
    """How training recordings are varied (``data.augment``).

    Attributes:
        speeds: each training recording is read once at every one of these speeds: [0.9, 1.0, 1.1] trains on three times as many
            (speed perturbation, Ko et al. 2015).
        time_masks, time_width: so many stretches of up to so many frames are masked, each time another (SpecAugment, Park et
            al. 2019), together at most a fifth of a recording per mask.
        frequency_masks, frequency_width: so many bands of up to so many neighbouring filters, in Δ and ΔΔ the same.
    """

    speeds: tuple[float, ...] = (1.0,)
    time_masks: int = 0
    time_width: int = 40
    frequency_masks: int = 0
    frequency_width: int = 8

    def __post_init__(self) -> None:
        speeds = self.speeds
        if not speeds or len(set(speeds)) < len(speeds) or not all(1 / MOST_SPEED <= s <= MOST_SPEED for s in speeds):
            raise ValueError(
                f"speeds must be different numbers from {1 / MOST_SPEED:g} to {MOST_SPEED:g}: got {list(speeds)}"
            )
        for name in ("time_masks", "frequency_masks"):
            if not 0 <= getattr(self, name) <= 20:
                raise ValueError(f"{name} must be from 0 to 20: got {getattr(self, name)}")
        for name in ("time_width", "frequency_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1: got {getattr(self, name)}")

    @property
    def masks(self) -> bool:
        """Whether anything is masked."""
        return self.time_masks + self.frequency_masks > 0
