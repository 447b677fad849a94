"""Strings of tones as sound, with the true boundaries of every tone: the "stretched strings" of Chorowski et al. (2015).

    "cafeb"  →  five tones one after the other, each 50 to 150 ms long, some with a pause after them, in noise

Every symbol has a pitch and a timbre of its own; each tone of it is a little out of tune, louder or softer, and decays.
Symbols are drawn independently: they repeat, and most of all in long strings. Between two equal tones there is always a pause.
To listen to strings longer than those of training, set ``data.tones.symbols: [50, 100]``.

A string is a description, a few numbers that compare equal where the sounds are equal; :meth:`ToneString.draw` makes the
sound with numpy at any rate.

>>> string = EXAMPLES[0]
>>> string.text
'cafeb'
>>> string.times[:2]
(('c', 0.0, 0.12), ('a', 0.12, 0.19))
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate, zip_longest

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from saccade.data.toy import check_ranges, drawn_splits

FRAMES_PER_SECOND = 100
PITCHES = (180.0, 2400.0)  # Hz, of the first and the last symbol
DETUNE = 0.02  # of the pitch, at most
PARTIALS = 5
ATTACK, RELEASE, DECAY = 0.004, 0.012, 0.15  # seconds
LOUDNESS = 0.12  # root mean square of a tone at 0 dB before it decays
MOST_SYMBOLS = 36_000  # an hour of the longest tones is 24,000


@dataclass(frozen=True)
class Tones:
    """The number of strings, their lengths in symbols, and how each symbol sounds."""

    train: int = 2000
    valid: int = 100
    test: int = 300
    symbols: tuple[int, int] = (5, 10)  # per string, from and to
    frames: tuple[int, int] = (5, 15)  # of 10 ms per tone, from and to
    alphabet: int = 12  # different symbols
    pauses: float = 0.2  # share of tones that a pause follows, beside those between equal tones
    pause_frames: tuple[int, int] = (3, 6)
    margins: tuple[int, int] = (0, 25)  # frames of noise before the first tone, and after the last
    spread: float = 6.0  # dB that tones are louder or softer, at most
    noise: float = 0.15  # its root mean square as a share of a tone's
    rate: int = 16_000  # samples per second
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, alphabet=(2, 26), pauses=(0, 1), spread=(0, 40), noise=(0, 10), rate=(1000, 48_000))
        for name, most in (("symbols", MOST_SYMBOLS), ("frames", 1000), ("pause_frames", 1000)):
            least, longest = getattr(self, name)
            if not 1 <= least <= longest <= most:
                raise ValueError(f"{name} must be two ordered numbers from 1 to {most:,}: got {[least, longest]}")
        if not 0 <= self.margins[0] <= self.margins[1] <= 1000:
            raise ValueError(f"margins must be two ordered numbers from 0 to 1,000: got {list(self.margins)}")


@dataclass(frozen=True, slots=True)
class Tone:
    """One tone: its symbol, its length and that of the pause after it in frames, its loudness in dB and its detuning."""

    symbol: str
    frames: int
    pause: int = 0
    loudness: float = 0.0
    detune: float = 0.0


@dataclass(frozen=True, slots=True)
class ToneString:
    """A string of tones, the frames before and after them, and the seed of the noise under all (``grain``)."""

    tones: tuple[Tone, ...]
    before: int = 0
    after: int = 0
    alphabet: int = 12
    noise: float = 0.15
    rate: int = 16_000
    grain: int = 0

    @property
    def text(self) -> str:
        return "".join(tone.symbol for tone in self.tones)

    @property
    def starts(self) -> list[int]:
        """The first frame of each tone, and the end of the last."""
        return [*accumulate((tone.frames + tone.pause for tone in self.tones), initial=self.before)]

    @property
    def times(self) -> tuple[tuple[str, float, float], ...]:
        """Each symbol with its start and its end in seconds, without the pause after it."""
        return tuple(
            (tone.symbol, start / FRAMES_PER_SECOND, (start + tone.frames) / FRAMES_PER_SECOND)
            for tone, start in zip(self.tones, self.starts, strict=False)
        )

    @property
    def seconds(self) -> float:
        return (self.starts[-1] + self.after) / FRAMES_PER_SECOND

    @property
    def count(self) -> int:
        """The number of samples."""
        return round(self.seconds * self.rate)

    def draw(self, rate: int | None = None) -> Float32[ndarray, " n"]:
        """The sound, from −1 to 1; ``rate`` in place of the string's own makes other noise of the same loudness."""
        rate = rate or self.rate
        sound = np.random.default_rng(self.grain).standard_normal(round(self.seconds * rate), np.float32)
        sound *= self.noise * LOUDNESS
        for tone, (_, start, end) in zip(self.tones, self.times, strict=True):
            first, last = round(start * rate), round(end * rate)
            sound[first:last] += _tone(tone, self.alphabet, last - first, rate)
        return np.clip(sound, -1.0, 1.0)


def generate(settings: Tones) -> dict[str, list[ToneString]]:
    """The strings of each split; a split does not change with the size of another."""
    return drawn_splits(settings, "tones", lambda draw: _string(draw, settings))


def _string(draw: random.Random, settings: Tones) -> ToneString:
    text = [SYMBOLS[draw.randrange(settings.alphabet)] for _ in range(draw.randint(*settings.symbols))]
    tones = tuple(
        Tone(
            symbol,
            draw.randint(*settings.frames),
            draw.randint(*settings.pause_frames) if draw.random() < settings.pauses or symbol == following else 0,
            round(draw.uniform(-settings.spread, settings.spread), 2),
            round(draw.uniform(-DETUNE, DETUNE), 4),
        )
        for symbol, following in zip_longest(text, text[1:])
    )
    before, after = draw.randint(*settings.margins), draw.randint(*settings.margins)
    return ToneString(
        tones, before, after, settings.alphabet, settings.noise, settings.rate, grain=draw.randrange(2**32)
    )


def _tone(tone: Tone, alphabet: int, count: int, rate: int) -> Float32[ndarray, " count"]:
    """One tone without noise: the partials of its pitch below half the rate, all of them or the odd ones alone."""
    number, (lowest, highest) = SYMBOLS.index(tone.symbol), PITCHES
    pitch = lowest * (highest / lowest) ** (number / (alphabet - 1)) * (1 + tone.detune)
    time = np.arange(count, dtype=np.float32) / rate
    partials = [n for n in range(1, PARTIALS + 1) if (number % 2 == 0 or n % 2) and n * pitch < rate / 2] or [1]
    wave = sum(np.sin(2 * np.pi * n * pitch * time) / n for n in partials)
    wave *= LOUDNESS * 10 ** (tone.loudness / 20) * (0.5 * sum(n**-2 for n in partials)) ** -0.5
    rising, falling = np.minimum(1, time / ATTACK), np.minimum(1, (count / rate - time) / RELEASE)
    return np.asarray(wave * rising * falling * np.exp(-time / DECAY), np.float32)


SYMBOLS = "abcdefghijklmnopqrstuvwxyz"
EXAMPLES = (
    ToneString(
        (Tone("c", 12), Tone("a", 7, pause=3), Tone("f", 15, loudness=-4.0), Tone("e", 5), Tone("b", 9, detune=0.01))
    ),
    ToneString(
        (Tone("d", 6, pause=3), Tone("d", 11, pause=2), Tone("d", 8), Tone("k", 14), Tone("l", 5), Tone("d", 10)),
        grain=7,
    ),
)
