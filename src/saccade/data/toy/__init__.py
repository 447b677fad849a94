"""Data sets that the package generates itself, with known causes: nothing is downloaded. A recipe's ``data.source`` names one.

Each module has a dataclass of settings (the field of a recipe's ``data`` with the name of the source), ``generate``, which
makes the records of each split, and ``EXAMPLES``, inputs worth looking at (none: the test set's serve).
"""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from saccade.errors import InputError

T = TypeVar("T")
SPLITS = ("test", "valid", "train")
LARGEST = 2**31  # records × the largest of the other settings
MISSES = 10_000  # draws in a row that are in another split already
TOYS = {
    # pairs of texts
    "dates": "saccade.data.toy.dates",
    "spelling": "saccade.data.toy.spelling",
    "phonemes": "saccade.data.toy.phonemes",
    "copies": "saccade.data.toy.copy",
    # texts with a label
    "opinions": "saccade.data.toy.opinions",
    "contrasts": "saccade.data.toy.contrasts",
    "verbs": "saccade.data.toy.relations",
    "needles": "saccade.data.toy.needles",
    # words with tags
    "repeats": "saccade.data.toy.repeats",
    # questions with candidates
    "facts": "saccade.data.toy.facts",
    # texts
    "agreement": "saccade.data.toy.agreement",
    "topics": "saccade.data.toy.topics",
    # patients
    "visits": "saccade.data.toy.visits",
    # points
    "sorting": "saccade.data.toy.points",
    "hull": "saccade.data.toy.points",
    # pictures with a caption
    "shapes": "saccade.data.toy.shapes",
    # pictures with a label
    "dots": "saccade.data.toy.dots",
    "twins": "saccade.data.toy.twins",
    # sound with a transcript
    "tones": "saccade.data.toy.tones",
    "digits": "saccade.data.toy.digits",
}


def toy(source: str) -> ModuleType:
    """The module of a generated data set."""
    return importlib.import_module(TOYS[source])


def generated(data: Any, folder: Path) -> Mapping[str, Sequence[Any]]:
    """The values of each split's records, as the source that ``data`` names makes them; a missing split is held out later."""
    settings = getattr(data, data.source, data)  # points have their settings beside the source
    _check_size(settings, data.source)
    module = toy(data.source)
    if data.source in ("spelling", "digits"):  # those that read a file of the user's
        return module.generate(settings, folder)  # type: ignore[no-any-return]
    return module.generate(settings)  # type: ignore[no-any-return]


def _check_size(settings: Any, source: str) -> None:
    """Raise where more would be generated than fits into memory: the recipe may come from anyone."""
    numbers = {name: value for name, value in vars(settings).items() if type(value) is int and name != "seed"}
    records = sum(numbers.pop(split, 0) for split in SPLITS)
    largest = max(numbers, key=lambda name: numbers[name], default="")
    size = records * max(numbers.get(largest, 1), 1)
    if size > LARGEST:
        product = f"{records:,} records" + (f" × {largest} {numbers[largest]:,}" if largest else "")
        raise InputError(
            f"data.source: {source}", expected=f"at most {LARGEST:,} values to generate", found=f"{size:,} ({product})"
        )


def examples(source: str | None) -> list[str]:
    """Inputs of a generated data set that are worth looking at; none where ``source`` is None or a user's own."""
    return list(toy(source).EXAMPLES) if source in TOYS else []


def check_ranges(settings: Any, **limits: tuple[float, float]) -> None:
    """Raise unless every split has a record and each named setting lies within its limits."""
    for name, (least, most) in {**dict.fromkeys(SPLITS, (1, math.inf)), **limits}.items():
        if not least <= getattr(settings, name) <= most:
            expected = f"at least {least}" if most == math.inf else f"from {least} to {most}"
            raise ValueError(f"{name} must be {expected}: got {getattr(settings, name)}")


def drawn_splits(settings: Any, name: str, draw: Callable[[random.Random], T]) -> dict[str, list[T]]:
    """As many draws for each split as ``settings`` says. A split is drawn by itself: ``test`` does not change with the size of
    ``train``."""
    splits = {}
    for split in SPLITS:
        rng = _seeded(settings, name, split)
        splits[split] = [draw(rng) for _ in range(getattr(settings, split))]
    return splits


def distinct_splits(
    settings: Any, name: str, draw: Callable[[random.Random], tuple[Any, T]]
) -> dict[str, list[tuple[Any, T]]]:
    """As :func:`drawn_splits`, but no source, the first of what is drawn, is in two splits."""
    splits: dict[str, list[tuple[Any, T]]] = {}
    held: set[Any] = set()
    for split in SPLITS:
        rng = _seeded(settings, name, split)
        splits[split] = []
        misses = 0
        while len(splits[split]) < getattr(settings, split):
            record = draw(rng)
            misses = misses + 1 if record[0] in held else 0
            if misses > MISSES:
                raise InputError(
                    f"data.{name}", field=split, expected="settings that give enough different records", found="too few"
                )
            if not misses:
                splits[split].append(record)
        held.update(source for source, _ in splits[split])
    return splits


def _seeded(settings: Any, name: str, split: str) -> random.Random:
    # Seeding by text gives the same draws in every process.
    return random.Random(" ".join(filter(None, (str(settings.seed), name, split))))
