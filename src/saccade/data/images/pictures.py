"""Reads one picture and frames it for a network, remembering where the frame lies on the original.

A picture is a file (JPEG, PNG, WebP, BMP, or the first frame of a GIF), the bytes of one, a PIL image, an array or a tensor.
Read, it is uint8 [H, W, 3]: turned as its EXIF says, transparent parts over white, 16 bits scaled to 8, grey and palette
as RGB.
The size in its header is checked before a pixel is decoded: a file of some kilobytes may unpack to gigabytes.

Legend: H, W rows and columns of the original; S of the network's square input; h, w of a grid over it.
"""

from __future__ import annotations

import io
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from saccade.data.files.limits import MAX_PIXELS, MAX_RECORD, max_pixels, max_record, raised
from saccade.errors import InputError
from saccade.extras import need
from saccade.storage import read_bytes

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")  # of a JPEG with several pictures (MPO) the first
SUFFIXES = ("jpg", "jpeg", "png", "webp", "bmp", "gif")
EXPECTED = "a picture (JPEG, PNG, WebP, BMP or GIF)"
FORMS = "a file, its bytes, a PIL image, an array [H, W, 3] or a tensor [3, H, W]"
PADDING = 128  # the grey beside a whole picture
TURNED = (5, 6, 7, 8)  # EXIF orientations that exchange height and width
ORIENTATION = 0x0112
MOST_SIDE = 1 << 18  # rows or columns: for every row a decoder takes memory beside that of its pixels
BAND = 1 << 20  # pixels that are converted at a time
LARGE = 16 << 20  # pixels: larger pictures are decoded one at a time
SHOWN = 64  # pixels: what is smaller is enlarged in a grid
_ALONE = threading.Lock()  # while a setting of the whole process is changed

Box = tuple[float, float, float, float]  # left, top, right, bottom
Crop = Literal["centre", "whole", "stretch"]


@dataclass(frozen=True)
class ImageConfig:
    """How pictures are framed (``data.image``): a square of ``size`` × ``size`` pixels.

    ``crop`` says what of a picture it shows: the square in its ``centre``; the ``whole`` of it, with grey beside; or all of it,
    ``stretch``ed. ``filter`` resizes (Pillow's filters, which smooth when they make a picture smaller).
    """

    size: int = 224
    crop: Crop = "centre"
    filter: Literal["bicubic", "bilinear", "lanczos", "nearest"] = "bicubic"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 4096:
            raise ValueError(f"size must be from 1 to 4096: got {self.size}")


@dataclass(frozen=True)
class Framing:
    """Which part of the original the network's input shows.

    Attributes:
        box: left, top, right and bottom of the frame in pixels of the original, as it is seen after its EXIF rotation; with
            grey beside a whole picture, the frame reaches beyond it.
        original: its height and width.
        size: height and width of the network's input.
    """

    box: Box
    original: tuple[int, int]
    size: tuple[int, int]

    def cell(self, row: int, column: int, height: int, width: int) -> Box:
        """The box on the original of one cell of a ``height`` × ``width`` grid over the frame; parts beyond it are cut off.

        >>> Framing((100, 0, 300, 200), (200, 400), (224, 224)).cell(1, 0, 2, 2)
        (100.0, 100.0, 200.0, 200.0)
        """
        left, top, right, bottom = self.box
        across, down = (right - left) / width, (bottom - top) / height
        cell = (left + column * across, top + row * down, left + (column + 1) * across, top + (row + 1) * down)
        return _within(cell, self.original)

    def to_original(self, values: Float[ndarray, "h w"], outside: float = 0.0) -> Float[ndarray, "H W"]:
        """A map over the frame, drawn on the pixels of the original; where the frame does not reach, ``outside``."""
        (H, W), (h, w) = self.original, values.shape
        left, top, right, bottom = self.box
        rows = np.floor((np.arange(H) + 0.5 - top) / (bottom - top) * h).astype(int)
        columns = np.floor((np.arange(W) + 0.5 - left) / (right - left) * w).astype(int)
        drawn = values[np.clip(rows, 0, h - 1)[:, None], np.clip(columns, 0, w - 1)]
        inside = ((rows >= 0) & (rows < h))[:, None] & ((columns >= 0) & (columns < w))
        return np.where(inside, drawn, np.asarray(outside, dtype=drawn.dtype))

    def cover(self, place: Box, height: int, width: int) -> Float[ndarray, "h w"]:
        """The share of each cell of a grid over the frame that a place covers, given as fractions of the original.

        >>> Framing((0, 0, 40, 20), (20, 40), (8, 8)).cover((0.0, 0.0, 0.375, 1.0), 1, 4).tolist()
        [[1.0, 0.5, 0.0, 0.0]]
        """
        (H, W), (left, top, right, bottom) = self.original, self.box

        def shares(start: float, end: float, count: int) -> Float[ndarray, " n"]:
            edges = np.arange(count + 1)
            return np.asarray(
                np.clip(np.minimum(edges[1:], end * count) - np.maximum(edges[:-1], start * count), 0.0, 1.0)
            )

        across = shares((place[0] * W - left) / (right - left), (place[2] * W - left) / (right - left), width)
        down = shares((place[1] * H - top) / (bottom - top), (place[3] * H - top) / (bottom - top), height)
        return np.outer(down, across)


