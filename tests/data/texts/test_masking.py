"""Rows to pre-train on: what is chosen, what is read there, where second texts come from, and that it can be had again."""

import numpy as np
import pytest
import torch

from saccade.data.texts.masking import (
    ELSEWHERE,
    FOLLOWS,
    IGNORED,
    Batch,
    Documents,
    Marks,
    Visit,
    collate,
    draw_of,
    drawn,
    stretches_of,
)

MARKS = Marks(padding=0, first=1, last=2, mask=4, ordinary=np.arange(5, 50_000))
ROOM = 23


@pytest.fixture(scope="module")
def documents() -> Documents:
    """Every token of the text is another one, so that it tells where it stood: 40 documents of 1 to 9 sentences."""
    numbers = iter(range(100, 10**6))
    return Documents.of(
        [[next(numbers) for _ in range(1 + (3 * d + s) % 7)] for s in range(1 + d % 9)] for d in range(40)
    )


def batch_of(documents: Documents, draw: int, *, pairs: bool = True, rows=None) -> Batch:
    stretches = stretches_of(documents, ROOM, 0.1)
    numbers = range(len(stretches)) if rows is None else rows
    return collate(documents, stretches, Visit(numbers, draw), MARKS, masked=0.15, pairs=pairs)


def restored(batch: Batch) -> list[list[int]]:
    """The rows as they were before anything was taken out."""
    rows = []
    for text, length, chosen, words in zip(batch.text, batch.lengths, batch.chosen, batch.words):
        row = text.clone()
        row[chosen[words != IGNORED]] = words[words != IGNORED]
        rows.append(row[:length].tolist())
    return rows


def owner(documents: Documents, token: int) -> int:
    sentence = int(np.searchsorted(documents.sentences, token - 100, side="right")) - 1
    return int(np.searchsorted(documents.documents, sentence, side="right")) - 1


def test_stretches_hold_every_token_once(documents):
    for short in (0.0, 0.5):
        stretches = stretches_of(documents, ROOM, short)
        covered = np.concatenate([np.arange(a, b) for a, b in zip(stretches.start, stretches.stop)])
        assert covered.tolist() == list(range(len(documents.ids)))
        assert (stretches.stop - stretches.start).max() <= ROOM
    assert len(stretches_of(documents, ROOM, 0.5)) > len(stretches_of(documents, ROOM, 0.0))


def test_a_row_is_two_texts_between_marks_with_their_segments(documents):
    batch = batch_of(documents, 7)
    for row, segments, length in zip(restored(batch), batch.segments.tolist(), batch.lengths.tolist()):
        middle = row.index(2)
        assert row[0] == 1 and row[-1] == 2 and row.count(2) == 2 and length == len(row) <= ROOM + 3
        assert segments[:length] == [0] * (middle + 1) + [1] * (length - middle - 1)
        assert not any(segments[length:])


def test_a_second_text_follows_or_comes_from_another_document(documents):
    kinds = []
    for draw in range(30):
        batch = batch_of(documents, draw)
        for row, follows in zip(restored(batch), batch.follows.tolist()):
            middle = row.index(2)
            first, second = row[1:middle], row[middle + 1 : -1]
            assert first == list(range(first[0], first[0] + len(first)))
            assert second == list(range(second[0], second[0] + len(second)))
            own = owner(documents, first[0])
            assert second[0] == first[-1] + 1 or follows == ELSEWHERE
            assert (owner(documents, second[0]) == own) == (follows == FOLLOWS)
            if follows == ELSEWHERE:
                assert second[0] - 100 in documents.sentences
            if len(first) + len(second) > 1:
                kinds.append(follows)
    assert np.mean(kinds) == pytest.approx(0.5, abs=0.03)


def test_neither_length_nor_end_of_a_row_tells_whether_its_second_text_follows():
    numbers = iter(range(100, 10**6))
    texts = Documents.of([[next(numbers) for _ in range(3)] for _ in range(4 + d % 11)] for d in range(60))
    stretches, ends = stretches_of(texts, ROOM, 0.1), texts.sentences[texts.documents[1:]]
    sizes, final = stretches.stop - stretches.start, stretches.stop == ends[stretches.document]
    assert (sizes > 1).all() and 0.2 < final.mean() < 0.8
    followed, within = 0, []
    for draw in range(20):
        batch = batch_of(texts, draw)
        followed += int((batch.follows == FOLLOWS).sum())
        assert (batch.lengths.numpy() == sizes + 3)[~final].all()  # of full rows, whose length is known
        elsewhere = final & (batch.follows == ELSEWHERE).numpy()
        within += [row[-2] + 1 - 100 in ends for row, last in zip(restored(batch), elsewhere) if last]
        assert (batch.lengths.numpy() <= sizes + 3).all()
    assert abs(followed / (20 * len(sizes)) - 0.5) < 0.03
    # One that is to be shorter than its document's last sentence is cut: here where a stretch begins inside a sentence.
    assert np.mean(within) > 0.9


