"""MNIST's files: what they say is read, gzipped or not; what they promise and do not hold is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from saccade.data.files.idx import read_idx
from saccade.data.images.records import LabelledImageData, load_labelled_pictures
from saccade.errors import InputError

PIXELS = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)  # 7 pictures of 5 rows and 3 columns
LABELS = np.array([2, 0, 1, 1, 0, 2, 1], dtype=np.uint8)


def written(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("labels", [None, ("coat", "bag", "shirt")])
def test_pictures_and_labels_are_those_of_the_files(tmp_path, ending, labels) -> None:
    train = write(tmp_path, f"train-images-idx3-ubyte{ending}", written(PIXELS))
    write(tmp_path, f"train-labels-idx1-ubyte{ending}", written(LABELS))
    data = LabelledImageData(train=str(train), valid=str(train), test=str(train), labels=labels)
    records = load_labelled_pictures(data, tmp_path, 1).train
    names = [record.target for record in records]
    assert names == [labels[number] if labels else str(number) for number in LABELS]
    for record, pixels in zip(records, PIXELS, strict=True):
        assert np.array_equal(record.source.read(), np.repeat(pixels[..., None], 3, axis=2))
    assert len({record.source for record in records}) == 7


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "nothing"),
        (b"\0\0\x0d\3" + bytes(12), "00 00 0d 03"),
        (written(LABELS), "expected 3 axes, found 1"),
        (written(PIXELS)[:-1], "expected 105 values, as its header says, found 104"),
        (written(PIXELS) + b"\0", "found more"),
        (bytes([0, 0, 8, 3]) + bytes(5), "none"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "at most"),
    ],
)
def test_a_file_that_does_not_hold_what_it_says_is_refused(tmp_path, content, fact) -> None:
    for ending in ("", ".gz"):
        path = write(tmp_path, f"x-images-idx3-ubyte{ending}", content)
        with pytest.raises(InputError, match=fact) as error:
            read_idx(path, 3)
        assert str(path) in str(error.value)


def test_a_damaged_archive_and_other_labels_are_refused(tmp_path) -> None:
    path = tmp_path / "x-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(written(PIXELS))[:-9])
    with pytest.raises(InputError, match="damaged"):
        read_idx(path, 3)
    train = write(tmp_path, "y-images-idx3-ubyte", written(PIXELS))
    write(tmp_path, "y-labels-idx1-ubyte", written(LABELS[:6]))
    data = LabelledImageData(train=str(train))
    with pytest.raises(InputError, match="expected 7 labels, for y-images-idx3-ubyte, found 6"):
        load_labelled_pictures(data, tmp_path, 1)
    other = write(tmp_path, "z.bin", written(PIXELS))
    with pytest.raises(InputError, match="named as MNIST's"):
        load_labelled_pictures(LabelledImageData(train=str(other), format="idx"), tmp_path, 1)
