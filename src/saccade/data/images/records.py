"""Pictures with captions or labels: the records of the kind ``images``, drawn, from files, or from memory. No torch.

    tables, JSONL, Parquet, the hub     a column of paths and one of captions or labels; rows of one picture are one record
    coco                                {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}
    flickr                              lines "1000.jpg#0 TAB caption"; with ``captions``, train, valid and test list names
    folder                              a folder or zip: captions in 1000.txt beside 1000.jpg; labels are the folders' names
    sheet                               a PNG with a picture per row, and their labels in a JSON file (``answers``)
    idx                                 MNIST's files, …-images-idx3-ubyte with …-labels-idx1-ubyte beside, .gz or not

Paths in a file start at ``images`` (folders or zip archives), or at the file's own folder. The header of every picture is read
with its record, so that what is missing, too large or no picture is known before training; with ``faults: drop`` all of it is
read once, and truncated pictures are dropped too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, TypeVar

from saccade.data.columns import ColumnNames
from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files.fields import COLUMNAR, scan_fields
from saccade.data.files.fields import format_of as columnar_format
from saccade.data.files.hub import on_hub
from saccade.data.files.idx import is_idx, labels_beside, read_idx
from saccade.data.files.limits import max_record
from saccade.data.files.lines import LINE_LIMIT, lines_of, without_end
from saccade.data.files.records import NOT_TEXT, Fault, Fields, fault, kind_of, label_of
from saccade.data.images.config import Augment, FeatureConfig
from saccade.data.images.pictures import DamagedPicture, ImageConfig, read_picture
from saccade.data.images.places import (
    InFile,
    InMemory,
    Picture,
    Places,
    check_picture,
    files_in,
    is_picture,
    is_zip,
    pixel_digest,
)
from saccade.data.memory import WHERE, fields_in, records_in, short
from saccade.data.paths import locate
from saccade.data.reading import FaultCounts, load_splits, own_format, read_records
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import WordTokens
from saccade.data.toy.dots import DotPair, Dots
from saccade.data.toy.shapes import Scene, Shapes
from saccade.data.toy.twins import TwinPair, Twins
from saccade.errors import InputError
from saccade.storage import decoded, read_bytes

MISSING = "without its picture"
NO_PICTURE = "no picture, or too large a one"
DAMAGED = "a damaged picture"
NO_CAPTION = "without a caption"
NO_LABEL = "without a label"
UNLISTED = "a label that data.labels does not list"
MOST_JSON = 512 << 20  # bytes of a file in COCO's format
CAPTIONS = "captions"
Box = tuple[float, float, float, float]  # left, top, right, bottom as fractions of the picture
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Captioned:
    """A picture, its captions, and where things that they name are: a word and a box as fractions of the picture."""

    source: Picture
    target: tuple[str, ...]
    places: tuple[tuple[str, Box], ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledPicture:
    """A picture and its label."""

    source: Picture
    target: str


@dataclass(frozen=True)
class CaptionColumns(ColumnNames):
    """Which columns (tables) or keys (JSONL) hold the path of a picture and its caption, or a list of captions."""

    image: str | int = "image"
    caption: str | int = "caption"


@dataclass(frozen=True)
class PictureColumns(ColumnNames):
    """Which columns (tables) or keys (JSONL) hold the path of a picture and its label."""

    image: str | int = "image"
    label: str | int = "label"


@dataclass(frozen=True)
class PictureData(DataConfig):
    """What data of pictures have in common."""

    paths: ClassVar[tuple[str, ...]] = (
        *DataConfig.paths, "images", "features.backbone", "features.weights", "features.cache",
    )  # fmt: skip
    rereads: ClassVar[tuple[str, ...]] = (*DataConfig.rereads, "images", "columns")

    images: str | tuple[str, ...] | None = (
        None  # folders or zip archives in which paths start; beside the file unless given
    )
    image: ImageConfig = field(default_factory=ImageConfig)
    augment: Augment = field(default_factory=Augment)
    features: FeatureConfig | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features is not None and self.features.tune is None and self.augment.varies:
            given = ", ".join(name for name, value in vars(self.augment).items() if value)
            raise ValueError(
                "augment must be left out without features.tune, since features of unchanged pictures are kept: got "
                f"{given}"
            )


@dataclass(frozen=True)
class CaptionData(PictureData):
    """The ``data`` part of a recipe for pictures with captions."""

    paths: ClassVar[tuple[str, ...]] = (*PictureData.paths, "captions")
    rereads: ClassVar[tuple[str, ...]] = (*PictureData.rereads, "captions", "max_length", "too_long")

    source: Literal["shapes"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "coco", "flickr", "folder"] | None = None
    columns: CaptionColumns = field(default_factory=CaptionColumns)
    captions: str | None = (
        None  # a file with the captions of all splits; train, valid and test then list pictures' names
    )
    shapes: Shapes = field(default_factory=Shapes)
    tokens: WordTokens = field(default_factory=WordTokens)
    max_length: int = 40  # tokens of a caption
    too_long: TooLong = "truncate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=1)
        if self.captions is not None and self.format == "folder":
            raise ValueError("captions must be left out with format folder: they stand beside the pictures")


@dataclass(frozen=True)
class LabelledImageData(PictureData):
    """The ``data`` part of a recipe for pictures with a label each."""

    paths: ClassVar[tuple[str, ...]] = (*PictureData.paths, "answers")
    rereads: ClassVar[tuple[str, ...]] = (*PictureData.rereads, "answers")

    source: Literal["dots", "twins"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "folder", "sheet", "idx"] | None = None
    columns: PictureColumns = field(default_factory=PictureColumns)
    dots: Dots = field(default_factory=Dots)
    twins: Twins = field(default_factory=Twins)
    answers: str | None = None  # the labels of a sheet: {"train": [3, …], "test": […], "classes": ["cat", …]}
    labels: tuple[str, ...] | None = None  # all there are, in this order; as train has them, sorted, unless given
    balance: Literal["none", "weights"] = "none"  # weights: every label counts as much in the loss, however rare

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels is not None and (len(self.labels) < 2 or len(set(self.labels)) < len(self.labels)):
            raise ValueError(f"labels must be two or more different names: got {list(self.labels)}")
        if self.answers is not None and self.format not in (None, "sheet"):
            raise ValueError(f"answers must be left out unless format is sheet: got {self.answers!r}")


@dataclass(frozen=True)
class GenerateData(LabelledImageData):
    """The ``data`` part of a recipe that learns to draw pictures of each label."""

    paths: ClassVar[tuple[str, ...]] = (*LabelledImageData.paths, "judge")
    rereads: ClassVar[tuple[str, ...]] = (*LabelledImageData.rereads, "judge")

    judge: str | None = (
        None  # a run of the task classify_images: its features measure how far pictures are from real ones
    )


# What a record is made of ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """What a file says of one picture at one place: how it names it, or its bytes; a caption, captions or a label."""

    image: Any
    value: Any
    fields: Fields


def captions_in(entry: Entry, column: str | int, where: str | Path) -> tuple[str, ...] | Fault:
    """The captions of an entry, a text or a list of texts, or what is wrong with them."""
    listed = entry.value if isinstance(entry.value, list | tuple) else [entry.value]
    for value in listed:
        broken = entry.fields.text_fault(value, column, where, NO_CAPTION)
        if broken is not None:
            return broken
    if not listed:
        return entry.fields.fault(NO_CAPTION, where, column, "a caption", "an empty list")
    return tuple(" ".join(value.split()) for value in listed)


def label_in(entry: Entry, labels: tuple[str, ...] | None, column: str | int, where: str | Path) -> str | Fault:
    """The label of an entry, or what is wrong with it."""
    label = label_of(entry.value)
    if not label:
        reason, found = (NOT_TEXT, kind_of(entry.value)) if label is None else (NO_LABEL, "nothing")
        return entry.fields.fault(reason, where, column, "a label", found)
    if labels is not None and label not in labels:
        return entry.fields.fault(UNLISTED, where, column, f"one of {', '.join(labels)}", repr(label))
    return label


class Finder:
    """The pictures that entries of one file mean, each looked up and read once."""

    def __init__(self, places: Places | None, where: str | Path, column: str | int, *, whole: bool) -> None:
        self.places, self.where, self.column, self.whole = places, where, column, whole
        self.found: dict[str, Picture | Fault] = {}

    def picture(self, entry: Entry) -> Picture | Fault:
        """The picture of an entry, or why there is none."""
        image = entry.image
        if isinstance(image, Mapping):  # how datasets of the hub hold pictures: {"bytes", "path"}
            image = image.get("bytes") or image.get("path")
        if isinstance(image, int) and not isinstance(image, bool):
            image = str(image)
        if not isinstance(image, str):
            return self._held(image, entry)
        known = self.found.get(image)
        if known is None:
            known = self.found[image] = self._named(image.strip(), entry)
        return known

    def _named(self, name: str, entry: Entry) -> Picture | Fault:
        broken = entry.fields.text_fault(name, self.column, self.where, MISSING)
        if broken is not None:
            return broken
        origin = None if self.places is None else self.places.find(name)
        if origin is None:
            looked = "no folder" if self.places is None else " and ".join(map(str, self.places.places))
            hint = "data.images names the folders or zip archives"
            expected = f"a picture in {looked}"
            return entry.fields.fault(MISSING, self.where, self.column, expected, f"no {short(name)}", hint=hint)
        return self.checked(origin, name, entry)

    def checked(self, origin: InFile, name: str, entry: Entry) -> Picture | Fault:
        """The picture in a file, once its header has been read."""
        try:
            return check_picture(origin, name, whole=self.whole)
        except InputError as error:
            error.__traceback__ = error.__context__ = None  # their frames hold the file's content
            return Fault(entry.fields.line, reason_of(error), error, name=name)

    def _held(self, image: Any, entry: Entry) -> Picture | Fault:
        where = entry.fields.place or f"record {entry.fields.line}"
        if image is None:
            return entry.fields.fault(MISSING, self.where, self.column, "a picture", "nothing")
        try:
            return Picture.in_memory(image, where)
        except InputError as error:
            return entry.fields.fault(reason_of(error), self.where, self.column, error.expected, error.found)


def reason_of(error: InputError) -> str:
    """The reason of a fault, from the error of its picture."""
    return DAMAGED if isinstance(error, DamagedPicture) else NO_PICTURE


def captioned(
    entries: Iterable[Entry | Fault], finder: Finder, data: CaptionData, listed: Sequence[str] | None = None
) -> Iterator[Captioned | Fault]:
    """A record per picture, with all its captions, in the order in which pictures first occur, or as they are ``listed``."""
    captions: dict[Any, list[str]] = {}
    first: dict[Any, Entry] = {}
    wanted = None if listed is None else {key: name for name in listed for key in _keys(name)}
    for entry in entries:
        if isinstance(entry, Fault):
            yield entry
            continue
        name: str | int | None = entry.image if isinstance(entry.image, str) else id(entry)
        if wanted is not None:
            name = next((wanted[key] for key in _keys(str(entry.image)) if key in wanted), None)
            if name is None:
                continue
        found = captions_in(entry, data.columns.caption, finder.where)
        if isinstance(found, Fault):
            yield found
        else:
            captions.setdefault(name, []).extend(found)
            first.setdefault(name, entry)
    for number, name in enumerate(captions if listed is None else listed, start=1):
        if name not in captions:
            expected, found_ = "captions of each listed picture", f"none of {name!r}"
            yield fault(number, NO_CAPTION, finder.where, expected=expected, found=found_)
            continue
        picture = finder.picture(first[name])
        yield picture if isinstance(picture, Fault) else Captioned(picture, tuple(captions[name]))


def _keys(name: str) -> tuple[str, str]:
    """What lists call a picture: its name, or its name without folders and suffix."""
    return name, PurePosixPath(name).stem


def labelled(
    entries: Iterable[Entry | Fault], finder: Finder, data: LabelledImageData
) -> Iterator[LabelledPicture | Fault]:
    """A record per entry."""
    for entry in entries:
        if isinstance(entry, Fault):
            yield entry
            continue
        label = label_in(entry, data.labels, data.columns.label, finder.where)
        if isinstance(label, Fault):
            yield label
            continue
        picture = finder.picture(entry)
        yield picture if isinstance(picture, Fault) else LabelledPicture(picture, label)


# Files ----------------------------------------------------------------------------------------------------------------


def load_captions(data: CaptionData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    return load_splits(data, folder, seed, of_scene, lambda path, split: gather_captions(path, data, split))


def of_scene(scene: Scene) -> Captioned:
    """The record of a drawn scene."""
    return Captioned(Picture.of_scene(scene), scene.captions, scene.places)


def read_captions(path: Path, data: CaptionData, dropped: FaultCounts | None = None) -> list[Captioned]:
    """The records of one more file, read strictly unless ``dropped`` counts malformed ones."""
    return gather_captions(path, data, None, dropped, strict=dropped is None)[0]


def gather_captions(
    path: Any,
    data: CaptionData,
    split: str | None = None,
    dropped: FaultCounts | None = None,
    *,
    strict: bool = False,
) -> tuple[list[Captioned], list[str]]:
    """The records of a file or folder, and warnings about them."""
    found = scan_captions(path, data)
    expected = "pictures with captions"
    return read_records(path, found, data, dropped, strict=strict, expected=expected, called="rows and pictures")


def scan_captions(path: str | Path, data: CaptionData) -> Iterator[Captioned | Fault]:
    """Every record and every fault of a file, a folder, a zip archive or a dataset of the hub."""
    kind = caption_format(path, data) if data.captions is None else "flickr"
    places = None if on_hub(path) else places_of(Path(path), data, kind)
    finder = Finder(places, path, data.columns.image, whole=data.faults == "drop")
    if kind == "folder":
        return _folder_captions(Path(path), finder)
    if data.captions is None:
        return captioned(caption_entries(path, kind, data), finder, data)
    file = locate(data.captions, Path(path).parent)
    finder.where = file
    return captioned(caption_entries(file, caption_format(file, data), data), finder, data, names_in(Path(path)))


def caption_entries(path: str | Path, kind: str, data: CaptionData) -> Iterator[Entry | Fault]:
    """What a file says of pictures and captions."""
    if kind == "coco":
        return coco_entries(Path(path))
    if kind == "flickr":
        return flickr_entries(Path(path), data)
    return _table_entries(path, data.columns, data, headless=True)


def caption_format(path: str | Path, data: CaptionData) -> str:
    """The format of a file of captions."""
    if on_hub(path):
        return "hub"
    if Path(path).is_dir() or is_zip(path):
        return "folder"
    suffixes = {name: name for name in COLUMNAR} | {"json": "coco", "token": "flickr", "txt": "flickr"}
    expected = "a file of captions (csv, tsv, jsonl, parquet, json as COCO's, txt as Flickr8k's), a folder or a zip"
    hint = "set data.format"
    return columnar_format(path, data.format, suffixes=suffixes, expected=expected, hint=hint)


def places_of(path: Path, data: PictureData, kind: str) -> Places:
    """Where the pictures are that a file names."""
    beside = path if kind == "folder" else path.parent
    if data.images is None:
        return Places([beside])
    given = (data.images,) if isinstance(data.images, str) else data.images
    return Places([locate(place, beside) for place in given])


def names_in(path: Path) -> list[str]:
    """The names that a list of pictures holds, one per line, each once."""
    names: dict[str, None] = {}
    for line in lines_of(path):
        if line.fault is not None:
            raise line.fault.error
        if line.text.strip():
            names[line.text.strip()] = None
    if not names:
        raise InputError(path, expected="names of pictures, one per line", found="none")
    return list(names)


def _table_entries(
    path: str | Path, columns: ColumnNames, data: DataConfig, *, headless: bool = False
) -> Iterator[Entry | Fault]:
    for found in scan_fields(path, columns.wanted, format=data.format, encoding=data.encoding, headless=headless):
        yield found if isinstance(found, Fault) else Entry(found.values[0], found.values[1], found)


def flickr_entries(path: Path, data: DataConfig) -> Iterator[Entry | Fault]:
    """The lines ``1000.jpg#0 TAB caption``, whose number behind # may be missing."""
    for line in lines_of(path, data.encoding):
        if line.fault is not None:
            yield line.fault
            continue
        text = without_end(line.text)
        if not text.strip():
            continue
        name, tab, caption = text.partition("\t")
        if not tab:
            expected, found = "a picture's name, a tab and a caption", f"no tab in {short(text)}"
            yield fault(line.number, NO_CAPTION, path, expected=expected, found=found)
        else:
            yield Entry(name.rpartition("#")[0] or name, caption, Fields(line.number, (name, caption)))


