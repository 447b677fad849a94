"""Local attention over the visible keys, on any device: time and memory do not grow with S.

Queries are processed in chunks whose windows [n, t, W, D] stay within a budget. For local-m the windows of neighbouring
queries slide by one key, so they are strided views of the keys; for local-p they are gathered. A band's windows stand still
at the ends of a sequence (they are shifted inwards), and slide by one key per query between them:

    t:      0   1   2   3   4   5   6   7      radius 2, S = 8, W = 5
    first:  0   0   0   1   2   3   3   3
            still       sliding     still

 With a the softmax inside a window, g
its gain and c̄ the gradient of the context,

    ∂value_s += a_ts g_ts c̄_t          ∂a_ts = g_ts · c̄_tᵀ value_s         ∂p_t = Σ_s a_ts ∂a_ts (s − p_t) / σ²
    e_ts = a_ts (∂a_ts − Σ_r a_tr ∂a_tr)                                    the gradient of the scores
    dot       ∂q_t = scale Σ_s e_ts k_s                   ∂k_s += scale e_ts q_t
    additive  ∂q_t = v ∘ Σ_s e_ts (1 − tanh²(q_t + k_s))  ∂k_s += v ∘ e_ts (1 − tanh²(q_t + k_s))
              ∂v   = Σ_ts e_ts tanh(q_t + k_s)

Only the gradients of keys and values have S rows; rows that no query sees are zeros.
float16 and bfloat16 are computed in float32 and rounded once, at the end.

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.kernels.local.differentiable import Engine, Gradients
from saccade.kernels.local.reference import Inputs, Reach
from saccade.kernels.tiling import slices


def _forward(inputs: Inputs, reach: Reach, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    N, T, _ = inputs.query.shape
    working = inputs.working_dtype
    context = inputs.query.new_zeros(N, T, inputs.value.shape[2], dtype=dtype)
    weights = inputs.query.new_zeros(N, T, reach.width, dtype=working)
    for chunk in chunks_of(inputs, reach):
        softmax, gain = _weigh(chunk, inputs, scale)
        mixed = softmax if gain is None else softmax * gain
        context_rows = mixed.unsqueeze(-2) @ chunk.windows(inputs.value).to(working)  # [n, t, 1, E]
        context[chunk.items, chunk.queries] = context_rows.squeeze(-2).to(dtype)
        weights[chunk.items, chunk.queries] = softmax
    return context, weights


def _weigh(chunk: Chunk, inputs: Inputs, scale: float) -> tuple[Tensor, Tensor | None]:
    """The softmax inside the chunk's windows [n, t, W], and the gain beside it."""
    working = inputs.working_dtype
    query = inputs.query[chunk.items, chunk.queries].to(working)
    keys = chunk.windows(inputs.key).to(working)  # [n, t, W, D]
    if inputs.v is None:
        scores = (keys @ (query * scale).unsqueeze(-1)).squeeze(-1)
    else:
        v = chunk.of_items(inputs.v).to(working)
        scores = ((query.unsqueeze(-2) + keys).tanh_() @ v[:, None, :, None]).squeeze(-1)
    hidden = ~chunk.visible()
    blind = hidden.all(dim=-1, keepdim=True)
    softmax = scores.masked_fill_(hidden, -math.inf).masked_fill_(blind, 0.0).softmax(-1).masked_fill_(blind, 0.0)
    return softmax, chunk.gain(working)


def _backward(
    inputs: Inputs,
    reach: Reach,
    scale: float,
    weights: Tensor,
    grad_context: Tensor,
    needed: tuple[bool, ...],
) -> Gradients:
    gradients = [
        torch.zeros(tensor.shape, dtype=weights.dtype, device=tensor.device) if tensor is not None and need else None
        for tensor, need in zip(inputs, needed, strict=True)
    ]
    for chunk in chunks_of(inputs, reach):
        _add_gradients(chunk, inputs, scale, weights, grad_context, gradients)
    return tuple(
        None if gradient is None or tensor is None else gradient.to(tensor.dtype)
        for gradient, tensor in zip(gradients, inputs, strict=True)
    )


