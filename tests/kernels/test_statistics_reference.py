"""The reference says of weights what their definitions say, and what a lens keeps of them."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive.reference import additive_scores
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.statistics.reference import Statistics, Wanted, of_scores, statistics
from saccade.kernels.visibility import Visibility
from saccade.trace.file import same
from saccade.trace.lens import Lens, Site

B, H, T, S, D = 2, 3, 5, 7, 4
ALL = Wanted(top=3, entropy=True, maximum=True, received=True)
SITE = Site("self", "target", "source")


def test_a_row_worked_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.125, 0.25, 0.125], [0.0, 1.0, 0.0, 0.0]]])
    found = of_scores(weights.log() + 2, Wanted(top=2, entropy=True, maximum=True, received=True)).tensors()
    expected = {
        "lse": [[2.0, 2.0]],
        "maximum": [[0.5, 1.0]],
        "argmax": [[0, 1]],
        "entropy": [[1.75 * math.log(2), 0.0]],
        "received": [[0.5, 1.125, 0.25, 0.125]],
        "top_index": [[[0, 2], [1, 0]]],
        "top_weights": [[[0.5, 0.25], [1.0, 0.0]]],
        "residual": [[0.25, 0.0]],
    }
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, torch.tensor(expected[name]))


def test_equal_weights_stand_in_the_order_of_their_keys() -> None:
    found = of_scores(torch.zeros(1, 1, 5), Wanted(top=5))
    assert torch.equal(found.top_index, torch.arange(5).view(1, 1, 5))  # type: ignore[arg-type]


@pytest.mark.parametrize(("T", "S"), [(5, 7), (5, 0), (0, 7)])
def test_queries_that_see_nothing_get_zeros(T: int, S: int) -> None:
    found = of_scores(torch.full((2, T, S), -math.inf), ALL)
    assert (found.lse == -math.inf).all()
    for name, tensor in found.tensors().items():
        assert name == "lse" or not tensor.any()
        assert tensor.shape[:2] == (2, S if name == "received" else T)


def test_lengths_belong_to_items_of_the_batch_and_masks_to_heads() -> None:
    mask = torch.rand(B, H, T, S) < 0.6
    scores = Visibility(lengths=torch.tensor([3, 6]), after=1, mask=mask).hide(torch.zeros(B * H, T, S), H)
    for item in range(B):
        for head in range(H):
            visible = mask[item, head] & (torch.arange(S) < (3, 6)[item])
            visible = visible & (torch.arange(S) <= torch.arange(T).unsqueeze(-1) + 1)
            assert torch.equal(scores[item * H + head] == 0, visible)


@pytest.mark.parametrize("score", ["dot", "additive"])
def test_any_score_is_served_and_half_types_are_computed_in_float32(score: str) -> None:
    query, key, v = torch.randn(B, T, D), torch.randn(B, S, D), torch.randn(D)
    by = partial(dot_scores, scale=0.5) if score == "dot" else partial(additive_scores, v=v)
    found = statistics(query, key, Visibility(after=2), score=by, wanted=ALL)
    exact = of_scores(Visibility(after=2).hide(by(query, key)), ALL)
    assert all(torch.equal(found.tensors()[name], tensor) for name, tensor in exact.tensors().items())
    half = of_scores(by(query, key).bfloat16(), ALL)
    assert half.lse.dtype == half.top_weights.dtype == torch.float32  # type: ignore[union-attr]


def looked_at(keep: str, scores: Tensor) -> tuple[Lens, Lens]:
    """A lens that saw the weights of scores [B, H, T, S], and one that saw their statistics."""
    weights, statistics = Lens(keep, k=3), Lens(keep, k=3)  # type: ignore[arg-type]
    weights.observe(SITE, scores.softmax(-1).nan_to_num(0.0), offset=2)
    assert statistics.wanted is not None
    found = of_scores(scores.flatten(0, 1), statistics.wanted).per_head(scores.shape[1])
    statistics.observe_statistics(SITE, found, keys=scores.shape[-1], offset=2)
    return weights, statistics


class TestALens:
    @pytest.mark.parametrize("keep", ["top", "statistics"])
    def test_records_of_statistics_what_it_records_of_weights(self, keep: str) -> None:
        scores = torch.randn(B, H, T, S)
        weights, statistics = looked_at(keep, scores)
        assert all(map(same, weights.traces, statistics.traces))

    @pytest.mark.parametrize("keep", ["top", "statistics"])
    def test_reads_the_same_where_queries_see_less_than_is_kept(self, keep: str) -> None:
        scores = torch.randn(B, H, T, S).masked_fill(torch.ones(T, S).triu(0) > 0, -math.inf)
        for one, other in zip(*(lens.traces for lens in looked_at(keep, scores)), strict=True):
            for ours, theirs in zip(one.maps, other.maps, strict=True):
                if keep == "top":
                    assert torch.equal(ours.weights, theirs.weights)
                    assert torch.equal(ours.tensors["residual"], theirs.tensors["residual"])
                else:
                    assert all(torch.equal(ours.tensors[name], theirs.tensors[name]) for name in ours.tensors)

    def test_joins_the_steps_of_a_decoder(self) -> None:
        lens, scores = Lens("statistics"), torch.randn(1, 1, T, S)
        assert lens.wanted is not None
        for step in range(T):
            found = of_scores(scores[0, :, step : step + 1], lens.wanted).per_head(1)
            lens.observe_statistics(SITE, found, keys=S, offset=step)
        (map,) = lens.trace.maps
        assert map.queries == T
        torch.testing.assert_close(map.tensors["received"], scores[0, 0].softmax(-1).sum(0).cpu())

    def test_says_what_was_not_computed(self) -> None:
        with pytest.raises(SaccadeError, match=r"entropy, maximum, argmax, received.*Wanted"):
            Lens("statistics").observe_statistics(SITE, Statistics(torch.zeros(1, 1, T)), keys=S)
        with pytest.raises(SaccadeError, match="keep='all'"):
            Lens().observe_statistics(SITE, Statistics(torch.zeros(1, 1, T)), keys=S)
        assert Lens().wanted is None


def test_a_negative_number_to_keep_is_refused() -> None:
    with pytest.raises(SaccadeError, match="top must not be negative: got -1"):
        Wanted(top=-1)
