"""Chooses the engine that computes additive scores and their gradients, by device, dtype, reach and matmul precision.

| engine | how | serves |
|---|---|---|
| ``blocked`` | tiles of tanh in PyTorch's own operators | every device and dtype |
| ``direct`` | the tanh of every pair in registers (Triton) | a GPU: float32's own accuracy, any magnitude |
| ``separable`` | tanh(a + b) ≈ Σᵣ fᵣ(a) gᵣ(b): scores are matrix products | half precision, and float32 where TF32 is allowed |

The *reach* of a call is its largest |q| and its largest |k|: an expansion is valid within a reach, and the direct engine
picks its arithmetic by it. It is read from the device once per call, except while a CUDA graph is captured, when nothing
can be read: then the engine that served last is captured, with a fallback behind it (`direct.guarded`).
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
from saccade.kernels.visibility import Visibility

NAMES = ("blocked", "direct", "separable")
CODES = 3
"""Numbers that encode an engine: its index in NAMES and the reach of q and of k."""

Reach = tuple[float, float]


@dataclass(frozen=True)
class Begun:
    """What an engine computes before the window is applied: raw scores, and features that can be saved."""

    raw: Tensor
    features: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Engine:
    """An engine for one call: ``begin`` does nearly all the work, and ``finish`` turns the result into scores.

    ``begin(query, key, v, visibility, heads)`` returns :class:`Begun`, ``finish(raw, v, visibility, heads)`` the scores
    [N, T, S], −∞ where a key is not visible; ``gradients(query, key, v, grad_scores, visibility, heads=…)`` the gradients of
    query, key and, per item, v.
    """

    name: str
    reach: Reach
    arithmetic: object
    """What it computes with: two engines of one name and arithmetic are interchangeable."""
    begin: Callable[[Tensor, Tensor, Tensor, Visibility, int], Begun]
    gradients: Callable[..., tuple[Tensor, Tensor, Tensor]]
    finish: Callable[[Tensor, Tensor, Visibility, int], Tensor] = lambda scores, v, visibility, heads: scores
    weights: Callable[..., tuple[Tensor, Tensor]] | None = None
    """(raw, v, visibility, heads, dtype) → weights and the same rounded to ``dtype``, where one launch computes both."""
    longest: int = 0
    """The most keys that ``weights`` takes."""
    rounds: bool = False
    """Whether ``gradients`` takes ``dtype=``, to round the gradients of query and key where they are written."""

    def scores(self, query: Tensor, key: Tensor, v: Tensor, visibility: Visibility, heads: int = 1) -> Tensor:
        return self.finish(self.begin(query, key, v, visibility, heads).raw, v, visibility, heads)

    def serves_for(self, other: Engine) -> bool:
        return self.name == other.name and self.arithmetic == other.arithmetic

    def code(self) -> Tensor:
        """The engine encoded as numbers, which an operator can return."""
        return torch.tensor([NAMES.index(self.name), *self.reach], dtype=torch.float64, device="cpu")


def engine_for(query: Tensor, key: Tensor, name: str = "auto") -> tuple[Engine, str]:
    """The engine for these tensors, and why; ``name`` requests one of NAMES."""
    settled = _without_reach(query, name)
    return engine_within(reach_of(query, key), query, name) if settled is None else settled


def engine_begun(
    query: Tensor, key: Tensor, v: Tensor, visibility: Visibility, heads: int, name: str = "auto"
) -> tuple[Engine, Begun]:
    """The engine for these tensors, and what it has computed so far.

    While the reach is on its way from the GPU, the engine that served this v last already starts; its work is used if the
    reach confirms the choice. The result is always that of :func:`engine_for`'s engine.
    """
    settled = _without_reach(query, name)
    if settled is not None:
        return settled[0], settled[0].begin(query, key, v, visibility, heads)
    whose = (query.device, query.dtype, v.data_ptr())
    guess = _served_last.get(whose) if query.is_cuda and query.is_contiguous() and key.is_contiguous() else None
    if guess is None or not query.numel() or not key.numel():
        chosen, begun = engine_within(reach_of(query, key), query, name)[0], None
    else:
        from saccade.kernels.additive import direct_forms

        answer = direct_forms.ask(query, key)
        begun = guess.begin(query, key, v, visibility, heads)
        chosen, _ = engine_within(answer(), query, name)
        if not chosen.serves_for(guess):
            begun = None
    if len(_served_last) > _MOST_REMEMBERED:
        _served_last.clear()
    _served_last[whose] = chosen
    if query.is_cuda:
        _remember(chosen, query)
    return chosen, chosen.begin(query, key, v, visibility, heads) if begun is None else begun


_served_last: dict[tuple[torch.device, torch.dtype, int], Engine] = {}
_MOST_REMEMBERED = 1024


def _without_reach(query: Tensor, name: str) -> tuple[Engine, str] | None:
    """The engine, and why, where the choice does not depend on the reach, or the reach cannot be read."""
    if name not in ("auto", *NAMES):
        raise SaccadeError(f"engine: expected auto or one of {', '.join(NAMES)}, found {name!r}")
    if name == "blocked":
        return engine(name, (0.0, 0.0), query), "it was requested"
    if name == "auto" and query.dtype == torch.float64:
        return engine("blocked", (0.0, 0.0), query), "float64 is computed in float64"
    if name != "separable" and not has_fused(query):
        if name == "direct":
            found = "cuda without Triton" if query.is_cuda else query.device.type
            raise SaccadeError(f"engine: expected a GPU with Triton for 'direct', found {found}")
        return engine("blocked", (0.0, 0.0), query), f"Triton does not run on {query.device.type} here"
    if query.is_cuda and torch.cuda.is_current_stream_capturing():
        return _captured(query, name)
    return None


def _captured(query: Tensor, name: str) -> tuple[Engine, str]:
    """The engine to capture in a CUDA graph: the one that served last, with some headroom, and a guard."""
    last = _ran_last.get((query.device, query.dtype, query.shape[-1]))
    if last is None:
        reach = (math.inf, math.inf)
        return engine("direct", reach, query), "a CUDA graph is captured, and no reach was read before"
    from saccade.kernels.additive.direct import guarded

    if isinstance(last.arithmetic, Table):
        wide = _wider(last.arithmetic, query).reach
        found, why = engine_within((wide, wide), query, name)
    else:  # no table is on the device, and none can be copied there now
        found = engine("direct", (HEADROOM[0] * last.reach[0], HEADROOM[0] * last.reach[1]), query)
        why = "it served before"
    return guarded(found), f"a CUDA graph is captured, with additive.direct as a fallback; {why}"


def _remember(chosen: Engine, query: Tensor) -> None:
    """Prepare for :func:`_captured`, which cannot copy anything to the device: its table must already be there."""
    _ran_last[query.device, query.dtype, query.shape[-1]] = chosen
    if not isinstance(chosen.arithmetic, Table) or (query.device, chosen.arithmetic) in _sent:
        return
    from saccade.kernels.additive import separable_fused as fused

    fused.coefficients_on(_wider(chosen.arithmetic, query), query.device)
    _sent.add((query.device, chosen.arithmetic))


def _wider(table: Table, query: Tensor) -> Table:
    """A table with a larger reach at the same rank, where there is one: a higher rank would cost more."""
    for room in HEADROOM:
        wider = table_for(room * table.reach, tolerance(query.dtype), TILED_RANKS)
        if wider is not None and wider.rank == table.rank:
            return wider
    return table


HEADROOM = (1.15, 1.05)
"""Factors by which a captured engine's reach exceeds the last one, where that costs nothing."""

