"""Visits: predict an outcome from a patient's visits, and see which codes it follows from.

Run `python examples/visits.py [FOLDER]`: some seconds on a CPU.
"""

import random
import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of {"patient", "visits", "outcome"}. Here the outcome is true if one visit has both I10 and E11.
#    For files, leave `data` out and write a recipe with `data: {train: visits.csv}`.
CODES = ["I10", "E11", "J45", "K21", "M54", "Z00"]
draw = random.Random(1)
patients = []
for number in range(600):
    visits = [{"time": 40 * n + draw.randint(0, 30), "codes": draw.sample(CODES, 2)} for n in range(draw.randint(2, 7))]
    outcome = any({"I10", "E11"} <= set(visit["codes"]) for visit in visits)
    patients.append({"patient": number, "visits": visits, "outcome": outcome})

# 2. Train: RETAIN, by a shipped recipe with our data.
bundle = saccade.train(
    "retain_visits", patients, folder=folder / "run", train={"epochs": 30, "device": "cpu"}, **{"data.hold_out": 0.2}
)

# 3. Predict the risk of a new patient, and record where the network looked.
patient = {"visits": [{"time": 0, "codes": ["J45"]}, {"time": 31, "codes": ["I10", "E11"]}]}
prediction = bundle.predict(patient, lens=saccade.Lens())[0]
print(f"risk {prediction.value:.3f}")

# 4. Look: the visits on a timeline, with the contribution of each code.
prediction.trace.save(folder / "visits.html")
print("open", folder / "visits.html")
