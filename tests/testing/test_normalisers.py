"""A normaliser that breaks a promise is told which one, with numbers; one that keeps them all passes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from saccade.attention.normalise import entmax15, sharpened, softmax, sparsemax
from saccade.testing import ContractBroken, check_normaliser


class Learned(nn.Module):
    """softmax(β z), done right."""

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(1.5))

    def forward(self, scores):
        hidden = scores == -torch.inf
        return softmax((scores.masked_fill(hidden, 0) * self.beta).masked_fill(hidden, -torch.inf))


class Careless(Learned):
    def forward(self, scores):
        return softmax(scores * self.beta)


class Idle(Learned):
    def forward(self, scores):
        return softmax(scores)


@pytest.mark.parametrize(
    "part", [softmax, sparsemax, entmax15, sharpened(2.0), Learned, Learned(), lambda z: softmax(z)]
)
def test_a_normaliser_that_keeps_its_promises_passes(part):
    assert len(check_normaliser(part)) == 9


def forgetful(scores, seen=[]):  # noqa: B006 (that is what is wrong with it)
    seen.append(0)
    return softmax(scores * len(seen))


def rewriting(scores):
    weights = softmax(scores.clone())
    scores.data.add_(1)
    return weights


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (lambda z: softmax(z).mean(-1), r"expected weights \[2, 4, 5\], as the scores, found \[2, 4\]"),
        (lambda z: softmax(z) - 0.1, r"weights are not negative .*the least weight is -0\.1|-0\.0"),
        (lambda z: torch.sigmoid(z), r"rows sum to 1: sums of rows: .*expected 1, found"),
        (lambda z: torch.exp(z) / torch.exp(z).sum(-1, keepdim=True), r"gets zeros: found \[nan, nan"),
        (lambda z: softmax(z.clamp(min=-2)), r"a score of −inf got the weight 0\.\d+"),
        (lambda z: torch.softmax(z.masked_fill((z == -torch.inf).all(-1, keepdim=True), 0), -1), r"zeros: found \[0\.2, 0\.2"),
        (Careless, r"gradients are finite.*the gradient of beta: 1 of 1 are NaN"),
        (Idle, r"gradients .*reach every parameter: beta \[\] got none"),
        (lambda z: softmax(z + torch.arange(z.shape[-1])), r"permuting the keys.*numbers differ"),
        (lambda z: softmax(z - z.nan_to_num(neginf=0).mean(-2, keepdim=True)), r"rows are normalised independently: rows one"),
        (lambda z: softmax(z).double(), r"the dtype is kept: float32 and float64: torch\.float32 in, torch\.float64 out"),
        (forgetful, r"calls keep no state.*the same call again"),
        (rewriting, r"the scores that were given: .*differ"),
        (3, r"cannot be made|not callable"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_named_with_numbers(part, message):
    with pytest.raises(ContractBroken, match=f"(?s){message}"):
        check_normaliser(part)
