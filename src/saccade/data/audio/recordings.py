"""Reads recordings: one channel, any sample rate, resampled to the one that is asked for. No torch.

A recording is a file (wav and NIST sph by this module; flac, ogg, mp3 and more by soundfile), the bytes of one, an array with
its rate, or a stretch of any of these ("talk.wav#12.5-17.25", in seconds). Its header is read first: rate, channels and length
are bounded before a sample is decoded, since a file of some kilobytes may unpack to gigabytes, and a file is decoded in blocks.

A recording's digest is its identity: the same sound under two names compares equal. It is taken of the file's content; of a
compressed or a long file of its size and of blocks, so that a large corpus is not read twice.

Legend: n samples of one channel, C channels.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, Protocol

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from saccade.data.files.limits import MAX_SAMPLES, max_samples, raised
from saccade.errors import InputError, SaccadeError
from saccade.extras import need

SUFFIXES = ("wav", "flac", "ogg", "oga", "opus", "mp3", "sph", "aiff", "aif", "au")
EXPECTED = "a recording (wav, flac, ogg, mp3 or NIST sph)"
FORMS = 'a file, its bytes, {"base64": …}, or an array [n] or [n, C] of samples with its rate: (array, rate)'
LEAST_RATE, MOST_RATE = 1_000, 384_000  # Hz
MOST_CHANNELS = 64
LOUDEST = 16.0  # of samples that should lie from −1 to 1; whole numbers given as floats are larger
ROUNDED = 0.05  # seconds by which a stretch may end after its file: times are rounded
BLOCK = 1 << 18  # frames that are decoded at a time
DIGEST = 16  # bytes
SPREAD, PIECE = 16, 4 << 10  # blocks of a file that its digest is taken of, and the bytes of each
WHOLE = 8 << 20  # bytes of samples as they are, up to which it is taken of all
STRETCH = re.compile(r"(.+)#(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)?")
# The interpolation filter: zero crossings on either side, its −6 dB point as a share of the lower Nyquist frequency, and
# the shape of its Kaiser window; aliases are about 80 dB down.
CROSSINGS, ROLLOFF, BETA = 32, 0.945, 8.0
MANY_PHASES = 1000
# The filters of all phases are kept: at most so many. A header with a rate such as 383,987 Hz would ask for 200 MB of them.
MOST_PHASES = 20_000
MP3_AHEAD = 16 * 1152  # samples


class DamagedRecording(InputError):
    """A file that begins as a recording does and cannot be decoded to its end, such as a truncated one."""


@dataclass(frozen=True)
class SoundHeader:
    """What the start of a file says of the sound in it.

    Attributes:
        format: wav, sph, flac, …
        rate: samples per second.
        channels: how many are interleaved.
        frames: samples per channel that there are.
        stated: samples per channel that the header states.
        coding: how samples are stored; empty where soundfile decodes them.
        offset: the byte at which samples begin.
    """

    format: str
    rate: int
    channels: int
    frames: int
    stated: int
    coding: str = ""
    offset: int = 0

    @property
    def truncated(self) -> bool:
        """Whether the file holds less than its header states."""
        return self.frames < self.stated

    @property
    def seconds(self) -> float:
        return self.frames / self.rate


class Origin(Protocol):
    """Where the samples of a recording come from."""

    @property
    def header(self) -> SoundHeader: ...

    def decode(self, start: int, count: int, where: str) -> Float32[ndarray, " n"]:
        """So many samples from the ``start``-th on, channels mixed."""
        ...


@dataclass(frozen=True)
class InFile:
    """A recording in a file."""

    path: str
    header: SoundHeader

    def decode(self, start: int, count: int, where: str) -> Float32[ndarray, " n"]:
        with _opened(self.path) as (file, _):
            return _decoded(file, self.header, start, count, where)


@dataclass(frozen=True, eq=False)
class InBytes:
    """The bytes of a file that a program has handed over."""

    content: bytes
    header: SoundHeader

    def decode(self, start: int, count: int, where: str) -> Float32[ndarray, " n"]:
        return _decoded(io.BytesIO(self.content), self.header, start, count, where)


@dataclass(frozen=True, eq=False)
class InArray:
    """Samples that a program has handed over, one channel."""

    samples: ndarray  # float32, or int16
    header: SoundHeader

    def decode(self, start: int, count: int, where: str) -> Float32[ndarray, " n"]:
        return _scaled(self.samples[start : start + count])


class Drawn(Protocol):
    """What a generated data set describes and makes when it is needed; equal descriptions (``repr``) make equal sound."""

    @property
    def rate(self) -> int: ...

    @property
    def count(self) -> int:
        """Its samples."""
        ...

    def draw(self) -> Float32[ndarray, " n"]: ...


@dataclass(frozen=True)
class InScene:
    """A recording that is made each time."""

    scene: Drawn
    format: ClassVar[str] = "made"

    @property
    def header(self) -> SoundHeader:
        return SoundHeader(self.format, self.scene.rate, 1, self.scene.count, self.scene.count)

    def decode(self, start: int, count: int, where: str) -> Float32[ndarray, " n"]:
        return np.asarray(self.scene.draw()[start : start + count], np.float32)


@dataclass(frozen=True, order=True)
class Recording:
    """A recording by its digest, and what it is called; a stretch of one is a recording, too. Its samples are read when they
    are asked for, and are no part of it."""

    digest: str
    name: str = field(default="recording", compare=False)
    origin: InitVar[Origin | None] = None
    first: InitVar[int] = 0
    count: InitVar[int | None] = None

    def __post_init__(self, origin: Origin | None, first: int, count: int | None) -> None:
        object.__setattr__(self, "_stretch", (origin, first, count))

    def __repr__(self) -> str:
        return f"Recording({self.name!r})"

    @property
    def where(self) -> Origin | None:
        """Where its samples come from; None for a recording that another machine described."""
        found: Origin | None = self.__dict__["_stretch"][0]
        return found

    @property
    def header(self) -> SoundHeader:
        """What the whole file states."""
        if self.where is None:
            raise InputError(self.name, expected="a recording with its samples", found="its name alone")
        return self.where.header

    @property
    def path(self) -> Path | None:
        """Its file, if it is in one."""
        return Path(self.where.path) if isinstance(self.where, InFile) else None

    @property
    def samples(self) -> tuple[int, int]:
        """The first sample of the stretch in its file, and how many there are, at the rate of the file."""
        _, first, count = self.__dict__["_stretch"]
        return first, self.header.frames - first if count is None else count

    @property
    def start(self) -> float:
        """Seconds in its file before it."""
        return self.samples[0] / self.header.rate

    @property
    def end(self) -> float:
        """Seconds in its file up to its end."""
        return sum(self.samples) / self.header.rate

    @property
    def seconds(self) -> float:
        """How long it is, by its header."""
        return self.samples[1] / self.header.rate

    @property
    def is_cut(self) -> bool:
        """Whether its end is where its file is truncated."""
        return self.header.truncated and sum(self.samples) >= self.header.frames

    def part(self, start: float, end: float | None = None) -> Recording:
        """The stretch from ``start`` to ``end``, in seconds from its beginning."""
        header, (first, count) = self.header, self.samples
        stop = count if end is None else round(end * header.rate)
        begin = round(start * header.rate)
        stop = min(stop, count) if stop - count <= ROUNDED * header.rate else stop
        if not 0 <= begin < stop <= count:
            found = f"{start:g} to {'its end' if end is None else f'{end:g}'}"
            raise InputError(self.name, expected=f"seconds within its {self.seconds:g}", found=found)
        digest = blake2b(f"{self.digest} {begin} {stop - begin}".encode(), digest_size=DIGEST).hexdigest()
        name = f"{self.name}#{start:g}-{'' if end is None else f'{end:g}'}"
        return Recording(digest, name, self.where, first + begin, stop - begin)

    def read(self, rate: int | None = None, *, speed: float = 1.0) -> Float32[ndarray, " n"]:
        """Its samples, channels mixed, from −1 to 1, at ``rate`` (its own unless given); a ``speed`` of 1.1 plays it faster,
        which makes it shorter and higher."""
        header, (first, count) = self.header, self.samples
        origin = self.where
        if origin is None:
            raise InputError(self.name, expected="a recording with its samples", found="its name alone")
        if self.is_cut:
            raise _truncated(self.name, header)
        check_samples(count, header, self.name)
        samples = origin.decode(first, count, self.name)
        ratio = Fraction(rate or header.rate, header.rate) / Fraction(speed).limit_denominator(100)
        return samples if ratio == 1 else resample(samples, ratio.numerator, ratio.denominator)

    # Where recordings come from ---------------------------------------------------------------------------------------

    @classmethod
    def of_file(cls, path: str | Path, name: str | None = None) -> Recording:
        """A recording in a file, whose header is read now."""
        with _opened(path) as (file, size):
            header = _header(file, size, path)
            digest = _digest_of(file, size, header)
        return cls(digest, str(path) if name is None else name, InFile(str(path), header))

    @classmethod
    def named(cls, name: str, folder: Path = Path()) -> Recording:
        """The file that a manifest in ``folder`` names, or a stretch of it: "talk.wav", "talk.wav#12.5-17.25"."""
        path, start, end = stretch_of(name)
        if start is not None and (folder / name).is_file():  # a file that is called so
            path, start, end = name, None, None
        recording = _file_recording(folder / path, path)
        return recording if start is None else recording.part(start, end)

    @classmethod
    def drawn(cls, scene: Drawn, name: str = "made") -> Recording:
        """A recording that is made when it is read."""
        return cls(blake2b(repr(scene).encode(), digest_size=DIGEST).hexdigest(), name, InScene(scene))

    @classmethod
    def in_memory(cls, given: Any, where: str) -> Recording:
        """A recording that a program has in hand. A name of a file is one, too."""
        if isinstance(given, Recording):
            return given
        if isinstance(given, str | Path):
            return cls.named(str(given))
        if isinstance(given, Mapping):
            return cls._of_mapping(given, where)
        if isinstance(given, bytes | bytearray | memoryview):
            content = bytes(given)
            header = _header(io.BytesIO(content), len(content), where)
            return cls(_digest_of(io.BytesIO(content), len(content), header), where, InBytes(content, header))
        if isinstance(given, tuple | list) and len(given) == 2 and hasattr(given[0], "shape"):
            return cls.of_array(given[0], given[1], where)
        found = "an array without its rate" if hasattr(given, "shape") else f"a {type(given).__name__}"
        raise InputError(where, expected=FORMS, found=found)

    @classmethod
    def _of_mapping(cls, given: Mapping[Any, Any], where: str) -> Recording:
        """{"base64"}, or how datasets of the hub hold recordings: {"bytes", "path"} or {"array", "sampling_rate"}."""
        if isinstance(given.get("base64"), str):
            try:
                return cls.in_memory(base64.b64decode(given["base64"], validate=True), where)
            except (binascii.Error, ValueError):
                raise InputError(where, field="base64", expected="base64", found="other characters") from None
        if given.get("array") is not None and "sampling_rate" in given:
            return cls.of_array(np.asarray(given["array"]), given["sampling_rate"], where)
        held = given.get("bytes") or given.get("path")
        if held is None:
            keys = ", ".join(map(str, given)) or "no keys"
            raise InputError(where, expected=FORMS, found=f"a mapping with {keys[:80]}")
        return cls.in_memory(held, where)

    @classmethod
    def of_array(cls, given: Any, rate: Any, where: str) -> Recording:
        """Samples [n] or [n, C] (a tensor may be [C, n]) with their rate; floats from −1 to 1, or 8, 16 or 32 bit integers."""
        if hasattr(given, "detach"):
            given = given.detach().cpu()
            given = (given.float() if given.is_floating_point() else given).numpy()  # bfloat16 has no array
        samples = np.asarray(given)
        if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not float(rate).is_integer():
            raise InputError(where, field="rate", expected="samples per second", found=repr(rate)[:40])
        if samples.ndim == 2 and samples.shape[0] <= MOST_CHANNELS < samples.shape[1]:
            samples = samples.T
        if samples.ndim not in (1, 2) or samples.dtype.kind not in "fiu" or samples.dtype.itemsize > 8:
            raise InputError(where, expected=FORMS, found=f"{samples.dtype} {list(samples.shape)}")
        channels = 1 if samples.ndim == 1 else samples.shape[1]
        header = SoundHeader("array", int(rate), channels, len(samples), len(samples))
        _check(header, where)
        check_samples(len(samples), header, where)
        if samples.ndim == 1 and samples.dtype == np.int16:
            kept = np.ascontiguousarray(samples)
        else:
            kept = _mixed(_scaled(samples))
            _check_values(kept, header, 0, where)
        key = f"{rate} {kept.dtype}".encode()
        digest = blake2b(np.ascontiguousarray(kept).data, digest_size=DIGEST, key=key).hexdigest()
        return cls(digest, where, InArray(kept, header))


def stretch_of(name: str) -> tuple[str, float | None, float | None]:
    """The file, the start and the end that a name states.

    >>> stretch_of("a.wav#1.5-2"), stretch_of("a.wav")
    (('a.wav', 1.5, 2.0), ('a.wav', None, None))
    """
    found = STRETCH.fullmatch(name)
    if found is None:
        return name, None, None
    return found[1], float(found[2]), None if found[3] is None else float(found[3])


def is_recording(name: str) -> bool:
    """Whether a file's name is that of a recording.

    >>> is_recording("a/b.FLAC"), is_recording("b.txt")
    (True, False)
    """
    return PurePosixPath(name).suffix.lower().removeprefix(".") in SUFFIXES


def check_samples(count: int, header: SoundHeader, where: str) -> None:
    """Raise where so many samples are not to be decoded into memory at once."""
    if count > max_samples():
        expected = f"at most {max_samples() / header.rate:,.0f} s at {header.rate:,} Hz"
        hint = raised(MAX_SAMPLES, count)
        raise InputError(where, expected=expected, found=f"{count / header.rate:,.0f} s", hint=hint)


def check_whole(recording: Recording) -> None:
    """Decode all of a recording; an InputError where it is truncated, silent or holds samples that are not numbers."""
    if not recording.read().any():
        raise Silent(recording.name, expected="a recording with sound", found=f"{recording.seconds:.2f} s of silence")


class Silent(InputError):
    """A recording all of whose samples are zero."""


# Files ----------------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file, opened, and its size: a pipe or a device might never end."""
    try:
        if not os.path.isfile(path):
            found = (
                "a folder" if os.path.isdir(path) else "a device or a pipe" if os.path.exists(path) else "no such file"
            )
            raise InputError(path, expected=EXPECTED, found=found)
        with open(path, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        found = getattr(error, "strerror", None) or str(error)
        raise InputError(path, expected="a readable file", found=found) from None


@lru_cache(maxsize=256)
def _recent(path: str, name: str, changed: int, size: int) -> Recording:
    return Recording.of_file(path, name)


def _file_recording(path: Path, name: str) -> Recording:
    """The recording in a file; of many stretches of one file its header is read once."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return Recording.of_file(path, name)  # which says what is wrong
    return _recent(str(path), name, status.st_mtime_ns, status.st_size)


def digest_of_file(path: str | Path) -> str:
    """The digest of a file, of which it reads blocks."""
    with _opened(path) as (file, size):
        return _digest_of(file, size)


def _digest_of(file: BinaryIO, size: int, header: SoundHeader | None = None) -> str:
    """Of a compressed file blocks tell enough: others differ in each of them. Of samples as they are, mostly silent ones might
    not, so all of them are read unless the file is large."""
    most = WHOLE if header is not None and header.coding else SPREAD * PIECE
    digest = blake2b(str(size).encode(), digest_size=DIGEST)
    if size <= most:
        file.seek(0)
        while block := file.read(BLOCK):
            digest.update(block)
    else:
        for number in range(SPREAD):
            file.seek((size - PIECE) * number // (SPREAD - 1))
            digest.update(file.read(PIECE))
    return digest.hexdigest()


def _header(file: BinaryIO, size: int, where: str | Path) -> SoundHeader:
    """The header of a file, checked."""
    file.seek(0)
    start = file.read(16)
    if not start:
        raise InputError(where, expected=EXPECTED, found="an empty file")
    if start[:4] == b"RIFF" and start[8:12] == b"WAVE":
        header = _wav_header(file, size, where)
    elif start[:7] == b"NIST_1A":
        header = _sph_header(file, size, where)
    else:
        known = (b"fLaC", b"OggS", b"ID3", b"RIFX", b"RF64", b"FORM", b".snd", b"caff", b"riff")
        if not start.startswith(known) and not (start[0] == 0xFF and len(start) > 1 and start[1] & 0xE0 == 0xE0):
            mp4 = start[4:8] == b"ftyp"
            hint = "ffmpeg -i FILE out.wav converts it" if mp4 else None
            raise InputError(where, expected=EXPECTED, found="an MP4 file" if mp4 else "something else", hint=hint)
        header = _other_header(file, where)
    _check(header, where)
    return header


def _check(header: SoundHeader, where: str | Path) -> None:
    if not LEAST_RATE <= header.rate <= MOST_RATE:
        expected = f"a sample rate from {LEAST_RATE:,} to {MOST_RATE:,} Hz"
        raise InputError(where, expected=expected, found=f"{header.rate:,} Hz")
    if not 1 <= header.channels <= MOST_CHANNELS:
        raise InputError(where, expected=f"1 to {MOST_CHANNELS} channels", found=f"{header.channels:,}")
    if header.frames < 1:
        if header.truncated:
            raise _truncated(where, header)
        raise InputError(where, expected="at least one sample", found="none")


def _truncated(where: str | Path, header: SoundHeader) -> DamagedRecording:
    expected = f"{header.stated / header.rate:,.2f} s of sound, as its header states"
    return DamagedRecording(where, expected=expected, found=f"{header.frames / header.rate:,.2f} s: it is truncated")


CODINGS = {"u8": (1, "u1"), "s16": (2, "<i2"), "s16be": (2, ">i2"), "s24": (3, ""), "s32": (4, "<i4"), "f32": (4, "<f4"),
           "f64": (8, "<f8"), "ulaw": (1, "u1"), "alaw": (1, "u1")}  # fmt: skip
WAV = {
    (1, 8): "u8",
    (1, 16): "s16",
    (1, 24): "s24",
    (1, 32): "s32",
    (3, 32): "f32",
    (3, 64): "f64",
    (6, 8): "alaw",
    (7, 8): "ulaw",
}


def _wav_header(file: BinaryIO, size: int, where: str | Path) -> SoundHeader:
    """Walk through the chunks of a RIFF file, up to that of samples."""
    place, layout = 12, None
    while place + 8 <= size:
        file.seek(place)
        name, length = struct.unpack("<4sI", file.read(8))
        if name == b"fmt ":
            layout = file.read(min(length, 40))
        if name == b"data":
            break
        place += 8 + length + length % 2
    else:
        found = "no samples" if layout is not None else "no header"
        raise DamagedRecording(where, expected="a wav file with fmt and data chunks", found=f"{found}: it is damaged")
    if layout is None or len(layout) < 16:
        raise DamagedRecording(where, expected="a wav file with fmt and data chunks", found="no fmt chunk before data")
    tag, channels, rate, _, _, bits = struct.unpack("<HHIIHH", layout[:16])
    if tag == 0xFFFE and len(layout) >= 26:  # extensible: the tag is the start of its GUID
        tag = struct.unpack("<H", layout[24:26])[0]
    coding = WAV.get((tag, bits))
    if coding is None:
        return _other_header(file, where)
    width = CODINGS[coding][0] * channels
    there = (size - place - 8) // max(1, width)
    endless = length == 0 or length >= 0x7FFF0000  # written to a pipe: the length was not known
    stated = there if endless else length // max(1, width)
    return SoundHeader("wav", rate, channels, min(there, stated), stated, coding, place + 8)


def _sph_header(file: BinaryIO, size: int, where: str | Path) -> SoundHeader:
    """The header of NIST SPHERE: lines "name -type value", as long as its second line says."""
    file.seek(8)
    length = file.read(8).strip()
    if not length.isdigit() or not 16 <= int(length) <= min(size, 1 << 16):
        raise DamagedRecording(where, expected="the header of a NIST sph file", found="a damaged one")
    file.seek(16)
    lines = file.read(int(length) - 16).decode("latin-1").split("end_head")[0].splitlines()
    fields = {part[0]: part[2].strip() for line in lines if len(part := line.split(" ", 2)) == 3}

    def number(name: str, usual: int | None = None) -> int:
        text = fields.get(name, "" if usual is None else str(usual))
        if not text.isdigit() or len(text) > 15:
            raise DamagedRecording(where, field=name, expected="a whole number", found=repr(text)[:40])
        return int(text)

    coding, order = fields.get("sample_coding", "pcm").lower(), fields.get("sample_byte_format", "01")
    if "shorten" in coding or "wavpack" in coding or "shortpack" in coding:
        hint = "sph2pipe -f wav FILE out.wav unpacks it"
        raise InputError(where, expected="sph with PCM or µ-law samples", found=f"{coding!r}, compressed", hint=hint)
    width = number("sample_n_bytes", 2 if coding == "pcm" else 1)
    known = {("pcm", 2, "01"): "s16", ("pcm", 2, "10"): "s16be"}
    found = (
        "ulaw" if coding in ("ulaw", "mu-law") else "alaw" if coding == "alaw" else known.get((coding, width, order))
    )
    if found is None:
        named = f"{coding!r} of {width} bytes, order {order!r}"
        raise InputError(where, expected="sph with 16 bit PCM or µ-law samples", found=named)
    channels, rate, stated = number("channel_count", 1), number("sample_rate"), number("sample_count")
    there = (size - int(length)) // max(1, channels * CODINGS[found][0])
    return SoundHeader("sph", rate, channels, min(there, stated), stated, found, int(length))


class _Held(io.BytesIO):
    """Bytes for libsndfile, which seeks before the start of some damaged files: its callbacks may raise nothing."""

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self.tell(), len(self.getbuffer()))[whence]
        return super().seek(max(0, start + offset))


@contextmanager
def _decoder(file: BinaryIO, where: str | Path) -> Iterator[Any]:
    """A file that soundfile decodes; whatever it raises of a damaged one becomes one error."""
    soundfile = need("soundfile", extra="audio", for_=f"reading {where} (not a plain wav or sph file)")
    held = _Held(file.getvalue()) if isinstance(file, io.BytesIO) else os.fsencode(file.name)
    try:
        with soundfile.SoundFile(held) as sound:
            yield sound
    except SaccadeError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        found = f"a damaged one: {words.rpartition(': ')[2][:100] or type(error).__name__}"
        raise DamagedRecording(where, expected=EXPECTED, found=found) from None


def _other_header(file: BinaryIO, where: str | Path) -> SoundHeader:
    with _decoder(file, where) as sound:
        name = "mp3" if sound.format == "MPEG" else str(sound.format).lower()
        frames = int(sound.frames)
        if frames < 1:
            raise DamagedRecording(where, expected="at least one sample", found="none: it is empty or truncated")
        return SoundHeader(name, int(sound.samplerate), int(sound.channels), frames, frames)


# Samples --------------------------------------------------------------------------------------------------------------


def _decoded(file: BinaryIO, header: SoundHeader, start: int, count: int, where: str) -> Float32[ndarray, " n"]:
    """So many samples from the ``start``-th on, decoded in blocks, channels mixed."""
    if not header.coding:
        return _decoded_by_soundfile(file, header, start, count, where)
    samples = np.empty(count, np.float32)
    width = CODINGS[header.coding][0] * header.channels
    file.seek(header.offset + start * width)
    for place in range(0, count, BLOCK):
        block = file.read(min(BLOCK, count - place) * width)
        values = _mixed(_plain(block[: len(block) // width * width], header.coding).reshape(-1, header.channels))
        if len(values) < min(BLOCK, count - place):
            raise _truncated(where, header)
        _check_values(values, header, start + place, where)
        samples[place : place + len(values)] = values
    return samples


def _decoded_by_soundfile(
    file: BinaryIO, header: SoundHeader, start: int, count: int, where: str
) -> Float32[ndarray, " n"]:
    samples = np.empty(count, np.float32)
    filled = 0
    # After a seek, which soundfile does after every block too, an mp3 decoder is silent until it has met what earlier blocks
    # hold of later ones.
    ahead = MP3_AHEAD if header.format == "mp3" else 0
    with _decoder(file, where) as sound:
        while filled < count:
            place = start + filled
            before = min(place, ahead)
            if before or not filled:
                sound.seek(place - before)
            block = sound.read(before + min(BLOCK, count - filled), dtype="float32", always_2d=True)[before:]
            if not len(block):
                break
            values = _mixed(block)
            _check_values(values, header, place, where)
            samples[filled : filled + len(values)] = values
            filled += len(values)
    if filled < count:
        # A compressed format may state a little more than it decodes to: encoders pad the last block.
        if filled < count - header.rate // 10:
            expected = f"{(start + count) / header.rate:,.2f} s of sound, as its header states"
            found = f"{(start + filled) / header.rate:,.2f} s: it is truncated"
            raise DamagedRecording(where, expected=expected, found=found)
        samples[filled:] = 0.0
    return samples


def _plain(block: bytes, coding: str) -> ndarray:
    """Stored samples as numbers from −1 to 1."""
    if coding == "s24":
        wide = np.zeros((len(block) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(block, np.uint8).reshape(-1, 3)
        return _scaled(wide.view("<i4")[:, 0])
    values = np.frombuffer(block, CODINGS[coding][1])
    if coding in ("ulaw", "alaw"):
        values = _LAWS[coding][values]
    return _scaled(values)


def _ulaw() -> ndarray:
    """µ-law (G.711): a sign, three bits of exponent and four of mantissa, all inverted."""
    code = ~np.arange(256, dtype=np.uint8)
    size = (((code & 0x0F).astype(np.int32) << 3) + 0x84) << ((code & 0x70) >> 4)
    return (np.where(code & 0x80, 0x84 - size, size - 0x84) / 32768).astype(np.float32)


def _alaw() -> ndarray:
    """A-law (G.711): even bits inverted."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code & 0x70) >> 4, (code & 0x0F).astype(np.int32) << 4
    size = np.where(exponent == 0, mantissa + 8, (mantissa + 0x108) << np.maximum(exponent.astype(np.int32) - 1, 0))
    return (np.where(code & 0x80, size, -size) / 32768).astype(np.float32)


_LAWS = {"ulaw": _ulaw(), "alaw": _alaw()}


def _scaled(values: ndarray) -> ndarray:
    """Samples of any type as float32 from −1 to 1."""
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    bits = 8 * values.dtype.itemsize
    middle = 2.0 ** (bits - 1) if values.dtype.kind == "u" else 0.0
    if bits <= 16:
        return (values.astype(np.float32) - np.float32(middle)) / np.float32(2.0 ** (bits - 1))
    return ((values.astype(np.float64) - middle) / 2.0 ** (bits - 1)).astype(np.float32)


def _mixed(samples: ndarray) -> Float32[ndarray, " n"]:
    """The mean of all channels."""
    if samples.ndim == 1:
        return samples
    return samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)


