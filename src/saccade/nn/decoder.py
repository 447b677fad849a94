"""Base class of encoder-decoders: they encode the source once, then write one token per step.

    p(y | x) = Πₜ p(yₜ | y₍<ₜ₎, encode(x))

A network implements ``encode``, ``start`` and ``step``; training and every search are built on these three.

Legend: B batch, S source, T target, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.nn.cuda_graphs import leaves
from saccade.trace.lens import Lens

OUTPUTS_KEPT = 5


class EncoderDecoder(nn.Module):
    """Base of the sequence-to-sequence networks. Memory and state are (named) tuples of tensors whose first axis is the
    batch, so that a search can select and reorder them.

    Attributes:
        writes_on: the axis of the output.
        shares_memory: whether ``step`` takes a memory of N rows for R = N · W tokens: row r then attends to item ⌊r / W⌋.
        A class
            that overrides ``step`` must set it itself.
    """

    writes_on: str = "target"
    shares_memory: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in vars(cls) and "shares_memory" not in vars(cls):
            cls.shares_memory = False

    def encode(self, source: Tensor, lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Any:
        """The memory: what the decoder needs of the source, tokens [B, S] or vectors [B, S, d]."""
        raise NotImplementedError

    def start(self, memory: Any) -> Any:
        """The state before the first step."""
        raise NotImplementedError

    def begin(self, memory: Any, rows: int, bos: int) -> tuple[Int[Tensor, " B"], Any, Any]:
        """Inputs of a search's first step: tokens, state, and the memory for all steps, each with ``rows`` rows. A search may
        repeat them for the places of its beam."""
        state = self.start(memory)
        device = next(part.device for part in leaves((memory, state)) if isinstance(part, Tensor))
        return torch.full((rows,), bos, device=device), state, memory

    def begun(self, memory: Any) -> int:
        """The position of the first step, for a lens."""
        return 0

    def make_room(self, state: Any, step: int) -> Any:
        """The state with room for step number ``step``, where steps are captured: a captured step cannot enlarge its state.
        The state itself if it has room, as one that never grows always does."""
        return state

    def step(
        self, token: Int[Tensor, " B"], state: Any, memory: Any, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], Any]:
        """One step: the previous token and state → logits of the next token, the new state."""
        raise NotImplementedError

    def log_probs(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        """log p of the next token from what a step returned, or the score that a search ranks it by."""
        return torch.log_softmax(logits.float(), dim=-1)

    def teach(self, memory: Any, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        """Logits of every step under teacher forcing (``target`` starts with BOS)."""
        state, logits = self.start(memory), []
        if not target.shape[1]:  # no logits, as wide as those of a step
            return self.step(target.new_zeros(len(target)), state, memory, offset=0)[0].unsqueeze(1)[:, :0]
        for offset in range(target.shape[1]):
            row, state = self.step(target[:, offset], state, memory, offset=offset, lens=lens)
            logits.append(row)
        return torch.stack(logits, dim=1)

    def sample(
        self, memory: Any, target: Int[Tensor, "B T"], rate: float, *, lens: Lens | None = None
    ) -> Float[Tensor, "B T V"]:
        """Scheduled sampling (Bengio et al. 2015): with probability ``rate`` a step gets the network's own output."""
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


def keep_outputs(lens: Lens, log_probs: Float[Tensor, "B T V"], offset: int, axis: str) -> None:
    """Record the likeliest outputs of each step and their probabilities, on the output axis."""
    best, index = log_probs.topk(min(OUTPUTS_KEPT, log_probs.shape[-1]), dim=-1)
    lens.signal("outputs.probability", axis, best.exp(), offset=offset)
    lens.signal("outputs.index", axis, index, offset=offset)
