"""What a recipe would do, without doing it: counts, sizes, memory and time. Nothing is written.

Counts are exact: records, tokens and batches are made as training makes them, and parameters are those of the network
itself. Memory and time are estimates: the largest batch is run forward once while what it keeps for the gradient is
added up, and a few real updates are timed on the device that training would use. The network is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.api.bundle import threads
from saccade.api.prepare import PreparedRun, prepare, read_splits
from saccade.api.training import checked_recipe, new_folder
from saccade.recipes.recipe import Recipe
from saccade.task import eval_mode
from saccade.training.config import Train, batch_size_warning
from saccade.training.devices import choose_threads
from saccade.training.loop import epoch_ends
from saccade.training.stepping import Stepper, top_parts

TIMED = 3  # batches, small to large; each is timed twice
PATIENCE = 20.0  # seconds after which no further update is timed
SIZED = 400  # batches whose sizes are looked at
SEARCHED = 32  # validation records that are searched, to time a look at a metric
COUNTED_OUT = 3_000_000  # records over all epochs, up to which the batches of every epoch are counted


@dataclass(frozen=True)
class Part:
    """A part of the network, by the first word of its parameters' names."""

    name: str
    parameters: int
    frozen: int


@dataclass(frozen=True)
class Memory:
    """Bytes. Activations are what the largest batch needs beside the rest, an estimate: on a GPU at the peak of an update,
    elsewhere what the forward pass keeps for the gradient."""

    weights: int
    gradients: int
    optimiser: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.activations


@dataclass(frozen=True)
class Time:
    """Seconds. ``update`` is the mean of the timed ones; ``least`` and ``most`` bound the training: by each batch's faster
    and slower time, and by looks at the validation set that search nothing, or that search to the length limit."""

    update: float
    timed: int
    least: float
    most: float


