"""Memory and time of transcribing one hour of sound in windows, and whether what is written is in step with the sound.

    python benchmarks/speech/hour.py --run RUN --out TABLE.md [--minutes 1,10,60] [--chunk 2] [--overlap 0.5] [--device cpu]

RUN is a trained run of ``listen_tones``. Tones are joined into one WAV file, which is written piece by piece. A process of its
own transcribes it with ``saccade.transcribe`` and says its memory on the way; the times of what it wrote are compared with
the true ones, symbol by symbol of the best alignment of both texts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from runs import heading, table

STEP = 0.1  # seconds: what is written further from the true time is out of step
STRING = 100  # tones that are drawn at a time
SHARES = (0.25, 0.5, 0.75, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", default="1,10,60")
    parser.add_argument(
        "--chunk", type=float, default=2.0, help="seconds of a window: about as long as training's strings"
    )
    parser.add_argument("--overlap", type=float, default=0.5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file is not None:
        transcribe(options)
        return
    rows = []
    for minutes in map(float, options.minutes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "long.wav")
            times = write(file, options.run, minutes)
            words = [*sys.argv[1:], "--file", str(file)]
            done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"transcribing {minutes:g} minutes failed:\n{done.stderr}")
            found = json.loads(done.stdout.splitlines()[-1])
            megabytes = file.stat().st_size / 2**20
        wrong, late = compared(times, found["pieces"])
        memory = [f"{found['memory'][str(share)]:.0f}" for share in SHARES]
        rows.append(
            [f"{minutes:g}", f"{megabytes:.0f}", f"{found['before']:.0f}", *memory, f"{found['peak']:.0f}",
             f"{found['seconds'] / (60 * minutes):.4f}", f"{100 * wrong:.2f}", f"{100 * late:.2f}"]
        )  # fmt: skip
        print(rows[-1], flush=True)
    head = ["minutes", "file, MiB", "MiB before", *(f"at {100 * share:.0f} %" for share in SHARES), "peak MiB",
            "real-time factor", "symbols wrong, %", f"symbols more than {STEP:g} s out of step, %"]  # fmt: skip
    about = f"Windows of {options.chunk:g} s that overlap by {options.overlap:g} s. Memory is that of the process with PyTorch."
    text = "\n".join([*heading("Speech: one hour of sound", options), about, "", *table(head, rows), ""])
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def write(file: Path, run: Path, minutes: float) -> list[tuple[str, float, float]]:
    """A WAV file of so many minutes of tones as the run was trained on; the true times of all."""
    import numpy as np
    import yaml

    from saccade.data.toy.tones import Tones, generate

    given = yaml.safe_load((run / "recipe.yaml").read_text(encoding="utf-8"))["data"].get("tones") or {}
    settings = Tones(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
    settings = replace(settings, train=1, valid=1, test=round(minutes * 60) // 4, symbols=(STRING, STRING), seed=99)
    times: list[tuple[str, float, float]] = []
    written = 0
    with wave.open(str(file), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(settings.rate)
        for string in generate(settings)["test"]:
            if written >= minutes * 60 * settings.rate:
                break
            start = written / settings.rate
            times += [(symbol, start + first, start + last) for symbol, first, last in string.times]
            samples = string.draw()
            sound.writeframes((samples * 32767).astype(np.int16).tobytes())
            written += len(samples)
    return times


def transcribe(options: argparse.Namespace) -> None:
    """Transcribe the file, and print what was written when, and this process's memory on the way."""
    import resource

    import saccade

    bundle = saccade.load(options.run, device=options.device)
    memory: dict[str, float] = {}

    def progress(share: float) -> None:
        for at in SHARES:
            if share >= at - 1e-9 and str(at) not in memory:
                memory[str(at)] = resident()

    before, started = resident(), time.perf_counter()
    found: Any = saccade.transcribe(
        bundle, options.file, chunk=options.chunk, overlap=options.overlap, progress=progress
    )
    seconds = time.perf_counter() - started
    pieces = [(piece.text, piece.at) for piece in found.pieces]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"before": before, "memory": memory, "peak": peak, "seconds": seconds, "pieces": pieces}))


def resident() -> float:
    """MiB of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * 4096 / 2**20


def compared(times: list[tuple[str, float, float]], pieces: list[tuple[str, float]]) -> tuple[float, float]:
    """The error rate of the symbols, and of those that are right the share that is out of step."""
    from rapidfuzz.distance import Levenshtein

    truth, written = [symbol for symbol, _, _ in times], [text.strip() for text, _ in pieces]
    edits = Levenshtein.opcodes(truth, written)
    wrong = late = right = 0
    for edit in edits:
        if edit.tag != "equal":
            wrong += max(edit.src_end - edit.src_start, edit.dest_end - edit.dest_start)
            continue
        for one, other in zip(range(edit.src_start, edit.src_end), range(edit.dest_start, edit.dest_end), strict=True):
            _, start, end = times[one]
            late += not start - STEP <= pieces[other][1] <= end + STEP
            right += 1
    return wrong / len(truth), late / max(right, 1)


if __name__ == "__main__":
    main()
