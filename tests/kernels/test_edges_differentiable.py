"""Under torch.compile attention over edges is one operator, with the results and gradients it has elsewhere."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.kernels import choose
from saccade.kernels.edges import blocked, reference
from saccade.kernels.edges.graph import Graph
from tests.kernels.edge_cases import drawn
from tests.kernels.recorded import ours, recorded, value_and_gradients

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def case(dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], Graph, Tensor | None]:
    tensors, graph, gain = drawn("heads", DEVICE, dropped=True)
    return [tensor.to(dtype).requires_grad_() for tensor in tensors], graph, gain


@pytest.mark.parametrize(("engine", "dynamic"), [("blocked", None), ("blocked", True), ("fused", None)])
def test_torch_compile_takes_it_whole_with_the_same_results_and_gradients(engine: str, dynamic: bool | None) -> None:
    if engine == "fused":
        pytest.importorskip("triton")
    kernel: Any = importlib.import_module(f"saccade.kernels.edges.{engine}")
    tensors, graph, gain = case()
    seen: list[str] = []

    def attention(*given: Tensor) -> Tensor:
        return kernel.edge_attention(*given, graph, gain=gain, slope=0.1)  # type: ignore[no-any-return]

    found = value_and_gradients(recorded(attention, seen, dynamic), *tensors)
    torch.testing.assert_close(found, value_and_gradients(attention, *tensors))
    assert ours(seen) == ["edge_attention", "edge_attention_backward"]
    assert not any("leaky_relu" in name or "index" in name for name in seen)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_operators_say_truly_what_they_return(dtype: torch.dtype) -> None:
    tensors, graph, gain = case(dtype)
    rows = (graph.start, graph.receiver, graph.sender, graph.out_start, graph.out_edge, graph.out_receiver)
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    query, key, value, a = tensors
    given = (query.mT.contiguous().mT, key, value, a, gain, *rows, "tanh", 0.2, "blocked")
    torch.library.opcheck(torch.ops.saccade.edge_attention.default, given, test_utils=checks)
    looked = (query.detach(), key.detach(), a.detach(), *rows[:3], "tanh", 0.2, "blocked")
    torch.library.opcheck(torch.ops.saccade.edge_weights.default, looked, test_utils=checks)


def test_a_compiled_call_is_served_by_the_kernel_that_serves_it_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "EDGES_BLOCKED_PAY_FROM", 0)
    (query, key, value, a), graph, _ = case()
    weighed: list[str] = []
    seen: list[str] = []

    def attention(query: Tensor, key: Tensor, value: Tensor, a: Tensor) -> Tensor:
        return choose.choose_edges(query, key, value, graph).function(query, key, value, a, graph)

    def weights(query: Tensor, key: Tensor, a: Tensor) -> Tensor:
        return choose.choose_edges(query, key, key, graph).weights(query, key, a, graph)

    recorded(attention, seen, dynamic=True)(query, key, value, a)
    assert ours(seen)[0] == "edge_attention"
    found = recorded(weights, weighed)(query, key, a)
    assert ours(weighed) == ["edge_weights"]
    torch.testing.assert_close(found, reference.edge_weights(query, key, a, graph), rtol=1e-5, atol=1e-6)


def test_an_exported_graph_knows_only_pytorchs_own_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "EDGES_BLOCKED_PAY_FROM", 0)
    tensors, graph, _ = case()
    said: list[str] = []

    class Look(torch.nn.Module):
        def forward(self, *given: Tensor) -> Tensor:
            choice = choose.choose_edges(*given[:3], graph)
            said.append(str(choice))
            return choice.function(*given, graph)

    exported = torch.export.export(Look(), tuple(tensors), strict=False)
    assert not any("saccade" in str(node.target) for node in exported.graph.nodes)
    assert said[0].startswith("edges.reference") and "exported graph" in said[0]


def test_second_derivatives_through_the_operator_are_the_formulas_or_are_refused() -> None:
    tensors, graph, gain = case(torch.float64)

    def curvature(function: Any) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(function(*tensors).square().sum(), tensors, create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), tensors)

    def attention(*given: Tensor) -> Tensor:
        return blocked.edge_attention(*given, graph, act="tanh", gain=gain)

    torch._dynamo.reset()
    through = torch.compile(attention, backend="eager", fullgraph=True)
    formula = curvature(lambda *given: reference.edge_attention(*given, graph, act="tanh", gain=gain))
    torch.testing.assert_close(curvature(through), formula)
    with pytest.raises(RuntimeError, match=r"create_graph|double backward"):
        curvature(recorded(attention, []))
