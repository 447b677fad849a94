"""The fused kernels give the statistics that the reference finds in all weights (in Triton's interpreter without a GPU)."""

from __future__ import annotations

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from saccade.errors import SaccadeError
from saccade.kernels.statistics import fused, reference
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.kernels.visibility import Visibility

T, S, D = 19, 21, 24  # tiles of 16 × 16: two by two, and vectors of 24 in rows of 32
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ALL = Wanted(top=3, entropy=True, maximum=True, received=True)
SEEN = {  # the interpreter is slow, so batches are of one item where they can be
    "everything": Visibility(),
    "causal": Visibility(after=0),
    "causal, bottom right": Visibility(after=0, shift=S - T),
    "causal, late": Visibility(after=0, shift=-4),
    "band": Visibility(before=2, after=3, shift=1),
    "band beside the diagonal": Visibility(before=-6, after=7),
    "lengths": Visibility(lengths=torch.tensor([18, 0])),
    "lengths and causal": Visibility(lengths=torch.tensor([9]), after=0, shift=2),
    "mask": Visibility(mask=torch.rand(1, T, S, generator=torch.Generator().manual_seed(3)) < 0.2),
    "mask of keys and band": Visibility(mask=(torch.arange(S) % 3 == 1).view(1, 1, S), before=4),
}


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    if DEVICE == "cpu":
        sides = {"BM": 16, "BN": 16, "BD": 32, "num_warps": 4, "num_stages": 1}
        monkeypatch.setattr(fused, "tiles", lambda *_: sides)


def rows(N: int = 1, dtype: torch.dtype = torch.float32, magnitude: float = 1.0) -> tuple[Tensor, Tensor]:
    query, key = torch.randn(N, T, D), torch.randn(N, S, D)
    return (magnitude * query).to(DEVICE, dtype), key.to(DEVICE, dtype)


def moved(seen: Visibility) -> Visibility:
    lengths, mask = (None if part is None else part.to(DEVICE) for part in (seen.lengths, seen.mask))
    return Visibility(lengths, seen.shift, seen.before, seen.after, mask)


