"""Time per word of captions by soft and by hard attention, at 196, 784 and 3,136 regions, and what of it is attention.

    python benchmarks/captions/regions.py --device cuda --out benchmarks/results/DATE-captions-regions.md
    python benchmarks/captions/regions.py --device cpu --rounds 5 --words 5
    python benchmarks/captions/regions.py --device cpu --tiny

Two untrained networks show_attend_tell of the same sizes, which take no part in their speed, describe random features. The
whole step is a word of a search (attention, LSTM, output layer, choice of the next words) over features that are encoded
already; captions never end early. Attention alone is a word's scores, softmax and context. Both networks take turns in every
round, so that other work on the machine hits both; figures are medians over rounds.

What hard attention can save: a score per region, d products and d tanh, is computed by both, since the likeliest region must be
found. Only the context differs: soft attention reads all L vectors for a weighted sum, L · D products; hard attention looks for
the largest of L weights and reads one vector. So the share of the scores in soft attention bounds what can be gained.

On a GPU the parts are recorded as a CUDA graph of several words and replayed between two events, and a search replays its steps
as ``predict`` does: neither has the host's time per launch in it.

Legend: B pictures, L regions, D channels, d width of the scores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch

from saccade.attention import hard, read, weigh
from saccade.attention.core import look
from saccade.attention.scores import Prepared
from saccade.models.show_attend_tell import Config, Memory, ShowAttendTell
from saccade.nn.captioner import Seen
from saccade.nn.search.beam_search import Search, search
from saccade.nn.search.fast_beam import Recorder, machine_of
from saccade.nn.search.selection import select

sys.path.insert(0, str(Path(__file__).parents[1]))
from machine import device_name

KINDS = ("soft", "hard")
BOS, EOS = 2, 3  # as in a tokenizer: 0 is padding, 1 unknown
Work = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """One way to write captions: pictures at a time, hypotheses of each."""

    name: str
    pictures: int
    beam: int


SETTINGS = (
    Setting("greedy, 1 picture", 1, 1),
    Setting("greedy, 32 pictures", 32, 1),
    Setting("beam 5, 1 picture", 1, 5),
)


@dataclass(frozen=True)
class Sizes:
    sides: tuple[int, ...] = (14, 28, 56)
    channels: int = 512
    hidden: int = 512
    embedding: int = 256
    vocabulary: int = 8000


def network_of(attention: str, side: int, sizes: Sizes, device: torch.device) -> ShowAttendTell:
    torch.manual_seed(1)
    config = Config(hidden=sizes.hidden, embedding=sizes.embedding, attention=attention)  # type: ignore[arg-type]
    seen = Seen(features=(side, side, sizes.channels))
    return ShowAttendTell(config, sizes.vocabulary, seen, BOS).to(device).eval()


def searching(network: ShowAttendTell, memory: Memory, beam: int, words: int) -> Work:
    """Captions of so many words. A word that ends a caption is never written: no search is shorter than another."""
    limits, device = [words] * len(memory.annotations), memory.annotations.device
    recorder = Recorder(machine_of(device)) if device.type == "cuda" else None
    how = Search(beam=beam)
    return lambda: search(network, memory, limits, how, bos=BOS, eos=EOS, forbidden=(0, BOS, EOS), recorder=recorder)


def attending(network: ShowAttendTell, memory: Memory, hidden: torch.Tensor) -> dict[str, Work]:
    """A word's attention as the network calls it: its scores and softmax alone, and with the context."""
    query, keys, values, score = hidden.unsqueeze(1), Prepared(memory.keys), memory.annotations, network.score

    def weights() -> torch.Tensor:
        return weigh(query, keys, score=score)

    if network.config.attention == "soft":
        return {"scores": weights, "attention": lambda: look(query, keys, values, score=score)}
    return {"scores": weights, "attention": lambda: read(hard(weights()), values)}


