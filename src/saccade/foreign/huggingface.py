"""Traces models of the transformers library by replacing their attention function.

The library looks up attention functions and their masks in a registry. Ours is registered there under one name; a model is
switched to it during ``look`` and always switched back. Masks stay rules (:mod:`saccade.foreign.masks`). Once per ``look``
and class of attention module, a few rows are compared with the model's own function: a model that computes attention
differently is refused, never misread.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.foreign.attention import Call, attend_under
from saccade.foreign.masks import DeferredMask, Sight, everything, of_real_keys, recognised, sight_of_mask
from saccade.foreign.session import LookSession
from saccade.kernels.dtypes import working_dtype
from saccade.kernels.visibility import Visibility
from saccade.trace.lens import Lens, Site

NAME = "saccade"
"""The name of our attention function in the library's registry."""

ROWS_CHECKED = 4
"""Queries whose contexts are compared with the model's own."""

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative to the greatest context. float64 has float32's: many models compute the softmax in float32."""

_session: ContextVar[LookSession | None] = ContextVar("session", default=None)


def hosts(model: nn.Module) -> list[Any]:
    """The outermost transformers models in this module."""
    library = sys.modules.get("transformers.modeling_utils")
    if library is None:  # never imported, so there are none
        return []
    found = [(path, each) for path, each in model.named_modules() if isinstance(each, library.PreTrainedModel)]
    inside = [path for path, _ in found]
    return [each for path, each in found if not any(_contains(other, path) for other in inside)]


def _contains(outer: str, inner: str) -> bool:
    return outer != inner and (outer == "" or inner.startswith(f"{outer}."))


@contextlib.contextmanager
def switched(models: list[Any], session: LookSession) -> Iterator[None]:
    """Route the attention of these models through the session; restore them afterwards."""
    if not models:
        yield
        return
    _register()
    for model in models:
        _refuse(model)
    before = [(config, config._attn_implementation_internal) for model in models for config in _configs(model)]
    token = _session.set(session)
    try:
        for config, _ in before:
            # Not set_attn_implementation(): some versions skip parts that have a copy of the configuration.
            config._attn_implementation_internal = NAME
        yield
    finally:
        _session.reset(token)
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def _register() -> None:
    import transformers

    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError:
        raise SaccadeError(
            f"saccade.look needs transformers 5 or newer, found {transformers.__version__}: pip install 'saccade[transformers]'"
        ) from None
    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, mask_forward)


def _refuse(model: Any) -> None:
    """Raise if a part of the model would not use our function."""
    for part in model.modules():
        can = getattr(part, "_can_set_attn_implementation", None)
        if can is not None and not can():
            raise SaccadeError(
                f"{type(part).__name__} does not use the attention interface of transformers: it cannot be traced"
            )


def _configs(model: Any) -> list[Any]:
    """Every configuration of a model and its parts, once each."""
    found: dict[int, Any] = {}
    waiting = [part.config for part in model.modules() if hasattr(part, "config")]
    while waiting:
        config = waiting.pop()
        if id(config) in found or not hasattr(config, "_attn_implementation_internal"):
            continue
        found[id(config)] = config
        waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return list(found.values())


# ---- Called by the library -------------------------------------------------------------------------------------------


def mask_forward(batch_size: int, kv_length: int, kv_offset: int = 0, **rule: Any) -> DeferredMask:
    """A mask as a rule; the arguments are those of the library's own mask functions."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask

    function, padding, device = (
        rule.get("mask_function", causal_mask_function),
        rule.get("attention_mask"),
        _device(rule),
    )
    if "cache_position" in rule:  # before transformers 5.3
        places = rule["cache_position"]
        T, before = len(places), int(places[0]) if len(places) else 0
    else:
        T, before = rule["q_length"], int(rule.get("q_offset", 0))
    kv_length, kv_offset = int(kv_length), int(kv_offset)
    whole = {"batch_size": batch_size, "kv_length": kv_length, "kv_offset": kv_offset, **rule}
    whole |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}

    def rows(start: int, stop: int) -> Tensor:
        if "cache_position" in rule:
            part = {"cache_position": rule["cache_position"][start:stop]}
        else:
            part = {"q_length": stop - start, "q_offset": before + start}
        visible: Tensor = sdpa_mask(**{**whole, **part})  # type: ignore[assignment]  # None only where that is allowed
        return visible

    real = _real(padding, kv_length, kv_offset)
    if function in (causal_mask_function, bidirectional_mask_function):
        shift = before - kv_offset
        # A single query after all keys, as in generation, sees all of them.
        seen = (
            Visibility(shift=shift, after=0)
            if function is causal_mask_function and shift < kv_length - 1
            else Visibility()
        )
        sight = Sight(T, kv_length, seen if real is None else seen & of_real_keys(real))
    else:
        sight = recognised(rows, T, kv_length, device, real)
    return DeferredMask.of(sight, batch_size, device, before=before, behind=kv_offset)


def _device(rule: dict[str, Any]) -> torch.device:
    for name in ("device", "cache_position", "attention_mask"):
        found = rule.get(name)
        if found is not None:
            return found.device if isinstance(found, Tensor) else torch.device(found)
    return torch.device("cpu")


def _real(padding: Tensor | None, kv_length: int, kv_offset: int) -> Tensor | None:
    """Which keys [B, S] are not padding; None: all."""
    if padding is None:
        return None
    missing = max(0, kv_offset + kv_length - padding.shape[-1])
    real = nn.functional.pad(padding.bool(), (0, missing))[:, kv_offset : kv_offset + kv_length]
    return None if bool(real.all()) else real


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Our attention function: contexts [B, T, H, E], and no weights (the lens has them)."""
    session = _session.get()
    if session is None:
        raise SaccadeError(f"the attention {NAME!r} works only in saccade.look: choose another attn_implementation")
    T, S = query.shape[-2], key.shape[-2]
    sight, added, before, behind = _sight(module, attention_mask, is_causal, T, S)
    biases = [each for each in (position_bias, added) if each is not None]
    call = Call(
        query=query, key=key, value=value, scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        sight=sight, bias=sum(biases[1:], biases[0]) if biases else None, cap=softcap, sinks=s_aux,
        dropout=dropout if module.training else 0.0, behind=behind,
    )  # fmt: skip
    if type(module) not in session.checked:
        session.checked.add(type(module))
        given = {"scaling": scaling, "position_bias": position_bias, "softcap": softcap, "s_aux": s_aux, **others}
        _compare(session, module, call, {name: part for name, part in given.items() if part is not None}, added)
    context = session.see(module, call, before)
    return context.transpose(1, 2).contiguous(), None