def coco_entries(path: Path) -> Iterator[Entry | Fault]:
    """The captions of a file in COCO's format, in the order of its pictures; pictures without one are skipped, and counted."""
    document = _json(path, "COCO's captions, an object with images and annotations")
    images, annotations = (_objects(document, name, path) for name in ("images", "annotations"))
    names: dict[Any, tuple[int, str]] = {}
    for number, image in enumerate(images, start=1):
        place = f"images[{number - 1}]"
        name, key = image.get("file_name"), image.get("id")
        if not isinstance(name, str) or not name.strip() or isinstance(key, dict | list) or key is None:
            expected = "an image with its id and file_name"
            yield fault(number, MISSING, path, expected=expected, found=short(image), place=place)
        else:
            names.setdefault(key, (number, name))
    captions: dict[Any, list[str]] = {}
    for number, annotation in enumerate(annotations, start=1):
        place = f"annotations[{number - 1}]"
        key, caption = annotation.get("image_id"), annotation.get("caption")
        if isinstance(key, dict | list) or key not in names:
            expected, found = "the id of an image", short(key)
            yield fault(number, MISSING, path, field="image_id", expected=expected, found=found, place=place)
            continue
        broken = Fields(number, (), place).text_fault(caption, "caption", path, NO_CAPTION)
        if broken is not None:
            yield broken
        else:
            captions.setdefault(key, []).append(str(caption))
    for key, (number, name) in names.items():
        place = f"images[{number - 1}]"
        if key in captions:
            yield Entry(name, captions[key], Fields(number, (), place))
        else:
            yield fault(number, NO_CAPTION, path, expected="a caption", found="none", place=place, skipped=True)


