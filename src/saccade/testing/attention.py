"""Contracts of the parts of attention: scores, normalisers and windows.

Legend: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from saccade.attention.own import OwnNormaliser, OwnScore, OwnWindow
from saccade.attention.scores import Prepared, Score
from saccade.attention.windows import Extent, Window, everywhere, padding
from saccade.plugins import EVERYTHING, searching
from saccade.testing.promises import ContractBroken, Promises, demand, drawn, keep, name_of, numbers, reached, same

B, H, T, S = 2, 3, 4, 5
SIZES = ((B, T, S), (1, 1, 1), (3, 7, 2))
LENGTHS = (5, 3)
EXACTLY = {"rtol": 0.0, "atol": 0.0}


def check_score(part: Any, query_width: int = 5, key_width: int = 7, *, heads: bool = True) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a score keeps every promise; return the promises.

    Args:
        part: a class derived from nn.Module made by ``(query_width, key_width)``, its name ``package.module:Name``, such
            a module, or a value of :mod:`saccade.attention.scores`.
        query_width, key_width: the widths it is made for; unequal ones find more mistakes.
        heads: whether it must also score [B, H, T, D] and [B, H, S, D], each head by itself.

    >>> from saccade.attention.scores import dot
    >>> len(check_score(dot, 5, 5))
    9
    """
    __tracebackhide__ = True
    return _check(lambda: _ScoreContract(part, query_width, key_width, heads), part)


def check_normaliser(part: Any) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a normaliser keeps every promise; return the promises.

    Args:
        part: a function of scores, a value of :mod:`saccade.attention.normalise`, a class derived from nn.Module made by
            ``()``, its name ``package.module:Name``, or such a module.

    >>> from saccade.attention.normalise import softmax
    >>> len(check_normaliser(softmax))
    9
    """
    __tracebackhide__ = True
    return _check(lambda: _NormaliserContract(part), part)


def check_window(part: Any, query_width: int = 5, *, row: Callable[[int], Window] | None = None) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a window keeps every promise; return the promises.

    Args:
        part: a :class:`Window`, a class derived from nn.Module made by ``(query_width,)`` that makes one from queries and
            lengths, its name ``package.module:Name``, or such a module. A window that holds tensors holds them for
            2 items, 4 queries and 5 keys.
        row: for a window that holds a tensor with something per query: the window of query t alone.

    >>> from saccade.attention.windows import band
    >>> len(check_window(band(2)))
    5
    """
    __tracebackhide__ = True
    return _check(lambda: _WindowContract(part, query_width, row), part)


def _check(make: Callable[[], Any], part: Any) -> tuple[str, ...]:
    __tracebackhide__ = True
    try:
        with searching(trust=EVERYTHING):  # a test names what it checks
            contract = make()
    except Exception as fault:
        raise ContractBroken(f"{name_of(part)} cannot be made: {fault}") from fault
    return keep(name_of(part), contract, contract.promises)


def _state(part: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in part.state_dict().items()} if isinstance(part, nn.Module) else {}


def _check_state(part: Any, before: dict[str, Tensor]) -> None:
    for name, tensor in _state(part).items():
        same(tensor, before[name], name, **EXACTLY)


def _check_reached(module: nn.Module) -> None:
    reached((name.removeprefix("part."), parameter) for name, parameter in module.named_parameters())


# Scores -------------------------------------------------------------------------------------------------------------


