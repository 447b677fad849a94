"""Captions: describe pictures, and see the place that every word came from.

Run `python examples/caption.py [FOLDER]`: some seconds on a CPU.
"""

import random
import sys
import tempfile
from pathlib import Path

import numpy as np

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of (picture, caption). A picture is an array here; it may be a file's name, bytes, a PIL image or a tensor.
#    For files, write a recipe with `data: {train: captions.csv, images: photos}`.
COLOURS = {"red": (220, 40, 40), "green": (40, 160, 70), "blue": (40, 90, 210)}
draw = random.Random(1)
pictures = []
for _ in range(240):
    (name, colour), row, column = draw.choice(list(COLOURS.items())), draw.randint(0, 1), draw.randint(0, 1)
    picture = np.full((16, 16, 3), draw.randint(200, 250), np.uint8)
    top, left, side = 8 * row + draw.randint(0, 2), 8 * column + draw.randint(0, 2), draw.randint(5, 6)
    picture[top : top + side, left : left + side] = colour
    pictures.append((picture, f"a {name} square {('above', 'below')[row]} on the {('left', 'right')[column]}"))

# 2. Train: Show, Attend and Tell, by a shipped recipe with our data.
model = {"channels": [32, 64], "hidden": 64, "embedding": 32, "alignment": 32}
settings = {"model": model, "train": {"epochs": 16, "batch_records": 16, "lr": 1e-2, "device": "cpu"}}
bundle = saccade.train("captions_shapes", pictures, folder=folder / "run", **settings, **{"data.image.size": 16})

# 3. Describe a picture, and record where the network looked.
prediction = bundle.predict(pictures[0][0], lens=saccade.Lens())[0]
print(f"{pictures[0][1]} → {prediction.value}")

# 4. Look at the regions of each word.
prediction.trace.save(folder / "caption.html")
print("open", folder / "caption.html")
