"""Chooses the kernel that serves a call, and says why.

A request is plain values, so that a choice can be made, printed and tested without a tensor. The thresholds are
measurements (benchmarks/additive_cpu).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive import attention as additive_attention
from saccade.kernels.additive import blocked as additive_blocked
from saccade.kernels.additive import reference as additive_reference
from saccade.kernels.dot import attention as dot_attention
from saccade.kernels.dot import reference as dot_reference
from saccade.kernels.dtypes import promoted
from saccade.kernels.edges import blocked as edges_blocked
from saccade.kernels.edges import reference as edges_reference
from saccade.kernels.edges.graph import Graph
from saccade.kernels.edges.reference import MOST_WIDTH
from saccade.kernels.entmax import reference as entmax_reference
from saccade.kernels.launching import why_not_fused
from saccade.kernels.location import blocked as location_blocked
from saccade.kernels.location import reference as location_reference
from saccade.kernels.location.reference import MOST_FILTERS

KERNELS: dict[str, Callable[..., Tensor]] = {
    "additive.reference": additive_reference.additive_scores,
    "additive.blocked": additive_blocked.additive_scores,
    "additive.attention": additive_attention.additive_attention,
    "dot.reference": dot_reference.dot_scores,
    "dot.attention": dot_attention.dot_attention,
    "sparsemax.reference": entmax_reference.sparsemax,
    "entmax15.reference": entmax_reference.entmax15,
}

BLOCKED_PAYS_FROM = 1 << 18
"""Numbers in q + k from which the blocked kernel is faster on a CPU, without gradients."""

BLOCKED_PAYS_FROM_WITH_GRADIENT = 1 << 19
"""The same for training, where the blocked kernel computes tanh twice."""

ATTENTION_PAYS_FROM = 1 << 18
"""Numbers in q + k from which additive attention in one operator is faster on a GPU."""

PRODUCT_PAYS_FROM = 1 << 12
"""Number of scores from which PyTorch's own dot attention is used, rather than a product, a softmax and a product."""

MOST_BYTES = 4 << 30
"""The largest q + k that the reference may hold on a device where it is the fastest."""

LOCATION_BLOCKED_PAYS_FROM = 1 << 15
"""Numbers in q + k from which location-aware scores in tiles are faster on a CPU."""

EDGES_BLOCKED_PAY_FROM = 1 << 20
"""Numbers in q + k over all edges from which they are processed in runs: below that, one run would hold them all."""

TELLS_APART = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 12)
"""Whether this PyTorch tells torch.export from torch.compile; 2.11 reports an export whenever torch.compile traces."""


@dataclass(frozen=True)
class Request:
    """What is asked of a kernel. `shape` is (batch with heads, queries T, keys S, width D)."""

    op: str
    device: str
    dtype: torch.dtype
    shape: tuple[int, int, int, int]
    needs_grad: bool = False
    capturing: bool = False  # torch.compile or export is tracing the call

    @property
    def numbers(self) -> int:
        """Numbers in q + k."""
        batch, T, S, D = self.shape
        return batch * T * S * D

    @property
    def bytes(self) -> int:
        """Size of q + k."""
        return self.numbers * self.dtype.itemsize


@dataclass(frozen=True)
class Choice:
    """The chosen kernel, and why it and none of the faster ones. Prints as a sentence or two."""

    kernel: str
    function: Callable[..., Tensor]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kernel}: {'; '.join(self.reasons)}."


def is_exporting() -> bool:
    """Whether torch.export is tracing: an exported graph runs where this package's operators are not registered.

    Before PyTorch 2.12 a strict export looks like torch.compile, and the answer is False.
    """
    if TELLS_APART:
        return torch.compiler.is_exporting()
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()


def count_text(number: int) -> str:
    """1234567 as "1,234,567". While torch.compile traces, sizes may be symbolic: then "so many"."""
    return "so many" if torch.compiler.is_compiling() else f"{number:,}"


