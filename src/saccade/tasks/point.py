"""Orders points: the output is a sequence of positions of the input, as in sorting, convex hulls and tours.

Users count positions from 0. The network counts from 1, and 0 is END, which is also the first input of the decoder: points
p₀ p₁ p₂ with the order 2, 0 become

    target_in  0 3 1    →    target_out  3 1 0

The attention *is* the output: the rows of a map are the distributions from which the positions are chosen.

Legend: B batch, S points, T steps, d coordinates of a point.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.data.batching import Corpus
from saccade.data.files.jsonl import parse_json
from saccade.data.files.records import Name
from saccade.data.points.batch import IGNORED, Batch, collate
from saccade.data.points.records import (
    Coordinates,
    PointData,
    Points,
    as_points,
    generate,
    load_points,
    read_file,
    records_of,
)
from saccade.data.reading import FaultCounts
from saccade.documents import Size, checked, parse
from saccade.errors import InputError, SaccadeError
from saccade.kinds import POINTS
from saccade.metrics.text import POINT_METRICS, Score, exact_match, perplexity
from saccade.models import name_of
from saccade.models.pointer import END
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import Hypothesis, Search
from saccade.task import Evaluation, Loss, Prediction, Progress, refuse_rate
from saccade.tasks.decoding import Decodes, Searched, read_and_search, trace_of, unfinished
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

STOP = "■"  # how END is shown
SETTINGS = "points.json"
WIDEST = 10_000  # numbers per point


@dataclass(frozen=True)
class _Stored:
    width: Size
    least: Size
    most: Size


DECIMALS = range(2, 7)  # decimals of a label: the fewest that distinguish the points of an input


@dataclass(frozen=True)
class PointInput:
    """An input: its points and its notes."""

    source: Coordinates
    notes: tuple[str, ...] = ()


class Point(Decodes):
    """The task: the width of a point, and how many points training records have (``least`` to ``most``)."""

    name = "point"
    Data = PointData
    record_types = (Points,)
    network_base = EncoderDecoder
    metrics = POINT_METRICS
    input = POINTS
    input_depth = 2
    output = "order"
    length_setting = "data.most"
    not_scored = "the attention of a pointer network is its output: hiding a point hides the answer itself"

    def __init__(self, data: PointData, width: int, least: int, most: int) -> None:
        self.data, self.width, self.least, self.most = data, width, least, most

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        refuse_rate(recipe, "label_smoothing", "it would reward pointing at padding")
        if not getattr(recipe.model, "revisit", True):
            refuse_rate(recipe, "sampling", "with model.revisit: false no point can be chosen twice")

    load = staticmethod(load_points)
    read_file = staticmethod(read_file)

    @staticmethod
    def records(given: Any, data: PointData, dropped: FaultCounts | None = None) -> list[Points]:
        return records_of(given, dropped)

    def examples(self, folder: Path, seed: int, test: Sequence[Points] | None = None) -> list[str]:
        """The first test inputs, as the command line reads them."""
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
        """The task that :meth:`files` saved."""
        if SETTINGS not in files:
            expected = "the points' width, least and most in the bundle"
            raise InputError(SETTINGS, expected=expected, found="no such file")
        saved = checked(_Stored, parse(files[SETTINGS], SETTINGS), SETTINGS)
        if saved.width > WIDEST or saved.least > saved.most:
            expected = f"a width of at most {WIDEST:,}, and least ≤ most"
            raise InputError(SETTINGS, expected=expected, found=files[SETTINGS][:80])
        return cls(data, saved.width, saved.least, saved.most)

    def files(self) -> dict[str, str]:
        return {SETTINGS: json.dumps({"width": self.width, "least": self.least, "most": self.most})}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Points], where: str) -> Corpus:
        """A row is a record; all points must be as wide as those of training."""
        for number, record in enumerate(records, start=1):
            self._check_width(record.source, f"{where}, record {number}")
        return Corpus(records, records, [(len(record.source), len(record.target)) for record in records])

    def _check_width(self, source: Coordinates, where: str) -> None:
        if len(source[0]) != self.width:
            expected = f"points of {self.width} number(s), as in training"
            raise InputError(where, expected=expected, found=f"points of {len(source[0])}")

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        return collate([corpus.rows[number] for number in numbers], numbers)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> EncoderDecoder:
        if "width" not in inspect.signature(network_class).parameters:
            expected = "a network that reads points, such as pointer"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: EncoderDecoder = network_class(config, self.width)
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """−Σ log p(Cᵢ | C₍<ᵢ₎, P) of the true positions, END included."""
        if not _may_revisit(network) and (sampling or batch.repeats):
            reason = f"train.sampling {sampling}" if sampling else f"a point twice in record {batch.repeats}"
            raise SaccadeError(
                f"model.revisit must be true if a point may have to be chosen twice: got false with {reason}"
            )
        logits = network(batch.points, batch.lengths, batch.target_in, sampling=sampling)
        return Loss(sequence_loss(logits, batch.target_out, padding=IGNORED), batch.tokens)

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return ("points",)

    def read(self, given: Any, where: str, network: Any = None) -> PointInput:
        """An input is a list of points, of numbers (points of one), or JSON text of either."""
        if isinstance(given, str):
            example = "[0.3, 0.1]" if self.width == 1 else "[[0.3, 0.1], [0.7, 0.2]]"
            given = parse_json(given, where, expected=f"points as JSON, such as {example}")
        if isinstance(given, int | float):
            hint = "an input is a list of points; inputs are a list of such lists"
            raise InputError(where, expected="a list of points", found="a number", hint=hint)
        source = as_points(given, where)
        self._check_width(source, where)
        if self.least <= len(source) <= self.most:
            return PointInput(source)
        seen = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        return PointInput(source, (f"{len(source)} points, where training had {seen}",))

    def cost(self, item: PointInput) -> int:
        return len(item.source)

    def same_length(self, lens: Lens | None) -> bool:
        """Without padding, no hypothesis can point at it."""
        return True

    def search_batch(
        self, network: EncoderDecoder, items: Sequence[PointInput], how: Search, lens: Lens | None
    ) -> list[Searched]:
        sources = [item.source for item in items]
        batch = collate([Points(source, ()) for source in sources], range(len(sources)))
        revisit = _may_revisit(network)
        # Each point once and END; or, if points may be chosen again, a length that no sensible output exceeds.
        limits = [3 * len(source) if revisit else len(source) + 1 for source in sources]
        points = torch.arange(batch.points.shape[1] + 1).expand(len(sources), -1) != END
        searched = read_and_search(
            network, batch.points, batch.lengths, limits, how, bos=END, eos=END, lens=lens, words=points
        )
        if revisit or (lens is not None and lens.edits):
            return searched
        # A beam larger than the number of valid outputs fills up with invalid ones; an edit of a lens may intend them.
        return [
            ([own for own in hypotheses if len(set(own.tokens)) == len(own.tokens)] or hypotheses[:1], read)
            for hypotheses, read in searched
        ]

    def prediction_of(
        self, item: PointInput, found: Hypothesis, read: list[Record], how: Search, lens: Lens | None
    ) -> Prediction:
        value = [position - 1 for position in found.tokens]
        limit = ("reached the length limit without an end",) if found.stopped == "length" else ()
        trace = None if lens is None else self._trace(item.source, value, found, read)
        notes, parts = item.notes + limit, how.parts(found)
        return Prediction(value, found.score, found.log_prob, found.stopped, notes, trace, parts=parts)

    # Attention becomes a labelled trace -------------------------------------------------------------------------------

    def _trace(self, source: Coordinates, value: list[int], hypothesis: Hypothesis, read: list[Record]) -> Trace:
        labels = (STOP, *point_labels(source))
        ended = (END,) if hypothesis.stopped == "eos" else ()
        chosen = tuple(labels[position] for position in (*hypothesis.tokens, *ended))
        axes = {
            "source": Tokens(labels, special=(END,)),
            "target": Tokens(chosen, special=(len(chosen) - 1,) if ended else ()),
        }
        named = {**self.about, "input": _written(source), "output": json.dumps(value)}
        named["counts_from"] = {"source": -1}  # END stands before point 0
        return trace_of(hypothesis, read, axes, lambda tokens: [labels[token] for token in tokens], **named)

    # Figures ----------------------------------------------------------------------------------------------------------

    def measure(
        self, network: EncoderDecoder, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """``exact_match``: the share of records with every position right and in order; ``perplexity`` of the truth."""
        scores, outputs, notes = list[Score](), list[list[int]](), list[str]()
        if "perplexity" in metrics:
            scores.append(perplexity(*corpus_loss(self, network, corpus)))
        if "exact_match" in metrics:
            items = [PointInput(record.source) for record in corpus.records]
            predictions = self.predict_items(network, items, how=how, progress=progress)
            outputs = [prediction.value for prediction in predictions]
            notes = unfinished(predictions)
            true = [json.dumps(record.target) for record in corpus.records]
            scores.append(exact_match([json.dumps(output) for output in outputs], true))
        return Evaluation.of({metric.name: metric for metric in scores}, outputs, notes)

    def reference(self, record: Points) -> str:
        return json.dumps(record.target)

    def output_text(self, record: Points, output: Any) -> str:
        return json.dumps(output)

    def length_of(self, record: Points, by: str) -> int:
        return len(record.target if by == "reference_words" else record.source)


def point_labels(source: Coordinates) -> tuple[str, ...]:
    """Each point as text, with the fewest decimals (two or more) that distinguish different points.

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
    """Points as JSON, as users write them; a point of one number is that number."""
    return json.dumps([point[0] if len(point) == 1 else list(point) for point in source])


def _may_revisit(network: nn.Module) -> bool:
    members = getattr(network, "members", [network])  # of an ensemble
    return any(bool(getattr(getattr(member, "config", None), "revisit", True)) for member in members)
