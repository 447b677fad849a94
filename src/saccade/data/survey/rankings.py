"""Surveys questions with candidates: the data of the task ``rank``. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from saccade.data.files.answer_files import is_toks
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding
from saccade.data.files.records import Fault
from saccade.data.rankings.records import Ranked, Row, collected, scan
from saccade.data.splits import hold_out
from saccade.data.survey.columns import has_columns
from saccade.data.survey.survey import (
    ROUGH,
    Entry,
    Part,
    Section,
    Survey,
    epochs_for,
    longest_of,
    percent,
    rounded_up,
    several,
)
from saccade.data.survey.tallies import Lengths
from saccade.errors import SaccadeError

SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)  # of data.hold_out that are tried where the usual one holds out no answer
UPDATES, BATCH, MOST_EPOCHS = 600, 16, 60
FEW_UPDATES = 200  # without enough questions to stop by
FINE = 50  # validation questions from which on their map tells one state of the network from another


class RankingSurvey(Survey):
    kind, task, unit, expected = "rankings", "rank", "question", "question with a candidate"
    roles = ("question", "candidate", "relevance", "group")
    formats = ("toks",)
    targets = False

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        if not on_hub(file) and is_toks(Path(file)):
            return True
        return any(
            has_columns(file, format, "question", name, "relevance", encoding=encoding)
            for name in ("candidate", "candidates")
        )

    def settle(self) -> None:
        self.questions: list[Ranked] = []
        self.sizes, self.grades = Lengths(), set[float]()  # candidates per question

    def sides(self) -> Sequence[str]:
        return ("question", "candidate")

    def scan(self, files: Any) -> Iterator[Row | Fault]:
        return scan(files, self.data)

    def records(self, items: Iterator[Row]) -> Iterable[Ranked]:
        return collected(items)

    def entry(self, record: Ranked) -> Entry:
        return Entry(((record.source,), record.candidates), record.source, (record.candidates, record.target))

    def count(self, record: Ranked, part: Part) -> None:
        relevant = sum(grade > 0 for grade in record.target)
        grades: dict[str, set[float]] = {}
        for text, grade in zip(record.candidates, record.target, strict=True):
            grades.setdefault(text, set()).add(grade)
        part.numbers["candidates"] += len(record.candidates)
        part.numbers["relevant"] += relevant
        part.numbers["unanswered"] += not relevant
        part.numbers["all_relevant"] += relevant == len(record.candidates)
        part.numbers["repeated_candidates"] += len(record.candidates) - len(grades)
        part.numbers["contradicted_candidates"] += sum(len(each) > 1 for each in grades.values())
        if part.files is self.files:
            self.questions.append(record)
            self.sizes.add([len(record.candidates)])
            self.grades.update(record.target)

    def measure(self, record: Ranked) -> Iterable[tuple[str, int]]:
        tokens = self.data.tokens
        for text in (record.source, *record.candidates):
            yield f"text in {tokens.kind}", self.token_count(text, tokens)

    def finish(self) -> None:
        """Try what training would hold out; without a recipe, plan to hold out more where the usual share has no answer."""
        self.unheld = ""  # why what training would hold out is of no use
        self.numbers, usual = self.train.numbers, self.data.hold_out
        given = {name: self.questions for name in ("valid", "test") if name not in self.drawn}
        for share in (usual, *(share for share in SHARES if share > usual)):
            try:
                hold_out({"train": self.questions, **given}, share, self.seed)
            except SaccadeError as error:
                self.unheld = self.unheld or str(error)
                continue
            if share > usual and not self.has_recipe:
                self.data, self.unheld = replace(self.data, hold_out=share), ""
            elif share > usual:
                self.unheld += f" (data.hold_out: {share:g} holds some out)"
            return

    def _measured(self, kind: str) -> list[Lengths]:
        sides = self.train.sides.values()
        return [each.character_lengths if kind == "characters" else each.word_lengths for each in sides]

    # The report -------------------------------------------------------------------------------------------------------

    def headline(self) -> str:
        candidates, relevant = self.numbers["candidates"], self.numbers["relevant"]
        questions = f"{several(self.train.records, 'question')} with {several(candidates, 'candidate')}"
        return f"{self.train.name}: {questions}, {relevant:,} of them relevant ({percent(relevant / candidates)})"

    def own_sections(self) -> Iterator[Section]:
        sizes = (f"{self.sizes.mean:.1f}", *(f"{self.sizes.within(share):,}" for share in (0.5, 0.95, 1.0)))
        yield Section("Candidates per question", [("mean", "median", "95 %", "most"), sizes])
        if self.grades - {0.0, 1.0}:
            yield Section("Grades of relevance", [(", ".join(f"{grade:g}" for grade in sorted(self.grades)[:20]),)])

    def checks(self) -> Iterator[tuple[int, str]]:
        number = self.numbers
        yield number["unanswered"], "questions have no relevant candidate: they do not count in metrics"
        yield number["all_relevant"], "questions have relevant candidates only: any order is right"
        yield number["repeated_candidates"], "candidates repeat another one of their question"
        yield number["contradicted_candidates"], "candidates repeat with another relevance"

    def test_checks(self, part: Part) -> Iterator[tuple[int, str]]:
        yield part.numbers["unanswered"], "have no relevant candidate: they do not count in metrics"

    def own_problems(self) -> Iterator[str]:
        candidates, relevant = self.numbers["candidates"], self.numbers["relevant"]
        if relevant == 0:
            yield "no candidate is relevant: is the column of relevance the right one?"
        elif relevant == candidates:
            yield "every candidate is relevant: there is nothing to learn"
        elif self.unheld and self.units > len(self.drawn):
            yield self.unheld
        for part in self.tests:
            if part.records and part.records == part.numbers["unanswered"]:
                questions = several(part.records, "question")
                yield f"{part.name}: none of {questions} has a relevant candidate, so no metric can be computed"

    def own_notes(self) -> Iterator[str]:
        unanswered = self.numbers["unanswered"]
        if unanswered:
            of = several(self.train.records, "question")
            yield f"{unanswered:,} of {of} have no relevant candidate: data.loss: listwise learns nothing from them"

    def own_json(self) -> dict[str, Any]:
        return {**self.numbers, "grades": sorted(self.grades), "candidates_per_question": self.sizes.to_json()}

    # The recipe -------------------------------------------------------------------------------------------------------

    def recommend(self) -> dict[str, Any]:
        asked, said = self.train.sides.values()
        characters = asked.unspaced or said.unspaced
        kind = "characters" if characters else "words"
        questions, candidates = self._measured(kind)
        longest = longest_of([questions, candidates])
        # A question is never split over batches: the largest must fit into one, and so must several of usual size.
        usual = BATCH * self.sizes.mean * (questions.within(0.95) + candidates.within(0.95))
        largest = self.sizes.longest * (min(questions.longest, longest) + longest)
        room = rounded_up(max(largest, round(usual)), step=1024, least=4096)
        records, share = self.train.records, self.data.hold_out
        epochs, _ = epochs_for(records, share, batch=BATCH, updates=UPDATES, fewest=10, most=MOST_EPOCHS)
        chosen = share * (records - self.numbers["unanswered"])  # validation questions that count in a metric
        train: dict[str, Any] = {"epochs": epochs, "batch_records": BATCH, "batch_tokens": room, "lr": 0.001}
        if chosen < ROUGH:  # they would choose a network by chance
            epochs, _ = epochs_for(records, share, batch=BATCH, updates=FEW_UPDATES, fewest=5, most=MOST_EPOCHS)
            train |= {"epochs": epochs, "schedule": "linear", "keep": "last"}
        else:
            train |= {"watch": "map" if chosen >= FINE else "loss", "stop_after": max(3, epochs // 4)}
        tokens = {"kind": kind} if characters else {"kind": kind, "lower": True, "min_count": 2}
        return {
            "data": {"tokens": tokens, "max_length": longest, "too_long": "truncate"},
            "model": {
                "name": "siamese", "embedding": 64, "encoder": "gru", "hidden": 64, "compare": "alignment", "overlap": True,
                "dropout": 0.3,
            },
            "train": train,
            "metrics": ["map", "mrr", "precision_at_1"],
        }  # fmt: skip
