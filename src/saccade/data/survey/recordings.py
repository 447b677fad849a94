"""Surveys recordings with their transcripts: the data of the task ``transcribe``. No torch.

Every recording is decoded once, in blocks, so that truncated and silent ones are counted (of one longer than an hour, its first
hour); no samples stay in memory.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from saccade.data.audio.config import AudioConfig
from saccade.data.audio.given import GivenFrames
from saccade.data.audio.recordings import Recording, Silent, is_recording, stretch_of
from saccade.data.audio.records import (
    ROLES,
    SpeechData,
    Spoken,
    column_names,
    folder_format,
    reason_of,
    scan_speech,
)
from saccade.data.files.fields import COLUMNAR, Name, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding
from saccade.data.files.records import Fault, Fields
from saccade.data.survey.columns import suffix_of
from saccade.data.survey.survey import (
    Entry,
    Part,
    Section,
    Survey,
    epochs_for,
    longest_of,
    percent,
    several,
)
from saccade.data.survey.tallies import Lengths
from saccade.errors import InputError

LOOKED_AT = 200  # rows and files by which a kind is told
QUIET, BELOW = 10 ** (-60 / 10), 10 ** (-45 / 10)  # of full scale's power, and of the loudest frame's: less is silent
FRAME = 0.02  # seconds
FULL, IN_A_ROW = 0.999, 3  # so many samples in a row at full scale are clipped
MOSTLY = 0.5  # of a recording silent
FASTEST = 30.0  # characters per second that nobody speaks
SECONDS = 40.0  # of a recording that a recipe trains on at most, unless 99 % are longer
BATCH, UPDATES, FEWEST_EPOCHS, MOST_EPOCHS = 16, 3000, 10, 80
BLOCK = 60.0  # seconds that are looked at together
MEASURED = 3600.0  # seconds of one recording; of a longer one the start is looked at


@dataclass(frozen=True, slots=True)
class Heard:
    """What decoding a recording showed.

    Attributes:
        quiet: seconds of silence.
        clipped: whether samples in a row are at full scale.
        fault: why it cannot be trained on, if it cannot.
    """

    quiet: float = 0.0
    clipped: bool = False
    fault: InputError | None = None


def heard_in(recording: Recording) -> Heard:
    """Decode a recording in parts, and look at its samples."""
    peak, clipped, size = 0.0, False, max(1, round(FRAME * recording.header.rate))
    powers: list[np.ndarray] = []
    try:
        if recording.is_cut:
            recording.read()  # which says so
        end = min(recording.seconds, MEASURED)
        for start in np.arange(0.0, end, BLOCK).tolist():
            last = start + BLOCK >= end - FRAME
            samples = recording.part(start, None if last and end == recording.seconds else start + BLOCK).read()
            peak = max(peak, float(np.abs(samples).max()))
            frames = samples[: len(samples) // size * size].reshape(-1, size)
            powers.append(np.square(frames).mean(1))
            full = np.abs(samples) >= FULL
            run = full[: len(full) - IN_A_ROW + 1].copy()
            for later in range(1, IN_A_ROW):
                run &= full[later : len(full) - IN_A_ROW + 1 + later]
            clipped = clipped or bool(run.any())
            if last:
                break
        if not peak and end == recording.seconds:
            found = f"{recording.seconds:.2f} s of silence"
            raise Silent(recording.name, expected="a recording with sound", found=found)
    except InputError as error:
        error.__traceback__ = error.__context__ = None  # their frames hold the samples
        return Heard(fault=error)
    power = np.concatenate(powers)
    silent = int((power < min(QUIET, BELOW * power.max(initial=0.0))).sum())
    return Heard(min(FRAME * silent, recording.seconds), clipped)


class RecordingSurvey(Survey):
    kind, task, unit, faulty, near = "recordings", "transcribe", "recording", "faulty recording", False
    expected = "recording with a transcript"
    roles = (*ROLES, "split")
    formats = ("kaldi", "librispeech", "commonvoice")
    limited = "transcript"
    data: SpeechData

    @classmethod
    def recognises(
        cls, files: Sequence[str], columns: Mapping[str, Name], format: str | None, encoding: Encoding
    ) -> bool:
        if columns and "audio" not in columns and set(columns) <= set(cls.roles):
            # Text alone may be of any kind: the recordings must be there by a usual name.
            return len(files) == 1 and cls.looks_right(files[0], format, encoding)
        return super().recognises(files, columns, format, encoding)

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        path = Path(file)
        if on_hub(file):
            return False
        if path.is_dir():
            return format in (None, "folder") and _is_folder_of_recordings(path)
        return bool(_names_in(file, format, encoding))

    # Reading ----------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Find the folder of the recordings where they are not beside the file."""
        self.guesses: list[str] = []
        self.formats_of, self.rates, self.channels = Counter[str](), Counter[int](), Counter[int]()
        self.tenths, self.letters = Lengths(), 0  # of a second, of each recording; characters of all
        self.seconds_of: Counter[str] = Counter()  # per speaker
        self._heard: dict[str, Heard] = {}
        if self.has_recipe:
            return
        audio = replace(self.data.audio, max_seconds=1e9)  # the recipe's own limit follows from what is found
        self.data = replace(self.data, audio=audio)
        if self.data.recordings is None and suffix_of(str(self.files)) in COLUMNAR and Path(self.files).is_file():
            names = _names_in(str(self.files), self.data.format, self.data.encoding, self.data)
            where = _folder_of(Path(self.files), names)
            if where is not None and where != ".":
                self.data = replace(self.data, recordings=where)
                self.guesses.append(f"the recordings are in {where}, as seen from the file (data.recordings)")

    def scan(self, files: Any) -> Iterator[Spoken | Fault]:
        data = replace(self.data, faults="error")  # headers alone: recordings are decoded here
        for number, item in enumerate(scan_speech(files, data, self._split(files)), start=1):
            if isinstance(item, Fault) or isinstance(item.source, GivenFrames):
                yield item
                continue
            heard = self._heard.get(item.source.digest)
            if heard is None:
                heard = self._heard[item.source.digest] = heard_in(item.source)
            if heard.fault is None:
                yield item
            else:
                yield Fault(number, reason_of(heard.fault), heard.fault, name=item.source.name)

    def _split(self, files: Any) -> str:
        """What a file is read as."""
        if files is self.files:
            return "train"
        given = [name for name in ("valid", "test") if self.has_recipe and getattr(self.data, name) is not None]
        place = next((place for place, other in enumerate(self.test_files) if other is files), 0)
        return given[place] if place < len(given) else "test"

    def entry(self, record: Spoken) -> Entry:
        text = record.target or ""
        return Entry(((text,),), record.source.digest, text, record.group, name=record.source.name)

    def count(self, record: Spoken, part: Part) -> None:
        source, text = record.source, record.target or ""
        if record.speaker:
            part.counts[record.speaker] += 1
        if isinstance(source, GivenFrames):
            seconds = source.count * self.data.features.hop
        else:
            seconds = source.seconds
            heard = self._heard[source.digest]
            part.numbers["clipped"] += heard.clipped
            part.numbers["mostly silent"] += heard.quiet > MOSTLY * seconds
            part.numbers["quiet milliseconds"] += round(1000 * heard.quiet)
        part.numbers["milliseconds"] += round(1000 * seconds)
        part.numbers["too fast"] += len(text) > max(FASTEST * seconds, FASTEST / 2)
        if part.files is not self.files:
            return
        self.tenths.add([round(10 * seconds)])
        self.letters += len(text)
        self.seconds_of[record.speaker] += round(seconds)
        if isinstance(source, Recording):
            header = source.header
            self.formats_of[header.format] += 1
            self.rates[header.rate] += 1
            self.channels[header.channels] += 1

    def measure(self, record: Spoken) -> Iterable[tuple[str, int]]:
        tokens = self.data.tokens
        yield f"transcript in {tokens.kind}", self.token_count(record.target or "", tokens)

    def finish(self) -> None:
        numbers = self.train.numbers
        self.hours = numbers["milliseconds"] / 3.6e6
        self.speakers = len(self.train.counts)
        self.quiet = numbers["quiet milliseconds"] / max(1, numbers["milliseconds"])

    # The report -------------------------------------------------------------------------------------------------------

    def headline(self) -> str:
        known = f" by {several(self.speakers, 'speaker')}" if self.speakers else ""
        kinds = ", ".join(f"{count:,} {name}" for name, count in self.formats_of.most_common())
        read = f"{several(self.train.records, 'recording')} ({kinds or 'given frames'}) with a transcript each{known}"
        return f"{self.train.name}: {read}, {_time(3600 * self.hours)}"

    def own_sections(self) -> Iterator[Section]:
        lengths = [f"{self.tenths.within(share) / 10:,.1f}" for share in (0.0, 0.5, 0.95, 0.99, 1.0)]
        mean = f"{self.tenths.mean / 10:,.1f}"
        rows = [("", "mean", "least", "median", "95 %", "99 %", "longest"), ("seconds", mean, *lengths)]
        yield Section("Recordings", rows)
        rates = {f"{rate:,} Hz": count for rate, count in self.rates.most_common()}
        yield Section("Sample rates", bars=rates if len(rates) > 1 else {})
        channels = {several(count, "channel"): found for count, found in sorted(self.channels.items())}
        yield Section("Channels", bars=channels if len(channels) > 1 else {})
        if self.speakers > 1:
            minutes = sorted(seconds / 60 for name, seconds in self.seconds_of.items() if name)
            spread = [f"{value:,.1f}" for value in (minutes[0], minutes[len(minutes) // 2], minutes[-1])]
            yield Section("Minutes per speaker", [("", "least", "median", "most"), ("minutes", *spread)])

    def checks(self) -> Iterator[tuple[int, str]]:
        numbers = self.train.numbers
        yield from super().checks()
        yield self.contradicted, f"recordings have more than one transcript{self.shown('contradicted')}"
        yield numbers["too fast"], f"transcripts have more than {FASTEST:g} characters per second"
        if not self.rates:  # given frames
            return
        yield numbers["clipped"], f"recordings are clipped: {IN_A_ROW} or more samples in a row at full scale"
        yield numbers["mostly silent"], f"recordings are silent for more than {percent(MOSTLY)} of their time"

    def test_checks(self, part: Part) -> Iterator[tuple[int, str]]:
        known = sum(count for name, count in part.counts.items() if name in self.train.counts)
        yield known, "are of speakers who are in the training file"

    def own_notes(self) -> Iterator[str]:
        yield from self.guesses
        rate = self.rate
        other = {each: count for each, count in self.rates.items() if each != rate}
        if other:
            listed = ", ".join(f"{count:,} of {each:,} Hz" for each, count in sorted(other.items())[:5])
            yield f"recordings of another rate are resampled to {rate:,} Hz: {listed}"
        if several_channels := sum(count for channels, count in self.channels.items() if channels > 1):
            yield f"the channels of {several(several_channels, 'recording')} are mixed into one"
        if self.quiet > 0.3:
            yield f"{percent(self.quiet)} of the time is silent: cut the recordings to what is said, or name stretches of them"
        if self.train.numbers["too fast"]:
            yield "some transcripts are longer than anybody speaks in the time: do they belong to their recordings?"
        if not self.speakers:
            yield (
                "speakers are not known: recordings of one speaker may be held out and trained on, so scores may be too "
                "optimistic (--column speaker=NAME)"
            )
        if self.hours < 0.5:
            yield f"{_time(3600 * self.hours)} of speech are few: expect words of a small vocabulary to be learnt at best"
        data = self.data if self.has_recipe else replace(self.data, audio=replace(self.data.audio, **self._limit))
        if data.audio.too_long == "drop" and (over := self.tenths.above(round(10 * data.audio.max_seconds))):
            yield f"{several(over, 'recording')} longer than data.audio.max_seconds={data.audio.max_seconds:g}: left out"

    def own_json(self) -> dict[str, Any]:
        numbers = self.train.numbers
        counts = {name: numbers[name.replace("_", " ")] for name in ("clipped", "mostly_silent", "too_fast")}
        seconds = {name: value / 10 for name, value in self.tenths.to_json().items()}
        return {
            "hours": round(self.hours, 4), "seconds": seconds, "rates": dict(self.rates), "speakers": self.speakers,
            "channels": dict(self.channels), "formats": dict(self.formats_of), "silence": round(self.quiet, 4), **counts,
        }  # fmt: skip

    # The recipe -------------------------------------------------------------------------------------------------------

    @property
    def rate(self) -> int:
        """``data.audio.rate``: what most recordings have, 8 or 16 kHz where it is one of these or more."""
        if self.has_recipe or not self.rates:
            return int(self.data.audio.rate)
        usual = max(self.rates, key=lambda rate: (self.rates[rate], rate))
        return 16_000 if usual >= 16_000 else 8000 if usual >= 8000 else usual

    @property
    def _limit(self) -> dict[str, Any]:
        """The settings of the longest recording: all, unless a few are far longer than is usual."""
        usual, longest = self.tenths.within(0.99) / 10, self.tenths.longest / 10
        if longest <= SECONDS:
            return {"max_seconds": SECONDS}
        return {"max_seconds": float(math.ceil(max(usual, SECONDS))), "too_long": "drop"}

    def _measured(self, kind: str) -> Sequence[Lengths]:
        side = self.train.sides["text"]
        return [side.character_lengths if kind == "characters" else side.word_lengths]

    def recipe(self, folder: Path | None = None) -> dict[str, Any]:
        found = super().recipe(folder)
        if self.data.recordings is not None:
            found["data"]["recordings"] = self.data.recordings  # as seen from the data file, wherever the recipe is
        return found

    def recommend(self) -> dict[str, Any]:
        records, share = self.train.records, self.data.hold_out
        usual = AudioConfig()
        audio = {
            name: value for name, value in {"rate": self.rate, **self._limit}.items() if value != getattr(usual, name)
        }
        given = self.data.features.kind == "given"
        features: dict[str, Any] = {"normalise": "speaker"} if self.speakers > 1 else {}
        masks = {"time_masks": 2, "time_width": 20, "frequency_masks": 2, "frequency_width": 6}
        augment: dict[str, Any] = masks if given else {"speeds": [0.9, 1.0, 1.1], **masks}
        data: dict[str, Any] = {"audio": audio} if audio else {}
        data |= {"features": features} if features else {}
        data |= {"augment": augment, "max_length": longest_of(self._measured("characters")), "too_long": "truncate"}
        data |= {"tokens": {"kind": "characters"}}
        rows = records * len(augment.get("speeds", [1.0]))
        epochs, _ = epochs_for(rows, share, batch=BATCH, updates=UPDATES, fewest=FEWEST_EPOCHS, most=MOST_EPOCHS)
        size = 96 if self.hours < 5 else 256
        return {
            "data": data,
            "model": {
                "name": "listen_attend", "attention": "hybrid", "hidden": size, "layers": 3, "pooling": [1, 2, 2],
                "state": size, "embedding": 32, "alignment": size, "reach": 25, "ctc": 0.3, "dropout": 0.2,
            },
            "train": {
                "epochs": epochs, "batch_records": BATCH, "batch_tokens": None, "lr": 0.002, "schedule": "cosine",
                "warmup": 200, "clip": 1.0, "watch": "loss",
            },
            "search": {"beam": 4},
            "metrics": ["cer", "wer"],
        }  # fmt: skip


# What is guessed ------------------------------------------------------------------------------------------------------


def _names_in(file: str, format: str | None, encoding: Encoding, data: SpeechData | None = None) -> list[str]:
    """The recordings that the first rows of a table name; none where it has no transcripts beside them."""
    if not Path(file).is_file() or (format or suffix_of(file)) not in COLUMNAR:
        return []
    data = SpeechData(train=file) if data is None else data
    try:
        roles = data.columns.found(column_names(file, format, encoding))
        if not {"audio", "text"} <= roles.keys():
            return []
        wanted = [roles["audio"], roles["text"]]
        items = islice(scan_fields(file, wanted, format=format, encoding=encoding), LOOKED_AT)
        values = [item.values for item in items if isinstance(item, Fields)]
    except InputError:  # which reading reports
        return []
    names = [str(name).strip() for name, text in values if isinstance(name, str) and isinstance(text, str)]
    recorded = [name for name in names if is_recording(stretch_of(name)[0]) or name.endswith(".npy")]
    return recorded if 2 * len(recorded) > len(values) else []


def _is_folder_of_recordings(path: Path) -> bool:
    """Whether recordings are among the first files of a folder, as many as files of another kind beside texts."""
    if folder_format(path) != "folder":
        return True
    below = (name for _, _, names in os.walk(path) for name in names)
    names = list(islice(below, LOOKED_AT))
    recordings = sum(map(is_recording, names))
    return recordings > 0 and 3 * recordings >= len(names)


def _folder_of(file: Path, names: Sequence[str]) -> str | None:
    """The folder in which recordings of these names are, as seen from the file: its own, one in that, or one beside it."""
    parent = file.absolute().parent
    try:
        inner = sorted(folder for folder in parent.iterdir() if folder.is_dir())
        beside = sorted(folder for folder in parent.parent.iterdir() if folder.is_dir())
        for folder in (parent, *inner, *beside):
            if any((folder / stretch_of(name)[0]).is_file() for name in names[:10]):
                return os.path.relpath(folder, parent)
    except OSError:  # a folder that may not be read, a name that is too long
        return None
    return None


def _time(seconds: float) -> str:
    """A length of time, as people say it."""
    if seconds >= 3600:
        return f"{seconds / 3600:,.1f} hours"
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.1f} seconds"
