"""The core: score → window → normalise → read. Every attention mechanism here is a composition of these functions.

    weights = normalise(score(query, key) where the window is visible, else −inf) · gain     [B, (H,) T, S]
    context = weights · value                                                              [B, (H,) T, E]

With half-precision inputs scores, weights and sums are computed in float32 and results rounded once, with a lens as without.

Legend: B batch, H heads (optional), T queries, S keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import math
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.attention.checks import (
    check_alike,
    check_dropout,
    check_fits,
    check_normalised,
    check_offset,
    check_parts,
    check_states,
)
from saccade.attention.choice import Choice
from saccade.attention.fast import plan, step
from saccade.attention.normalise import Normaliser, logits_of, softmax
from saccade.attention.scores import Prepared, Score, name_of
from saccade.attention.statistics import attend_and_count
from saccade.attention.windows import Extent, Window, everywhere
from saccade.errors import SaccadeError
from saccade.kernels.dtypes import promoted, result_dtype, without_autocast, working_dtype
from saccade.kernels.hard.gathered import take
from saccade.kernels.statistics.reference import Statistics
from saccade.progress import is_watched, report
from saccade.trace.lens import Lens, Site

COPIES, COPIES_UNDER_A_LENS = 2, 4  # tensors of the size of the scores that exist at the same time


def weigh(
    query: Float[Tensor, "*batch T Dq"],
    key: Float[Tensor, "*batch S Dk"] | Prepared,
    *,
    score: Score,
    normalise: Normaliser = softmax,
    window: Window = everywhere,
    offset: int | None = None,
    lens: Lens | None = None,
    site: str | Site = "attention",
) -> Float[Tensor, "*batch T S"]:
    """The attention weights of each query over the keys.

        weights[t, s] = normaliseₛ(score(query[t], key[s]) if visible(t, s) else −inf) · gain(t, s)

    Rows are not negative and sum to 1 before the gain; a query that sees nothing gets zeros.

    Args:
        query: [B, T, D], or with heads [B, H, T, D].
        key: [B, S, D] (with heads [B, H, S, D]), or what ``score.prepare(key)`` returned.
        score: a value of :mod:`saccade.attention.scores`.
        normalise: a value of :mod:`saccade.attention.normalise`.
        window: a value of :mod:`saccade.attention.windows`.
        offset: position of the first query, when queries come one at a time; windows, edits and maps use it.
        lens: records the weights, and may edit them.
        site: the name of this place for the lens.
    """
    _check(query, key, score, normalise, window, offset, lens, site)
    return _rounded(_weights(query, key, score, normalise, window, offset, lens, site), query, key)


def read(
    weights: Float[Tensor, "*batch T S"] | Choice, value: Float[Tensor, "*batch S E"]
) -> Float[Tensor, "*batch T E"]:
    """The weighted sum of the values: context[t] = Σₛ weights[t, s] · value[s].

    Of a :class:`saccade.attention.choice.Choice` the chosen values, context[t] = value[index[t]]; the others are not read.
    """
    if isinstance(weights, Choice):
        _check_weighed(weights.weights, value)
        return take(value, weights.index)
    _check_weighed(weights, value)
    return _read(weights, value, result_dtype(weights, value))


def attend(
    query: Float[Tensor, "*batch T Dq"],
    key: Float[Tensor, "*batch S Dk"] | Prepared,
    value: Float[Tensor, "*batch S E"],
    *,
    score: Score,
    normalise: Normaliser = softmax,
    window: Window = everywhere,
    dropout: float = 0.0,
    offset: int | None = None,
    lens: Lens | None = None,
    site: str | Site = "attention",
) -> Float[Tensor, "*batch T E"]:
    """The context of each query: ``read(weigh(query, key, …), value)``.

    ``dropout`` is the probability of dropping a weight (pass 0 outside training); the lens records weights before dropout.
    The other arguments are those of :func:`weigh`.

    >>> import torch
    >>> from saccade.attention.scores import scaled_dot
    >>> x = torch.randn(2, 5, 7)
    >>> attend(x, x, x, score=scaled_dot).shape
    torch.Size([2, 5, 7])
    """
    _check(query, key, score, normalise, window, offset, lens, site)
    _check_read(query, key, value, dropout)
    options: dict[str, Any] = {"score": score, "normalise": normalise, "window": window, "offset": offset}
    wanted = None if lens is None else lens.counted
    if lens is None or wanted is not None:
        served = plan(query, key, value, **options, dropout=dropout, counting=lens is not None)
        if served.run is not None and lens is None:
            return served.run()
        if lens is not None and wanted is not None and served.choice.kernel.endswith(".attention"):
            context, statistics = attend_and_count(served, query, key, value, **options, dropout=dropout, wanted=wanted)
            site = _described(site, score, normalise, None)
            return _counted(lens, site, context, statistics, key, offset or 0)
    return _look(query, key, value, score, normalise, window, dropout, offset, lens, site)[1]


def look(
    query: Float[Tensor, "*batch T Dq"],
    key: Float[Tensor, "*batch S Dk"] | Prepared,
    value: Float[Tensor, "*batch S E"],
    *,
    score: Score,
    normalise: Normaliser = softmax,
    window: Window = everywhere,
    dropout: float = 0.0,
    offset: int | None = None,
    lens: Lens | None = None,
    site: str | Site = "attention",
) -> tuple[Float[Tensor, "*batch T S"], Float[Tensor, "*batch T E"]]:
    """``(weights, context)``: :func:`attend` that also returns the weights, before dropout."""
    _check(query, key, score, normalise, window, offset, lens, site)
    _check_read(query, key, value, dropout)
    return _look(query, key, value, score, normalise, window, dropout, offset, lens, site)


def _look(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    score: Score,
    normalise: Normaliser,
    window: Window,
    dropout: float,
    offset: int | None,
    lens: Lens | None,
    site: str | Site,
) -> tuple[Tensor, Tensor]:
    if lens is None and not dropout:
        served = step(query, key, value, score=score, normalise=normalise, window=window)
        if served is not None:
            return served
    weights = _weights(query, key, score, normalise, window, offset, lens, site)
    dtype = result_dtype(query, key.key if isinstance(key, Prepared) else key, value)
    context = _read(functional.dropout(weights, dropout) if dropout else weights, value, dtype)
    if lens is not None:
        _keep_context(lens, Site.of(site), context, offset or 0)
    return _rounded(weights, query, key), context


def explain_choice(
    query: Float[Tensor, "*batch T Dq"],
    key: Float[Tensor, "*batch S Dk"] | Prepared,
    value: Float[Tensor, "*batch S E"] | None = None,
    *,
    score: Score,
    normalise: Normaliser = softmax,
    window: Window = everywhere,
    offset: int | None = None,
) -> str:
    """Which kernel serves ``attend`` for these inputs, and why a faster one does not; without values, which serves ``weigh``.

    >>> import torch
    >>> from saccade.attention.scores import dot
    >>> print(explain_choice(torch.randn(2, 3, 8), torch.randn(2, 5, 8), score=dot).split(":")[0])
    dot.reference
    """
    _check(query, key, score, normalise, window, offset)
    if value is None:
        return str(score.choice(query, key))
    _check_read(query, key, value, 0.0)
    served = plan(query, key, value, score=score, normalise=normalise, window=window, offset=offset)
    return " ".join([str(served.choice), *served.details])


def _check(
    query: Tensor,
    key: Tensor | Prepared,
    score: object,
    normalise: object,
    window: object,
    offset: object,
    lens: object = None,
    site: object = "",
) -> None:
    """Raise, naming the argument, where one is of another kind than :func:`weigh` takes."""
    check_parts(score=score, normalise=normalise, window=window)
    check_offset(offset)
    if lens is not None and not isinstance(lens, Lens):
        raise SaccadeError(f"lens: expected a saccade.Lens, found {lens!r:.60}")
    if not isinstance(site, str | Site):
        raise SaccadeError(f"site: expected a name or a saccade.trace.Site, found {site!r:.60}")
    keys = key.key if isinstance(key, Prepared) else key
    check_states(query=query, key=keys)
    if not isinstance(key, Prepared) or keys.dim() == query.dim():  # a score may prepare keys per query
        check_alike(query=query, key=keys)


def _check_read(query: Tensor, key: Tensor | Prepared, value: Tensor, dropout: float) -> None:
    check_states(value=value)
    check_dropout(dropout)
    if value.shape[-2] != (keys := key.size if isinstance(key, Prepared) else key.shape[-2]):
        raise SaccadeError(f"value: expected one for each of the {keys} keys, found {value.shape[-2]}")
    check_alike(query=query, value=value)


def _check_weighed(weights: Tensor, value: Tensor) -> None:
    check_states(weights=weights, value=value)
    check_alike(weights=weights, value=value)
    if weights.shape[-1] != value.shape[-2]:
        raise SaccadeError(f"value: expected one for each of the {weights.shape[-1]} weights, found {value.shape[-2]}")


def _weights(
    query: Tensor,
    key: Tensor | Prepared,
    score: Score,
    normalise: Normaliser,
    window: Window,
    offset: int | None,
    lens: Lens | None,
    site: str | Site,
) -> Tensor:
    """The weights in float32 at least."""
    _announce(query, key, COPIES if lens is None else COPIES_UNDER_A_LENS)
    scores = score(query, key)  # [B, (H,) T, S]
    scores = scores.to(working_dtype(scores.dtype))
    T, S = scores.shape[-2:]
    extent = Extent(T, S, offset, scores.device, scores.dtype, scores.shape[0])
    visible, gain = (
        None if part is None else _beside(part, scores, window)
        for part in (window.visible(extent), window.gain(extent))
    )
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    if lens is None:
        weights = normalise(scores)
        check_normalised(weights, scores)
        return weights if gain is None else weights * gain
    return _weigh_under(lens, _described(site, score, normalise, gain), scores, normalise, gain, offset or 0)


def _announce(query: Tensor, key: Tensor | Prepared, copies: int) -> None:
    """Tell a watcher how many bytes the scores and weights will take, before they are computed."""
    if torch.compiler.is_compiling() or not is_watched():
        return
    keys = key.size if isinstance(key, Prepared) else key.shape[-2]
    report(held=copies * math.prod(query.shape[:-1]) * keys * working_dtype(query.dtype).itemsize)


def _read(weights: Tensor, value: Tensor, dtype: torch.dtype) -> Tensor:
    """Σₛ weights[t, s] · value[s], summed in float32 at least, as ``dtype``."""
    wide = working_dtype(dtype)
    if weights.dtype is value.dtype is dtype is wide:
        alone = weights.shape[-2] == 1 and weights.shape[:-2] == value.shape[:-2] and not weights.is_cuda
        if alone and value.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            context: Tensor = _ReadOne.apply(weights, value)
            return context
        return weights @ value
    with without_autocast(value):
        return (weights.to(wide) @ value.to(dtype).to(wide)).to(dtype)


class _ReadOne(torch.autograd.Function):
    """weights [..., 1, S] @ value [..., S, E], with the values' gradient as a product of elements: on a CPU it takes a third of
    the time of the product of matrices that autograd makes. Its own gradients are autograd's."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(weights, value)
        return weights @ value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (weights, value) = grads, ctx.saved_tensors
        of_weights = grad @ value.mT if ctx.needs_input_grad[0] else None
        return of_weights, weights.mT * grad if ctx.needs_input_grad[1] else None


