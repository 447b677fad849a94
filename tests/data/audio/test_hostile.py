"""Damaged and malicious recordings and manifests: each is read, refused with one error, or dropped and counted.

``scripts/mutate_sounds.py`` tries more, in every way of using them, with their time and memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saccade.data.audio.recordings import Recording
from saccade.data.audio.records import SpeechData, load_speech
from saccade.errors import SaccadeError
from saccade.recipes.located import locate
from saccade.recipes.schema import build
from tests import hostile_sounds as hostile

HEAVY = ("twenty minutes", "ten minutes", "300 MB", "100,000", "20 GB", "5 MB", "3 MB")  # left to the script
SOUNDS = [case for case in hostile.sound_cases(2) if not any(word in case[0] for word in HEAVY)]
MANIFESTS = [case for case in hostile.manifest_cases().items() if not any(word in case[0] for word in HEAVY)]
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_a_recording_is_read_as_finite_samples_or_refused_with_one_line(part: int, tmp_path: Path) -> None:
    for name, file, make in SOUNDS[part::PARTS]:
        (tmp_path / file).write_bytes(make())
        for given in (tmp_path / file, make()):
            sound = tried(name, lambda given=given: Recording.in_memory(given, "input 1").read(16_000))
            if isinstance(sound, str):
                assert "\n" not in sound and not name.startswith("whole"), name
            else:
                assert sound.dtype == np.float32 and sound.ndim == 1 and np.isfinite(sound).all(), name


@pytest.mark.parametrize("faults", ["error", "drop"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_manifest_is_read_or_refused_with_one_line(part: int, faults: str, tmp_path: Path) -> None:
    for number, (name, make) in enumerate(MANIFESTS[part::PARTS]):
        home = tmp_path / str(number)
        given = {**make(home, hostile.good_sounds(home)), "faults": faults, "hold_out": 0.2}
        splits = tried(name, lambda given=given, home=home: load_speech(_data(given), home, 1))
        if isinstance(splits, str):
            assert "\n" not in splits and not name.endswith("whole"), name
        else:
            assert len(splits.train) > 5, name
        assert not (home / "ran").exists() and not Path("ran").exists(), name  # by a command that a manifest names


def tried(name: str, use: Callable[[], Any]) -> Any:
    """What it returns, or the message of the error that refuses it."""
    try:
        return use()
    except SaccadeError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(name) from error


def _data(given: dict[str, Any]) -> SpeechData:
    built: SpeechData = build(SpeechData, locate(given, "my.yaml"), "data")
    return built
