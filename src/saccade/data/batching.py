"""Plans the batches of an epoch: which rows of a corpus share a batch, and in what order batches come.

A plan is a pure function of the costs, the budget, the seed, the epoch and the rank: a run that stopped in epoch 3 before
batch 117 makes the same plan again and continues with batch 117. Rows of similar cost share a batch, to reduce padding: the
shuffled corpus is cut into pools of about a hundred batches, each pool is sorted and cut, and the batches of all pools are
shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
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

Cost = int | tuple[int, int]
"""The cost of a row in a batch's budget: its positions, or its tokens (source, target) without <bos> and <eos>."""


def extended(table: Int64[Tensor, "B T"], rows: int, columns: int) -> Int64[Tensor, "B T"]:
    """The table with additional rows and columns of padding."""
    return functional.pad(table, (0, columns, 0, rows), value=Tokenizer.PAD)


def closed_and_opened(rows: Sequence[Sequence[int]]) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The rows followed by <eos>, and the rows after <bos>, padded [B, T], and their lengths including it [B].

    Vectorised over all tokens: for large batches a Python loop would take longer than the training step.
    """
    counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(counts.sum()))
    inside = np.arange(counts.max()) < counts[:, None]
    closed, opened = (np.full((len(rows), inside.shape[1] + CLOSING), Tokenizer.PAD, dtype=np.int64) for _ in range(2))
    closed[:, :-1][inside] = opened[:, 1:][inside] = tokens
    closed[np.arange(len(rows)), counts] = Tokenizer.EOS
    opened[:, 0] = Tokenizer.BOS
    return (closed, opened), counts + CLOSING


def rounded(size: int, step: int) -> int:
    """Rounded up to a multiple of a step that doubles with the size, so that the share of padding stays bounded."""
    while step * 16 < size:
        step *= 2
    return -(-size // step) * step


@dataclass(frozen=True)
class Corpus:
    """Rows by number with their costs: records made ready for batching.

    Attributes:
        records: what was read; one per row, or, where rows are cut from a running text, any number.
        rows: the input of :meth:`saccade.task.Task.batch`: encoded records, or pieces of them.
        costs: the cost per row for :func:`plan`: its positions, or its tokens (source, target).
        note: a message about the corpus before training: counts, cut records.
        cut: a message about over-long records that were cut; empty if none was.
        shared: data that all rows refer to, such as the ids of one long text.
    """

    records: Sequence[Any]
    rows: Sequence[Any]
    costs: Sequence[Cost] | np.ndarray
    note: str = ""
    cut: str = ""
    shared: Any = None

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.costs):
            raise SaccadeError(f"a corpus needs one cost per row: got {len(self.rows)} rows, {len(self.costs)} costs")

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, count: int | None) -> Corpus:
        """The corpus of the first ``count`` records; itself where ``count`` is None."""
        if count is None:
            return self
        if len(self.records) != len(self.rows):
            raise SaccadeError(
                f"the first records of a corpus need one row per record: got {len(self.records)} records, "
                f"{len(self.rows)} rows"
            )
        return replace(self, records=self.records[:count], rows=self.rows[:count], costs=self.costs[:count])


def plan(
    costs: Sequence[Cost] | np.ndarray,
    *,
    tokens: int | None,
    records: int | None,
    seed: int,
    epoch: int,
    rank: int = 0,
    ranks: int = 1,
    shuffle: bool = True,
) -> list[list[int]]:
    """The batches of an epoch that one of ``ranks`` processes trains on, as row numbers.

    ``costs`` has an entry per row: its positions, or its tokens (source, target) without <bos> and <eos>, of which the longer
    side counts, with one position more. A batch holds at most ``records`` rows and, padding included, at most ``tokens``
    positions; either may be None, not both. Without ``shuffle`` rows are sorted by cost, the same in every epoch.

    All ranks together visit every row once, and each rank has the same number of batches. Batch i of the
    plan goes to rank i mod ``ranks``. If their number is not a multiple of ``ranks``, the largest batches are halved. Only
    if every batch has one row are the first batches repeated.
    """
    check_batch_size(tokens, records)
    for name, value in (("seed", seed), ("epoch", epoch)):
        if value < 0:
            raise SaccadeError(f"{name} must be at least 0: got {value}")
    check_rank(rank, ranks)
    batches = batches_of(costs, tokens=tokens, records=records, entropy=(seed, epoch) if shuffle else None)
    return _divisible(batches, ranks)[rank::ranks]


def batches_of(
    costs: Sequence[Cost] | np.ndarray, *, tokens: int | None, records: int | None, entropy: Sequence[int] | None
) -> list[list[int]]:
    """Rows of similar cost in batches, shuffled by a generator seeded with ``entropy``; sorted by cost where it is None."""
    if not len(costs):
        return []
    widths, order = _widths(costs)
    _refuse_too_long(costs, widths, tokens)
    if entropy is None:
        return list(_cut(_sorted(np.arange(len(widths)), widths, order), widths, tokens, records))
    # numpy guarantees RandomState's stream across releases, but not Generator's: a resumed run may use a newer numpy.
    random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(entropy)))
    shuffled = random.permutation(len(widths))
    pool = _pool_size(widths, tokens, records)
    batches = [
        batch
        for start in range(0, len(shuffled), pool)
        for batch in _cut(_sorted(shuffled[start : start + pool], widths, order), widths, tokens, records)
    ]
    return [batches[number] for number in random.permutation(len(batches))]


def group(costs: Sequence[Any] | np.ndarray, *, most: int, positions: int) -> Iterator[list[int]]:
    """Rows of similar cost in groups to predict together: at most ``most`` rows and, padding included, ``positions``."""
    batch: list[int] = []
    for number in sorted(range(len(costs)), key=costs.__getitem__):
        if batch and (len(batch) == most or costs[number] * (len(batch) + 1) > positions):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def widths_of(costs: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Per row, the positions that it takes of a batch."""
    return _widths(costs)[0]


