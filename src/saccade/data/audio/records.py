"""Recordings with their transcripts: the records of the task ``transcribe``, made, from files, or from memory. No torch.

    tables, JSONL, Parquet    a column of paths ("talk.wav", "talk.wav#12.5-17.25") and one of transcripts; perhaps speakers
    kaldi                     a folder with wav.scp and text, perhaps utt2spk and segments
    librispeech               a folder with 1089-134686.trans.txt beside 1089-134686-0000.flac
    commonvoice               a folder with clips/ and train.tsv, dev.tsv, test.tsv
    folder                    a folder with 17.txt beside 17.wav

Paths in a file start at ``recordings``, or at the file's own folder, from which ``recordings`` and ``features.archive`` start,
too. With ``features.kind: given`` a record has frames in place of a recording: a .npy file, or an entry of the archive. The
header of every recording is read with its record, so that what is missing, truncated, empty or too long is known before
training; with ``faults: drop`` all of it is decoded once, and silent and otherwise damaged recordings are dropped too.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from saccade.data.audio.config import AudioConfig, SoundAugment, SoundFeatures
from saccade.data.audio.given import Archive, GivenFrames, archive_of
from saccade.data.audio.recordings import DamagedRecording, Recording, Silent, check_samples, check_whole, is_recording
from saccade.data.columns import ColumnNames
from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files.fields import COLUMNAR, Name, columns_of, first_row, scan_fields
from saccade.data.files.fields import format_of as columnar_format
from saccade.data.files.hub import on_hub
from saccade.data.files.limits import Total, max_record
from saccade.data.files.lines import LINE_LIMIT, Encoding, lines_of
from saccade.data.files.records import Fault, Fields, fault, label_of, shown_names
from saccade.data.memory import WHERE, fields_in, names_of, records_in, short
from saccade.data.paths import locate
from saccade.data.reading import FaultCounts, load_splits, read_records
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.data.toy.digits import Digits
from saccade.data.toy.tones import Tones
from saccade.errors import InputError
from saccade.storage import decoded, read_bytes

MISSING = "without its recording"
NO_RECORDING = "no recording, or one that cannot be read"
DAMAGED = "a damaged recording"
SILENT = "a silent recording"
LONG = "a recording longer than audio.max_seconds"
NO_TEXT = "without a transcript"
BAD_TIMES = "times that are not [symbol, start, end]"
BAD_STRETCH = "a stretch that is not within its recording"
# What columns are called, in capitals or not; the first that a file has is taken.
CALLED: dict[str, tuple[str, ...]] = {
    "audio": ("audio", "path", "file", "wav", "file_name", "filename", "audio_path", "audio_filepath", "wav_path",
              "recording", "clip", "frames"),
    "text": ("text", "sentence", "transcript", "transcription", "words", "target"),
    "speaker": ("speaker", "speaker_id", "client_id", "spk", "spk_id"),
    "times": ("times",),
    "start": ("start", "start_time", "offset"),
    "end": ("end", "end_time"),
    "duration": ("duration",),
}  # fmt: skip
ROLES = tuple(CALLED)  # what the values of a record in memory are, in this order
UTTERANCES = ("utt", "utt_id", "utterance", "utterance_id", "id", "key")  # the names of recordings in an archive
SPLIT_NAMES = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "dev", "val"),
    "test": ("test", "testing"),
}
Source = Recording | GivenFrames
Times = tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A recording, or its given frames; what is said in it; who says it ("" where unknown); and, where known, when each symbol
    is said: (symbol, start, end) in seconds."""

    source: Source
    target: str | None
    speaker: str = ""
    times: Times | None = None

    @property
    def group(self) -> str | None:
        """Recordings of one speaker are held out together."""
        return self.speaker or None


