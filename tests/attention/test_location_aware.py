"""Location-aware attention as a user meets it: a score, its state, and what keeps it in place."""

from __future__ import annotations

import pytest
import torch

from saccade.attention.core import attend, explain_choice, weigh
from saccade.attention.normalise import sharpened, smoothed
from saccade.attention.recent import around
from saccade.attention.scores import LocationAware, Score, additive, location_aware
from saccade.attention.windows import padding
from saccade.errors import SaccadeError
from saccade.trace.lens import Lens

B, S, D, Dq, Dk, C, K = 2, 7, 5, 3, 4, 2, 3


def score(bias: bool = True) -> LocationAware:
    return location_aware(
        torch.randn(D),
        torch.randn(D, Dq),
        torch.randn(D, Dk),
        torch.randn(C, K),
        torch.randn(D, C),
        torch.randn(D) if bias else None,
    )


def test_without_a_mix_of_features_it_is_additive() -> None:
    ours = score(bias=False)
    ours = location_aware(ours.v, ours.query_weight, ours.key_weight, ours.filters, torch.zeros(D, C))
    query, key = torch.randn(B, 1, Dq), torch.randn(B, S, Dk)
    expected = additive(ours.v, ours.query_weight, ours.key_weight)(query, key)
    torch.testing.assert_close(ours.after(torch.rand(B, 1, S))(query, key), expected)


def test_the_first_query_comes_after_one_that_looked_at_the_first_key() -> None:
    ours, query, key = score(), torch.randn(B, 1, Dq), torch.randn(B, S, Dk)
    first = torch.zeros(B, 1, S)
    first[..., 0] = 1
    torch.testing.assert_close(ours(query, key), ours.after(first)(query, key))
    torch.testing.assert_close(ours.after(None)(query, key), ours(query, key))


def test_the_bias_goes_into_the_sum() -> None:
    ours, query, key = score(), torch.randn(B, 1, Dq), torch.randn(B, S, Dk)
    projected = query @ ours.query_weight.mT + ours.bias
    plain = location_aware(ours.v, None, ours.key_weight, ours.filters, ours.location_weight)
    torch.testing.assert_close(ours(query, key), plain(projected, key))


def test_a_filter_that_looks_to_the_left_moves_the_look_one_key_on_at_each_step() -> None:
    # One feature, 1 where the left neighbour had the weight: what was looked at at s is looked at at s + 1 next.
    onwards = location_aware(
        torch.tensor([60.0]), None, None, filters=torch.tensor([[2.0, 0.0, 0.0]]), location_weight=torch.ones(1, 1)
    )
    query, key = torch.zeros(1, 1, 1), torch.zeros(1, S, 1)
    previous, path = None, []
    for _ in range(4):
        previous = weigh(query, key, score=onwards.after(previous))
        path.append(int(previous.argmax()))
    assert path == [1, 2, 3, 4]


def test_a_loop_with_prepared_keys_windows_and_a_lens_trains_every_part() -> None:
    ours = score()
    for part in (ours.v, ours.query_weight, ours.key_weight, ours.filters, ours.location_weight, ours.bias):
        part.requires_grad_()
    lens, lengths, key = Lens(), torch.tensor([S, 4]), torch.randn(B, S, Dk)
    prepared, previous, total = ours.prepare(key), None, torch.zeros(())
    for step in range(3):
        window = padding(lengths) if previous is None else padding(lengths) & around(previous, 2)
        previous = weigh(
            torch.randn(B, 1, Dq), prepared, score=ours.after(previous), normalise=smoothed, window=window,
            offset=step, lens=lens,
        )  # fmt: skip
        total = total + (previous @ key).square().sum()
    total.backward()
    assert bool((previous[1, :, 4:] == 0).all())
    assert lens.traces[0].maps[0].weights.shape == (3, S)
    for part in (ours.v, ours.query_weight, ours.key_weight, ours.filters, ours.location_weight, ours.bias):
        assert part.grad is not None
        assert bool(part.grad.isfinite().all())
        assert bool(part.grad.any())


def test_the_gradient_goes_back_through_the_weights_of_earlier_steps() -> None:
    ours, key = score(), torch.randn(B, S, Dk)
    first = torch.randn(B, 1, Dq, requires_grad=True)
    weights = weigh(first, key, score=ours)
    (weigh(torch.randn(B, 1, Dq), key, score=ours.after(weights)) * torch.randn(S)).sum().backward()
    assert bool(first.grad.any())
    assert torch.autograd.gradcheck(
        lambda previous: location_aware(*(part.double() for part in (ours.v, ours.query_weight, ours.key_weight,
        ours.filters, ours.location_weight))).after(previous)(first.detach().double(), key.double()),
        torch.rand(B, 1, S, dtype=torch.float64, requires_grad=True),
    )  # fmt: skip


def test_it_works_with_heads_and_through_attend() -> None:
    ours = location_aware(torch.randn(3, D), None, None, torch.randn(C, K), torch.randn(D, C))
    query, key, value = torch.randn(B, 3, 1, D), torch.randn(B, 3, S, D), torch.randn(B, 3, S, 6)
    previous = weigh(query, key, score=ours)
    context = attend(query, key, value, score=ours.after(previous), normalise=sharpened(2.0))
    assert context.shape == (B, 3, 1, 6)


def test_it_is_a_score_that_prints_and_says_which_kernel_serves() -> None:
    ours = score(bias=False)
    assert isinstance(ours, Score)
    expected = "location_aware(v=[5], query_weight=[5, 3], key_weight=[5, 4], filters=[2, 3], location_weight=[5, 2])"
    assert repr(ours) == expected
    said = explain_choice(torch.randn(B, 1, Dq), torch.randn(B, S, Dk), score=ours)
    assert said.startswith("location_aware.")


def test_weights_over_other_keys_are_refused() -> None:
    with pytest.raises(SaccadeError, match=r"previous weights: expected .* = \[..., 1, 7\], found \[2, 1, 9\]"):
        score().after(torch.rand(B, 1, 9))(torch.randn(B, 1, Dq), torch.randn(B, S, Dk))
