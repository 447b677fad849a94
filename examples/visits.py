"""Predict an outcome from visits, and see which codes it follows from.

    python examples/visits.py

The table is made here: code "I50" follows where "I10" and "E11" stand in one visit. Put your own in its place.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import saccade

draw = random.Random(1)
patients = []
for number in range(600):
    visits = [
        {"time": 40 * visit + draw.randint(0, 30), "codes": draw.sample(["I10", "E11", "J45", "K21", "M54", "Z00"], 2)}
        for visit in range(draw.randint(2, 7))
    ]
    outcome = any({"I10", "E11"} <= set(visit["codes"]) for visit in visits)
    patients.append({"patient": number, "visits": visits, "outcome": outcome})

with tempfile.TemporaryDirectory() as folder:
    bundle = saccade.train(
        "retain_visits", patients, folder=Path(folder) / "run", train={"epochs": 30}, **{"data.hold_out": 0.2}
    )
    print({name: round(value, 3) for name, value in bundle.figures["test"].items()})
    patient = {"visits": [{"time": 0, "codes": ["J45"]}, {"time": 31, "codes": ["I10", "E11"]}]}
    prediction = bundle.predict(patient, lens=saccade.Lens())[0]
    print(f"risk {prediction.value:.3f}")
    prediction.trace.show()
