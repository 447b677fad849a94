"""Training and decoding speed beside JoeyNMT 2.3, at the same sizes and batches, on the same text, one after the other.

    SACCADE_DATA=… PYTHONPATH=FOLDER_WITH_JOEYNMT python benchmarks/joeynmt/run.py --device cpu|cuda --logs DIR --out TABLE.md

Multi30k German → English, lower-cased and split into words beforehand, so both read the same tokens. Float32, AdamW, batches of
``--tokens`` padded tokens of the longer side (both count so), beam 5 with length penalty 1, a sentence done when five
hypotheses have ended (``stop: beam``), 256 sentences decoded together.
Three pairs of models (``--pairs``), all of ``--width``:

- a GRU with additive attention, and an LSTM with Luong's general score and input feeding: one layer, a bidirectional encoder.
  They are each other's nearest, not the same: JoeyNMT's "bahdanau" looks after the step, RNNsearch before it and through a
  maxout layer; parameters are in the table.
- a Transformer: 3 + 3 layers, 8 heads, pre-norm, feed-forward layers of four times the width, nothing tied, learning rate 5e-4.
  Here saccade's search keeps keys and values; JoeyNMT's reads all that was written anew at every step.

On a GPU saccade trains four times (``--ways``): live (``train.graphs=off``, every kernel launched from Python), then with
graphs in float32, TF32 and bfloat16; the loss beside the speed is the mean of its last window, which graphs must not change.
It decodes with the weights of the second, or of the first way that was asked for where that is none of them. Recording a graph
takes time where a shape of batch first comes, mostly in the first epoch (some 105 updates): ``--updates 400`` or more leaves it
to few windows.

Training speed is target tokens a second, by each tool's own log, over windows of ``--window`` updates, the first window left
out, the median of the rest; validation and checkpoints are not in it (JoeyNMT's log leaves them out itself; of saccade's the
first update of each epoch is left out, with the time before it). Decoding speed is sentences a second, by each tool's own clock
around the search, scoring left out, with the weights of the short training; in float32, but that what was trained in TF32 or
bfloat16 decodes with products in TF32. Those write outputs of different lengths, and time goes with length: so words a second
are given beside sentences a second. BLEU is that of the same outputs, by sacrebleu on words as they are. Each tool limits
outputs in its own way (100 words; 3 (S + 1) + 10).

``--greedy N`` also translates the first N test sentences greedily on one core of the CPU, with the same weights, wherever they
were trained: sentences per CPU-second, 32 together. JoeyNMT's CPU time is that of its search alone, saccade's that of the
whole prediction.

Rounds alternate between the tools. ``--logs`` keeps settings, logs and outputs; texts and networks go to ``--scratch``, a
folder that is removed at the end unless it is named.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from settings import (
    OURS,
    PAIRS,
    PEER,
    TOGETHER,
    TOGETHER_ON_A_CPU,
    WAYS,
    Pair,
    joey_config,
    joey_greedy,
    saccade_recipe,
    write_text,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name, device_name

HERE = Path(__file__).parent
Made = dict[str, float]


class Place:
    """Where one training keeps its files: logs that stay, and a folder for the network that does not."""

    def __init__(self, options: argparse.Namespace, tool: str, pair: Pair, number: int) -> None:
        name = f"{tool.lower().replace(', ', '-')}-{pair.ours}-{number}"
        logs: Path = options.logs
        scratch: Path = options.scratch
        self.logs, self.folder, self.text = logs / name, scratch / name, scratch / "text"

    def log(self, ending: str) -> Path:
        return self.logs.with_name(f"{self.logs.name}.{ending}")

    def write(self, ending: str, settings: dict[str, Any]) -> Path:
        file = self.log(ending)
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return file


# ---- JoeyNMT


def run_joey(options: argparse.Namespace, pair: Pair, place: Place) -> Made:
    settings = joey_config(options, pair, place.text, place.folder)
    config = place.write("yaml", settings)
    # --skip-test would leave no checkpoint behind; the test of ``train`` decodes once, ``test`` decodes again
    log = called([sys.executable, str(HERE / "peer.py"), "train", str(config), "--skip-test"], place.log("log"))
    speeds = [float(each) for each in re.findall(r"Tokens per Sec:\s+(\d+)", log)]
    parameters = int(re.search(r"Total params: (\d+)", log)[1])  # type: ignore[index]
    decoding, written = joey_decodes(place, config, "")
    seconds = [float(each) for each in re.findall(r"Generation took ([\d.]+)\[sec\]", decoding)]
    made = {"training": statistics.median(speeds[1:]), "decoding": len(written) / seconds[-1], "parameters": parameters,
            "words": words_each(written), "bleu": bleu(written, place.text / "test.en")}  # fmt: skip
    if options.greedy:
        config = place.write("greedy.yaml", joey_greedy(settings, place.text))
        decoding, written = joey_decodes(place, config, "greedy.", alone=True)
        seconds = [float(each) for each in re.findall(r"Search took ([\d.]+) CPU seconds", decoding)]
        made |= {"greedy": len(written) / seconds[-1], "greedy words": words_each(written)}
    return made


def joey_decodes(place: Place, config: Path, kind: str, *, alone: bool = False) -> tuple[str, list[str]]:
    """The log and what was written, which is kept."""
    found = place.folder / f"{kind}hyps"
    command = [sys.executable, str(HERE / "peer.py"), "test", str(config), "-o", str(found)]
    log = called(command, place.log(f"{kind}test.log"), alone=alone)
    shutil.copyfile(f"{found}.test", place.log(f"{kind}hyps"))
    return log, place.log(f"{kind}hyps").read_text(encoding="utf-8").splitlines()


# ---- saccade


class Update(NamedTuple):
    """A line of saccade's log; ``seconds`` since the beginning, validation and saving among them."""

    tokens: int
    seconds: float
    loss: float
    epoch: int


