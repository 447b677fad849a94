"""Show, Attend and Tell on Flickr8k: soft and hard attention beside the same decoder with the mean of the cells, on features
of EfficientNet-Lite0.

    SACCADE_DATA=… python benchmarks/flickr8k/run.py --runs RUNS --out TABLE.md [--figures FOLDER] [--jobs 9] [--minutes 8]
        [--only soft] [--seeds 1,2,3] [--layer blocks.15] [--variant "NETWORK@LAYER key=value …"] [--only-variants]
        [--device cuda] [--limit N] [key=value …]

1. The features of all pictures are computed once, into RUNS/features, and shared by all runs.
2. With nothing else running, the speed of training is measured, beside that of a plain PyTorch loop (plain.py).
3. The networks are trained, ``--jobs`` at a time on one device, and describe the test pictures. A run stops training early
   enough for its test to end before ``--minutes`` are over, and is tested as it is then.
4. The table is written; with ``--figures``, where soft and hard attention look on twelve test pictures.

What is in RUNS already is not done again. ``--limit`` keeps the first N pictures of each part, to try the script out.
``--variant`` adds one run, with the first seed: a network, perhaps on another layer, and the settings that it alone has, as in
``--variant "hard@head model.penalty_scale=mean"``; ``--only-variants`` leaves the usual runs out. ``key=value`` changes the
recipe of every run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name, device_name

NETWORKS = {
    "soft": ("flickr8k_soft", ()),
    "hard": ("flickr8k_hard", ()),
    "mean": ("flickr8k_soft", ("model.attention=mean",)),
}
PARTS = {"train": "train.txt", "valid": "dev.txt", "test": "test.txt"}
METRICS = {
    "bleu_1": ("BLEU-1", 1), "bleu_2": ("BLEU-2", 1), "bleu_3": ("BLEU-3", 1), "bleu_4": ("BLEU-4", 1),
    "bleu_4_no_bp": ("BLEU-4 without brevity penalty", 1), "cider": ("CIDEr-D", 3), "rouge_l": ("ROUGE-L", 3),
    "perplexity": ("perplexity", 1),
}  # fmt: skip
PUBLISHED = {"soft": (67.0, 44.8, 29.9, 19.5), "hard": (67.0, 45.7, 31.4, 21.3)}
COMPARED = (("mean", "soft"), ("mean", "hard"), ("soft", "hard"))
LOOKED_AT = 200  # test pictures of which the share of moves is computed
GOOD, BAD = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75), (0.25, 0.2, 0.15, 0.1, 0.05, 0.0)  # quantiles of the CIDEr-D of captions
LARGEST, RESOLUTIONS = 150 << 10, (110, 90, 75, 60, 50, 40, 32)  # bytes of a figure, dots per inch
TESTING = 60.0  # seconds that a run needs after training
GRACE = 30.0  # seconds after the time is over until what still runs is killed
WARM = 30  # updates of the plain loop that are not timed
PLAIN_UPDATES = 300


@dataclass(frozen=True)
class Run:
    network: str
    seed: int
    layer: str
    variant: str = ""  # key=value …, the settings of the recipe that this run alone has

    @property
    def name(self) -> str:
        return f"{self.network}, {self.variant}" if self.variant else self.network

    @property
    def tuned(self) -> bool:
        """Whether the backbone is trained too, and so no features are kept."""
        return ".tune" in self.variant

    @property
    def key(self) -> str:
        own = "".join(letter if letter.isalnum() else "-" for letter in f"-{self.variant}") if self.variant else ""
        return f"{self.network}-{self.layer}-{self.seed}{own}"


def variant_of(text: str, seed: int, layer: str) -> Run:
    """The run that ``--variant`` asks for.

    >>> variant_of("hard@head model.entropy=0.01", 1, "blocks.10")
    Run(network='hard', seed=1, layer='head', variant='model.entropy=0.01')
    """
    named, *changes = text.split()
    network, _, own = named.partition("@")
    if network not in NETWORKS or not all("=" in change for change in changes):
        raise SystemExit(f"--variant: expected NETWORK, or NETWORK@LAYER, then key=value …, found {text!r}")
    return Run(network, seed, own or layer, " ".join(changes))


@dataclass(frozen=True)
class Result:
    """What one run gave: its metrics on the test set, a caption per test picture, and how it was trained."""

    run: Run
    figures: dict[str, float]
    baseline: dict[str, float]
    outputs: list[str]
    moves: float | None
    valid: float | None  # BLEU-4
    epoch: int
    updates: int
    seconds: float
    parameters: int
    notes: list[str]

    @classmethod
    def read(cls, file: Path) -> Result:
        fields = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**fields, "run": Run(**fields["run"])})

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")


def changes_of(options: argparse.Namespace, layer: str, tuned: bool = False) -> list[str]:
    """What this benchmark changes in a recipe: where features are kept, the device and, with ``--limit``, the records."""
    changes = [] if tuned else [f"data.features.cache={(options.runs / 'features').resolve()}"]
    changes += [f"data.features.layer={layer}"]
    changes += [] if options.device is None else [f"train.device={options.device}"]
    if options.limit:
        changes += [f"data.{part}={listed_in(options, name).resolve()}" for part, name in PARTS.items()]
    return [*changes, "train.save_every=null", "expect=null", *options.changes]


def listed_in(options: argparse.Namespace, name: str) -> Path:
    """The file with the first ``--limit`` pictures of a part."""
    file: Path = options.runs / f"first-{options.limit}" / name
    if not file.is_file():
        listed = Path(os.environ["SACCADE_DATA"], "flickr8k", name).read_text(encoding="utf-8").splitlines()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*listed[: options.limit], ""]), encoding="utf-8")
    return file


def records_of(options: argparse.Namespace) -> Any:
    """The records to train on, to choose by and to test on, from where the data are now."""
    from saccade.recipes.recipe import read_recipe
    from saccade.tasks.caption import Caption

    return Caption.load(read_recipe("flickr8k_soft", changes_of(options, options.layer)).data, Path(), 1)


# 1. Features ----------------------------------------------------------------------------------------------------------


def compute_features(options: argparse.Namespace, layer: str) -> None:
    """Compute the features of all pictures that are not in the cache, and write down how long it took."""
    from saccade.data.images.features import FeatureStore, backbone_of
    from saccade.recipes.recipe import read_recipe

    data, splits = read_recipe("flickr8k_soft", changes_of(options, layer)).data, records_of(options)
    pictures = [record.source for part in (splits.train, splits.valid, splits.test) for record in part]
    started = time.perf_counter()
    store = FeatureStore(
        pictures,
        data.image,
        backbone_of(data.features),
        Path(data.features.cache),
        device=options.device,
        progress=False,
    )
    seconds, (rows, columns, width) = time.perf_counter() - started, store.grid
    if not store.computed:
        return
    text = (
        f"Features of {layer}, {rows} × {columns} cells of {width} numbers: {store.computed:,} pictures in {seconds:.1f} s, "
        f"{store.computed / seconds:,.0f} pictures/s ({device_name(options.device)}, reading the pictures included)."
    )
    print(text, flush=True)
    (options.runs / f"features-{layer}.txt").write_text(text, encoding="utf-8")


# 2. Speed of training -------------------------------------------------------------------------------------------------


def measure_speed(options: argparse.Namespace) -> dict[str, Any]:
    """Captions and words per second of soft attention's training, each caption with its picture, beside the plain loop's."""
    from functools import partial

    import plain
    import torch
    from torch.utils.data import DataLoader

    import saccade
    from saccade.data.tokenizers.tokenizer import Tokenizer
    from saccade.recipes.recipe import read_recipe

    folder = options.runs / "speed"
    shutil.rmtree(folder, ignore_errors=True)
    changes = [*changes_of(options, options.layer), "train.epochs=2", "train.watch=loss", "metrics=[perplexity]"]
    changes += ["train.stop_after=null", "train.average=0"]
    bundle = saccade.train(read_recipe("flickr8k_soft", changes), folder=folder, progress=False)
    recipe, task = bundle.recipe, bundle.task
    corpus = task.corpus(records_of(options).train, "train")
    batches = task.plan(corpus, tokens=None, records=recipe.train.batch_records, seed=recipe.train.seed, epoch=1)
    if len(batches) < 2:
        raise SystemExit(f"--limit: expected pictures for two batches or more, found {len(corpus):,} captions")
    seconds, tokens = seconds_of_last_epoch(folder)
    captions = sum(map(len, batches)) - len(batches[0])  # the time counts from the end of the first update
    ours = {"captions": captions / seconds, "words": tokens / seconds, "updates": len(batches) - 1}

    device = next(bundle.network.parameters()).device.type
    model = plain.copied(bundle.network, task.kept.grid[2], Tokenizer.BOS)
    features = corpus.shared.features(range(len(corpus.records)))
    loader = DataLoader(
        plain.Captions(features, corpus.rows), batch_sampler=batches[: WARM + PLAIN_UPDATES], pin_memory=device == "cuda",
        collate_fn=partial(plain.collate, bos=Tokenizer.BOS, eos=Tokenizer.EOS), num_workers=4 if device == "cuda" else 0,
    )  # fmt: skip
    check_same_loss(task, bundle.network, model, corpus, batches[0], loader)
    if recipe.train.precision == "tf32":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    warm = min(WARM, len(loader) // 3)
    how = {"device": device, "lr": recipe.train.lr, "clip": recipe.train.clip, "warm": warm}
    seconds, captions, tokens = plain.train(model, loader, **how)
    theirs = {"captions": captions / seconds, "words": tokens / seconds, "updates": len(loader) - warm}
    settings = {"batch": recipe.train.batch_records, "precision": recipe.train.precision, "device": device_name(device)}
    return {"saccade": ours, "plain": theirs, "notes": on_training(bundle.notes), **settings}


def seconds_of_last_epoch(folder: Path) -> tuple[float, int]:
    """Seconds from the first update of a run's last epoch to its last, and the words of those after the first."""
    import csv

    with (folder / "log.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows = [row for row in rows if row["epoch"] == rows[-1]["epoch"]]
    return float(rows[-1]["seconds"]) - float(rows[0]["seconds"]), sum(int(row["tokens"]) for row in rows[1:])


def check_same_loss(task: Any, network: Any, model: Any, corpus: Any, numbers: Sequence[int], loader: Any) -> None:
    """Raise unless the plain model computes the network's loss."""
    import torch

    from saccade.task import eval_mode

    batch = task.batch(corpus, numbers)
    device = next(network.parameters()).device
    cells, words, targets = (part.to(device) for part in loader.collate_fn([loader.dataset[n] for n in numbers]))
    phase = task.phases(network)[0]
    with torch.no_grad(), eval_mode(network), eval_mode(model):
        expected, found = (
            float(phase.loss(network, batch.to(device)).mean),
            float(model.to(device).loss(cells, words, targets)),
        )
    if abs(found - expected) > 1e-2 * abs(expected):
        raise SystemExit(f"plain.py: expected the loss of the network, {expected:.5f}, found {found:.5f}")


# 3. Training ----------------------------------------------------------------------------------------------------------


def train_one(options: argparse.Namespace, run: Run) -> None:
    """Train one network until ``--until``, and describe the test pictures."""
    import saccade
    from saccade.recipes.recipe import read_recipe

    folder, (recipe, own) = options.runs / run.key, NETWORKS[run.network]
    shutil.rmtree(folder, ignore_errors=True)  # of a run that did not end
    usual = changes_of(options, run.layer, run.tuned)
    changes = [*own, f"train.seed={run.seed}", f"train.threads={options.threads}", *usual]
    changes += [f"train.minutes={max(options.until - time.time() - TESTING, 1.0) / 60}", *run.variant.split()]
    made = read_recipe(recipe, changes)
    bundle = saccade.train(made, folder=folder)
    evaluation = bundle.evaluation()
    records = records_of(options).test[:LOOKED_AT]
    moves = share_of_moves(bundle.task, bundle.network, records, evaluation.outputs) if bundle.network.sites else None
    figures = bundle.figures
    result = Result(
        run, dict(evaluation.figures), next(iter(figures["baselines"].values())), list(evaluation.outputs), moves,
        figures["valid"].get("bleu_4"), figures["epoch"], figures["updates"], figures["seconds"], bundle.parameters,
        on_training(bundle.notes),
    )  # fmt: skip
    result.write(options.runs / f"{run.key}.json")


def share_of_moves(task: Any, network: Any, records: Sequence[Any], outputs: Sequence[str]) -> float:
    """The share of steps whose likeliest cell (with hard attention, the cell that was read) is not that of the step before."""
    from saccade.trace import Lens

    moves, steps = 0, 0
    for record, output in zip(records, outputs, strict=False):  # of the first pictures
        lens = Lens()
        task.scorer(network, record.source, output)(lens)
        chosen = lens.trace.signals.get("decoder.chosen")
        places = lens.trace.map("decoder.attention").weights.argmax(-1) if chosen is None else chosen.values.flatten()
        moves, steps = moves + int((places[1:] != places[:-1]).sum()), steps + len(places) - 1
    return moves / max(steps, 1)


def train_all(options: argparse.Namespace, runs: Sequence[Run], deadline: float) -> None:
    """Train what is not there, ``--jobs`` at a time, each in a process of its own."""
    left = [run for run in runs if not (options.runs / f"{run.key}.json").is_file()]
    waiting, taking = list(left), threading.Lock()
    threads = max(1, len(os.sched_getaffinity(0)) // max(1, min(options.jobs, len(left))))

    def work() -> None:
        while True:
            with taking:
                if not waiting or time.time() >= deadline:
                    return
                rounds = -(-len(waiting) // options.jobs)
                run = waiting.pop(0)
            train_in_process(options, run, threads, time.time() + (deadline - time.time()) / rounds)

    with ThreadPoolExecutor(options.jobs) as pool:
        for job in [pool.submit(work) for _ in range(options.jobs)]:
            job.result()
    for run in waiting:
        print(f"{run.key}: not begun, the time is over", flush=True)


def train_in_process(options: argparse.Namespace, run: Run, threads: int, until: float) -> None:
    """One run in a process, whose output is in RUNS/KEY.log; what runs much longer than ``until`` is killed."""
    log = options.runs / f"{run.key}.log"
    words = ["--one", run.network, "--seeds", str(run.seed), "--layer", run.layer, "--until", str(until)]
    words += ["--variant", run.variant] if run.variant else []
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [*again(options), *words, "--threads", str(threads), *options.changes], stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            code: int | str = process.wait(timeout=max(1.0, until + GRACE - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = f"killed {GRACE:.0f} s after its time was over"
    result = options.runs / f"{run.key}.json"
    if code or not result.is_file():
        end = "\n".join(log.read_text(encoding="utf-8").splitlines()[-12:])
        print(f"{run.key}: failed ({code}). The end of {log}:\n{end}", flush=True)
        return
    found = Result.read(result)
    shown = ", ".join(f"{name} {value:.3f}" for name, value in found.figures.items())
    print(f"{run.key}: {found.updates:,} updates, {found.seconds:.0f} s; best epoch {found.epoch}; {shown}", flush=True)


def again(options: argparse.Namespace) -> list[str]:
    """The command line of this script for a part of its work."""
    device = [] if options.device is None else ["--device", options.device]
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    return [sys.executable, str(Path(__file__)), "--runs", str(options.runs), *device, *limit]


# 4. The table and the figures -----------------------------------------------------------------------------------------


def page(options: argparse.Namespace, results: Sequence[Result], command: str) -> str:
    import platform

    import torch

    import saccade

    features = [file.read_text(encoding="utf-8") for file in sorted(options.runs.glob("features-*.txt"))]
    jobs = f"up to {options.jobs} runs at a time on it, so seconds of training are not compared"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, saccade {saccade.__version__}"
    lines = [
        "# Show, Attend and Tell on Flickr8k", "",
        f"{date.today()}, {device_name(options.device)}, {jobs}; {cpu_name()}. {versions}.", "", f"`{command}`", "",
        *features, "", *speed_lines(options.runs / "speed.json"),
    ]  # fmt: skip
    if options.limit:
        lines += [f"**Only the first {options.limit:,} pictures of each part: a trial of the script.**", ""]
    if results:
        lines += [*quality_lines(results), "", *difference_lines(options, results)]
        lines += ["", *sorted({f"- {result.run.key}: {note}" for result in results for note in result.notes})]
    return "\n".join([*lines, ""])


def on_training(notes: Sequence[str]) -> list[str]:
    """The notes of a run on how it was trained, not those on its data."""
    return [note for note in notes if note.startswith(("training without", "other processes"))]


def speed_lines(file: Path) -> list[str]:
    if not file.is_file():
        return []
    speed = json.loads(file.read_text(encoding="utf-8"))
    ours, theirs = speed["saccade"], speed["plain"]
    lines = [
        "## Speed of training", "",
        (
            f"{speed['device']}, nothing else running: soft attention, batches of {speed['batch']} captions, each with the "
            f"kept features of its picture, precision {speed['precision']}. The plain loop is `benchmarks/flickr8k/plain.py`: "
            "the same model and loss, eager, with a DataLoader of four processes on a GPU."
        ), "",
        "| | updates timed | captions (with pictures)/s | words/s | × |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, found in (("plain PyTorch", theirs), ("saccade", ours)):
        times = found["words"] / theirs["words"]
        lines.append(
            f"| {name} | {found['updates']:,} | {found['captions']:,.0f} | {found['words']:,.0f} | {times:.2f} |"
        )
    met = "reached" if ours["words"] >= 5 * theirs["words"] else "missed"
    return [*lines, "", f"Goal: at least 5 ×, {met}.", *[f"Note: {note}" for note in speed["notes"]], ""]


def quality_lines(results: Sequence[Result]) -> list[str]:
    """A row per run, then a mean per network, the paper's figures and the trivial baseline's."""
    head = ["attention", "layer", "seed", *(title for title, _ in METRICS.values())]
    lines = [
        "## Test set", "",
        f"{len(results[0].outputs):,} pictures, beam 5; of each run the network with the best validation BLEU-4.", "",
        row([*head, "moves", "validation BLEU-4", "best epoch", "updates", "training, s"]), "|" + "---|" * (len(head) + 5),
    ]  # fmt: skip
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.run.layer, result.run.name), []).append(result)
    for own in groups.values():
        for result in own:
            moves = "–" if result.moves is None else f"{result.moves:.3f}"
            lines.append(row([
                result.run.name, result.run.layer, str(result.run.seed),
                *(f"{result.figures[name]:.{digits}f}" for name, (_, digits) in METRICS.items()), moves,
                "–" if result.valid is None else f"{result.valid:.1f}", str(result.epoch), f"{result.updates:,}",
                f"{result.seconds:.0f}",
            ]))  # fmt: skip
    for (layer, network), own in groups.items():
        if len(own) > 1:
            cells = [mean_of([result.figures[name] for result in own], digits) for name, (_, digits) in METRICS.items()]
            moves = "–" if own[0].moves is None else mean_of([result.moves or 0.0 for result in own], 3)
            lines.append(row([network, layer, f"mean of {len(own)} ± sd", *cells, moves, "", "", "", ""]))
    for network, figures in PUBLISHED.items():
        cells = [*(f"{figure:.1f}" for figure in figures), *["–"] * 4]
        lines.append(row([f"{network}, as published", "VGG-19", "–", *cells, "–", "", "", "", ""]))
    baseline = results[0].baseline
    cells = [f"{baseline[name]:.{digits}f}" if name in baseline else "–" for name, (_, digits) in METRICS.items()]
    lines.append(row(["most frequent caption", "–", "–", *cells, "–", "", "", "", ""]))
    return [
        *lines, "",
        (
            "As published: Xu et al. 2015, table 1, on features of VGG-19 (14 × 14 cells of 512 numbers), another network than "
            "here, so the rows are no comparison of programs. `moves` is the share of steps of the network's own captions, of "
            f"{LOOKED_AT} test pictures, whose likeliest cell (hard: the cell that was read) is not that of the step before."
        ),
    ]  # fmt: skip


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def mean_of(values: Sequence[float], digits: int) -> str:
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def difference_lines(options: argparse.Namespace, results: Sequence[Result]) -> list[str]:
    """Differences between networks on one layer, with 95 % intervals: pictures are drawn with replacement, and the captions of
    all seeds that both networks have go with their picture."""
    from saccade.metrics.significance import paired_difference

    alike = [result for result in results if result.run.layer == options.layer and not result.run.variant]
    own = {(result.run.network, result.run.seed): result for result in alike}
    pairs = [(first, other) for first, other in COMPARED if {first, other} <= {network for network, _ in own}]
    if not pairs:
        return []
    counts = statistics_of(options, list(own.values()))
    lines = [
        "## Differences", "",
        (
            "Paired bootstrap over test pictures, 1,000 samples; with several seeds, a picture is drawn with its captions of "
            "each of them."
        ),
        "", row(["", "seeds", "metric", "difference", "95 %", "p (randomisation)"]), "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for first, other in pairs:
        shared = sorted(
            {seed for network, seed in own if network == first} & {seed for network, seed in own if network == other}
        )
        for seeds in [shared, *([seed] for seed in shared)] if len(shared) > 1 else [shared]:
            for metric in ("bleu_4", "cider") if seeds else ():
                one, two = (together([counts[network, seed, metric] for seed in seeds]) for network in (first, other))
                found, digits = paired_difference(one, two), METRICS[metric][1] + 1
                cells = [f"{found.difference:+.{digits}f}", f"{found.low:+.{digits}f} to {found.high:+.{digits}f}"]
                named = ", ".join(map(str, seeds))
                lines.append(
                    row([f"{other} − {first}", named, METRICS[metric][0], *cells, f"{found.randomisation_p:.3f}"])
                )
    return lines


def together(counts: Sequence[Any]) -> Any:
    """The statistics of several networks' captions as those of one corpus, with a row per picture."""
    return replace(counts[0], rows=sum(each.rows for each in counts))


def statistics_of(options: argparse.Namespace, results: Sequence[Result]) -> dict[tuple[str, int, str], Any]:
    """The statistics of BLEU-4 and CIDEr-D by network, seed and metric."""
    import saccade

    bundle, records = saccade.load(options.runs / results[0].run.key, device="cpu"), records_of(options).test
    return {
        (result.run.network, result.run.seed, metric): bundle.task.statistics(metric, result.outputs, records)
        for result in results
        for metric in ("bleu_4", "cider")
    }


def draw_figures(options: argparse.Namespace, results: Sequence[Result]) -> None:
    """Where soft and hard attention look on pictures whose caption by soft attention is good, and bad."""
    import numpy as np

    import saccade
    from saccade.trace import Lens

    alike = [result for result in results if result.run.layer == options.layer and not result.run.variant]
    drawn = [result for result in alike if result.moves is not None]
    drawn = [result for result in drawn if result.run.seed == drawn[0].run.seed]
    if not drawn:
        return
    bundles = [saccade.load(options.runs / result.run.key, device="cpu") for result in drawn]
    records = records_of(options).test
    scores = bundles[0].task.statistics("cider", drawn[0].outputs, records).by_sentence
    order = np.argsort(scores, kind="stable")
    options.figures.mkdir(parents=True, exist_ok=True)
    lines = [f"# {drawn[0].run.key}: test pictures at quantiles of CIDEr-D", ""]
    for quantile in (*GOOD, *BAD):
        number = int(order[round(quantile * (len(order) - 1))])
        record, kind = records[number], "good" if quantile in GOOD else "bad"
        lines += [f"## {kind}, quantile {quantile:g}, CIDEr-D {scores[number]:.2f}: {record.source.name}", ""]
        lines += [f"- true: {caption}" for caption in record.target]
        for result, bundle in zip(drawn, bundles, strict=True):
            prediction = bundle.predict([record.source], lens=Lens())[0]
            file = options.figures / f"{kind}-{round(100 * quantile):03}-{result.run.network}.png"
            save_small(prediction.trace, file)
            lines.append(f"- {result.run.network}: {prediction.value} ({file.name})")
        lines.append("")
    (options.figures / "captions.md").write_text("\n".join(lines), encoding="utf-8")


def save_small(trace: Any, file: Path) -> None:
    """The trace as a PNG of at most ``LARGEST`` bytes, in the finest resolution that allows it."""
    for dpi in RESOLUTIONS:
        trace.save(file, site="decoder.attention", dpi=dpi)
        if file.stat().st_size <= LARGEST:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="where features and finished runs are kept")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--only", choices=list(NETWORKS), action="append")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--layer", default="blocks.15")
    parser.add_argument("--variant", metavar='"NETWORK@LAYER key=value …"', action="append", default=[])
    parser.add_argument("--only-variants", action="store_true", help="train none but those of --variant")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--limit", type=int, metavar="N")
    parser.add_argument("--no-speed", action="store_true", help="do not measure the speed of training")
    parser.add_argument("changes", nargs="*", metavar="key=value")
    for name, kind in (("--one", str), ("--until", float), ("--threads", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    deadline = time.time() + 60 * options.minutes
    options.runs.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.one == "speed":
        (options.runs / "speed.json").write_text(json.dumps(measure_speed(options)), encoding="utf-8")
        return
    if options.one:
        train_one(options, Run(options.one, seeds[0], options.layer, *options.variant))
        return
    usual = [] if options.only_variants else options.only or NETWORKS
    runs = [Run(network, seed, options.layer) for seed in seeds for network in usual]
    runs += [variant_of(variant, seeds[0], options.layer) for variant in options.variant]
    waiting = [run for run in runs if not (options.runs / f"{run.key}.json").is_file()]
    for layer in dict.fromkeys(run.layer for run in waiting if not run.tuned):
        compute_features(options, layer)
    if not options.no_speed and not (options.runs / "speed.json").is_file():
        words = ["--one", "speed", "--layer", options.layer, *options.changes]
        if subprocess.run([*again(options), *words]).returncode:
            print("The speed of training was not measured: see above.", flush=True)
        print("\n".join(speed_lines(options.runs / "speed.json")), flush=True)
    train_all(options, runs, deadline)
    files = [options.runs / f"{run.key}.json" for run in runs]
    results = [Result.read(file) for file in files if file.is_file()]
    command = f"python benchmarks/flickr8k/run.py {' '.join(sys.argv[1:])}"
    text = page(options, results, command)
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    if options.figures is not None and results:
        draw_figures(options, results)


if __name__ == "__main__":
    main()
