"""A score that breaks a promise is told which one, with numbers; one that keeps them all passes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from saccade.attention.scores import general
from saccade.testing import ContractBroken, check_score


class Fine(nn.Module):
    """qᵀ W k; the base of those that are not."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(key_width, query_width))

    def prepare(self, key: Tensor) -> Tensor:
        return key @ self.weight

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT


class Transposed(Fine):
    def forward(self, query, key):
        return key @ query.mT


class NotANumber(Fine):
    def forward(self, query, key):
        return super().forward(query, key) * torch.nan


class OverTheKeys(Fine):
    def forward(self, query, key):
        return super().forward(query, key).softmax(-1)


class OverTheQueries(Fine):
    def forward(self, query, key):
        return super().forward(query, key).softmax(-2)


class OverTheBatch(Fine):
    def forward(self, query, key):
        return super().forward(query - query.mean(0), key)


class OverTheHeads(Fine):
    def forward(self, query, key):
        return super().forward(query - query.mean(1, keepdim=True) if query.dim() == 4 else query, key)


class Single(Fine):
    def forward(self, query, key):
        return super().forward(query, key).float()


class Unused(Fine):
    def __init__(self, query_width, key_width):
        super().__init__(query_width, key_width)
        self.bias = nn.Parameter(torch.zeros(key_width))


class Detached(Fine):
    def forward(self, query, key):
        return super().forward(query.detach() * 1.0 + query * 0.5 - query.detach() * 0.5, key)


class Endless(Fine):
    def forward(self, query, key):
        return (
            super()
            .forward(query, key)
            .sub(0)
            .abs()
            .sqrt()
            .where(query[..., :1] > 9, super().forward(query, key) * 0)
            .sqrt()
        )


class Rewriting(Fine):
    def forward(self, query, key):
        scores = super().forward(query, key)
        query.data.mul_(1.5)
        return scores


class Remembering(Fine):
    def forward(self, query, key):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(query, key) + self.calls


class Raising(Fine):
    def forward(self, query, key):
        return query @ key


class Mixing(Fine):
    def prepare(self, key):
        return key.mean(-2, keepdim=True)


def test_a_score_that_keeps_its_promises_passes_in_every_form():
    promises = check_score(Fine)
    assert len(promises) == 9
    assert check_score(Fine(5, 7)) == promises
    assert check_score(general(torch.randn(3, 4)), 3, 4) == promises


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (Transposed, r"Transposed breaks 1 of 9 promises:\n.*expected scores \[2, 4, 5\], found \[2, 5, 4\]"),
        (NotANumber, r"scores are numbers .*20|40 of .* are NaN"),
        (OverTheKeys, r"does not depend on other keys.*of 24 numbers differ, most at \[\d, \d, \d\]: expected .*, found"),
        (OverTheQueries, r"queries have the same scores one at a time and all at once: .*numbers differ"),
        (OverTheBatch, r"an item has the same scores alone and in a batch: item 0"),
        (OverTheHeads, r"heads are scored independently: head 0"),
        (Single, r"float64: torch\.float64 in, torch\.float32 out"),
        (Unused, r"reach every parameter: bias \[7\] got none"),
        (Detached, r"not those of finite differences"),
        (Endless, r"the gradient of .* are NaN or infinite"),
        (Rewriting, r"do not modify their arguments: the query that was given: .*differ"),
        (Remembering, r"calls keep no state.*the same call again, after another"),
        (Raising, r"expected forward\(query, key\) to work, found RuntimeError: .*test_scores\.py, line \d+\)"),
        (Mixing, r"prepare\(key\) .*\[2, 5, '…'\].*found \[2, 1, 7\]"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_named_with_numbers(score, message):
    with pytest.raises(ContractBroken, match=f"(?s){message}"):
        check_score(score)


def test_heads_may_be_none_of_its_business():
    check_score(OverTheHeads, heads=False)


def test_what_cannot_be_made_is_reported():
    with pytest.raises(
        ContractBroken, match=r"Lone cannot be made: Lone: expected a class made by \(query_width=5, key_width=7\)"
    ):
        check_score(type("Lone", (nn.Module,), {"__init__": lambda self: None}))


def test_a_broken_contract_is_an_assertion_that_fails():
    assert issubclass(ContractBroken, AssertionError)