_ran_last: dict[tuple[torch.device, torch.dtype, int], Engine] = {}
_sent: set[tuple[torch.device, Table]] = set()


def engine_within(reach: Reach, query: Tensor, name: str = "auto") -> tuple[Engine, str]:
    """The engine for tensors like ``query`` of this reach, and why."""
    if name == "direct":
        return engine(name, reach, query), "it was requested"
    if name == "auto" and not _rounding_allowed(query.dtype):
        precision = torch.get_float32_matmul_precision()
        why = f"PyTorch's float32 matmul precision is {precision!r}, so nothing is rounded"
        return engine("direct", reach, query), why
    table = _table(reach, query)
    if table is not None:
        dtype = str(query.dtype).removeprefix("torch.")
        why = f"|q|, |k| ≤ {max(reach):.3g}: rank {table.rank} is exact to {table.error:.0e}, below {dtype}'s roundings"
        return engine("separable", reach, query), why
    if name == "separable":
        return engine(name, reach, query), "it was requested"
    return engine("direct", reach, query), f"|q|, |k| reach {max(reach):.3g}, beyond additive.separable's expansions"


def engine(name: str, reach: Reach, query: Tensor) -> Engine:
    """The engine of this name for inputs like ``query`` within ``reach``."""
    if name == "blocked":
        return Engine(name, reach, None, _at_once(_blocked_scores), _blocked_gradients)
    if name == "direct":
        from saccade.kernels.additive import direct
        from saccade.kernels.additive.direct_forms import form_within

        form = form_within(*reach)
        gradients = partial(direct.gradients, form=form)
        return Engine(name, reach, form, _at_once(partial(direct.scores, form=form)), gradients)
    table = _table(reach, query)
    if table is None:
        raise SaccadeError(f"engine: expected |q|, |k| within an expansion's reach, found {max(reach):.3g}")
    if not has_fused(query):
        begin, gradients = _at_once(partial(separable.scores, table=table)), partial(separable.gradients, table=table)
        return Engine(name, reach, table, begin, gradients)
    from saccade.kernels.additive import separable_fused as fused

    def begin_fused(query: Tensor, key: Tensor, v: Tensor, visibility: Visibility, heads: int) -> Begun:
        products, features = fused.unfinished(query, key, v, visibility, heads, table=table)
        return Begun(products, features or ())

    gradients = partial(fused.gradients, table=table)
    longest = fused.LONGEST_ROW
    return Engine(name, reach, table, begin_fused, gradients, fused.finish, fused.weights, longest, rounds=True)


