"""What every language model has: it reads a text and says, after each token, what comes next.

    p(x) = Πₜ p(xₜ | x₍<ₜ₎)        read: x₍<ₜ₎ → hₜ        write: hₜ → logits of xₜ

It is an encoder-decoder of one side: its source is the text so far, which its state keeps, so that every search that writes
translations also continues prompts. A network gives ``blank``, ``read`` and ``write``; the rest is here.

Legend: B batch, S prompt, T tokens, V vocabulary, n width of what is known.
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

CARRIED = "carried_training_"  # what the buffers are called that hold a state from one training batch to the next
RESTING = "carried_resting_"


class Memory(NamedTuple):
    """A prompt that was read up to its last token, which the first step reads. ``begun`` is where that step stands, for a
    lens."""

    last: Int[Tensor, " B"]
    state: Any
    begun: int


class LanguageModel(EncoderDecoder):
    """Base of the language models: tokens [B, T] → logits [B, T, V], those at t of the token at t + 1.

    A state is a (named) tuple of tensors whose first axis is the batch. What looks back does so at sites whose queries lie
    on the axis "output" (what is written next) and whose keys on the axis "input" (what was read).

    Attributes:
        carries: whether the state has one shape however much was read, so that it can be carried from chunk to chunk.
        longest: how many tokens can be read in all; None: any number.
    """

    writes_on = "output"
    sites: tuple[Site, ...] = ()
    carries: bool = False
    longest: int | None = None

    def blank(self, batch: int) -> Any:
        """The state before anything was read."""
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
        """What is known after each token, and the state after each row's last real one.

        Rows are padded on the right; a row of length 0 keeps its state. They go on from ``state`` (None: blank), each at its
        own place; ``offset`` is that place where a lens is given, and then the same for all rows.
        """
        raise NotImplementedError

    def write(self, hidden: Float[Tensor, "... n"]) -> Float[Tensor, "... V"]:
        """Logits of what comes next."""
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
        """Logits [B, T, V]: those at t are of the token that follows ``tokens[:, t]``.

        With ``continues`` the rows go on, where it is True, from the state that the call before ended with
        (:meth:`carry` made room for it). ``sampling`` > 0 is scheduled sampling.
        """
        if sampling:
            return self.sample(Memory(tokens[:, 0], self.blank(len(tokens)), 0), tokens, sampling, lens=lens)
        before = None if continues is None else self._carried(continues)
        hidden, after = self.read(tokens, lengths, before, lens=lens)
        if continues is not None:
            for kept, part in zip(self._places(), leaves(after), strict=True):
                kept.copy_(part.detach())
        return self.write(hidden)

    # What is carried from chunk to chunk --------------------------------------------------------------------------------

    def carry(self, rows: int) -> None:
        """Make room for the states of so many rows: one set while training, one at rest, neither of them saved in a bundle."""
        if not self.carries:
            raise SaccadeError(
                f"{type(self).__name__} keeps all that it read, so nothing can be carried from chunk to chunk: "
                "leave data.streams out (data.context gives chunks the tokens before them)"
            )
        for number, part in enumerate(leaves(self.blank(rows))):
            for name in (CARRIED, RESTING):
                self.register_buffer(f"{name}{number}", part.clone(), persistent=False)

    def _places(self) -> list[Tensor]:
        name, places = CARRIED if self.training else RESTING, list[Tensor]()
        while hasattr(self, f"{name}{len(places)}"):
            places.append(self.get_buffer(f"{name}{len(places)}"))
        if not places:
            raise SaccadeError("there is no room for what is carried from chunk to chunk: call carry() first")
        return places

    def _carried(self, continues: Bool[Tensor, " B"]) -> Any:
        blank = self.blank(len(continues))
        parts = iter([
            torch.where(continues.view(-1, *[1] * (kept.dim() - 1)), kept, fresh)
            for kept, fresh in zip(self._places(), leaves(blank), strict=True)
        ])  # fmt: skip
        return _filled(blank, parts)

    # As an encoder-decoder, for the searches ----------------------------------------------------------------------------

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Memory:
        """Read prompts, each begun by BOS, but for their last tokens."""
        hidden, memory = self.read_prompts(source, lengths, lens=lens)
        if lens is not None and hidden is not None and lens.wants("outputs"):
            keep_outputs(lens, torch.log_softmax(self.write(hidden).float(), dim=-1), 0, self.writes_on)
        return memory

    def read_prompts(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B T n"] | None, Memory]:
        """The same; also what is known after each token that was read, None where none was."""
        last = source.gather(1, (lengths - 1).unsqueeze(1)).squeeze(1)
        longest = int(lengths.max())
        same = bool((lengths == longest).all())
        if lens is not None and not same:
            raise SaccadeError("a lens looks at prompts of one length at a time: got several in one batch")
        hidden, state = None, self.blank(len(source))
        if longest > 1:
            # Where rows are of one length nothing is padding, and nothing need be masked.
            rest = None if same else lengths - 1
            hidden, state = self.read(source[:, : longest - 1], rest, state, lens=lens)
        # Without a lens nobody asks where, and steps after prompts of any length may be recorded as one.
        return hidden, Memory(last, state, 0 if lens is None else longest - 1)

    def start(self, memory: Memory) -> Any:
        return memory.state

    def begin(self, memory: Memory, rows: int, bos: int) -> tuple[Int[Tensor, " B"], Any, Any]:
        # The state goes on from here alone: what stood before the first step need not be kept, nor moved with the beam.
        return memory.last, memory.state, (memory.last,)

    def begun(self, memory: Memory) -> int:
        return memory.begun

    def step(
        self, token: Int[Tensor, " B"], state: Any, memory: Any, *, offset: Any, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], Any]:
        place = 0 if lens is None else offset  # a recorded step may not ask where it stands
        hidden, state = self.read(token.unsqueeze(1), None, state, offset=place, lens=lens)
        return self.write(hidden).squeeze(1), state

    def teach(self, memory: Memory, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        hidden, _ = self.read(target, None, memory.state, offset=memory.begun, lens=lens)
        return self.write(hidden)


def _filled(part: Any, content: Any) -> Any:
    """A state of the same form with other tensors, in order."""
    if isinstance(part, tuple):
        return like(part, [_filled(each, content) for each in part])
    return next(content)
