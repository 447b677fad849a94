"""Statistics of attention weights that are never stored, beside PyTorch's attention on the same GPU: time and peak memory.

    python benchmarks/kernels/weight_statistics.py --out FILE [--lengths 4096,65536] [--heads 16] [--width 128] [--top 16]

Causal self-attention in bfloat16. The statistics are the greatest weights of each row with their places and the residual,
entropy, maximum and the mass each key receives; they start from the log-sum-exp that the forward pass returns, so what is
looked at costs the forward pass and two more. ``random`` inputs are normal; ``near`` and ``far`` add a slope over the keys
that puts the greatest weights near the query or at the first key: what is kept is then displaced seldom, or by every tile.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics as numbers
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from torch import Tensor
from torch.nn import functional

import saccade
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.statistics import blocked, fused
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.kernels.visibility import Visibility

CAUSAL = Visibility(after=0)
Inputs = tuple[Tensor, Tensor, Tensor]
Forward = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


# ---- What is measured


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def flash(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp by PyTorch's flash attention."""
    context, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, True)
    return context, lse


def cudnn(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp by cuDNN's."""
    operator = torch.ops.aten._scaled_dot_product_cudnn_attention
    context, lse, *_ = operator(query, key, value, None, True, 0.0, True)
    return context, lse


FORWARDS: dict[str, Forward] = {"flash": flash, "cudnn": cudnn}


def inputs(kind: str, length: int, heads: int, width: int) -> Inputs:
    generator = torch.Generator("cuda").manual_seed(1)
    shape = (1, heads, length, width)
    query, key, value = (torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    if kind != "random":
        # Two coordinates carry the slope, the second what bfloat16 rounds off the first.
        slope = torch.linspace(-10, 10, length, device="cuda") * (1 if kind == "near" else -1) * width**0.5
        query[..., :2] = 1
        key[..., 0] = slope.bfloat16()
        key[..., 1] = (slope - slope.bfloat16().float()).bfloat16()
    return query, key, value


def look(forward: Forward, wanted: Wanted, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Statistics]:
    context, lse = forward(query, key, value)
    return context, fused.statistics(query, key, CAUSAL, scale=query.shape[-1] ** -0.5, wanted=wanted, lse=lse)


# ---- How


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """The median over repeats, after a first call that compiles."""
    call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return numbers.median(times)


def peak_bytes(call: Callable[[], object]) -> tuple[int, object]:
    """The most that was allocated at once above what was there before, and what the call returned."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before, result


def quickest_forward(name: str, case: Inputs, repeats: int) -> tuple[str, float]:
    if name != "quickest":
        return name, milliseconds(lambda: FORWARDS[name](*case), repeats)
    times: dict[str, float] = {}
    for each, forward in FORWARDS.items():
        try:
            times[each] = milliseconds(lambda forward=forward: forward(*case), repeats)
        except RuntimeError as error:
            print(f"{each} does not serve: {str(error).splitlines()[0]}", file=sys.stderr)
    best = min(times, key=lambda each: times[each])
    return best, times[best]


def row(kind: str, length: int, wanted: Wanted, options: argparse.Namespace) -> str:
    case = query, key, _ = inputs(kind, length, options.heads, options.width)
    scale = options.width**-0.5
    alone = milliseconds(lambda: attention(*case), options.repeats)
    alone_bytes, _ = peak_bytes(lambda: attention(*case))
    name, _ = quickest_forward(options.forward, case, options.repeats)
    forward = FORWARDS[name]
    _, lse = forward(*case)

    def part(**asked: int) -> float:
        return milliseconds(
            lambda: fused.statistics(query, key, CAUSAL, scale=scale, wanted=Wanted(**asked), lse=lse), options.repeats
        )

    by_rows = part(top=wanted.top, entropy=True, maximum=True)
    by_keys = part(received=True)
    del lse
    whole = milliseconds(lambda: look(forward, wanted, *case), options.repeats)
    whole_bytes, result = peak_bytes(lambda: look(forward, wanted, *case))
    _, found = result  # type: ignore[misc]
    returned = sum(tensor.nbytes for tensor in found.tensors().values())
    beside = whole_bytes - returned
    cells = [
        f"{length:,}",
        kind,
        f"{alone:.2f}",
        name,
        f"{by_rows:.2f}",
        f"{by_keys:.2f}",
        f"{whole:.2f}",
        f"{whole / alone:.2f} ×",
        f"{alone_bytes / 1e6:.0f}",
        f"{returned / 1e6:.0f}",
        f"{beside / 1e6:.0f}",
        f"{beside / alone_bytes:.2f} ×",
    ]
    return f"| {' | '.join(cells)} |"


def agreement(wanted: Wanted, options: argparse.Namespace) -> str:
    """How far the statistics of the shortest input lie from those of its scores in float32, block by block."""
    query, key, value = inputs("random", min(options.lengths), options.heads, options.width)
    _, found = look(FORWARDS[quickest_forward(options.forward, (query, key, value), 1)[0]], wanted, query, key, value)
    N, T = options.heads, query.shape[2]
    rows, keys = query[0].float(), key[0].float()
    torch.backends.cuda.matmul.allow_tf32 = False

    def scores(near: slice, far: slice) -> Tensor:
        return dot_scores(rows[:, near], keys[:, far], options.width**-0.5)

    exact = blocked.statistics(scores, (N, T, T), CAUSAL, like=rows, wanted=wanted, heads=N).tensors()
    parts = []
    for name, tensor in found.tensors().items():
        theirs = exact[name].view_as(tensor)
        if tensor.is_floating_point():
            parts.append(f"{name} {(tensor - theirs).abs().max().item():.0e}")
        else:
            parts.append(f"{name} {(tensor != theirs).sum().item():,} of {tensor.numel():,} elsewhere")
    return f"Largest distance from float32 scores at {T:,} tokens: {', '.join(parts)}."


def report(rows: list[str], distances: str, options: argparse.Namespace) -> str:
    head = [
        "# Statistics of attention weights without storing them",
        "",
        (
            f"{datetime.date.today()}, {torch.cuda.get_device_name()}. Python {platform.python_version()}, torch "
            f"{torch.__version__}, triton {triton.__version__}, saccade {saccade.__version__}. Causal self-attention, "
            f"{options.heads} heads of {options.width}, bfloat16: top {options.top}, entropy, maximum, received mass. "
            f"Medians of {options.repeats}."
        ),
        "",
        "`python benchmarks/kernels/weight_statistics.py`",
        "",
        (
            "| tokens | inputs | attention alone, ms | forward | by rows, ms | by keys, ms | forward and statistics, ms "
            "| time | attention alone, MB | returned, MB | beside it, MB | memory |"
        ),
        "|---" * 12 + "|",
    ]
    return "\n".join([*head, *rows, "", distances]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="markdown file to write")
    parser.add_argument(
        "--lengths",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[4096, 8192, 16384, 32768, 65536],
    )
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--top", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--inputs", default="random,near,far", help="the first at every length, the others at the longest"
    )
    parser.add_argument("--forward", choices=["quickest", *FORWARDS], default="quickest")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("a CUDA device is needed")
    wanted = Wanted(top=options.top, entropy=True, maximum=True, received=True)
    first, *others = options.inputs.split(",")
    distances = agreement(wanted, options)
    rows = []
    for kind, length in [(first, each) for each in options.lengths] + [(kind, max(options.lengths)) for kind in others]:
        rows.append(row(kind, length, wanted, options))
        print(rows[-1], flush=True)
    text = report(rows, distances, options)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
