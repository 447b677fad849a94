"""Skip-gram's two tables and its scores."""

import pytest
import torch

from saccade.models.skipgram import Config, Skipgram


def test_a_score_is_the_product_of_two_vectors():
    network = Skipgram(Config(3), vocabulary=7)
    torch.nn.init.normal_(network.context.weight)
    centres, contexts, against = torch.tensor([4, 5]), torch.tensor([6, 4]), torch.tensor([[1, 2, 6], [3, 5, 0]])
    with torch.no_grad():
        there, drawn = network(centres, contexts, against)
    v, u = network.embedding.weight.detach(), network.context.weight.detach()
    assert float(there[1]) == pytest.approx(float(u[4] @ v[5]), rel=1e-5)
    assert float(drawn[0, 1]) == pytest.approx(float(u[2] @ v[4]), rel=1e-5)
    assert float(drawn[1, 1]) == pytest.approx(
        float(u[5] @ v[5]), rel=1e-5
    )  # a word may be drawn against itself as context


def test_the_word_that_is_there_is_not_drawn_against_itself():
    _, drawn = Skipgram(Config(3), vocabulary=7)(torch.tensor([4]), torch.tensor([6]), torch.tensor([[1, 6]]))
    assert drawn.isneginf().tolist() == [[False, True]]
    losses = torch.nn.functional.softplus(drawn.detach())
    assert losses[0, 1] == 0.0 and losses[0, 0] > 0.0


def test_it_begins_with_small_vectors_and_no_opinion():
    network = Skipgram(Config(5), vocabulary=300)
    assert float(network.embedding.weight.detach().abs().max()) <= 0.1 and not network.context.weight.any()


def test_a_vector_has_a_number_at_least():
    with pytest.raises(ValueError, match="embedding must be at least 1: got 0"):
        Config(0)
