"""What the contracts of networks share: how one is made and asked, and promises that are the same for every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from saccade.testing.promises import demand, same
from saccade.trace.lens import Lens

CLOSE: Mapping[str, float] = {"rtol": 1e-6, "atol": 1e-8}  # in float64, sums in another order


@dataclass(frozen=True)
class NetworkSubject:
    """A kind of network and what it is made with; each contract says how with :meth:`make`, and has a ``batch``."""

    kind: Any
    config: Any

    def make(self) -> Any:
        raise NotImplementedError

    def build(self, seed: int = 1) -> Any:
        """A network whose parameters the seed alone decides."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make()

    @cached_property
    def network(self) -> Any:
        """In float64, where a leak shows however small it is."""
        return self.build().double().eval()

    def says(self, network: Any, batch: Any, lens: Lens | None = None) -> Tensor:
        """What a network answers."""
        found: Tensor = network(*batch) if lens is None else network(*batch, lens=lens)
        return found


@torch.no_grad()
def saved(subject: Any) -> None:
    """A state that was saved gives the same network."""
    other = subject.build(seed=7).double().eval()
    other.load_state_dict(subject.network.state_dict())
    expected = subject.says(subject.network, subject.batch)
    same(subject.says(other, subject.batch), expected, "a network with the same state_dict", **CLOSE)


@torch.no_grad()
def watched(subject: Any) -> None:
    """A lens changes nothing."""
    plain = subject.says(subject.network, subject.batch)
    for lens in (Lens(), Lens("top", k=2), Lens("statistics", detail=["state", "context"])):
        # Kernels that hold no weights round otherwise than those that a lens looks at.
        same(subject.says(subject.network, subject.batch, lens), plain, f"under Lens({lens.keep!r})", **CLOSE)


@torch.no_grad()
def looks(subject: Any, sizes_of: Callable[[int], Mapping[str, int]]) -> None:
    """A lens sees what ``sites`` names and changes nothing; weights are none below 0, sum to at most 1, and none lies on
    padding. ``sizes_of`` says how long each axis of an item is."""
    watched(subject)
    lens, network = Lens(), subject.network
    subject.says(network, subject.batch, lens)
    named, seen = {site.name for site in network.sites}, {record.site.name for record in lens.records}
    demand(named == seen, f"sites names {sorted(named)}, the lens saw {sorted(seen)}")
    for item, trace in enumerate(lens.traces if lens.records else ()):
        sizes = sizes_of(item)
        for map in trace.maps:
            demand({map.query, map.key} <= set(sizes), f"{map.site}: axes {map.query} and {map.key}")
            weights = map.weights[: sizes[map.query]]
            demand((weights >= 0).all(), f"{map.site}: the least weight is {float(weights.min()):.6g}")
            most, spent = float(weights.sum(-1).max()), float(weights[:, sizes[map.key] :].sum())
            demand(most <= 1 + 1e-6, f"{map.site}: a row sums to {most:.6g}")
            demand(spent == 0, f"{map.site}: item {item} spends {spent:.6g} on padding")
