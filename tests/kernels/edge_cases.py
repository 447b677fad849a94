"""Graphs and inputs on which the kernels of edges are compared with their reference."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from saccade.kernels.edges import reference
from saccade.kernels.edges.graph import Graph

SHAPES = {  # receivers N, senders M, edges E, heads H, width D, width of values W
    "heads": (3, 4, 7, 3, 5, 3),
    "one head": (4, 3, 9, 1, 9, 9),
    "a hub with most of the edges": (3, 4, 11, 2, 3, 2),
    "width 1, as GAT's own score": (3, 2, 7, 2, 1, 6),
    "no edges": (3, 4, 0, 2, 3, 2),
}
NAMES = ("out", "query", "key", "value", "a")


def drawn(
    name: str, device: str = "cpu", magnitude: float = 1.0, dropped: bool = False
) -> tuple[list[Tensor], Graph, Tensor | None]:
    """query, key, value and a in float64, a graph whose last receiver has no edge, and gains if some are dropped."""
    N, M, E, H, D, W = SHAPES[name]
    receiver = torch.randint(0, N - 1, (E,))
    if name.startswith("a hub"):
        receiver[: E * 3 // 4] = 0
    graph = Graph.of(torch.stack([receiver, torch.randint(0, M, (E,))]), receivers=N, senders=M).to(device)
    shapes = ((N, H, D), (M, H, D), (M, H, W), (H, D))
    tensors = [torch.randn(shape, dtype=torch.float64, device=device) for shape in shapes]
    tensors[0], tensors[1] = tensors[0] * magnitude, tensors[1] * magnitude
    gain = (torch.rand(E, H, device=device) > 0.4).float() / 0.6 if dropped else None
    return tensors, graph, gain


def with_gradients(
    kernel: ModuleType, tensors: list[Tensor], grad: Tensor, graph: Graph, **options: Any
) -> list[Tensor]:
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    out = kernel.edge_attention(*tensors, graph, **options)
    return [out, *torch.autograd.grad(out, tensors, grad.to(out.dtype))]


def assert_like_the_reference(
    kernel: ModuleType, tensors: list[Tensor], graph: Graph, dtype: torch.dtype, tolerance: float, **options: Any
) -> None:
    rounded = [tensor.to(dtype) for tensor in tensors]
    grad = torch.randn(*tensors[0].shape[:2], tensors[2].shape[2], device=tensors[0].device).to(dtype)
    found = with_gradients(kernel, rounded, grad, graph, **options)
    exact = with_gradients(reference, [tensor.double() for tensor in rounded], grad.double(), graph, **options)
    for name, tensor, expected in zip(NAMES, found, exact, strict=True):
        assert tensor.dtype == dtype
        assert tensor.shape == expected.shape
        largest = max(1.0, expected.abs().max().item())
        assert (tensor.double() - expected).abs().max().item() <= tolerance * largest, name
