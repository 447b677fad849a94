"""Additive attention as one operator: the contexts and gradients of the formula, whatever the engine and however it is cut."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.kernels.additive import attention, reference
from saccade.kernels.additive.attention import additive_attention
from saccade.kernels.visibility import Visibility

B, H, T, S, D, E = 2, 3, 5, 7, 9, 4
LENGTHS = torch.tensor([7, 3])
SEEN = {
    "everything": Visibility(),
    "lengths": Visibility(lengths=LENGTHS),
    "causal": Visibility(shift=1, after=0),
    "band, some blind": Visibility(shift=-2, before=1, after=0),
    "mask": Visibility(mask=torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(3)) < 0.6),
}
every_seen = pytest.mark.parametrize("name", SEEN)


def inputs(dtype: torch.dtype = torch.float64, seed: int = 1) -> list[Tensor]:
    torch.manual_seed(seed)
    shapes = ((B * H, T, D), (B * H, S, D), (B * H, S, E), (H, D))
    return [torch.randn(*shape).to(dtype).requires_grad_() for shape in shapes]


def moved(seen: Visibility) -> Visibility:
    device = torch.get_default_device()
    lengths, mask = (None if each is None else each.to(device) for each in (seen.lengths, seen.mask))
    return Visibility(lengths, seen.shift, seen.before, seen.after, mask)


def formula(query: Tensor, key: Tensor, value: Tensor, v: Tensor, seen: Visibility) -> Tensor:
    scores = seen.hide(reference.additive_scores(query, key, v.repeat(B, 1)), H)
    blind = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(blind, 0), -1).masked_fill(blind, 0) @ value


def found(function: object, given: list[Tensor], *args: object, **options: object) -> list[Tensor]:
    context = function(*given, *args, **options)  # type: ignore[operator]
    weight = torch.linspace(-1, 1, context.numel(), dtype=context.dtype).view_as(context)
    return [context, *torch.autograd.grad((context * weight).sum(), given)]


@every_seen
@pytest.mark.parametrize("kept", [True, False])
def test_contexts_and_gradients_are_the_formulas_in_blocks_of_queries_of_any_size(
    name: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setitem(attention.WEIGHTS_AT_ONCE, device, 2 * B * H * S)  # two queries at a time
    monkeypatch.setitem(attention.WEIGHTS_KEPT, device, 1 << 20 if kept else 0)
    given, seen = inputs(), moved(SEEN[name])
    for ours, theirs in zip(found(additive_attention, given, seen, heads=H), found(formula, given, seen), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-10)


@every_seen
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1e-3, 0.5, 30.0])
def test_errors_against_float64_are_no_more_than_twice_those_of_the_formula(
    name: str, dtype: torch.dtype, size: float
) -> None:
    seen = moved(SEEN[name])
    given = inputs(dtype)
    with torch.no_grad():
        given[0] *= size
        given[1] *= size
    exact = found(formula, [each.detach().double().requires_grad_() for each in given], seen)
    ours, theirs = found(additive_attention, given, seen, heads=H), found(formula, given, seen)
    for goal, mine, its in zip(exact, ours, theirs, strict=True):
        error, allowed = ((each.double() - goal).norm() for each in (mine, its))
        assert error <= 2 * allowed + 4 * torch.finfo(torch.float32).eps * goal.norm()


@pytest.mark.parametrize("name", ["direct", "separable"])
def test_a_gpus_engines_agree_with_the_formula(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: each engine's own kernels are tested in Triton's interpreter")
    given, seen = inputs(torch.float32), moved(SEEN["lengths"])
    ours = found(additive_attention, given, seen, heads=H, engine=name)
    tolerance = 1e-5 if name == "direct" else 5e-3
    for mine, theirs in zip(ours, found(formula, given, seen), strict=True):
        torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=tolerance)


def test_a_second_derivative_is_that_of_the_formula() -> None:
    given, seen = inputs(), moved(SEEN["lengths"])

    def curvature(function: object, *args: object, **options: object) -> tuple[Tensor, ...]:
        context = function(*given, *args, **options)  # type: ignore[operator]
        first = torch.autograd.grad(context.pow(2).sum(), given, create_graph=True)
        return torch.autograd.grad(sum(each.pow(2).sum() for each in first), given)

    for ours, theirs in zip(curvature(additive_attention, seen, heads=H), curvature(formula, seen), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kept", [True, False])
def test_dropout_drops_the_same_weights_forward_and_backward(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setitem(attention.WEIGHTS_AT_ONCE, device, 2 * B * H * S)
    monkeypatch.setitem(attention.WEIGHTS_KEPT, device, 1 << 20 if kept else 0)
    query, key, value, v = inputs()
    torch.manual_seed(5)
    context = additive_attention(query, key, value, v, Visibility(), heads=H, dropout=0.4)
    # The contexts are linear in the values, and their gradient is the matrix of dropped weights itself.
    weights = torch.stack([
        torch.autograd.grad(context[:, t, 0].sum(), value, retain_graph=True)[0][..., 0] for t in range(T)
    ], 1)  # fmt: skip
    torch.testing.assert_close(weights @ value, context)
    dropped = (weights == 0).double().mean()
    assert 0.25 < dropped < 0.55
    assert not torch.equal(weights[:, :2] == 0, weights[:, 2:4] == 0)  # each block of queries draws anew
    whole = torch.softmax(reference.additive_scores(query, key, v.repeat(B, 1)), -1)
    kept_ones = weights != 0
    torch.testing.assert_close(weights[kept_ones], (whole / 0.6)[kept_ones])


def test_memory_in_training_does_not_hold_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    query, key, value = (torch.randn(1, 300, 8).requires_grad_() for _ in range(3))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setitem(attention.WEIGHTS_KEPT, device, 0)
    saved: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        additive_attention(query, key, value, torch.randn(1, 8), Visibility())
    assert max(saved) <= 300 * 8


def test_torch_compile_takes_the_operator_whole() -> None:
    torch.library.opcheck(
        torch.ops.saccade.additive_attention.default,
        (*inputs(torch.float32), LENGTHS.to(torch.get_default_device()), None, 0, None, 0, H, 0.0,
         torch.zeros((), dtype=torch.int64, device="cpu"), "auto"),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )  # fmt: skip


@pytest.mark.parametrize("sizes", [(0, 7), (5, 0)])
def test_no_queries_or_no_keys_give_nothing_or_zeros(sizes: tuple[int, int]) -> None:
    T, S = sizes
    given = [torch.randn(2, T, 3), torch.randn(2, S, 3), torch.randn(2, S, 4), torch.randn(1, 3)]
    assert torch.equal(additive_attention(*given, Visibility()), torch.zeros(2, T, 4))
