"""What a run begins with: records, the task with its vocabulary, a network. Nothing is written: a dry run begins alike."""

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
HELD_OUT = 0.05  # of the records, where a task's data say nothing of it
LOOKING_BACK = ("target", "source")  # the axes of a site that coverage and the copying of unknown words need
SHOWN = 8  # tokens that a vocabulary lacks, or labels that records lack, by name


@dataclass(frozen=True)
class PreparedRun:
    """All that training needs; ``origin`` says which run it begins from and what was not taken over, and keeps that run's
    vocabulary; ``vectors`` says how many words begin with a vector from elsewhere; ``untrained`` what will not have been
    trained in the end."""

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
    def worded(self) -> dict[str, Any]:
        """What a run keeps of a beginning with word vectors, so that it goes on without their file."""
        return {"note": self.vectors, "files": self.task.files()}


def prepare(
    recipe: Recipe,
    splits: Splits,
    origin: Mapping[str, Any] | None = None,
    worded: Mapping[str, Any] | None = None,
) -> PreparedRun:
    """The task and the network of a recipe, on the CPU, seeded. ``origin`` is given when a run goes on that began from
    another, ``worded`` when one does that began with word vectors: weights are in the checkpoint, vocabularies in these."""
    with recipe.resolving():
        return _begin(recipe, splits, origin, worded)


