"""One step of location-aware scores in Triton gives the reference's scores and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from saccade.errors import SaccadeError
from saccade.kernels.location import fused, reference
from tests.kernels.recorded import ours, recorded, value_and_gradients

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = {  # batch, keys S, width D, filters C, taps K, shape of v before D
    "several blocks of keys and of width": ((2,), 19, 69, 5, 7, ()),
    "a v for each head": ((1, 3), 7, 9, 3, 5, (3,)),
    "a v for each item, shared by heads": ((2, 2), 7, 5, 2, 3, (2, 1)),
    "filters longer than the keys": ((2,), 5, 7, 2, 41, ()),
    "one of everything": ((1,), 1, 1, 1, 1, ()),
    "more filters than a tile's side": ((2,), 11, 5, 19, 3, ()),
}
TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}
NAMES = ("scores", "query", "key", "v", "previous", "filters", "location_weight")


def inputs(name: str, magnitude: float = 1.0) -> list[Tensor]:
    batch, S, D, C, K, heads = SHAPES[name]
    shapes = ((*batch, 1, D), (*batch, S, D), (*heads, D), (*batch, 1, S), (C, K), (D, C))
    drawn = [torch.randn(shape, dtype=torch.float64, device=DEVICE) for shape in shapes]
    drawn[0], drawn[1], drawn[5] = drawn[0] * magnitude, drawn[1] * magnitude, drawn[5] * magnitude
    drawn[3] = torch.softmax(drawn[3], -1)
    return drawn


def with_gradients(function: object, tensors: list[Tensor], grad: Tensor) -> list[Tensor]:
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    scores = function(*tensors)  # type: ignore[operator]
    return [scores, *torch.autograd.grad(scores, tensors, grad.to(scores.dtype))]


def assert_like_the_reference(drawn: list[Tensor], dtype: torch.dtype, tolerance: float) -> None:
    rounded = [tensor.to(dtype) for tensor in drawn]
    grad = torch.randn(*drawn[3].shape, device=DEVICE)
    found = with_gradients(fused.location_aware_scores, rounded, grad)
    exact = with_gradients(reference.location_aware_scores, [tensor.double() for tensor in rounded], grad.double())
    torch.testing.assert_close(found[0].double(), exact[0], rtol=1e-4, atol=1e-5)  # scores are not rounded
    for name, tensor, expected in zip(NAMES, found, exact, strict=True):
        assert tensor.dtype == (torch.float32 if name == "scores" else dtype)
        assert tensor.shape == expected.shape
        largest = expected.abs().max()
        assert (tensor.double() - expected).abs().max() <= tolerance * largest + 1e-12, name


@pytest.mark.parametrize("name", SHAPES)
def test_scores_and_gradients_are_the_references(name: str) -> None:
    assert_like_the_reference(inputs(name), torch.float32, 2e-5 if name == "one of everything" else 3e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(dtype: torch.dtype) -> None:
    assert_like_the_reference(inputs("a v for each head"), dtype, TOLERANCE[dtype])


@pytest.mark.parametrize("magnitude", [1e-4, 0.1, 30.0])
def test_no_magnitude_costs_precision(magnitude: float) -> None:
    drawn = inputs("a v for each head", magnitude)
    grad = torch.randn(*drawn[3].shape, device=DEVICE)
    rounded = [tensor.float() for tensor in drawn]
    found = with_gradients(fused.location_aware_scores, rounded, grad)
    eager = with_gradients(reference.location_aware_scores, rounded, grad)
    exact = with_gradients(reference.location_aware_scores, [tensor.double() for tensor in rounded], grad.double())
    for name, tensor, plain, expected in zip(NAMES, found, eager, exact, strict=True):
        of_eager = (plain - expected).abs().max() / expected.abs().max()
        assert (tensor - expected).abs().max() / expected.abs().max() <= 2 * of_eager + 1e-6, name


def test_infinite_and_unknown_numbers_go_where_the_reference_has_them() -> None:
    rounded = [tensor.float() for tensor in inputs("a v for each head")]
    rounded[0][0, 0, 0, 0], rounded[1][0, 1, 3, 2], rounded[1][0, 2, 4, 4] = torch.inf, -torch.inf, torch.nan
    found, expected = fused.location_aware_scores(*rounded), reference.location_aware_scores(*rounded)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found.isnan().sum() == 1


def test_the_same_step_gives_the_same_bits() -> None:
    rounded = [tensor.float() for tensor in inputs("several blocks of keys and of width")]
    grad = torch.randn(2, 1, 19, device=DEVICE)
    once, again = (with_gradients(fused.location_aware_scores, rounded, grad) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


def test_gradients_can_be_differentiated_again() -> None:
    def penalty(function: object, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        (slope,) = torch.autograd.grad(function(*tensors).sum(), tensors[:1], create_graph=True)  # type: ignore[operator]
        return torch.autograd.grad(slope.square().sum(), tensors)

    rounded = [tensor.float() for tensor in inputs("a v for each head")]
    for found, expected in zip(
        penalty(fused.location_aware_scores, rounded), penalty(reference.location_aware_scores, rounded), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_only_needed_gradients_are_given() -> None:
    rounded = [tensor.float() for tensor in inputs("a v for each head")]
    rounded[5].requires_grad_()
    fused.location_aware_scores(*rounded).sum().backward()
    expected = [tensor.detach() for tensor in rounded]
    expected[5].requires_grad_()
    reference.location_aware_scores(*expected).sum().backward()
    torch.testing.assert_close(rounded[5].grad, expected[5].grad)


def test_tensors_may_be_laid_out_any_way() -> None:
    rounded = [tensor.float() for tensor in inputs("a v for each head")]
    expected = reference.location_aware_scores(*rounded)
    strided = [tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor for tensor in rounded]
    torch.testing.assert_close(fused.location_aware_scores(*strided), expected)


def test_nothing_to_score_gives_no_scores() -> None:
    rounded = [tensor.float() for tensor in inputs("several blocks of keys and of width")]
    rounded[1], rounded[3] = rounded[1][:, :0], rounded[3][..., :0]
    assert fused.location_aware_scores(*rounded).shape == (2, 1, 0)


@pytest.mark.parametrize("what", ["several queries", "float64", "filters"])
def test_what_it_does_not_serve_it_says(what: str) -> None:
    tensors = [tensor.float() for tensor in inputs("filters longer than the keys")]
    if what == "several queries":
        tensors[0], tensors[3] = tensors[0].repeat(1, 3, 1), tensors[3].repeat(1, 3, 1)
    elif what == "float64":
        tensors = [tensor.double() for tensor in tensors]
    else:
        tensors[4], tensors[5] = torch.randn(65, 3, device=DEVICE), torch.randn(7, 65, device=DEVICE)
    with pytest.raises(SaccadeError, match=r"location\.reference serves"):
        fused.location_aware_scores(*tensors)


def test_torch_compile_takes_it_whole_with_the_same_scores_and_gradients() -> None:
    tensors = [tensor.bfloat16().requires_grad_() for tensor in inputs("a v for each head")]
    seen: list[str] = []
    found = value_and_gradients(recorded(fused.location_aware_scores, seen, dynamic=True), *tensors)
    torch.testing.assert_close(found, value_and_gradients(fused.location_aware_scores, *tensors))
    assert ours(seen) == ["location_aware_scores", "location_aware_scores_backward"]
    assert not any("tanh" in name for name in seen)


def test_through_the_operator_only_what_is_asked_for_has_a_gradient_and_second_ones_are_the_formulas() -> None:
    tensors = [tensor.float() for tensor in inputs("a v for each head")]
    tensors[4].requires_grad_()
    torch._dynamo.reset()
    compiled = torch.compile(fused.location_aware_scores, backend="eager", fullgraph=True)
    results = []
    for function in (compiled, reference.location_aware_scores):
        scores = function(*tensors)
        (plain,) = torch.autograd.grad(scores.square().sum(), tensors[4], retain_graph=True)
        (slope,) = torch.autograd.grad(scores.square().sum(), tensors[4], create_graph=True)
        results.append((plain, *torch.autograd.grad(slope.square().sum(), tensors[4])))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
