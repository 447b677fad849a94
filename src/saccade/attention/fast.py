"""``attend`` without its weights: which kernel takes a call from queries to contexts, and why none does.

A kernel serves where the weights are a softmax and nothing but the contexts is wanted. Everything else (a lens that keeps
all, a gain, another normaliser, a user's own score) goes through ``weigh`` and ``read``, and the choice says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention.normalise import Normaliser, Softmax, softmax
from saccade.attention.scores import Additive, Cosine, Dot, General, Prepared, Score
from saccade.attention.windows import All, Band, Causal, Extent, Gaussian, Padding, Window, everywhere
from saccade.errors import SaccadeError
from saccade.kernels.additive.attention import additive_attention
from saccade.kernels.additive.engines import engine_for
from saccade.kernels.choose import Choice, Request, choose, count_text, is_exporting
from saccade.kernels.decoder.steps import Memory
from saccade.kernels.dot.attention import dot_attention
from saccade.kernels.dtypes import result_dtype
from saccade.kernels.launching import has_fused
from saccade.kernels.local import blocked
from saccade.kernels.visibility import Seen


@dataclass(frozen=True)
class Plan:
    """Who serves a call, and the call itself; None: the composition of ``weigh`` and ``read``."""

    choice: Choice
    run: Callable[[], Tensor] | None
    tell: Callable[[], str] | None = None  # what looks at the values themselves, asked for only to explain

    @property
    def details(self) -> list[str]:
        return [] if self.tell is None else [self.tell()]


def plan(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    score: Score,
    normalise: Normaliser,
    window: Window,
    dropout: float = 0.0,
    offset: int | None = None,
    counting: bool = False,
) -> Plan:
    """How ``attend`` is to be served. ``counting``: a lens wants statistics, which local attention does not give."""
    if not 0 <= dropout <= 1:
        raise SaccadeError(f"dropout must lie between 0 and 1: got {dropout}")
    if not _is_shipped(score):
        return _composed(score, query, key, f"no kernel takes {score!r} from queries to contexts")
    if type(normalise) is not Softmax:
        return _composed(score, query, key, f"the kernels' weights are a softmax, and {normalise!r} is none")
    refusal = _refusal(score, query, key, value)
    if refusal is not None:
        return _composed(score, query, key, refusal)
    T, S = query.shape[-2], key.size if isinstance(key, Prepared) else key.shape[-2]
    extent = Extent(T, S, offset, query.device, query.dtype)
    here = None if dropout or counting or is_exporting() else local_window(window, extent)
    local = None if here is None else _serve_local(here, score, normalise.beta, query, key, value)
    if local is not None:
        return Plan(*local)
    op, serve = (
        ("additive.attention", _serve_additive) if isinstance(score, Additive) else ("dot.attention", _serve_dot)
    )
    choice = choose(_request(op, score, query, key, value, S))
    if not choice.kernel.endswith(".attention"):
        return Plan(choice, None)
    if window.gain(extent) is not None:
        return _composed(score, query, key, f"{window!r} has a gain, which the kernels do not know")
    seen = window.seen(extent)
    if not seen.fits(query.shape[:-2]):
        return _composed(score, query, key, f"{window!r} widens the batch, which the kernels do not")
    return Plan(
        choice,
        lambda: serve(score, normalise.beta, query, key, value, seen, dropout),
        (lambda: _tell_engine(score, query, key, value)) if isinstance(score, Additive) else None,
    )


def _is_shipped(score: Score) -> TypeGuard[Additive | Dot | General | Cosine]:
    """Whether a kernel knows the score: one that derives from a shipped one may score otherwise."""
    return type(score) in (Additive, Dot, General, Cosine)


def _refusal(
    score: Additive | Dot | General | Cosine, query: Tensor, key: Tensor | Prepared, value: Tensor
) -> str | None:
    """Why no kernel takes these, whatever their sizes; None where one may."""
    batch, keys = query.shape[:-2], key.key if isinstance(key, Prepared) else key
    if query.device.type not in ("cpu", "cuda"):
        return f"the kernels were never tried on {query.device.type}"
    if len(batch) not in (1, 2) or not batch == keys.shape[:-2] == value.shape[:-2]:
        return "the kernels take queries, keys and values of one batch, [B, …] or [B, H, …]"
    if isinstance(score, Cosine) and isinstance(score.beta, Tensor):
        return "its β is a tensor, and the kernels take a number"
    if isinstance(score, Additive):
        several = score.v.shape[:-1]
        if math.prod(several) > 1 and several != batch[len(batch) - len(several) :]:
            return f"v is {list(score.v.shape)}, and the kernels take one, or one a head or an item"
        if is_exporting():
            return "an exported graph runs where this package's operators are not known"
    return None


def _composed(score: Score, query: Tensor, key: Tensor | Prepared, reason: str) -> Plan:
    choice = score.choice(query, key)
    return Plan(Choice(choice.kernel, choice.function, (*choice.reasons, reason)), None)


def _request(op: str, score: Score, query: Tensor, key: Tensor | Prepared, value: Tensor, S: int) -> Request:
    *batch, T, D = query.shape
    inputs = [query, key.key if isinstance(key, Prepared) else key, value]
    if isinstance(score, Additive):  # q and k have its width once they are projected
        D = score.v.shape[-1]
        inputs.append(score.v)
    return Request(
        op=op,
        device=query.device.type,
        dtype=query.dtype,
        shape=(math.prod(batch), T, S, D),
        needs_grad=torch.is_grad_enabled() and any(each.requires_grad for each in inputs),
        capturing=torch.compiler.is_compiling(),
    )


def _serve_additive(
    score: Any, beta: float, query: Tensor, key: Tensor | Prepared, value: Tensor, seen: Seen, dropout: float
) -> Tensor:
    projected, ready, v = score.operands(query, key)
    heads = query.shape[1] if query.dim() == 4 else 1
    projected, ready, value = one_dtype(projected, ready, value)
    v = v.reshape(-1, v.shape[-1]).to(projected.dtype)
    context = additive_attention(
        projected.flatten(0, -3).contiguous(),
        ready.flatten(0, -3).contiguous(),
        value.flatten(0, -3).contiguous(),
        v if beta == 1.0 else v * beta,
        seen,
        heads=heads,
        dropout=dropout,
    )
    found: Tensor = context.unflatten(0, query.shape[:-2])
    return found


def _tell_engine(score: Additive, query: Tensor, key: Tensor | Prepared, value: Tensor) -> str:
    projected, ready, _ = score.operands(query, key)
    engine, why = engine_for(*one_dtype(projected, ready, value)[:2])
    return f"Its engine is additive.{engine.name}: {why}."


def _serve_dot(
    score: Any, beta: float, query: Tensor, key: Tensor | Prepared, value: Tensor, seen: Seen, dropout: float
) -> Tensor:
    projected, ready, scale = score.operands(query, key)
    projected, ready, value = one_dtype(projected, ready, value)
    T, S = projected.shape[-2], ready.shape[-2]
    mask = None if seen.causal else seen.dense(T, S, query.device)
    options: dict[str, Any] = {"scale": scale * beta, "mask": mask, "causal": seen.causal, "dropout": dropout}
    return dot_attention(projected, ready, value, **options)


def one_dtype(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The promoted dtype, or autocast's, which leaves float64 alone: what the composition's products would have."""
    dtype = result_dtype(*tensors)
    one, other, third = (each if each.dtype is dtype else each.to(dtype) for each in tensors)
    return one, other, third


