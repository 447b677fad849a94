"""Whether words that belong together are nearest to each other."""

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.tasks.vectors import neighbours


def test_length_does_not_matter_and_every_word_is_a_candidate():
    vectors = torch.tensor([[1.0, 0.0], [9.0, 0.9], [0.0, 1.0], [0.1, 1.0], [1.0, 0.01]])
    assert neighbours(vectors[:4], [[0, 1], [2, 3]]) == 1.0
    assert neighbours(vectors, [[0, 1], [2, 3]]) == 0.5  # the last word comes between the first two


def test_a_word_is_not_its_own_neighbour():
    assert neighbours(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]]), [[0], [1], [2]]) == 0.0


def test_words_are_needed():
    with pytest.raises(SaccadeError, match="none of their words in the vocabulary"):
        neighbours(torch.ones(3, 2), [[], []])
