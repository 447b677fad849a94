"""Training and decoding speed beside JoeyNMT 2.3, at the same sizes and batches, on the same text, one after the other.

    SACCADE_DATA=… PYTHONPATH=FOLDER_WITH_JOEYNMT python benchmarks/joeynmt/run.py --device cpu|cuda --logs DIR --out TABLE.md

Multi30k German → English, lower-cased and split into words beforehand, so both read the same tokens. One layer of ``--width``,
a bidirectional encoder, float32, AdamW, batches of ``--tokens`` padded tokens of the longer side (both count so), beam 5 with
length penalty 1, 256 sentences decoded together. Two pairs of models: a GRU with additive attention, an LSTM with
Luong's general score and input feeding. They are each other's nearest, not the same: JoeyNMT's "bahdanau" looks after the
step, RNNsearch before it and through a maxout layer; parameters are in the table.

On a GPU saccade trains four times: live (``train.graphs=off``, every kernel launched from Python), then with graphs in
float32, TF32 and bfloat16; the loss beside the speed is the mean of its last window, which graphs must not change. It decodes
with the weights of the second. Recording a graph takes time where a shape of batch first comes, mostly in the first epoch
(some 105 updates): ``--updates 400`` or more leaves it to few windows.

Training speed is target tokens a second, by each tool's own log, over windows of ``--window`` updates, the first window left
out, the median of the rest; validation is not in it. Decoding speed is sentences a second, by each tool's own clock around the
search, scoring left out, with the weights of the short training. Those write outputs of different lengths, and time goes
with length: so words a second are given beside sentences a second. Each tool limits outputs in its own way (100 words;
3 (S + 1) + 10). Rounds alternate between the tools. Logs are kept.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import yaml

HERE = Path(__file__).parent
SPLITS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
PAIRS = {
    "GRU, additive": ("rnnsearch", "gru", "bahdanau"),
    "LSTM, Luong's general": ("luong", "lstm", "luong"),
}
LONGEST = 100
PEER, OURS = "JoeyNMT", "saccade"
WAYS: dict[str, dict[str, dict[str, str]]] = {  # what of ``train`` is changed
    "cpu": {OURS: {}},
    "cuda": {
        f"{OURS}, live": {"graphs": "off"},
        OURS: {},
        f"{OURS}, tf32": {"precision": "tf32"},
        f"{OURS}, bf16": {"precision": "bf16"},
    },
}


def write_text(data: Path, folder: Path) -> None:
    for name, file in SPLITS.items():
        for language in ("de", "en"):
            with gzip.open(data / "multi30k" / f"{file}.{language}.gz", "rt", encoding="utf-8") as lines:
                words = [" ".join(re.findall(r"\w+|[^\w\s]", line.lower())) for line in lines]
            (folder / f"{name}.{language}").write_text("\n".join(words) + "\n", encoding="utf-8")


# ---- JoeyNMT


def joey_config(options: argparse.Namespace, cell: str, attention: str, folder: Path) -> dict[str, object]:
    text = options.logs / "text"
    side = {"level": "word", "lowercase": False, "max_length": LONGEST, "voc_limit": 12000, "voc_min_freq": 2}
    embeddings = {"embedding_dim": options.width, "scale": False, "dropout": 0.2}
    recurrent = {
        "type": "recurrent",
        "rnn_type": cell,
        "embeddings": embeddings,
        "hidden_size": options.width,
        "num_layers": 1,
    }
    testing = {"beam_size": 5, "beam_alpha": 1.0, "batch_size": 256, "batch_type": "sentence", "n_best": 1}
    return {
        "name": "peer", "joeynmt_version": "2.3.0", "model_dir": str(folder), "use_cuda": options.device == "cuda",
        "random_seed": 1, "fp16": False,
        "data": {"train": str(text / "train"), "dev": str(text / "dev"), "test": str(text / "test"), "dataset_type": "plain",
                 "src": {"lang": "de", **side}, "trg": {"lang": "en", **side}},
        "testing": {**testing, "max_output_length": LONGEST, "eval_metrics": ["bleu"], "sacrebleu_cfg": {"tokenize": "none"}},
        "training": {"optimizer": "adamw", "learning_rate": 1e-3, "scheduling": "plateau", "clip_grad_norm": 1.0,
                     "batch_size": options.tokens, "batch_type": "token", "normalization": "tokens", "epochs": 1000,
                     "updates": options.updates, "validation_freq": 100 * options.updates // options.window * options.window,
                     "logging_freq": options.window, "print_valid_sents": [], "overwrite": True, "shuffle": True},
        "model": {"initializer": "xavier_uniform", "tied_embeddings": False, "tied_softmax": False,
                  "encoder": {**recurrent, "bidirectional": True, "dropout": 0.2},
                  "decoder": {**recurrent, "dropout": 0.2, "hidden_dropout": 0.2, "input_feeding": True,
                              "init_hidden": "bridge", "attention": attention}},
    }  # fmt: skip


def run_joey(options: argparse.Namespace, cell: str, attention: str, folder: Path) -> dict[str, float]:
    config = folder.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(joey_config(options, cell, attention, folder)), encoding="utf-8")
    # --skip-test would leave no checkpoint behind; the test of ``train`` decodes once, ``test`` decodes again
    log = called(
        [sys.executable, str(HERE / "peer.py"), "train", str(config), "--skip-test"], folder.with_suffix(".log")
    )
    speeds = [float(each) for each in re.findall(r"Tokens per Sec:\s+(\d+)", log)]
    parameters = int(re.search(r"Total params: (\d+)", log)[1])  # type: ignore[index]
    command = [sys.executable, str(HERE / "peer.py"), "test", str(config), "-o", str(folder / "hyps")]
    decoding = called(command, folder.with_suffix(".test.log"))
    seconds = [float(each) for each in re.findall(r"Generation took ([\d.]+)\[sec\]", decoding)]
    written = (folder / "hyps.test").read_text(encoding="utf-8").splitlines()
    return {"training": statistics.median(speeds[1:]), "decoding": len(written) / seconds[-1], "parameters": parameters,
            "words": words_each(written)}  # fmt: skip


# ---- saccade


def saccade_recipe(options: argparse.Namespace, name: str, way: dict[str, str]) -> dict[str, object]:
    text = options.logs.resolve() / "text"
    files = {ours: {"source": str(text / f"{theirs}.de"), "target": str(text / f"{theirs}.en")}
             for ours, theirs in (("train", "train"), ("valid", "dev"), ("test", "test"))}  # fmt: skip
    model = {"name": name, "hidden": options.width, "embedding": options.width, "dropout": 0.2}
    model |= {"maxout": options.width} if name == "rnnsearch" else {"score": "general", "bidirectional": True}
    return {
        "task": "translate",
        "data": {**files, "tokens": {"kind": "words", "size": 12000, "min_count": 2}, "max_length": LONGEST},
        "model": model,
        "train": {"epochs": 1000, "updates": options.updates, "batch_tokens": options.tokens, "optimiser": "adamw", "lr": 1e-3,
                  "clip": 1.0, "device": options.device, "save_every": None, **way},
        "search": {"beam": 5, "length_penalty": 1.0},
        "metrics": ["bleu"],
    }  # fmt: skip


def run_saccade(options: argparse.Namespace, name: str, tool: str, folder: Path) -> dict[str, float]:
    recipe = folder.with_suffix(".yaml")
    way = WAYS[options.device][tool]
    recipe.write_text(yaml.safe_dump(saccade_recipe(options, name, way)), encoding="utf-8")
    command = [sys.executable, "-m", "saccade", "train", str(recipe), "--json", "--out", str(folder)]
    log = called(command, folder.with_suffix(".log"))
    for line in re.findall(r"training without CUDA graphs.*", log):
        print(f"{tool}, {name}: {line}", file=sys.stderr, flush=True)
    with (folder / "log.csv").open(encoding="utf-8") as file:
        rows = [(int(row["tokens"]), float(row["seconds"]), float(row["loss"])) for row in csv.DictReader(file)]
    speeds, window = [], options.window
    for start in range(window, len(rows) - window + 1, window):
        part = rows[start : start + window]
        speeds.append(sum(tokens for tokens, _, _ in part) / (part[-1][1] - rows[start - 1][1]))
    last = rows[-window:]
    loss = sum(tokens * each for tokens, _, each in last) / sum(tokens for tokens, _, _ in last)
    made = {"training": statistics.median(speeds), "loss": loss, "parameters": float(parameters_of(folder))}
    if tool != OURS:
        return made
    command = [sys.executable, str(Path(__file__)), "--decode", str(folder), "--device", options.device]
    log = called(command, folder.with_suffix(".test.log"))
    for line in re.findall(r".*Warning: .*", log):
        print(f"{tool}, {name}: {line}", file=sys.stderr, flush=True)
    (found,) = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    return {**made, **found}


def parameters_of(folder: Path) -> int:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def decode(folder: str, device: str) -> None:
    """Sentences a second of a saccade run, beam 5, 256 together: reading the texts is part of it, as it is for JoeyNMT."""
    import saccade.tasks.decoding
    import saccade.tasks.translate
    from saccade.api import load

    saccade.tasks.translate.PREDICTED_TOGETHER = saccade.tasks.decoding.PREDICTED_TOGETHER = 256
    bundle = load(folder, device)
    texts = [pair.source for pair in bundle.task.load(bundle.recipe.data, bundle.recipe.folder, 1).test]
    speeds = []
    for _ in range(2):  # the first call of a process also compiles kernels and records steps
        begin = time.perf_counter()
        predictions = bundle.predict(texts)
        speeds.append(len(texts) / (time.perf_counter() - begin))
    words = words_each([prediction.value for prediction in predictions])
    print(json.dumps({"decoding": speeds[0], "again": speeds[1], "words": words}))


# ---- Both


def called(command: list[str], log: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    log.write_text(f"$ {' '.join(command)}\n{text}", encoding="utf-8")
    if done.returncode:
        sys.exit(f"{command}: exit status {done.returncode}\n{text[-3000:]}")
    return text


def table(options: argparse.Namespace, results: dict[tuple[str, str], list[dict[str, float]]]) -> str:
    import saccade

    name = torch.cuda.get_device_name() if options.device == "cuda" else f"{cpu_name()}, {os.cpu_count()} cores"
    lines = [
        f"# Speed beside JoeyNMT 2.3: {'GPU' if options.device == 'cuda' else 'CPU'}",
        "",
        (
            f"{datetime.date.today()}, {name}. Python {platform.python_version()}, torch {torch.__version__}, saccade "
            f"{saccade.__version__}. `python benchmarks/joeynmt/run.py --device {options.device} --width {options.width} "
            f"--tokens {options.tokens} --updates {options.updates} --window {options.window} --rounds {options.rounds}`: "
            "the tools in turn, the median of the rounds."
        ),
        "",
        (
            "| model | tool | parameters | loss | training, target tokens/s | × | beam 5, sentences/s | × | again | × "
            "| words each | words/s | × |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for pair in PAIRS:
        peer = middles(results[pair, PEER])
        for tool in (tool for of, tool in results if of == pair):
            mine = middles(results[pair, tool])
            cells = [pair, tool, f"{mine['parameters']:,.0f}", f"{mine['loss']:.3f}" if "loss" in mine else "–"]
            cells += [f"{mine['training']:,.0f}", f"{mine['training'] / peer['training']:.2f}"]
            if "decoding" in mine:
                pace, theirs = mine["decoding"] * mine["words"], peer["decoding"] * peer["words"]
                cells += [f"{mine['decoding']:,.0f}", f"{mine['decoding'] / peer['decoding']:.2f}"]
                again = mine.get("again")
                cells += ["–", "–"] if again is None else [f"{again:,.0f}", f"{again / peer['decoding']:.2f}"]
                cells += [f"{mine['words']:.1f}", f"{pace:,.0f}", f"{pace / theirs:.2f}"]
            else:
                cells += ["–"] * 7
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def words_each(outputs: list[str]) -> float:
    return statistics.mean(len(output.split()) for output in outputs)


def middles(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "CPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--window", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--logs", type=Path, default=Path("joeynmt-logs"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ways", help="some of saccade's rows, by their names, parted by ;")
    parser.add_argument("--decode", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.decode:
        return decode(options.decode, options.device)
    if "SACCADE_DATA" not in os.environ:
        sys.exit("SACCADE_DATA must name the folder that holds multi30k/")
    (options.logs / "text").mkdir(parents=True, exist_ok=True)
    write_text(Path(os.environ["SACCADE_DATA"]), options.logs / "text")
    results: dict[tuple[str, str], list[dict[str, float]]] = {}
    ways = options.ways.split(";") if options.ways else list(WAYS[options.device])
    for number in range(options.rounds):
        for pair, (ours, cell, attention) in PAIRS.items():
            tag = f"{ours}-{number + 1}"
            for tool in (PEER, *ways):
                folder = options.logs / f"{tool.lower().replace(', ', '-')}-{tag}"
                made = (
                    run_joey(options, cell, attention, folder)
                    if tool == PEER
                    else run_saccade(options, ours, tool, folder)
                )
                results.setdefault((pair, tool), []).append(made)
                print(pair, tool, made, flush=True)
    text = table(options, results)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
