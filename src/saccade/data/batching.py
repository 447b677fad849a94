"""Pairs of ids to padded batches, and the order in which an epoch visits them.

A plan is a pure function of the lengths, the budget, the seed and the epoch: a run that stopped in epoch 3 before batch
117 makes the same plan again and goes on at batch 117. Pairs of similar length share a batch, since padding is waste:
the shuffled corpus is cut into pools of about a hundred batches, each pool is sorted and cut, and the batches of all
pools are shuffled.

Legend: B batch, S source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.sending import Sendable
from saccade.data.text import Tokenizer
from saccade.errors import SaccadeError

POOL = 100  # batches: enough to find neighbours of equal length, few enough to keep an epoch random
CLOSING = 1  # the <eos> after the tokens of a side, or the <bos> before them: one more position than tokens


@dataclass(frozen=True)
class Batch(Sendable):
    """Padded pairs. The decoder reads `target_in` and should say `target_out`, one step ahead."""

    source: Int64[Tensor, "B S"]  # tokens <eos> <pad> …
    source_lengths: Int64[Tensor, " B"]  # <eos> counted
    target_in: Int64[Tensor, "B T"]  # <bos> tokens <pad> …
    target_out: Int64[Tensor, "B T"]  # tokens <eos> <pad> …
    target_lengths: Int64[Tensor, " B"]  # <eos> counted
    indices: list[int]  # where the pairs stand in their corpus
    tokens: int  # real target tokens, <eos> counted: known without asking the device

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes: rows of length 1 without a target below, padding on the right of both sides.

        What is added weighs nothing in a loss. In 24 epochs of Multi30k, 4096 tokens a batch, 144 shapes become 57; it costs
        3 % more steps of a decoder and 7 % more positions.
        """
        (B, S), T = self.source.shape, self.target_in.shape[1]
        rows, source, target = rounded(B, 8) - B, rounded(S, 2) - S, rounded(T, 2) - T
        return replace(
            self,
            source=extended(self.source, rows, source),
            source_lengths=functional.pad(self.source_lengths, (0, rows), value=1),
            target_in=extended(self.target_in, rows, target),
            target_out=extended(self.target_out, rows, target),
            target_lengths=functional.pad(self.target_lengths, (0, rows), value=1),
        )


def collate(encoded: Sequence[tuple[list[int], list[int]]], indices: Sequence[int]) -> Batch:
    """Close, shift and pad the pairs of one batch; `indices` says where each stands in its corpus."""
    if not encoded or len(encoded) != len(indices):
        raise SaccadeError(
            f"a batch needs pairs and an index for each: got {len(encoded)} pairs, {len(indices)} indices"
        )
    (source, _), source_lengths = _closed_and_opened([source for source, _ in encoded])
    (target_out, target_in), target_lengths = _closed_and_opened([target for _, target in encoded])
    return Batch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_lengths=torch.from_numpy(target_lengths),
        indices=list(indices),
        tokens=int(target_lengths.sum()),
    )


def _closed_and_opened(rows: list[list[int]]) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The rows with <eos> behind them and with <bos> before them, padded [B, T], and their lengths with it [B].

    One pass over all tokens at once: a batch of thousands must not take longer to lay out than to learn from.
    """
    counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(counts.sum()))
    inside = np.arange(counts.max()) < counts[:, None]
    closed, opened = (np.full((len(rows), inside.shape[1] + CLOSING), Tokenizer.PAD, dtype=np.int64) for _ in range(2))
    closed[:, :-1][inside] = opened[:, 1:][inside] = tokens
    closed[np.arange(len(rows)), counts] = Tokenizer.EOS
    opened[:, 0] = Tokenizer.BOS
    return (closed, opened), counts + CLOSING


def extended(table: Int64[Tensor, "B T"], rows: int, columns: int) -> Int64[Tensor, "B T"]:
    """A table with so many rows and columns of padding more."""
    return functional.pad(table, (0, columns, 0, rows), value=Tokenizer.PAD)


def rounded(size: int, step: int) -> int:
    """Up to a multiple of a step that doubles as the size does, so that long and short ones waste the same share."""
    while step * 16 < size:
        step *= 2
    return -(-size // step) * step


def plan(
    lengths: Sequence[tuple[int, int]],
    *,
    tokens: int | None,
    sentences: int | None,
    seed: int,
    epoch: int,
    shuffle: bool = True,
) -> list[list[int]]:
    """The batches of an epoch, as indices into the corpus; every index once.

    `lengths` are the numbers of tokens (source, target) of each pair, without <bos> and <eos>. A batch holds at most
    `sentences` pairs, and its larger side, padding included, at most `tokens` tokens; either may be None, not both.
    Without `shuffle` the corpus is sorted by length and the same in every epoch.
    """
    if tokens is None and sentences is None:
        raise SaccadeError("a batch needs a size: set its tokens or its sentences")
    for name, value, least in (
        ("tokens", tokens, 1),
        ("sentences", sentences, 1),
        ("seed", seed, 0),
        ("epoch", epoch, 0),
    ):
        if value is not None and value < least:
            raise SaccadeError(f"{name} must be at least {least}: got {value}")
    if not len(lengths):
        return []
    sizes = np.asarray(lengths, dtype=np.int64).reshape(-1, 2) + CLOSING
    widths = sizes.max(axis=1)  # a pair's positions on its longer side, which is what the budget counts
    _refuse_too_long(sizes, widths, tokens)
    if not shuffle:
        return list(_cut(_sorted(np.arange(len(sizes)), sizes, widths), widths, tokens, sentences))
    # numpy freezes RandomState's stream for good, and Generator's not: a resumed run may meet a newer numpy.
    random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([seed, epoch])))
    order = random.permutation(len(sizes))
    pool = _pool_size(widths, tokens, sentences)
    batches = [
        batch
        for start in range(0, len(order), pool)
        for batch in _cut(_sorted(order[start : start + pool], sizes, widths), widths, tokens, sentences)
    ]
    return [batches[number] for number in random.permutation(len(batches))]


def _refuse_too_long(sizes: np.ndarray, widths: np.ndarray, tokens: int | None) -> None:
    longest = int(widths.argmax())
    if tokens is not None and widths[longest] > tokens:
        source, target = (int(size) - CLOSING for size in sizes[longest])
        raise SaccadeError(
            f"pair {longest + 1} does not fit into a batch of {tokens} tokens: its source has {source} tokens and its "
            f"target {target}, and each side is closed by one more; raise the batch's tokens or limit data.max_length"
        )


def _pool_size(widths: np.ndarray, tokens: int | None, sentences: int | None) -> int:
    by_tokens = len(widths) if tokens is None else max(1, int(tokens / widths.mean()))
    return POOL * min(by_tokens, len(widths) if sentences is None else sentences)


def _sorted(indices: np.ndarray, sizes: np.ndarray, widths: np.ndarray) -> np.ndarray:
    # By the width that is paid for, then by the target, whose positions are a decoder's steps; equals keep their order.
    return indices[np.lexsort((sizes[indices, 1], widths[indices]))]


def _cut(indices: np.ndarray, widths: np.ndarray, tokens: int | None, sentences: int | None) -> Iterator[list[int]]:
    """Batches from sorted indices: the newest is the widest, so its width is the batch's."""
    batch: list[int] = []
    for index, width in zip(indices.tolist(), widths[indices].tolist(), strict=True):
        count = len(batch) + 1
        if batch and ((tokens is not None and width * count > tokens) or (sentences is not None and count > sentences)):
            yield batch
            batch = []
        batch.append(index)
    yield batch
