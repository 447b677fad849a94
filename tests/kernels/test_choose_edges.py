from __future__ import annotations

import torch

from saccade.kernels.choose import EDGES_BLOCKED_PAY_FROM, choose_edges
from saccade.kernels.edges import blocked, reference
from saccade.kernels.edges.graph import Graph


def test_few_edges_are_kept_and_many_worked_through_in_runs() -> None:
    row = torch.randn(3, 2, 8, device="cpu")
    for edges, kernel in ((EDGES_BLOCKED_PAY_FROM // 16 - 1, reference), (EDGES_BLOCKED_PAY_FROM // 16, blocked)):
        graph = Graph.of(torch.zeros(2, edges, dtype=torch.long, device="cpu"), receivers=3)
        choice = choose_edges(row, row, row, graph)
        assert choice.function is kernel.edge_attention
        assert choice.weights is kernel.edge_weights
        assert f"{edges:,} edges of 2 × 8 numbers" in str(choice)
        assert "edges.fused cannot serve: the tensors are on cpu" in str(choice)


def test_everything_that_stands_in_the_way_is_named() -> None:
    graph = Graph.of(torch.zeros(2, 1, dtype=torch.long), receivers=1)
    row = torch.randn(1, 1, 1025, dtype=torch.float64)
    said = str(choose_edges(row, row, row, graph))
    assert "float64" in said
    assert "heads of 1025 numbers are wider" in said
