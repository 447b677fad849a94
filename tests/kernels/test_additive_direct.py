"""The direct kernels give the reference's scores and gradients at every magnitude, and touch nothing that is not seen."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from saccade.errors import SaccadeError
from saccade.kernels.additive import direct, direct_forms, reference
from saccade.kernels.visibility import Visibility

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPS = torch.finfo(torch.float32).eps


SCORE_TILES, GRADIENT_TILES = direct.score_tiles, direct.gradient_tiles


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that even small rows fill and overflow, and that the interpreter gets through quickly."""
    torch.manual_seed(5)
    monkeypatch.setattr(direct, "score_tiles", lambda *sizes: direct.Tiles(queries=4, warps=2, columns=1))
    monkeypatch.setattr(direct, "gradient_tiles", lambda *sizes: direct.Tiles(warps=2, keys=8))


def rows(N: int, T: int, S: int, D: int, G: int = 1, magnitude: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    query = magnitude * torch.randn(N, T, D, device=DEVICE)
    key = magnitude * torch.randn(N, S, D, device=DEVICE)
    return query, key, torch.randn(G, D, device=DEVICE)


def dense(seen: Visibility, N: int, T: int, S: int, heads: int) -> Tensor:
    """What is seen, written out as [N, T, S]."""
    mask = seen.dense(T, S, torch.device(DEVICE))
    if mask is None:
        return torch.ones(N, T, S, dtype=torch.bool, device=DEVICE)
    if mask.dim() == 3:
        mask = mask.unsqueeze(1)
    return mask.expand(N // heads, heads, T, S).reshape(N, T, S)


def exact(
    query: Tensor, key: Tensor, v: Tensor, seen: Visibility, heads: int, grad_scores: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Scores and gradients by the reference in float64; ∂v for each item on its own."""
    N = query.shape[0]
    inputs = [query.double(), key.double(), v.double().repeat(N // v.shape[0], 1)]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    scores = reference.additive_scores(*inputs)
    grads = torch.autograd.grad(scores, inputs, grad_scores.double())
    visible = dense(seen, N, scores.shape[1], scores.shape[2], heads)
    return scores.detach().masked_fill(~visible, -math.inf), grads


def assert_like(found: Tensor, expected: Tensor, at_least: float) -> None:
    assert found.dtype is torch.float32
    assert found.shape == expected.shape
    assert torch.equal(found.isinf(), expected.isinf())
    expected, found = (tensor.double().masked_fill(expected.isinf(), 0.0) for tensor in (expected, found))
    largest = max(expected.abs().max().item(), at_least)
    assert (found - expected).abs().max().item() <= 8 * EPS * largest


def check(
    query: Tensor,
    key: Tensor,
    v: Tensor,
    seen: Visibility | None = None,
    heads: int = 1,
    form: str | None = None,
) -> None:
    seen = seen or Visibility()
    (N, T, _), S = query.shape, key.shape[1]
    grad_scores = torch.randn(N, T, S, device=DEVICE).masked_fill(~dense(seen, N, T, S, heads), 0.0)
    scores, grads = exact(query, key, v, seen, heads, grad_scores)
    small = (form or direct_forms.form_of(query, key)) == "small"
    assert_like(direct.scores(query, key, v, seen, heads=heads, form=form), scores, at_least=0.0 if small else 1.0)
    at_least = 0.0 if small else v.abs().max().item() * grad_scores.abs().max().item()
    for found, expected in zip(
        direct.gradients(query, key, v, grad_scores, seen, heads=heads, form=form), grads, strict=True
    ):
        assert_like(found, expected, at_least)


SIZES = {  # N, T, S, D
    "odd": (2, 5, 7, 3),
    "one query": (2, 1, 5, 3),
    "one key": (1, 5, 1, 3),
    "one column": (1, 3, 5, 1),
    "wider than a warp": (1, 3, 3, 37),
    "more than a tile": (1, 9, 35, 2),
}


@pytest.mark.parametrize("size", SIZES)
def test_scores_and_gradients_are_the_references(size: str) -> None:
    check(*rows(*SIZES[size]))


def test_the_tiles_of_a_gpu_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "score_tiles", SCORE_TILES)
    monkeypatch.setattr(direct, "gradient_tiles", GRADIENT_TILES)
    for T, S, magnitude in ((35, 17, 1.0), (3, 99, 0.1)):  # one part and four side by side
        check(*rows(1, T, S, 2, magnitude=magnitude))


def test_tiles_grow_with_the_work_and_stay_powers_of_two() -> None:
    for T, S in ((1, 1), (5, 33), (9, 70), (512, 512)):
        for form in direct_forms.FORMS:
            score, gradient = SCORE_TILES(T, S, form), GRADIENT_TILES(3, T, S, 40, form)
            for size in (score.queries, score.warps, score.columns, gradient.warps, gradient.keys):
                assert size & (size - 1) == 0
            assert gradient.keys * gradient.warps < 32 * gradient.warps
    assert GRADIENT_TILES(16, 512, 512, 512, "moderate").parts == 1  # enough programs without sharing the keys
    few = GRADIENT_TILES(1, 16384, 16384, 512, "moderate")
    assert few.parts > 1 and 4 * few.parts * 16384 * 512 <= 1 << 28


@pytest.mark.parametrize(
    ("magnitude", "form"),
    [(1e-6, "small"), (0.1, "small"), (1.0, "moderate"), (5.0, "wide"), (30.0, "large"), (1e4, "large")],
)
def test_no_magnitude_costs_precision(magnitude: float, form: str) -> None:
    query, key, v = rows(1, 2, 5, 6, magnitude=magnitude)
    assert direct_forms.form_of(query, key) == form
    check(query, key, v)


@pytest.mark.parametrize("form", direct_forms.FORMS)
def test_every_form_serves_the_rows_of_the_narrower_ones(form: str) -> None:
    check(*rows(1, 2, 3, 5, magnitude=0.05), form=form)


def test_scores_keep_a_millionth_of_the_norm_of_v() -> None:
    query, key, _ = rows(1, 2, 3, 150)
    v = 0.3 + torch.rand(1, 150, device=DEVICE)  # of one sign: nothing cancels
    scores, _ = exact(query, key, v, Visibility(), 1, torch.zeros(1, 2, 3, device=DEVICE))
    found = direct.scores(query, key, v, Visibility())
    assert (found.double() - scores).abs().max().item() <= 1e-6 * v.abs().sum().item()


def test_rows_at_the_edge_of_a_form_do_not_overflow() -> None:
    for form, edge in (("moderate", 5.37), ("wide", 20.0), ("large", 5e37)):
        query = torch.full((1, 2, 3), edge, device=DEVICE)
        key = torch.full((1, 3, 3), edge, device=DEVICE)
        key[:, 1] = -edge
        v = 1e6 * torch.ones(1, 3, device=DEVICE)
        expected = torch.tensor([3e6, 0.0, 3e6], device=DEVICE).expand(1, 2, 3)
        torch.testing.assert_close(direct.scores(query, key, v, Visibility(), form=form), expected, atol=1.0, rtol=1e-6)
        for grad in direct.gradients(query, key, v, torch.ones(1, 2, 3, device=DEVICE), Visibility(), form=form):
            assert grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(dtype: torch.dtype) -> None:
    query, key, v = rows(1, 2, 3, 5)
    check(query.to(dtype), key.to(dtype), v.to(dtype))


WINDOWS = {
    "lengths": Visibility(lengths=torch.tensor([0, 20], device=DEVICE)),
    "causal": Visibility(after=0),
    "causal further on": Visibility(after=0, shift=29),
    "band": Visibility(before=3, after=2, shift=4),
    "band out of reach": Visibility(before=1, after=1, shift=1000),
    "band wider than a number": Visibility(before=1 << 40, after=1 << 40),
    "band and lengths": Visibility(before=5, after=8, shift=-2, lengths=torch.tensor([35, 11], device=DEVICE)),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_unseen_keys_score_minus_infinity(window: str) -> None:
    seen = WINDOWS[window]
    check(*rows(1 if seen.lengths is None else 2, 3, 35, 2), seen=seen)


@pytest.mark.parametrize("shape", [(1, 5), (2, 3, 5), (2, 2, 3, 5), (1, 2, 3, 1)])
def test_a_mask_of_any_shape_is_applied(shape: tuple[int, ...]) -> None:
    query, key, v = rows(4, 3, 5, 2)
    seen = Visibility(mask=(torch.arange(math.prod(shape), device=DEVICE) % 3 > 0).view(shape))
    expected, _ = exact(query, key, v, seen, 2, torch.zeros(4, 3, 5, device=DEVICE))
    assert_like(direct.scores(query, key, v, seen, heads=2), expected, at_least=1.0)


def test_gradients_under_a_mask_are_those_of_what_it_leaves() -> None:
    check(*rows(2, 2, 3, 2), seen=Visibility(mask=torch.tensor([True, False, True], device=DEVICE).view(1, 3)))


def test_heads_share_lengths_and_may_have_their_own_v() -> None:
    seen = Visibility(lengths=torch.tensor([3, 1], device=DEVICE))
    for G in (2, 4):
        check(*rows(4, 1, 3, 1, G=G), seen=seen, heads=2)


def test_keys_beyond_the_length_may_hold_anything() -> None:
    query, key, v = rows(2, 3, 11, 2)
    lengths = torch.tensor([3, 11], device=DEVICE)
    clean = key.clone()
    key[0, 3:] = math.nan
    clean[0, 3:] = 0.0
    seen = Visibility(lengths=lengths)
    grad_scores = torch.randn(2, 3, 11, device=DEVICE).masked_fill(~dense(seen, 2, 3, 11, 1), 0.0)
    assert torch.equal(
        direct.scores(query, key, v, seen, form="large"), direct.scores(query, clean, v, seen, form="large")
    )
    found = direct.gradients(query, key, v, grad_scores, seen, form="large")
    for grad, expected in zip(found, direct.gradients(query, clean, v, grad_scores, seen, form="large"), strict=True):
        assert torch.equal(grad, expected)


def test_infinity_saturates_and_nan_stays_in_its_row() -> None:
    query, key, v = rows(1, 5, 6, 3)
    query[0, 1] = math.inf
    query[0, 2, 0] = math.nan
    scores = direct.scores(query, key, v, Visibility())
    assert scores[0, 1].tolist() == pytest.approx([v.sum().item()] * 6, rel=1e-6)
    assert scores.isnan().nonzero()[:, 1].unique().tolist() == [2]
    grad_query, grad_key, _ = direct.gradients(query, key, v, torch.ones(1, 5, 6, device=DEVICE), Visibility())
    assert grad_query.isnan().nonzero()[:, 1:].tolist() == [[2, 0]]
    assert grad_key.isnan().nonzero()[:, 2].unique().tolist() == [0]


def test_the_keys_of_an_item_may_be_shared_between_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = direct.Tiles(warps=2, keys=4, parts=3)
    monkeypatch.setattr(direct, "gradient_tiles", lambda *sizes: shared)
    check(*rows(2, 3, 19, 2), seen=Visibility(before=10, after=4, lengths=torch.tensor([19, 7], device=DEVICE)))


def test_nothing_to_score_is_not_an_error() -> None:
    for T, S in ((0, 5), (3, 0)):
        query, key, v = rows(2, T, S, 4)
        assert direct.scores(query, key, v, Visibility()).shape == (2, T, S)
        grads = direct.gradients(query, key, v, torch.zeros(2, T, S, device=DEVICE), Visibility())
        assert [list(grad.shape) for grad in grads] == [[2, T, 4], [2, S, 4], [2, 4]]
        assert not any(grad.any() for grad in grads)


def test_rows_that_are_not_contiguous_are_read_right() -> None:
    query, key, v = rows(3, 2, 5, 3)
    turned = query.mT.contiguous().mT, key.transpose(0, 1).contiguous().transpose(0, 1), v.expand(3, 3)
    check(*turned)


def test_float64_is_refused_and_told_what_serves() -> None:
    query, key, v = rows(1, 2, 3, 4)
    with pytest.raises(SaccadeError, match=r"float64.*additive\.blocked"):
        direct.scores(query.double(), key, v, Visibility())


def test_shapes_that_do_not_fit_are_named() -> None:
    query, key, v = rows(2, 3, 4, 5)
    with pytest.raises(SaccadeError, match=r"\[2, 3, 5\], \[2, 4, 4\]"):
        direct.scores(query, key[..., :4], v, Visibility())


def test_an_unknown_form_is_named() -> None:
    query, key, v = rows(1, 2, 3, 4)
    with pytest.raises(SaccadeError, match="small, moderate, wide, large, found 'huge'"):
        direct.scores(query, key, v, Visibility(), form="huge")
