"""Language model: learn to continue text, write a continuation, and see what each word looked back at.

Run `python examples/language.py [FOLDER]`: some seconds on a CPU.
"""

import sys
import tempfile
from pathlib import Path

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of texts. For files, leave `data` out and write a recipe with `data: {train: mine.txt}`.
ANIMALS = ["dog", "cat", "cow", "hen"]
texts = [
    f"the {a}{end} that the {b} sees sleep{'' if end else 's'} near the {c}"
    for a in ANIMALS
    for b in ANIMALS
    for c in ANIMALS
    for end in ["", "s"]
]

# 2. Train: a small Transformer from a shipped recipe, on our texts.
bundle = saccade.train(
    "transformer_language_agreement",
    data=texts,
    folder=folder / "run",
    model={"width": 32, "hidden": 64},
    train={"epochs": 8, "batch_records": 16, "warmup": 20, "threads": 1, "device": "cpu"},
)

# 3. Continue a prompt, and record where the network looked. The verb must agree with "hens", not with "cow".
prompt = "the hens that the cow sees"
prediction = bundle.predict(prompt, lens=saccade.Lens())[0]
print(prompt + prediction.value)

# 4. Look: every head of every layer, one row per word that was written.
prediction.trace.save(folder / "language.html")
print("open", folder / "language.html")
