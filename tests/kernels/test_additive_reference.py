import math

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.kernels.additive.reference import additive_scores


def test_a_score_is_v_times_the_tanh_of_the_sum() -> None:
    query = torch.tensor([[[0.5, -1.0], [2.0, 0.0]]])
    key = torch.tensor([[[0.25, 1.5], [-2.0, 0.0], [0.0, 3.0]]])
    v = torch.tensor([3.0, -0.5])
    by_hand = [
        [3.0 * math.tanh(q[0] + k[0]) - 0.5 * math.tanh(q[1] + k[1]) for k in ((0.25, 1.5), (-2.0, 0.0), (0.0, 3.0))]
        for q in ((0.5, -1.0), (2.0, 0.0))
    ]
    torch.testing.assert_close(additive_scores(query, key, v), torch.tensor([by_hand]))


def test_each_head_may_have_its_own_v() -> None:
    query, key, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 4, 7), torch.randn(3, 7)
    one_by_one = [additive_scores(query[:, head], key[:, head], v[head]) for head in range(3)]
    torch.testing.assert_close(additive_scores(query, key, v), torch.stack(one_by_one, dim=1))


def test_widths_that_differ_are_named_even_where_they_would_broadcast() -> None:
    with pytest.raises(SaccadeError, match="widths 7, 1 and 7"):
        additive_scores(torch.randn(2, 5, 7), torch.randn(2, 3, 1), torch.randn(7))
