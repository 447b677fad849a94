"""One picture: whatever it is given as, it is read as uint8 [H, W, 3], and its frame is found again on the original."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.images.pictures import Framing, ImageConfig, fit_picture, header_of, read_picture
from saccade.errors import InputError

Image: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'saccade[images]'")


def picture(height: int = 5, width: int = 7) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)


def saved(image: Any, format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


@pytest.mark.parametrize(("format", "options"), [("PNG", {}), ("BMP", {}), ("WEBP", {"lossless": True})])
def test_a_lossless_file_gives_its_pixels(format: str, options: dict[str, Any], tmp_path: Path) -> None:
    pixels = picture()
    content = saved(Image.fromarray(pixels), format, **options)
    (tmp_path / "picture").write_bytes(content)
    for given in (content, tmp_path / "picture", str(tmp_path / "picture"), Image.open(io.BytesIO(content))):
        assert (read_picture(given, "here") == pixels).all()
    assert header_of(content, "here").height == 5 and header_of(content, "here").width == 7


def test_a_jpeg_is_close_to_its_pixels() -> None:
    smooth = np.add.outer(np.arange(40), np.arange(56))[..., None] * np.ones(3, int)
    content = saved(Image.fromarray(smooth.astype(np.uint8)), "JPEG", quality=95)
    assert np.abs(read_picture(content, "here").astype(int) - smooth).max() < 8


@pytest.mark.parametrize(("format", "options"), [("GIF", {}), ("WEBP", {"lossless": True})])
def test_of_an_animation_the_first_frame_is_read(format: str, options: dict[str, Any]) -> None:
    frames = [Image.new("RGB", (7, 5), colour) for colour in ("red", "blue")]
    content = saved(frames[0], format, save_all=True, append_images=frames[1:], **options)
    assert (read_picture(content, "here") == [255, 0, 0]).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_its_exif_says(orientation: int) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    content = saved(Image.fromarray(picture()), "PNG", exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))))
    assert (read_picture(content, "here") == upright).all()
    header = header_of(content, "here")
    assert (header.height, header.width) == upright.shape[:2]


@pytest.mark.filterwarnings("error")
def test_a_picture_with_damaged_exif_is_read_as_it_is_stored() -> None:
    content = saved(Image.fromarray(picture()), "PNG", exif=b"Exif\0\0MM\0\x2a\xff\xff\xff\xff")
    assert (read_picture(content, "here") == picture()).all()


def test_transparent_parts_are_white() -> None:
    pixels = np.zeros((3, 2, 4), np.uint8)
    pixels[..., 0], pixels[0, :, 3], pixels[1, :, 3] = 200, 255, 128
    expected = [[200, 0, 0], [227, 127, 127], [255, 255, 255]]
    for given in (saved(Image.fromarray(pixels), "PNG"), pixels, Image.fromarray(pixels)):
        assert read_picture(given, "here")[:, 0].tolist() == expected


def test_a_transparent_palette_colour_is_white() -> None:
    image = Image.new("P", (2, 3), 1)
    image.putpalette([0, 0, 0, 10, 200, 30])
    image.putpixel((0, 0), 0)
    read = read_picture(saved(image, "GIF", transparency=0), "here")
    assert read[0, 0].tolist() == [255, 255, 255] and read[1, 1].tolist() == [10, 200, 30]


def test_16_bits_are_scaled_to_8() -> None:
    deep = np.array([[0, 257 * 9, 65535], [128, 129, 256]], np.uint16)
    expected = [[0, 9, 255], [0, 1, 1]]
    for given in (saved(Image.fromarray(deep), "PNG"), deep, deep.astype(">u2"), torch.from_numpy(deep)):
        assert read_picture(given, "here")[..., 1].tolist() == expected


def test_grey_bilevel_and_cmyk_pictures_are_rgb() -> None:
    grey = np.array([[0, 90, 255]], np.uint8)
    assert read_picture(saved(Image.fromarray(grey), "PNG"), "here")[0].tolist() == [[0] * 3, [90] * 3, [255] * 3]
    assert read_picture(saved(Image.fromarray(grey).convert("1"), "PNG"), "here").max() == 255
    assert read_picture(saved(Image.new("CMYK", (3, 2), (0, 255, 255, 0)), "JPEG"), "here")[0, 0, 0] > 200


def test_arrays_and_tensors_of_several_types_are_the_same_picture() -> None:
    pixels = picture()
    tensor = torch.from_numpy(pixels)
    for given in (
        pixels, pixels.astype(np.int64), pixels / 255, tensor, tensor.permute(2, 0, 1), tensor.permute(2, 0, 1) / 255,
        (tensor.permute(2, 0, 1) / 255).double(), pixels[:, ::-1][:, ::-1],
    ):  # fmt: skip
        assert (read_picture(given, "here") == pixels).all()
    assert (read_picture(pixels[..., 0], "here") == pixels[..., :1]).all()
    assert (read_picture(pixels[..., 0] > 100, "here") == 255 * (pixels[..., :1] > 100)).all()


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        (np.full((3, 4, 3), 1.5), "1.5"),
        (np.full((3, 4, 3), np.nan), "nan"),
        (np.full((3, 4, 3), -1), "-1"),
        (np.zeros((3, 4, 3), complex), "complex"),
        (np.zeros((3, 4, 5), np.uint8), "[3, 4, 5]"),
        (np.zeros((0, 4, 3), np.uint8), "0 × 4"),
        (np.zeros(7, np.uint8), "[7]"),
        (torch.zeros(2, 3, 5, 7), "[2, 3, 5, 7]"),
        ([[1, 2], [3, 4]], "a list"),
        (None, "NoneType"),
        (b"", "an empty file"),
        (b"GIF89a", "something else"),
        (b"hello" * 99, "something else"),
    ],
)
def test_what_is_no_picture_is_refused_in_one_line(given: Any, fact: str) -> None:
    with pytest.raises(InputError) as caught:
        read_picture(given, "input 7")
    message = str(caught.value)
    assert fact in message and message.startswith("input 7: expected") and "\n" not in message


def test_an_image_that_a_program_has_marked_as_turned_is_turned() -> None:
    image = Image.fromarray(picture())
    image.getexif()[0x0112] = 6
    assert (read_picture(image, "here") == np.rot90(picture(), -1)).all()


def test_a_header_is_read_without_decoding_a_pixel() -> None:
    content = saved(Image.fromarray(picture(300, 500)), "PNG")
    assert header_of(content[:200], "cut.png").width == 500


def test_a_truncated_file_is_refused_but_its_header_is_read() -> None:
    content = saved(Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)), "JPEG")
    header_of(content[: len(content) // 2], "here")
    with pytest.raises(InputError, match="damaged"):
        read_picture(content[: len(content) // 2], "half.jpg")


def bomb(height: int, width: int) -> bytes:
    """A PNG of some bytes that states a size."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"\0" * 9)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(9_000, 9_000), (12_000, 12_000), (60_000, 60_000)])
