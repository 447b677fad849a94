"""``torch.nn.MultiheadAttention``, and ``nn.Transformer`` and its parts, which are made of it.

In eval mode PyTorch's encoder layers compute attention in one fused operator that calls no module. While looking it is switched
off, and each ``MultiheadAttention`` gets a ``forward`` of ours: the same projections, our attention between them.

Legend: B batch, H heads, T queries, S keys, D width, d = D / H.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.foreign.attention import Call, attend_under
from saccade.foreign.gaze import Gaze
from saccade.foreign.masks import everything, sight_of_mask
from saccade.trace.lens import Lens, Site


def multiheads(model: nn.Module) -> list[nn.MultiheadAttention]:
    return [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]


@contextlib.contextmanager
def replaced(modules: list[nn.MultiheadAttention], gaze: Gaze) -> Iterator[None]:
    """These modules look through ``gaze``; afterwards they are as they were."""
    if not modules:
        yield
        return
    own = [module for module in modules if type(module).forward is not nn.MultiheadAttention.forward]
    if own:
        raise SaccadeError(f"{gaze.name}: {type(own[0]).__name__} has a forward of its own: it cannot be looked at")
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    before = [module.__dict__.get("forward") for module in modules]
    try:
        for module in modules:
            module.forward = _Forward(module, gaze)  # type: ignore[method-assign]
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for module, forward in zip(modules, before, strict=True):
            if forward is None:
                module.__dict__.pop("forward", None)
            else:
                module.forward = forward  # type: ignore[method-assign]


class _Forward:
    """``MultiheadAttention.forward`` of one module, seen."""

    def __init__(self, module: nn.MultiheadAttention, gaze: Gaze) -> None:
        self.module, self.gaze = module, gaze

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        module, batched = self.module, query.dim() == 3
        if not batched:
            query, key, value = (each.unsqueeze(0) for each in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not module.batch_first:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        heads = _projected(module, query, key, value)
        call = _call(module, *heads, attn_mask, key_padding_mask)
        context = self.gaze.see(module, call)  # [B, H, T, d]
        joined = module.out_proj(context.transpose(1, 2).flatten(-2))
        weights = self._weights(call, average_attn_weights) if need_weights else None
        if not batched:
            return joined.squeeze(0), None if weights is None else weights.squeeze(0)
        return (joined if module.batch_first else joined.transpose(0, 1)), weights

    __call__.__qualname__ = "MultiheadAttention.forward"  # as Python names it where arguments are missing

    def _weights(self, call: Call, average: bool) -> Tensor:
        """What the caller asked for beside the lens: [B, T, S], or [B, H, T, S]."""
        site = Site.of(self.gaze.place(self.module).name)
        lens = Lens(edits=self.gaze.lens.edits)
        attend_under(lens, call, site, site)
        weights = lens.records[0].tensors["weights"].to(call.value.dtype)
        return weights.mean(1) if average else weights


def _projected(module: nn.MultiheadAttention, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [B, H, N, d], with the learned and the empty key that a module may add at the end."""
    if module.in_proj_weight is not None:
        matrices = module.in_proj_weight.chunk(3)
    else:
        matrices = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases: Any = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    projected = [functional.linear(*parts) for parts in zip(inputs, matrices, biases, strict=True)]
    for place, extra in ((1, module.bias_k), (2, module.bias_v)):
        if extra is not None:
            projected[place] = torch.cat([projected[place], extra.expand(len(projected[place]), 1, -1)], dim=1)
    if module.add_zero_attn:
        projected[1:] = [functional.pad(each, (0, 0, 0, 1)) for each in projected[1:]]
    query, key, value = (each.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for each in projected)
    return query, key, value


def _call(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
) -> Call:
    (B, H, T, d), S = query.shape, key.shape[-2]
    masks = []
    if attn_mask is not None:  # [T, S], or [B · H, T, S]
        masks.append(attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (B, H)))
    if key_padding_mask is not None:
        masks.append(key_padding_mask[:, None, None])
    # True hides here, where elsewhere it shows; keys that the module adds are always seen.
    added = [_additive(functional.pad(each, (0, S - each.shape[-1])), query) for each in masks]
    sight, bias = sight_of_mask(sum(added[1:], added[0]), T, S) if added else (everything(T, S), None)
    dropout = module.dropout if module.training else 0.0
    return Call(query=query, key=key, value=value, scale=d**-0.5, sight=sight, bias=bias, dropout=dropout)


def _additive(mask: Tensor, beside: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=beside.dtype, device=beside.device).masked_fill(mask, -torch.inf)
