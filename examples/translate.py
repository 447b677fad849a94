"""Translate: learn text → text from pairs, predict, and see which input each output came from.

Run `python examples/translate.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of (source, target). A list of dicts or a DataFrame with these two columns works too.
#    For files, leave `data` out and write a recipe with `data: {train: pairs.csv}`.
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
pairs = [(f"{ten}-{one}", f"{t}{o}") for t, ten in enumerate(TENS, 2) for o, one in enumerate(ONES, 1)]

# 2. Train: a shipped recipe, our data, a few settings changed. The run is written to `folder`.
bundle = saccade.train(
    "rnnsearch_dates",
    data={"train": pairs[::2] + pairs[1::4], "valid": pairs[3::4], "test": pairs[3::4]},
    folder=folder / "run",
    model={"hidden": 48, "embedding": 24},
    train={"epochs": 40, "batch_records": 18, "warmup": 10, "lr": 1e-2, "device": "cpu"},
)

# 3. Predict, and record where the network looked.
prediction = bundle.predict("forty-two", lens=saccade.Lens())[0]
print("forty-two →", prediction.value)

# 4. Look: a web page that plays the decoding step by step, and a picture of the alignment.
prediction.trace.save(folder / "translate.html")
prediction.trace.save(folder / "translate.png")
print("open", folder / "translate.html")
