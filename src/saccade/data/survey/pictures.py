"""Surveys pictures with a label or with captions: the data of the tasks ``classify_images`` and ``caption``. No torch.

Every picture is decoded once, so that truncated ones are counted; the records stay in memory, without their pixels.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from saccade.data.files.fields import Name
from saccade.data.files.hub import on_hub
from saccade.data.files.idx import is_idx
from saccade.data.files.lines import Encoding
from saccade.data.files.records import Fault
from saccade.data.images.pictures import Header
from saccade.data.images.places import Picture, Places, files_in, is_picture, is_zip, members_of
from saccade.data.images.records import (
    CaptionData,
    Captioned,
    LabelledImageData,
    LabelledPicture,
    caption_format,
    coco_entries,
    label_format,
    scan_captions,
    scan_labelled,
)
from saccade.data.labels.classes import UNEVEN
from saccade.data.survey.columns import FEW_NAMES, first_names, first_picture_lines, picture_columns, suffix_of
from saccade.data.survey.labels import FINE, LabelCounts
from saccade.data.survey.survey import (
    Entry,
    Part,
    Section,
    Survey,
    epochs_for,
    listed,
    longest_of,
    rounded_up,
    several,
)
from saccade.data.survey.tallies import Lengths
from saccade.errors import InputError

LOOKED_AT = 200  # files of a folder by which its kind is told
SPLITS = ("train", "training", "valid", "validation", "val", "dev", "test", "testing")  # folders that hold no label
LEAST_SIZE, MOST_SIZE = 8, 64  # of the network's input that a recipe may have
BACKBONE_SIZE = 224  # of the pictures that most backbones were trained on
LEAST_MAP = 4  # rows of the map that attention stands on
BATCH, UPDATES, FEWEST_EPOCHS, MOST_EPOCHS, PATIENCE = 32, 400, 10, 60, 100
CAPTION_BATCH, CAPTION_UPDATES, MOST_CAPTION_EPOCHS = 16, 1500, 60
SMALL = 2000  # captions up to which no word is left out for being rare


class Pictures(Survey):
    """What surveys of pictures have in common: sizes, formats, where the pictures are, which are damaged."""

    unit, faulty, near = "picture", "faulty picture", False
    other_role: ClassVar[str]  # beside the image
    other_files = 0  # that a folder holds beside its pictures and that are read

    @classmethod
    def recognises(
        cls, files: Sequence[str], columns: Mapping[str, Name], format: str | None, encoding: Encoding
    ) -> bool:
        if columns and "image" not in columns and set(columns) <= set(cls.roles):
            # A label alone may be that of a text: the image must be there by its usual name.
            return len(files) == 1 and picture_columns(files[0], format, encoding, None) is not None
        return super().recognises(files, columns, format, encoding)

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        if on_hub(file):
            return False
        path = Path(file)
        if path.is_dir() or is_zip(path):
            return cls.suits_folder(path)
        return cls.suits_file(path, format) or cls._guess(file, format, encoding) is not None

    @classmethod
    @abstractmethod
    def suits_folder(cls, path: Path) -> bool:
        """Whether a folder or zip archive holds pictures of this kind."""

    @classmethod
    @abstractmethod
    def suits_file(cls, path: Path, format: str | None) -> bool:
        """Whether a file that is no table lists or holds pictures of this kind."""

    @classmethod
    def _guess(cls, file: str, format: str | None, encoding: Encoding) -> tuple[Name, Name] | None:
        """The columns of pictures and of what belongs to them, if those pictures are there or the names leave no doubt."""
        found = picture_columns(file, format, encoding, cls.other_role)
        if found is None or found == ("image", cls.other_role):
            return found
        names = first_names(file, format, encoding, found[0])
        return found if not names or _places(Path(file), names) is not None else None

    def settle(self) -> None:
        """Guess the columns, and the folder of the pictures where they are not beside the file."""
        self.guesses: list[str] = []
        self.formats_of, self.sizes = Counter[str](), list[tuple[int, int]]()
        self._scanned: dict[str, list[Any]] = {}
        if not self.named and isinstance(self.files, str) and Path(self.files).is_file():
            found = self._guess(self.files, self.data.format, self.data.encoding)
            usual = self.data.columns
            if found is not None and found != (usual.image, getattr(usual, self.other_role)):
                columns = {"image": found[0], self.other_role: found[1]}
                self.data = replace(self.data, columns=replace(usual, **columns))
                named = " and ".join(f"column {name}" if isinstance(name, int) else repr(name) for name in found)
                self.guesses.append(f"{named} are used as image and {self.other_role}")
        if not self.has_recipe and self.data.images is None and self._kind not in ("folder", "hub"):
            names = self.pictures_named()
            where = _places(Path(self.files), names) if names else None
            if where is not None and where != ".":
                self.data = replace(self.data, images=where)
                self.guesses.append(f"the pictures are in {where}, as seen from the file (data.images)")

    @property
    @abstractmethod
    def _kind(self) -> str:
        """The format of the training file."""

    def pictures_named(self) -> list[str]:
        """The names of the first few pictures of a file."""
        if self._kind in ("tsv", "csv", "jsonl", "parquet"):
            return first_names(self.files, self.data.format, self.data.encoding, self.data.columns.image)
        return []

    def scan(self, files: Any) -> Iterator[Any]:
        """Records and faults; a file that was read before comes from memory."""
        key = str(files)
        if key in self._scanned:
            yield from self._scanned[key]
            return
        found = self._scanned[key] = []
        for item in self.scan_all(files, replace(self.data, faults="drop")):  # which decodes every picture
            found.append(item)
            yield item

    @abstractmethod
    def scan_all(self, files: Any, data: Any) -> Iterator[Any]:
        """Every record and every fault of a file."""

    def count(self, record: Any, part: Part) -> None:
        if part.files is self.files:
            header = _header(record.source)
            self.formats_of[header.format] += 1
            self.sizes.append((header.height, header.width))

    def finish(self) -> None:
        sizes = np.array(self.sizes)
        self.spans = {
            "width": Lengths(sizes[:, 1].tolist()),
            "height": Lengths(sizes[:, 0].tolist()),
        }
        self.shorter = Lengths(sizes.min(axis=1).tolist())

    @property
    def read_size(self) -> int:
        """``data.image.size``: that of most pictures, within what a small network reads."""
        if self.has_recipe:
            return int(self.data.image.size)
        usual = self.shorter.within(0.5)
        alike = self.shorter.within(0.0) == self.shorter.longest
        return min(MOST_SIZE, max(LEAST_SIZE, usual if alike else rounded_up(usual)))

    # The report -------------------------------------------------------------------------------------------------------

    @property
    def kinds_of_files(self) -> str:
        """The formats of the pictures, the most frequent first."""
        counts = self.formats_of.most_common()
        return ", ".join(f"{count:,} {name}" for name, count in counts) if len(counts) > 1 else counts[0][0]

    def own_sections(self) -> Iterator[Section]:
        shares = (0.0, 0.5, 0.95, 1.0)
        rows = [
            (name, f"{of.mean:.1f}", *(f"{of.within(share):,}" for share in shares)) for name, of in self.spans.items()
        ]
        yield Section("Pixels", [("", "mean", "least", "median", "95 %", "most"), *rows])

    def checks(self) -> Iterator[tuple[int, str]]:
        yield from super().checks()
        small = sum(min(size) < self.read_size for size in self.sizes)
        yield small, f"pictures are smaller than the {self.read_size} × {self.read_size} pixels that are read"

    def own_notes(self) -> Iterator[str]:
        yield from self.guesses
        if self._kind == "folder":
            others = sum(not is_picture(name) for name in files_in(self.files)) - self.other_files
            if others:
                yield f"{several(others, 'file')} whose name is not that of a picture: not read"
        high, wide = (self.spans[name].within(0.5) for name in ("height", "width"))
        if self.data.image.crop == "centre" and max(high, wide) > 2 * min(high, wide):
            yield f"of a usual picture of {wide:,} × {high:,} only the middle is read: data.image.crop: whole shows all"

    def own_json(self) -> dict[str, Any]:
        pixels = {name: of.to_json() for name, of in self.spans.items()}
        return {"formats": dict(self.formats_of), "pixels": pixels}

    # The recipe -------------------------------------------------------------------------------------------------------

    def recipe(self, folder: Path | None = None) -> dict[str, Any]:
        found = super().recipe(folder)
        if self.data.images is not None:
            found["data"]["images"] = self.data.images  # as seen from the data file, wherever the recipe is
        return found

    def image_settings(self) -> dict[str, Any]:
        crop = {"crop": self.data.image.crop} if self.data.image.crop != "centre" else {}
        return {"size": self.read_size, **crop}


class PictureSurvey(LabelCounts, Pictures):
    kind, task, expected = "pictures", "classify_images", "picture with its label"
    roles = ("image", "label")
    formats = ("sheet", "idx")
    other_role = "label"
    data: LabelledImageData

    @classmethod
    def suits_folder(cls, path: Path) -> bool:
        return _pictures_of(path) is not None

    @classmethod
    def suits_file(cls, path: Path, format: str | None) -> bool:
        return format is None and is_idx(path.name)

    @property
    def _kind(self) -> str:
        return label_format(self.files, self.data)

    def scan_all(self, files: Any, data: Any) -> Iterator[LabelledPicture | Fault]:
        return scan_labelled(files, data)

    def sides(self) -> Sequence[str]:
        return ()

    def entry(self, record: LabelledPicture) -> Entry:
        return Entry((), record.source.digest, record.target, name=record.source.name)

    def count(self, record: LabelledPicture, part: Part) -> None:
        super().count(record, part)
        part.counts[record.target] += 1

    def finish(self) -> None:
        super().finish()
        self.count_labels()

    def headline(self) -> str:
        columns = self.data.columns
        how = {"folder": "one folder per label", "idx": "MNIST's files", "sheet": "a sheet with a row per picture"}
        told = how.get(self._kind, f"columns {columns.image} → {columns.label}")
        read = f"{several(self.train.records, 'picture')} ({self.kinds_of_files}) with a label each"
        return f"{self.train.name}: {read} ({told})"

    def own_sections(self) -> Iterator[Section]:
        yield Section(several(len(self.counts), "label"), bars=self.counts)
        yield from super().own_sections()

    def own_problems(self) -> Iterator[str]:
        splits = [label for label in self.counts if label.casefold() in SPLITS]
        if len(splits) < len(self.counts) or self._kind != "folder":
            yield from super().own_problems()
            return
        inner = [
            f"{self.train.name}/{split}" for split in sorted(splits, key=lambda name: "train" not in name.casefold())
        ]
        yield f"the folders {listed(splits)} are splits rather than labels: saccade data {' --test '.join(inner[:2])}"

    def own_notes(self) -> Iterator[str]:
        yield from super().own_notes()
        yield from self.frequency_notes()
        yield from self.absence_notes()

    def own_json(self) -> dict[str, Any]:
        return {**super().own_json(), "labels": self.counts, "imbalance": self.imbalance}

    def recommend(self) -> dict[str, Any]:
        records, share, size = self.train.records, self.data.hold_out, self.read_size
        data: dict[str, Any] = {"image": self.image_settings(), "augment": {"shift": 0.1}}
        data |= {"labels": list(self.counts)} if self.rare or self.data.labels else {}
        data |= {"balance": "weights"} if self.imbalance > UNEVEN else {}
        halvings = max(1, int(math.log2(size / LEAST_MAP)) - 1)  # 64 → 8 × 8, 24 → 12 × 12
        epochs, per_epoch = epochs_for(
            records, share, batch=BATCH, updates=UPDATES, fewest=FEWEST_EPOCHS, most=MOST_EPOCHS
        )
        return {
            "data": data,
            "model": {
                "name": "image_classifier", "channels": 16, "halvings": halvings, "width": 64,
                "attention": size >> halvings, "dropout": 0.2,
            },
            "train": {
                "epochs": epochs, "batch_records": BATCH, "batch_tokens": None, "lr": 0.003, "schedule": "cosine",
                "warmup": 30, "watch": "accuracy" if share * records >= FINE else "loss",
                "stop_after": max(min(epochs // 2, math.ceil(PATIENCE / per_epoch)), 3),
            },
            "metrics": ["accuracy", "f1"],
        }  # fmt: skip


class CaptionSurvey(Pictures):
    kind, task, expected = "captions", "caption", "picture with a caption"
    roles = ("image", "caption")
    formats = ("coco", "flickr")
    other_role, limited, targets, takes_backbone = "caption", "caption", False, True
    data: CaptionData

    @classmethod
    def suits_folder(cls, path: Path) -> bool:
        found = _pictures_of(path)
        return found is not None and found > 0.5

    @classmethod
    def suits_file(cls, path: Path, format: str | None) -> bool:
        if format is not None or not path.is_file():
            return False
        suffix = suffix_of(str(path))
        return suffix in ("json", "token") or (suffix == "txt" and bool(first_picture_lines(path)))

    @property
    def _kind(self) -> str:
        return caption_format(self.files, self.data) if self.data.captions is None else "flickr"

    def pictures_named(self) -> list[str]:
        if self._kind == "flickr" and self.data.captions is None:
            return first_picture_lines(Path(self.files), self.data.encoding)
        return self._coco_names if self._kind == "coco" else super().pictures_named()

    @property
    def _coco_names(self) -> list[str]:
        try:
            entries = islice(coco_entries(Path(self.files)), LOOKED_AT)
            return [item.image for item in entries if not isinstance(item, Fault)][:FEW_NAMES]
        except InputError:  # which reading reports
            return []

    def scan_all(self, files: Any, data: Any) -> Iterator[Captioned | Fault]:
        return scan_captions(files, data)

    def sides(self) -> Sequence[str]:
        return ("caption",)

    def entry(self, record: Captioned) -> Entry:
        return Entry((record.target,), record.source.digest, name=record.source.name)

    def settle(self) -> None:
        super().settle()
        self.per_picture = Lengths()

    def count(self, record: Captioned, part: Part) -> None:
        super().count(record, part)
        if part.files is self.files:
            self.per_picture.add([len(record.target)])

    def measure(self, record: Captioned) -> Iterable[tuple[str, int]]:
        tokens = self.data.tokens
        for caption in record.target:
            yield f"caption in {tokens.kind}", self.token_count(caption, tokens)

    @property
    def read_size(self) -> int:
        return BACKBONE_SIZE if self.data.features is not None and not self.has_recipe else super().read_size

    @cached_property
    def captions(self) -> int:
        """How many captions there are."""
        return self.train.sides["caption"].word_lengths.counts.total()

    def headline(self) -> str:
        columns = self.data.columns
        how = {"folder": "in a text file beside each", "coco": "COCO's format", "flickr": "Flickr8k's format"}
        told = how.get(self._kind, f"columns {columns.image} → {columns.caption}")
        read = (
            f"{several(self.train.records, 'picture')} ({self.kinds_of_files}) with {several(self.captions, 'caption')}"
        )
        return f"{self.train.name}: {read} ({told})"

    def own_sections(self) -> Iterator[Section]:
        counts = sorted(self.per_picture.counts.items())
        named = {f"{count} per picture": pictures for count, pictures in counts}
        yield Section(several(self.captions, "caption"), bars=named if len(named) > 1 else {})
        yield from super().own_sections()

    def own_notes(self) -> Iterator[str]:
        yield from super().own_notes()
        different = len(self.train.sides["caption"].vocabulary.counts)
        if different > self.captions:
            yield "most words occur once: a network trained on these captions alone will hardly learn them"

    @property
    def other_files(self) -> int:  # type: ignore[override]
        """The text files beside the pictures."""
        if self._kind != "folder":
            return 0
        names = set(files_in(self.files))
        return len({str(PurePosixPath(name).with_suffix(".txt")) for name in names if is_picture(name)} & names)

    def own_json(self) -> dict[str, Any]:
        return {**super().own_json(), "captions": self.captions, "captions_per_picture": self.per_picture.to_json()}

    def _measured(self, kind: str) -> Sequence[Lengths]:
        side = self.train.sides["caption"]
        return [side.character_lengths if kind == "characters" else side.word_lengths]

    def recommend(self) -> dict[str, Any]:
        captions, share, features = self.captions, self.data.hold_out, self.data.features
        kind = "characters" if self.train.sides["caption"].unspaced else "words"
        words = {"kind": "words", "lower": True, "min_count": 1 if captions < SMALL else 5}
        data: dict[str, Any] = {"image": self.image_settings()}
        data |= {"features": {"backbone": features.backbone}} if features is not None else {}
        data |= {"tokens": {"kind": "characters"} if kind == "characters" else words}
        data |= {"max_length": longest_of(self._measured(kind)), "too_long": "truncate"}
        halvings = max(1, int(math.log2(self.read_size / LEAST_MAP)) - 1)
        channels = {} if features is not None else {"channels": [24 << number for number in range(halvings)]}
        epochs, _ = epochs_for(
            captions,
            share,
            batch=CAPTION_BATCH,
            updates=CAPTION_UPDATES,
            fewest=FEWEST_EPOCHS,
            most=MOST_CAPTION_EPOCHS,
        )
        return {
            "data": data,
            "model": {
                "name": "show_attend_tell", **channels, "hidden": 128, "embedding": 64, "alignment": 64,
                "dropout": 0.2, "selector": False, "penalty": 0.0,
            },
            "train": {
                "epochs": epochs, "batch_records": CAPTION_BATCH, "batch_tokens": None, "lr": 0.003,
                "schedule": "cosine", "warmup": 100, "watch": "loss",
            },
            "metrics": ["bleu_4", "cider", "perplexity"],
        }  # fmt: skip


# What is guessed ------------------------------------------------------------------------------------------------------


def _pictures_of(path: Path) -> float | None:
    """The share of pictures with a text file of the same name beside them, among a folder's or a zip's first files; None
    where there are more texts than pictures."""
    if is_zip(path):
        try:
            found: Iterable[str] = members_of(path)
        except InputError:  # which reading reports
            return 0.0
        names = set(found)
    else:
        below = (os.path.join(folder, name) for folder, _, files in os.walk(path) for name in files)
        names = set(islice((name for name in below if is_picture(name) or name.endswith(".txt")), LOOKED_AT))
    pictures = [name for name in names if is_picture(name)]
    if not pictures or 2 * len(pictures) < sum(is_picture(name) or name.endswith(".txt") for name in names):
        return None
    if is_zip(path):
        return sum(str(PurePosixPath(name).with_suffix(".txt")) in names for name in pictures) / len(pictures)
    return sum(Path(name).with_suffix(".txt").is_file() for name in pictures) / len(pictures)


def _places(file: Path, names: Sequence[str]) -> str | None:
    """The folder in which the pictures of these names are, as seen from the file: its own, or one beside that; None where they
    are not."""
    try:
        if any(map(Places([file.parent]).find, names)):
            return "."
        beside = sorted(each for each in file.absolute().parent.parent.iterdir() if each.is_dir())
        found = next((each for each in beside for name in names if (each / name).is_file()), None)
    except (OSError, InputError):  # a folder that may not be read, a name that is too long
        return None
    return None if found is None else f"../{found.name}"


def _header(picture: Picture) -> Header:
    """The format and the size of a picture that was read."""
    if picture.where is not None and picture.where.header is not None:
        return picture.where.header
    height, width = picture.read().shape[:2]
    return Header("pixels", height, width)
