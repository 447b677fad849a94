"""A graph's edges by receiver and by sender."""

from __future__ import annotations

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.kernels.edges.graph import Graph

EDGES = torch.tensor([[2, 0, 2, 0, 3], [1, 4, 0, 1, 4]])  # 1 looks at nobody, nobody looks at 2 or 3


def test_edges_are_sorted_by_receiver_and_keep_their_order_otherwise() -> None:
    graph = Graph.of(EDGES, receivers=4, senders=5)
    assert graph.start.tolist() == [0, 2, 2, 4, 5]
    assert graph.sender.tolist() == [4, 1, 1, 0, 4]
    assert graph.edges.tolist() == [[0, 0, 2, 2, 3], [4, 1, 1, 0, 4]]
    assert graph.size == 5


def test_the_rows_by_sender_name_the_same_edges() -> None:
    graph = Graph.of(EDGES, receivers=4, senders=5)
    assert graph.out_start.tolist() == [0, 1, 3, 3, 3, 5]
    for sender in range(5):
        out = graph.out_edge[graph.out_start[sender] : graph.out_start[sender + 1]]
        assert bool((graph.sender[out] == sender).all())
        assert graph.receiver[out].tolist() == sorted(EDGES[0][EDGES[1] == sender].tolist())
    assert torch.equal(graph.out_receiver, graph.receiver[graph.out_edge])


def test_numbers_go_back_into_the_order_of_the_list() -> None:
    graph = Graph.of(EDGES, receivers=4, senders=5)
    assert torch.equal(graph.as_listed(graph.edges.T).T, EDGES)


def test_compressed_rows_make_the_same_graph() -> None:
    listed = Graph.of(EDGES, receivers=4, senders=5)
    rows = Graph.from_rows(listed.start, listed.sender, senders=5)
    for name in ("start", "receiver", "sender", "out_start", "out_edge", "out_receiver"):
        assert torch.equal(getattr(rows, name), getattr(listed, name))
    assert torch.equal(rows.as_listed(rows.sender), rows.sender)


def test_without_senders_the_nodes_look_at_each_other() -> None:
    assert Graph.of(torch.tensor([[0, 1], [1, 2]]), receivers=3).senders == 3


def test_a_graph_may_have_no_edges() -> None:
    graph = Graph.of(torch.empty(2, 0, dtype=torch.long), receivers=3)
    assert graph.start.tolist() == graph.out_start.tolist() == [0, 0, 0, 0]
    assert repr(graph.to("cpu")) == "Graph(3 receivers, 3 senders, 0 edges)"


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        (torch.tensor([[0, 4], [1, 1]]), "receivers from 0 to 3, found 4"),
        (torch.tensor([[0, 3], [1, -1]]), "senders from 0 to 3, found -1"),
        (torch.tensor([0, 3]), r"\[2, E\], found torch.int64 \[2\]"),
        (torch.tensor([[0.0], [1.0]]), "whole numbers"),
    ],
)
def test_edges_that_lead_nowhere_are_refused(edges: torch.Tensor, said: str) -> None:
    with pytest.raises(SaccadeError, match=said):
        Graph.of(edges, receivers=4)


@pytest.mark.parametrize("start", [[0, 2, 1, 3], [1, 2, 3], [0, 2], []])
def test_rows_that_do_not_rise_to_the_number_of_edges_are_refused(start: list[int]) -> None:
    with pytest.raises(SaccadeError, match="start: expected"):
        Graph.from_rows(torch.tensor(start, dtype=torch.long), torch.tensor([0, 0, 0]), senders=2)
