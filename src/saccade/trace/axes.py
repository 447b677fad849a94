"""Axes: what the rows and columns of an attention map stand for.

An axis is a list of labels and what a view needs to draw them: the characters that a token covers, the image behind a grid
of patches, the audio behind frames. Axes nest: a word axis may name the sentence axis that it lies in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int16, UInt8
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.storage import same_bits

WHOLE = (0.0, 0.0, 1.0, 1.0)  # the box of a grid over all of its image
FARTHEST = 1e3  # how many times its image a box may be
LATEST = 1e7  # seconds into a recording
PLAYED = 16_000  # Hz that a sound is kept at to be played, at most


@dataclass(frozen=True, eq=False)
class Axis:
    """Labels, one per position; ``within[i]`` is the position on the axis ``parent`` that position i lies in."""

    labels: tuple[str, ...]
    parent: str | None = None
    within: tuple[int, ...] = ()
    kind: ClassVar[str] = "positions"

    def __post_init__(self) -> None:
        for field in fields(self):
            content = getattr(self, field.name)
            if field.name in ("labels", "within") or isinstance(content, list | tuple):
                object.__setattr__(self, field.name, _tuples(content))
        if self.parent is not None and len(self.within) != len(self.labels):
            raise SaccadeError(
                f"an axis that nests in {self.parent!r} needs one parent position per label: "
                f"got {len(self.within)} for {len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Positions(Axis):
    """Unlabelled positions: 0, 1, 2, …"""

    kind: ClassVar[str] = "positions"

    @classmethod
    def of(cls, size: int) -> Positions:
        return cls(tuple(map(str, range(size))))


@dataclass(frozen=True, eq=False)
class Tokens(Axis):
    """Tokens of a text. ``spans[i]`` are the characters of ``text`` that token i covers, ``words[i]`` the number of the
    word it belongs to, ``special`` the positions of markers such as ``<eos>``."""

    text: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    words: tuple[int, ...] = ()
    special: tuple[int, ...] = ()
    kind: ClassVar[str] = "tokens"


@dataclass(frozen=True, eq=False)
class Sentences(Axis):
    """Sentences of a document."""

    kind: ClassVar[str] = "sentences"


@dataclass(frozen=True, eq=False)
class Grid(Axis):
    """Patches of an image, row by row: ``height × width`` labels; ``image`` is uint8 [rows, columns, 3].

    ``box`` is where the patches lie on the image: left, top, right and bottom as fractions of its width and height. A network
    that reads the central square of a photo twice as wide as high has its patches in (0.25, 0, 0.75, 1); where it reads grey
    beside the whole photo, the box is larger than the image.
    """

    height: int = 0
    width: int = 0
    image: Tensor | None = None
    box: tuple[float, float, float, float] = WHOLE
    kind: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.height * self.width != len(self.labels):
            raise SaccadeError(f"labels: expected {self.height} × {self.width} of them, found {len(self.labels)}")
        if not _is_box(self.box):
            expected = "left < right and top < bottom, fractions of the image that the box shares a part with"
            raise SaccadeError(f"box: expected {expected}; found {self.box}")


@dataclass(frozen=True, eq=False)
class Frames(Axis):
    """Frames of a recording, ``seconds`` apart; the first begins at second ``start`` of the recording.

    Both begin with the first frame: ``spectrogram`` [bands, columns] (uint8 or floating-point, the lowest band first; its
    columns span all frames, so there may be several per frame), and ``audio`` [samples] (int16, or floating-point from −1 to 1)
    at ``rate`` Hz. ``segments`` are stretches of the recording that are known to be right: symbol, start and end in seconds.
    """

    seconds: float = 0.0
    spectrogram: Tensor | None = None
    audio: Tensor | None = None
    rate: int = 0
    start: float = 0.0
    segments: tuple[tuple[str, float, float], ...] = ()
    kind: ClassVar[str] = "frames"

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = f"symbol, start and end with 0 ≤ start ≤ end ≤ {LATEST:g} seconds"
        for number, segment in enumerate(self.segments):
            if not _is_segment(segment):
                raise SaccadeError(f"segments[{number}]: expected {expected}; found {segment!r:.100}")

    @classmethod
    def of(
        cls,
        frames: int,
        seconds: float,
        *,
        samples: Tensor | None = None,
        rate: int = 0,
        features: Float[Tensor, "F D"] | None = None,
        pooling: int = 1,
        start: float = 0.0,
        segments: Iterable[tuple[str, float, float]] = (),
    ) -> Frames:
        """Frames with a small copy of their sound and of its features: int16 at 16 kHz or less, and uint8.

        Args:
            samples: from −1 to 1, at ``rate`` Hz.
            features: log-mel features, the lowest band first. Without Δ and energy, which are no bands.
            pooling: rows of the features per frame, where a network pools what it reads over time.
        """
        labels = tuple(f"{start + frame * seconds:.2f} s" for frame in range(frames))
        audio = None
        if samples is not None:
            audio, rate = _for_playing(samples.detach().float().cpu(), rate)
        picture = None
        if features is not None and features.numel() and frames:
            bands = features.detach().float().cpu().T
            missing = frames * pooling - bands.shape[1]  # columns that the last frame lacks; less than 0: too many
            picture = torch.nn.functional.pad(_as_bytes(bands), (0, missing))
        return cls(
            labels,
            seconds=seconds,
            spectrogram=picture,
            audio=audio,
            rate=rate if audio is not None else 0,
            start=start,
            segments=tuple(segments),
        )


@dataclass(frozen=True, eq=False)
class Nodes(Axis):
    """Nodes of a graph; ``places`` [nodes, 2] are their drawing positions."""

    places: Tensor | None = None
    kind: ClassVar[str] = "nodes"


@dataclass(frozen=True, eq=False)
class Visits(Axis):
    """Visits of a patient, in order; ``times`` as written in the record."""

    times: tuple[str, ...] = ()
    kind: ClassVar[str] = "visits"


@dataclass(frozen=True, eq=False)
class Reviews(Axis):
    """Reviews of a user or an item, with their ratings."""

    ratings: tuple[float, ...] = ()
    kind: ClassVar[str] = "reviews"


AXES: dict[str, type[Axis]] = {
    axis.kind: axis for axis in (Positions, Tokens, Sentences, Grid, Frames, Nodes, Visits, Reviews)
}


def _is_box(box: Any) -> bool:
    """Whether these are four numbers, in order, that leave a part of the image in the box."""
    if not isinstance(box, tuple) or len(box) != 4:
        return False
    if not all(isinstance(side, int | float) and not isinstance(side, bool) for side in box):
        return False
    left, top, right, bottom = box
    inside = left < 1 and top < 1 and right > 0 and bottom > 0
    return left < right and top < bottom and inside and all(abs(side) <= FARTHEST for side in box)


def _for_playing(samples: Float[Tensor, "n"], rate: int) -> tuple[Int16[Tensor, "m"], int]:
    """Samples in 16 bits, averaged in groups where there are more than 16,000 per second, and their rate."""
    divisors = range(max(1, -(-rate // PLAYED)), 13)
    group = next((number for number in divisors if rate % number == 0), 1)
    grouped = samples[: len(samples) // group * group].view(-1, group).mean(1)
    return (torch.nan_to_num(grouped).clamp(-1, 1) * 32767).round().short(), rate // group


def _as_bytes(bands: Float[Tensor, "D F"]) -> UInt8[Tensor, "D F"]:
    """Features as bytes, from nearly the lowest to nearly the highest: single odd numbers do not set the scale."""
    numbers = torch.nan_to_num(bands)
    some = numbers.flatten()[:: max(1, numbers.numel() // 100_000)].sort().values
    low, high = some[len(some) // 1000], some[-1 - len(some) // 1000]
    return ((numbers - low) / (high - low).clamp(min=1e-9)).clamp(0, 1).mul(255).round().byte()


def _is_segment(segment: Any) -> bool:
    if not isinstance(segment, tuple) or len(segment) != 3 or not isinstance(segment[0], str):
        return False
    if not all(isinstance(second, int | float) and not isinstance(second, bool) for second in segment[1:]):
        return False
    return bool(0 <= segment[1] <= segment[2] <= LATEST)


def _tuples(part: Iterable[Any]) -> tuple[Any, ...]:
    whole = tuple(part)
    if not any(issubclass(kind, list | tuple) for kind in set(map(type, whole))):
        return whole  # tens of thousands of labels need not be checked one by one
    return tuple(_tuples(item) if isinstance(item, list | tuple) else item for item in whole)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return same_bits(one, other)
    return bool(one == other)
