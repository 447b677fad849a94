"""Computes one attention call of a foreign model under a lens.

    weights = softmax(cap · tanh(scale · qᵀk / cap) + bias), over the keys a query sees (and a sink, if there is one)

Weights that are kept whole or edited are computed directly. Otherwise contexts come from PyTorch's own attention and
statistics from kernels that recompute the scores, without T × S numbers; with a bias, a cap or sinks, which those kernels do
not support, one block of queries is computed at a time.

Legend: B batch, H heads, G heads of keys (H / G queries' heads share one), T queries, S keys, D width, E width of values.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from saccade.attention.core import attend
from saccade.attention.fast import one_dtype
from saccade.attention.normalise import Softmax, softmax
from saccade.attention.scores import dot, scaled_dot
from saccade.attention.statistics import KEPT_IN_REGISTERS
from saccade.attention.windows import causal, everywhere
from saccade.foreign.masks import BLOCK_NUMBERS, Sight
from saccade.kernels.choose import PRODUCT_PAYS_FROM
from saccade.kernels.dot.attention import dot_attention
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.dtypes import working_dtype
from saccade.kernels.launching import has_fused
from saccade.kernels.statistics import blocked
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.kernels.visibility import Visibility
from saccade.trace.lens import Lens, Record, Site

OURS: ContextVar[bool] = ContextVar("ours", default=False)
"""Whether our own attention is running; other calls bypass the session."""


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of one attention call.

    ``query`` [B, H, T, D], ``key`` [B, G, S, D], ``value`` [B, G, S, E]; ``bias`` broadcasts against [B, H, T, S] and is
    added to the scores, ``cap`` bounds them, ``sinks`` [H] are scores of a key without a value. ``behind`` earlier
    keys were dropped: key s is at position ``behind + s``.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    sight: Sight
    bias: Tensor | None = None
    cap: float | None = None
    sinks: Tensor | None = None
    dropout: float = 0.0
    behind: int = 0

    @property
    def heads(self) -> int:
        return self.query.shape[1]

    @property
    def plain(self) -> bool:
        """Whether it is plain scaled dot-product attention over lengths and a band."""
        extra = (self.bias, self.cap, self.sinks)
        return self.sight.seen is not None and not self.dropout and all(each is None for each in extra)

    @property
    def score(self) -> str:
        """The name of its score; empty with a bias, a cap or an unusual scale."""
        names = {self.query.shape[-1] ** -0.5: "scaled_dot", 1.0: "dot"}
        return "" if self.bias is not None or self.cap is not None else names.get(self.scale, "")

    def of(self, start: int, stop: int) -> Call:
        """The same call for the queries start, …, stop − 1."""
        bias = self.bias
        if bias is not None and bias.shape[-2] > 1:
            bias = bias[..., start:stop, :]
        return replace(self, query=self.query[:, :, start:stop], sight=self.sight.of(start, stop), bias=bias)

    def repeated(self, states: Tensor) -> Tensor:
        """Keys or values repeated for each head of the queries."""
        shared = self.heads // states.shape[1]
        return states if shared == 1 else states.repeat_interleave(shared, dim=1)

    def scores(self, key: Tensor) -> Tensor:
        """All scores [B, H, T, S] of the repeated keys, −inf where a key is not visible. Half precision becomes float32."""
        with _without_autocast(self.query):
            scores = torch.matmul(_in_full(self.query), _in_full(key).mT) * self.scale
        if self.cap is not None:
            scores = torch.tanh(scores / self.cap) * self.cap
        if self.bias is not None:
            scores = scores + self.bias[..., : scores.shape[-1]]
        visible = self.sight.block(0, self.query.shape[-2], self.query.device)
        return scores if visible is None else scores.masked_fill(~visible, -math.inf)


def _in_full(states: Tensor) -> Tensor:
    """Half precision as float32: rounded scores would differ."""
    return states.to(working_dtype(states.dtype))


def _without_autocast(states: Tensor) -> torch.autocast:
    """Disable autocast, which would compute products in half precision."""
    return torch.autocast(states.device.type, enabled=False)


def attend_under(lens: Lens, call: Call, site: Site, place: Site, *, offset: int = 0, shown: int = 0) -> Tensor:
    """The contexts [B, H, T, E]; the lens edits and records the weights.

    Args:
        lens: records and edits.
        call: the arguments of the attention.
        site: the site that edits refer to.
        place: the site and axes that the weights are recorded under.
        offset: position of the first query, for edits.
        shown: its row on the axis ``place.query``.
    """
    token = OURS.set(True)
    try:
        return _attend_under(lens, call, site, place, offset, shown)
    finally:
        OURS.reset(token)


def _attend_under(lens: Lens, call: Call, site: Site, place: Site, offset: int, shown: int) -> Tensor:
    inner = lens.fresh()
    place = replace(place, score=call.score, normalise="" if call.sinks is None else "softmax with a sink")
    if call.plain and lens.counted is not None:
        context = _counted(inner, call, place, lens.counted)
        inner.records = [_behind(record, call.behind) for record in inner.records]
    else:
        context = _by_rows(inner, call, site, place, offset)
    if lens.wants("context") and not any(record.kind == "signal" for record in inner.records):
        inner.signal(f"{place.name}.context", place.query, context)
    lens.records += [replace(record, offset=record.offset + shown) for record in inner.records]
    return context


# ---- With weights ----------------------------------------------------------------------------------------------------


def _by_rows(lens: Lens, call: Call, site: Site, place: Site, offset: int) -> Tensor:
    B, H, T, _ = call.query.shape
    S = call.behind + call.key.shape[-2]
    key, value = _in_full(call.repeated(call.key)), call.repeated(call.value)
    step = max(1, T if lens.keep == "all" else BLOCK_NUMBERS // max(1, B * H * S))
    contexts = []
    for start in range(0, max(1, T), step):
        part = call.of(start, min(start + step, T))
        scores = part.scores(key)
        if call.behind:  # edits name keys by position, including dropped ones
            scores = functional.pad(scores, (call.behind, 0), value=-math.inf)
        scores = lens.edit_scores(site, scores, offset + start)
        weights = lens.edit_weights(site, _normalised(scores, call.sinks), offset + start)
        lens.observe(place, weights, offset=start, scores=scores)
        weights = weights[..., call.behind :].to(value.dtype)
        contexts.append((functional.dropout(weights, call.dropout) if call.dropout else weights) @ value)
    return torch.cat(contexts, dim=-2)


def _normalised(scores: Tensor, sinks: Tensor | None) -> Tensor:
    if sinks is None:
        return softmax(scores)
    sink = sinks.to(scores.dtype).reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, sink], dim=-1))[..., :-1]


# ---- Without them ----------------------------------------------------------------------------------------------------


def _counted(lens: Lens, call: Call, place: Site, wanted: Wanted) -> Tensor:
    seen = call.sight.seen or Visibility()
    key, value = call.repeated(call.key), call.repeated(call.value)
    if _flashes(call, seen, wanted):  # it also gives each row's log-sum-exp, which saves a pass over the scores
        usual = call.scale == call.query.shape[-1] ** -0.5
        return attend(
            call.query, key, value, score=scaled_dot if usual else dot, normalise=softmax if usual else Softmax(call.scale),
            window=causal if seen.causal else everywhere, lens=lens, site=place,
        )  # fmt: skip
    lens.observe_statistics(place, _statistics(call, key, seen, wanted), keys=key.shape[-2])
    return _contexts(call, key, value, seen)


def _flashes(call: Call, seen: Visibility, wanted: Wanted) -> bool:
    """Whether ``attend`` would use flash attention. For few scores it computes the weights."""
    (B, H, T, _), S = call.query.shape, call.key.shape[-2]
    half = call.query.dtype in (torch.float16, torch.bfloat16)
    simple = seen.everything or (seen.causal and T == S)
    return half and simple and _is_fused(call, wanted) and T > 1 and B * H * T * S >= PRODUCT_PAYS_FROM


def _is_fused(call: Call, wanted: Wanted) -> bool:
    kept = min(wanted.top, call.key.shape[-2])
    return has_fused(call.query) and call.query.dtype != torch.float64 and kept <= KEPT_IN_REGISTERS


def _statistics(call: Call, key: Tensor, seen: Visibility, wanted: Wanted) -> Statistics:
    (T, S), H = (call.query.shape[-2], key.shape[-2]), call.heads
    if _is_fused(call, wanted):
        from saccade.kernels.statistics import fused

        return fused.statistics(call.query, call.key.to(call.query.dtype), seen, scale=call.scale, wanted=wanted)
    query, key = _in_full(call.query).flatten(0, 1), _in_full(key).flatten(0, 1)

    def scores(rows: slice, keys: slice) -> Tensor:
        with _without_autocast(query):
            return dot_scores(query[:, rows], key[:, keys], call.scale)

    return blocked.statistics(scores, (len(query), T, S), seen, like=query, wanted=wanted, heads=H).per_head(H)


def _contexts(call: Call, key: Tensor, value: Tensor, seen: Visibility) -> Tensor:
    """PyTorch's attention takes lengths and bands only as masks (except the causal one): it gets one block of queries at a
    time, with the keys that the block sees."""
    B, H, T, _ = call.query.shape
    S = key.shape[-2]
    query, key, value = one_dtype(call.query, key, value)
    if seen.everything or (seen.causal and T == S):
        return dot_attention(query, key, value, scale=call.scale, causal=seen.causal)
    step = max(1, BLOCK_NUMBERS // max(1, B * H * S))
    low, high = seen.bounds()
    contexts = []
    for start in range(0, T, step):
        stop = min(start + step, T)
        first, last = max(0, min(S, start + low)), max(0, min(S, stop + high))
        if first >= last:  # these see nothing
            contexts.append(value.new_zeros(B, H, stop - start, value.shape[-1]))
            continue
        mask = call.sight.block(start, stop, call.query.device)
        mask = None if mask is None else mask[..., first:last]
        near = (query[:, :, start:stop], key[:, :, first:last], value[:, :, first:last])
        contexts.append(dot_attention(*near, scale=call.scale, mask=mask))
    return torch.cat(contexts, dim=-2)


def _behind(record: Record, by: int) -> Record:
    """The same record with key s at position ``by + s``."""
    if not by:
        return record
    tensors = dict(record.tensors)
    for name, weighs in (("index", "weights"), ("argmax", "maximum")):
        if name in tensors:
            tensors[name] = torch.where(tensors[weighs] > 0, tensors[name] + by, 0)
    if "received" in tensors:
        tensors["received"] = functional.pad(tensors["received"], (by, 0))
    return replace(record, tensors=tensors, keys=record.keys + by)
