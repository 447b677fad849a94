"""Compares several runs on one test set: metrics with confidence intervals, significance, speed, and differing outputs.

comparison = saccade.api.compare(["runs/rnnsearch", "runs/seq2seq"], metrics=["bleu"])
comparison.systems[1].against["bleu"].bootstrap_p
comparison.plot("lengths.png")

A run's metrics depend on its tokenizer: one that lower-cases, or splits words, makes an easier or a different text of the same
reference. Two forms of the references are fair:

    own       each run's own text, where that is the same for all of them
    common    the coarsest form: lower-cased if any run lower-cases, split into words if any run does, with the strongest
              Unicode normalisation; for outputs and references alike
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from saccade.api.bundle import Bundle, load, threads
from saccade.api.finetune import sources_trained_on
from saccade.api.runs import checksum_of_data
from saccade.bundle_format import CARD, CONFIG, holds_bundle, read_config
from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
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
from saccade.metrics.text import check_available
from saccade.nn.search.beam_search import Search
from saccade.storage import current_file
from saccade.task import Calibrates, Searches, Task
from saccade.tasks.calibration import shares_of

REPEATS = 3
TIMED = 256  # inputs decoded to measure speed
Form = Literal["own", "common"]

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


@dataclass(frozen=True)
class Speed:
    """The median of ``repeats`` times that ``inputs`` inputs were decoded."""

    per_second: float
    inputs: int
    repeats: int
    device: str


@dataclass(frozen=True)
class ComparisonSetup:
    """The loaded runs, and the test set, references and metrics on which all are compared."""

    bundles: Sequence[Bundle]
    names: Sequence[str]
    searches: Sequence[Search]
    records: Sequence[Any]
    where: str
    references: References
    metrics: Sequence[str]
    notes: Sequence[str] = ()  # about the records

    @property
    def task(self) -> Task:
        return self.bundles[0].task

    @property
    def sources(self) -> list[str]:
        return [self.task.source_text(record) for record in self.records]

    def shown(self, outputs: Sequence[Any]) -> list[str]:
        """The outputs as a person reads them."""
        return [self.task.output_text(record, output) for record, output in zip(self.records, outputs, strict=True)]

    def measure(self, outputs: Sequence[Any]) -> list[Statistics]:
        if not self.references.are_texts:
            return [self.task.statistics(name, outputs, self.records) for name in self.metrics]
        texts, tokenize = self.references.texts, self.references.bleu_tokenize
        return [statistics(name, outputs, texts, bleu_tokenize=tokenize) for name in self.metrics]

    def qualities(self, outputs: Sequence[Any]) -> Float[ndarray, " N"]:
        """How good each output is alone: the chrF of texts, else what the task says."""
        if not self.references.are_texts:
            return self.task.qualities(outputs, self.records)
        return statistics("chrf", self.shown(outputs), self.references.texts).by_sentence

    def seen(self, number: int) -> str:
        """A warning if a run was trained on inputs that the first run has held out; empty otherwise."""
        name = self.names[number]
        # Without a test file the seed decides what is held out: a run with another seed is trained on some of it.
        if _trainings(self.bundles[number]) == _trainings(self.bundles[0]):
            return ""
        try:
            seen, usual = (self._trained_on(bundle) for bundle in (self.bundles[number], self.bundles[0]))
        except SaccadeError as error:
            return f"cannot check whether {name} was trained on some of these inputs: {error}"
        # Frequent short inputs occur in any training set and any test set; the first run has seen those too.
        if seen - usual <= 0.01 * len(self.records):
            return ""
        return f"{name} was trained on {seen:,} of these {len(self.records):,} inputs: its scores are too optimistic"

    def _trained_on(self, bundle: Bundle) -> int:
        runs = bundle.members or (bundle,)
        trained_on = set().union(*(sources_trained_on(run.recipe, run.folder) for run in runs))
        return sum(record.source in trained_on for record in self.records)


def _references(bundles: Sequence[Bundle], names: Sequence[str], records: Sequence[Any], text: Form) -> References:
    task = bundles[0].task
    if task.output_tokenizer is not None:
        return shared_references(bundles, names, records, text)
    return References([task.reference(record) for record in records], _unchanged, "none", "as it is", are_texts=False)


def _unchanged(output: Any) -> Any:
    return output


def _trainings(bundle: Bundle) -> list[tuple[Any, ...]]:
    """What determines the training records of a run, or of each member of an ensemble."""
    return [
        (
            run.recipe.data,
            run.recipe.folder,
            run.recipe.train.seed,
            run.recipe.train.from_,
            checksum_of_data(run.folder),
        )
        for run in bundle.members or (bundle,)
    ]


def loaded(runs: Sequence[str | Path | Bundle], device: str, trust: Sequence[str] = ()) -> list[Bundle]:
    """The runs as bundles. Those that are loaded here may use parts of the modules in ``trust``."""
    if isinstance(runs, str | Path) or not runs:
        raise SaccadeError("expected a list of runs, found " + (repr(str(runs)) if runs else "none"))
    return [run if isinstance(run, Bundle) else load(run, device, trust=trust) for run in runs]


def prepare(
    runs: Sequence[str | Path | Bundle],
    data: Any,
    metrics: Sequence[str] | None,
    beam: int | None,
    text: Form,
    device: str,
) -> ComparisonSetup:
    """Load the runs and choose metrics and references; raises if the runs cannot be compared."""
    bundles = loaded(runs, device)
    for bundle in bundles:
        if not bundle.task.output_metrics:
            raise SaccadeError(
                f"{bundle.folder}: expected a task whose outputs have references, found {bundle.recipe.task!r}; compare its "
                "metrics instead, with saccade evaluate RUN --data FILE for each run"
            )
    names = _names(bundles)
    wanted = _metrics(bundles, metrics)
    searches = [_search_of(bundle, beam) for bundle in bundles]
    records, where, notes = bundles[0].records_of(data)
    references = _references(bundles, names, records, text)
    return ComparisonSetup(bundles, names, searches, records, where, references, wanted, notes)


def _names(bundles: Sequence[Bundle]) -> list[str]:
    """The folders' names, with as many parent folders as make them unique; for an ensemble, those of all members."""
    runs = [tuple(member.folder.resolve() for member in bundle.members or (bundle,)) for bundle in bundles]
    for depth in range(1, max(len(folder.parts) for run in runs for folder in run) + 1):
        names = [" + ".join("/".join(folder.parts[-depth:]) for folder in run) for run in runs]
        if len(set(names)) == len(set(runs)):
            break
    return [
        name if names.count(name) == 1 else f"{name} ({names[: number + 1].count(name)})"
        for number, name in enumerate(names)
    ]


