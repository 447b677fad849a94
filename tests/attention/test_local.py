"""Windows that are narrow beside their keys are served by local attention, with the same contexts and gradients."""

from __future__ import annotations

import pytest
import torch

from saccade.attention.core import attend, explain_choice, look
from saccade.attention.scores import Score, additive, cosine, general, scaled_dot
from saccade.attention.windows import Window, band, causal, gaussian, padding

B, H, S, D, E = 2, 3, 41, 6, 5
LENGTHS = torch.tensor([41, 23])
SCORES = {
    "scaled dot": lambda: scaled_dot,
    "general": lambda: general(torch.randn(D, D)),
    "cosine": lambda: cosine(3.0),
    "additive": lambda: additive(torch.randn(D), torch.randn(D, D), torch.randn(D, D)),
}


def windows(T: int) -> dict[str, Window]:
    centre = torch.rand(B, T) * 30
    return {
        "band": band(2),
        "causal band": causal("top-left") & band(3),
        "band & lengths": band(2) & padding(LENGTHS),
        "gaussian": gaussian(centre, 2) & padding(LENGTHS),
    }


@pytest.mark.parametrize("T", [1, 7])
@pytest.mark.parametrize("heads", [True, False])
@pytest.mark.parametrize("window", ["band", "causal band", "band & lengths", "gaussian"])
@pytest.mark.parametrize("name", SCORES)
def test_local_attention_serves_with_the_same_contexts_and_gradients(
    name: str, window: str, heads: bool, T: int
) -> None:
    score: Score = SCORES[name]()
    batch = (B, H) if heads else (B,)
    query, key, value = (torch.randn(*batch, *each).requires_grad_() for each in ((T, D), (S, D), (S, E)))
    options = {"score": score, "window": windows(T)[window], "offset": 4}
    assert explain_choice(query, key, value, **options).startswith("local.blocked: a query sees ")  # type: ignore[arg-type]
    found = attend(query, key, value, **options)  # type: ignore[arg-type]
    _, expected = look(query, key, value, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(
        *(torch.autograd.grad(each.pow(2).sum(), (query, key, value)) for each in (found, expected)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_other_windows_and_few_keys_are_served_otherwise() -> None:
    x = torch.randn(2, 12, D)
    real = torch.ones(2, 12, dtype=torch.bool)
    centre = torch.full((2, 12), 3.0)
    for window in (band(2, centre) & causal, band(5), band(1) & band(2), band(1) & padding(real)):
        assert not explain_choice(x, x, x, score=scaled_dot, window=window).startswith("local")
