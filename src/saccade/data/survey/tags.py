"""What tagged sentences hold and whether they would train: tags, spans and the scheme they are written in, lengths, repeats,
and what a test set shares with them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from saccade.data.files.records import NOT_UTF8
from saccade.data.reading import FaultCounts
from saccade.data.splits import too_few
from saccade.data.survey.limits import beyond, drawn, overlapping
from saccade.data.survey.recipe import OFTEN, quoted, seen_from
from saccade.data.survey.tallies import Lengths
from saccade.data.tags.records import FEW_DOCUMENTS, Tagged, TaggedData, scan
from saccade.data.tags.schemes import OUTSIDE, Scheme, fault_in, is_tag, parted, spans_of, tags_with, types_in
from saccade.errors import InputError

SLIPS = 0.05  # sentences with tags of no scheme, of those with spans, up to which they are taken for slips
FEW = 10  # occurrences of a tag or a type below which little can be learnt of it
EVERY = 2000  # sentences between two words of progress
ROUGH = 30  # held-out sentences below which a figure says little
BATCH = 16  # sentences of a batch
UPDATES = 2000  # at least so many updates are planned
MOST_EPOCHS, FEWEST_EPOCHS = 60, 8
LONGEST = 200  # tokens of a sentence that is read whole
ENCODED = "; another encoding? --encoding latin-1 or windows-1252, in a recipe data.encoding"


@dataclass(frozen=True)
class TestSet:
    """A held-out file: how many sentences and words, how many sentences are met in the training file, which tags are not, how
    many words training lacks, how many sentences are no records, the first of these, and the scheme that the file's own tags
    fit where it is another than that of training."""

    name: str
    sentences: int
    words: int
    met: int
    strange: tuple[str, ...]
    unseen: int
    faults: int = 0
    first_fault: str = ""
    scheme: Scheme | None = None

    @property
    def spoilt(self) -> bool:
        """Whether so many sentences are no records that what is left would be another test set."""
        return self.faults > OFTEN * (self.sentences + self.faults)


@dataclass
class TagSurvey:
    """What was counted."""

    path: str
    data: TaggedData
    tags: dict[str, int] = field(default_factory=dict)
    spans: dict[str, int] = field(default_factory=dict)  # by type; empty where tags mark none
    lengths: Lengths = field(default_factory=Lengths)
    vocabulary: int = 0  # different words
    documents: int = 0
    tokens: Lengths = field(default_factory=Lengths)  # of all sentences, those of held-out files too
    parted: int = 0  # what is held out together: different sentences, or documents
    grouped: bool = False  # documents
    unmet: int = 0  # different sentences that no held-out file has
    faults: FaultCounts = field(default_factory=FaultCounts)
    first_fault: str = ""
    repeated: int = 0
    tests: Sequence[TestSet] = ()
    planned: bool = False  # no recipe yet: the one that is written here may leave faults out

    @property
    def sentences(self) -> int:
        return self.lengths.counts.total()

    @property
    def words(self) -> int:
        return sum(self.tags.values())

    @property
    def scheme(self) -> Scheme:
        return self.data.scheme

    @property
    def problems(self) -> list[str]:
        """Why it would not train."""
        found = []
        if len(self.tags) < 2:
            found.append(f"a tagger needs two tags at least, found {', '.join(self.tags) or 'none'} alone")
        if self.first_fault and self.data.faults == "error":
            told = f"{self._faulty}, the first: {self.first_fault}{self._encoded}"
            if not self.planned:
                found.append(f"{told} (data.faults: drop leaves them out)")
            elif len(self.faults) > OFTEN * (self.sentences + len(self.faults)):
                found.append(f"{told} (more than {OFTEN:.0%}: mend the file, or name its columns)")
        if self.sentences < 3 or self.sentences * 2 < len(self.tags):
            found.append(f"{self.sentences} sentences are too few for {len(self.tags)} tags")
        elif self.parted < 1 + len(drawn(self.data, beside=bool(self.tests))):
            names = drawn(self.data, beside=bool(self.tests))
            found.append(too_few(self.sentences, self.parted, names, "group" if self.grouped else "source"))
        found += [
            f"{test.name} has tags that training lacks: {', '.join(test.strange[:8])}"
            for test in self.tests
            if test.strange
        ]
        found += [
            f"{test.name} has no sentence{f': {test.first_fault}' if test.faults else ''}"
            for test in self.tests
            if not test.sentences
        ]
        if self.data.faults == "error" and not self.planned:
            found += [test.first_fault for test in self.tests if test.first_fault and test.sentences]
        if self.planned:
            found += [self._spoilt(test) for test in self.tests if test.sentences and test.spoilt]
        return found + self._against_recipe

    def _spoilt(self, test: TestSet) -> str:
        """Why a test set is refused of which too much would be left out."""
        told = f"{test.faults:,} of {test.sentences + test.faults:,} sentences of {test.name} are no records"
        told = f"{told}, the first: {test.first_fault}"
        if test.scheme is not None:
            return f"{told} (its tags are written as {test.scheme}, those of training as {self.scheme}: rewrite one of them)"
        return f"{told} (more than {OFTEN:.0%}: mend the file)"

    @property
    def _against_recipe(self) -> list[str]:
        """What a recipe's own rules refuse."""
        if self.planned:
            return []
        data, shared = self.data, {test.name: (test.met, test.sentences) for test in self.tests}
        found = overlapping(data.overlap, shared, self.unmet, records="sentences")
        if data.too_long == "error":  # a word may be several tokens, but not less than one
            found += beyond(
                self.tokens, data.max_length, texts="sentences", tokens="words", remedy="data.too_long: split"
            )
        return found

    @property
    def notes(self) -> list[str]:
        """What is worth knowing."""
        found = []
        if self.drops and self.first_fault:
            found.append(
                f"{self._faulty} and left out by data.faults: drop, the first: {self.first_fault}{self._encoded}"
            )
        found += [
            f"{_told(test.faults)} in {test.name} and left out by data.faults: drop, the first: {test.first_fault}"
            for test in self.tests
            if self.drops and test.faults
        ]
        found += [self._odd] if self._odd else []
        if self.rare:
            what, more = "spans" if self.spans else "words", " …" if len(self.rare) > 8 else ""
            found.append(f"fewer than {FEW} {what} of {', '.join(self.rare[:8])}{more}")
        if self.repeated:
            found.append(f"{self.repeated:,} sentences repeat another one, tags and all")
        for test in self.tests:
            unseen = f"{test.unseen / max(1, test.words):.1%}".replace("%", " %")
            found.append(f"{unseen} of the words of {test.name} are not in the training sentences")
            if test.met:
                met = f"{test.met:,} of {test.sentences:,} sentences of {test.name}"
                found.append(f"{met} are in the training sentences too (data.overlap)")
        held = round(self.data.hold_out * self.sentences)
        if held < ROUGH and self.data.valid is None and not self.problems:
            found.append(
                f"valid: about {max(1, held)} sentences held out of train, so figures are rough: give a file of your own"
            )
        return found

    @property
    def drops(self) -> bool:
        """Whether the recipe that is written here leaves faults out."""
        broken = self.first_fault or any(test.first_fault for test in self.tests)
        return self.planned and bool(broken) and not self.problems

    @property
    def rare(self) -> list[str]:
        """The types of span, or without any the tags, of which there is little to learn from."""
        return [name for name, count in (self.spans or self.tags).items() if count < FEW]

    @property
    def _odd(self) -> str:
        """What tags without a scheme look like, if they look like something else than names."""
        if self.scheme != "none" or self.data.labels is not None:
            return ""
        if all(tag.isdecimal() for tag in self.tags):
            return (
                "tags are numbers: data.labels names them in their order, and data.scheme says whether they mark spans"
            )
        marked = sorted(tag for tag in self.tags if len(parted(tag)[0]) == 1 and parted(tag)[1])
        other = sorted(tag for tag in self.tags if not is_tag(tag, "bioes"))
        if OUTSIDE not in self.tags or not marked:
            return ""
        but = f", but {', '.join(other[:3])} is written in none of the schemes iob1, bio and bioes" if other else ""
        return (
            f"tags such as {marked[0]} look like marks of spans{but}: they are taken as names, and no spans are counted"
        )

    @property
    def _faulty(self) -> str:
        return _told(len(self.faults))

    @property
    def _encoded(self) -> str:
        return ENCODED if NOT_UTF8 in self.faults.counts and self.data.encoding == "utf-8" else ""

    def recipe(self, folder: Path | None = None) -> str:
        """A recipe for these sentences, which will lie in ``folder``: paths in it start there."""
        data, longest = self.data, self.lengths.longest
        columns = {name: getattr(data.columns, name) for name in ("word", "tag", "group")}
        chosen = [f"{name}: {quoted(value)}" for name, value in columns.items() if value is not None]
        lines = [
            f"about: {quoted(f'Tags for the words of {Path(self.path).name}.')}",
            "task: label",
            "data:",
            f"  train: {quoted(seen_from(folder, self.path))}",
        ]
        lines += [f"  test: {quoted(seen_from(folder, self.tests[0].name))}"] if self.tests else []
        lines += [f"  columns: {{{', '.join(chosen)}}}"] if chosen else []
        lines += [f"  format: {data.format}"] if data.format else []
        lines += [f"  encoding: {data.encoding}"] if data.encoding != "utf-8" else []
        lines += [f"  scheme: {self.scheme}", "  learn: bioes"] if self.scheme != "none" else []
        lines += [f"  labels: [{', '.join(map(quoted, self._all_tags))}]"] if self.rare else []
        lines += ["  faults: drop"] if self.drops else []
        lines += [f"  tokens: {{kind: words, min_count: {2 if self.vocabulary < self.words else 1}}}"]
        lines += [f"  max_length: {min(LONGEST, max(8, math.ceil(longest / 8) * 8))}"]
        lines += ["  too_long: split"]  # a sentence may always come that is longer
        lines += ["model: {name: attentive_tagger, embedding: 100, hidden: 100, dropout: 0.3}", self._training]
        lines += ["metrics: [f1, precision, recall, accuracy]" if self.scheme != "none" else "metrics: [accuracy]"]
        return "\n".join(lines) + "\n"

    @property
    def _all_tags(self) -> list[str]:
        """Every tag there may be: a rare one may be held out of training whole."""
        return sorted(self.tags) if self.scheme == "none" else tags_with(types_in(self.tags), self.scheme)

    @property
    def _training(self) -> str:
        """``train`` of a recipe: of few sentences more epochs, so that there are enough updates."""
        updates = max(1, math.ceil(self.sentences * (1 - 2 * self.data.hold_out) / BATCH))  # an epoch
        epochs = min(max(FEWEST_EPOCHS, math.ceil(UPDATES / updates)), MOST_EPOCHS)
        watch = "f1" if self.scheme != "none" else "accuracy"
        size = f"epochs: {epochs}, batch_records: {BATCH}"
        return f"train: {{{size}, lr: 2e-3, clip: 5.0, watch: {watch}, stop_after: {max(2, epochs // 3)}}}"

    def to_plain(self, recipe: str | None = None) -> dict[str, Any]:
        """The survey as JSON has it."""
        tests = [
            {
                "file": test.name,
                "sentences": test.sentences,
                "words": test.words,
                "met": test.met,
                "unseen": test.unseen,
            }
            for test in self.tests
        ]
        return {
            "file": self.path, "task": "label", "sentences": self.sentences, "words": self.words,
            "vocabulary": self.vocabulary, "documents": self.documents, "scheme": self.scheme, "tags": self.tags,
            "spans": self.spans, "longest": self.lengths.longest, "median": self.lengths.within(0.5),
            "faults": dict(self.faults.counts), "repeated": self.repeated, "tests": tests,
            "would_train": not self.problems, "problems": self.problems, "notes": self.notes, "recipe": recipe,
        }  # fmt: skip


