"""Plans a training run without training: counts records and updates, estimates memory and time. Nothing is written.

Counts are exact: records, tokens and batches are made as training makes them, and parameters are those of the network
itself. Memory and time are estimates: the tensors saved for the backward pass of the largest batch are added up, and a few
real updates are timed on the device that training would use. The network is thrown away.
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
from saccade.recipes.recipe import Recipe, RecipeLike
from saccade.task import eval_mode
from saccade.training.config import Train, batch_size_warning
from saccade.training.devices import choose_threads
from saccade.training.loop import epoch_ends
from saccade.training.stepping import Stepper, top_parts

TIMED = 3  # batches, small to large; each is timed twice
PATIENCE = 20.0  # seconds after which no further update is timed
SIZED = 400  # batches whose sizes are compared
SEARCHED = 32  # validation records that are decoded to time a validation metric
COUNTED_OUT = 3_000_000  # up to so many records over all epochs, the batches of every epoch are counted exactly


@dataclass(frozen=True)
class Part:
    """A top-level part of the network, named by the first component of its parameters' names."""

    name: str
    parameters: int
    frozen: int


@dataclass(frozen=True)
class Memory:
    """Bytes. Activations are estimated for the largest batch: on a GPU the peak of an update, elsewhere the tensors that the
    forward pass saves for the backward pass."""

    weights: int
    gradients: int
    optimiser: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.activations


@dataclass(frozen=True)
class Time:
    """Seconds. ``update`` is the mean of the timed updates. ``least`` and ``most`` bound the whole training: they assume the
    faster or the slower time of each batch, and validation without search or with searches up to the length limit."""

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
        batches, updates, looks: batches per epoch, updates in total, evaluations on the validation set.
        watch, keep: the validation metric, and whether the best network by it is saved or the last one.
        average, average_of: how many networks will be averaged, the last or the best ones; 0 or 1: no averaging.
        stop_after: evaluations without improvement after which training stops early.
        minutes: after which training stops early.
        exact: whether ``updates`` was counted; for a very long run it is extrapolated from the first epoch.
        expect: the metric that the recipe is expected to reach, in words.
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
    minutes: float | None
    parts: Sequence[Part]
    memory: Memory
    time: Time
    expect: str

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)

    def to_plain(self) -> dict[str, Any]:
        """The plan as plain data, for JSON."""
        memory = {**asdict(self.memory), "total": self.memory.total}
        return {**asdict(self), "folder": str(self.folder), "parameters": self.parameters, "memory": memory}


def plan(
    recipe: RecipeLike,
    data: Any = None,
    *,
    folder: str | Path | None = None,
    trust: Sequence[str] = (),
    **overrides: Any,
) -> Plan:
    """Read the recipe and its data, build the network, time a few updates, and report what training would do.

    Takes what :func:`saccade.api.training.train` takes.
    """
    recipe = checked_recipe(recipe, data, overrides, trust)
    # The caller's random state is left unchanged.
    with torch.random.fork_rng():
        prepared = prepare(recipe, read_splits(recipe, data))
        return _plan(prepared, Path(folder) if folder is not None else new_folder(recipe.name))


def _plan(prepared: PreparedRun, folder: Path) -> Plan:
    recipe, corpora, settings = prepared.recipe, prepared.corpora, prepared.recipe.train
    batches = _epoch(prepared, 0)
    per_epoch = len(batches)
    exact = settings.epochs * len(corpora["train"]) <= COUNTED_OUT
    ends = epoch_ends(settings, lambda epoch: len(_epoch(prepared, epoch)) if exact else per_epoch)
    updates, looks = ends[-1], _looks(settings.evaluate_every, ends)
    count = choose_threads(settings, prepared.network, len(corpora["train"]) / max(1, per_epoch))
    with threads(count):
        stepper, memory, seconds = _measure(prepared, batches, updates, looks)
    device = f"cpu, {count} thread{'s' if count > 1 else ''}" if stepper.device.type == "cpu" else str(stepper.device)
    return Plan(
        name=recipe.name,
        task=recipe.task,
        model=recipe.model_name,
        folder=folder,
        device=device,
        origin=settings.from_,
        notes=(*prepared.notes, *filter(None, [batch_size_warning(settings, batches)])),
        records={name: len(corpus) for name, corpus in corpora.items()},
        tokens={
            name: dict(counts) for name, corpus in corpora.items() if (counts := prepared.task.token_counts(corpus))
        },
        vocabulary={side: tokenizer.size for side, tokenizer in prepared.task.vocabularies.items()},
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
        minutes=settings.minutes,
        parts=_parts(prepared.network),
        memory=memory,
        time=seconds,
        expect=_expectation(recipe),
    )


