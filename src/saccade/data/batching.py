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

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from saccade.data.text import Tokenizer
from saccade.errors import SaccadeError

POOL = 100  # batches: enough to find neighbours of equal length, few enough to keep an epoch random
CLOSING = 1  # the <eos> after the tokens of a side, or the <bos> before them: one more position than tokens


@dataclass(frozen=True)
class Batch:
    """Padded pairs. The decoder reads `target_in` and should say `target_out`, one step ahead."""

    source: Int64[Tensor, "B S"]  # tokens <eos> <pad> …
    source_lengths: Int64[Tensor, " B"]  # <eos> counted
    target_in: Int64[Tensor, "B T"]  # <bos> tokens <pad> …
    target_out: Int64[Tensor, "B T"]  # tokens <eos> <pad> …
    target_lengths: Int64[Tensor, " B"]  # <eos> counted
    indices: list[int]  # where the pairs stand in their corpus
    tokens: int  # real target tokens, <eos> counted: known without asking the device

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        names = ("source", "source_lengths", "target_in", "target_out", "target_lengths")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=non_blocking) for name in names})


def collate(encoded: Sequence[tuple[list[int], list[int]]], indices: Sequence[int]) -> Batch:
    """Close, shift and pad the pairs of one batch; `indices` says where each stands in its corpus."""
    if not encoded or len(encoded) != len(indices):
        raise SaccadeError(
            f"a batch needs pairs and an index for each: got {len(encoded)} pairs, {len(indices)} indices"
        )
    sources = [[*source, Tokenizer.EOS] for source, _ in encoded]
    targets = [[*target, Tokenizer.EOS] for _, target in encoded]
    return Batch(
        source=_padded(sources),
        source_lengths=torch.tensor([len(source) for source in sources]),
        target_in=_padded([[Tokenizer.BOS, *target] for _, target in encoded]),
        target_out=_padded(targets),
        target_lengths=torch.tensor([len(target) for target in targets]),
        indices=list(indices),
        tokens=sum(len(target) for target in targets),
    )


def _padded(rows: list[list[int]]) -> Int64[Tensor, "B T"]:
    width = max(len(row) for row in rows)
    return torch.tensor([row + [Tokenizer.PAD] * (width - len(row)) for row in rows], dtype=torch.int64)


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