def _sight(
    module: nn.Module, mask: Tensor | None, is_causal: bool | None, T: int, S: int
) -> tuple[Sight, Tensor | None, int | None, int]:
    """What is visible, what is added to the scores, the number of earlier queries, and of forgotten keys."""
    if isinstance(mask, DeferredMask):
        sight = mask.sight
        if (sight.queries, sight.keys) == (T, S):
            return sight, None, mask.before, mask.behind
        mask = mask.dense()
    if mask is not None:
        # Some versions make masks for the whole cache, including keys that are not there yet.
        return *sight_of_mask(mask[..., :S], T, S), None, 0
    follows = getattr(module, "is_causal", False) if is_causal is None else is_causal
    if follows and T > 1:
        return Sight(T, S, Visibility(after=0)), None, None, 0
    return everything(T, S), None, None, 0


# ---- Comparison with the model's own function ------------------------------------------------------------------------


def _compare(session: LookSession, module: nn.Module, call: Call, given: dict[str, Any], added: Tensor | None) -> None:
    """Raise if the model's own function gives other contexts for a few rows."""
    T, own = call.query.shape[-2], call.value.dtype
    part = call.of(max(0, T - ROWS_CHECKED), T)
    visible = part.sight.block(0, part.query.shape[-2], part.query.device)
    if added is not None and added.shape[-2] > 1:
        added = added[..., T - part.query.shape[-2] : T, :]
    given = {**given, "dropout": 0.0, "is_causal": False}
    if "position_bias" in given and given["position_bias"].shape[-2] > 1:
        given["position_bias"] = given["position_bias"][..., T - part.query.shape[-2] : T, :]
    # Half precision may hide a different formula: it is used only for functions that take nothing else.
    types = list(dict.fromkeys((working_dtype(own), own)))
    with torch.autocast(part.query.device.type, enabled=False):
        if any(_agrees(function, module, part, visible, added, given, types) for function in _own_functions(module)):
            return
    raise SaccadeError(
        f"{session.name}: {type(module).__name__} ({session.place(module).path}) does not compute "
        "softmax(scale · qᵀk + bias) over the keys that its mask shows: it cannot be traced"
    )


def _agrees(
    function: Callable[..., Any],
    module: nn.Module,
    call: Call,
    visible: Tensor | None,
    added: Tensor | None,
    given: dict[str, Any],
    types: list[torch.dtype],
) -> bool:
    """Whether this function gives our contexts, in the first of these types that it accepts."""
    site = Site.of("check")
    for dtype in types:
        query, key, value = (each.to(dtype) for each in (call.query, call.key, call.value))
        mask = added
        if visible is not None:
            hidden = torch.zeros(visible.shape, dtype=dtype, device=query.device)
            hidden = hidden.masked_fill(~visible, torch.finfo(dtype).min)
            mask = hidden if added is None else hidden + added
        ours = attend_under(Lens(), replace(call, query=query, key=key, value=value), site, site).transpose(1, 2)
        try:
            theirs = function(module, query, key, value, mask, **given)[0].reshape(ours.shape)
        except (RuntimeError, TypeError, ValueError, AttributeError, KeyError):
            continue
        if visible is not None:  # a query that sees nothing has no defined context
            sees = visible.any(-1).expand(*ours.shape[:1], -1, -1).any(1)[..., None, None]
            ours, theirs = ours * sees, theirs * sees
        return bool((ours - theirs).abs().max() <= TOLERANCE[dtype] * max(1.0, float(theirs.abs().max())))
    return False


def _own_functions(module: nn.Module) -> list[Callable[..., Any]]:
    """The attention functions in the module's own file."""
    forward = inspect.unwrap(type(module).forward)
    return [part for name, part in forward.__globals__.items() if name.endswith("eager_attention_forward")]
