"""Batches of frames with transcripts: padding, buckets; masks in time and frequency, drawn as a checkpoint says."""

from __future__ import annotations

import pytest
import torch

from saccade.data.audio.batch import collate_speech, masked
from saccade.data.audio.config import SoundAugment, SoundFeatures
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import SaccadeError

PAD, BOS, EOS = Tokenizer.PAD, Tokenizer.BOS, Tokenizer.EOS


def test_frames_and_transcripts_are_padded_and_their_lengths_kept():
    frames = [torch.ones(length, 5) * length for length in (7, 2, 3)]
    batch = collate_speech(frames, [[9], [8, 7, 6, 5], []], [4, 0, 11])
    assert batch.frames.shape == (3, 7, 5) and batch.frame_lengths.tolist() == [7, 2, 3]
    assert batch.frames[1, :2].eq(2).all() and not batch.frames[1, 2:].any()
    assert batch.target_in.tolist() == [[BOS, 9, PAD, PAD, PAD], [BOS, 8, 7, 6, 5], [BOS, PAD, PAD, PAD, PAD]]
    assert batch.target_out.tolist() == [[9, EOS, PAD, PAD, PAD], [8, 7, 6, 5, EOS], [EOS, PAD, PAD, PAD, PAD]]
    assert batch.target_lengths.tolist() == [2, 5, 1] and (batch.tokens, batch.indices) == (8, [4, 0, 11])
    with pytest.raises(SaccadeError, match="3 recordings, 1 transcripts, 3 indices"):
        collate_speech(frames, [[9]], [4, 0, 11])


def test_a_bucketed_batch_has_rows_without_a_target_and_zeros_beyond_the_ends():
    batch = collate_speech([torch.ones(19, 5), torch.ones(3, 5)], [[9], [8, 7]], [0, 1])
    found = batch.bucketed()
    assert found.frames.shape == (8, 24, 5) and found.target_in.shape[0] == 8
    torch.testing.assert_close(found.frames[:2, :19], batch.frames)
    assert not found.frames[2:].any() and not found.frames[:, 19:].any()
    assert found.frame_lengths.tolist() == [19, 3, 1, 1, 1, 1, 1, 1] and found.target_out[2:].eq(PAD).all()
    assert found.tokens == batch.tokens


def ones(lengths: list[int], width: int) -> tuple[torch.Tensor, torch.Tensor]:
    frames = torch.zeros(len(lengths), max(lengths), width)
    for row, length in enumerate(lengths):
        frames[row, :length] = 1
    return frames, torch.tensor(lengths)


def test_masks_cover_stretches_of_time_within_a_fifth_and_equal_bands_of_differences():
    torch.manual_seed(3)
    features = SoundFeatures(mels=11, deltas=2)
    frames, lengths = ones([200, 30, 90] * 100, 36)
    found = masked(frames, lengths, SoundAugment(time_masks=1, time_width=25), features)
    hidden = (found.sum(2) == 0) & (frames.sum(2) > 0)
    assert ((found == 0).all(2) == (found == 0).any(2)).all()  # a frame is masked whole
    counts = hidden.sum(1)
    assert counts[0::3].max() == 25 and counts[1::3].max() == 6 and counts[2::3].max() == 18
    edges = hidden[:, 1:].long() - hidden[:, :-1].long()
    assert (edges.clamp(min=0).sum(1) + hidden[:, 0] <= 1).all()  # one stretch each

    found = masked(frames, lengths, SoundAugment(frequency_masks=2, frequency_width=4), features)
    rows = found[:, 0].view(-1, 3, 12)
    assert (rows == rows[:, :1]).all()  # Δ and ΔΔ as what they are of
    assert (rows[:, :, 11] == 1).all()  # the energy is no filter
    assert (rows[:, 0] == 0).sum(1).max() in (7, 8) and (found[0, 0] == found[0, 150]).all()
    whole = masked(
        frames, lengths, SoundAugment(frequency_masks=1, frequency_width=400), SoundFeatures(kind="given", deltas=2)
    )
    assert (whole[:, 0, 11] == 0).any()  # given frames have no energy that is known


def test_masks_are_drawn_again_from_the_same_state_and_differ_between_recordings():
    features, augment = SoundFeatures(mels=11), SoundAugment(time_masks=2, time_width=9, frequency_masks=1)
    frames, lengths = ones([50, 40, 70], 36)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second = (masked(frames, lengths, augment, features) for _ in range(2))
    torch.set_rng_state(state)
    again = masked(frames, lengths, augment, features)
    assert torch.equal(first, again) and not torch.equal(first, second)
    assert not torch.equal(first[0, :40] == 0, first[1, :40] == 0)


def test_nothing_is_masked_unless_asked():
    frames, lengths = ones([5, 3], 36)
    assert not SoundAugment().masks and SoundAugment(time_masks=1).masks
    assert torch.equal(masked(frames, lengths, SoundAugment(), SoundFeatures(mels=11)), frames)