class Clock:
    """Seconds of some work on a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def seconds(self, work: Work) -> float:
        if self.device.type == "cpu":
            start = time.process_time()  # of one thread: other work on the machine changes it little
            work()
            return time.process_time() - start
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(self.device)
        start.record()
        work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def repeated(self, step: Work, times: int) -> Work:
        """The step several times over; on a GPU as one recorded graph."""

        def steps() -> None:
            for _ in range(times):
                step()

        if self.device.type == "cpu":
            return steps
        apart = torch.cuda.Stream(self.device)
        apart.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(apart):
            for _ in range(3):
                step()
        torch.cuda.current_stream(self.device).wait_stream(apart)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            steps()

        def again(held: Work = step) -> None:  # the graph reads the step's tensors, but does not keep them
            graph.replay()

        return again


@torch.no_grad()
def measure(setting: Setting, side: int, sizes: Sizes, words: int, rounds: int, device: torch.device) -> list[str]:
    """A line of the table: the medians of a word's milliseconds, and of the rounds' ratios."""
    clock = Clock(device)
    draw = torch.Generator().manual_seed(2)
    features = torch.randn(setting.pictures, side * side, sizes.channels, generator=draw).to(device)
    work: dict[tuple[str, str], Work] = {}
    for kind in KINDS:
        network = network_of(kind, side, sizes, device)
        memory = network.encode(features)
        work["step", kind] = searching(network, memory, setting.beam, words)
        rows = torch.arange(setting.pictures, device=device).repeat_interleave(setting.beam)
        spread = select(memory, rows)
        hidden = torch.tanh(torch.randn(len(rows), sizes.hidden, generator=draw)).to(device)

        for part, step in attending(network, spread, hidden).items():
            work[part, kind] = clock.repeated(step, words)
    for part in work.values():  # kernels are compiled, steps recorded
        part()
        part()
    found: dict[tuple[str, str], list[float]] = {name: [] for name in work}
    for number in range(rounds):
        for name in work if number % 2 else reversed(work):
            found[name].append(1e3 * clock.seconds(work[name]) / words)
    median = {name: statistics.median(times) for name, times in found.items()}
    scores = statistics.median([*found["scores", "soft"], *found["scores", "hard"]])  # the same in both

    def ratio(part: str) -> str:
        ratios = [soft / hard for soft, hard in zip(found[part, "soft"], found[part, "hard"], strict=True)]
        return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"

    cells = [f"{side * side:,}", setting.name]
    for part in ("step", "attention"):
        cells += [*(f"{median[part, kind]:.3f}" for kind in KINDS), ratio(part)]
    return [*cells, f"{scores:.3f}"]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--words", type=int, default=20, help="of a caption")
    parser.add_argument("--tiny", action="store_true", help="few regions and channels, to see that it runs")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(words)
    if min(options.rounds, options.words) < 1:
        sys.exit("--rounds and --words: expected whole numbers from 1 on")
    torch.set_num_threads(1)
    device, sizes = torch.device(options.device), Sizes()
    if options.tiny:
        sizes, options.rounds, options.words = Sizes((2, 3), 5, 7, 6, 11), 2, 3
    head = ["regions", "captions", "step, soft", "step, hard", "soft / hard", "attention, soft", "attention, hard",
            "soft / hard", "scores and softmax alone"]  # fmt: skip
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for side in sizes.sides:
        for setting in SETTINGS:
            line = measure(setting, side, sizes, options.words, options.rounds, device)
            table.append("| " + " | ".join(line) + " |")
            print(table[-1], flush=True)
    threads = ", processor time of one thread" if options.device == "cpu" else ""
    how = (
        f"Milliseconds per word, medians of {options.rounds} rounds in which both take turns; a word of 32 pictures is 32 "
        f"words at once. {sizes.channels} channels, state {sizes.hidden}, {sizes.vocabulary:,} words, captions of "
        f"{options.words} words. In brackets the least and the largest ratio of a round."
    )
    saved = (
        "Hard attention scores every region, as soft attention does: the last column, a part of both. What it leaves out is "
        "the weighted sum of all regions' vectors, in place of which one is read."
    )
    page = [
        "# Captions: soft and hard attention by the number of regions" + (" (tiny)" if options.tiny else ""),
        "",
        f"Measured {date.today()} on {device_name(options.device)}{threads}, torch {torch.__version__}, float32.",
        f"`python {' '.join(['benchmarks/captions/regions.py', *(sys.argv[1:] if words is None else words)])}`",
        "",
        how,
        "",
        *table,
        "",
        saved,
        "",
    ]
    print("\n".join(page))
    if options.out is not None:
        options.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
