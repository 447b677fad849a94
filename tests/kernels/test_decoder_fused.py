"""One launch gives the reference's context, weights and gradients: any widths, any magnitude, any type, any keys unseen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from saccade.kernels.decoder import fused
from saccade.kernels.decoder import steps as reference
from saccade.kernels.decoder.steps import Memory

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = {  # N, S, D, E
    "a chunk": (3, 5, 7, 11),
    "one key": (1, 1, 5, 3),
    "several chunks and blocks": (2, 7, 19, 9),
    "one item": (1, 6, 37, 5),
}
SMALL = fused.Tiles(BS=4, BD=16, BE=8, warps=4)
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiles", "back_tiles"):
        monkeypatch.setattr(fused, name, lambda S, D, E: SMALL)


def drawn(name: str, score: str, dtype: torch.dtype = torch.float32, magnitude: float = 1.0) -> dict[str, Tensor]:
    N, S, D, E = SHAPES[name]
    draws = {"query": (N, D), "key": (N, S, D), "value": (N, S, E), "v": (D,)}
    tensors = {key: torch.randn(*shape).to(DEVICE, dtype) for key, shape in draws.items()}
    tensors["query"] *= magnitude
    tensors["key"] *= magnitude
    if score == "dot":
        del tensors["v"]
    return tensors


def step_attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """One step over a memory of its own, by the fused programs."""
    return Memory.of(key, value, **options, steps=1, arithmetic=fused).step(query)


def found(function: Any, tensors: dict[str, Tensor], grads: tuple[Tensor, Tensor], **asked: Any) -> dict[str, Tensor]:
    """Context, weights and the gradients of all inputs."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
    context, weights = function(**leaves, **asked)
    outputs = [context, weights]
    made = torch.autograd.grad(outputs, list(leaves.values()), [g.to(x) for g, x in zip(grads, outputs)])
    return {"context": context, "weights": weights, **dict(zip(leaves, made))}


def compare(name: str, tensors: dict[str, Tensor], tolerance: float, **asked: Any) -> None:
    N, S, _, E = SHAPES[name]
    grads = torch.randn(N, E, device=DEVICE).to(tensors["query"].dtype), torch.randn(N, S, device=DEVICE)
    exact = found(reference.step_attention, {key: x.double() for key, x in tensors.items()}, grads, **asked)
    for key, tensor in found(step_attention, tensors, grads, **asked).items():
        assert tensor.dtype is (torch.float32 if key == "weights" else tensors["query"].dtype)
        assert_within(tensor, exact[key], tolerance, key)


def assert_within(tensor: Tensor, exact: Tensor, tolerance: float, name: str, at_least: float = 0.1) -> None:
    """Off by no more than this part of the largest value: what rounding leaves of a sum."""
    assert tensor.shape == exact.shape, name
    error = (tensor.double() - exact).abs().max().item()
    assert error <= tolerance * max(exact.abs().max().item(), at_least), f"{name}: {error}"


@pytest.mark.parametrize("score", ["additive", "dot"])
@pytest.mark.usefixtures("small_tiles")
def test_outputs_and_gradients_are_the_references(score: str) -> None:
    name = "several chunks and blocks"
    compare(name, drawn(name, score), 2e-6, **({"scale": 0.4} if score == "dot" else {}))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("score", ["additive", "dot"])
def test_keys_that_fit_in_one_chunk_never_leave_the_registers(score: str, dtype: torch.dtype) -> None:
    _, S, D, E = SHAPES["a chunk"]
    assert fused.tiles(S, D, E).BS >= S and fused.back_tiles(S, D, E).BS >= S
    compare("a chunk", drawn("a chunk", score, dtype), TOLERANCE[dtype])


def test_one_key_gets_all_the_weight() -> None:
    compare("one key", drawn("one key", "additive"), 2e-6)
    assert step_attention(**drawn("one key", "additive"))[1].item() == 1.0


@pytest.mark.parametrize("said", ["real", "lengths", "real and lengths"])
@pytest.mark.usefixtures("small_tiles")
def test_unseen_keys_have_no_part_and_a_query_that_sees_nothing_gets_zeros(said: str) -> None:
    name = "several chunks and blocks"
    real = torch.tensor([[0, 0, 0, 0, 1, 0, 1], [0] * 7], dtype=torch.bool, device=DEVICE)  # a first chunk without any
    if "lengths" in said:
        real[1, 2:] = True
    lengths = torch.tensor([6, 0] if said == "lengths" else [5, 9], device=DEVICE)
    asked = {key: x for key, x in (("real", real), ("lengths", lengths)) if key in said}
    tensors = drawn(name, "additive")
    compare(name, tensors, 2e-6, **asked)
    seen = reference.visible_keys(asked.get("real"), asked.get("lengths"), tensors["key"])
    context, weights = step_attention(**tensors, **asked)
    assert torch.equal(weights > 0, seen)
    assert torch.equal(context.any(-1), seen.any(-1))