# ---- One query at a time ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """A decoder's looks at one memory, one query at a time; see :func:`steps_over`."""

    score: Additive | Dot | General
    memory: Memory

    def look(self, query: Float[Tensor, "B 1 Dq"]) -> tuple[Float[Tensor, "B 1 S"], Float[Tensor, "B 1 E"]]:
        """``(weights, context)``, as :func:`saccade.attention.core.look` gives them."""
        context, weights = self.memory.step(self.score.project(query).squeeze(1))
        return weights.unsqueeze(1), context.unsqueeze(1)


def steps_over(
    key: Prepared,
    value: Float[Tensor, "B S E"],
    *,
    score: Score,
    normalise: Normaliser,
    window: Window,
    steps: int,
) -> Steps | None:
    """The looks of a decoder that takes ``steps`` of them, with the gradients of its keys and values made once and not at
    every step; None where no kernel serves this score, normaliser or window."""
    if not _is_shipped(score) or isinstance(score, Cosine) or normalise != softmax:
        return None
    if key.key.dim() != 3 or value.shape[:-1] != key.key.shape[:-1]:
        return None
    if value.device.type not in ("cpu", "cuda"):  # elsewhere its arithmetic was never tried
        return None
    options: dict[str, Any] = {"steps": steps}
    if type(window) is Padding:
        kept, whole = ("lengths", key.key.shape[:1]) if window.lengths_of_items else ("real", key.key.shape[:2])
        if window.keep.shape != whole:
            return None
        options[kept] = window.keep
    elif window is not everywhere:
        return None
    if isinstance(score, Additive):
        if score.v.dim() > 1:
            return None
        options["v"] = score.v
    else:
        options["scale"] = score.scale(key.key.shape[-1])
    return Steps(score, Memory.of(key.key, value, **options))


