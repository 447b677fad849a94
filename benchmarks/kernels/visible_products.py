"""Products of features that skip what is not seen against the library's, which compute everything: time on a GPU.

    python benchmarks/kernels/seen.py [--out FILE] [--batch 16] [--sizes 512 2048] [--features 8192] [--sweep]

Three products of additive attention's separable form: *scores* [T, K] × [K, S], and the gradients' sums *by row*
[T, S] × [S, K] and *by column* [S, T] × [T, K], float16 to float32 or float16. T = S. Under *lengths* the items' lengths are
spread evenly, half of the keys on average; *band* sees 64 keys on either side. *Share* is what of the pairs is seen. Medians of
``triton.testing.do_bench``; each product is first compared with the library's. ``--sweep`` times every shape of tile instead.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import triton
from torch import Tensor
from triton.runtime.errors import OutOfResources

from saccade.kernels.additive.separable_fused import products
from saccade.kernels.additive.visible_products import Tiles, score_tiles, scores_of, weighted, weighted_tiles
from saccade.kernels.visibility import Visibility

TILES = [
    Tiles(rows, columns, step, warps=warps, stages=stages)
    for rows, columns, step, warps, stages in (
        (128, 256, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (256, 128, 64, 8, 3),
        (128, 128, 64, 8, 3),
        (128, 128, 64, 8, 4),
        (128, 128, 64, 4, 3),
        (128, 128, 64, 4, 4),
        (128, 128, 128, 8, 3),
        (128, 64, 64, 4, 3),
        (128, 64, 64, 4, 4),
        (64, 128, 64, 4, 4),
        (64, 64, 64, 4, 4),
    )
]


@dataclasses.dataclass(frozen=True)
class Product:
    """The library's, over everything; ours with a shape of tile; the shape that it chooses by itself."""

    everything: Callable[[], Tensor]
    seen: Callable[[Tiles], Tensor]
    tile: Tiles
    tolerance: float  # of the largest number: of float32 sums in another order, or float16's rounding


def windows(batch: int, size: int) -> dict[str, Visibility]:
    spread = ((torch.arange(batch) * 2 + 1) * size / (2 * batch)).ceil().to(torch.int64)
    return {
        "full": Visibility(),
        "lengths": Visibility(spread.cuda()),
        "causal": Visibility(after=0),
        "band 64": Visibility(before=64, after=64),
    }


def visible(seen: Visibility, batch: int, size: int) -> Tensor:
    dense = seen.dense(size, size, torch.device("cuda"))
    whole = torch.ones(batch, size, size, dtype=torch.bool, device="cuda")
    return whole if dense is None else whole & dense


def products_of(of_query: Tensor, of_key: Tensor, seen: Visibility, shown: Tensor) -> dict[str, Product]:
    (N, T, K), S = of_query.shape, of_key.shape[1]
    weights = torch.randn(N, T, S, device="cuda").half() * shown
    return {
        "scores": Product(
            lambda: products(of_query, of_key),
            lambda tile: scores_of(of_query, of_key, seen, tile=tile),
            score_tiles(N, T, S),
            1e-4,
        ),
        "by row": Product(
            lambda: torch.bmm(weights, of_key),
            lambda tile: weighted(weights, of_key, seen, tile=tile),
            weighted_tiles(T, K),
            2e-3,
        ),
        "by column": Product(
            lambda: torch.bmm(weights.mT, of_query),
            lambda tile: weighted(weights, of_query, seen, transposed=True, tile=tile),
            weighted_tiles(S, K),
            2e-3,
        ),
    }


def check(name: str, product: Product, tile: Tiles, shown: Tensor) -> None:
    exact = product.everything()
    if name == "scores":
        exact *= shown
    off = (product.seen(tile) - exact).abs().max().item() / exact.abs().max().item()
    if not off <= product.tolerance:
        sys.exit(f"{name}, {tile}: off by {off:.1e} of the largest number, expected at most {product.tolerance:.0e}")


def milliseconds(step: Callable[[], object]) -> float:
    return float(triton.testing.do_bench(step, return_mode="median"))


def timed(name: str, product: Product, tile: Tiles, shown: Tensor) -> str:
    """A cell of a table; a dash where a multiprocessor has no room for the tile."""
    try:
        check(name, product, tile, shown)
    except OutOfResources:
        return "–"
    return f"{milliseconds(lambda: product.seen(tile)):.3f}"


def rows(args: argparse.Namespace, of_query: Tensor, of_key: Tensor) -> Iterator[str]:
    """The tiles that are chosen, by pointers and by descriptors, beside the library."""
    size = of_query.shape[1]
    heads = ("scores", "by row", "by column")
    yield "| | share | " + " | ".join(f"{name}: library | pointers | descriptors" for name in heads) + " |"
    yield "|---|---|" + "---|---|---|" * len(heads)
    for window, seen in windows(args.batch, size).items():
        shown = visible(seen, args.batch, size)
        cells = [window, f"{shown.float().mean().item():.2f}"]
        for name, product in products_of(of_query, of_key, seen, shown).items():
            cells.append(f"{milliseconds(product.everything):.3f}")
            for described in (False, True):
                cells.append(timed(name, product, dataclasses.replace(product.tile, described=described), shown))
        yield "| " + " | ".join(cells) + " |"


def sweep(args: argparse.Namespace, of_query: Tensor, of_key: Tensor) -> Iterator[str]:
    """Every shape of tile: rows × columns × step, warps, stages; by pointers / by descriptors."""
    size = of_query.shape[1]
    for window, seen in windows(args.batch, size).items():
        shown = visible(seen, args.batch, size)
        found = products_of(of_query, of_key, seen, shown)
        yield f"\n### {window}\n"
        yield "| tile | warps | stages | " + " | ".join(f"{name}: pointers | descriptors" for name in found) + " |"
        yield "|---|---|---|" + "---|---|" * len(found)
        library = " | ".join(f"{milliseconds(product.everything):.3f} | –" for product in found.values())
        yield f"| library | – | – | {library} |"
        for tile in TILES:
            cells = [f"{tile.rows} × {tile.columns} × {tile.step}", str(tile.warps), str(tile.stages)]
            for name, product in found.items():
                for described in (False, True):
                    cells.append(timed(name, product, dataclasses.replace(tile, described=described), shown))
            yield "| " + " | ".join(cells) + " |"


def report(args: argparse.Namespace) -> Iterator[str]:
    yield f"# Products that skip what is not seen, {datetime.date.today()}\n"
    versions = f"torch {torch.__version__}, triton {triton.__version__}"
    yield f"{torch.cuda.get_device_name()}; {versions}; N = {args.batch}, K = {args.features}; milliseconds."
    for size in args.sizes:
        yield f"\n## T = S = {size:,}\n"
        torch.manual_seed(1)
        of_query, of_key = (torch.randn(args.batch, size, args.features, device="cuda").half() for _ in range(2))
        yield from (sweep if args.sweep else rows)(args, of_query, of_key)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the table here too")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 2048], help="queries, and as many keys")
    parser.add_argument("--features", type=int, default=8192, help="of a row: width × rank")
    parser.add_argument("--sweep", action="store_true", help="time every shape of tile")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark measures a GPU, and PyTorch finds none")
    lines = []
    for line in report(args):
        print(line, flush=True)
        lines.append(line)
        if args.out is not None:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
