"""Probabilities of prefixes by CTC, label by label as a search writes them (Graves et al. 2006; Hori et al. 2017).

    n_t(g), b_t(g)    log p that the first t annotations say the prefix g, the last of them its last label, or a blank
    ψ(g)              log p that a text begins with g:  ψ(g·c) = log Σ_t p_t(c) e^{φ_t},
                      φ_t = b_{t−1}(g) where c is g's last label, else log(e^{n_{t−1}(g)} + e^{b_{t−1}(g)})
    log p(g)          log(e^{n_L(g)} + e^{b_L(g)}): the text ends here

All annotations are computed at once: x_t = log p_t + log(e^{x_{t−1}} + e^{φ_t}) is A_t + log Σ_{s ≤ t} e^{φ_s − A_{s−1}}, with
A_t = Σ_{s ≤ t} log p_s, in float64 as A grows with the recording.

Legend: R rows, L annotations, V vocabulary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.nn.listener import BLANK, IMPOSSIBLE


class CtcState(NamedTuple):
    """What is known of the prefix of each row; time 0 is before the first annotation."""

    nonblank: Float[Tensor, "R L+1"]
    blank: Float[Tensor, "R L+1"]
    total: Float[Tensor, " R"]  # ψ of the prefix
    last: Int[Tensor, " R"]  # its last label; the blank if it is empty


def empty_prefix(log_probs: Float[Tensor, "R L V"]) -> CtcState:
    """The state of empty prefixes, of which every annotation is a blank."""
    wide = log_probs[..., BLANK].double()
    blank = torch.cat([torch.zeros_like(wide[:, :1]), wide.cumsum(1)], dim=1)
    nobody = torch.full_like(log_probs[:, 0, 0], BLANK, dtype=torch.int64)
    return CtcState(torch.full_like(blank, IMPOSSIBLE), blank, torch.zeros_like(blank[:, 0]), nobody)


def extended(state: CtcState, label: Int[Tensor, " R"], log_probs: Float[Tensor, "R L V"]) -> CtcState:
    """The state of each prefix with one more label."""
    R, L, _ = log_probs.shape
    said = log_probs.gather(2, label.view(R, 1, 1).expand(R, L, 1)).squeeze(2).double()
    silent = log_probs[..., BLANK].double()
    before = torch.where((label == state.last).unsqueeze(1), state.blank, torch.logaddexp(state.nonblank, state.blank))[
        :, :-1
    ]  # φ
    never = torch.full_like(state.total, IMPOSSIBLE).unsqueeze(1)
    nonblank = torch.cat([never, _scan(said, before)], dim=1)
    blank = torch.cat([never, _scan(silent, nonblank[:, :-1])], dim=1)
    return CtcState(nonblank, blank, torch.logsumexp(before + said, dim=1), label)


def _scan(log_p: Float[Tensor, "R L"], entering: Float[Tensor, "R L"]) -> Float[Tensor, "R L"]:
    """x_t = log p_t + log(e^{x_{t−1}} + e^{entering_t}), x_0 = −∞."""
    sums = log_p.cumsum(1)
    return sums + torch.logcumsumexp(entering - (sums - log_p), dim=1)


def next_log_probs(state: CtcState, log_probs: Float[Tensor, "R L V"], end: int) -> Float[Tensor, "R V"]:
    """log p(next label | prefix): ψ(g·c) − ψ(g), of the end of the text log p(g) − ψ(g); −∞ where a label cannot follow."""
    total = state.total.unsqueeze(1)
    either = torch.logaddexp(state.nonblank, state.blank) - total
    scores = torch.logsumexp(either[:, :-1].to(log_probs.dtype).unsqueeze(2) + log_probs, dim=1)  # [R, V]
    R, L, _ = log_probs.shape
    again = log_probs.gather(2, state.last.view(R, 1, 1).expand(R, L, 1)).squeeze(2)
    repeated = torch.logsumexp((state.blank - total)[:, :-1].to(again.dtype) + again, dim=1, keepdim=True)
    scores = scores.scatter(1, state.last.unsqueeze(1), repeated)
    labels = torch.arange(scores.shape[1], device=scores.device)
    scores = torch.where(labels == end, either[:, -1:].to(scores.dtype), scores)
    impossible = (scores < IMPOSSIBLE / 2) | (total < IMPOSSIBLE / 2) | (labels == BLANK)
    return scores.clamp(max=0.0).masked_fill(impossible, -math.inf)