@dataclass(frozen=True)
class SpeechColumns(ColumnNames):
    """Which columns (tables) or keys (JSONL) hold the path of a recording, its transcript, its speaker and the times of its
    symbols. One that is not given is found by its usual name (``audio``, ``path``, ``file``, ``wav``; ``text``, ``sentence``,
    ``transcript``; ``speaker``, ``client_id``; ``times``). ``start`` with ``end`` or ``duration``, in seconds: only this
    stretch of the recording is read. ``split``: of a file that is read as train, valid or test, only the rows in which this
    column says so are read.
    """

    audio: str | int | None = None
    text: str | int | None = None
    speaker: str | int | None = None
    times: str | int | None = None
    start: str | int | None = None
    end: str | int | None = None
    duration: str | int | None = None
    split: str | int | None = None

    def found(self, names: Iterable[Any]) -> dict[str, Name]:
        """The column of each role, among these."""
        there = {str(name).casefold(): name for name in reversed(list(names)) if isinstance(name, str)}
        roles = dict(self.roles)
        for role, called in CALLED.items():
            taken = set(roles.values())
            usual = next((there[name] for name in called if name in there and there[name] not in taken), None)
            if role not in roles and usual is not None:
                roles[role] = usual
        # A column "end" or "duration" alone describes a recording and does not cut it.
        bounds = [role for role in ("start", "end", "duration") if role in roles]
        if bounds[:1] != ["start"] or len(bounds) == 1:
            roles = {role: name for role, name in roles.items() if role not in bounds or role in self.roles}
        return roles


@dataclass(frozen=True)
class SpeechData(DataConfig):
    """The ``data`` part of a recipe for recordings with transcripts."""

    paths: ClassVar[tuple[str, ...]] = (
        *DataConfig.paths, "recordings", "features.archive", "features.cache", "digits.file",
    )  # fmt: skip
    rereads: ClassVar[tuple[str, ...]] = (
        *DataConfig.rereads, "recordings", "columns", "max_length", "too_long", "features.archive",
    )  # fmt: skip

    source: Literal["tones", "digits"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "kaldi", "librispeech", "commonvoice", "folder"] | None = None
    columns: SpeechColumns = field(default_factory=SpeechColumns)
    recordings: str | None = None  # the folder in which paths start; beside the file unless given
    audio: AudioConfig = field(default_factory=AudioConfig)
    features: SoundFeatures = field(default_factory=SoundFeatures)
    augment: SoundAugment = field(default_factory=SoundAugment)
    tones: Tones = field(default_factory=Tones)
    digits: Digits = field(default_factory=Digits)
    tokens: TokenizerConfig = field(default_factory=TokenizerConfig)
    max_length: int = 400  # tokens of a transcript
    too_long: TooLong = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=1)
        self.features.check_rate(self.audio.rate)
        if self.features.kind == "given" and self.augment.speeds != (1.0,):
            raise ValueError(f"augment.speeds must be left out with given features: got {list(self.augment.speeds)}")


