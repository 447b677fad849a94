"""Location-aware scores in tiles give the reference's scores and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.attention.core import weigh
from saccade.attention.scores import location_aware
from saccade.attention.windows import padding
from saccade.errors import SaccadeError
from saccade.kernels.location import blocked, reference

SHAPES = {  # batch, keys S, width D, filters C, taps K, shape of v before D
    "several items": ((5,), 19, 23, 5, 7, ()),
    "a v for each head": ((2, 3), 7, 9, 3, 5, (3,)),
    "a v for each item, shared by heads": ((2, 3), 7, 5, 2, 3, (2, 1)),
    "filters longer than the keys": ((2,), 5, 7, 2, 41, ()),
    "one of everything": ((1,), 1, 1, 1, 1, ()),
    "more filters than numbers": ((3,), 11, 5, 19, 3, ()),
}
NAMES = ("scores", "query", "key", "v", "previous", "filters", "location_weight")


def inputs(name: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    batch, S, D, C, K, heads = SHAPES[name]
    shapes = ((*batch, 1, D), (*batch, S, D), (*heads, D), (*batch, 1, S), (C, K), (D, C))
    torch.manual_seed(3)
    drawn = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    drawn[3] = torch.softmax(drawn[3], -1)
    return [tensor.to(dtype) for tensor in drawn]


def with_gradients(function: object, tensors: list[Tensor], grad: Tensor) -> list[Tensor]:
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    scores = function(*tensors)  # type: ignore[operator]
    return [scores, *torch.autograd.grad(scores, tensors, grad.to(scores.dtype))]


@pytest.mark.parametrize("stored", [0, 1 << 22], ids=["computed again", "stored"])
@pytest.mark.parametrize("tile", [1, 300, 1 << 18])
@pytest.mark.parametrize("name", SHAPES)
def test_scores_and_gradients_are_the_references(
    name: str, tile: int, stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "TILE_ELEMENTS", tile)
    monkeypatch.setattr(blocked, "STORED_ELEMENTS", stored)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        drawn = inputs(name, dtype)
        grad = torch.randn(drawn[3].shape, dtype=torch.float64)
        found = with_gradients(blocked.location_aware_scores, drawn, grad)
        exact = with_gradients(reference.location_aware_scores, [tensor.double() for tensor in drawn], grad)
        for part, tensor, expected in zip(NAMES, found, exact, strict=True):
            assert (tensor.dtype, tensor.shape) == (dtype, expected.shape), part
            assert (tensor.double() - expected).abs().max() <= tolerance * expected.abs().max() + 1e-12, part
        with torch.no_grad():
            scores = blocked.location_aware_scores(*drawn).double()
        assert (scores - exact[0]).abs().max() <= tolerance * exact[0].abs().max() + 1e-12


def test_tiles_are_of_about_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "TILE_ELEMENTS", 15 * 7 * 3)
    sizes = [len(part) for _, part in blocked._pieces(torch.empty(16, 7, 3))]
    assert sizes == [8, 8]


@pytest.mark.parametrize("wanted", range(6))
def test_a_gradient_of_one_input_alone_is_the_same(wanted: int) -> None:
    drawn = inputs("several items")
    drawn[wanted].requires_grad_()
    grad = torch.randn(drawn[3].shape, dtype=torch.float64)
    found, expected = (
        torch.autograd.grad(module.location_aware_scores(*drawn), drawn[wanted], grad)[0]
        for module in (blocked, reference)
    )
    torch.testing.assert_close(found, expected)


def test_gradients_can_be_differentiated_again() -> None:
    drawn = [tensor.requires_grad_() for tensor in inputs("a v for each head")]
    assert torch.autograd.gradgradcheck(blocked.location_aware_scores, drawn)


def test_large_numbers_give_scores_of_saturated_units_and_not_nan() -> None:
    drawn = inputs("several items", torch.float32)
    for magnitude in (30.0, 1e4, 1e37):
        far = [drawn[0] * magnitude, drawn[1] * magnitude, *drawn[2:]]
        found = with_gradients(blocked.location_aware_scores, far, torch.ones_like(drawn[3]))
        torch.testing.assert_close(found[0], reference.location_aware_scores(*far), rtol=1e-4, atol=1e-4)
        assert all(bool(part.isfinite().all()) for part in found)


def test_a_decoder_in_half_precision_on_a_cpu_computes_in_float32() -> None:
    with torch.device("cpu"):
        torch.manual_seed(1)
        B, S, D = 7, 97, 51
        score = location_aware(torch.randn(D), None, None, torch.randn(3, 5), torch.randn(D, 3))
        query, key = torch.randn(B, 1, D).bfloat16(), torch.randn(B, S, D).bfloat16()
        assert "location_aware.blocked" in str(score.choice(query, key))
        lengths = torch.tensor([97, 3, 50, 1, 96, 70, 20])
        previous = weigh(query, key, score=score, window=padding(lengths))
        weights = weigh(query, key, score=score.after(previous), window=padding(lengths))
        exact = weigh(
            query.double(), key.double(), score=_wide(score).after(previous.double()), window=padding(lengths)
        )
        assert weights.dtype is torch.bfloat16
        torch.testing.assert_close(weights.double(), exact, rtol=2e-2, atol=1e-3)


def _wide(score: object) -> object:
    parts = (score.v, score.query_weight, score.key_weight, score.filters, score.location_weight)  # type: ignore[attr-defined]
    return location_aware(*(None if part is None else part.double() for part in parts))


def test_what_it_does_not_serve_is_refused() -> None:
    drawn = inputs("several items")
    with pytest.raises(SaccadeError, match="odd number of taps"):
        blocked.location_aware_scores(*drawn[:4], drawn[4][:, :-1], drawn[5])
    empty = blocked.location_aware_scores(drawn[0], drawn[1][:, :0], drawn[2], drawn[3][..., :0], *drawn[4:])
    assert empty.shape == (5, 1, 0)
