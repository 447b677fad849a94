"""Surveys sentences with a tag for each word: the data of the task ``label``. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from saccade.data.files.lines import Encoding
from saccade.data.files.records import Fault
from saccade.data.survey.columns import has_columns, suffix_of
from saccade.data.survey.survey import (
    SEPARATOR,
    Entry,
    Part,
    Section,
    Survey,
    epochs_for,
    listed,
    rounded_up,
    several,
)
from saccade.data.tags.records import FEW_DOCUMENTS, Tagged, scan
from saccade.data.tags.schemes import OUTSIDE, Scheme, fault_in, is_tag, parted, spans_of, tags_with, types_in

SUFFIXES = ("conll", "conllu", "iob", "iob2", "bio", "bioes", "col")  # of files that hold nothing else
SLIPS = 0.05  # share of sentences with invalid tags up to which they are counted as mistakes in the file
FEW = 10  # occurrences of a tag or a type below which little can be learnt of it
BATCH, UPDATES, FEWEST_EPOCHS, MOST_EPOCHS = 16, 2000, 8, 60
LONGEST = 200  # tokens of a sentence that is read whole


class TagSurvey(Survey):
    kind, task, unit, expected = "tags", "label", "sentence", "sentence with its tags"
    roles = ("sentence", "word", "tag", "group")
    formats = ("conll", "conllu")
    combine, tokenised, shortened = sum, True, "split"

    @classmethod
    def looks_right(cls, file: str, format: str | None, encoding: Encoding) -> bool:
        by_word = has_columns(file, format, "sentence", "word", "tag", encoding=encoding)
        lists = suffix_of(file) in ("jsonl", "parquet") and has_columns(
            file, format, "tokens", "tags", encoding=encoding
        )
        return (
            lists
            or (by_word and (format or suffix_of(file)) == "csv")
            or (format is None and suffix_of(file) in SUFFIXES)
        )

    def settle(self) -> None:
        """Find the scheme of the tags."""
        if not self.has_recipe:
            sentences = (item.target for item in self.scan(self.files) if isinstance(item, Tagged))
            self.data = replace(self.data, scheme=find_scheme(sentences))

    def sides(self) -> Sequence[str]:
        return ("sentence",)

    def scan(self, files: Any) -> Iterator[Tagged | Fault]:
        return scan(files, self.data)

    def entry(self, record: Tagged) -> Entry:
        return Entry(((record.source,),), SEPARATOR.join(record.source), record.target, record.group)

    def count(self, record: Tagged, part: Part) -> None:
        part.counts.update(record.target)
        if part.files is self.files and part.row == 0:
            self.types: Counter[str] = Counter()
            self.documents = set[str | None]()
        if part.files is self.files:
            self.types.update(span.type for span in spans_of(record.target) if self.data.scheme != "none")
            self.documents.add(record.group)

    def measure(self, record: Tagged) -> Iterable[tuple[str, int]]:
        yield "sentence in words", len(record.source)  # a word may be several tokens, but not fewer than one

    def finish(self) -> None:
        if self.data.columns.group is None and len(self.documents) < FEW_DOCUMENTS:
            self.units, self.train.grouped = self.different, 0  # few documents are not held out whole
        self.tags, self.spans = dict(self.train.counts.most_common()), dict(self.types.most_common())
        self.rare = [name for name, count in (self.spans or self.tags).items() if count < FEW]

    # The report -------------------------------------------------------------------------------------------------------

    def headline(self) -> str:
        documents = len(self.documents - {None})
        where = f" in {several(documents, 'document')}" if documents else ""
        words = self.train.sides["sentence"].vocabulary.running
        return f"{self.train.name}: {several(self.train.records, 'sentence')}{where}, {words:,} words"

    def own_sections(self) -> Iterator[Section]:
        if self.spans:
            spans, types = several(sum(self.spans.values()), "span"), several(len(self.spans), "type")
            yield Section(f"{spans} of {types}, scheme {self.data.scheme}", bars=self.spans)
        else:
            yield Section(f"{several(len(self.tags), 'tag')}, which mark no spans", bars=self.tags)

    def own_problems(self) -> Iterator[str]:
        if len(self.tags) < 2:
            yield f"a tagger needs at least two tags, found only {', '.join(self.tags)}"
        if self.train.records < 3 or 2 * self.train.records < len(self.tags):
            yield f"too few sentences ({self.train.records}) for {len(self.tags)} tags"
        for part in self.tests:
            unknown = sorted(self._names(part.counts) - self._names({*self.tags, *(self.data.labels or ())}))
            if unknown:
                yield f"{part.name} has tags that the training file lacks: {listed(unknown)}"

    def _names(self, tags: Iterable[str]) -> set[str]:
        return {*tags} if self.data.scheme == "none" else {*types_in(tags)}

    def remedy(self, part: Part) -> str:
        plain = replace(self.data, scheme="none", learn=None)
        scheme = find_scheme(item.target for item in scan(part.files, plain) if isinstance(item, Tagged))
        if part is self.train or scheme == self.data.scheme:
            return super().remedy(part)
        return (
            f"its tags are written as {scheme}, those of the training file as {self.data.scheme}: rewrite one of them"
        )

    def own_notes(self) -> Iterator[str]:
        if self.rare:
            yield f"fewer than {FEW} {'spans' if self.spans else 'words'} of {listed(self.rare)}"
        if self.data.scheme != "none" or self.data.labels is not None:
            return
        marked = sorted(tag for tag in self.tags if len(parted(tag)[0]) == 1 and parted(tag)[1])
        other = sorted(tag for tag in self.tags if not is_tag(tag, "bioes"))
        if all(tag.isdecimal() for tag in self.tags):
            yield "tags are numbers: data.labels names them in their order, and data.scheme says whether they mark spans"
        elif OUTSIDE in self.tags and marked:
            but = f", but {listed(other[:3])} is not written as iob1, bio or bioes" if other else ""
            yield f"tags such as {marked[0]} look like marks of spans{but}: they are read as plain tags, without spans"

    def own_json(self) -> dict[str, Any]:
        documents = len(self.documents - {None})
        return {"tags": self.tags, "spans": self.spans, "scheme": self.data.scheme, "documents": documents}

    # The recipe -------------------------------------------------------------------------------------------------------

    def recommend(self) -> dict[str, Any]:
        scheme, words = self.data.scheme, self.train.sides["sentence"].vocabulary
        data: dict[str, Any] = {"scheme": scheme, "learn": "bioes"} if scheme != "none" else {}
        if self.rare:  # all of a rare one may be held out of training
            tags = sorted(self.tags) if scheme == "none" else tags_with(types_in(self.tags), scheme)
            data["labels"] = list(tags)
        data["tokens"] = {"kind": "words", "min_count": 2 if len(words.counts) < words.running else 1}
        # A longer sentence may always come.
        data |= {"max_length": min(LONGEST, rounded_up(self.train.words.longest)), "too_long": "split"}
        epochs, _ = epochs_for(
            self.train.records, self.data.hold_out, batch=BATCH, updates=UPDATES, fewest=FEWEST_EPOCHS, most=MOST_EPOCHS
        )
        metrics = ["f1", "precision", "recall", "accuracy"] if scheme != "none" else ["accuracy"]
        train: dict[str, Any] = {"epochs": epochs, "batch_records": BATCH, "lr": 0.002, "clip": 5.0}
        train |= {"watch": metrics[0], "stop_after": max(2, epochs // 3)}
        model = {"name": "attentive_tagger", "embedding": 100, "hidden": 100, "dropout": 0.3}
        return {"data": data, "model": model, "train": train, "metrics": metrics}


def find_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that fewest sentences violate; "none" where tags do not look like marks of spans, apart from a few slips."""
    # BIO before IOB1: where a file is legal in both, both read the same.
    schemes: tuple[Scheme, ...] = ("bio", "iob1", "bioes")
    violations: Counter[Scheme] = Counter()
    marked = other = 0  # sentences with spans, and with tags of no scheme
    for tags in sentences:
        if not all(is_tag(tag, "bioes") for tag in tags):
            other += 1
        elif any(tag != OUTSIDE for tag in tags):
            marked += 1
            violations.update(scheme for scheme in schemes if fault_in(tags, scheme) is not None)
    return min(schemes, key=lambda scheme: violations[scheme]) if marked and other <= SLIPS * marked else "none"
