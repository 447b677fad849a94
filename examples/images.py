"""Pictures: train a small CNN with self-attention on labelled pictures, and see where it looks.

Run `python examples/images.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of (picture, label). A picture is a file's name, its bytes, a PIL image or an array [rows, columns, 3].
#    For files, leave `data` out and write a recipe with `data: {train: FOLDER}`, one folder of pictures per label.
draw = np.random.default_rng(1)
pictures = []
for number in range(200):
    picture = draw.integers(0, 120, (16, 16, 3), dtype=np.uint8)
    place = draw.integers(1, 14)
    (picture if number % 2 else picture.swapaxes(0, 1))[place : place + 2] = 230
    pictures.append((picture, "across" if number % 2 else "down"))

# 2. Train: a shipped recipe with our data.
changes = {"data.image.size": 16, "data.hold_out": 0.2, "model.attention": 8}
settings = {"epochs": 6, "batch_records": 8, "device": "cpu", "threads": 1}
bundle = saccade.train("dots_attention", pictures, folder=folder / "run", train=settings, **changes)

# 3. Predict the label of a new picture, and record where the network looked.
picture = np.full((16, 16, 3), 60, np.uint8)
picture[9:11] = 230
prediction = bundle.predict(picture, lens=saccade.Lens())[0]
print(prediction.value, {label: round(share, 2) for label, share in prediction.probabilities.items()})

# 4. Look: click a place of the picture.
prediction.trace.save(folder / "picture.html")
print("open", folder / "picture.html")
