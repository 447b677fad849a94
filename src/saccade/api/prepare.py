"""Prepares a run: reads the records, learns the vocabulary, builds the network. Writes nothing, so a dry run uses it too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.api.bundle import Bundle, load_trusted
from saccade.api.finetune import (
    Untrained,
    freeze_without,
    is_frozen,
    notes_of_seen,
    still_untrained,
    untrained_in,
    within,
)
from saccade.bundle_format import WEIGHTS, read_config
from saccade.data.memory import IN_MEMORY
from saccade.data.reading import FaultCounts, warnings_about
from saccade.data.splits import Splits, hold_out, settle_overlap
from saccade.errors import InputError, SaccadeError
from saccade.metrics.text import check_available
from saccade.models import network_class
from saccade.recipes.located import node_at, read_yaml
from saccade.recipes.recipe import Recipe
from saccade.task import Calibrates, FineTunes, Searches, Task, named_metrics
from saccade.tasks import task_class
from saccade.training.stepping import freeze

SPLITS = ("train", "valid", "test")
HELD_OUT = 0.05  # of the records, for tasks without the setting data.hold_out
LOOKING_BACK = ("target", "source")  # the axes of an attention site that coverage and copying need
SHOWN = 8  # missing labels that are named


@dataclass(frozen=True)
class PreparedRun:
    """All that training needs.

    Attributes:
        origin: the run that it starts from (``train.from``), with its vocabulary and what was copied from it.
        vectors: how many words start from pre-trained vectors, in a sentence.
        untrained: parts that will still be untrained after this run.
    """

    recipe: Recipe
    splits: Splits
    task: Task
    network: nn.Module
    corpora: Mapping[str, Any]
    notes: tuple[str, ...]
    untrained: Untrained
    origin: Mapping[str, Any] | None = None
    vectors: str = ""

    @property
    def saved_vectors(self) -> dict[str, Any]:
        """What a run saves so that it can resume without the file of word vectors."""
        return {"note": self.vectors, "files": self.task.files()}


def prepare(
    recipe: Recipe,
    splits: Splits,
    origin: Mapping[str, Any] | None = None,
    saved_vectors: Mapping[str, Any] | None = None,
) -> PreparedRun:
    """The task and the network of a recipe, on the CPU, seeded.

    To resume a run, pass what it saved: ``origin`` if it started from another run, ``saved_vectors`` if it started from word
    vectors. Both hold vocabularies; the weights are in the checkpoint.
    """
    with recipe.resolving():
        return _prepare(recipe, splits, origin, saved_vectors)


def _prepare(
    recipe: Recipe, splits: Splits, origin: Mapping[str, Any] | None, saved_vectors: Mapping[str, Any] | None
) -> PreparedRun:
    check_available([*wanted_metrics(recipe), recipe.train.watch])
    if recipe.train.calibrate and not issubclass(task_class(recipe.task), Calibrates):
        expected = "false, unless the task gives every label a probability, as classify does"
        with with_recipe_location(recipe):
            raise InputError("recipe", field="train.calibrate", expected=expected, found=f"true for {recipe.task!r}")
    torch.manual_seed(recipe.train.seed)
    parent = None
    if recipe.train.from_ is not None and origin is None:
        parent = load_trusted(recipe.train.from_, "cpu", recipe.trust.of_run(recipe.train.from_))
        origin = _origin(Path(recipe.train.from_), parent.recipe, parent.task.files())
    pretrained = origin is not None and origin.get("task", recipe.task) != recipe.task
    with with_recipe_location(recipe):
        task = _task(recipe, splits, origin, saved_vectors, pretrained=pretrained)
    vectors = saved_vectors["note"] if saved_vectors is not None else task.vectors_note
    with with_recipe_location(recipe):
        _check_metrics(task, recipe)
        network = task.network(network_class(recipe.model_name), recipe.model)
        _check_network(network, task, recipe)
    copied: tuple[str, ...] = () if origin is None else tuple(origin.get("taken", ()))
    fresh: list[str] = []
    if parent is not None and pretrained:
        copied = network.begin_with(parent.network.state_dict(), parent.untrained.all)
    elif parent is not None:
        copied, fresh = _copy_weights(network, task, parent, recipe)
    freeze(network, recipe.train.freeze)  # here, so that an unknown name is refused before anything is written
    _refuse_frozen_fresh(network, fresh, recipe)
    untrained = untrained_in(origin or {}, recipe, task)
    if parent is not None and origin is not None:
        before = within(parent.untrained, network) if pretrained else parent.untrained
        untrained = still_untrained(before, task, network)
        copied += () if pretrained else _never_trained_there(before, untrained)
        origin = {**origin, "taken": list(copied), **untrained.figures}
    corpora = {name: task.corpus(getattr(splits, name), f"data.{name}") for name in SPLITS}
    notes = [*splits.notes, *(corpus.note for corpus in corpora.values() if corpus.note), *filter(None, [vectors])]
    if origin is not None:
        what = "its pre-trained layers" if pretrained else "its network"
        notes += [
            f"started from {origin['folder']}: {what} and its vocabulary",
            *copied,
            *_frozen_untrained(network, untrained, recipe),
            *task.unknown_tokens(corpora["train"]),
        ]
    if parent is not None:
        notes += notes_of_seen(parent.recipe, parent.folder, splits)
    return PreparedRun(recipe, splits, task, network, corpora, tuple(notes), untrained, origin, vectors)


def _check_metrics(task: Task, recipe: Recipe) -> None:
    """Raise where the recipe names a metric that the task cannot compute on these data."""
    for field, name in named_metrics(recipe).items():
        try:
            task.check_metrics([name])
        except InputError as error:
            raise InputError(
                "recipe", field=field, expected=error.expected, found=error.found, hint=error.hint
            ) from None


def _check_network(network: nn.Module, task: Task, recipe: Recipe) -> None:
    """Fail before training if a setting needs what this network lacks."""
    segments = getattr(recipe.model, "segments", 2)
    if task.reads_pairs and segments < 2:
        expected = "at least 2 where texts come in pairs"
        raise InputError("recipe", field="model.segments", expected=expected, found=str(segments))
    smoothing = recipe.train.label_smoothing
    if smoothing and getattr(network, "crf", None) is not None:
        expected = "0: a CRF scores whole tag sequences, so there is no distribution per word to smooth"
        raise InputError("recipe", field="train.label_smoothing", expected=expected, found=f"{smoothing:g}")
    search, sites = recipe.search, getattr(network, "sites", None)
    # A custom network need not name its sites. A resumed run is not checked again.
    if not search.looks or sites is None or not isinstance(task, Searches) or recipe.beside is None:
        return
    if not any((site.query, site.key) == LOOKING_BACK for site in sites):
        field, found = ("coverage", f"{search.coverage:g}") if search.coverage else ("unknown", "'copy'")
        expected = f"{'0' if search.coverage else 'keep'}: the network {recipe.model_name} has no attention on a source"
        raise InputError("recipe", field=f"search.{field}", expected=expected, found=found)


def _copy_weights(network: nn.Module, task: Task, parent: Bundle, recipe: Recipe) -> tuple[tuple[str, ...], list[str]]:
    """Copy the parent's weights, except those whose size depends on the labels if the labels differ. Returns messages and the
    names of the parameters that keep their random initial values."""
    state = parent.network.state_dict()
    before, now = parent.task.labels, task.labels
    if before == now or not isinstance(task, FineTunes):
        network.load_state_dict({**task.brought(network), **state})
        lacking = task.lacking if isinstance(task, FineTunes) else ()
        few = f"its {len(now)} labels are kept; no training record has the label {', '.join(lacking[:SHOWN])}"
        return (few,) if lacking else (), []
    with torch.device("meta"):  # parameters whose size changes with one more label
        larger = network_class(recipe.model_name)(recipe.model, **task.sizes(more=1)).state_dict()
    own = network.state_dict()
    fresh = [name for name, part in own.items() if part.shape != larger[name].shape]
    network.load_state_dict({**state, **{name: own[name] for name in fresh}})
    message = (
        f"labels differ from its {len(before):,}: {', '.join(fresh)} are initialised at random, the rest is copied"
    )
    return (message,), fresh


def _never_trained_there(before: Untrained, now: Untrained) -> tuple[str, ...]:
    """A message about parts that the parent run never trained."""
    stay = [part for part in before.all if part in now.all]
    message = f"never trained in that run: {', '.join(before.all)}"
    nor_here = f"{message}; nor in this one: {', '.join(stay)}"
    return (nor_here if stay else message,) if before.all else ()


def _frozen_untrained(network: nn.Module, untrained: Untrained, recipe: Recipe) -> list[str]:
    """Warnings about frozen parts that the task uses and that were never trained."""
    return [
        f"train.freeze: {part} is frozen at its random initial values, and other parts learn to use it. To train it, freeze "
        f"[{', '.join(freeze_without(network, tuple(recipe.train.freeze), part))}]"
        for part in untrained.frozen
        if is_frozen(network, part)
    ]


def _refuse_frozen_fresh(network: nn.Module, fresh: Sequence[str], recipe: Recipe) -> None:
    """Raise if parameters with random initial values are frozen."""
    parameters = dict(network.named_parameters())
    frozen = [name for name in fresh if name in parameters and not parameters[name].requires_grad]
    if frozen:
        expected = f"only copied parts: {frozen[0]} is initialised at random, since the labels differ"
        with with_recipe_location(recipe):
            raise InputError("recipe", field="train.freeze", expected=expected, found=", ".join(recipe.train.freeze))


def _task(
    recipe: Recipe,
    splits: Splits,
    origin: Mapping[str, Any] | None,
    saved_vectors: Mapping[str, Any] | None,
    *,
    pretrained: bool,
) -> Any:
    """The task with a newly learnt vocabulary, or with that of the run that this one starts from or resumes."""
    task = task_class(recipe.task)
    if origin is not None and pretrained:
        return task.adopt(recipe.data, splits.train, dict(origin["files"]))
    if origin is not None:
        return task.continue_from(recipe.data, splits.train, dict(origin["files"]))
    if saved_vectors is not None:
        return task.restore(recipe.data, dict(saved_vectors["files"]))
    return task.learn(recipe.data, splits.train)


@contextmanager
def with_recipe_location(recipe: Recipe) -> Iterator[None]:
    """Add the recipe's file and line to errors of a task, which knows the fields of its recipe but not its file."""
    try:
        yield
    except InputError as error:
        if error.where != "recipe":
            raise
        files = [recipe.beside / f"{recipe.name}{suffix}" for suffix in (".yaml", ".yml")] if recipe.beside else []
        file = next((file for file in files if file.is_file()), None)
        line = None if file is None else _line(file, error.field, recipe)
        raise InputError(
            file or recipe.name,
            line=line,
            field=error.field,
            expected=error.expected,
            found=error.found,
            hint=error.hint,
        ) from error.__cause__


