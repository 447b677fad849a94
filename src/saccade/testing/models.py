"""What a sequence-to-sequence network promises: it reads once, writes one token a step, and shows where it looks.

Legend: B batch, S source, T target, V vocabulary, d width of a point.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import select
from saccade.testing.networks import CLOSE, NetworkSubject, saved, watched
from saccade.testing.promises import demand, drawn, keep, name_of, network_under, numbers, reached, same
from saccade.trace.lens import Lens

PAD, BOS, EOS = 0, 1, 2
LENGTHS = (7, 3, 5)
B, S, T = len(LENGTHS), max(LENGTHS), 5
SOURCE_SIZE, TARGET_SIZE, WIDTH = 20, 13, 2


def check_model(network: Any, config: Any = None) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a network keeps every promise; return the promises.

    Args:
        network: a class derived from :class:`saccade.nn.EncoderDecoder`, made by ``(config, source_size, target_size)``
            (as ``translate`` does) or by ``(config, width)`` (as ``point`` does); or its name.
        config: what it is made with; ``config_class()`` unless given. Small sizes are enough, and quick.

    >>> from saccade.models.rnnsearch import Config, RNNSearch
    >>> len(check_model(RNNSearch, Config(6, 4, 3)))
    12
    """
    __tracebackhide__ = True
    return keep(name_of(network), _Subject(*network_under(network, EncoderDecoder, config)), PROMISES)


class _Subject(NetworkSubject):
    @property
    def points(self) -> bool:
        parameters = inspect.signature(self.kind).parameters
        return "width" in parameters and "source_size" not in parameters

    def make(self) -> Any:
        return self.kind(self.config, *((WIDTH,) if self.points else (SOURCE_SIZE, TARGET_SIZE)))

    @cached_property
    def batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """source [B, S] or [B, S, d], lengths [B], target [B, T]."""
        generator = torch.Generator().manual_seed(2)
        if self.points:
            target = torch.tensor([[0, 3, 7, 1, 5], [0, 2, 3, 1, 0], [0, 5, 1, 2, 4]])
            return drawn(B, S, WIDTH, seed=2), torch.tensor(LENGTHS), target
        source = torch.randint(3, SOURCE_SIZE, (B, S), generator=generator)
        for row, length in enumerate(LENGTHS):
            source[row, length - 1], source[row, length:] = EOS, PAD
        target = torch.randint(3, TARGET_SIZE, (B, T), generator=generator)
        target[:, 0] = BOS
        return source, torch.tensor(LENGTHS), target

    def wanted(self) -> Tensor:
        """What should be written, [B, T]; a pointer may only be asked for what every item has."""
        moved = self.batch[2].roll(-1, dims=1)
        return moved.clamp(max=min(LENGTHS)) if self.points else moved


@torch.no_grad()
def _shapes(subject: _Subject) -> None:
    logits = subject.network(*subject.batch)
    expected = [B, T, S + 1 if subject.points else TARGET_SIZE]
    demand(list(logits.shape) == expected, f"expected {expected}, found {list(logits.shape)}")
    numbers(logits, "logits")


@torch.no_grad()
def _steps(subject: _Subject) -> None:
    network, (source, lengths, target) = subject.network, subject.batch
    taught = network(source, lengths, target)
    memory = network.encode(source, lengths)
    state = network.start(memory)
    for t in range(T):
        row, state = network.step(target[:, t], state, memory, offset=t)
        same(row, taught[:, t], f"step {t}", **CLOSE)


@torch.no_grad()
def _alone(subject: _Subject) -> None:
    network, (source, lengths, target) = subject.network, subject.batch
    logits = network(source, lengths, target)
    for item, length in enumerate(LENGTHS):
        one = network(source[item : item + 1, :length], lengths[item : item + 1], target[item : item + 1])
        same(logits[item : item + 1, :, : one.shape[-1]], one, f"item {item} of {length} in a batch of {S}", **CLOSE)


@torch.no_grad()
def _padding(subject: _Subject) -> None:
    network, (source, lengths, target) = subject.network, subject.batch
    other = source.clone()
    for item, length in enumerate(LENGTHS):
        other[item, length:] = 5
    same(network(other, lengths, target), network(source, lengths, target), "another padding", **CLOSE)


