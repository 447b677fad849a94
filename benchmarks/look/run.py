"""What ``saccade.look`` costs: a 6-layer BERT at 512 tokens and a small GPT at 16k, built from configurations.

    python benchmarks/look/run.py --out FILE [--device cuda] [--dtypes float32,bfloat16] [--cases bert,gpt] [--length 16384]

Beside it the library's own ways: ``eager`` with ``output_attentions=True``, which returns every weight, and ``sdpa``, which
returns none. Each row is a process of its own: the median of its runs after one that is not counted, and the most memory above
what there was before (on a GPU what was allocated, on a CPU what the process held). ``difference`` is the greatest one between
what look kept and the same of eager's weights, over all layers, heads and queries; it is left out where eager's weights of one
layer take more than ``--most`` GB.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import saccade

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

WAYS = ("sdpa", "eager", "look all", "look top", "look statistics")
KEPT = 16


# ---- What is measured


def model_of(case: str, length: int, device: str, dtype: str) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    if case == "bert":
        config = transformers.BertConfig(
            vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
            max_position_embeddings=length,
        )  # fmt: skip
        model = transformers.BertModel(config)
    else:
        config = transformers.GPT2Config(vocab_size=8192, n_embd=256, n_layer=4, n_head=4, n_positions=length)
        model = transformers.GPT2Model(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.06)  # untrained weights of the usual size look everywhere alike
    return model.eval().to(device=device, dtype=getattr(torch, dtype))


def run(way: str, model: Any, tokens: torch.Tensor) -> Any:
    if way.startswith("look"):
        keep = way.removeprefix("look ")
        return saccade.look(model, None, tokens, keep=keep, k=KEPT if keep == "top" else None)
    model.set_attn_implementation(way)
    with torch.no_grad():
        return model(tokens, output_attentions=way == "eager", use_cache=False)


def difference(way: str, model: Any, tokens: torch.Tensor, trace: saccade.Trace) -> float:
    """The greatest difference between what was kept and the same of eager's weights, of which one layer's are held at once."""
    worst, seen = 0.0, 0

    def compare(layer: int, weights: torch.Tensor) -> None:
        nonlocal worst, seen
        for map in trace.maps:
            if int(map.site.split(".")[1]) != layer:
                continue
            own = weights[0, map.head].float()
            if way == "look all":
                found = map.weights
            elif way == "look top":
                found, own = map.tensors["weights"], own.topk(KEPT).values
            else:
                found, own = map.tensors["maximum"], own.amax(-1)
            worst, seen = max(worst, float((found.to(own.device) - own).abs().max())), seen + 1

    model.set_attn_implementation("eager")
    modules = [each for each in model.modules() if type(each).__name__ in ("BertSelfAttention", "GPT2Attention")]
    hooks = [
        each.register_forward_hook(lambda _, __, made, layer=layer: compare(layer, made[1]))
        for layer, each in enumerate(modules)
    ]
    with torch.no_grad():
        model(tokens, use_cache=False)
    for hook in hooks:
        hook.remove()
    if seen != len(trace.maps):
        raise RuntimeError(f"expected eager weights beside all {len(trace.maps)} maps, found {seen}")
    return worst


# ---- How


def one(case: str, way: str, length: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row, in this process."""
    device = options.device
    model = model_of(case, length, device, options.dtypes)
    tokens = torch.randint(0, model.config.vocab_size, (1, length), device=device)
    saccade.look(model, None, tokens[:, :64], keep="top")  # what is imported and compiled once
    before = _held(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times, result = [], None
    for _ in range(options.repeats + 1):
        del result
        result, seconds = _timed(lambda: run(way, model, tokens), device)
        times.append(seconds)
    row = {"milliseconds": 1000 * statistics.median(times[1:] or times), "bytes": _peak(device) - before}
    weights = model.config.num_attention_heads * length**2 * torch.finfo(getattr(torch, options.dtypes)).bits // 8
    if way.startswith("look") and weights < options.most * 1e9:
        row["difference"] = difference(way, model, tokens, result)
    return row


def _timed(call: Callable[[], Any], device: str) -> tuple[Any, float]:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = call()
    if device == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


def _held(device: str) -> int:
    if device == "cuda":
        return torch.cuda.memory_allocated()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _peak(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def row(case: str, way: str, length: int, dtype: str, options: argparse.Namespace) -> str:
    command = [sys.executable, __file__, "--one", f"{case}:{way}", "--length", str(length), "--dtypes", dtype]
    command += ["--device", options.device, "--repeats", str(options.repeats), "--most", str(options.most)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return f"| {case} | {length:,} | {dtype} | {way} | – | – | {reason[:80]} |"
    found = json.loads(done.stdout.strip().splitlines()[-1])
    apart = f"{found['difference']:.1e}" if "difference" in found else ""
    return f"| {case} | {length:,} | {dtype} | {way} | {found['milliseconds']:,.1f} | {found['bytes'] / 1e6:,.0f} | {apart} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the table goes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--cases", default="bert,gpt")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--length", type=int, default=16384, help="tokens of the gpt case")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--most", type=float, default=6.0, help="GB of a layer's eager weights up to which they are compared"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        case, way = options.one.split(":")
        print(json.dumps(one(case, way, options.length, options)))
        return
    import transformers

    place = device_name(options.device) + ("" if options.device == "cuda" else " (CPU)")
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    lines = [
        f"look: {place}, {versions}, {datetime.date.today()}; median of {options.repeats} runs, top keeps {KEPT} a row",
        "",
        "| model | tokens | dtype | way | ms | peak MB above the model | difference from eager |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for case in options.cases.split(","):
        for dtype in options.dtypes.split(","):
            for way in options.ways.split(","):
                lines.append(row(case, way, 512 if case == "bert" else options.length, dtype, options))
                print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
