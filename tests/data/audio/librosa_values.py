"""What librosa computes of a fixed signal, in the layout of :class:`saccade.data.audio.features.Features`.

python tests/data/audio/librosa_values.py     writes librosa_values.npz anew (0.11.0 wrote it)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from saccade.data.audio.config import SoundFeatures

KEPT = Path(__file__).with_name("librosa_values.npz")
FRAMES = (0, 1, 2, 13, -3, -2, -1)  # that are kept: both ends and some of the middle
CASES = {
    "log_mel": (16_000, SoundFeatures()),
    "mfcc": (16_000, SoundFeatures(kind="mfcc", mels=26, energy=False)),
    "narrow": (8_000, SoundFeatures(mels=23, low=130.0, high=3400.0, window=0.032, hop=0.011, deltas=1)),
}


def signal(count: int, seed: int = 7) -> np.ndarray:
    """Noise with a falling spectrum, which swells and fades, and a rising tone."""
    random = np.random.RandomState(seed)
    noise = np.convolve(random.standard_normal(count + 30), 0.8 ** np.arange(31), "valid")
    swell = 0.05 + np.sin(np.linspace(0, 3 * np.pi, count)) ** 2
    tone = np.sin(2 * np.pi * np.cumsum(np.linspace(0.01, 0.2, count)))
    return (0.05 * noise * swell + 0.1 * tone).astype(np.float32)


def values(samples: np.ndarray, rate: int, config: SoundFeatures) -> np.ndarray:
    """Frames [L, D]."""
    import librosa

    window, hop = round(config.window * rate), round(config.hop * rate)
    length = 1 << (window - 1).bit_length()
    power = librosa.feature.melspectrogram(
        y=samples, sr=rate, n_fft=length, hop_length=hop, win_length=window, window="hann", center=True,
        pad_mode="constant", power=2.0, n_mels=config.mels, fmin=config.low, fmax=config.high,
    )  # fmt: skip
    found = np.log(np.maximum(power, 1e-10))
    if config.kind == "mfcc":
        found = librosa.feature.mfcc(S=found, n_mfcc=config.coefficients)
    if config.energy:
        root = librosa.feature.rms(y=samples, frame_length=window, hop_length=hop, center=True, pad_mode="constant")
        found = np.concatenate([found, np.log(np.maximum(root**2, 1e-10))])
    parts = [found]
    for _ in range(config.deltas):
        parts.append(librosa.feature.delta(parts[-1], width=5, mode="nearest"))
    return np.concatenate(parts).T


if __name__ == "__main__":
    kept = {name: values(signal(5601), rate, config)[list(FRAMES)] for name, (rate, config) in CASES.items()}
    np.savez_compressed(KEPT, **{name: found.astype(np.float32) for name, found in kept.items()})
