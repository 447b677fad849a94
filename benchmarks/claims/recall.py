"""Memory over distance: a symbol is shown with its mark, noise follows, and so many steps later it is asked for.

    place    0 … lead − 1   lead    lead + 1 … lead + distance − 1   lead + distance
    symbol   noise          item    noise                            noise
    role     –              marked  –                                asked

All symbols are drawn evenly from 16, so nothing but the item tells: whoever guesses is right once in 16 (the chance), whoever
remembers always (the optimum). ``lead`` is drawn anew for each batch, from 0 to 7, so that no place of its own gives the item
away. The networks train with Adam on the loss at the place that asks, all with one budget of updates and one learning rate; who
is right on all of two checks in a row stops early.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import torch
from networks import Reader, Sizes, network_of, parameters
from torch import Tensor
from torch.nn import functional

SYMBOLS, LEAD = 16, 8
CHANCE = 1 / SYMBOLS
CHECKED, TESTED, TOGETHER = 512, 2048, 128
PASSES = 2  # a check that everybody passes may have been luck


@dataclass(frozen=True)
class Budget:
    """What every network gets."""

    updates: int = 1000
    sequences: int = 64  # an update
    lr: float = 1e-3
    warmup: int = 50
    clip: float = 1.0
    check_every: int = 50


@dataclass(frozen=True)
class Recalled:
    """What came of one training; ``updates`` is how many it took, the whole budget where it was never right throughout."""

    accuracy: float
    updates: int
    solved: bool
    loss: float
    parameters: int
    seconds: float


def batch(distance: int, count: int, draw: torch.Generator, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols [B, T], roles [B, T] and the items [B]; the last place asks."""
    lead = int(torch.randint(LEAD, (), generator=draw))
    symbols = torch.randint(SYMBOLS, (count, lead + distance + 1), generator=draw)
    roles = torch.zeros_like(symbols)
    roles[:, lead], roles[:, -1] = 1, 2
    items = symbols[:, lead].clone()
    return symbols.to(device), roles.to(device), items.to(device)


@torch.no_grad()
def accuracy(reader: Reader, distance: int, count: int, draw: torch.Generator, device: str) -> float:
    """The share of items that are recalled, of new sequences."""
    reader.eval()
    right = 0
    for start in range(0, count, TOGETHER):
        symbols, roles, items = batch(distance, min(TOGETHER, count - start), draw, device)
        right += int((reader(symbols, roles)[:, -1].argmax(-1) == items).sum())
    reader.train()
    return right / count


def recall(name: str, sizes: Sizes, distance: int, seed: int, budget: Budget, device: str) -> dict[str, float]:
    """Train one network on one distance and ask it."""
    torch.manual_seed(seed)
    draw, test = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(10_000 + seed)
    network = network_of(name, sizes, distance + 1)
    reader = Reader(network, sizes.width, SYMBOLS).to(device)
    optimiser = torch.optim.Adam(reader.parameters(), lr=budget.lr)
    begin, passed, update = time.perf_counter(), 0, 0
    while update < budget.updates and passed < PASSES:
        for group in optimiser.param_groups:
            group["lr"] = budget.lr * min(1.0, (update + 1) / budget.warmup)
        symbols, roles, items = batch(distance, budget.sequences, draw, device)
        loss = functional.cross_entropy(reader(symbols, roles)[:, -1], items)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reader.parameters(), budget.clip)
        optimiser.step()
        update += 1
        if update % budget.check_every == 0:
            passed = passed + 1 if accuracy(reader, distance, CHECKED, test, device) == 1.0 else 0
    share = accuracy(reader, distance, TESTED, test, device)
    seconds = time.perf_counter() - begin
    return asdict(Recalled(share, update, passed == PASSES, loss.item(), parameters(network), seconds))
