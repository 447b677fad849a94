"""Products that skip what is not seen equal the library's over everything, with zeros where nothing is seen."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.visibility import OPEN, Visibility

products = pytest.importorskip("saccade.kernels.additive.visible_products", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, T, S, K = 2, 19, 37, 8
SMALL = products.Tiles(16, 16, 16, warps=4, stages=2, group=2)
DESCRIBED = dataclasses.replace(SMALL, described=True)
TILES = pytest.mark.parametrize("tile", [SMALL, DESCRIBED], ids=["pointers", "descriptors"])
WINDOWS = {
    "everything": Visibility(),
    "lengths": Visibility(torch.tensor([0, S])),
    "odd lengths": Visibility(torch.tensor([17, S + 5])),
    "causal": Visibility(after=0),
    "what is to come": Visibility(before=0),
    "band": Visibility(before=3, after=5),
    "band off the diagonal": Visibility(torch.tensor([29, 11]), shift=9, before=2, after=1),
    "band beyond the keys": Visibility(shift=100, before=3, after=3),
}
SEEN = pytest.mark.parametrize(
    ("seen", "tile"),
    [pytest.param(seen, SMALL, id=name) for name, seen in WINDOWS.items()]
    # What is seen is settled before anything is read: here are the windows at whose edges reading by descriptors differs.
    + [
        pytest.param(WINDOWS[name], DESCRIBED, id=f"{name}, descriptors")
        for name in ("everything", "odd lengths", "band")
    ],
)


def visible(seen: Visibility, queries: int = T, keys: int = S, batch: int = N, heads: int = 1) -> Tensor:
    """[N, T, S], what lengths and band leave."""
    dense = dataclasses.replace(seen, mask=None).dense(queries, keys, torch.device(DEVICE))
    whole = torch.ones(batch // heads, queries, keys, dtype=torch.bool, device=DEVICE)
    return (whole if dense is None else whole & dense).repeat_interleave(heads, 0)


def half(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE).half()


def weights_of(seen: Visibility, tile: products.Tiles) -> Tensor:
    """Random where something is seen. Rows of 37 numbers lie 40 apart for descriptors, which need multiples of 16 bytes."""
    weights = torch.zeros(N, T, 40 if tile.described else S, device=DEVICE).half()[..., :S]
    assert products._aligned(weights) == tile.described
    return weights.copy_(half(N, T, S) * visible(seen))


def assert_near(found: Tensor, exact: Tensor, tolerance: float) -> None:
    assert found.shape == exact.shape
    assert (found.double() - exact.double()).abs().max().item() <= tolerance * max(1.0, exact.abs().max().item())


@SEEN
def test_scores_are_the_products_with_zeros_where_nothing_is_seen(seen: Visibility, tile: products.Tiles) -> None:
    of_query, of_key = half(N, T, K), half(N, S, K)
    found = products.scores_of(of_query, of_key, seen, tile=tile)
    assert found.dtype == torch.float32
    assert_near(found, of_query.double() @ of_key.double().mT * visible(seen), 1e-6)


@SEEN
@pytest.mark.parametrize("transposed", [False, True], ids=["by row", "by column"])
def test_sums_over_what_is_seen_are_sums_over_everything(
    seen: Visibility, transposed: bool, tile: products.Tiles
) -> None:
    weights = weights_of(seen, tile)
    features = half(N, T if transposed else S, K)
    found = products.weighted(weights, features, seen, transposed=transposed, tile=tile)
    assert found.dtype == torch.float16
    exact = (weights.mT if transposed else weights).double() @ features.double()
    assert_near(found, exact, 1e-3)


@TILES
@pytest.mark.parametrize("width", [40, 39], ids=lambda width: f"{width} columns")
def test_weights_may_have_columns_beyond_the_keys_and_rows_apart(width: int, tile: products.Tiles) -> None:
    seen = Visibility(torch.tensor([29, S]))
    padded = half(N, T + 1, 64)[:, 1:, :width]
    padded[..., :S] *= visible(seen)
    weights = padded[..., :S].double()
    of_key, of_query = half(N, S, K), half(N, T, K)
    assert_near(products.weighted(padded, of_key, seen, tile=tile), weights @ of_key.double(), 1e-3)
    out = half(N, S, K)
    assert products.weighted(padded, of_query, seen, transposed=True, out=out, tile=tile) is out
    assert_near(out, weights.mT @ of_query.double(), 1e-3)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with each product of two tiles."""
    if torch.cuda.is_available():
        pytest.skip("only Triton's interpreter can count what a program does")
    from triton.runtime.interpreter import InterpreterBuilder

    counted: list[None] = []
    dot = InterpreterBuilder.create_dot

    def counting(self: InterpreterBuilder, *operands: object) -> object:
        counted.append(None)
        return dot(self, *operands)

    monkeypatch.setattr(InterpreterBuilder, "create_dot", counting)
    return counted


