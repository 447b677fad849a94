"""Point: learn to choose input elements in order (here: sort numbers), and see the weights that are the output.

Run `python examples/point.py [FOLDER]`: some seconds on a CPU.
"""

import random
import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of {"points": …, "order": …}; positions count from 0. For files, leave `data` out and write a recipe
#    with `data: {train: points.jsonl}`, one such object per line.
draw = random.Random(1)
lists = [[round(draw.random(), 3) for _ in range(4)] for _ in range(3000)]
records = [{"points": numbers, "order": sorted(range(4), key=numbers.__getitem__)} for numbers in lists]

# 2. Train: a shipped recipe with our data.
bundle = saccade.train(
    "pointer_sorting",
    data={"train": records[:2800], "valid": records[2800:2900], "test": records[2900:]},
    folder=folder / "run",
    model={"hidden": 32},
    train={"epochs": 3, "batch_records": 32, "device": "cpu"},
)

# 3. Predict the order of new numbers, and record where the network pointed.
numbers = [0.7, 0.1, 0.9, 0.4]
prediction = bundle.predict([numbers], lens=saccade.Lens())[0]
print(numbers, "→", [numbers[position] for position in prediction.value])

# 4. Look: one row per step; the darkest cell is the number that was chosen.
prediction.trace.save(folder / "point.html")
print("open", folder / "point.html")
