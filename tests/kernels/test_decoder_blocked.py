"""A step without a tanh for each pair, and its gradients, are the reference's at every magnitude of the inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.kernels.decoder import blocked
from saccade.kernels.decoder import steps as reference

N, S, D, E = 3, 5, 7, 11
FEW_ROUNDINGS = 8 * torch.finfo(torch.float32).eps


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "TILE_ELEMENTS", 2 * S * D)  # two items, and one


def assert_within(found: Tensor, expected: Tensor, at_least: float = 0.0) -> None:
    """Off by no more than a few roundings of the largest value."""
    assert found.shape == expected.shape
    largest = max(expected.abs().max().item(), at_least)
    assert (found.double() - expected).abs().max().item() <= FEW_ROUNDINGS * largest


@pytest.mark.parametrize("query_size", [1e-6, 0.05, 1.0, 1e4])
@pytest.mark.parametrize("key_size", [1e-6, 0.05, 0.5, 3.0, 8.0, 30.0, 1e4])
def test_no_magnitude_of_the_inputs_costs_precision(query_size: float, key_size: float) -> None:
    query, key = query_size * torch.randn(N, D), key_size * torch.randn(N, S, D)
    value, v, grad_context = torch.randn(N, S, E), torch.rand(D), torch.randn(N, E)
    exact = [x.double().requires_grad_() for x in (query, key, value, v)]
    context, weights = reference.step_attention(*exact[:3], v=exact[3])
    grads = torch.autograd.grad(context, exact, grad_context.double())

    ready = blocked.prepare(key, value)
    found, looked = blocked.look(ready, query, v, 1.0, None, torch.float32)
    assert_within(looked, weights)
    assert_within(found, context)
    grad_query, row = blocked.look_back(ready, query, v, 1.0, looked, grad_context, None)
    grad_key, grad_value, grad_v = blocked.gather(ready, v, 1.0, row.unsqueeze(0))
    assert_within(grad_value, grads[2])
    # The gradient of the scores sums to 0: where tanh is much the same at all keys, its rounding is what is left.
    assert_within(grad_v, grads[3], at_least=min(1.0, query_size + key_size))
    # Slopes 1 − tanh² are differences from 1, and carry its rounding where they vanish.
    assert_within(grad_query, grads[0], at_least=1.0)
    assert_within(grad_key, grads[1], at_least=1.0)


@pytest.mark.parametrize("size", [0.1, 2.0, 100.0])
def test_keys_are_made_ready_once(size: float) -> None:
    ready = blocked.prepare(size * torch.rand(N, S, D), torch.randn(N, S, E))
    _, rows, _ = ready.sums(size * torch.rand(N, D))
    _, again, _ = ready.sums(size * torch.rand(N, D))
    assert again is rows


def test_a_larger_query_than_those_before_takes_another_way() -> None:
    key, value, v = 0.1 * torch.randn(N, S, D), torch.randn(N, S, E), torch.randn(D)
    ready = blocked.prepare(key, value)
    for size in (0.1, 3.0, 1e3, 0.1):
        query = size * torch.randn(N, D)
        _, weights = blocked.look(ready, query, v, 1.0, None, torch.float32)
        torch.testing.assert_close(weights, reference.step_attention(query, key, value, v=v)[1])


def test_what_is_not_a_number_comes_through_in_its_own_item_alone() -> None:
    query, key, value, v = torch.randn(N, D), torch.randn(N, S, D), torch.randn(N, S, E), torch.randn(D)
    query[1, 2] = torch.nan
    context, _ = blocked.look(blocked.prepare(key, value), query, v, 1.0, None, torch.float32)
    expected, _ = reference.step_attention(query, key, value, v=v)
    torch.testing.assert_close(context, expected, equal_nan=True)
    assert context[1].isnan().all() and not context[[0, 2]].isnan().any()


def test_infinite_keys_saturate() -> None:
    query, key, value, v = torch.randn(N, D), torch.randn(N, S, D), torch.randn(N, S, E), torch.randn(D)
    key[0, 0, 0], key[0, 1, 0] = torch.inf, -torch.inf
    _, weights = blocked.look(blocked.prepare(key, value), query, v, 1.0, None, torch.float32)
    torch.testing.assert_close(weights, reference.step_attention(query, key, value, v=v)[1])


def test_a_step_holds_a_tile_and_not_all_sums() -> None:
    ready = blocked.prepare(torch.randn(20, S, D), torch.randn(20, S, E))
    tiles = [(items, hidden.data_ptr(), len(hidden)) for items, hidden in ready.tiles(torch.randn(20, D))]
    assert [size for _, _, size in tiles] == [2] * 10
    assert len({place for _, place, _ in tiles}) == 1
