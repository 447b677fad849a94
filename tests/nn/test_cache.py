"""Keys and values that are kept: each row at its own place, nothing overwritten, and rooms for recorded steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from saccade.nn import cache
from saccade.nn.cache import Cache, Room
from saccade.nn.search.selection import select
from saccade.nn.transformer import Decoder, Layout

B, H, D = 3, 2, 8
LENGTHS = torch.tensor([5, 1, 3])


@pytest.fixture
def decoder() -> Decoder:
    return Decoder(2, Layout(D, H, 12, norm="pre"), axes=("output", "input", None)).double().eval()


def states(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(B, count, D, generator=torch.Generator().manual_seed(seed)).double()


@torch.no_grad()
def test_rows_that_stand_at_different_places_go_on_as_they_would_alone(decoder: Decoder) -> None:
    before, new = states(5), states(4, seed=1)
    _, kept = decoder(before, lengths=LENGTHS)
    for count in (1, 4):  # one token, and several
        together, after = decoder(new[:, :count], kept)
        assert after.read.tolist() == (LENGTHS + count).tolist()
        for row, length in enumerate(LENGTHS.tolist()):
            whole, _ = decoder(torch.cat([before[row : row + 1, :length], new[row : row + 1, :count]], dim=1))
            torch.testing.assert_close(together[row : row + 1], whole[:, length:])


@torch.no_grad()
def test_a_state_can_be_gone_on_from_twice(decoder: Decoder) -> None:
    _, kept = decoder(states(3))
    copies = [part.clone() for part in kept.keys]
    first, after = decoder(states(1, seed=1), kept)
    decoder(states(1, seed=2), kept)
    torch.testing.assert_close(decoder(states(1, seed=1), kept)[0], first)
    for ours, theirs in zip(kept.keys, copies, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    again, _ = decoder(states(1, seed=3), after)
    torch.testing.assert_close(decoder(states(1, seed=3), after)[0], again)


@torch.no_grad()
def test_a_room_gives_what_a_growing_cache_gives_and_keeps_its_shape(decoder: Decoder) -> None:
    _, growing = decoder(states(5), lengths=LENGTHS)
    room: Any = growing
    sizes = []
    for step in range(33):
        room = cache.make_room(room, step)
        assert isinstance(room, Room)
        sizes.append(room.keys[0].shape[2])
        new = states(1, seed=step)
        expected, growing = decoder(new, growing)
        found, after = decoder(new, room)
        torch.testing.assert_close(found, expected)
        assert [part.shape for part in after.keys] == [part.shape for part in room.keys]
        rows = torch.tensor([0, 1, 2])
        room, growing = select(after, rows), select(growing, rows)
    assert sizes == [32] * 24 + [64] * 9  # 5 places, counted as 8, were taken before the first step


def test_a_room_that_is_large_enough_is_left_as_it_is() -> None:
    room = cache.make_room(cache.empty(B, 2, H, 4, torch.zeros(())), 0)
    assert room.keys[0].shape == (B, H, cache.ROOM, 4)
    assert cache.make_room(room, cache.ROOM - 1) is room
    assert cache.make_room(room, cache.ROOM).keys[1].shape == (B, H, 2 * cache.ROOM, 4)


def test_an_empty_cache_has_the_device_and_type_of_what_it_is_for() -> None:
    kept = cache.empty(B, 2, H, 4, torch.zeros(1, dtype=torch.bfloat16))
    assert isinstance(kept, Cache)
    assert kept.keys[1].dtype == torch.bfloat16
    assert kept.keys[1].shape == (B, H, 0, 4)


def test_gradients_flow_through_what_was_kept(decoder: Decoder) -> None:
    first = states(2).requires_grad_()
    _, kept = decoder(first)
    decoder(states(1, seed=1), kept)[0].square().sum().backward()
    assert first.grad is not None
    assert first.grad.abs().sum(-1).gt(0).all()