@pytest.mark.filterwarnings("error")
def test_a_picture_of_too_many_pixels_is_refused_by_its_header(size: tuple[int, int]) -> None:
    for read in (read_picture, header_of):
        with pytest.raises(InputError, match="SACCADE_MAX_PIXELS") as caught:
            read(bomb(*size), "bomb.png")
        assert f"{size[0]:,} × {size[1]:,}" in str(caught.value)


def test_the_bound_of_pixels_can_be_raised_and_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACCADE_MAX_PIXELS", "200M")
    assert header_of(bomb(12_000, 12_000), "large.png").height == 12_000
    monkeypatch.setenv("SACCADE_MAX_PIXELS", "34")
    for given in (picture(), Image.fromarray(picture()), saved(Image.fromarray(picture()), "PNG")):
        with pytest.raises(InputError, match="at most 34 pixels"):
            read_picture(given, "here")


def test_a_file_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = saved(Image.fromarray(picture(50, 70)), "BMP")
    (tmp_path / "a.bmp").write_bytes(content)
    monkeypatch.setenv("SACCADE_MAX_RECORD", "1000")
    for given in (content, tmp_path / "a.bmp"):
        with pytest.raises(InputError, match="at most 1,000 bytes"):
            read_picture(given, "here")


# Framing --------------------------------------------------------------------------------------------------------------