def _check_values(values: ndarray, header: SoundHeader, first: int, where: str | Path) -> None:
    """Raise where samples are no numbers, or so large that they are not from −1 to 1."""
    if not len(values):
        return
    with np.errstate(invalid="ignore"):
        loudest = float(np.abs(values).max())
    if math.isfinite(loudest) and loudest <= LOUDEST:
        return
    wrong = ~np.isfinite(values) if not math.isfinite(loudest) else np.abs(values) > LOUDEST
    place = int(wrong.argmax())
    found = f"{values[place]:g} at {(first + place) / header.rate:.3f} s"
    raise DamagedRecording(where, expected="samples from −1 to 1", found=found)


# Resampling -----------------------------------------------------------------------------------------------------------


def resample(samples: Float32[ndarray, " n"], up: int, down: int) -> Float32[ndarray, " m"]:
    """The samples at ``up``/``down`` times their rate, ⌈n · up / down⌉ of them: a windowed sinc, sampled at each phase.

    y(t) = Σ_k x(k) · h(t − k),   h(t) = c · sinc(c t) · kaiser(t / half),   c = rolloff · min(1, up/down)
    """
    divisor = math.gcd(up, down)
    up, down = up // divisor, down // divisor
    if up == down:
        return samples
    count = -(-len(samples) * up // down)
    up, down = _bounded(up, down)
    if up > MANY_PHASES:
        return _resampled_by_phase(samples, up, down, count)
    times = max(1, 64 // up)  # enough outputs per block for a matrix product that is worth it
    up, down = up * times, down * times
    half = _filters(up, down)[1]
    blocks = -(-count // up)
    width = down + 2 * half
    kernel = _block_kernel(up, down)
    padded = np.zeros(blocks * down + 2 * half, np.float32)
    used = min(len(samples), len(padded) - half)
    padded[half : half + used] = samples[:used]
    output = np.empty((blocks, up), np.float32)
    rows = np.lib.stride_tricks.sliding_window_view(padded, width)[::down]
    step = max(1, BLOCK // width)
    for start in range(0, blocks, step):
        output[start : start + step] = np.ascontiguousarray(rows[start : start + step]) @ kernel
    return output.reshape(-1)[:count]


def _bounded(up: int, down: int) -> tuple[int, int]:
    """The nearest ratio of two numbers up to MOST_PHASES: less than one part in MOST_PHASES away."""
    if max(up, down) <= MOST_PHASES:
        return up, down
    smaller = Fraction(min(up, down), max(up, down)).limit_denominator(MOST_PHASES)
    parts = smaller.numerator, smaller.denominator
    return parts if up < down else parts[::-1]


@lru_cache(maxsize=8)
def _filters(up: int, down: int) -> tuple[Float32[ndarray, "U K"], int]:
    """The filter of every phase: output p (of each ``up``) lies p·down/up inputs after the block's first; its filter covers
    the 2·half inputs around it, from ⌊p·down/up⌋ − half + 1 on."""
    cut = ROLLOFF * min(1.0, up / down)
    half = math.ceil(CROSSINGS / cut)
    phase = np.arange(up, dtype=np.float64) * down / up
    time = (phase - np.floor(phase))[:, None] - np.arange(-half + 1, half + 1)
    window = np.i0(BETA * np.sqrt(np.clip(1 - (time / half) ** 2, 0, 1))) / np.i0(BETA)
    bank = np.sinc(cut * time) * window
    return (bank / bank.sum(axis=1, keepdims=True)).astype(np.float32), half


@lru_cache(maxsize=8)
def _block_kernel(up: int, down: int) -> Float32[ndarray, "K U"]:
    """The filters of all phases over one window of down + 2·half inputs, which begins ``half`` inputs before the block."""
    bank, half = _filters(up, down)
    kernel = np.zeros((down + 2 * half, up), np.float32)
    for phase in range(up):
        first = phase * down // up + 1
        kernel[first : first + 2 * half, phase] = bank[phase]
    return kernel


def _resampled_by_phase(samples: Float32[ndarray, " n"], up: int, down: int, count: int) -> Float32[ndarray, " m"]:
    """The same for rates with a small common divisor, whose filters together would be too large a matrix."""
    bank, half = _filters(up, down)
    padded = np.zeros((count - 1) * down // up + 1 + 2 * half, np.float32)
    used = min(len(samples), len(padded) - half)
    padded[half : half + used] = samples[:used]
    output, taps = np.empty(count, np.float32), np.arange(1, 2 * half + 1)
    step = max(1, BLOCK // (2 * half))
    for start in range(0, count, step):
        numbers = np.arange(start, min(count, start + step), dtype=np.int64)
        windows = padded[(numbers * down // up)[:, None] + taps]
        output[start : start + step] = np.einsum("nk,nk->n", windows, bank[numbers % up])
    return output