def _json(path: Path, expected: str) -> Mapping[str, Any]:
    text = decoded(read_bytes(path, expected, most=max_record(MOST_JSON)), path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(path, expected=expected, found=f"no JSON: {' '.join(str(error).split())[:100]}") from None
    if not isinstance(document, dict):
        raise InputError(path, expected=expected, found=kind_of(document))
    return document


def _objects(document: Mapping[str, Any], name: str, path: Path) -> list[Mapping[str, Any]]:
    listed = document.get(name)
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise InputError(path, field=name, expected="a list of objects", found=kind_of(listed))
    return listed


def _folder_captions(path: Path, finder: Finder) -> Iterator[Captioned | Fault]:
    """The pictures of a folder or zip, each with the captions in the text file of the same name beside it."""
    files = files_in(path)
    pictures = [name for name in files if is_picture(name)]
    if not pictures:
        raise InputError(path, expected="pictures", found=f"none among {len(files):,} files")
    for number, name in enumerate(pictures, start=1):
        beside = str(PurePosixPath(name).with_suffix(".txt"))
        if beside not in files:
            found = f"no {PurePosixPath(beside).name}"
            yield fault(number, NO_CAPTION, path, expected=f"captions of {name}", found=found, name=name)
            continue
        try:
            text = decoded(files[beside].content(max_record(LINE_LIMIT)), str(files[beside]))
        except InputError as error:
            yield Fault(number, NO_CAPTION, error, name=name)
            continue
        captions = tuple(" ".join(line.split()) for line in text.splitlines() if line.strip())
        if not captions:
            yield fault(number, NO_CAPTION, str(files[beside]), expected="captions", found="nothing", name=name)
            continue
        picture = finder.checked(files[name], name, Entry(name, captions, Fields(number, ())))
        yield picture if isinstance(picture, Fault) else Captioned(picture, captions)


def load_labelled_pictures(data: LabelledImageData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    return load_splits(
        data, folder, seed, of_drawing,
        lambda path, split: gather_labelled(path, data, split),
    )  # fmt: skip


def of_drawing(drawing: DotPair | TwinPair) -> LabelledPicture:
    """The record of a drawn picture."""
    return LabelledPicture(Picture.of_scene(drawing, drawing.label), drawing.label)


def read_labelled_pictures(
    path: Path, data: LabelledImageData, dropped: FaultCounts | None = None
) -> list[LabelledPicture]:
    """The records of one more file or folder, read strictly unless ``dropped`` counts malformed ones."""
    return gather_labelled(path, data, None, dropped, strict=dropped is None)[0]


def gather_labelled(
    path: Any,
    data: LabelledImageData,
    split: str | None = None,
    dropped: FaultCounts | None = None,
    *,
    strict: bool = False,
) -> tuple[list[LabelledPicture], list[str]]:
    """The records of a file or folder, and warnings about them."""
    found = scan_labelled(path, data, split)
    return read_records(path, found, data, dropped, strict=strict, expected="pictures with labels", called="pictures")


def scan_labelled(
    path: str | Path, data: LabelledImageData, split: str | None = None
) -> Iterator[LabelledPicture | Fault]:
    """Every record and every fault of a file, a folder, a zip archive or a dataset of the hub."""
    kind = label_format(path, data)
    if kind == "sheet":
        return _sheet(Path(path), data, split)
    if kind == "idx":
        return _idx(Path(path), data)
    places = None if on_hub(path) else places_of(Path(path), data, kind)
    finder = Finder(places, path, data.columns.image, whole=data.faults == "drop")
    if kind == "folder":
        return _folder_labels(Path(path), finder, data)
    return labelled(_table_entries(path, data.columns, data, headless=True), finder, data)


def label_format(path: str | Path, data: LabelledImageData) -> str:
    """The format of a file of labelled pictures."""
    if on_hub(path):
        return "hub"
    if Path(path).is_dir() or is_zip(path):
        return "folder"
    if data.format in (None, "idx") and is_idx(Path(path).name):
        return "idx"
    suffixes = {name: name for name in COLUMNAR} | {"png": "sheet"}
    expected = "a file of labelled pictures (csv, tsv, jsonl, parquet, a PNG sheet, MNIST's idx3), a folder or a zip"
    return columnar_format(
        path, own_format(path, data, suffixes), suffixes=suffixes, expected=expected, hint="set data.format"
    )


def _folder_labels(path: Path, finder: Finder, data: LabelledImageData) -> Iterator[LabelledPicture | Fault]:
    """The pictures of a folder or zip with one folder per label; all or most of them may lie in one folder more."""
    files = {name: origin for name, origin in files_in(path).items() if is_picture(name)}
    parts = {name: PurePosixPath(name).parts for name in files}
    depth = 0
    while (
        parts
        and 2 * sum(len(part) > depth + 2 for part in parts.values()) > len(parts)
        and len({part[depth] for part in parts.values() if len(part) > depth + 1}) == 1
    ):
        depth += 1
    inside = {name: part[depth] for name, part in parts.items() if len(part) > depth + 1}
    if not inside:
        found = f"{len(files):,} pictures without a folder" if files else "no picture"
        raise InputError(path, expected="one folder of pictures for each label", found=found)
    for number, name in enumerate(files, start=1):
        if name not in inside:
            yield fault(number, NO_LABEL, path, expected="a picture in the folder of its label", found=name, name=name)
        elif data.labels is not None and inside[name] not in data.labels:
            reason, expected = f"of {inside[name]!r}, not among data.labels", f"one of {', '.join(data.labels)}"
            yield fault(number, reason, path, expected=expected, found=inside[name], skipped=True, name=name)
        else:
            picture = finder.checked(files[name], name, Entry(name, inside[name], Fields(number, ())))
            yield picture if isinstance(picture, Fault) else LabelledPicture(picture, inside[name])


def _sheet(path: Path, data: LabelledImageData, split: str | None) -> Iterator[LabelledPicture | Fault]:
    """The square pictures of a sheet, one per row, its pixels one after the other; the labels are those of ``answers``."""
    sheet = read_picture(path, path)
    rows, across = sheet.shape[:2]
    side = round(across**0.5)
    if side * side != across:
        raise InputError(path, expected="rows of side × side pixels", found=f"rows of {across:,} pixels")
    if data.answers is None:
        hint = 'a JSON file: {"train": [3, …], "classes": ["cat", …]}'
        raise InputError(path, field="data.answers", expected="the labels of a sheet", found="none", hint=hint)
    file = locate(data.answers, path.parent)
    answers = _answers_for(path, split, rows, _json(file, "an object with lists of labels"), file)
    for number, (pixels, answer) in enumerate(zip(sheet, answers, strict=True), start=1):
        entry = Entry(None, answer, Fields(number, (), f"row {number}"))
        label = label_in(entry, data.labels, data.columns.label, file)
        if isinstance(label, Fault):
            yield label
        else:
            square = pixels.reshape(side, side, 3)
            yield LabelledPicture(Picture(pixel_digest(square), f"{path.name} row {number}", InMemory(square)), label)


def _idx(path: Path, data: LabelledImageData) -> Iterator[LabelledPicture | Fault]:
    """The pictures of MNIST's format; label n is the n-th of ``data.labels``, or the number itself."""
    if not is_idx(path.name):
        expected = "a file named as MNIST's: …-images-idx3-ubyte, with …-labels-idx1-ubyte beside it"
        raise InputError(path, expected=expected, found=repr(path.name))
    beside = path.with_name(labels_beside(path.name))
    pictures, numbers = read_idx(path, 3), read_idx(beside, 1)
    if len(pictures) != len(numbers):
        raise InputError(beside, expected=f"{len(pictures):,} labels, for {path.name}", found=f"{len(numbers):,}")
    names = dict(enumerate(data.labels or ()))
    for number, (pixels, answer) in enumerate(zip(pictures, numbers.tolist(), strict=True), start=1):
        entry = Entry(None, names.get(answer, answer), Fields(number, (), f"picture {number}"))
        label = label_in(entry, data.labels, data.columns.label, beside)
        if isinstance(label, Fault):
            yield label
        else:
            origin = InMemory(pixels)
            yield LabelledPicture(Picture(pixel_digest(pixels[..., None]), f"{path.name} {number}", origin), label)


def _answers_for(path: Path, split: str | None, rows: int, document: Mapping[str, Any], file: Path) -> list[Any]:
    """The list of the split or of the file's own name, else the only one of the sheet's length; as names, given classes."""
    lists = {name: value for name, value in document.items() if isinstance(value, list) and name != "classes"}
    fitting = [name for name, value in lists.items() if len(value) == rows]
    named = [name for name in fitting if name == split or path.stem.startswith(name)]
    chosen = named or fitting
    if len(chosen) != 1:
        lengths = ", ".join(f"{name} of {len(value):,}" for name, value in lists.items()) or "no list"
        raise InputError(file, expected=f"one list of {rows:,} labels, for {path.name}", found=lengths)
    classes, values = document.get("classes"), lists[chosen[0]]
    if not isinstance(classes, list):
        return values
    names = dict(enumerate(classes))
    return [names.get(value, value) if isinstance(value, int) else value for value in values]


# Memory ---------------------------------------------------------------------------------------------------------------


def _tuple_of(item: Any) -> tuple[Any, ...] | None:
    if isinstance(item, Captioned | LabelledPicture):
        return item.source, item.target
    return tuple(item) if isinstance(item, tuple | list) and len(item) == 2 else None


def captions_of(given: Any, data: CaptionData, dropped: FaultCounts | None = None) -> list[Captioned]:
    """Records from a list of (picture, caption) or (picture, captions), of dicts, or from a table. A picture is a path, bytes,
    a PIL image, an array or a tensor."""
    if isinstance(given, list | tuple) and given and all(isinstance(item, Captioned) for item in given):
        return list(given)  # with the places that they know
    finder = Finder(Places([Path()]), WHERE, data.columns.image, whole=data.faults == "drop")
    fields = fields_in(
        _with_pictures(given, data.columns.image),
        lambda names: data.columns.wanted,
        _tuple_of,
        accepted="pictures with captions: a list of (picture, caption), of dicts, a DataFrame or a dict of columns",
        shape="(picture, caption) or a dict",
    )
    found = captioned(map(_entry, fields), finder, data)
    return records_in(found, dropped, expected="pictures with captions")


def _with_pictures(given: Any, column: str | int) -> Any:
    """A dict of columns whose pictures are one array, as a list of pictures: a table would list its numbers."""
    if isinstance(given, Mapping) and hasattr(given.get(column), "shape"):
        return {**given, column: list(given[column])}
    return given


def _entry(found: Fields | Fault) -> Entry | Fault:
    return found if isinstance(found, Fault) else Entry(found.values[0], found.values[1], found)


def labelled_pictures_of(
    given: Any, data: LabelledImageData, dropped: FaultCounts | None = None
) -> list[LabelledPicture]:
    """Records from a list of (picture, label), of dicts, or from a table; pictures as in :func:`captions_of`."""
    finder = Finder(Places([Path()]), WHERE, data.columns.image, whole=data.faults == "drop")
    fields = fields_in(
        _with_pictures(given, data.columns.image),
        lambda names: data.columns.wanted,
        _tuple_of,
        accepted="pictures with labels: a list of (picture, label), of dicts, a DataFrame or a dict of columns",
        shape="(picture, label) or a dict",
    )
    return records_in(labelled(map(_entry, fields), finder, data), dropped, expected="pictures with labels")


def pixels_in(given: Any, where: str | Path) -> Any:
    """The pixels [H, W, 3] of an input: a record's picture, a path, bytes, a PIL image, an array, a tensor."""
    return given.read() if isinstance(given, Picture) else read_picture(given, where)