def test_of_documents_that_are_all_shorter_the_second_text_is_shorter():
    documents = Documents.of([[[100 + token for token in range(20)]], [[200, 201], [202]]])
    for draw in range(20):
        batch = batch_of(documents, draw, rows=[0])
        row = restored(batch)[0]
        if batch.follows[0] == ELSEWHERE:
            assert row[row.index(2) + 1 : -1] == [200, 201, 202]


def test_marks_are_never_chosen_and_every_chosen_place_is_reported(documents):
    batch = batch_of(documents, 3)
    for row, length, chosen, words in zip(restored(batch), batch.lengths.tolist(), batch.chosen, batch.words):
        own = chosen[words != IGNORED].tolist()
        assert len(own) == len(set(own)) == max(1, round(length * 0.15))
        assert not {row[place] for place in own} & {0, 1, 2}
        assert own == sorted(own)
    assert batch.tokens == int((batch.words != IGNORED).sum())


def test_of_128_positions_19_are_chosen_and_they_read_80_10_10():
    documents = Documents.of([[list(range(100, 225))] for _ in range(300)])
    stretches = stretches_of(documents, 125, 0.0)
    counts = {"mask": 0, "other": 0, "same": 0}
    for draw in (1, 2):
        batch = collate(documents, stretches, Visit(range(300), draw), MARKS, masked=0.15, pairs=True)
        assert batch.chosen.shape == (300, 19)
        seen = batch.text.gather(1, batch.chosen)
        counts["mask"] += int((seen == 4).sum())
        counts["same"] += int((seen == batch.words).sum())
        counts["other"] += int(((seen != 4) & (seen != batch.words)).sum())
    total = sum(counts.values())
    assert total == 2 * 300 * 19
    assert counts["mask"] / total == pytest.approx(0.8, abs=0.015)
    assert counts["other"] / total == pytest.approx(0.1, abs=0.015)
    assert counts["same"] / total == pytest.approx(0.1, abs=0.015)


def test_masks_are_drawn_again_each_epoch_and_can_be_had_again(documents):
    one, again, next_epoch, other = (batch_of(documents, draw_of(*at)) for at in ((1, 0), (1, 0), (1, 1), (2, 0)))
    for name in ("text", "chosen", "words", "follows", "segments", "lengths"):
        assert torch.equal(getattr(one, name), getattr(again, name))
    assert next_epoch.follows.tolist() != one.follows.tolist() != other.follows.tolist()
    single = [batch_of(documents, draw, pairs=False) for draw in (3, 4)]
    assert single[0].chosen.shape == single[1].chosen.shape  # the same rows, other places
    assert (single[0].chosen != single[1].chosen).float().mean() > 0.3


def test_a_row_does_not_depend_on_the_batch_it_is_in(documents):
    whole, alone = batch_of(documents, 5), batch_of(documents, 5, rows=[11])
    length = int(alone.lengths[0])
    assert whole.text[11, :length].tolist() == alone.text[0].tolist()
    assert restored(whole)[11] == restored(alone)[0]


def test_single_texts_have_two_marks_and_nothing_to_follow(documents):
    batch = batch_of(documents, 5, pairs=False)
    assert all(row.count(2) == 1 for row in restored(batch))
    assert not batch.segments.any() and (batch.follows == IGNORED).all()


def test_a_bucketed_batch_holds_the_same(documents):
    batch = batch_of(documents, 5, rows=[3, 4, 5])
    wide = batch.bucketed()
    (B, S), K = batch.text.shape, batch.chosen.shape[1]
    assert wide.text.shape[0] % 8 == 0 and wide.tokens == batch.tokens
    assert torch.equal(wide.text[:B, :S], batch.text) and not wide.text[:, S:].any()
    assert torch.equal(wide.words[:B, :K], batch.words)
    assert (wide.words[B:] == IGNORED).all() and (wide.words[:, K:] == IGNORED).all()
    assert (wide.follows[B:] == IGNORED).all() and (wide.lengths[B:] >= 1).all()


def test_lots_are_even_and_a_function_of_their_keys():
    lots = drawn(3, np.arange(20_000), 1)
    assert len(set(lots.tolist())) == 20_000
    assert np.mean((lots >> np.uint64(11)).astype(float) * 2.0**-53) == pytest.approx(0.5, abs=0.01)
    assert drawn(3, 17, 1) == lots[17] != drawn(17, 3, 1)
