"""Compares several runs on one test set: metrics with confidence intervals, significance, speed, and differing outputs.

comparison = saccade.api.compare(["runs/rnnsearch", "runs/seq2seq"], metrics=["bleu"])
comparison.systems[1].against["bleu"].bootstrap_p
comparison.plot("lengths.png")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from saccade.api.bundle import Bundle, threads
from saccade.api.comparison.entrants import ComparisonSetup, Speed, decode, loaded, prepare, size_on_disk, speeds
from saccade.api.comparison.references import Form
from saccade.errors import SaccadeError
from saccade.metrics.calibration import BINS, LEAST, PROBABILITY_METRICS, SIGNATURES
from saccade.metrics.significance import (
    EDGES,
    SAMPLES,
    Bucket,
    BucketScore,
    Paired,
    Statistics,
    bootstrap,
    buckets,
    interval,
    paired_difference,
    quantile_edges,
    score_by_length,
)
from saccade.task import Calibrates, Searches
from saccade.tasks.calibration import shares_of

REPEATS = 3

# Names of metrics on charts
NAMES = {
    "bleu": "BLEU", "chrf": "chrF", "ter": "TER", "cer": "character error rate", "wer": "word error rate",
    "auc": "AUC", "auprc": "average precision",
    "ece": "expected calibration error", "brier": "Brier score", "nll": "negative log-likelihood",
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A metric's value and its 95 % interval."""

    value: float
    low: float
    high: float
    signature: str | None = None


@dataclass(frozen=True)
class System:
    """One run: its model, its metrics, its difference from the first run (``against``, by metric), its size and speed."""

    name: str
    run: str
    recipe: str
    model: str
    seed: int
    parameters: int
    bytes: int | None
    search: Mapping[str, Any]
    figures: Mapping[str, Figure]
    against: Mapping[str, Paired]
    by_length: Sequence[BucketScore]
    speed: Speed | None
    outputs: Sequence[str] = field(repr=False)


@dataclass(frozen=True)
class Comparison:
    """Systems on one test set. ``apart`` lists the numbers of the inputs whose outputs differ, the most different first."""

    where: str
    text: str
    by: str
    metrics: Sequence[str]
    systems: Sequence[System]
    sources: Sequence[str] = field(repr=False)
    references: Sequence[str] = field(repr=False)
    apart: Sequence[int] = field(repr=False)
    samples: int = SAMPLES
    seed: int = 0
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.references)

    def examples(self, count: int) -> list[dict[str, Any]]:
        """The ``count`` inputs on which the systems differ most, with every output."""
        return [
            {
                "number": number + 1,
                "source": self.sources[number],
                "reference": self.references[number],
                "outputs": {system.name: system.outputs[number] for system in self.systems},
            }
            for number in self.apart[:count]
        ]

    def to_plain(self, show: int = 0) -> dict[str, Any]:
        """The comparison as plain data, for JSON."""
        systems = []
        for system in self.systems:
            plain = {key: value for key, value in asdict(system).items() if key not in ("outputs", "against")}
            systems.append(
                {**plain, "against_first": {name: asdict(difference) for name, difference in system.against.items()}}
            )
        about = {"test": self.where, "count": len(self), "text": self.text, "by": self.by}
        about |= {"metrics": list(self.metrics), "samples": self.samples, "seed": self.seed}
        return {**about, "systems": systems, "examples": self.examples(show), "notes": list(self.notes)}

    def plot(self, path: str | Path) -> Path:
        """Plot the first metric by length, one line per system (Bahdanau et al. 2015, fig. 2): .png, .svg or .pdf."""
        from saccade.views.charts.by_length import Chart, Line, save

        scores = [system.by_length for system in self.systems]
        lines = [
            Line(system.name, [s.value for s in part], [s.low for s in part], [s.high for s in part])
            for system, part in zip(self.systems, scores, strict=True)
        ]
        metric, by = self.metrics[0], self.by.replace("_", " ")
        named = NAMES.get(metric, metric.replace("_", " "))
        names, counts = [score.name for score in scores[0]], [score.count for score in scores[0]]
        save(Chart(lines, names, counts, by, named, f"{named} by length"), path)
        return Path(path)


