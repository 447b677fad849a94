"""Averages the weights of several networks of one run, often better than each (Polyak & Juditsky 1992; Vaswani et al. 2017).

    w̄ = (1/K) Σₖ wₖ        the last K, at the ends of epochs or some updates apart, or the K best on the watched figure

The weights are kept on the host and in the checkpoints, so a resumed run averages what it would have averaged.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from saccade.training.config import Train
from saccade.training.state import Progress

Weights = dict[str, Tensor]


class Snapshots:
    """The weights of a run that may be averaged, by the update after which they were copied."""

    def __init__(self, settings: Train, kept: dict[int, Weights] | None = None) -> None:
        self.settings, self.kept = settings, kept or {}

    def after_update(self, network: nn.Module, progress: Progress) -> None:
        every = self.settings.average_every
        if self.settings.average and every is not None and progress.update % every == 0:
            self._take(network, progress)

    def after_epoch(self, network: nn.Module, progress: Progress) -> None:
        settings = self.settings
        if settings.average and settings.average_of == "last" and settings.average_every is None:
            self._take(network, progress)

    def after_validation(self, network: nn.Module, progress: Progress, figure: float, *, higher: bool) -> None:
        """After a validation whose watched figure is ``figure``."""
        if not self.settings.average or self.settings.average_of != "best":
            return
        figures = {**progress.figures, str(progress.update): figure}
        ranked = sorted(figures, key=lambda update: (-figures[update] if higher else figures[update], int(update)))
        progress.figures = {update: figures[update] for update in ranked[: self.settings.average]}
        if str(progress.update) in progress.figures:
            self.kept[progress.update] = _copied(network)
        self.kept = {update: weights for update, weights in self.kept.items() if str(update) in progress.figures}

    def _take(self, network: nn.Module, progress: Progress) -> None:
        self.kept[progress.update] = _copied(network)
        self.kept = dict(sorted(self.kept.items())[-self.settings.average :])

    @property
    def too_few(self) -> str:
        """Why there is no mean, where fewer than two networks were copied."""
        taken = "one network was" if self.kept else "no network was"
        return f"train.average is {self.settings.average}, but {taken} taken for it"

    def __str__(self) -> str:
        count, every = len(self.kept), self.settings.average_every
        if self.settings.average_of == "best":
            return f"the best {count} networks"
        return f"the last {count} epochs" if every is None else f"{count} networks, the last, {every} updates apart"


def _copied(network: nn.Module) -> Weights:
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}


def mean_of(weights: Sequence[Weights]) -> Weights:
    """The mean of several networks' weights, summed in float64."""
    return {
        name: torch.stack([each[name].double() for each in weights]).mean(0).to(first.dtype)
        if first.is_floating_point()
        else first
        for name, first in weights[-1].items()
    }
