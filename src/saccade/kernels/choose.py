"""Which kernel serves a request, and why: one place for all operations.

A request is plain values, so a choice can be asked for, printed and tested without a tensor. The thresholds are
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
from saccade.kernels.entmax import reference as entmax_reference
from saccade.kernels.spelling import spelled

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
"""Numbers in q + k from which the blocked kernel is the faster on a CPU, when no gradient is asked for."""

BLOCKED_PAYS_FROM_WITH_GRADIENT = 1 << 19
"""The same for training, where the blocked kernel computes tanh twice."""

ATTENTION_PAYS_FROM = 1 << 18
"""Numbers in q + k from which additive attention in one operator is the faster on a GPU."""

PRODUCT_PAYS_FROM = 1 << 12
"""Scores from which PyTorch's own dot attention is asked, rather than a product, a softmax and a product."""

MOST_BYTES = 4 << 30
"""The largest q + k that the reference may hold on a device where it is the faster."""


@dataclass(frozen=True)
class Request:
    """What is asked of a kernel. `shape` is (batch with heads, queries T, keys S, width D)."""

    op: str
    device: str
    dtype: torch.dtype
    shape: tuple[int, int, int, int]
    needs_grad: bool = False
    capturing: bool = False  # torch.compile or export is recording the call


@dataclass(frozen=True)
class Choice:
    """The kernel that serves, and in words why it and none of the faster ones. Prints as a sentence or two."""

    kernel: str
    function: Callable[..., Tensor]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kernel}: {'; '.join(self.reasons)}."


def choose(request: Request) -> Choice:
    """Pick the kernel for a request."""
    # torch.compile records through what a cache wraps, and warns of it.
    return _chosen(request) if torch.compiler.is_compiling() else remembered(request)


def _chosen(request: Request) -> Choice:
    if request.op in _CHOOSERS:
        return _CHOOSERS[request.op](request)
    kernel = f"{request.op}.reference"
    if kernel not in KERNELS:
        known = ", ".join(sorted({name.partition(".")[0] for name in KERNELS}))
        raise SaccadeError(f"op: expected one of {known}, found {request.op!r}")
    return _choice(kernel, f"it is the only kernel for {request.op}")


remembered = lru_cache(maxsize=4096)(_chosen)  # a decoder asks the same at every step


def _choose_additive(request: Request) -> Choice:
    _, T, _, _ = request.shape
    size = _sum_bytes(request)
    whole = f"q + k is {spelled(_sum_elements(request))} numbers ({_spelled(size)})"
    if request.capturing:
        return _choice(
            "additive.reference",
            f"{whole}, and torch.compile or export, which is recording, can fuse these plain operations",
            "additive.blocked looks at values to pick its arithmetic, which a recorded graph cannot",
        )
    if T == 1:
        return _choice(
            "additive.reference",
            f"a single query, a decoder's step: {whole}, no more than the keys themselves",
            "additive.blocked would have nothing to cut into tiles",
        )
    if request.device == "cpu":
        return _choose_additive_on_cpu(request, whole)
    if size > MOST_BYTES:
        return _choice(
            "additive.blocked",
            f"{whole}, more than the {_spelled(MOST_BYTES)} that additive.reference may hold, so it is done in tiles",
        )
    return _choice(
        "additive.reference",
        f"{whole}, within the {_spelled(MOST_BYTES)} that it may hold on {request.device}",
        f"additive.blocked has tiles for a CPU's cache, and on {request.device} would save memory but not time",
    )


def _choose_additive_attention(request: Request) -> Choice:
    """The scores' kernel and the composition, or all of attention in one operator."""
    _, T, _, _ = request.shape
    least = ATTENTION_PAYS_FROM
    if request.device == "cpu":
        least = BLOCKED_PAYS_FROM_WITH_GRADIENT if request.needs_grad else BLOCKED_PAYS_FROM
    elements = _sum_elements(request)
    if T == 1 or elements < least:
        scores = _choose_additive(request)
        small = "has nothing to cut into blocks" if T == 1 else f"pays from {least:,} numbers on"
        why = f"additive.attention does not serve: it {small}"
        return Choice(scores.kernel, scores.function, (*scores.reasons, why))
    whole = f"{spelled(elements)} numbers in q + k"
    why = f"{whole}, which it never holds; it goes from queries to contexts in blocks of queries"
    return _choice("additive.attention", why)


def _choose_dot_attention(request: Request) -> Choice:
    batch, T, S, _ = request.shape
    if T == 1 or batch * T * S < PRODUCT_PAYS_FROM:
        scores = f"{spelled(batch * T * S)} scores"
        why = f"{scores}: PyTorch's own attention pays from {PRODUCT_PAYS_FROM:,} on, for several queries"
        return _choice("dot.reference", why)
    return _choice(
        "dot.attention", "PyTorch's scaled_dot_product_attention: flash or memory-efficient where they serve"
    )


def _choose_additive_on_cpu(request: Request, whole: str) -> Choice:
    least = BLOCKED_PAYS_FROM_WITH_GRADIENT if request.needs_grad else BLOCKED_PAYS_FROM
    purpose = "with gradients" if request.needs_grad else "without gradients"
    if _sum_elements(request) < least:
        return _choice("additive.reference", whole, f"additive.blocked, {purpose}, is faster only from {least:,} on")
    return _choice(
        "additive.blocked", whole, f"{purpose}, its tiles in the CPU's cache are faster from {least:,} numbers on"
    )


def _choice(kernel: str, *reasons: str) -> Choice:
    return Choice(kernel, KERNELS[kernel], reasons)


def _sum_elements(request: Request) -> int:
    batch, T, S, D = request.shape
    return batch * T * S * D


def _sum_bytes(request: Request) -> int:
    return _sum_elements(request) * request.dtype.itemsize


def _spelled(size: int) -> str:
    if torch.compiler.is_compiling():  # which may have left the size open
        return "so many bytes"
    for power, unit in ((0, "bytes"), (1, "KiB"), (2, "MiB")):
        if size < 1024 ** (power + 1):
            return f"{size / 1024**power:.0f} {unit}"
    return f"{size / 1024**3:.1f} GiB"


_CHOOSERS: dict[str, Callable[[Request], Choice]] = {
    "additive": _choose_additive,
    "additive.attention": _choose_additive_attention,
    "dot.attention": _choose_dot_attention,
}
