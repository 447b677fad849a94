"""Plans ``attend`` without its weights: which kernel computes the contexts, and why none does.

A kernel serves where the weights are a softmax and only the contexts are wanted. Everything else (a lens that keeps all
weights, a gain, another normaliser, a user's own score) goes through ``weigh`` and ``read``, and the choice says so.

In a window around each query's centre (Luong et al. 2015) only the keys inside are read: ``band(radius)`` and
``gaussian(centre, radius)``, alone or with ``padding(lengths)``, and ``causal & band(radius)``. Time and memory then grow with
the width of the window, W = 2 · radius + 1, and not with the number of keys.
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
from saccade.kernels.dtypes import result_dtype, working_dtype
from saccade.kernels.launching import has_fused
from saccade.kernels.local import blocked
from saccade.kernels.visibility import Visibility


@dataclass(frozen=True)
class Plan:
    """The kernel for a call, and a function that runs it; None: the composition of ``weigh`` and ``read``."""

    choice: Choice
    run: Callable[[], Tensor] | None
    describe: Callable[[], str] | None = None  # reads the values themselves; called only to explain the choice

    @property
    def details(self) -> list[str]:
        return [] if self.describe is None else [self.describe()]


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
    """Plan a call of ``attend``. ``counting``: a lens wants statistics, which local attention does not compute."""
    if not 0 <= dropout <= 1:
        raise SaccadeError(f"dropout must lie between 0 and 1: got {dropout}")
    if not _is_shipped(score):
        return _composed(score, query, key, f"no kernel takes {score!r} from queries to contexts")
    if type(normalise) is not Softmax:
        return _composed(score, query, key, f"the kernels compute a softmax, not {normalise!r}")
    if isinstance(beta := normalise.beta, Tensor):
        return _composed(score, query, key, "its β is a tensor, and the kernels take a number")
    refusal = _refusal(score, query, key, value)
    if refusal is not None:
        return _composed(score, query, key, refusal)
    T, S = query.shape[-2], key.size if isinstance(key, Prepared) else key.shape[-2]
    extent = Extent(T, S, offset, query.device, query.dtype)
    here = None if dropout or counting or is_exporting() else local_window(window, extent)
    local = None if here is None else _serve_local(here, score, beta, query, key, value)
    if local is not None:
        return Plan(*local)
    op, serve = (
        ("additive.attention", _serve_additive) if isinstance(score, Additive) else ("dot.attention", _serve_dot)
    )
    choice = choose(_request(op, score, query, key, value, S))
    if not choice.kernel.endswith(".attention"):
        return Plan(choice, None)
    if window.gain(extent) is not None:
        return _composed(score, query, key, f"{window!r} has a gain, which the kernels do not support")
    visibility = window.visibility(extent)
    if not visibility.fits(query.shape[:-2]):
        return _composed(score, query, key, f"{window!r} broadcasts the batch, which the kernels do not")
    return Plan(
        choice,
        lambda: serve(score, beta, query, key, value, visibility, dropout),
        (lambda: _describe_engine(score, query, key, value)) if isinstance(score, Additive) else None,
    )


def _is_shipped(score: Score) -> TypeGuard[Additive | Dot | General | Cosine]:
    """Whether a kernel implements the score: a subclass of a shipped score may compute something else."""
    return type(score) in (Additive, Dot, General, Cosine)


def _refusal(
    score: Additive | Dot | General | Cosine, query: Tensor, key: Tensor | Prepared, value: Tensor
) -> str | None:
    """Why no kernel takes these inputs, whatever their sizes; None where one may."""
    batch, keys = query.shape[:-2], key.key if isinstance(key, Prepared) else key
    if query.device.type not in ("cpu", "cuda"):
        return f"the kernels are untested on {query.device.type}"
    if len(batch) not in (1, 2) or not batch == keys.shape[:-2] == value.shape[:-2]:
        return "the kernels take queries, keys and values of one batch, [B, …] or [B, H, …]"
    if isinstance(score, Cosine) and isinstance(score.beta, Tensor):
        return "its β is a tensor, and the kernels take a number"
    if isinstance(score, Additive):
        several = score.v.shape[:-1]
        if math.prod(several) > 1 and several != batch[len(batch) - len(several) :]:
            return f"v is {list(score.v.shape)}, and the kernels take one v, or one per head or item"
        if is_exporting():
            return "an exported graph runs where this package's operators are not registered"
    return None


def _composed(score: Score, query: Tensor, key: Tensor | Prepared, reason: str) -> Plan:
    choice = score.choice(query, key)
    return Plan(Choice(choice.kernel, choice.function, (*choice.reasons, reason)), None)


def _request(op: str, score: Score, query: Tensor, key: Tensor | Prepared, value: Tensor, S: int) -> Request:
    *batch, T, D = query.shape
    inputs = [query, key.key if isinstance(key, Prepared) else key, value]
    if isinstance(score, Additive):  # projected q and k have its width
        D = score.v.shape[-1]
        inputs.append(score.v)
    return Request(
        op=op,
        device=query.device.type,
        dtype=query.dtype,
        shape=(math.prod(batch), T, S, D),
        needs_grad=torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs),
        capturing=torch.compiler.is_compiling(),
    )


def _serve_additive(
    score: Any,
    beta: float,
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    visibility: Visibility,
    dropout: float,
) -> Tensor:
    projected, ready, v = score.operands(query, key)
    heads = query.shape[1] if query.dim() == 4 else 1
    projected, ready, value = one_dtype(projected, ready, value)
    context = additive_attention(
        projected.flatten(0, -3).contiguous(),
        ready.flatten(0, -3).contiguous(),
        value.flatten(0, -3).contiguous(),
        times(v.to(projected.dtype), beta).reshape(-1, v.shape[-1]),
        visibility,
        heads=heads,
        dropout=dropout,
    )
    found: Tensor = context.unflatten(0, query.shape[:-2])
    return found


def _describe_engine(score: Additive, query: Tensor, key: Tensor | Prepared, value: Tensor) -> str:
    projected, ready, _ = score.operands(query, key)
    engine, why = engine_for(*one_dtype(projected, ready, value)[:2])
    return f"Its engine is additive.{engine.name}: {why}."


def _serve_dot(
    score: Any,
    beta: float,
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    visibility: Visibility,
    dropout: float,
) -> Tensor:
    projected, ready, scale = score.operands(query, key)
    projected, ready, value = one_dtype(projected, ready, value)
    T, S = projected.shape[-2], ready.shape[-2]
    mask = None if visibility.causal else visibility.dense(T, S, query.device)
    options: dict[str, Any] = {"scale": scale * beta, "mask": mask, "causal": visibility.causal, "dropout": dropout}
    return dot_attention(projected, ready, value, **options)


def one_dtype(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The tensors in one dtype: the promoted one, or autocast's, which leaves float64 alone."""
    dtype = result_dtype(*tensors)
    one, other, third = (tensor if tensor.dtype is dtype else tensor.to(dtype) for tensor in tensors)
    return one, other, third


