"""A plan visits every pair once, wastes little, fits its budget, and is the same whenever it is asked for."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
import torch

from saccade.data.batching import Corpus, plan
from saccade.data.pairs.batch import collate
from saccade.errors import SaccadeError


def corpus(pairs: int = 3001) -> list[tuple[int, int]]:
    draw = random.Random(7)
    sources = [draw.randint(1, 50) for _ in range(pairs)]
    return [(source, max(1, source + draw.randint(-3, 3))) for source in sources]


def cost(batch: list[int], lengths: list[tuple[int, int]]) -> int:
    return len(batch) * (max(max(lengths[index]) for index in batch) + 1)


def test_a_batch_is_closed_shifted_and_padded() -> None:
    batch = collate([([7, 8, 9], [5]), ([6], [4, 5, 6, 7])], [12, 3])
    assert batch.source.tolist() == [[7, 8, 9, 2], [6, 2, 0, 0]]
    assert batch.source_lengths.tolist() == [4, 2]
    assert batch.target_in.tolist() == [[1, 5, 0, 0, 0], [1, 4, 5, 6, 7]]
    assert batch.target_out.tolist() == [[5, 2, 0, 0, 0], [4, 5, 6, 7, 2]]
    assert batch.target_lengths.tolist() == [2, 5]
    assert batch.indices == [12, 3]
    assert batch.tokens == 7 == int((batch.target_out != 0).sum())
    assert {tensor.dtype for tensor in (batch.source, batch.target_in, batch.target_out)} == {torch.int64}


def test_an_empty_side_is_still_closed() -> None:
    batch = collate([([], [])], [0])
    assert (batch.source.tolist(), batch.target_in.tolist(), batch.target_out.tolist()) == ([[2]], [[1]], [[2]])


def test_a_batch_moves_whole() -> None:
    moved = collate([([7], [5, 6])], [3]).to("meta")
    tensors = (moved.source, moved.source_lengths, moved.target_in, moved.target_out, moved.target_lengths)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert (moved.indices, moved.tokens) == ([3], 3)


def test_a_token_that_looks_like_an_end_is_kept_where_it_stands() -> None:
    batch = collate([([2, 7], [2, 5, 0, 6]), ([], [9])], [0, 1])
    assert batch.source.tolist() == [[2, 7, 2], [2, 0, 0]]
    assert batch.target_in.tolist() == [[1, 2, 5, 0, 6], [1, 9, 0, 0, 0]]
    assert batch.target_out.tolist() == [[2, 5, 0, 6, 2], [9, 2, 0, 0, 0]]
    assert batch.tokens == 7


def test_a_bucket_adds_rows_of_length_one_and_padding_and_counts_the_same_tokens() -> None:
    batch = collate([([7, 8], [5, 6]), ([6], [4])], [12, 3])
    padded = batch.bucketed()
    assert padded.source.tolist() == [[7, 8, 2, 0], [6, 2, 0, 0], *[[0] * 4] * 6]
    assert padded.target_in.tolist() == [[1, 5, 6, 0], [1, 4, 0, 0], *[[0] * 4] * 6]
    assert padded.target_out.tolist() == [[5, 6, 2, 0], [4, 2, 0, 0], *[[0] * 4] * 6]
    assert padded.source_lengths.tolist() == [3, 2, *[1] * 6]
    assert padded.target_lengths.tolist() == [3, 2, *[1] * 6]
    assert (padded.indices, padded.tokens) == (batch.indices, batch.tokens)
    again = padded.bucketed()
    assert torch.equal(again.source, padded.source) and torch.equal(again.target_lengths, padded.target_lengths)


def test_an_epoch_of_batches_has_few_shapes_and_wastes_little() -> None:
    lengths = corpus(3001)
    sizes = np.asarray(lengths) + 1
    exact, bucketed = set(), set()
    steps, taken = 0, 0
    for epoch in range(3):
        for numbers in plan(lengths, tokens=700, records=None, seed=1, epoch=epoch):
            S, T = sizes[numbers].max(axis=0)
            tokens = collate([([4] * (S - 1), [4] * (T - 1))] * len(numbers), numbers).bucketed()
            exact.add((len(numbers), S, T))
            bucketed.add((*tokens.source.shape, tokens.target_in.shape[1]))
            steps, taken = steps + int(T), taken + tokens.target_in.shape[1]
    assert len(bucketed) < 0.6 * len(exact)
    assert taken < 1.06 * steps


def test_a_batch_without_pairs_or_with_a_missing_index_is_refused() -> None:
    with pytest.raises(SaccadeError, match="got 0 pairs, 0 indices"):
        collate([], [])
    with pytest.raises(SaccadeError, match="got 1 pairs, 2 indices"):
        collate([([4], [4])], [0, 1])


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("tokens", "records"), [(97, None), (None, 7), (300, 5), (51 + 3, None), (None, 1)])
def test_every_pair_once_and_no_batch_over_its_budget(tokens: int | None, records: int | None, shuffle: bool) -> None:
    lengths = corpus(1001)
    batches = plan(lengths, tokens=tokens, records=records, seed=3, epoch=2, shuffle=shuffle)
    assert sorted(index for batch in batches for index in batch) == list(range(1001))
    assert all(batches)
    assert tokens is None or max(cost(batch, lengths) for batch in batches) <= tokens
    assert records is None or max(len(batch) for batch in batches) <= records


def test_the_budget_counts_the_padded_side_that_is_longer_with_its_closing_token() -> None:
    assert plan([(2, 4), (4, 1)], tokens=10, records=None, seed=0, epoch=0, shuffle=False) == [[1, 0]]
    assert plan([(2, 4), (4, 1)], tokens=9, records=None, seed=0, epoch=0, shuffle=False) == [[1], [0]]


def test_the_same_seed_and_epoch_give_the_same_plan_and_others_another() -> None:
    lengths = corpus()
    plans = [
        plan(lengths, tokens=400, records=None, seed=seed, epoch=epoch)
        for seed, epoch in [(1, 0), (1, 0), (1, 1), (2, 0), (0, 1)]
    ]
    assert plans[0] == plans[1]
    assert all(plans[first] != plans[second] for first in range(1, 5) for second in range(first + 1, 5))


def test_a_plan_touches_no_global_random_state() -> None:
    np.random.seed(0)
    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]
    plan(corpus(101), tokens=400, records=None, seed=1, epoch=0)
    after = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]
    assert before == after


def test_a_plan_is_frozen_for_runs_that_resume_in_years() -> None:
    lengths = [(3, 5), (7, 2), (1, 1), (5, 5), (2, 6), (4, 4), (6, 3)]
    # widths 6 8 2 6 7 5 7: sorted 2 5 | 6 6 | 7 7 | 8, since a third of each would pass 16
    assert plan(lengths, tokens=16, records=None, seed=11, epoch=5) == [[3, 0], [6, 4], [2, 5], [1]]


def test_batches_hold_pairs_of_like_length_in_a_random_order() -> None:
    lengths = corpus()
    batches = plan(lengths, tokens=400, records=None, seed=1, epoch=0)
    real = sum(max(lengths[index]) + 1 for batch in batches for index in batch)
    assert real / sum(cost(batch, lengths) for batch in batches) > 0.95
    widths = [cost(batch, lengths) // len(batch) for batch in batches]
    rises = sum(first < second for first, second in pairwise(widths))
    assert 0.35 < rises / len(widths) < 0.6  # sorted batches would rise nearly always or never


def test_the_companions_of_a_pair_change_from_epoch_to_epoch() -> None:
    lengths = [(5, 5)] * 301
    first, second = (plan(lengths, tokens=None, records=7, seed=1, epoch=epoch) for epoch in (0, 1))
    assert not {frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}


def test_a_large_corpus_is_cut_into_pools_so_that_no_batch_is_always_the_longest() -> None:
    lengths = [(length, length) for length in range(1, 2001)]
    batches = plan(lengths, tokens=None, records=5, seed=1, epoch=0)
    spreads = [max(batch) - min(batch) for batch in batches]
    assert 5 < sum(spreads) / len(spreads) < 60  # one pool of everything would give 4, no sorting about 1300


def test_without_shuffling_pairs_are_sorted_and_equals_keep_their_order() -> None:
    lengths = [(3, 3), (1, 1), (3, 3), (2, 1), (1, 1)]
    for epoch in (0, 1):
        batches = plan(lengths, tokens=None, records=2, seed=epoch, epoch=epoch, shuffle=False)
        assert batches == [[1, 4], [3, 0], [2]]


def test_a_pair_longer_than_the_budget_is_named() -> None:
    with pytest.raises(
        SaccadeError, match="pair 3 does not fit into a batch of 8 tokens: its source has 2 tokens and its"
    ):
        plan([(1, 1), (7, 7), (2, 8)], tokens=8, records=None, seed=0, epoch=0)


def test_a_plan_needs_a_budget_and_sound_numbers() -> None:
    with pytest.raises(SaccadeError, match="a batch needs a size"):
        plan([(1, 1)], tokens=None, records=None, seed=0, epoch=0)
    with pytest.raises(SaccadeError, match="records must be at least 1: got 0"):
        plan([(1, 1)], tokens=None, records=0, seed=0, epoch=0)
    with pytest.raises(SaccadeError, match="seed must be at least 0: got -1"):
        plan([(1, 1)], tokens=8, records=None, seed=-1, epoch=0)


def test_no_pairs_make_no_batches() -> None:
    assert plan([], tokens=8, records=None, seed=0, epoch=0) == []


def costs_of(rows: int, seed: int, kind: str) -> list:
    draw = random.Random(seed)
    if kind == "pairs":
        return [(draw.randint(0, 30), draw.randint(0, 30)) for _ in range(rows)]
    return [draw.randint(1, 31) for _ in range(rows)]


@pytest.mark.parametrize("kind", ["pairs", "positions"])
@pytest.mark.parametrize(("tokens", "records"), [(31, None), (200, None), (None, 1), (None, 7), (90, 5)])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_share_every_row_evenly(kind: str, tokens: int | None, records: int | None, ranks: int, shuffle: bool):
    for rows in (0, 1, 2, 3, 7, 8, 13, 64, 233):
        for seed in (0, 1, 9):
            costs = costs_of(rows, seed, kind)
            size = {"tokens": tokens, "records": records, "seed": seed, "epoch": rows % 4, "shuffle": shuffle}
            plans = [plan(costs, **size, rank=rank, ranks=ranks) for rank in range(ranks)]
            assert plans == [plan(costs, **size, rank=rank, ranks=ranks) for rank in range(ranks)]
            assert len({len(batches) for batches in plans}) == 1
            visited = [row for batches in plans for batch in batches for row in batch]
            assert set(visited) == set(range(rows))
            whole = plan(costs, **size)
            batches = [batch for batches in plans for batch in batches]
            assert all(batches)
            assert len(batches) - len(whole) < ranks
            if len(visited) > rows:  # repeated: only where no batch could be halved any more
                assert all(len(batch) == 1 for batch in batches)
            if ranks == 1:
                assert plans == [whole]
            for batch in batches:
                width = max(max(costs[row]) + 1 if kind == "pairs" else costs[row] for row in batch)
                assert tokens is None or width * len(batch) <= tokens
                assert records is None or len(batch) <= records


def test_positions_are_planned_as_pairs_of_one_side() -> None:
    positions = costs_of(1001, 3, "positions")
    for size in ({"tokens": 90, "records": None}, {"tokens": None, "records": 7}):
        pairs = plan([(cost - 1, 0) for cost in positions], **size, seed=4, epoch=1)
        assert plan(positions, **size, seed=4, epoch=1) == plan(np.asarray(positions), **size, seed=4, epoch=1) == pairs


def test_the_largest_batches_are_halved_where_ranks_do_not_come_out_even() -> None:
    costs = [1] * 8
    first, second = (plan(costs, tokens=None, records=4, seed=0, epoch=0, rank=rank, ranks=2) for rank in (0, 1))
    assert [len(batch) for batch in (*first, *second)] == [4, 4]
    plans = [plan(costs, tokens=None, records=4, seed=0, epoch=0, rank=rank, ranks=3) for rank in range(3)]
    assert [[len(batch) for batch in batches] for batches in plans] == [[2], [2], [4]]


def test_a_rank_outside_the_ranks_is_refused() -> None:
    with pytest.raises(SaccadeError, match="rank=2, ranks=2"):
        plan([1, 2], tokens=None, records=1, seed=0, epoch=0, rank=2, ranks=2)


def test_a_row_of_more_positions_than_a_batch_is_named() -> None:
    with pytest.raises(SaccadeError, match="record 2 does not fit into a batch of 8 tokens: it has 9"):
        plan([1, 9, 8], tokens=8, records=None, seed=0, epoch=0)


def test_the_first_records_of_a_corpus_come_with_their_rows_and_costs() -> None:
    corpus = Corpus(["a", "bb", "ccc"], [[1], [2, 2], [3, 3, 3]], [1, 2, 3], note="n", cut="c", shared={"x": 1})
    assert len(corpus) == 3 and corpus.first(None) is corpus
    assert corpus.first(2) == Corpus(["a", "bb"], [[1], [2, 2]], [1, 2], note="n", cut="c", shared={"x": 1})
    assert len(corpus.first(9)) == 3


def test_a_corpus_needs_a_cost_per_row_and_a_row_per_record_to_be_cut() -> None:
    with pytest.raises(SaccadeError, match="2 rows, 1 costs"):
        Corpus(["a"], [[1], [2]], [1])
    with pytest.raises(SaccadeError, match="1 records, 2 rows"):
        Corpus(["a"], [[1], [2]], [1, 1]).first(1)
