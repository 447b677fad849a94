"""Generate: train a tiny SAGAN on drawn shapes, draw new ones from seeds, and see where each place drew from.

Run `python examples/generate.py [FOLDER]`: some seconds on a CPU, after which the pictures are rough.
"""

import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Train: a shipped recipe, cut short. With your own pictures: saccade.train("sagan_twins", [(picture, label), …], …)
#    or a recipe with `data: {train: FOLDER}`, one folder of pictures per label.
bundle = saccade.train(
    "sagan_twins",
    folder=folder / "run",
    model={"channels": 8, "noise": 16},
    train={"updates": 40, "device": "cpu", "threads": 1},
    **{"data.twins.train": 640, "data.twins.valid": 40, "data.twins.test": 40},
)

# 2. Draw: the class and the seed decide the picture. Its pixels are an array [rows, columns, 3].
prediction = bundle.predict("circle 7", lens=saccade.Lens())[0]
print(prediction.label, prediction.seed, prediction.pixels.shape)

# 3. Look: click a place of the picture to see which places it was drawn from.
prediction.trace.save(folder / "circle.html")
print("open", folder / "circle.html")
