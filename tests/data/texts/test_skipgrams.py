"""Pairs of words that stand near each other, and words drawn against them."""

from collections import Counter

import numpy as np
import pytest
import torch

from saccade.data.texts.masking import Visit
from saccade.data.texts.skipgrams import Frequencies, Stretches, collate


def stretches(*sizes: int, chunk: int = 50) -> Stretches:
    """Texts whose words are all different, numbered from 4."""
    ends = np.cumsum(sizes)
    return Stretches.of([np.arange(end - size, end, dtype=np.int32) + 4 for end, size in zip(ends, sizes)], chunk)


def flat(vocabulary: int) -> Frequencies:
    return Frequencies.of([0] * 4 + [1] * (vocabulary - 4), subsample=0.0)


def pairs(batch) -> Counter[tuple[int, int]]:
    return Counter(zip(batch.centres.tolist(), batch.contexts.tolist()))


def test_a_text_is_cut_into_even_parts_that_hold_all_of_it():
    found = stretches(7, 1, 5, chunk=4)
    assert found.bounds.tolist() == [0, 3, 7, 9, 12]  # a word alone has no neighbour
    assert found.ids.tolist() == [*range(4, 11), *range(12, 17)]
    assert len(found) == 4 and found.first(2).ids.tolist() == list(range(4, 11))
    assert len(stretches(1, 1)) == 0


def test_a_pair_stands_within_the_window_and_within_one_stretch():
    batch = collate(stretches(9, 7), Visit([0, 1], 3), flat(30), window=3, negatives=2)
    found = pairs(batch)
    assert max(found.values()) == 1
    for centre, context in found:
        assert 0 < abs(centre - context) <= 3 and (centre < 13) == (context < 13)
    for centre in range(4, 20):  # every word is a centre, and its next neighbours are always seen
        for context in (centre - 1, centre + 1):
            if 4 <= context < 20 and (centre < 13) == (context < 13):
                assert (centre, context) in found
    assert (
        batch.tokens == len(batch.centres) and batch.indices == [0, 1] and batch.weights.tolist() == [1] * batch.tokens
    )


def test_how_far_a_window_reaches_is_drawn_evenly():
    batch = collate(stretches(3000, chunk=3000), Visit([0], 1), flat(3004), window=3, negatives=1)
    distance = (batch.centres - batch.contexts).abs()
    counts = torch.bincount(distance)[1:] / len(batch.centres)
    torch.testing.assert_close(counts, torch.tensor([3, 2, 1]) / 6, atol=0.02, rtol=0)


def test_what_is_drawn_depends_on_the_epoch_and_not_on_the_batch():
    texts = stretches(9, 7, 5)
    one, other = (collate(texts, Visit([0, 2], draw), flat(30), window=3, negatives=2) for draw in (1, 2))
    assert not (len(one.centres) == len(other.centres) and torch.equal(one.against, other.against))
    alone = collate(texts, Visit([2], 1), flat(30), window=3, negatives=2)
    mine = one.centres >= 20  # the third text's
    by_pair = {
        (c, o): row
        for c, o, row in zip(one.centres[mine].tolist(), one.contexts[mine].tolist(), one.against[mine].tolist())
    }
    assert by_pair == {
        (c, o): row for c, o, row in zip(alone.centres.tolist(), alone.contexts.tolist(), alone.against.tolist())
    }
    rows = {tuple(row) for row in collate(texts, Visit([0], 1), flat(900), window=3, negatives=4).against.tolist()}
    assert len(rows) > 20  # each pair has words of its own


def test_words_are_drawn_by_their_count_to_the_power_of_three_quarters():
    frequencies = Frequencies.of([0, 0, 0, 0, 1, 16, 81], subsample=0.0)
    shares = np.bincount(frequencies.table, minlength=7) / len(frequencies.table)
    np.testing.assert_allclose(shares[4:], np.array([1, 8, 27]) / 36, atol=1e-5)
    assert not shares[:4].any()


def test_frequent_words_are_kept_in_part_and_windows_reach_over_those_taken_out():
    frequencies = Frequencies.of([0, 0, 0, 0, 9, 1], subsample=0.1)
    np.testing.assert_allclose(frequencies.kept[4:], [1 / 3, 1.0])
    text = np.array([5, *[4] * 9] * 4000, dtype=np.int32)
    batch = collate(Stretches.of([text], 100_000), Visit([0], 1), frequencies, window=1, negatives=1)
    together = pairs(batch)
    # Of 4000 + 36000 words 4000 + 12000 stay; a rare word meets a rare one where all nine between them go: (2/3)⁹ = 2.6 %.
    assert batch.tokens == pytest.approx(2 * 16_000, rel=0.02)
    assert together[5, 5] == pytest.approx(2 * 4000 * (2 / 3) ** 9, rel=0.3)


def test_a_batch_in_one_of_few_shapes_weighs_the_same():
    batch = collate(stretches(9, 7), Visit([0, 1], 3), flat(30), window=3, negatives=2)
    wide = batch.bucketed()
    assert len(wide.centres) % 64 == 0 and wide.against.shape == (len(wide.centres), 2)
    assert float(wide.weights.sum()) == wide.tokens == batch.tokens
    nothing = collate(stretches(2), Visit([0], 0), Frequencies.of([0] * 4 + [1, 1], 1e-30), window=3, negatives=2)
    assert nothing.tokens == 0 and nothing.bucketed().weights.tolist() == [0.0] * 64
