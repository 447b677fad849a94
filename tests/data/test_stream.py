"""A stream yields every record once per epoch, in batches by cost, and resumes with exactly the batches that were left."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.batching import Corpus
from saccade.data.stream import Stream
from saccade.errors import SaccadeError

TOKENS = {"tokens": 60, "records": None, "seed": 3}
SIZES = ({"tokens": 40, "records": None}, {"tokens": None, "records": 5}, {"tokens": 90, "records": 4})


def texts(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [f"{number} " + "x" * draw.randint(0, 20) for number in range(count)]


def stream_of(count: int = 203, buffer: int = 32, **options: Any) -> Stream:
    return Stream(lambda: iter(texts(count)), lambda text: list(text.encode()), len, buffer=buffer, **options)


def numbers_of(batch: Corpus) -> list[int]:
    return [int(text.split()[0]) for text in batch.records]


def epoch_of(stream: Stream, epoch: int = 0, **size: Any) -> list[list[int]]:
    return [numbers_of(batch) for batch in stream.epoch(epoch, **{**TOKENS, **size})]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_ranks_together_visit_every_record_once_and_no_batch_exceeds_its_budget(size: dict, ranks: int) -> None:
    for count in (0, 1, 2, 31, 32, 33, 64, 203):
        for buffer in (2, 7, 32, 1000):
            visited = []
            for rank in range(ranks):
                stream = stream_of(count, buffer)
                for batch in stream.epoch(2, **size, seed=3, rank=rank, ranks=ranks):
                    numbers = numbers_of(batch)
                    assert all(number % ranks == rank for number in numbers)
                    assert [bytes(row).decode() for row in batch.rows] == list(batch.records)
                    assert list(batch.costs) == [len(row) for row in batch.rows]
                    assert size["tokens"] is None or len(batch) * max(batch.costs) <= size["tokens"]
                    assert size["records"] is None or len(batch) <= size["records"]
                    visited += numbers
            assert sorted(visited) == list(range(count))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("buffer", [2, 32, 1000])
def test_a_resumed_stream_yields_the_batches_that_were_left(ranks: int, buffer: int) -> None:
    place = {"rank": ranks - 1, "ranks": ranks}
    whole = [epoch_of(stream_of(buffer=buffer), epoch, **place) for epoch in (0, 1)]
    for done in (0, 1, 2, len(whole[0]) // 2, len(whole[0]) - 1, len(whole[0])):
        stream = stream_of(buffer=buffer)
        for _ in islice(stream.epoch(0, **TOKENS, **place), done):
            pass
        again = stream_of(buffer=buffer)
        again.resume(json.loads(json.dumps(stream.state())))
        assert again.state() == stream.state()
        assert epoch_of(again, 0, **place) == whole[0][done:]
        assert epoch_of(again, 1, **place) == whole[1]


def test_a_stream_continues_within_an_epoch_that_was_left() -> None:
    stream, whole = stream_of(), epoch_of(stream_of())
    first = [numbers_of(batch) for batch in islice(stream.epoch(0, **TOKENS), 7)]
    assert first + epoch_of(stream) == whole
    assert epoch_of(stream) == [], "the epoch is over"


def test_an_epoch_depends_on_its_number_and_the_seed_alone() -> None:
    plans = [epoch_of(stream_of(), epoch, seed=seed) for epoch, seed in ((0, 1), (0, 1), (1, 1), (0, 2))]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2] != plans[3] != plans[0]
    stream = stream_of()
    epoch_of(stream, 0)
    assert epoch_of(stream, 5) == epoch_of(stream_of(), 5)


def test_batches_are_frozen_for_runs_that_resume_in_years() -> None:
    assert epoch_of(stream_of(11, 6), 2, tokens=40) == [[1], [3, 5], [2, 0], [6], [4, 10], [9, 7], [8]]


def test_a_stream_is_shuffled_beyond_its_buffer_and_batches_hold_rows_of_similar_cost() -> None:
    batches = list(stream_of(2000, 400).epoch(0, tokens=200, records=None, seed=1))
    real, padded = sum(sum(batch.costs) for batch in batches), sum(len(batch) * max(batch.costs) for batch in batches)
    assert real / padded > 0.9
    order = [number for batch in batches for number in numbers_of(batch)]
    late = max(place - number for place, number in enumerate(order))
    assert late > 500, "a row may stay in the buffer for longer than one draw"
    rises = sum(first < second for first, second in pairwise(max(batch.costs) for batch in batches))
    assert 0.2 < rises / len(batches) < 0.7


def test_no_more_rows_are_held_than_the_buffer_has_room_for() -> None:
    read = yielded = 0

    def counted() -> Iterator[str]:
        nonlocal read
        for text in texts(500):
            read += 1
            yield text

    stream = Stream(counted, lambda text: list(text.encode()), len, buffer=50)
    for batch in stream.epoch(0, **TOKENS):
        assert read - yielded <= 50
        yielded += len(batch)
    assert yielded == 500


def test_a_stream_touches_no_global_random_state() -> None:
    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]
    epoch_of(stream_of())
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]


def test_what_all_rows_share_comes_with_every_batch() -> None:
    stream = stream_of(9, shared={"letters": 3})
    assert all(batch.shared == {"letters": 3} for batch in stream.epoch(0, **TOKENS))


def test_a_stream_reads_files_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(texts(20)))

    def lines() -> Iterator[str]:
        with open(tmp_path / "a.txt", encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")

    stream = Stream(lines, lambda text: list(text.encode()), len, buffer=8)
    assert epoch_of(stream) == epoch_of(stream_of(20, 8))


def test_errors_say_what_was_expected_and_found() -> None:
    with pytest.raises(SaccadeError, match="at least 2 rows: got 1"):
        stream_of(buffer=1)
    with pytest.raises(SaccadeError, match="record 1 does not fit into a batch of 3 tokens: it has"):
        epoch_of(stream_of(), tokens=3)
    with pytest.raises(SaccadeError, match="rank=3, ranks=3"):
        epoch_of(stream_of(), rank=3, ranks=3)
    with pytest.raises(SaccadeError, match="a batch needs a size"):
        epoch_of(stream_of(), tokens=None)
    with pytest.raises(SaccadeError, match="the state of a stream"):
        stream_of().resume({"place": 3})
    stream = stream_of()
    next(stream.epoch(0, **TOKENS))
    shorter = stream_of(9)
    shorter.resume(stream.state())
    with pytest.raises(SaccadeError, match="at least 32 records, as before, found 9"):
        epoch_of(shorter)
    with pytest.raises(SaccadeError, match="rank 0 of 1, found rank 1 of 2"):
        epoch_of(stream, rank=1, ranks=2)