def _add_gradients(
    chunk: Chunk,
    inputs: Inputs,
    scale: float,
    weights: Tensor,
    grad_context: Tensor,
    gradients: list[Tensor | None],
) -> None:
    working, here = weights.dtype, (chunk.items, chunk.queries)
    grad_query, grad_key, grad_value, grad_centre, grad_v = gradients
    softmax, gain, grad = weights[here], chunk.gain(working), grad_context[here].to(working)
    if grad_value is not None:
        mixed = softmax if gain is None else softmax * gain
        chunk.add(mixed.unsqueeze(-1), grad.unsqueeze(-2), grad_value)
    if all(gradient is None for gradient in (grad_query, grad_key, grad_centre, grad_v)):
        return
    grad_softmax = (chunk.windows(inputs.value).to(working) @ grad.unsqueeze(-1)).squeeze(-1)  # [n, t, W]
    if gain is not None:
        grad_softmax *= gain
    product = softmax * grad_softmax
    if grad_centre is not None and gain is not None and chunk.reach.sigma is not None:
        distance = chunk.distance(working)
        grad_centre[here] = (product * distance).sum(-1) / chunk.reach.sigma**2
    grad_scores = product - softmax * product.sum(-1, keepdim=True)  # [n, t, W]
    query, keys = inputs.query[here].to(working), chunk.windows(inputs.key).to(working)
    if inputs.v is None:
        if grad_query is not None:
            grad_query[here] = (grad_scores.unsqueeze(-2) @ keys).squeeze(-2) * scale
        if grad_key is not None:
            chunk.add(grad_scores.unsqueeze(-1), (query * scale).unsqueeze(-2), grad_key)
        return
    tanh = (query.unsqueeze(-2) + keys).tanh_()  # [n, t, W, D]
    if grad_v is not None:
        # One sum per item; a v shared by all items takes their total.
        sums = (grad_scores.flatten(1).unsqueeze(-2) @ tanh.flatten(1, 2)).squeeze(-2)  # [n, D]
        chunk.of_items(grad_v).add_(sums if grad_v.shape[0] == len(inputs.query) else sums.sum(0, keepdim=True))
    if grad_query is None and grad_key is None:
        return
    v = chunk.of_items(inputs.v).to(working)
    slope = tanh.square_().neg_().add_(1).mul_(grad_scores.unsqueeze(-1)).mul_(v[:, None, None, :])
    if grad_query is not None:
        grad_query[here] = slope.sum(2)
    if grad_key is not None:
        chunk.add(slope, None, grad_key)


ENGINE = Engine("blocked", _forward, _backward)
local_attention = ENGINE.local_attention


# ---- Chunks of queries, and their windows ------------------------------------------------------------------------------


CHUNK_ELEMENTS = {"cpu": 1 << 20}
"""Numbers in the windows of a chunk: 4 MB in float32, which fit in a processor's cache …"""