def _within(box: Box, size: tuple[int, int]) -> Box:
    height, width = size
    left, top, right, bottom = box
    return (
        min(max(float(left), 0.0), width),
        min(max(float(top), 0.0), height),
        min(max(float(right), 0.0), width),
        min(max(float(bottom), 0.0), height),
    )


class DamagedPicture(InputError):
    """A picture's file whose beginning is right and whose pixels cannot be decoded, such as a truncated one."""


# Reading --------------------------------------------------------------------------------------------------------------


def read_picture(given: Any, where: str | Path) -> UInt8[ndarray, "H W 3"]:
    """The pixels of a picture in whatever form it is ``given``; ``where`` names it in errors, unless it is a file."""
    if isinstance(given, str | Path):
        given, where = read_bytes(given, EXPECTED, most=max_record()), given
    if isinstance(given, bytes | bytearray | memoryview):
        return _decoded(bytes(given), where)
    # Where it has not been imported, or another thread is importing it just now, nothing is of its type.
    kind = getattr(sys.modules.get("PIL.Image"), "Image", None)
    if kind is not None and isinstance(given, kind):
        _check_size(given.height, given.width, where)
        with _decoding(where):
            return _rgb(given, where)
    return _array(given, where)


@dataclass(frozen=True)
class Header:
    """What the first bytes of a picture's file tell: its format, and its size as it is seen after its EXIF rotation."""

    format: str
    height: int
    width: int

    @property
    def is_large(self) -> bool:
        """Whether its pixels take so much memory that it should be decoded alone."""
        return self.height * self.width > LARGE


def header_of(content: bytes | BinaryIO, where: str | Path) -> Header:
    """The header of a picture's file, without decoding a pixel; an InputError where it is no picture or too large a one."""
    with _opened(content, where) as picture:
        height, width = picture.height, picture.width
        if _orientation(picture) in TURNED:
            height, width = width, height
        return Header(str(picture.format), height, width)


def _decoded(content: bytes, where: str | Path) -> UInt8[ndarray, "H W 3"]:
    if len(content) > max_record():
        hint = raised(MAX_RECORD, len(content))
        raise InputError(where, expected=f"at most {max_record():,} bytes", found=f"{len(content):,}", hint=hint)
    with _opened(content, where) as picture:
        return _rgb(picture, where)


def _pillow() -> Any:
    return need("PIL.Image", extra="images", for_="reading pictures")


@contextmanager
def _opened(content: bytes | BinaryIO, where: str | Path) -> Iterator[Any]:
    """A picture whose header was read and whose size is within the bounds."""
    pillow = _pillow()
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    if not stream.read(1):
        raise InputError(where, expected=EXPECTED, found="an empty file")
    stream.seek(0)
    with _decoding(where):
        # Our own bound holds in place of the package's, which warns at half of what it refuses; and of damaged EXIF data.
        with _ALONE, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bound, pillow.MAX_IMAGE_PIXELS = pillow.MAX_IMAGE_PIXELS, None
            try:
                picture = pillow.open(stream, formats=FORMATS)
            finally:
                pillow.MAX_IMAGE_PIXELS = bound
        with picture:
            _check_size(picture.height, picture.width, where)
            yield picture


