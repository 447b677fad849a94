"""Batches of recordings' frames with their transcripts, and how training masks them.

Legend: B batch, L frames, D values of a frame, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.audio.config import SoundAugment, SoundFeatures
from saccade.data.batching import TensorBatch, closed_and_opened, extended, rounded
from saccade.errors import SaccadeError


@dataclass(frozen=True)
class SpeechBatch(TensorBatch):
    """Frames with a transcript each. The decoder reads ``target_in`` and is trained to predict ``target_out``, one step
    ahead."""

    frames: Float[Tensor, "B L D"]  # zeros beyond the end
    frame_lengths: Int64[Tensor, " B"]
    target_in: Int64[Tensor, "B T"]  # <bos> tokens <pad> …
    target_out: Int64[Tensor, "B T"]  # tokens <eos> <pad> …
    target_lengths: Int64[Tensor, " B"]  # <eos> counted
    indices: list[int]  # positions of the rows in their corpus
    tokens: int  # real target tokens, <eos> counted: known on the host

    def bucketed(self) -> SpeechBatch:
        """The same batch in one of few shapes: rows of length 1 without a target below, padding on the right."""
        (B, L, _), T = self.frames.shape, self.target_in.shape[1]
        rows, later, right = rounded(B, 8) - B, rounded(L, 8) - L, rounded(T, 2) - T
        return replace(
            self,
            frames=functional.pad(self.frames, (0, 0, 0, later, 0, rows)),
            frame_lengths=functional.pad(self.frame_lengths, (0, rows), value=1),
            target_in=extended(self.target_in, rows, right),
            target_out=extended(self.target_out, rows, right),
            target_lengths=functional.pad(self.target_lengths, (0, rows), value=1),
        )


def padded_frames(frames: Sequence[Float[Tensor, "L D"]]) -> tuple[Float[Tensor, "B L D"], Int64[Tensor, " B"]]:
    """The frames of recordings together, zeros beyond their ends, and how many there are of each."""
    lengths = torch.tensor([len(one) for one in frames], dtype=torch.int64)
    return torch.nn.utils.rnn.pad_sequence(list(frames), batch_first=True), lengths


def collate_speech(
    frames: Sequence[Float[Tensor, "L D"]], transcripts: Sequence[Sequence[int]], indices: Sequence[int]
) -> SpeechBatch:
    """The batch of these frames and the ids of their transcripts, padded, with <bos> before or <eos> after them."""
    if not frames or not len(transcripts) == len(indices) == len(frames):
        counts = f"{len(frames)} recordings, {len(transcripts)} transcripts, {len(indices)} indices"
        raise SaccadeError(f"a batch needs a transcript and an index for each recording: got {counts}")
    (target_out, target_in), lengths = closed_and_opened(transcripts)
    padded, counts_ = padded_frames(frames)
    return SpeechBatch(
        frames=padded,
        frame_lengths=counts_,
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_lengths=torch.from_numpy(lengths),
        indices=list(indices),
        tokens=int(lengths.sum()),
    )


def masked(
    frames: Float[Tensor, "B L D"], lengths: Int64[Tensor, " B"], augment: SoundAugment, features: SoundFeatures
) -> Float[Tensor, "B L D"]:
    """Frames with some stretches and bands of each set to 0, their mean (SpecAugment, Park et al. 2019). Random numbers come
    from PyTorch's global generators, whose state is part of a checkpoint: a resumed run masks as it would have."""
    B, L, D = frames.shape
    device = frames.device

    def hit(count: int, most: Float[Tensor, "B 1"], room: Float[Tensor, "B 1"], size: int) -> Tensor:
        """Where ``count`` spans of up to ``most`` lie within ``room`` places, of ``size`` [B, size]."""
        places = torch.arange(size, device=device)
        found = torch.zeros(B, size, dtype=torch.bool, device=device)
        for _ in range(count):
            width = (torch.rand(B, 1, device=device) * (most + 1)).floor()
            start = (torch.rand(B, 1, device=device) * (room - width + 1).clamp(min=1)).floor()
            found = found | ((places >= start) & (places < start + width))
        return found

    whole = lengths[:, None].to(frames.dtype)
    times = hit(augment.time_masks, torch.clamp(whole * MOST_SHARE, max=augment.time_width).floor(), whole, L)
    plain = D // (1 + features.deltas)
    banded = plain - (features.energy and features.kind != "given")
    bands = torch.full((B, 1), float(banded), device=device)
    width = min(augment.frequency_width, banded)
    across = hit(augment.frequency_masks, torch.full_like(bands, float(width)), bands, plain).repeat(
        1, 1 + features.deltas
    )
    return frames.masked_fill(times[..., None] | across[:, None], 0.0)


MOST_SHARE = 0.2  # of a recording that one stretch covers
