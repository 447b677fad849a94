"""Loads the runs of a comparison, checks that they can be compared, decodes the test set and times them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from saccade.api.bundle import Bundle, load, threads
from saccade.api.comparison.references import Form, References, shared_references
from saccade.api.finetune import sources_trained_on
from saccade.api.runs import checksum_of_data
from saccade.bundle_format import CARD, CONFIG, holds_bundle, read_config
from saccade.errors import SaccadeError
from saccade.metrics.significance import Statistics, statistics
from saccade.metrics.text import check_available
from saccade.nn.search.beam_search import Search
from saccade.storage import current_file
from saccade.task import Task

TIMED = 256  # inputs decoded to measure speed


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
    searches = [_search(bundle, beam) for bundle in bundles]
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


def _search(bundle: Bundle, beam: int | None) -> Search:
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