class _ScoreContract:
    def __init__(self, part: Any, query_width: int, key_width: int, heads: bool) -> None:
        is_value = isinstance(part, Score) and not isinstance(part, type | nn.Module)
        self.part: Any = part if is_value else OwnScore(part, query_width, key_width).eval()
        self.query_width, self.key_width, self.heads = query_width, key_width, heads

    def score(self, dtype: torch.dtype = torch.float64) -> Any:
        """A copy of the score in this precision."""
        if isinstance(self.part, nn.Module):
            return copy.deepcopy(self.part).to(dtype)
        fields = dataclasses.fields(self.part) if dataclasses.is_dataclass(self.part) else ()
        values = {field.name: getattr(self.part, field.name) for field in fields}
        tensors = {
            name: value.detach().to(dtype, copy=True) for name, value in values.items() if isinstance(value, Tensor)
        }
        return dataclasses.replace(self.part, **tensors) if tensors else self.part

    def inputs(self, *batch: int, queries: int = T, keys: int = S) -> tuple[Tensor, Tensor]:
        batch = batch or (B,)
        return drawn(*batch, queries, self.query_width, seed=1), drawn(*batch, keys, self.key_width, seed=2)

    def has_shape(self) -> None:
        score = self.score()
        for batch, queries, keys in SIZES:
            scores = score(*self.inputs(batch, queries=queries, keys=keys))
            expected = [batch, queries, keys]
            demand(list(scores.shape) == expected, f"expected {expected}, found {list(scores.shape)}")
            wrong = scores.isnan() | (scores == torch.inf)  # −inf means "not visible"
            demand(not wrong.any(), f"{int(wrong.sum())} of {scores.numel()} scores are NaN or +inf")

    def scores_prepared_keys(self) -> None:
        score, (query, key) = self.score(), self.inputs()
        prepared = score.prepare(key)
        separate = isinstance(prepared, Prepared) and prepared.size == S
        demand(separate, f"prepare(key) does not keep the {S} keys apart")
        same(score(query, prepared), score(query, key), "prepared and plain keys")

    def scores_items_alone(self) -> None:
        score, (query, key) = self.score(), self.inputs()
        scores = score(query, key)
        for item in range(B):
            alone = score(query[item : item + 1], key[item : item + 1])
            same(scores[item : item + 1], alone, f"item {item} in a batch and alone")

    def scores_keys_alone(self) -> None:
        score, (query, key) = self.score(), self.inputs()
        few = S - 2
        changed = torch.cat([key[:, :few], key[:, few:] * -3 + 1], dim=1)
        expected = score(query, key)[..., :few]
        same(score(query, changed)[..., :few], expected, "scores of unchanged keys")
        same(score(query, key[:, :few]), expected, "scores without the last keys")

    def scores_queries_alone(self) -> None:
        score, (query, key) = self.score(), self.inputs()
        prepared = score.prepare(key)
        rows = [score(query[:, t : t + 1], prepared) for t in range(T)]
        same(torch.cat(rows, dim=1), score(query, key), "queries one at a time and all at once")

    def scores_heads_alone(self) -> None:
        if not self.heads:
            return
        score, (query, key) = self.score(), self.inputs(B, H)
        scores = score(query, key)
        demand(list(scores.shape) == [B, H, T, S], f"expected {[B, H, T, S]}, found {list(scores.shape)}")
        for head in range(H):
            same(scores[:, head], score(query[:, head], key[:, head]), f"head {head} with others and alone")

    def keeps_dtype(self) -> None:
        for dtype in (torch.float32, torch.float64):
            scores = self.score(dtype)(*(tensor.to(dtype) for tensor in self.inputs()))
            demand(scores.dtype == dtype, f"{dtype} in, {scores.dtype} out")

    def has_gradients(self) -> None:
        score, (query, key) = self.score(), self.inputs()
        parameters = dict(score.named_parameters()) if isinstance(score, nn.Module) else {}
        tensors = {"the query": query.requires_grad_(), "the key": key.requires_grad_(), **parameters}

        def finite(*_: Tensor) -> Tensor:
            scores: Tensor = score(query, key)
            return scores.masked_fill(scores == -torch.inf, 0.0)

        finite().square().sum().backward()
        for name, tensor in tensors.items():
            if tensor.grad is not None:
                numbers(tensor.grad, f"the gradient of {name}")
        if isinstance(score, nn.Module):
            _check_reached(score)
        try:
            torch.autograd.gradcheck(finite, list(tensors.values()), fast_mode=True, check_undefined_grad=False)
        except RuntimeError as fault:
            words = " ".join(str(fault).split()).partition("The above quantities")[0]
            raise ContractBroken(f"not those of finite differences: {words[:300]}") from None

    def has_no_memory(self) -> None:
        score, (query, key) = self.score(), self.inputs()
        before, state = (query.clone(), key.clone()), _state(score)
        first = score(query, key)
        same(query, before[0], "the query that was given", **EXACTLY)
        same(key, before[1], "the key that was given", **EXACTLY)
        score(*self.inputs(3, queries=2, keys=7))
        same(score(query, key), first, "the same call again, after another", **EXACTLY)
        _check_state(score, state)

    promises: ClassVar[Promises] = {
        "scores are numbers [batch, queries, keys], whatever the sizes": has_shape,
        "prepared keys give the same scores as plain keys": scores_prepared_keys,
        "an item has the same scores alone and in a batch": scores_items_alone,
        "the score of a key does not depend on other keys or on padding": scores_keys_alone,
        "queries have the same scores one at a time and all at once": scores_queries_alone,
        "heads are scored independently": scores_heads_alone,
        "the dtype is kept: float32 and float64": keeps_dtype,
        "gradients are finite, correct, and reach every parameter": has_gradients,
        "calls keep no state and do not modify their arguments": has_no_memory,
    }