def survey_tags(
    path: str | Path,
    data: TaggedData,
    tests: Sequence[str | Path] = (),
    progress: Callable[[str, int, int | None], None] = lambda doing, done, total: None,
    *,
    planned: bool = False,
) -> TagSurvey:
    """Count what a file of tagged sentences holds; where it is ``planned``, no recipe's yet, its scheme is found out."""
    found = TagSurvey(str(path), data, planned=planned)
    records = _read(found, path, progress)
    if planned:
        found.data = replace(data, scheme=find_scheme(record.target for record in records))
        if any(fault_in(record.target, found.scheme) for record in records):
            records = _read(found, path, progress)
    if not records:
        told = f"none: {found.faults}; the first: {found.first_fault}" if found.first_fault else "nothing"
        raise InputError(path, expected="at least one sentence with its tags", found=f"{told}{found._encoded}")
    _count(found, records)
    words, whole = {word for each in records for word in each.source}, {each.source for each in records}
    found.vocabulary = len(words)
    found.tokens.add(len(record.source) for record in records)
    # Few documents are not held out whole (`gather`).
    found.grouped = data.columns.group is not None or len({record.group for record in records}) >= FEW_DOCUMENTS
    units = {(record.group, () if record.group else record.source) for record in records}
    found.parted = len(units if found.grouped else whole)
    met = set[tuple[str, ...]]()
    found.tests = [_test(test, found, words, whole, met) for test in tests]
    found.unmet = len(whole) - len(met)
    return found