def window_speeds(rows: Sequence[Update], window: int) -> list[float]:
    """Target tokens a second in each window but the first. Between two epochs stand a validation and a checkpoint, which
    JoeyNMT's own log leaves out: the first update of an epoch, and the time since the one before it, are left out too."""
    speeds = []
    for start in range(window, len(rows) - window + 1, window):
        numbers = [number for number in range(start, start + window) if rows[number].epoch == rows[number - 1].epoch]
        seconds = sum(rows[number].seconds - rows[number - 1].seconds for number in numbers)
        speeds.append(sum(rows[number].tokens for number in numbers) / seconds)
    return speeds


def run_saccade(options: argparse.Namespace, pair: Pair, tool: str, place: Place) -> Made:
    recipe = place.write("yaml", saccade_recipe(options, pair, place.text, WAYS[options.device][tool]))
    command = [sys.executable, "-m", "saccade", "train", str(recipe), "--json", "--out", str(place.folder)]
    log = called(command, place.log("log"))
    for line in re.findall(r"training without CUDA graphs.*", log):
        print(f"{tool}, {pair.ours}: {line}", file=sys.stderr, flush=True)
    shutil.copyfile(place.folder / "log.csv", place.log("csv"))
    with place.log("csv").open(encoding="utf-8") as file:
        rows = [Update(int(row["tokens"]), float(row["seconds"]), float(row["loss"]), int(row["epoch"]))
                for row in csv.DictReader(file)]  # fmt: skip
    last = rows[-options.window :]
    loss = sum(row.tokens * row.loss for row in last) / sum(row.tokens for row in last)
    training = statistics.median(window_speeds(rows, options.window))
    made = {"training": training, "loss": loss, "parameters": float(parameters_of(place.folder))}
    if tool != (OURS if OURS in options.ways else options.ways[0]):
        return made
    found, written = saccade_decodes(options.device, place, "")
    made |= found | {"words": words_each(written), "bleu": bleu(written, place.text / "test.en")}
    if options.greedy:
        found, written = saccade_decodes("cpu", place, "greedy.", "--greedy", str(options.greedy))
        made |= found | {"greedy words": words_each(written)}
    return made


def saccade_decodes(device: str, place: Place, kind: str, *more: str) -> tuple[Made, list[str]]:
    """The speeds and what was written, which is kept."""
    outputs = place.log(f"{kind}hyps")
    command = [sys.executable, str(Path(__file__)), "--decode", str(place.folder), "--device", device, *more]
    log = called([*command, "--out", str(outputs)], place.log(f"{kind}test.log"), alone=bool(more))
    for line in re.findall(r".*Warning: .*", log):
        print(f"{place.logs.name}: {line}", file=sys.stderr, flush=True)
    (found,) = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    return found, outputs.read_text(encoding="utf-8").splitlines()