def _epoch(prepared: PreparedRun, epoch: int) -> list[list[int]]:
    settings = prepared.recipe.train
    tokens, records = settings.batch_tokens, settings.batch_records
    corpus = prepared.corpora["train"]
    return prepared.task.plan(corpus, tokens=tokens, records=records, seed=settings.seed, epoch=epoch)


def _looks(every: int | None, ends: Sequence[int]) -> int:
    """Evaluations: at the end of each epoch and after every ``every`` updates; once where both coincide."""
    return len({*ends, *(range(every, ends[-1] + 1, every) if every else ())})


def _averageable(settings: Train, ends: Sequence[int], looks: int) -> int:
    """How many networks :class:`saccade.training.averaging.Snapshots` will have to average."""
    if settings.average_of == "best":
        return looks
    return len(ends) if settings.average_every is None else ends[-1] // settings.average_every


def _parts(network: nn.Module) -> list[Part]:
    return [
        Part(name, sum(p.numel() for p in parameters), sum(p.numel() for p in parameters if not p.requires_grad))
        for name, parameters in top_parts(network).items()
    ]


def _expectation(recipe: Recipe) -> str:
    if recipe.expect is None:
        return "the recipe expects no metric"
    if recipe.changed:
        return f"{recipe.expect} of the recipe as shipped; not checked, since it was changed"
    return str(recipe.expect)


# ---- Measuring


def _measure(
    prepared: PreparedRun, batches: Sequence[list[int]], updates: int, looks: int
) -> tuple[Stepper, Memory, Time]:
    network = prepared.network
    stepper = Stepper(prepared.task, network, prepared.recipe.train)
    by_size = _by_size(prepared, batches)
    network.train()
    saved = _activations(stepper, network, by_size[-1])
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
        activations=max(saved, peak),
    )
    glance, search = _time_looks(prepared, stepper)
    batches_per_update = prepared.recipe.train.accumulate  # the timed updates have one batch
    fast, slow = fast * batches_per_update, slow * batches_per_update
    least, most = fast * updates + glance * looks, slow * updates + (glance + search) * looks
    return stepper, memory, Time((fast + slow) / 2, timed, least, most)


def _by_size(prepared: PreparedRun, batches: Sequence[list[int]]) -> list[Any]:
    """Batches as tensors, the smallest first: all of them, or an evenly spread sample of a long epoch."""
    step = max(1, len(batches) // SIZED)
    made = [prepared.task.batch(prepared.corpora["train"], numbers) for numbers in batches[::step]]
    return sorted(made, key=_elements)


def _elements(batch: Any) -> int:
    parts = batch if isinstance(batch, tuple) else vars(batch).values()
    return sum(part.numel() for part in parts if isinstance(part, Tensor))


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _activations(stepper: Stepper, network: nn.Module, batch: Any) -> int:
    """Bytes that the forward pass saves for the backward pass; each storage counts once, the weights do not count."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    saved: dict[int, int] = {}

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # with its graph it would keep itself alive

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        # While the loss is alive, no saved memory is freed and reused, so each address counts once.
        loss = stepper.loss(batch)
    total = sum(saved.values())
    del loss
    return total


def _peak(stepper: Stepper, batch: Any) -> int:
    """Peak GPU bytes of an update, beside the weights, gradients and optimiser state that are allocated already."""
    before = torch.cuda.memory_allocated(stepper.device)
    torch.cuda.reset_peak_memory_stats(stepper.device)
    stepper.step(stepper.loss(batch), lr=0.0)
    return torch.cuda.max_memory_allocated(stepper.device) - before


def _update(stepper: Stepper, batch: Any) -> None:
    """One update in which every phase runs; the learning rate is 0, so the network does not change."""
    for phase in stepper.phases:
        stepper.update(batch, lr=0.0, phase=phase).read()


def _time_updates(stepper: Stepper, by_size: Sequence[Any]) -> tuple[float, float, int]:
    """Seconds per update, from batches spread over the sizes: the mean of their faster times, of their slower times, and
    how many updates were timed. The first one is a warm-up and is not timed; with CUDA graphs, the first of each size."""
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
    timed = [times for times in seconds if times]
    fast, slow = (sum(map(end, timed)) / len(timed) for end in (min, max))
    return fast, slow, sum(map(len, timed))


@torch.no_grad()
def _time_looks(prepared: PreparedRun, stepper: Stepper) -> tuple[float, float]:
    """Seconds of one evaluation on the validation set: for the loss, and for the watched metric with an untrained network,
    whose outputs run to the length limit."""
    recipe, valid, task, network = prepared.recipe, prepared.corpora["valid"], prepared.task, prepared.network
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