def _begin(
    recipe: Recipe, splits: Splits, origin: Mapping[str, Any] | None, worded: Mapping[str, Any] | None
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
        task = _task(recipe, splits, origin, worded, pretrained=pretrained)
    vectors = worded["note"] if worded is not None else task.vectors_note
    with with_recipe_location(recipe):
        _check_metrics(task, recipe)
        network = task.network(network_class(recipe.model_name), recipe.model)
        _check_network(network, task, recipe)
    taken: tuple[str, ...] = () if origin is None else tuple(origin.get("taken", ()))
    anew: list[str] = []
    if parent is not None and pretrained:
        taken = network.begin_with(parent.network.state_dict(), parent.untrained.all)
    elif parent is not None:
        taken, anew = _take_over(network, task, parent, recipe)
    freeze(network, recipe.train.freeze)  # here, so that an unknown name is refused before anything is written
    _refuse_frozen_anew(network, anew, recipe)
    untrained = untrained_in(origin or {}, recipe, task)
    if parent is not None and origin is not None:
        before = within(parent.untrained, network) if pretrained else parent.untrained
        untrained = still_untrained(before, task, network)
        taken += () if pretrained else _never_trained_there(before, untrained)
        origin = {**origin, "taken": list(taken), **untrained.figures}
    corpora = {name: task.corpus(getattr(splits, name), f"data.{name}") for name in SPLITS}
    notes = [*splits.notes, *(corpus.note for corpus in corpora.values() if corpus.note), *filter(None, [vectors])]
    if origin is not None:
        what = "what it was pre-trained to" if pretrained else "its network"
        notes += [
            f"started from {origin['folder']}: {what} and its vocabulary",
            *taken,
            *_frozen_untrained(network, untrained, recipe),
            *task.unknown_tokens(corpora["train"]),
        ]
    if parent is not None:
        notes += notes_of_seen(parent.recipe, parent.folder, splits)
    return PreparedRun(recipe, splits, task, network, corpora, tuple(notes), untrained, origin, vectors)


def _check_metrics(task: Task, recipe: Recipe) -> None:
    """Which metrics a task has may depend on its data."""
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
        expected = "0: a CRF judges the tags of a row together, and has no share to give"
        raise InputError("recipe", field="train.label_smoothing", expected=expected, found=f"{smoothing:g}")
    search, sites = recipe.search, getattr(network, "sites", None)
    # A user's own network need not name its sites; and a run that began so goes on.
    if not search.looks or sites is None or not isinstance(task, Searches) or recipe.beside is None:
        return
    if not any((site.query, site.key) == LOOKING_BACK for site in sites):
        field, found = ("coverage", f"{search.coverage:g}") if search.coverage else ("unknown", "'copy'")
        expected = f"{'0' if search.coverage else 'keep'}: the network {recipe.model_name} does not look at a source"
        raise InputError("recipe", field=f"search.{field}", expected=expected, found=found)


def _take_over(network: nn.Module, task: Task, parent: Bundle, recipe: Recipe) -> tuple[tuple[str, ...], list[str]]:
    """The other network's weights, but for what knows its labels, where those are others; what to say of it, and what starts
    anew."""
    state = parent.network.state_dict()
    before, now = parent.task.labels, task.labels
    if before == now or not isinstance(task, FineTunes):
        network.load_state_dict(state)
        lacking = task.lacking if isinstance(task, FineTunes) else ()
        few = f"its {len(now)} labels are kept; the training records have none of {', '.join(lacking[:SHOWN])}"
        return (few,) if lacking else (), []
    with torch.device("meta"):  # what is of another size for one label more
        larger = network_class(recipe.model_name)(recipe.model, **task.sizes(more=1)).state_dict()
    own = network.state_dict()
    knowing = [name for name, part in own.items() if part.shape != larger[name].shape]
    network.load_state_dict({**state, **{name: own[name] for name in knowing}})
    told = f"other labels than the {len(before):,} there: {', '.join(knowing)} start anew, all else is taken over"
    return (told,), knowing


def _never_trained_there(before: Untrained, now: Untrained) -> tuple[str, ...]:
    """What to say of parts that the other network had as they were drawn."""
    stay = [part for part in before.all if part in now.all]
    told = f"never trained there: {', '.join(before.all)}"
    nor_here = f"{told}; nor here: {', '.join(stay)}"
    return (nor_here if stay else told,) if before.all else ()


def _frozen_untrained(network: nn.Module, untrained: Untrained, recipe: Recipe) -> list[str]:
    """What to say where parts are frozen that the task asks, and that nobody has trained."""
    return [
        f"train.freeze: {part} is frozen at its random initial values, and other parts learn to use it. To train it, freeze "
        f"[{', '.join(freeze_without(network, tuple(recipe.train.freeze), part))}]"
        for part in untrained.frozen
        if is_frozen(network, part)
    ]


def _refuse_frozen_anew(network: nn.Module, anew: Sequence[str], recipe: Recipe) -> None:
    """What starts anew must be learnt."""
    parameters = dict(network.named_parameters())
    frozen = [name for name in anew if name in parameters and not parameters[name].requires_grad]
    if frozen:
        expected = f"parts that are taken over: {frozen[0]} starts anew, since the labels are others"
        with with_recipe_location(recipe):
            raise InputError("recipe", field="train.freeze", expected=expected, found=", ".join(recipe.train.freeze))


def _task(
    recipe: Recipe,
    splits: Splits,
    origin: Mapping[str, Any] | None,
    worded: Mapping[str, Any] | None,
    *,
    pretrained: bool,
) -> Any:
    """The task, its vocabulary learnt, or that of the run that this one begins from or goes on with."""
    task = task_class(recipe.task)
    if origin is not None and pretrained:
        return task.adopt(recipe.data, splits.train, dict(origin["files"]))
    if origin is not None:
        return task.continue_from(recipe.data, splits.train, dict(origin["files"]))
    if worded is not None:
        return task.restore(recipe.data, dict(worded["files"]))
    return task.learn(recipe.data, splits.train)


@contextmanager
def with_recipe_location(recipe: Recipe) -> Iterator[None]:
    """A task knows the fields of its recipe, but not its file: what it refuses there is told with the file."""
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
    """Where a field stands in a recipe's file, unless it was set elsewhere."""
    if field is None or any(re.match(rf"{re.escape(changed)}\b", field) for changed in recipe.changed):
        return None
    node = node_at(read_yaml(file), field)
    return None if node is None else node.line


def _origin(folder: Path, recipe: Recipe, files: Mapping[str, str]) -> dict[str, Any]:
    about = {"folder": str(folder), "name": recipe.name, "task": recipe.task}
    return {**about, "weights": read_config(folder)["files"][WEIGHTS], "files": dict(files)}


def wanted_metrics(recipe: Recipe) -> list[str]:
    """The figures of the test set: the recipe's, and the one it is held to."""
    expected = [recipe.expect.metric] if recipe.expect is not None else []
    return list(dict.fromkeys([*recipe.metrics, *expected]))


def read_splits(recipe: Recipe, data: Any) -> Splits:
    """The records to train on, to choose by and to report on: the recipe's, or those given."""
    with recipe.resolving():
        return _read_splits(recipe, data)


def _read_splits(recipe: Recipe, data: Any) -> Splits:
    task = task_class(recipe.task)
    if data is None and getattr(recipe.data, "train", None) == IN_MEMORY:  # a user's own task has data of its own
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
        dropped = FaultCounts()
        records[name] = task.records(part, recipe.data, dropped if drops else None)
        notes += warnings_about(f"data.{name}", records[name], dropped, expected="at least one record")
    held = hold_out(records, getattr(recipe.data, "hold_out", HELD_OUT), recipe.train.seed)
    splits = settle_overlap(held, getattr(recipe.data, "overlap", "keep"))
    return replace(splits, notes=(*notes, *splits.notes))