def parameters_of(folder: Path) -> int:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def decode(folder: str, device: str, greedy: int, outputs: Path) -> None:
    """Sentences a second of a saccade run, beam 5, 256 together: reading the texts is part of it, as it is for JoeyNMT.

    With ``greedy``, so many of them by a beam of 1, sentences per CPU-second."""
    from saccade.api import load
    from saccade.nn.search.beam_search import Search
    from saccade.tasks.decoding import Decodes

    Decodes.together = TOGETHER_ON_A_CPU if greedy else TOGETHER
    bundle = load(folder, device)
    if bundle.recipe.train.precision != "32":
        torch.set_float32_matmul_precision("high")
    texts = [pair.source for pair in bundle.task.load(bundle.recipe.data, bundle.recipe.folder, 1).test]
    clock, speeds = time.process_time if greedy else time.perf_counter, []
    texts, search = (texts[:greedy], Search(beam=1)) if greedy else (texts, None)
    for _ in range(1 if greedy else 2):  # the first call of a process also compiles kernels and records steps
        begin = clock()
        predictions = bundle.predict(texts, search=search)
        speeds.append(len(texts) / (clock() - begin))
    outputs.write_text("".join(f"{prediction.value}\n" for prediction in predictions), encoding="utf-8")
    print(json.dumps({"greedy": speeds[0]} if greedy else {"decoding": speeds[0], "again": speeds[1]}))


# ---- Both


