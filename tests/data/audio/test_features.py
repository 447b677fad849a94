"""Frames of recordings: as librosa computes them, whatever the padding; normalised by training data; kept, and found again."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade.data import feature_cache
from saccade.data.audio.config import SoundFeatures
from saccade.data.audio.features import FILE, Features, KeptSound, Moments, cache_folder_of
from saccade.data.audio.given import GivenFrames
from saccade.data.audio.recordings import Recording, Silent
from saccade.data.audio.records import Spoken
from saccade.errors import InputError
from saccade.storage import stored_tensors
from tests.data.audio.librosa_values import CASES, FRAMES, KEPT, signal, values

CLOSE = {"rtol": 0.0, "atol": 1e-4}


def frames_of(samples: np.ndarray, rate: int, config: SoundFeatures) -> torch.Tensor:
    frames, lengths = Features(config, rate)(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))
    assert lengths.tolist() == [len(frames[0])]
    return frames[0]


def spoken(*counts: int, rate: int = 8000, speakers: str = "abab", loud: float = 1.0) -> list[Spoken]:
    """Recordings of so many samples, the speakers in turn; b speaks louder than a."""
    return [
        Spoken(
            Recording.in_memory((loud * (1 + 2 * (who == "b")) * signal(count, seed=count), rate), f"recording {count}"),
            "text", who,
        )
        for count, who in zip(counts, speakers)
    ]  # fmt: skip


def config(folder: Path, **options: object) -> SoundFeatures:
    return SoundFeatures(cache=str(folder), mels=5, deltas=1, **options)  # type: ignore[arg-type]


# As librosa -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_features_are_those_that_librosa_computed(case: str) -> None:
    rate, chosen = CASES[case]
    found = frames_of(signal(5601), rate, chosen)
    torch.testing.assert_close(found[list(FRAMES)], torch.from_numpy(np.load(KEPT)[case]), **CLOSE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [123, 5601, 9999])
def test_features_are_those_of_librosa(case: str, count: int) -> None:
    pytest.importorskip("librosa", reason="librosa is not installed: its values are kept in librosa_values.npz")
    rate, chosen = CASES[case]
    found = frames_of(signal(count), rate, chosen)
    wanted = values(signal(count), rate, chosen)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, torch.from_numpy(wanted), check_dtype=False, **CLOSE)


def test_the_papers_features_are_123_values_a_hundred_times_a_second() -> None:
    made = Features(SoundFeatures(), 16_000)
    assert (made.plain, made.width, made.frames_per_second) == (41, 123, 100.0)
    assert frames_of(signal(5601), 16_000, SoundFeatures()).shape == (36, 123)
    assert Features(SoundFeatures(kind="mfcc"), 16_000).width == 3 * 14


def test_padding_changes_no_frame_and_frames_beyond_the_end_are_zero() -> None:
    chosen = SoundFeatures(mels=7)
    made, short, long = Features(chosen, 8000), signal(1003, seed=1), signal(2777, seed=2)
    together = torch.zeros(2, 3000)
    together[0, : len(short)], together[1, : len(long)] = torch.from_numpy(short), torch.from_numpy(long)
    frames, lengths = made(together, torch.tensor([len(short), len(long)]))
    assert lengths.tolist() == [13, 35] and frames.shape == (2, 38, 24)
    torch.testing.assert_close(frames[0, :13], frames_of(short, 8000, chosen))
    torch.testing.assert_close(frames[1, :35], frames_of(long, 8000, chosen))
    assert not frames[0, 13:].any() and not frames[1, 35:].any()


def test_features_are_exported() -> None:
    made = Features(SoundFeatures(mels=7), 8000)
    given = (torch.from_numpy(np.stack([signal(1203), signal(1203, seed=2)])), torch.tensor([1203, 803]))
    program = torch.export.export(made, given)
    for found, wanted in zip(program.module()(*given), made(*given), strict=True):
        torch.testing.assert_close(found, wanted)


def test_filters_without_a_frequency_are_refused() -> None:
    with pytest.raises(InputError, match=r"mels=200.*each cover a frequency of 256 samples.*that cover none"):
        Features(SoundFeatures(mels=200), 8000)


# Normalisation --------------------------------------------------------------------------------------------------------


def test_training_frames_are_normalised_to_mean_0_and_variance_1(tmp_path: Path) -> None:
    records = spoken(3001, 5003, 7001)
    kept = KeptSound.learn(config(tmp_path), 8000, records)
    whole = torch.cat(kept.store(records).frames([0, 1, 2]))
    assert whole.shape == (38 + 63 + 88, 12)
    torch.testing.assert_close(whole.mean(0), torch.zeros(12), atol=1e-4, rtol=0)
    torch.testing.assert_close(whole.std(0, correction=0), torch.ones(12), atol=1e-3, rtol=0)


def test_a_speakers_own_mean_counts_beside_one_second_of_the_global_one(tmp_path: Path) -> None:
    records = spoken(8001, 24_003)
    plain = KeptSound.learn(config(tmp_path, normalise="none"), 8000, records)
    kept = KeptSound.learn(config(tmp_path, normalise="speaker"), 8000, records)
    loud, quiet = (plain.store(records).frames([row])[0].double() for row in (1, 0))
    whole = torch.cat([quiet, loud])
    mean = (loud.sum(0) + 100 * whole.mean(0)) / (len(loud) + 100)
    square = (loud.square().sum(0) + 100 * whole.square().mean(0)) / (len(loud) + 100)
    wanted = (loud - mean) / (square - mean**2).sqrt()
    torch.testing.assert_close(kept.store(records).frames([1])[0], wanted.float(), atol=1e-4, rtol=1e-3)
    # Both speakers come out alike, though one is three times as loud.
    first, second = kept.store(records).frames([0, 1])
    assert (first.mean(0) - second.mean(0))[:5].abs().max() < 0.6
    alike = KeptSound.learn(config(tmp_path, normalise="global"), 8000, records).store(records).frames([0, 1])
    assert (alike[0].mean(0) - alike[1].mean(0))[:5].abs().min() > 0.8


def test_an_unseen_speaker_is_normalised_by_the_recording_itself(tmp_path: Path) -> None:
    records = spoken(8001, 12_003)
    kept = KeptSound.learn(config(tmp_path, normalise="speaker"), 8000, records)
    (stranger,) = spoken(60_001, speakers="z", loud=9.0)
    found = kept.frames([(stranger.source, "z")])[0]
    assert found.mean(0).abs().max() < 0.6  # and not the distance of log 9² that global means would leave
    torch.testing.assert_close(found, kept.frames([(stranger.source, "")])[0])
    assert kept.frames([(stranger.source, "a")])[0][:, :5].mean() > 1


def test_of_many_speakers_those_who_speak_longest_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.data.audio.features.MOST_SPEAKERS", 1)
    records = spoken(3001, 5003)
    kept = KeptSound.learn(config(tmp_path, normalise="speaker"), 8000, records)
    assert kept.normaliser is not None and list(kept.normaliser.speakers) == ["b"]
    torch.testing.assert_close(kept.frames([(records[0].source, "a")]), kept.frames([(records[0].source, "z")]))


def test_a_bundle_keeps_what_was_learnt_exactly(tmp_path: Path) -> None:
    records = spoken(3001, 5003, 7001)
    chosen = config(tmp_path, normalise="speaker")
    kept = KeptSound.learn(chosen, 8000, records)
    again = KeptSound.restore(chosen, 8000, kept.files())
    for record in [*records, *spoken(901, speakers="z")]:
        asked = [(record.source, record.speaker)]
        torch.testing.assert_close(again.frames(asked)[0], kept.frames(asked)[0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"sound\.json.*no such file"),
        ({FILE: "[]"}, "plain.*values of a frame.*None"),
        ({FILE: '{"plain": 7}'}, "features of 7 values, which the network was trained on.*found 6"),
        ({FILE: '{"plain": 6, "normalise": null}'}, "normalise.*sums"),
        ({FILE: '{"plain": 6, "normalise": {"second": 100, "whole": [1, [2], [3]], "speakers": {}}}'}, "12 sums"),
        ({FILE: '{"plain": 6, "normalise": {"second": true, "speakers": {}}}'}, "whole"),
        (
            {FILE: f'{{"plain": 6, "normalise": {{"second": 1, "whole": [{"9" * 400}, [], []], "speakers": {{}}}}}}'},
            "12 sums",
        ),
    ],
)
def test_a_damaged_bundle_says_what_is_wrong(files: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        KeptSound.restore(config(tmp_path), 8000, files)


def test_moments_are_those_of_all_frames_together() -> None:
    first, second = np.random.RandomState(1).standard_normal((2, 7, 3)) * [1, 10, 100]
    mean, std = (Moments.of(first) + Moments.of(second[:5])).scale
    whole = np.concatenate([first, second[:5]])
    np.testing.assert_allclose(mean, whole.mean(0), rtol=1e-5)
    np.testing.assert_allclose(std, whole.std(0), rtol=1e-5)


# Frames that are kept -------------------------------------------------------------------------------------------------


def test_frames_are_computed_once_and_found_again_under_another_name(tmp_path: Path) -> None:
    records = spoken(3001, 901, 5003)
    kept = KeptSound.learn(config(tmp_path, normalise="none"), 8000, [])
    first = kept.store(records)
    assert first.computed == 3 and first.lengths.tolist() == [38, 12, 63]
    renamed = Spoken(Recording.in_memory((signal(901, seed=901) * 3, 8000), "renamed"), "text")
    again = kept.store([renamed, *spoken(601)])
    assert again.computed == 1 and again.lengths.tolist() == [12, 8]
    torch.testing.assert_close(again.frames([0])[0], first.frames([1])[0], rtol=0, atol=0)


def test_frames_that_are_kept_are_those_of_a_prediction(tmp_path: Path) -> None:
    records = spoken(3001, 901, 5003)
    kept = KeptSound.learn(config(tmp_path), 8000, records)
    for frames, record in zip(kept.store(records).frames([0, 1, 2]), records):
        same = (
            1e-3 if torch.cuda.is_available() else 0.0
        )  # a GPU sums in an order that depends on what is computed together
        torch.testing.assert_close(kept.frames([(record.source, "")])[0], frames, rtol=0, atol=same)


def test_each_speed_is_a_row_of_its_own_with_sound_that_is_shorter_and_higher(tmp_path: Path) -> None:
    time = np.arange(24_000) / 8000
    tone = Spoken(Recording.in_memory((np.sin(2 * np.pi * 1000 * time).astype(np.float32), 8000), "tone"), "text")
    kept = KeptSound.learn(SoundFeatures(cache=str(tmp_path), mels=40, normalise="none", deltas=0), 8000, [])
    store = kept.store([tone, *spoken(901)], speeds=(0.8, 1.0, 1.25))
    assert store.rows == [(0, 0.8), (0, 1.0), (0, 1.25), (1, 0.8), (1, 1.0), (1, 1.25)]
    assert store.lengths.tolist() == [376, 301, 241, 15, 12, 10]
    loudest = [int(store.frames([row])[0][5:-5, :40].mean(0).argmax()) for row in range(3)]
    assert loudest[0] < loudest[1] < loudest[2]
    slow = Features(kept.config, 8000).filters[loudest[0]].argmax() * 8000 / 256
    assert abs(float(slow) - 800) < 40


def test_features_of_other_settings_have_a_folder_of_their_own_and_deltas_are_not_kept(tmp_path: Path) -> None:
    chosen = config(tmp_path)
    assert cache_folder_of(chosen, 8000) == cache_folder_of(replace(chosen, deltas=2, normalise="none"), 8000)
    others = [replace(chosen, mels=6), replace(chosen, hop=0.02), replace(chosen, kind="mfcc", coefficients=3)]
    folders = {cache_folder_of(one, 8000) for one in [chosen, *others]} | {cache_folder_of(chosen, 16_000)}
    assert len(folders) == 5
    KeptSound.learn(chosen, 8000, spoken(3001, 901))
    (shard,) = cache_folder_of(chosen, 8000).glob("*.safetensors")
    stored = stored_tensors(shard)["features"]
    assert (stored.dtype, list(stored.shape)) == ("F16", [38 + 12, 6])


def test_shards_are_written_as_they_fill_and_damaged_ones_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_cache, "SHARD_BYTES", 60 * 6 * 2)  # sixty frames
    monkeypatch.setattr("saccade.data.audio.features.TOGETHER", 1)
    records = spoken(3001, 901, 1501, 5003, speakers="abcd")
    kept = KeptSound.learn(config(tmp_path), 8000, records)
    shards = sorted(cache_folder_of(kept.config, 8000).glob("*.safetensors"))
    assert len(shards) == 3
    whole = kept.store(records).frames([3, 0, 2, 1])
    shards[0].write_bytes(shards[0].read_bytes()[:-3])
    again = kept.store(records)
    assert 0 < again.computed < 4
    for found, wanted in zip(again.frames([3, 0, 2, 1]), whole):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_a_silent_recording_is_named_and_the_ones_before_it_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.data.audio.features.TOGETHER", 1)
    silent = Spoken(Recording.in_memory((np.zeros(800, np.float32), 8000), "an empty room"), "text")
    kept = KeptSound.learn(config(tmp_path, normalise="none"), 8000, [])
    with pytest.raises(Silent, match=r"an empty room: .*0\.10 s of silence.*data\.faults: drop"):
        kept.store([*spoken(901, 3001), silent])
    assert kept.store(spoken(901, 3001)).computed == 0


@pytest.mark.parametrize("kind", ["log_mel", "mfcc"])
def test_a_long_recording_is_computed_in_parts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = spoken(24_003)
    kept = KeptSound.learn(config(tmp_path, kind=kind, coefficients=3, normalise="none"), 8000, [])
    whole = kept.frames([(record.source, "")])[0]
    assert len(whole) == 301
    monkeypatch.setattr("saccade.data.audio.features.LONG", 1)
    torch.testing.assert_close(kept.frames([(record.source, "")])[0], whole, atol=0.01, rtol=0)
    torch.testing.assert_close(kept.store([record]).frames([0])[0], whole, atol=0.01, rtol=0)


# Given frames ---------------------------------------------------------------------------------------------------------


def test_given_frames_get_differences_and_are_normalised(tmp_path: Path) -> None:
    tables = [np.random.RandomState(number).standard_normal((5 + number, 3)) * 10 + 4 for number in range(3)]
    records = [Spoken(GivenFrames.in_memory(table, f"table {n}"), "text") for n, table in enumerate(tables)]
    kept = KeptSound.learn(SoundFeatures(kind="given", hop=0.02, deltas=1), 16_000, records)
    assert kept.width == 6 and kept.frames_per_second == 50
    store = kept.store(records)
    assert store.lengths.tolist() == [5, 6, 7]
    whole = torch.cat(store.frames([0, 1, 2]))
    torch.testing.assert_close(whole.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    again = KeptSound.restore(kept.config, 16_000, kept.files())
    torch.testing.assert_close(again.frames([(records[1].source, "")])[0], store.frames([1])[0], rtol=0, atol=0)
    other = GivenFrames.in_memory(np.ones((4, 2)), "narrow")
    with pytest.raises(InputError, match="narrow: expected frames of 3 values, found 2"):
        again.frames([(other, "")])
    with pytest.raises(InputError, match=r"expected given frames \[L, 3\], found a recording"):
        again.frames([(spoken(901)[0].source, "")])
    with pytest.raises(InputError, match=r"huge: .*65,504.*1e[+]06"):
        again.frames([(GivenFrames.in_memory(np.full((2, 3), 1e6), "huge"), "")])


def test_the_logarithm_has_a_floor() -> None:
    quiet = frames_of(np.zeros(900, np.float32), 8000, SoundFeatures(mels=5, deltas=0))
    torch.testing.assert_close(quiet, torch.full((12, 6), math.log(1e-10)))
