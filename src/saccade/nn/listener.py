"""Base class of networks that listen to sound, their encoder, and the penalty on attention that goes back.

    p(y | frames) = Πᵢ p(yᵢ | y₍<ᵢ₎, h₁ … h_L)        h₁ … h_L the annotations: one per frame, or per few frames

Legend: B batch, N frames, D features per frame, L annotations, T target, V vocabulary, n hidden width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn.config import check
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import Recurrent
from saccade.trace.lens import Lens


@dataclass(frozen=True)
class Focus:
    """Settings of attention at prediction that differ from training (``search.focus``; Chorowski et al. 2015, section 2.3).

    Attributes:
        sharpen: β: the weights are those of β times the scores; 1 as in training.
        top: only the annotations with the k largest weights are read; all unless given.
        window: only annotations at most this far from the median of the previous weights are seen; as in training unless
            given.
    """

    sharpen: float = 1.0
    top: int | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        check(self, "top", "window")
        if not 0 < self.sharpen < float("inf"):
            raise ValueError(f"sharpen must be above 0: got {self.sharpen}")


@dataclass
class Heard:
    """What a listener computed while it was taught: filled by :meth:`Listener.forward`, read by :meth:`Listener.regulariser`.

    Attributes:
        weights: of every step, [B, L].
        annotations: [B, L, D], and how many of each row are real.
    """

    weights: list[Float[Tensor, "B L"]] = field(default_factory=list)
    annotations: Float[Tensor, "B L D"] | None = None
    lengths: Int[Tensor, " B"] | None = None


class Listener(EncoderDecoder):
    """Base of the networks that the task ``transcribe`` trains, made by ``(config, size, width, start)``: the size of the
    vocabulary, the features per frame, and the token before the first one.

    Attributes:
        pooling: frames per annotation.
        ctc: the share of the CTC loss in training; 0: the network has none.
    """

    pooling: int = 1
    ctc: float = 0.0

    def encode(self, source: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Any:
        """The memory of recordings: frames, of which ``lengths`` are real."""
        raise NotImplementedError

    def annotation_lengths(self, lengths: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """Annotations of recordings of so many frames: a rest of frames has one too."""
        return -(-lengths // self.pooling)

    def forward(
        self,
        source: Float[Tensor, "B N D"],
        lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
        *,
        sampling: float = 0.0,
        lens: Lens | None = None,
        heard: Heard | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the target's next tokens. A network that has a :meth:`regulariser` fills ``heard`` for it."""
        return super().forward(source, lengths, target, sampling=sampling, lens=lens)

    def ctc_log_probs(self, memory: Any) -> Float[Tensor, "B L V"]:
        """log p(label | annotation), of :mod:`saccade.nn.ctc`; beyond a row's annotations a blank is certain."""
        raise SaccadeError(
            f"search.ctc: expected a network that was trained with model.ctc, found {type(self).__name__} without"
        )

    def focused(self, focus: Focus) -> Listener:
        """The same network, with the same parameters, whose attention has these settings."""
        raise SaccadeError(
            f"search.focus: expected a network whose attention has settings, found {type(self).__name__}"
        )

    def regulariser(
        self, heard: Heard, target: Int[Tensor, "B T"], lengths: Int[Tensor, " B"], real: Bool[Tensor, " B"]
    ) -> Float[Tensor, ""]:
        """What training adds to −(1 − ctc) Σ log p(y): a sum over recordings. ``target`` holds the tokens and their end, of
        which ``lengths`` are real; rows that are not ``real`` add nothing."""
        return torch.zeros((), device=target.device)


class Encoder(nn.Module):
    """Bidirectional GRU layers; after layer i only every pᵢ-th state is kept (``pooling``).

    Shapes: frames [B, N, D] → annotations [B, L, 2n], L = ⌈N / Π pᵢ⌉.
    """

    def __init__(
        self, inputs: int, hidden: int, layers: int, pooling: Sequence[int] = (), *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        widths = [inputs] + [2 * hidden] * (layers - 1)
        self.layers = nn.ModuleList(Recurrent("gru", width, hidden, bidirectional=True) for width in widths)
        self.steps = tuple(pooling) + (1,) * (layers - len(pooling))
        self.pooling, self.width, self.dropout = prod(self.steps), 2 * hidden, dropout

    def forward(
        self, frames: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B L E"], Int[Tensor, " B"]]:
        states = frames
        for number, (layer, step) in enumerate(zip(self.layers, self.steps, strict=True)):
            if number:
                states = functional.dropout(states, self.dropout, self.training)
            states, _ = layer(states, lengths)
            if step > 1:
                states, lengths = states[:, ::step], -(-lengths // step)
        return states, lengths


def monotonic_penalty(weights: Float[Tensor, "B T L"], real: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """How far attention goes back: Σᵢ max(0, Σⱼ (Σₖ≤ⱼ αᵢₖ − Σₖ≤ⱼ αᵢ₋₁ₖ)), summed over recordings (Chorowski et al. 2014).

    The inner sum is the difference of the mean positions of αᵢ₋₁ and αᵢ; steps that are not ``real`` add nothing.

    >>> there_and_back = torch.eye(4)[[0, 3, 1]].unsqueeze(0)
    >>> float(monotonic_penalty(there_and_back, torch.ones(1, 3, dtype=torch.bool)))
    2.0
    """
    positions = torch.arange(weights.shape[-1], device=weights.device, dtype=weights.dtype)
    means = weights @ positions  # [B, T]
    back = (means[:, :-1] - means[:, 1:]).clamp(min=0)
    return back.masked_fill(~real[:, 1:], 0.0).sum()
