"""Local attention over the seen keys gives the reference's context and gradients, and neither time nor memory of S."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.kernels.local import blocked, reference
from tests.kernels.live import LiveMemory

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, D, E = 3, 5, 7
SIZES = {"more keys": (13, 23), "one query": (1, 23), "more queries": (17, 9), "fewer keys than a window": (5, 2)}
REACHES = (  # radius, ahead, sigma, shift
    (0, None, None, 0),
    (2, None, 1.5, 4),
    (2, 0, None, -3),
    (3, 0, 1.5, 0),
    (2, None, 1.5, 30),
    (40, None, 1.5, 0),
)
KINDS = [(False, False), (False, True), (True, False), (True, True)]  # additive, centred
TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6, torch.bfloat16: 4e-2, torch.float16: 4e-3}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(7)
    monkeypatch.setattr(blocked, "CHUNK_ELEMENTS", {DEVICE: 150})


def inputs(T: int, S: int, *, additive: bool, centred: bool, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    shapes = {"query": (N, T, D), "key": (N, S, D), "value": (N, S, E), **({"v": (D,)} if additive else {})}
    made = {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}
    if centred:
        made["centre"] = torch.rand(N, T, dtype=torch.float64) * (S + 6) - 3
    return {name: tensor.to(dtype).requires_grad_() for name, tensor in made.items()}


def context_and_gradients(module: Any, tensors: dict[str, Tensor], grad: Tensor, **options: Any) -> dict[str, Tensor]:
    context = module.local_attention(**tensors, **options)
    gradients = torch.autograd.grad(context, list(tensors.values()), grad.to(context.dtype), allow_unused=True)
    found = {name: gradient for name, gradient in zip(tensors, gradients, strict=True) if gradient is not None}
    return {"context": context, **found}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    for name, exact in expected.items():
        assert found[name].shape == exact.shape, name
        off = (found[name].double() - exact.double()).abs().max().item()
        assert off <= tolerance * max(1.0, exact.double().abs().max().item()), name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("additive", "centred"), KINDS)
def test_context_and_gradients_are_the_references(size: str, additive: bool, centred: bool) -> None:
    T, S = SIZES[size]
    grad = torch.randn(N, T, E)
    lengths = torch.tensor([S, S // 2, 0])
    for radius, ahead, sigma, shift in REACHES:
        tensors = inputs(T, S, additive=additive, centred=centred)
        options = {"radius": radius, "ahead": ahead, "sigma": sigma, "shift": shift, "lengths": lengths, "scale": 0.7}
        expected = context_and_gradients(reference, tensors, grad, **options)
        assert_same(context_and_gradients(blocked, tensors, grad, **options), expected, 1e-12)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("centred", [False, True])
def test_every_dtype_is_computed_in_float32_at_least(dtype: torch.dtype, centred: bool) -> None:
    tensors = inputs(13, 23, additive=True, centred=centred, dtype=dtype)
    exact = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    grad, options = torch.randn(N, 13, E).to(dtype), {"radius": 3, "sigma": 1.5}
    found = context_and_gradients(blocked, tensors, grad, **options)
    assert all(tensor.dtype == dtype for tensor in found.values())
    assert_same(found, context_and_gradients(reference, exact, grad, **options), TOLERANCE[dtype])


def test_each_item_may_have_a_v_of_its_own() -> None:
    tensors = inputs(13, 23, additive=False, centred=True)
    tensors["v"] = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(N, 13, E)
    expected = context_and_gradients(reference, tensors, grad, radius=2, sigma=1.0)
    assert_same(context_and_gradients(blocked, tensors, grad, radius=2, sigma=1.0), expected, 1e-12)


def test_inputs_may_be_laid_out_any_way_and_keys_be_shared_by_the_batch() -> None:
    tensors = {
        "query": torch.randn(D, N, 13, dtype=torch.float64).permute(1, 2, 0),
        "key": torch.randn(23, D, dtype=torch.float64).expand(N, 23, D),
        "value": torch.randn(N, 46, E, dtype=torch.float64)[:, ::2],
        "centre": torch.rand(13, N, dtype=torch.float64).mT * 23,
    }
    for tensor in tensors.values():
        tensor.requires_grad_()
    grad = torch.randn(13, N, E).transpose(0, 1)
    expected = context_and_gradients(reference, tensors, grad, radius=2, sigma=1.0)
    assert_same(context_and_gradients(blocked, tensors, grad, radius=2, sigma=1.0), expected, 1e-12)


@pytest.mark.parametrize("wanted", ["query", "key", "value", "centre", "v"])
def test_each_gradient_may_be_asked_for_alone(wanted: str) -> None:
    tensors = inputs(13, 23, additive=True, centred=True)
    frozen = {name: tensor.detach().requires_grad_(name == wanted) for name, tensor in tensors.items()}
    (found,), (expected,) = (
        torch.autograd.grad(module.local_attention(**frozen, radius=2, sigma=1.0).square().sum(), [frozen[wanted]])
        for module in (blocked, reference)
    )
    torch.testing.assert_close(found, expected)


def test_a_centre_that_is_no_number_or_far_away_sees_nothing() -> None:
    tensors = inputs(13, 23, additive=False, centred=True)
    with torch.no_grad():
        tensors["centre"][:, 0], tensors["centre"][:, 1], tensors["centre"][:, 2] = torch.nan, 1e300, -torch.inf
    found = blocked.local_attention(**tensors, radius=2)
    assert not found[:, :3].any()
    torch.testing.assert_close(found, reference.local_attention(**tensors, radius=2))


@pytest.mark.parametrize(("n", "T", "S"), [(3, 0, 5), (3, 5, 0), (0, 5, 3)])
def test_nothing_to_see_gives_zeros_and_zero_gradients(n: int, T: int, S: int) -> None:
    tensors = [torch.randn(shape, requires_grad=True) for shape in ((n, T, D), (n, S, D), (n, S, E))]
    context = blocked.local_attention(*tensors, radius=2)
    assert context.shape == (n, T, E)
    assert not context.any()
    assert not any(gradient.any() for gradient in torch.autograd.grad(context.sum(), tensors))


def test_second_derivatives_are_those_of_finite_differences() -> None:
    tensors = [tensor[:1] for tensor in inputs(3, 5, additive=False, centred=True).values()]
    tensors = [tensor[..., :2].detach().requires_grad_() for tensor in tensors[:3]]

    def attention(*tensors: Tensor) -> Tensor:
        return blocked.local_attention(*tensors, radius=1)

    assert torch.autograd.gradgradcheck(attention, tensors)


def test_autocast_gives_the_dtype_it_gives_the_reference() -> None:
    tensors = inputs(13, 23, additive=False, centred=False, dtype=torch.float32)
    with torch.autocast(DEVICE, torch.bfloat16):
        found, expected = (module.local_attention(**tensors, radius=2) for module in (blocked, reference))
    assert found.dtype == expected.dtype == torch.bfloat16
    assert_same({"context": found}, {"context": expected}, 4e-2)


@pytest.mark.parametrize("T", [1, 31])
@pytest.mark.parametrize(("additive", "centred"), KINDS)
def test_memory_does_not_grow_with_the_keys_but_by_their_gradients(T: int, additive: bool, centred: bool) -> None:
    def peaks(module: Any, S: int) -> tuple[int, int]:
        tensors = inputs(T, S, additive=additive, centred=centred, dtype=torch.float32)
        grad = torch.randn(N, T, E)
        with LiveMemory(tensors.values()) as forward, torch.no_grad():
            module.local_attention(**tensors, radius=2, sigma=1.0)
        with LiveMemory(tensors.values()) as training:
            context_and_gradients(module, tensors, grad, radius=2, sigma=1.0)
        return forward.peak, training.peak - N * S * (D + E)  # the gradients of keys and values

    few, many = peaks(blocked, 64), peaks(blocked, 512)
    assert many == few
    assert peaks(reference, 512)[0] > 6 * peaks(reference, 64)[0]  # the measure sees what it is meant to see


@pytest.mark.parametrize("centred", [False, True])
def test_windows_of_a_chunk_stay_within_the_budget(centred: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "CHUNK_ELEMENTS", {DEVICE: 200})
    tensors = inputs(13, 23, additive=False, centred=centred)
    made = blocked.Inputs(*(tensors.get(name) for name in ("query", "key", "value", "centre", "v")))  # type: ignore[arg-type]
    reach = blocked.Reach(T=13, S=23, before=2, after=2)
    seen = torch.zeros(N, 13)
    for chunk in blocked.chunks_of(made, reach):
        seen[chunk.items, chunk.queries] += 1
        assert chunk.windows(tensors["value"]).numel() <= 200
    assert (seen == 1).all()
