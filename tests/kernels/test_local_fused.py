"""The Triton kernels of local attention give the reference's context and gradients, at float32's own rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.local import blocked, reference

pytest.importorskip("triton", reason="triton is not installed")
from saccade.kernels.local import fused

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # on a CPU the interpreter runs them
N, D, E = 2, 17, 19
CASES: dict[str, tuple[int, int, bool, dict[str, Any]]] = {  # T, S, additive?, options
    "band": (3, 7, False, {"radius": 2, "scale": 0.7}),
    "band, later": (3, 8, True, {"radius": 1, "shift": 4}),
    "causal band with a gain": (3, 7, False, {"radius": 3, "ahead": 0, "sigma": 1.5, "lengths": [7, 3]}),
    "band of one query, one item blind": (1, 9, True, {"radius": 2, "shift": 3, "lengths": [9, 0]}),
    "band wider than the keys": (3, 2, True, {"radius": 3, "lengths": [2, 1]}),
    "band behind the keys": (3, 4, False, {"radius": 1, "shift": 9}),
    "centres": (5, 7, False, {"radius": 1, "sigma": 1.0, "centre": True, "lengths": [7, 4]}),
    "centres without a gain": (3, 7, True, {"radius": 1, "centre": True}),
    "centre of one query": (1, 9, True, {"radius": 2, "sigma": 1.0, "centre": True, "lengths": [9, 4]}),
}
TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 3e-2, torch.float16: 3e-3}


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(7)
    if DEVICE == "cpu":
        monkeypatch.setattr(fused, "MOST_QUERIES", 2)
        monkeypatch.setattr(fused, "tiles", lambda width, D, E: fused.Tiles(fused.power_of_2(width), 16, 16, 4))


def case(name: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Any]]:
    T, S, additive, options = CASES[name]
    options = dict(options)
    shapes = {"query": (N, T, D), "key": (N, S, D), "value": (N, S, E), **({"v": (D,)} if additive else {})}
    tensors = {place: torch.randn(shape) / (D**0.5 if place == "v" else 1) for place, shape in shapes.items()}
    if options.pop("centre", False):
        tensors["centre"] = torch.rand(N, T) * (S + 4) - 2
    if "lengths" in options:
        options["lengths"] = torch.tensor(options["lengths"], device=DEVICE)
    return {place: tensor.to(DEVICE, dtype).requires_grad_() for place, tensor in tensors.items()}, options


def context_and_gradients(module: Any, tensors: dict[str, Tensor], grad: Tensor, **options: Any) -> list[Tensor]:
    context = module.local_attention(**tensors, **options)
    gradients = torch.autograd.grad(context, list(tensors.values()), grad.to(context.dtype), allow_unused=True)
    return [context, *(torch.zeros(()) if gradient is None else gradient for gradient in gradients)]


def assert_those_of_the_reference(tensors: dict[str, Tensor], options: dict[str, Any], dtype: torch.dtype) -> None:
    exact = {place: tensor.detach().double().requires_grad_() for place, tensor in tensors.items()}
    grad = torch.randn(N, tensors["query"].shape[1], E, device=DEVICE).to(dtype)
    found = context_and_gradients(fused, tensors, grad, **options)
    expected = context_and_gradients(reference, exact, grad, **options)
    for name, one, other in zip(("context", *tensors), found, expected, strict=True):
        if other.dim() == 0:  # without a gain nothing flows to the centre
            assert not one.any(), name
            continue
        assert one.dtype == dtype and one.shape == other.shape, name
        off = (one.double() - other).abs().max().item()
        assert off <= TOLERANCE[dtype] * max(1.0, other.abs().max().item()), name


@pytest.mark.parametrize("name", CASES)
def test_context_and_gradients_are_the_references(name: str) -> None:
    tensors, options = case(name, torch.float32)
    assert_those_of_the_reference(tensors, options, torch.float32)


@pytest.mark.parametrize(("name", "dtype"), [("band, later", torch.bfloat16), ("centre of one query", torch.float16)])
def test_half_types_are_summed_in_float32(name: str, dtype: torch.dtype) -> None:
    tensors, options = case(name, dtype)
    assert_those_of_the_reference(tensors, options, dtype)


def test_inputs_may_be_laid_out_any_way_and_each_item_have_its_v() -> None:
    tensors = {
        "query": torch.randn(D, N, 1).permute(1, 2, 0),
        "key": torch.randn(3, D).expand(N, 3, D),
        "value": torch.randn(N, 6, E)[:, ::2],
        "v": torch.randn(D, N).mT / D**0.5,
    }
    tensors = {place: tensor.to(DEVICE).requires_grad_() for place, tensor in tensors.items()}
    assert_those_of_the_reference(tensors, {"radius": 2}, torch.float32)


def test_a_centre_that_is_no_number_or_far_away_sees_nothing() -> None:
    tensors, _ = case("centres", torch.float32)
    with torch.no_grad():
        tensors["centre"][:, 0], tensors["centre"][:, 1], tensors["centre"][:, 2] = torch.nan, 1e30, -torch.inf
    found = fused.local_attention(**tensors, radius=2)
    assert not found[:, :3].any()
    torch.testing.assert_close(found, reference.local_attention(**tensors, radius=2))


@pytest.mark.filterwarnings("ignore:overflow encountered")  # e^2x = ∞ is meant; the interpreter's numpy mentions it
def test_additive_scores_of_any_magnitude_are_numbers() -> None:
    query, key, value = (torch.tensor([[[x]]], device=DEVICE) for x in (300.0, -1.0, 2.0))
    for sign in (-1.0, 1.0):
        found = fused.local_attention(sign * query, key, value, radius=0, v=torch.ones(1, device=DEVICE))
        assert found.item() == 2.0


@pytest.mark.parametrize("name", ["centres", "centre of one query"])
def test_only_sums_whose_order_is_open_leave_the_kernel_where_determinism_is_asked_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    engine = blocked.ENGINE

    def recorded(*arguments: Any) -> Any:
        asked.append("blocked")
        return engine.backward(*arguments)

    monkeypatch.setattr(blocked, "ENGINE", replace(engine, backward=recorded))
    tensors, options = case(name, torch.float32)
    torch.use_deterministic_algorithms(True)
    try:
        assert_those_of_the_reference(tensors, options, torch.float32)
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == (["blocked"] if name == "centres" else [])


@pytest.mark.parametrize(("T", "S"), [(0, 5), (5, 0)])
def test_nothing_to_see_gives_zeros_and_zero_gradients(T: int, S: int) -> None:
    shapes = ((N, T, D), (N, S, D), (N, S, E))
    tensors = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in shapes]
    context = fused.local_attention(*tensors, radius=2)
    assert context.shape == (N, T, E)
    assert not any(gradient.any() for gradient in torch.autograd.grad(context.sum(), tensors))


def test_what_is_not_served_is_refused_with_what_serves() -> None:
    query, key, value = (torch.randn(1, size, 3, device=DEVICE) for size in (1, 2000, 2000))
    with pytest.raises(SaccadeError, match=r"value is float64, and it computes in float32; local\.blocked does"):
        fused.local_attention(query, key, value.double(), radius=2)
    with pytest.raises(SaccadeError, match="windows are 1401 keys wide, and a program holds 1024"):
        fused.local_attention(query, key, value, radius=700)


@pytest.mark.parametrize("width", [1, 3, 21, 200, 1024])
def test_tiles_are_powers_of_two_that_hold_the_window(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for D in (1, 64, 1000):
        tiles = fused.tiles(width, D, 7)
        assert width <= tiles.BW
        assert all(side & (side - 1) == 0 for side in tiles)
        assert tiles.BW * tiles.BD <= 16384


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_windows_far_along_hold_the_same_keys_in_half_precision(dtype: torch.dtype) -> None:
    S = 4099  # centres beyond 256 (bfloat16) or 2048 (float16) have no odd positions in half precision
    centre = torch.tensor([[301.0, 2051.0, 4097.0], [0.0, 9000.0, 4098.0]]).to(dtype)
    tensors = {"query": torch.randn(2, 3, D), "key": torch.randn(2, S, D), "value": torch.randn(2, S, E)}
    tensors = {name: tensor.to(DEVICE, dtype) for name, tensor in tensors.items()} | {"centre": centre.to(DEVICE)}
    grad, options = torch.randn(2, 3, E, device=DEVICE), {"radius": 2, "sigma": 1.0}
    wide = {name: tensor.double().requires_grad_() for name, tensor in tensors.items()}
    exact = context_and_gradients(reference, wide, grad.double(), **options)
    for module in (reference, blocked, fused):
        ours = {name: tensor.detach().clone().requires_grad_() for name, tensor in tensors.items()}
        for tensor, right in zip(context_and_gradients(module, ours, grad, **options), exact, strict=True):
            error = (tensor.double() - right).abs().max()
            assert error <= TOLERANCE[dtype] * right.abs().max().clamp_min(1), module.__name__
