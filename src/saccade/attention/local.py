"""``attend`` in a window around each query's centre (Luong et al. 2015): only the keys in it are touched.

Serves ``band(radius)`` and ``gaussian(centre, radius)``, alone or with ``padding(lengths)``, and ``causal & band(radius)``.
Time and memory then go by the width of the window, W = 2 · radius + 1, and not by the number of keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from saccade.attention.scores import Additive, Cosine, Dot, General, Prepared
from saccade.attention.windows import All, Band, Causal, Extent, Gaussian, Padding, Window
from saccade.kernels.choose import Choice
from saccade.kernels.launching import has_fused
from saccade.kernels.local import blocked
from saccade.kernels.spelling import spelled

PAYS_FROM = 4
"""Keys for each key of the window from which looking at the window alone pays."""


@dataclass(frozen=True)
class Near:
    """A window that local attention serves."""

    radius: int
    ahead: int | None = None
    centre: Tensor | None = None
    sigma: float | None = None
    shift: int = 0
    lengths: Tensor | None = None

    @property
    def width(self) -> int:
        return self.radius + 1 + (self.radius if self.ahead is None else self.ahead)


def near(window: Window, extent: Extent) -> Near | None:
    """The window as local attention takes it, or None where it is another."""
    parts = window.parts if isinstance(window, All) else (window,)
    if any(type(part) not in (Band, Gaussian, Padding, Causal) for part in parts):
        return None
    middle = [part for part in parts if isinstance(part, Band | Gaussian)]
    others = [part for part in parts if not isinstance(part, Band | Gaussian)]
    if len(middle) != 1 or len({type(part) for part in others}) < len(others):
        return None
    (around,) = middle
    # Beside a centre the place of the query is of no account, and a recorded step may not be asked for it.
    options: dict[str, Any] = {"shift": (extent.offset or 0) if around.centre is None else 0}
    for part in others:
        if isinstance(part, Padding) and part.lengths_of_items:
            options["lengths"] = part.keep
        elif isinstance(part, Causal) and around.centre is None and part.seen(extent).shift == options["shift"]:
            options["ahead"] = 0
        else:
            return None
    sigma = around.radius / 2 if isinstance(around, Gaussian) else None
    return Near(around.radius, centre=around.centre, sigma=sigma, **options)


def serve(
    here: Near,
    score: Additive | Dot | General | Cosine,
    beta: float,
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
) -> tuple[Choice, Callable[[], Tensor]] | None:
    """The kernel for a window that is narrow beside its keys, and the call of it."""
    S = key.size if isinstance(key, Prepared) else key.shape[-2]
    if S / here.width < PAYS_FROM or (isinstance(score, Additive) and score.v.dim() > 1) or not _fits(here, query):
        return None
    module: Any = blocked
    if has_fused(query) and query.dtype != torch.float64 and here.width <= 1024:
        from saccade.kernels.local import fused

        module = fused
    name = f"local.{module.__name__.rpartition('.')[2]}"
    why = f"a query sees {spelled(here.width)} of {spelled(S)} keys, and only they are touched"
    return Choice(name, module.local_attention, (why,)), lambda: _attend(module, here, score, beta, query, key, value)


def _centre(here: Near, query: Tensor) -> Tensor | None:
    """[B, T] beside queries with heads: one centre for all of them."""
    centre = here.centre
    return centre.unsqueeze(1) if centre is not None and centre.dim() == 2 and query.dim() == 4 else centre


def _fits(here: Near, query: Tensor) -> bool:
    """Whether lengths and centres are those of the queries' batch, and would not widen it."""
    if here.lengths is not None and here.lengths.shape != query.shape[:1]:
        return False
    centre = _centre(here, query)
    own, places = () if centre is None else centre.shape[::-1], query.shape[-2::-1]
    return len(own) <= len(places) and all(size in (1, whole) for size, whole in zip(own, places, strict=False))


def _attend(
    module: Any, here: Near, score: Additive | Dot | General | Cosine, beta: float, query: Tensor, key: Tensor | Prepared,
    value: Tensor,
) -> Tensor:  # fmt: skip
    projected, ready, operand = score.operands(query, key)
    heads = query.shape[1] if query.dim() == 4 else 1
    N, T = projected.flatten(0, -3).shape[:2]
    options: dict[str, Any] = {"scale": 1.0, "v": None}
    if isinstance(operand, Tensor):
        options["v"] = operand * beta
    else:
        options["scale"] = operand * beta
    centre = _centre(here, query)
    if centre is not None:
        centre = centre.expand(query.shape[:-1]).reshape(N, T)
    lengths = None if here.lengths is None else here.lengths.repeat_interleave(heads)
    context = module.local_attention(
        projected.flatten(0, -3), ready.flatten(0, -3), value.flatten(0, -3), radius=here.radius, ahead=here.ahead,
        centre=centre, shift=here.shift, lengths=lengths, sigma=here.sigma, **options,
    )  # fmt: skip
    found: Tensor = context.unflatten(0, query.shape[:-2])
    return found
