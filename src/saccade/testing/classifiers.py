"""What a network that says labels promises: a row is judged by itself, padding is nothing, and it shows where it looks.

Legend: B batch, S positions, C labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch.nn import functional

from saccade.nn.classifier import Classifier
from saccade.testing.networks import CLOSE, NetworkSubject, looks, saved
from saccade.testing.promises import demand, keep, name_of, network_under, numbers, reached, same
from saccade.testing.readings import LENGTHS, VOCABULARY, Inputs, Reading, RowsOf, SentencesOf

B, CLASSES = len(LENGTHS), 4


def check_classifier(network: Any, config: Any = None) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a network keeps every promise; return the promises.

    Args:
        network: a class derived from :class:`saccade.nn.Classifier`, made by ``(config, vocabulary, classes)``; or its name.
        config: what it is made with; ``config_class()`` unless given. Small sizes are enough, and quick.

    >>> from saccade.models.attentive_classifier import AttentiveClassifier, Config
    >>> len(check_classifier(AttentiveClassifier, Config(4, hidden=3)))
    9
    """
    __tracebackhide__ = True
    return keep(name_of(network), _Subject(*network_under(network, Classifier, config)), PROMISES)


class _Subject(NetworkSubject):
    def make(self) -> Any:
        return self.kind(self.config, VOCABULARY, CLASSES)

    @cached_property
    def reading(self) -> Reading:
        return SentencesOf() if self.kind.layout == "sentences" else RowsOf(self.kind.layout == "marked")

    @property
    def batch(self) -> Inputs:
        return self.reading.batch


@torch.no_grad()
def _shapes(subject: _Subject) -> None:
    logits = subject.network(*subject.batch)
    demand(list(logits.shape) == [B, CLASSES], f"expected {[B, CLASSES]}, found {list(logits.shape)}")
    numbers(logits, "logits")


@torch.no_grad()
def _alone(subject: _Subject) -> None:
    logits = subject.network(*subject.batch)
    for item in range(B):
        alone = subject.reading.alone(item)
        found = subject.network(*alone)
        same(found, logits[item : item + 1], f"item {item}, {list(alone[0].shape)} alone, in a batch", **CLOSE)


@torch.no_grad()
def _padding(subject: _Subject) -> None:
    other = subject.network(*subject.reading.repadded())
    same(other, subject.network(*subject.batch), "another padding", **CLOSE)


@torch.no_grad()
def _words(subject: _Subject) -> None:
    other = subject.network(*subject.reading.reworded())
    apart = (other - subject.network(*subject.batch)).abs().amax(-1)
    demand((apart > 0).all(), "another word in its place changes no logit")


@torch.no_grad()
def _single(subject: _Subject) -> None:
    tokens, lengths, segments = subject.reading.single()
    without = subject.network(tokens, lengths)
    same(without, subject.network(tokens, lengths, segments), "segments of a single text", **CLOSE)


def _lens(subject: _Subject) -> None:
    looks(subject, subject.reading.sizes)


def _gradients(subject: _Subject) -> None:
    network = subject.build().double().eval()  # in training, dropout may cut a parameter off by chance
    functional.cross_entropy(network(*subject.batch), torch.tensor([0, 1, 3])).backward()
    reached(network.named_parameters())


@torch.no_grad()
def _repeats(subject: _Subject) -> None:
    first = subject.network(*subject.batch)
    subject.network(*subject.reading.smaller())
    same(subject.network(*subject.batch), first, "the same input again, after another", rtol=0, atol=0)
    found = subject.build().eval()(*subject.batch)
    demand(found.dtype == torch.float32, f"a network in float32 gave logits in {found.dtype}")


PROMISES: dict[str, Callable[[_Subject], None]] = {
    "logits are numbers [batch, labels]": _shapes,
    "a row alone is what it is in a padded batch": _alone,
    "what stands in the padding changes nothing": _padding,
    "words matter": _words,
    "a single text is one whose segments are all 0": _single,
    "a lens changes nothing, and sees the sites that are named, with 0 on padding": _lens,
    "gradients are finite and reach every parameter": _gradients,
    "a state that was saved gives the same network": saved,
    "in eval the same input gives the same output, in the network's own precision": _repeats,
}
