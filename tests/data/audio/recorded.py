"""Recordings as bytes of files, for tests: wav of any coding, NIST sph, and folders of them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np


def sound(count: int, seed: int = 1, rate: int = 8000) -> np.ndarray:
    """Whole numbers of 16 bits: a tone with noise."""
    random = np.random.RandomState(seed)
    tone = 6000 * np.sin(2 * np.pi * 440 * np.arange(count) / rate)
    return (tone + random.randint(-2000, 2001, count)).astype(np.int16)


def wav(samples: np.ndarray, rate: int = 8000, tag: int = 1, bits: int = 16, **header: int) -> bytes:
    """A wav file of samples [n] or [n, C], stored as their dtype has them; ``header`` fields replace the right ones."""
    data = samples.tobytes()
    channels = header.get("channels", 1 if samples.ndim == 1 else samples.shape[1])
    block = channels * bits // 8
    layout = struct.pack("<HHIIHH", tag, channels, rate, rate * block % 2**32, block % 2**16, bits)
    if tag == 0xFFFE:
        layout += struct.pack(
            "<HHIH14s", 22, bits, 0, header.get("inner", 1), b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
        )
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # a chunk of odd length is padded
    stated = header.get("stated", len(data))
    chunks = (
        b"WAVE" + odd + b"fmt " + struct.pack("<I", len(layout)) + layout + b"data" + struct.pack("<I", stated) + data
    )
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def sph(data: bytes, **fields: object) -> bytes:
    """A NIST sph file; ``fields`` replace those of mono 16 bit PCM at 8 kHz, None leaves one out."""
    usual = {
        "sample_count": len(data) // 2, "sample_rate": 8000, "channel_count": 1, "sample_n_bytes": 2,
        "sample_byte_format": "01", "sample_coding": "pcm",
    }  # fmt: skip
    lines = ["NIST_1A", "   1024"]
    for name, value in {**usual, **fields}.items():
        if value is not None:
            kind = "-i" if isinstance(value, int) else f"-s{len(str(value))}"
            lines.append(f"{name} {kind} {value}")
    return "\n".join([*lines, "end_head", ""]).encode().ljust(1024) + data


def write(path: Path, count: int, seed: int = 1, rate: int = 8000) -> Path:
    """A wav file of so many samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wav(sound(count, seed, rate), rate))
    return path
