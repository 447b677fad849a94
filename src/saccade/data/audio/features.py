"""Frames of recordings: log-mel filter banks or MFCC with energy, Δ and ΔΔ, kept on disk, and normalised as training data say.

    P(t, f) = |Σ_n w(n) x(t·hop + n) e^(−2πi f n / N)|²            w: Hann's window, centred on t · hop, zeros beyond the ends
    log_mel(t, m) = log max(Σ_f M(m, f) P(t, f), 10⁻¹⁰)             M: Slaney's filters, of equal area
    mfcc(t, k) = Σ_m DCT(k, m) log_mel(t, m)                        orthonormal, k below ``coefficients``
    energy(t) = log max(mean of x² over the window around t, 10⁻¹⁰)
    Δc(t) = Σ_{n=1,2} n (c(t + n) − c(t − n)) / 10                  ends repeated; ΔΔ = Δ of Δ

The functions are those of librosa: ``melspectrogram``, ``mfcc(S=…)``, ``rms``, and ``delta`` of width 5 with mode nearest. A
recording of n samples has 1 + ⌊n / hop⌋ frames; frame t is centred on t · hop seconds.

What is kept on disk (:mod:`saccade.data.feature_cache`) is what Δ is computed of, in float16. Predictions read the same rounded
values.

Legend: B batch, n samples, L frames, S values of a frame without Δ, D with Δ, N length of the transform.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float16, Int64
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.audio.config import SoundAugment, SoundFeatures
from saccade.data.audio.given import GivenFrames
from saccade.data.audio.recordings import Recording, Silent
from saccade.data.feature_cache import ABOUT, Done, FeatureShards, ShardWriter, cache_folder, progress_of, read_ahead
from saccade.documents import parse
from saccade.errors import InputError
from saccade.progress import report
from saccade.storage import write_json

FLOOR = 1e-10  # of powers, before the logarithm
REACH = 2  # frames on either side that Δ is computed of
SURE = 1.0  # seconds of the global mean and variance that a speaker's own are mixed with
LEAST_STD = 1e-3
MOST_SPEAKERS = 2000  # whose mean and variance a bundle keeps: some 9 MB; of more, those who speak longest
TOGETHER = 64 << 4  # thousands of samples that are computed together
READERS = 4  # threads; decoding and resampling release the interpreter's lock
LONG = 60  # seconds of a recording whose frames are computed at a time
FORMAT = 1
FILE = "sound.json"  # of a bundle

Source = Recording | GivenFrames


class Features(nn.Module):
    """Frames of samples, on any device.

    Shapes: samples ``[B, n]``, of which ``lengths`` count, zeros beyond → frames ``[B, L, D]`` and their lengths, zeros beyond.

    Args:
        config: which features; given ones have Δ added.
        rate: samples per second.
        given: values of a given frame.

    Attributes:
        width: D.
        plain: S.
        frames_per_second: of the features.
    """

    window: Tensor
    filters: Tensor
    transform: Tensor

    def __init__(self, config: SoundFeatures, rate: int, given: int | None = None) -> None:
        super().__init__()
        self.config, self.rate = config, rate
        self.hop = round(config.hop * rate)
        self.frames_per_second = 1 / config.hop if config.kind == "given" else rate / self.hop
        if config.kind == "given":
            if given is None:
                raise InputError("data.features", expected="the width of given frames", found="none")
            self.plain = given
        else:
            size = round(config.window * rate)
            self.size, self.length = size, 1 << max(4, (size - 1).bit_length())
            window = torch.hann_window(size, dtype=torch.float64)
            before = (self.length - size) // 2
            padded = functional.pad(window, (before, self.length - size - before))
            self.register_buffer("window", padded.float(), persistent=False)
            filters = torch.from_numpy(mel_filters(rate, self.length, config.mels, config.low, config.high))
            empty = int((filters.amax(1) <= 0).sum())
            if empty:
                expected, found = (
                    f"filters that each cover a frequency of {self.length} samples",
                    f"{empty} that cover none",
                )
                raise InputError("recipe", field=f"data.features.mels={config.mels}", expected=expected, found=found)
            self.register_buffer("filters", filters, persistent=False)
            self.register_buffer("transform", _dct(config.coefficients, config.mels), persistent=False)
            self.plain = (config.mels if config.kind == "log_mel" else config.coefficients) + config.energy
        self.width = self.plain * (1 + config.deltas)

    def count(self, samples: int) -> int:
        """The frames of so many samples."""
        return 1 + samples // self.hop

    def forward(
        self, samples: Float[Tensor, "B n"], lengths: Int64[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B L D"], Int64[Tensor, " B"]]:
        plain, counts = self.static(samples, lengths)
        return self.with_deltas(plain, counts), counts

    def static(
        self, samples: Float[Tensor, "B n"], lengths: Int64[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B L S"], Int64[Tensor, " B"]]:
        """The frames without Δ."""
        half = self.length // 2
        framed = functional.pad(samples, (half, half)).unfold(1, self.length, self.hop)  # [B, L, N]
        counts = 1 + torch.div(lengths, self.hop, rounding_mode="floor")
        spectrum = torch.fft.rfft(framed * self.window)
        power = spectrum.real.square() + spectrum.imag.square()
        values = (power @ self.filters.T).clamp(min=FLOOR).log()
        if self.config.kind == "mfcc":
            values = values @ self.transform.T
        if self.config.energy:
            before = half - self.size // 2
            inside = framed[..., before : before + self.size]
            energy = inside.square().mean(-1, keepdim=True).clamp(min=FLOOR).log()
            values = torch.cat([values, energy], -1)
        return values * _inside(values, counts), counts

    def with_deltas(self, plain: Float[Tensor, "B L S"], counts: Int64[Tensor, " B"]) -> Float[Tensor, "B L D"]:
        """The frames with their Δ and ΔΔ beside them."""
        parts = [plain]
        for _ in range(self.config.deltas):
            parts.append(_delta(parts[-1], counts))
        frames = torch.cat(parts, -1)
        return frames * _inside(frames, counts)


def _inside(frames: Tensor, counts: Int64[Tensor, " B"]) -> Tensor:
    """1 for real frames, 0 beyond them [B, L, 1]."""
    places = torch.arange(frames.shape[1], device=frames.device)
    return (places < counts[:, None])[..., None].to(frames.dtype)


def _delta(values: Float[Tensor, "B L S"], counts: Int64[Tensor, " B"]) -> Float[Tensor, "B L S"]:
    """Differences over time, the first and the last real frame repeated beyond the ends."""
    places = torch.arange(values.shape[1], device=values.device)
    last = (counts - 1)[:, None]
    changes = torch.zeros_like(values)
    for reach in range(1, REACH + 1):
        after = torch.minimum(places + reach, last)[..., None].expand_as(values)
        before = torch.minimum((places - reach).clamp(min=0), last)[..., None].expand_as(values)
        changes = changes + reach * (values.gather(1, after) - values.gather(1, before))
    return changes / (2 * sum(reach * reach for reach in range(1, REACH + 1)))


def mel_filters(rate: int, length: int, mels: int, low: float, high: float | None) -> Float[ndarray, "M F"]:
    """Slaney's mel filters: triangles of equal area over the frequencies of a transform of ``length`` samples."""
    edges = _from_mel(np.linspace(_to_mel(low), _to_mel(rate / 2 if high is None else high), mels + 2))
    frequencies = np.fft.rfftfreq(length, 1 / rate)
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    filters = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))[:, None]
    found: ndarray = filters.astype(np.float32)
    return found


