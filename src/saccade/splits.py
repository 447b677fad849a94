"""Records to train on, to choose by and to report on. A split that is not given is held out of the training records by a
seeded draw; records with the same source go to the same side, so that nothing held out was trained on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saccade.errors import SaccadeError

HELD_OUT_AT_MOST = 2000


@dataclass(frozen=True)
class Splits:
    """Three lists of records (dataclasses with a ``source``); ``notes`` says what was held out."""

    train: Sequence[Any]
    valid: Sequence[Any]
    test: Sequence[Any]
    notes: tuple[str, ...] = ()


def hold_out(records: Mapping[str, Sequence[Any]], share: float, seed: int) -> Splits:
    """Fill in ``valid`` and ``test`` from ``train`` where they are missing."""
    notes = []
    for name in ("valid", "test"):
        if name in records:
            continue
        train, held = _draw(records["train"], share, seed, name)
        if not train or not held:
            raise SaccadeError(
                f"{len(records['train'])} training records are too few to hold out a {name} set: "
                f"give data.{name}, or more records"
            )
        records = {**records, "train": train, name: held}
        notes.append(f"{name}: {len(held):,} records held out of train (no data.{name} was given)")
    return Splits(records["train"], records["valid"], records["test"], tuple(notes))


def _draw(records: Sequence[Any], share: float, seed: int, name: str) -> tuple[list[Any], list[Any]]:
    sources = sorted({record.source for record in records})
    random.Random(f"{seed} {name}").shuffle(sources)
    chosen = set(sources[: min(max(1, round(share * len(sources))), HELD_OUT_AT_MOST)])
    kept = [record for record in records if record.source not in chosen]
    return kept, [record for record in records if record.source in chosen]
