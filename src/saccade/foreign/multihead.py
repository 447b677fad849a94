"""Traces ``torch.nn.MultiheadAttention``, and so ``nn.Transformer`` and its parts.

In eval mode PyTorch's encoder layers compute attention in one fused operator that calls no module. During ``look`` it is
disabled, and each ``MultiheadAttention`` gets our ``forward``: the same projections, our attention between them.

Legend: B batch, H heads, T queries, S keys, D width, d = D / H.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from saccade.errors import InputError, SaccadeError
from saccade.foreign.attention import Call, attend_under
from saccade.foreign.masks import everything, sight_of_mask
from saccade.foreign.session import LookSession
from saccade.trace.lens import Lens, Site


def multiheads(model: nn.Module) -> list[nn.MultiheadAttention]:
    return [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]


@contextlib.contextmanager
def replaced(modules: list[nn.MultiheadAttention], session: LookSession) -> Iterator[None]:
    """Route these modules through the session; restore them afterwards."""
    if not modules:
        yield
        return
    own = [module for module in modules if type(module).forward is not nn.MultiheadAttention.forward]
    if own:
        raise SaccadeError(f"{session.name}: {type(own[0]).__name__} overrides forward: it cannot be traced")
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    before = [module.__dict__.get("forward") for module in modules]
    try:
        for module in modules:
            module.forward = _Forward(module, session)  # type: ignore[method-assign]
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for module, forward in zip(modules, before, strict=True):
            if forward is None:
                module.__dict__.pop("forward", None)
            else:
                module.forward = forward  # type: ignore[method-assign]


class _Forward:
    """``MultiheadAttention.forward`` of one module, through the session."""

    def __init__(self, module: nn.MultiheadAttention, session: LookSession) -> None:
        self.module, self.session = module, session

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
        self._check(query, key, value, attn_mask, key_padding_mask, is_causal)
        if not batched:
            query, key, value = (each.unsqueeze(0) for each in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not module.batch_first:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        heads = _projected(module, query, key, value)
        call = _call(module, *heads, attn_mask, key_padding_mask)
        context = self.session.see(module, call)  # [B, H, T, d]
        joined = module.out_proj(context.transpose(1, 2).flatten(-2))
        weights = self._weights(call, average_attn_weights) if need_weights else None
        if not batched:
            return joined.squeeze(0), None if weights is None else weights.squeeze(0)
        return (joined if module.batch_first else joined.transpose(0, 1)), weights

    __call__.__qualname__ = "MultiheadAttention.forward"  # the name in Python's errors about missing arguments

    def _check(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
    ) -> None:
        """Raise where ``nn.functional.multi_head_attention_forward`` does, e.g. for masks of a wrong shape."""
        if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
            found = ", ".join(str(list(each.shape)) for each in (query, key, value))
            raise self._mismatch("query, key and value", "three of [T, D], or three with a batch", found)
        batched, along = query.dim() == 3, int(query.dim() == 3 and self.module.batch_first)  # the axis of lengths
        T, S, B = query.shape[along], key.shape[along], query.shape[1 - along] if batched else 1
        shapes = ([T, S], [B * self.module.num_heads, T, S])
        self._check_mask("attn_mask", attn_mask, shapes, "queries × keys, or that for each head of each item")
        keys = ([B, S], "items × keys") if batched else ([S], "keys")
        self._check_mask("key_padding_mask", key_padding_mask, keys[:1], keys[1])
        if is_causal and attn_mask is None:
            names = [name for name, part in self.session.options.items() if name.endswith("is_causal") and part is True]
            expected = f"a mask [{T}, {S}] beside it (is_causal is only a hint about the mask)"
            raise self._mismatch("is_causal", expected, "none", names)
        # With a mask the hint changes nothing, as in PyTorch when weights are returned.

    def _check_mask(self, name: str, mask: Tensor | None, shapes: tuple[list[int], ...], meaning: str) -> None:
        if mask is None:
            return
        pads = "padding" in name
        same = [
            other
            for other, part in self.session.options.items()
            if "mask" in other and ("padding" in other) == pads and getattr(part, "shape", None) == mask.shape
        ]
        if list(mask.shape) not in shapes:
            expected = f"{' or '.join(map(str, shapes))} ({meaning})"
            raise self._mismatch(name, expected, str(list(mask.shape)), same)
        if mask.dtype != torch.bool and not mask.is_floating_point():
            raise self._mismatch(name, "bool (True hides) or numbers that are added", str(mask.dtype), same)

    def _mismatch(self, argument: str, expected: str, found: str, given: list[str] | None = None) -> InputError:
        """``given``: the names of the arguments of ``look``, which may differ from the module's."""
        path = self.session.place(self.module).path
        field = f"{argument} of {path}" if path else argument
        others = " or ".join(name for name in given or () if name != argument)
        return InputError(
            self.session.name, field=f"{others} ({field})" if others else field, expected=expected, found=found
        )

    def _weights(self, call: Call, average: bool) -> Tensor:
        """The weights for a caller with need_weights: [B, T, S], or [B, H, T, S]."""
        site = Site.of(self.session.place(self.module).name)
        lens = Lens(edits=self.session.lens.edits)
        attend_under(lens, call, site, site)
        weights = lens.records[0].tensors["weights"].to(call.value.dtype)
        return weights.mean(1) if average else weights


def _projected(module: nn.MultiheadAttention, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [B, H, N, d], with the learned and the zero key that a module may append."""
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
    # True means hidden here; keys that the module adds are always visible.
    added = [_additive(functional.pad(each, (0, S - each.shape[-1])), query) for each in masks]
    sight, bias = sight_of_mask(sum(added[1:], added[0]), T, S) if added else (everything(T, S), None)
    dropout = module.dropout if module.training else 0.0
    return Call(query=query, key=key, value=value, scale=d**-0.5, sight=sight, bias=bias, dropout=dropout)


def _additive(mask: Tensor, beside: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=beside.dtype, device=beside.device).masked_fill(mask, -torch.inf)