# What a record is made of ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """What a file says of one recording: how it names it, or its samples; what is said; by whom; when. ``name`` is what it is
    called where ``audio`` does not say."""

    audio: Any
    text: Any
    speaker: Any
    times: Any
    fields: Fields
    name: str = ""
    bounds: tuple[Any, Any, Any] = (None, None, None)  # start, end and duration of the stretch that is meant


class Finder:
    """The recordings that the entries of one file mean, their headers read and checked."""

    def __init__(
        self, folder: Path, where: str | Path, data: SpeechData, split: str | None, archive: Archive | None
    ) -> None:
        self.folder, self.where, self.data, self.archive = folder, where, data, archive
        self.whole, self.most = data.faults == "drop", data.audio.max_seconds if split == "train" else math.inf
        self.column: Name = "audio"

    def record(self, entry: Entry) -> Spoken | Fault:
        """The record of an entry, or what is wrong with it."""
        text = "text" if self.data.columns.text is None else self.data.columns.text
        broken = entry.fields.text_fault(entry.text, text, self.where, NO_TEXT)
        if broken is not None:
            return broken
        times = times_in(entry, self.where)
        if isinstance(times, Fault):
            return times
        source = self.source(entry)
        if isinstance(source, Fault):
            return source
        speaker = label_of(entry.speaker) if entry.speaker is not None else ""
        return Spoken(source, " ".join(entry.text.split()), speaker or "", times)

    def source(self, entry: Entry) -> Source | Fault:
        """The recording of an entry, or its given frames, or why there are none."""
        audio, fields = entry.audio, entry.fields
        row = f"{Path(self.where).name} {fields.place or f'row {fields.line}'}"
        name = audio.strip() if isinstance(audio, str) else entry.name or row
        if audio is None or (isinstance(audio, str) and not name):
            return fields.fault(MISSING, self.where, self.column, "a recording", "nothing")
        try:
            source = self._source(audio, name)
            if isinstance(source, Recording):
                stretch = stretch_in(entry, self.where)
                if isinstance(stretch, Fault):
                    return stretch
                source = source if stretch is None else source.part(*stretch)
            seconds = seconds_of(source, self.data)
            if isinstance(source, Recording):
                check_samples(source.samples[1], source.header, name)
            if seconds > self.most:
                drops = self.data.audio.too_long == "drop"
                expected, hint = f"at most {self.most:g} s", "data.audio.max_seconds, or data.audio.too_long: drop"
                found, number = f"{seconds:.1f} s: {name}", fields.line
                return fault(
                    number,
                    LONG,
                    self.where,
                    expected=expected,
                    found=found,
                    hint=hint,
                    place=fields.place,
                    skipped=drops,
                )
            if isinstance(source, GivenFrames):
                if self.whole:
                    source.read()
            elif self.whole:
                check_whole(source)
            elif source.is_cut:
                source.read()  # which says so
        except InputError as error:
            if error.found == "no such file":
                expected, hint = f"a recording in {self.folder}", "data.recordings names another folder"
                return fields.fault(MISSING, self.where, self.column, expected, f"no {short(name)}", hint=hint)
            error.__traceback__ = error.__context__ = None  # their frames hold the samples
            return Fault(fields.line, reason_of(error), error, name=name)
        return source

    def _source(self, audio: Any, name: str) -> Source:
        given = self.data.features.kind == "given"
        if self.archive is not None:
            return self.archive.frames(audio, name)
        if not isinstance(audio, str):
            return GivenFrames.in_memory(audio, name) if given else Recording.in_memory(audio, name)
        if "\0" in name:
            raise InputError(self.where, expected="the name of a file", found=short(name))
        folder = self.folder
        if not given:
            file = name.rpartition("#")[0] or name
            if not (folder / file).is_file() and (folder / "clips" / file).is_file():  # Common Voice
                folder = folder / "clips"
            return Recording.named(name, folder)
        return GivenFrames.of_file(folder / name, name)


def seconds_of(source: Source, data: SpeechData) -> float:
    """The length of a recording, or of its given frames."""
    return source.count * data.features.hop if isinstance(source, GivenFrames) else source.seconds


def reason_of(error: InputError) -> str:
    """The reason of a fault, from the error of its recording."""
    return SILENT if isinstance(error, Silent) else DAMAGED if isinstance(error, DamagedRecording) else NO_RECORDING


def times_in(entry: Entry, where: str | Path) -> Times | Fault | None:
    """The times of an entry: a list of [symbol, start, end], or such a list as JSON."""
    given = entry.times
    if given is None or given == "":
        return None
    expected = "a list of [symbol, start, end] in seconds"
    try:
        listed = json.loads(given) if isinstance(given, str) else given
        times = tuple((str(symbol), float(start), float(end)) for symbol, start, end in listed)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return entry.fields.fault(BAD_TIMES, where, "times", expected, short(given))
    if not all(0 <= start <= end < math.inf for _, start, end in times):
        return entry.fields.fault(BAD_TIMES, where, "times", f"{expected}, each end after its start", short(given))
    return times


def stretch_in(entry: Entry, where: str | Path) -> tuple[float, float | None] | Fault | None:
    """From which second to which the recording of an entry is meant; None: all of it."""
    seconds: list[float | None] = []
    for role, given in zip(("start", "end", "duration"), entry.bounds, strict=True):
        empty = given is None or given == "" or given != given  # NaN: an empty cell of a DataFrame
        try:
            seconds.append(None if empty else float(given))
        except (TypeError, ValueError, OverflowError):
            return entry.fields.fault(BAD_STRETCH, where, role, "seconds, or nothing", short(given))
    start, end, duration = seconds
    if start is None and end is None:
        return None
    start = start or 0.0
    if end is None and duration is not None:
        end = start + duration
    if not (0 <= start < math.inf and (end is None or start < end < math.inf)):
        found = f"{start:g} to {'its end' if end is None else f'{end:g}'}"
        return entry.fields.fault(BAD_STRETCH, where, "start", "seconds, and an end after its start", found)
    return start, end


# Files ----------------------------------------------------------------------------------------------------------------


def load_speech(data: SpeechData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    return load_splits(data, folder, seed, of_toy, lambda path, split: gather_speech(path, data, split))


def of_toy(made: Any) -> Spoken:
    """The record of generated sound: a :class:`~saccade.data.audio.recordings.Drawn` with text, perhaps speaker and times."""
    return Spoken(Recording.drawn(made), made.text, getattr(made, "speaker", ""), getattr(made, "times", None))


def read_speech(path: Path, data: SpeechData, dropped: FaultCounts | None = None) -> list[Spoken]:
    """The records of one more file or folder, read strictly unless ``dropped`` counts malformed ones. Where a column names
    splits, those of test."""
    return gather_speech(path, data, "test", dropped, strict=dropped is None)[0]


def gather_speech(
    path: Any,
    data: SpeechData,
    split: str | None = None,
    dropped: FaultCounts | None = None,
    *,
    strict: bool = False,
) -> tuple[list[Spoken], list[str]]:
    """The records of a file or folder, and warnings about them."""
    found = scan_speech(path, data, split)
    expected = "recordings with transcripts"
    records, notes = read_records(path, found, data, dropped, strict=strict, expected=expected, called="recordings")
    return records, [*notes, *changes(path, records, data)]


def changes(path: Any, records: Sequence[Spoken], data: SpeechData) -> list[str]:
    """Notes on recordings that are read at another rate than theirs, or whose channels are mixed."""
    headers = [record.source.header for record in records if isinstance(record.source, Recording)]
    rates = Counter(header.rate for header in headers if header.rate != data.audio.rate)
    several = sum(header.channels > 1 for header in headers)
    listed = ", ".join(f"{count:,} of {rate:,} Hz" for rate, count in rates.most_common(5))
    notes = [f"{path}: {listed} resampled to {data.audio.rate:,} Hz"] if rates else []
    return notes + ([f"{path}: the channels of {several:,} recordings are mixed into one"] if several else [])


def notes_on(source: Source, data: SpeechData) -> tuple[str, ...]:
    """Notes on one recording that is read at another rate than its own, or whose channels are mixed."""
    if isinstance(source, GivenFrames):
        return ()
    header, rate = source.header, data.audio.rate
    resampled = f"resampled from {header.rate:,} to {rate:,} Hz" if header.rate != rate else ""
    mixed = f"{header.channels} channels mixed into one" if header.channels > 1 else ""
    return tuple(filter(None, (resampled, mixed)))


def scan_speech(path: str | Path, data: SpeechData, split: str | None = None) -> Iterator[Spoken | Fault]:
    """Every record and every fault of a file, a folder or a dataset of the hub."""
    kind = speech_format(path, data)
    folder = Path(path) if kind not in (*COLUMNAR, "hub") else Path(path).parent
    archive = None if data.features.archive is None else archive_of(locate(data.features.archive, folder))
    base = folder if data.recordings is None else locate(data.recordings, folder)
    finder = Finder(base, path, data, split, archive)
    readers = {"kaldi": _kaldi, "librispeech": _librispeech, "folder": _pairs_in_folder}
    if kind == "kaldi":
        finder.where = Path(path) / "text"
    if kind in readers:
        entries: Iterator[Entry | Fault] = readers[kind](Path(path), data)
    elif kind == "commonvoice":
        finder.where = _common_voice_file(Path(path), split)
        entries = _table(finder.where, replace(data, format="tsv"), split, finder)
    else:
        entries = _table(path, data, split, finder)
    for entry in entries:
        yield entry if isinstance(entry, Fault) else finder.record(entry)


def speech_format(path: str | Path, data: SpeechData) -> str:
    """The format of a file or folder of recordings."""
    if on_hub(path):
        return "hub"
    if Path(path).is_dir():
        return data.format if data.format not in (None, *COLUMNAR) else folder_format(Path(path))
    suffixes = {name: name for name in COLUMNAR}
    expected = "a file of recordings and transcripts (csv, tsv, jsonl, parquet) or a folder"
    named = data.format if data.format in COLUMNAR else None
    return columnar_format(path, named, suffixes=suffixes, expected=expected, hint="set data.format")


def folder_format(path: Path) -> str:
    """What a folder of recordings is."""
    if (path / "wav.scp").is_file():
        return "kaldi"
    if (path / "clips").is_dir() and any(path.glob("*.tsv")):
        return "commonvoice"
    return "librispeech" if next(_below(path, ".trans.txt"), None) is not None else "folder"


def _below(path: Path, suffix: str) -> Iterator[Path]:
    """The files of a folder, and of those below it, whose names end so, in order."""
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(suffix) and not name.startswith("."))


def _table(path: str | Path, data: SpeechData, split: str | None, finder: Finder) -> Iterator[Entry | Fault]:
    """The rows of a table, of JSONL, Parquet or the hub."""
    named = None if on_hub(path) or data.format not in COLUMNAR else data.format
    names = column_names(path, named, data.encoding)
    roles = data.columns.found(names)
    archive = finder.archive
    rows = archive is not None and archive.in_order  # recordings are those of the rows
    if archive is not None and "audio" not in roles:
        there = {str(name).casefold(): name for name in names}
        name = next((there[name] for name in UTTERANCES if name in there), None)
        roles |= {} if name is None else {"audio": name}
    missing = [role for role in ("audio", "text") if role not in roles and not (role == "audio" and rows)]
    if missing:
        expected = " and ".join(f"a column {role} ({', '.join(CALLED[role][:4])}, …)" for role in missing)
        raise InputError(
            path, expected=expected, found=f"the columns {shown_names(names)}", hint="data.columns names them"
        )
    finder.column = roles.get("audio", "audio")
    order = [role for role in (*ROLES, "split") if role in roles]
    optional = [roles[role] for role in ROLES[2:] if role in roles]
    wanted = [roles[role] for role in order]
    count = 0
    for item in scan_fields(path, wanted, format=named, encoding=data.encoding, optional=optional):
        number, count = count, count + 1
        if isinstance(item, Fault):
            yield item
            continue
        value = dict(zip(order, item.values, strict=True))
        if "split" in roles and split is not None and str(value["split"]).strip().casefold() not in SPLIT_NAMES[split]:
            continue
        audio, name = (number, str(value.get("audio", ""))) if rows else (value["audio"], "")
        yield _entry(value | {"audio": audio}, item, name)
    if rows and archive is not None and count != len(archive):
        expected = f"{len(archive):,} rows, one for each recording of {archive.path}"
        raise InputError(path, expected=expected, found=f"{count:,}")


def _entry(value: Mapping[str, Any], fields: Fields, name: str = "") -> Entry:
    """What a row says, by its roles."""
    audio, text, speaker, times, *bounds = (value.get(role) for role in ROLES)
    return Entry(audio, text, speaker, times, fields, name, tuple(bounds))  # type: ignore[arg-type]


def column_names(path: str | Path, format: str | None, encoding: Encoding = "utf-8") -> list[Name]:
    """What columns are called: of a table its first row, of other files their keys."""
    first = None if on_hub(path) else first_row(path, columnar_format(path, format), encoding)
    if first is None:
        return columns_of(path, format, encoding)
    return [cell.strip() or number for number, cell in enumerate(first, start=1)]


def _common_voice_file(path: Path, split: str | None) -> Path:
    """The table of a split in a folder of Common Voice; of training unless one is meant."""
    names = SPLIT_NAMES.get(split or "train", ())
    found = next((path / f"{name}.tsv" for name in names if (path / f"{name}.tsv").is_file()), None)
    if found is None:
        there = ", ".join(sorted(file.name for file in path.glob("*.tsv"))) or "no table"
        raise InputError(path, expected=f"{names[0]}.tsv beside clips", found=there)
    return found


def _named_lines(path: Path, data: SpeechData) -> Iterator[tuple[str, str, int] | Fault]:
    """The first word of each line, the rest, and the number of the line."""
    total = Total(path)
    for line in lines_of(path, data.encoding):
        if line.fault is not None:
            yield line.fault
        elif line.text.strip():
            total.add(len(line.text), line.number)
            name, *rest = line.text.split(maxsplit=1)
            yield name, "".join(rest).strip(), line.number


def _mapping(path: Path, data: SpeechData) -> dict[str, str]:
    """A file of names and values, read strictly."""
    found: dict[str, str] = {}
    for line in _named_lines(path, data):
        if isinstance(line, Fault):
            raise line.error
        found[line[0]] = line[1]
    return found


def _kaldi(path: Path, data: SpeechData) -> Iterator[Entry | Fault]:
    """The utterances of Kaldi's ``text``, in ``wav.scp`` or, where ``segments`` is there, in stretches of its recordings."""
    files = _mapping(path / "wav.scp", data)
    speakers = _mapping(path / "utt2spk", data) if (path / "utt2spk").is_file() else {}
    segments = _mapping(path / "segments", data) if (path / "segments").is_file() else None
    if not (path / "text").is_file():
        raise InputError(path, expected="a file text beside wav.scp", found="none")
    for line in _named_lines(path / "text", data):
        if isinstance(line, Fault):
            yield line
            continue
        name, text, number = line
        fields = Fields(number, ())
        where, stretch = path / "text", ""
        recording = name
        if segments is not None:
            parts = segments.get(name, "").split()
            try:
                recording, start, end = parts[0], float(parts[1]), float(parts[2])
                if not (0 <= start < math.inf and math.isfinite(end)):
                    raise ValueError
            except (IndexError, ValueError):
                expected, found = f"a recording, its start and end of {name} in segments", " ".join(parts) or "none"
                yield fields.fault(MISSING, where, "segments", expected, found)
                continue
            stretch = f"#{start:.6f}-{end:.6f}" if end > 0 else f"#{start:.6f}-"  # −1: up to the end
        file = files.get(recording)
        if file is None:
            yield fields.fault(MISSING, where, "wav.scp", f"the file of {recording}", "none")
        elif file.endswith("|"):
            hint = "convert the recordings first: commands of a data file are not run"
            yield fields.fault(
                NO_RECORDING, path / "wav.scp", recording, "a path", f"a command: {short(file)}", hint=hint
            )
        else:
            yield Entry(f"{file}{stretch}", text, speakers.get(name), None, fields)


