"""PyTorch's attention with a gradient that can be differentiated again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.kernels.dot.attention import dot_attention

MASKS = {
    "none": {},
    "causal": {"causal": True},
    "mask, a blind row": {"mask": torch.tensor([[1, 0, 1, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1],
                                                [0, 1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 1]]).bool()},
}  # fmt: skip


def tensors(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8))
    return [torch.randn(*shape, dtype=dtype).requires_grad_() for shape in shapes]


def options(name: str) -> dict[str, object]:
    device = torch.get_default_device()
    return {key: each.to(device) if isinstance(each, Tensor) else each for key, each in MASKS[name].items()}


def formula(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    seen = torch.ones(5, 7, dtype=torch.bool) if mask is None else mask
    seen = seen.tril() if causal else seen
    scores = (0.3 * query @ key.mT).masked_fill(~seen, -1e30)
    return (torch.softmax(scores, -1) * seen.any(-1, keepdim=True)) @ value


@pytest.mark.parametrize("name", MASKS)
def test_contexts_and_first_and_second_derivatives_are_the_formulas(name: str) -> None:
    given, how = tensors(), options(name)
    found, expected = dot_attention(*given, scale=0.3, **how), formula(*given, **how)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected)
    firsts = [torch.autograd.grad(each.pow(2).sum(), given, retain_graph=True) for each in (found, expected)]
    for ours, theirs in zip(*firsts, strict=True):
        torch.testing.assert_close(ours, theirs)
    seconds = []
    for each in (found, expected):
        first = torch.autograd.grad(each.pow(2).sum(), given, create_graph=True)
        seconds.append(torch.autograd.grad(sum(part.pow(2).sum() for part in first), given))
    for ours, theirs in zip(*seconds, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_only_what_needs_a_gradient_gets_one_and_a_graph_that_is_kept_serves_twice() -> None:
    query, key, value = tensors()
    context = dot_attention(query, key.detach(), value, scale=0.3)
    for _ in range(2):
        context.sum().backward(retain_graph=True)
    expected = torch.autograd.grad(formula(query, key.detach(), value).sum(), (query, value))
    torch.testing.assert_close(query.grad, 2 * expected[0])
    torch.testing.assert_close(value.grad, 2 * expected[1])


def test_queries_without_heads_are_given_an_axis_of_them_so_that_weights_need_not_be_held() -> None:
    given = [each[:, 0] for each in tensors(torch.float32)]  # a GPU has no fast kernel for float64
    shown = torch.rand(2, 5, 7) > 0.4
    expected = dot_attention(*(each.unsqueeze(1) for each in given), scale=0.3, mask=shown)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        found = dot_attention(*given, scale=0.3, mask=shown)
    torch.testing.assert_close(found, expected.squeeze(1))
    called = [event.key for event in seen.key_averages()]
    assert not any("_scaled_dot_product_attention_math" in name for name in called)
    assert any("flash_attention" in name or "efficient_attention" in name for name in called)
