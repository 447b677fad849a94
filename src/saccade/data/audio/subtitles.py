"""Writes transcripts with times: SubRip (.srt), WebVTT (.vtt), JSON (.json) and Praat's TextGrid (.TextGrid). No torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from saccade.data.audio.windows import LINE, Piece, Stretch, has_words, lines_of, segments_of, words_of
from saccade.errors import SaccadeError
from saccade.storage import write_bytes


@dataclass(frozen=True)
class Transcript:
    """What was said in a recording, and when.

    Attributes:
        name: what the recording is called.
        seconds: its length.
        pieces: what the network wrote, token by token, with when its attention heard it.
        notes: what went wrong, such as a window whose transcript did not end.
    """

    name: str
    seconds: float
    pieces: tuple[Piece, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def words(self) -> list[Stretch]:
        return words_of(self.pieces)

    @cached_property
    def segments(self) -> list[Stretch]:
        """Its words as subtitles show them, some seconds at a time."""
        return segments_of(self.words, " " if has_words(self.pieces) else "")

    @property
    def text(self) -> str:
        return " ".join("".join(piece.text for piece in self.pieces).split())

    def to_json(self) -> dict[str, Any]:
        """Plain data, times in seconds to the millisecond."""

        def rounded(parts: Sequence[Any]) -> list[dict[str, Any]]:
            return [
                {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(part).items()}
                for part in parts
            ]

        return {
            "name": self.name,
            "seconds": round(self.seconds, 3),
            "text": self.text,
            "segments": rounded(self.segments),
            "words": rounded(self.words),
            "pieces": rounded(self.pieces),
            "notes": list(self.notes),
        }

    def save(self, path: str | Path) -> None:
        """Write it as its ending says: .srt, .vtt, .json or .TextGrid."""
        write = FORMATS.get(Path(path).suffix.lower())
        if write is None:
            found = Path(path).suffix or "no ending"
            raise SaccadeError(f"{path}: expected a file ending in .srt, .vtt, .json or .TextGrid, found {found!r}")
        write_bytes(path, write(self).encode("utf-8", "replace"))


def srt(transcript: Transcript) -> str:
    """SubRip: numbered segments of two lines at most."""
    parts = []
    for number, (segment, start, end) in enumerate(_shown(transcript), start=1):
        text = "\n".join(_lines(segment.text)).replace("-->", "→")
        parts.append(f"{number}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text}\n")
    return "\n".join(parts)


def vtt(transcript: Transcript) -> str:
    """WebVTT, in which <, > and & are written as HTML writes them."""
    parts = ["WEBVTT\n"]
    for segment, start, end in _shown(transcript):
        text = "\n".join(_lines(segment.text))
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        parts.append(f"{_clock(start, '.')} --> {_clock(end, '.')}\n{text}\n")
    return "\n".join(parts)


def text_grid(transcript: Transcript) -> str:
    """Praat's TextGrid, in its long form: a tier of segments, and one of words."""
    length = max(transcript.seconds, 0.001)
    tiers = {"segments": transcript.segments, "words": transcript.words}
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {length:.3f}"]
    lines += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (name, stretches) in enumerate(tiers.items(), start=1):
        intervals = _intervals(stretches, round(length * 1000))
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{name}"']
        lines += ["        xmin = 0", f"        xmax = {length:.3f}", f"        intervals: size = {len(intervals)}"]
        for place, (start, end, text) in enumerate(intervals, start=1):
            quoted = text.replace('"', '""')
            lines += [f"        intervals [{place}]:", f"            xmin = {start / 1000:.3f}"]
            lines += [f"            xmax = {end / 1000:.3f}", f'            text = "{quoted}"']
    return "\n".join(lines) + "\n"


def _intervals(stretches: Sequence[Stretch], length: int) -> list[tuple[int, int, str]]:
    """Stretches as intervals in milliseconds that leave no gaps, do not overlap, and are not empty, as Praat wants them."""
    found: list[tuple[int, int, str]] = []
    at = 0
    for stretch in stretches:
        start = max(at, round(stretch.start * 1000))
        end = min(length, max(start + 1, round(stretch.end * 1000)))
        if start >= end:
            continue  # there is no room left at the end of the recording
        if start > at:
            found.append((at, start, ""))
        found.append((start, end, stretch.text))
        at = end
    return [*found, (at, length, "")] if at < length else found


def _lines(text: str) -> list[str]:
    """The lines of a segment; a text without spaces is cut anywhere."""
    words = text.split()
    if len(words) != 1 or len(text) <= LINE:
        return lines_of(words)
    return [text[place : place + LINE] for place in range(0, len(text), LINE)]


LEAST = 0.3  # seconds that a subtitle is seen


def _shown(transcript: Transcript) -> list[tuple[Stretch, float, float]]:
    """Segments with when they are on the screen: long enough to be seen, and not into the next one."""
    segments = transcript.segments
    shown = []
    for place, segment in enumerate(segments):
        following = segments[place + 1].start if place + 1 < len(segments) else transcript.seconds
        shown.append((segment, segment.start, max(segment.end, min(segment.start + LEAST, following))))
    return shown


def _clock(seconds: float, point: str) -> str:
    """Hours, minutes, seconds and milliseconds: 01:02:03,004."""
    whole, milliseconds = divmod(round(max(0.0, seconds) * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds:03}"


FORMATS: dict[str, Callable[[Transcript], str]] = {
    ".srt": srt,
    ".vtt": vtt,
    ".json": lambda transcript: json.dumps(transcript.to_json(), ensure_ascii=False, indent=1) + "\n",
    ".textgrid": text_grid,
}
