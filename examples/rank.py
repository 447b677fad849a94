"""Rank: learn to order candidate answers to a question, predict, and see which words matched.

Run `python examples/rank.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of (question, candidates, relevance). For files, leave `data` out and write a recipe with
#    `data: {train: answers.csv}`: one row per candidate, with the columns question, candidate and relevance.
THINGS, COLOURS = ["dog", "harp", "boat", "bike", "hat"], ["red", "blue", "grey", "green", "black", "white"]
questions = [
    (f"who has a {colour} {thing} ?", [f"my {t} is {colour}" for t in THINGS], [int(t == thing) for t in THINGS])
    for colour in COLOURS
    for thing in THINGS
]

# 2. Train: a shipped recipe with our data, whole questions in each split.
bundle = saccade.train(
    "siamese_facts",
    data={"train": questions[:20], "valid": questions[20:25], "test": questions[25:]},
    folder=folder / "run",
    train={"epochs": 40, "warmup": 5, "device": "cpu"},
)

# 3. Predict: the best candidate, all of them with their probabilities, and where the network looked.
question = {"question": "who has a red bike ?", "candidates": ["my hat is red", "my bike is red", "my dog is red"]}
prediction = bundle.predict(question, lens=saccade.Lens())[0]
print(prediction.value, {text: round(p, 3) for text, p in prediction.probabilities.items()})

# 4. Look: which words of the question each word of the best candidate attended to.
prediction.trace.save(folder / "rank.html")
print("open", folder / "rank.html")
