"""A loop of steps over one memory gives what autograd gives through the reference, step by step."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.decoder import blocked
from saccade.kernels.decoder import steps as reference
from saccade.kernels.decoder.steps import Memory

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, S, D, E = 3, 5, 7, 4
REAL = torch.tensor([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool, device=DEVICE)

Step = Callable[[Tensor], tuple[Tensor, Tensor]]


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "TILE_ELEMENTS", 2 * S * D)  # two items, and one


def drawn(score: str = "additive", dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    shapes = {"start": (N, D), "key": (N, S, D), "value": (N, S, E), "turn": (D, E), "v": (D,)}
    if score == "dot":
        del shapes["v"]
    return {name: torch.randn(*shape, dtype=dtype).requires_grad_() for name, shape in shapes.items()}


def remembered(tensors: dict[str, Tensor], **asked: Any) -> Step:
    return Memory.of(tensors["key"], tensors["value"], v=tensors.get("v"), **asked).step


def by_reference(tensors: dict[str, Tensor], **asked: Any) -> Step:
    def step(query: Tensor) -> tuple[Tensor, Tensor]:
        return reference.step_attention(query, tensors["key"], tensors["value"], v=tensors.get("v"), **asked)

    return step


def unrolled(step: Step, tensors: dict[str, Tensor], T: int) -> tuple[list[Tensor], list[Tensor]]:
    """A decoder in small: each query comes of the context before it."""
    query, contexts, weights = tensors["start"], [], []
    for _ in range(T):
        context, looked = step(query)
        query = torch.tanh(context @ tensors["turn"].mT + query)
        contexts.append(context)
        weights.append(looked)
    return contexts, weights


def loss_of(contexts: list[Tensor], weights: list[Tensor]) -> Tensor:
    # torch.compile does not heed a default device.
    gains = torch.arange(1, S + 1, dtype=weights[0].dtype, device=weights[0].device)
    return sum((c.square().sum() for c in contexts), weights[-1].mul(gains).sum())


def gradients(loss: Tensor, tensors: dict[str, Tensor], **asked: Any) -> dict[str, Tensor]:
    asked["materialize_grads"] = True  # `turn` has no part in a single step
    return dict(zip(tensors, torch.autograd.grad(loss, list(tensors.values()), **asked)))


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-12) -> None:
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name].to(tensor.dtype), tensor, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("real", [None, REAL])
@pytest.mark.parametrize("score", ["additive", "dot"])
@pytest.mark.parametrize("T", [1, 2, 5])
def test_a_loop_has_the_references_outputs_and_gradients(T: int, score: str, real: Tensor | None) -> None:
    tensors = drawn(score)
    asked = {"real": real, **({"scale": 0.6} if score == "dot" else {})}
    found, expected = (unrolled(make(tensors, **asked), tensors, T) for make in (remembered, by_reference))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert_same(gradients(loss_of(*found), tensors), gradients(loss_of(*expected), tensors))


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_the_fused_arithmetic_gives_the_same(score: str) -> None:
    pytest.importorskip("triton")
    from saccade.kernels.decoder import fused

    exact = drawn(score)
    rounded = {name: x.detach().float().requires_grad_() for name, x in exact.items()}
    contexts, weights = unrolled(remembered(rounded, real=REAL, arithmetic=fused), rounded, 3)
    loss = sum((c.square().sum() for c in contexts), weights[1].square().sum())
    expected = unrolled(by_reference(exact, real=REAL), exact, 3)
    exact_loss = sum((c.square().sum() for c in expected[0]), expected[1][1].square().sum())
    assert_same(gradients(loss, rounded), gradients(exact_loss, exact), 2e-5)


def test_gathering_in_several_tiles_by_triton_is_that_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from saccade.kernels.decoder import fused

    monkeypatch.setattr(fused, "gather_tiles", lambda S, D: fused.Tiles(2, 4, 1, 4))
    key, v, rows = torch.randn(2, S, D), torch.randn(D), torch.randn(3, 2, D + 2 * S + E)
    exact = key.double()
    found = fused.gather(fused.prepare(key, key), v, 1.0, rows)
    for one, other in zip(found, blocked.gather(blocked.prepare(exact, exact), v.double(), 1.0, rows.double())):
        torch.testing.assert_close(one.double(), other, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_gradients_are_those_of_finite_differences_to_the_second_order(score: str) -> None:
    tensors = {name: x[:2].detach() if name not in ("turn", "v") else x.detach() for name, x in drawn(score).items()}
    names, real = list(tensors), REAL[:2]

    def whole(*leaves: Tensor) -> Tensor:
        given = dict(zip(names, leaves))
        contexts, weights = unrolled(remembered(given, real=real), given, 2)
        return torch.cat([contexts[-1].flatten(), weights[-1].flatten()])

    leaves = [x.requires_grad_() for x in tensors.values()]
    assert torch.autograd.gradcheck(whole, leaves)
    with torch.device("cpu"):  # where it draws its directions
        assert torch.autograd.gradgradcheck(whole, leaves, fast_mode=True)


def test_a_penalty_on_gradients_reaches_keys_values_and_v() -> None:
    def penalty(make: Callable[..., Step]) -> dict[str, Tensor]:
        contexts, _ = unrolled(make(tensors, real=REAL), tensors, 3)
        slopes = torch.autograd.grad(contexts[-1].sum(), [tensors["start"], tensors["key"]], create_graph=True)
        return gradients(sum(slope.square().sum() for slope in slopes), tensors)

    tensors = drawn()
    assert_same(penalty(remembered), penalty(by_reference))


def test_a_step_that_no_loss_depends_on_has_no_part() -> None:
    tensors = drawn()
    results = []
    for make in (remembered, by_reference):
        step = make(tensors)
        first, _ = step(tensors["start"])
        step(first @ tensors["turn"].mT)
        step(tensors["start"] * 2)[0].square()
        _, weights = step(tensors["start"] * 3)
        results.append(gradients(first.sum() + weights.square().sum(), tensors))
    assert_same(*results)


def test_the_gradient_of_the_memory_is_made_once_and_steps_make_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = []
    gather = blocked.gather
    monkeypatch.setattr(blocked, "gather", lambda *asked: gathered.append(asked[-1].shape) or gather(*asked))
    tensors = drawn()
    gradients(loss_of(*unrolled(remembered(tensors), tensors, 4)), tensors)
    assert gathered == [(4, N, D + 2 * S + E)]


def test_more_steps_than_expected_are_right_too() -> None:
    tensors = drawn()
    expected = gradients(loss_of(*unrolled(by_reference(tensors), tensors, 5)), tensors)
    for steps in (0, 1, 2, 5):
        assert_same(gradients(loss_of(*unrolled(remembered(tensors, steps=steps), tensors, 5)), tensors), expected)


def test_a_graph_kept_gives_the_same_gradients_again() -> None:
    tensors = drawn()
    loss = loss_of(*unrolled(remembered(tensors), tensors, 3))
    first = gradients(loss, tensors, retain_graph=True)
    assert_same(gradients(loss, tensors, retain_graph=True), first, 0.0)
    loss.backward()
    assert_same({name: x.grad for name, x in tensors.items()}, first, 0.0)


def test_gradients_of_queries_alone_leave_nothing_behind() -> None:
    tensors = drawn()
    contexts, weights = unrolled(remembered(tensors), tensors, 3)
    loss = loss_of(contexts, weights)
    torch.autograd.grad(loss, tensors["start"], retain_graph=True)
    torch.autograd.grad(contexts[1].sum(), tensors["key"], retain_graph=True)
    expected = loss_of(*unrolled(by_reference(tensors), tensors, 3))
    assert_same(gradients(loss, tensors), gradients(expected, tensors))


@pytest.mark.parametrize("wanted", ["start", "key", "value", "v"])
def test_only_one_of_the_inputs_may_want_a_gradient(wanted: str) -> None:
    tensors = {name: x.detach().requires_grad_(name == wanted) for name, x in drawn().items()}
    results = [
        torch.autograd.grad(loss_of(*unrolled(make(tensors), tensors, 3)), tensors[wanted])
        for make in (remembered, by_reference)
    ]
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


def test_without_gradients_nothing_is_kept() -> None:
    tensors = drawn()
    memory = Memory.of(tensors["key"], tensors["value"], v=tensors["v"])
    with torch.no_grad():
        context, weights = memory.step(tensors["start"])
    assert context.grad_fn is None and weights.grad_fn is None
    assert memory.step(tensors["start"])[0].requires_grad
    with torch.inference_mode():
        assert torch.equal(memory.step(tensors["start"])[0], context)


def test_a_memory_made_without_gradients_still_gives_them_to_its_steps() -> None:
    tensors = drawn()
    with torch.no_grad():
        step = remembered(tensors)
    expected = loss_of(*unrolled(by_reference(tensors), tensors, 2))
    assert_same(gradients(loss_of(*unrolled(step, tensors, 2)), tensors), gradients(expected, tensors))


def test_keys_changed_in_place_are_seen_by_the_next_step() -> None:
    tensors = {name: x.detach() for name, x in drawn().items()}
    step = remembered(tensors)
    before, _ = step(tensors["start"])
    tensors["key"][:, 1] += 1
    after, _ = step(tensors["start"])
    torch.testing.assert_close(after, by_reference(tensors)(tensors["start"])[0])
    assert not torch.allclose(before, after)


def test_keys_changed_after_a_step_are_refused() -> None:
    tensors = drawn()
    key = tensors["key"] * 1
    context, _ = Memory.of(key, tensors["value"], v=tensors["v"]).step(tensors["start"])
    key.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        context.sum().backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_gradients_of_a_half_memory_are_rounded_once(dtype: torch.dtype) -> None:
    tensors = {name: x.detach().to(dtype).requires_grad_() for name, x in drawn().items() if name != "turn"}
    exact = {name: x.detach().double().requires_grad_() for name, x in tensors.items()}
    results = []
    for given, make in ((tensors, remembered), (exact, by_reference)):
        step = make(given, real=REAL)
        loss = sum(step(given["start"] * gain)[0].float().sum() for gain in (1, 2, 4))
        results.append(gradients(loss, given))
    for name in ("key", "value", "v"):
        found, expected = results[0][name], results[1][name]
        assert found.dtype is dtype
        one_rounding = 0.5001 * torch.finfo(dtype).eps * expected.abs()
        assert ((found.double() - expected).abs() <= one_rounding + 1e-5).all(), name


def test_autocast_rounds_the_context_and_no_arithmetic() -> None:
    tensors = drawn(dtype=torch.float32)
    step = remembered(tensors, real=REAL)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        context, weights = step(tensors["start"])
        found = gradients(weights.square().sum(), {name: tensors[name] for name in ("start", "key", "v")})
    expected, exact = by_reference(tensors, real=REAL)(tensors["start"])
    assert context.dtype is torch.bfloat16
    torch.testing.assert_close(context, expected.bfloat16())
    torch.testing.assert_close(weights, exact)
    assert_same(found, gradients(exact.square().sum(), {name: tensors[name] for name in found}), 1e-5)


def test_torch_compile_records_a_loop_as_one_graph() -> None:
    tensors = drawn()

    def whole(**given: Tensor) -> Tensor:
        return loss_of(*unrolled(remembered(given, real=REAL), given, 2))

    compiled = torch.compile(whole, backend="eager", fullgraph=True)
    assert_same(gradients(compiled(**tensors), tensors), gradients(whole(**tensors), tensors))


def test_lengths_and_real_are_one_window() -> None:
    tensors = drawn()
    asked = {"real": REAL, "lengths": torch.tensor([4, 1, 5])}
    for one, other in zip(
        remembered(tensors, **asked)(tensors["start"]), by_reference(tensors, **asked)(tensors["start"])
    ):
        torch.testing.assert_close(one, other)


def test_a_query_of_another_shape_is_refused() -> None:
    tensors = drawn()
    with pytest.raises(SaccadeError, match=r"query: expected \[N, D\] = \[3, 7\] beside the keys, found \[1, 7\]"):
        remembered(tensors)(tensors["start"][:1])
    with pytest.raises(SaccadeError, match="v and scale: expected one of them, found both"):
        remembered(tensors, scale=2.0)


def test_without_triton_or_a_gpu_the_blocked_arithmetic_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    from saccade.kernels.decoder import steps as loop

    def chosen(device: str, dtype: torch.dtype) -> ModuleType:
        stand_in: Any = type("Keys", (), {"is_cuda": device == "cuda", "dtype": dtype})()
        return loop._arithmetic(stand_in, stand_in)

    monkeypatch.setattr(loop, "has_fused", lambda keys: False)
    assert chosen("cuda", torch.float32) is blocked
    monkeypatch.setattr(loop, "has_fused", lambda keys: keys.is_cuda)
    assert chosen("cpu", torch.float32) is blocked
    assert chosen("cuda", torch.float64) is blocked
    pytest.importorskip("triton")
    from saccade.kernels.decoder import fused

    assert chosen("cuda", torch.bfloat16) is fused
