"""Classify: learn a label for each text, predict, and see which words decided.

Run `python examples/classify.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of (text, label). A list of dicts or a DataFrame with the columns `text` and `label` works too.
#    For files, leave `data` out and write a recipe with `data: {train: reviews.csv, columns: {text: …, label: …}}`.
GOOD, BAD = ["lovely", "great", "fresh", "superb"], ["awful", "dull", "stale", "poor"]
reviews = [
    (f"the {dish} at this {place} was {word} , said {who}", "praise" if word in GOOD else "blame")
    for dish in ["soup", "fish", "cake"]
    for place in ["bar", "inn", "cafe"]
    for word in [*GOOD, *BAD]
    for who in ["anna", "tom"]
]

# 2. Train: a shipped recipe with our data. A part of the data is held out for validation and test.
bundle = saccade.train(
    "attentive_opinions",
    data=reviews,
    folder=folder / "run",
    train={"epochs": 6, "lr": 1e-2, "batch_records": 16, "warmup": 5, "device": "cpu"},
)

# 3. Predict, and record where the network looked.
prediction = bundle.predict("the fish at this inn was stale , said tom", lens=saccade.Lens())[0]
print(prediction.value, {label: round(p, 3) for label, p in prediction.probabilities.items()})

# 4. Look: each word with its weight, as a web page and as a picture.
prediction.trace.save(folder / "classify.html")
prediction.trace.save(folder / "classify.png")
print("open", folder / "classify.html")
