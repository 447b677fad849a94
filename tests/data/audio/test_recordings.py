"""Recordings: every coding as it was written, stretches, resampling; damaged and hostile files refused with one line."""

from __future__ import annotations

import base64
import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade.data.audio.recordings import (
    MOST_PHASES,
    DamagedRecording,
    Recording,
    Silent,
    _bounded,
    check_whole,
    resample,
    stretch_of,
)
from saccade.data.audio.recordings import _resampled_by_phase as by_phase
from saccade.errors import InputError, SaccadeError
from tests.data.audio.recorded import sound, sph, wav, write


def read(content: bytes, rate: int | None = None) -> np.ndarray:
    return Recording.in_memory(content, "given").read(rate)


def refusal(content: bytes) -> str:
    with pytest.raises(InputError) as error:
        read(content)
    assert "\n" not in str(error.value)
    return str(error.value)


# Codings --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "tag", "bits", "scale"),
    [("<i2", 1, 16, 2**15), ("<i4", 1, 32, 2**31), ("<f4", 3, 32, 1), ("<f8", 3, 64, 1), ("<i2", 0xFFFE, 16, 2**15)],
)
def test_wav_is_read_as_it_was_written(dtype, tag, bits, scale):
    values = sound(1003) / 2**15
    stored = (values * scale).astype(dtype)
    recording = Recording.in_memory(wav(stored, 11_025, tag, bits), "given")
    assert (recording.header.rate, recording.header.channels, recording.seconds) == (11_025, 1, 1003 / 11_025)
    np.testing.assert_allclose(recording.read(), values, atol=1e-7)


def test_wav_of_8_and_of_24_bits_is_read_as_it_was_written():
    values = sound(703)
    np.testing.assert_allclose(read(wav(((values >> 8) + 128).astype(np.uint8), bits=8)), (values >> 8) / 128)
    wide = (values.astype("<i4") << 8).view(np.uint8).reshape(-1, 4)[:, :3]
    np.testing.assert_allclose(read(wav(wide, bits=24, channels=1)), values / 2**15)


@pytest.mark.parametrize(("order", "dtype"), [("01", "<i2"), ("10", ">i2")])
def test_sph_is_read_in_either_byte_order(order, dtype):
    values = sound(907)
    found = read(sph(values.astype(dtype).tobytes(), sample_byte_format=order))
    np.testing.assert_array_equal(found, values.astype(np.float32) / 2**15)


def test_mu_law_is_decoded_as_g711_says():
    codes = bytes([0x00, 0x0F, 0x7F, 0x80, 0x8F, 0xFF, 0x9A])
    found = read(sph(codes, sample_coding="ulaw", sample_n_bytes=1, sample_count=7, sample_byte_format="1"))
    wanted = np.array([-32124, -16764, 0, 32124, 16764, 0, 10876 - 880])
    np.testing.assert_array_equal(found[:6] * 2**15, wanted[:6])
    np.testing.assert_array_equal(found, read(wav(np.frombuffer(codes, np.uint8), tag=7, bits=8)))


def test_every_code_of_mu_law_and_a_law_is_what_libsndfile_decodes():
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: pip install 'saccade[audio]'")
    codes = np.arange(256, dtype=np.uint8)
    for tag in (6, 7):
        content = wav(codes, tag=tag, bits=8)
        np.testing.assert_array_equal(read(content), soundfile.read(io.BytesIO(content), dtype="float32")[0])


def test_channels_are_mixed_in_any_block(monkeypatch):
    monkeypatch.setattr("saccade.data.audio.recordings.BLOCK", 100)
    left, right = sound(1009, seed=1), sound(1009, seed=2)
    recording = Recording.in_memory(wav(np.stack([left, right], 1)), "given")
    assert recording.header.channels == 2
    np.testing.assert_allclose(recording.read(), (left / 2**16 + right / 2**16), atol=1e-7)
    np.testing.assert_allclose(recording.part(0.05, 0.1).read(), (left / 2**16 + right / 2**16)[400:800], atol=1e-7)


