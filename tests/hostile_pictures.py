"""Pictures and lists of pictures as a stranger could send them, and the ways in which they are used."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import saccade
from saccade.api.bundle import Bundle
from saccade.api.prepare import prepare, read_splits
from saccade.cli import main
from saccade.data.toy import twins
from saccade.errors import SaccadeError
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml

TASKS = ("classify_images", "caption")
MODELS: dict[str, dict[str, Any]] = {
    "classify_images": {"name": "image_classifier", "channels": 3, "halvings": 1, "width": 5, "attention": 6},
    "caption": {"name": "show_attend_tell", "channels": [3, 5], "hidden": 5, "embedding": 3, "alignment": 3},
}
SIZE = 12
BATCH = 8
RUN = {"updates": 2, "device": "cpu", "threads": 1, "batch_records": BATCH, "batch_tokens": None}


def pixels(height: int = 11, width: int = 17, seed: int = 3) -> np.ndarray:
    """A picture that is neither plain nor noise."""
    ramp = np.add.outer(np.arange(height) * 9, np.arange(width) * 5)[..., None] * np.array([1, 2, 3])
    noise = np.random.default_rng(seed).integers(0, 40, (height, width, 3))
    return ((ramp + noise) % 256).astype(np.uint8)


def saved(picture: Any, format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, format, **options)
    return stream.getvalue()


# Whole pictures ---------------------------------------------------------------------------------------------------------


def whole_pictures() -> dict[str, tuple[str, bytes]]:
    """Name → the file's name and content, of every format and mode that is read."""
    rgb = Image.fromarray(pixels())
    rgba = rgb.convert("RGBA")
    rgba.putalpha(Image.fromarray(pixels()[..., 0]))
    deep = Image.fromarray(pixels()[..., 0].astype(np.uint16) * 257)
    frames = [Image.fromarray(pixels(seed=seed)) for seed in range(5)]
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "a camera" * 20
    animated = {"save_all": True, "append_images": frames[1:]}
    made = {
        "JPEG": ("a.jpg", saved(rgb, "JPEG")),
        "JPEG, progressive": ("a.jpg", saved(rgb, "JPEG", progressive=True, optimize=True)),
        "JPEG, grey": ("a.jpeg", saved(rgb.convert("L"), "JPEG")),
        "JPEG, CMYK": ("a.jpg", saved(rgb.convert("CMYK"), "JPEG")),
        "JPEG, turned by EXIF": ("a.jpg", saved(rgb, "JPEG", exif=exif)),
        "JPEG, several pictures (MPO)": ("a.jpg", saved(frames[0], "MPO", **animated)),
        "PNG": ("a.png", saved(rgb, "PNG")),
        "PNG, transparent": ("a.png", saved(rgba, "PNG")),
        "PNG, grey": ("a.png", saved(rgb.convert("L"), "PNG")),
        "PNG, 16 bits": ("a.png", saved(deep, "PNG")),
        "PNG, palette": ("a.png", saved(rgb.convert("P"), "PNG")),
        "PNG, palette with transparency": ("a.png", saved(rgb.convert("P"), "PNG", transparency=b"\x00\x40" * 9)),
        "PNG, 1 bit": ("a.png", saved(rgb.convert("1"), "PNG")),
        "PNG, EXIF": ("a.png", saved(rgb, "PNG", exif=exif)),
        "PNG, animated": ("a.png", saved(frames[0], "PNG", **animated)),
        "WebP": ("a.webp", saved(rgb, "WEBP")),
        "WebP, lossless, transparent": ("a.webp", saved(rgba, "WEBP", lossless=True)),
        "WebP, animated": ("a.webp", saved(frames[0], "WEBP", **animated)),
        "BMP": ("a.bmp", saved(rgb, "BMP")),
        "BMP, palette": ("a.bmp", saved(rgb.convert("P"), "BMP")),
        "GIF": ("a.gif", saved(rgb, "GIF")),
        "GIF, animated": ("a.gif", saved(frames[0], "GIF", **animated)),
    }  # fmt: skip
    return made


# Changed pictures -------------------------------------------------------------------------------------------------------


