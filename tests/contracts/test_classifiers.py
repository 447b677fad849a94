"""What holds for EVERY network that says labels, with every encoder and every pool it has."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from saccade.models import MODELS, attentive_classifier, network_class
from saccade.nn.classifier import Classifier
from saccade.testing import ContractBroken, check_classifier

ATTENTIVE = [
    attentive_classifier.Config(4, encoder=encoder, hidden=3, pool=pool, width=5, layers=2)
    for encoder, pool in itertools.product(("lstm", "gru", "cnn", "none"), ("additive", "dot", "mean", "max", "last"))
    if (encoder, pool) != ("none", "last")
]
ATTENTIVE += [
    attentive_classifier.Config(4, hidden=3, bidirectional=False, pool="last"),
    attentive_classifier.Config(4, hidden=3, normalise="sparsemax", attention=5),
]


@pytest.mark.parametrize("config", ATTENTIVE, ids=lambda each: f"{each.encoder}-{each.pool}-{each.normalise}")
def test_the_attentive_classifier_keeps_every_promise(config) -> None:
    check_classifier(attentive_classifier.AttentiveClassifier, config)


# Sizes at which a network is quick, for those whose own are not.
SMALL: dict[str, dict[str, Any]] = {
    "bert_classifier": {"layers": 2, "width": 6, "heads": 2, "feed_forward": 5, "positions": 9},
    "transformer_classifier": {"layers": 1, "width": 6, "heads": 3, "hidden": 5},
    "atae_lstm": {
        "scorer": "summed",
        "embedding": 5,
        "hidden": 4,
    },  # in the printed one the aspect's gradient is rounding
}


@pytest.mark.parametrize("name", [name for name in MODELS if issubclass(network_class(name), Classifier)])
def test_every_shipped_classifier_keeps_every_promise(name: str) -> None:
    check_classifier(name, network_class(name).config_class(**SMALL.get(name, {})))


class Careless(Classifier):
    """It averages over the padding, and names a place where it does not look."""

    config_class = attentive_classifier.Config
    sites = attentive_classifier.AttentiveClassifier.sites

    def __init__(self, config, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(vocabulary, 5), nn.Linear(5, classes)

    def forward(self, tokens, lengths, segments=None, *, lens=None):
        return self.output(self.embedding(tokens).mean(1))


def test_a_network_that_reads_padding_is_found() -> None:
    with pytest.raises(ContractBroken, match="values in padding do not change the result") as told:
        check_classifier(Careless)
    assert "a row gives the same result alone and in a padded batch" in str(told.value)
    assert "the result depends on the words" not in str(told.value)


def test_what_is_not_a_classifier_is_refused() -> None:
    with pytest.raises(ContractBroken, match=r"is not a class derived from saccade\.nn\.Classifier"):
        check_classifier("rnnsearch")


@pytest.mark.parametrize("pool", ["additive", "dot"])
def test_a_pool_looks_at_the_words_of_a_pair_and_at_the_mark_between_them(pool) -> None:
    from saccade.trace import Lens

    network = attentive_classifier.AttentiveClassifier(attentive_classifier.Config(4, hidden=3, pool=pool), 9, 3)
    lens = Lens()
    network(torch.tensor([[4, 5, 2, 6, 7]]), torch.tensor([5]), torch.tensor([[0, 0, 0, 1, 1]]), lens=lens)
    weights = lens.trace.map("pool").weights
    assert weights.shape == (1, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1))
