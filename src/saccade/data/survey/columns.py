"""Guesses from the first rows of a file which columns hold pairs, labels, or pictures with labels or captions. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data.files.fields import FORMATS, Fields, Name, columns_of, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding, lines_of, unpacked
from saccade.data.files.tables import LANGUAGES, TABLES, bare
from saccade.data.images.places import is_picture
from saccade.data.labels.records import label_of
from saccade.errors import InputError

LOOKED_AT = 50  # rows from which samples are taken
MOST_COLUMNS = 40  # that are shown
LABEL_ROWS = 20_000  # rows: many files are sorted by their label
FEWEST_ROWS, MOST_VALUES, TIMES, LONGEST_LABEL = 20, 20, 5, 40  # a column of labels: each occurs TIMES on average
MOST_EMPTY = 0.2  # the largest share of rows without a value in a column of texts or labels
CALLED = frozenset({"label", "labels", "class", "category", "sentiment", "intent", "topic", "target"})
CAPTIONS = frozenset({"caption", "captions", "description", "descriptions"})
FEW_NAMES = 5  # pictures that are looked for to tell where they are


class UnknownColumns(InputError):
    """Raised when the columns cannot be guessed; ``available`` lists the columns, each with an example text if it has one."""

    def __init__(self, error: InputError, available: Sequence[tuple[Name, str | None]]) -> None:
        super().__init__(error.where, expected=error.expected, found=error.found, line=error.line, field=error.field)
        self.args = error.args  # the same sentence, with its hint
        self.available = available


def suffix_of(file: str) -> str:
    return unpacked(Path(file)).suffix.lower().removeprefix(".")


def has_columns(file: str, format: str | None, *names: Name, encoding: Encoding = "utf-8") -> bool:
    """Whether a table, JSONL or Parquet file has these columns; False if it cannot be read, which the reader reports."""
    try:
        items = scan_fields(file, names, format=format, encoding=encoding) if _tabular(file, format) else iter(())
        return any(isinstance(item, Fields) for item in islice(items, LOOKED_AT))
    except InputError:
        return False


def _tabular(file: str, format: str | None) -> bool:
    return not on_hub(file) and Path(file).is_file() and (format or suffix_of(file)) in FORMATS and format != "lines"


def first_rows(
    file: str, format: str | None, encoding: Encoding, most: int
) -> tuple[list[Name], list[tuple[Any, ...]]]:
    """The columns of a table, JSONL, Parquet or hub file, and its first rows."""
    names = columns_of(file, format, encoding)
    table = not on_hub(file) and (format or suffix_of(file)) in TABLES
    wanted: Sequence[Name] = range(1, len(names) + 1) if table else names  # of a table some may have no name
    items = scan_fields(file, wanted, format=format, encoding=encoding, optional=names) if names else iter(())
    items = islice(items, most)
    return names, [item.values for item in items if isinstance(item, Fields)]


def unnamed_columns(file: Any, format: str | None, encoding: Encoding) -> list[int]:
    """The numbers of a table's columns that its header does not name; none where it has no header."""
    if not isinstance(file, str | Path) or not _tabular(str(file), format):
        return []
    names = columns_of(str(file), format, encoding)
    numbers = [name for name in names if isinstance(name, int)]
    return numbers if len(numbers) < len(names) else []


def samples_of(file: str, format: str | None = None, encoding: Encoding = "utf-8") -> list[tuple[Name, str | None]]:
    """The columns of a file, each with a text from its first rows where it has one."""
    names, rows = first_rows(file, format, encoding, LOOKED_AT)
    samples = [
        next((text for row in rows if isinstance(text := row[place], str) and text.strip()), None)
        for place in range(len(names))
    ]
    return list(zip(names, samples, strict=True))[:MOST_COLUMNS]


def likely_pair(columns: Sequence[tuple[Name, str | None]]) -> tuple[Name, Name] | None:
    """The first two columns named after a language, else the two with the longest texts; None where two have no texts."""
    texts = [(name, text) for name, text in columns if text and any(map(str.isalpha, text))]
    languages = [name for name, _ in texts if bare(str(name)) in LANGUAGES]
    longest = sorted(texts, key=lambda column: -len(column[1]))[:2]
    chosen = languages[:2] if len(languages) > 1 else [name for name, text in texts if (name, text) in longest]
    return (chosen[0], chosen[1]) if len(chosen) > 1 else None


# Labels ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelGuess:
    """The columns of texts and labels, and how many different labels were seen in how many rows."""

    text: Name
    label: Name
    values: int
    rows: int

    def __str__(self) -> str:
        name = f"column {self.label}" if isinstance(self.label, int) else repr(self.label)
        return f"{name} has {self.values} different values in {self.rows:,} rows and is used as the label"


