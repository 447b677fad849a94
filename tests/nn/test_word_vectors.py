"""Embeddings that begin with vectors from elsewhere."""

import numpy as np
import pytest
import torch
from torch import nn

from saccade.data.tokenizers.vectors import VectorMatch
from saccade.errors import InputError
from saccade.nn.word_vectors import begin_words


def found(width: int = 3) -> VectorMatch:
    matrix = np.arange(5 * width, dtype=np.float32).reshape(5, width)
    return VectorMatch(matrix, np.array([False, True, False, True, True]), "", "v.txt")


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)


def test_known_rows_are_put_in_and_others_keep_their_start():
    network = Network()
    before = network.embedding.weight.detach().clone()
    begin_words(network, found())
    after = network.embedding.weight.detach()
    assert torch.equal(after[[1, 3, 4]], torch.from_numpy(found().matrix)[[1, 3, 4]])
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert network.embedding.weight.requires_grad


def test_frozen_embeddings_are_not_learnt_whether_vectors_are_in_hand_or_not():
    for vectors in (found(), None):
        network = Network()
        begin_words(network, vectors, frozen=True)
        assert not network.embedding.weight.requires_grad


def test_without_vectors_nothing_changes():
    begin_words(nn.Linear(2, 3), None)


def test_a_width_other_than_the_files_is_reported_with_both_numbers():
    with pytest.raises(InputError, match=r"recipe: model.embedding: expected 7, as many .* of v.txt have, found 3"):
        begin_words(Network(), found(7))


def test_a_network_without_word_embeddings_is_reported():
    with pytest.raises(InputError, match=r"model.name: expected a network with an embedding of words.*found Linear"):
        begin_words(nn.Linear(2, 3), found())
