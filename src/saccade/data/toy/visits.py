"""Generates a cohort with a known cause: a patient has the outcome if code c7 occurs in one of the last three visits.

    2020-01-07 c3 c12   2020-02-19 c7   2020-03-02 c5   2020-06-30 c1 c9 c22        →   1
    2020-01-11 c7       2020-01-20 c2   2020-05-09 c4 c8   2020-05-12 c2   …        →   0

Every second patient has the outcome. Among the others every second one has c7 too, but longer ago, so that it is not enough to
find the code: when it was written down counts. All other codes are chance, and so are the intervals between visits.
:func:`deciding` says which visits hold the cause.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

CAUSE, RECENT = "c7", 3
START = date(2020, 1, 1)
EXAMPLES = (
    {"visits": [{"time": "2020-01-07", "codes": ["c3", "c12"]}, {"time": "2020-02-19", "codes": ["c7"]},
                {"time": "2020-03-02", "codes": ["c5"]}, {"time": "2020-06-30", "codes": ["c1", "c9", "c22"]}]},
    {"visits": [{"time": "2020-01-11", "codes": ["c7"]}, {"time": "2020-01-20", "codes": ["c2", "c16"]},
                {"time": "2020-05-09", "codes": ["c4", "c8"]}, {"time": "2020-05-12", "codes": ["c2"]},
                {"time": "2020-11-03", "codes": ["c19", "c11"]}]},
    {"visits": [{"time": "2020-04-02", "codes": ["c10"]}, {"time": "2020-04-05", "codes": ["c6", "c7", "c20"]}]},
)  # fmt: skip


@dataclass(frozen=True)
class Cohort:
    """The number of patients, of visits per patient, of codes per visit and in all, and the random seed."""

    train: int = 1500
    valid: int = 200
    test: int = 400
    least: int = 4  # visits per patient
    most: int = 13
    codes: int = 3  # per visit at most, beside the cause
    vocabulary: int = 23
    seed: int = 1

    def __post_init__(self) -> None:
        limits = {
            "train": 2,
            "valid": 2,
            "test": 2,
            "least": RECENT + 1,
            "most": self.least,
            "codes": 1,
            "vocabulary": 8,
        }
        for name, smallest in limits.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be at least {smallest}: got {getattr(self, name)}")


def generate(cohort: Cohort) -> dict[str, list[dict[str, Any]]]:
    """The patients of each split: {"patient", "visits": [{"time", "codes"}, …], "outcome"}."""
    made: dict[str, list[dict[str, Any]]] = {}
    for split in ("test", "valid", "train"):
        draw = random.Random(f"{cohort.seed} visits {split}")  # seeding by text is the same in every process
        made[split] = [
            {"patient": f"{split}-{number}", **_patient(draw, cohort, outcome=number % 2)}
            for number in range(getattr(cohort, split))
        ]
    return made


def _patient(draw: random.Random, cohort: Cohort, outcome: int) -> dict[str, Any]:
    others = [f"c{number}" for number in range(1, cohort.vocabulary + 1) if f"c{number}" != CAUSE]
    count = draw.randint(cohort.least, cohort.most)
    codes = [draw.sample(others, draw.randint(1, min(cohort.codes, len(others)))) for _ in range(count)]
    if outcome:
        codes[draw.randrange(count - RECENT, count)].append(CAUSE)
    elif draw.random() < 0.5:
        codes[draw.randrange(count - RECENT)].append(CAUSE)
    day = START + timedelta(days=draw.randint(0, 365))
    visits = []
    for written in codes:
        visits.append({"time": day.isoformat(), "codes": sorted(written, key=lambda code: int(code[1:]))})
        day += timedelta(days=1 + int(draw.expovariate(1 / 40)))
    return {"visits": visits, "outcome": outcome}


def deciding(visits: Sequence[Sequence[str]]) -> list[int]:
    """The numbers of the visits that contain the cause and decide the outcome.

    >>> deciding([["c7"], ["c1"], ["c7", "c2"], ["c3"], ["c4"]])
    [2]
    """
    first = max(0, len(visits) - RECENT)
    return [number for number in range(first, len(visits)) if CAUSE in visits[number]]
