"""The blocked kernel gives the reference's scores and gradients, and never holds T × S × D numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive import blocked, reference
from tests.kernels.live import LiveMemory

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = {  # query batch, key batch, T, S, D, shape of v before D
    "several tiles": ((3,), (3,), 11, 13, 7, ()),
    "heads with their own v": ((2, 3), (2, 3), 5, 4, 7, (3,)),
    "no batch": ((), (), 5, 3, 7, ()),
    "keys shared by the batch": ((3,), (1,), 5, 6, 7, ()),
    "one query": ((3,), (3,), 1, 13, 5, ()),
    "one key": ((3,), (3,), 11, 1, 5, ()),
    "width 1": ((2,), (2,), 5, 9, 1, ()),
    "wider than a tile": ((2,), (2,), 3, 5, 97, ()),
}
TOLERANCE = {torch.float64: 1e-13, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(7)
    monkeypatch.setattr(blocked, "TILE_ELEMENTS", 64)


def rows(name: str, dtype: torch.dtype = torch.float64, magnitude: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    query_batch, key_batch, T, S, D, heads = SHAPES[name]
    query = magnitude * torch.randn(*query_batch, T, D, dtype=torch.float64)
    key = magnitude * torch.randn(*key_batch, S, D, dtype=torch.float64)
    v = torch.randn(*heads, D, dtype=torch.float64)
    return tuple(tensor.to(dtype).requires_grad_() for tensor in (query, key, v))  # type: ignore[return-value]


def scores_and_gradients(function: Any, inputs: tuple[Tensor, ...], grad_scores: Tensor) -> tuple[Tensor, ...]:
    scores = function(*inputs)
    return scores, *torch.autograd.grad(scores, inputs, grad_scores.to(scores.dtype))


def assert_within(found: Tensor, expected: Tensor, tolerance: float, at_least: float = 0.0) -> None:
    """Off by no more than this part of the largest value: what rounding leaves of a sum."""
    assert found.shape == expected.shape
    largest = max(expected.double().abs().max().item(), at_least)
    assert (found.double() - expected.double()).abs().max().item() <= tolerance * largest


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", SHAPES)
def test_scores_and_gradients_are_the_references(name: str, dtype: torch.dtype) -> None:
    inputs = rows(name, dtype)
    # In float64: the reference itself rounds every product of a half type, on a GPU further than the tolerance.
    exact_inputs = tuple(tensor.detach().double().requires_grad_() for tensor in inputs)
    grad_scores = torch.randn(reference.additive_scores(*inputs).shape).to(dtype)
    found = scores_and_gradients(blocked.additive_scores, inputs, grad_scores)
    expected = scores_and_gradients(reference.additive_scores, exact_inputs, grad_scores)
    for tensor, by_reference in zip(found, expected, strict=True):
        assert tensor.dtype == dtype
        assert_within(tensor, by_reference, TOLERANCE[dtype])


@pytest.mark.parametrize("magnitude", [1e-6, 0.05, 0.5, 3.0, 8.0, 30.0, 80.0, 1e4])
def test_no_magnitude_of_the_inputs_costs_precision(magnitude: float) -> None:
    inputs = rows("several tiles", torch.float32, magnitude)
    grad_scores = torch.randn(3, 11, 13)
    exact_inputs = tuple(tensor.detach().double().requires_grad_() for tensor in inputs)
    scores, grad_query, grad_key, grad_v = scores_and_gradients(reference.additive_scores, exact_inputs, grad_scores)
    found = scores_and_gradients(blocked.additive_scores, inputs, grad_scores)
    few_roundings = 8 * torch.finfo(torch.float32).eps
    assert_within(found[0], scores, few_roundings)
    assert_within(found[3], grad_v, few_roundings)
    # Slopes 1 − tanh² are differences from 1, and carry its rounding where they vanish.
    assert_within(found[1], grad_query, few_roundings, at_least=1.0)
    assert_within(found[2], grad_key, few_roundings, at_least=1.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_rounded_once_at_the_end(dtype: torch.dtype) -> None:
    inputs = rows("several tiles", dtype)
    grad_scores = torch.randn(3, 11, 13).to(dtype)
    exact_inputs = tuple(tensor.detach().double().requires_grad_() for tensor in inputs)
    exact = scores_and_gradients(reference.additive_scores, exact_inputs, grad_scores)
    found = scores_and_gradients(blocked.additive_scores, inputs, grad_scores)
    for tensor, expected in zip(found, exact, strict=True):
        one_rounding = 0.5001 * torch.finfo(dtype).eps * expected.abs()
        assert ((tensor.double() - expected).abs() <= one_rounding + 1e-5).all()


@pytest.mark.parametrize("magnitude", [0.1, 1.0, 200.0])
@pytest.mark.parametrize("name", ["no batch", "keys shared by the batch"])
def test_gradients_are_those_of_finite_differences(
    name: str, magnitude: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, key, v = rows(name, magnitude=magnitude)
    corners = (query[..., :3, :3], key[..., :4, :3], v[..., :3])
    monkeypatch.setattr(blocked, "TILE_ELEMENTS", 12)
    assert torch.autograd.gradcheck(blocked.additive_scores, [corner.detach().requires_grad_() for corner in corners])


def test_second_derivatives_are_those_of_finite_differences() -> None:
    query, key, v = rows("heads with their own v")
    corners = (query[:1, :, :3, :2], key[:1, :, :2, :2], v[:, :2])
    assert torch.autograd.gradgradcheck(
        blocked.additive_scores, [corner.detach().requires_grad_() for corner in corners]
    )


def test_a_penalty_on_gradients_reaches_the_inputs_when_the_loss_is_linear_in_the_scores() -> None:
    def penalty(function: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (slope,) = torch.autograd.grad(function(*inputs).sum(), inputs[:1], create_graph=True)
        return torch.autograd.grad(slope.square().sum() + inputs[0].sum(), inputs)

    inputs = rows("several tiles")
    for found, expected in zip(
        penalty(blocked.additive_scores, inputs), penalty(reference.additive_scores, inputs), strict=True
    ):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("wanted", range(3))
def test_only_the_gradients_that_are_needed_are_computed(wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[tuple[Tensor | None, ...]] = []
    backward = blocked.gradients_of

    def recorded(*arguments: Any) -> tuple[Tensor | None, ...]:
        computed.append(backward(*arguments))
        return computed[-1]

    monkeypatch.setattr(blocked, "gradients_of", recorded)
    inputs = [tensor.detach() for tensor in rows("several tiles")]
    inputs[wanted].requires_grad_()
    blocked.additive_scores(*inputs).square().sum().backward()
    found = inputs[wanted].grad
    inputs[wanted].grad = None
    reference.additive_scores(*inputs).square().sum().backward()
    torch.testing.assert_close(found, inputs[wanted].grad)
    assert [gradient is not None for gradient in computed[0]] == [place == wanted for place in range(3)]


def test_inputs_and_gradients_may_be_laid_out_any_way() -> None:
    query = torch.randn(7, 3, 11, dtype=torch.float64).permute(1, 2, 0).requires_grad_()
    key = torch.randn(3, 26, 7, dtype=torch.float64)[:, ::2].requires_grad_()
    v = torch.randn(14, dtype=torch.float64)[::2].requires_grad_()
    grad_scores = torch.randn(13, 11, 3, dtype=torch.float64).permute(2, 1, 0)
    found = scores_and_gradients(blocked.additive_scores, (query, key, v), grad_scores)
    expected = scores_and_gradients(reference.additive_scores, (query, key, v), grad_scores)
    for tensor, by_reference in zip(found, expected, strict=True):
        torch.testing.assert_close(tensor, by_reference)


@pytest.mark.parametrize(("B", "T", "S"), [(3, 0, 5), (3, 5, 0), (3, 0, 0), (0, 5, 3)])
def test_nothing_to_score_gives_empty_scores_and_zero_gradients(B: int, T: int, S: int) -> None:
    query, key, v = (torch.randn(*shape, requires_grad=True) for shape in ((B, T, 7), (B, S, 7), (7,)))
    scores = blocked.additive_scores(query, key, v)
    assert scores.shape == (B, T, S)
    scores.sum().backward()
    for tensor in (query, key, v):
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape
        assert not tensor.grad.any()


def test_infinities_saturate_and_nan_stays_where_the_reference_has_it() -> None:
    query, key, v = (tensor.detach() for tensor in rows("several tiles", torch.float32))
    query[0, 0, 0], query[1, 2, 3], key[1, 5, 2] = torch.inf, torch.nan, -torch.inf
    found, expected = blocked.additive_scores(query, key, v), reference.additive_scores(query, key, v)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found[1, 2].isnan().all()
    assert found.isnan().sum() == 13


def test_autocast_gives_the_dtype_it_gives_the_reference() -> None:
    inputs = rows("several tiles", torch.float32)
    with torch.autocast(DEVICE, torch.bfloat16):
        found, expected = blocked.additive_scores(*inputs), reference.additive_scores(*inputs)
    assert found.dtype == expected.dtype == torch.bfloat16
    assert_within(found, expected, 2e-2)


def test_widths_that_differ_are_named() -> None:
    with pytest.raises(SaccadeError, match="widths 7, 5 and 7"):
        blocked.additive_scores(torch.randn(2, 5, 7), torch.randn(2, 3, 5), torch.randn(7))


@pytest.mark.parametrize("magnitude", [0.05, 1.0, 300.0])
def test_memory_grows_with_inputs_and_scores_and_never_with_their_product(
    magnitude: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "TILE_ELEMENTS", 1000)

    def peak(function: Any) -> int:
        with LiveMemory() as memory:
            scores_and_gradients(function, (query, key, v), grad_scores)
        return int(memory.peak)

    T, S, D = 41, 47, 23
    query, key, v = (magnitude * torch.randn(*shape) for shape in ((1, T, D), (1, S, D), (D,)))
    for tensor in (query, key, v):
        tensor.requires_grad_()
    grad_scores = torch.randn(1, T, S)
    rows_and_scores = (T + S + 1) * D + T * S
    assert peak(blocked.additive_scores) < 3 * rows_and_scores + 2 * 1000 < T * S * D / 3
    assert peak(reference.additive_scores) > 2 * T * S * D  # the measure sees what it is meant to see


@pytest.mark.parametrize(
    ("N", "T", "S", "D"), [(5, 3, 4, 2), (5, 100, 3, 7), (5, 3, 100, 7), (1, 9, 9, 64), (2, 1, 1, 99)]
)
def test_a_tile_fits_its_budget_or_is_a_single_pair(N: int, T: int, S: int, D: int) -> None:
    n, t, s = blocked.tile_sides(N, T, S, D)
    assert 1 <= n <= N
    assert 1 <= t <= T
    assert 1 <= s <= S
    assert n * t * s * D <= blocked.TILE_ELEMENTS or n * t * s == 1