def _rounded(weights: Tensor, query: Tensor, key: Tensor | Prepared) -> Tensor:
    """The weights in the dtype of half-precision queries and keys; others are returned as they are."""
    if working_dtype(query.dtype) is query.dtype:
        return weights
    dtype = promoted(query, key.key if isinstance(key, Prepared) else key)
    return weights if working_dtype(dtype) is dtype else weights.to(dtype)


def _described(site: str | Site, score: Score, normalise: Normaliser, gain: Tensor | None) -> Site:
    """The site with the names of its score and its normaliser, which explanations of a trace need."""
    named = repr(normalise) if is_dataclass(normalise) else getattr(normalise, "name", type(normalise).__name__)
    way = str(named) if gain is None else f"{named} · gain"
    return replace(Site.of(site), score=name_of(score), normalise="" if way == "softmax" else way)


def _counted(
    lens: Lens, site: Site, context: Tensor, statistics: Statistics, key: Tensor | Prepared, offset: int
) -> Tensor:
    """Pass the statistics of the weights, and the contexts if wanted, to the lens."""
    heads = context.shape[1] if context.dim() == 4 else 1
    keys = key.size if isinstance(key, Prepared) else key.shape[-2]
    lens.observe_statistics(site, statistics.per_head(heads), keys=keys, offset=offset)
    _keep_context(lens, site, context, offset)
    return context


