"""What holds for EVERY network that scores candidates, with every encoder and every way to compare that it has."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from torch import nn

from saccade.models import MODELS, network_class, siamese
from saccade.nn.ranker import Ranker
from saccade.testing import ContractBroken, check_ranker

CONFIGS = [
    siamese.Config(4, encoder=encoder, hidden=3, layers=2, mlp=13, compare=compare, overlap=encoder != "cnn")
    for encoder, compare in itertools.product(("lstm", "gru", "cnn", "none"), ("pooled", "alignment"))
]
CONFIGS += [
    siamese.Config(4, hidden=3, mlp=13, compare=compare, normalise="sparsemax") for compare in ("pooled", "alignment")
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda each: f"{each.encoder}-{each.compare}-{each.normalise}")
def test_the_siamese_network_keeps_every_promise(config) -> None:
    assert len(check_ranker(siamese.Siamese, config)) == 8


@pytest.mark.parametrize("name", [name for name in MODELS if issubclass(network_class(name), Ranker)])
def test_every_shipped_ranker_keeps_every_promise(name: str) -> None:
    check_ranker(name, network_class(name).config_class(4, hidden=3, mlp=13))


class Careless(Ranker):
    """Reads the padding, leaves the question alone, and says nothing of where it looks."""

    config_class = siamese.Config

    def __init__(self, config: Any, vocabulary: int, features: int) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(vocabulary, 4), nn.Linear(4, 1)

    def forward(self, question, question_lengths, candidate, candidate_lengths, features, *, lens=None):
        return self.output(self.embedding(candidate).mean(1)).squeeze(-1)


def test_a_network_that_breaks_promises_is_told_which() -> None:
    with pytest.raises(ContractBroken) as told:
        check_ranker(Careless)
    for promise in ("alone", "padding", "words of both"):
        assert promise in str(told.value)


def test_what_is_not_a_ranker_is_refused() -> None:
    with pytest.raises(ContractBroken, match=r"class derived from saccade.nn.Ranker"):
        check_ranker("attentive_classifier")
