"""Streams training rows that do not fit into memory: a shuffle buffer, batches by cost, and an exact position to resume from.

    records → every ranks-th one → encode → shuffle buffer → a random half of it, cut into batches of similar cost

All random choices are functions of the seed, the epoch and how often the buffer was drawn from, so the position is a few
record numbers, and a resumed stream yields exactly the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from saccade.data.batching import Corpus, Cost, batches_of, check_batch_size, check_rank, widths_of
from saccade.errors import SaccadeError


@dataclass
class _Position:
    """The position within an epoch, by record numbers, as :meth:`Stream.state` returns it."""

    epoch: int = -1
    rank: int = 0
    ranks: int = 1
    consumed: int = 0  # records read so far, those of other ranks included
    draws: int = 0  # from the buffer
    buffer: list[int] = field(default_factory=list)
    pending: list[list[int]] = field(default_factory=list)  # batches that were cut but not yet yielded


class Stream:
    """A corpus that is read during training; the training loop takes it in place of a :class:`Corpus`.

    Args:
        records: opens the records: it is called for every epoch, and must give the same records in the same order.
        encode: record → row, as a task's corpus has them.
        cost: row → its cost in a batch's budget.
        buffer: rows that are held in memory to be shuffled.
        shared: data that all rows refer to, as in :class:`Corpus`.
    """

    def __init__(
        self,
        records: Callable[[], Iterable[Any]],
        encode: Callable[[Any], Any],
        cost: Callable[[Any], Cost],
        *,
        buffer: int = 10_000,
        shared: Any = None,
    ) -> None:
        if buffer < 2:
            raise SaccadeError(f"a stream's buffer must hold at least 2 rows: got {buffer}")
        self._records, self._encode, self._cost = records, encode, cost
        self._size, self._shared = buffer, shared
        self._position = _Position()
        self._rows: dict[int, tuple[Any, Any]] = {}  # record and row, by number, of all in buffer or pending

    def epoch(
        self, epoch: int, *, tokens: int | None, records: int | None, seed: int, rank: int = 0, ranks: int = 1
    ) -> Iterator[Corpus]:
        """The batches of an epoch, each as a corpus of its rows; the remaining ones if the stream is within that epoch.

        ``tokens`` and ``records`` bound a batch as in :func:`saccade.data.batching.plan`. A rank reads the records whose
        number modulo ``ranks`` is its own. The ranks' numbers of batches may differ, since costs are known only as rows come:
        an epoch ends for all ranks with the first that has no batch left.
        """
        check_batch_size(tokens, records)
        check_rank(rank, ranks)
        if epoch != self._position.epoch:
            self._position, self._rows = _Position(epoch, rank, ranks), {}
        position = self._position
        if (position.rank, position.ranks) != (rank, ranks):
            raise SaccadeError(
                f"expected to resume as rank {position.rank} of {position.ranks}, found rank {rank} of {ranks}"
            )
        reader = self._reopen()
        while self._position is position:
            if not position.pending:
                self._fill(reader, tokens)
                self._draw(tokens, records, seed)
            if not position.pending:
                return
            numbers = position.pending.pop(0)
            made = [self._rows.pop(number) for number in numbers]
            rows = [row for _, row in made]
            yield Corpus([record for record, _ in made], rows, [self._cost(row) for row in rows], shared=self._shared)

    def state(self) -> dict[str, Any]:
        """The position after the last batch that was yielded, as plain JSON."""
        return asdict(self._position)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from a position; the records before it are read again and skipped."""
        try:
            self._position, self._rows = _Position(**state), {}
        except TypeError as error:
            raise SaccadeError(f"expected the state of a stream, found another: {error}") from None

    def _reopen(self) -> Iterator[tuple[int, Any]]:
        """Records with their numbers from the position on; rows that are held but not in memory are read again."""
        position, reader = self._position, enumerate(self._records())
        missing = {*position.buffer, *(number for batch in position.pending for number in batch)} - self._rows.keys()
        skipped = 0
        for number, record in islice(reader, position.consumed):
            skipped = number + 1
            if number in missing:
                self._rows[number] = record, self._encode(record)
        if skipped < position.consumed:
            raise SaccadeError(
                f"expected a stream of at least {position.consumed:,} records, as before, found {skipped:,}"
            )
        return reader

    def _fill(self, reader: Iterator[tuple[int, Any]], tokens: int | None) -> None:
        position = self._position
        while len(position.buffer) < self._size:
            number, record = next(reader, (None, None))
            if number is None:
                return
            position.consumed = number + 1
            if number % position.ranks != position.rank:
                continue
            row = self._encode(record)
            if tokens is not None and (width := int(widths_of([self._cost(row)])[0])) > tokens:
                raise SaccadeError(
                    f"record {number + 1} does not fit into a batch of {tokens} tokens: it has {width}; raise "
                    "train.batch_tokens or limit the length of records"
                )
            self._rows[number] = record, row
            position.buffer.append(number)

    def _draw(self, tokens: int | None, records: int | None, seed: int) -> None:
        """Cut a random half of a full buffer into batches; at the end of the stream, all that is left."""
        position = self._position
        if not position.buffer:
            return
        position.draws += 1
        entropy = (seed, position.epoch, position.draws)
        chosen = list(position.buffer)
        if len(chosen) == self._size:
            random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence((*entropy, 1))))
            chosen = [position.buffer[place] for place in random.permutation(self._size)[: self._size // 2].tolist()]
        costs = [self._cost(self._rows[number][1]) for number in chosen]
        batches = batches_of(costs, tokens=tokens, records=records, entropy=entropy)
        position.pending = [[chosen[place] for place in batch] for batch in batches]
        drawn = set(chosen)
        position.buffer = [number for number in position.buffer if number not in drawn]