def _keep_context(lens: Lens, site: Site, context: Tensor, offset: int) -> None:
    """Record the contexts [B, (H,) T, E], one per head, if the lens wants them."""
    if lens.wants("context"):
        lens.signal(f"{site.name}.context", site.query, context, offset=offset)


def _weigh_under(
    lens: Lens, site: Site, scores: Tensor, normalise: Normaliser, gain: Tensor | None, offset: int
) -> Tensor:
    headless = scores.dim() == 3

    def heads(
        part: Tensor,
    ) -> Tensor:  # the lens always gets heads, [B, H, T, S]; normalisers get what they get without it
        return part.unsqueeze(1) if headless else part

    def without(part: Tensor) -> Tensor:
        return part.squeeze(1) if headless else part

    logits = logits_of(normalise, scores)
    if logits is not None:  # a softmax of them: adding log f multiplies by f
        weights = softmax(lens.edit_scores(site, heads(logits), offset))
    else:
        edited = without(lens.edit_scores(site, heads(scores), offset, boosting=False))
        weights = normalise(edited)
        check_normalised(weights, scores)
        weights = lens.boost_weights(site, heads(weights), offset)
    if gain is not None:
        weights = weights * (gain.unsqueeze(1) if headless and gain.dim() == 3 else gain)
    weights = lens.edit_weights(site, weights, offset)
    lens.observe(site, weights, offset=offset, scores=heads(scores))  # the network's own: an edit is not a score
    return without(weights)


def _beside(part: Tensor, scores: Tensor, window: Window) -> Tensor:
    """A window's [B, T, S] as [B, 1, T, S] where the scores have heads."""
    part = part.unsqueeze(1) if part.dim() == 3 and scores.dim() == 4 else part
    check_fits(window, part, scores)
    return part
