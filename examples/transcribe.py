"""Transcription: hear strings of tones, see when each was heard, and write subtitles.

Run `python examples/transcribe.py [FOLDER]`: some seconds on a CPU.
"""

import random
import sys
import tempfile
from pathlib import Path

import numpy as np

import saccade

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# 1. Data: a list of (recording, transcript). A recording is (samples, rate) here; it may be a file's name or its bytes.
#    For files, write a recipe with `data: {train: talks.tsv}`, a table with columns audio and text.
RATE, PITCHES, recordings = 8000, {"a": 300, "b": 480, "c": 770, "d": 1200}, []
draw, noise = random.Random(1), np.random.default_rng(1)
for _ in range(400):
    text, sound = "".join(draw.choices("abcd", k=draw.randint(2, 4))), []
    for letter in text:
        turns = np.arange(draw.randint(480, 800)) * PITCHES[letter] / RATE
        sound += [0.3 * np.sin(2 * np.pi * turns), np.zeros(160)]
    recordings.append(((np.concatenate(sound) + 0.01 * noise.standard_normal(sum(map(len, sound))), RATE), text))

# 2. Train: the listener of Chorowski et al., by a shipped recipe with our data.
model = {"hidden": 32, "state": 32, "alignment": 32, "filters": 4, "reach": 10, "dropout": 0}
settings = {"model": model, "train": {"epochs": 14, "batch_records": 16, "lr": 5e-3, "device": "cpu"}}
bundle = saccade.train("listen_tones", recordings, folder=folder / "run", **settings, **{"data.audio.rate": RATE})

# 3. Transcribe a recording, with the times of its words.
talk = saccade.transcribe(bundle, recordings[0][0])
talk.save(folder / "heard.srt")
print(f"{recordings[0][1]} → {talk.text}, from {talk.words[0].start:.1f} s")

# 4. Hear it, and look at the frames of each letter.
bundle.predict([recordings[0][0]], lens=saccade.Lens())[0].trace.save(folder / "heard.html")
print("open", folder / "heard.html")
