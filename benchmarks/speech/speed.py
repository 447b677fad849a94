"""Speed of training and of decoding beside the same network in plain PyTorch, and with ESPnet's attention module in that.

    python benchmarks/speech/speed.py --out TABLE.md [--device cuda] [--size paper] [--espnet FOLDER] [key=value …]

All train on the same batches and frames, from the same parameters; that they compute the same loss is checked first. Frames are
those of tones, as long as AN4's utterances, and are made before the clock starts: what is compared is the network, its loss,
its gradients and the update. Decoding is greedy, of sixteen recordings at a time and of one. Where ESPnet is not installed,
``--espnet`` is the folder it is in (``pip install --no-deps --target FOLDER espnet``). Run it with nothing else; the fastest of
three passes counts. Where other programs use the processor, ``--clock cpu --threads 1`` counts the process's own seconds.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import plain
import torch
from runs import heading, table
from torch import Tensor

SIZES = {
    "small": ["model.hidden=128", "model.layers=2", "model.state=128", "model.alignment=128", "model.pooling=[2]"],
    "paper": ["model.hidden=256", "model.layers=3", "model.state=256", "model.alignment=512", "model.filters=10",
              "model.reach=100", "model.maxout=64", "model.embedding=64", "model.pooling=[]"],
}  # fmt: skip
EPOCHS = 4  # the first is not timed
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
DECODED = {16: 128, 1: 24}  # recordings to decode, by how many at a time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--records", type=int, default=480, help="recordings to train on")
    parser.add_argument("--threads", type=int, help="of the CPU; all unless given")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--espnet", type=Path, metavar="FOLDER")
    parser.add_argument("changes", nargs="*", metavar="key=value")
    options = parser.parse_intermixed_args()
    logging.getLogger().setLevel(logging.ERROR)  # ESPnet warns at every batch
    if options.espnet is not None:
        sys.path.append(str(options.espnet))
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    text = "\n".join([*measure(options), ""])
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def measure(options: argparse.Namespace) -> list[str]:
    import saccade
    from saccade.recipes.recipe import read_recipe

    changes = [
        "data.tones.symbols=[15,25]", f"data.tones.train={options.records}", "data.tones.valid=8",
        f"data.tones.test={max(DECODED.values())}",
        f"train.device={options.device}", f"train.epochs={EPOCHS}",
        "train.watch=loss", "metrics=[perplexity]", "train.stop_after=null", "train.average=0",
        "train.save_every=null", "expect=null", "train.batch_records=16", *SIZES[options.size],
    ]  # fmt: skip
    changes += [] if options.threads is None else [f"train.threads={options.threads}"]
    recipe = read_recipe("listen_tones", [*changes, *options.changes])
    with tempfile.TemporaryDirectory() as folder:
        bundle = saccade.train(recipe, folder=Path(folder, "run"), progress=False)
        task, network = bundle.task, bundle.network
        splits = task.load(bundle.recipe.data, Path(), 1)
        corpus = task.corpus(splits.train, "train")
        plans = [
            task.plan(corpus, tokens=None, records=16, seed=recipe.train.seed, epoch=epoch) for epoch in range(EPOCHS)
        ]
        batches = plans[-1]
        counts = [[sum(corpus.costs[row][0] for row in numbers) for numbers in plan] for plan in plans]
        rates = {"saccade": trained_rate(Path(folder, "run", "log.csv"), counts)}
        if options.clock == "cpu":
            rates["saccade"] = sum(map(sum, counts[1:])) / cpu_seconds(recipe, Path(folder))
        notes = [note for note in bundle.notes if note.startswith(("training without", "other processes"))]
    given = [tensors(task.batch(corpus, numbers)) for numbers in batches]
    width, size = given[0][0].shape[-1], network.output.out_features
    models = {"plain PyTorch": plain.copied(network, size, width)}
    if options.espnet is not None:
        models["plain PyTorch with ESPnet's AttLoc"] = plain.copied(network, size, width, espnet=True)
    decoding = {"saccade": {}, **{name: {} for name in models}}
    test = task.corpus(splits.test, "test")
    hop = bundle.recipe.data.features.hop
    for together, count in DECODED.items():
        groups = [range(first, first + together) for first in range(0, count, together)]
        rows = [task.batch(test, group) for group in groups]
        sound = hop * sum(int(batch.frame_lengths.sum()) for batch in rows)
        longest = max(int(batch.target_lengths.max()) for batch in rows)
        expected = [row for batch in rows for row in greedy(network, batch, longest)]
        seconds = timed(lambda rows=rows, longest=longest: [greedy(network, batch, longest) for batch in rows], options)
        decoding["saccade"][together] = seconds / sound
        for name, model in models.items():
            model.to(options.device).eval()
            found = [row for batch in rows for row in plain_greedy(model, batch, longest, options.device)]
            same = sum(one == other for one, other in zip(found, expected, strict=True)) / len(expected)
            if same < 0.95:
                raise SystemExit(f"{name}: expected the outputs of the network, found {100 * same:.0f} % of them")
            run = lambda rows=rows, longest=longest, model=model: [  # noqa: E731
                plain_greedy(model, batch, longest, options.device) for batch in rows
            ]
            decoding[name][together] = timed(run, options) / sound
    for name, model in models.items():
        check_same_loss(name, task, network, model, task.batch(corpus, batches[0]), given[0], options.device)
        how = {
            "device": options.device,
            "lr": recipe.train.lr,
            "clip": recipe.train.clip,
            "clock": CLOCKS[options.clock],
        }
        plain.train(model, given, **how)  # not timed
        passes = [plain.train(model, given, **how) for _ in range(EPOCHS - 1)]
        rates[name] = max(frames / seconds for seconds, frames in passes)
    base, first = rates["plain PyTorch"], decoding["plain PyTorch"]
    body = [
        [name, f"{rate:,.0f}", f"{rate / base:.2f}",
         *(f"{decoding[name][n]:.5f} ({first[n] / decoding[name][n]:.2f} ×)" for n in DECODED)]
        for name, rate in sorted(rates.items(), key=lambda item: item[0] == "saccade")
    ]  # fmt: skip
    goal = 5 if options.device == "cuda" else 2
    met = "reached" if rates["saccade"] >= goal * base else "missed"
    config, mean = network.config, sum(counts[-1]) / len(corpus)
    about = (
        f"`listen_attend`, hybrid: {config.layers} layers of {config.hidden} per direction, pooling "
        f"{list(network.encoder.steps)}, state {config.state}, alignment {config.alignment}, {config.filters} filters of "
        f"{2 * config.reach + 1} taps; batches of 16 recordings of {mean:.0f} frames of {width} values in the mean, "
        f"{torch.get_num_threads()} threads of the CPU"
        + (", seconds of the processor, which other programs used too." if options.clock == "cpu" else ".")
    )
    head = ["", "training, frames/s", "×", *(f"real-time factor of greedy decoding, {n} at a time" for n in DECODED)]
    return [
        *heading(f"Speech: speed on {'a GPU' if options.device == 'cuda' else 'a CPU'}", options), about, "",
        *table(head, body), "", f"Goal of training: at least {goal} ×, {met}.", *(f"Note: {note}" for note in notes),
    ]  # fmt: skip


def trained_rate(log: Path, counts: Sequence[Sequence[int]]) -> float:
    """Frames per second of the fastest epoch after the first, from the end of its first update on; ``counts`` are the frames
    of the batches of each epoch."""
    import csv

    with log.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rates = []
    for epoch, frames in list(enumerate(counts))[1:]:
        times = [float(row["seconds"]) for row in rows if int(row["epoch"]) == epoch]
        if len(times) != len(frames):
            raise SystemExit(f"log.csv: expected {len(frames)} updates of epoch {epoch}, found {len(times)}")
        rates.append(sum(frames[1:]) / (times[-1] - times[0]))
    return max(rates)


def cpu_seconds(recipe: Any, folder: Path) -> float:
    """The seconds that this process needs for all epochs but the first: those of a whole run less those of its first epoch."""
    import saccade

    spent = []
    for epochs in (EPOCHS, 1):
        started = time.process_time()
        shorter = replace(recipe, train=replace(recipe.train, epochs=epochs))
        saccade.train(shorter, folder=folder / f"{epochs}", progress=False)
        spent.append(time.process_time() - started)
    return spent[0] - spent[1]


def tensors(batch: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Frames, lengths, tokens and targets of a batch, its padding as the plain network has it."""
    steps = torch.arange(batch.target_out.shape[1])
    targets = batch.target_out.masked_fill(steps >= batch.target_lengths.unsqueeze(1), plain.PAD)
    return batch.frames.float(), batch.frame_lengths, batch.target_in, targets


