"""Pairs of ids to padded batches, and the order in which an epoch visits them.

A plan is a pure function of the lengths, the budget, the seed and the epoch: a run that stopped in epoch 3 before batch
117 makes the same plan again and goes on at batch 117. Pairs of similar length share a batch, since padding is waste:
the shuffled corpus is cut into pools of about a hundred batches, each pool is sorted and cut, and the batches of all
pools are shuffled.

"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Self, cast

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import SaccadeError

POOL = 100  # batches: enough to find neighbours of equal length, few enough to keep an epoch random
CLOSING = 1  # the <eos> after the tokens of a side, or the <bos> before them: one more position than tokens


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


# ----------------------------------------------------------------------------------------------------
# Batches sent to a device.
#
# Every batch is a frozen dataclass of tensors, and of what the host alone must know: places in a corpus, counts.


class TensorBatch:
    """A dataclass whose tensors go to a device together."""

    def to(self, device: torch.device | str) -> Self:
        """The batch on a device; a GPU is sent it without being waited for."""
        batch, place = cast(Any, self), torch.device(device)
        parts = {field.name: getattr(self, field.name) for field in fields(batch)}
        moved: Self = replace(
            batch, **{name: to_device(part, place) for name, part in parts.items() if isinstance(part, Tensor)}
        )
        return moved


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; a GPU is sent it without being waited for."""
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    # From other memory a copy waits for what the device is doing; pinned memory is kept until it was read.
    return tensor.pin_memory().to(device, non_blocking=True)
