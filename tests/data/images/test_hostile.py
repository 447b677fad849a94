"""Damaged and malicious pictures, and lists of them: each is used, refused with one error, or dropped and counted.

``scripts/mutate_pictures.py`` tries a thousand, with their time and memory.
"""

from __future__ import annotations

import threading
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.api.bundle import Bundle
from saccade.data.files.records import Fault
from saccade.data.images import pictures as reading
from saccade.data.images import places
from saccade.data.images.batch import ImageStore
from saccade.data.images.pictures import DamagedPicture, ImageConfig, read_picture
from saccade.data.images.places import Picture
from saccade.data.images.records import (
    CaptionData,
    LabelledImageData,
    read_captions,
    read_labelled_pictures,
    scan_labelled,
)
from saccade.data.reading import FaultCounts
from saccade.errors import InputError, SaccadeError
from tests import hostile_pictures as hostile

HEAVY = ("8,000", "bomb", "100 MB", "500,000", "100,000", "60 deep", "20 GB", "10,000")  # left to the script
PICTURES = [case for case in hostile.picture_cases(1) if not any(word in case[0] for word in HEAVY)]
LISTS = [case for case in hostile.list_cases() if not any(word in case[0] for word in HEAVY)]
PARTS = 6


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    return hostile.make_runs(tmp_path_factory.mktemp("runs"))


def tried(name: str, use: Any, *words: object) -> str:
    """How something that is used ended, in words."""
    try:
        use(*words)
    except SaccadeError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(name) from error
    return "used"


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_picture_is_predicted_or_refused_with_one_line(runs, tmp_path, part):
    for number, (name, file, make) in enumerate(PICTURES[part::PARTS]):
        task, path = hostile.TASKS[number % 2], tmp_path / f"{number}-{file}"
        path.write_bytes(make())
        told = tried(name, hostile.use_command, "predict", runs[task].folder, path)
        assert told == "used" or (path.name in told and "\n" not in told), name
        assert told == "used" or not name.startswith("whole"), name


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_picture_is_served_or_refused_by_the_server(runs):
    pytest.importorskip("fastapi", reason="FastAPI is not installed")
    pytest.importorskip("httpx2", reason="httpx2, of the test client, is not installed")
    for name, _, make in PICTURES[::5]:
        told = tried(name, hostile.use_server, runs["classify_images"], make())
        assert told == "used" or not name.startswith("whole"), name


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_pictures_are_dropped_and_counted(tmp_path, part):
    more = {f"circle/{number}-{file}": make() for number, (_, file, make) in enumerate(PICTURES[part::PARTS])}
    data = hostile.class_folders(tmp_path / "classify_images", more)
    settings = LabelledImageData(train="all", faults="drop")
    dropped = FaultCounts()
    records = read_labelled_pictures(tmp_path / "classify_images" / data["train"], settings, dropped)
    assert len(records) + len(dropped) == 14 + len(more) and len(dropped) > 2
    for record in records:
        assert record.source.read().shape[2] == 3


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_list_is_trained_on_or_refused(tmp_path, part):
    for number, (name, task, make) in enumerate(LISTS[part::PARTS]):
        folder, data = hostile.written(tmp_path / str(number), task, make)
        told = [
            tried(name, hostile.use_training, hostile.write_recipe(folder, task, data, faults))
            for faults in ("error", "drop")
        ]
        assert told == ["used", "used"] or not name.endswith("whole"), (name, told)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_list_is_surveyed_or_refused(tmp_path, part):
    for number, (name, task, make) in enumerate(LISTS[part::PARTS]):
        folder, data = hostile.written(tmp_path / str(number), task, make)
        tried(name, partial(hostile.use_command, "data", folder / data["train"]))


# Memory -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hostile.whole_pictures())
def test_a_picture_that_is_converted_by_bands_has_the_same_pixels(name, monkeypatch):
    _, content = hostile.whole_pictures()[name]
    whole = read_picture(content, "here")
    monkeypatch.setattr(
        reading, "BAND", 3 * 17
    )  # of 11 rows: three bands of 3 and one of 2; or of one, of another width
    assert np.array_equal(read_picture(content, "here"), whole)


