"""Searches for the outputs of a batch of inputs and builds traces of hypotheses, for all tasks with a decoder."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from saccade.nn.cuda_graphs import Gpu
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import Hypothesis, Search, is_plain, search
from saccade.nn.search.constraints import Constraints
from saccade.nn.search.fast_beam import Recorder
from saccade.nn.search.graph_cache import held_recorder, keep_recordings
from saccade.progress import report
from saccade.task import OutputConstraints, Prediction, Progress, Searches, Task, keep_best
from saccade.tasks.steering import Spelling
from saccade.trace.axes import Axis
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Outputs, Trace

T = TypeVar("T", bound=Any)
PREDICTED_TOGETHER = 128  # inputs searched in one batch
PREDICTED_TOGETHER_ON_A_GPU = 256  # on a GPU, a step for twice as many takes little longer
ROWS_TOGETHER = 2048  # most hypotheses per batch: a hundred samples per input would fill the memory
SAME_LENGTH = 8  # with CUDA graphs, sources are padded to multiples of this, so that few shapes are recorded


def inputs_together(how: Search, most: int, network: EncoderDecoder | None = None) -> int:
    """How many inputs are searched in one batch; more where the network is on a GPU."""
    if network is not None and _device(network).type == "cuda":
        most = max(most, PREDICTED_TOGETHER_ON_A_GPU)
    return max(1, min(most, ROWS_TOGETHER // (how.lanes * how.width)))


def recorder_of(network: EncoderDecoder) -> Recorder | None:
    """Records and replays the network's steps as CUDA graphs during a prediction, or longer if a graph cache is in use
    (:mod:`saccade.nn.search.graph_cache`); None without a GPU."""
    device = _device(network)
    return held_recorder(network, Gpu(device)) if device.type == "cuda" else None


Searched = tuple[list[Hypothesis], list[Record]]


class Decodes(Searches, Task):
    """A task whose outputs are searched token by token: inputs of similar length share a search."""

    together = PREDICTED_TOGETHER

    def predict_items(
        self,
        network: Any,
        items: Sequence[Any],
        *,
        how: Any,
        lens: Lens | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        with keep_recordings(network):
            return super().predict_items(network, items, how=how, lens=lens, progress=progress)

    @abstractmethod
    def search_batch(self, network: Any, items: Sequence[Any], how: Search, lens: Lens | None) -> list[Searched]:
        """The hypotheses of each input of a batch, best first, and what a lens recorded while the input was read."""

    @abstractmethod
    def prediction_of(
        self, item: Any, found: Hypothesis, read: list[Record], how: Search, lens: Lens | None
    ) -> Prediction:
        """One hypothesis as a prediction."""

    def forward(self, network: Any, items: Sequence[Any], *, how: Search, lens: Lens | None) -> list[Prediction]:
        searched = self.search_batch(network, items, how, lens)
        predictions = []
        for item, (hypotheses, read) in zip(items, searched, strict=True):
            report()
            predictions.append(keep_best([self.prediction_of(item, own, read, how, lens) for own in hypotheses]))
        return predictions

    def same_length(self, lens: Lens | None) -> bool:
        """Whether only inputs of one length share a batch."""
        return False

    def group(self, network: Any, items: Sequence[Any], how: Search, lens: Lens | None) -> Iterator[list[int]]:
        costs, most = [self.cost(item) for item in items], inputs_together(how, self.together, network)
        order = sorted(range(len(items)), key=costs.__getitem__)
        alike = (
            [list(numbers) for _, numbers in groupby(order, key=costs.__getitem__)]
            if self.same_length(lens)
            else [order]
        )
        for numbers in alike:
            for start in range(0, len(numbers), most):
                yield numbers[start : start + most]


@torch.no_grad()
def read_and_search(
    network: EncoderDecoder,
    source: Tensor,
    lengths: Tensor,
    limits: Sequence[int],
    how: Search,
    *,
    bos: int,
    eos: int,
    forbidden: Sequence[int] = (),
    lens: Lens | None = None,
    constraints: Sequence[Constraints] | None = None,
    words: Tensor | None = None,
    begins: Tensor | None = None,
    recorder: Recorder | None = None,
) -> list[Searched]:
    """For each input its hypotheses, best first, and what the lens recorded in the encoder.

    The arguments are those of :func:`saccade.nn.search.beam_search.search`; ``source`` may be any batch.
    Samples depend on the input and the seed only, not on the other inputs of the batch.
    """
    device = _device(network)
    report(0.0, positions=how.lanes * how.width * sum(limits))
    reading = lens.fresh() if lens is not None else None
    if recorder is not None and source.dim() == 2 and is_plain(how, lens, constraints):
        columns, longest = -source.shape[1] % SAME_LENGTH, getattr(network, "longest", None)
        if longest is not None:  # not beyond the positions of the network
            columns = max(0, min(columns, longest - source.shape[1]))
        source = functional.pad(source, (0, columns))
    memory = network.encode(source.to(device), lengths.to(device), lens=reading)
    seeds = None if how.sample is None else [_seed(row[:n]) for row, n in zip(source, lengths.tolist(), strict=True)]
    hypotheses = search(
        network, memory, limits, how, bos=bos, eos=eos, forbidden=forbidden, lens=lens, constraints=constraints,
        words=words, begins=begins, seeds=seeds, recorder=recorder,
    )  # fmt: skip
    records = reading.records if reading is not None else []
    if not records:
        return [(own, []) for own in hypotheses]
    rows = [torch.tensor([number], device=device) for number in range(len(limits))]
    return [(own, [record.select(row) for record in records]) for own, row in zip(hypotheses, rows, strict=True)]


def _device(network: EncoderDecoder) -> torch.device:
    return next(network.parameters()).device


def _seed(row: Tensor) -> int:
    return zlib.crc32(row.cpu().contiguous().numpy().tobytes())


def trace_of(
    hypothesis: Hypothesis,
    read: Sequence[Record],
    axes: Mapping[str, Axis],
    labels: Callable[[list[int]], Sequence[str]],
    *,
    written: str = "target",
    **about: Any,
) -> Trace:
    """The trace of a hypothesis over labelled axes; ``labels`` names the output tokens (in likely outputs and the beam's tree),
    which lie on the axis ``written``."""
    trace = assemble([*read, *hypothesis.records], 0)
    index, probability = (trace.signals.get(f"outputs.{part}") for part in ("index", "probability"))
    signals = {name: signal for name, signal in trace.signals.items() if not name.startswith("outputs.")}
    outputs, tree = None, hypothesis.tree
    if index is not None and probability is not None:
        names = tuple(tuple(labels(row)) for row in index.values.tolist())
        outputs = Outputs(written, names, probability.values, index.values)
    if tree is not None:
        tree = replace(tree, labels=tuple(labels(tree.token.tolist())))
    about |= {"score": hypothesis.score, "stopped": hypothesis.stopped}
    return replace(trace, signals=signals, outputs=outputs, tree=tree).labelled(axes, **about)


def constrained(spelling: Spelling, items: Sequence[T], constraints: Sequence[OutputConstraints]) -> list[T]:
    """Inputs that were read, each with its constraints in tokens."""
    if not constraints:
        return list(items)
    pairs = enumerate(zip(items, constraints, strict=True), start=1)
    return [replace(item, wanted=spelling.wanted(wish, f"input {number}")) for number, (item, wish) in pairs]


def unfinished(predictions: Sequence[Prediction]) -> list[str]:
    """A note on outputs that were cut off at the length limit, if any."""
    count = sum(prediction.stopped == "length" for prediction in predictions)
    return [f"{count} of {len(predictions)} outputs reached the length limit"] if count else []