def _librispeech(path: Path, data: SpeechData) -> Iterator[Entry | Fault]:
    """The utterances of LibriSpeech: "1089-134686-0000 THE TEXT" in a file beside 1089-134686-0000.flac."""
    for file in _below(path, ".trans.txt"):
        beside = file.parent.relative_to(path)
        for line in _named_lines(file, data):
            if isinstance(line, Fault):
                yield line
                continue
            name, text, number = line
            suffix = next(
                (suffix for suffix in ("flac", "wav", "mp3", "ogg") if (file.parent / f"{name}.{suffix}").is_file()),
                "flac",
            )
            yield Entry(
                str(beside / f"{name}.{suffix}"),
                text,
                name.partition("-")[0],
                None,
                Fields(number, (), f"{file.name}:{number}"),
            )


def _pairs_in_folder(path: Path, data: SpeechData) -> Iterator[Entry | Fault]:
    """The recordings of a folder, each with the text in the file of the same name beside it."""
    if not path.is_dir():
        raise InputError(path, expected="a folder of recordings", found="no such folder")
    suffix = ".npy" if data.features.kind == "given" else ""
    found = 0
    for number, file in enumerate(
        (file for file in _below(path, suffix) if suffix or is_recording(file.name)), start=1
    ):
        found = number
        name, beside = file.relative_to(path).as_posix(), file.with_suffix(".txt")
        if not beside.is_file():
            yield fault(
                number, NO_TEXT, path, expected=f"the transcript of {name}", found=f"no {beside.name}", name=name
            )
            continue
        try:
            text = decoded(read_bytes(beside, most=max_record(LINE_LIMIT)), beside)
        except InputError as error:
            yield Fault(number, NO_TEXT, error, name=name)
            continue
        yield Entry(name, text, None, None, Fields(number, (), name))
    if not found:
        raise InputError(path, expected="recordings (wav, flac, ogg, mp3, sph)", found="no file of such a name")