# Normalisers --------------------------------------------------------------------------------------------------------


def _scores(*, blind: bool = True) -> Tensor:
    """Scores [B, T, S] with some −inf; with ``blind``, one row sees nothing."""
    scores = drawn(B, T, S, seed=3) * 2
    scores[0, :, 3:] = -torch.inf
    scores[1, 2, 0] = -torch.inf
    if blind:
        scores[1, 1] = -torch.inf
    return scores


class _NormaliserContract:
    def __init__(self, part: Any) -> None:
        self.part = OwnNormaliser(part).eval()

    def normaliser(self, dtype: torch.dtype = torch.float64) -> OwnNormaliser:
        return copy.deepcopy(self.part).to(dtype)

    def has_shape(self) -> None:
        for shape in ((B, T, S), (1, 1, 1), (B, H, T, S), (3, 2, 7)):
            numbers(self.normaliser()(drawn(*shape)), f"weights {list(shape)}")

    def gives_distributions(self) -> None:
        for scale in (1.0, 30.0):
            weights = self.normaliser()(drawn(B, H, T, S) * scale)
            demand((weights >= 0).all(), f"the least weight is {float(weights.detach().min()):.6g}")
            same(weights.sum(-1), torch.ones(B, H, T), "sums of rows", rtol=0, atol=1e-6)

    def hides_invisible_keys(self) -> None:
        scores = _scores(blind=False)
        weights = self.normaliser()(scores)
        numbers(weights, "weights")
        most = float(weights.detach()[scores == -torch.inf].abs().max())
        demand(most == 0, f"a score of −inf got the weight {most:.6g}")
        same(weights.sum(-1), torch.ones(B, T), "sums of rows with −inf", rtol=0, atol=1e-6)

    def gives_zeros_without_keys(self) -> None:
        weights = self.normaliser()(_scores())
        demand(not weights[1, 1].any(), f"found {[round(weight, 6) for weight in weights[1, 1].tolist()]}")

    def has_gradients(self) -> None:
        normalise, scores = self.normaliser(), _scores().requires_grad_()
        (normalise(scores) * drawn(B, T, S, seed=4)).sum().backward()
        if scores.grad is not None:
            numbers(scores.grad, "the gradient of the scores")
            demand(not scores.grad[1, 1].any(), "a row that sees nothing got a gradient that is not 0")
        _check_reached(normalise)

    def ignores_order(self) -> None:
        order, scores, normalise = torch.tensor([3, 0, 4, 1, 2]), _scores(), self.normaliser()
        same(normalise(scores[..., order]), normalise(scores)[..., order], "keys in another order")

    def normalises_rows_alone(self) -> None:
        normalise, scores = self.normaliser(), _scores()
        rows = torch.stack([normalise(scores[:, t : t + 1]).squeeze(1) for t in range(T)], dim=1)
        same(rows, normalise(scores), "rows one at a time and all at once")
        headed = torch.stack([scores, scores.flip(1)], dim=1)  # [B, 2, T, S]
        same(normalise(headed)[:, 0], normalise(scores), "a head with others and alone")

    def keeps_dtype(self) -> None:
        for dtype in (torch.float32, torch.float64):
            weights = self.normaliser(dtype)(_scores().to(dtype))
            demand(weights.dtype == dtype, f"{dtype} in, {weights.dtype} out")

    def has_no_memory(self) -> None:
        normalise, scores = self.normaliser(), _scores()
        before, state = scores.clone(), _state(normalise)
        first = normalise(scores)
        same(scores, before, "the scores that were given", **EXACTLY)
        normalise(drawn(3, 2, 7))
        same(normalise(scores), first, "the same call again, after another", **EXACTLY)
        _check_state(normalise, state)

    promises: ClassVar[Promises] = {
        "weights are finite and have the shape of the scores": has_shape,
        "weights are not negative and rows sum to 1": gives_distributions,
        "a score of −inf gets weight 0, and the other weights are renormalised": hides_invisible_keys,
        "a row of −inf only gets zeros": gives_zeros_without_keys,
        "gradients are finite, also in rows without visible keys, and reach every parameter": has_gradients,
        "permuting the keys permutes their weights": ignores_order,
        "rows are normalised independently": normalises_rows_alone,
        "the dtype is kept: float32 and float64": keeps_dtype,
        "calls keep no state and do not modify their arguments": has_no_memory,
    }


