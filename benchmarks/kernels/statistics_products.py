"""Statistics of float32 weights by ways to form products and by tiles: the time of each pass, and how far it is from float64.

    python benchmarks/kernels/statistics_products.py [--width 64] [--length 16384] [--heads 4]

Causal self-attention on a GPU. ``ieee`` multiplies float32 as it stands, ``tf32x3`` adds three products of TF32 on tensor
cores. A tile is queries × keys / warps / stages; what does not fit into the GPU's shared memory says so. Times are medians,
distances the greatest over 2,048 tokens of the same inputs, whose log-sum-exp the kernels find themselves.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch import Tensor
from weight_statistics import CAUSAL, milliseconds

import saccade
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.statistics import fused
from saccade.kernels.statistics.reference import Wanted, of_scores

PASSES = {
    "lse": Wanted(),
    "top 16": Wanted(top=16),
    "entropy, maximum": Wanted(entropy=True, maximum=True),
    "received": Wanted(received=True),
}
EVERYTHING = Wanted(top=16, entropy=True, maximum=True, received=True)
TILES = ("64x64/8/2", "64x64/4/2", "64x64/4/1", "64x128/4/1", "64x128/4/2", "128x64/4/2")
VARIANTS = " ".join(["ieee:64x64/8/2", *(f"tf32x3:{tile}" for tile in TILES)])
COMPARED = 2048


def forced(variant: str, width: int) -> Any:
    """A patch that makes the kernels form products and tiles in this way."""
    precision, _, rest = variant.partition(":")
    shape, warps, stages = rest.split("/")
    BM, BN = (int(side) for side in shape.split("x"))
    BD = max(16, triton.next_power_of_2(width))
    sides = {"BM": BM, "BN": BN, "BD": BD, "num_warps": int(warps), "num_stages": int(stages)}
    return patch.multiple(fused, precision_of=lambda _: precision, tiles=lambda *_: sides)


def row(variant: str, query: Tensor, key: Tensor, exact: dict[str, Tensor], repeats: int) -> str:
    scale = query.shape[-1] ** -0.5
    near_query, near_key = query[:, :, :COMPARED], key[:, :, :COMPARED]
    with forced(variant, query.shape[-1]):
        try:
            found = fused.statistics(near_query, near_key, CAUSAL, scale=scale, wanted=EVERYTHING).tensors()
            known = fused.statistics(query, key, CAUSAL, scale=scale, wanted=Wanted()).lse
            times = [
                milliseconds(
                    lambda wanted=wanted: fused.statistics(  # type: ignore[misc]
                        query, key, CAUSAL, scale=scale, wanted=wanted, lse=None if wanted == Wanted() else known
                    ),
                    repeats,
                )
                for wanted in PASSES.values()
            ]
        except triton.runtime.errors.OutOfResources as error:
            return f"| {variant} |{' – |' * (len(PASSES) + 2)} {str(error).partition('.')[0]} |"
    flat = {name: tensor.flatten(0, 1).double() for name, tensor in found.items()}
    far = {name: float((flat[name] - exact[name]).abs().max()) for name in ("top_weights", "entropy", "lse")}
    places = float((flat["top_index"] == exact["top_index"]).double().mean())
    cells = [variant, *(f"{time:.2f}" for time in times), f"{far['top_weights']:.0e}", f"{far['entropy']:.0e}"]
    return f"| {' | '.join([*cells, f'{1 - places:.0e}'])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--length", type=int, default=16384)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--variants", default=VARIANTS, help="PRECISION:QUERIESxKEYS/WARPS/STAGES, parted by blanks")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("a CUDA device is needed")
    torch.manual_seed(1)
    query, key = (1.5 * torch.randn(1, options.heads, options.length, options.width, device="cuda") for _ in range(2))
    near = (rows[0, :, :COMPARED].double() for rows in (query, key))
    exact = of_scores(CAUSAL.hide(dot_scores(*near, options.width**-0.5), options.heads), EVERYTHING).tensors()
    where = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}"
    print(f"{datetime.date.today()}, {where}, Python {platform.python_version()}, saccade {saccade.__version__}; "
          f"{options.heads} heads of {options.width}, {options.length:,} tokens")  # fmt: skip
    head = ["variant", *(f"{name}, ms" for name in PASSES), "weights off", "entropy off", "places elsewhere"]
    print(f"\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for variant in options.variants.split():
        print(row(variant, query, key, exact, options.repeats), flush=True)


if __name__ == "__main__":
    main()