LINEAR, STEP = (
    1000.0,
    27 / np.log(6.4),
)  # Hz up to which Slaney's scale is linear, 3 mels per 200 Hz; mels per e-fold above


def _to_mel(frequency: float) -> float:
    below = 3 * min(frequency, LINEAR) / 200
    return float(below + STEP * np.log(max(frequency, LINEAR) / LINEAR))


def _from_mel(mels: ndarray) -> ndarray:
    most = 3 * LINEAR / 200
    found: ndarray = np.where(mels < most, 200 * mels / 3, LINEAR * np.exp((np.maximum(mels, most) - most) / STEP))
    return found


def _dct(count: int, size: int) -> Float[Tensor, "K M"]:
    """The first rows of the orthonormal discrete cosine transform (type 2)."""
    places = (torch.arange(size, dtype=torch.float64) + 0.5) * torch.pi / size
    rows = torch.cos(torch.arange(count, dtype=torch.float64)[:, None] * places) * (2 / size) ** 0.5
    rows[0] /= 2**0.5
    found: Tensor = rows.float()
    return found


# Normalisation --------------------------------------------------------------------------------------------------------


@dataclass
class Moments:
    """Sums over frames, from which means and variances follow."""

    count: float
    total: Float[ndarray, " D"]
    squares: Float[ndarray, " D"]

    @classmethod
    def of(cls, frames: Float[ndarray, "L D"]) -> Moments:
        wide = np.asarray(frames, np.float64)
        return cls(float(len(wide)), wide.sum(0), np.square(wide).sum(0))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @property
    def scale(self) -> tuple[Float[ndarray, " D"], Float[ndarray, " D"]]:
        """Mean and standard deviation."""
        mean = self.total / self.count
        std = np.sqrt(np.maximum(self.squares / self.count - mean**2, LEAST_STD**2))
        return mean.astype(np.float32), std.astype(np.float32)

    def weighing(self, count: float) -> Moments:
        """The same mean and variance, of so many frames."""
        return Moments(count, self.total * (count / self.count), self.squares * (count / self.count))


