"""Under torch.compile local attention is one operator, with the contexts and gradients it has elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.kernels.local import blocked, reference
from tests.kernels.recorded import ours, recorded, value_and_gradients

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, T, S, D, E = 3, 5, 23, 7, 4
LENGTHS = torch.tensor([23, 9, 0], device=DEVICE)
BAND: dict[str, Any] = {"radius": 2, "shift": 1, "lengths": LENGTHS}
CENTRES: dict[str, Any] = {"radius": 2, "sigma": 1.0, "lengths": LENGTHS}


def drawn(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """query, key, value, centre and v."""
    shapes = ((N, T, D), (N, S, D), (N, S, E), (N, T), (D,))
    tensors = [torch.randn(shape, device=DEVICE) for shape in shapes]
    tensors[3] = tensors[3].abs() * 9
    return [tensor.to(dtype).requires_grad_() for tensor in tensors]


def band(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return blocked.local_attention(query, key, value, **BAND)


def additive_centres(query: Tensor, key: Tensor, value: Tensor, centre: Tensor, v: Tensor) -> Tensor:
    return blocked.local_attention(query, key, value, centre=centre, v=v, **CENTRES)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("attention", [band, additive_centres])
def test_torch_compile_takes_it_whole_with_the_same_contexts_and_gradients(
    attention: Any, dynamic: bool | None
) -> None:
    tensors, seen = drawn()[: 3 if attention is band else 5], list[str]()
    found = value_and_gradients(recorded(attention, seen, dynamic), *tensors)
    torch.testing.assert_close(found, value_and_gradients(attention, *tensors))
    assert ours(seen) == ["local_attention", "local_attention_backward"]
    assert not any("softmax" in name or "tanh" in name for name in seen)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("radius", [2, 30])
@pytest.mark.parametrize("dot", [True, False])
@pytest.mark.parametrize("places", [True, False])
def test_the_operator_says_truly_what_it_returns(places: bool, dot: bool, radius: int, dtype: torch.dtype) -> None:
    query, key, value, centre, v = drawn(dtype)
    optional = (centre if places else None, None if dot else v[None], None if dot else LENGTHS)
    torch.library.opcheck(
        torch.ops.saccade.local_attention.default,
        (query.mT.contiguous().mT, key, value, *optional, radius, 2, 1, 1.0 if places else None, 0.7, dtype, "blocked"),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )


def test_the_fused_engine_is_recorded_as_the_same_operator() -> None:
    pytest.importorskip("triton")
    from saccade.kernels.local import fused

    tensors, seen = drawn(), list[str]()

    def attention(query: Tensor, key: Tensor, value: Tensor, centre: Tensor, v: Tensor) -> Tensor:
        return fused.local_attention(query[:2, :3], key[:2], value[:2], centre=centre[:2, :3], v=v, radius=1, sigma=0.5)

    found = value_and_gradients(recorded(attention, seen), *tensors)
    torch.testing.assert_close(found, value_and_gradients(attention, *tensors))
    assert ours(seen) == ["local_attention", "local_attention_backward"]


def test_only_what_is_asked_for_has_a_gradient() -> None:
    query, key, value, centre, v = (tensor.detach() for tensor in drawn())
    centre.requires_grad_()
    found = value_and_gradients(recorded(additive_centres, []), query, key, value, centre, v)
    torch.testing.assert_close(found, value_and_gradients(additive_centres, query, key, value, centre, v))


def test_second_derivatives_through_the_operator_are_the_formulas_or_are_refused() -> None:
    tensors = drawn(torch.float64)

    def curvature(function: Any) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(function(*tensors).square().sum(), tensors, create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), tensors)

    def formula(query: Tensor, key: Tensor, value: Tensor, centre: Tensor, v: Tensor) -> Tensor:
        return reference.local_attention(query, key, value, centre=centre, v=v, **CENTRES)

    torch._dynamo.reset()
    through = torch.compile(additive_centres, backend="eager", fullgraph=True)
    torch.testing.assert_close(curvature(through), curvature(formula))
    with pytest.raises(RuntimeError, match=r"create_graph|double backward"):
        curvature(recorded(additive_centres, []))


def test_autocast_rounds_the_context_and_no_arithmetic() -> None:
    tensors = drawn()[:3]
    exact = reference.local_attention(*tensors, **BAND)
    for function in (band, recorded(band, [])):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            context = function(*tensors)
            gradients = torch.autograd.grad(context.float().sum(), tensors)
        assert context.dtype is torch.bfloat16
        torch.testing.assert_close(context, exact.bfloat16(), rtol=2**-8, atol=0)
        expected = torch.autograd.grad(exact.sum(), tensors, retain_graph=True)
        torch.testing.assert_close(gradients, expected, rtol=1e-5, atol=1e-6)
