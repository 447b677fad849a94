"""An engine that watches its own limit: quick within it, and right beyond it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs Triton: its interpreter, or a GPU")

from saccade.kernels.additive import direct, engines, reference
from saccade.kernels.additive.attention import additive_attention
from saccade.kernels.additive.direct import guarded, limit_of
from saccade.kernels.additive.direct_forms import Guard, largest
from saccade.kernels.visibility import Visibility

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a GPU")


def inputs(size: float, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    chance = torch.Generator().manual_seed(3)
    shapes = ((2, 5, 7), (2, 9, 7), (1, 7), (2, 5, 9))
    given = [torch.randn(*shape, generator=chance, device="cpu") for shape in shapes]
    query, key, v, grad = (each.to(torch.get_default_device(), dtype) for each in given)
    return [query * size, key * size, v, grad.float()]


def exact(query: Tensor, key: Tensor, v: Tensor, grad: Tensor) -> list[Tensor]:
    rows = [each.detach().double().requires_grad_() for each in (query, key, v.expand(len(query), -1))]
    scores = reference.additive_scores(*rows)
    return [scores.detach(), *torch.autograd.grad(scores, rows, grad.double())]


def of(engine: engines.Engine, query: Tensor, key: Tensor, v: Tensor, grad: Tensor) -> list[Tensor]:
    begun = engine.begin(query, key, v, Visibility(), 1)
    kept: dict[str, Any] = {"features": begun.features}
    scores = engine.finish(begun.raw, v, Visibility(), 1)
    return [scores, *engine.gradients(query, key, v, grad, Visibility(), **kept)]


@pytest.mark.parametrize("name", ["direct", "separable"])
@pytest.mark.parametrize("size", [0.1, 40.0])
def test_what_a_narrow_engine_makes_is_replaced_beyond_its_limit_alone(name: str, size: float) -> None:
    given = inputs(size)
    narrow = engines.engine(name, (0.45, 0.45), given[0])
    found = of(guarded(narrow), *given)
    for each, true in zip(found, exact(*given), strict=True):
        assert (each.double() - true).abs().max() <= 1e-3 * true.abs().max()
    alone = narrow.scores(*given[:3], Visibility())
    agree = torch.allclose(alone.double(), exact(*given)[0], rtol=1e-3, atol=1e-3)
    assert agree == (size < 1)  # beyond its limit the engine alone is wrong: something was replaced


@pytest.mark.parametrize(("reached", "written"), [(0.5, False), (0.5001, True), (math.nan, True), (math.inf, True)])
def test_guarded_scores_are_written_beyond_the_limit_alone(reached: float, written: bool) -> None:
    query, key, v, _ = inputs(0.01)
    key[1, 3, 2] = reached
    out = torch.full((2, 5, 9), 7.0)
    direct.scores(query, key, v, Visibility(), form="large", out=out, guard=Guard(largest(query, key), 0.5))
    assert bool((out != 7.0).all()) == written


def test_the_limit_is_that_of_the_arithmetic() -> None:
    query = inputs(1.0)[0]
    assert limit_of(engines.engine("direct", (5.0, 5.0), query)) == 5.375
    assert limit_of(engines.engine("direct", (math.inf, 1.0), query)) == math.inf
    assert limit_of(engines.engine("separable", (2.9, 1.0), query)) >= 2.9


@GPU
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_captured_graph_is_right_for_inputs_that_nobody_foresaw(dtype: torch.dtype) -> None:
    query, key, v, _ = inputs(0.3, dtype)
    value = torch.randn(2, 9, 3).to(dtype)
    given = [each.requires_grad_() for each in (query, key, value, v)]

    def both() -> list[Tensor]:
        context = additive_attention(*given, Visibility())
        return [context, *torch.autograd.grad(context.square().sum(), given)]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        both()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = both()
    for size in (1.0, 100.0, 0.01):
        with torch.no_grad():
            query.copy_(inputs(0.3 * size, dtype)[0])
        graph.replay()
        for each, true in zip(found, both(), strict=True):
            assert (each - true).abs().max() <= (1e-5 if dtype == torch.float32 else 2e-2) * true.abs().max()


@GPU
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_engine_that_was_guessed_wrong_leaves_no_trace(dtype: torch.dtype) -> None:
    small, large = inputs(0.1, dtype), inputs(3.0, dtype)
    value = torch.randn(2, 9, 3).to(dtype)

    def context(given: list[Tensor]) -> Tensor:
        return additive_attention(given[0], given[1], value, small[2], Visibility())

    engines._served_last.clear()
    first = [context(small), context(small)]
    engines._served_last.clear()
    expected = context(large)
    context(small)  # and now the guess is the small one's engine
    assert torch.equal(context(large), expected)
    assert torch.equal(*first)
