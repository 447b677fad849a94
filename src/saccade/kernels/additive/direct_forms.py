"""tanh(q + k) on a GPU at every magnitude: what is computed once per row, what remains per pair, and the reach of a call.

The identities of `tanh_tiles`, written for special-function units that are eight times slower than the rest. With x the
denominator of a pair:

    small     x = 1 + tanh q · tanh k            tanh = (tanh q + tanh k) / x     |q|, |k| ≤ ½
    moderate  x = 1 + e^2q · e^2k                tanh = 1 − 2 / x                 max |q| + max |k| ≤ 10.75
    wide      x = min(1 + e^2q · e^2k, 2^30)     tanh = 1 − 2 / x                 |q|, |k| ≤ 20
    large     x = 1 + min(e^2(q + k), 2^30)      tanh = 1 − 2 / x                 any, infinity and NaN too

Neighbours share one reciprocal, 1/x₁ = x₂ · 1/(x₁x₂), so the product of four x must be a normal number. At x = 2^30 tanh
is 1 − 2^−29, which float32 rounds to 1, so wide and large may clamp there; moderate need not, since (e^21.5)⁴ is finite.

Non-negative numbers order like their bits, so the reach is a maximum of integers; a NaN's bits are above all of them.
"""

from __future__ import annotations

import math
import os
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive.tanh_tiles import SMALL, largest_factor
from saccade.kernels.launching import launch

FORMS = {"small": 0, "moderate": 1, "wide": 2, "large": 3}
"""From the narrowest range to the widest; each also serves the ranges before it, slower or less accurately."""

MODERATE = 10.75
"""max |q| + max |k| up to which (1 + e^2(q + k))⁴ < 10^38, and has a normal reciprocal. Millions of normal
deviates stay below it. Sums of four v / x are safe up to |v| = 10^9."""

FAST = os.environ.get("TRITON_INTERPRET", "0") != "1" and torch.version.cuda is not None
"""Whether the GPU's approximate reciprocal and power of two, accurate to one or two units in the last place, are used."""

LANES = tl.constexpr(32)  # threads in a warp: the last axis of every tile, so that the others stay within a thread
SMALL_FORM = tl.constexpr(FORMS["small"])
MODERATE_FORM = tl.constexpr(FORMS["moderate"])
WIDE_FORM = tl.constexpr(FORMS["wide"])
LARGE_FORM = tl.constexpr(FORMS["large"])
_TOP = tl.constexpr(float(2**30))
_LOG2_TOP = tl.constexpr(30.0)
_LOG2_E = tl.constexpr(1.4426950408889634)
_LN2_HIGH = tl.constexpr(0.693138122558593750)  # 17 bits of ln 2: its product with a small whole number is exact
_LN2_LOW = tl.constexpr(9.058001352436e-06)


def form_of(query: Tensor, key: Tensor) -> str:
    """The fastest form that is accurate for these rows. Synchronises with the device to read two numbers."""
    if query.numel() == 0 or key.numel() == 0:
        return "small"
    largest = torch.stack([torch.linalg.vector_norm(rows, torch.inf, dtype=torch.float32) for rows in (query, key)])
    return form_within(*largest.tolist())


def form_within(q: float, k: float) -> str:
    """The same for a known largest |q| and |k|."""
    if q <= SMALL and k <= SMALL:
        return "small"
    if q + k <= MODERATE:
        return "moderate"
    most = largest_factor(torch.float32)
    return "wide" if q <= most and k <= most else "large"  # a NaN is in no range


def form_number(form: str) -> int:
    if form not in FORMS:
        raise SaccadeError(f"form: expected one of {', '.join(FORMS)}, found {form!r}")
    return FORMS[form]


LARGEST_REACH = {
    "small": SMALL,
    "moderate": MODERATE / 2,
    "wide": float(largest_factor(torch.float32)),
    "large": math.inf,
}
"""The largest |q| and |k| for which a form is accurate."""


@dataclass(frozen=True)
class Guard:
    """Makes programs return at once while neither |q| nor |k| exceeds ``limit``."""

    reach: Tensor  # [2], max |q| and max |k|, as the bits of float32 numbers
    limit: float

    @property
    def limit_bits(self) -> int:
        bits: int = struct.unpack("<i", struct.pack("<f", self.limit))[0]
        return bits


@triton.jit
def within(reach, limit):
    """Whether both numbers at `reach` are at most `limit`, all three the bits of numbers that are not negative."""
    return (tl.load(reach) <= limit) & (tl.load(reach + 1) <= limit)


@triton.jit
def reciprocal(x, FAST: tl.constexpr):
    """1/x. A plain division would be correctly rounded, at several times the cost."""
    if FAST:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / x