def _read(found: TagSurvey, path: str | Path, progress: Callable[[str, int, int | None], None]) -> list[Tagged]:
    """The sentences of the file, as the survey's data reads them; its faults are counted anew."""
    records: list[Tagged] = []
    found.faults, found.first_fault = FaultCounts(), ""
    for number, item in enumerate(scan(path, found.data), start=1):
        if number % EVERY == 0:
            progress("reading", number, None)
        if isinstance(item, Tagged):
            records.append(item)
        else:
            found.faults.add(item)
            found.first_fault = found.first_fault or str(item.error)
    return records


def _told(faults: int) -> str:
    return "1 sentence is no record" if faults == 1 else f"{faults:,} sentences are no records"


def _count(found: TagSurvey, records: Sequence[Tagged]) -> None:
    tags = Counter(tag for record in records for tag in record.target)
    found.tags = dict(sorted(tags.items(), key=lambda item: (-item[1], item[0])))
    if found.scheme != "none":
        types = Counter(span.type for record in records for span in spans_of(record.target))
        found.spans = dict(sorted(types.items(), key=lambda item: (-item[1], item[0])))
    found.lengths.add(len(record.source) for record in records)
    found.documents = len({record.group for record in records if record.group is not None})
    found.repeated = len(records) - len({(record.source, record.target) for record in records})