@contextmanager
def _decoding(where: str | Path) -> Iterator[None]:
    """Turn whatever a decoder raises of a damaged file into one error."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        if type(error).__name__ == "UnidentifiedImageError":
            raise InputError(where, expected=EXPECTED, found="something else") from None
        found = f"a damaged one: {words[:100] or type(error).__name__}"
        raise DamagedPicture(where, expected=EXPECTED, found=found) from None


def _check_size(height: int, width: int, where: str | Path) -> None:
    if height * width > max_pixels():
        expected, found = f"at most {max_pixels():,} pixels", f"{height:,} × {width:,}"
        raise InputError(where, expected=expected, found=found, hint=raised(MAX_PIXELS, height * width))
    if max(height, width) > MOST_SIDE:
        raise InputError(where, expected=f"at most {MOST_SIDE:,} rows and columns", found=f"{height:,} × {width:,}")
    if height < 1 or width < 1:
        raise InputError(where, expected="at least one pixel", found=f"{height} × {width}")


def _orientation(picture: Any) -> int:
    if picture.format is not None and not picture.info.get("exif"):
        return 1  # asking a PNG for data that it lacks would decode it
    try:
        with _ALONE, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a picture may be whole where its EXIF data are not
            return int(picture.getexif().get(ORIENTATION, 1))
    except Exception:
        return 1


def _rgb(picture: Any, where: str | Path) -> UInt8[ndarray, "H W 3"]:
    """The pixels of a PIL image: its first frame, turned, without transparency, 8 bits per channel.

    A large one is converted a band of rows at a time: whole, some modes would take ten times the memory of their pixels.
    """
    picture.load()
    turned, (W, H) = _turns(_orientation(picture)), picture.size
    rows = max(1, BAND // W)
    if rows >= H:
        return np.asarray(turned(_band(picture, where)))
    pixels = np.empty((H, W, 3), np.uint8)
    for top in range(0, H, rows):
        bottom = min(H, top + rows)
        pixels[top:bottom] = _band(picture.crop((0, top, W, bottom)), where)
    return np.asarray(turned(pixels))


def _band(picture: Any, where: str | Path) -> UInt8[ndarray, "H W 3"]:
    """The pixels of rows of a PIL image."""
    if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
        pixels = np.asarray(picture)
        if picture.mode == "I":  # 16 bits in 32: what Pillow makes of deep greyscale
            pixels = np.clip(pixels, 0, 65535).astype(np.uint16)
        return _array(pixels, where)
    if picture.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in picture.info:
        return _over_white(np.asarray(picture.convert("RGBA")))
    return np.asarray(picture if picture.mode == "RGB" else picture.convert("RGB"))


def _turns(orientation: int) -> Any:
    """What brings an array [H, W, …] stored with an EXIF orientation upright."""
    turns: dict[int, Any] = {
        2: lambda pixels: pixels[:, ::-1],
        3: lambda pixels: pixels[::-1, ::-1],
        4: lambda pixels: pixels[::-1],
        5: lambda pixels: pixels.swapaxes(0, 1),
        6: lambda pixels: np.rot90(pixels, -1),
        7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),
        8: lambda pixels: np.rot90(pixels),
    }
    turn = turns.get(orientation, lambda pixels: pixels)
    return lambda pixels: np.ascontiguousarray(turn(pixels))


def _over_white(pixels: UInt8[ndarray, "H W 4"]) -> UInt8[ndarray, "H W 3"]:
    alpha = pixels[..., 3:].astype(np.uint32)
    blended = (pixels[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255
    return blended.astype(np.uint8)


def _array(given: Any, where: str | Path) -> UInt8[ndarray, "H W 3"]:
    """An array or a tensor as pixels."""
    tensor = hasattr(given, "detach") and hasattr(given, "permute")
    if tensor:
        given = given.detach().cpu()
        if given.dim() == 3 and given.shape[0] in (1, 3, 4):
            given = given.permute(1, 2, 0)
        given = (given.float() if given.is_floating_point() else given).numpy()  # bfloat16 has no array
    if not isinstance(given, ndarray):
        raise InputError(where, expected=FORMS, found=f"a {type(given).__name__}")
    if given.ndim == 2:
        given = given[..., None]
    if given.ndim != 3 or given.shape[2] not in (1, 3, 4):
        expected = "a tensor [3, H, W]" if tensor else "an array [H, W] or [H, W, 3]"
        raise InputError(where, expected=expected, found=f"the shape {list(given.shape)}")
    _check_size(given.shape[0], given.shape[1], where)
    pixels = _bytes(given, where)
    if pixels.shape[2] == 4:
        return _over_white(pixels)
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def _bytes(given: ndarray, where: str | Path) -> UInt8[ndarray, "H W C"]:
    """Values as 8 bits: of 16 bits, of numbers from 0 to 1, of whole numbers from 0 to 255."""
    if given.dtype == np.uint8:
        return given
    if given.dtype == np.bool_:
        return given.astype(np.uint8) * 255
    if given.dtype.kind == "u" and given.dtype.itemsize == 2:  # in either order of bytes
        return ((given.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 = 257 · 255
    most = 1 if given.dtype.kind == "f" else 255
    if given.dtype.kind not in "iuf" or not ((given >= 0) & (given <= most)).all():  # NaN is not, either
        kind = "0 to 1 as floats, 0 to 255 as whole numbers or uint16"
        found = f"{given.dtype} from {given.min()} to {given.max()}" if given.dtype.kind in "iuf" else f"{given.dtype}"
        raise InputError(where, expected=f"values from {kind}", found=found)
    return (given * (255 if most == 1 else 1) + (0.5 if most == 1 else 0)).astype(np.uint8)


def png_of(picture: UInt8[ndarray, "H W 3"]) -> bytes:
    """A picture as the content of a PNG file."""
    stream = io.BytesIO()
    _pillow().fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def grid_of(rows: Sequence[Sequence[UInt8[ndarray, "S S 3"]]]) -> UInt8[ndarray, "H W 3"]:
    """Rows of small pictures of one size as one picture, with white lines between; small ones are enlarged."""
    size = rows[0][0].shape[0]
    zoom, line = max(1, SHOWN // size), 2
    step = zoom * size + line
    canvas = np.full((step * len(rows) + line, step * max(map(len, rows)) + line, 3), 255, np.uint8)
    for down, row in enumerate(rows):
        for across, picture in enumerate(row):
            large = picture.repeat(zoom, 0).repeat(zoom, 1)
            top, left = line + down * step, line + across * step
            canvas[top : top + zoom * size, left : left + zoom * size] = large
    return canvas


# Framing --------------------------------------------------------------------------------------------------------------


def framing_of(height: int, width: int, config: ImageConfig) -> Framing:
    """How a picture of this size is framed."""
    size = (config.size, config.size)
    if config.crop == "stretch":
        return Framing((0.0, 0.0, float(width), float(height)), (height, width), size)
    side = min(height, width) if config.crop == "centre" else max(height, width)
    left, top = (width - side) / 2, (height - side) / 2
    return Framing((left, top, left + side, top + side), (height, width), size)


def fit_picture(picture: UInt8[ndarray, "H W 3"], config: ImageConfig) -> tuple[UInt8[ndarray, "size size 3"], Framing]:
    """The frame of a picture, resized to the network's input, and where it lies on the original."""
    (H, W, _), S = picture.shape, config.size
    framing = framing_of(H, W, config)
    left, top, right, bottom = framing.box
    if (H, W) == (S, S):
        return picture, framing
    inside = _within(framing.box, (H, W))
    # The part of the square that the picture fills: all of it, unless there is grey beside.
    across, down = S * (inside[2] - inside[0]) / (right - left), S * (inside[3] - inside[1]) / (bottom - top)
    width, height = max(1, round(across)), max(1, round(down))
    pillow = _pillow()
    resized = pillow.fromarray(picture).resize((width, height), pillow.Resampling[config.filter.upper()], box=inside)
    if (height, width) == (S, S):
        return np.asarray(resized), framing
    framed = np.full((S, S, 3), PADDING, dtype=np.uint8)
    y, x = (S - height) // 2, (S - width) // 2
    framed[y : y + height, x : x + width] = np.asarray(resized)
    return framed, framing