def _at_once(scores: Callable[..., Tensor]) -> Callable[[Tensor, Tensor, Tensor, Visibility, int], Begun]:
    return lambda query, key, v, visibility, heads: Begun(scores(query, key, v, visibility, heads=heads))


def engine_of(code: Tensor, query: Tensor) -> Engine:
    """The engine that :meth:`Engine.code` encoded."""
    number, of_query, of_key = code.tolist()
    return engine(NAMES[int(number)], (of_query, of_key), query)


def reach_of(query: Tensor, key: Tensor) -> Reach:
    """max |q| and max |k|, in one device-to-host copy; NaN where there is one."""
    if not query.numel() or not key.numel():
        return 0.0, 0.0
    if has_fused(query):
        from saccade.kernels.additive import direct_forms

        return direct_forms.ask(query.contiguous(), key.contiguous())()
    norms = [torch.linalg.vector_norm(each, math.inf, dtype=torch.float32) for each in (query, key)]
    of_query, of_key = torch.stack(norms).tolist()
    return of_query, of_key


def _rounding_allowed(dtype: torch.dtype) -> bool:
    return dtype != torch.float32 or torch.get_float32_matmul_precision() != "highest"


def _table(reach: Reach, query: Tensor) -> Table | None:
    ranks = TILED_RANKS if has_fused(query) else RANKS
    return table_for(max(reach), tolerance(query.dtype), ranks)


# ---- The blocked kernel as an engine


def _blocked_scores(query: Tensor, key: Tensor, v: Tensor, visibility: Visibility, *, heads: int = 1) -> Tensor:
    working = working_dtype(query.dtype)
    spread = v.to(working).repeat(len(query) // max(1, len(v)), 1)  # [N, D]
    return visibility.hide(blocked.scores_of(query.to(working), key.to(working), spread), heads)


def _blocked_gradients(
    query: Tensor, key: Tensor, v: Tensor, grad_scores: Tensor, visibility: Visibility, *, heads: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    working = working_dtype(query.dtype)
    spread = v.to(working).repeat(len(query) // max(1, len(v)), 1)
    rows = query.to(working), key.to(working), spread
    of_query, of_key, of_v = blocked.gradients_of(*rows, grad_scores, (True, True, True))
    if of_query is None or of_key is None or of_v is None:
        raise RuntimeError("expected all three gradients")
    return of_query, of_key, of_v