@pytest.mark.parametrize(
    ("name", "tile"), [("lengths", SMALL), ("causal", DESCRIBED), ("band", SMALL), ("band off the diagonal", SMALL)]
)
def test_only_tiles_with_something_to_see_are_worked_on(name: str, tile: products.Tiles, steps: list[None]) -> None:
    seen = WINDOWS[name]
    shown = torch.nn.functional.pad(visible(seen), (0, 48 - S, 0, 32 - T))
    worked = int(shown.unflatten(1, (2, 16)).unflatten(3, (3, 16)).any(4).any(2).sum())
    products.scores_of(half(N, T, K), half(N, S, K), seen, tile=tile)
    assert len(steps) == worked
    products.weighted(weights_of(seen, tile), half(N, S, K), seen, tile=tile)
    assert len(steps) == 2 * worked
    products.weighted(weights_of(seen, tile), half(N, T, K), seen, transposed=True, tile=tile)
    assert len(steps) == 3 * worked


@TILES
def test_features_of_unseen_steps_are_never_read(tile: products.Tiles) -> None:
    """Of 48 keys, the band shows 18, …, 30 to the 5 queries, which is within the second step of 16."""
    seen = Visibility(shift=22, before=4, after=4)
    of_query, of_key, weights = half(2, 5, K), half(2, 48, K), half(2, 5, 48) * visible(seen, 5, 48)
    exact = weights.double() @ of_key.double()
    scores = products.scores_of(of_query, of_key, seen, tile=tile)
    of_key[:, :16] = of_key[:, 32:] = math.nan
    assert_near(products.weighted(weights, of_key, seen, tile=tile), exact, 1e-3)
    assert torch.equal(products.scores_of(of_query, of_key, seen, tile=tile), scores)


@TILES
def test_features_of_queries_whose_keys_are_elsewhere_are_never_read(tile: products.Tiles) -> None:
    """Keys 0, …, 4 are seen by queries 18, …, 30 alone."""
    seen = Visibility(shift=-22, before=4, after=4)
    of_query, weights = half(2, 48, K), half(2, 48, 5) * visible(seen, 48, 5)
    exact = weights.double().mT @ of_query.double()
    of_query[:, :16] = of_query[:, 32:] = math.nan
    assert_near(products.weighted(weights, of_query, seen, transposed=True, tile=tile), exact, 1e-3)


@TILES
def test_features_beyond_an_items_length_are_never_read(tile: products.Tiles) -> None:
    seen = Visibility(torch.tensor([0, 19]))
    of_query, of_key, weights = half(N, T, K), half(N, S, K), weights_of(seen, tile)
    exact = weights.double() @ of_key.double()
    of_key[0] = of_key[1, 32:] = math.nan
    assert_near(products.weighted(weights, of_key, seen, tile=tile), exact, 1e-3)
    assert not products.scores_of(of_query, of_key, seen, tile=tile).isnan().any()
    of_query[0] = math.nan
    found = products.weighted(weights, of_query, seen, transposed=True, tile=tile)
    assert not found[0].any()
    assert not found[1, 19:].any()


@TILES
def test_the_heads_of_an_item_have_its_length_and_features_take_several_steps_and_tiles(tile: products.Tiles) -> None:
    seen, heads, K = Visibility(torch.tensor([3, 21]), after=2), 2, 40
    of_query, of_key = half(4, 5, K), half(4, 21, K)
    shown = visible(seen, 5, 21, 4, heads)
    weights = (half(4, 5, 24) * 0)[..., :21].copy_(half(4, 5, 21) * shown)
    found = products.scores_of(of_query, of_key, seen, heads, tile=tile)
    assert_near(found, of_query.double() @ of_key.double().mT * shown, 1e-6)
    found = products.weighted(weights, of_key, seen, heads, tile=tile)
    assert_near(found, weights.double() @ of_key.double(), 1e-3)
    found = products.weighted(weights, of_query, seen, heads, True, tile=tile)
    assert_near(found, weights.double().mT @ of_query.double(), 1e-3)


def test_a_key_that_a_row_of_its_tile_does_not_see_has_the_score_zero_even_of_nan() -> None:
    seen = Visibility(torch.tensor([5]), after=0)
    of_key = half(1, 16, K)
    of_key[:, 5:] = math.nan
    found = products.scores_of(half(1, 16, K), of_key, seen, tile=SMALL)
    assert torch.equal(found != 0, visible(seen, 16, 16, 1))


@TILES
def test_blocks_of_items_queries_and_keys_make_up_the_whole(tile: products.Tiles) -> None:
    seen, heads, N, T, S = Visibility(torch.tensor([15, 11]), shift=4, before=3, after=2), 2, 4, 7, 17
    of_query, of_key = half(N, T, K), half(N, S, K)
    shown = visible(seen, T, S, N, heads)
    weights = half(N, T, S) * shown
    scores = torch.full((N, T, 24), math.nan, device=DEVICE)[..., :S]
    by_row, by_column = torch.zeros(N, T, K, device=DEVICE), torch.zeros(N, S, K, device=DEVICE)
    for items in (slice(0, 1), slice(1, N)):  # the first head of an item is not the first of a block
        for queries, keys in itertools.product((slice(0, 5), slice(5, T)), (slice(0, 8), slice(8, S))):
            block, start = (items, queries, keys), (items.start, queries.start, keys.start)
            rows, columns = of_query[items, queries], of_key[items, keys]
            where = {"start": start, "tile": tile}
            products.scores_of(rows, columns, seen, heads, out=scores[block], **where)
            by_row[items, queries] += products.weighted(weights[block], columns, seen, heads, **where)
            by_column[items, keys] += products.weighted(weights[block], rows, seen, heads, True, **where)
    assert_near(scores, of_query.double() @ of_key.double().mT * shown, 1e-6)
    assert_near(by_row, weights.double() @ of_key.double(), 2e-3)
    assert_near(by_column, weights.double().mT @ of_query.double(), 2e-3)


