"""Surveys data files: what they hold, what is wrong with them, whether they would train, and a recipe for them. No torch.

:class:`Survey` reads the training file and the held-out files once each, in bounded memory, and does what every kind of data
needs: malformed lines by reason, lengths, vocabulary, duplicates, overlap between files, the limits of a recipe, the verdict.
A subclass per kind says which roles columns have, which files it recognises, what else it counts, and which recipe it
recommends.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from saccade.data.files.fields import Name
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding, codec_of
from saccade.data.files.records import NOT_UTF8, Fault
from saccade.data.paths import locate
from saccade.data.reading import FaultCounts
from saccade.data.splits import HELD_OUT_AT_MOST, too_few
from saccade.data.survey.columns import unnamed_columns
from saccade.data.survey.tallies import Lengths, Side, Text, hashes, plain, repeats, with_several
from saccade.data.tokenizers.tokenizer import TokenizerConfig, counting
from saccade.data.tokenizers.vectors import as_vectors, words_in
from saccade.errors import InputError

CHUNK, CHUNK_SIZE = 2000, 1 << 22  # records that are counted together, unless they have more characters than this
OFTEN = 0.2  # a larger share of malformed lines is not dropped: the file has to be fixed
ROUGH = 30  # records: a metric on fewer is rough, and chooses no network
HELD, MOST_HELD = 100, 0.15  # records that a split held out should have, and the largest share of few records
SHOWN = 44  # characters of an example
FAR = 100  # words or characters: shorter texts are never far longer than the rest
LISTED = 8  # names that a note lists
SEPARATOR = "\x1f"  # between the texts or words of an entry's key

Progress = Callable[[str, int], None]  # the file that is read, and how many of its records were


@dataclass(frozen=True, slots=True)
class Entry:
    """What a record adds to the counts that all kinds share."""

    texts: tuple[Sequence[Text], ...]  # of each side
    key: str  # its input: records with the same one repeat, contradict or overlap
    target: Hashable = None
    group: str | None = None
    unit: str | None = None  # what is held out together where that is not the group or the key
    line: int | None = None
    name: str | None = None  # what an example calls it, unless its key


@dataclass(frozen=True)
class Section:
    """A part of the page: a table, the bars of a count, or both."""

    title: str
    rows: Sequence[tuple[str, ...]] = ()
    bars: Mapping[str, int] = field(default_factory=dict)


class Part:
    """What was counted in one file."""

    def __init__(
        self, files: Any, sides: Sequence[str], combine: Callable[..., int] | None, compared: bool, faulty: str
    ) -> None:
        self.files, self.name = files, str(files[0] if isinstance(files, tuple) else files)
        self.sides = {side: Side() for side in sides}
        self.records = self.grouped = self.skipped = 0
        self.row = -1  # of the record that is being counted
        self.counts: Counter[str] = Counter()  # of labels, tags, …
        self.numbers: Counter[str] = Counter()  # whatever else a kind counts
        self.faults, self.first_fault = FaultCounts(), ""
        self.examples: dict[str, str] = {}  # reason of a fault → the first error
        self.first: dict[str, int] = {}  # what was found → the row of the first example
        self.keys, self.targets, self.wholes, self.units, self.plain = (array("q") for _ in range(5))  # hashes
        self.words, self.characters = Lengths(), Lengths()  # per record, sides combined
        self.tokens: dict[str, Lengths] = {}  # as a recipe's tokenizer counts them
        self.broken: InputError | None = None
        self.met = self.near = self.whole = 0  # records of a held-out file that are in the training file
        self._combine, self._compared, self._faulty = combine, compared, faulty

    @property
    def fault_count(self) -> int:
        """Malformed lines, without what the data itself leaves out."""
        return len(self.faults) - self.skipped

    @property
    def malformed(self) -> str:
        return several(self.fault_count, self._faulty)

    @property
    def spoilt(self) -> bool:
        """Whether too many lines are malformed for the rest to represent the file."""
        return self.fault_count > OFTEN * (self.records + self.fault_count)

    def add_fault(self, fault: Fault) -> None:
        self.faults.add(fault)
        self.examples.setdefault(fault.reason, str(fault.error))
        self.skipped += fault.skipped
        self.first_fault = self.first_fault or ("" if fault.skipped else str(fault.error))

    def add(self, entries: Sequence[Entry]) -> None:
        """Count a chunk of records."""
        columns = [[entry.texts[place] for entry in entries] for place in range(len(self.sides))]
        words = [side.add([*chain(*texts)]) for side, texts in zip(self.sides.values(), columns, strict=True)]
        if self._combine is not None:  # one text per side
            self.words.add(map(self._combine, zip(*words, strict=True)))
            letters = [[len(text[0]) for text in texts] for texts in columns]
            self.characters.add(map(self._combine, zip(*letters, strict=True)))
        for entry in entries:
            self.keys.append(hash(entry.key))
            self.targets.append(hash(entry.target))
            self.wholes.append(hash((entry.key, entry.target)))
            self.units.append(hash(entry.unit or entry.group or entry.key))
            self.grouped += entry.group is not None
        if self._compared:
            self.plain.extend(hash(plain(entry.key)) for entry in entries)
        self.records += len(entries)


class Survey(ABC):
    """Surveys the data of a recipe, or a file for which a recipe is to be written.

    Without a recipe ``data`` names the training file alone, ``tests`` are the files to compare with, and :meth:`recipe` writes
    one; columns may be guessed unless they were ``named``. With ``has_recipe`` the data is judged by the recipe's own limits,
    and its paths start at ``folder``.
    """

    kind: ClassVar[str]
    task: ClassVar[str]  # for which a recipe is written
    unit: ClassVar[str]  # what a record is called
    roles: ClassVar[tuple[str, ...]]  # what columns may hold
    formats: ClassVar[Sequence[str]] = ()  # that no other kind has
    expected: ClassVar[str]  # what a file must have at least one of
    word: ClassVar[str] = "word"  # what a vocabulary is of
    combine: ClassVar[Any] = None  # gives the length of a record from those of its sides, one text each
    tokenised: ClassVar[bool] = False  # records have words rather than texts
    targets: ClassVar[bool] = True  # records have a target that can be compared
    takes_two: ClassVar[bool] = False  # two line-aligned files
    shortened: ClassVar[str] = "truncate"  # what data.too_long may be instead of error
    faulty: ClassVar[str] = "malformed line"  # what cannot be read is called
    near: ClassVar[bool] = True  # inputs are texts, compared apart from case, spaces and punctuation too
    limited: ClassVar[str] = ""  # what data.max_length limits, unless it is a record
    takes_backbone: ClassVar[bool] = False  # inputs may be read by a backbone that is not trained

    def __init__(
        self,
        data: Any,
        tests: Sequence[Any] = (),
        *,
        named: bool = False,
        has_recipe: bool = False,
        folder: Path | None = None,
        seed: int = 1,
    ) -> None:
        self.data, self.named, self.has_recipe, self.seed = data, named or has_recipe, has_recipe, seed
        self.folder = folder or Path()
        given = [file for file in (data.valid, data.test) if file is not None] if has_recipe else tests
        self.files, self.test_files = self.located(data.train), [self.located(file) for file in given]
        self.examples: dict[str, str] = {}
        self._counters: dict[int, Callable[[str], int]] = {}

    # What a kind says of itself ---------------------------------------------------------------------------------------

    @classmethod
    def recognises(
        cls, files: Sequence[str], columns: Mapping[str, Name], format: str | None, encoding: Encoding
    ) -> bool:
        """Whether these files are of this kind: by the named roles, by the format, else by their content."""
        named = set(columns) - {"group"}
        if named or format in cls.formats:
            return named <= set(cls.roles)
        return len(files) == 1 and cls.looks_right(files[0], format, encoding)

    @classmethod
    @abstractmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        """Whether the content of a file is of this kind."""

    @abstractmethod
    def scan(self, files: Any) -> Iterator[Any]:
        """Every item and every :class:`Fault` of a file."""

    @abstractmethod
    def entry(self, record: Any) -> Entry:
        """What a record adds to the shared counts."""

    @abstractmethod
    def headline(self) -> str:
        """What was read, in a line."""

    @abstractmethod
    def recommend(self) -> dict[str, Any]:
        """The recipe's other sections, and the fields of ``data`` that follow from what was counted."""

    @classmethod
    def columns(cls, given: Mapping[str, Name]) -> dict[str, Any]:
        """The columns that were named, as ``data.columns`` holds them."""
        return dict(given)

    def settle(self) -> None:
        """Guess the settings that ``data`` leaves out, before the file is read."""
        return

    def sides(self) -> Sequence[str]:
        """The columns of text."""
        return ("text",)

    def records(self, items: Iterator[Any]) -> Iterable[Any]:
        """Records from items, where an item is not a record yet."""
        return items

    def count(self, record: Any, part: Part) -> None:
        """Count what is specific to this kind."""
        return

    def measure(self, record: Any) -> Iterable[tuple[str, int]]:
        """The tokens of what ``data.max_length`` limits, each with what it is called."""
        return ()

    def finish(self) -> None:
        """Conclude from the counts, once everything was read."""
        return

    def own_problems(self) -> Iterable[str]:
        """Problems specific to this kind that would prevent training."""
        return ()

    def own_notes(self) -> Iterable[str]:
        """Notes specific to this kind."""
        return ()

    def own_sections(self) -> Iterable[Section]:
        return ()

    def checks(self) -> Iterable[tuple[int, str]]:
        """The checks of the report, and how often each found something."""
        yield self.repeated, f"{self.unit}s repeat an earlier one{self.shown('repeated')}"

    def test_checks(self, part: Part) -> Iterable[tuple[int, str]]:
        return ()

    def own_json(self) -> dict[str, Any]:
        return {}

    # Reading ----------------------------------------------------------------------------------------------------------

    def read(self, progress: Progress = lambda name, records: None) -> Self:
        """Read the files and count."""
        vectors = as_vectors(getattr(self.data, "vectors", None))
        if vectors is not None:
            next(words_in(vectors, self.folder), None)  # refuses what training would refuse
        self.settle()
        self.train = self._part(self.files, progress)
        if not self.train.records:
            found = f"none: {self.train.faults}; the first: {self.train.first_fault}{self._encoding}"
            found = found if self.train.first_fault else "none"
            raise InputError(self.train.name, expected=f"at least one {self.expected}", found=found)
        self.tests = [self._part(files, progress) for files in self.test_files]
        train, first = self.train, self.train.first
        self.repeated, row = repeats(train.wholes)
        first |= {"repeated": row} if row is not None else {}
        self.contradicted, row = with_several(train.keys, train.targets)
        first |= {"contradicted": row} if row is not None else {}
        keys = hashes(train.keys)
        for part in self.tests:
            there = np.isin(keys, hashes(part.keys))
            first |= {part.name: int(there.argmax())} if there.any() else {}
            part.met = int(np.isin(hashes(part.keys), keys).sum())
            part.near = int(np.isin(hashes(part.plain), hashes(train.plain)).sum())
            part.whole = int(np.isin(hashes(part.wholes), hashes(train.wholes)).sum())
        held_out = np.concatenate([hashes(part.keys) for part in self.tests] or [keys[:0]])
        self.unmet = len(np.setdiff1d(keys, held_out))
        self.different, self.units = len(np.unique(keys)), len(np.unique(hashes(train.units)))
        self._find_examples()
        if self.drawn and not self.has_recipe:
            share = max(self.data.hold_out, min(MOST_HELD, math.ceil(100 * HELD / train.records) / 100))
            self.data = replace(self.data, hold_out=share)
        self.finish()
        return self

    def _part(self, files: Any, progress: Progress) -> Part:
        part = Part(files, self.sides(), self.combine, bool(self.test_files), self.faulty)
        chunk: list[Entry] = []
        size = 0
        try:
            for record in self.records(self._valid(files, part, progress)):
                entry = self.entry(record)
                chunk.append(entry)
                size += sum(len(text) for texts in entry.texts for text in texts)
                part.row += 1
                self.count(record, part)
                if self.has_recipe:
                    for name, tokens in self.measure(record):
                        part.tokens.setdefault(name, Lengths()).add([tokens])
                if len(chunk) == CHUNK or size > CHUNK_SIZE:
                    part.add(chunk)
                    chunk, size = [], 0
        except InputError as error:  # read as far as it goes; a test set must be whole
            if not (chunk or part.records) or files is not self.files:
                raise
            part.broken = error
        part.add(chunk)
        return part

    def _valid(self, files: Any, part: Part, progress: Progress) -> Iterator[Any]:
        for number, item in enumerate(self.scan(files), start=1):
            if number % CHUNK == 0:
                progress(part.name, number)
            if isinstance(item, Fault):
                part.add_fault(item)
            else:
                yield item

    def _find_examples(self) -> None:
        """Read the files again, up to the first example of each finding."""
        wanted: dict[int, list[str]] = {}
        for name, row in self.train.first.items():
            wanted.setdefault(row, []).append(name)
        if not wanted:
            return
        items = (item for item in self.scan(self.files) if not isinstance(item, Fault))
        for row, record in enumerate(islice(self.records(items), max(wanted) + 1)):
            entry = self.entry(record) if row in wanted else None
            if entry is not None and hash(entry.key) == self.train.keys[row]:  # unless the file has changed since
                texts = [entry.name or entry.key, *([entry.target] if isinstance(entry.target, str) else ())]
                place = "" if entry.line is None else f"line {entry.line}: "
                self.examples |= dict.fromkeys(wanted[row], place + " → ".join(map(quoted, texts)))

    def shown(self, name: str) -> str:
        """The example of a finding, in brackets."""
        return f" ({self.examples[name]})" if name in self.examples else ""

    def located(self, file: Any) -> Any:
        """A file of ``data`` as it is opened: a path, a dataset of the hub, or several paths."""
        if isinstance(file, tuple | list):
            return tuple(self.located(inner) for inner in file)
        if on_hub(file) or not self.has_recipe:
            return str(file)
        return locate(file, self.folder)

    def token_count(self, text: str, tokens: TokenizerConfig) -> int:
        """The tokens of a text; 0 where they are only known once pieces are learnt."""
        if id(tokens) not in self._counters:
            self._counters[id(tokens)] = counting(tokens) or (lambda text: 0)
        return self._counters[id(tokens)](text)

    # The verdict ------------------------------------------------------------------------------------------------------

    @cached_property
    def problems(self) -> list[str]:
        """The reasons why it would not train, if any."""
        train = self.train
        found = [f"the file cannot be read to its end: {train.broken}"] if train.broken else []
        found += self.own_problems()
        if train.first_fault and self._strict:
            found += self._malformed(train, self._encoding)
        if self.units < 1 + len(self.drawn):
            found.append(too_few(train.records, self.units, self.drawn, "group" if train.grouped else "source"))
        for part in self.tests:
            if not part.records:
                found.append(f"{part.name} has no {self.unit}: {part.first_fault or 'it is empty'}")
            elif part.first_fault and self._strict:
                found += self._malformed(part)
        return found + (self._overlaps() + self._too_long("error") if self.has_recipe else [])

    @property
    def _strict(self) -> bool:
        return getattr(self.data, "faults", "error") == "error"

    def _malformed(self, part: Part, hint: str = "") -> list[str]:
        """The problem that malformed lines are, if they are one: the recommended recipe drops a few."""
        message = f"{part.name}: {part.malformed}, the first: {part.first_fault}{hint}"
        if not hasattr(self.data, "faults"):
            return [message]
        if self.has_recipe:
            return [f"{message} (data.faults: drop leaves them out)"]
        share = f"more than {OFTEN:.0%} of the {self.faulty.split()[-1]}s"
        return [f"{message} ({share}: {self.remedy(part)})"] if part.spoilt else []

    def remedy(self, part: Part) -> str:
        """What to do about a file with many malformed lines."""
        return "fix the file, or check the columns"

    @property
    def drops(self) -> bool:
        """Whether the recipe that is written here leaves malformed lines out."""
        faulty = any(part.first_fault for part in (self.train, *self.tests))
        return not self.has_recipe and faulty and not self.problems

    @property
    def _encoding(self) -> str:
        if NOT_UTF8 not in self.train.faults.counts or codec_of(self.data.encoding) != "utf-8":
            return ""
        return "; another encoding? --encoding latin-1 or windows-1252, in a recipe data.encoding"

    @property
    def drawn(self) -> list[str]:
        """The splits that training will hold out of the training file."""
        given = {name for name in ("valid", "test") if getattr(self.data, name) is not None}
        given |= {"test"} if self.test_files and not self.has_recipe else set()
        return [name for name in ("valid", "test") if name not in given]

    def _overlaps(self) -> list[str]:
        """Why ``data.overlap`` refuses records that files have in common."""
        overlap = self.data.overlap
        if overlap == "drop_train" and not self.unmet:
            return [f"all training {self.unit}s are in valid or test: data.overlap=drop_train leaves none to train on"]
        problems = []
        for part in self.tests:
            message = f"{part.met:,} of {several(part.records, self.unit)} of {part.name} are in the training file too"
            if part.met and overlap == "error":
                problems.append(f"{message}, and data.overlap is error")
            elif part.met and part.met == part.records and overlap == "drop_test":
                problems.append(f"{message}: data.overlap=drop_test leaves none of it")
        return problems

    def _too_long(self, policy: str) -> list[str]:
        """What exceeds ``data.max_length``, where ``data.too_long`` is this policy."""
        if getattr(self.data, "too_long", None) != policy:
            return []
        found = []
        for name in dict.fromkeys(chain(*(part.tokens for part in (self.train, *self.tests)))):
            lengths = Lengths()
            for part in (self.train, *self.tests):
                lengths.counts += part.tokens.get(name, Lengths()).counts
            what, _, kind = name.partition(" in ")
            if longer := lengths.above(self.data.max_length):
                limit = f"data.max_length={self.data.max_length} {kind} (longest: {lengths.longest:,})"
                remedy = f": raise it, or set data.too_long: {self.shortened}" if policy == "error" else f": {policy}"
                found.append(f"{several(longer, what)} exceed{'s' * (longer == 1)} {limit}{remedy}")
        return found

    @cached_property
    def notes(self) -> list[str]:
        """Notes of the report."""
        found = [
            f"{part.name}: {part.malformed}, which the recipe leaves out (data.faults: drop)"
            for part in (self.train, *self.tests)
            if self.drops and part.first_fault
        ]
        if self.drops and self._encoding:
            found[0] += self._encoding
        unnamed = unnamed_columns(self.files, self.data.format, self.data.encoding)
        if unnamed:
            columns = f"column{'s' * (len(unnamed) > 1)} {listed(map(str, unnamed))}"
            found.append(f"the header has no name for {columns}: read only where a role is given by that number")
        found += self._too_long(self.shortened) if self.has_recipe else self._cut()
        found += self.own_notes()
        for part in self.tests:
            if part.near and (not self.has_recipe or self.data.overlap == "keep"):
                met = f"{part.near:,} of {several(part.records, self.unit)} of {part.name} are in the training file too"
                found.append(f"{met}, so scores on it are too optimistic (data.overlap can drop them)")
        return found + (self._held_out() if self.drawn and not self.problems else [])

    def _cut(self) -> list[str]:
        """A note if the recommended recipe cuts a few texts."""
        if not (limited := self._limited):
            return []
        count, limit, kind = limited
        fate = {"truncate": "their ends are cut off", "split": "they are read in parts"}[self.shortened]
        longest = max((each.longest for each in self._measured(kind)), default=0)
        called = several(count, self.limited or self.unit)
        what = f"{called} longer than the recipe's max_length of {limit} {kind} (longest: {longest:,})"
        return [f"{what}: {fate}; a longer limit costs time and memory"] if count else []

    def _held_out(self) -> list[str]:
        """A note if few records will be held out."""
        share, records = self.data.hold_out, self.train.records
        count = min(max(1, round(share * records)), HELD_OUT_AT_MOST)
        if count >= ROUGH:
            return []
        larger = min(0.2, math.ceil(100 * ROUGH / records) / 100)
        advice = f"raise data.hold_out to {larger:g}, or give" if larger > share else "give"
        held = f"{' and '.join(self.drawn)}: about {several(count, self.unit)} held out of train"
        return [f"{held}, so metrics are rough: {advice} your own files"]

    # The recipe -------------------------------------------------------------------------------------------------------

    def recipe(self, folder: Path | None = None) -> dict[str, Any]:
        """A recipe for these files, as YAML holds it, to be saved in ``folder``: its paths start there."""
        rest = self.recommend()
        data: dict[str, Any] = {"train": _seen_from(folder, self.data.train)}
        if self.test_files and isinstance(self.test_files[0], tuple) == isinstance(self.files, tuple):
            data["test"] = _seen_from(folder, self.test_files[0])
        if hasattr(self.data, "columns"):
            usual, columns = asdict(type(self.data.columns)()), asdict(self.data.columns)
            columns = {role: column for role, column in columns.items() if column != usual[role]}
            columns |= rest["data"].pop("columns", {})
            data |= {"columns": columns} if columns else {}
        for name in ("format", "encoding", "hold_out"):
            default = next((each.default for each in fields(self.data) if each.name == name), None)
            data |= {name: value} if (value := getattr(self.data, name, default)) != default else {}
        data |= {"faults": "drop"} if self.drops else {}
        about = {"about": f"{self.kind.capitalize()} of {Path(self.train.name).name}."}
        return {**about, "task": self.task, "data": {**data, **rest.pop("data")}, **rest}

    # The report -------------------------------------------------------------------------------------------------------

    def sections(self) -> Iterator[Section]:
        """The page, without headline, verdict and recipe."""
        yield from self.own_sections()
        head, texts, words = ("", "mean", "median", "95 %", "99 %", "longest"), [], []
        for name, side in self.train.sides.items():
            texts.append((f"{name}, {self.word}s", *_lengths(side.word_lengths)))
            texts += [] if self.tokenised else [(f"{name}, characters", *_lengths(side.character_lengths))]
            words.append((name, *_vocabulary(side)))
        if self.train.sides:
            yield Section("Lengths", [head, *texts])
            yield Section("Vocabulary", [("", f"{self.word}s", *VOCABULARY), *words])
        yield from self._limits()
        yield Section("Checks", [(f"{count:,}", text) for count, text in self.checks()])
        for part in (self.train, *self.tests):
            if part.faults:
                title = f"{self.faulty.capitalize()}s" if part.fault_count else "Left out"
                yield Section(f"{title} of {part.name}", list(_fault_rows(part)))
        for part in self.tests:
            rows = [(part.met, f"are in the training file too{self.shown(part.name)}")]
            rows += [(part.near, "are there too, apart from case, spaces and punctuation")] * self.near
            if self.targets and isinstance(part.files, tuple) == isinstance(self.files, tuple):
                rows.append((part.whole, "are there too with the same target"))
            counted = [(f"{count:,}", text) for count, text in (*rows, *self.test_checks(part))]
            unseen = [(percent(self._unseen(part)), f"of its {self.word}s are not in the training file")]
            yield Section(f"{several(part.records, self.unit)} of {part.name}", [*counted, *unseen * bool(part.sides)])

    def _limits(self) -> Iterator[Section]:
        """What the recommended ``max_length`` would cut."""
        if limited := self._limited:
            count, limit, kind = limited
            yield Section(
                "Limits",
                [(f"{count:,}", f"{self.limited or self.unit}s exceed the recipe's max_length of {limit} {kind}")],
            )

    @cached_property
    def _limited(self) -> tuple[int, int, str] | None:
        """The number of texts that exceed the recommended ``max_length``, that length, and its unit."""
        data = {} if self.has_recipe else self.recommend()["data"]
        kind = data.get("tokens", {}).get("kind")
        if "max_length" not in data or kind not in ("characters", "words"):
            return None
        return sum(each.above(data["max_length"]) for each in self._measured(kind)), data["max_length"], kind

    def _measured(self, kind: str) -> Sequence[Lengths]:
        """The lengths that ``data.max_length`` bounds, in characters or words."""
        return [self.train.characters if kind == "characters" else self.train.words]

    def _unseen(self, part: Part) -> float:
        """The share of a held-out file's words that training lacks, on its first side; 0 of records without texts."""
        name = next(iter(part.sides), None)
        if name is None:
            return 0.0
        return part.sides[name].vocabulary.unseen_in(self.train.sides[name].vocabulary)

    def to_json(self) -> dict[str, Any]:
        """The survey as plain data, for JSON."""
        columns = getattr(self.data, "columns", None)
        tests = [
            {"file": part.name, "records": part.records, "met": part.met, "near": part.near, "whole": part.whole}
            | {"unseen_words": round(self._unseen(part), 4), "faults": dict(part.faults.counts), **part.numbers}
            for part in self.tests
        ]
        train = self.train
        return {
            "file": train.name, "kind": self.kind, "task": self.task, "unit": self.unit,
            "format": getattr(self.data, "format", None), "columns": None if columns is None else asdict(columns),
            "records": train.records, "different": self.different,
            "faults": {
                reason: {"count": count, "line": train.faults.first[reason], "example": train.examples[reason]}
                for reason, count in train.faults.counts.items()
            },
            "broken": None if train.broken is None else str(train.broken),
            "sides": {name: side.to_json() for name, side in train.sides.items()},
            "repeated": self.repeated, "contradicted": self.contradicted, "examples": self.examples, "tests": tests,
            **self.own_json(),
            "would_train": not self.problems, "problems": self.problems, "notes": self.notes,
        }  # fmt: skip


