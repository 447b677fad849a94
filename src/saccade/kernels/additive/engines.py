"""Who computes additive scores and their gradients: one engine a call, by device, dtype, reach and matmul precision.

| engine | how | serves |
|---|---|---|
| ``blocked`` | tiles of tanh in PyTorch's own operators | every device and dtype |
| ``direct`` | the tanh of every pair in registers (Triton) | a GPU: float32's own accuracy, any magnitude |
| ``separable`` | tanh(a + b) ≈ Σᵣ fᵣ(a) gᵣ(b): scores are matrix products | half precision, and float32 where TF32 is welcome |

The *reach* of a call is its largest |q| and its largest |k|: an expansion holds within a reach, and the direct engine's
arithmetic goes by it. It is read from the device once a call, except while a CUDA graph is captured, when nothing can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive import blocked, separable
from saccade.kernels.additive.tables import RANKS, TILED_RANKS, Table, table_for, tolerance
from saccade.kernels.dtypes import working_dtype
from saccade.kernels.launching import has_fused
from saccade.kernels.seen import Seen

NAMES = ("blocked", "direct", "separable")
CODES = 3
"""Numbers that tell an engine: its place in NAMES and the reach of q and of k."""

Reach = tuple[float, float]


@dataclass(frozen=True)
class Engine:
    """An engine for one call.

    ``scores(query, key, v, seen, heads=…)`` gives [N, T, S], −∞ where a key is not seen, and
    ``gradients(query, key, v, grad_scores, seen, heads=…)`` those of query, key and, item by item, v.
    """

    name: str
    reach: Reach
    scores: Callable[..., Tensor]
    gradients: Callable[..., tuple[Tensor, Tensor, Tensor]]
    weights: Callable[..., tuple[Tensor, Tensor]] | None = None
    """(query, key, v, seen, heads, dtype) → weights and the same rounded to ``dtype``, where one launch makes both."""
    longest: int = 0
    """Keys up to which ``weights`` serves."""
    rounds: bool = False
    """Whether ``gradients`` takes ``dtype=``, to round those of query and key where they are written."""

    def code(self) -> Tensor:
        """The engine as numbers, which an operator can return."""
        return torch.tensor([NAMES.index(self.name), *self.reach], dtype=torch.float64, device="cpu")


def engine_for(query: Tensor, key: Tensor, name: str = "auto") -> tuple[Engine, str]:
    """The engine that serves these tensors, and why; ``name`` asks for one of NAMES."""
    if name not in ("auto", *NAMES):
        raise SaccadeError(f"engine: expected auto or one of {', '.join(NAMES)}, found {name!r}")
    if name == "blocked":
        return engine(name, (0.0, 0.0), query), "it was asked for"
    if name == "auto" and query.dtype == torch.float64:
        return engine("blocked", (0.0, 0.0), query), "float64 is computed in float64"
    fused = has_fused(query)
    if name != "separable" and not fused:
        if name == "direct":
            raise SaccadeError(f"engine: expected a GPU with Triton for 'direct', found {query.device.type}")
        return engine("blocked", (0.0, 0.0), query), f"Triton does not serve {query.device.type} here"
    if query.is_cuda and _unreadable():
        reach = (math.inf, math.inf)
        return engine("direct", reach, query), "a CUDA graph is captured, where no reach can be read"
    reach = reach_of(query, key)
    if name == "direct":
        return engine(name, reach, query), "it was asked for"
    if name == "auto" and not _rounding_welcome(query.dtype):
        precision = torch.get_float32_matmul_precision()
        why = f"PyTorch's float32 matmul precision is {precision!r}, so nothing is rounded"
        return engine("direct", reach, query), why
    table = _table(reach, query)
    if table is not None:
        dtype = str(query.dtype).removeprefix("torch.")
        why = f"|q|, |k| ≤ {max(reach):.3g}: rank {table.rank} is exact to {table.error:.0e}, below {dtype}'s roundings"
        return engine("separable", reach, query), why
    if name == "separable":
        return engine(name, reach, query), "it was asked for"
    return engine("direct", reach, query), f"|q|, |k| reach {max(reach):.3g}, beyond additive.separable's expansions"


def engine(name: str, reach: Reach, query: Tensor) -> Engine:
    """The engine of this name for inputs like ``query`` within ``reach``."""
    if name == "blocked":
        return Engine(name, reach, _blocked_scores, _blocked_gradients)
    if name == "direct":
        from saccade.kernels.additive import direct
        from saccade.kernels.additive.direct_forms import form_within

        form = form_within(*reach)
        return Engine(name, reach, partial(direct.scores, form=form), partial(direct.gradients, form=form))
    table = _table(reach, query)
    if table is None:
        raise SaccadeError(f"engine: expected |q|, |k| within an expansion's reach, found {max(reach):.3g}")
    if not has_fused(query):
        gradients = partial(separable.gradients, table=table)
        return Engine(name, reach, partial(separable.scores, table=table), gradients)
    from saccade.kernels.additive import separable_fused as fused

    def weights(
        query: Tensor, key: Tensor, v: Tensor, seen: Seen, heads: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        return fused.weights(fused.unfinished(query, key, v, table=table), v, seen, heads, dtype)

    of_scores, gradients = partial(fused.scores, table=table), partial(fused.gradients, table=table)
    return Engine(name, reach, of_scores, gradients, weights, fused.LONGEST_ROW, rounds=True)


def engine_of(code: Tensor, query: Tensor) -> Engine:
    """The engine that :meth:`Engine.code` told."""
    number, of_query, of_key = code.tolist()
    return engine(NAMES[int(number)], (of_query, of_key), query)


def reach_of(query: Tensor, key: Tensor) -> Reach:
    """max |q| and max |k|, in one reading; NaN where there is one."""
    if not query.numel() or not key.numel():
        return 0.0, 0.0
    if has_fused(query) and query.is_contiguous() and key.is_contiguous():
        from saccade.kernels.additive import reach

        return reach.reach_of(query, key)
    norms = [torch.linalg.vector_norm(each, math.inf, dtype=torch.float32) for each in (query, key)]
    of_query, of_key = torch.stack(norms).tolist()
    return of_query, of_key


def _unreadable() -> bool:
    """Whether nothing may be read from the device now: a CUDA graph is captured, or tried out for one."""
    return torch.cuda.is_current_stream_capturing() or torch.cuda.get_sync_debug_mode() == _READING_IS_AN_ERROR


_READING_IS_AN_ERROR = 2


def _rounding_welcome(dtype: torch.dtype) -> bool:
    return dtype != torch.float32 or torch.get_float32_matmul_precision() != "highest"


def _table(reach: Reach, query: Tensor) -> Table | None:
    ranks = TILED_RANKS if has_fused(query) else RANKS
    return table_for(max(reach), tolerance(query.dtype), ranks)


# ---- The blocked kernel as an engine


def _blocked_scores(query: Tensor, key: Tensor, v: Tensor, seen: Seen, *, heads: int = 1) -> Tensor:
    working = working_dtype(query.dtype)
    spread = v.to(working).repeat(len(query) // max(1, len(v)), 1)  # [N, D]
    return seen.hide(blocked.scores_of(query.to(working), key.to(working), spread), heads)


def _blocked_gradients(
    query: Tensor, key: Tensor, v: Tensor, grad_scores: Tensor, seen: Seen, *, heads: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    working = working_dtype(query.dtype)
    spread = v.to(working).repeat(len(query) // max(1, len(v)), 1)
    rows = query.to(working), key.to(working), spread
    of_query, of_key, of_v = blocked.gradients_of(*rows, grad_scores, (True, True, True))
    if of_query is None or of_key is None or of_v is None:
        raise RuntimeError("every gradient was asked for")
    return of_query, of_key, of_v
