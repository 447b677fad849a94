"""Each score by its formula on numbers that can be followed; every combination is in tests/contracts/test_attention.py."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.attention.core import weigh
from saccade.attention.scores import Prepared, Score, additive, concat, cosine, dot, general, location, scaled_dot
from saccade.errors import SaccadeError

QUERY = torch.tensor([[[1.0, 2.0]]])  # one query
KEYS = torch.tensor([[[3.0, 0.0], [0.0, -1.0], [1.0, 1.0]]])  # three keys


def test_dot_is_the_sum_of_products() -> None:
    assert dot(QUERY, KEYS).tolist() == [[[3.0, -2.0, 3.0]]]


def test_scaled_dot_divides_by_the_root_of_the_width() -> None:
    torch.testing.assert_close(scaled_dot(QUERY, KEYS), dot(QUERY, KEYS) / math.sqrt(2))


def test_general_puts_the_matrix_between_query_and_key() -> None:
    weight = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])  # queries of 2, keys of 3
    keys = torch.tensor([[[1.0, 5.0, 7.0]]])
    assert general(weight)(QUERY, keys).tolist() == [[[1 * (1 + 2 * 7) + 2 * 5.0]]]


def test_general_with_the_identity_is_dot() -> None:
    query, keys = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    torch.testing.assert_close(general(torch.eye(5))(query, keys), dot(query, keys))


def test_additive_is_v_on_the_tanh_of_a_sum() -> None:
    v, query_weight, key_weight = torch.tensor([2.0, -1.0]), torch.eye(2), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    scores = additive(v, query_weight, key_weight)(QUERY, KEYS)
    expected = [2 * math.tanh(1 + key[1]) - math.tanh(2 + key[0]) for key in KEYS[0].tolist()]
    torch.testing.assert_close(scores[0, 0], torch.tensor(expected))


def test_concat_is_additive_with_one_matrix_on_query_and_key() -> None:
    v, weight = torch.randn(4), torch.randn(4, 3 + 5)
    query, keys = torch.randn(2, 3, 3), torch.randn(2, 7, 5)
    pairs = torch.cat([query.unsqueeze(2).expand(-1, -1, 7, -1), keys.unsqueeze(1).expand(-1, 3, -1, -1)], dim=-1)
    expected = torch.tanh(pairs @ weight.mT) @ v
    torch.testing.assert_close(concat(v, weight[:, :3], weight[:, 3:])(query, keys), expected)


def test_additive_with_a_vector_a_head() -> None:
    v = torch.randn(3, 4)
    query, keys = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
    scores = additive(v)(query, keys)
    for head in range(3):
        torch.testing.assert_close(scores[:, head], additive(v[head])(query[:, head], keys[:, head]))


def test_location_ignores_what_the_keys_say() -> None:
    weight = torch.randn(6, 2)
    scores = location(weight)(QUERY, KEYS)
    torch.testing.assert_close(scores[0, 0], weight[:3] @ QUERY[0, 0])
    torch.testing.assert_close(location(weight)(QUERY, KEYS * 100), scores)


def test_keys_beyond_the_places_of_location_are_not_looked_at() -> None:
    weights = weigh(QUERY, torch.randn(1, 5, 2), score=location(torch.randn(3, 2)))
    assert bool((weights[..., :3] > 0).all())
    assert weights[..., 3:].tolist() == [[[0.0, 0.0]]]


def test_cosine_does_not_depend_on_lengths() -> None:
    scores = cosine(2.0)(QUERY, KEYS)
    torch.testing.assert_close(cosine(2.0)(QUERY * 9, KEYS * 0.1), scores)
    torch.testing.assert_close(scores[0, 0, 0], torch.tensor(2 * 3 / (math.sqrt(5) * 3)))
    assert bool((scores.abs() <= 2).all())


def test_a_cosine_with_nothing_is_zero_and_has_a_finite_gradient() -> None:
    nothing = torch.zeros(1, 1, 2, requires_grad=True)
    scores = cosine()(nothing, KEYS)
    assert scores.tolist() == [[[0.0, 0.0, 0.0]]]
    scores.sum().backward()
    assert bool(nothing.grad.isfinite().all())


def test_a_negative_beta_would_seek_the_least_alike_and_is_refused() -> None:
    for beta in (-1.0, 0.0, math.nan):
        with pytest.raises(SaccadeError, match="beta must be positive"):
            cosine(beta)


def test_widths_that_do_not_fit_are_named() -> None:
    with pytest.raises(SaccadeError, match="one width: got 2 and 3"):
        dot(QUERY, torch.randn(1, 4, 3))
    with pytest.raises(SaccadeError, match="one width: got 2, 2 and 5"):
        additive(torch.randn(5))(QUERY, KEYS)


def test_preparing_does_the_part_of_the_keys_once() -> None:
    key_weight = torch.randn(4, 2)
    prepared = additive(torch.randn(4), torch.randn(4, 2), key_weight).prepare(KEYS)
    assert prepared.size == 3
    torch.testing.assert_close(prepared.key, KEYS @ key_weight.mT)
    torch.testing.assert_close(cosine().prepare(KEYS).key.norm(dim=-1), torch.ones(1, 3))
    torch.testing.assert_close(
        general(key_weight.mT).prepare(torch.ones(1, 3, 4)).key, torch.ones(1, 3, 4) @ key_weight
    )


def test_prepared_keys_are_not_prepared_again() -> None:
    score = general(torch.randn(2, 2))
    torch.testing.assert_close(score(QUERY, Prepared(KEYS)), dot(QUERY, KEYS))


def test_scores_are_values_that_print_and_compare() -> None:
    assert repr(dot) == "dot"
    assert repr(scaled_dot) == "scaled_dot"
    assert repr(general(torch.zeros(2, 3))) == "general(weight=[2, 3])"
    assert repr(additive(torch.zeros(4))) == "additive(v=[4])"
    assert dot == type(dot)()
    assert dot != scaled_dot
    weight = torch.zeros(2, 2)
    assert general(weight) != general(weight)  # those that hold tensors compare by identity
    for score in (dot, scaled_dot, general(weight), additive(weight[0]), location(weight), cosine()):
        assert isinstance(score, Score)
        hash(score)