MOST_ELEMENTS = 1 << 23
"""… and 32 MB on other devices, where few and large calls are faster."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some items and queries. ``first`` is the first key of the first query's window, or [n, t] that of each."""

    reach: Reach
    items: slice
    queries: slice
    positions: Float[Tensor, "#n t"] | Int[Tensor, "#n t"]
    first: int | Int[Tensor, "n t"]
    slides: bool = False

    def windows(self, tensor: Float[Tensor, "N S C"]) -> Float[Tensor, "n #t W C"]:
        """The rows of keys or values in each query's window; t is 1 where all queries share one."""
        W, tensor = self.reach.width, tensor[self.items]
        if isinstance(self.first, Tensor):
            return tensor.unfold(1, W, 1).mT[_each(self.first), self.first]
        if self.slides:
            return tensor[:, self.first : self.first + self._size + W - 1].unfold(1, W, 1).mT
        return tensor[:, None, self.first : self.first + W]

    def add(
        self, part: Float[Tensor, "n t W #C"], row: Float[Tensor, "n t 1 C"] | None, total: Float[Tensor, "N S C"]
    ) -> None:
        """Add ``part`` (times ``row``) to the rows of ``total`` in each query's window, in a fixed order."""
        W, total = self.reach.width, total[self.items]
        if isinstance(self.first, Tensor):
            self._add_gathered(part if row is None else part * row, self.first, total)
        elif self.slides:
            for w in range(W):  # no two queries have one key at the same position of their windows
                rows = total[:, self.first + w : self.first + w + self._size]
                if row is None:
                    rows.add_(part[:, :, w])
                else:
                    rows.addcmul_(part[:, :, w], row.squeeze(-2))
        else:
            window = total[:, self.first : self.first + W]
            if row is None:
                window.add_(part.sum(1))
            else:
                window.baddbmm_(part.squeeze(-1).mT, row.squeeze(-2))

    def _add_gathered(self, parts: Float[Tensor, "n t W C"], first: Int[Tensor, "n t"], total: Tensor) -> None:
        n, S, C = total.shape
        W = self.reach.width
        if first.shape[1] == 1:  # a decoder's step: each row of `total` occurs at most once
            windows = total.unfold(1, W, 1).mT  # [n, S − W + 1, W, C]
            windows[_each(first), first] = windows[_each(first), first] + parts
            return
        places = first.unsqueeze(-1) + torch.arange(W, device=first.device)  # [n, t, W]
        places = places + S * torch.arange(n, device=first.device)[:, None, None]
        total.view(n * S, C).index_add_(0, places.flatten(), parts.reshape(-1, C))

    def visible(self) -> Bool[Tensor, "#n t W"]:
        """Which keys of its window each query sees."""
        return self.reach.visible(self._places, self.reach.middles(self.positions), self.items)

    def gain(self, dtype: torch.dtype) -> Float[Tensor, "#n t W"] | None:
        return None if self.reach.sigma is None else self.reach.gain(self.distance(dtype))

    def distance(self, dtype: torch.dtype) -> Float[Tensor, "#n t W"]:
        """s − p for the keys s of each window."""
        return self._places - self.positions.unsqueeze(-1).to(dtype)

    def of_items(self, tensor: Float[Tensor, "#N D"]) -> Float[Tensor, "#n D"]:
        """This chunk's rows of a tensor with one row per item, or the one row that all share."""
        return tensor if tensor.shape[0] == 1 else tensor[self.items]

    @property
    def _size(self) -> int:
        return int(self.queries.stop - self.queries.start)

    @property
    def _places(self) -> Int[Tensor, "#n t W"]:
        device = self.positions.device
        if isinstance(self.first, Tensor):
            first = self.first
        else:
            stop = self.first + self._size if self.slides else self.first + 1
            first = torch.arange(self.first, stop, device=device).unsqueeze(0)  # [1, t or 1]
        return first.unsqueeze(-1) + torch.arange(self.reach.width, device=device)


def _each(first: Int[Tensor, "n t"]) -> Int[Tensor, "n 1"]:
    return torch.arange(first.shape[0], device=first.device).unsqueeze(-1)


def chunks_of(inputs: Inputs, reach: Reach) -> Iterator[Chunk]:
    """All items and queries, in chunks whose windows stay within the budget; no chunk where there are no keys."""
    N, T, D = inputs.query.shape
    device, centre = inputs.query.device, inputs.centre
    pair = reach.width * max(1, D, inputs.value.shape[2])  # numbers in one query's window
    if N * T * reach.width == 0:
        return
    pairs = max(1, CHUNK_ELEMENTS.get(device.type, MOST_ELEMENTS) // pair)
    n = min(N, pairs)
    runs = [(slice(0, T), None, False)] if centre is not None else list(_runs(reach))
    for items, (run, start, slides) in itertools.product(slices(0, N, n), runs):
        for queries in slices(run.start, run.stop, max(1, pairs // n)):
            if centre is not None:
                positions = centre[items, queries].detach()
                yield Chunk(reach, items, queries, positions, reach.first(reach.middles(positions)))
            elif start is not None:
                own = torch.arange(reach.shift + queries.start, reach.shift + queries.stop, device=device)
                first = start + queries.start - run.start if slides else start
                yield Chunk(reach, items, queries, own.unsqueeze(0), first, slides)


def _runs(reach: Reach) -> Iterator[tuple[slice, int, bool]]:
    """The queries of a band whose windows stand still, slide, and stand still again, with the first key of each run."""
    last = reach.S - reach.width
    low = min(max(reach.before - reach.shift, 0), reach.T)
    high = min(max(last + reach.before - reach.shift, low), reach.T)
    for start, stop, first, slides in (
        (0, low, 0, False),
        (low, high, low + reach.shift - reach.before, True),
        (high, reach.T, last, False),
    ):
        if stop > start:
            yield slice(start, stop), first, slides