@dataclass(frozen=True)
class Plan:
    """What training would do.

    Attributes:
        records, tokens: by split, and by side where the task has a vocabulary (each text's end counted).
        vocabulary: tokens by side.
        batches, updates, looks: batches an epoch, updates in all, looks at the validation set.
        watch, keep: the figure that is looked at, and whether the best network by it is kept or the last.
        average, average_of: how many networks there will be to average, the last or the best ones; 0 or 1: none is.
        stop_after: looks without progress after which training stops early.
        exact: whether ``updates`` was counted out; of a very long run it is reckoned from the first epoch.
        expect: the figure the recipe is held to, in words.
    """

    name: str
    task: str
    model: str
    folder: Path
    device: str
    origin: str | None
    notes: tuple[str, ...]
    records: Mapping[str, int]
    tokens: Mapping[str, Mapping[str, int]]
    vocabulary: Mapping[str, int]
    batches: int
    epochs: int
    updates: int
    exact: bool
    looks: int
    watch: str
    keep: str
    average: int
    average_of: str
    stop_after: int | None
    parts: Sequence[Part]
    memory: Memory
    time: Time
    expect: str

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)

    def to_plain(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        memory = {**asdict(self.memory), "total": self.memory.total}
        return {**asdict(self), "folder": str(self.folder), "parameters": self.parameters, "memory": memory}


def plan(
    recipe: str | Path | Recipe,
    data: Any = None,
    *,
    folder: str | Path | None = None,
    trust: Sequence[str] = (),
    **overrides: Any,
) -> Plan:
    """Read the recipe and its data, build the network, time a few updates, and say what training would do.

    Takes what :func:`saccade.api.training.train` takes.
    """
    recipe = checked_recipe(recipe, data, overrides, trust)
    # Whoever plans in the middle of something else finds their random numbers where they left them.
    with torch.random.fork_rng():
        beginning = prepare(recipe, read_splits(recipe, data))
        return _plan(beginning, Path(folder) if folder is not None else new_folder(recipe.name))


def _plan(beginning: PreparedRun, folder: Path) -> Plan:
    recipe, corpora, settings = beginning.recipe, beginning.corpora, beginning.recipe.train
    batches = _epoch(beginning, 0)
    per_epoch = len(batches)
    exact = settings.epochs * len(corpora["train"]) <= COUNTED_OUT
    ends = epoch_ends(settings, lambda epoch: len(_epoch(beginning, epoch)) if exact else per_epoch)
    updates, looks = ends[-1], _looks(settings.evaluate_every, ends)
    count = choose_threads(settings, beginning.network, len(corpora["train"]) / max(1, per_epoch))
    with threads(count):
        stepper, memory, seconds = _measure(beginning, batches, updates, looks)
    device = f"cpu, {count} thread{'s' if count > 1 else ''}" if stepper.device.type == "cpu" else str(stepper.device)
    return Plan(
        name=recipe.name,
        task=recipe.task,
        model=recipe.model_name,
        folder=folder,
        device=device,
        origin=settings.from_,
        notes=(*beginning.notes, *filter(None, [batch_size_warning(settings, batches)])),
        records={name: len(corpus) for name, corpus in corpora.items()},
        tokens={
            name: dict(counts) for name, corpus in corpora.items() if (counts := beginning.task.token_counts(corpus))
        },
        vocabulary={side: tokenizer.size for side, tokenizer in beginning.task.vocabularies.items()},
        batches=per_epoch,
        epochs=settings.epochs,
        updates=updates,
        exact=exact,
        looks=looks,
        watch=settings.watch,
        keep=settings.keep,
        average=min(settings.average, _averageable(settings, ends, looks)),
        average_of=settings.average_of,
        stop_after=settings.stop_after,
        parts=_parts(beginning.network),
        memory=memory,
        time=seconds,
        expect=_expectation(recipe),
    )


def _epoch(beginning: PreparedRun, epoch: int) -> list[list[int]]:
    settings = beginning.recipe.train
    tokens, records = settings.batch_tokens, settings.batch_records
    corpus = beginning.corpora["train"]
    return beginning.task.plan(corpus, tokens=tokens, records=records, seed=settings.seed, epoch=epoch)


def _looks(every: int | None, ends: Sequence[int]) -> int:
    """At the end of each epoch, and every so many updates; where both fall together, once."""
    return len({*ends, *(range(every, ends[-1] + 1, every) if every else ())})


def _averageable(settings: Train, ends: Sequence[int], looks: int) -> int:
    """How many networks :class:`saccade.training.averaging.Snapshots` comes by."""
    if settings.average_of == "best":
        return looks
    return len(ends) if settings.average_every is None else ends[-1] // settings.average_every


def _parts(network: nn.Module) -> list[Part]:
    return [
        Part(name, sum(each.numel() for each in own), sum(each.numel() for each in own if not each.requires_grad))
        for name, own in top_parts(network).items()
    ]


def _expectation(recipe: Recipe) -> str:
    if recipe.expect is None:
        return "the recipe expects no figure"
    if recipe.changed:
        return f"{recipe.expect} of the recipe as shipped; not checked, since it was changed"
    return str(recipe.expect)


# ---- Measuring


def _measure(
    beginning: PreparedRun, batches: Sequence[list[int]], updates: int, looks: int
) -> tuple[Stepper, Memory, Time]:
    network = beginning.network
    stepper = Stepper(beginning.task, network, beginning.recipe.train)
    by_size = _by_size(beginning, batches)
    network.train()
    kept = _activations(stepper, network, by_size[-1])
    fast, slow, timed = _time_updates(stepper, by_size)
    peak = _peak(stepper, by_size[-1]) if stepper.device.type == "cuda" else 0
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    memory = Memory(
        weights=sum(_bytes(parameter) for parameter in network.parameters()),
        gradients=sum(_bytes(parameter) for parameter in learning),
        optimiser=sum(
            _bytes(tensor)
            for phase in stepper.phases
            for state in phase.optimiser.state.values()
            for tensor in state.values()
            if isinstance(tensor, Tensor)
        ),
        activations=max(kept, peak),
    )
    glance, search = _time_looks(beginning, stepper)
    each = beginning.recipe.train.accumulate  # batches an update; those timed are of one
    least, most = fast * each * updates + glance * looks, slow * each * updates + (glance + search) * looks
    return stepper, memory, Time((fast + slow) / 2 * each, timed, least, most)


def _by_size(beginning: PreparedRun, batches: Sequence[list[int]]) -> list[Any]:
    """Batches as tensors, the smallest first: all of them, or of a long epoch a part that is spread over it."""
    step = max(1, len(batches) // SIZED)
    made = [beginning.task.batch(beginning.corpora["train"], numbers) for numbers in batches[::step]]
    return sorted(made, key=_elements)


def _elements(batch: Any) -> int:
    parts = batch if isinstance(batch, tuple) else vars(batch).values()
    return sum(part.numel() for part in parts if isinstance(part, Tensor))


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _activations(stepper: Stepper, network: nn.Module, batch: Any) -> int:
    """Bytes that the forward pass keeps for the backward one, each piece of memory once, the weights not counted."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # with its history it would hold itself for ever

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # The loss holds what was kept, so that no memory is counted away by being used again.
        loss = stepper.loss(batch)
    total = sum(kept.values())
    del loss
    return total


def _peak(stepper: Stepper, batch: Any) -> int:
    """Bytes that an update takes on the GPU at its peak, beside the weights, gradients and optimiser state there already."""
    before = torch.cuda.memory_allocated(stepper.device)
    torch.cuda.reset_peak_memory_stats(stepper.device)
    stepper.step(stepper.loss(batch), lr=0.0)
    return torch.cuda.max_memory_allocated(stepper.device) - before


def _update(stepper: Stepper, batch: Any) -> None:
    """One update in which every phase runs; the learning rate is 0, so the network does not change."""
    for phase in stepper.phases:
        stepper.update(batch, lr=0.0, phase=phase).read()


def _time_updates(stepper: Stepper, by_size: Sequence[Any]) -> tuple[float, float, int]:
    """Seconds of an update, from batches spread over the sizes: the mean of their faster times, of their slower ones, and
    how many updates were timed. A first one, which warms up, is not; on a GPU the first of each, which may be recorded. The
    rate is 0: the network stays as it is."""
    places = [(2 * number + 1) / (2 * TIMED) for number in range(TIMED)]
    chosen = [by_size[int(place * len(by_size))] for place in places]
    began, seconds = time.perf_counter(), [list[float]() for _ in chosen]
    for batch in chosen if stepper.lag else chosen[:1]:
        _update(stepper, batch)
    for number in (*range(TIMED), *range(TIMED)):
        _wait(stepper.device)
        start = time.perf_counter()
        _update(stepper, chosen[number])
        _wait(stepper.device)
        seconds[number].append(time.perf_counter() - start)
        if time.perf_counter() - began > PATIENCE:
            break
    timed = [each for each in seconds if each]
    fast, slow = (sum(map(end, timed)) / len(timed) for end in (min, max))
    return fast, slow, sum(map(len, timed))


@torch.no_grad()
def _time_looks(beginning: PreparedRun, stepper: Stepper) -> tuple[float, float]:
    """Seconds of one look at the validation set: of its loss, and of the watched metric as a network that has not yet
    learnt to end its outputs takes for it."""
    recipe, valid, task, network = beginning.recipe, beginning.corpora["valid"], beginning.task, beginning.network
    settings = recipe.train
    batches = task.plan(valid, tokens=settings.batch_tokens, records=settings.batch_records, seed=0, epoch=0)
    sample = batches[:TIMED]
    with eval_mode(network):
        start = time.perf_counter()
        for numbers in sample:
            float(task.loss(network, task.batch(valid, numbers).to(stepper.device)).total)
        glance = (time.perf_counter() - start) * len(batches) / len(sample)
    if settings.watch == "loss":
        return glance, 0.0
    watched = min(len(valid), settings.watch_records or len(valid))
    searched = min(watched, SEARCHED)
    start = time.perf_counter()
    task.evaluate(network, valid, how=recipe.search, metrics=[settings.watch], limit=searched)
    return glance, (time.perf_counter() - start) * watched / searched


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
