"""What holds for EVERY score × normaliser × window, with and without heads, in float32 and float64.

What is expected is written out below, one query and one key at a time, and shares nothing with the code under test.
Legend: B batch, H heads, T queries, S keys, D width of queries, E width of values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from saccade.attention.core import attend, read, weigh
from saccade.attention.normalise import entmax15, sharpened, softmax, sparsemax
from saccade.attention.scores import additive, cosine, dot, general, location, scaled_dot
from saccade.attention.windows import Window, band, causal, everywhere, gaussian, padding
from saccade.trace import Lens

B, H, T, S, D, E = 2, 3, 4, 5, 7, 2
LENGTHS = [3, 0]  # the second item has no keys at all: a whole map that sees nothing
MASK = [[True, False, True, True, False], [False, True, True, False, True]]
RADIUS = 2


@cache
def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The first query of the second item looks for keys far away: a single row that sees nothing.
CENTRE = (draw(B, H, T, seed=1) + 2).index_put(
    (torch.tensor(1), torch.arange(H), torch.tensor(0)), torch.tensor(40.0).double()
)

# Scores: (parameters, width of the keys, the value over its parameters, its formula for one pair of query and key) ----------

Formula = Callable[..., Tensor]
SCORES: dict[str, tuple[dict[str, Tensor], int, Callable[..., Any], Formula]] = {
    "dot": ({}, D, lambda: dot, lambda q, k, s: q @ k),
    "scaled_dot": ({}, D, lambda: scaled_dot, lambda q, k, s: q @ k / math.sqrt(D)),
    "general": ({"weight": draw(D, 3, seed=2)}, 3, general, lambda q, k, s, weight: q @ weight @ k),
    "additive": (
        {"v": draw(6, seed=3), "query_weight": draw(6, D, seed=4), "key_weight": draw(6, 3, seed=5)}, 3, additive,
        lambda q, k, s, v, query_weight, key_weight: v @ torch.tanh(query_weight @ q + key_weight @ k),
    ),
    "additive, projected": ({"v": draw(D, seed=6)}, D, additive, lambda q, k, s, v: v @ torch.tanh(q + k)),
    "location": ({"weight": draw(9, D, seed=7)}, 3, location, lambda q, k, s, weight: weight[s] @ q),
    "location, 3 places": (
        {"weight": draw(3, D, seed=8)}, 3, location,
        lambda q, k, s, weight: weight[s] @ q if s < 3 else torch.tensor(-math.inf),
    ),
    "cosine": (
        {"beta": torch.tensor(2.5, dtype=torch.float64)}, D, cosine,
        lambda q, k, s, beta: beta * (q @ k) / (q.norm() * k.norm()),
    ),
}  # fmt: skip

# Normalisers: the value, and its formula for scores of which some are visible ----------------------------------------------

Weights = Callable[[Tensor, Tensor], Tensor]


def _softmax(beta: float) -> Weights:
    def weights(scores: Tensor, visible: Tensor) -> Tensor:
        powers = torch.exp(beta * scores) * visible
        return powers / powers.sum(-1, keepdim=True).clamp(min=1e-300)

    return weights


def _projected(power: int, scale: float) -> Weights:
    """[scale · z − τ]₊^power with τ such that the weights sum to 1, found by halving."""

    def weights(scores: Tensor, visible: Tensor) -> Tensor:
        high = (scale * scores).masked_fill(~visible, -99.0).amax(-1, keepdim=True)
        low = high - 1
        for _ in range(50):
            middle = (low + high) / 2
            mass = ((scale * scores - middle).clamp(min=0) ** power * visible).sum(-1, keepdim=True)
            low, high = torch.where(mass > 1, middle, low), torch.where(mass > 1, high, middle)
        return (scale * scores - low).clamp(min=0) ** power * visible

    return weights


NORMALISERS = {
    "softmax": (softmax, _softmax(1.0)),
    "sharpened": (sharpened(1.5), _softmax(1.5)),
    "sparsemax": (sparsemax, _projected(1, 1.0)),
    "entmax15": (entmax15, _projected(2, 0.5)),
}

# Windows: (the value for queries ``rows``, what is visible), and the gain of the one that has one ---------------------------

PARTS: dict[str, tuple[Callable[..., Any], Callable[..., bool]]] = {
    "causal": (lambda c, rows: causal("top-left"), lambda b, h, t, s: s <= t),
    "causal, bottom-right": (lambda c, rows: causal("bottom-right"), lambda b, h, t, s: s <= t + S - T),
    "band": (lambda c, rows: band(1), lambda b, h, t, s: abs(s - t) <= 1),
    "band around": (
        lambda c, rows: band(1, c[..., rows]), lambda b, h, t, s: abs(s - math.floor(CENTRE[b, h, t])) <= 1,
    ),
    "gaussian": (
        lambda c, rows: gaussian(c[..., rows], RADIUS), lambda b, h, t, s: abs(s - math.floor(CENTRE[b, h, t])) <= RADIUS,
    ),
    "lengths": (lambda c, rows: padding(torch.tensor(LENGTHS)), lambda b, h, t, s: s < LENGTHS[b]),
    "mask": (lambda c, rows: padding(torch.tensor(MASK)), lambda b, h, t, s: MASK[b][s]),
}  # fmt: skip
WINDOWS: dict[str, tuple[str, ...]] = {
    "everywhere": (),
    **{name: (name,) for name in PARTS},
    "causal & lengths": ("causal", "lengths"),
    "mask & band": ("mask", "band"),
    "gaussian & lengths": ("gaussian", "lengths"),
    "causal & gaussian & mask & band": ("causal", "gaussian", "mask", "band"),
}


@dataclass(frozen=True)
class Case:
    score: str
    normaliser: str
    window: str
    heads: bool
    dtype: torch.dtype

    def __str__(self) -> str:
        heads = "heads" if self.heads else "no heads"
        return f"{self.score} × {self.normaliser} × {self.window}, {heads}, {self.dtype}"

    @property
    def parameters(self) -> dict[str, Tensor]:
        return {name: tensor.to(self.dtype, copy=True) for name, tensor in SCORES[self.score][0].items()}

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """query [B, (H,) T, D], key [B, (H,) S, Dk], value [B, (H,) S, E]."""
        batch = (B, H) if self.heads else (B,)
        width = SCORES[self.score][1]
        drawn = (draw(*batch, T, D, seed=9), draw(*batch, S, width, seed=10), draw(*batch, S, E, seed=11))
        return tuple(tensor.to(self.dtype, copy=True) for tensor in drawn)  # type: ignore[return-value]

    def score_value(self, parameters: dict[str, Tensor] | None = None) -> Any:
        return SCORES[self.score][2](**(self.parameters if parameters is None else parameters))

    def window_value(self, rows: slice = slice(None)) -> Any:
        centre = (CENTRE if self.heads else CENTRE[:, 0]).to(self.dtype)
        value = everywhere
        for part in WINDOWS[self.window]:
            value = value & PARTS[part][0](centre, rows)
        return value

    @property
    def options(self) -> dict[str, Any]:
        return {
            "score": self.score_value(),
            "normalise": NORMALISERS[self.normaliser][0],
            "window": self.window_value(),
        }

    @property
    def tolerance(self) -> dict[str, Any]:
        exact = self.dtype == torch.float64
        return {
            "rtol": 1e-9 if exact else 1e-4,
            "atol": 1e-11 if exact else 1e-6,
            "msg": lambda text: f"{self}: {text}",
        }


def cases(score: str, window: str, *dtypes: torch.dtype) -> Iterator[Case]:
    for dtype in dtypes or (torch.float32, torch.float64):
        for normaliser, heads in itertools.product(NORMALISERS, (False, True)):
            yield Case(score, normaliser, window, heads, dtype)


every_combination = pytest.mark.parametrize(("score", "window"), list(itertools.product(SCORES, WINDOWS)))


@cache
def weights_of(case: Case) -> Tensor:
    query, key, _ = case.tensors
    return weigh(query, key, **case.options)


@cache
def visible_of(window: str, heads: bool) -> Tensor:
    seen = torch.ones(B, H, T, S, dtype=torch.bool)
    for place in itertools.product(*map(range, seen.shape)):
        seen[place] = all(PARTS[part][1](*place) for part in WINDOWS[window])
    return seen if heads else seen[:, 0]


@cache
def gain_of(window: str, heads: bool) -> Tensor:
    gain = torch.ones(B, H, T, S, dtype=torch.float64)
    if "gaussian" in WINDOWS[window]:
        for b, h, t, s in itertools.product(*map(range, gain.shape)):
            gain[b, h, t, s] = math.exp(-((s - CENTRE[b, h, t]) ** 2) / (2 * (RADIUS / 2) ** 2))
    return gain if heads else gain[:, 0]


@cache
def scores_of(score: str, heads: bool) -> Tensor:
    """Every pair by the formula: [B, (H,) T, S]."""
    case = Case(score, "softmax", "everywhere", heads, torch.float64)
    query, key, _ = case.tensors
    formula, parameters = SCORES[score][3], case.parameters
    if not heads:
        query, key = query.unsqueeze(1), key.unsqueeze(1)
    scores = torch.empty(*query.shape[:3], S, dtype=torch.float64)
    for b, h, t, s in itertools.product(*map(range, scores.shape)):
        scores[b, h, t, s] = formula(query[b, h, t], key[b, h, s], s, **parameters)
    return scores if heads else scores.squeeze(1)


@cache
def formula(score: str, normaliser: str, window: str, heads: bool) -> Tensor:
    """Weights [B, (H,) T, S]: only what is visible enters the normaliser; the gain comes after it."""
    scores = scores_of(score, heads)
    visible = visible_of(window, heads) & (scores > -math.inf)
    weights = NORMALISERS[normaliser][1](scores.nan_to_num(neginf=0.0), visible)
    return weights * gain_of(window, heads)


class Ungained(Window):
    """What a window shows, without its gain."""

    def __init__(self, window: Window) -> None:
        self.visible = window.visible  # type: ignore[method-assign]


@every_combination
def test_every_shape_is_that_of_its_signature(score: str, window: str) -> None:
    for heads in (False, True):
        case = Case(score, "softmax", window, heads, torch.float32)
        query, key, value = case.tensors
        assert attend(query, key, value, **case.options).shape == (*value.shape[:-2], T, E)


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_the_weights_are_those_of_the_formula_written_out(score: str, window: str) -> None:
    for case in cases(score, window):
        expected = formula(score, case.normaliser, window, case.heads)
        torch.testing.assert_close(weights_of(case), expected.to(case.dtype), **case.tolerance)


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_weights_are_never_negative_and_always_finite(score: str, window: str) -> None:
    for case in cases(score, window):
        weights = weights_of(case)
        assert weights.dtype == case.dtype, case
        assert bool((weights >= 0).all()), case
        assert bool(weights.isfinite().all()), case


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_rows_sum_to_one_before_the_gain_and_to_zero_where_nothing_is_visible(score: str, window: str) -> None:
    for case in cases(score, window):
        query, key, _ = case.tensors
        plain = weigh(query, key, **{**case.options, "window": Ungained(case.window_value())})
        seen = visible_of(window, case.heads) & (scores_of(score, case.heads) > -math.inf)
        torch.testing.assert_close(plain.sum(-1), seen.any(-1).to(case.dtype), **case.tolerance)


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_nothing_invisible_is_looked_at(score: str, window: str) -> None:
    for case in cases(score, window):
        assert bool((weights_of(case)[~visible_of(window, case.heads)] == 0).all()), case


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_what_is_invisible_changes_nothing_and_gets_no_gradient(score: str, window: str) -> None:
    for case in cases(score, window, torch.float64):
        query, key, value = case.tensors
        unseen = ~visible_of(window, case.heads).any(-2)  # keys that no query sees
        key.requires_grad_(), value.requires_grad_()
        context = attend(query, key, value, **case.options)
        context.sum().backward()
        other_key = torch.where(unseen.unsqueeze(-1), key.detach() * -3 + 1, key.detach())
        other_value = torch.where(unseen.unsqueeze(-1), value.detach() * 1000, value.detach())
        torch.testing.assert_close(attend(query, other_key, other_value, **case.options), context, **case.tolerance)
        assert value.grad is not None
        assert bool((value.grad[unseen] == 0).all()), case
        assert key.grad is None or bool((key.grad[unseen] == 0).all()), case  # location does not look at keys


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_outputs_and_gradients_are_finite_even_where_a_row_sees_nothing(score: str, window: str) -> None:
    for case in cases(score, window):
        tensors = [tensor.requires_grad_() for tensor in case.tensors]
        parameters = {name: tensor.requires_grad_() for name, tensor in case.parameters.items()}
        context = attend(*tensors, **{**case.options, "score": case.score_value(parameters)})
        blind = ~(visible_of(window, case.heads) & (scores_of(score, case.heads) > -math.inf)).any(-1)
        assert bool((context[blind] == 0).all()), case
        context.square().sum().backward()
        for tensor in [context, *(tensor.grad for tensor in [*tensors, *parameters.values()])]:
            assert tensor is None or bool(tensor.isfinite().all()), case


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_gradients_are_those_of_finite_differences(score: str, window: str) -> None:
    for normaliser in NORMALISERS:
        case = Case(score, normaliser, window, heads=True, dtype=torch.float64)
        names = list(case.parameters)

        def context(query: Tensor, key: Tensor, value: Tensor, *parameters: Tensor, case=case, names=names) -> Tensor:
            score = case.score_value(dict(zip(names, parameters, strict=True)))
            return attend(query, key, value, **{**case.options, "score": score})

        inputs = [tensor.requires_grad_() for tensor in (*case.tensors, *case.parameters.values())]
        assert torch.autograd.gradcheck(context, inputs, fast_mode=True, check_batched_grad=False), case


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_with_and_without_a_lens_the_result_is_the_same(score: str, window: str) -> None:
    for case in cases(score, window, torch.float32):
        lens = Lens()
        query, key, value = case.tensors
        context = attend(query, key, value, **case.options, lens=lens, site="here")
        torch.testing.assert_close(context, attend(query, key, value, **case.options), rtol=0, atol=0)
        torch.testing.assert_close(context, read(weights_of(case), value), rtol=0, atol=0)
        heads = H if case.heads else 1
        recorded = torch.stack(
            [torch.stack([trace.map("here", h).weights for h in range(heads)]) for trace in lens.traces]
        )
        torch.testing.assert_close(recorded, weights_of(case).view(B, heads, T, S), rtol=0, atol=0)


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_one_query_at_a_time_equals_all_at_once(score: str, window: str) -> None:
    first = S - T if window == "causal, bottom-right" else 0  # where the first query stands
    for case in cases(score, window, torch.float64):
        query, key, value = case.tensors
        prepared = case.score_value().prepare(key)
        rows = [
            attend(
                query[..., t : t + 1, :], prepared, value, offset=first + t,
                **{**case.options, "window": case.window_value(slice(t, t + 1))},
            )
            for t in range(T)
        ]  # fmt: skip
        torch.testing.assert_close(torch.cat(rows, -2), attend(query, key, value, **case.options), **case.tolerance)


@pytest.mark.usefixtures("shapes_unchecked")
@every_combination
def test_prepared_keys_equal_plain_keys(score: str, window: str) -> None:
    for case in cases(score, window, torch.float32):
        query, key, _ = case.tensors
        prepared = case.score_value().prepare(key)
        assert prepared.size == S
        torch.testing.assert_close(weigh(query, prepared, **case.options), weights_of(case), rtol=0, atol=0)


# Against PyTorch -------------------------------------------------------------------------------------------------------

WITHOUT_GAIN = [window for window, parts in WINDOWS.items() if "gaussian" not in parts]


@pytest.mark.parametrize("window", WITHOUT_GAIN)
@pytest.mark.parametrize("heads", [False, True])
def test_scaled_dot_and_softmax_are_pytorchs_scaled_dot_product_attention(window: str, heads: bool) -> None:
    for dtype in (torch.float32, torch.float64):
        case = Case("scaled_dot", "softmax", window, heads, dtype)
        query, key, value = case.tensors
        visible = visible_of(window, heads)
        theirs = functional.scaled_dot_product_attention(query, key, value, attn_mask=visible)
        ours = attend(query, key, value, **case.options)
        sees = visible.any(-1)
        torch.testing.assert_close(ours[sees], theirs[sees], **case.tolerance)
        assert bool((ours[~sees] == 0).all())


def test_causal_is_pytorchs_is_causal() -> None:
    query, key, value = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 4)
    theirs = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(attend(query, key, value, score=scaled_dot, window=causal), theirs)
