"""Connectionist temporal classification (CTC; Graves et al. 2006): its loss, and the probabilities of prefixes for a search
(Hori et al. 2017).

    p(y | h) = Σ_π Πⱼ p(πⱼ | hⱼ),   π a label or a blank per annotation; y is π without repeats and then without blanks

A prefix is extended label by label:

    n_t(g), b_t(g)    log p that the first t annotations say the prefix g, the last of them its last label, or a blank
    ψ(g)              log p that a text begins with g:  ψ(g·c) = log Σ_t p_t(c) e^{φ_t},
                      φ_t = b_{t−1}(g) where c is g's last label, else log(e^{n_{t−1}(g)} + e^{b_{t−1}(g)})
    log p(g)          log(e^{n_L(g)} + e^{b_L(g)}): the text ends here

All annotations are computed at once: x_t = log p_t + log(e^{x_{t−1}} + e^{φ_t}) is A_t + log Σ_{s ≤ t} e^{φ_s − A_{s−1}}, with
A_t = Σ_{s ≤ t} log p_s, in float64 as A grows with the recording.

On a GPU the loss is computed so, too: PyTorch's own copies lengths to the host, which a captured CUDA graph cannot.

Legend: R rows, L annotations, T labels, V vocabulary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

BLANK = 0  # the token of padding, which no text has
IMPOSSIBLE = -1e30  # a log-probability; −inf would make NaN of differences


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


def chosen(rows: Bool[Tensor, " R"], state: CtcState, other: CtcState) -> CtcState:
    """The state of these rows, and the other of the rest."""
    parts = zip(state, other, strict=True)
    return CtcState(*(torch.where(rows.view(-1, *[1] * (one.dim() - 1)), one, two) for one, two in parts))


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


def certain_blanks(log_probs: Float[Tensor, "R L V"], real: Bool[Tensor, "R L"]) -> Float[Tensor, "R L V"]:
    """Log-probabilities of labels with a certain blank where an annotation is not ``real``: these change no probability of a
    text."""
    blank = torch.full_like(log_probs[:1, :1], IMPOSSIBLE)
    blank[..., BLANK] = 0.0
    return torch.where(real.unsqueeze(-1), log_probs, blank)


def ctc_loss(
    log_probs: Float[Tensor, "R L V"],
    lengths: Int[Tensor, " R"],
    target: Int[Tensor, "R T"],
    target_lengths: Int[Tensor, " R"],
) -> Float[Tensor, " R"]:
    """−log p(y | h) of each row; 0, also in the gradient, where a recording is too short for its labels."""
    if log_probs.is_cuda:
        return loss_by_labels(log_probs, lengths, target, target_lengths)
    nll: Tensor = functional.ctc_loss(
        log_probs.transpose(0, 1), target, lengths, target_lengths, blank=BLANK, reduction="none", zero_infinity=True
    )
    return nll


def loss_by_labels(
    log_probs: Float[Tensor, "R L V"],
    lengths: Int[Tensor, " R"],
    target: Int[Tensor, "R T"],
    target_lengths: Int[Tensor, " R"],
) -> Float[Tensor, " R"]:
    """The same by extending an empty prefix with one label after the other, without reading lengths on the host."""
    real = torch.arange(log_probs.shape[1], device=log_probs.device) < lengths.unsqueeze(1)
    sure = certain_blanks(log_probs, real)
    state = empty_prefix(sure)
    for number, label in enumerate(target.unbind(1)):
        moved = extended(state, label, sure)
        state = chosen(number < target_lengths, moved, state)
    ends = torch.logaddexp(state.nonblank[:, -1], state.blank[:, -1])
    return -torch.where(ends < IMPOSSIBLE / 2, torch.zeros_like(ends), ends).to(log_probs.dtype)
