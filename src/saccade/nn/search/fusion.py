"""Searches with several scores: those of a decoder, of its CTC labels, and of a language model.

    score(y) = Σᵢ (1 − w) log p(yᵢ | y₍<ᵢ₎, frames) + w (ψ(y₍≤ᵢ₎) − ψ(y₍<ᵢ₎)) + β log p_lm(yᵢ | y₍<ᵢ₎)

ψ is CTC's probability of a prefix (:mod:`saccade.nn.ctc`; Watanabe et al. 2017), the language model's term is shallow fusion
(Gülçehre et al. 2015). No term is above 0, so a search may stop as it does with the decoder alone.

Legend: B batch, R rows of a beam, L annotations, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from saccade.nn import ctc
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.language import LanguageModel
from saccade.trace.lens import Lens


@dataclass(frozen=True)
class Fusion:
    """The language model of a search (``search.lm``): the folder of a run of the task ``language``, and β."""

    run: str
    weight: float = 0.3

    def __post_init__(self) -> None:
        if not self.run.strip():
            raise ValueError("run must be the folder of a run of the task language: got nothing")
        if not 0 < self.weight < math.inf:
            raise ValueError(f"weight must be above 0: got {self.weight}")


class FusedMemory(NamedTuple):
    decoder: Any
    labels: Float[Tensor, "B L V"] | tuple[()]  # log p of CTC's labels; nothing without


class FusedState(NamedTuple):
    decoder: Any
    ctc: ctc.CtcState | tuple[()]
    lm: Any


class Fused(EncoderDecoder):
    """A decoder whose steps give the scores above in place of logits: they need not sum to 1.

    Args:
        labels: the log-probabilities of CTC's labels from the decoder's memory; needed where ``ctc``, the weight w, is not 0.
        lm: a language model, and its weight β. ``tokens``: its token for each of the decoder's; the one for ``bos`` is what it
            reads first.
        bos, eos: the token before the first one, and the end.
    """

    tokens: Tensor | None

    def __init__(
        self,
        decoder: EncoderDecoder,
        *,
        bos: int,
        eos: int,
        ctc: float = 0.0,
        labels: Callable[[Any], Tensor] | None = None,
        lm: LanguageModel | None = None,
        weight: float = 0.0,
        tokens: Int[Tensor, " V"] | None = None,
    ) -> None:
        super().__init__()
        self.decoder, self.lm = decoder, lm
        self.bos, self.eos, self.ctc, self.labels, self.weight = bos, eos, ctc, labels, weight
        self.register_buffer("tokens", tokens, persistent=False)

    @property
    def writes_on(self) -> str:  # type: ignore[override]
        return self.decoder.writes_on

    def encode(self, source: Tensor, lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> FusedMemory:
        memory = self.decoder.encode(source, lengths, lens=lens)
        return FusedMemory(memory, self.labels(memory) if self.ctc and self.labels is not None else ())

    def start(self, memory: FusedMemory) -> FusedState:
        own = self.decoder.start(memory.decoder)
        prefix = ctc.empty_prefix(memory.labels) if isinstance(memory.labels, Tensor) else ()
        return FusedState(own, prefix, () if self.lm is None else self.lm.blank(_rows(own)))

    def make_room(self, state: FusedState, step: int) -> FusedState:
        own = self.decoder.make_room(state.decoder, step)
        lm = state.lm if self.lm is None else self.lm.make_room(state.lm, step)
        return state if own is state.decoder and lm is state.lm else FusedState(own, state.ctc, lm)

    def step(
        self, token: Int[Tensor, " B"], state: FusedState, memory: FusedMemory, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], FusedState]:
        logits, own = self.decoder.step(token, state.decoder, memory.decoder, offset=offset, lens=lens)
        scores, prefix, read = self.decoder.log_probs(logits), state.ctc, state.lm
        if isinstance(memory.labels, Tensor) and isinstance(prefix, ctc.CtcState):
            moved = ctc.extended(prefix, token, memory.labels)
            prefix = ctc.chosen(token == self.bos, prefix, moved)  # nothing was written before the first step
            scores = (1 - self.ctc) * scores + self.ctc * ctc.next_log_probs(prefix, memory.labels, self.eos)
        if self.lm is not None:
            given = token if self.tokens is None else self.tokens[token]
            logits, read = self.lm.step(given, state.lm, (given,), offset=offset)
            following = self.lm.log_probs(logits)
            scores = scores + self.weight * (following if self.tokens is None else following[:, self.tokens])
        return scores, FusedState(own, prefix, read)

    def log_probs(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        return logits


def _rows(state: Any) -> int:
    """The rows of a state, by its first tensor."""
    while not isinstance(state, Tensor):
        state = state[0]
    return len(state)
