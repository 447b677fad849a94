"""Both separable engines, plain PyTorch and Triton, give the scores and gradients of tanh, and hide what is not seen."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive import separable, tables
from saccade.kernels.additive.tables import Table, table_for
from saccade.kernels.visibility import Visibility
from tests.kernels.live import LiveMemory

fused = pytest.importorskip("saccade.kernels.additive.separable_fused", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ENGINES = pytest.mark.parametrize("engine", [separable, fused], ids=["plain", "fused"])


def inputs(
    std: float, dtype: torch.dtype = torch.float32, N: int = 2, T: int = 11, S: int = 13, D: int = 7, G: int = 1
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """query, key, v, and a gradient of scores as a softmax leaves it: the sum of each row is 0."""
    query, key, v = torch.randn(N, T, D) * std, torch.randn(N, S, D) * std, torch.randn(G, D)
    grad_scores = torch.randn(N, T, S, dtype=torch.float64).softmax(-1) * torch.randn(N, T, S, dtype=torch.float64)
    grad_scores -= grad_scores.mean(-1, keepdim=True)
    return query.to(DEVICE, dtype), key.to(DEVICE, dtype), v.to(DEVICE, dtype), grad_scores.to(DEVICE)


def table_of(query: Tensor, key: Tensor, ranks: tuple[int, ...] = tables.TILED_RANKS) -> Table:
    table = table_for(max(query.abs().max().item(), key.abs().max().item()), tables.tolerance(query.dtype), ranks)
    assert table is not None
    return table


def eager(query: Tensor, key: Tensor, v: Tensor, grad_scores: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Scores and the three gradients as plain PyTorch makes them in a dtype; v's for each item."""
    N = query.shape[0]
    rows = query, key, v.repeat(N // len(v), 1)
    query, key, v = (tensor.detach().to(dtype).requires_grad_() for tensor in rows)
    scores = (torch.tanh(query[:, :, None] + key[:, None]) @ v[:, None, :, None]).squeeze(-1)
    return [scores.detach(), *torch.autograd.grad(scores, (query, key, v), grad_scores.to(dtype))]


def found(engine: ModuleType, query: Tensor, key: Tensor, v: Tensor, grad_scores: Tensor, **how: Any) -> list[Tensor]:
    how["table"] = how.get("table") or table_of(query, key)
    scores = engine.scores(query, key, v, Visibility(), **how)
    tensors = [scores, *engine.gradients(query, key, v, grad_scores.float(), Visibility(), **how)]
    assert all(tensor.dtype == torch.float32 for tensor in tensors)
    return tensors


def off(tensor: Tensor, exact: Tensor) -> float:
    assert tensor.shape == exact.shape
    return ((tensor.double() - exact).norm() / exact.norm()).item()


@ENGINES
@pytest.mark.parametrize(
    ("std", "dtype"),
    [(0.001, torch.float16), (0.1, torch.bfloat16), (0.5, torch.float16), (1.0, torch.bfloat16)],
)
def test_scores_and_gradients_are_nearer_to_the_truth_than_twice_eagers(
    engine: ModuleType, std: float, dtype: torch.dtype
) -> None:
    tensors = inputs(std, dtype)
    exact = eager(*tensors, torch.float64)
    for ours, theirs, truth in zip(found(engine, *tensors), eager(*tensors, dtype), exact, strict=True):
        assert off(ours, truth) <= 2 * off(theirs, truth)


@pytest.mark.parametrize("rank", [8, 12, 18, 24, 32])
@pytest.mark.parametrize("std", [0.1, 0.5, 1.0])
def test_the_error_is_the_tables(std: float, rank: int) -> None:
    query, key, v, grad_scores = inputs(std, N=3, T=17, S=15, D=9)
    table = table_of(query, key, tables.RANKS)
    if rank < table.rank:
        return
    table = table_of(query, key, (rank,))
    truth = eager(query, key, v, grad_scores, torch.float64)
    ours = found(separable, query, key, v, grad_scores, table=table)
    most = grad_scores.abs()
    size = v.abs().max()
    rounding = 2e-6  # of float32
    for tensor, exact, limit in (
        (ours[0], truth[0], v.abs().sum() * (table.error + rounding)),
        (ours[1], truth[1], most.sum(2, keepdim=True) * size * (table.slope_error + rounding)),
        (ours[2], truth[2], most.sum(1)[..., None] * size * (table.slope_error + rounding)),
        (ours[3], truth[3], most.sum((1, 2))[:, None] * (table.error + rounding)),
    ):
        assert ((tensor - exact).abs() <= 1.1 * limit).all()


@ENGINES
@pytest.mark.parametrize("G", [2, 4])
def test_item_n_takes_row_n_mod_g_of_v(engine: ModuleType, G: int) -> None:
    tensors = inputs(0.1, N=4, T=3, S=5, D=7, G=G)
    for ours, truth in zip(found(engine, *tensors, heads=2), eager(*tensors, torch.float64), strict=True):
        assert off(ours, truth) < 6e-2


SEEN = {
    "lengths": Visibility(lengths=torch.tensor([13, 4, 0], device=DEVICE)),
    "causal": Visibility(shift=2, after=0),
    "band": Visibility(shift=-3, before=2, after=1),
    "mask": Visibility(mask=torch.rand(11, 13, device=DEVICE) < 0.5),
    "mask of items": Visibility(
        mask=torch.rand(3, 1, 13, device=DEVICE) < 0.5, lengths=torch.tensor([13, 4, 6], device=DEVICE)
    ),
    "mask of heads": Visibility(mask=torch.rand(3, 2, 11, 13, device=DEVICE) < 0.5, after=4),
}


@ENGINES
@pytest.mark.parametrize("name", SEEN)
def test_what_is_not_seen_scores_minus_infinity(engine: ModuleType, name: str) -> None:
    query, key, v, _ = inputs(0.1, N=6, D=3, G=2)
    scores = engine.scores(query, key, v, SEEN[name], heads=2, table=table_of(query, key))
    everything = eager(query, key, v, torch.zeros(6, 11, 13, device=DEVICE), torch.float64)[0]
    visible = SEEN[name].dense(11, 13, query.device)
    assert visible is not None
    visible = visible if visible.dim() == 4 else visible[:, None] if visible.dim() == 3 else visible
    expected = everything.float().view(3, 2, 11, 13).masked_fill(~visible.to(DEVICE), -torch.inf)
    torch.testing.assert_close(scores.view(3, 2, 11, 13), expected, rtol=2e-3, atol=1e-3)
    assert 0 < scores.isinf().sum() < scores.numel()


@pytest.mark.parametrize("name", ["lengths", "band", "mask of heads"])
def test_weights_are_the_softmax_of_the_scores_and_zero_in_rows_that_see_nothing(name: str) -> None:
    query, key, v, _ = inputs(0.1, torch.bfloat16, N=6, D=3, G=2)
    table, seen = table_of(query, key), SEEN[name]
    scores = fused.scores(query, key, v, seen, heads=2, table=table)
    sums = torch.empty(6, 11, device=DEVICE)
    products = fused.unfinished(query, key, v, seen, 2, table=table)[0]
    weights, rounded = fused.weights(products, v, seen, 2, torch.bfloat16, sums)
    torch.testing.assert_close(weights, torch.softmax(scores, -1).nan_to_num(0), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(sums, torch.logsumexp(scores, -1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        rounded, weights.bfloat16(), rtol=2**-7, atol=0
    )  # the interpreter does not round to nearest
    assert weights is products and weights.dtype == torch.float32
    assert name != "lengths" or (weights[4:] == 0).all()


def test_rows_too_long_for_one_program_are_refused() -> None:
    with pytest.raises(SaccadeError, match="at most 4096 keys in a row, found 4097"):
        fused.weights(
            torch.zeros(1, 1, 4097, device=DEVICE), torch.ones(1, 3, device=DEVICE), Visibility(), 1, torch.float32
        )


def test_weights_of_float32_are_not_copied() -> None:
    query, key, v, _ = inputs(0.1, T=3, S=5)
    products = fused.unfinished(query, key, v, Visibility(), table=table_of(query, key))[0]
    weights, rounded = fused.weights(products, v, Visibility(), 1, torch.float32)
    assert weights is rounded
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, device=DEVICE))


@pytest.mark.parametrize("feature_bytes", [fused.FEATURE_BYTES, 4 * 2 * 5 * 8])
def test_gradients_in_a_dtype_are_those_of_float32_rounded(feature_bytes: int) -> None:
    query, key, v, grad_scores = inputs(0.1, N=1, T=3, S=7, D=5)
    how = {"table": table_of(query, key, (8,)), "feature_bytes": feature_bytes}
    whole = fused.gradients(query, key, v, grad_scores.float(), Visibility(), **how)
    half = fused.gradients(query, key, v, grad_scores.float(), Visibility(), **how, dtype=torch.bfloat16)
    assert [each.dtype for each in half] == [torch.bfloat16, torch.bfloat16, torch.float32]
    for one, other in zip(half, whole, strict=True):
        torch.testing.assert_close(one, other.to(one.dtype), rtol=2**-7, atol=0)


@pytest.mark.parametrize(("N", "T", "S"), [(1, 3, 1100), (2, 70, 3)])
def test_long_rows_and_columns_are_normalised_in_steps(N: int, T: int, S: int) -> None:
    grad_scores = torch.randn(N, T, S, device=DEVICE) * 3
    by_row, row_scale, by_column, column_scale = fused.normalised(grad_scores)
    total = grad_scores.abs()
    torch.testing.assert_close(row_scale, total.sum(2) / 1024, rtol=1e-5, atol=0)
    torch.testing.assert_close(column_scale, total.sum(1) / 1024, rtol=1e-5, atol=0)
    torch.testing.assert_close(by_row.float(), grad_scores / row_scale[..., None], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(by_column.float(), grad_scores / column_scale[:, None], rtol=1e-3, atol=1e-4)


def test_a_program_works_through_several_tiles_and_the_last_may_be_short() -> None:
    tensors = inputs(0.1, N=1, T=37, S=41, D=67)
    for ours, truth in zip(found(fused, *tensors), eager(*tensors, torch.float64), strict=True):
        assert off(ours, truth) < 2e-2


@ENGINES
def test_blocks_of_rows_change_nothing(engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = inputs(0.1, N=2, T=5, S=7, D=5, G=2)
    table = table_of(*tensors[:2], (8,))
    whole = found(engine, *tensors, table=table)
    if engine is separable:
        monkeypatch.setattr(separable, "CACHE_BYTES", 4 * separable.ALIVE * 4 * 5 * 8)
        pieces = found(engine, *tensors, table=table)
    else:
        pieces = found(engine, *tensors, table=table, feature_bytes=4 * 2 * 5 * 8)
    assert len(list(separable.blocks(2, 5, 7, 4))) == 2 * 2 * 2
    for tensor, expected in zip(pieces, whole, strict=True):
        # Products of a part of a row are rounded to float16 before they are added up.
        torch.testing.assert_close(tensor, expected, rtol=1e-3, atol=5e-4 if engine is fused else 1e-6)


@pytest.mark.parametrize(
    ("N", "T", "S", "rows"), [(5, 3, 4, 100), (5, 3, 4, 9), (2, 11, 3, 4), (3, 4, 13, 5), (1, 1, 1, 1), (2, 7, 7, 1)]
)
def test_blocks_cover_every_pair_once(N: int, T: int, S: int, rows: int) -> None:
    count = torch.zeros(N, T, S)
    for items, queries, keys in separable.blocks(N, T, S, rows):
        count[items, queries, keys] += 1
        items_of = items.stop - items.start
        assert items_of * max(queries.stop - queries.start, keys.stop - keys.start) <= rows
    assert (count == 1).all()


def test_features_of_the_forward_pass_serve_the_backward_pass() -> None:
    query, key, v, grad_scores = inputs(0.2, torch.bfloat16, T=5, S=3)
    table = table_of(query, key)
    kept = fused.query_features(query, v, table), fused.key_features(key, table)
    assert kept[0].shape == (2, 5, 7 * table.rank) and kept[0].dtype == kept[1].dtype == torch.float16
    ours = fused.gradients(query, key, v, grad_scores.float(), Visibility(), table=table, features=kept)
    again = fused.gradients(query, key, v, grad_scores.float(), Visibility(), table=table)
    assert all(torch.equal(one, other) for one, other in zip(ours, again, strict=True))


@pytest.mark.parametrize(("of_v", "of_grad"), [(1e-9, 1.0), (1e6, 1e-25), (1.0, 1e20)])
def test_float16s_range_limits_neither_v_nor_the_gradient(of_v: float, of_grad: float) -> None:
    query, key, v, grad_scores = inputs(0.2, T=5, S=9)
    v, grad_scores = v * of_v, grad_scores * of_grad
    truth = eager(query, key, v, grad_scores, torch.float64)
    for ours, exact in zip(found(fused, query, key, v, grad_scores), truth, strict=True):
        assert off(ours, exact) < 2e-2


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # ∞ · 0 in Triton's interpreter
def test_gradients_that_are_not_finite_stay_so_in_their_rows_and_a_row_of_zeros_stays_zero() -> None:
    query, key, v, grad_scores = inputs(0.2, T=5, S=3)
    grad_scores[0, 1, 2], grad_scores[1, 3, 0], grad_scores[1, 4] = torch.nan, torch.inf, 0
    for engine in (separable, fused):
        _, grad_query, grad_key, grad_v = found(engine, query, key, v, grad_scores)
        bad = ~grad_query.isfinite().all(-1)
        assert bad.nonzero().tolist() == [[0, 1], [1, 3]]
        assert (grad_query[1, 4] == 0).all()
        assert not grad_key[0, 2].isfinite().any() and not grad_v.isfinite().any()


@ENGINES
def test_rows_that_lie_apart_in_memory_are_read_where_they_are(engine: ModuleType) -> None:
    query, key, v, grad_scores = inputs(0.2, T=5, S=3)
    table = table_of(query, key)
    apart = (
        query.mT.contiguous().mT,
        key.repeat(1, 2, 1)[:, :3],
        v.repeat(1, 2)[:, :7],
        grad_scores.mT.contiguous().mT,
    )
    together = found(engine, query, key, v, grad_scores, table=table)
    for tensor, expected in zip(found(engine, *apart, table=table), together, strict=True):
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)


@ENGINES
@pytest.mark.parametrize(("N", "T", "S"), [(2, 0, 3), (2, 3, 0), (0, 3, 5)])
def test_nothing_to_score_gives_empty_scores_and_zero_gradients(engine: ModuleType, N: int, T: int, S: int) -> None:
    query, key, v, grad_scores = (
        torch.ones(*shape, device=DEVICE) for shape in ((N, T, 7), (N, S, 7), (1, 7), (N, T, S))
    )
    table = table_for(1.0, 2e-4, (8,))
    ours = found(engine, query, key, v, grad_scores, table=table)
    assert [tensor.shape for tensor in ours] == [(N, T, S), (N, T, 7), (N, S, 7), (N, 7)]
    assert not any(tensor.any() for tensor in ours)


@ENGINES
def test_float64_and_widths_that_differ_are_refused(engine: ModuleType) -> None:
    query, key, v, _ = inputs(0.4)
    table = table_of(query, key)
    with pytest.raises(SaccadeError, match="found float64"):
        engine.scores(query.double(), key.double(), v.double(), Visibility(), table=table)
    with pytest.raises(SaccadeError, match="widths 7, 5 and 7"):
        engine.scores(query, key[..., :5], v, Visibility(), table=table)


def test_memory_beyond_the_results_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separable, "CACHE_BYTES", 200_000)
    query, key, v, grad_scores = inputs(0.4, N=3, T=61, S=67, D=23)
    table = table_of(query, key, (16,))
    results = 4 * (
        query.numel() + key.numel() + 3 * grad_scores.numel()
    )  # the gradient in float32 and in its block too
    with LiveMemory(unit="bytes") as memory:
        found(separable, query, key, v, grad_scores, table=table)
    assert 100_000 < memory.peak < results + 200_000 + 4 * 4 * query.numel() < 4 * 61 * 67 * 23 * 3


@pytest.mark.parametrize("feature_bytes", [fused.FEATURE_BYTES, 9 * 2 * 8 * 8])
@pytest.mark.parametrize("name", SEEN)
def test_products_of_what_is_seen_alone_give_the_same(
    name: str, feature_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, key, v, grad_scores = inputs(0.1, N=6, D=8, G=2)
    seen, options = SEEN[name], {"heads": 2, "table": table_of(query, key), "feature_bytes": feature_bytes}
    grad_scores = grad_scores.float().masked_fill(seen.hide(torch.zeros_like(grad_scores), 2).isinf(), 0.0)
    skipped = 0

    def always(*sizes: object) -> bool:
        nonlocal skipped
        skipped += 1
        return True

    expected = [
        fused.scores(query, key, v, seen, **options),
        *fused.gradients(query, key, v, grad_scores, seen, **options),
    ]
    monkeypatch.setattr(fused.visible_products, "pays", always)
    scores, *grads = (
        fused.scores(query, key, v, seen, **options),
        *fused.gradients(query, key, v, grad_scores, seen, **options),
    )
    assert skipped >= 3
    torch.testing.assert_close(scores, expected[0], rtol=1e-4, atol=1e-5)
    for grad, other in zip(grads, expected[1:], strict=True):
        torch.testing.assert_close(grad, other, rtol=2e-3, atol=2e-3 * float(other.abs().max()))