def compare(
    runs: Sequence[str | Path | Bundle],
    data: Any = None,
    *,
    metrics: Sequence[str] | None = None,
    beam: int | None = None,
    text: Form = "own",
    by: str | None = None,
    edges: Sequence[int] | Literal["quantiles"] = EDGES,
    samples: int = SAMPLES,
    seed: int = 0,
    repeats: int = REPEATS,
    device: str = "auto",
    say: Callable[[str], None] = lambda _: None,
    trust: Sequence[str] = (),
) -> Comparison:
    """Compare runs of one task on one test set; the others are tested for significance against the first.

    Args:
        data: a file, or records in memory; the first run's own test set unless given.
        metrics: of the outputs, and for classifiers also of the probabilities; those of the first run's recipe unless given.
        beam: the beam size for all runs; each recipe's own search unless given.
        text: ``own`` requires that all runs write the references alike; ``common`` normalises all of them to one form.
        by, edges: the unit of length, the task's first unless given, and where buckets end (``quantiles``: about as many
            records in each bucket).
        samples, seed: of the bootstrap and of the randomisation test. ``repeats``: how often speed is measured; 0: never.
        say: called with progress messages.
        trust: modules whose parts the runs may use, as for :func:`saccade.load`.
    """
    bundles = loaded(runs, device, trust)
    by = bundles[0].task.lengths[0] if by is None else by
    _check(by, bundles[0].task.lengths, samples, repeats)
    setup, wanted = _enter(bundles, data, metrics, beam, text, device)
    by_length = _buckets(setup, by, edges)
    outputs, notes = _outputs(setup, say)
    notes = [*setup.notes, *notes]
    if data is None:
        notes = [*filter(None, map(setup.seen, range(1, len(outputs)))), *notes]
    if len(by_length) == 1:
        notes.append(f"all inputs are in one bucket by {by}: choose other edges, quantiles, or another unit of length")
    taken = speeds(setup, repeats, seed, say)
    say(f"resampling {samples:,} times")
    systems = _systems(setup, outputs, wanted, taken, by_length, samples, seed)
    texts, form = setup.references.texts, setup.references.form
    apart = _apart(setup, outputs)
    return Comparison(setup.where, form, by, wanted, systems, setup.sources, texts, apart, samples, seed, notes)


def _enter(
    bundles: Sequence[Bundle],
    data: Any,
    metrics: Sequence[str] | None,
    beam: int | None,
    text: Form,
    device: str,
) -> tuple[ComparisonSetup, list[str]]:
    """The setup and the metrics to compute: those of outputs, which the setup knows, and those of probabilities."""
    wanted = list(dict.fromkeys(metrics or bundles[0].recipe.metrics))
    likely = [name for name in wanted if name in PROBABILITY_METRICS and isinstance(bundles[0].task, Calibrates)]
    of_outputs = metrics
    if likely:
        of_outputs = [name for name in wanted if name not in likely] or ["accuracy"]
    setup = prepare(bundles, data, of_outputs, beam, text, device)
    return setup, [name for name in wanted if name in likely or name in setup.metrics] or list(setup.metrics)


def _check(by: str, known: Sequence[str], samples: int, repeats: int) -> None:
    if by not in known:
        raise SaccadeError(f"by: expected one of {', '.join(known)}, found {by!r}")
    for name, count, least in (("samples", samples, 1), ("repeats", repeats, 0)):
        if count < least:
            raise SaccadeError(f"{name} must be at least {least}: got {count}")


def _buckets(setup: ComparisonSetup, by: str, edges: Sequence[int] | str) -> list[Bucket]:
    """The inputs by length, without the empty buckets at both ends."""
    if isinstance(edges, str) and edges != "quantiles":
        raise SaccadeError(f"edges: expected increasing integers or 'quantiles', found {edges!r}")
    lengths = _lengths(setup, by)
    into = buckets(lengths, quantile_edges(lengths) if isinstance(edges, str) else edges)
    full = [number for number, bucket in enumerate(into) if bucket.sentences]
    return into[full[0] : full[-1] + 1]


def _lengths(setup: ComparisonSetup, by: str) -> list[int]:
    if by == "reference_words" and setup.references.are_texts:
        return [len(text.split()) for text in setup.references.texts]
    return [setup.task.length_of(record, by) for record in setup.records]


def _outputs(setup: ComparisonSetup, say: Callable[[str], None]) -> tuple[list[list[Any]], list[str]]:
    outputs, notes = [], []
    for number, name in enumerate(setup.names):
        say(f"{name}: decoding {len(setup.records):,} inputs")
        raw, remarks = decode(setup, number)
        outputs.append([setup.references.written(output) for output in raw])
        notes += [f"{name}: {remark}" for remark in remarks]
    return outputs, notes


