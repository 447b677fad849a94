"""Tests attention by erasure: does hiding the most attended positions change the output more than hiding others?

A deletion curve (Samek et al. 2017), applied to attention (Serrano & Smith 2019). The model's own output y₁ … yₙ is scored by
teacher forcing, with k positions hidden at each step t from the sites that attend to its input:

    p(k) = exp( 1/n Σₜ log p(yₜ | y₍<ₜ₎, x without M(t, k)) )        the probability of the same output, per token

with M(t, k) the k positions with the **most** weight at step t, the **least**, or k drawn **at random** (the mean of several
draws), among those with a weight above 0: hiding a position of weight 0 changes nothing. Later steps continue from the changed
state. Weights are the mean over the heads and the sites with the same query and key axes as the last attention of the model.
For self-attention of a text with one label, positions are ranked by the mean weight that they receive, and hidden from all.

    drop = mean over k of p(0) − p(k)                                 (as comprehensiveness is, DeYoung et al. 2020)

Weights are faithful if the drop is large for the most attended positions and small for random ones.

Legend: T steps, S positions, n output tokens, k hidden positions.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.api.bundle import Bundle
from saccade.data.memory import names_of
from saccade.errors import InputError, SaccadeError
from saccade.task import Scored, Scores
from saccade.trace.edits import Mask
from saccade.trace.lens import Lens
from saccade.trace.maps import AttentionMap, Trace

DRAWS = 8
NOTHING = 0.01  # a drop below this counts as none
CLEARLY = 2.0  # from so many times the random drop, the weights count as an explanation
TINY = 1e-300
CUT = "length"  # the stop reason of an output that was cut off
MOST, LEAST, CHANCE = "most looked at", "least looked at", "at random"


@dataclass(frozen=True)
class Looked:
    """The weights of each step [T, S], the sites that they are the mean of, and the steps' numbers (None: all)."""

    weights: Float[Tensor, "T S"]
    sites: tuple[str, ...]
    steps: tuple[int | None, ...]

    def masks(self, chosen: Sequence[Sequence[int]]) -> list[Mask]:
        pairs = list(zip(self.steps, chosen, strict=True))
        return [Mask(tuple(keys), site=site, step=step) for site in self.sites for step, keys in pairs if keys]


def curve(
    bundle: Bundle, given: Any, output: Any = None, *, ended: bool = True, draws: int = DRAWS, seed: int = 0
) -> dict[str, Any]:
    """The deletion curves of one input: ``{"sentence", "figures", "curves"}``, as ``about["faithfulness"]`` of a trace holds.

    Args:
        bundle: a trained model that generates or continues text, or predicts labels or tags.
        given: one input, as ``bundle.predict`` takes it.
        output: the output to score, by default the model's own: a text, a label, or tags.
        ended: whether the end of the output is scored too; False if it was cut off at a length limit.
        draws: the number of random choices to average.

    >>> # erasure.curve(saccade.load("runs/…"), "5. Mai 2009")["sentence"]
    """
    steps = measurement(bundle, given, output, ended=ended, draws=draws, seed=seed)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            curves: dict[str, Any] = end.value
            return curves


def measurement(
    bundle: Bundle, given: Any, output: Any = None, *, ended: bool = True, draws: int = DRAWS, seed: int = 0
) -> Generator[tuple[int, int], None, dict[str, Any]]:
    """The same in steps: yields, each time that the output was scored, how often it was and will be; returns the curves."""
    if draws < 1:
        raise SaccadeError(f"draws must be at least 1: got {draws}")
    score = _score(bundle, _single(bundle, given), output, ended)
    whole = score(Lens())
    looked = _looked(whole)
    rows = [_ranked(row) for row in looked.weights.tolist()]
    hidden = _sizes(max(map(len, rows)))
    chance = random.Random(seed)
    orders = [rows, [row[::-1] for row in rows]]
    orders += [[chance.sample(row, len(row)) for row in rows] for _ in range(draws)]
    of = 1 + len(orders) * len(hidden)
    yield 1, of
    falls = [[_probability(whole)] for _ in orders]
    for number, (order, k) in enumerate(itertools.product(range(len(orders)), hidden), start=2):
        edits = looked.masks([row[:k] for row in orders[order]])
        falls[order].append(_probability(score(Lens("statistics", edits=edits))))
        yield number, of
    most, least, *drawn = falls
    by_chance = [fmean(at_k) for at_k in zip(*drawn, strict=True)]
    steps = 0 if looked.steps == (None,) else len(rows)
    return _report([0, *hidden], most, least, by_chance, draws=draws, steps=steps, tokens=len(whole.log_probs))


def tested(bundle: Bundle, given: Any, trace: Trace) -> Trace:
    """The trace of this input with its deletion curves in ``about["faithfulness"]``."""
    ended = trace.about.get("stopped") != CUT
    curves = curve(bundle, given, trace.about.get("output"), ended=ended)
    return replace(trace, about={**trace.about, "faithfulness": curves})


# How likely the output is under a lens -----------------------------------------------------------------------------


