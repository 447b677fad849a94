"""What looking at its own past is worth to an LSTM: LSTMN beside LSTMs, on running text and on questions.

    python benchmarks/lstmn/run.py --runs runs/lstmn --jobs 5 [--out benchmarks/results/DATE-lstmn.md]
    python benchmarks/lstmn/run.py --tiny            # made texts, small networks: does it all still run?

Language: the recipe lstmn_language_wikitext2 (trained on WikiText-2's validation text, tested on its test text). Labels: the
recipe lstmn_trec. Every network of a table reads the same data by the same schedule; one LSTM is as wide as the LSTMN, one has
as many parameters. The LSTM whose state is carried through the text is the recipe lstm_language_wikitext2, with chunks and a
schedule of its own. Each run is a process and a folder: what is finished is not trained again. Reads $SACCADE_DATA.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import saccade

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

RESULT = "result.json"
LSTMN, LSTM, AS_MANY, CARRIED = "LSTMN", "LSTM, as wide", "LSTM, as many parameters", "LSTM, state carried"
ROWS = {"language": (LSTMN, LSTM, AS_MANY, CARRIED), "labels": (LSTMN, LSTM, AS_MANY)}
RECIPES = {"language": "lstmn_language_wikitext2", "labels": "lstmn_trec"}
CARRIED_RECIPE = "lstm_language_wikitext2"
SIZES = {"language": 4000, "labels": 8000}  # vocabularies to count with: all networks of a table have the same
CLASSES = 6
TINY: dict[str, dict[str, Any]] = {
    "language": {"source": "agreement", "tokens": {"kind": "words"}, "chunk": 8, "context": 4, "layout": "stream",
                 "agreement": {"train": 60, "valid": 10, "test": 10}},
    "labels": {"source": "opinions", "opinions": {"train": 60, "valid": 10, "test": 10}, "max_length": 60},
}  # fmt: skip
ABOUT = {
    "language": "Perplexity per token on the same test text. A chunk reads the tokens before it as the recipe says; the LSTM "
    "whose state is carried reads on through the whole text.",
    "labels": "The LSTMs' states are averaged too, and a linear layer says the label; the LSTMN has a ReLU layer before it, "
    "which is counted where an LSTM has as many parameters.",
}


@dataclass(frozen=True)
class Run:
    """One network, trained once."""

    table: str
    network: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.table}-{self.network.lower().replace(', ', '-').replace(' ', '-')}-{self.seed}"


def lstm(table: str, model: dict[str, Any], hidden: int) -> dict[str, Any]:
    """An LSTM beside an LSTMN: the same embeddings and dropout."""
    shared = {"hidden": hidden, "embedding": model["embedding"], "dropout": model["dropout"]}
    if table == "language":
        return {"name": "recurrent_lm", "cell": "lstm", "output": model["output"], **shared}
    return {"name": "attentive_classifier", "encoder": "lstm", "bidirectional": False, "pool": "mean", **shared}


def parameters(table: str, model: dict[str, Any]) -> int:
    import torch

    from saccade.models import network_class

    network, fields = network_class(model["name"]), {name: value for name, value in model.items() if name != "name"}
    more = {"classes": CLASSES} if table == "labels" else {}
    with torch.device("meta"):
        built = network(network.config_class(**fields), SIZES[table], **more)
    return sum(parameter.numel() for parameter in built.parameters())


def least(enough: Callable[[int], bool]) -> int:
    """The least number that is enough."""
    low, high = 1, 1
    while not enough(high):
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def document(run: Run, *, tiny: bool, device: str) -> dict[str, Any]:
    """The recipe of a run."""
    from saccade.recipes.recipe import shipped_recipes

    carried = run.network == CARRIED
    name = CARRIED_RECIPE if carried else RECIPES[run.table]
    recipe: dict[str, Any] = yaml.safe_load(shipped_recipes()[name].read_text(encoding="utf-8"))
    del recipe["expect"]
    if tiny:
        recipe["data"] = dict(TINY[run.table])
        if carried:
            recipe["data"] |= {"context": 0, "streams": 3}
        recipe["model"] |= {"hidden": 8, "embedding": 6}
        recipe["train"] |= {"epochs": 1, "warmup": 2}
    model = recipe["model"]
    if run.network == LSTM:
        recipe["model"] = lstm(run.table, model, model["hidden"])
    elif run.network == AS_MANY:
        many = parameters(run.table, model)
        wide = least(lambda hidden: parameters(run.table, lstm(run.table, model, hidden)) >= many)
        recipe["model"] = lstm(run.table, model, wide)
    recipe["train"] |= {"seed": run.seed, "device": device}
    return recipe


def train_one(run: Run, folder: Path, *, tiny: bool, device: str) -> None:
    """Train, and leave the figures in the run's folder."""
    from saccade.api import train

    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(document(run, tiny=tiny, device=device)), encoding="utf-8")
    begun = time.perf_counter()
    bundle = train(file, folder=folder)
    about = {
        "parameters": bundle.parameters,
        "hidden": bundle.recipe.model.hidden,
        "seconds": time.perf_counter() - begun,
        "updates": bundle.figures["updates"],
        "valid": bundle.figures["valid"],
        "test": bundle.figures["test"],
    }
    (folder / RESULT).write_text(json.dumps(about), encoding="utf-8")


