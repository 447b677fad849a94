"""Transcribes long recordings window by window: errors, times, memory and speed by length.

    python benchmarks/speech/long.py --run runs/listen_tones --minutes 2,12,60 [--chunk 3] [--out FILE.md]

RUN is a run of the recipe listen_tones. Each recording is one string of tones of that length, in a .wav file; it is transcribed
in a process of its own, whose greatest memory is what the operating system says. A tone is found if it is in the transcript; of
those that are found, "heard" are those whose attention lies within the tone, give or take two frames.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import wave
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name

TOLERANCE = 0.02  # seconds: two frames
PER_TONE = 0.112  # seconds of a tone with its pause, roughly


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--minutes", default="2,12,60")
    parser.add_argument("--chunk", type=float, default=3.0)
    parser.add_argument("--out", type=Path, help="the table, as Markdown")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--hear", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.make, float(options.minutes))
    elif options.hear:
        print(json.dumps(hear(options.run, options.hear, options.chunk)))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for minutes in options.minutes.split(","):
            file = Path(scratch) / f"{minutes}.wav"
            same = [sys.executable, __file__, "--run", str(options.run), "--chunk", str(options.chunk)]
            subprocess.run([*same, "--make", str(file), "--minutes", minutes], check=True)
            heard = subprocess.run([*same, "--hear", str(file)], check=True, stdout=subprocess.PIPE, text=True)
            rows.append(json.loads(heard.stdout.splitlines()[-1]))
            print(rows[-1], file=sys.stderr, flush=True)
            file.unlink()
    text = page(rows, options)
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def make(file: Path, minutes: float) -> None:
    """A string of tones of about so many minutes as a .wav file, with its true times beside it."""
    from saccade.data.toy.tones import Tones, generate

    count = round(minutes * 60 / PER_TONE)
    string = generate(Tones(train=1, valid=1, test=1, symbols=(count, count), seed=7))["test"][0]
    samples = string.draw()
    with wave.open(str(file), "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(string.rate)
        wav.writeframes((samples * 32767).round().astype("<i2").tobytes())
    file.with_suffix(".json").write_text(json.dumps(string.times), encoding="utf-8")


def hear(run: Path, file: Path, chunk: float) -> dict[str, Any]:
    """Transcribes a file, and compares it with the truth."""
    import saccade

    bundle = saccade.load(run, device="cpu")
    saccade.transcribe(bundle, (np.zeros(16_000, np.float32), 16_000))  # what is made on first use
    before, start = peak(), time.perf_counter()
    transcript = saccade.transcribe(bundle, file, chunk=chunk)
    seconds = time.perf_counter() - start
    after = peak()
    times = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    return {
        "minutes": transcript.seconds / 60, "tones": len(times), "seconds": seconds,
        "before": before, "after": after, "file": file.stat().st_size / 2**20, **judged(transcript.pieces, times),
    }  # fmt: skip


def peak() -> float:
    """The greatest memory of this process so far, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def judged(pieces: Any, times: Any) -> dict[str, float]:
    """The character error rate, and how many of the tones that are found were heard within their true times."""
    from rapidfuzz.distance import Levenshtein

    written, true = "".join(piece.text for piece in pieces), "".join(symbol for symbol, _, _ in times)
    edits = Levenshtein.opcodes(written, true)
    pairs = [
        (one, other)
        for edit in edits
        if edit.tag == "equal"
        for one, other in zip(range(edit.src_start, edit.src_end), range(edit.dest_start, edit.dest_end), strict=True)
    ]
    heard = [times[other][1] - TOLERANCE <= pieces[one].at <= times[other][2] + TOLERANCE for one, other in pairs]
    starts = [abs(pieces[one].start - times[other][1]) for one, other in pairs]
    return {
        "cer": Levenshtein.distance(written, true) / max(1, len(true)),
        "heard": float(np.mean(heard)) if heard else 0.0,
        "start": float(np.median(starts)) if starts else 0.0,
    }


def page(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    lines = [
        f"# Long recordings, window by window ({date.today()})",
        "",
        (
            f"`python benchmarks/speech/long.py --run RUN --minutes {options.minutes} --chunk {options.chunk:g}` on "
            f"{cpu_name()} (OMP_NUM_THREADS={threads}). RUN is `saccade train listen_tones`, trained on strings of 5 to "
            "10 tones. Each recording is one string of random tones, in noise, as a .wav file. CER: errors per true tone. "
            "Heard: of the tones that were written right, those whose attention lies within the true tone ± 20 ms. Start: the "
            "median distance from where the attention begins to where the tone does. Memory: the "
            "greatest of the process, after one second was transcribed and after all of it."
        ),
        "",
        "| minutes | tones | file | CER | heard | start | memory | seconds | real-time factor |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['minutes']:.1f} | {row['tones']:,} | {row['file']:.0f} MiB | {100 * row['cer']:.2f} % | "
        f"{100 * row['heard']:.1f} % | {1000 * row['start']:.0f} ms | {row['before']:.0f} → {row['after']:.0f} MiB | "
        f"{row['seconds']:.0f} | {row['seconds'] / (60 * row['minutes']):.3f} |"
        for row in rows
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
