"""Attention over a sparse graph as a user meets it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from saccade.attention.core import attend
from saccade.attention.graph import Graph, attend_edges, explain_edges, gat_score, weigh_edges
from saccade.attention.scores import additive
from saccade.attention.windows import mask
from saccade.errors import SaccadeError
from saccade.trace.edits import Boost
from saccade.trace.lens import Lens

N, H, D = 5, 3, 7
EDGES = torch.tensor([[4, 0, 4, 1, 0, 3], [1, 2, 0, 1, 4, 3]])  # node 2 looks at nobody
GRAPH = Graph.of(EDGES, receivers=N)


def test_with_tanh_it_is_additive_attention_through_the_graphs_mask() -> None:
    query, key, value, v = torch.randn(N, D), torch.randn(N, D), torch.randn(N, 2), torch.randn(D)
    seen = torch.zeros(N, N, dtype=torch.bool)
    seen[EDGES[0], EDGES[1]] = True
    expected = attend(query[None], key[None], value[None], score=additive(v), window=mask(seen))[0]
    torch.testing.assert_close(attend_edges(query, key, value, GRAPH, a=v, act="tanh"), expected)


def test_heads_are_looks_side_by_side() -> None:
    query, key, value, a = torch.randn(N, H, D), torch.randn(N, H, D), torch.randn(N, H, 2), torch.randn(H, D)
    together = attend_edges(query, key, value, GRAPH, a=a, slope=0.1)
    assert together.shape == (N, H, 2)
    for head in range(H):
        alone = attend_edges(query[:, head], key[:, head], value[:, head], GRAPH, a=a[head], slope=0.1)
        torch.testing.assert_close(together[:, head], alone)
    assert not together[2].any()


def test_gats_own_score_ranks_neighbours_alike_for_everyone_and_gatv2s_does_not() -> None:
    everyone = Graph.of(torch.cartesian_prod(torch.arange(N), torch.arange(N)).T, receivers=N)
    x, a = torch.randn(N, D), torch.randn(2 * D)
    query, key = gat_score(x, x, a)
    static = weigh_edges(query, key, everyone).reshape(N, N)
    inside = (x @ a[:D]).unsqueeze(1) + (x @ a[D:])
    torch.testing.assert_close(static, torch.softmax(nn.functional.leaky_relu(inside, 0.2), -1))
    assert bool((static.argsort(-1) == static.argsort(-1)[0]).all())
    dynamic = weigh_edges(torch.randn(N, D), x, everyone, a=torch.randn(D)).reshape(N, N)
    assert not bool((dynamic.argsort(-1) == dynamic.argsort(-1)[0]).all())


def test_gats_own_score_has_heads_and_reads_the_features() -> None:
    x, a = torch.randn(N, H, D), torch.randn(H, 2 * D)
    out = attend_edges(*gat_score(x, x, a), x, GRAPH)
    assert out.shape == (N, H, D)
    torch.testing.assert_close(out[3], x[3])  # node 3 sees only itself


def test_weights_come_in_the_order_of_the_list_and_sum_to_one() -> None:
    query, key = torch.randn(N, H, D), torch.randn(N, H, D)
    weights = weigh_edges(query, key, GRAPH, a=torch.randn(H, D))
    assert weights.shape == (6, H)
    sums = torch.zeros(N, H).index_add(0, EDGES[0], weights)
    torch.testing.assert_close(sums, torch.tensor([1.0, 1, 0, 1, 1]).unsqueeze(1).expand(N, H))
    assert weigh_edges(query[:, 0], key[:, 0], GRAPH, a=torch.randn(D)).shape == (6,)


def test_with_a_of_zero_neighbours_count_alike() -> None:
    weights = weigh_edges(torch.randn(N, D), torch.randn(N, D), GRAPH, a=torch.zeros(D))
    torch.testing.assert_close(weights, torch.tensor([0.5, 0.5, 0.5, 1.0, 0.5, 1.0]))


def test_a_lens_sees_every_edge() -> None:
    query, key, a = torch.randn(N, H, D), torch.randn(N, H, D), torch.randn(H, D)
    lens = Lens()
    attend_edges(query, key, key, GRAPH, a=a, lens=lens, site="layer.0")
    assert len(lens.trace.maps) == H
    weights = weigh_edges(query, key, GRAPH, a=a)
    for head in range(H):
        found = lens.trace.map("layer.0", head)
        assert found.kind == "edges"
        assert found.keys == N
        torch.testing.assert_close(found.weights[EDGES[0], EDGES[1]], weights[:, head])


def test_a_lens_that_would_edit_is_refused() -> None:
    lens = Lens(edits=[Boost(site="graph", keys=(1,), factor=2.0)])
    with pytest.raises(SaccadeError, match="not edited"):
        attend_edges(torch.randn(N, D), torch.randn(N, D), torch.randn(N, D), GRAPH, a=torch.randn(D), lens=lens)


def test_dropout_drops_weights_and_keeps_their_mean_and_the_lens_sees_them_before() -> None:
    star = Graph.of(torch.stack([torch.zeros(4000, dtype=torch.long), torch.arange(4000)]), receivers=1, senders=4000)
    query, key, lens = torch.zeros(1, 1), torch.zeros(4000, 1), Lens()
    out = attend_edges(query, key, torch.ones(4000, 1), star, dropout=0.25, lens=lens)
    assert abs(float(out) - 1) < 0.05
    assert float(out) != 1
    torch.testing.assert_close(lens.trace.map("graph").weights, torch.full((1, 4000), 1 / 4000))


def test_a_layer_learns_to_look_up_its_neighbours_label() -> None:
    # Each of 6 queries must find the one of 6 keys that has its number, and read the label there.
    size, graph = 6, Graph.of(torch.cartesian_prod(torch.arange(6), torch.arange(6)).T, receivers=6)
    names, label = torch.eye(size), torch.randperm(size)
    left, right = nn.Linear(size, 16), nn.Linear(size, 16)
    a = nn.Parameter(torch.randn(16) * 0.3)
    optimiser = torch.optim.Adam([*left.parameters(), *right.parameters(), a], lr=0.05)
    for _ in range(150):
        found = attend_edges(left(names), right(names), names[label], graph, a=a)
        loss = nn.functional.nll_loss((found + 1e-6).log(), label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert torch.equal(found.argmax(-1), label)


def test_it_says_which_kernel_serves() -> None:
    row = torch.randn(N, D)
    assert explain_edges(row, row, row, GRAPH).startswith("edges.")


@pytest.mark.usefixtures("shapes_unchecked")
def test_what_does_not_fit_is_named() -> None:
    row = torch.randn(N, D)
    with pytest.raises(SaccadeError, match=r"all \[nodes, width\] or all"):
        attend_edges(row, row.unsqueeze(1), row, GRAPH, a=torch.randn(D))
    with pytest.raises(SaccadeError, match=r"query: expected \[5, 1, 7\]"):
        attend_edges(torch.randn(N + 1, D), row, row, GRAPH, a=torch.randn(D))
    with pytest.raises(SaccadeError, match="a of 2 D, found 7, 7 and 7"):
        gat_score(row, row, torch.randn(D))


COMPILED = """
import torch
from saccade.attention.graph import Graph, attend_edges, weigh_edges
from saccade.kernels import choose