@pytest.mark.parametrize(("suffix", "close"), [("flac", 0.0), ("ogg", 0.05), ("mp3", 0.05)])
def test_compressed_files_are_read_by_soundfile(suffix, close, tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: pip install 'saccade[audio]'")
    values = (0.3 * np.sin(np.arange(32_003) / 9)).astype(np.float32)
    soundfile.write(tmp_path / f"a.{suffix}", values, 16_000)
    recording = Recording.of_file(tmp_path / f"a.{suffix}")
    assert recording.header.format == suffix and recording.header.rate == 16_000
    found = recording.read()
    assert abs(len(found) - len(values)) < 2000
    np.testing.assert_allclose(found[2000:30_000], values[2000:30_000], atol=close + 1e-4)
    monkeypatch.setattr("saccade.data.audio.recordings.BLOCK", 5000)
    np.testing.assert_allclose(recording.read(), found, atol=1e-6)
    np.testing.assert_allclose(recording.part(0.5, 1.0).read(), found[8000:16_000], atol=1e-6)
    np.testing.assert_allclose(recording.part(1.8).read(), found[28_800:], atol=1e-6)
    check_whole(recording)


def test_without_soundfile_a_compressed_file_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "a.flac").write_bytes(b"fLaC" + bytes(100))
    with pytest.raises(SaccadeError, match=r"a\.flac.*needs the package 'soundfile'.*saccade\[audio\]"):
        Recording.of_file(tmp_path / "a.flac")
    assert len(read(wav(sound(77)))) == 77


# Stretches, names, forms ----------------------------------------------------------------------------------------------


def test_a_stretch_is_the_samples_between_two_times(tmp_path):
    write(tmp_path / "talk.wav", 8000)
    whole = Recording.named("talk.wav", tmp_path)
    part = Recording.named("talk.wav#0.25-0.75", tmp_path)
    assert (part.start, part.end, part.seconds, part.name) == (0.25, 0.75, 0.5, "talk.wav#0.25-0.75")
    np.testing.assert_array_equal(part.read(), whole.read()[2000:6000])
    np.testing.assert_array_equal(part.part(0.125).read(), whole.read()[3000:6000])
    np.testing.assert_array_equal(Recording.named("talk.wav#0.5-", tmp_path).read(), whole.read()[4000:])
    assert Recording.named("talk.wav#0.5-1.04", tmp_path).end == 1.0  # rounded up
    assert len({whole.digest, part.digest, part.part(0.125).digest}) == 3
    with pytest.raises(InputError, match=r"talk\.wav: expected seconds within its 1, found 0\.5 to 1\.5"):
        Recording.named("talk.wav#0.5-1.5", tmp_path)
    with pytest.raises(InputError, match=r"found 0\.75 to 0\.75"):
        whole.part(0.75, 0.75)


def test_a_file_may_be_called_as_a_stretch_is(tmp_path):
    write(tmp_path / "take#1-2", 801)
    assert Recording.named("take#1-2", tmp_path).seconds == 801 / 8000
    assert stretch_of("a#b#1.5-2") == ("a#b", 1.5, 2.0) and stretch_of("a#1") == ("a#1", None, None)


