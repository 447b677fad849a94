"""Writes the PhysioNet/CinC Challenge 2012 as patients with visits: four hours are a visit, binned measurements its codes.

    python benchmarks/visits/prepare.py FOLDER          # writes FOLDER/set-a.jsonl and FOLDER/set-b.jsonl
    export PHYSIONET2012=FOLDER && saccade train retain_physionet2012

Every measurement of the first 48 hours becomes a code by its variable and the bin that it falls into; bins are bounded by the
5, 25, 75 and 95 % quantiles of set a. A visit holds the different codes of its four hours, and the general descriptors (age,
sex, kind of ICU, weight) stand in the first. The outcome is death in hospital. Reads $SACCADE_DATA/physionet2012.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np

HOURS, SHARES = 4, (0.05, 0.25, 0.75, 0.95)
NAMED = {
    "Gender": {0: "female", 1: "male"},
    "ICUType": {1: "coronary", 2: "cardiac surgery", 3: "medical", 4: "surgical"},
}


def codes_of(names: list[str], variables: np.ndarray, values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """A code per event, empty where a value is missing (−1); bins are bounded by the quantiles of the training events."""
    codes = np.full(len(values), "", dtype=object)
    for number, name in enumerate(names):
        mine = variables == number
        if name in NAMED:
            codes[mine] = [f"{name} {NAMED[name][int(v)]}" if int(v) in NAMED[name] else "" for v in values[mine]]
            continue
        known = mine & (values >= 0)
        edges = np.unique(np.quantile(values[known & train], SHARES).round(2))
        spans = [
            f"< {edges[0]:g}",
            *(f"{low:g} to {high:g}" for low, high in pairwise(edges)),
            f"≥ {edges[-1]:g}",
        ]
        labels = np.array([name] if len(edges) == 1 else [f"{name} {span}" for span in spans], dtype=object)
        places = (
            np.zeros(known.sum(), dtype=int) if len(edges) == 1 else np.searchsorted(edges, values[known], side="right")
        )
        codes[known] = labels[places]
    return codes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    data = np.load(Path(os.environ["SACCADE_DATA"]) / "physionet2012" / "physionet2012_set_ab.npz")
    offsets, minutes, sets = data["offsets"], data["minutes"], data["set"]
    died = data["outcomes"][:, [str(name) for name in data["outcome_names"]].index("In-hospital_death")]
    train = np.repeat(sets == "a", np.diff(offsets))
    codes = codes_of([str(name) for name in data["var_names"]], data["var"], data["value"], train)
    for name in ("a", "b"):
        with (folder / f"set-{name}.jsonl").open("w", encoding="utf-8") as file:
            for stay in np.flatnonzero(sets == name):
                visits: dict[int, dict[str, None]] = {}
                for event in range(offsets[stay], offsets[stay + 1]):
                    if codes[event] and minutes[event] < 48 * 60:
                        visits.setdefault(int(minutes[event]) // (60 * HOURS), {})[codes[event]] = None
                listed = [{"time": round(when * HOURS / 24, 4), "codes": list(visits[when])} for when in sorted(visits)]
                record = {"patient": str(data["record_id"][stay]), "visits": listed, "outcome": int(died[stay])}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
