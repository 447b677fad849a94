"""A window that breaks a promise is told which one; one that keeps them all passes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from saccade.attention.windows import Window, band, causal, everywhere, gaussian, padding
from saccade.testing import ContractBroken, check_window

CENTRE = torch.tensor([[0.3, 1.2, 2.7, 3.1], [1.0, 2.0, 0.4, 4.0]], dtype=torch.float64)


class Moving(nn.Module):
    """Luong's local-p, learned."""

    def __init__(self, query_width: int) -> None:
        super().__init__()
        self.where = nn.Linear(query_width, 1)

    def forward(self, query, lengths):
        return gaussian(lengths.unsqueeze(-1) * torch.sigmoid(self.where(query)).squeeze(-1), 2)


class Mean(Moving):
    """All queries of a call share a centre: not so when they come one at a time."""

    def forward(self, query, lengths):
        return super().forward(query.mean(1, keepdim=True).expand_as(query), lengths)


class Nothing(Moving):
    def forward(self, query, lengths):
        return None


@pytest.mark.parametrize("part", [everywhere, causal, band(1), padding(torch.tensor([5, 3])), causal & band(2), Moving])
def test_a_window_that_keeps_its_promises_passes(part):
    assert len(check_window(part)) == 5


def test_a_window_that_holds_tensors_says_what_each_query_sees_alone():
    assert check_window(gaussian(CENTRE, 2), row=lambda t: gaussian(CENTRE[:, t : t + 1], 2))


class Numbers(Window):
    def visible(self, extent):
        return (extent.key_positions <= extent.query_positions).float()


class Sideways(Window):
    def visible(self, extent):
        return (extent.key_positions <= extent.query_positions).mT


class Offsetless(Window):
    def visible(self, extent):
        return extent.key_positions <= torch.arange(extent.queries).unsqueeze(-1)


class FromTheEnd(Window):
    def visible(self, extent):
        return (extent.key_positions >= extent.keys - 3).expand(extent.queries, -1)


class Negative(Window):
    def gain(self, extent):
        return -torch.ones(extent.queries, extent.keys, dtype=extent.dtype)


class Deaf(Window):
    def visible(self, extent):
        return extent.key_positions <= extent.query_positions

    def __and__(self, other):
        return self


class Fickle(Window):
    def visible(self, extent):
        return torch.rand(extent.queries, extent.keys) < 0.5


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Numbers(), r"visible gave torch\.float32, expected booleans"),
        (Sideways(), r"visible gave \[5, 4\] for \[2, 4, 5\]"),
        (Offsetless(), r"one at a time .*query 1 alone \(offset=1\) sees other keys than among all 4"),
        (FromTheEnd(), r"visibility does not depend on padding: \d+ keys change sides .* from 5 to 8 keys"),
        (Negative(), r"the least gain is -1"),
        (Deaf(), r"composes with other windows by &: window & padding is not the intersection of both"),
        (Fickle(), r"a second call gives the same mask"),
        (Mean, r"queries see the same keys one at a time"),
        (Nothing, r"expected forward\(query, lengths\) to return a Window, found a NoneType"),
    ],
)
def test_a_broken_promise_is_named(part, message):
    torch.manual_seed(1)
    with pytest.raises(ContractBroken, match=f"(?s){message}"):
        check_window(part)