def step(
    query: Tensor, key: Tensor | Prepared, value: Tensor, *, score: Score, normalise: Normaliser, window: Window
) -> tuple[Tensor, Tensor] | None:
    """``(weights, context)`` of a single query in one launch on a GPU; None where that does not serve.

    Without gradients: with them, :func:`steps_over` does better, since it sees all steps.
    """
    if query.shape[-2] != 1 or query.dim() != 3 or not has_fused(query) or torch.is_grad_enabled():
        return None
    if not _is_shipped(score) or len(query) != len(value):
        return None
    ready = key if isinstance(key, Prepared) else score.prepare(key)
    looks = steps_over(ready, value, score=score, normalise=normalise, window=window, steps=1)
    return None if looks is None or query.dtype == torch.float64 else looks.look(query)


# ---- Windows around a centre: only the keys inside are touched ---------------------------------------------------------


PAYS_FROM = 4
"""Keys for each key of the window from which looking at the window alone pays."""


@dataclass(frozen=True)
class LocalWindow:
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


def local_window(window: Window, extent: Extent) -> LocalWindow | None:
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
    return LocalWindow(around.radius, centre=around.centre, sigma=sigma, **options)


def _serve_local(
    here: LocalWindow,
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
    why = f"a query sees {count_text(here.width)} of {count_text(S)} keys, and only they are touched"
    return Choice(name, module.local_attention, (why,)), lambda: _attend_local(
        module, here, score, beta, query, key, value
    )


def _centre(here: LocalWindow, query: Tensor) -> Tensor | None:
    """[B, T] beside queries with heads: one centre for all of them."""
    centre = here.centre
    return centre.unsqueeze(1) if centre is not None and centre.dim() == 2 and query.dim() == 4 else centre


def _fits(here: LocalWindow, query: Tensor) -> bool:
    """Whether lengths and centres are those of the queries' batch, and would not widen it."""
    if here.lengths is not None and here.lengths.shape != query.shape[:1]:
        return False
    centre = _centre(here, query)
    own, places = () if centre is None else centre.shape[::-1], query.shape[-2::-1]
    return len(own) <= len(places) and all(size in (1, whole) for size, whole in zip(own, places, strict=False))


def _attend_local(
    module: Any, here: LocalWindow, score: Additive | Dot | General | Cosine, beta: float, query: Tensor,
    key: Tensor | Prepared, value: Tensor,
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