def find_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that fits tags best: the one that fewest sentences offend against; none where tags are not written so, but
    for a few that may be slips."""
    # BIO before IOB1: of a file in which both are legal, both read the same.
    schemes: tuple[Scheme, ...] = ("bio", "iob1", "bioes")
    offences: Counter[Scheme] = Counter()
    marked = other = 0  # sentences with spans, and with tags of no scheme
    for tags in sentences:
        if not all(is_tag(tag, "bioes") for tag in tags):
            other += 1
        elif any(tag != OUTSIDE for tag in tags):
            marked += 1
            offences.update(scheme for scheme in schemes if fault_in(tags, scheme) is not None)
    return min(schemes, key=lambda scheme: offences[scheme]) if marked and other <= SLIPS * marked else "none"


def _test(
    path: str | Path, found: TagSurvey, words: set[str], whole: set[tuple[str, ...]], shared: set[tuple[str, ...]]
) -> TestSet:
    """A held-out file, compared with the words and sentences of training; sentences met in it are added to ``shared``."""
    sentences, count, met, unseen, faults, tags, first = 0, 0, 0, 0, 0, set[str](), ""
    for item in scan(path, found.data):
        if isinstance(item, Tagged):
            sentences, count = sentences + 1, count + len(item.source)
            met, unseen = met + (item.source in whole), unseen + sum(word not in words for word in item.source)
            tags.update(item.target)
            found.tokens.add([len(item.source)])
            shared.update([item.source] if item.source in whole else [])
        else:
            faults, first = faults + 1, first or str(item.error)
    listed = {*(found.data.labels or ())}
    known = {*found.tags, *listed} if found.scheme == "none" else {*types_in({*found.tags, *listed})}
    strange = sorted((tags if found.scheme == "none" else {*types_in(tags)}) - known)
    made = TestSet(str(path), sentences, count, met, tuple(strange), unseen, faults, first)
    return replace(made, scheme=_other_scheme(path, found)) if made.spoilt and found.planned else made


def _other_scheme(path: str | Path, found: TagSurvey) -> Scheme | None:
    """The scheme that the tags of a file fit, where it is another than that of the training file."""
    plain = replace(found.data, scheme="none", learn=None)
    scheme = find_scheme(item.target for item in scan(path, plain) if isinstance(item, Tagged))
    return None if scheme == found.scheme else scheme