def result_of(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """What a run reached; it is trained, in a process of its own, unless it is there."""
    folder: Path = options.runs / run.name
    if not (folder / RESULT).exists():
        shutil.rmtree(folder, ignore_errors=True)  # it was cut off
        command = [sys.executable, __file__, "--one", run.table, run.network, str(run.seed), "--runs", str(folder)]
        command += ["--device", options.device, *(["--tiny"] if options.tiny else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{run.name}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    figures = ", ".join(f"{name} {value:.4f}" for name, value in found["test"].items())
    print(f"{run.name}: {figures}, {found['seconds']:.0f} s", flush=True)
    return found


def row(network: str, results: list[dict[str, Any]], metrics: tuple[str, ...]) -> str:
    cells = [network, results[0]["hidden"], f"{results[0]['parameters']:,}", len(results), f"{results[0]['updates']:,}"]
    for metric in metrics:
        values = [result["test"][metric] for result in results]
        spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.4f}{spread}")
    each = " ".join(f"{result['test'][metrics[0]]:.4f}" for result in results)
    seconds = statistics.mean(result["seconds"] for result in results)
    return f"| {' | '.join(map(str, [*cells, each]))} | {seconds:.0f} |"


def table(name: str, results: dict[str, list[dict[str, Any]]]) -> list[str]:
    metrics = ("perplexity", "bits_per_character") if name == "language" else ("accuracy", "f1")
    head = (
        f"| network | width | parameters | seeds | updates | {' | '.join(metrics)} | {metrics[0]} of each | s a run |"
    )
    return [head, "|---" * head.count(" | ") + "|---|", *(row(each, found, metrics) for each, found in results.items())]


def written(tables: dict[str, dict[str, list[dict[str, Any]]]], options: argparse.Namespace) -> str:
    import torch

    device = device_name()
    at_a_time = "1 run" if options.jobs == 1 else f"{options.jobs} runs"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, saccade {saccade.__version__}"
    lines = [
        "# LSTMN beside LSTMs" + (" (made texts, small networks)" if options.tiny else ""),
        "",
        f"{datetime.date.today()}, {device}, {at_a_time} at a time on it, {versions}. `python {' '.join(sys.argv)}`",
    ]
    for name, results in tables.items():
        recipe = "built-in data" if options.tiny else f"recipe {RECIPES[name]}"
        lines += ["", f"## {name.capitalize()} ({recipe})", "", ABOUT[name], "", *table(name, results)]
    return "\n".join([*lines, "", "± is the deviation over the seeds.", ""])


def measure(options: argparse.Namespace) -> str:
    options.runs.mkdir(parents=True, exist_ok=True)
    seeds, runs = range(1, options.seeds + 1), []
    for name in options.tables:
        runs += [Run(name, network, seed) for network in ROWS[name] for seed in seeds]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(runs, pool.map(lambda run: result_of(run, options), runs), strict=True))
    tables = {
        name: {network: [results[Run(name, network, seed)] for seed in seeds] for network in ROWS[name]}
        for name in options.tables
    }
    return written(tables, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="where the runs are; finished ones are not trained again")
    parser.add_argument("--tables", nargs="+", choices=tuple(ROWS), default=tuple(ROWS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="made texts, small networks")
    parser.add_argument("--one", nargs=3, metavar=("TABLE", "NETWORK", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        table_name, network, seed = options.one
        return train_one(Run(table_name, network, int(seed)), options.runs, tiny=options.tiny, device=options.device)
    with tempfile.TemporaryDirectory() as scratch:
        options.runs = options.runs or Path(scratch if options.tiny else "runs/lstmn")
        text = measure(options)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
