"""An engine that watches its own limit, for where no reach can be read: while a CUDA graph is captured.

A captured graph cannot choose by what its inputs will be. It gets the engine that served last, made for a reach that is some
way beyond, and behind it the direct engine's large form, which serves anything. The reach is computed on the device with
every replay: within the limit the programs behind return at once; beyond it they write over what the engine made. The
result is right in any case, and quick in the usual one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from saccade.kernels.additive import direct, reach
from saccade.kernels.additive.direct_forms import LARGEST_REACH, Guard, within
from saccade.kernels.additive.engines import Begun, Engine
from saccade.kernels.additive.tables import Table
from saccade.kernels.launching import launch
from saccade.kernels.visibility import Seen

_BLOCK = 4096


def guarded(engine: Engine) -> Engine:
    """The same engine, with the large form behind it for inputs beyond its limit."""
    limit = limit_of(engine)
    if limit == math.inf:
        return engine

    def begin(query: Tensor, key: Tensor, v: Tensor, seen: Seen, heads: int) -> Begun:
        guard = Guard(reach.largest(query, key), limit)
        begun = engine.begin(query, key, v, seen, heads)
        scores = engine.finish(begun.raw, v, seen, heads)
        direct.scores(query, key, v, seen, heads=heads, form="large", out=scores, guard=guard)
        return Begun(scores, (*begun.features, guard.reach))

    def gradients(
        query: Tensor, key: Tensor, v: Tensor, grad_scores: Tensor, seen: Seen, *,
        heads: int = 1, features: tuple[Tensor, ...] = (), dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        *kept, found = features or (reach.largest(query, key),)
        guard = Guard(found, limit)
        extra: dict[str, Any] = {"dtype": dtype, "features": tuple(kept) or None} if engine.rounds else {}
        mine = engine.gradients(query, key, v, grad_scores, seen, heads=heads, **extra)
        behind = direct.gradients(query, key, v, grad_scores, seen, heads=heads, form="large", guard=guard)
        for each, other in zip(mine, behind, strict=True):
            _replace(each, other, guard)
        return mine

    arithmetic = (engine.arithmetic, limit)
    return Engine(engine.name, engine.reach, arithmetic, begin, gradients, rounds=engine.rounds)


def limit_of(engine: Engine) -> float:
    """The largest |q| and |k| that the engine's arithmetic is made for."""
    if isinstance(engine.arithmetic, Table):
        return engine.arithmetic.reach
    return LARGEST_REACH[str(engine.arithmetic)]


@triton.jit(do_not_specialize=["size", "limit"])
def replace_program(found, out, reach, size, limit, BLOCK: tl.constexpr):
    if within(reach, limit):
        return
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    numbers = tl.load(found + place, mask=place < size, other=0.0)
    tl.store(out + place, numbers.to(out.dtype.element_ty), mask=place < size)


def _replace(out: Tensor, found: Tensor, guard: Guard) -> None:
    """``found`` in place of ``out``, beyond the guard's limit."""
    if not out.numel():
        return
    if not out.is_contiguous():
        raise RuntimeError("a gradient that can be replaced lies without gaps")
    numbers = (out.numel(), guard.limit_bits)
    tensors = (found.contiguous(), out, guard.reach)
    launch(replace_program, triton.cdiv(out.numel(), _BLOCK), tensors, numbers, BLOCK=_BLOCK, num_warps=4)