def _metrics(bundles: Sequence[Bundle], wanted: Sequence[str] | None) -> list[str]:
    tasks = {bundle.recipe.task for bundle in bundles}
    if len(tasks) > 1:
        raise SaccadeError(f"expected runs of one task, found {', '.join(sorted(tasks))}")
    if wanted is not None and "perplexity" in wanted:
        raise SaccadeError("perplexity is not a metric of outputs: saccade evaluate RUN --metric perplexity")
    known = bundles[0].task.output_metrics
    metrics = list(dict.fromkeys(wanted or [name for name in bundles[0].recipe.metrics if name in known]))
    unknown = [name for name in metrics if name not in known]
    if unknown:
        raise SaccadeError(
            f"unknown metric {unknown[0]!r}: expected one of {', '.join(known)} for outputs of {bundles[0].recipe.task}"
        )
    check_available(metrics)
    return metrics or [known[0]]


def _search_of(bundle: Bundle, beam: int | None) -> Search:
    try:
        return replace(bundle.recipe.search, n_best=1, beam=beam if beam is not None else bundle.recipe.search.beam)
    except ValueError as error:
        raise SaccadeError(str(error)) from None


def decode(setup: ComparisonSetup, number: int) -> tuple[Sequence[Any], Sequence[str]]:
    """A run's outputs for all inputs, and warnings about them."""
    bundle = setup.bundles[number]
    with threads(bundle.threads):
        try:
            corpus = bundle.task.corpus(setup.records, setup.where)
        except SaccadeError as error:
            raise SaccadeError(f"{setup.names[number]}: {error}") from None
        how = setup.searches[number]
        metric = bundle.task.output_metrics[0]
        evaluation = bundle.task.evaluate(bundle.network, corpus, how=how, metrics=[metric])
    return evaluation.outputs, evaluation.notes


