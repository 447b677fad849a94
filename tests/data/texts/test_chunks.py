"""No token is skipped and none is predicted twice, however texts are laid out and cut."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from saccade.data.batching import plan
from saccade.data.texts.chunks import Batch, collate_pieces, pieces_of, plan_streams, sequences_of, streams_of
from saccade.data.texts.records import Text, TextData
from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from saccade.errors import SaccadeError
from saccade.tasks.language import Language

PAD, BOS, EOS = Tokenizer.PAD, Tokenizer.BOS, Tokenizer.EOS
TEXTS = [[4, 5, 6, 7, 8, 9, 10], [11], [12, 13, 14], [15, 16, 17, 18, 19]]  # every token is another one


def predicted(batches: list[Batch]) -> Counter[tuple[int, int]]:
    """(what was read last, what was to be said) of every counted position."""
    found: Counter[tuple[int, int]] = Counter()
    for batch in batches:
        for row, length in enumerate(batch.lengths.tolist()):
            for place in range(batch.inputs.shape[1]):
                said = int(batch.outputs[row, place])
                if said != PAD:
                    assert place < length
                    found[int(batch.inputs[row, place]), said] += 1
    return found


def whole(sequences: list[np.ndarray]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for ids in sequences:
        found.update(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("chunk", "context"), [(3, 0), (3, 2), (1, 5), (50, 4)])
def test_every_token_is_predicted_once(stream: bool, chunk: int, context: int) -> None:
    sequences = sequences_of(TEXTS, stream=stream)
    pieces = pieces_of(sequences, chunk, context)
    for seed in (1, 2):
        numbered = plan([piece.width for piece in pieces], tokens=None, records=3, seed=seed, epoch=0)
        batches = [collate_pieces(sequences, [pieces[n] for n in numbers], numbers) for numbers in numbered]
        assert predicted(batches) == whole(sequences)
        assert sum(batch.tokens for batch in batches) == sum(len(ids) + 1 for ids in TEXTS)


@pytest.mark.parametrize("rows", [1, 3, 5, 30])
@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_streams_read_on_where_they_left_off(rows: int, chunk: int) -> None:
    sequences = sequences_of(TEXTS, stream=True)
    pieces = streams_of(sequences[0], chunk, rows)
    numbered = plan_streams(pieces, rows)
    assert all(len(numbers) == rows for numbers in numbered)
    batches = [collate_pieces(sequences, [pieces[n] for n in numbers], numbers, carried=True) for numbers in numbered]
    assert predicted(batches) == whole(sequences)
    for row in range(rows):
        mine = [pieces[numbers[row]] for numbers in numbered]
        assert [piece.continues for piece in mine] == [False] + [True] * (len(mine) - 1)
        assert all(one.stop == other.start for one, other in pairwise(mine))
    assert batches[0].continues is not None and not batches[0].continues.any()


def test_a_record_is_between_its_marks_and_a_stream_is_one_text() -> None:
    assert sequences_of([[7, 8], [9]], stream=False)[0].tolist() == [BOS, 7, 8, EOS]
    assert [ids.tolist() for ids in sequences_of([[7, 8], [9]], stream=True)] == [[EOS, 7, 8, EOS, 9, EOS]]


def test_context_is_read_and_not_counted() -> None:
    sequences = sequences_of(TEXTS[:1], stream=False)
    pieces = pieces_of(sequences, 3, 2)
    batch = collate_pieces(sequences, pieces[1:2], [1])
    assert batch.inputs.tolist() == [[4, 5, 6, 7, 8]]
    assert batch.outputs.tolist() == [[PAD, PAD, 7, 8, 9]]
    assert batch.tokens == 3 and batch.lengths.tolist() == [5]


def test_a_bucketed_batch_holds_the_same_and_leaves_carried_rows_alone() -> None:
    sequences = sequences_of(TEXTS, stream=False)
    pieces = pieces_of(sequences, 7, 0)
    batch = collate_pieces(sequences, pieces, range(len(pieces)))
    wide = batch.bucketed()
    assert wide.inputs.shape == (8, 8)
    assert predicted([wide]) == predicted([batch]) and wide.tokens == batch.tokens
    stream = sequences_of(TEXTS, stream=True)
    carried = collate_pieces(stream, streams_of(stream[0], 7, 3)[:3], range(3), carried=True)
    assert carried.bucketed().inputs.shape == (3, 8)
    assert torch.equal(carried.bucketed().lengths, carried.lengths)


def test_a_chunk_that_does_not_fit_into_a_batch_is_an_error_that_names_its_width() -> None:
    task = Language(
        TextData(source="agreement", chunk=7, context=2),
        Tokenizer.train(["a b c d e f g h i j k l"], TokenizerConfig()),
    )
    corpus = task.corpus([Text("a b c d e f g h i j k l " * 3)], "data.train")
    with pytest.raises(SaccadeError, match=r"a chunk of 9 tokens.* does not fit into a batch of 8 tokens"):
        task.plan(corpus, tokens=8, records=None, seed=1, epoch=0)
