"""What every encoder-decoder has: it reads the source once, then writes one token a step.

    p(y | x) = Πₜ p(yₜ | y₍<ₜ₎, encode(x))

A network gives ``encode``, ``start`` and ``step``; training and every search are built of these three.

Legend: B batch, S source, T target, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.trace.lens import Lens


class EncoderDecoder(nn.Module):
    """Base of the sequence-to-sequence networks. Memory and state are (named) tuples of tensors whose first axis is the
    batch, so that a search can select and reorder them."""

    def encode(self, source: Tensor, lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Any:
        """What is kept of the source: tokens [B, S], or vectors [B, S, d]."""
        raise NotImplementedError

    def start(self, memory: Any) -> Any:
        """The state before the first step."""
        raise NotImplementedError

    def step(
        self, token: Int[Tensor, " B"], state: Any, memory: Any, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], Any]:
        """One step: the previous token and state → logits of the next token, the new state."""
        raise NotImplementedError

    def teach(self, memory: Any, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        """Logits of every step when the true tokens are fed (``target`` begins with BOS)."""
        state, logits = self.start(memory), []
        for offset in range(target.shape[1]):
            row, state = self.step(target[:, offset], state, memory, offset=offset, lens=lens)
            logits.append(row)
        return torch.stack(logits, dim=1)

    def sample(
        self, memory: Any, target: Int[Tensor, "B T"], rate: float, *, lens: Lens | None = None
    ) -> Float[Tensor, "B T V"]:
        """Scheduled sampling (Bengio et al. 2015): with probability ``rate`` a step is fed what the network itself wrote."""
        state, token, logits = self.start(memory), target[:, 0], []
        for offset in range(target.shape[1]):
            row, state = self.step(token, state, memory, offset=offset, lens=lens)
            logits.append(row)
            if offset + 1 < target.shape[1]:
                own = torch.rand(target.shape[0], device=target.device) < rate
                token = torch.where(own, row.argmax(dim=-1), target[:, offset + 1])
        return torch.stack(logits, dim=1)

    def forward(
        self,
        source: Int[Tensor, "B S"] | Float[Tensor, "B S d"],
        lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
        *,
        sampling: float = 0.0,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits [B, T, V] of the target's next tokens. ``sampling`` > 0 is scheduled sampling."""
        memory = self.encode(source, lengths, lens=lens)
        if sampling:
            return self.sample(memory, target, sampling, lens=lens)
        return self.teach(memory, target, lens=lens)