def label_columns(
    file: str, format: str | None = None, encoding: Encoding = "utf-8", *, sure: bool = True
) -> LabelGuess | None:
    """The text and label of a table, of JSONL or Parquet, guessed from the first rows.

    A column of labels has few different values, each many times; the text beside it hardly ever repeats. None where no
    column has few values, or where not just one of the others holds texts; unless ``sure``, the longest texts are taken.
    """
    try:
        names, rows = first_rows(file, format, encoding, LABEL_ROWS) if _tabular(file, format) else ([], [])
    except InputError:
        return None
    columns = _filled(names, rows)
    filled = {name: values for name, values in columns.items() if len(values) >= (1 - MOST_EMPTY) * len(rows)}
    labels = [name for name, values in filled.items() if len(rows) >= FEWEST_ROWS and _are_labels(values)]
    texts = [name for name, values in filled.items() if _are_texts(values)]
    # The first texts of pairs often come several times, as premises do: they are no labels either.
    beside = [name for name, values in filled.items() if len(_wordy(values)) > MOST_VALUES]
    if not labels or not texts or (sure and len({*texts, *beside}) > 1):
        return None
    words = [
        name for name in labels if not all(str(value).isdecimal() for value in columns[name])
    ]  # rather than numbers
    label = next((name for name in labels if str(name).casefold() in CALLED), (words or labels)[-1])
    text = max(texts, key=lambda name: sum(map(len, map(str, columns[name]))))
    return LabelGuess(text, label, len(set(columns[label])), len(rows))


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _are_labels(values: Sequence[object]) -> bool:
    names = {label_of(value) for value in values if not isinstance(value, list | dict)}
    if not 2 <= len(names) <= min(MOST_VALUES, len(values) // TIMES):
        return False
    return all(name is not None and 0 < len(name) <= LONGEST_LABEL for name in names)


def _are_texts(values: Sequence[object]) -> bool:
    """Strings, most of them different, most of several words."""
    return 2 * len(_wordy(values)) > len(values)


def _wordy(values: Sequence[object]) -> set[str]:
    """The different strings, if most are of several words; a date and a time are not words."""
    texts = [value for value in values if isinstance(value, str)]
    wordy = sum(len(text.split()) > 1 and any(map(str.isalpha, text)) for text in texts)
    return set(texts) if 2 * wordy > len(values) else set()


# Pictures -------------------------------------------------------------------------------------------------------------


def picture_columns(
    file: str, format: str | None = None, encoding: Encoding = "utf-8", other: str | None = None
) -> tuple[Name, Name] | None:
    """The columns of pictures and of their labels or captions (``other``; None: of any), guessed from the first rows unless
    they have their usual names.

    A column of pictures has names that end as those of pictures do, or their content. The other one has its usual name, else
    it is the one with few values, or the one with the longest texts. None where one of them is missing.
    """
    if other is None:
        return ("image", "") if has_columns(file, format, "image", encoding=encoding) else None
    if has_columns(file, format, "image", other, encoding=encoding):
        return "image", other
    columns = _columns(file, format, encoding, LOOKED_AT)
    pictures = [name for name, values in columns.items() if _are_pictures(values)]
    if not pictures:
        return None
    image = "image" if "image" in pictures else pictures[0]
    rest = {name: values for name, values in columns.items() if name not in pictures}
    called = CAPTIONS if other == "caption" else CALLED
    usual = next((name for name in rest if str(name).casefold() in called), None)
    if usual is not None:
        return image, usual
    if other == "caption":
        wordy = {name: values for name, values in rest.items() if any(map(_is_list, values)) or _are_texts(values)}
        lengths = {name: sum(len(str(value)) for value in values) for name, values in wordy.items()}
        return (image, max(lengths, key=lambda name: lengths[name])) if lengths else None
    rows = _columns(file, format, encoding, LABEL_ROWS)
    labels = [name for name in rest if len(rows[name]) >= FEWEST_ROWS and _are_labels(rows[name])]
    return (image, labels[-1]) if labels else None


def first_names(file: str, format: str | None, encoding: Encoding, column: Name) -> list[str]:
    """The names of pictures in the first rows of a column; none where it holds their content."""
    values = _columns(file, format, encoding, LOOKED_AT).get(column, [])
    return [value.strip() for value in values if isinstance(value, str)][:FEW_NAMES]


def first_picture_lines(path: Path, encoding: Encoding = "utf-8") -> list[str]:
    """The pictures that the first lines of a text file name before a tab, with # and a number or without; none where they
    name none."""
    lines = list(islice((line.text for line in lines_of(path, encoding) if line.fault is None), FEW_NAMES))
    names = [line.partition("\t")[0] for line in lines if "\t" in line]
    names = [name.rpartition("#")[0] or name for name in names]
    return names if names and all(map(is_picture, names)) else []


def _columns(file: str, format: str | None, encoding: Encoding, most: int) -> dict[Name, list[Any]]:
    """The values of each column in the first rows, without empty ones; nothing where the file is no table."""
    try:
        return _filled(*first_rows(file, format, encoding, most)) if _tabular(file, format) else {}
    except InputError:
        return {}


def _filled(names: Sequence[Name], rows: Sequence[Sequence[Any]]) -> dict[Name, list[Any]]:
    """The values of each column, without empty ones: a record of JSONL may lack a key, and a cell may be empty."""
    return {name: [row[place] for row in rows if not _is_empty(row[place])] for place, name in enumerate(names)}


def _are_pictures(values: Sequence[object]) -> bool:
    found = sum(
        is_picture(value.strip())
        if isinstance(value, str)
        else isinstance(value, bytes) or (isinstance(value, dict) and "bytes" in value)
        for value in values
    )
    return found > 0.5 * len(values)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