def test_what_stands_at_unseen_keys_does_not_matter() -> None:
    tensors = drawn("a chunk", "additive")
    lengths = torch.tensor([3, 5, 1], device=DEVICE)
    expected = step_attention(**tensors, lengths=lengths)
    for name in ("key", "value"):
        tensors[name][0, 3:] = float("nan")
    assert all(torch.equal(one, other) for one, other in zip(step_attention(**tensors, lengths=lengths), expected))


@pytest.mark.parametrize("magnitude", [1e-4, 1e-2, 0.2, 1.0, 5.0, 30.0, 1e4])
def test_no_magnitude_of_the_inputs_costs_precision(magnitude: float) -> None:
    tensors = drawn("one item", "additive", magnitude=magnitude)
    grads = torch.randn(1, 5, device=DEVICE), torch.zeros(1, 6, device=DEVICE)
    exact = found(reference.step_attention, {key: x.double() for key, x in tensors.items()}, grads)
    for key, tensor in found(step_attention, tensors, grads).items():
        # The gradient of the scores sums to 0, and where slopes are near 1 little but its rounding is left.
        assert_within(tensor, exact[key], 2e-6, key, at_least=0.0 if key == "v" else 1.0)


@pytest.mark.parametrize("size", [1e-6, 1e-4, 1e-2, 0.2499, 0.2501, 1.0, 4.0])
def test_tanh_keeps_its_relative_precision(size: float) -> None:
    """Two keys whose hidden layers differ in sign: the difference of their scores is 2 Σ v tanh, no larger than that."""
    D = 16
    key = size * torch.stack([torch.ones(D), -torch.ones(D)]).to(DEVICE).unsqueeze(0)
    v = torch.full((D,), 1 / D / max(size, 1e-3), device=DEVICE)
    zero = torch.zeros(1, D, device=DEVICE)
    v.requires_grad_()
    _, weights = step_attention(zero, key, torch.zeros(1, 2, 1, device=DEVICE), v=v)
    (grad,) = torch.autograd.grad(weights[0, 0], v)
    tanh = torch.tensor(size, dtype=torch.float32).double().tanh()
    first = weights[0, 0].double().item()
    expected = first * (1 - first) * 2 * tanh.item()
    assert grad.tolist() == pytest.approx([expected] * D, rel=1e-6)


def test_rows_with_other_strides_are_read_right() -> None:
    tensors = drawn("several chunks and blocks", "additive")
    asked = {name: tensors[name] for name in ("query", "v")}
    strided = {
        "key": tensors["key"].transpose(0, 1).contiguous().transpose(0, 1),
        "value": tensors["value"].mT.contiguous().mT,
    }
    real = (torch.rand(7, 2, device=DEVICE) < 0.7).mT
    expected = step_attention(**tensors, real=real.contiguous())
    for one, other in zip(step_attention(**asked, **strided, real=real), expected):
        assert torch.equal(one, other)


def test_second_derivatives_are_the_references() -> None:
    def penalty(function: Any) -> tuple[Tensor, ...]:
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
        context, _ = function(**leaves)
        (slope,) = torch.autograd.grad(context.square().sum(), leaves["query"], create_graph=True)
        return torch.autograd.grad(slope.square().sum(), list(leaves.values()))

    tensors = drawn("a chunk", "additive")
    for one, other in zip(penalty(step_attention), penalty(reference.step_attention)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_an_output_that_no_loss_needs_costs_nothing_and_changes_nothing() -> None:
    tensors = drawn("a chunk", "additive")
    for which in (0, 1):
        by = []
        for function in (step_attention, reference.step_attention):
            leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
            loss = function(**leaves)[which].square().sum()
            by.append(torch.autograd.grad(loss, list(leaves.values()), allow_unused=True))
        for one, other in zip(*by):
            torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other)


def test_batches_without_items_or_keys_work() -> None:
    for N, S in ((0, 5), (3, 0)):
        context, weights = step_attention(
            *(torch.randn(*shape, device=DEVICE) for shape in ((N, 7), (N, S, 7), (N, S, 11)))
        )
        assert context.shape == (N, 11) and weights.shape == (N, S)
        assert not context.any()