def _systems(
    setup: ComparisonSetup,
    outputs: Sequence[Sequence[Any]],
    wanted: Sequence[str],
    taken: Sequence[Speed | None],
    into: Sequence[Bucket],
    samples: int,
    seed: int,
) -> list[System]:
    measured = [_measured(setup, number, texts, wanted) for number, texts in enumerate(outputs)]
    systems = []
    for number, (bundle, ours) in enumerate(zip(setup.bundles, measured, strict=True)):
        recipe = bundle.recipe
        pairs = zip(measured[0], ours, strict=True) if number else ()
        against = {one.name: paired_difference(base, one, samples=samples, seed=seed) for base, one in pairs}
        by_length = score_by_length(ours[0], into, samples=samples, seed=seed)
        system = System(
            setup.names[number], str(bundle.folder), recipe.name, recipe.model_name, recipe.train.seed,
            bundle.parameters, size_on_disk(bundle), _search(setup, number), _figures(ours, samples, seed),
            against, by_length, taken[number], setup.shown(outputs[number]),
        )  # fmt: skip
        systems.append(system)
    return systems


def _measured(setup: ComparisonSetup, number: int, outputs: Sequence[Any], wanted: Sequence[str]) -> list[Statistics]:
    measured = {metric.name: metric for metric in setup.measure(outputs)}
    likely = [name for name in wanted if name not in measured]
    if likely:
        measured |= measured_probabilities(setup.bundles[number], setup.records, setup.where, likely)
    return [measured[name] for name in wanted]


def _search(setup: ComparisonSetup, number: int) -> dict[str, Any]:
    """The search settings; empty for tasks without a search."""
    return asdict(setup.searches[number]) if isinstance(setup.task, Searches) else {}


def _figures(ours: Sequence[Statistics], samples: int, seed: int) -> dict[str, Figure]:
    figures = {}
    for metric in ours:
        confidence = interval(bootstrap(metric, samples=samples, seed=seed))
        figures[metric.name] = Figure(metric.value, confidence.low, confidence.high, metric.signature)
    return figures


def _apart(setup: ComparisonSetup, outputs: Sequence[Sequence[Any]]) -> list[int]:
    """Inputs on which outputs differ, those of the most different quality first."""
    if len(outputs) < 2:
        return []
    qualities = np.stack([setup.qualities(texts) for texts in outputs])  # [systems, N]
    spread = qualities.max(axis=0) - qualities.min(axis=0)
    differ = [
        number for number, texts in enumerate(zip(*map(setup.shown, outputs), strict=True)) if len(set(texts)) > 1
    ]
    return sorted(differ, key=lambda number: -spread[number])


# ----------------------------------------------------------------------------------------------------
# Per-record statistics of the probability metrics (:mod:`saccade.metrics.calibration`), for bootstrap and significance tests:
#
#     ECE = Σ_b |right in B_b − confidence in B_b| / N      of three sums per bin: count, confidence, right
#     Brier, NLL                                            means over records
#
# Legend: N records, C labels, K bins.


def probability_statistics(
    name: str, probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"], bins: int = BINS
) -> Statistics:
    """The rows of ``ece``, ``brier`` or ``nll``; ``labels`` are the numbers of the true ones.

    >>> probability_statistics("ece", np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1]), bins=2).value
    0.13333333333333333
    """
    if name == "ece":
        rows = _binned(probabilities, labels, bins)
        return Statistics(name, rows, _gap, higher_is_better=False, signature=SIGNATURES[name])
    if name == "brier":
        truth = np.eye(probabilities.shape[1])[labels]
        figures = ((probabilities - truth) ** 2).sum(axis=1)
    else:
        figures = -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], LEAST))
    rows = np.stack([figures, np.ones(len(labels))], axis=1)  # [N, 2]
    return Statistics(name, rows, _mean, higher_is_better=False, signature=SIGNATURES[name])


def _binned(probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"], bins: int) -> Float[ndarray, "N 3K"]:
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    # A bin includes its upper edge, so a probability of 1 is in the last one.
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    within = np.eye(bins)[place]  # [N, K]
    return np.concatenate([within, within * confidence[:, None], within * right[:, None]], axis=1)


def _gap(sums: Float[ndarray, " 3K"]) -> float:
    counts, confidence, right = sums.reshape(3, -1)
    return float(np.abs(right - confidence).sum() / counts.sum())


def _mean(sums: Float[ndarray, " 2"]) -> float:
    return float(sums[0] / sums[1])


def measured_probabilities(
    bundle: Bundle, records: Sequence[Any], where: str, metrics: Sequence[str]
) -> dict[str, Statistics]:
    """The metrics of a classifier's probabilities on these records, after calibration if the run has one."""
    task = bundle.task
    with threads(bundle.threads):
        corpus = task.corpus(records, where)
        if not isinstance(task, Calibrates):
            raise SaccadeError(f"{', '.join(metrics)}: expected a task with probabilities, found {task.name}")
        shares = shares_of(task.logits_of(bundle.network, corpus), task.calibration)
    probabilities, labels = shares.double().cpu().numpy(), np.array(task.targets_of(corpus))
    return {name: probability_statistics(name, probabilities, labels) for name in metrics}
