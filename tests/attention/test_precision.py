"""Half precision: scores, positions and sums are computed in float32, and a lens changes nothing.

Legend: B batch, T queries, S keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from saccade.attention.core import attend, explain_choice, look, read, weigh
from saccade.attention.normalise import Normaliser, entmax15, sharpened, smoothed, softmax, sparsemax
from saccade.attention.scores import (
    Score,
    additive,
    cosine,
    dot,
    general,
    location,
    location_aware,
    scaled_dot,
)
from saccade.attention.windows import Window, band, causal, everywhere, gaussian, padding
from saccade.kernels import choose
from saccade.trace import Lens

B, D, E = 2, 13, 7
HALF = (torch.bfloat16, torch.float16)
ROUNDING = {torch.bfloat16: 2**-8, torch.float16: 2**-11}
SIZES = {"few": (3, 5), "many": (59, 67)}
"""Below and above the sizes from which a kernel computes the contexts without storing weights."""

Make = Callable[[torch.dtype], Score]


def drawn(*shape: int, scale: float = 1.0) -> Tensor:
    """Numbers that every dtype here holds exactly, so that each computes with the same ones."""
    return torch.randn(*shape).mul(8).round().div(8) * scale


def scores(S: int) -> dict[str, Make]:
    v, W, places = drawn(D), torch.eye(D)[torch.randperm(D)] * 2, drawn(S, D)
    filters, L = drawn(3, 5), drawn(D, 3)
    return {
        "dot": lambda dtype: dot,
        "scaled dot": lambda dtype: scaled_dot,
        "general": lambda dtype: general(W.to(dtype)),
        "additive": lambda dtype: additive(v.to(dtype)),
        "location": lambda dtype: location(places.to(dtype)),
        "location-aware": lambda dtype: location_aware(v.to(dtype), None, None, filters.to(dtype), L.to(dtype)),
        # Its directions are rounded before anything is scored, as a projection is.
        "cosine": lambda dtype: cosine(0.5),
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", scores(1))
def test_contexts_and_gradients_are_right_to_one_rounding_with_and_without_a_lens(
    name: str, dtype: torch.dtype, size: str
) -> None:
    T, S = SIZES[size]
    make = scores(S)[name]
    inputs = [drawn(B, T, D, scale=2), drawn(B, S, D, scale=2), drawn(B, S, E)]
    grad = drawn(B, T, E)
    windows = (everywhere, padding([S, S - 2]), causal("top-left") & band(40), band(2))
    for window, normalise in itertools.product(windows, (softmax, sharpened(1.7))):
        options = {"window": window, "normalise": normalise}
        exact, of_exact = computed(inputs, torch.float64, make, grad, **options)  # type: ignore[arg-type]
        for lens in (None, Lens(), Lens("top", k=3), Lens("statistics"), Lens(detail=("scores", "context"))):
            found, gradients = computed(inputs, dtype, make, grad, lens=lens, **options)  # type: ignore[arg-type]
            assert found.dtype == dtype
            assert (found.double() - exact).abs().max() <= 1.5 * ROUNDING[dtype] * exact.abs().max(), lens
            for ours, theirs in zip(gradients, of_exact, strict=True):
                # PyTorch's own attention rounds once more, where it keeps a product in half precision.
                error = (ours.double() - theirs).abs().max()
                assert error <= 6 * ROUNDING[dtype] * theirs.abs().max().clamp_min(1), (lens, error)


@pytest.mark.parametrize("beta", [1.0, 1.7])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_additive_attention_in_one_kernel_is_as_exact(
    dtype: torch.dtype, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BLOCKED_PAYS_FROM", "BLOCKED_PAYS_FROM_WITH_GRADIENT"):
        monkeypatch.setattr(choose, name, 1)
    choose.remembered.cache_clear()
    inputs, grad, v = [drawn(B, 5, D), drawn(B, 11, D), drawn(B, 11, E)], drawn(B, 5, E), drawn(D, scale=4)
    options = {"window": padding([11, 6]), "normalise": sharpened(beta)}

    def make(dtype: torch.dtype) -> Score:
        return additive(v.to(dtype))

    halves = [tensor.to(dtype) for tensor in inputs]
    assert explain_choice(*halves, score=make(dtype), **options).startswith("additive.attention")  # type: ignore[arg-type]
    exact, of_exact = computed(inputs, torch.float64, make, grad, **options)  # type: ignore[arg-type]
    for lens in (None, Lens(), Lens("top"), Lens("statistics")):
        found, gradients = computed(inputs, dtype, make, grad, lens=lens, **options)  # type: ignore[arg-type]
        for ours, theirs in zip((found, *gradients), (exact, *of_exact), strict=True):
            assert (ours.double() - theirs).abs().max() <= 6 * ROUNDING[dtype] * theirs.abs().max().clamp_min(1), lens
    choose.remembered.cache_clear()


def computed(
    inputs: list[Tensor],
    dtype: torch.dtype,
    make: Make,
    grad: Tensor,
    *,
    window: Window,
    normalise: Normaliser,
    lens: Lens | None = None,
) -> tuple[Tensor, list[Tensor]]:
    ours = [tensor.to(dtype).requires_grad_() for tensor in inputs]
    context = attend(*ours, score=make(dtype), window=window, normalise=normalise, lens=lens)
    gradients = torch.autograd.grad(context, ours, grad.to(dtype), allow_unused=True)
    return context, [torch.zeros(()) if gradient is None else gradient for gradient in gradients]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keep", [None, "all", "top", "statistics"])
def test_scores_beyond_the_range_of_float16_are_not_nan(keep: str | None, size: str) -> None:
    T, S = SIZES[size]
    query, key, value = drawn(B, T, D, scale=100), drawn(B, S, D, scale=100), drawn(B, S, E)
    exact = weigh(query.double(), key.double(), score=dot)
    assert (query.double() @ key.double().mT).abs().max() > 65504
    lens = None if keep is None else Lens(keep)  # type: ignore[arg-type]
    context = attend(query.half(), key.half(), value.half(), score=dot, lens=lens)
    assert (context.double() - exact @ value.double()).abs().max() < 2e-3
    if lens is not None:
        recorded = lens.traces[1].map().tensors
        most = {"all": "weights", "top": "weights", "statistics": "maximum"}[lens.keep]
        torch.testing.assert_close(recorded[most].amax(-1).max().double(), exact[1].max(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("normalise", [softmax, sharpened(1.7), smoothed, sparsemax, entmax15], ids=repr)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_the_lens_keeps_the_weights_before_they_are_rounded(dtype: torch.dtype, normalise: Normaliser) -> None:
    query, key, value = drawn(B, 3, D), drawn(B, 5, D), drawn(B, 5, E)
    exact = weigh(query.double(), key.double(), score=dot, normalise=normalise)
    lens = Lens()
    weights = weigh(query.to(dtype), key.to(dtype), score=dot, normalise=normalise, lens=lens)
    recorded = lens.traces[0].map().weights
    assert recorded.dtype == torch.float32 and weights.dtype == dtype
    torch.testing.assert_close(recorded.double(), exact[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(weights.double(), exact, rtol=ROUNDING[dtype], atol=1e-6)
    both = look(query.to(dtype), key.to(dtype), value.to(dtype), score=dot, normalise=normalise)
    assert [tensor.dtype for tensor in both] == [dtype, dtype]
    assert read(weights, value.to(dtype)).dtype == dtype


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["dot", "general", "additive", "location"])
def test_under_autocast_a_lens_changes_no_context(name: str, size: str) -> None:
    T, S = SIZES[size]
    make = scores(S)[name]
    query, key, value = drawn(B, T, D, scale=2), drawn(B, S, D, scale=2), drawn(B, S, E)
    exact = attend(query.double(), key.double(), value.double(), score=make(torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for lens in (None, Lens(), Lens("top")):
            context = attend(query, key, value, score=make(torch.float32), lens=lens)
            assert context.dtype == torch.bfloat16
            assert (context.double() - exact).abs().max() <= 2**-7 * exact.abs().max(), lens


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("learned", [*HALF, torch.float32], ids=str)
def test_windows_around_a_centre_hold_the_same_keys_in_every_dtype(dtype: torch.dtype, learned: torch.dtype) -> None:
    S, radius = 5003, 2
    centre = torch.tensor([[1.25, 255.5, 300.6, 2049.7, 4000.3, 9000.0]]).to(learned)
    T = centre.shape[1]
    query, key, value = drawn(1, T, D), drawn(1, S, D), drawn(1, S, E)
    middle = centre.double().floor()
    expected = ((torch.arange(S) - middle.unsqueeze(-1)).abs() <= radius).sum(-1)
    assert expected.tolist() == [[4, 5, 5, 5, 5, 0]]
    for window, exact_window in (
        (band(radius, centre), band(radius, centre.double())),
        (gaussian(centre, radius), gaussian(centre.double(), radius)),
    ):
        exact = weigh(query.double(), key.double(), score=scaled_dot, window=exact_window)
        weights = weigh(query.to(dtype), key.to(dtype), score=scaled_dot, window=window)
        assert torch.equal((weights > 0).sum(-1), expected)
        torch.testing.assert_close(weights.double(), exact, rtol=2 * ROUNDING[dtype], atol=1e-5)
        for lens in (None, Lens(), Lens("top")):
            halves = [tensor.to(dtype) for tensor in (query, key, value)]
            context = attend(*halves, score=scaled_dot, window=window, lens=lens)
            error = (context.double() - exact @ value.double()).abs().max()
            assert error <= 2 * ROUNDING[dtype] * value.abs().max(), lens
