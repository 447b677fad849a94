"""What a network that scores candidates promises: a pair is judged by itself, padding is nothing, and it shows where it looks.

Legend: B pairs, S tokens of the question, T of the candidate, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from saccade.nn.ranker import Ranker
from saccade.testing.networks import CLOSE, NetworkSubject, looks, saved
from saccade.testing.promises import demand, keep, name_of, network_under, numbers, reached, same

ASKED, SAID = (3, 5, 2), (7, 1, 4)
B, S, T = len(ASKED), max(ASKED), max(SAID)
VOCABULARY, FEATURES, MARKS = 20, 4, 4


def check_ranker(network: Any, config: Any = None) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a network keeps every promise; return the promises.

    Args:
        network: a class derived from :class:`saccade.nn.Ranker`, made by ``(config, vocabulary, features)``; or its name.
        config: what it is made with; ``config_class()`` unless given. Small sizes are enough, and quick.

    >>> from saccade.models.siamese import Config, Siamese
    >>> len(check_ranker(Siamese, Config(4, hidden=3, mlp=5)))
    8
    """
    __tracebackhide__ = True
    return keep(name_of(network), _Subject(*network_under(network, Ranker, config)), PROMISES)


class _Subject(NetworkSubject):
    def make(self) -> Any:
        return self.kind(self.config, VOCABULARY, FEATURES)

    @cached_property
    def batch(self) -> tuple[Tensor, ...]:
        """question [B, S], its lengths [B], candidate [B, T], its lengths [B], features [B, F]."""
        generator = torch.Generator().manual_seed(2)
        sides: list[Tensor] = []
        for lengths in (ASKED, SAID):
            tokens = torch.randint(MARKS, VOCABULARY, (B, max(lengths)), generator=generator)
            for row, length in enumerate(lengths):
                tokens[row, length:] = 0
            sides += [tokens, torch.tensor(lengths)]
        return (*sides, torch.rand(B, FEATURES, generator=generator, dtype=torch.float64))


@torch.no_grad()
def _shapes(subject: _Subject) -> None:
    scores = subject.network(*subject.batch)
    demand(list(scores.shape) == [B], f"expected {[B]}, found {list(scores.shape)}")
    numbers(scores, "scores")


@torch.no_grad()
def _alone(subject: _Subject) -> None:
    question, asked, candidate, said, features = subject.batch
    scores = subject.network(*subject.batch)
    for item in range(B):
        one = slice(item, item + 1)
        texts = question[one, : ASKED[item]], asked[one], candidate[one, : SAID[item]], said[one]
        found = subject.network(*texts, features[one])
        same(found, scores[one], f"pair {item} alone", **CLOSE)


@torch.no_grad()
def _padding(subject: _Subject) -> None:
    question, asked, candidate, said, features = subject.batch
    other, elsewhere = question.clone(), candidate.clone()
    for item in range(B):
        other[item, ASKED[item] :], elsewhere[item, SAID[item] :] = 5, 6
    found = subject.network(other, asked, elsewhere, said, features)
    same(found, subject.network(*subject.batch), "another padding", **CLOSE)


@torch.no_grad()
def _words(subject: _Subject) -> None:
    scores = subject.network(*subject.batch)
    for place, name in ((0, "question"), (2, "candidate")):
        other = [part.clone() for part in subject.batch]
        other[place][:, 0] = (other[place][:, 0] - 2) % (VOCABULARY - MARKS) + MARKS
        demand((subject.network(*other) != scores).all(), f"another word in the {name} changes no score")


def _lens(subject: _Subject) -> None:
    looks(subject, lambda item: {"question": ASKED[item], "candidate": SAID[item], "score": 1})


def _gradients(subject: _Subject) -> None:
    network = subject.build().double().eval()  # in training, dropout may cut a parameter off by chance
    (network(*subject.batch) * torch.tensor([1.0, -2.0, 3.0])).sum().backward()
    reached(network.named_parameters())


@torch.no_grad()
def _repeats(subject: _Subject) -> None:
    first = subject.network(*subject.batch)
    subject.network(*(part[:2] for part in subject.batch))
    same(subject.network(*subject.batch), first, "the same input again, after another", rtol=0, atol=0)
    found = subject.build().eval()(*subject.batch[:4], subject.batch[4].float())
    demand(found.dtype == torch.float32, f"a network in float32 gave scores in {found.dtype}")


PROMISES: dict[str, Callable[[_Subject], None]] = {
    "scores are numbers [pairs]": _shapes,
    "a pair alone is what it is in a padded batch": _alone,
    "what stands in the padding changes nothing": _padding,
    "the words of both texts matter": _words,
    "a lens changes nothing, and sees the sites that are named, with 0 on padding": _lens,
    "gradients are finite and reach every parameter": _gradients,
    "a state that was saved gives the same network": saved,
    "in eval the same input gives the same output, in the network's own precision": _repeats,
}
