"""What holds for EVERY network that says a tag for each position, with every part it has."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from saccade.models import MODELS, attentive_tagger, network_class
from saccade.nn.tagger import Tagger
from saccade.testing import ContractBroken, check_tagger

PARTS = itertools.product(
    ("cnn", "lstm", "none"), ("scaled_dot", "general", "additive", "cosine", "none"), ("crf", "softmax")
)
ATTENTIVE = [
    attentive_tagger.Config(
        4, character_embedding=3, character_hidden=4, hidden=3, layers=2, characters=characters, attention=attention,
        output=output,
    )
    for characters, attention, output in PARTS
]  # fmt: skip
ATTENTIVE += [
    attentive_tagger.Config(4, character_hidden=4, hidden=3, compare="words", normalise="sparsemax", word_dropout=0.3)
]


@pytest.mark.parametrize(
    "config", ATTENTIVE, ids=lambda each: f"{each.characters}-{each.attention}-{each.compare}-{each.output}"
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_the_attentive_tagger_keeps_every_promise(config) -> None:
    check_tagger(attentive_tagger.AttentiveTagger, config)


# Sizes at which a network is quick, for those whose own are not.
FIELDS: dict[str, dict[str, Any]] = {
    "attentive_tagger": {"embedding": 4, "character_hidden": 4, "hidden": 3},
    "bert_tagger": {"layers": 2, "width": 6, "heads": 2, "feed_forward": 5, "positions": 9},
    "transformer_tagger": {"layers": 1, "width": 6, "heads": 3, "hidden": 5},
}


@pytest.mark.parametrize("name", [name for name in MODELS if issubclass(network_class(name), Tagger)])
def test_every_shipped_tagger_keeps_every_promise(name: str) -> None:
    check_tagger(name, network_class(name).config_class(**FIELDS.get(name, {})))


class Careless(Tagger):
    """It looks at the padding, names a place where it does not look, and forgets which positions are judged."""

    config_class = attentive_tagger.Config
    sites = (attentive_tagger.SITE,)

    def __init__(self, config, vocabulary: int, labels: int, characters: int = 0) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(vocabulary, 5), nn.Linear(5, labels)

    def forward(self, tokens, lengths, *, characters=None, lens=None):
        embedded = self.embedding(tokens)
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        return self.output(embedded + embedded.mean(1, keepdim=True)) * real[..., None]

    def loss(self, emissions, tags, lengths, *, smoothing=0.0):
        return super().loss(emissions, tags.clamp_min(0), lengths)


def test_a_network_that_breaks_promises_is_told_which() -> None:
    with pytest.raises(ContractBroken, match="values in padding do not change the result") as told:
        check_tagger(Careless)
    for broken in ("a row gives the same result alone", "sees exactly the sites", "positions without a tag"):
        assert broken in str(told.value)
    for kept in ("the result depends on the words", "a saved state"):
        assert kept not in str(told.value)


def test_what_is_not_a_tagger_is_refused() -> None:
    with pytest.raises(ContractBroken, match=r"is not a class derived from saccade\.nn\.Tagger"):
        check_tagger("attentive_classifier")
