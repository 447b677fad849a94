"""What a classifier is tried with: a padded batch in the layout that it reads, and what may be done to it.

Legend: B batch, S positions or sentences, W words of a sentence.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

LENGTHS = (7, 3, 5)
BETWEEN = (4, 1, 3)  # where the mark between the two texts of a row stands
SENTENCES = ((4, 2, 1), (3, 0, 0), (1, 4, 0))  # words of each sentence
VOCABULARY = 20
PAD, BOS, EOS = 0, 1, 2
Inputs = tuple[Tensor, Tensor, Tensor | None]


@runtime_checkable
class Reading(Protocol):
    """A batch, one item of it without its padding, another padding, another word, a smaller batch, and the axes' sizes."""

    @property
    def batch(self) -> Inputs: ...

    def alone(self, item: int) -> Inputs: ...

    def repadded(self) -> Inputs: ...

    def reworded(self) -> Inputs: ...

    def smaller(self) -> Inputs: ...

    def single(self) -> Inputs: ...

    def sizes(self, item: int) -> dict[str, int]: ...


class RowsOf:
    """tokens [B, S], lengths [B], segments [B, S]: rows with the marks that the layout asks for, pairs all of them."""

    def __init__(self, marked: bool) -> None:
        self.marked = marked

    @cached_property
    def batch(self) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(2)
        shape = (len(LENGTHS), max(LENGTHS))
        tokens = torch.randint(EOS + 1, VOCABULARY, shape, generator=generator)
        segments = torch.zeros(shape, dtype=torch.int64)
        for row, (length, mark) in enumerate(zip(LENGTHS, BETWEEN, strict=True)):
            tokens[row, mark], tokens[row, length:] = EOS, PAD
            segments[row, mark + 1 : length] = 1
            if self.marked:
                tokens[row, 0], tokens[row, length - 1] = BOS, EOS
        return tokens, torch.tensor(LENGTHS), segments

    def alone(self, item: int) -> Inputs:
        (tokens, lengths, segments), length, one = self.batch, LENGTHS[item], slice(item, item + 1)
        return tokens[one, :length], lengths[one], segments[one, :length]

    def repadded(self) -> Inputs:
        tokens, lengths, segments = (part.clone() for part in self.batch)
        for item, length in enumerate(LENGTHS):
            tokens[item, length:], segments[item, length:] = 5, 1
        return tokens, lengths, segments

    def reworded(self) -> Inputs:
        tokens, lengths, segments = (part.clone() for part in self.batch)
        tokens[:, 2] = (tokens[:, 2] - 2) % (VOCABULARY - 3) + 3
        return tokens, lengths, segments

    def smaller(self) -> Inputs:
        tokens, lengths, segments = self.batch
        return tokens[:2, :3], lengths[:2].clamp(max=3), segments[:2, :3]

    def single(self) -> Inputs:
        tokens, lengths, segments = self.batch
        return tokens, lengths, torch.zeros_like(segments)

    def sizes(self, item: int) -> dict[str, int]:
        return {"text": LENGTHS[item], "label": 1}


class SentencesOf:
    """tokens [B, S, W], lengths [B, S], no segments: documents of unequal sentences, with empty ones behind."""

    @cached_property
    def batch(self) -> Inputs:
        generator = torch.Generator().manual_seed(2)
        lengths = torch.tensor(SENTENCES)
        tokens = torch.randint(EOS + 1, VOCABULARY, (*lengths.shape, int(lengths.max())), generator=generator)
        return tokens.masked_fill(self._beyond(lengths), PAD), lengths, None

    @staticmethod
    def _beyond(lengths: Tensor) -> Tensor:
        return torch.arange(int(lengths.max())) >= lengths.unsqueeze(-1)

    def alone(self, item: int) -> Inputs:
        (tokens, lengths, _), one = self.batch, slice(item, item + 1)
        S, W = int((lengths[item] > 0).sum()), int(lengths[item].max())
        return tokens[one, :S, :W], lengths[one, :S], None

    def repadded(self) -> Inputs:
        tokens, lengths, _ = self.batch
        return tokens.masked_fill(self._beyond(lengths), 5), lengths, None

    def reworded(self) -> Inputs:
        tokens, lengths, _ = self.batch
        other = tokens.clone()
        other[:, 0, 0] = (other[:, 0, 0] - 2) % (VOCABULARY - 3) + 3
        return other, lengths, None

    def smaller(self) -> Inputs:
        tokens, lengths, _ = self.batch
        return tokens[:2, :2, :3], lengths[:2, :2].clamp(max=3), None

    def single(self) -> Inputs:
        return self.batch

    def sizes(self, item: int) -> dict[str, int]:
        lengths = SENTENCES[item]
        return {"text": sum(lengths), "sentences": sum(length > 0 for length in lengths), "label": 1}