# Memory ---------------------------------------------------------------------------------------------------------------


def speech_of(given: Any, data: SpeechData, dropped: FaultCounts | None = None) -> list[Spoken]:
    """Records from a list of (recording, text) or (recording, text, speaker), of dicts, or from a table. A recording is a path,
    bytes, or (array, rate); with given features, an array [L, D] or the name of a .npy file."""
    if isinstance(given, list | tuple) and given and all(isinstance(item, Spoken) for item in given):
        return list(given)
    finder = Finder(Path(), WHERE, data, "train", None)
    columns = data.columns
    names = names_of(given)
    if names is None and isinstance(given, Iterable) and not isinstance(given, str | bytes | Path):
        given = (_of_mapping(item, columns) if isinstance(item, Mapping) else item for item in given)
    order: list[str] = []

    def wanted(names: Iterable[Any]) -> Sequence[Name]:
        roles = columns.found(names)
        order[:] = [role for role in ROLES if role in roles]
        if {"audio", "text"} - set(order):
            found = f"the columns {shown_names(names)}"
            raise InputError(WHERE, expected="columns of recordings and transcripts", found=found)
        return [roles[role] for role in order]

    def arrange(fields: Fields) -> Fields:
        value = dict(zip(order, fields.values, strict=True))
        return replace(fields, values=tuple(value.get(role) for role in ROLES))

    fields = fields_in(
        given,
        wanted,
        _tuple_of,
        accepted="recordings with transcripts: a list of (recording, text), of dicts, a DataFrame or a dict of columns",
        shape="(recording, text), (recording, text, speaker) or a dict",
        arrange=arrange,
    )

    def entries() -> Iterator[Spoken | Fault]:
        for found in fields:
            if isinstance(found, Fault):
                yield found
            else:
                yield finder.record(_entry(dict(zip(ROLES, found.values, strict=True)), found))

    return records_in(entries(), dropped, expected="recordings with transcripts")


def _of_mapping(item: Mapping[str, Any], columns: SpeechColumns) -> tuple[Any, ...]:
    roles = columns.found(item)
    return tuple(item.get(roles.get(role)) if role in roles else None for role in ROLES)  # type: ignore[arg-type]


def _tuple_of(item: Any) -> tuple[Any, ...] | None:
    if isinstance(item, Spoken):
        item = item.source, item.target, item.speaker, item.times
    if isinstance(item, tuple | list) and (2 <= len(item) <= 4 or len(item) == len(ROLES)):
        return (*item, *[None] * len(ROLES))[: len(ROLES)]
    return None


def source_in(given: Any, data: SpeechData, where: str) -> Source:
    """What a prediction is asked of: a record's source, a path, bytes, {"base64": …} or (array, rate); with given features an
    array [L, D] or a .npy file."""
    if isinstance(given, Recording | GivenFrames):
        return given
    if isinstance(given, Spoken):
        return given.source
    if data.features.kind == "given":
        return GivenFrames.in_memory(given, where)
    return Recording.in_memory(given, where)
