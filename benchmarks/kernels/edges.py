"""Attention over the edges of a sparse graph (GATv2) beside its peers: time and memory, forward and with backward.

    python benchmarks/kernels/edges.py --out TABLE.md [--device cuda] [--nodes 10000,100000] [--degree 16] [--heads 8]
                                       [--width 16] [--dtype float32] [--hubs]

From projected nodes to what they read: aᵀ LeakyReLU(q_i + k_j), softmax over the edges of i, Σ α value. The peers are a plain
PyTorch version, which keeps a row of numbers for each edge, and PyTorch Geometric's GATv2Conv where it is installed. That
layer begins with two projections, so beside it ours is measured once more, with the same two.

Graphs are random; with --hubs one node in a hundred has half of the edges. Times are medians after a warm-up; memory is
the peak above what was there before the call (on a CUDA device).
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from saccade.attention.graph import Graph, attend_edges, explain_edges

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

Step = Callable[[], Tensor]


def plain(query: Tensor, key: Tensor, value: Tensor, a: Tensor, receiver: Tensor, sender: Tensor) -> Tensor:
    """As it is usually written: rows gathered for every edge."""
    scores = (functional.leaky_relu(query[receiver] + key[sender], 0.2) * a).sum(-1)  # [E, H]
    index = receiver.unsqueeze(-1).expand_as(scores)
    highest = scores.new_full((len(query), scores.shape[1]), -torch.inf).scatter_reduce(
        0, index, scores.detach(), "amax"
    )
    powers = (scores - highest[receiver]).exp()
    weights = powers / torch.zeros_like(highest).index_add(0, receiver, powers)[receiver]
    return torch.zeros_like(query).index_add(0, receiver, weights.unsqueeze(-1) * value[sender])


def random_edges(nodes: int, degree: int, hubs: bool, device: str) -> Tensor:
    chance = torch.Generator().manual_seed(1)
    edges = torch.randint(nodes, (2, nodes * degree), generator=chance)
    if hubs:
        half = edges.shape[1] // 2
        edges[0, :half] %= max(1, nodes // 100)
    return edges.to(device)


def contenders(nodes: int, options: argparse.Namespace) -> tuple[dict[str, Step], list[Tensor], str]:
    """A forward pass each, the tensors that want gradients, and which kernel serves ours."""
    H, D, device, dtype = options.heads, options.width, options.device, getattr(torch, options.dtype)
    edges = random_edges(nodes, options.degree, options.hubs, device)
    graph = Graph.of(edges, receivers=nodes)
    query, key = (torch.randn(nodes, H, D, device=device, dtype=dtype, requires_grad=True) for _ in range(2))
    a = (torch.randn(H, D, device=device, dtype=dtype) / D**0.5).requires_grad_()
    wanted = [query, key, a]
    steps: dict[str, Step] = {
        "saccade": lambda: attend_edges(query, key, key, graph, a=a),
        "plain PyTorch": lambda: plain(query, key, key, a, edges[0], edges[1]),
    }
    if importlib.util.find_spec("torch_geometric") is not None:
        steps |= _beside_geometric(nodes, edges, graph, options, wanted)
    return steps, wanted, explain_edges(query, key, key, graph)


def _beside_geometric(
    nodes: int, edges: Tensor, graph: Graph, options: argparse.Namespace, wanted: list[Tensor]
) -> dict[str, Step]:
    from torch_geometric.nn import GATv2Conv  # type: ignore[import-not-found]

    H, D, dtype = options.heads, options.width, getattr(torch, options.dtype)
    features = torch.randn(nodes, D, device=options.device, dtype=dtype, requires_grad=True)
    layer = GATv2Conv(D, D, heads=H, add_self_loops=False, bias=False).to(options.device, dtype)
    wanted += [features, *layer.parameters()]
    # Their lin_r projects the node that looks, lin_l the one it looks at; an edge is (source, target).
    index = edges.flip(0).contiguous()

    def ours() -> Tensor:
        query, key = (linear(features).view(nodes, H, D) for linear in (layer.lin_r, layer.lin_l))
        return attend_edges(query, key, key, graph, a=layer.att[0])

    def theirs() -> Tensor:
        return layer(features, index).view(nodes, H, D)

    with torch.no_grad():
        apart = (ours() - theirs()).abs().max().item()
    print(f"{nodes:,} nodes: ours and GATv2Conv's are {apart:.1e} apart", flush=True)
    return {"saccade, with the projections": ours, "torch_geometric GATv2Conv": theirs}


def measured(step: Step, wanted: list[Tensor], options: argparse.Namespace) -> list[str]:
    """Forward ms, forward + backward ms, forward MB, forward + backward MB."""

    def forward() -> None:
        with torch.no_grad():
            step()

    def training() -> None:
        out = step()
        torch.autograd.grad(out, wanted, torch.ones_like(out), allow_unused=True)

    try:
        times = [f"{milliseconds(function, options):.2f}" for function in (forward, training)]
        return [*times, *(megabytes(function, options.device) for function in (forward, training))]
    except torch.OutOfMemoryError:
        return ["out of memory", "", "", ""]


def milliseconds(function: Callable[[], None], options: argparse.Namespace) -> float:
    wait = torch.cuda.synchronize if options.device == "cuda" else (lambda: None)
    times = []
    for number in range(options.repeats + 2):
        wait()
        begin = time.perf_counter()
        function()
        wait()
        if number >= 2:
            times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)[len(times) // 2]


def megabytes(function: Callable[[], None], device: str) -> str:
    if device != "cuda":
        return "–"
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return f"{(torch.cuda.max_memory_allocated() - before) / 1e6:.1f}"


def main() -> None:
    options = parsed()
    torch.manual_seed(1)
    rows, kernels = [], []
    for nodes in options.nodes:
        steps, wanted, kernel = contenders(nodes, options)
        kernels.append(f"- {nodes:,} nodes: {kernel}")
        for name, step in steps.items():
            cells = [f"{nodes:,}", f"{nodes * options.degree:,}", name, *measured(step, wanted, options)]
            rows.append(f"| {' | '.join(cells)} |")
            print(rows[-1], flush=True)
        del steps, wanted
    text = report(rows, kernels, options)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attention over the edges of a sparse graph beside its peers.")
    parser.add_argument("--out", type=Path, help="markdown file to write")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--nodes", type=numbers, default=[10_000, 100_000, 1_000_000], help="10000,100000,…")
    parser.add_argument("--degree", type=int, default=16, help="edges a node, in the mean")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=16, help="numbers a head")
    parser.add_argument("--hubs", action="store_true", help="one node in a hundred has half of the edges")
    parser.add_argument("--repeats", type=int, default=20)
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def report(rows: list[str], kernels: list[str], options: argparse.Namespace) -> str:
    shape = f"{options.heads} heads of {options.width}, {options.dtype}, {options.degree} edges a node"
    table, served = "\n".join(rows), "\n".join(kernels)
    return f"""# Attention over edges

{datetime.date.today()} · {device_name(options.device)} · torch {torch.__version__} · {shape}{", hubs" if options.hubs else ""}

| nodes | edges | contender | forward, ms | forward + backward, ms | forward, MB | forward + backward, MB |
|---|---|---|---|---|---|---|
{table}

Which kernel served:

{served}
"""


if __name__ == "__main__":
    main()
