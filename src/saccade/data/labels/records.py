"""Texts with a label each: the records of the task ``classify``, generated, from files, or from memory. No torch.

    tables, JSONL, Parquet, the hub     a column of text and one of labels; a second text too, where records are pairs
    lines                               "label text …", one record per line
    aspects                             three lines per record: a sentence with $T$, the words in its place, the polarity
    relations                           blocks as in SemEval-2010's task 8: a sentence with two marked nouns, their relation
    folders                             one folder per label, one file per text:  train/pos/0_9.txt

A label is a name: numbers and true or false are taken as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from saccade.data.columns import ColumnNames
from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files.fields import FORMATS, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.limits import MAX_RECORD, Total, max_record, raised
from saccade.data.files.lines import codec_of, opened
from saccade.data.files.records import LONG, NOT_TEXT, NOT_UTF8, NUL, Fault, Fields, fault, kind_of, label_of
from saccade.data.files.semeval import BLOCKS, scan_blocks
from saccade.data.memory import WHERE, fields_in, group_of, records_in
from saccade.data.reading import FaultCounts, load_splits, own_format, read_records
from saccade.data.splits import Splits
from saccade.data.tokenizers.sentences import Nesting
from saccade.data.tokenizers.tokenizer import WordTokens
from saccade.data.tokenizers.vectors import Vectors, check_vectors
from saccade.data.toy.contrasts import Contrasts
from saccade.data.toy.needles import Needles
from saccade.data.toy.opinions import Opinions
from saccade.data.toy.relations import Verbs
from saccade.errors import InputError

EMPTY = "no text or no label"
BESIDE, WITHIN = "a file beside the labels' folders", "a folder in a label's folder"
UNLISTED = "a label that data.labels does not list"
Text = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, or two that are judged together, and the label; records of one group are held out together."""

    source: Text
    target: str
    group: str | None = None

    @property
    def first(self) -> str | None:
        """The first of two texts."""
        return self.source[0] if isinstance(self.source, tuple) else None


@dataclass(frozen=True)
class LabelColumns(ColumnNames):
    """Which columns (tables) or keys (JSONL) hold what. ``second`` makes records pairs; ``group`` may be a column of texts too:
    then records that share it are held out together."""

    own: ClassVar[tuple[str, ...]] = ("label",)

    text: str | int = "text"
    label: str | int = "label"
    second: str | int | None = None
    group: str | int | None = None


@dataclass(frozen=True)
class LabelledData(DataConfig):
    """The ``data`` part of a recipe for texts with a label each: files, or folders with one folder per label."""

    rereads: ClassVar[tuple[str, ...]] = (*DataConfig.rereads, "columns", "max_length", "too_long", "keep")

    source: Literal["opinions", "contrasts", "verbs", "needles"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "lines", "aspects", "relations"] | None = None
    columns: LabelColumns = field(default_factory=LabelColumns)
    labels: tuple[str, ...] | None = None  # all there are, in this order; as train has them, sorted, unless given
    opinions: Opinions = field(default_factory=Opinions)
    contrasts: Contrasts = field(default_factory=Contrasts)
    verbs: Verbs = field(default_factory=Verbs)
    needles: Needles = field(default_factory=Needles)
    tokens: WordTokens = field(default_factory=WordTokens)
    vectors: str | Vectors | None = None  # a file or a run that word embeddings begin with
    max_length: int = 400  # tokens of a text, or of the two of a pair together
    too_long: TooLong = "error"
    keep: Literal["first", "last"] = "first"  # which tokens of a text that is cut
    sentences: Nesting | None = (
        None  # cut each text into sentences, for a network that reads them one by one, such as han
    )
    balance: Literal["none", "weights"] = "none"  # weights: every label counts as much in the loss, however rare

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=2)
        if self.sentences is not None and (self.columns.second is not None or self.format == "aspects"):
            raise ValueError(f"sentences must be left out where records are pairs: got {self.sentences}")
        if self.labels is not None and (len(self.labels) < 2 or len(set(self.labels)) < len(self.labels)):
            raise ValueError(f"labels must be two or more different names: got {list(self.labels)}")
        check_vectors(self.vectors, self.tokens)
        if self.format == "lines" and self.columns.second is not None:
            raise ValueError(f"columns must name no second text where records are lines: got {self.columns.second!r}")


# Records from files --------------------------------------------------------------------------------------------------