def test_large_pictures_are_decoded_by_the_caller_and_small_ones_by_the_readers(tmp_path, monkeypatch):
    names = hostile.good_pictures(tmp_path, 5)
    Image.fromarray(hostile.pixels(40, 50)).save(tmp_path / "large.png")
    pictures = [Picture.of_file(tmp_path / name) for name in (*names, "large.png")]
    monkeypatch.setattr(reading, "LARGE", 40 * 50 - 1)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    read, threads = places.read_picture, dict[str, str]()

    def noted(given: Any, where: str) -> Any:
        threads[Path(where).name] = threading.current_thread().name
        return read(given, where)

    monkeypatch.setattr(places, "read_picture", noted)
    pixels = ImageStore(pictures, ImageConfig(size=12)).pixels(range(6))
    assert threads.pop("large.png") == threading.current_thread().name
    assert len(threads) == 5 and all(name.startswith("saccade-pictures") for name in threads.values())
    alone = [ImageStore(pictures, ImageConfig(size=12)).pixels([number])[0] for number in range(6)]
    assert all((one == other).all() for one, other in zip(pixels, alone, strict=True))


def test_a_member_of_a_zip_that_does_not_begin_as_a_picture_is_not_unpacked(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/zeros.png", bytes(5 << 20))
        archive.writestr("a/whole.png", hostile.saved(Image.fromarray(hostile.pixels()), "PNG"))
    unpacked = []
    read = places._read_member
    monkeypatch.setattr(places, "_read_member", lambda *given: unpacked.append(given[1]) or read(*given))
    found = list(scan_labelled(tmp_path / "all.zip", LabelledImageData(train="all.zip", faults="drop")))
    assert [isinstance(item, Fault) for item in found] == [False, True]
    assert set(unpacked) == {"a/whole.png"}


def test_the_fault_of_a_damaged_picture_does_not_keep_its_content(tmp_path):
    folder = tmp_path / "classify_images"
    hostile.class_folders(folder, {"circle/short.png": hostile.whole_pictures()["PNG"][1][:300]})
    found = scan_labelled(folder / "all", LabelledImageData(train="all", faults="drop"))
    [fault] = [item for item in found if isinstance(item, Fault)]
    assert fault.error.__traceback__ is None and fault.error.__context__ is None


@pytest.mark.parametrize(("width", "height"), [(1, 300_000), (300_000, 2)])
def test_a_picture_of_more_rows_than_any_picture_has_is_refused_by_its_header(width, height):
    with pytest.raises(InputError, match=rf"262,144 rows and columns, found {height:,} × {width:,}"):
        read_picture(hostile.png(width, height), "here")


def test_a_truncated_picture_is_told_from_what_is_none():
    _, content = hostile.whole_pictures()["PNG"]
    with pytest.raises(DamagedPicture, match=r"here: .*truncated"):
        read_picture(content[:-40], "here")
    with pytest.raises(InputError, match=r"here: .*something else") as none:
        read_picture(b"no picture", "here")
    assert not isinstance(none.value, DamagedPicture)


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("content", [b"caf\xe9", b"a b " * (1 << 18) + b"c"])
def test_a_text_that_cannot_be_read_costs_one_picture_its_place(tmp_path, archived, content):
    folder, _ = hostile.written(tmp_path, "caption", hostile._classes())
    (folder / "all" / "0.txt").write_bytes(content)
    place = folder / "all"
    if archived:
        with zipfile.ZipFile(folder / "all.zip", "w") as archive:
            for file in place.iterdir():
                archive.write(file, file.name)
        place = folder / "all.zip"
    dropped = FaultCounts()
    records = read_captions(place, CaptionData(train="all", faults="drop"), dropped)
    assert (len(records), dict(dropped.counts), dropped.first) == (
        13,
        {"without a caption": 1},
        {"without a caption": "0.png"},
    )
    with pytest.raises(InputError, match=r"0\.txt: expected "):
        read_captions(place, CaptionData(train="all"))
