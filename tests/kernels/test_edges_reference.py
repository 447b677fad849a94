"""Attention over edges, on numbers that can be followed."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.kernels.edges import blocked, reference
from saccade.kernels.edges.graph import Graph

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, M, H, D, W = 4, 5, 3, 7, 2
EDGES = torch.tensor([[2, 0, 2, 0, 3, 0], [1, 4, 0, 1, 4, 0]], device=DEVICE)  # node 1 sees nobody
GRAPH = Graph.of(EDGES, receivers=N, senders=M)


@pytest.mark.parametrize("act", ["leaky_relu", "tanh"])
def test_it_is_masked_attention_over_the_dense_matrix(act: str) -> None:
    query, key, value, a = torch.randn(N, H, D), torch.randn(M, H, D), torch.randn(M, H, W), torch.randn(H, D)
    total = query.unsqueeze(1) + key  # [N, M, H, D]
    hidden = total.tanh() if act == "tanh" else functional.leaky_relu(total, 0.2)
    dense = torch.zeros(N, M, dtype=torch.bool)
    dense[GRAPH.receiver, GRAPH.sender] = True
    scores = (hidden * a).sum(-1).masked_fill(~dense.unsqueeze(-1), -torch.inf)
    weights = torch.softmax(scores, 1).nan_to_num(0.0)  # [N, M, H]
    torch.testing.assert_close(
        reference.edge_weights(query, key, a, GRAPH, act=act), weights[GRAPH.receiver, GRAPH.sender]
    )
    found = reference.edge_attention(query, key, value, a, GRAPH, act=act)
    torch.testing.assert_close(found, torch.einsum("nmh,mhw->nhw", weights, value))
    assert not found[1].any()


def test_gats_numbers() -> None:
    # Wh = (1, 2, −1), a = (1, 1), everyone sees everyone: e of the first node is (2, 3, 0).
    features = torch.tensor([1.0, 2.0, -1.0]).reshape(3, 1, 1)
    graph = Graph.of(torch.cartesian_prod(torch.arange(3), torch.arange(3)).T, receivers=3)
    weights = reference.edge_weights(features, features, torch.ones(1, 1), graph)
    torch.testing.assert_close(weights[:3, 0], torch.tensor([0.2595, 0.7054, 0.0351]), rtol=0, atol=1e-4)


def test_an_edge_that_is_there_twice_counts_twice() -> None:
    graph = Graph.of(torch.tensor([[0, 0, 0], [0, 1, 1]]), receivers=1, senders=2)
    value = torch.tensor([0.0, 3.0]).reshape(2, 1, 1)
    found = reference.edge_attention(torch.zeros(1, 1, 1), torch.zeros(2, 1, 1), value, torch.ones(1, 1), graph)
    torch.testing.assert_close(found.flatten(), torch.tensor([2.0]))


def test_very_large_scores_do_not_overflow() -> None:
    query, key = torch.full((N, H, D), 1e4), torch.randn(M, H, D)
    found = reference.edge_attention(query, key, torch.randn(M, H, W), torch.ones(H, D), GRAPH)
    assert bool(found.isfinite().all())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query": (N + 1, H, D)}, r"query: expected \[4, 3, 7\] over Graph\(4 receivers"),
        ({"key": (M, 1, D)}, r"key: expected \[5, 3, 7\]"),
        ({"value": (N, H, W)}, r"value: expected \[5, 3, 2\]"),
        ({"a": (D,)}, r"a: expected \[3, 7\]"),
        ({"gain": (6, 1)}, r"gain: expected \[6, 3\]"),
    ],
)
def test_shapes_that_do_not_fit_are_named(changed: dict, said: str) -> None:
    shapes = {"query": (N, H, D), "key": (M, H, D), "value": (M, H, W), "a": (H, D), "gain": (6, H), **changed}
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    with pytest.raises(SaccadeError, match=said):
        reference.edge_attention(**tensors, graph=GRAPH)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(SaccadeError, match="act must be 'leaky_relu' or 'tanh': got 'relu'"):
        reference.edge_weights(torch.randn(N, H, D), torch.randn(M, H, D), torch.randn(H, D), GRAPH, act="relu")  # type: ignore[arg-type]


@pytest.mark.parametrize("act", ["leaky_relu", "tanh"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("module", [reference, blocked], ids=["reference", "blocked"])
def test_half_types_are_computed_in_float32_and_rounded_once(module: ModuleType, dtype: torch.dtype, act: str) -> None:
    shapes = ((N, H, D), (M, H, D), (M, H, W), (H, D))
    exact = [torch.randn(shape).mul(8).round().div(2).double().requires_grad_() for shape in shapes]
    halves = [tensor.detach().to(dtype).requires_grad_() for tensor in exact]  # the same numbers
    found = []
    for function, inputs in ((module, halves), (reference, exact)):
        out = function.edge_attention(*inputs, GRAPH, act=act)
        weights = function.edge_weights(*inputs[:2], inputs[3], GRAPH, act=act)
        found.append([out, weights, torch.autograd.grad(out.sum(), inputs[2])[0]])
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=2 * torch.finfo(dtype).eps, atol=1e-4)
