"""Makes a set of spoken sentences with the true start and end of every phoneme, by espeak-ng where that is installed.

    FOLDER/train.jsonl, valid.jsonl, test.jsonl        {"audio", "speaker", "text", "phonemes", "times": [["S", 0.01, 0.12], …]}
    FOLDER/wav/SPEAKER/0001.wav                        16 bit, mono, at espeak-ng's rate

As in TIMIT, sentences are read, speakers (an accent, a voice, a rate and a pitch) are of one split only, phonemes are those
that were spoken, and pauses are the phoneme ``sil``. The sentences are written from word lists; none is in two splits. Two
calls with one seed and one version of espeak-ng, each in a process of its own, write equal files.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import random
import shutil
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import InputError, SaccadeError

PROGRAM, LIBRARY = "espeak-ng", "libespeak-ng.so.1"
SILENCE = "sil"
Times = tuple[tuple[str, float, float], ...]

# espeak-ng's numbers (speak_lib.h): output to a callback, before the call returns; events of phonemes; their types.
SYNCHRONOUS, PHONEME_EVENTS, NO_EXIT, UTF8 = 2, 0x0001, 0x8000, 1
END_OF_EVENTS, PHONEME = 0, 7
RATE, PITCH, RANGE = 1, 3, 4  # words per minute, 0 to 100, 0 to 100

ACCENTS = ("en-us", "en-gb-x-rp", "en-gb-scotland")
VOICES = {
    "train": ("m1", "m2", "m4", "m5", "m7", "m8", "f1", "f2", "f5", "klatt", "klatt3"),
    "valid": ("m6", "klatt2"),
    "test": ("m3", "f3", "f4"),
}
RATES, PITCHES, RANGES = (130, 200), (35, 65), (30, 70)


@dataclass(frozen=True)
class SentenceCounts:
    """Sentences per split; every speaker reads about as many."""

    train: int = 1650
    valid: int = 120
    test: int = 270


@dataclass(frozen=True)
class Speaker:
    accent: str
    voice: str
    rate: int
    pitch: int
    range: int

    @property
    def name(self) -> str:
        return f"{self.accent}+{self.voice}"


def make(
    folder: Path,
    counts: SentenceCounts | None = None,
    *,
    seed: int = 1,
    progress: Callable[[str, int], None] = lambda split, sentences: None,
) -> dict[str, float]:
    """Write the set into a new or empty folder; the seconds of speech per split."""
    counts = counts or SentenceCounts()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            folder, expected="a new or an empty folder", found="one with files" if folder.is_dir() else "a file"
        )
    espeak = Espeak()
    draw = random.Random(f"{seed} espeak")
    sentences, seconds = _sentences(draw), dict[str, float]()
    for split, voices in VOICES.items():
        speakers = [_speaker(accent, voice, draw) for voice in voices for accent in ACCENTS]
        records, seconds[split] = [], 0.0
        for number in range(getattr(counts, split)):
            speaker, text = speakers[number % len(speakers)], next(sentences)
            samples, times = espeak.speak(text, speaker)
            name = f"wav/{speaker.name}/{number // len(speakers) + 1:04}.wav"
            _write_wav(folder / name, samples, espeak.rate)
            phonemes = " ".join(symbol for symbol, _, _ in times)
            records.append({"audio": name, "speaker": speaker.name, "text": text, "phonemes": phonemes, "times": times})
            seconds[split] += len(samples) / 2 / espeak.rate
            progress(split, number + 1)
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return seconds


def _speaker(accent: str, voice: str, draw: random.Random) -> Speaker:
    return Speaker(accent, voice, draw.randint(*RATES), draw.randint(*PITCHES), draw.randint(*RANGES))


def _write_wav(path: Path, samples: bytes, rate: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)


# espeak-ng ------------------------------------------------------------------------------------------------------------


class _Id(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int), ("identifier", ctypes.c_uint), ("text_position", ctypes.c_int), ("length", ctypes.c_int),
        ("milliseconds", ctypes.c_int), ("sample", ctypes.c_int), ("user_data", ctypes.c_void_p), ("id", _Id),
    )  # fmt: skip


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class Espeak:
    """The library of espeak-ng, which hands over samples and the sample at which every phoneme begins."""

    def __init__(self) -> None:
        self._library = _library()
        self.rate = int(self._library.espeak_Initialize(SYNCHRONOUS, 0, None, PHONEME_EVENTS | NO_EXIT))
        if self.rate <= 0:
            raise SaccadeError(f"{PROGRAM}: expected its voices, found none (espeak_Initialize returned {self.rate})")
        self._samples, self._events = bytearray(), list[tuple[str, int]]()
        self._callback = _Callback(self._receive)  # kept: the library holds a pointer to it
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, text: str, speaker: Speaker) -> tuple[bytes, Times]:
        """The samples, 16 bit, and each phoneme with its start and end in seconds; pauses in a row are one."""
        if self._library.espeak_SetVoiceByName(speaker.name.encode()):
            raise SaccadeError(f"{PROGRAM}: expected the voice {speaker.name}, found none of that name")
        for parameter, value in ((RATE, speaker.rate), (PITCH, speaker.pitch), (RANGE, speaker.range)):
            self._library.espeak_SetParameter(parameter, value, 0)
        self._samples.clear()
        self._events.clear()
        encoded = text.encode()
        self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, UTF8, None, None)
        samples = bytes(self._samples)
        return samples, phoneme_times(self._events, len(samples) // 2, self.rate)

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        if samples:
            self._samples += ctypes.string_at(samples, 2 * count)
        number = 0
        while events[number].type != END_OF_EVENTS:
            if events[number].type == PHONEME:
                self._events.append((events[number].id.string.decode(), events[number].sample))
            number += 1
        return 0


def _library() -> ctypes.CDLL:
    for name in (ctypes.util.find_library(PROGRAM), LIBRARY):
        try:
            return ctypes.CDLL(name) if name else ctypes.CDLL(LIBRARY)
        except OSError:
            continue
    found = "the program without its library" if shutil.which(PROGRAM) else "neither program nor library"
    hint = "install it with the system's package manager, such as apt install espeak-ng"
    raise SaccadeError(f"{PROGRAM}: expected it to be installed, found {found} ({hint})")


def phoneme_times(events: list[tuple[str, int]], samples: int, rate: int) -> Times:
    """(phoneme, start, end) in seconds from where phonemes begin, in samples.

    >>> phoneme_times([("h", 10), ("aI", 30), ("_:", 60), ("_", 80), ("", 90)], 100, 100)
    (('h', 0.1, 0.3), ('aI', 0.3, 0.6), ('sil', 0.6, 1.0))
    """
    times: list[tuple[str, float, float]] = []
    ends = [start for _, start in events[1:]] + [samples]
    for (mnemonic, start), end in zip(events, ends, strict=True):
        symbol = SILENCE if not mnemonic.strip("_:") and (mnemonic or (times and times[-1][0] == SILENCE)) else mnemonic
        if not symbol or end <= start:
            continue
        if symbol == SILENCE and times and times[-1][0] == SILENCE:
            start = round(times.pop()[1] * rate)
        times.append((symbol, round(start / rate, 5), round(end / rate, 5)))
    return tuple(times)


# Sentences ------------------------------------------------------------------------------------------------------------


def _sentences(draw: random.Random) -> Iterator[str]:
    """Sentences without end, no two of them equal."""
    written = set[str]()
    while True:
        sentence = _filled(draw.choice(PATTERNS), draw)
        if sentence not in written:
            written.add(sentence)
            yield sentence[0].upper() + sentence[1:]


def _filled(pattern: str, draw: random.Random) -> str:
    """The pattern with a word in place of each name of a list; no word twice."""
    words: list[str] = []
    for part in pattern.split():
        stem = part.rstrip(".,?")
        if stem in WORDS:
            words.append(draw.choice([word for word in WORDS[stem] if word not in words]) + part[len(stem) :])
        else:
            words.append(part)
    return " ".join(words)


PATTERNS = (
    "NAME DID the ADJECTIVE THING PLACE.",
    "the ADJECTIVE PERSON DID a THING WHEN.",
    "WHEN, the PERSON and NAME DID NUMBER ADJECTIVE THINGS.",
    "did NAME see the ADJECTIVE THING PLACE?",
    "please give the THING to NAME WHEN.",
    "NUMBER THINGS were VERBED PLACE WHEN.",
    "a ADJECTIVE THING is never VERBED PLACE.",
    "why would the PERSON want NUMBER ADJECTIVE THINGS?",
    "NAME thought that the THING was ADJECTIVE.",
    "if the PERSON comes, NAME must hide the THING.",
    "put the ADJECTIVE THING PLACE, NAME.",
    "the THINGS that NAME DID were rather ADJECTIVE.",
)
WORDS = {
    name: tuple(listed.split(", "))
    for name, listed in {
        "NAME": "Anna, George, Ruth, Hugh, Joyce, Vincent, Sheila, Thomas, Zoe, Walter, Paul, Ethel, Yvonne, Charles, Megan, "
        "Oscar, Laura, Philip",
        "PERSON": "doctor, farmer, teacher, judge, sailor, young girl, old man, painter, baker, thief, neighbour, visitor, "
        "musician, chief, shepherd, child",
        "ADJECTIVE": "yellow, heavy, rough, smooth, joyful, narrow, huge, thin, wooden, curious, pale, cheap, broken, quiet, "
        "strange, golden, fresh, bitter, foggy, usual",
        "THING": "hat, ship, measure, watch, chair, book, voice, fish, garage, bridge, knife, oil lamp, vase, cushion, ring, "
        "mirror, flower, treasure, spoon, leather jacket, boot, wheel",
        "THINGS": "houses, cows, toys, letters, boats, pictures, peaches, bridges, clothes, apples, shoes, mushrooms, "
        "engines, visions, leaves, baths, gardens, judges",
        "DID": "found, bought, washed, carried, noticed, measured, caught, followed, threw, used, showed, drew, pushed, "
        "chose, enjoyed, wove",
        "VERBED": "seen, sold, heard, thrown, polished, painted, judged, counted, fixed, broken, taught, brought",
        "PLACE": "in the garden, under the bridge, behind the church, near the beach, on the roof, by the river, above the "
        "village, at the station, beyond the hill, inside the theatre, across the square, below the stairs",
        "WHEN": "this morning, on Thursday, last year, before dawn, after lunch, at noon, in July, every evening, once again, "
        "without any noise, just now, very slowly",
        "NUMBER": "two, three, five, six, seven, eight, nine, twelve, thirteen, forty, a few, a thousand",
    }.items()
}  # fmt: skip
