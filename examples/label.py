"""Label: learn a tag for each word, predict tags and spans, and see which words each tag came from.

Run `python examples/label.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of (words, tags). For files, leave `data` out and write a recipe with `data: {train: names.conll}`.
sentences = []
for first, last in [("Anna", "Costa"), ("Tom", "Reed"), ("Mia", "Lopes"), ("Leo", "Nunes")]:
    for town in ["Porto", "York", "Paulo", "Orleans", "Delhi"]:
        words = [first, last, "lives", "in", "New", town, "."]
        sentences.append((words, ["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O"]))
        sentences.append((["In", town, "I", "met", first, "."], ["O", "B-LOC", "O", "O", "B-PER", "O"]))

# 2. Train: a shipped recipe, changed to tags that mark spans (BIO) and to a CRF as output layer.
spans = {"data.scheme": "bio", "data.learn": "bioes", "model.output": "crf", "metrics": ["f1"], "train.watch": "f1"}
bundle = saccade.train(
    "tagger_repeats", data=sentences, folder=folder / "run", **spans, **{"train.epochs": 15, "train.batch_records": 8}
)

# 3. Predict, and record where the network looked.
prediction = bundle.predict("Mia Reed lives in New York .", lens=saccade.Lens())[0]
print([(span["text"], span["type"]) for span in prediction.spans])

# 4. Look: one row per word, with the words that it attended to.
prediction.trace.save(folder / "label.html")
print("open", folder / "label.html")
