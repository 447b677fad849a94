"""Multi30k German → English: plain seq2seq, RNNsearch and every kind of Luong's attention in one table, several seeds each,
and the figure of BLEU by sentence length.

    SACCADE_DATA=… python benchmarks/multi30k/run.py --out DIR [--seeds 1,2,3] [--jobs 6] [key=value …]

The text is lower-cased and split by ``\\w+|[^\\w\\s]``; BLEU is sacrebleu's with ``tokenize=none`` (the signature is in the
table), beam 5. Every row starts from a shipped recipe; ``key=value`` changes all of them, and the table says so. ``--jobs``
runs share the device, so their times are not those of a device of one's own. ``DIR/outputs-SEEDS.json.gz`` keeps what every
run wrote; ``--again`` makes table and picture anew from all such files of ``DIR``, so seeds may be run one by one.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import saccade

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

ROWS: dict[str, tuple[str, list[str]]] = {
    "seq2seq (Cho)": ("seq2seq_cho_multi30k", []),
    "seq2seq (Sutskever)": ("seq2seq_sutskever_multi30k", []),
    "RNNsearch": ("rnnsearch_multi30k", []),
    "Luong, dot": ("luong_multi30k", ["model.score=dot"]),
    "Luong, general": ("luong_multi30k", ["model.score=general"]),
    "Luong, concat": ("luong_multi30k", ["model.score=concat"]),
    "Luong, location": ("luong_multi30k", ["model.score=location"]),
    "Luong, local-m": ("luong_multi30k", ["model.score=general", "model.window=local-m"]),
    "Luong, local-p": ("luong_multi30k", ["model.score=general", "model.window=local-p"]),
}
DRAWN = ("seq2seq (Cho)", "seq2seq (Sutskever)", "RNNsearch", "Luong, general", "Luong, local-p")


# ---- One run, in a process of its own


def train_one(row: str, seed: int, changes: list[str], folder: str) -> None:
    """Train, decode the test set, and print what came of it as one line of JSON."""
    from saccade.api import train
    from saccade.recipes.recipe import read_recipe

    name, overrides = ROWS[row]
    bundle = train(read_recipe(name, [*overrides, *changes, f"train.seed={seed}"]), folder=folder)
    evaluation = bundle.evaluation()
    print(json.dumps({
        "row": row, "seed": seed, "figures": dict(bundle.figures), "parameters": bundle.parameters,
        "signatures": dict(evaluation.signatures), "outputs": list(evaluation.outputs),
    }))  # fmt: skip


def start(row: str, seed: int, changes: list[str], folder: Path) -> dict[str, Any]:
    name = "".join(letter if letter.isalnum() else "-" for letter in row)
    command = [
        sys.executable,
        __file__,
        "--one",
        row,
        "--seed",
        str(seed),
        "--out",
        str(folder / f"{name}-{seed}"),
        *changes,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{row}, seed {seed}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    test = result["figures"]["test"]
    print(f"{row}, seed {seed}: BLEU {test['bleu']:.2f} in {result['figures']['seconds']:.0f} s", flush=True)
    return result


# ---- All of them


def references() -> tuple[list[str], list[str]]:
    """The test set's sources and references, as the recipes' tokenizer writes them."""
    from saccade.data.tokenizers.tokenizer import Tokenizer
    from saccade.recipes.recipe import read_recipe
    from saccade.tasks.translate import Translate

    recipe = read_recipe("luong_multi30k")
    pairs = Translate.load(recipe.data, recipe.folder, 1).test
    tokenizer = Tokenizer.train([pair.target for pair in pairs], recipe.data.tokens)
    return [tokenizer.canonical(pair.source) for pair in pairs], [tokenizer.canonical(pair.target) for pair in pairs]


def spread(numbers: list[float]) -> str:
    if len(numbers) == 1:
        return f"{numbers[0]:.2f}"
    return f"{statistics.mean(numbers):.2f} ± {statistics.stdev(numbers):.2f}"


def table(results: list[dict[str, Any]], about: dict[str, Any]) -> str:
    changes = " ".join(about["changes"])
    lines = [
        "# Multi30k German → English, test 2016",
        "",
        (
            f"{about['date']}, {about['device']}, {about['jobs']} runs at a time on it. Python {about['python']}, torch "
            f"{about['torch']}, saccade {about['saccade']}. Mean ± standard deviation over the seeds {about['seeds']}."
        ),
        "",
        f"`python benchmarks/multi30k/run.py --seeds {about['seeds']} --jobs {about['jobs']} {changes}`".replace(
            " `", "`"
        ),
        "",
        "| model | parameters | BLEU | chrF | perplexity | seeds: BLEU |",
        "|---|---|---|---|---|---|",
    ]
    signatures: dict[str, str] = {}
    for row in ROWS:
        mine = sorted((each for each in results if each["row"] == row), key=lambda each: each["seed"])
        if not mine:
            continue
        tests = [each["figures"]["test"] for each in mine]
        signatures |= mine[0]["signatures"]
        columns = " | ".join(spread([test[name] for test in tests]) for name in ("bleu", "chrf", "perplexity"))
        each = ", ".join(f"{test['bleu']:.2f}" for test in tests)
        lines.append(f"| {row} | {mine[0]['parameters']:,} | {columns} | {each} |")
    lines += ["", *(f"{name}: `{signature}`  " for name, signature in signatures.items())]
    return "\n".join(lines) + "\n"


def by_length(results: list[dict[str, Any]], picture: Path) -> str:
    """BLEU by source length, the seeds' outputs pooled: a picture, and the same as a table."""
    from saccade.metrics.significance import buckets, score_by_length
    from saccade.metrics.significance import statistics as statistics_of
    from saccade.views.charts.by_length import Chart, Line, save

    sources, expected = references()
    lengths = [len(source.split()) for source in sources]
    seeds = sorted({each["seed"] for each in results})
    into = buckets(lengths * len(seeds), edges=(8, 12, 16, 20, 25))
    lines, rows = [], [f"| model | {' | '.join(bucket.name for bucket in into)} |", "|---" * (len(into) + 1) + "|"]
    for row in ROWS:
        mine = sorted((each for each in results if each["row"] == row), key=lambda each: each["seed"])
        if len(mine) != len(seeds):
            continue
        outputs = [output for each in mine for output in each["outputs"]]
        scores = score_by_length(statistics_of("bleu", outputs, expected * len(seeds), bleu_tokenize="none"), into)
        rows.append(
            f"| {row} | {' | '.join('–' if score.value is None else f'{score.value:.1f}' for score in scores)} |"
        )
        if row in DRAWN:
            part = {key: [getattr(score, key) for score in scores] for key in ("value", "low", "high")}
            lines.append(Line(row, part["value"], part["low"], part["high"]))
    counts = [len(bucket.sentences) // len(seeds) for bucket in into]
    rows.append(f"| *sentences* | {' | '.join(map(str, counts))} |")
    save(Chart(lines, [bucket.name for bucket in into], counts, "words in the source", "BLEU"), picture)
    head = f"BLEU by the source's length in words, outputs of the {len(seeds)} seeds pooled:"
    return f"\n{head}\n\n" + "\n".join(rows) + f"\n\n![BLEU by sentence length]({picture.name})\n"


def write(results: list[dict[str, Any]], about: dict[str, Any], folder: Path) -> None:
    text = table(results, about)
    text += by_length(results, folder / "multi30k-lengths.png")
    (folder / "multi30k.md").write_text(text, encoding="utf-8")
    print(text)


def again(folder: Path) -> None:
    saved = [json.loads(gzip.decompress(file.read_bytes())) for file in sorted(folder.glob("outputs-*.json.gz"))]
    if not saved or any(each["about"]["changes"] != saved[0]["about"]["changes"] for each in saved):
        sys.exit(f"{folder}: expected outputs-*.json.gz of runs with the same changes, found {len(saved)} files")
    seeds = sorted({int(seed) for each in saved for seed in each["about"]["seeds"].split(",")})
    about = {**saved[0]["about"], "seeds": ",".join(map(str, seeds))}
    write([result for each in saved for result in each["results"]], about, folder)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="key=value")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rows", help="some of the rows, by the beginnings of their names, parted by ;")
    parser.add_argument(
        "--again", action="store_true", help="only the table and the picture, from OUT/outputs-*.json.gz"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "SACCADE_DATA" not in os.environ:
        sys.exit("SACCADE_DATA must name the folder that holds multi30k/")
    if options.one:
        return train_one(options.one, options.seed, options.changes, str(options.out))
    options.out.mkdir(parents=True, exist_ok=True)
    if options.again:
        return again(options.out)
    rows = [row for row in ROWS if not options.rows or row.startswith(tuple(options.rows.split(";")))]
    work = [(row, int(seed)) for seed in options.seeds.split(",") for row in rows]
    about = {"date": str(datetime.date.today()), "device": device_name(), "jobs": options.jobs, "seeds": options.seeds,
             "python": platform.python_version(), "torch": torch.__version__, "saccade": saccade.__version__,
             "changes": options.changes}  # fmt: skip
    kept = options.out / f"outputs-{options.seeds.replace(',', '-')}.json.gz"
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda each: start(*each, options.changes, Path(folder)), work):
            results.append(result)  # kept one by one: what was done is there even if the rest is cut off
            kept.write_bytes(gzip.compress(json.dumps({"about": about, "results": results}).encode()))
    write(results, about, options.out)


if __name__ == "__main__":
    main()