def check_same_loss(
    name: str, task: Any, network: Any, model: plain.Plain, batch: Any, given: Sequence[Tensor], device: str
) -> None:
    """Raise unless the plain network computes the loss of the network."""
    from saccade.task import eval_mode

    phase = task.phases(network)[0]
    with torch.no_grad(), eval_mode(network), eval_mode(model.to(device)):
        expected = float(phase.loss(network, batch.to(device)).mean)
        found = float(model.loss(*(part.to(device) for part in given)))
    if abs(found - expected) > 1e-3 * abs(expected):
        raise SystemExit(f"{name}: expected the loss of the network, {expected:.6f}, found {found:.6f}")


def greedy(network: Any, batch: Any, longest: int) -> list[list[int]]:
    """The outputs of saccade's own greedy search over the frames of a batch."""
    from saccade.data.tokenizers.tokenizer import Tokenizer
    from saccade.nn.search.beam_search import Search
    from saccade.nn.search.graph_cache import keep_recordings
    from saccade.task import eval_mode
    from saccade.tasks.decoding import read_and_search, recorder_of

    ids = {"bos": Tokenizer.BOS, "eos": Tokenizer.EOS, "forbidden": (Tokenizer.PAD, Tokenizer.BOS)}
    with keep_recordings(network), eval_mode(network):
        found = read_and_search(
            network, batch.frames, batch.frame_lengths, [longest] * len(batch.frames), Search(), **ids,
            recorder=recorder_of(network),
        )  # fmt: skip
    return [list(hypotheses[0].tokens) for hypotheses, _ in found]


def plain_greedy(model: plain.Plain, batch: Any, longest: int, device: str) -> list[list[int]]:
    from saccade.data.tokenizers.tokenizer import Tokenizer

    return model.greedy(batch.frames.float().to(device), batch.frame_lengths.to(device), longest, Tokenizer.EOS)


def timed(run: Callable[[], Any], options: argparse.Namespace) -> float:
    """Seconds of the fastest of three runs."""
    seconds, clock = [], CLOCKS[options.clock]
    for _ in range(3):
        started = clock()
        run()
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
