"""Attention over edges in Triton gives the reference's results and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from saccade.errors import SaccadeError
from saccade.kernels.edges import fused, reference
from saccade.kernels.edges.graph import Graph
from tests.kernels.edge_cases import NAMES, SHAPES, assert_like_the_reference, drawn, with_gradients

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    ("name", "act"),
    [(name, "tanh" if turn % 2 else "leaky_relu") for turn, name in enumerate(SHAPES)] + [("heads", "tanh")],
)
def test_results_and_gradients_are_the_references(name: str, act: str) -> None:
    tensors, graph, gain = drawn(name, DEVICE, dropped=act == "tanh")
    assert_like_the_reference(fused, tensors, graph, torch.float32, 5e-6, act=act, gain=gain)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 1e-2), (torch.float16, 2e-3)])
def test_half_types_are_computed_in_float32(dtype: torch.dtype, tolerance: float) -> None:
    tensors, graph, _ = drawn("heads", DEVICE)
    assert_like_the_reference(fused, tensors, graph, dtype, tolerance)


@pytest.mark.parametrize("magnitude", [1e-4, 30.0])
def test_no_magnitude_costs_precision(magnitude: float) -> None:
    tensors, graph, _ = drawn("heads", DEVICE, magnitude)
    rounded = [tensor.float() for tensor in tensors]
    grad = torch.randn(3, 3, 3, device=DEVICE)
    found, eager = (with_gradients(kernel, rounded, grad, graph, act="tanh") for kernel in (fused, reference))
    exact = with_gradients(reference, [tensor.double() for tensor in rounded], grad.double(), graph, act="tanh")
    for name, tensor, plain, expected in zip(NAMES, found, eager, exact, strict=True):
        largest = expected.abs().max()
        of_eager = (plain - expected).abs().max() / largest
        assert (tensor - expected).abs().max() / largest <= 2 * of_eager + 2e-6, name


def test_weights_are_the_references_and_sum_to_one() -> None:
    (query, key, _, a), graph, _ = drawn("a hub with most of the edges", DEVICE)
    found = fused.edge_weights(query.float(), key.float(), a.float(), graph)
    torch.testing.assert_close(found.double(), reference.edge_weights(query, key, a, graph), rtol=1e-5, atol=1e-6)
    sums = torch.zeros(3, 2, device=DEVICE).index_add(0, graph.receiver, found)
    looking = (graph.start.diff() > 0).float()
    torch.testing.assert_close(sums, looking.unsqueeze(1).expand(3, 2))


def test_tiles_may_be_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, graph, gain = drawn("a hub with most of the edges", DEVICE, dropped=True)
    for BE, BH in ((4, 1), (32, 4)):
        sides = {"BE": BE, "BH": BH, "BD": 4, "BW": 2, "num_warps": 1, "num_stages": 1}
        monkeypatch.setattr(fused, "tiles", lambda *_, sides=sides: sides)
        assert_like_the_reference(fused, tensors, graph, torch.float32, 5e-6, gain=gain)


def test_a_receiver_that_sees_nobody_gets_zeros_and_gives_none() -> None:
    tensors, graph, _ = drawn("one head", DEVICE)
    out, grad_query, *_ = with_gradients(fused, [t.float() for t in tensors], torch.ones(4, 1, 9, device=DEVICE), graph)
    assert not out[-1].any()
    assert not grad_query[-1].any()


def test_the_same_call_gives_the_same_bits() -> None:
    tensors, graph, _ = drawn("heads", DEVICE)
    grad = torch.randn(3, 3, 3, device=DEVICE)
    once, again = (with_gradients(fused, [t.float() for t in tensors], grad, graph) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


def test_gradients_can_be_differentiated_again() -> None:
    def penalty(kernel: object, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        out = kernel.edge_attention(*tensors, graph, act="tanh")  # type: ignore[attr-defined]
        (slope,) = torch.autograd.grad(out.sum(), tensors[:1], create_graph=True)
        return torch.autograd.grad(slope.square().sum(), tensors)

    tensors, graph, _ = drawn("heads", DEVICE)
    rounded = [tensor.float() for tensor in tensors]
    for found, expected in zip(penalty(fused, rounded), penalty(reference, rounded), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("wanted", range(4))
def test_only_needed_gradients_are_given(wanted: int) -> None:
    tensors, graph, _ = drawn("heads", DEVICE)
    rounded = [tensor.float() for tensor in tensors]
    rounded[wanted].requires_grad_()
    fused.edge_attention(*rounded, graph).square().sum().backward()
    found, rounded[wanted].grad = rounded[wanted].grad, None
    reference.edge_attention(*rounded, graph).square().sum().backward()
    torch.testing.assert_close(found, rounded[wanted].grad, rtol=1e-4, atol=1e-5)


def test_what_it_does_not_serve_it_says() -> None:
    graph = Graph.of(torch.tensor([[0], [0]], device=DEVICE), receivers=1)
    for row in (torch.randn(1, 1, 3, dtype=torch.float64, device=DEVICE), torch.randn(1, 1, 1025, device=DEVICE)):
        with pytest.raises(SaccadeError, match=r"float32 .* 1024 .*edges\.blocked"):
            fused.edge_attention(row, row, row, row[0], graph)