# Windows ------------------------------------------------------------------------------------------------------------


def _extent(queries: int = T, keys: int = S, offset: int = 0) -> Extent:
    return Extent(queries, keys, offset, torch.device("cpu"), torch.float64)


def _visible(window: Window, extent: Extent) -> Tensor:
    """The visibility mask, broadcast to [B, T, S] (or with heads)."""
    mask = window.visible(extent)
    return _full(torch.ones((), dtype=torch.bool) if mask is None else mask, extent)


def _gain(window: Window, extent: Extent) -> Tensor:
    gain = window.gain(extent)
    return _full(torch.ones((), dtype=torch.float64) if gain is None else gain, extent)


def _full(part: Tensor, extent: Extent) -> Tensor:
    heads = [part.shape[1]] if part.dim() == 4 else []
    return part.expand(B, *heads, extent.queries, extent.keys)


def _broadcasts(shape: torch.Size, full: tuple[int, ...]) -> bool:
    paired = zip(reversed(shape), reversed(full), strict=False)
    return 2 <= len(shape) <= len(full) and all(size in (1, wanted) for size, wanted in paired)


def _holds_tensors(window: Any) -> bool:
    if isinstance(window, tuple):
        return any(_holds_tensors(part) for part in window)
    parts = vars(window).values() if isinstance(window, Window) else ()
    return isinstance(window, Tensor) or any(_holds_tensors(part) for part in parts)