def test_a_recording_is_the_same_under_another_name_and_in_memory(tmp_path):
    first, again = write(tmp_path / "a.wav", 90_001), write(tmp_path / "b.wav", 90_001)
    other = write(tmp_path / "c.wav", 90_001, seed=2)
    a, b, c = (Recording.of_file(path) for path in (first, again, other))
    assert a == b and hash(a) == hash(b) and a != c and len({a, b, c}) == 2
    assert Recording.in_memory(first.read_bytes(), "bytes") == a
    changed = bytearray(first.read_bytes())
    changed[len(changed) // 3 + 1000] ^= 1
    assert Recording.in_memory(bytes(changed), "changed") != a


def test_one_sound_in_every_form_is_read_alike(tmp_path):
    values = sound(1601)
    path = write(tmp_path / "a.wav", 1601)
    content = path.read_bytes()
    forms = [
        str(path), path, content, memoryview(content), {"base64": base64.b64encode(content).decode()},
        (values, 8000), (values / 2**15, 8000.0), (values.astype(np.int32) << 16, 8000), (torch.from_numpy(values), 8000),
        (values[:, None], 8000), (torch.from_numpy(values)[None].float() / 2**15, 8000),
        {"array": (values / 2**15).tolist(), "sampling_rate": 8000}, {"bytes": content, "path": "a.wav"},
        {"bytes": None, "path": str(path)}, Recording.of_file(path),
    ]  # fmt: skip
    for form in forms:
        np.testing.assert_allclose(Recording.in_memory(form, "given").read(), values / 2**15, atol=1e-7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(7), "an array without its rate"),
        ((np.zeros(7), "8k"), "rate: expected samples per second, found '8k'"),
        ((np.zeros(7), 8000.5), "samples per second"),
        ((np.zeros(7), 4e9), "from 1,000 to 384,000 Hz, found 4,000,000,000 Hz"),
        ((np.zeros((7, 3, 2)), 8000), r"\[7, 3, 2\]"),
        ((np.zeros(0), 8000), "at least one sample, found none"),
        ((np.full(7, 200.0), 8000), "samples from −1 to 1, found 200 at 0.000 s"),
        ((np.array([0.1, np.nan]), 8000), "found nan at 0.000 s"),
        ((np.array(["a"]), 8000), "<U1"),
        ({"base64": "*"}, "base64: expected base64"),
        ({"file": "a.wav"}, "a mapping with file"),
        (7, "a int"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_line(given, message):
    with pytest.raises(InputError, match=message):
        Recording.in_memory(given, "input 1")


# Resampling -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("up", "down"), [(160, 441), (1, 3), (2, 1), (10, 11), (320, 441), (7, 5)])
def test_a_tone_is_the_same_tone_at_another_rate_and_what_cannot_be_kept_is_gone(up, down):
    count = 20_003
    low, high = (
        0.1 * min(1, up / down),
        0.55 * min(1, up / down),
    )  # of the rate; half of it is the highest of the new one
    found = resample(np.sin(2 * np.pi * low * np.arange(count)).astype(np.float32), up, down)
    assert found.dtype == np.float32 and len(found) == -(-count * up // down)
    wanted = np.sin(2 * np.pi * low * np.arange(len(found)) * down / up)
    np.testing.assert_allclose(found[300:-300], wanted[300:-300], atol=2e-4)
    if up < down:
        gone = resample(np.sin(2 * np.pi * high * np.arange(count)).astype(np.float32), up, down)
        assert np.abs(gone[300:-300]).max() < 3e-4


def test_rates_without_a_large_common_divisor_are_resampled_alike():
    samples = sound(3001) / np.float32(2**15)
    for up, down in ((160, 441), (4, 3)):
        count = -(-len(samples) * up // down)
        np.testing.assert_allclose(by_phase(samples, up, down, count), resample(samples, up, down), atol=1e-5)
    odd = resample(samples, 16_000, 11_027)
    near = resample(samples, 16_000, 11_025)
    assert abs(len(odd) - len(near)) < 3
    np.testing.assert_allclose(odd[:300], near[:300], atol=0.05)


def test_an_unusual_rate_is_resampled_with_few_filters_and_keeps_its_pitch_and_length():
    rate, to, count = 383_987, 8_000, 38_401  # without a common divisor: 8,000 filters of 3,072 taps
    tone = np.sin(2 * np.pi * 440 * np.arange(count) / rate).astype(np.float32)
    found = resample(tone, to, rate)
    expected = np.sin(2 * np.pi * 440 * np.arange(len(found)) / to)
    assert len(found) == -(-count * to // rate)
    np.testing.assert_allclose(found[100:-100], expected[100:-100], atol=6e-3)  # a part in 29,000 lower
    for up, down in ((to, rate), (rate, 1_001), (48_000, 48_001), (1, 384)):
        near = _bounded(up, down)
        assert max(near) <= MOST_PHASES and abs(near[0] / near[1] * down / up - 1) < 1 / MOST_PHASES


def test_a_constant_stays_constant_and_one_sample_is_enough():
    np.testing.assert_allclose(resample(np.full(900, 0.5, np.float32), 3, 7)[100:-100], 0.5, atol=1e-6)
    assert len(resample(np.ones(1, np.float32), 160, 441)) == 1 and len(resample(np.ones(1, np.float32), 2, 1)) == 2


def test_a_speed_shortens_and_a_rate_does_not():
    recording = Recording.in_memory((sound(8000), 8000), "given")
    assert len(recording.read(16_000)) == 16_000
    assert len(recording.read(8000, speed=1.25)) == 6400
    assert len(recording.read(16_000, speed=0.9)) == -(-8000 * 20 // 9)


# Damaged and hostile files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found an empty file"),
        (b"<html>not sound</html>", "found something else"),
        (b"\0\0\0\x20ftypM4A \0\0\0\0", "found an MP4 file (ffmpeg -i FILE out.wav converts it)"),
        (b"RIFF\0\0\0\0WAVE", "found no header: it is damaged"),
        (wav(sound(9))[:30], "it is damaged"),
        (wav(sound(9)).replace(b"data", b"dada"), "found no samples: it is damaged"),
        (wav(sound(9)).replace(b"fmt ", b"fmx "), "found no fmt chunk before data"),
        (wav(sound(900))[:-600], "expected 0.11 s of sound, as its header states, found 0.07 s: it is truncated"),
        (wav(sound(900), stated=1 << 30), "as its header states, found 0.11 s: it is truncated"),
        (wav(sound(0)), "at least one sample, found none"),
        (wav(sound(900), rate=0), "a sample rate from 1,000 to 384,000 Hz, found 0 Hz"),
        (wav(sound(900), rate=4_000_000_000), "found 4,000,000,000 Hz"),
        (wav(sound(900), channels=0), "1 to 64 channels, found 0"),
        (wav(sound(900), channels=65_535), "1 to 64 channels, found 65,535"),
        (wav(np.array([0, np.inf, 0], "<f4"), tag=3, bits=32), "samples from −1 to 1, found inf at 0.000 s"),
        (wav(np.r_[np.zeros(4000), np.nan].astype("<f4"), tag=3, bits=32), "found nan at 0.500 s"),
        (wav(np.array([0, 1e38, 0], "<f4"), tag=3, bits=32), "found 1e+38"),
        (wav(np.array([0, 1e300, 0], "<f8"), tag=3, bits=64), "found inf"),
        (sph(sound(9).tobytes(), sample_coding="pcm,embedded-shorten-v2.00"), "compressed (sph2pipe"),
        (sph(sound(9).tobytes(), sample_rate=None), "sample_rate: expected a whole number, found ''"),
        (sph(sound(9).tobytes(), sample_count="9" * 20), "sample_count: expected a whole number"),
        (sph(sound(9).tobytes(), sample_count=-9), "sample_count: expected a whole number, found '-9'"),
        (sph(sound(9).tobytes(), sample_n_bytes=3), "found 'pcm' of 3 bytes"),
        (sph(sound(900).tobytes())[:1500], "0.03 s: it is truncated"),
        (b"NIST_1A\n  99999999\n", "the header of a NIST sph file, found a damaged one"),
        (b"NIST_1A\n   xx\n" + bytes(99), "found a damaged one"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(content, message):
    assert message in refusal(content)


def test_files_that_do_not_know_their_length_are_read_to_their_end():
    for stated in (0, 0xFFFFFFFF, 0x7FFFFFFF - 36):
        assert len(read(wav(sound(901), stated=stated))) == 901


def test_a_truncated_file_is_read_where_it_is_whole():
    recording = Recording.in_memory(wav(sound(8000))[:-8000], "given")
    assert recording.header.truncated
    assert len(recording.part(0.0, 0.25).read()) == 2000
    with pytest.raises(DamagedRecording, match="truncated"):
        recording.read()


@pytest.mark.parametrize("suffix", ["flac", "ogg", "mp3"])
def test_a_truncated_compressed_file_is_refused(suffix, tmp_path):
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: pip install 'saccade[audio]'")
    soundfile.write(tmp_path / f"a.{suffix}", sound(48_000), 8000)
    content = (tmp_path / f"a.{suffix}").read_bytes()
    message = refusal(content[: len(content) // 5])
    assert "damaged" in message or "truncated" in message


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")  # what a callback raises
def test_mutated_files_are_used_or_refused_in_one_line_and_no_callback_raises():
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: pip install 'saccade[audio]'")
    contents = [wav(sound(2000)), sph(sound(2000).tobytes())]
    for format in ("flac", "ogg", "mp3", "aiff", "caf", "w64"):
        file = io.BytesIO()
        soundfile.write(file, sound(2000), 8000, format=format)
        contents.append(file.getvalue())
    file = io.BytesIO()
    soundfile.write(file, sound(9000), 8000, format="aiff")
    before_its_start = bytearray(file.getvalue())  # where libsndfile then seeks
    before_its_start[39:43] = b"\xff" * 4
    random = np.random.RandomState(1)
    used = 0
    for number in range(241):
        content = bytearray(contents[number % len(contents)]) if number else before_its_start
        for place in random.randint(0, (100, len(content))[number // 8 % 2], number and 1 + number % 9):
            content[place] = random.randint(256)
        try:
            check_whole(Recording.in_memory(bytes(content), "given"))
            used += 1
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 (any of two endings is right)
    assert 20 < used < 220


def test_an_ogg_file_whose_last_pages_are_missing_is_read_as_far_as_it_goes():
    """The last page states its length: what is left is whole."""
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: pip install 'saccade[audio]'")
    file = io.BytesIO()
    soundfile.write(file, sound(480_000), 8000, format="ogg")
    found = read(file.getvalue()[: len(file.getvalue()) // 2])
    assert 8000 < len(found) < 480_000


def test_more_samples_than_the_bound_are_not_decoded(tmp_path, monkeypatch):
    monkeypatch.setenv("SACCADE_MAX_SAMPLES", "4000")
    path = write(tmp_path / "long.wav", 8001)
    recording = Recording.of_file(path)
    with pytest.raises(InputError, match=r"long\.wav: expected at most 0 s at 8,000 Hz.*SACCADE_MAX_SAMPLES="):
        recording.read()
    assert len(recording.part(0.25, 0.5).read()) == 2000  # a window of it is
    with pytest.raises(InputError, match="SACCADE_MAX_SAMPLES"):
        Recording.in_memory((sound(4001), 8000), "given")


def test_hours_of_silence_in_a_small_file_are_refused_before_they_are_decoded(tmp_path):
    """A sparse file: its header states what its size confirms."""
    path = tmp_path / "bomb.wav"
    head = wav(sound(0), rate=1000, stated=(1 << 30) - 64)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + (1 << 30))
    recording = Recording.of_file(path)
    assert recording.seconds > 500_000
    with pytest.raises(InputError, match=r"bomb\.wav.*at most 268,435 s"):
        recording.read()


def test_silence_is_told_from_sound():
    check_whole(Recording.in_memory(wav(sound(99)), "given"))
    with pytest.raises(Silent, match=r"given: expected a recording with sound, found 0\.01 s of silence"):
        check_whole(Recording.in_memory(wav(np.zeros(99, np.int16)), "given"))


def test_what_is_not_a_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    for path, found in (
        (tmp_path, "a folder"),
        (tmp_path / "pipe.wav", "a pipe"),
        (tmp_path / "no.wav", "no such file"),
    ):
        with pytest.raises(InputError, match=found):
            Recording.of_file(path)
    with pytest.raises(InputError, match="found"):
        Recording.named("a\0.wav", Path())