def changed(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """A truncated, flipped, or otherwise damaged copy, and what was done to it."""
    kind = draw.choice(["truncated", "flipped", "many flipped", "header", "a hole", "doubled", "moved"])
    at = draw.randrange(1, len(content))
    if kind == "truncated":
        return content[:at], f"truncated to {at} of {len(content)} bytes"
    if kind == "flipped":
        return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :], f"a bit of byte {at}"
    if kind == "many flipped":
        damaged = bytearray(content)
        for _ in range(9):
            damaged[draw.randrange(len(content))] = draw.randrange(256)
        return bytes(damaged), "9 bytes changed"
    if kind == "header":
        at = draw.randrange(min(60, len(content) - 4))
        number = struct.pack(">I", draw.choice([0, 1, 2**31, 2**32 - 1, 60_000, 2**16]))
        return content[:at] + number + content[at + 4 :], f"4 bytes from {at}"
    if kind == "a hole":
        end = min(len(content), at + draw.randrange(1, 50))
        return content[:at] + content[end:], f"without bytes {at} to {end}"
    if kind == "doubled":
        return content[:at] + content[at // 2 :], f"bytes from {at // 2} to {at} twice"
    return content[:8] + content[at:] + content[8:at], f"cut at {at} and exchanged"


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, *more: bytes, depth: int = 8, colour: int = 2, rows: bytes = b"") -> bytes:
    """A PNG file whose header says what it is told to, with ``rows`` compressed as its pixels."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [chunk(b"IHDR", header), *more, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def plain_png(side: int, channels: int, depth: int = 8) -> bytes:
    """A whole picture in one colour; compressed it is small."""
    colour = {1: 0, 3: 2, 4: 6}[channels]
    squeezed = zlib.compressobj(9)
    row = b"\0" + b"\x7f" * (side * channels * depth // 8)
    rows = b"".join(squeezed.compress(row) for _ in range(side)) + squeezed.flush()
    header = struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", rows), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def gif(width: int, height: int, frames: int) -> bytes:
    """A GIF of frames of one pixel on a screen of any size."""
    start = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    frame = (
        b"\x21\xf9\x04\x08\x02\x00\x00\x00" + b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    )
    return start + frame * frames + b"\x3b"


def bmp(width: int, height: int, bits: int = 24, compression: int = 0, body: bytes = b"") -> bytes:
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(body), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(body), 0, 0, 54) + header + body


def sized_jpeg(height: int, width: int) -> bytes:
    """A JPEG whose header says that it is larger than it is."""
    content = bytearray(saved(Image.fromarray(pixels()), "JPEG"))
    at = content.index(b"\xff\xc0")
    content[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(content)


def made_pictures() -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Name → the file's name and what makes its content: files that lie about their size, bombs, and no pictures at all."""
    rgb = Image.fromarray(pixels())
    bomb = zlib.compress(bytes(100 << 20), 9)
    text = b"Comment\0\0" + bomb
    small = saved(rgb, "PNG")
    cut = small.index(b"IDAT") - 4

    def inside(*more: bytes) -> bytes:
        return small[:cut] + b"".join(more) + small[cut:]

    return {
        "PNG of 60,000 × 60,000 in its header": ("a.png", lambda: png(60_000, 60_000)),
        "PNG of 2³¹ − 1 columns": ("a.png", lambda: png(2**31 - 1, 1)),
        "PNG of no rows": ("a.png", lambda: png(7, 0)),
        "PNG of 8,000 × 8,000 without pixels": ("a.png", lambda: png(8000, 8000)),
        "PNG of 8,000 × 8,000 in one colour": ("a.png", lambda: plain_png(8000, 3)),
        "PNG of 8,000 × 8,000, transparent": ("a.png", lambda: plain_png(8000, 4)),
        "PNG of 8,000 × 8,000, 16 bits": ("a.png", lambda: plain_png(8000, 1, 16)),
        "PNG of 8,000 × 8,000, RGB of 16 bits": ("a.png", lambda: plain_png(8000, 3, 16)),
        "PNG of 1 × 67,000,000": ("a.png", lambda: png(1, 67_000_000, colour=0, rows=bytes(1000))),
        "PNG with a depth of 3 bits": ("a.png", lambda: png(7, 5, depth=3)),
        "PNG with a colour type of 9": ("a.png", lambda: png(7, 5, colour=9)),
        "PNG with 100 MB of pixels for 7 × 5": ("a.png", lambda: png(7, 5, rows=bytes(100 << 20))),
        "PNG with a text chunk of 100 MB": ("a.png", lambda: inside(chunk(b"zTXt", text))),
        "PNG with 900 text chunks": ("a.png", lambda: inside(*[chunk(b"tEXt", b"a\0" + b"b" * 60_000)] * 900)),
        "PNG with 200 bombs as texts": ("a.png", lambda: inside(*[chunk(b"zTXt", text)] * 200)),
        "PNG with a colour profile of 100 MB": ("a.png", lambda: inside(chunk(b"iCCP", b"a\0\0" + bomb))),
        "PNG with an international text of 100 MB": (
            "a.png", lambda: inside(chunk(b"iTXt", b"a\0\x01\0\0\0" + bomb)),
        ),
        "PNG with bombs behind its pixels": (
            "a.png", lambda: small[:-12] + chunk(b"zTXt", text) * 50 + small[-12:],
        ),
        "PNG with a wrong checksum": ("a.png", lambda: small[:29] + b"\0\0\0\0" + small[33:]),
        "PNG whose chunk says 2³¹ bytes": ("a.png", lambda: small[:cut] + b"\x80\0\0\0tEXt" + small[cut:]),
        "PNG without an end": ("a.png", lambda: small[:-12]),
        "PNG with a palette of no colours": ("a.png", lambda: png(7, 5, chunk(b"PLTE", b""), colour=3, rows=bytes(40))),
        "PNG whose pixels name no colour of the palette": (
            "a.png", lambda: png(7, 5, chunk(b"PLTE", b"\1\2\3"), colour=3, rows=b"\xff" * 40),
        ),
        "PNG with EXIF of noise": ("a.png", lambda: inside(chunk(b"eXIf", random.Random(1).randbytes(5000)))),
        "JPEG of 65,000 × 65,000 in its header": ("a.jpg", lambda: sized_jpeg(65_000, 65_000)),
        "JPEG of 8,000 × 8,000 in its header": ("a.jpg", lambda: sized_jpeg(8000, 8000)),
        "JPEG of no columns": ("a.jpg", lambda: sized_jpeg(5, 0)),
        "JPEG with EXIF of noise": (
            "a.jpg", lambda: saved(rgb, "JPEG", exif=b"Exif\0\0" + random.Random(2).randbytes(9000)),
        ),
        "JPEG with EXIF that names itself": (
            "a.jpg",
            lambda: saved(rgb, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x87\x69\0\x04\0\0\0\x01\0\0\0\x08\0\0\0\x08"),
        ),
        "JPEG turned by 9": (
            "a.jpg",
            lambda: saved(rgb, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0"),
        ),
        "JPEG turned by 2³² − 1 of another type": (
            "a.jpg",
            lambda: saved(rgb, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0"),
        ),
        "JPEG with 5 MB behind its end": ("a.jpg", lambda: saved(rgb, "JPEG") + bytes(5 << 20)),
        "JPEG of only its first two bytes": ("a.jpg", lambda: b"\xff\xd8"),
        "JPEG with 20,000 comments": (
            "a.jpg", lambda: b"\xff\xd8" + b"\xff\xfe\0\x04ab" * 20_000 + saved(rgb, "JPEG")[2:],
        ),
        "GIF with 5,000 frames": ("a.gif", lambda: gif(7, 5, 5000)),
        "GIF with 500,000 frames": ("a.gif", lambda: gif(7, 5, 500_000)),
        "GIF with a screen of 65,535 × 65,535": ("a.gif", lambda: gif(65_535, 65_535, 1)),
        "GIF with a screen of 8,000 × 8,000": ("a.gif", lambda: gif(8000, 8000, 3)),
        "GIF without a frame": ("a.gif", lambda: gif(7, 5, 0)),
        "GIF of only its name": ("a.gif", lambda: b"GIF89a"),
        "BMP of 60,000 × 60,000 in its header": ("a.bmp", lambda: bmp(60_000, 60_000)),
        "BMP of 8,000 × 8,000 without pixels": ("a.bmp", lambda: bmp(8000, 8000)),
        "BMP of −5 rows": ("a.bmp", lambda: bmp(7, -5, body=bytes(200))),
        "BMP of −7 columns": ("a.bmp", lambda: bmp(-7, 5, body=bytes(200))),
        "BMP, run lengths without an end": ("a.bmp", lambda: bmp(8000, 8000, 8, 1, b"\xff\x01" * 9)),
        "BMP, run lengths that jump": ("a.bmp", lambda: bmp(90, 90, 8, 1, b"\0\x02\xff\xff" * 999 + b"\0\1")),
        "BMP of 7 bits": ("a.bmp", lambda: bmp(7, 5, 7, body=bytes(100))),
        "WebP of 16,383 × 16,383": ("a.webp", lambda: _vp8x(16_383, 16_383)),
        "WebP of 2²⁴ × 2²⁴": ("a.webp", lambda: _vp8x(1 << 24, 1 << 24)),
        "WebP whose size says 4 GB": ("a.webp", lambda: b"RIFF\xff\xff\xff\xffWEBPVP8 " + b"\xff" * 40),
        "no bytes": ("a.png", lambda: b""),
        "one byte": ("a.png", lambda: b"\x89"),
        "zeros": ("a.jpg", lambda: bytes(100_000)),
        "noise": ("a.webp", lambda: random.Random(5).randbytes(100_000)),
        "a text": ("a.png", lambda: b"not a picture at all\n" * 99),
        "a page": ("a.jpg", lambda: b"<!doctype html><html><body>404</body></html>"),
        "SVG": ("a.png", lambda: b"<svg xmlns='http://www.w3.org/2000/svg'><rect width='9' height='9'/></svg>"),
        "PDF": ("a.jpg", lambda: b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n%%EOF"),
        "TIFF": ("a.jpg", lambda: saved(rgb, "TIFF")),
        "PPM": ("a.png", lambda: saved(rgb, "PPM")),
        "ICO": ("a.bmp", lambda: saved(rgb.resize((16, 16)), "ICO", sizes=[(16, 16)])),
        "PostScript": ("a.jpg", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"),
        "a zip": ("a.png", lambda: _zip({"a.png": small})),
        "PNG named as a JPEG": ("a.jpg", lambda: small),
        "JPEG named as a PNG": ("a.png", lambda: saved(rgb, "JPEG")),
        "GIF named as a BMP": ("a.bmp", lambda: saved(rgb, "GIF")),
        "WebP named as a GIF": ("a.gif", lambda: saved(rgb, "WEBP")),
        "one pixel": ("a.png", lambda: saved(rgb.crop((0, 0, 1, 1)), "PNG")),
        "1 × 20,000": ("a.png", lambda: saved(rgb.resize((20_000, 1)), "PNG")),
        "20,000 × 1": ("a.png", lambda: saved(rgb.resize((1, 20_000)), "PNG")),
    }  # fmt: skip


def _vp8x(width: int, height: int) -> bytes:
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    body = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + size + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _zip(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def picture_cases(per_picture: int) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """(what it is, the file's name, what makes its content): whole ones, ``per_picture`` changes of each, and made ones."""
    for number, (name, (file, content)) in enumerate(whole_pictures().items()):
        yield f"whole: {name}", file, lambda content=content: content
        for seed in range(per_picture):
            damaged, what = changed(content, random.Random(f"{number} {seed}"))
            yield f"{name}: {what}", file, lambda damaged=damaged: damaged
    for name, (file, make) in made_pictures().items():
        yield name, file, make


# Lists of pictures ------------------------------------------------------------------------------------------------------


def good_pictures(folder: Path, count: int = 14) -> list[str]:
    """Small pictures in ``folder``/pics, drawn of two shapes, and their names as seen from ``folder``."""
    (folder / "pics").mkdir(parents=True)
    drawn = twins.generate(twins.Twins(train=count, valid=1, test=1, size=SIZE, shapes=2))["train"]
    names = []
    for number, pair in enumerate(drawn):
        names.append(f"pics/{number}.png")
        Image.fromarray(pair.draw()).save(folder / names[-1])
    return names


Rows = list[tuple[Any, Any]]
Make = Callable[
    [Path, Rows], dict[str, Any]
]  # the folder, (name, label or caption) of good pictures → settings of data


def _table(*more: str, head: str = "image,VALUE", whole: bytes | None = None, name: str = "list.csv") -> Make:
    """A CSV file of the good rows and ``more`` lines."""

    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        lines = [head, *(f"{image},{value}" for image, value in rows), *more]
        content = "\n".join(lines).replace("VALUE", _value(folder)).encode("utf-8", "surrogatepass")
        (folder / name).write_bytes(content if whole is None else whole)
        return {"train": name}

    return make


def _value(folder: Path) -> str:
    return "label" if "classify_images" in folder.name else "caption"


def _jsonl(*more: Any, whole: str | None = None) -> Make:
    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        value = _value(folder)
        lines = [json.dumps({"image": image, value: text}) for image, text in rows]
        lines += [line if isinstance(line, str) else json.dumps(line).replace("VALUE", value) for line in more]
        (folder / "list.jsonl").write_text("\n".join(lines) if whole is None else whole, encoding="utf-8")
        return {"train": "list.jsonl"}

    return make


def _coco(change: Callable[[dict[str, Any]], Any] = lambda document: None, text: str | None = None) -> Make:
    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        images = [{"id": number, "file_name": image} for number, (image, _) in enumerate(rows)]
        annotations = [{"id": number, "image_id": number, "caption": value} for number, (_, value) in enumerate(rows)]
        document = {"images": images, "annotations": annotations}
        document = change(document) or document
        (folder / "list.json").write_text(json.dumps(document) if text is None else text)
        return {"train": "list.json"}

    return make


def _classes(more: Callable[[Path], None] = lambda folder: None) -> Make:
    """A folder of class folders, or of pictures with texts beside them."""

    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        (folder / "all").mkdir()
        for number, (image, value) in enumerate(rows):
            content = (folder / image).read_bytes()
            inner = folder / "all" / (value if _value(folder) == "label" else "")
            inner.mkdir(exist_ok=True)
            (inner / f"{number}.png").write_bytes(content)
            if _value(folder) == "caption":
                (inner / f"{number}.txt").write_text(value)
        more(folder / "all")
        return {"train": "all"}

    return make


def _archive(change: Callable[[zipfile.ZipFile, bytes], None] = lambda archive, picture: None,
             damage: Callable[[bytes], bytes] = lambda content: content) -> Make:  # fmt: skip
    """A zip archive of class folders, or of pictures with texts beside them."""

    def make(folder: Path, rows: Rows) -> dict[str, Any]:
        _classes()(folder, rows)
        with zipfile.ZipFile(folder / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted((folder / "all").rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(folder / "all").as_posix())
            change(archive, (folder / rows[0][0]).read_bytes())
        (folder / "all.zip").write_bytes(damage((folder / "all.zip").read_bytes()))
        return {"train": "all.zip"}

    return make


def _many(count: int, name: str, content: bytes) -> Callable[[zipfile.ZipFile, bytes], None]:
    def add(archive: zipfile.ZipFile, picture: bytes) -> None:
        for number in range(count):
            archive.writestr(name.format(number), content or picture)

    return add


def _linked(folder: Path) -> None:
    inner = next(path for path in sorted(folder.rglob("*.png"))).parent
    (inner / "nowhere.png").symlink_to("gone.png")
    (inner / "self.png").symlink_to("self.png")
    (inner / "endless.png").symlink_to("/dev/zero")
    (inner / "loop").symlink_to(folder, target_is_directory=True)
    (inner / "true.png").symlink_to(next(iter(sorted(inner.glob("[0-9]*.png")))))
    os.mkfifo(inner / "pipe.png")


def _sparse(folder: Path) -> None:
    inner = next(path for path in sorted(folder.rglob("*.png"))).parent
    with open(inner / "sparse.png", "wb") as file:
        file.truncate(20 * 10**9)


def _strange_names(folder: Path) -> None:
    inner = next(path for path in sorted(folder.rglob("*.png"))).parent
    content = next(iter(sorted(inner.glob("*.png")))).read_bytes()
    for name in (
        "\x1b[31mred.png",
        "a\nb.png",
        " .png",
        "é.png",
        "%s{0}.png",
        "y" * 240 + ".png",
        "A.PNG",
        ".hidden.png",
    ):
        (inner / name).write_bytes(content)
    with contextlib.suppress(OSError):
        Path(os.fsdecode(os.fsencode(inner) + b"/\xff\xfe.png")).write_bytes(content)


def _deep(folder: Path) -> None:
    inner = folder
    for _ in range(60):
        inner = inner / "deeper"
    inner.mkdir(parents=True)
    (inner / "a.png").write_bytes(next(iter(sorted(folder.rglob("*.png")))).read_bytes())


def _lone(folder: Path, rows: Rows) -> dict[str, Any]:
    (folder / "empty").mkdir()
    return {"train": "empty"}


def _fifo(folder: Path, rows: Rows) -> dict[str, Any]:
    os.mkfifo(folder / "list.csv")
    return {"train": "list.csv"}


def _settings(make: Make, **settings: Any) -> Make:
    return lambda folder, rows: {**make(folder, rows), **settings}


HUGE = "y" * (3 << 20)


def list_cases() -> Iterator[tuple[str, str, Make]]:
    """(what it is, the task, what makes it)."""
    for task in TASKS:
        for name, make in _of_both().items():
            yield name, task, make
    for name, make in _of_captions().items():
        yield name, "caption", make
    for name, make in _of_labels().items():
        yield name, "classify_images", make


def _of_both() -> dict[str, Make]:
    return {
        "CSV, whole": _table(),
        "CSV, an empty file": _table(whole=b""),
        "CSV, a header alone": _table(whole=b"image,label,caption\n"),
        "CSV without the column of pictures": _table(head="photo,VALUE"),
        "CSV without the other column": _table(head="image,other"),
        "CSV with two columns of one name": _table(head="image,image"),
        "CSV with a row of one cell": _table("pics/0.png"),
        "CSV with a row of five cells": _table("pics/0.png,a,b,c,d"),
        "CSV with an open quotation mark": _table('pics/0.png,"never closed', *["more"] * 300),
        "CSV with NUL bytes": _table("pics/0.png,a\0b", "pics\0/0.png,a"),
        "CSV with NaN": _table("NaN,NaN", "nan,red", "pics/0.png,NaN"),
        "CSV with empty cells": _table(",", "pics/0.png,", ",red", "  ,  "),
        "CSV with a cell of 3 MB": _table(f"pics/0.png,{HUGE}"),
        "CSV with a name of 3 MB": _table(f"{HUGE}.png,red"),
        "CSV with a missing picture": _table("pics/gone.png,red"),
        "CSV with the picture of another folder": _table("../secret.png,red", "../../../../etc/passwd,red"),
        "CSV with absolute paths": _table("/etc/passwd,red", "/dev/zero,red", "/proc/self/mem,red"),
        "CSV with a folder as a picture": _table("pics,red", ".,red", "..,red", "/,red"),
        "CSV with addresses": _table("http://localhost:1/a.png,red", "file:///etc/passwd,red"),
        "CSV with a home folder and a variable": _table("~/a.png,red", "$HOME/a.png,red"),
        "CSV with paths of Windows": _table(r"pics\0.png,red", r"C:\pics\1.png,red"),
        "CSV with control characters": _table("\x1b]0;x\x07\x1b[31m.png,red", "pics/0.png,\x1b[31mred"),
        "CSV with half a character": _table("pics/0.png,a\ud800b"),
        "CSV with a picture 500 times": _table(*["pics/0.png,red"] * 500),
        "CSV with one picture and every value": _table(*[f"pics/0.png,v{n}" for n in range(300)]),
        "CSV in Latin-1": _table(whole="image,label,caption\npics/0.png,caf\xe9,caf\xe9\n".encode("latin-1")),
        "CSV in UTF-16": _table(whole="image,label,caption\npics/0.png,a,a\n".encode("utf-16")),
        "CSV with a byte-order mark": _table(head="\ufeffimage,VALUE"),
        "CSV of noise": _table(whole=random.Random(4).randbytes(50_000)),
        "CSV of zeros": _table(whole=bytes(3 << 20)),
        "CSV of one line of 5 MB": _table(whole=b"a," * (5 << 19)),
        "CSV that is a PNG": _table(whole=saved(Image.fromarray(pixels()), "PNG")),
        "CSV that is a pipe": _fifo,
        "CSV named as JSONL": _table(name="list.jsonl"),
        "CSV that is not there": lambda folder, rows: {"train": "gone.csv"},
        "CSV with columns that are not there": _settings(_table(), columns={"image": 9}),
        "CSV, pictures in a folder that is not there": _settings(_table(), images="gone"),
        "CSV, pictures in a file": _settings(_table(), images="list.csv"),
        "CSV, pictures in a damaged zip": _settings(_table(), images=["list.csv", "pics"]),
        "JSONL, whole": _jsonl(),
        "JSONL, no JSON": _jsonl("{", "nonsense", '{"image": '),
        "JSONL, lists and numbers": _jsonl([], 7, "null", "true", '"text"'),
        "JSONL, values of other types": _jsonl(
            {"image": None, "VALUE": "red"}, {"image": [], "VALUE": "red"}, {"image": {}, "VALUE": "red"},
            {"image": True, "VALUE": "red"}, {"image": 7, "VALUE": "red"}, {"image": 1e300, "VALUE": "red"},
            {"image": "pics/0.png", "VALUE": {}}, {"image": "pics/0.png", "VALUE": []},
            {"image": "pics/0.png", "VALUE": [[]]}, {"image": "pics/0.png", "VALUE": None},
            {"image": "pics/0.png", "VALUE": 1.5}, {"image": "pics/0.png", "VALUE": [None]},
        ),
        "JSONL, NaN and infinity": _jsonl('{"image": NaN, "label": NaN, "caption": NaN}', '{"image": Infinity}'),
        "JSONL, nested 100,000 deep": _jsonl('{"image": ' + "[" * 100_000 + "]" * 100_000 + ', "label": "a"}'),
        "JSONL, a dict of bytes": _jsonl({"image": {"bytes": "x", "path": "/etc/passwd"}, "VALUE": "red"}),
        "JSONL, bytes that are a path": _jsonl({"image": {"path": "../../../etc/passwd"}, "VALUE": "red"}),
        "JSONL, bytes that are numbers": _jsonl({"image": {"bytes": [1, 2, 3]}, "VALUE": "red"}),
        "JSONL, pixels as lists": _jsonl({"image": [[[1, 2, 3]] * 5] * 5, "VALUE": "red"}),
        "JSONL, half a character": _jsonl('{"image": "\\ud800.png", "label": "\\ud800", "caption": "\\ud800"}'),
        "JSONL, a number of 5,000 digits": _jsonl('{"image": ' + "9" * 5000 + ', "label": "a", "caption": "a"}'),
        "JSONL, a key twice": _jsonl('{"image": "pics/0.png", "image": "gone", "label": "a", "caption": "a"}'),
        "JSONL, empty": _jsonl(whole=""),
        "JSONL, only empty lines": _jsonl(whole="\n" * 100_000),
        "folder, whole": _classes(),
        "folder, empty": _lone,
        "folder with links, a pipe and a loop": _classes(_linked),
        "folder with a sparse file of 20 GB": _classes(_sparse),
        "folder with strange names": _classes(_strange_names),
        "folder 60 deep": _classes(_deep),
        "zip, whole": _archive(),
        "zip, truncated": _archive(damage=lambda content: content[: len(content) // 2]),
        "zip, its end alone": _archive(damage=lambda content: content[-22:]),
        "zip, noise in its middle": _archive(
            damage=lambda content: content[:300] + random.Random(7).randbytes(300) + content[600:]
        ),
        "zip, noise in its list": _archive(damage=lambda content: content[:-600] + bytes(300) + content[-300:]),
        "zip, no zip": _archive(damage=lambda content: b"PK\x03\x04" + bytes(5000)),
        "zip, empty": _archive(damage=lambda content: _zip({})),
        "zip with names that lead out": _archive(_many(3, "../../{}.png", b"")),
        "zip with absolute names": _archive(_many(3, "/etc/{}.png", b"")),
        "zip with names of Windows": _archive(_many(3, "c:\\a\\{}.png", b"")),
        "zip with a name twice": _archive(_many(9, "circle/same.png", b"")),
        "zip with a bomb of 300 MB": _archive(_many(1, "circle/bomb{}.png", bytes(300 << 20))),
        "zip with 60 bombs of 60 MB": _archive(_many(60, "circle/bomb{}.png", bytes(60 << 20))),
        "zip with 40 bombs that begin as pictures": _archive(
            _many(40, "circle/bomb{}.png", png(7, 5) + bytes(60 << 20))
        ),
        "zip with pictures of 8,000 × 8,000": _archive(_many(5, "circle/large{}.png", plain_png(8000, 3))),
        "zip with 100,000 empty files": _archive(_many(100_000, "circle/{}.txt", b"x")),
        "zip with a zip in it": _archive(_many(1, "circle/inner{}.zip", _zip({"a.png": b"x"}))),
        "zip with a password": _archive(damage=_locked),
        "zip with an unknown method": _archive(
            damage=lambda content: content.replace(b"\x14\0\0\0\x08\0", b"\x14\0\0\0\x63\0")
        ),
    }  # fmt: skip


def _locked(content: bytes) -> bytes:
    """The archive with every entry marked as encrypted."""
    return content.replace(b"PK\x03\x04\x14\0\0\0", b"PK\x03\x04\x14\0\1\0").replace(
        b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\1\0"
    )


def _of_captions() -> dict[str, Make]:
    def images(*more: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda document: document["images"].extend(more)

    def annotations(*more: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda document: document["annotations"].extend(more)

    def flickr(*more: str) -> Make:
        def make(folder: Path, rows: Rows) -> dict[str, Any]:
            lines = [f"{image}#0\t{text}" for image, text in rows]
            (folder / "list.txt").write_text("\n".join([*lines, *more]))
            return {"train": "list.txt"}

        return make

    def texts(content: bytes) -> Make:
        return _classes(lambda folder: (folder / "0.txt").write_bytes(content) and None)

    def listed(*names: str) -> Make:
        def make(folder: Path, rows: Rows) -> dict[str, Any]:
            flickr()(folder, rows)
            (folder / "train.txt").write_text("\n".join([*(image for image, _ in rows), *names]))
            return {"train": "train.txt", "captions": "list.txt", "format": None}

        return make

    return {
        "COCO, whole": _coco(),
        "COCO, no JSON": _coco(text="{"),
        "COCO, a list": _coco(text="[]"),
        "COCO, nothing in it": _coco(text="{}"),
        "COCO, nested 100,000 deep": _coco(text="[" * 100_000),
        "COCO, NaN": _coco(text='{"images": NaN, "annotations": NaN}'),
        "COCO, images are a mapping": _coco(lambda document: {**document, "images": {}}),
        "COCO, images are numbers": _coco(lambda document: {**document, "images": [1, 2]}),
        "COCO, no annotations": _coco(lambda document: {**document, "annotations": []}),
        "COCO, ids twice": _coco(images({"id": 0, "file_name": "pics/1.png"}, {"id": 0, "file_name": "gone.png"})),
        "COCO, ids of other types": _coco(
            images(
                {"id": None, "file_name": "pics/0.png"},
                {"id": [], "file_name": "pics/0.png"},
                {"id": 1.5, "file_name": "a"},
            )
        ),
        "COCO, names of other types": _coco(
            images({"id": 91}, {"id": 92, "file_name": 7}, {"id": 93, "file_name": ""}, {"id": 94, "file_name": None})
        ),
        "COCO, captions of no image": _coco(
            annotations({"image_id": 999, "caption": "x"}, {"caption": "x"}, {"image_id": []})
        ),
        "COCO, captions of other types": _coco(
            annotations(*({"image_id": 0, "caption": value} for value in (None, 7, [], {}, "", "  ", float("nan"))))
        ),
        "COCO, a caption of 3 MB": _coco(annotations({"image_id": 0, "caption": HUGE})),
        "COCO, a caption of 200,000 words": _coco(annotations({"image_id": 0, "caption": "a " * 200_000})),
        "COCO, 100,000 captions of one image": _coco(annotations(*[{"image_id": 0, "caption": "a thing"}] * 100_000)),
        "COCO, names that lead out": _coco(
            lambda document: document["images"][0].update(file_name="../../../../etc/passwd")
        ),
        "COCO, an image without a caption": _coco(images({"id": 91, "file_name": "pics/0.png"})),
        "lines, whole": flickr(),
        "lines without a tab": flickr("no tab here", "a.png#0 spaces"),
        "lines with two tabs": flickr("pics/0.png#0\ta\tb"),
        "lines with empty captions": flickr("pics/0.png#1\t", "pics/0.png#2\t   ", "\t", "#\ta"),
        "lines with 50,000 captions of one picture": flickr(*[f"pics/0.png#{n}\ta thing" for n in range(50_000)]),
        "a list of names, whole": listed(),
        "a list of names that are not captioned": listed("gone.png", "/etc/passwd"),
        "a list of names, some twice": listed("pics/0.png", "pics/0.png", "0", "pics/0"),
        "texts beside: one is empty": texts(b""),
        "texts beside: one is Latin-1": texts(b"caf\xe9"),
        "texts beside: one has 5 MB": texts(b"a b c d " * (5 << 17)),
        "texts beside: one has 20,000 lines": texts(b"a thing\n" * 20_000),
        "texts beside: one is zeros": texts(bytes(1000)),
    }


def _of_labels() -> dict[str, Make]:
    def idx(pictures: bytes, labels: bytes) -> Make:
        def make(folder: Path, rows: Rows) -> dict[str, Any]:
            (folder / "t-images-idx3-ubyte").write_bytes(pictures)
            (folder / "t-labels-idx1-ubyte").write_bytes(labels)
            return {"train": "t-images-idx3-ubyte"}

        return make

    def sheet(answers: str, width: int = 3 * SIZE * SIZE // 3) -> Make:
        def make(folder: Path, rows: Rows) -> dict[str, Any]:
            Image.fromarray(pixels(20, width)).save(folder / "sheet.png")
            (folder / "answers.json").write_text(answers)
            return {"train": "sheet.png", "answers": "answers.json"}

        return make

    good = struct.pack(">BBBBIII", 0, 0, 8, 3, 20, 5, 5) + random.Random(1).randbytes(500)
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 20) + bytes([0, 1] * 10)
    return {
        "idx, whole": idx(good, labels),
        "idx of 2³² pictures": idx(struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), labels),
        "idx of pictures of no pixels": idx(struct.pack(">BBBBIII", 0, 0, 8, 3, 20, 0, 0), labels),
        "idx, truncated": idx(good[:200], labels),
        "idx of another type": idx(good[:2] + b"\x0d" + good[3:], labels),
        "idx with fewer labels": idx(good, labels[:-5]),
        "idx, empty": idx(b"", b""),
        "sheet, whole": sheet(json.dumps({"train": [0, 1] * 10, "classes": ["a", "b"]})),
        "sheet with rows that are no squares": sheet(json.dumps({"train": [0, 1] * 10}), 50),
        "sheet with too few labels": sheet(json.dumps({"train": [0, 1]})),
        "sheet with labels of other types": sheet(
            json.dumps({"train": [None, [], {}, 1.5, True] * 4, "classes": ["a"]})
        ),
        "sheet with labels beyond the classes": sheet(json.dumps({"train": [-1, 10**30] * 10, "classes": ["a", "b"]})),
        "sheet with two lists that fit": sheet(json.dumps({"a": [0, 1] * 10, "b": [0, 1] * 10})),
        "sheet without JSON": sheet("{"),
        "one label": _table(whole=b"image,label\n" + b"".join(b"pics/%d.png,red\n" % n for n in range(9))),
        "10,000 labels": _table(*[f"pics/0.png,label {n}" for n in range(10_000)]),
        "labels that recipes do not list": _settings(_table("pics/0.png,purple"), labels=["circle", "cross"]),
    }


# How they are used ------------------------------------------------------------------------------------------------------


def make_runs(folder: Path) -> dict[str, Bundle]:
    """A small trained run of each task."""
    runs = {}
    for task in TASKS:
        home = folder / task
        names = good_pictures(home)
        rows = [(name, ("circle", "cross")[number % 2]) for number, name in enumerate(names)]
        recipe = write_recipe(home, task, _table()(home, rows), "error")
        runs[task] = saccade.train(recipe, folder=home / "run")
    return runs


def write_recipe(folder: Path, task: str, data: dict[str, Any], faults: str) -> Path:
    data = {"image": {"size": SIZE}, "hold_out": 0.2, "faults": faults, **data}
    recipe = {"task": task, "data": data, "model": MODELS[task], "train": RUN, "metrics": METRICS[task]}
    (folder / "my.yaml").write_text(dump_yaml(recipe))
    return folder / "my.yaml"


METRICS = {"classify_images": ["accuracy"], "caption": ["bleu_4"]}


def use_training(recipe_file: Path) -> None:
    """Read the records, frame every picture, and make one update of the network."""
    recipe = read_recipe(str(recipe_file))
    prepared = prepare(recipe, read_splits(recipe, None))
    for corpus in prepared.corpora.values():
        for start in range(0, min(len(corpus), 400), BATCH):
            batch = prepared.task.batch(corpus, range(start, min(start + BATCH, len(corpus))))
    loss = prepared.task.loss(prepared.network, batch).total
    assert torch.isfinite(loss)
    loss.backward()


def use_command(*words: object) -> None:
    """Run the command line. An error must be one line."""
    out, err, given = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["saccade", *map(str, words)]
    status: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("default")  # a warning would be printed
            main()
    except SystemExit as end:
        status = end.code or 0
    finally:
        sys.argv = given
    if status:
        lines = [line for line in err.getvalue().splitlines() if not line.startswith("note: ")]
        page = out.getvalue()
        reported = any(told in page for told in ("It would not train", "cannot tell which column"))
        assert status == 1 and len(lines) + reported == 1, f"exit status {status}: {err.getvalue()[:300]}"
        raise SaccadeError(lines[0].removeprefix("error: ") if lines else page[-300:])


def use_server(bundle: Bundle, content: bytes) -> None:
    """Send a picture as base64."""
    from fastapi.testclient import TestClient

    from saccade.server.app import create_app

    with TestClient(create_app({"my": bundle}), base_url="http://localhost") as client:
        body = {"inputs": [{"base64": base64.b64encode(content).decode()}]}
        answer = client.post("/v1/models/my/predict", json=body)
    assert answer.status_code < 500, answer.text[:300]
    if answer.status_code != 200:
        raise SaccadeError(answer.json()["error"]["message"] if "error" in answer.json() else answer.text)


def class_folders(folder: Path, more: dict[str, bytes]) -> dict[str, Any]:
    """Class folders of whole pictures, and ``more`` files."""
    data = written(folder.parent, "classify_images", _classes())[1]
    for name, content in more.items():
        (folder / data["train"] / name).parent.mkdir(exist_ok=True)
        (folder / data["train"] / name).write_bytes(content)
    return data


def written(folder: Path, task: str, make: Make) -> tuple[Path, dict[str, Any]]:
    """A list or a folder of pictures, made in a folder named after the task, and the settings that read it."""
    home = folder / task
    names = good_pictures(home)
    rows = [(name, ("circle", "cross")[number % 2]) for number, name in enumerate(names)]
    return home, make(home, rows)
