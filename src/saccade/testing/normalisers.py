"""What a normaliser promises.

Legend: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from saccade.attention.own import OwnNormaliser
from saccade.plugins import EVERYTHING, searching
from saccade.testing.promises import ContractBroken, demand, drawn, keep, name_of, numbers, reached, same

B, H, T, S = 2, 3, 4, 5


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
    try:
        with searching(trust=EVERYTHING):  # a test names what it tries
            normalise = OwnNormaliser(part).eval()
    except Exception as fault:
        raise ContractBroken(f"{name_of(part)} cannot be made: {fault}") from fault
    return keep(name_of(part), normalise, PROMISES)


def _scores(*, blind: bool = True) -> Tensor:
    """Scores [B, T, S] with −inf here and there; with ``blind``, one row sees nothing."""
    scores = drawn(B, T, S, seed=3) * 2
    scores[0, :, 3:] = -torch.inf
    scores[1, 2, 0] = -torch.inf
    if blind:
        scores[1, 1] = -torch.inf
    return scores


def _at(normalise: OwnNormaliser, dtype: torch.dtype = torch.float64) -> OwnNormaliser:
    return copy.deepcopy(normalise).to(dtype)


def _shapes(normalise: OwnNormaliser) -> None:
    for shape in ((B, T, S), (1, 1, 1), (B, H, T, S), (3, 2, 7)):
        weights = _at(normalise)(drawn(*shape))
        numbers(weights, f"weights {list(shape)}")


def _distribution(normalise: OwnNormaliser) -> None:
    for scale in (1.0, 30.0):
        weights = _at(normalise)(drawn(B, H, T, S) * scale)
        demand((weights >= 0).all(), f"the least weight is {float(weights.detach().min()):.6g}")
        same(weights.sum(-1), torch.ones(B, H, T), "what rows sum to", rtol=0, atol=1e-6)


def _invisible(normalise: OwnNormaliser) -> None:
    scores = _scores(blind=False)
    weights = _at(normalise)(scores)
    numbers(weights, "weights")
    most = float(weights.detach()[scores == -torch.inf].abs().max())
    demand(most == 0, f"a score of −inf got the weight {most:.6g}")
    same(weights.sum(-1), torch.ones(B, T), "what rows with −inf in them sum to", rtol=0, atol=1e-6)


def _blind(normalise: OwnNormaliser) -> None:
    weights = _at(normalise)(_scores())
    demand(not weights[1, 1].any(), f"found {[round(weight, 6) for weight in weights[1, 1].tolist()]}")


def _gradients(normalise: OwnNormaliser) -> None:
    ready = _at(normalise)
    scores = _scores().requires_grad_()
    weights = ready(scores)
    (weights * drawn(B, T, S, seed=4)).sum().backward()
    if scores.grad is not None:
        numbers(scores.grad, "the gradient of the scores")
        demand(not scores.grad[1, 1].any(), "a row that sees nothing got a gradient that is not 0")
    reached((name.removeprefix("part."), parameter) for name, parameter in ready.named_parameters())


def _order(normalise: OwnNormaliser) -> None:
    order, scores = torch.tensor([3, 0, 4, 1, 2]), _scores()
    ready = _at(normalise)
    same(ready(scores[..., order]), ready(scores)[..., order], "keys in another order")


def _rows(normalise: OwnNormaliser) -> None:
    ready, scores = _at(normalise), _scores()
    rows = torch.stack([ready(scores[:, t : t + 1]).squeeze(1) for t in range(T)], dim=1)
    same(rows, ready(scores), "rows one at a time beside all at once")
    headed = torch.stack([scores, scores.flip(1)], dim=1)  # [B, 2, T, S]
    same(ready(headed)[:, 0], ready(scores), "a head beside itself alone")


def _dtypes(normalise: OwnNormaliser) -> None:
    for dtype in (torch.float32, torch.float64):
        weights = _at(normalise, dtype)(_scores().to(dtype))
        demand(weights.dtype == dtype, f"{dtype} in, {weights.dtype} out")


def _unchanged(normalise: OwnNormaliser) -> None:
    ready, scores = _at(normalise), _scores()
    given, state = scores.clone(), {name: tensor.clone() for name, tensor in ready.state_dict().items()}
    first = ready(scores)
    same(scores, given, "the scores that were given", rtol=0, atol=0)
    ready(drawn(3, 2, 7))
    same(ready(scores), first, "the same call again, after another", rtol=0, atol=0)
    for name, tensor in ready.state_dict().items():
        same(tensor, state[name], name, rtol=0, atol=0)


PROMISES: dict[str, Callable[[OwnNormaliser], None]] = {
    "weights are finite and have the shape of the scores": _shapes,
    "weights are not negative and rows sum to 1": _distribution,
    "a score of −inf gets the weight 0, and the others share what it would have had": _invisible,
    "a row of nothing but −inf gets zeros": _blind,
    "gradients are finite, also where nothing is seen, and reach every parameter": _gradients,
    "keys in another order get their weights in that order": _order,
    "each row is normalised by itself": _rows,
    "float32 stays float32, and float64 float64": _dtypes,
    "nothing is remembered between calls, and nothing that was given is changed": _unchanged,
}
