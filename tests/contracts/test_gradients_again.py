"""Every backward pass that is written by hand gives the same gradients when it runs again, gives those of the whole after it
ran for a part, and gives the right second-order gradients."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import saccade

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # must be set before triton is first imported

from saccade.attention.core import read
from saccade.kernels.additive.attention import additive_attention
from saccade.kernels.additive.blocked import additive_scores
from saccade.kernels.decoder.steps import Memory
from saccade.kernels.dot.attention import dot_attention
from saccade.kernels.edges import blocked as edges_blocked
from saccade.kernels.edges.graph import Graph
from saccade.kernels.entmax.reference import entmax15, sparsemax
from saccade.kernels.local import blocked as local_blocked
from saccade.kernels.location import blocked as location_blocked
from saccade.kernels.visibility import Visibility
from saccade.models.lstmn import Layer, State, Tape
from saccade.nn.crf import log_partition
from saccade.trace.lens import Site

N, T, S, D = 2, 3, 5, 3


class Case(NamedTuple):
    """A function that runs these autograd functions, and the shapes of its inputs."""

    functions: tuple[str, ...]
    run: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]


def _edges(query: Tensor, key: Tensor, value: Tensor, a: Tensor) -> Tensor:
    graph = Graph.of(torch.tensor([[0, 0, 1, 2, 2, 2], [1, 2, 0, 3, 0, 4]]), receivers=T, senders=S)
    return edges_blocked.edge_attention(query, key, value, a, graph)


def _decoder(queries: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
    memory = Memory.of(key, value, v=v, steps=2)  # fewer than there are: gradients are gathered twice
    steps = [memory.step(query) for query in queries.unbind(1)]
    return torch.cat([torch.cat(step, dim=-1) for step in steps], dim=-1)


def _tape(entries: Tensor, start: Tensor) -> Tensor:
    """Each entry is made of all before it; a block comes first, and the last two are written at places of their own."""
    tape, total = Tape.empty(N, 2 + T + 2, (D,), entries), entries.new_zeros(())
    tape.write(start, place=0)
    for step, entry in enumerate((*entries.unbind(1), *entries[:, :2].unbind(1))):
        place = 2 + step if step < T else torch.tensor([2 + step, 3 * T - step])
        (past,) = tape.read(2 + min(step, T))
        weights = (past * entry.unsqueeze(1)).sum(-1).softmax(-1)
        entry = entry.sin() + (weights.unsqueeze(-1) * past).sum(1)
        tape.write(entry.unsqueeze(1), place=place)
        total = total + entry.square().sum()
    return total + tape.read(2 + T + 2)[0].tanh().sum()


def _layer(x: Tensor) -> Tensor:
    torch.manual_seed(7)
    layer = Layer(D, 5, "paper").double()
    blank = State(
        torch.zeros(N, dtype=torch.int64), (x.new_zeros(N, 0, 5),), (x.new_zeros(N, 0, 10),), (x.new_zeros(N, 5),)
    )
    states, _, _ = layer(x, blank, 0, offset=0, lens=None, site=Site("self", "text", "text"))
    return states


def _crf(emissions: Tensor, transitions: Tensor) -> Tensor:
    return log_partition(emissions, torch.tensor([T, T - 2]), transitions)


CASES = {
    "additive scores": Case(
        ("kernels.additive.blocked._AdditiveScores",), additive_scores, ((N, T, D), (N, S, D), (D,))
    ),
    "additive attention": Case(
        ("kernels.additive.attention._Attention",),
        lambda q, k, x, v: additive_attention(q, k, x, v, Visibility(shift=1, after=1), engine="blocked"),
        ((N, T, D), (N, S, D), (N, S, 4), (1, D)),
    ),
    "edges": Case(("kernels.edges.differentiable._EdgeAttention",), _edges, ((T, 2, D), (S, 2, D), (S, 2, 4), (2, D))),
    "sparsemax": Case(("kernels.entmax.reference._Sparsemax",), sparsemax, ((N, S),)),
    "entmax15": Case(("kernels.entmax.reference._Entmax15",), entmax15, ((N, S),)),
    "dot attention": Case(
        ("kernels.dot.attention._Before", "kernels.dot.attention._After"),
        lambda q, k, x: dot_attention(q, k, x, scale=0.7, causal=True),
        ((N, T, D), (N, S, D), (N, S, D)),
    ),
    "read": Case(("attention.core._ReadOne",), read, ((N, 1, S), (N, S, D))),
    "location": Case(
        ("kernels.location.blocked._Scores",),
        location_blocked.location_aware_scores,
        ((N, 1, D), (N, S, D), (D,), (N, 1, S), (2, 3), (D, 2)),
    ),
    "local": Case(
        ("kernels.local.differentiable._LocalAttention",),
        lambda q, k, x: local_blocked.local_attention(q, k, x, radius=1),
        ((N, S, D), (N, S, D), (N, S, 4)),
    ),
    "decoder": Case(
        ("kernels.decoder.steps._Memory", "kernels.decoder.steps._Step"),
        _decoder,
        ((N, T, D), (N, S, D), (N, S, 4), (D,)),
    ),
    "tape": Case(("models.lstmn._Write", "models.lstmn._Read"), _tape, ((N, T, D), (N, 2, D))),
    "lstmn": Case((), _layer, ((N, T, D),)),
    "crf": Case(("nn.crf._LogPartition",), _crf, ((N, T, 4), (5, 5))),
}

IN_FLOAT32 = {"kernels.location.fused._Scores"}
"""Computes in float32 only, where finite differences say little: tests/kernels/test_location_fused.py compares it with the
reference, second-order gradients too."""


def _inputs(case: Case) -> list[Tensor]:
    torch.manual_seed(5)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in case.shapes]


def test_every_backward_pass_written_by_hand_is_among_the_cases() -> None:
    written = set()
    for module in pkgutil.walk_packages(saccade.__path__, "saccade."):
        if module.name == "saccade.__main__":
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError:  # an optional package
            continue
    for function in torch.autograd.Function.__subclasses__():
        if function.__module__.startswith("saccade."):
            written.add(f"{function.__module__.removeprefix('saccade.')}.{function.__name__}")
    assert written == {name for case in CASES.values() for name in case.functions} | IN_FLOAT32


@pytest.mark.parametrize("name", CASES)
def test_a_second_pass_over_the_graph_gives_the_same_gradients(name: str) -> None:
    inputs = _inputs(CASES[name])
    total = CASES[name].run(*inputs).square().sum()
    first = torch.autograd.grad(total, inputs, retain_graph=True)
    for given in inputs:  # each alone, which leaves out part of the graph
        torch.autograd.grad(total, [given], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(total, inputs), first, rtol=0, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_over_part_of_the_graph_changes_no_later_one(name: str) -> None:
    """The gradient of one output, of a middle value and of all outputs, in any order, is that of a new graph."""

    def run() -> tuple[list[Tensor], Sequence[Tensor]]:
        inputs = _inputs(CASES[name])
        middle = [given * 1 for given in inputs]
        return inputs, [*middle, CASES[name].run(*middle).square()]

    inputs, (*middle, outputs) = run()
    expected = torch.autograd.grad(outputs.sum(), inputs)
    inputs, (*middle, outputs) = run()
    torch.autograd.grad(outputs.flatten()[-1], middle, retain_graph=True, allow_unused=True)
    torch.autograd.grad(outputs.flatten()[0], middle[:1], retain_graph=True, create_graph=True, allow_unused=True)
    torch.testing.assert_close(torch.autograd.grad(outputs.sum(), inputs), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_second_order_gradients_are_those_of_finite_differences(name: str) -> None:
    case = CASES[name]
    assert torch.autograd.gradcheck(case.run, _inputs(case))
    assert torch.autograd.gradgradcheck(case.run, _inputs(case))


@pytest.mark.parametrize("name", CASES)
def test_a_sum_has_the_second_order_gradient_of_finite_differences(name: str) -> None:
    """The gradient of a sum is a constant, which autograd's own guard against a second pass does not notice."""
    case, step = CASES[name], 1e-6
    inputs = _inputs(case)
    torch.manual_seed(6)
    ways = [torch.randn_like(given) for given in inputs]
    first = torch.autograd.grad(case.run(*inputs).sum(), inputs, create_graph=True, allow_unused=True)
    along = sum((part * way).sum() for part, way in zip(first, ways, strict=True) if part is not None)
    found = (
        torch.autograd.grad(along, inputs, allow_unused=True)
        if isinstance(along, Tensor) and along.requires_grad
        else [None] * len(inputs)
    )
    sides = []
    for sign in (1, -1):
        moved = [(given + sign * step * way).detach().requires_grad_() for given, way in zip(inputs, ways, strict=True)]
        sides.append(torch.autograd.grad(case.run(*moved).sum(), moved, allow_unused=True))
    for given, ours, ahead, back in zip(inputs, found, *sides, strict=True):
        zero = torch.zeros_like(given)
        expected = zero if ahead is None or back is None else (ahead - back) / (2 * step)
        torch.testing.assert_close(zero if ours is None else ours, expected, rtol=1e-5, atol=1e-6)
