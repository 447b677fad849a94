"""What a score promises.

Legend: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from saccade.attention.own import OwnScore
from saccade.attention.scores import Prepared, Score
from saccade.plugins import EVERYTHING, searching
from saccade.testing.promises import ContractBroken, demand, drawn, keep, name_of, numbers, reached, same

B, H, T, S = 2, 3, 4, 5
SIZES = ((B, T, S), (1, 1, 1), (3, 7, 2))


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
    try:
        with searching(trust=EVERYTHING):  # a test names what it tries
            score = part if _is_value(part) else OwnScore(part, query_width, key_width).eval()
    except Exception as fault:
        raise ContractBroken(f"{name_of(part)} cannot be made: {fault}") from fault
    subject = _Subject(score, query_width, key_width, heads)
    return keep(name_of(part), subject, PROMISES)


def _is_value(part: Any) -> bool:
    return isinstance(part, Score) and not isinstance(part, type | nn.Module)


@dataclass(frozen=True)
class _Subject:
    score: Any
    query_width: int
    key_width: int
    heads: bool

    def at(self, dtype: torch.dtype = torch.float64) -> Any:
        """The score in this precision, a copy of its own."""
        if isinstance(self.score, nn.Module):
            return copy.deepcopy(self.score).to(dtype)
        tensors = {
            field.name: getattr(self.score, field.name).detach().to(dtype, copy=True)
            for field in (dataclasses.fields(self.score) if dataclasses.is_dataclass(self.score) else ())
            if isinstance(getattr(self.score, field.name), Tensor)
        }
        return dataclasses.replace(self.score, **tensors) if tensors else self.score

    def inputs(self, *batch: int, queries: int = T, keys: int = S) -> tuple[Tensor, Tensor]:
        batch = batch or (B,)
        return drawn(*batch, queries, self.query_width, seed=1), drawn(*batch, keys, self.key_width, seed=2)


def _shapes(subject: _Subject) -> None:
    score = subject.at()
    for batch, queries, keys in SIZES:
        query, key = subject.inputs(batch, queries=queries, keys=keys)
        scores = score(query, key)
        expected = [batch, queries, keys]
        demand(list(scores.shape) == expected, f"expected {expected}, found {list(scores.shape)}")
        wrong = scores.isnan() | (scores == torch.inf)  # −inf says "not visible"
        demand(not wrong.any(), f"{int(wrong.sum())} of {scores.numel()} scores are NaN or +inf")


def _prepared(subject: _Subject) -> None:
    score, (query, key) = subject.at(), subject.inputs()
    prepared = score.prepare(key)
    demand(isinstance(prepared, Prepared) and prepared.size == S, f"prepare(key) does not keep the {S} keys apart")
    same(score(query, prepared), score(query, key), "prepared beside plain keys")


def _batch(subject: _Subject) -> None:
    score, (query, key) = subject.at(), subject.inputs()
    scores = score(query, key)
    for item in range(B):
        alone = score(query[item : item + 1], key[item : item + 1])
        same(scores[item : item + 1], alone, f"item {item} in a batch beside itself alone")


def _keys(subject: _Subject) -> None:
    score, (query, key) = subject.at(), subject.inputs()
    changed = torch.cat([key[:, : S - 2], key[:, S - 2 :] * -3 + 1], dim=1)
    same(
        score(query, changed)[..., : S - 2], score(query, key)[..., : S - 2], "scores of keys that stayed as they were"
    )
    same(score(query, key[:, : S - 2]), score(query, key)[..., : S - 2], "scores without the last keys")


def _rows(subject: _Subject) -> None:
    score, (query, key) = subject.at(), subject.inputs()
    prepared = score.prepare(key)
    rows = [score(query[:, t : t + 1], prepared) for t in range(T)]
    same(torch.cat(rows, dim=1), score(query, key), "queries one at a time beside all at once")


def _heads(subject: _Subject) -> None:
    if not subject.heads:
        return
    score, (query, key) = subject.at(), subject.inputs(B, H)
    scores = score(query, key)
    demand(list(scores.shape) == [B, H, T, S], f"expected {[B, H, T, S]}, found {list(scores.shape)}")
    for head in range(H):
        same(scores[:, head], score(query[:, head], key[:, head]), f"head {head} beside itself alone")


def _dtypes(subject: _Subject) -> None:
    for dtype in (torch.float32, torch.float64):
        query, key = (tensor.to(dtype) for tensor in subject.inputs())
        scores = subject.at(dtype)(query, key)
        demand(scores.dtype == dtype, f"{dtype} in, {scores.dtype} out")


def _gradients(subject: _Subject) -> None:
    score, (query, key) = subject.at(), subject.inputs()
    parameters = list(score.named_parameters()) if isinstance(score, nn.Module) else []
    tensors = [query.requires_grad_(), key.requires_grad_(), *(parameter for _, parameter in parameters)]

    def finite(*_: Tensor) -> Tensor:
        scores: Tensor = score(query, key)
        return scores.masked_fill(scores == -torch.inf, 0.0)

    finite().square().sum().backward()
    for name, tensor in zip(["the query", "the key", *(name for name, _ in parameters)], tensors, strict=True):
        if tensor.grad is not None:
            numbers(tensor.grad, f"the gradient of {name}")
    reached((name.removeprefix("part."), parameter) for name, parameter in parameters)
    matches_differences(finite, tensors)


def matches_differences(function: Callable[..., Tensor], tensors: list[Tensor]) -> None:
    """Raise where automatic gradients are not those of finite differences."""
    try:
        torch.autograd.gradcheck(function, tensors, fast_mode=True, check_undefined_grad=False)
    except RuntimeError as fault:
        words = " ".join(str(fault).split()).partition("The above quantities")[0]
        raise ContractBroken(f"not those of finite differences: {words[:300]}") from None


def _unchanged(subject: _Subject) -> None:
    score, (query, key) = subject.at(), subject.inputs()
    given = query.clone(), key.clone()
    state = _state(score)
    first = score(query, key)
    same(query, given[0], "the query that was given", rtol=0, atol=0)
    same(key, given[1], "the key that was given", rtol=0, atol=0)
    score(*subject.inputs(3, queries=2, keys=7))
    same(score(query, key), first, "the same call again, after another", rtol=0, atol=0)
    for name, tensor in _state(score).items():
        same(tensor, state[name], name, rtol=0, atol=0)


def _state(score: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in score.state_dict().items()} if isinstance(score, nn.Module) else {}


PROMISES: dict[str, Callable[[_Subject], None]] = {
    "scores are numbers [batch, queries, keys], whatever the sizes": _shapes,
    "keys that were prepared once score as the keys do": _prepared,
    "an item scores alone as it does in a batch": _batch,
    "a key's score does not depend on other keys, padding among them": _keys,
    "queries one at a time score as all at once": _rows,
    "each head is scored by itself": _heads,
    "float32 stays float32, and float64 float64": _dtypes,
    "gradients are finite, right, and reach every parameter": _gradients,
    "nothing is remembered between calls, and nothing that was given is changed": _unchanged,
}