def expected(query: Tensor, key: Tensor, seen: Visibility, scale: float, wanted: Wanted, heads: int = 1) -> Statistics:
    """In float64, from all weights."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT * scale

    return reference.statistics(query.double(), key.double(), seen, score=score, wanted=wanted, heads=heads)


def assert_same(found: Statistics, exact: Statistics, tolerance: float = 3e-6) -> None:
    theirs = exact.tensors()
    assert found.tensors().keys() == theirs.keys()
    for name, tensor in found.tensors().items():
        assert tensor.shape == theirs[name].shape, name
        assert not tensor.isnan().any(), name
        if name in ("argmax", "top_index"):
            assert tensor.dtype == torch.int64
            assert torch.equal(tensor, theirs[name]), name
        else:
            assert tensor.dtype == torch.float32
            torch.testing.assert_close(
                tensor.double(), theirs[name], rtol=tolerance, atol=tolerance, msg=partial("{}: {}".format, name)
            )


@pytest.mark.parametrize("name", SEEN)
def test_all_statistics_are_the_references(name: str) -> None:
    seen = moved(SEEN[name])
    query, key = rows(1 if seen.lengths is None else len(seen.lengths))
    assert_same(fused.statistics(query, key, seen, scale=0.3, wanted=ALL), expected(query, key, seen, 0.3, ALL))


@pytest.mark.parametrize("k", [1, 3, 16])
def test_the_k_greatest_come_in_falling_order_and_fillers_weigh_nothing_at_key_0(k: int) -> None:
    (query, key), seen, wanted = rows(), Visibility(after=0), Wanted(top=k)
    exact = expected(query, key, seen, 1.0, wanted)
    found = fused.statistics(query, key, seen, scale=1.0, wanted=wanted, lse=exact.lse.float())
    assert_same(found, exact)
    assert found.top_weights is not None
    assert found.top_index is not None
    assert found.top_weights.shape == (1, T, min(k, S))
    assert (found.top_weights.diff(dim=-1) <= 0).all()
    fillers = torch.arange(min(k, S), device=DEVICE) > torch.arange(T, device=DEVICE).unsqueeze(-1)  # [T, k]
    assert not found.top_weights[:, fillers].any()
    assert not found.top_index[:, fillers].any()


def test_the_residual_is_exactly_0_where_all_that_is_seen_is_kept() -> None:
    query, key = rows()
    found = fused.statistics(query, key, Visibility(before=1, after=2), scale=1.0, wanted=Wanted(top=4))
    assert found.residual is not None
    assert not found.residual.any()


@pytest.mark.parametrize("direction", [1, -1], ids=["rising", "falling"])
@pytest.mark.parametrize("name", ["everything", "causal, bottom right"])
def test_keys_that_rise_or_fall_tile_by_tile_displace_each_other(name: str, direction: int) -> None:
    query, key = torch.ones(1, T, D, device=DEVICE), torch.ones(1, S, D, device=DEVICE)
    key *= direction * 0.05 * torch.arange(S, device=DEVICE).view(1, S, 1) / D
    wanted = Wanted(top=3, entropy=True)
    exact = expected(query, key, SEEN[name], 1.0, wanted)
    assert_same(fused.statistics(query, key, SEEN[name], scale=1.0, wanted=wanted, lse=exact.lse.float()), exact)


def test_equal_weights_are_named_from_the_lowest_key_where_all_are_seen() -> None:
    query, key = rows()
    found = fused.statistics(query * 0, key, Visibility(), scale=1.0, wanted=Wanted(top=3, maximum=True))
    assert found.top_index is not None
    assert found.argmax is not None
    assert torch.equal(found.top_index, torch.arange(3, device=DEVICE).expand(1, T, 3))
    assert not found.argmax.any()


def test_equal_weights_are_kept_apart_and_each_key_once() -> None:
    query, key = rows()
    key = key[:, :1].expand(1, S, D)
    found = fused.statistics(query, key, Visibility(after=4), scale=1.0, wanted=Wanted(top=5))
    assert found.top_index is not None
    assert found.top_weights is not None
    assert (found.top_index.diff(dim=-1) > 0).all()
    seen = torch.arange(T, device=DEVICE).add(5).clamp(max=S).view(1, T, 1).expand(1, T, 5)
    torch.testing.assert_close(found.top_weights, 1 / seen.float())


@pytest.mark.parametrize(
    ("dtype", "magnitude"),
    [(torch.float32, 1e-3), (torch.float32, 20.0), (torch.bfloat16, 5.0), (torch.float16, 5.0)],
)
def test_products_are_exact_for_the_inputs_as_they_are_given(dtype: torch.dtype, magnitude: float) -> None:
    query, key = (tensor[:, :11] for tensor in rows(1, dtype, magnitude))
    seen = Visibility(after=0)
    found = fused.statistics(query, key, seen, scale=D**-0.5, wanted=ALL)
    exact = expected(query, key, seen, D**-0.5, ALL)
    if magnitude < 1:  # weights so alike that their order is one of rounding
        found = Statistics(**{**found.tensors(), "argmax": exact.argmax, "top_index": exact.top_index})
    assert_same(found, exact, tolerance=1e-6 * max(5, magnitude))


@pytest.mark.parametrize(
    "wanted",
    [Wanted(), Wanted(entropy=True), Wanted(maximum=True), Wanted(received=True)],
    ids=["log-sum-exp", "entropy", "maximum", "received"],
)
def test_each_is_computed_alone_as_with_the_others(wanted: Wanted) -> None:
    (query, key), seen = rows(), Visibility(after=0, shift=3)
    assert_same(fused.statistics(query, key, seen, scale=1.0, wanted=wanted), expected(query, key, seen, 1.0, wanted))


def test_heads_may_share_keys_in_groups() -> None:
    query, key = torch.randn(2 * 4, 3, D, device=DEVICE), torch.randn(2 * 2, 5, D, device=DEVICE)
    seen = Visibility(lengths=torch.tensor([4, 2], device=DEVICE))
    exact = expected(query, key.repeat_interleave(2, 0), seen, 1.0, Wanted(maximum=True), heads=4)
    assert_same(fused.statistics(query, key, seen, scale=1.0, wanted=Wanted(maximum=True), heads=4), exact)


def test_batch_and_heads_may_be_axes_of_their_own_in_any_layout() -> None:
    B, H, wanted = 2, 2, Wanted(top=9, received=True)
    query = torch.randn(B, 5, H, D, device=DEVICE).transpose(1, 2)
    key = torch.randn(H, B, D, 3, device=DEVICE).permute(1, 0, 3, 2)
    seen = Visibility(mask=torch.rand(B, H, 1, 3, device=DEVICE) < 0.8)
    found = fused.statistics(query, key, seen, scale=1.0, wanted=wanted)
    assert_same(found, expected(query.flatten(0, 1), key.flatten(0, 1), seen, 1.0, wanted, heads=H).per_head(H))


@pytest.mark.parametrize("called", [-math.inf, math.inf])
def test_a_query_that_sees_nothing_gets_zeros_whatever_its_log_sum_exp_is_called(called: float) -> None:
    query, key = (tensor[:, :11] for tensor in rows())
    seen = Visibility(after=0, shift=-4)
    exact = expected(query, key, seen, 1.0, ALL)
    lse = exact.lse.float()
    assert lse[:, :4].isinf().all()
    known = lse.masked_fill(lse.isinf(), called)
    assert_same(fused.statistics(query, key, seen, scale=1.0, wanted=ALL, lse=known), exact)


@pytest.mark.parametrize(("N", "T", "S"), [(2, 0, 5), (2, 5, 0), (0, 5, 3)])
def test_no_queries_and_no_keys_give_zeros(N: int, T: int, S: int) -> None:
    query, key = torch.randn(N, T, D, device=DEVICE), torch.randn(N, S, D, device=DEVICE)
    found = fused.statistics(query, key, Visibility(), scale=1.0, wanted=ALL)
    assert_same(found, expected(query, key, Visibility(), 1.0, ALL))


def test_what_it_cannot_serve_is_reported() -> None:
    query, key = rows(6)
    with pytest.raises(SaccadeError, match=r"float64 of width 24.*statistics.blocked"):
        fused.statistics(query.double(), key.double(), Visibility(), scale=1.0, wanted=ALL)
    with pytest.raises(SaccadeError, match=r"found query .*heads=4"):
        fused.statistics(query, key, Visibility(), scale=1.0, wanted=ALL, heads=4)
    with pytest.raises(SaccadeError, match="65 kept"):
        fused.statistics(query, torch.randn(6, 70, D, device=DEVICE), Visibility(), scale=1.0, wanted=Wanted(top=65))


@pytest.mark.parametrize("kernel", ["lse", "rows", "keys"])
def test_a_tile_is_wide_enough_for_the_vectors_and_for_a_matrix_product(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for dtype, width, precision in itertools.product(fused.DTYPES, (1, 24, 64, 128, 200), ("ieee", "tf32x3")):
        sides = fused.tiles(kernel, width, 16, dtype, False, precision)
        assert sides["BD"] >= width
        assert all(sides[side] >= 16 and sides[side].bit_count() == 1 for side in ("BM", "BN", "BD"))


@pytest.mark.parametrize(
    ("dtype", "width", "capability", "precision"),
    [
        (torch.float32, 64, (9, 0), "tf32x3"),
        (torch.float32, 128, (9, 0), "tf32x3"),
        (torch.float32, 129, (9, 0), "ieee"),  # its tiles would not fit
        (torch.float32, 64, (8, 6), "ieee"),
        (torch.bfloat16, 64, (9, 0), "ieee"),
    ],
)
def test_tensor_cores_multiply_narrow_float32_on_hopper_alone(
    dtype: torch.dtype, width: int, capability: tuple[int, int], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = torch.empty(1, 1, 5, width, dtype=dtype, device="meta")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert fused.precision_of(query) == "ieee"  # no GPU holds it
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    assert fused.precision_of(query) == precision
