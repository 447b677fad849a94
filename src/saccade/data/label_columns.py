"""Which columns of a file hold a text and its label, when nobody said: told from the first rows.

A column of labels has few different values, each met again and again; the text beside it is hardly ever the same twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from saccade.data.files.fields import FORMATS, Fields, Name, columns_of, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import unpacked
from saccade.data.labelled import label_of
from saccade.errors import InputError

LOOKED_AT = 20_000  # rows: many files are sorted by their label
FEWEST_ROWS = 20  # in fewer, what comes again may do so by chance
MOST_VALUES = 20
TIMES = 5  # how often a label is met in the mean, at least
LONGEST = 40  # characters of a label
# Of several columns with few values, the one that is called so is the label.
CALLED = frozenset({"label", "labels", "class", "category", "sentiment", "intent", "topic", "target"})


@dataclass(frozen=True)
class LabelledColumns:
    """The text's column and the label's, and how many different labels were seen in how many rows."""

    text: Name
    label: Name
    values: int
    rows: int

    def __str__(self) -> str:
        name = f"column {self.label}" if isinstance(self.label, int) else repr(self.label)
        return f"{name} has {self.values} different values in {self.rows:,} rows"


def labelled_columns(
    path: str | Path, format: str | None = None, among: Sequence[Name] | None = None
) -> LabelledColumns | None:
    """The text and label of a table, of JSONL or Parquet, if that is what it holds; ``among`` names the columns to choose from.

    None where no column has few values, or where not just one of the others holds texts: then it may be anything.
    """
    kind = format or unpacked(Path(path)).suffix.lower().removeprefix(".")
    if on_hub(path) or kind not in FORMATS or kind == "lines":
        return None
    try:
        names, rows = _rows(path, kind)
    except InputError:  # whoever reads the file says what is wrong with it
        return None
    if len(rows) < FEWEST_ROWS:
        return None
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names) if not among or name in among}
    labels = [name for name, values in columns.items() if _are_labels(values)]
    texts = [name for name, values in columns.items() if _are_texts(values)]
    if not labels or len(texts) != 1:
        return None
    label = next((name for name in labels if str(name).casefold() in CALLED), labels[-1])
    return LabelledColumns(texts[0], label, len(set(columns[label])), len(rows))


def _rows(path: str | Path, kind: str) -> tuple[list[Name], list[tuple[object, ...]]]:
    """The columns and the first rows. A first row that is like none below is taken for the header."""
    names = columns_of(path, kind)
    found = islice(scan_fields(path, names, format=kind), LOOKED_AT) if names else iter(())
    rows = [item.values for item in found if isinstance(item, Fields)]
    if rows and all(isinstance(name, int) for name in names):
        first, below = rows[0], rows[1:]
        again = any(row[place] == cell for row in below for place, cell in enumerate(first))
        short = all(cell.strip() and len(cell.split()) <= 3 for cell in first)
        if short and not again and len(set(first)) == len(first):
            return [*first], below
    return names, rows


def _are_labels(values: Sequence[object]) -> bool:
    names = {label_of(value) for value in values if not isinstance(value, list | dict)}
    if not 2 <= len(names) <= min(MOST_VALUES, len(values) // TIMES):
        return False
    return all(name is not None and 0 < len(name) <= LONGEST for name in names)


def _are_texts(values: Sequence[object]) -> bool:
    """Strings, most of them different, most of several words."""
    texts = [value for value in values if isinstance(value, str)]
    wordy = sum(len(text.split()) > 1 for text in texts)
    return 2 * len(set(texts)) > len(values) and 2 * wordy > len(values)