VOCABULARY = ("different", "seen once", "cover 95 %", "cover 99 %", "characters")


def _vocabulary(side: Side) -> Iterator[str]:
    words = side.vocabulary
    more = "+" if words.full else ""
    yield from (f"{words.running:,}", f"{len(words.counts):,}{more}", f"{words.once:,}")
    for share in (0.95, 0.99):
        count = words.covering(share)
        yield f"> {len(words.counts):,}" if count is None else f"{count:,}"
    yield f"{len(side.characters):,}"


def _lengths(lengths: Lengths) -> Iterator[str]:
    yield f"{lengths.mean:.1f}"
    yield from (f"{lengths.within(share):,}" for share in (0.5, 0.95, 0.99, 1.0))


def _fault_rows(part: Part) -> Iterator[tuple[str, str]]:
    for reason, count in sorted(part.faults.counts.items(), key=lambda item: -item[1]):
        first, place = part.faults.first[reason], part.faults.place(reason)
        yield f"{count:,}", f"{reason}, first in {place if isinstance(first, str) else f'line {place}'}"
        yield "", part.examples[reason]


def _seen_from(folder: Path | None, file: Any) -> Any:
    """A file as a recipe in ``folder`` names it: relative to it, unless it is absolute or on the hub."""
    if hasattr(file, "__dataclass_fields__"):  # two line-aligned files
        return {name: _seen_from(folder, path) for name, path in asdict(file).items()}
    if isinstance(file, tuple):
        return {name: _seen_from(folder, path) for name, path in zip(("source", "target"), file, strict=True)}
    if folder is None or on_hub(file) or Path(file).is_absolute():
        return str(file)
    return os.path.relpath(file, folder)


