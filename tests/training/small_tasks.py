"""Tiny tasks and runs for tests of the training loop: they learn in a second and need no recipe."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import Corpus, TensorBatch, plan
from saccade.data.stream import Stream
from saccade.storage import load_tensors
from saccade.task import Evaluation, Loss, Phase
from saccade.training.config import Train
from saccade.training.loop import Job, Outcome, fit
from saccade.training.report import Silence


@dataclass(frozen=True)
class Numbers(TensorBatch):
    values: Tensor  # [B, D]
    tokens: int

    def bucketed(self) -> Numbers:
        return self


class NumberTask:
    """Rows are lists of numbers of one length."""

    name, data = "numbers", None

    def plan(self, corpus: Corpus, **options: Any) -> list[list[int]]:
        return plan(corpus.costs, **options)

    def batch(self, corpus: Corpus, numbers: Any) -> Numbers:
        return Numbers(torch.tensor([corpus.rows[number] for number in numbers]), len(numbers))

    def phases(self, network: Any) -> tuple[Phase, ...]:
        return (Phase("train", self.loss),)  # type: ignore[attr-defined]

    def monitored(self, network: Any) -> dict[str, float]:
        return {}

    def evaluate(self, network: Any, corpus: Corpus, *, how: Any, metrics: Any, limit: int | None = None) -> Evaluation:
        raise NotImplementedError


class Regression(NumberTask):
    """The last number of a row from the others, with dropout."""

    @staticmethod
    def network() -> nn.Module:
        torch.manual_seed(5)
        return nn.Sequential(nn.Linear(2, 7), nn.Tanh(), nn.Dropout(0.2), nn.Linear(7, 1))

    def loss(self, network: Any, batch: Numbers, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        return Loss((network(batch.values[:, :2])[:, 0] - batch.values[:, 2]).square().sum(), batch.tokens)


class Gan(NumberTask):
    """A generator of numbers around 3, and a discriminator that tells them from real ones (Goodfellow et al. 2014)."""

    every, steps = 1, 1  # of the generator

    @staticmethod
    def network() -> nn.Module:
        torch.manual_seed(5)
        generator = nn.Linear(2, 1)
        discriminator = nn.Sequential(nn.Linear(1, 9), nn.LeakyReLU(0.2), nn.Linear(9, 1))
        return nn.ModuleDict({"generator": generator, "discriminator": discriminator})

    @staticmethod
    def corpus(rows: int = 96) -> Corpus:
        values = 3 + torch.randn(rows, 1, generator=torch.Generator().manual_seed(1))
        return Corpus(range(rows), values.tolist(), [1] * rows)

    def phases(self, network: Any) -> tuple[Phase, ...]:
        settings = {"lr": 2e-2, "betas": (0.5, 0.9)}
        return (
            Phase("discriminator", self.discriminator_loss, ("discriminator",), {"lr": 3e-2, **settings, "clip": None}),
            Phase("generator", self.loss, ("generator.*",), settings, every=self.every, steps=self.steps),
        )

    def generated(self, network: Any, count: int) -> Tensor:
        return network["generator"](torch.randn(count, 2, device=next(network.parameters()).device))

    def discriminator_loss(self, network: Any, batch: Numbers, **options: float) -> Loss:
        network = getattr(network, "module", network)
        generated = self.generated(network, batch.tokens)
        real, false = network["discriminator"](batch.values), network["discriminator"](generated)
        return Loss((functional.softplus(-real) + functional.softplus(false)).sum(), batch.tokens)

    def loss(self, network: Any, batch: Numbers, **options: float) -> Loss:
        network = getattr(network, "module", network)
        judged = network["discriminator"](self.generated(network, batch.tokens))
        return Loss(functional.softplus(-judged).sum(), batch.tokens)


class Reinforce(NumberTask):
    """Chooses the larger of two numbers by reward alone, with a moving-average baseline (Williams 1992)."""

    @staticmethod
    def network() -> nn.Module:
        torch.manual_seed(5)
        return nn.Linear(2, 2)

    @staticmethod
    def corpus(rows: int = 96) -> Corpus:
        values = torch.randn(rows, 2, generator=torch.Generator().manual_seed(1))
        return Corpus(range(rows), values.tolist(), [1] * rows)

    def phases(self, network: Any) -> tuple[Phase, ...]:
        baseline = torch.zeros(())

        def loss(network: Any, batch: Numbers, **options: float) -> Loss:
            choice = torch.distributions.Categorical(logits=network(batch.values))
            action = choice.sample()
            reward = (action == batch.values.argmax(dim=1)).float()
            advantage = reward - state["baseline"]
            state["baseline"].mul_(0.9).add_(reward.mean(), alpha=0.1)
            return Loss(-(advantage * choice.log_prob(action)).sum(), batch.tokens)

        state = {"baseline": baseline}
        return (Phase("policy", loss, state=state),)

    def loss(self, network: Any, batch: Numbers, **options: float) -> Loss:
        return Loss(
            functional.cross_entropy(network(batch.values), batch.values.argmax(dim=1), reduction="sum"), batch.tokens
        )


class DieAt(Silence):
    """Ends the process's training in an update, without a checkpoint of it."""

    def __init__(self, update: int) -> None:
        self.at = update

    def update(self, done: int, epoch: int, loss: float) -> None:
        if done == self.at:
            raise Died


class Died(Exception):
    pass


def train(
    task: Any,
    folder: Path,
    corpus: Corpus | Stream,
    *,
    valid: Corpus | None = None,
    resume: bool = False,
    report: Any = None,
    network: nn.Module | None = None,
    **options: Any,
) -> tuple[nn.Module, Outcome]:
    settings = replace(
        Train(device="cpu", threads=1, batch_tokens=None, batch_records=8, epochs=3, save_every=3), **options
    )
    torch.manual_seed(settings.seed)
    network = task.network() if network is None else network
    held_out = valid if valid is not None else corpus
    return network, fit(
        Job(task, network, corpus, held_out, settings, folder, report=report or Silence()), resume=resume
    )


def log(folder: Path, name: str = "log.csv") -> list[dict[str, str]]:
    """The rows of a log, without the time that updates took."""
    with open(folder / name, newline="") as file:
        return [{key: text for key, text in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def checkpoint(folder: Path) -> dict[str, Tensor]:
    """The tensors of the last checkpoint, random number generators included."""
    return load_tensors(sorted((folder / "checkpoints").glob("update-*"))[-1] / "state.safetensors")[0]


def assert_same_run(folder: Path, whole: Path) -> None:
    assert log(folder) == log(whole)
    assert log(folder, "evaluations.csv") == log(whole, "evaluations.csv")
    found, expected = checkpoint(folder), checkpoint(whole)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
