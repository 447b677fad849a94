"""What every task does: a record becomes a batch; a network's output becomes a loss, a metric, a prediction, a labelled trace.

The training loop, the bundle and the command line know tasks only through this page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from saccade.data.splits import Splits
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace


@dataclass(frozen=True)
class Loss:
    """A sum over ``count`` units (target tokens, documents …); the mean is what is minimised and reported."""

    total: Tensor
    count: int

    @property
    def mean(self) -> Tensor:
        return self.total / max(self.count, 1)


@dataclass(frozen=True)
class Prediction:
    """What the network says of one input.

    Attributes:
        value: the output, as the task's users write it.
        score: what it was ranked by; ``log_prob`` is its log-probability, ``parts`` what the score is made of:
            score = log_prob / length_penalty + coverage.
        stopped: "eos" when the network ended it, "length" when the limit did.
        notes: what the reader must know: cut inputs, unknown characters, a limit reached.
        trace: what it looked at, when a lens was given.
        alternatives: the other hypotheses of an n-best list.
        probabilities: of every label, the likeliest first, where a network chooses among labels.
        choices: the likeliest words of every blank and their probabilities, where blanks are filled.
        tokens: every word with its tag and the tag's probability, where words are tagged; ``start`` and ``end`` are its
            characters in the text.
        spans: what the tags mark, where they mark spans: type, text, characters (``start``, ``end``) and words (``first``,
            ``last``).
    """

    value: Any
    score: float = 0.0
    log_prob: float = 0.0
    stopped: str = "eos"
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    alternatives: tuple[Prediction, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    probabilities: Mapping[str, float] = field(default_factory=dict)
    choices: tuple[Mapping[str, float], ...] = ()
    tokens: tuple[Mapping[str, Any], ...] = ()
    spans: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class OutputConstraints:
    """What one input's output must begin with, must hold, and may not hold, as text."""

    prefix: str = ""
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """Figures by name, how each was computed, and the outputs they were computed from; ``details`` holds the figures of parts,
    such as those of each type of span."""

    figures: Mapping[str, float]
    signatures: Mapping[str, str] = field(default_factory=dict)
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    outputs: Sequence[Any] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Task(Protocol):
    """A task is made from its data and restored from a bundle's files; it owns what turns records into tensors.

    It may say more: ``searches`` and ``alternatives`` False where outputs are found without a search, or there is no second
    best; ``reads_pairs`` where texts come in pairs; ``check_recipe(recipe)`` raises where a setting means nothing to it
    (:mod:`saccade.tasks.unsupported`), ``check_metrics(names)`` where a figure does not.
    """

    name: str
    data: Any

    @staticmethod
    def load(data: Any, folder: Path, seed: int) -> Splits:
        """The records that a recipe's ``data`` names; relative paths start at ``folder``."""

    @staticmethod
    def read_file(path: Path, data: Any) -> list[Any]:
        """The records of one file."""

    @staticmethod
    def records(given: Any, data: Any) -> list[Any]:
        """Records from what a program has in hand (lists, dicts, a DataFrame), read as the recipe's ``data`` says.

        With ``faults: drop`` it also takes ``left_out``, a :class:`saccade.data.reading.FaultCounts`: what is no
        record is counted there rather than refused. It is passed only where training reads what the caller gave.
        """

    @classmethod
    def learn(cls, data: Any, train: Sequence[Any]) -> Task:
        """The task of these training records; vocabularies and the like are learnt from them alone."""

    @classmethod
    def restore(cls, data: Any, files: dict[str, str]) -> Task:
        """The task that :meth:`files` kept."""

    def corpus(self, records: Sequence[Any], where: str) -> Any:
        """Records made ready for batching."""

    def examples(self, folder: Path, seed: int, test: Sequence[Any] | None = None) -> list[Any]:
        """Inputs worth looking at, of the test records where they are in hand; else the data is read again."""

    def network(self, network_class: Any, config: Any) -> nn.Module:
        """A fresh network of the sizes that the data ask for."""

    def plan(self, corpus: Any, *, tokens: int | None, records: int | None, seed: int, epoch: int) -> list[list[int]]:
        """The batches of an epoch, as record numbers: a pure function of its arguments, so a resumed run finds its place."""

    def batch(self, corpus: Any, numbers: Sequence[int]) -> Any:
        """Records as tensors."""

    def loss(self, network: Any, batch: Any, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """What training minimises."""

    def predict(self, network: Any, inputs: Sequence[Any], *, how: Any, lens: Lens | None = None) -> list[Prediction]:
        """One prediction an input, with its trace when a lens is given.

        A task whose outputs can be steered also takes ``wishes``, a :class:`Wish` an input, and ``dictionary``, source word →
        target word for unknown words; they are passed only where the caller gave them.
        """

    def evaluate(
        self, network: Any, corpus: Any, *, how: Any, metrics: Sequence[str], limit: int | None = None
    ) -> Evaluation:
        """Figures on a corpus; ``limit`` takes its first records only."""

    def files(self) -> dict[str, str]:
        """What a bundle must keep to restore this task: file name → text."""


@dataclass(frozen=True)
class Phase:
    """One optimiser step of an update: which parameters change, which loss they minimise, and by which optimiser.

    Most tasks have one phase: all parameters, the recipe's optimiser, :meth:`Task.loss`. A GAN has two, which take turns.
    A phase's step computes gradients for its own parameters only.

    Attributes:
        name: an identifier; with several phases it names the columns of the log.
        loss: ``(network, batch, *, smoothing, sampling) -> Loss``, called as :meth:`Task.loss` is. Random numbers come from
            PyTorch's global generators, whose state is part of a checkpoint.
        parameters: names of modules or parameters, or patterns such as ``decoder.*.bias``; all parameters unless given.
        settings: fields that differ from the recipe's ``train`` section: optimiser, learning rate, schedule, clipping.
        every: run in one of so many updates, the last of each group: with 5, in updates 5, 10, 15 …
        steps: optimiser steps per update; each computes the loss anew on the update's batches.
        state: tensors that ``loss`` updates in place, such as a moving-average baseline. They move to the device and are
            saved in checkpoints, but not in the bundle.
    """

    name: str
    loss: Callable[..., Loss]
    parameters: tuple[str, ...] = ("*",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    every: int = 1
    steps: int = 1
    state: dict[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class Phased(Protocol):
    """A task with training phases of its own."""

    def phases(self, network: Any) -> tuple[Phase, ...]:
        """The phases of an update, in the order in which they run."""