def times(v: Tensor, beta: float) -> Tensor:
    """β v, in float32 at least: rounded to half precision it would be another score."""
    return v if beta == 1.0 else v.to(working_dtype(v.dtype)) * beta


# ---- One query at a time ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """A decoder's attention over one memory, one query at a time; see :func:`steps_over`."""

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
    """Attention for a decoder of ``steps`` steps, with the gradients of its keys and values computed once for all steps;
    None where no kernel serves this score, normaliser or window."""
    if not _is_shipped(score) or isinstance(score, Cosine) or normalise != softmax:
        return None
    if key.key.dim() != 3 or value.shape[:-1] != key.key.shape[:-1]:
        return None
    if value.device.type not in ("cpu", "cuda"):  # untested on other devices
        return None
    options: dict[str, Any] = {"steps": steps}
    if type(window) is Padding:
        name, shape = ("lengths", key.key.shape[:1]) if window.lengths_of_items else ("real", key.key.shape[:2])
        if window.keep.shape != shape:
            return None
        options[name] = window.keep
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
    """``(weights, context)`` of a single query in one launch on a GPU, without gradients; None where that does not apply.

    With gradients :func:`steps_over` is better, since it knows all steps.
    """
    if query.shape[-2] != 1 or query.dim() != 3 or not has_fused(query) or torch.is_grad_enabled():
        return None
    if not _is_shipped(score) or len(query) != len(value):
        return None
    ready = key if isinstance(key, Prepared) else score.prepare(key)
    looks = steps_over(ready, value, score=score, normalise=normalise, window=window, steps=1)
    return None if looks is None or query.dtype == torch.float64 else looks.look(query)


# ---- Windows around a centre: only the keys inside are read ---------------------------------------------------------


PAYS_FROM = 4
"""Ratio of keys to window width from which reading the window alone pays."""


@dataclass(frozen=True)
class LocalWindow:
    """A window that local attention supports."""

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
    """The window as local attention takes it, or None for other windows."""
    parts = window.parts if isinstance(window, All) else (window,)
    if any(type(part) not in (Band, Gaussian, Padding, Causal) for part in parts):
        return None
    middle = [part for part in parts if isinstance(part, Band | Gaussian)]
    others = [part for part in parts if not isinstance(part, Band | Gaussian)]
    if len(middle) != 1 or len({type(part) for part in others}) < len(others):
        return None
    (around,) = middle
    # With a centre the query's position does not matter, and a captured step must not read it.
    options: dict[str, Any] = {"shift": (extent.offset or 0) if around.centre is None else 0}
    for part in others:
        if isinstance(part, Padding) and part.lengths_of_items:
            options["lengths"] = part.keep
        elif isinstance(part, Causal) and around.centre is None and part.visibility(extent).shift == options["shift"]:
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
    """The kernel for a window much narrower than its keys, and a function that runs it."""
    S = key.size if isinstance(key, Prepared) else key.shape[-2]
    if S / here.width < PAYS_FROM or (isinstance(score, Additive) and score.v.dim() > 1) or not _fits(here, query):
        return None
    module: Any = blocked
    if has_fused(query) and query.dtype != torch.float64 and here.width <= 1024:
        from saccade.kernels.local import fused

        module = fused
    name = f"local.{module.__name__.rpartition('.')[2]}"
    why = f"a query sees {count_text(here.width)} of {count_text(S)} keys, and only those are read"
    return Choice(name, module.local_attention, (why,)), lambda: _attend_local(
        module, here, score, beta, query, key, value
    )


def _centre(here: LocalWindow, query: Tensor) -> Tensor | None:
    """The centre with an axis for heads, where queries have one: all heads share it."""
    centre = here.centre
    return centre.unsqueeze(1) if centre is not None and centre.dim() == 2 and query.dim() == 4 else centre


def _fits(here: LocalWindow, query: Tensor) -> bool:
    """Whether lengths and centres match the queries' batch without broadcasting it."""
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
        options["v"] = times(operand, beta)
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
    return found.to(result_dtype(projected, ready, value))
