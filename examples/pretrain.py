"""Pre-train a small BERT on raw text, fill a blank, and see which words it looked at.

Run `python examples/pretrain.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: the built-in toy source `topics`, made small. Your own texts: data=["a text . more of it .", …],
#    or a recipe with `data: {train: texts.txt}`.
small = {"data.topics.train": 300, "data.topics.valid": 40, "data.topics.test": 40}

# 2. Train: masked words and next sentences, with a network of one layer.
bundle = saccade.train(
    "bert_topics", folder=folder / "bert", model={"layers": 1, "width": 32, "feed_forward": 64},
    train={"epochs": 8, "warmup": 20, "lr": 5e-3, "threads": 1, "device": "cpu"}, **small
)  # fmt: skip

# 3. Predict: the likeliest words of a blank, and where the network looked.
prediction = bundle.predict("[MASK] dogs wait .", lens=saccade.Lens())[0]
print(prediction.value, {word: round(p, 3) for word, p in list(prediction.choices[0].items())[:3]})

# 4. Look.
prediction.trace.save(folder / "pretrain.html")
print("open", folder / "pretrain.html")