@triton.jit
def power_of_two(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return tl.exp2(x)


@triton.jit
def prepared(rows, FORM: tl.constexpr, FAST: tl.constexpr):
    """The part that depends on a row alone: tanh (small), e^2x (moderate, wide) or the row itself (large), in float32."""
    x = rows.to(tl.float32)
    if FORM == LARGE_FORM:
        return x
    elif FORM == SMALL_FORM:
        # The continued fraction of tanh, truncated where |x| ≤ ½ no longer needs it; its error is relative.
        z = x * x
        above = tl.fma(tl.fma(z, 21.0, 1260.0), z, 10395.0)
        below = tl.fma(tl.fma(z + 210.0, z, 4725.0), z, 10395.0)
        return x * above / below
    else:
        # e^2x = 2^n e^f with n whole: 2^(2x · log₂e) at once would amplify the rounding of the exponent.
        y = 2.0 * x
        n = tl.floor(tl.fma(y, _LOG2_E, 0.5))
        f = (y - n * _LN2_HIGH) - n * _LN2_LOW
        return power_of_two(f * _LOG2_E, FAST) * power_of_two(n, FAST)


@triton.jit
def excess(query, key, FORM: tl.constexpr, FAST: tl.constexpr):
    """e^2(q + k) = x − 1 of prepared rows that broadcast against each other; not for small."""
    if FORM == LARGE_FORM:
        # q + k first: where they cancel, the sum is exact and its multiple by 2 log₂e still good.
        exponent = tl.minimum((query + key) * (2.0 * _LOG2_E), _LOG2_TOP, propagate_nan=tl.PropagateNan.ALL)
        return power_of_two(exponent, FAST)
    elif FORM == WIDE_FORM:
        return tl.minimum(query * key, _TOP)
    else:
        return query * key


@triton.jit
def denominator(query, key, FORM: tl.constexpr, FAST: tl.constexpr):
    """x of prepared rows that broadcast against each other."""
    if FORM == LARGE_FORM:
        return 1.0 + excess(query, key, FORM, FAST)
    elif FORM == WIDE_FORM:
        return tl.minimum(tl.fma(query, key, 1.0), _TOP)
    else:
        return tl.fma(query, key, 1.0)


# ---- The reach of a call, read from the device -------------------------------------------------------------------------


_BLOCK = 8192


@triton.jit
def _reach_kernel(query, key, out, queries, keys, blocks, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    if program < blocks:
        at = program.to(tl.int64) * BLOCK + place
        x = tl.load(query + at, mask=at < queries, other=0.0)
    else:
        at = (program - blocks).to(tl.int64) * BLOCK + place
        x = tl.load(key + at, mask=at < keys, other=0.0)
    bits = tl.abs(x.to(tl.float32)).to(tl.int32, bitcast=True)
    tl.atomic_max(out + (program >= blocks).to(tl.int32), tl.max(bits, axis=0))


def reach_of(query: Tensor, key: Tensor) -> tuple[float, float]:
    """max |q| and max |k| of contiguous tensors; NaN where there is one."""
    of_query, of_key = largest(query, key).view(torch.float32).tolist()
    return of_query, of_key


def ask(query: Tensor, key: Tensor) -> Callable[[], tuple[float, float]]:
    """Start :func:`reach_of`; the returned function waits for the result, but not for work queued after this call.

    One request at a time per thread.
    """
    bits = largest(query, key)
    landing, arrived = _landing(query.device)
    landing.copy_(bits, non_blocking=True)
    arrived.record(torch.cuda.current_stream(query.device))

    def answer() -> tuple[float, float]:
        arrived.synchronize()
        of_query, of_key = landing.view(torch.float32).tolist()
        return of_query, of_key

    return answer


def largest(query: Tensor, key: Tensor) -> Tensor:
    """max |q| and max |k| of contiguous tensors as the bits of float32 numbers, on their device."""
    out = torch.zeros(2, dtype=torch.int32, device=query.device)
    sizes = query.numel(), key.numel()
    blocks = triton.cdiv(sizes[0], _BLOCK)
    programs = blocks + triton.cdiv(sizes[1], _BLOCK)
    launch(_reach_kernel, programs, (query, key, out), (*sizes, blocks), BLOCK=_BLOCK, num_warps=8)
    return out


_own = threading.local()


def _landing(device: torch.device) -> tuple[Tensor, torch.cuda.Event]:
    """This thread's pinned buffer for the reach on a device, and the event that marks its arrival."""
    landings = _own.__dict__.setdefault("landings", {})
    if device not in landings:
        with torch.inference_mode(False):
            landings[device] = torch.empty(2, dtype=torch.int32, device="cpu", pin_memory=True), torch.cuda.Event()
    landing: tuple[Tensor, torch.cuda.Event] = landings[device]
    return landing
