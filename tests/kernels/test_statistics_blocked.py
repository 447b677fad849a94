"""The blocked kernel gives the reference's statistics and holds a block of scores at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from saccade.kernels.additive.blocked import additive_scores
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.statistics import blocked, reference
from saccade.kernels.statistics.reference import Wanted
from saccade.kernels.visibility import Visibility

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
B, H, T, S, D = 2, 3, 11, 7, 5
ALL = Wanted(top=3, entropy=True, maximum=True, received=True)
SEEN = {
    "everything": Visibility(),
    "causal": Visibility(after=0),
    "causal, late": Visibility(after=0, shift=-4),
    "band": Visibility(before=1, after=2, shift=-3),
    "lengths": Visibility(lengths=torch.tensor([5, 0], device=DEVICE)),
    "mask": Visibility(mask=torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(3)).to(DEVICE) < 0.4),
    "mask of keys and lengths": Visibility(
        mask=(torch.arange(S, device=DEVICE) % 3 == 1).view(1, 1, S), lengths=torch.tensor([3, 7], device=DEVICE)
    ),
}
ASKED = {  # queries from, to; keys from, to: those that one of these queries may see
    "causal": [(0, 4, 0, 4), (4, 8, 0, 7), (8, 11, 0, 7)],
    "causal, late": [(4, 8, 0, 4), (8, 11, 0, 7)],
    "band": [(0, 4, 0, 3), (4, 8, 0, 7), (8, 11, 4, 7)],
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "BLOCK_NUMBERS", 4 * B * H * S)  # four queries: 4, 4 and 3


def own(scores: Tensor) -> Callable[[slice, slice], Tensor]:
    return lambda rows, keys: scores[:, rows, keys].clone()


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_all_statistics_are_the_references(name: str, score: str) -> None:
    query, key, v = torch.randn(B * H, T, D), torch.randn(B * H, S, D), torch.randn(D)

    def scores(query: Tensor, key: Tensor) -> Tensor:
        return dot_scores(query, key, 0.7) if score == "dot" else additive_scores(query, key, v)

    asked: list[tuple[int, ...]] = []

    def scores_of(rows: slice, keys: slice) -> Tensor:
        asked.append((rows.start, rows.stop, keys.start, keys.stop))
        return scores(query[:, rows], key[:, keys])

    found = blocked.statistics(scores_of, (B * H, T, S), SEEN[name], like=query, wanted=ALL, heads=H).tensors()
    assert asked == ASKED.get(name, [(0, 4, 0, 7), (4, 8, 0, 7), (8, 11, 0, 7)])
    expected = reference.statistics(query, key, SEEN[name], score=scores, wanted=ALL, heads=H).tensors()
    assert found.keys() == expected.keys()
    for part, tensor in expected.items():
        torch.testing.assert_close(found[part], tensor)


def test_what_the_scores_hide_stays_hidden() -> None:
    scores = torch.randn(B, T, S).masked_fill(torch.rand(B, T, S) < 0.5, -math.inf)
    found = blocked.statistics(own(scores), (B, T, S), Visibility(after=3), like=scores, wanted=ALL).tensors()
    expected = reference.of_scores(Visibility(after=3).hide(scores), ALL).tensors()
    for part, tensor in expected.items():
        torch.testing.assert_close(found[part], tensor)


@pytest.mark.parametrize(("N", "T", "S"), [(2, 0, 5), (2, 5, 0), (0, 5, 3)])
def test_no_queries_and_no_keys_give_zeros(N: int, T: int, S: int) -> None:
    scores = torch.zeros(N, T, S)
    found = blocked.statistics(own(scores), (N, T, S), Visibility(), like=scores, wanted=ALL).tensors()
    expected = reference.of_scores(scores, ALL).tensors()
    assert found.keys() == expected.keys()
    for part, tensor in expected.items():
        torch.testing.assert_close(found[part], tensor)


def test_only_what_is_wanted_is_returned_and_no_gradient_flows() -> None:
    scores = torch.randn(2, T, S, requires_grad=True)
    found = blocked.statistics(own(scores), (2, T, S), Visibility(), like=scores, wanted=Wanted(maximum=True))
    assert found.tensors().keys() == {"lse", "maximum", "argmax"}
    assert not found.lse.requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_half_types_are_computed_in_float32_and_float64_as_it_is(dtype: torch.dtype) -> None:
    scores = torch.randn(2, T, S).to(dtype)
    found = blocked.statistics(own(scores), (2, T, S), Visibility(after=1), like=scores, wanted=ALL).tensors()
    expected = reference.of_scores(Visibility(after=1).hide(scores), ALL).tensors()
    for part, tensor in expected.items():
        torch.testing.assert_close(found[part], tensor)  # checks dtypes too