class Normaliser:
    """Means and standard deviations of training frames, of all speakers and of each; see :class:`SoundFeatures`."""

    def __init__(self, per_speaker: bool, second: float, whole: Moments, speakers: Mapping[str, Moments]) -> None:
        """``second``: the frames of one."""
        self.per_speaker, self.second, self.whole, self.speakers = per_speaker, second, whole, dict(speakers)
        self._scales: dict[str | None, tuple[ndarray, ndarray]] = {}

    @classmethod
    def learn(cls, frames: Iterable[tuple[str, ndarray]], *, per_speaker: bool, second: float) -> Normaliser:
        """From (speaker, frames) of every training recording."""
        whole: Moments | None = None
        speakers: dict[str, Moments] = {}
        for speaker, values in frames:
            found = Moments.of(values)
            whole = found if whole is None else whole + found
            if per_speaker and speaker:
                speakers[speaker] = speakers[speaker] + found if speaker in speakers else found
        if whole is None:
            raise InputError("data.train", expected="recordings to normalise by", found="none")
        known = sorted(speakers, key=lambda name: (-speakers[name].count, name))[:MOST_SPEAKERS]
        return cls(per_speaker, second, whole, {name: speakers[name] for name in known})

    def __call__(self, frames: Float[Tensor, "L D"], speaker: str = "") -> Float[Tensor, "L D"]:
        mean, std = self._scale(frames, speaker)
        return (frames - torch.from_numpy(mean)) / torch.from_numpy(std)

    def _scale(self, frames: Tensor, speaker: str) -> tuple[ndarray, ndarray]:
        key = None if not self.per_speaker else speaker
        if self.per_speaker and speaker not in self.speakers:
            return (Moments.of(frames.numpy()) + self.whole.weighing(SURE * self.second)).scale
        if key not in self._scales:
            own = self.whole
            if key is not None:
                own = self.speakers[key] + self.whole.weighing(SURE * self.second)
            self._scales[key] = own.scale
        return self._scales[key]

    def to_plain(self) -> dict[str, Any]:
        def plain(moments: Moments) -> list[Any]:
            return [moments.count, moments.total.tolist(), moments.squares.tolist()]

        speakers = {name: plain(moments) for name, moments in sorted(self.speakers.items())}
        return {"second": self.second, "whole": plain(self.whole), "speakers": speakers}

    @classmethod
    def from_plain(cls, stated: Any, *, per_speaker: bool, width: int) -> Normaliser:
        def moments(given: Any, name: str) -> Moments:
            try:
                count, total, squares = given
                found = Moments(float(count), np.asarray(total, np.float64), np.asarray(squares, np.float64))
                fits = found.total.shape == found.squares.shape == (width,) and found.count > 0
                finite = fits and bool(np.isfinite([*found.total, *found.squares, found.count]).all())
            except (TypeError, ValueError, OverflowError):
                finite = False
            if not finite:
                expected = f"a count, {width} sums and {width} sums of squares"
                raise InputError(FILE, field=f"normalise.{name}", expected=expected, found="something else")
            return found

        if not isinstance(stated, dict) or not isinstance(stated.get("speakers"), dict):
            raise InputError(FILE, field="normalise", expected="sums and sums of squares", found="something else")
        second = stated.get("second")
        if not isinstance(second, int | float) or not 0 < second < 1e6:
            raise InputError(FILE, field="normalise.second", expected="frames per second", found=repr(second)[:40])
        speakers = {str(name): moments(given, f"speakers.{name}"[:60]) for name, given in stated["speakers"].items()}
        return cls(per_speaker, float(second), moments(stated.get("whole"), "whole"), speakers)


