"""The parts of additive attention on a GPU, each by itself: what the device does, without the host's share.

    python benchmarks/kernels/parts.py --out TABLE.md

B=16, T=S=D=512; medians of ``triton.testing.do_bench``. The sum of them is what forward and backward could take at best.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import triton

from saccade.kernels.additive import direct, separable_fused
from saccade.kernels.additive.direct_forms import FORMS
from saccade.kernels.additive.tables import TILED_RANKS, table_for, tolerance
from saccade.kernels.visibility import Visibility


def parts() -> dict[str, Callable[[], object]]:
    torch.manual_seed(1)
    query, key, value, grad = (torch.randn(16, 512, 512, device="cuda") * size for size in (0.5, 0.5, 1.0, 1e-2))
    v, seen, weights = (
        torch.randn(1, 512, device="cuda") / 512**0.5,
        Visibility(),
        torch.rand(16, 512, 512, device="cuda"),
    )
    named: dict[str, Callable[[], object]] = {}
    for form in FORMS:
        size = 0.1 if form == "small" else 1.0
        q, k = query * size, key * size
        named[f"direct, {form}: scores"] = lambda q=q, k=k, form=form: direct.scores(q, k, v, seen, form=form)
        named[f"direct, {form}: gradients"] = lambda q=q, k=k, form=form: direct.gradients(
            q, k, v, grad, seen, form=form
        )
    half = [each.to(torch.bfloat16) for each in (query, key, v)]
    reach = max(float(each.abs().max()) for each in half[:2])
    table = table_for(reach, tolerance(torch.bfloat16), TILED_RANKS)
    if table is None:
        raise SystemExit(f"no expansion reaches {reach}")
    of_query, of_key = separable_fused.features(*half, table)
    label = f"separable, bfloat16, rank {table.rank}"
    named |= {
        f"{label}: features": lambda: separable_fused.features(*half, table),
        f"{label}: product": lambda: separable_fused.products(of_query, of_key),
        f"{label}: scores, all": lambda: separable_fused.scores(*half, seen, table=table),
        f"{label}: gradients, all": lambda: separable_fused.gradients(*half, grad, seen, table=table),
        "softmax": lambda: torch.softmax(grad, -1),
        "product with the values, float32": lambda: torch.bmm(weights, value),
        "softmax backward": lambda: torch.ops.aten._softmax_backward_data(grad, weights, -1, torch.float32),
    }
    return named


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark measures a GPU, and PyTorch finds none")
    lines = [f"{datetime.date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}.", ""]
    lines += ["| part | ms |", "|---|---|"]
    for name, part in parts().items():
        lines.append(f"| {name} | {triton.testing.do_bench(part, return_mode='median'):.3f} |")
        print(lines[-1], flush=True)
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