def _bytes_text(size: int) -> str:
    if torch.compiler.is_compiling():  # the size may be symbolic
        return "so many bytes"
    for power, unit in ((0, "bytes"), (1, "KiB"), (2, "MiB")):
        if size < 1024 ** (power + 1):
            return f"{size / 1024**power:.0f} {unit}"
    return f"{size / 1024**3:.1f} GiB"


def choose(request: Request) -> Choice:
    """Choose the kernel for a request."""
    # torch.compile traces through what a cache wraps, and warns about it.
    return _choose(request) if torch.compiler.is_compiling() else remembered(request)


def _choose(request: Request) -> Choice:
    if request.op in _CHOOSERS:
        return _CHOOSERS[request.op](request)
    kernel = f"{request.op}.reference"
    if kernel not in KERNELS:
        known = ", ".join(sorted({name.partition(".")[0] for name in KERNELS}))
        raise SaccadeError(f"op: expected one of {known}, found {request.op!r}")
    return _choice(kernel, f"it is the only kernel for {request.op}")


remembered = lru_cache(maxsize=4096)(_choose)  # a decoder makes the same request at every step


def _choice(kernel: str, *reasons: str) -> Choice:
    return Choice(kernel, KERNELS[kernel], reasons)


# ---- Additive and dot scores --------------------------------------------------------------------------------------------


def _choose_additive(request: Request) -> Choice:
    _, T, _, _ = request.shape
    whole = f"q + k is {count_text(request.numbers)} numbers ({_bytes_text(request.bytes)})"
    if request.capturing:
        return _choice(
            "additive.reference",
            f"{whole}, and torch.compile or export, which is recording, can fuse these plain operations",
            "additive.blocked reads values to pick its arithmetic, which a recorded graph cannot",
        )
    if T == 1:
        return _choice(
            "additive.reference",
            f"a single query, a decoder's step: {whole}, no more than the keys themselves",
            "additive.blocked would have nothing to cut into tiles",
        )
    if request.device == "cpu":
        return _choose_additive_on_cpu(request, whole)
    if request.bytes > MOST_BYTES:
        most = _bytes_text(MOST_BYTES)
        return _choice(
            "additive.blocked",
            f"{whole}, more than the {most} that additive.reference may hold, so it is done in tiles",
        )
    return _choice(
        "additive.reference",
        f"{whole}, within the {_bytes_text(MOST_BYTES)} that it may hold on {request.device}",
        f"additive.blocked has tiles for a CPU's cache, and on {request.device} would save memory but not time",
    )


def _choose_additive_on_cpu(request: Request, whole: str) -> Choice:
    least = BLOCKED_PAYS_FROM_WITH_GRADIENT if request.needs_grad else BLOCKED_PAYS_FROM
    purpose = "with gradients" if request.needs_grad else "without gradients"
    if request.numbers < least:
        return _choice("additive.reference", whole, f"additive.blocked, {purpose}, is faster only from {least:,} on")
    return _choice(
        "additive.blocked", whole, f"{purpose}, its tiles in the CPU's cache are faster from {least:,} numbers on"
    )


def _choose_additive_attention(request: Request) -> Choice:
    """All of attention in one operator, or the scores' kernel followed by softmax and product."""
    _, T, _, _ = request.shape
    least = ATTENTION_PAYS_FROM
    if request.device == "cpu":
        least = BLOCKED_PAYS_FROM_WITH_GRADIENT if request.needs_grad else BLOCKED_PAYS_FROM
    if T == 1 or request.numbers < least:
        scores = _choose_additive(request)
        small = "has nothing to cut into blocks" if T == 1 else f"pays from {least:,} numbers on"
        why = f"additive.attention does not serve: it {small}"
        return Choice(scores.kernel, scores.function, (*scores.reasons, why))
    whole = f"{count_text(request.numbers)} numbers in q + k"
    why = f"{whole}, which it never holds; it goes from queries to contexts in blocks of queries"
    return _choice("additive.attention", why)


def _choose_dot_attention(request: Request) -> Choice:
    batch, T, S, _ = request.shape
    if T == 1 or batch * T * S < PRODUCT_PAYS_FROM:
        scores = f"{count_text(batch * T * S)} scores"
        why = f"{scores}: PyTorch's own attention pays from {PRODUCT_PAYS_FROM:,} on, for several queries"
        return _choice("dot.reference", why)
    return _choice(
        "dot.attention", "PyTorch's scaled_dot_product_attention: flash or memory-efficient where they serve"
    )


