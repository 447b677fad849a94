"""Under a lens that keeps the greatest weights or statistics, attention gives the same contexts and the same trace."""

from __future__ import annotations

import pytest
import torch

from saccade.attention.core import attend
from saccade.attention.normalise import sharpened
from saccade.attention.scores import Score, additive, cosine, general, scaled_dot
from saccade.attention.windows import Window, band, causal, everywhere, padding
from saccade.trace import Lens

B, H, T, S, D, E = 2, 3, 17, 17, 8, 5
SCORES = {
    "scaled dot": lambda: scaled_dot,
    "general": lambda: general(torch.randn(D, D)),
    "cosine": lambda: cosine(2.0),
    "additive": lambda: additive(torch.randn(D), torch.randn(D, D), torch.randn(D, D)),
    "additive, a v a head": lambda: additive(torch.randn(H, D)),
}
WINDOWS: dict[str, Window] = {
    "everywhere": everywhere,
    "causal": causal,
    "band & lengths": band(3) & padding(torch.tensor([17, 4])),
}


pytestmark = pytest.mark.usefixtures("kernels_serve_small_sizes")


@pytest.mark.parametrize("keep", ["top", "statistics"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("heads", [True, False])
def test_contexts_and_maps_are_those_of_whole_weights(name: str, window: str, keep: str, heads: bool) -> None:
    if name == "additive, a v a head" and not heads:
        return
    score: Score = SCORES[name]()
    batch = (B, H) if heads else (B,)
    query, key, value = (torch.randn(*batch, *each) for each in ((T, D), (S, D), (S, E)))
    query.requires_grad_()
    whole, counting = Lens(), Lens(keep, k=3)
    expected = attend(query, key, value, score=score, window=WINDOWS[window], lens=whole)
    # A lens that looks at weights as they are recorded: the same, from rows that exist.
    recorded = Lens(keep, k=3)
    for record in whole.records:
        recorded.observe(record.site, record.tensors["weights"], offset=record.offset)
    found = attend(query, key, value, score=score, window=WINDOWS[window], lens=counting)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(counting.traces, recorded.traces, strict=True):
        for one, other in zip(ours.maps, theirs.maps, strict=True):
            assert (one.site, one.head, one.kind, one.keys) == (other.site, other.head, other.kind, other.keys)
            for tensor in other.tensors:
                if tensor not in ("index", "argmax"):  # of equal weights either may come first
                    torch.testing.assert_close(one.tensors[tensor], other.tensors[tensor], atol=1e-5, rtol=1e-4)
            if keep == "top":
                torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=1e-4)
    (gradient,) = torch.autograd.grad(found.sum(), query)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), query)[0], atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("name", SCORES)
def test_sharpened_weights_are_counted_sharpened(name: str) -> None:
    score: Score = SCORES[name]()
    query, key, value = (torch.randn(B, H, *each) for each in ((T, D), (S, D), (S, E)))
    whole, counting = Lens(), Lens("statistics")
    for lens in (whole, counting):
        attend(query, key, value, score=score, normalise=sharpened(2.5), lens=lens)
    for ours, theirs in zip(counting.traces[1].maps, whole.traces[1].maps, strict=True):
        torch.testing.assert_close(ours.tensors["maximum"], theirs.weights.amax(-1), atol=1e-5, rtol=1e-4)


def test_rows_of_weights_are_never_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.kernels.statistics.blocked.BLOCK_NUMBERS", 4 * S)
    monkeypatch.setitem(__import__("saccade.kernels.additive.attention", fromlist=["x"]).WEIGHTS_AT_ONCE, "cpu", 4 * S)
    most = 0
    softmax = torch.softmax

    def recorded(scores: torch.Tensor, *args: object, **options: object) -> torch.Tensor:
        nonlocal most
        most = max(most, scores.numel())
        return softmax(scores, *args, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(torch, "softmax", recorded)
    x = torch.randn(1, T, D)
    attend(x, x, x, score=additive(torch.randn(D)), lens=Lens("statistics"))
    assert 0 < most <= 4 * S


def test_a_lens_that_edits_or_keeps_scores_goes_through_whole_weights() -> None:
    from saccade.trace.edits import Boost

    assert Lens("top").counted is not None
    assert Lens("all").counted is None
    assert Lens("top", detail=["scores"]).counted is None
    assert Lens("top", edits=[Boost(keys=(1,), factor=2.0)]).counted is None