def called(command: list[str], log: Path, *, alone: bool = False) -> str:
    """What a command prints, kept in ``log``; ``alone``: it has one thread on one core."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} if alone else {}
    pin = one_core if alone and hasattr(os, "sched_setaffinity") else None
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | threads, preexec_fn=pin
    )
    text = done.stdout + done.stderr
    log.write_text(f"$ {' '.join(command)}\n{text}", encoding="utf-8")
    if done.returncode:
        sys.exit(f"{command}: exit status {done.returncode}\n{text[-3000:]}")
    return text


def one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def bleu(written: list[str], reference: Path) -> float:
    import sacrebleu

    references = reference.read_text(encoding="utf-8").splitlines()
    return float(sacrebleu.corpus_bleu(written, [references], tokenize="none", force=True).score)


def table(options: argparse.Namespace, results: dict[tuple[str, str], list[Made]]) -> str:
    import saccade

    name = device_name(options.device) + ("" if options.device == "cuda" else f", {os.cpu_count()} cores")
    lines = [
        f"# Speed beside JoeyNMT 2.3: {'GPU' if options.device == 'cuda' else 'CPU'}",
        "",
        (
            f"{datetime.date.today()}, {name}. Python {platform.python_version()}, torch {torch.__version__}, saccade "
            f"{saccade.__version__}. `python benchmarks/joeynmt/run.py --device {options.device} --width {options.width} "
            f"--tokens {options.tokens} --updates {options.updates} --window {options.window} --rounds {options.rounds}"
            f'{f" --greedy {options.greedy}" if options.greedy else ""} --pairs "{";".join(options.pairs)}" '
            f'--ways "{";".join(options.ways)}"`: the tools in turn, the median of the rounds.'
        ),
        "",
        (
            "| model | tool | parameters | loss | training, target tokens/s | × | beam 5, sentences/s | × | again | × "
            "| words each | words/s | × | BLEU |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for pair, tool in results:
        peer, mine = middles(results[pair, PEER]), middles(results[pair, tool])
        cells = [pair, tool, f"{mine['parameters']:,.0f}", f"{mine['loss']:.3f}" if "loss" in mine else "–"]
        cells += [f"{mine['training']:,.0f}", times(mine["training"], peer["training"])]
        lines.append(f"| {' | '.join([*cells, *decoding_cells(mine, peer)])} |")
    if options.greedy:
        lines += ["", *greedy_lines(options, results)]
    return "\n".join(lines) + "\n"


def decoding_cells(mine: Made, peer: Made) -> list[str]:
    if "decoding" not in mine:
        return ["–"] * 8
    pace, theirs = mine["decoding"] * mine["words"], peer["decoding"] * peer["words"]
    cells = [f"{mine['decoding']:,.0f}", times(mine["decoding"], peer["decoding"])]
    again = mine.get("again")
    cells += ["–", "–"] if again is None else [f"{again:,.0f}", times(again, peer["decoding"])]
    return [*cells, f"{mine['words']:.1f}", f"{pace:,.0f}", times(pace, theirs), f"{mine['bleu']:.1f}"]


def times(mine: float, theirs: float) -> str:
    return f"{mine / theirs:.2f}" if theirs else "–"  # after a short training a tool may write nothing at all


def greedy_lines(options: argparse.Namespace, results: dict[tuple[str, str], list[Made]]) -> list[str]:
    lines = [
        (
            f"Greedily on a CPU ({cpu_name()}), one core, the first {options.greedy:,} test sentences, {TOGETHER_ON_A_CPU} "
            "together, with the same weights:"
        ),
        "",
        "| model | tool | sentences per CPU-second | × | words each | words per CPU-second | × |",
        "|---|---|---|---|---|---|---|",
    ]
    for pair, tool in results:
        peer, mine = middles(results[pair, PEER]), middles(results[pair, tool])
        if "greedy" not in mine:
            continue
        pace, theirs = mine["greedy"] * mine["greedy words"], peer["greedy"] * peer["greedy words"]
        cells = [pair, tool, f"{mine['greedy']:,.1f}", times(mine["greedy"], peer["greedy"])]
        cells += [f"{mine['greedy words']:.1f}", f"{pace:,.0f}", times(pace, theirs)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def words_each(outputs: list[str]) -> float:
    return statistics.mean(len(output.split()) for output in outputs)


def middles(rounds: list[Made]) -> Made:
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}


def options_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--window", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--logs", type=Path, default=Path("joeynmt-logs"))
    parser.add_argument("--scratch", type=Path, help="texts and networks, kept; unless given, removed at the end")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pairs", help=f"some of the pairs, parted by ; : {'; '.join(PAIRS)}")
    parser.add_argument("--ways", help="some of saccade's rows, by their names, parted by ;")
    parser.add_argument("--greedy", type=int, default=0, metavar="N", help="also N sentences greedily on one CPU core")
    parser.add_argument("--decode", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.pairs = some_of(options.pairs, list(PAIRS), "--pairs")
    options.ways = some_of(options.ways, list(WAYS[options.device]), "--ways")
    if options.updates < 2 * options.window:
        sys.exit(f"--updates: expected two windows of {options.window} or more, found {options.updates}")
    return options


def some_of(asked: str | None, known: list[str], option: str) -> list[str]:
    names = known if asked is None else [name.strip() for name in asked.split(";")]
    for name in names:
        if name not in known:
            sys.exit(f"{option}: expected some of {'; '.join(known)}, found {name!r}")
    return names


def compare(options: argparse.Namespace) -> str:
    """The table of every tool's numbers for every pair, a round after the other; written anew after each."""
    results: dict[tuple[str, str], list[Made]] = {}
    for number in range(options.rounds):
        for name in options.pairs:
            for tool in (PEER, *options.ways):
                pair = PAIRS[name]
                place = Place(options, tool, pair, number + 1)
                made = run_joey(options, pair, place) if tool == PEER else run_saccade(options, pair, tool, place)
                results.setdefault((name, tool), []).append(made)
                print(name, tool, made, flush=True)
                if options.out:  # a run that is cut off leaves what it had
                    options.out.write_text(table(options, results), encoding="utf-8")
    return table(options, results)


def main(words: list[str]) -> None:
    options = options_of(words)
    if options.decode:
        return decode(options.decode, options.device, options.greedy, options.out)
    if "SACCADE_DATA" not in os.environ:
        sys.exit("SACCADE_DATA must name the folder that holds multi30k/")
    options.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as passing:
        options.scratch = (options.scratch or Path(passing)).resolve()
        (options.scratch / "text").mkdir(parents=True, exist_ok=True)
        write_text(Path(os.environ["SACCADE_DATA"]), options.scratch / "text", options.greedy)
        print(compare(options))


if __name__ == "__main__":
    main(sys.argv[1:])