@torch.no_grad()
def _later(subject: _Subject) -> None:
    network, (source, lengths, target) = subject.network, subject.batch
    other = target.clone()
    # Every later token becomes another one that may stand there.
    other[:, 3:] = other[:, 3:] % 3 + 1 if subject.points else (other[:, 3:] - 2) % (TARGET_SIZE - 3) + 3
    same(network(source, lengths, other)[:, :3], network(source, lengths, target)[:, :3], "the first 3 steps", **CLOSE)


@torch.no_grad()
def _selection(subject: _Subject) -> None:
    network, (source, lengths, target) = subject.network, subject.batch
    memory = network.encode(source, lengths)
    rows, again = torch.tensor([2, 0, 0, 1]), torch.tensor([3, 1, 1, 0])
    logits, state = network.step(target[:, 0], network.start(memory), memory, offset=0)
    wide = select(memory, rows)
    spread, moved = network.step(target[rows, 0], network.start(wide), wide, offset=0)
    same(spread, logits[rows], "the first step of rows 2, 0, 0, 1", **CLOSE)
    # A beam's rows move within their item: the memory of rows[again] is that of the same items.
    expected, _ = network.step(target[rows[again], 1], select(state, rows[again]), select(wide, again), offset=1)
    found, _ = network.step(target[rows[again], 1], select(moved, again), select(wide, again), offset=1)
    same(found, expected, "the second step, after the beam was reordered", **CLOSE)
    later, _ = network.step(target[:, 1], state, memory, offset=1)
    same(found, later[rows[again]], "the second step of selected rows", **CLOSE)


@torch.no_grad()
def _sites(subject: _Subject) -> None:
    sites = getattr(subject.network, "sites", None)
    demand(isinstance(sites, tuple), f"expected sites, a tuple of Site values, found {sites!r}")
    lens = Lens()
    subject.network(*subject.batch, lens=lens)
    named, seen = {site.name for site in sites or ()}, {record.site.name for record in lens.records}
    demand(named == seen, f"sites names {sorted(named)}, the lens saw {sorted(seen)}")
    for trace in lens.traces if named else ():
        for map in trace.maps:
            demand(map.queries >= 1, f"{map.site}: the map has no rows")


@torch.no_grad()
def _weights(subject: _Subject) -> None:
    lens = Lens()
    subject.network(*subject.batch, lens=lens)
    for item, trace in enumerate(lens.traces if lens.records else ()):
        for map in trace.maps:
            weights = map.weights
            demand((weights >= 0).all(), f"{map.site}: the least weight is {float(weights.min()):.6g}")
            most = float(weights.sum(-1).max())
            demand(most <= 1 + 1e-6, f"{map.site}: a row sums to {most:.6g}")
            if map.key == "source":
                real = LENGTHS[item] + map.keys - S  # a pointer also looks at its end mark
                spent = float(weights[:, real:].sum())
                demand(spent == 0, f"{map.site}: item {item} spends {spent:.6g} on padding")


def _gradients(subject: _Subject) -> None:
    network = subject.build().double().eval()  # in training, dropout may cut a parameter off by chance
    logits = network(*subject.batch)
    functional.cross_entropy(logits.flatten(0, 1), subject.wanted().flatten()).backward()
    reached(network.named_parameters())


@torch.no_grad()
def _repeats(subject: _Subject) -> None:
    network, (source, lengths, target) = subject.network, subject.batch
    first = network(source, lengths, target)
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network(source[:2, :4], lengths[:2].clamp(max=4), target[:2].clamp(max=4))
    same(network(source, lengths, target), first, "the same input again, after another", rtol=0, atol=0)
    for name, tensor in network.state_dict().items():
        same(tensor, state[name], f"{name}, which a call changed", rtol=0, atol=0)
    half = subject.build().eval()
    found = half(source.float() if subject.points else source, lengths, target)
    demand(found.dtype == torch.float32, f"a network in float32 gave logits in {found.dtype}")


PROMISES: dict[str, Callable[[_Subject], None]] = {
    "logits are numbers [batch, steps, vocabulary]": _shapes,
    "encode, start and step give what teach gives": _steps,
    "an item alone is what it is in a padded batch": _alone,
    "what stands in the padding changes nothing": _padding,
    "a step sees nothing of later tokens": _later,
    "rows of memory and state can be selected and reordered, as a beam does": _selection,
    "the lens sees the sites that are named, and no others": _sites,
    "weights are not negative, sum to at most 1, and are 0 on padding": _weights,
    "the result is the same with and without a lens": watched,
    "gradients are finite and reach every parameter": _gradients,
    "a state that was saved gives the same network": saved,
    "in eval the same input gives the same output, in the network's own precision": _repeats,
}
