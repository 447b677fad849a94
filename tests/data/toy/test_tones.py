"""Strings of tones: the sound is that of the description, and every tone has its true boundaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from saccade.data.toy.tones import EXAMPLES, LOUDNESS, SYMBOLS, Tone, Tones, ToneString, generate

SMALL = Tones(train=53, valid=3, test=7)


def pitch_of(sound: np.ndarray, rate: int) -> float:
    """The frequency of the strongest partial, in Hz."""
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 1 << 15))
    return float(spectrum.argmax() * rate / (1 << 15))


def test_every_tone_sounds_between_its_boundaries_and_pauses_hold_noise_alone() -> None:
    for string in generate(SMALL)["train"]:
        sound, tones = string.draw(), dict.fromkeys(range(len(string.tones)))
        assert len(sound) == string.count == round(16_000 * string.seconds) and sound.dtype == np.float32
        assert string.starts[0] == string.before
        assert not string.before or sound[: round(160 * string.before)].std() == pytest.approx(0.15 * LOUDNESS, rel=0.3)
        for number in tones:
            symbol, start, end = string.times[number]
            inside = sound[round(16_000 * start) : round(16_000 * end)]
            pause = sound[round(16_000 * end) : round(16_000 * string.starts[number + 1] / 100)]
            loud = LOUDNESS * 10 ** (string.tones[number].loudness / 20)
            assert symbol == string.text[number]
            assert 0.45 * loud < inside.std() < 1.1 * loud
            assert not len(pause) or pause.std() == pytest.approx(0.15 * LOUDNESS, rel=0.3)


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100])
def test_a_symbol_has_its_pitch_at_every_rate(rate: int) -> None:
    pitches = []
    for symbol in SYMBOLS[:12]:
        string = ToneString((Tone("a", 5), Tone(symbol, 15)), noise=0.0)
        _, start, end = string.times[1]
        pitches.append(pitch_of(string.draw(rate)[round(start * rate) : round(end * rate)], rate))
    expected = 180.0 * (2400 / 180) ** (np.arange(12) / 11)
    np.testing.assert_allclose(pitches, expected, atol=6)


def test_a_tone_is_silent_at_its_ends_so_that_boundaries_are_heard() -> None:
    sound = ToneString((Tone("d", 9), Tone("e", 11)), noise=0.0).draw()
    boundary = round(0.09 * 16_000)
    assert (
        np.abs(sound[boundary - 16 : boundary + 16]).max() < 0.3 * np.abs(sound[boundary + 200 : boundary + 400]).max()
    )


def test_between_equal_tones_there_is_always_a_pause_and_between_others_sometimes() -> None:
    pauses = {True: [], False: []}
    for string in generate(Tones(train=201, valid=1, test=1, alphabet=3, pauses=0.3, pause_frames=(2, 3)))["train"]:
        for tone, following in zip(string.tones, string.tones[1:]):
            pauses[tone.symbol == following.symbol].append(tone.pause)
    assert set(pauses[True]) == {2, 3} and set(pauses[False]) == {0, 2, 3}
    assert np.mean(np.array(pauses[False]) > 0) == pytest.approx(0.3, abs=0.05)


def test_a_split_depends_on_its_seed_and_not_on_the_size_of_another() -> None:
    more = generate(Tones(train=2, valid=3, test=7))
    assert more["test"] == generate(SMALL)["test"] and more["train"] == generate(SMALL)["train"][:2]
    assert generate(Tones(train=2, valid=3, test=7, seed=2))["test"] != more["test"]
    again = generate(SMALL)["test"][0]
    np.testing.assert_array_equal(again.draw(), more["test"][0].draw())


def test_strings_and_tones_have_all_lengths_asked_for_and_long_strings_repeat_symbols() -> None:
    strings = generate(Tones(train=301, valid=1, test=1, symbols=(3, 6), frames=(4, 7), alphabet=5, margins=(0, 3)))[
        "train"
    ]
    assert {len(string.text) for string in strings} == {3, 4, 5, 6}
    assert {tone.frames for string in strings for tone in string.tones} == {4, 5, 6, 7}
    assert set("".join(string.text for string in strings)) == set("abcde")
    margins = {string.before for string in strings} | {string.after for string in strings}
    assert margins == set(range(4))
    long = generate(Tones(train=1, valid=1, test=11, symbols=(50, 100)))["test"]
    assert all(50 <= len(string.text) <= 100 and max(Counter(string.text).values()) > 4 for string in long)


def test_examples_hold_repeated_symbols_and_pauses() -> None:
    assert [string.text for string in EXAMPLES] == ["cafeb", "dddkld"]
    assert EXAMPLES[0].times[2] == ("f", pytest.approx(0.22), pytest.approx(0.37))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"test": 0}, "test"), ({"symbols": (9, 5)}, "symbols"), ({"symbols": (0, 5)}, "symbols"),
        ({"frames": (5, 10**6)}, "frames"), ({"pause_frames": (0, 2)}, "pause_frames"), ({"alphabet": 27}, "alphabet"),
        ({"pauses": 1.5}, "pauses"), ({"noise": float("nan")}, "noise"), ({"margins": (3, 2)}, "margins"),
        ({"rate": 10}, "rate"), ({"spread": -1.0}, "spread"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(changes: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be"):
        Tones(**changes)  # type: ignore[arg-type]