def _single(bundle: Bundle, given: Any) -> Any:
    """The only input of a table or a dict; any other value is the input itself."""
    if names_of(given) is None:
        return given
    inputs = bundle.task.inputs(given)
    if len(inputs) != 1:
        raise InputError("given", expected="one input", found=f"a {type(given).__name__} of {len(inputs):,}")
    return inputs[0]


def _score(bundle: Bundle, given: Any, output: Any, ended: bool) -> Callable[[Lens], Scored]:
    """A function of a lens: the probability of the output."""
    task = bundle.task
    if not isinstance(task, Scores):
        raise SaccadeError(
            f"erasure needs outputs that can be scored; those of the task {task.name} cannot: {task.not_scored}"
        )
    if output is None:
        prediction = bundle.predict([given])[0]
        output, ended = prediction.value, prediction.stopped != CUT
    return task.scorer(bundle.network, given, output, ended=ended)


def _probability(scored: Scored) -> float:
    """The geometric mean of the tokens' probabilities."""
    return exp(fmean(max(log_prob, log(TINY)) for log_prob in scored.log_probs))


# Weights, and what to hide --------------------------------------------------------------------------------------------


def _looked(whole: Scored) -> Looked:
    """The weights to test: the mean over all sites with the axes of the last attention."""
    trace = whole.trace
    last = trace.last_look
    if last is None:
        raise SaccadeError("this model has no attention on its input: there are no weights to test")
    one = next(map for map in trace.maps if map.site == last)
    alike = [map for map in trace.maps if (map.query, map.key, map.step) == (one.query, one.key, one.step)]
    alike = [map for map in alike if map.weights.shape == one.weights.shape]
    sites = tuple(dict.fromkeys(map.site for map in alike))
    weights = torch.stack([map.weights for map in alike]).mean(0)  # [T, S]
    if one.query == one.key and whole.steps == (len(weights) - 1,):  # the last position alone led to the output
        return Looked(weights[-1:], sites, (None,))
    if one.query == one.key:
        return Looked(weights.mean(0, keepdim=True), sites, (None,))
    return Looked(_rows(weights, whole.steps, one), sites, whole.steps)


def _rows(weights: Float[Tensor, "T S"], steps: Sequence[int], one: AttentionMap) -> Float[Tensor, "n S"]:
    if min(steps) < one.step or max(steps) - one.step >= len(weights):
        raise SaccadeError(f"{one.site!r} has weights of {len(weights)} steps, but {len(steps)} are to be tested")
    return weights[[step - one.step for step in steps]]


def _ranked(row: Sequence[float]) -> list[int]:
    """The positions with a weight above 0, the largest first."""
    return sorted((key for key, weight in enumerate(row) if weight > 0), key=lambda key: -row[key])


def _sizes(count: int) -> list[int]:
    """How many positions to hide: 1, 2, 4, … up to half of them."""
    return [k for k in (2**power for power in range(7)) if k <= max(1, count // 2)]


# In words and figures -------------------------------------------------------------------------------------------------


def _report(
    hidden: list[int],
    most: list[float],
    least: list[float],
    by_chance: list[float],
    *,
    draws: int,
    steps: int,
    tokens: int,
) -> dict[str, Any]:
    """The curves, drops and verdict; ``steps`` is 0 if positions are hidden from all steps alike."""
    x_label = "positions hidden at each step" if steps > 1 else "positions hidden"
    y_label = f"probability of the same output{', per token' if tokens > 1 else ''}"
    falls = {MOST: most, CHANCE: by_chance, LEAST: least}
    drops = {name: _drop(fall) for name, fall in falls.items()}
    figures = {"probability of its output": most[0], **{f"drop, {name}": drop for name, drop in drops.items()}}
    return {
        "sentence": _sentence(drops, per_step=steps > 1),
        "figures": figures | {"random draws": draws},
        "curves": [
            {"name": name, "x_label": x_label, "y_label": y_label, "x": hidden, "y": fall}
            for name, fall in falls.items()
        ],
    }


def _drop(fall: Sequence[float]) -> float:
    return fmean(fall[0] - value for value in fall[1:])


def _sentence(drops: dict[str, float], *, per_step: bool) -> str:
    where = " at each step" if per_step else ""
    most, chance = (f"{round(drops[name], 2) + 0.0:.2f}" for name in (MOST, CHANCE))  # -0 becomes 0
    cost = f"lowered the probability of the output by {most}, hiding random positions by {chance}"
    if drops[MOST] <= -NOTHING:
        cost = f"raised the probability of the output by {-drops[MOST]:.2f}"
    elif drops[MOST] < NOTHING:
        cost = f"hardly changed the probability of the output ({most})"
    if drops[MOST] < NOTHING or drops[MOST] <= drops[CHANCE]:
        judged = "on this input the weights do not show what the prediction depends on"
    elif drops[MOST] < CLEARLY * drops[CHANCE]:
        judged = "on this input the weights are only weak evidence of what the prediction depends on"
    else:
        judged = "on this input the weights show what the prediction depends on"
    return f"Hiding the most attended positions{where} {cost}: {judged}."