# Frames of corpora ----------------------------------------------------------------------------------------------------


def cache_folder_of(config: SoundFeatures, rate: int) -> Path:
    """The folder of one kind of features in the cache."""
    names = ("kind", "mels", "energy", "coefficients", "window", "hop", "low", "high")
    about = {"format": FORMAT, "rate": rate, **{name: getattr(config, name) for name in names}}
    key = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=8).hexdigest()
    folder = cache_folder(config.cache) / f"{config.kind}-{key}"
    if not (folder / ABOUT).is_file():
        write_json(folder / ABOUT, about)
    return folder


def digest_at(recording: Recording, speed: float) -> str:
    """The digest of a recording that is played at another speed."""
    if speed == 1.0:
        return recording.digest
    return hashlib.blake2b(f"{recording.digest} × {speed:g}".encode(), digest_size=16).hexdigest()


class KeptSound:
    """What a task's networks read of recordings: their frames, kept on disk, and how training data normalise them.

    Attributes:
        features: the module that computes frames, and their width.
    """

    def __init__(self, config: SoundFeatures, rate: int, features: Features, normaliser: Normaliser | None) -> None:
        self.config, self.rate, self.features, self.normaliser = config, rate, features, normaliser

    @classmethod
    def learn(
        cls, config: SoundFeatures, rate: int, records: Sequence[Any], *, speeds: Sequence[float] = (1.0,),
        progress: bool | Done = True,
    ) -> KeptSound:  # fmt: skip
        """The features of training records (with a ``source`` and a ``speaker``), whose frames are computed and kept now."""
        given = next((record.source.width for record in records if isinstance(record.source, GivenFrames)), None)
        kept = cls(config, rate, Features(config, rate, given), None)
        if config.normalise != "none":
            store = kept.store(records, speeds, progress=progress)
            second, per_speaker = kept.features.frames_per_second, config.normalise == "speaker"
            found = (
                (records[owner].speaker, store.frames([row])[0].numpy()) for row, (owner, _) in enumerate(store.rows)
            )
            kept.normaliser = Normaliser.learn(found, per_speaker=per_speaker, second=second)
        return kept

    @classmethod
    def restore(cls, config: SoundFeatures, rate: int, files: Mapping[str, str]) -> KeptSound:
        """The features that a bundle was trained on."""
        if FILE not in files:
            raise InputError(FILE, expected="how recordings are normalised, in the bundle", found="no such file")
        stated = parse(files[FILE], FILE)
        plain = stated.get("plain") if isinstance(stated, dict) else None
        if type(plain) is not int or not 1 <= plain <= 4096:
            raise InputError(FILE, field="plain", expected="the values of a frame", found=repr(plain)[:40])
        features = Features(config, rate, plain if config.kind == "given" else None)
        if features.plain != plain:
            expected = f"features of {plain} values, which the network was trained on"
            raise InputError("recipe", field="data.features", expected=expected, found=f"{features.plain}")
        if config.normalise == "none":
            return cls(config, rate, features, None)
        per_speaker = config.normalise == "speaker"
        normaliser = Normaliser.from_plain(stated.get("normalise"), per_speaker=per_speaker, width=features.width)
        return cls(config, rate, features, normaliser)

    def files(self) -> dict[str, str]:
        """What a bundle keeps: the width, and the means and variances of training data."""
        stated = None if self.normaliser is None else self.normaliser.to_plain()
        return {FILE: json.dumps({"plain": self.features.plain, "normalise": stated})}

    @property
    def width(self) -> int:
        """The values of a frame."""
        return self.features.width

    @property
    def frames_per_second(self) -> float:
        return self.features.frames_per_second

    def store(
        self, records: Sequence[Any], speeds: Sequence[float] = (1.0,), *, progress: bool | Done = True
    ) -> SoundStore:
        """The frames of a corpus, computed now where they are not kept yet."""
        return SoundStore(records, self, speeds, progress=progress)

    def frames(self, sources: Sequence[tuple[Source, str]]) -> list[Float[Tensor, "L D"]]:
        """The frames of any recordings, each with its speaker ("" where unknown): computed now and not kept."""
        found = []
        for source, speaker in sources:
            found.append(self.finished(self.plain([source])[0], speaker))
        return found

    def plain(self, sources: Sequence[Source], speeds: Sequence[float] = ()) -> list[Float16[Tensor, "L S"]]:
        """The frames without Δ, as they are kept."""
        given = [source for source in sources if isinstance(source, GivenFrames)]
        if given:
            return [self._given(source) for source in given]
        samples = [
            source.read(self.rate, speed=speed)
            for source, speed in zip(sources, speeds or [1.0] * len(sources), strict=True)
            if isinstance(source, Recording)
        ]
        return self.plain_of(samples, [source.name for source in sources])

    def plain_of(self, samples: Sequence[ndarray], names: Sequence[str]) -> list[Float16[Tensor, "L S"]]:
        """The frames without Δ of samples at the rate of the features."""
        if self.config.kind == "given":
            raise InputError(names[0], expected=f"given frames [L, {self.features.plain}]", found="a recording")
        if len(samples) == 1 and len(samples[0]) > LONG * self.rate:
            return [self._in_parts(samples[0])]
        lengths = torch.tensor([len(one) for one in samples])
        together = torch.zeros(len(samples), int(lengths.max()))
        for row, one in enumerate(samples):
            together[row, : len(one)] = torch.from_numpy(one)
        device = self.features.window.device
        with torch.inference_mode():
            values, counts = self.features.static(together.to(device), lengths.to(device))
            rounded = values.to("cpu", torch.float16)
        return [rounded[row, :count].clone() for row, count in enumerate(counts.tolist())]

    def _in_parts(self, samples: ndarray) -> Float16[Tensor, "L S"]:
        """The frames of a long recording, some at a time: one takes a hundred times the memory of its values."""
        features, parts = self.features, []
        total, step = features.count(len(samples)), LONG * self.rate // features.hop
        beyond = -(-features.length // (2 * features.hop))  # frames whose window the next or the last part begins in
        for start in range(0, total, step):
            first, last = max(0, start - beyond), min(total, start + step)
            piece = torch.from_numpy(samples[first * features.hop : (last + beyond) * features.hop])
            with torch.inference_mode():
                device = features.window.device
                values, _ = features.static(piece[None].to(device), torch.tensor([len(piece)], device=device))
            parts.append(values[0, start - first : last - first].to("cpu", torch.float16))
        return torch.cat(parts)

    def _given(self, source: GivenFrames) -> Float16[Tensor, "L S"]:
        if self.config.kind != "given":
            expected = "a recording, or data.features.kind: given"
            raise InputError(source.name, expected=expected, found=f"frames of {source.width} values")
        if source.width != self.features.plain:
            raise InputError(source.name, expected=f"frames of {self.features.plain} values", found=f"{source.width}")
        frames = torch.from_numpy(source.read().copy())
        most = float(frames.abs().max())
        if most > torch.finfo(torch.float16).max:
            raise InputError(source.name, expected="values that float16 holds, up to 65,504", found=f"{most:g}")
        return frames.half()

    def finished(self, plain: Float16[Tensor, "L S"], speaker: str = "") -> Float[Tensor, "L D"]:
        """Kept frames as a network reads them: with Δ, normalised."""
        frames = self.features.with_deltas(plain.float()[None], torch.tensor([len(plain)]))[0]
        return frames if self.normaliser is None else self.normaliser(frames, speaker)


class SoundStore:
    """The frames of a corpus by rows; each record has a row for every one of the ``speeds``, one after the other.

    Attributes:
        rows: the number of the record and the speed of each row.
        lengths: the frames of each row.
        computed: how many rows the cache lacked.
    """

    def __init__(
        self,
        records: Sequence[Any],
        sound: KeptSound,
        speeds: Sequence[float] = (1.0,),
        *,
        progress: bool | Done = True,
    ) -> None:
        self.records, self.sound, self.computed = records, sound, 0
        if sound.config.kind == "given":
            if tuple(speeds) != (1.0,):
                raise InputError(
                    "recipe", field="data.augment.speeds", expected="[1.0] with given frames", found=str(list(speeds))
                )
            self.rows = [(number, 1.0) for number in range(len(records))]
            self.lengths = np.array([record.source.count for record in records], np.int64)
            return
        for record in records:
            if not isinstance(record.source, Recording):
                expected = "a recording, or data.features.kind: given"
                raise InputError(record.source.name, expected=expected, found="given frames")
        self.rows = [(number, speed) for number in range(len(records)) for speed in speeds]
        self._shards = FeatureShards(cache_folder_of(sound.config, sound.rate), (sound.features.plain,), "recordings")
        digests = [digest_at(records[owner].source, speed) for owner, speed in self.rows]
        missing = {digest: row for row, digest in enumerate(digests) if digest not in self._shards}
        if missing:
            self._compute(list(missing.values()), digests, progress)
        self._places = np.array([self._shards.place(digest) for digest in digests], np.int64).reshape(-1, 3)
        self.lengths = self._places[:, 2]

    def __len__(self) -> int:
        return len(self.rows)

    def frames(self, numbers: Sequence[int]) -> list[Float[Tensor, "L D"]]:
        """The frames of the rows with these numbers, as a network reads them."""
        found = []
        for number in numbers:
            record = self.records[self.rows[number][0]]
            if self.sound.config.kind == "given":
                plain = self.sound.plain([record.source])[0]
            else:
                plain = torch.from_numpy(self._shards.rows(*self._places[number].tolist()).copy())
            found.append(self.sound.finished(plain, record.speaker))
        return found

    def _compute(self, missing: Sequence[int], digests: Sequence[str], progress: bool | Done) -> None:
        """Compute rows of similar length together, and write them; the next ones are read meanwhile."""
        features = self.sound.features
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        seconds = {row: self.records[self.rows[row][0]].source.seconds / self.rows[row][1] for row in missing}
        total, self.computed = len(set(digests)), len(missing)
        ready = total - len(missing)
        rows = sum(features.count(round(length * features.rate)) for length in seconds.values())
        features.to(device)
        try:
            with (
                progress_of(progress, total, "recordings") as done,
                ShardWriter(self._shards, rows) as writer,
                ThreadPoolExecutor(min(READERS, os.cpu_count() or 1), "saccade-recordings") as readers,
            ):
                read = partial(self._read_all, readers)
                for part, samples in read_ahead(read, _parts(missing, seconds, features.rate)):
                    names = [self.records[self.rows[row][0]].source.name for row in part]
                    plain = self.sound.plain_of(samples, names)
                    writer.add([digests[row] for row in part], torch.cat(plain), [len(one) for one in plain])
                    ready += len(part)
                    report(ready / total)  # whoever watches may stop it
                    if done is not None:
                        done(ready, total)
        finally:
            features.to("cpu")

    def _read_all(self, readers: ThreadPoolExecutor, part: Sequence[int]) -> list[ndarray]:
        return list(readers.map(self._read, part))

    def _read(self, row: int) -> ndarray:
        """The samples of a row, at the rate of the features."""
        owner, speed = self.rows[row]
        recording = self.records[owner].source
        samples: ndarray = recording.read(self.sound.rate, speed=speed)
        if not samples.any():
            found, hint = f"{recording.seconds:.2f} s of silence", "data.faults: drop leaves such recordings out"
            raise Silent(recording.name, expected="a recording with sound", found=found, hint=hint)
        return samples


def _parts(missing: Sequence[int], seconds: Mapping[int, float], rate: int) -> Iterator[list[int]]:
    """Rows to compute together, in their order: about TOGETHER thousands of samples, padding included."""
    part: list[int] = []
    longest = 0.0
    for row in missing:
        widest = max(longest, seconds[row])
        if part and widest * (len(part) + 1) * rate > 1000 * TOGETHER:
            yield part
            part, widest = [], seconds[row]
        part.append(row)
        longest = widest
    if part:
        yield part


def speeds_of(augment: SoundAugment, config: SoundFeatures) -> tuple[float, ...]:
    """The speeds of training recordings; given frames have one."""
    return (1.0,) if config.kind == "given" else augment.speeds