def several(count: int, what: str) -> str:
    """A count with its noun.

    >>> several(1, "question"), several(1200, "question")
    ('1 question', '1,200 questions')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def listed(names: Iterable[str]) -> str:
    """The first few names."""
    names = list(names)
    return ", ".join(names[:LISTED]) + (" …" if len(names) > LISTED else "")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def quoted(text: str) -> str:
    """An example, cut and in quotation marks."""
    text = " ".join(text.split())
    return f'"{text}"' if len(text) <= SHOWN else f'"{text[: SHOWN - 1]}…"'


def rounded_up(length: int, step: int = 8, least: int = 8) -> int:
    """The number rounded up to a multiple of ``step``."""
    return max(least, math.ceil(length / step) * step)


def longest_of(lengths: Sequence[Lengths]) -> int:
    """``data.max_length`` that cuts no text, unless a few are far longer than the rest: then 99 % of them are whole."""
    usual, longest = (max(length) for length in zip(*((e.within(0.99), e.longest) for e in lengths), strict=True))
    return rounded_up(usual if longest > 2 * usual and longest > FAR else longest)


def epochs_for(records: int, hold_out: float, *, batch: int, updates: int, fewest: int, most: int) -> tuple[int, int]:
    """Epochs that make up ``updates`` updates, within bounds, and the updates of one epoch."""
    per_epoch = max(1, math.ceil(records * (1 - 2 * hold_out) / batch))
    return min(max(fewest, math.ceil(updates / per_epoch)), most), per_epoch
