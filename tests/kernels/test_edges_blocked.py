"""Edges in runs give the reference's results and gradients, and never hold E × H × D numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.kernels.edges import blocked, reference
from saccade.kernels.edges.graph import Graph
from tests.kernels.edge_cases import SHAPES, assert_like_the_reference, drawn, with_gradients
from tests.kernels.live import LiveMemory

TOLERANCE = {torch.float64: 1e-13, torch.float32: 3e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "RUN_ELEMENTS", 64)


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("act", ["leaky_relu", "tanh"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", SHAPES)
def test_results_and_gradients_are_the_references(name: str, dtype: torch.dtype, act: str, dropped: bool) -> None:
    tensors, graph, gain = drawn(name, dropped=dropped)
    assert_like_the_reference(blocked, tensors, graph, dtype, TOLERANCE[dtype], act=act, gain=gain)


@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_the_references(name: str) -> None:
    (query, key, _, a), graph, _ = drawn(name)
    found = blocked.edge_weights(query, key, a, graph, slope=0.1)
    torch.testing.assert_close(found, reference.edge_weights(query, key, a, graph, slope=0.1))


def test_a_negative_slope_is_a_slope_too() -> None:
    tensors, graph, _ = drawn("heads")
    assert_like_the_reference(blocked, tensors, graph, torch.float64, 1e-13, slope=-0.3)


def test_gradients_are_those_of_finite_differences() -> None:
    tensors, graph, gain = drawn("heads", dropped=True)
    inputs = [tensor.requires_grad_() for tensor in tensors]

    def attention(*inputs: Tensor) -> Tensor:
        return blocked.edge_attention(*inputs, graph, act="tanh", gain=gain)

    with torch.device("cpu"):  # where the checks draw their directions
        assert torch.autograd.gradcheck(attention, inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(attention, inputs, fast_mode=True)


def test_only_needed_gradients_are_given() -> None:
    tensors, graph, _ = drawn("heads")
    tensors[2].requires_grad_()
    blocked.edge_attention(*tensors, graph).square().sum().backward()
    assert tensors[0].grad is None
    found, tensors[2].grad = tensors[2].grad, None
    reference.edge_attention(*tensors, graph).square().sum().backward()
    torch.testing.assert_close(found, tensors[2].grad)


def test_memory_grows_with_nodes_and_with_edges_but_not_with_edges_times_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "RUN_ELEMENTS", 1000)
    N, E, H, D = 3, 500, 2, 64
    graph = Graph.of(torch.randint(0, N, (2, E)), receivers=N)
    tensors = [torch.randn(N, H, D), torch.randn(N, H, D), torch.randn(N, H, D), torch.randn(H, D)]

    def peak(kernel: Any) -> int:
        with LiveMemory() as memory:
            with_gradients(kernel, tensors, torch.randn(N, H, D), graph)
        return int(memory.peak)

    assert peak(blocked) < 10 * (N * H * D + E * H) + 8 * 1000 < E * H * D / 2
    assert peak(reference) > 2 * E * H * D  # the measure sees what it is meant to see
