"""Recordings and manifests as a stranger could send them, and the ways in which they are used."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import saccade
from saccade.api.bundle import Bundle
from saccade.data.toy import tones
from saccade.recipes.schema import dump_yaml
from tests.hostile_pictures import HUGE, RUN, changed

RATE = 8000
MODEL = {
    "name": "listen_attend", "hidden": 5, "layers": 1, "state": 5, "embedding": 3, "alignment": 7, "filters": 2, "reach": 3,
    "maxout": 3,
}  # fmt: skip


def samples(seconds: float = 0.4, seed: int = 3) -> np.ndarray:
    """A sound that is neither silent nor noise alone, as 16 bit integers."""
    settings = tones.Tones(train=1, valid=1, test=1, symbols=(2, 3), rate=RATE, seed=seed)
    sound = tones.generate(settings)["train"][0].draw()
    return (np.resize(sound, round(seconds * RATE)) * 32000).astype("<i2")


# Whole recordings -------------------------------------------------------------------------------------------------------


def wav(
    data: bytes = b"", *, format: int = 1, channels: int = 1, rate: int = RATE, bits: int = 16, size: int | None = None,
    riff: int | None = None, align: int | None = None, more: bytes = b"",
) -> bytes:  # fmt: skip
    """A WAV file whose header says what it is told to."""
    align = channels * bits // 8 if align is None else align
    byte_rate = min(rate * align, 2**32 - 1)
    head = struct.pack("<HHIIHH", format, channels, rate, byte_rate, align, bits) + more
    chunks = b"fmt " + struct.pack("<I", len(head)) + head + b"data"
    chunks += struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(chunks) + 4 if riff is None else riff) + b"WAVE" + chunks


def sph(data: bytes, **fields: Any) -> bytes:
    """A NIST SPHERE file; a field that is None is left out."""
    usual = {
        "channel_count": 1, "sample_count": len(data) // 2, "sample_rate": RATE, "sample_n_bytes": 2,
        "sample_byte_format": "01", "sample_coding": "pcm",
    }  # fmt: skip
    lines = ["NIST_1A", "   1024"]
    for name, value in {**usual, **fields}.items():
        if value is not None:
            kind = "-i" if isinstance(value, int) else f"-s{len(value)}"
            lines.append(f"{name} {kind} {value}")
    return "\n".join([*lines, "end_head", ""]).encode().ljust(1024)[:1024] + data


def whole_sounds() -> dict[str, tuple[str, bytes]]:
    """Name → the file's name and content, of every format that is read; those of soundfile where it is installed."""
    sound = samples()
    floats = (sound / 32768).astype("<f4")
    stereo = np.stack([sound, sound[::-1]], axis=1)
    wide = (sound.astype("<i4") << 16).tobytes()
    packed = b"".join(struct.pack("<i", int(value) << 8)[:3] for value in sound)
    extensible = struct.pack("<HHIH14s", 22, 16, 4, 1, b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71")
    made = {
        "WAV": ("a.wav", wav(sound.tobytes())),
        "WAV, stereo": ("a.wav", wav(stereo.tobytes(), channels=2)),
        "WAV, 8 bits": ("a.wav", wav(((sound >> 8) + 128).astype(np.uint8).tobytes(), bits=8)),
        "WAV, 24 bits": ("a.wav", wav(packed, bits=24)),
        "WAV, 32 bits": ("a.wav", wav(wide, bits=32)),
        "WAV, float": ("a.wav", wav(floats.tobytes(), format=3, bits=32)),
        "WAV, extensible": ("a.wav", wav(sound.tobytes(), format=0xFFFE, more=extensible)),
        "WAV, 44,100 Hz": ("a.wav", wav(np.resize(sound, 9000).tobytes(), rate=44_100)),
        "SPHERE": ("a.sph", sph(sound.tobytes())),
        "SPHERE, big end first": ("a.sph", sph(sound.astype(">i2").tobytes(), sample_byte_format="10")),
        "SPHERE, µ-law": (
            "a.sph", sph(bytes(sound.view(np.uint8)[::2]), sample_coding="ulaw", sample_n_bytes=1,
                         sample_byte_format=None, sample_count=len(sound)),
        ),
    }  # fmt: skip
    try:
        import soundfile
    except ImportError:
        return made
    for name, suffix, options in (("FLAC", "flac", {}), ("Ogg Vorbis", "ogg", {}), ("MP3", "mp3", {})):
        if suffix.upper() in soundfile.available_formats():
            stream = io.BytesIO()
            soundfile.write(stream, floats, 16_000 if suffix == "mp3" else RATE, format=suffix.upper(), **options)
            made[name] = (f"a.{suffix}", stream.getvalue())
    return made


def _flac_bomb() -> bytes:
    """Twenty minutes of silence in a few kilobytes."""
    import soundfile

    stream = io.BytesIO()
    with soundfile.SoundFile(stream, "w", RATE, 1, format="FLAC") as file:
        for _ in range(20):
            file.write(np.zeros(60 * RATE, np.int16))
    return stream.getvalue()


def made_sounds() -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Name → the file's name and what makes its content: files that lie about their size, bombs, and no sound at all."""
    data = samples().tobytes()
    nan = np.full(900, np.nan, "<f4").tobytes()
    made: dict[str, tuple[str, Callable[[], bytes]]] = {
        "WAV without a sample": ("a.wav", wav),
        "WAV of one sample": ("a.wav", lambda: wav(data[:2])),
        "WAV of half a sample": ("a.wav", lambda: wav(data[:1])),
        "WAV of silence": ("a.wav", lambda: wav(bytes(6000))),
        "WAV, clipped": ("a.wav", lambda: wav(np.full(3000, 32767, "<i2").tobytes())),
        "WAV that says 4 GB": ("a.wav", lambda: wav(data, size=2**32 - 1)),
        "WAV that says 4 GB twice": ("a.wav", lambda: wav(data, size=2**32 - 1, riff=2**32 - 1)),
        "WAV that says no bytes": ("a.wav", lambda: wav(data, size=0, riff=0)),
        "WAV of rate 0": ("a.wav", lambda: wav(data, rate=0)),
        "WAV of rate 1": ("a.wav", lambda: wav(data, rate=1)),
        "WAV of rate 2³² − 1": ("a.wav", lambda: wav(data, rate=2**32 - 1)),
        "WAV of an odd rate": ("a.wav", lambda: wav(data, rate=8191)),
        "WAV of no channel": ("a.wav", lambda: wav(data, channels=0)),
        "WAV of 65,535 channels": ("a.wav", lambda: wav(data, channels=65_535, align=2)),
        "WAV of 3 bits": ("a.wav", lambda: wav(data, bits=3)),
        "WAV of 64 bits": ("a.wav", lambda: wav(data, bits=64)),
        "WAV with an alignment of 0": ("a.wav", lambda: wav(data, align=0)),
        "WAV of format 0": ("a.wav", lambda: wav(data, format=0)),
        "WAV of ADPCM": ("a.wav", lambda: wav(data, format=2, bits=4)),
        "WAV of MP3": ("a.wav", lambda: wav(data, format=85)),
        "WAV of floats that are NaN": ("a.wav", lambda: wav(nan, format=3, bits=32)),
        "WAV of infinite floats": ("a.wav", lambda: wav(np.full(900, np.inf, "<f4").tobytes(), format=3, bits=32)),
        "WAV of enormous floats": ("a.wav", lambda: wav(np.full(900, 3e38, "<f4").tobytes(), format=3, bits=32)),
        "WAV without a data chunk": ("a.wav", lambda: wav(data)[:36]),
        "WAV without a format": ("a.wav", lambda: b"RIFF\x10\0\0\0WAVEdata\x04\0\0\0abcd"),
        "WAV with 100,000 chunks": (
            "a.wav", lambda: b"RIFF\xff\xff\xff\xffWAVE" + b"LIST\0\0\0\0" * 100_000 + wav(data)[12:],
        ),
        "WAV whose chunk says 2³¹": ("a.wav", lambda: b"RIFF\xff\xff\xff\xffWAVELIST\0\0\0\x80" + wav(data)[12:]),
        "WAV of ten minutes": ("a.wav", lambda: wav(bytes(2 * 600 * RATE))),
        "RF64": ("a.wav", lambda: b"RF64\xff\xff\xff\xffWAVEds64" + struct.pack("<I", 28) + b"\xff" * 28 + wav(data)[12:]),
        "SPHERE, shortened": ("a.sph", lambda: sph(data, sample_coding="pcm,embedded-shorten-v2.00")),
        "SPHERE of 10¹² samples": ("a.sph", lambda: sph(data, sample_count=10**12)),
        "SPHERE of −5 samples": ("a.sph", lambda: sph(data, sample_count=-5)),
        "SPHERE of rate 0": ("a.sph", lambda: sph(data, sample_rate=0)),
        "SPHERE without a rate": ("a.sph", lambda: sph(data, sample_rate=None)),
        "SPHERE of 9 bytes": ("a.sph", lambda: sph(data, sample_n_bytes=9)),
        "SPHERE whose header says 10⁹ bytes": ("a.sph", lambda: b"NIST_1A\n1000000000\n" + data),
        "SPHERE whose header is no number": ("a.sph", lambda: b"NIST_1A\n   nine\n" + data),
        "SPHERE without an end of its header": ("a.sph", lambda: sph(data).replace(b"end_head", b"        ")),
        "no bytes": ("a.wav", lambda: b""),
        "one byte": ("a.wav", lambda: b"R"),
        "zeros": ("a.wav", lambda: bytes(100_000)),
        "noise": ("a.flac", lambda: random.Random(5).randbytes(100_000)),
        "noise named mp3": ("a.mp3", lambda: random.Random(6).randbytes(100_000)),
        "a text": ("a.wav", lambda: b"not a sound at all\n" * 99),
        "a page": ("a.ogg", lambda: b"<!doctype html><html><body>404</body></html>"),
        "a zip": ("a.wav", lambda: _zip({"a.wav": wav(data)})),
        "WAV named as FLAC": ("a.flac", lambda: wav(data)),
        "SPHERE named as WAV": ("a.wav", lambda: sph(data)),
    }  # fmt: skip
    try:
        import soundfile  # noqa: F401
    except ImportError:
        return made
    return {**made, "FLAC of twenty minutes of silence": ("a.flac", _flac_bomb)}


def _zip(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def sound_cases(per_sound: int) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """(what it is, the file's name, what makes its content): whole ones, ``per_sound`` changes of each, and made ones."""
    for number, (name, (file, content)) in enumerate(whole_sounds().items()):
        yield f"whole: {name}", file, lambda content=content: content
        for seed in range(per_sound):
            damaged, what = changed(content, random.Random(f"{number} {seed}"))
            yield f"{name}: {what}", file, lambda damaged=damaged: damaged
    for name, (file, make) in made_sounds().items():
        yield name, file, make


# Manifests --------------------------------------------------------------------------------------------------------------


def good_sounds(folder: Path, count: int = 14) -> list[tuple[str, str]]:
    """Small recordings in ``folder``/wav: their names as seen from the folder, and their transcripts."""
    (folder / "wav").mkdir(parents=True)
    settings = tones.Tones(train=count, valid=1, test=1, symbols=(2, 3), alphabet=3, rate=RATE)
    rows = []
    for number, string in enumerate(tones.generate(settings)["train"]):
        (folder / f"wav/{number}.wav").write_bytes(wav((string.draw() * 32000).astype("<i2").tobytes()))
        rows.append((f"wav/{number}.wav", string.text))
    return rows


Rows = list[tuple[str, str]]
Make = Callable[[Path, Rows], dict[str, Any]]  # the folder, good recordings and their transcripts → settings of data


def _table(*more: str, head: str = "audio,text", whole: bytes | None = None, name: str = "list.csv") -> Make:
    """A CSV file of the good rows and ``more`` lines."""

    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        content = "\n".join([head, *(",".join(row) for row in rows), *more]).encode("utf-8", "surrogatepass")
        (folder / name).write_bytes(content if whole is None else whole)
        return {"train": name}

    return make


def _jsonl(*more: Any, whole: str | None = None) -> Make:
    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        lines = [json.dumps({"audio": audio, "text": text}) for audio, text in rows]
        lines += [line if isinstance(line, str) else json.dumps(line) for line in more]
        (folder / "list.jsonl").write_text("\n".join(lines) if whole is None else whole, encoding="utf-8")
        return {"train": "list.jsonl"}

    return make


def _kaldi(scp: str = "", text: str = "", **files: str) -> Make:
    """A Kaldi folder with ``scp`` and ``text`` after the good lines, and other files."""

    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        home = folder / "kaldi"
        home.mkdir()
        good = "".join(f"u{number} {folder / audio}\n" for number, (audio, _) in enumerate(rows))
        (home / "wav.scp").write_text(good + scp)
        (home / "text").write_text("".join(f"u{n} {said}\n" for n, (_, said) in enumerate(rows)) + text)
        for name, content in files.items():
            (home / name).write_text(content)
        return {"train": "kaldi"}

    return make


def _given(content: Callable[[], bytes], name: str = "a.npy") -> Make:
    """Given frames: good files, and one with this content."""

    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        lines = ["audio,text"]
        for number, (_, text) in enumerate(rows):
            np.save(folder / f"{number}.npy", np.random.default_rng(number).random((9 + number, 4), np.float32))
            lines.append(f"{number}.npy,{text}")
        (folder / name).write_bytes(content())
        (folder / "list.csv").write_text("\n".join([*lines, f"{name},ab"]))
        return {"train": "list.csv", "features": {"kind": "given", "deltas": 0}}

    return make


def _archive(content: Callable[[], bytes], name: str = "all.npz") -> Make:
    """Given frames of all recordings in one archive."""

    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        _table()(folder, rows)
        (folder / name).write_bytes(content())
        return {"train": "list.csv", "features": {"kind": "given", "archive": name, "deltas": 0}}

    return make


def _arrays(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _npy(array: Any, *, pickled: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=pickled)
    return stream.getvalue()


def _links(folder: Path, rows: Rows) -> dict[str, Any]:
    """A folder of recordings with texts beside them, with links, a pipe and a sparse file among them."""
    home = folder / "all"
    home.mkdir()
    for number, (audio, text) in enumerate(rows):
        (home / f"{number}.wav").write_bytes((folder / audio).read_bytes())
        (home / f"{number}.txt").write_text(text)
    for name, target in (("self", "self.wav"), ("endless", "/dev/zero"), ("gone", "nowhere.wav")):
        (home / f"{name}.wav").symlink_to(target)
        (home / f"{name}.txt").write_text("ab")
    os.mkfifo(home / "pipe.wav")
    (home / "pipe.txt").write_text("ab")
    with open(home / "sparse.wav", "wb") as file:
        file.write(wav(size=2**32 - 1))
        file.truncate(20 * 10**9)
    (home / "sparse.txt").write_text("ab")
    return {"train": "all"}


def manifest_cases() -> dict[str, Make]:
    """What it is → what makes it."""
    zeros = _npy(np.zeros((5, 4), np.float32))
    return {
        "CSV, whole": _table(),
        "CSV, an empty file": _table(whole=b""),
        "CSV, a header alone": _table(whole=b"audio,text\n"),
        "CSV without a column of recordings": _table(head="photo,text"),
        "CSV with a row of one cell": _table("wav/0.wav"),
        "CSV with an open quotation mark": _table('wav/0.wav,"never closed', *["more"] * 300),
        "CSV with NUL bytes": _table("wav/0.wav,a\0b", "wav\0/0.wav,a"),
        "CSV with empty cells": _table(",", "wav/0.wav,", ",ab", "  ,  "),
        "CSV with a text of 3 MB": _table(f"wav/0.wav,{HUGE}"),
        "CSV with a name of 3 MB": _table(f"{HUGE}.wav,ab"),
        "CSV with a missing recording": _table("wav/gone.wav,ab"),
        "CSV with absolute paths": _table("/etc/passwd,ab", "/dev/zero,ab", "/proc/self/mem,ab"),
        "CSV with paths that lead out": _table("../../../../etc/passwd,ab"),
        "CSV with folders as recordings": _table("wav,ab", ".,ab", "/,ab"),
        "CSV with addresses": _table("http://localhost:1/a.wav,ab", "file:///etc/passwd,ab"),
        "CSV with stretches that cannot be": _table(
            "wav/0.wav#5-1,ab", "wav/0.wav#900-901,ab", "wav/0.wav#0-0,ab", "wav/0.wav#nan-inf,ab", "wav/0.wav#-,ab",
            "wav/0.wav#1e308-,ab", "wav/0.wav#0-99999999999999999999,ab",
        ),
        "CSV with a stretch of one sample": _table("wav/0.wav#0.1-0.1001,ab"),
        "CSV with control characters": _table("\x1b]0;x\x07\x1b[31m.wav,ab", "wav/1.wav,\x1b[31mab"),
        "CSV with half a character": _table("wav/0.wav,a\ud800b"),
        "CSV with a recording 500 times": _table(*["wav/0.wav,ab"] * 500),
        "CSV of noise": _table(whole=random.Random(4).randbytes(50_000)),
        "CSV of one line of 5 MB": _table(whole=b"a," * (5 << 19)),
        "CSV that is a recording": _table(whole=wav(samples().tobytes())),
        "CSV with columns that are not there": lambda folder, rows: {
            **_table()(folder, rows), "columns": {"audio": "gone"}
        },
        "JSONL, whole": _jsonl(),
        "JSONL, no JSON": _jsonl("{", "nonsense", '{"audio": '),
        "JSONL, lists and numbers": _jsonl([], 7, "null", "true", '"text"'),
        "JSONL, values of other types": _jsonl(
            *({"audio": value, "text": "ab"} for value in (None, [], {}, True, 7, 1e300, [[]], [1, 2])),
            *({"audio": "wav/0.wav", "text": value} for value in (None, [], {}, True, 7, "", " ")),
        ),
        "JSONL, sound as bytes": _jsonl({"audio": {"bytes": "x", "path": "/etc/passwd"}, "text": "ab"}),
        "JSONL, sound as an array": _jsonl({"audio": {"array": [0.1] * 900, "sampling_rate": 8000}, "text": "ab"}),
        "JSONL, sound as base64": _jsonl({"audio": {"base64": "####"}, "text": "ab"}),
        "JSONL, times of other types": _jsonl(
            *(
                {"audio": "wav/0.wav", "text": "ab", "times": times}
                for times in (7, [], {}, [1, 2], [["a", "b", "c"]], [["a", 0.2, 0.1]], [["a", -1, 2]], [[None, 0, 1]], "x")
            )
        ),
        "JSONL, times that are no numbers": _jsonl('{"audio": "wav/0.wav", "text": "a", "times": [["a", NaN, Infinity]]}'),
        "JSONL, 100,000 times": _jsonl({"audio": "wav/0.wav", "text": "a", "times": [["a", 0, 0.1]] * 100_000}),
        "JSONL, nested 100,000 deep": _jsonl('{"audio": ' + "[" * 100_000 + "]" * 100_000 + ', "text": "a"}'),
        "JSONL, empty": _jsonl(whole=""),
        "Kaldi, whole": _kaldi(),
        "Kaldi, commands in place of files": _kaldi("x touch ran |\ny cat /etc/passwd |\n", "x ab\ny ab\n"),
        "Kaldi, a text without a recording": _kaldi(text="x ab\n"),
        "Kaldi, a recording without a text": _kaldi("x /dev/zero\n"),
        "Kaldi, segments that cannot be": _kaldi(segments="u0 u0 5 1\nu1 u1 nan inf\nu2 gone 0 1\nu3 u3\n"),
        "Kaldi, empty files": lambda folder, rows: _kaldi()(folder, []),
        "Kaldi, an id twice": _kaldi("u0 /etc/passwd\n", "u0 ab\n"),
        "folder with links, a pipe and 20 GB": _links,
        "frames, whole": _given(lambda: zeros),
        "frames, truncated": _given(lambda: zeros[:-7]),
        "frames, no array": _given(lambda: b"\x93NUMPY\x01\0\xff\xff"),
        "frames of objects": _given(lambda: _npy(np.array([{}], object), pickled=True)),
        "frames of another width": _given(lambda: _npy(np.zeros((5, 7), np.float32))),
        "frames of no row": _given(lambda: _npy(np.zeros((0, 4), np.float32))),
        "frames that are NaN": _given(lambda: _npy(np.full((5, 4), np.nan, np.float32))),
        "frames of 10¹² rows": _given(lambda: zeros.replace(b"(5, 4)", b"(10**12, 4)"[:6])),
        "frames of texts": _given(lambda: _npy(np.array([["a"] * 4] * 5))),
        "archive, whole": _archive(lambda: _arrays(feats=np.ones((140, 4), np.float16), offsets=np.arange(0, 150, 10))),
        "archive, truncated": _archive(
            lambda: _arrays(feats=np.ones((140, 4), np.float16), offsets=np.arange(0, 150, 10))[:700]
        ),
        "archive, offsets beyond its frames": _archive(
            lambda: _arrays(feats=np.ones((9, 4)), offsets=np.arange(0, 150, 10))
        ),
        "archive, offsets that go back": _archive(
            lambda: _arrays(feats=np.ones((140, 4)), offsets=np.arange(140, -10, -10))
        ),
        "archive, offsets that are NaN": _archive(lambda: _arrays(feats=np.ones((9, 4)), offsets=np.full(15, np.nan))),
        "archive, too few": _archive(lambda: _arrays(feats=np.ones((9, 4)), offsets=np.array([0, 9]))),
        "archive, no arrays": _archive(lambda: _zip({"a.txt": b"x"})),
        "archive with a bomb of 300 MB": _archive(lambda: _zip({"feats.npy": bytes(300 << 20), "offsets.npy": zeros})),
        "archive, safetensors of noise": _archive(lambda: random.Random(9).randbytes(9000), "all.safetensors"),
    }  # fmt: skip


# How they are used ------------------------------------------------------------------------------------------------------


def make_run(folder: Path) -> Bundle:
    """A small trained run."""
    recipe = write_recipe(folder, _table()(folder, good_sounds(folder)), "error")
    return saccade.train(recipe, folder=folder / "run")


def write_recipe(folder: Path, data: dict[str, Any], faults: str) -> Path:
    """A recipe that trains on the data in the folder."""
    features = {"kind": "log_mel", "mels": 5, "deltas": 0, "cache": str(folder / "cache"), **data.get("features", {})}
    if features["kind"] == "given":
        features = data["features"]
    data = {"hold_out": 0.2, "faults": faults, "audio": {"rate": RATE}, **data, "features": features}
    recipe = {"task": "transcribe", "data": data, "model": MODEL, "train": RUN, "metrics": ["cer"]}
    (folder / "my.yaml").write_text(dump_yaml(recipe))
    return folder / "my.yaml"


def encoded(content: bytes) -> dict[str, str]:
    """A recording as a request to the server holds it."""
    return {"base64": base64.b64encode(content).decode()}