_CHOOSERS: dict[str, Callable[[Request], Choice]] = {
    "additive": _choose_additive,
    "additive.attention": _choose_additive_attention,
    "dot.attention": _choose_dot_attention,
}


# ---- Attention over edges -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EdgeChoice(Choice):
    """A choice that also has the kernel's function for α of every edge."""

    weights: Callable[..., Tensor]


def choose_edges(query: Tensor, key: Tensor, value: Tensor, graph: Graph) -> EdgeChoice:
    """The fused kernel where it can serve, else runs of edges, else, where these are few or exported, the reference."""
    _, H, D = query.shape
    width = max(D, value.shape[-1])
    numbers = graph.size * H * width
    sizes = (count_text(size) for size in (graph.size, H, width, numbers))
    whole = "{} edges of {} × {} numbers are {}".format(*sizes)
    formula = edges_reference.edge_attention, edges_reference.edge_weights
    if is_exporting():
        reason = f"{whole}, kept whole because an exported graph runs where this package's operators are not registered"
        return EdgeChoice("edges.reference", formula[0], (reason,), formula[1])
    obstacles = why_not_fused(query)
    if torch.float64 in (query.dtype, key.dtype, value.dtype):
        obstacles.append("it computes in float32, not float64")
    if width > MOST_WIDTH:
        obstacles.append(f"heads of {width} numbers are wider than the {MOST_WIDTH} it holds in registers")
    if not obstacles:
        from saccade.kernels.edges import fused

        return EdgeChoice("edges.fused", fused.edge_attention, (f"{whole}, none of them stored",), fused.edge_weights)
    unserved = tuple(f"edges.fused cannot serve: {obstacle}" for obstacle in obstacles)
    if numbers < EDGES_BLOCKED_PAY_FROM:
        few = f"{whole}, few enough to keep; edges.blocked pays from {EDGES_BLOCKED_PAY_FROM:,} on"
        return EdgeChoice("edges.reference", formula[0], (few, *unserved), formula[1])
    many = f"{whole}, processed in runs"
    return EdgeChoice("edges.blocked", edges_blocked.edge_attention, (many, *unserved), edges_blocked.edge_weights)


# ---- Location-aware scores ----------------------------------------------------------------------------------------------


def choose_location_aware(query: Tensor, key: Tensor, v: Tensor, filters: Tensor) -> Choice:
    """The fused kernel on a GPU and the blocked one on a CPU where they can serve, else the reference, with the obstacles."""
    T, taps, numbers = query.shape[-2], len(filters), key.numel()
    both = {
        "an exported graph runs where this package's operators are not registered": is_exporting(),
        f"there are {T} queries per item, not one": T != 1,
        "the keys are shared by several items": key.shape[:-2] != query.shape[:-2],
    }
    plain = query.device.type == "cpu" and not torch.compiler.is_compiling() and not any(both.values())
    if plain and numbers >= LOCATION_BLOCKED_PAYS_FROM:
        reason = f"{count_text(numbers)} numbers in q + k, in tiles in the CPU's cache"
        return Choice("location_aware.blocked", location_blocked.location_aware_scores, (reason,))
    checks = {
        **both,
        "it computes in float32, not float64": promoted(query, key, v) is torch.float64,
        f"{taps} filters are more than the {MOST_FILTERS} it holds in registers": taps > MOST_FILTERS,
    }
    obstacles = why_not_fused(query) + [obstacle for obstacle, holds in checks.items() if holds]
    if obstacles:
        reasons = tuple(f"location_aware.fused cannot serve: {obstacle}" for obstacle in obstacles)
        return Choice("location_aware.reference", location_reference.location_aware_scores, reasons)
    from saccade.kernels.location import fused

    reason = "one query per item, a decoder's step, in one launch; q + k + L f is never stored"
    return Choice("location_aware.fused", fused.location_aware_scores, (reason,))
