"""What questions with candidates hold and whether they would train: how many there are and how many answer, lengths, repeats,
contradictions, and which questions a test set shares with them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from saccade.data.files.fields import Fields, scan_fields
from saccade.data.pairs.records import Fault
from saccade.data.rankings.records import RankColumns, Ranked, RankedData, Row, collected, scan, settled
from saccade.data.reading import FaultCounts
from saccade.data.splits import HELD_OUT_AT_MOST, hold_out
from saccade.data.survey.language_id import script_shares
from saccade.data.survey.limits import beyond, drawn, overlapping
from saccade.data.survey.recipe import OFTEN, quoted, seen_from, unspaced
from saccade.data.survey.tallies import WORD, Lengths
from saccade.data.tokenizers.tokenizer import counting
from saccade.errors import InputError, SaccadeError

EVERY = 2000  # rows between two words of progress
SEED = 1  # train.seed of a recipe that does not say it: what is held out depends on it
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)  # of data.hold_out that are tried where the usual one holds out no answer
ROUGH = 30  # held-out questions below which a figure says little
UPDATES, BATCH, MOST_EPOCHS = 600, 16, 60  # of a recipe: so many updates at least, so many questions a batch


@dataclass(frozen=True)
class TestSet:
    """A held-out file: its questions, how many of them are met in training, how many have no answer, the first fault."""

    name: str
    questions: int
    met: int
    unanswered: int
    first_fault: str = ""


@dataclass
class RankedSurvey:
    """What was counted."""

    path: str
    data: RankedData
    questions: int = 0
    candidates: int = 0
    relevant: int = 0
    unanswered: int = 0  # questions without a relevant candidate
    all_relevant: int = 0  # questions whose every candidate is
    grades: set[float] = field(default_factory=set)
    repeated: int = 0  # candidates that a question has twice
    contradicted: int = 0  # of these, those with another relevance
    sizes: Lengths = field(default_factory=Lengths)  # candidates a question
    asked: Lengths = field(default_factory=Lengths)  # words a question
    said: Lengths = field(default_factory=Lengths)  # words a candidate
    asked_characters: Lengths = field(default_factory=Lengths)
    said_characters: Lengths = field(default_factory=Lengths)
    letters: Counter[str] = field(default_factory=Counter)  # every character, and how often it occurs
    tokens: Lengths = field(default_factory=Lengths)  # as a recipe cuts, held-out files too; empty where none does yet
    different: int = 0  # questions, by what they say
    unmet: int = 0  # of these, those that no held-out file has
    unheld: str = ""  # why what training would hold out serves nothing
    faults: FaultCounts = field(default_factory=FaultCounts)
    first_fault: str = ""
    tests: Sequence[TestSet] = ()
    planned: bool = False  # no recipe yet: the one that is written here may leave faults out

    @property
    def problems(self) -> list[str]:
        """Why it would not train."""
        found = []
        if self.relevant == 0:
            found.append("no candidate is relevant: does --relevance name the right column?")
        elif self.relevant == self.candidates:
            found.append("every candidate is relevant: there is nothing to tell apart")
        if self.first_fault and self.data.faults == "error":
            told = f"{self._faulty}, the first: {self.first_fault}"
            if not self.planned:
                found.append(f"{told} (data.faults: drop leaves them out)")
            elif len(self.faults) > OFTEN * (self.candidates + len(self.faults)):
                found.append(f"{told} (more than {OFTEN:.0%}: mend the file)")
        if self.different < 1 + len(self._drawn):
            asked = several(self.different, "different question" if self.different < self.questions else "question")
            missing = " and ".join(self._drawn)
            found.append(f"{asked}: too few to hold out {missing}: give files of your own, or more questions")
        elif self.relevant and self.unheld:
            found.append(self.unheld)
        found += [test.first_fault for test in self.tests if test.first_fault and self.data.faults == "error"]
        found += [
            f"{test.name}: none of {several(test.questions, 'question')} has a relevant candidate, and without any there is no "
            "figure: give another file"
            for test in self.tests
            if test.questions == test.unanswered
        ]
        return found + self._against_recipe

    @property
    def _against_recipe(self) -> list[str]:
        """What a recipe's own rules refuse."""
        if self.planned:
            return []
        data, shared = self.data, {test.name: (test.met, test.questions) for test in self.tests}
        kind, remedy = data.tokens.kind, "data.too_long: truncate"
        long = beyond(self.tokens, data.max_length, texts="questions and candidates", tokens=kind, remedy=remedy)
        return overlapping(data.overlap, shared, self.unmet, records="questions") + long

    @property
    def _drawn(self) -> list[str]:
        """The splits that training will hold out."""
        return drawn(self.data, beside=bool(self.tests))

    @property
    def unspaced(self) -> bool:
        """Whether words are written without spaces."""
        return unspaced(script_shares(self.letters))

    @property
    def notes(self) -> list[str]:
        """What is worth knowing."""
        found = []
        if self.drops:
            found.append(f"{self._faulty} and left out by data.faults: drop, the first: {self.first_fault}")
        if self.unanswered:
            found.append(
                f"no relevant candidate: {self.unanswered:,} of {several(self.questions, 'question')}; no figure is of them, "
                "and data.loss: listwise learns nothing there"
            )
        if self.all_relevant:
            found.append(f"{several(self.all_relevant, 'question')} with relevant candidates alone: any order is right")
        if self.repeated:
            apart = f", {self.contradicted:,} with another relevance" if self.contradicted else ""
            found.append(f"{several(self.repeated, 'candidate')} again under the same question{apart}")
        for test in self.tests:
            asked = f"{several(test.questions, 'question')} of {test.name}"
            if test.met:
                found.append(f"{test.met:,} of {asked} also in the training records (data.overlap)")
            if test.unanswered:
                found.append(f"no relevant candidate: {test.unanswered:,} of {asked}, left out of figures")
        given = self.data.test is not None or bool(self.tests)
        held = min(max(1, round(self.data.hold_out * self.questions)), HELD_OUT_AT_MOST)
        if not given and held < ROUGH:
            rough = f"test: about {several(held, 'question')} held out of train, so figures are rough"
            found.append(f"{rough}: give files of your own")
        return found

    @property
    def drops(self) -> bool:
        """Whether the recipe that is written here leaves faults out."""
        return self.planned and bool(self.first_fault) and not self.problems

    @property
    def _faulty(self) -> str:
        return "1 row is no candidate" if len(self.faults) == 1 else f"{len(self.faults):,} rows are no candidates"

    def recipe(self, folder: Path | None = None) -> str:
        """A recipe for these records, which will lie in ``folder``: paths in it start there."""
        data, default = self.data, RankColumns()
        named = {name: getattr(data.columns, name) for name in ("question", "candidate", "relevance", "group")}
        chosen = [f"{name}: {quoted(column)}" for name, column in named.items() if column != getattr(default, name)]
        asked, said = (self.asked_characters, self.said_characters) if self.unspaced else (self.asked, self.said)
        longest = max(8, math.ceil(max(said.within(0.95), asked.longest) / 8) * 8)
        # A question is never cut into batches: the largest must fit into one.
        room = max(4096, math.ceil(self.sizes.longest * (asked.longest + longest) / 1024) * 1024)
        updates = max(1, math.ceil(self.questions * (1 - 2 * data.hold_out) / BATCH))
        epochs = min(max(10, math.ceil(UPDATES / updates)), MOST_EPOCHS)
        patience = max(3, epochs // 4)
        lines = [
            f"about: {quoted(f'Answers for {Path(self.path).name}.')}", "task: rank", "data:",
            f"  train: {quoted(seen_from(folder, self.path))}",
        ]  # fmt: skip
        lines += [f"  test: {quoted(seen_from(folder, self.tests[0].name))}"] if self.tests else []
        less = "  # of less, no question with an answer would be held out"
        lines += [f"  hold_out: {data.hold_out:g}{less}"] if data.hold_out != RankedData.hold_out else []
        lines += [f"  columns: {{{', '.join(chosen)}}}"] if chosen else []
        lines += [f"  format: {data.format}"] if data.format else []
        lines += [f"  encoding: {data.encoding}"] if data.encoding != "utf-8" else []
        lines += [f"  faults: drop  # {self._faulty}"] if self.drops else []
        lines += [
            f"  tokens: {{{'kind: characters' if self.unspaced else 'kind: words, lower: true, min_count: 2'}}}",
            f"  max_length: {longest}",
            "  too_long: truncate",
            "model: {name: siamese, embedding: 64, encoder: gru, hidden: 64, compare: alignment, overlap: true, dropout: 0.3}",
            "train:",
            f"  {{epochs: {epochs}, batch_records: {BATCH}, batch_tokens: {room},",
            f"   lr: 1e-3, watch: map, stop_after: {patience}}}",
            "metrics: [map, mrr, precision_at_1]",
        ]
        return "\n".join(lines) + "\n"

    def to_plain(self, recipe: str | None = None) -> dict[str, Any]:
        """The survey as JSON has it."""
        shares = (0.5, 0.95, 1.0)
        lengths = {"candidates_a_question": self.sizes, "question_words": self.asked, "candidate_words": self.said}
        tests = [
            {"file": test.name, "questions": test.questions, "met": test.met, "unanswered": test.unanswered}
            for test in self.tests
        ]
        return {
            "file": self.path, "task": "rank", "questions": self.questions, "candidates": self.candidates,
            "relevant": self.relevant, "unanswered": self.unanswered, "all_relevant": self.all_relevant,
            "grades": sorted(self.grades),
            **{name: {f"{share:g}": found.within(share) for share in shares} for name, found in lengths.items()},
            "faults": dict(self.faults.counts), "repeated": self.repeated, "contradicted": self.contradicted, "tests": tests,
            "would_train": not self.problems, "problems": self.problems, "notes": self.notes, "recipe": recipe,
        }  # fmt: skip


def survey_ranked(
    path: str | Path,
    data: RankedData,
    tests: Sequence[str | Path] = (),
    progress: Callable[[str, int, int | None], None] = lambda doing, done, total: None,
    *,
    planned: bool = False,
    seed: int = SEED,
) -> RankedSurvey:
    """Count what a file or folder holds; ``planned`` where ``data`` is no recipe's, but to become one. ``seed`` is the recipe's
    ``train.seed``, by which questions are held out."""
    found = RankedSurvey(str(path), data, planned=planned)

    def rows() -> Iterator[Row]:
        for number, item in enumerate(scan(path, data), start=1):
            if number % EVERY == 0:
                progress("reading", number, None)
            if isinstance(item, Fault):
                found.faults.add(item)
                found.first_fault = found.first_fault or str(item.error)
            else:
                yield item

    records = collected(rows())
    if not records:
        told = f"none: {found.faults}; the first: {found.first_fault}" if found.first_fault else "nothing"
        raise InputError(path, expected="at least one question with a candidate", found=told)
    count = counting(data.tokens) if not planned and data.too_long == "error" else None
    for record in records:
        _count(found, record, count)
    trained, met = {hash(record.source) for record in records}, set[int]()
    found.tests = [_test(test, found, trained, met, count) for test in tests]
    found.different, found.unmet = len(trained), len(trained - met)
    _try_holding_out(found, records, seed)
    return found


def _try_holding_out(found: RankedSurvey, records: Sequence[Ranked], seed: int) -> None:
    """Say why what training would hold out serves nothing, or plan to hold out more, where that helps."""
    given = {name: records for name in ("valid", "test") if name not in found._drawn}
    usual = found.data.hold_out
    for share in (usual, *(share for share in SHARES if share > usual)):
        try:
            hold_out({"train": records, **given}, share, seed)
        except SaccadeError as error:
            found.unheld = found.unheld or str(error)
            continue
        if share > usual and found.planned:
            found.data, found.unheld = replace(found.data, hold_out=share), ""
        elif share > usual:
            found.unheld = f"{found.unheld} (data.hold_out: {share:g} holds some out)"
        return


def _count(found: RankedSurvey, record: Ranked, count: Callable[[str], int] | None) -> None:
    relevant = sum(grade > 0 for grade in record.target)
    found.questions += 1
    found.candidates += len(record.candidates)
    found.relevant += relevant
    found.unanswered += relevant == 0
    found.all_relevant += relevant == len(record.candidates)
    found.grades.update(record.target)
    found.sizes.add([len(record.candidates)])
    found.asked.add([len(WORD.findall(record.source))])
    found.said.add(len(WORD.findall(text)) for text in record.candidates)
    found.asked_characters.add([len(record.source)])
    found.said_characters.add(map(len, record.candidates))
    for text in (record.source, *record.candidates):
        found.letters.update(text)
    _measure(found, record, count)
    first: dict[str, float] = {}
    for text, grade in zip(record.candidates, record.target, strict=True):
        if text in first:
            found.repeated += 1
            found.contradicted += first[text] != grade
        first.setdefault(text, grade)


def _measure(found: RankedSurvey, record: Ranked, count: Callable[[str], int] | None) -> None:
    if count is not None:
        found.tokens.add(map(count, (record.source, *record.candidates)))


def _test(
    path: str | Path, found: RankedSurvey, trained: set[int], met: set[int], count: Callable[[str], int] | None
) -> TestSet:
    """A held-out file, compared with the hashes of training questions; those met in it are added to ``met``."""
    items = list(scan(path, found.data))
    records = collected(item for item in items if isinstance(item, Row))
    first = next((str(item.error) for item in items if isinstance(item, Fault)), "")
    for record in records:
        _measure(found, record, count)
    keys = [hash(record.source) for record in records]
    met.update(trained.intersection(keys))
    shared, unanswered = sum(key in trained for key in keys), sum(not record.answered for record in records)
    return TestSet(str(path), len(records), shared, unanswered, first)


def holds_ranked(path: str | Path, format: str) -> bool:
    """Whether a table or a JSONL file names its columns as questions with candidates do."""
    try:
        columns = settled(path, RankColumns(), format, "utf-8")
        first = next(iter(scan_fields(path, columns.wanted, format=format)), None)
        return isinstance(first, Fields)
    except InputError:  # whoever reads the file says what is wrong with it
        return False


def several(count: int, what: str) -> str:
    """So many of something, in words.

    >>> several(1, "question"), several(1200, "question")
    ('1 question', '1,200 questions')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"