torch.manual_seed(1)
choose.EDGES_BLOCKED_PAY_FROM = 0
seen = []

def record(graph, example):
    seen.extend(str(node.target) for node in graph.graph.nodes if "saccade" in str(node.target))
    return graph

def look(x, a, graph):
    return attend_edges(x, x, x, graph, a=a)

compiled = torch.compile(look, backend=record, fullgraph=True, dynamic=True)
for nodes, edges in ((5, 11), (7, 19)):
    graph = Graph.of(torch.randint(0, nodes, (2, edges)), receivers=nodes)
    inputs = [torch.randn(nodes, 3, 4).requires_grad_(), torch.randn(3, 4).requires_grad_()]
    found, expected = compiled(*inputs, graph), look(*inputs, graph)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(*(torch.autograd.grad(each.pow(2).sum(), inputs) for each in (found, expected))):
        torch.testing.assert_close(ours, theirs)
assert set(seen) == {"saccade.edge_attention"}, seen

x, a = inputs
weigh = torch.compile(lambda x, a: weigh_edges(x, x, graph, a=a), backend=record, fullgraph=True)
torch.testing.assert_close(weigh(x, a), weigh_edges(x, x, graph, a=a))
assert seen[-1] == "saccade.edge_weights", seen
"""


def test_torch_compile_takes_a_look_along_edges_as_one_operator() -> None:
    # In a process of its own: torch.compile cannot record through the checks of shapes that every test runs under.
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
