"""What a row kept is read where it was written: by its line of descent, as if it had been copied to the row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.beam_kv.reference import cached_attention, in_line

R, H, P, D = 6, 2, 5, 3


def drawn(items: int = R) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(R, H, D).double(), torch.randn(items, H, P, D).double(), torch.randn(items, H, P, D).double()


def by_hand(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """One row: query [H, d], key and value [H, P, d]."""
    if not count:
        return torch.zeros_like(query)
    weights = (0.7 * torch.einsum("hd,hpd->hp", query, key[:, :count])).softmax(-1)
    return torch.einsum("hp,hpd->hd", weights, value[:, :count])


def test_each_row_reads_the_places_it_has_and_zeros_where_it_has_none() -> None:
    query, key, value = drawn()
    counts = [5, 1, 0, 3, 2, 4]
    found = cached_attention(query, key, value, torch.tensor(counts), scale=0.7)
    for row, count in enumerate(counts):
        torch.testing.assert_close(found[row], by_hand(query[row], key[row], value[row], count))


def test_rows_in_turn_share_an_item() -> None:
    query, key, value = drawn(items=2)
    found = cached_attention(query, key, value, torch.tensor([4, 2]), scale=0.7)
    for row in range(R):
        item = row // 3
        torch.testing.assert_close(found[row], by_hand(query[row], key[item], value[item], (4, 2)[item]))


def test_a_line_of_descent_reads_what_copies_would_hold() -> None:
    query, key, value = drawn()
    line = torch.tensor([[row_of - row for row_of in torch.randint(R, (P,)).tolist()] for row in range(R)])
    copied = [
        torch.stack([part[r + line[r], :, torch.arange(P)].transpose(0, 1) for r in range(R)]) for part in (key, value)
    ]
    torch.testing.assert_close(in_line(key, line), copied[0], rtol=0, atol=0)
    counts = torch.tensor([5, 1, 0, 3, 2, 4])
    expected = cached_attention(query, copied[0], copied[1], counts, scale=0.7)
    torch.testing.assert_close(cached_attention(query, key, value, counts, line, scale=0.7), expected)


def test_what_lies_beyond_a_rows_places_is_never_read() -> None:
    query, key, value = drawn()
    counts = torch.tensor([5, 1, 0, 3, 2, 4])
    expected = cached_attention(query, key, value, counts, scale=0.7)
    for row, count in enumerate(counts.tolist()):
        key[row, :, count:] = value[row, :, count:] = torch.nan
    torch.testing.assert_close(cached_attention(query, key, value, counts, scale=0.7), expected)


def test_rows_that_do_not_share_items_evenly_are_refused() -> None:
    query, key, value = drawn(items=4)
    with pytest.raises(SaccadeError, match="rows must be a multiple of items: got 6 rows for 4 items"):
        cached_attention(query, key, value, torch.ones(4, dtype=torch.int64), scale=1.0)
    with pytest.raises(SaccadeError, match=r"line of descent .* got 6 rows for 2 items"):
        cached_attention(
            query, key[:2], value[:2], torch.ones(2, dtype=torch.int64), torch.zeros(R, P).long(), scale=1.0
        )