class _WindowContract:
    def __init__(self, part: Any, query_width: int, row: Callable[[int], Window] | None) -> None:
        self.maker, self.query_width, self.row = OwnWindow(part, query_width).eval().double(), query_width, row

    def window(self, first: int = 0, count: int = T, maker: OwnWindow | None = None) -> Window:
        """The window of ``count`` queries from ``first`` on."""
        if self.row is not None and count == 1:
            return self.row(first)
        queries = drawn(B, T, self.query_width, seed=5)[:, first : first + count]
        made: Window = (maker or self.maker)(queries, torch.tensor(LENGTHS))
        return made

    def gives_masks(self) -> None:
        extent = _extent()
        mask, gain = self.window().visible(extent), self.window().gain(extent)
        if mask is not None:
            demand(mask.dtype == torch.bool, f"visible gave {mask.dtype}, expected booleans")
        for name, part in (("visible", mask), ("gain", gain)):
            fits = part is None or _broadcasts(part.shape, (B, T, S) if part.dim() < 4 else (B, part.shape[1], T, S))
            demand(fits, f"{name} gave {list(part.shape) if part is not None else None} for {[B, T, S]}")
        if gain is not None:
            numbers(gain, "gains")
            demand((gain >= 0).all(), f"the least gain is {float(gain.detach().min()):.6g}")
            demand(gain.dtype == extent.dtype, f"the gain is {gain.dtype}, and the weights are {extent.dtype}")

    def sees_queries_alone(self) -> None:
        whole = _extent()
        visible, gain = _visible(self.window(), whole), _gain(self.window(), whole)
        for t in range(T):
            one, window = _extent(1, offset=t), self.window(t, 1)
            wrong = _visible(window, one) != visible[..., t : t + 1, :]
            demand(not wrong.any(), f"query {t} alone (offset={t}) sees other keys than among all {T}")
            same(_gain(window, one), gain[..., t : t + 1, :], f"the gain of query {t} alone")

    def ignores_padding(self) -> None:
        if _holds_tensors(self.maker.part):
            return  # they fix the number of keys
        near, far = _extent(), _extent(keys=S + 3)
        changed = _visible(self.window(), near) != _visible(self.window(), far)[..., :S]
        message = f"{int(changed.sum())} keys change sides when the batch is padded from {S} to {S + 3} keys"
        demand(not changed.any(), message)
        same(_gain(self.window(), far)[..., :S], _gain(self.window(), near), "gains in a longer batch")

    def composes(self) -> None:
        window, extent = self.window(), _extent()
        real = padding(torch.tensor(LENGTHS))
        mine, theirs = _visible(window, extent), _visible(real, extent)
        expected = mine & (theirs.unsqueeze(1) if mine.dim() == 4 else theirs)
        both = {"window & padding": window & real, "padding & window": real & window}
        for name, together in both.items():
            demand(torch.equal(_visible(together, extent), expected), f"{name} is not the intersection of both")
        same(_gain(window & real, extent), _gain(window, extent), "the gain of window & padding")
        same(_gain(window & window, extent), _gain(window, extent) ** 2, "the gain of window & window")
        demand(torch.equal(_visible(everywhere & window, extent), mine), "everywhere & window is not the window")

    def has_no_memory(self) -> None:
        maker = copy.deepcopy(self.maker)
        window, extent = self.window(maker=maker), _extent()
        visible, weights = _visible(window, extent), _gain(window, extent)
        _visible(self.window(2, 1, maker), _extent(1, offset=2))
        demand(torch.equal(_visible(window, extent), visible), "a second call shows other keys")
        same(_gain(window, extent), weights, "the gain in a second call", **EXACTLY)
        gain, learnt = window.gain(extent), list(maker.parameters())
        if learnt:
            if gain is None or not gain.requires_grad:
                raise ContractBroken(f"it has {len(learnt)} parameters, and its gain depends on none of them")
            (gain * drawn(*gain.shape, dtype=gain.dtype)).sum().backward()
            _check_reached(maker)

    promises: ClassVar[Promises] = {
        "visibility is a boolean mask over queries and keys, and gains are not negative": gives_masks,
        "queries see the same keys one at a time and all at once": sees_queries_alone,
        "visibility does not depend on padding": ignores_padding,
        "it composes with other windows by &": composes,
        "a second call gives the same mask, and gradients of the gain reach every parameter": has_no_memory,
    }
