"""What a network that says a tag for every position promises: a row is judged by itself, padding is nothing, it shows where it
looks, and what it learns and what it says are of one distribution.

Legend: B batch, S positions, L characters, K tags.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from saccade.nn.tagger import IGNORED, Tagger
from saccade.testing.networks import CLOSE, NetworkSubject, looks, saved
from saccade.testing.promises import demand, keep, name_of, network_under, numbers, reached, same
from saccade.trace.lens import Lens

LENGTHS = (7, 3, 5)
B, S, L = len(LENGTHS), max(LENGTHS), 4
VOCABULARY, LABELS, CHARACTERS = 20, 4, 11
PAD, BOS, EOS = 0, 1, 2
SINGLE = {"rtol": 1e-5, "atol": 1e-5}  # losses and probabilities, which may be of float32
CERTAIN = 30.0  # an emission beside which others weigh nothing


def check_tagger(network: Any, config: Any = None) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a network keeps every promise; return the promises.

    Args:
        network: a class derived from :class:`saccade.nn.Tagger`, made by ``(config, vocabulary, labels, characters=0)``; or its
            name.
        config: what it is made with; ``config_class()`` unless given. Small sizes are enough, and quick.

    >>> from saccade.models.attentive_tagger import AttentiveTagger, Config
    >>> len(check_tagger(AttentiveTagger, Config(4, character_hidden=3, hidden=3)))
    12
    """
    __tracebackhide__ = True
    return keep(name_of(network), _Subject(*network_under(network, Tagger, config)), PROMISES)


