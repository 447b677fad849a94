import pytest
import torch

from saccade.errors import SaccadeError
from saccade.kernels.dot.reference import dot_scores


def test_a_score_is_the_scaled_product_of_query_and_key() -> None:
    query, key = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 4, 7)
    expected = torch.stack(
        [torch.stack([(q * key[b, h]).sum(-1) for q in query[b, h]]) for b in range(2) for h in range(3)]
    )
    torch.testing.assert_close(dot_scores(query, key), expected.view(2, 3, 5, 4))
    torch.testing.assert_close(dot_scores(query, key, scale=7**-0.5), expected.view(2, 3, 5, 4) / 7**0.5)


def test_a_scale_keeps_float16_from_overflowing() -> None:
    query = key = torch.full((1, 64), 50.0, dtype=torch.float16)
    assert dot_scores(query, key, scale=1 / 8).item() == 20_000.0
    assert dot_scores(query, key).isinf()


def test_widths_that_differ_are_named() -> None:
    with pytest.raises(SaccadeError, match="widths 7 and 5"):
        dot_scores(torch.randn(3, 7), torch.randn(4, 5))
