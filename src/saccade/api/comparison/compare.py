"""Several runs on one test set: figures with intervals, whether they differ, what they cost, and where they part.

comparison = saccade.api.compare(["runs/rnnsearch", "runs/seq2seq"], metrics=["bleu"])
comparison.systems[1].against["bleu"].bootstrap_p
comparison.plot("lengths.png")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

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
    statistics,
)
from saccade.task import Calibrates, Searches
from saccade.tasks.calibration import shares_of

By = Literal["source_words", "source_tokens", "reference_words"]
REPEATS = 3

# How a figure is called on a picture
NAMES = {
    "bleu": "BLEU", "chrf": "chrF", "ter": "TER", "cer": "character error rate", "wer": "word error rate",
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
    """One run: what it is, what it reached, whether it differs from the first (``against``, by metric), what it costs."""

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
    """Systems on one test set. ``apart`` numbers the inputs, those first on which the systems' outputs differ most."""

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
            systems.append({**plain, "against_first": {name: asdict(each) for name, each in system.against.items()}})
        about = {"test": self.where, "count": len(self), "text": self.text, "by": self.by}
        about |= {"metrics": list(self.metrics), "samples": self.samples, "seed": self.seed}
        return {**about, "systems": systems, "examples": self.examples(show), "notes": list(self.notes)}

    def plot(self, path: str | Path) -> Path:
        """Draw the first metric by length, a line a system (Bahdanau et al. 2015, fig. 2): .png, .svg or .pdf."""
        from saccade.views.charts.by_length import Chart, Line, save

        scores = [system.by_length for system in self.systems]
        lines = [
            Line(system.name, [each.value for each in part], [each.low for each in part], [each.high for each in part])
            for system, part in zip(self.systems, scores, strict=True)
        ]
        metric, by = self.metrics[0], self.by.replace("_", " ")
        named = NAMES.get(metric, metric.replace("_", " "))
        names, counts = [each.name for each in scores[0]], [each.count for each in scores[0]]
        save(Chart(lines, names, counts, by, named, f"{named} by length"), path)
        return Path(path)


def compare(
    runs: Sequence[str | Path | Bundle],
    data: Any = None,
    *,
    metrics: Sequence[str] | None = None,
    beam: int | None = None,
    text: Form = "own",
    by: By = "source_words",
    edges: Sequence[int] | Literal["quantiles"] = EDGES,
    samples: int = SAMPLES,
    seed: int = 0,
    repeats: int = REPEATS,
    device: str = "auto",
    say: Callable[[str], None] = lambda _: None,
    trust: Sequence[str] = (),
) -> Comparison:
    """Hold runs of one task to one test set; the first is what the others are tested against.

    Args:
        data: a file, or records in hand; the first run's own test set unless given.
        metrics: of the outputs, and of classifiers also of how likely they are said to be; those of the first run's recipe
            unless given.
        beam: for all runs; each recipe's own search unless given.
        text: ``own`` asks that all runs write the references alike; ``common`` brings all to one form.
        by, edges: what length is, and where buckets end (or ``quantiles``: about as many sentences in each).
        samples, seed: of the bootstrap and of the randomisation. ``repeats``: how often speed is measured; 0: not at all.
        say: is told what happens next.
        trust: modules whose parts the runs may use, as for :func:`saccade.load`.
    """
    _check(by, samples, repeats)
    contest, wanted = _enter(loaded(runs, device, trust), data, metrics, beam, text, device)
    into = _buckets(contest, by, edges)
    outputs, notes = _outputs(contest, say)
    if data is None:
        notes = [*filter(None, map(contest.seen, range(1, len(outputs)))), *notes]
    if len(into) == 1:
        notes.append(f"all inputs fall into one bucket by {by}: choose other edges, quantiles, or another length")
    taken = speeds(contest, repeats, seed, say)
    say(f"resampling {samples:,} times")
    systems = _systems(contest, outputs, wanted, taken, into, samples, seed)
    texts, form = contest.references.texts, contest.references.form
    apart = _apart([contest.shown(found) for found in outputs], texts)
    return Comparison(contest.where, form, by, wanted, systems, contest.sources, texts, apart, samples, seed, notes)


def _enter(
    bundles: Sequence[Bundle],
    data: Any,
    metrics: Sequence[str] | None,
    beam: int | None,
    text: Form,
    device: str,
) -> tuple[ComparisonSetup, list[str]]:
    """The contest, and what its runs are measured by: metrics of outputs, which the contest knows, and of probabilities."""
    asked = list(dict.fromkeys(metrics or bundles[0].recipe.metrics))
    likely = [name for name in asked if name in PROBABILITY_METRICS and isinstance(bundles[0].task, Calibrates)]
    said = metrics
    if likely:
        said = [name for name in asked if name not in likely] or ["accuracy"]
    contest = prepare(bundles, data, said, beam, text, device)
    return contest, [name for name in asked if name in likely or name in contest.metrics] or list(contest.metrics)