class _Subject(NetworkSubject):
    def make(self) -> Any:
        network = self.kind(self.config, vocabulary=VOCABULARY, labels=LABELS, characters=CHARACTERS)
        if network.crf is not None:  # as if it had learned: at the start every move is alike
            torch.nn.init.normal_(network.crf.transitions)
        return network

    @cached_property
    def batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """tokens [B, S], lengths [B], characters [B, S, L]: rows with the marks that the layout asks for."""
        generator = torch.Generator().manual_seed(2)
        tokens = torch.randint(EOS + 2, VOCABULARY, (B, S), generator=generator)
        characters = torch.randint(1, CHARACTERS, (B, S, L), generator=generator)
        characters[0, 1, 2:], characters[2, 3, 1:] = 0, 0  # shorter words
        for row, length in enumerate(LENGTHS):
            tokens[row, length:], characters[row, length:] = PAD, 0
            if self.kind.layout == "marked":
                tokens[row, 0], tokens[row, length - 1] = BOS, EOS
        return tokens, torch.tensor(LENGTHS), characters

    @cached_property
    def tags(self) -> Tensor:
        """A tag for some positions [B, S], one row with gaps, −100 elsewhere."""
        tags = torch.randint(0, LABELS, (B, S), generator=torch.Generator().manual_seed(3))
        for row, length in enumerate(LENGTHS):
            tags[row, length:] = IGNORED
        tags[0, 0], tags[0, 3] = IGNORED, IGNORED
        return tags

    @cached_property
    def any_emissions(self) -> Tensor:
        return torch.randn(B, S, LABELS, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def says(self, network: Any, batch: tuple[Tensor, Tensor, Tensor], lens: Lens | None = None) -> Tensor:
        tokens, lengths, characters = batch
        found: Tensor = network(tokens, lengths, characters=self.spelt(network, characters), lens=lens)
        return found

    @staticmethod
    def spelt(network: Any, characters: Tensor) -> Tensor | None:
        return characters if network.wants_characters else None


@torch.no_grad()
def _shapes(subject: _Subject) -> None:
    emissions = subject.says(subject.network, subject.batch)
    expected = [B, S, LABELS]
    demand(list(emissions.shape) == expected, f"expected {expected}, found {list(emissions.shape)}")
    numbers(emissions, "emissions")
    for row, length in enumerate(LENGTHS):
        demand((emissions[row, length:] == 0).all(), f"row {row} of {length} says something beyond its end")


@torch.no_grad()
def _alone(subject: _Subject) -> None:
    tokens, lengths, characters = subject.batch
    emissions = subject.says(subject.network, subject.batch)
    for item, length in enumerate(LENGTHS):
        one = slice(item, item + 1)
        found = subject.says(subject.network, (tokens[one, :length], lengths[one], characters[one, :length]))
        same(found, emissions[one, :length], f"item {item} of {length} in a batch of {S}", **CLOSE)


@torch.no_grad()
def _padding(subject: _Subject) -> None:
    tokens, lengths, characters = subject.batch
    other, spelt = tokens.clone(), characters.clone()
    for item, length in enumerate(LENGTHS):
        other[item, length:], spelt[item, length:] = 5, 7
    found = subject.says(subject.network, (other, lengths, spelt))
    same(found, subject.says(subject.network, subject.batch), "another padding", **CLOSE)
    wider = torch.cat([characters, torch.zeros_like(characters)], dim=-1)
    found = subject.says(subject.network, (tokens, lengths, wider))
    same(found, subject.says(subject.network, subject.batch), "words in a wider table of characters", **CLOSE)


@torch.no_grad()
def _words(subject: _Subject) -> None:
    tokens, lengths, characters = subject.batch
    first = subject.says(subject.network, subject.batch)
    other = tokens.clone()
    other[:, 1] = (other[:, 1] - 3) % (VOCABULARY - 4) + 4
    apart = (subject.says(subject.network, (other, lengths, characters)) - first).abs().amax(-1)
    demand((apart[:, 1] > 0).all(), "another word changes nothing at its place")
    demand((apart[:, 0] > 0).all(), "another word changes nothing beside it")
    if subject.network.wants_characters:
        spelt = characters.clone()
        spelt[:, 1, 0] = spelt[:, 1, 0] % (CHARACTERS - 1) + 1
        apart = (subject.says(subject.network, (tokens, lengths, spelt)) - first).abs().amax(-1)
        demand((apart[:, 1] > 0).any(), "other characters change nothing, though it wants characters")


def _lens(subject: _Subject) -> None:
    looks(subject, lambda item: {"text": LENGTHS[item]})


@torch.no_grad()
def _one_distribution(subject: _Subject) -> None:
    """The probabilities that are said are those whose logarithm is learned: with one judged position they are the same."""
    network, emissions, lengths = subject.network, subject.any_emissions, torch.tensor(LENGTHS)
    one = torch.full((B, S), IGNORED)
    one[torch.arange(B), torch.tensor([2, 0, 4])] = torch.tensor([3, 0, 1])
    _, shares = network.decode(emissions, lengths, one != IGNORED)
    share = shares[torch.arange(B), torch.tensor([2, 0, 4]), torch.tensor([3, 0, 1])]
    same(-share.log().sum(), network.loss(emissions, one, lengths), "the loss of tags that stand alone", **SINGLE)
    _, shares = network.decode(emissions, lengths)
    for row, length in enumerate(LENGTHS):
        same(shares[row, :length].sum(-1), torch.ones(length), f"probabilities of row {row}", **SINGLE)
        demand((shares[row, length:] == 0).all(), f"row {row} of {length} has probabilities beyond its end")


@torch.no_grad()
def _certain(subject: _Subject) -> None:
    network, tags, lengths = subject.network, subject.tags, torch.tensor(LENGTHS)
    judged = tags != IGNORED
    emissions = CERTAIN * torch.nn.functional.one_hot(tags.clamp_min(0), LABELS).double()
    found, shares = network.decode(emissions, lengths, judged)
    demand((found[judged] == tags[judged]).all(), "it says another tag than the one that everything speaks for")
    demand((found[~judged] == 0).all() and (shares[~judged] == 0).all(), "it says a tag where nothing is judged")
    loss = float(network.loss(emissions, tags, lengths))
    demand(0 <= loss < 1e-3, f"the loss of a certain and right answer is {loss:.6g}")


@torch.no_grad()
def _gaps(subject: _Subject) -> None:
    """Row 0 with its gaps closed is the same row."""
    network, emissions, tags = subject.network, subject.any_emissions, subject.tags
    judged = tags[0] != IGNORED
    count = torch.tensor([int(judged.sum())])
    closed = network.loss(emissions[:1, judged], tags[:1, judged], count)
    same(network.loss(emissions[:1], tags[:1], torch.tensor(LENGTHS[:1])), closed, "the loss with gaps", **SINGLE)
    found = network.decode(emissions[:1], torch.tensor(LENGTHS[:1]), judged.unsqueeze(0))
    wanted = network.decode(emissions[:1, judged], count)
    demand(bool((found[0][0, judged] == wanted[0][0]).all()), "the tags with gaps are others")
    same(found[1][0, judged], wanted[1][0], "the probabilities with gaps", **SINGLE)


@torch.no_grad()
def _sums(subject: _Subject) -> None:
    network, emissions, tags, lengths = subject.network, subject.any_emissions, subject.tags, torch.tensor(LENGTHS)
    alone = [
        network.loss(emissions[one, :length], tags[one, :length], lengths[one])
        for one, length in ((slice(row, row + 1), LENGTHS[row]) for row in range(B))
    ]
    same(network.loss(emissions, tags, lengths), torch.stack(alone).sum(), "the loss of a batch", **SINGLE)


def _gradients(subject: _Subject) -> None:
    network = subject.build().double().eval()  # in training, dropout may cut a parameter off by chance
    network.loss(subject.says(network, subject.batch), subject.tags, torch.tensor(LENGTHS)).backward()
    reached((name, each) for name, each in network.named_parameters() if name not in network.idle)


@torch.no_grad()
def _repeats(subject: _Subject) -> None:
    tokens, lengths, characters = subject.batch
    first = subject.says(subject.network, subject.batch)
    subject.says(subject.network, (tokens[:2, :3], lengths[:2].clamp(max=3), characters[:2, :3]))
    same(subject.says(subject.network, subject.batch), first, "the same input again, after another", rtol=0, atol=0)
    found = subject.says(subject.build().eval(), subject.batch)
    demand(found.dtype == torch.float32, f"a network in float32 gave emissions in {found.dtype}")


PROMISES: dict[str, Callable[[_Subject], None]] = {
    "emissions are numbers [batch, positions, tags], 0 beyond a row's end": _shapes,
    "a row alone is what it is in a padded batch": _alone,
    "what stands in the padding changes nothing": _padding,
    "words matter, where they stand and beside it; so do characters where it wants them": _words,
    "a lens changes nothing, and sees the sites that are named, with 0 on padding": _lens,
    "the probabilities that it says are those that it learns": _one_distribution,
    "an answer that everything speaks for is given, and costs nothing": _certain,
    "positions that are not judged are not there for the tags": _gaps,
    "the loss of a batch is the sum over its rows": _sums,
    "gradients are finite and reach every parameter that is not idle": _gradients,
    "a state that was saved gives the same network": saved,
    "in eval the same input gives the same output, in the network's own precision": _repeats,
}
