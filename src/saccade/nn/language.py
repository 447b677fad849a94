"""Base class of language models: they read a text and predict the next token after each one.

    p(x) = Πₜ p(xₜ | x₍<ₜ₎)        read: x₍<ₜ₎ → hₜ        write: hₜ → logits of xₜ

A language model is an encoder-decoder whose source is the prompt, kept in its state, so that every search also continues
prompts. A network implements ``blank``, ``read`` and ``write``; the rest is here.

Legend: B batch, S prompt, T tokens, V vocabulary, n hidden width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.nn.cuda_graphs import leaves, like
from saccade.nn.decoder import EncoderDecoder, keep_outputs
from saccade.trace.lens import Lens, Site

CARRIED = "carried_training_"  # names of the buffers that carry a state from one training batch to the next
RESTING = "carried_resting_"


class Memory(NamedTuple):
    """A prompt read up to its last token, which the first step reads. ``begun`` is the position of that step, for a lens."""

    last: Int[Tensor, " B"]
    state: Any
    begun: int


class LanguageModel(EncoderDecoder):
    """Base of the language models: tokens [B, T] → logits [B, T, V], those at t of the token at t + 1.

    A state is a (named) tuple of tensors whose first axis is the batch. Sites of attention
    have queries on the axis "output" (the next tokens) and keys on the axis "input" (the tokens read).

    Attributes:
        carries: whether the state has a fixed shape, so that it can be carried from chunk to chunk.
        longest: the most tokens that can be read; None: no limit.
    """

    writes_on = "output"
    sites: tuple[Site, ...] = ()
    carries: bool = False
    longest: int | None = None

    def blank(self, batch: int) -> Any:
        """The state before the first token."""
        raise NotImplementedError

    def read(
        self,
        tokens: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        state: Any = None,
        *,
        offset: int = 0,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B T n"], Any]:
        """Hidden vectors after each token, and the state after each row's last real one.

        Rows are padded on the right; a row of length 0 keeps its state. They continue from ``state`` (None: blank), each at
        its own position; with a lens, ``offset`` is that position, the same for all rows.
        """
        raise NotImplementedError

    def write(self, hidden: Float[Tensor, "... n"]) -> Float[Tensor, "... V"]:
        """Logits of the next token."""
        raise NotImplementedError

    def forward(  # type: ignore[override]
        self,
        tokens: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        continues: Bool[Tensor, " B"] | None = None,
        sampling: float = 0.0,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits [B, T, V]: those at t predict the token after ``tokens[:, t]``.

        Where ``continues`` is True, a row continues from the final state of the previous call (:meth:`carry` allocates
        it). ``sampling`` > 0 is scheduled sampling.
        """
        if sampling:
            return self.sample(Memory(tokens[:, 0], self.blank(len(tokens)), 0), tokens, sampling, lens=lens)
        before = None if continues is None else self._carried(continues)
        hidden, after = self.read(tokens, lengths, before, lens=lens)
        if continues is not None:
            for carried, part in zip(self._carried_buffers(), leaves(after), strict=True):
                carried.copy_(part.detach())
        return self.write(hidden)

    # State carried from chunk to chunk --------------------------------------------------------------------------------

    def carry(self, rows: int) -> None:
        """Allocate the states of ``rows`` rows: one set for training, one for evaluation, neither saved in a bundle."""
        if not self.carries:
            raise SaccadeError(
                f"{type(self).__name__}: its state grows with the text, so it cannot be carried from chunk to chunk: "
                "leave data.streams out (data.context gives chunks the tokens before them)"
            )
        for number, part in enumerate(leaves(self.blank(rows))):
            for name in (CARRIED, RESTING):
                self.register_buffer(f"{name}{number}", part.clone(), persistent=False)

    def _carried_buffers(self) -> list[Tensor]:
        name, buffers = CARRIED if self.training else RESTING, list[Tensor]()
        while hasattr(self, f"{name}{len(buffers)}"):
            buffers.append(self.get_buffer(f"{name}{len(buffers)}"))
        if not buffers:
            raise SaccadeError("no state to carry from chunk to chunk: call carry() first")
        return buffers

    def _carried(self, continues: Bool[Tensor, " B"]) -> Any:
        blank = self.blank(len(continues))
        parts = iter([
            torch.where(continues.view(-1, *[1] * (carried.dim() - 1)), carried, fresh)
            for carried, fresh in zip(self._carried_buffers(), leaves(blank), strict=True)
        ])  # fmt: skip
        return _filled(blank, parts)

    # As an encoder-decoder, for the searches ----------------------------------------------------------------------------

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Memory:
        """Read prompts, each starting with BOS, except for their last tokens."""
        hidden, memory = self.read_prompts(source, lengths, lens=lens)
        if lens is not None and hidden is not None and lens.wants("outputs"):
            keep_outputs(lens, torch.log_softmax(self.write(hidden).float(), dim=-1), 0, self.writes_on)
        return memory

    def read_prompts(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B T n"] | None, Memory]:
        """The same, with the hidden vectors after each token that was read; None if there was none."""
        last = source.gather(1, (lengths - 1).unsqueeze(1)).squeeze(1)
        longest = int(lengths.max())
        same = bool((lengths == longest).all())
        if lens is not None and not same:
            raise SaccadeError("a lens needs prompts of equal length in a batch: got several lengths")
        hidden, state = None, self.blank(len(source))
        if longest > 1:
            # Rows of equal length have no padding to mask.
            rest = None if same else lengths - 1
            hidden, state = self.read(source[:, : longest - 1], rest, state, lens=lens)
        # Without a lens the position does not matter, and steps after prompts of any length share a captured graph.
        return hidden, Memory(last, state, 0 if lens is None else longest - 1)

    def start(self, memory: Memory) -> Any:
        return memory.state

    def begin(self, memory: Memory, rows: int, bos: int) -> tuple[Int[Tensor, " B"], Any, Any]:
        # Steps need only the state: the rest of the memory need not be kept, nor moved with the beam.
        return memory.last, memory.state, (memory.last,)

    def begun(self, memory: Memory) -> int:
        return memory.begun

    def step(
        self, token: Int[Tensor, " B"], state: Any, memory: Any, *, offset: Any, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], Any]:
        place = 0 if lens is None else offset  # a captured step must not use its position
        hidden, state = self.read(token.unsqueeze(1), None, state, offset=place, lens=lens)
        return self.write(hidden).squeeze(1), state

    def teach(self, memory: Memory, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        hidden, _ = self.read(target, None, memory.state, offset=memory.begun, lens=lens)
        return self.write(hidden)


def _filled(part: Any, content: Any) -> Any:
    """A state of the same structure with other tensors, in order."""
    if isinstance(part, tuple):
        return like(part, [_filled(each, content) for each in part])
    return next(content)