def _check(by: str, samples: int, repeats: int) -> None:
    if by not in get_args(By):
        raise SaccadeError(f"by: expected one of {', '.join(get_args(By))}, found {by!r}")
    for name, count, least in (("samples", samples, 1), ("repeats", repeats, 0)):
        if count < least:
            raise SaccadeError(f"{name} must be at least {least}: got {count}")


def _buckets(contest: ComparisonSetup, by: By, edges: Sequence[int] | str) -> list[Bucket]:
    """The inputs by length, without the empty buckets at both ends."""
    if isinstance(edges, str) and edges != "quantiles":
        raise SaccadeError(f"edges: expected growing whole numbers or 'quantiles', found {edges!r}")
    lengths = _lengths(contest, by)
    into = buckets(lengths, quantile_edges(lengths) if isinstance(edges, str) else edges)
    full = [number for number, bucket in enumerate(into) if bucket.sentences]
    return into[full[0] : full[-1] + 1]


def _lengths(contest: ComparisonSetup, by: By) -> list[int]:
    if by == "reference_words" and contest.references.are_texts:
        return [len(text.split()) for text in contest.references.texts]
    return [contest.task.length_of(record, by) for record in contest.records]


def _outputs(contest: ComparisonSetup, say: Callable[[str], None]) -> tuple[list[list[Any]], list[str]]:
    outputs, notes = [], []
    for number, name in enumerate(contest.names):
        say(f"{name}: decoding {len(contest.records):,} inputs")
        found, remarks = decode(contest, number)
        outputs.append([contest.references.written(output) for output in found])
        notes += [f"{name}: {remark}" for remark in remarks]
    return outputs, notes


def _systems(
    contest: ComparisonSetup,
    outputs: Sequence[Sequence[Any]],
    wanted: Sequence[str],
    taken: Sequence[Speed | None],
    into: Sequence[Bucket],
    samples: int,
    seed: int,
) -> list[System]:
    measured = [_measured(contest, number, found, wanted) for number, found in enumerate(outputs)]
    systems = []
    for number, (bundle, ours) in enumerate(zip(contest.bundles, measured, strict=True)):
        recipe = bundle.recipe
        pairs = zip(measured[0], ours, strict=True) if number else ()
        against = {one.name: paired_difference(base, one, samples=samples, seed=seed) for base, one in pairs}
        by_length = score_by_length(ours[0], into, samples=samples, seed=seed)
        system = System(
            contest.names[number], str(bundle.folder), recipe.name, recipe.model_name, recipe.train.seed,
            bundle.parameters, size_on_disk(bundle), _search(contest, number), _figures(ours, samples, seed),
            against, by_length, taken[number], contest.shown(outputs[number]),
        )  # fmt: skip
        systems.append(system)
    return systems


def _measured(contest: ComparisonSetup, number: int, outputs: Sequence[Any], wanted: Sequence[str]) -> list[Statistics]:
    found = {each.name: each for each in contest.measure(outputs)}
    likely = [name for name in wanted if name not in found]
    if likely:
        found |= measured_probabilities(contest.bundles[number], contest.records, contest.where, likely)
    return [found[name] for name in wanted]


def _search(contest: ComparisonSetup, number: int) -> dict[str, Any]:
    """How outputs were searched for; nothing where they are not."""
    return asdict(contest.searches[number]) if isinstance(contest.task, Searches) else {}


def _figures(ours: Sequence[Statistics], samples: int, seed: int) -> dict[str, Figure]:
    figures = {}
    for each in ours:
        sure = interval(bootstrap(each, samples=samples, seed=seed))
        figures[each.name] = Figure(each.value, sure.low, sure.high, each.signature)
    return figures


def _apart(outputs: Sequence[Sequence[str]], references: Sequence[str]) -> list[int]:
    """Inputs on which outputs differ, by how far their chrF is apart, the furthest first."""
    if len(outputs) < 2:
        return []
    chrf = np.stack([statistics("chrf", found, references).by_sentence for found in outputs])  # [systems, N]
    spread = chrf.max(axis=0) - chrf.min(axis=0)
    differ = [number for number, found in enumerate(zip(*outputs, strict=True)) if len(set(found)) > 1]
    return sorted(differ, key=lambda number: -spread[number])


# ----------------------------------------------------------------------------------------------------
# What the metrics of probabilities (:mod:`saccade.metrics.calibration`) are computed from, record by record, so that runs can
# be compared by them as by any other:
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
    # A bin holds its upper edge: a probability of 1 falls into the last.
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
    """The metrics of a classifier's probabilities on these records, calibrated where the run is."""
    task = bundle.task
    with threads(bundle.threads):
        corpus = task.corpus(records, where)
        if not isinstance(task, Calibrates):
            raise SaccadeError(f"{', '.join(metrics)}: expected a task with probabilities, found {task.name}")
        shares = shares_of(task.logits_of(bundle.network, corpus), task.calibration)
    probabilities, labels = shares.double().cpu().numpy(), np.array(task.targets_of(corpus))
    return {name: probability_statistics(name, probabilities, labels) for name in metrics}
