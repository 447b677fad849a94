"""Gradients that are differentiated again are those of the formula, however the inputs came about."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from saccade.kernels.additive import attention as additive_attention
from saccade.kernels.additive import blocked as additive_blocked
from saccade.kernels.additive import reference as additive_reference
from saccade.kernels.decoder import steps as decoder_reference
from saccade.kernels.decoder.steps import Memory
from saccade.kernels.dot import attention as dot_attention
from saccade.kernels.edges import blocked as edges_blocked
from saccade.kernels.edges import reference as edges_reference
from saccade.kernels.edges.graph import Graph
from saccade.kernels.local import blocked as local_blocked
from saccade.kernels.local import reference as local_reference
from saccade.kernels.second_order import gradients_through
from saccade.kernels.visibility import Visibility

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]  # query [N, S, D], key and value [N, S, D]
N, S, D = 2, 5, 3
NAMES = ("additive scores", "additive attention", "decoder", "edges", "local", "dot")


def pairs(dtype: torch.dtype = torch.float64) -> dict[str, tuple[Attention, Attention]]:
    """Each kernel with a backward pass of its own, and the formula it stands for."""
    v = torch.linspace(-1.0, 1.0, D, dtype=torch.float64).to(dtype)
    edges = Graph.of(torch.tensor([[0, 0, 1, 3, 4, 4, 4], [1, 2, 0, 3, 0, 2, 2]]), receivers=S)

    def along(module: object) -> Attention:
        return lambda query, key, value: module.edge_attention(  # type: ignore[attr-defined]
            *(each.transpose(0, 1) for each in (query, key, value)), v.expand(N, D), edges
        )

    def near(module: object) -> Attention:
        return lambda query, key, value: module.local_attention(query, key, value, radius=1)  # type: ignore[attr-defined]

    def weighed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return additive_reference.additive_scores(query, key, v).softmax(-1) @ value

    def attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return additive_attention.additive_attention(query, key, value, v.unsqueeze(0), Visibility(), engine="blocked")

    def stepped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return Memory.of(key, value, v=v).step(query[:, 0])[0]

    return {
        "additive scores": (
            lambda query, key, value: additive_blocked.additive_scores(query, key, v).softmax(-1) @ value,
            weighed,
        ),
        "additive attention": (attended, weighed),
        "decoder": (
            stepped,
            lambda query, key, value: decoder_reference.step_attention(query[:, 0], key, value, v=v)[0],
        ),
        "edges": (along(edges_blocked), along(edges_reference)),
        "local": (near(local_blocked), near(local_reference)),
        "dot": (dot_attention.dot_attention, lambda query, key, value: (query @ key.mT).softmax(-1) @ value),
    }


@pytest.mark.parametrize(
    "inputs",
    [
        lambda x: (x, x, x),
        lambda x: (x, x.sin(), x.sin()),
        lambda x: (x.cos(), 2 * x, x),
        lambda x: (x, x * x, x.exp()),
    ],
    ids=["all one tensor", "values are keys", "keys come of values", "keys and values come of queries"],
)
@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_come_of_each_other_are_counted_once(
    name: str, inputs: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
) -> None:
    torch.manual_seed(3)
    x = torch.randn(N, S, D, dtype=torch.float64, requires_grad=True)
    found = []
    for attention in pairs()[name]:
        (first,) = torch.autograd.grad(attention(*inputs(x)).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        found.append((first, second))
    torch.testing.assert_close(found[0], found[1])


def test_what_is_not_asked_for_or_not_reached_has_no_gradient() -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)

    def both(one: Tensor, other: Tensor, absent: None) -> tuple[Tensor, Tensor]:
        return one * 2, other * 3

    ones = torch.ones(3)
    assert gradients_through(both, (x, y, None), (None, None), (True, True, False)) == (None, None, None)
    of_x, of_y, _ = gradients_through(both, (x, y, None), (ones, None), (True, True, False))
    assert of_x is not None and of_x.tolist() == [2, 2, 2] and of_y is None
    of_x, of_y, _ = gradients_through(both, (x, y, None), (ones, ones), (False, True, False))
    assert of_x is None and of_y is not None and of_y.tolist() == [3, 3, 3]


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_differentiated_twice_as_exactly_as_once(name: str) -> None:
    x = torch.randn(N, S, D, dtype=torch.float64).mul(8).round().div(8)  # the same numbers in every dtype
    first: dict[torch.dtype, tuple[Tensor, ...]] = {}
    second: dict[torch.dtype, tuple[Tensor, ...]] = {}
    for dtype, which in ((torch.bfloat16, 0), (torch.float64, 1)):
        ours = [tensor.to(dtype).requires_grad_() for tensor in (x, x.roll(1, 1), x.roll(2, 1))]
        context = pairs(dtype)[name][which](*ours)
        weights = torch.arange(context.numel()).reshape(context.shape).remainder(3)
        gradients = torch.autograd.grad((context * weights).sum(), ours, create_graph=True)
        first[dtype] = gradients
        second[dtype] = torch.autograd.grad(torch.stack([each.sum() for each in gradients]).sum(), ours)
    for found in (first, second):
        for tensor, exact in zip(found[torch.bfloat16], found[torch.float64], strict=True):
            assert tensor.dtype == torch.bfloat16
            assert (tensor.double() - exact).abs().max() <= 0.02 * exact.abs().max().clamp_min(0.5)


def test_second_gradients_of_scores_beyond_the_range_of_float16_are_finite() -> None:
    query, key, value = (torch.full((1, S, D), 300.0) + torch.arange(S)[:, None] for _ in range(3))
    ours = [tensor.half().requires_grad_() for tensor in (query, key, value)]
    (first,) = torch.autograd.grad(dot_attention.dot_attention(*ours).sum(), ours[0], create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), ours[1])
    assert first.isfinite().all() and second.isfinite().all()