def check_batch_size(tokens: int | None, records: int | None) -> None:
    """Raise unless a batch is bounded by a positive number of tokens or records."""
    if tokens is None and records is None:
        raise SaccadeError("a batch needs a size: set its tokens or its records")
    for name, value in (("tokens", tokens), ("records", records)):
        if value is not None and value < 1:
            raise SaccadeError(f"{name} must be at least 1: got {value}")


def check_rank(rank: int, ranks: int) -> None:
    """Raise unless ``rank`` is one of ``ranks``."""
    if not 0 <= rank < ranks:
        raise SaccadeError(f"rank must be between 0 and ranks - 1: got rank={rank}, ranks={ranks}")


def _widths(costs: Sequence[Cost] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per row the positions that the budget counts, and what rows of equal width are sorted by."""
    sizes = np.asarray(costs, dtype=np.int64)
    if sizes.ndim == 1:
        return sizes, np.zeros_like(sizes)
    # By the target, whose positions are a decoder's steps.
    return sizes.max(axis=1) + CLOSING, sizes[:, 1]


def _refuse_too_long(costs: Sequence[Cost] | np.ndarray, widths: np.ndarray, tokens: int | None) -> None:
    longest = int(widths.argmax())
    if tokens is None or widths[longest] <= tokens:
        return
    if np.ndim(costs[longest]) == 0:
        raise SaccadeError(
            f"record {longest + 1} does not fit into a batch of {tokens} tokens: it has {widths[longest]}; raise "
            "train.batch_tokens or limit the length of records"
        )
    source, target = costs[longest]  # type: ignore[misc]
    raise SaccadeError(
        f"pair {longest + 1} does not fit into a batch of {tokens} tokens: its source has {source} tokens and its "
        f"target {target}, plus one end token each; raise the batch's tokens or limit data.max_length"
    )


def _pool_size(widths: np.ndarray, tokens: int | None, records: int | None) -> int:
    by_tokens = len(widths) if tokens is None else max(1, int(tokens / widths.mean()))
    return POOL * min(by_tokens, len(widths) if records is None else records)


def _sorted(numbers: np.ndarray, widths: np.ndarray, order: np.ndarray) -> np.ndarray:
    return numbers[np.lexsort((order[numbers], widths[numbers]))]  # equals keep their order


def _cut(numbers: np.ndarray, widths: np.ndarray, tokens: int | None, records: int | None) -> Iterator[list[int]]:
    """Batches from sorted rows: the last row is the widest, so its width is the batch's."""
    batch: list[int] = []
    for number, width in zip(numbers.tolist(), widths[numbers].tolist(), strict=True):
        count = len(batch) + 1
        if batch and ((tokens is not None and width * count > tokens) or (records is not None and count > records)):
            yield batch
            batch = []
        batch.append(number)
    yield batch


def _divisible(batches: list[list[int]], ranks: int) -> list[list[int]]:
    """As many batches as the ranks can share evenly: the largest are halved, then the first are repeated."""
    batches = list(batches)
    while len(batches) % ranks and max(map(len, batches)) > 1:
        largest = max(range(len(batches)), key=lambda number: len(batches[number]))
        rows, middle = batches[largest], len(batches[largest]) // 2
        batches[largest : largest + 1] = [rows[:middle], rows[middle:]]
    missing = -len(batches) % ranks
    return batches + [batches[number % len(batches)] for number in range(missing)]


# ----------------------------------------------------------------------------------------------------
# Batches sent to a device.
#
# Every batch is a frozen dataclass of tensors and of host-side data: positions in a corpus, counts.


class TensorBatch:
    """A dataclass whose tensors move to a device together."""

    def to(self, device: torch.device | str) -> Self:
        """The batch on a device; the copy to a GPU is asynchronous."""
        batch, place = cast(Any, self), torch.device(device)
        parts = {field.name: getattr(self, field.name) for field in fields(batch)}
        moved: Self = replace(
            batch, **{name: to_device(part, place) for name, part in parts.items() if isinstance(part, Tensor)}
        )
        return moved


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; the copy to a GPU is asynchronous."""
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    # Only copies from pinned memory are asynchronous; it is not freed before the copy is done.
    return tensor.pin_memory().to(device, non_blocking=True)
