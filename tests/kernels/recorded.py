"""What torch.compile records of a function: the operators of its forward and backward graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd


def recorded(function: Callable[..., Tensor], seen: list[str], dynamic: bool | None = None) -> Callable[..., Tensor]:
    """The function compiled in one graph; ``seen`` gets the names of the operators as they are recorded."""
    torch._dynamo.reset()

    def keep(graph: torch.fx.GraphModule, _: object) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph.forward)

    compiled: Callable[..., Tensor] = torch.compile(
        function, backend=aot_autograd(fw_compiler=keep), fullgraph=True, dynamic=dynamic
    )
    return compiled


def ours(seen: list[str]) -> list[str]:
    """Those of this package, without namespace and overload, each once, in the order they were met."""
    return list(dict.fromkeys(name.split(".")[1] for name in seen if name.startswith("saccade.")))


def value_and_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    value = function(*inputs)
    wanted = [each for each in inputs if each.requires_grad]
    return [value, *torch.autograd.grad(value.float().square().sum(), wanted)]