def _line(file: Path, field: str | None, recipe: Recipe) -> int | None:
    """The line of a field in the recipe's file, unless it was overridden."""
    if field is None or any(re.match(rf"{re.escape(changed)}\b", field) for changed in recipe.changed):
        return None
    node = node_at(read_yaml(file), field)
    return None if node is None else node.line


def _origin(folder: Path, recipe: Recipe, files: Mapping[str, str]) -> dict[str, Any]:
    about = {"folder": str(folder), "name": recipe.name, "task": recipe.task}
    return {**about, "weights": read_config(folder)["files"][WEIGHTS], "files": dict(files)}


def wanted_metrics(recipe: Recipe) -> list[str]:
    """The metrics to compute on the test set: the recipe's, and the one it is expected to reach."""
    expected = [recipe.expect.metric] if recipe.expect is not None else []
    return list(dict.fromkeys([*recipe.metrics, *expected]))


def read_splits(recipe: Recipe, data: Any) -> Splits:
    """The train, valid and test records: those of the recipe, or ``data``."""
    with recipe.resolving():
        return _read_splits(recipe, data)


def _read_splits(recipe: Recipe, data: Any) -> Splits:
    task = task_class(recipe.task)
    if data is None and getattr(recipe.data, "train", None) == IN_MEMORY:  # a custom task has its own data section
        raise SaccadeError("this run was trained on data given in memory: pass the same data= to resume it")
    if data is None:
        with with_recipe_location(recipe):
            splits: Splits = task.load(recipe.data, recipe.folder, recipe.train.seed)
        return splits
    parts = data if isinstance(data, Mapping) and "train" in data else {"train": data}
    unknown = [name for name in parts if name not in SPLITS]
    if unknown:
        raise SaccadeError(f"data: expected train, valid and test, found {unknown[0]!r}")
    records, notes = {}, list[str]()
    drops = getattr(recipe.data, "faults", "error") == "drop"
    for name, part in parts.items():
        dropped = FaultCounts(skipped_only=not drops)
        records[name] = task.records(part, recipe.data, dropped)
        notes += warnings_about(f"data.{name}", records[name], dropped, expected="at least one record")
    held = hold_out(records, getattr(recipe.data, "hold_out", HELD_OUT), recipe.train.seed)
    splits = settle_overlap(held, getattr(recipe.data, "overlap", "keep"))
    return replace(splits, notes=(*notes, *splits.notes))
