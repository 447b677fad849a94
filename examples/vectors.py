"""Word vectors: learn one vector per word from raw text, find the nearest words, and draw the vectors.

Run `python examples/vectors.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import saccade
from saccade.api import save_vectors

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: the built-in toy source `topics`. Your own texts: data=["a text", …], or a recipe with `data: {train: texts.txt}`.
# 2. Train: skip-gram, by a shipped recipe, on 2,000 documents. The run is written to `folder`.
settings = {"data.topics.train": 2000, "train.epochs": 3, "train.threads": 1, "train.device": "cpu"}
bundle = saccade.train("skipgram_topics", folder=folder / "run", **settings)

# 3. Predict: the nearest words, with their cosines.
nearest = bundle.predict("dog")[0].choices[0]
print("dog:", {word: round(cosine, 3) for word, cosine in list(nearest.items())[:4]})

# 4. Look: the vectors as a text file (GloVe's format), and some of them on their first two principal components.
save_vectors(folder / "run", folder / "vectors.txt")
rows = dict(line.split(" ", 1) for line in (folder / "vectors.txt").read_text(encoding="utf-8").splitlines())
words = ["dog", "cat", "horse", "king", "queen", "truck", "car", "train", "river", "lake", "hat", "coat"]
vectors = np.array([np.array(rows[word].split(), dtype=float) for word in words])
centred = vectors - vectors.mean(axis=0)
places = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
figure = Figure()
axes = figure.subplots()
axes.scatter(*places.T)
for word, place in zip(words, places, strict=True):
    axes.annotate(word, place)
figure.savefig(folder / "vectors.png")
print("open", folder / "vectors.png")
