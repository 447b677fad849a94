"""Masks of other libraries: recognised as lengths and a band where they are, taken row by row where not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.foreign.masks import DeferredMask, Sight, recognised, sight_of_mask
from saccade.kernels.visibility import Visibility

T, S = 7, 11
ROWS, KEYS = torch.arange(T)[:, None], torch.arange(S)


def sight(mask: Tensor) -> Sight:
    return recognised(lambda start, stop: mask[:, :, start:stop], *mask.shape[-2:], mask.device)


@pytest.mark.parametrize("block", [1 << 22, 30])
@pytest.mark.parametrize("shift", [-2, 0, 4])
@pytest.mark.parametrize(("before", "after"), [(None, 0), (2, 0), (None, None), (1, 2), (0, None)])
@pytest.mark.parametrize("real", ["all", "right", "left"])
def test_bands_and_padding_are_recognised_whole(block, shift, before, after, real, monkeypatch):
    monkeypatch.setattr("saccade.foreign.masks.BLOCK_NUMBERS", block)
    kept = {"all": KEYS < S, "right": KEYS < 8, "left": KEYS > 2}[real]
    band = torch.ones(T, S, dtype=torch.bool)
    if before is not None:
        band &= ROWS + shift - before <= KEYS
    if after is not None:
        band &= ROWS + shift + after >= KEYS
    mask = torch.stack([band & kept, band]).unsqueeze(1)  # [2, 1, T, S]: two items, one padded
    found = sight(mask)
    dense = found.block(0, T, mask.device)
    assert torch.equal(torch.ones_like(mask) if dense is None else dense.expand_as(mask), mask)
    part = found.of(2, 5).block(1, 3, mask.device)
    assert torch.equal(torch.ones_like(mask[:, :, 3:5]) if part is None else part.expand(2, 1, 2, S), mask[:, :, 3:5])
    if real == "all":
        assert found.seen is not None


def test_a_causal_mask_is_known_for_one():
    found = sight(torch.ones(7, 7, dtype=torch.bool).tril()[None, None])
    assert found.seen is not None and found.seen.causal


def test_a_mask_of_another_shape_is_taken_row_by_row():
    chunks = (ROWS // 3 == KEYS // 3)[None, None]
    found = sight(chunks)
    assert found.seen is None and torch.equal(found.block(2, 5, chunks.device), chunks[:, :, 2:5])


def test_numbers_that_hide_become_a_mask_and_others_are_added():
    hidden = torch.zeros(T, S).masked_fill(KEYS > ROWS, torch.finfo(torch.float32).min)
    found, added = sight_of_mask(hidden, T, S)
    assert added is None and found.seen is not None and found.seen.after is not None
    slopes = torch.zeros(T, S).masked_fill(KEYS > ROWS, -torch.inf) + torch.where(KEYS > ROWS, 0, 0.5 * KEYS)
    found, added = sight_of_mask(slopes, T, S)
    assert torch.equal(added, torch.where(KEYS > ROWS, 0, 0.5 * KEYS)[None, None])


@pytest.mark.parametrize("shape", [(T - 2, S), (T + 2, S), (T, S - 2), (T, S + 2), (2, 1, T + 1, S)])
def test_a_mask_for_other_queries_or_keys_is_an_error(shape):
    with pytest.raises(SaccadeError, match=rf"mask: expected \[\.\.\., {T}, {S}\].* found "):
        sight_of_mask(torch.zeros(shape), T, S)


def test_a_mask_may_say_the_same_of_all_queries_or_of_all_keys():
    for mask in (KEYS[None] < 6, ROWS < 4, torch.ones(1, 1, dtype=torch.bool)):
        found, _ = sight_of_mask(mask, T, S)
        visible = found.block(0, T, mask.device)
        expected = mask.expand(T, S)
        assert torch.equal(torch.ones_like(expected) if visible is None else visible.expand(1, 1, T, S)[0, 0], expected)


def test_a_deferred_mask_has_no_numbers_until_they_are_asked_for():
    made = []

    def rows(start: int, stop: int) -> Tensor:
        made.append((start, stop))
        return (ROWS // 3 == KEYS // 3)[None, None, start:stop]

    mask = DeferredMask.of(Sight(T, S, None, rows), 2, torch.device("cpu"))
    assert (mask.shape, mask.dim(), mask.dtype, mask.size(-1), len(mask)) == ((2, 1, T, S), 4, torch.bool, S, 2)
    assert not made
    assert torch.equal(mask[:, :, 1:3], (ROWS // 3 == KEYS // 3)[None, None, 1:3].expand(2, 1, 2, S))
    assert made and type(torch.where(mask, 0.0, 1.0)) is Tensor
    assert torch.equal(torch.stack([mask, mask])[1], (ROWS // 3 == KEYS // 3).expand(2, 1, T, S))


def test_seen_that_is_nothing_stays_nothing():
    found = sight(torch.zeros(1, 1, T, S, dtype=torch.bool))
    assert torch.equal(
        found.block(0, T, torch.device("cpu")).expand(1, 1, T, S), torch.zeros(1, 1, T, S, dtype=torch.bool)
    )
    assert Sight(T, S, Visibility()).block(0, T, torch.device("cpu")) is None
