"""Points → some of them, in order: sorting, convex hulls, tours. The output's alphabet is the input itself.

For people positions count from 0. For the network they count from 1 and 0 is END, which is also what its decoder reads
first: points p₀ p₁ p₂ with the order 2, 0 are taught as

    target_in  0 3 1    →    target_out  3 1 0

and what is looked at *is* the output: the rows of a prediction's map are the distributions that it was chosen from.

Legend: B batch, S points, T steps, d coordinates of a point.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from saccade.data.batching import plan
from saccade.data.points.records import (
    Coordinates,
    PointData,
    Points,
    as_points,
    generate,
    load_points,
    parse,
    read_file,
    records_of,
)
from saccade.data.splits import Splits
from saccade.errors import InputError, SaccadeError
from saccade.metrics.text import exact_match, perplexity
from saccade.models import name_of
from saccade.models.pointer import END
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import Hypothesis, Search
from saccade.task import Evaluation, Loss, Prediction, eval_mode
from saccade.tasks.decoding import PREDICTED_TOGETHER, inputs_together, read_and_search, trace_of
from saccade.tasks.unsupported import refuse_rate
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

IGNORED = -100  # after the end of a target; every other number is a position
STOP = "■"  # END, as people see it
KEPT = "points.json"
DECIMALS = range(2, 7)  # of a label: the fewest that tell the points of an input apart


@dataclass(frozen=True)
class Batch:
    """Padded records. The decoder reads ``target_in`` and should point at ``target_out``, one step ahead."""

    points: Float[Tensor, "B S d"]
    lengths: Int64[Tensor, " B"]
    target_in: Int64[Tensor, "B T"]  # END positions END …
    target_out: Int64[Tensor, "B T"]  # positions END IGNORED …
    indices: list[int]  # where the records stand in their corpus
    tokens: int  # real target positions, END counted: known without asking the device
    repeats: int | None = None  # the number (from 1) of a record, if any, whose order names a point twice

    def to(self, device: torch.device | str) -> Batch:
        names = ("points", "lengths", "target_in", "target_out")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


@dataclass(frozen=True)
class Corpus:
    """Records, checked to be as wide as the network reads them."""

    records: Sequence[Points]
    note: str = ""

    def __len__(self) -> int:
        return len(self.records)

    def first(self, count: int | None) -> Corpus:
        return self if count is None else replace(self, records=self.records[:count])


class Point:
    """The task: how wide points are, and how many of them training saw at once (``least`` to ``most``)."""

    name = "point"
    metrics = ("exact_match", "perplexity")

    def __init__(self, data: PointData, width: int, least: int, most: int) -> None:
        self.data, self.width, self.least, self.most = data, width, least, most

    @staticmethod
    def check_recipe(recipe: Any) -> None:
        """Raise where a setting does not go with pointing."""
        refuse_rate(recipe, "label_smoothing", "it would reward pointing at what is not there")
        if not getattr(recipe.model, "revisit", True):
            refuse_rate(recipe, "sampling", "with model.revisit false a point cannot be chosen again")

    @staticmethod
    def load(data: PointData, folder: Path, seed: int) -> Splits:
        return load_points(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: PointData) -> list[Points]:
        return read_file(path, data)

    @staticmethod
    def records(given: Any, data: PointData) -> list[Points]:
        return records_of(given)

    def examples(self, folder: Path, seed: int, test: Sequence[Points] | None = None) -> list[str]:
        """Inputs worth looking at: the beginning of the test set, as the command line reads them."""
        if test is None:
            drawn = self.data.source is not None
            test = generate(self.data, ["test"])["test"] if drawn else load_points(self.data, folder, seed).test
        return [_written(record.source) for record in test[:10]]

    @classmethod
    def learn(cls, data: PointData, train: Sequence[Points]) -> Point:
        """The task of these training records."""
        counts = [len(record.source) for record in train]
        return cls(data, len(train[0].source[0]), min(counts), max(counts))

    @classmethod
    def restore(cls, data: PointData, files: dict[str, str]) -> Point:
        """The task that :meth:`files` kept."""
        try:
            kept = json.loads(files[KEPT])
            return cls(data, *(int(kept[name]) for name in ("width", "least", "most")))
        except (KeyError, TypeError, ValueError) as fault:
            found = "no such file" if KEPT not in files else f"a file that lacks them ({fault})"
            raise InputError(KEPT, expected="the points' width, least and most in the bundle", found=found) from None

    def files(self) -> dict[str, str]:
        return {KEPT: json.dumps({"width": self.width, "least": self.least, "most": self.most})}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Points], where: str) -> Corpus:
        """The records, if all their points are as wide as the first that was trained on."""
        for number, record in enumerate(records, start=1):
            self._check_width(record.source, f"{where}, record {number}")
        return Corpus(records)

    def _check_width(self, source: Coordinates, where: str) -> None:
        if len(source[0]) != self.width:
            expected = f"points of {self.width} number(s), as in training"
            raise InputError(where, expected=expected, found=f"points of {len(source[0])}")

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        lengths = [(len(record.source), len(record.target)) for record in corpus.records]
        return plan(lengths, tokens=tokens, records=records, seed=seed, epoch=epoch)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        return collate([corpus.records[number] for number in numbers], numbers)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> EncoderDecoder:
        if "width" not in inspect.signature(network_class).parameters:
            expected = "a network that reads points, such as pointer"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: EncoderDecoder = network_class(config, self.width)
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """−Σ log p(Cᵢ | C₍<ᵢ₎, P) of the true positions, END with them."""
        if smoothing:
            raise SaccadeError(
                f"train.label_smoothing must be 0 to learn pointing: got {smoothing}; "
                "it would reward pointing at what is not there"
            )
        if not _may_revisit(network) and (sampling or batch.repeats):
            found = f"train.sampling {sampling}" if sampling else f"a point twice in record {batch.repeats}"
            raise SaccadeError(
                f"model.revisit must be true where a point may have to be chosen again: got false with {found}"
            )
        logits = network(batch.points, batch.lengths, batch.target_in, sampling=sampling)
        return Loss(sequence_loss(logits, batch.target_out, padding=IGNORED), batch.tokens)

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def predict(
        self, network: EncoderDecoder, inputs: Sequence[Any], *, how: Search, lens: Lens | None = None
    ) -> list[Prediction]:
        """The positions chosen for each input: a list of points, of numbers (points of one), or JSON text of either."""
        sources = [self._read(each, f"input {number}") for number, each in enumerate(inputs, start=1)]
        predictions = self._predict(network, sources, how, lens)
        if lens is not None and sources:
            lens.check()
        return predictions

    def _read(self, given: Any, where: str) -> Coordinates:
        if isinstance(given, str):
            example = "[0.3, 0.1]" if self.width == 1 else "[[0.3, 0.1], [0.7, 0.2]]"
            given = parse(given, where, expected=f"points as JSON, such as {example}")
        if isinstance(given, int | float):
            hint = "an input is a list of points; inputs are a list of such lists"
            raise InputError(where, expected="a list of points", found="a number", hint=hint)
        source = as_points(given, where)
        self._check_width(source, where)
        return source

    def _predict(
        self, network: EncoderDecoder, sources: Sequence[Coordinates], how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """Inputs with as many points are searched together: without padding, no hypothesis can point at it."""
        predictions: dict[int, Prediction] = {}
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        with eval_mode(network):
            for _, same in groupby(order, key=lambda number: len(sources[number])):
                alike = list(same)
                size = inputs_together(how, PREDICTED_TOGETHER)
                for start in range(0, len(alike), size):
                    numbers = alike[start : start + size]
                    found = self._search(network, [sources[number] for number in numbers], how, lens)
                    for number, (hypotheses, read) in zip(numbers, found, strict=True):
                        predictions[number] = self._prediction(sources[number], hypotheses, read, how, lens)
        return [predictions[number] for number in range(len(sources))]

    def _search(
        self, network: EncoderDecoder, sources: Sequence[Coordinates], how: Search, lens: Lens | None
    ) -> list[tuple[list[Hypothesis], list[Record]]]:
        batch = collate([Points(source, ()) for source in sources], range(len(sources)))
        revisit = _may_revisit(network)
        # Each point once and the end; or, where points may come again, a length no sensible output exceeds.
        limits = [3 * len(source) if revisit else len(source) + 1 for source in sources]
        points = torch.arange(batch.points.shape[1] + 1).expand(len(sources), -1) != END
        found = read_and_search(
            network, batch.points, batch.lengths, limits, how, bos=END, eos=END, lens=lens, words=points
        )
        if revisit or (lens is not None and lens.edits):
            return found
        # A beam with more places than possible outputs fills up with impossible ones; an edit may mean them.
        return [
            ([each for each in hypotheses if len(set(each.tokens)) == len(each.tokens)] or hypotheses[:1], read)
            for hypotheses, read in found
        ]

    def _prediction(
        self, source: Coordinates, hypotheses: list[Hypothesis], read: list[Record], how: Search, lens: Lens | None
    ) -> Prediction:
        notes: tuple[str, ...] = ()
        if not self.least <= len(source) <= self.most:
            seen = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
            notes = (f"{len(source)} points, where training had {seen}",)
        made = []
        for found in hypotheses:
            value = [position - 1 for position in found.tokens]
            limit = ("reached the length limit without an end",) if found.stopped == "length" else ()
            trace = None if lens is None else self._trace(source, value, found, read)
            parts = how.parts(found)
            made.append(
                Prediction(value, found.score, found.log_prob, found.stopped, notes + limit, trace, parts=parts)
            )
        return replace(made[0], alternatives=tuple(made[1:]))

    # What it looked at becomes a labelled trace -----------------------------------------------------------------------

    def _trace(self, source: Coordinates, value: list[int], hypothesis: Hypothesis, read: list[Record]) -> Trace:
        labels = (STOP, *point_labels(source))
        ended = (END,) if hypothesis.stopped == "eos" else ()
        chosen = tuple(labels[position] for position in (*hypothesis.tokens, *ended))
        axes = {
            "source": Tokens(labels, special=(END,)),
            "target": Tokens(chosen, special=(len(chosen) - 1,) if ended else ()),
        }
        named = {"task": self.name, "input": _written(source), "output": json.dumps(value)}
        return trace_of(hypothesis, read, axes, lambda tokens: [labels[token] for token in tokens], **named)

    # Figures ----------------------------------------------------------------------------------------------------------

    def evaluate(
        self, network: EncoderDecoder, corpus: Corpus, *, how: Search, metrics: Sequence[str], limit: int | None = None
    ) -> Evaluation:
        """``exact_match``: the share of records with every position right and in order; ``perplexity`` of the truth."""
        unknown = [name for name in metrics if name not in self.metrics]
        if unknown:
            raise InputError("metrics", expected=f"any of {', '.join(self.metrics)}", found=repr(unknown[0]))
        corpus = corpus.first(limit)
        scores, outputs, notes = [], list[list[int]](), list[str]()
        if "perplexity" in metrics:
            scores.append(perplexity(*corpus_loss(self, network, corpus)))
        if "exact_match" in metrics:
            predictions = self._predict(network, [record.source for record in corpus.records], how, None)
            outputs = [prediction.value for prediction in predictions]
            unfinished = sum(prediction.stopped == "length" for prediction in predictions)
            if unfinished:
                notes.append(f"{unfinished} of {len(outputs)} outputs reached the length limit")
            true = [json.dumps(record.target) for record in corpus.records]
            scores.append(exact_match([json.dumps(output) for output in outputs], true))
        figures = {each.name: each.value for each in scores}
        higher = {each.name: each.higher_is_better for each in scores}
        return Evaluation(figures, higher_is_better=higher, outputs=outputs, notes=tuple(notes))


def collate(records: Sequence[Points], indices: Sequence[int]) -> Batch:
    """Close, shift and pad the records of one batch; ``indices`` says where each stands in its corpus."""
    targets = [[position + 1 for position in record.target] for record in records]
    lengths = [len(record.source) for record in records]
    most, steps = max(lengths), max(map(len, targets)) + 1
    absent = (0.0,) * len(records[0].source[0])
    padded = [[*record.source, *[absent] * (most - len(record.source))] for record in records]
    repeats = (index + 1 for target, index in zip(targets, indices, strict=True) if len(set(target)) < len(target))
    return Batch(
        points=torch.tensor(padded, dtype=torch.float32),
        lengths=torch.tensor(lengths),
        target_in=torch.tensor([[END, *target] + [END] * (steps - 1 - len(target)) for target in targets]),
        target_out=torch.tensor([[*target, END] + [IGNORED] * (steps - 1 - len(target)) for target in targets]),
        indices=list(indices),
        tokens=sum(len(target) + 1 for target in targets),
        repeats=next(repeats, None),
    )


def point_labels(source: Coordinates) -> tuple[str, ...]:
    """Each point as text, in the fewest decimals (two or more) that tell different points apart.

    >>> point_labels(((0.3125,), (0.1,), (0.72,)))
    ('0.31', '0.1', '0.72')
    """
    for decimals in DECIMALS:
        written = [[f"{round(number, decimals):g}" for number in point] for point in source]
        labels = tuple(numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})" for numbers in written)
        if len(set(labels)) == len(set(source)):
            break
    return labels


def _written(source: Coordinates) -> str:
    """Points as a person types them: JSON, numbers where a point is one."""
    return json.dumps([point[0] if len(point) == 1 else list(point) for point in source])


def _may_revisit(network: nn.Module) -> bool:
    members = getattr(network, "members", [network])  # of an ensemble
    return any(bool(getattr(getattr(member, "config", None), "revisit", True)) for member in members)