def test_the_tiles_chosen_by_shape_serve_too() -> None:
    seen = Visibility(torch.tensor([3, S]), after=0)
    of_query, of_key, weights = half(N, T, K), half(N, S, K), half(N, T, S) * visible(seen)
    exact = of_query.double() @ of_key.double().mT * visible(seen)
    assert_near(products.scores_of(of_query, of_key, seen), exact, 1e-6)
    assert_near(products.weighted(weights, of_key, seen), weights.double() @ of_key.double(), 1e-3)


@TILES
@pytest.mark.parametrize("sizes", [(0, 5, 7, 8), (2, 0, 7, 8), (2, 5, 0, 8), (2, 5, 7, 0)], ids=str)
def test_what_is_empty_sums_to_zero(sizes: tuple[int, int, int, int], tile: products.Tiles) -> None:
    N, T, S, K = sizes
    seen = Visibility(after=0)
    assert not products.scores_of(half(N, T, K), half(N, S, K), seen, tile=tile).any()
    assert products.weighted(half(N, T, S), half(N, S, K), seen, tile=tile).shape == (N, T, K)
    assert products.weighted(half(N, T, S), half(N, T, K), seen, transposed=True, tile=tile).shape == (N, S, K)
    if not S:
        assert not products.weighted(half(N, T, S), half(N, S, K), seen, tile=tile).any()


def test_a_mask_alone_skips_nothing() -> None:
    seen = Visibility(mask=torch.zeros(T, S, dtype=torch.bool, device=DEVICE))
    of_query, of_key = half(N, T, K), half(N, S, K)
    assert_near(products.scores_of(of_query, of_key, seen, tile=SMALL), of_query.double() @ of_key.double().mT, 1e-6)
    assert not products.pays(seen, 16, 512, 512)


def test_skipping_pays_where_many_tiles_are_hidden() -> None:
    lengths = Visibility(torch.ones(16, dtype=torch.int64))
    assert not products.pays(Visibility(), 16, 2048, 2048)
    assert products.pays(Visibility(after=0), 16, 2048, 2048)
    assert products.pays(Visibility(before=64, after=64), 16, 2048, 2048)
    assert products.pays(lengths, 16, 1024, 1024)
    assert not products.pays(lengths, 512, 512, 100)  # one tile holds every key
    assert not products.pays(Visibility(after=0), 512, 128, 128)
    assert not products.pays(Visibility(after=2000), 16, 2048, 2048)
    assert not products.pays(Visibility(after=0), 1, 1024, 1024)  # 64 tiles
    assert not products.pays(Visibility(after=0), 16, 2048, 512)  # short sums


@pytest.mark.parametrize(("low", "high"), [(-OPEN, 0), (0, OPEN), (-64, 64), (300, 310), (-900, -5), (5000, OPEN)])
def test_the_share_of_a_band_is_that_of_the_tiles_it_meets(low: int, high: int) -> None:
    T, S = 700, 900
    seen = torch.tensor([[low <= s - t <= high for s in range(S)] for t in range(T)])
    tiles = [seen[t : t + 128, s : s + 128].any() for t in range(0, T, 128) for s in range(0, S, 128)]
    assert products._band_share(T, S, low, high) == sum(map(bool, tiles)) / len(tiles)


def test_wrong_shapes_and_types_are_reported() -> None:
    of_query, of_key = half(2, 5, 8), half(2, 7, 8)
    with pytest.raises(SaccadeError, match=r"expected of_key \(2, 7, 8\).*found \(3, 7, 8\)"):
        products.scores_of(of_query, half(3, 7, 8), Visibility())
    with pytest.raises(SaccadeError, match=r"expected of_query .*float16.*float32"):
        products.scores_of(of_query.float(), of_key, Visibility())
    with pytest.raises(SaccadeError, match=r"expected weights \(2, 5, 7\).*found \(2, 5, 6\)"):
        products.weighted(half(2, 5, 6), of_key, Visibility())
    with pytest.raises(SaccadeError, match="expected contiguous rows of out"):
        products.scores_of(of_query, of_key, Visibility(), out=torch.zeros(2, 7, 5, device=DEVICE).mT)
    with pytest.raises(SaccadeError, match="expected a contiguous out"):
        products.weighted(half(2, 5, 7), of_key, Visibility(), out=half(2, 5, 16)[..., :8])
