"""Gradients that the steps of a decoder sum in one place are those that autograd would add up."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.local import blocked
from saccade.kernels.local.memory import Memory, remember

N, T, S, D, E = 3, 5, 11, 7, 4


@pytest.fixture(params=[torch.float64, torch.bfloat16])
def tensors(request: pytest.FixtureRequest) -> list[Tensor]:
    torch.manual_seed(7)
    shapes = ((N, T, D), (N, S, D), (N, S, E), (N, T))
    made = [torch.randn(shape, dtype=torch.float64).to(request.param) for shape in shapes]
    made[3] = made[3].abs() * 3
    return [tensor.requires_grad_() for tensor in made]


def decoded(tensors: list[Tensor], memory: Memory | None = None, radius: int = 2) -> Tensor:
    """A loss over T steps, local-m and local-p by turns."""
    query, key, value, centre = tensors
    loss: Any = 0
    for t in range(T):
        where: dict[str, Any] = {"centre": centre[:, t : t + 1], "sigma": 1.0} if t % 2 else {"shift": t}
        context = blocked.local_attention(query[:, t : t + 1], key, value, radius=radius, memory=memory, **where)
        loss = loss + context.float().square().sum()
    return loss  # type: ignore[no-any-return]


def test_sums_of_steps_are_the_gradients(tensors: list[Tensor]) -> None:
    found = torch.autograd.grad(decoded(tensors, remember(tensors[1], tensors[2])), tensors)
    expected = torch.autograd.grad(decoded(tensors), tensors)
    loose = tensors[0].dtype == torch.bfloat16  # without a memory each step's part is rounded to it
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, **({"atol": 5e-2, "rtol": 5e-2} if loose else {}))


def test_a_second_backward_pass_starts_from_nothing(tensors: list[Tensor]) -> None:
    loss = decoded(tensors, remember(tensors[1], tensors[2]))
    torch.autograd.grad(loss, tensors[:1], retain_graph=True)  # asks for no gradient of keys
    first = torch.autograd.grad(loss, tensors, retain_graph=True)
    again = torch.autograd.grad(loss, tensors)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    expected = torch.autograd.grad(decoded(tensors, remember(tensors[1], tensors[2])), tensors)
    assert all(torch.equal(one, other) for one, other in zip(first, expected, strict=True))


@pytest.mark.parametrize("frozen", [1, 2])
def test_keys_or_values_may_be_frozen(tensors: list[Tensor], frozen: int) -> None:
    tensors[frozen] = tensors[frozen].detach()
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    found = torch.autograd.grad(decoded(tensors, remember(tensors[1], tensors[2])), wanted)
    expected = torch.autograd.grad(decoded(tensors), wanted)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=5e-2, rtol=5e-2)


def test_a_memory_ends_with_its_last_user(tensors: list[Tensor]) -> None:
    keys, values = tensors[1] * 1, tensors[2] * 1
    seen = weakref.ref(keys)
    gc.disable()
    try:
        decoded([tensors[0], keys, values, tensors[3]], remember(keys, values)).backward()
        del keys, values
        assert seen() is None
    finally:
        gc.enable()


def test_second_derivatives_are_refused(tensors: list[Tensor]) -> None:
    loss = decoded(tensors, remember(tensors[1], tensors[2]))
    with pytest.raises(SaccadeError, match="pass no memory where create_graph=True"):
        torch.autograd.grad(loss, tensors[1:2], create_graph=True)


def test_a_memory_of_other_keys_is_refused(tensors: list[Tensor]) -> None:
    with pytest.raises(SaccadeError, match="memory was made of other keys or values"):
        decoded(tensors, remember(tensors[1].clone(), tensors[2]))
