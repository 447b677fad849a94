"""Resolves a task's training phases against a network and a recipe: parameters by name, settings, when each phase runs.

update 1: discriminator          update 2: discriminator, then generator (every=2)          update 3: discriminator …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from saccade.errors import SaccadeError
from saccade.task import Phase
from saccade.training.config import Train
from saccade.training.graphs import Graphs

SETTINGS = (
    "optimiser", "lr", "betas", "epsilon", "rho", "momentum", "weight_decay", "clip",
    "schedule", "warmup", "width", "factor", "halve_after", "halve_every",
)  # fmt: skip
"""The fields of the recipe's ``train`` section that a phase may set for itself."""


@dataclass
class ActivePhase:
    """A phase with what it trains: ``settings`` are the recipe's with its own, ``others`` every other trainable parameter."""

    phase: Phase
    settings: Train
    parameters: list[nn.Parameter]
    others: list[nn.Parameter]
    optimiser: torch.optim.Optimizer
    graphs: Graphs | None = None

    @property
    def name(self) -> str:
        return self.phase.name

    def due(self, update: int) -> bool:
        """Whether the phase runs in update number ``update`` (from 0)."""
        return (update + 1) % self.phase.every == 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Without gradients for the parameters of other phases."""
        for parameter in self.others:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in self.others:
                parameter.requires_grad_(True)


def resolve(phases: Sequence[Phase], network: nn.Module, settings: Train) -> list[tuple[Train, list[nn.Parameter]]]:
    """Per phase its settings and its trainable parameters, in the network's order. Raises if phases contradict the network."""
    if not phases:
        raise SaccadeError("expected at least one training phase, found none")
    names = [phase.name for phase in phases]
    for phase in phases:
        if not phase.name.isidentifier() or names.count(phase.name) > 1:
            raise SaccadeError(f"expected phases with different identifiers as names, found {phase.name!r} in {names}")
        for field in ("every", "steps"):
            if getattr(phase, field) < 1:
                raise SaccadeError(f"phase {phase.name!r}: {field} must be at least 1: got {getattr(phase, field)}")
    resolved = [(_settings(phase, settings), _parameters(phase, network)) for phase in phases]
    trained = {parameter for _, parameters in resolved for parameter in parameters}
    missing = [
        name for name, parameter in network.named_parameters() if parameter.requires_grad and parameter not in trained
    ]
    if missing:
        raise SaccadeError(
            f"expected every trainable parameter in a phase, found {len(missing)} in none, such as {missing[0]!r}: name it in "
            f"a phase ({', '.join(names)}), or set its requires_grad to False"
        )
    return resolved


def _settings(phase: Phase, settings: Train) -> Train:
    unknown = [name for name in phase.settings if name not in SETTINGS]
    if unknown:
        raise SaccadeError(
            f"phase {phase.name!r}: expected settings among {', '.join(SETTINGS)}, found {', '.join(unknown)}"
        )
    try:
        return replace(settings, **phase.settings)
    except ValueError as error:
        raise SaccadeError(f"phase {phase.name!r}: {error}") from None


def _parameters(phase: Phase, network: nn.Module) -> list[nn.Parameter]:
    own = dict(network.named_parameters())
    chosen = set[str]()
    for pattern in phase.parameters:
        matches = {name for name in own if fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")}
        if not matches:
            parts = ", ".join(dict.fromkeys(name.partition(".")[0] for name in own))
            raise SaccadeError(
                f"phase {phase.name!r}: expected modules or parameters, such as {parts}, or patterns, found {pattern!r}"
            )
        chosen |= matches
    parameters = [parameter for name, parameter in own.items() if name in chosen and parameter.requires_grad]
    if not parameters:
        raise SaccadeError(f"phase {phase.name!r}: expected parameters to train, found that all of them are frozen")
    return parameters


def grouped(
    phase: Phase, parameters: Sequence[nn.Parameter], network: nn.Module, settings: Train
) -> list[dict[str, Any]]:
    """A phase's trainable parameters as groups of an optimiser: ``share`` is a group's learning rate as a share of the
    phase's. The first pattern of ``rates`` that matches a parameter counts."""
    left, groups = list(parameters), list[dict[str, Any]]()
    for pattern, rate in phase.rates.items():
        inside = set(_parameters(replace(phase, parameters=(pattern,)), network))
        groups.append({"params": [each for each in left if each in inside], "share": rate / settings.lr})
        left = [each for each in left if each not in inside]
    return [group for group in ({"params": left, "share": 1.0}, *groups) if group["params"]]