def test_the_centre_crop_is_the_square_in_the_middle() -> None:
    pixels = picture(6, 10)
    fitted, framing = fit_picture(pixels, ImageConfig(6))
    assert framing == Framing((2.0, 0.0, 8.0, 6.0), (6, 10), (6, 6)) and (fitted == pixels[:, 2:8]).all()


def test_a_picture_of_the_right_size_is_not_changed() -> None:
    for crop in ("centre", "whole", "stretch"):
        assert (fit_picture(picture(9, 9), ImageConfig(9, crop))[0] == picture(9, 9)).all()


def test_a_whole_picture_has_grey_beside_it() -> None:
    pixels = picture(4, 8)
    fitted, framing = fit_picture(pixels, ImageConfig(8, "whole"))
    assert framing.box == (0.0, -2.0, 8.0, 6.0)
    assert (fitted[2:6] == pixels).all() and (fitted[:2] == 128).all() and (fitted[6:] == 128).all()


def test_a_stretched_picture_shows_all_of_it() -> None:
    fitted, framing = fit_picture(picture(4, 8), ImageConfig(16, "stretch", "nearest"))
    assert framing.box == (0.0, 0.0, 8.0, 4.0)
    assert (fitted == picture(4, 8).repeat(4, 0).repeat(2, 1)).all()


@pytest.mark.parametrize("size", [(1, 3000), (3000, 1), (1, 1), (2, 5)])
@pytest.mark.parametrize("crop", ["centre", "whole", "stretch"])
def test_extreme_shapes_are_framed(size: tuple[int, int], crop: Any) -> None:
    fitted, framing = fit_picture(picture(*size), ImageConfig(13, crop))
    assert fitted.shape == (13, 13, 3) and framing.original == size


@pytest.mark.parametrize("crop", ["centre", "whole", "stretch"])
def test_a_map_over_the_frame_lies_on_the_original_where_the_frame_was(crop: Any) -> None:
    """A white spot on the original is where a map of the frame, drawn on the original, is brightest."""
    original = np.zeros((60, 90, 3), np.uint8)
    original[20:26, 45:51] = 255
    fitted, framing = fit_picture(original, ImageConfig(30, crop))
    drawn = framing.to_original(fitted[..., 0].astype(np.float32))
    rows, columns = np.nonzero(drawn > 128)
    assert drawn.shape == (60, 90) and abs(rows.mean() - 22.5) < 1.5 and abs(columns.mean() - 47.5) < 1.5


def test_where_the_frame_does_not_reach_a_map_has_the_value_given() -> None:
    _, framing = fit_picture(picture(4, 8), ImageConfig(4))
    drawn = framing.to_original(np.ones((2, 2)), outside=-1.0)
    assert drawn.tolist() == [[-1, -1, 1, 1, 1, 1, -1, -1]] * 4


def test_the_cells_of_a_grid_tile_the_frame_on_the_original() -> None:
    _, framing = fit_picture(picture(40, 100), ImageConfig(8, "whole"))
    assert framing.cell(0, 0, 5, 5) == (0.0, 0.0, 20.0, 0.0)  # grey above the picture
    assert framing.cell(2, 4, 5, 5) == (80.0, 10.0, 100.0, 30.0)


def test_a_place_covers_the_cells_that_show_it() -> None:
    _, framing = fit_picture(picture(40, 80), ImageConfig(8))  # its middle 40 × 40
    cover = framing.cover((0.25, 0.0, 0.5, 0.25), 4, 4)
    assert cover.tolist() == [[1, 1, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert framing.cover((0.0, 0.0, 0.25, 1.0), 4, 4).sum() == 0  # cropped off


def test_an_array_is_read_while_another_thread_imports_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", ModuleType("PIL.Image"))  # as it is halfway
    assert (read_picture(picture(), "here") == picture()).all()