def load_labelled(data: LabelledData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    return load_splits(data, folder, seed, lambda values: Labelled(*values), lambda path, split: gather(path, data))


def read_file(path: Path, data: LabelledData, dropped: FaultCounts | None = None) -> list[Labelled]:
    """The records of one more file or folder, read strictly unless ``dropped`` counts malformed ones."""
    known = FORMATS if data.format in BLOCKS else (*FORMATS, "txt")  # the blocks of one release stand in .TXT files
    columns = replace(data.columns, group=None)
    settings = replace(data, format=own_format(path, data, known), columns=columns)
    return gather(path, settings, dropped, strict=dropped is None)[0]


def gather(
    path: str | Path, data: LabelledData, dropped: FaultCounts | None = None, *, strict: bool = False
) -> tuple[list[Labelled], list[str]]:
    """The records of a file or folder, and warnings about them."""
    expected = "at least one text with its label"
    return read_records(path, scan(path, data), data, dropped, strict=strict, expected=expected)


def scan(path: str | Path, data: LabelledData) -> Iterator[Labelled | Fault]:
    """Every record and every fault of a file, of a folder, or of a dataset of the hub."""
    if not on_hub(path) and Path(path).is_dir():
        yield from _folder(Path(path), data)
        return
    columns = data.columns
    if data.format is not None and data.format in BLOCKS:
        columns = LabelColumns(**BLOCKS[data.format])
        items = scan_blocks(Path(path), data.format, encoding=data.encoding)
    else:
        items = scan_fields(path, columns.wanted, format=data.format, encoding=data.encoding)
    for item in items:
        yield item if isinstance(item, Fault) else record_of(_arranged(item, columns), columns, data.labels, path)


def _arranged(fields: Fields, columns: LabelColumns) -> Fields:
    """The values of ``columns.wanted`` as :func:`record_of` takes them."""
    values = dict(zip(columns.roles, fields.values, strict=True))
    source = (values["text"], values["second"]) if "second" in values else values["text"]
    return replace(fields, values=(source, values["label"], values.get("group")))


def record_of(
    fields: Fields, columns: LabelColumns, labels: tuple[str, ...] | None, where: str | Path
) -> Labelled | Fault:
    """The record of (text or a tuple of two, label, group), or what is wrong with it; ``labels`` lists all there may be."""
    source, given, group = fields.values
    texts = source if isinstance(source, tuple) else (source,)
    for text, column in zip(texts, (columns.text, columns.second or columns.text), strict=False):
        broken = fields.text_fault(text, column, where, EMPTY)
        if broken is not None:
            return broken
    label = label_of(given)
    if not label:
        reason, found = (NOT_TEXT, kind_of(given)) if label is None else (EMPTY, "nothing")
        return fields.fault(reason, where, columns.label, "a label", found)
    if labels is not None and label not in labels:
        return fields.fault(UNLISTED, where, columns.label, f"one of {', '.join(labels)}", repr(label))
    return Labelled(source, label, group_of(group))


def _folder(folder: Path, data: LabelledData) -> Iterator[Labelled | Fault]:
    """One folder per label, one file per text. Folders that ``data.labels`` does not list are skipped, and counted; so are
    files beside the folders, and folders in them."""
    total = Total(folder)
    inside = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    labels = [entry for entry in inside if entry.is_dir()]
    if not labels:
        raise InputError(folder, expected="one folder for each label", found="no folder in it")
    for number, beside in enumerate((entry for entry in inside if entry not in labels), start=1):
        expected = "a file in the folder of its label"
        yield fault(number, BESIDE, folder, expected=expected, found=beside.name, skipped=True, name=beside.name)
    for label in labels:
        entries = sorted(entry for entry in label.iterdir() if not entry.name.startswith("."))
        files = [entry for entry in entries if entry.is_file()]
        for number, inner in enumerate((entry for entry in entries if entry.is_dir()), start=1):
            named = f"{label.name}/{inner.name}"
            yield fault(number, WITHIN, label, expected="a file", found="a folder", skipped=True, name=named)
        listed = data.labels is None or label.name in data.labels
        for number, file in enumerate(files, start=1):
            if listed:
                document = _document(file, label.name, number, data)
                total.add(0 if isinstance(document, Fault) else len(document.source))
                yield document
            else:
                expected, reason = f"one of {', '.join(data.labels or ())}", f"of {label.name!r}, not among data.labels"
                named = f"{label.name}/{file.name}"
                yield fault(number, reason, label, expected=expected, found=label.name, skipped=True, name=named)


def _document(file: Path, label: str, number: int, data: LabelledData) -> Labelled | Fault:
    with opened(file) as stream:
        raw = stream.read(max_record() + 1)
    if len(raw) > max_record():
        most, remedy = f"a text of at most {max_record():,} bytes", raised(MAX_RECORD, max_record())
        return fault(number, LONG, file, expected=most, found="a longer one", hint=remedy, name=f"{label}/{file.name}")
    reason, expected, found, hint = EMPTY, "a text", "nothing", None
    try:
        text = raw.decode("utf-8-sig" if codec_of(data.encoding) == "utf-8" else data.encoding).strip()
        if text and "\0" not in text:
            return Labelled(text, label)
        reason, found = (NUL, "a NUL character") if text else (EMPTY, "nothing")
    except UnicodeDecodeError as error:
        reason, expected, hint = NOT_UTF8, f"{data.encoding} text", "data.encoding?"
        found = f"the byte 0x{raw[error.start]:02x} at offset {error.start}"
    return fault(number, reason, file, expected=expected, found=found, hint=hint, name=f"{label}/{file.name}")


# Records from memory -------------------------------------------------------------------------------------------------


def labelled_of(given: Any, data: LabelledData, dropped: FaultCounts | None = None) -> list[Labelled]:
    """Records from a list of (text, label), (first, second, label) or dicts, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the record's number, from 1; faults are counted in ``dropped``
    where that is given.
    """
    columns = data.columns

    def values_of(item: Any) -> tuple[Any, ...] | None:
        if isinstance(item, Labelled):
            return item.source, item.target, item.group
        if isinstance(item, tuple | list) and len(item) == 3:
            return tuple(item[:2]), item[2], None
        if isinstance(item, tuple | list) and len(item) == 2:
            source = tuple(item[0]) if isinstance(item[0], tuple | list) else item[0]
            return None if isinstance(source, tuple) and len(source) != 2 else (source, item[1], None)
        return None

    fields = fields_in(
        given,
        lambda names: columns.wanted,
        values_of,
        accepted="texts with their labels: a list of (text, label), of dicts, a DataFrame or a dict of columns",
        shape="(text, label), (first, second, label) or a dict",
        arrange=lambda each: _arranged(each, columns),
    )
    items = (item if isinstance(item, Fault) else record_of(item, columns, data.labels, WHERE) for item in fields)
    records = records_in(items, dropped, expected="texts with their labels")
    if len({isinstance(record.source, tuple) for record in records}) > 1:
        raise InputError(WHERE, expected="one text in every record, or two in every one", found="some of each")
    return records