def speeds(setup: ComparisonSetup, repeats: int, seed: int, say: Callable[[str], None]) -> list[Speed | None]:
    """Decoding speed of each run on the same inputs. The runs take turns, so that a slower machine affects all of them."""
    bundles = setup.bundles
    if repeats < 1:
        return [None] * len(bundles)
    drawn = np.random.default_rng(seed).permutation(len(setup.records))[:TIMED]
    inputs = [setup.task.input_of(setup.records[number]) for number in drawn]
    seconds: list[list[float]] = [[] for _ in bundles]
    for turn in range(repeats):
        for number, (bundle, search) in enumerate(zip(bundles, setup.searches, strict=True)):
            say(f"{setup.names[number]}: timing {len(inputs):,} inputs, {turn + 1} of {repeats}")
            start = time.perf_counter()
            bundle.predict(inputs, search=search)
            seconds[number].append(time.perf_counter() - start)
    return [
        Speed(len(inputs) / median(taken), len(inputs), repeats, _device(bundle))
        for bundle, taken in zip(bundles, seconds, strict=True)
    ]


def _device(bundle: Bundle) -> str:
    device = next(bundle.network.parameters()).device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {bundle.threads} thread{'s' if bundle.threads > 1 else ''}"


def size_on_disk(bundle: Bundle) -> int | None:
    """The size of the bundle's files in bytes, without other files of the run, such as checkpoints."""
    if bundle.members:
        sizes = [size_on_disk(member) for member in bundle.members]
        return None if None in sizes else sum(size or 0 for size in sizes)
    if not holds_bundle(bundle.folder):
        return None
    names: list[str] = [CONFIG, CARD, *read_config(bundle.folder)["files"]]
    paths = [current_file(bundle.folder, name) for name in names]
    return sum(path.stat().st_size for path in paths if path.is_file())


UNKNOWN, MARK = "<unk>", "\ufffd"  # <unk> must stay one word in every form


@dataclass(frozen=True)
class References:
    """The reference texts, the function that brings an output to their form, BLEU's tokenisation, and a name of the form."""

    texts: list[str]
    written: Callable[[Any], str]
    bleu_tokenize: str
    form: str
    are_texts: bool = True


def shared_references(
    bundles: Sequence[Bundle], names: Sequence[str], records: Sequence[Any], form: Form
) -> References:
    """The references for all runs, in the given form."""
    if form not in get_args(Form):
        raise SaccadeError(f"text: expected one of {', '.join(get_args(Form))}, found {form!r}")
    tokenizers = [bundle.task.output_tokenizer for bundle in bundles]
    raw = [record.target for record in records]
    if form == "common":
        return _common(raw, [tokenizer.config for tokenizer in tokenizers if tokenizer is not None])
    texts = [[tokenizer.canonical(text) for text in raw] for tokenizer in tokenizers if tokenizer is not None]
    for name, other in zip(names[1:], texts[1:], strict=True):
        different = next((number for number, text in enumerate(other) if text != texts[0][number]), None)
        if different is not None:
            raise SaccadeError(
                f"{names[0]} and {name} write the same reference differently, so their metrics cannot be compared: "
                f"{texts[0][different][:60]!r} and {other[different][:60]!r} (--text common uses one form for both)"
            )
    # If every run splits words, they are already separated by spaces.
    words = all(tokenizer.config.kind == "words" for tokenizer in tokenizers if tokenizer is not None)
    return References(texts[0], str, "none" if words else "13a", _form(tokenizers[0].config if tokenizers[0] else None))


def _common(raw: list[str], configs: Sequence[TokenizerConfig]) -> References:
    words = any(config.kind == "words" for config in configs)
    forms = [config.normalise for config in configs]
    common = TokenizerConfig(
        kind="words" if words else "characters",
        lower=any(config.lower for config in configs),
        normalise="nfkc" if "nfkc" in forms else "nfc" if "nfc" in forms else "none",
    )
    tokenizer = Tokenizer.train(raw, common)

    def written(text: str) -> str:
        return tokenizer.canonical(text.replace(UNKNOWN, MARK)).replace(MARK, UNKNOWN)

    return References([tokenizer.canonical(text) for text in raw], written, "none" if words else "13a", _form(common))


def _form(config: TokenizerConfig | None) -> str:
    if config is None:
        return "as it is"
    parts = ["lower-cased"] if config.lower else []
    return ", ".join([*parts, *(["cut into words"] if config.kind == "words" else [])]) or "as it is"
