"""Splits records into training, validation and test sets. A split that is not given is held out of the training records by a
seeded draw: records of one group (a document, an author) go to the same side, and where there are no groups, records with
the same source, so that nothing held out was trained on. Sources that given splits have in common are counted, and dropped
where ``data.overlap`` says so."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from saccade.errors import SaccadeError

HELD_OUT_AT_MOST = 2000
Overlap = Literal["keep", "drop_test", "drop_train", "error"]


@dataclass(frozen=True)
class Splits:
    """Three lists of records (dataclasses with a ``source``, perhaps a ``group``, and where two texts are judged together the
    ``first`` of them); ``notes`` says what was held out, dropped and found in common."""

    train: Sequence[Any]
    valid: Sequence[Any]
    test: Sequence[Any]
    notes: tuple[str, ...] = ()


def hold_out(records: Mapping[str, Sequence[Any]], share: float, seed: int) -> Splits:
    """Fill in ``valid`` and ``test`` from ``train`` where they are missing: ``share`` of it becomes ``valid``, then ``share``
    of what is left ``test``."""
    notes, given = [], set(records)
    for name in ("valid", "test"):
        if name in given:
            continue
        grouped = any(_group(record) is not None for record in records["train"])
        draw = _draw_groups if grouped else _draw
        train, held = draw(records["train"], share, seed, name)
        if not train or not held:
            different = len({_key(record) for record in records["train"]})
            raise SaccadeError(too_few(len(records["train"]), different, [name], "group" if grouped else "source"))
        if not _answered(held) and _answered(records["train"]):
            raise SaccadeError(unanswered(name, len(held), share))
        records = {**records, "train": train, name: held}
        groups = f" in {len({_key(record) for record in held}):,} groups" if grouped else ""
        notes.append(f"{name}: {len(held):,} records{groups} held out of train (no data.{name} was given)")
    drawn = [name for name in ("valid", "test") if name not in given]
    notes += _firsts_in_common(records, drawn)
    return Splits(records["train"], records["valid"], records["test"], tuple(notes))


def too_few(records: int, different: int, names: Sequence[str], unit: str = "source") -> str:
    """Why these splits cannot be held out of train: what counts is not records, but their groups or sources.

    >>> too_few(60, 1, ["test"])[:84]
    '60 training records with 1 different source are too few to hold out a test set: give'
    """
    counts = f"{_several(records, 'training record')} with {_several(different, f'different {unit}')}"
    sets, given = " and a ".join(f"{name} set" for name in names), " and ".join(f"data.{name}" for name in names)
    return (
        f"{counts} are too few to hold out a {sets}: give {given}, or more records of other {unit}s (those of one {unit} "
        "stay together)"
    )


def _answered(records: Sequence[Any]) -> bool:
    """Whether any record has an answer, where records are questions."""
    return any(getattr(record, "answered", True) for record in records)


def unanswered(name: str, questions: int, share: float) -> str:
    """The error for held-out questions without any answer: no metric can be computed on them."""
    return (
        f"{name}: none of {_several(questions, 'question')} held out of train has a relevant candidate, so no metric can be "
        f"computed on them: raise data.hold_out (now {share:g}), or give data.{name}"
    )


def _several(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _firsts_in_common(records: Mapping[str, Sequence[Any]], drawn: Sequence[str]) -> list[str]:
    """Notes on held-out pairs of texts whose first text also occurs in training records."""
    trained = {first for record in records["train"] if (first := getattr(record, "first", None)) is not None}
    if not trained:
        return []
    counts = {name: sum(getattr(record, "first", None) in trained for record in records[name]) for name in drawn}
    return [
        f"{name}: {count:,} of {len(records[name]):,} records have their first text in common with training records "
        "(data.columns.group=COLUMN, the first text's own, holds them out together)"
        for name, count in counts.items()
        if count
    ]


def _draw(records: Sequence[Any], share: float, seed: int, name: str) -> tuple[list[Any], list[Any]]:
    sources = sorted({record.source for record in records})
    random.Random(f"{seed} {name}").shuffle(sources)
    chosen = set(sources[: min(max(1, round(share * len(sources))), HELD_OUT_AT_MOST)])
    kept = [record for record in records if record.source not in chosen]
    return kept, [record for record in records if record.source in chosen]


def _draw_groups(records: Sequence[Any], share: float, seed: int, name: str) -> tuple[list[Any], list[Any]]:
    """Whole groups in the order drawn, until there are enough records; groups that are too large are skipped, unless there are
    no others: then the smallest is taken."""
    sizes = Counter(_key(record) for record in records)
    wanted = min(max(1, round(share * len(records))), HELD_OUT_AT_MOST)
    keys = sorted(sizes)
    random.Random(f"{seed} {name}").shuffle(keys)
    chosen: set[tuple[int, Any]] = set()
    count = 0
    for key in (key for key in keys if sizes[key] <= wanted):
        if count >= wanted:
            break
        chosen.add(key)
        count += sizes[key]
    if not chosen:
        chosen.add(min(keys, key=lambda key: sizes[key]))
    kept = [record for record in records if _key(record) not in chosen]
    return kept, [record for record in records if _key(record) in chosen]


def _group(record: Any) -> str | None:
    group: str | None = getattr(record, "group", None)
    return group


def _key(record: Any) -> tuple[int, Any]:
    """The group of a record; of one without a group among grouped ones, its source."""
    group = _group(record)
    return (1, record.source) if group is None else (0, group)


def settle_overlap(splits: Splits, overlap: Overlap) -> Splits:
    """Handle the records of ``valid`` and ``test`` whose source also occurs in ``train``, letter by letter.

    "keep": they stay, and a note counts them; "drop_test": they are dropped; "drop_train": the training records with these
    sources are dropped; "error": they are refused.
    """
    trained = {record.source for record in splits.train}
    shared = {name: _shared(getattr(splits, name), trained) for name in ("valid", "test")}
    shared = {name: sources for name, sources in shared.items() if sources}
    if not shared:
        return splits
    if overlap == "drop_train":
        return _without_trained(splits, set().union(*shared.values()))
    notes = list(splits.notes)
    kept: dict[str, Sequence[Any]] = {"valid": splits.valid, "test": splits.test}
    for name, sources in shared.items():
        common = sum(record.source in sources for record in kept[name])
        note = f"{name}: the sources of {common:,} of {len(kept[name]):,} records also occur in train"
        if overlap == "error":
            example = repr(min(sources, key=lambda source: (len(source), source)))
            shown = example if len(example) <= 60 else f"{example[:59]}…"
            raise SaccadeError(f"{note}, such as {shown}: data.overlap may drop or keep them")
        if overlap == "keep":
            notes.append(f"{note} (data.overlap may drop them)")
            continue
        kept[name] = [record for record in kept[name] if record.source not in sources]
        if not kept[name]:
            raise SaccadeError(f"{note}: with data.overlap: drop_test nothing is left of it")
        notes.append(f"{note}: dropped from {name}, {len(kept[name]):,} are left")
    return Splits(splits.train, kept["valid"], kept["test"], tuple(notes))


def _shared(records: Sequence[Any], trained: set[Any]) -> set[Any]:
    return {record.source for record in records if record.source in trained}


def _without_trained(splits: Splits, sources: set[Any]) -> Splits:
    kept = [record for record in splits.train if record.source not in sources]
    dropped = f"train: {len(splits.train) - len(kept):,} of {len(splits.train):,} records have sources of valid or test"
    if not kept:
        raise SaccadeError(f"{dropped}: with data.overlap: drop_train nothing is left to train on")
    return replace(splits, train=kept, notes=(*splits.notes, f"{dropped}: dropped, {len(kept):,} are left"))


def fingerprint(splits: Splits) -> str:
    """A checksum of all records: a run resumes only on the data and the splits that it began with."""
    return _checksum(splits.train, splits.valid, splits.test)


def checksum(records: Sequence[Any]) -> str:
    """A checksum of records in their order, to compare them with others."""
    return _checksum(records)


def _checksum(*parts: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for records in parts:
        # Record by record, to the same bytes as the JSON of all of them, which would be as large as the data.
        for number, record in enumerate(records):
            digest.update(f"{', ' if number else '['}{json.dumps(asdict(record))}".encode())
        digest.update(b"]" if records else b"[]")
    return digest.hexdigest()
