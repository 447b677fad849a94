"""Reads the inputs of the task ``rank``: a question and its candidates become rows of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saccade.data.config import CUT
from saccade.data.rankings.batch import Row
from saccade.data.rankings.records import Ranked, RankedData
from saccade.data.rankings.word_overlap import SharedWords
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.errors import InputError, preview

FORMS = "a question and its candidates: a text with tabs between them, (question, [candidates]), or a dict of both"


@dataclass(frozen=True)
class RankInput:
    """An input: the question, its candidates, one row of ids per candidate, and its notes.

    ``chosen`` is the number of the candidate that is traced and edited; None: the best is traced, and all are edited.
    """

    question: str
    candidates: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    chosen: int | None = None


def parted(given: Any, where: str) -> tuple[str, tuple[str, ...]]:
    """The question and the candidates of an input."""
    if isinstance(given, Ranked):
        return given.asked
    if isinstance(given, Mapping):
        missing = [name for name in ("question", "candidates") if name not in given]
        if missing:
            keys = ", ".join(map(str, list(given)[:20])) or "nothing"
            raise InputError(where, field=missing[0], expected=FORMS, found=f"the keys {keys}")
        question, candidates = given["question"], given["candidates"]
    elif isinstance(given, str):
        question, *candidates = given.split("\t")
    elif isinstance(given, tuple | list) and len(given) == 2:
        question, candidates = given
    else:
        raise InputError(where, expected=FORMS, found=type(given).__name__)
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise InputError(where, expected="a list of candidates", found=type(candidates).__name__)
    if not candidates:
        hint = "on the command line, write the candidates after the question, each after a tab"
        raise InputError(where, expected="at least one candidate", found="none", hint=hint)
    for name, text in (("question", question), *((f"candidate {n}", text) for n, text in enumerate(candidates, 1))):
        if not isinstance(text, str):
            raise InputError(where, field=name, expected="a text", found=type(text).__name__)
        if not text.strip():
            raise InputError(where, field=name, expected="a text", found="nothing" if not text else "whitespace only")
    return question, tuple(candidates)


def typed(question: str, candidates: Sequence[str]) -> str:
    """An input as one line: its question and candidates, separated by tabs."""
    return "\t".join(" ".join(text.split()) for text in (question, *candidates))


def about_candidate(item: RankInput, number: int) -> dict[str, Any]:
    """The input that asks about one candidate alone, the others being as they are: for edits of its attention."""
    return {"question": item.question, "candidates": list(item.candidates), "candidate": item.candidates[number]}


def _chosen(given: Any, candidates: Sequence[str], where: str) -> int | None:
    candidate = given.get("candidate") if isinstance(given, Mapping) else None
    if candidate is None:
        return None
    if candidate not in candidates:
        found = preview(candidate) if isinstance(candidate, str) else type(candidate).__name__
        raise InputError(where, field="candidate", expected="one of the candidates", found=found)
    return candidates.index(candidate)


class RankReader:
    """Turns questions and candidates into rows of ids, each within ``data.max_length`` tokens, with word-overlap features."""

    def __init__(self, data: RankedData, tokenizer: Tokenizer, shared: SharedWords) -> None:
        self.data, self.tokenizer, self.shared = data, tokenizer, shared

    def rows(self, questions: Sequence[tuple[str, Sequence[str]]], where: str) -> tuple[list[tuple[Row, ...]], int]:
        """The rows of each question, and how many texts were cut for them; ``where`` names the records in errors."""
        question_ids = self.tokenizer.encode_all([question for question, _ in questions])
        candidate_ids = iter(self.tokenizer.encode_all([text for _, candidates in questions for text in candidates]))
        made, cut = list[tuple[Row, ...]](), 0
        for number, (question, candidates) in enumerate(questions):
            place = f"{where}, record {number + 1} ({preview(question)})" if len(questions) > 1 else where
            ids, was_cut = self._fit(question_ids[number], f"{place}, question")
            cut += was_cut
            own: list[Row] = []
            for other, candidate in enumerate(candidates, start=1):
                theirs, was_cut = self._fit(next(candidate_ids), f"{place}, candidate {other}")
                cut += was_cut
                own.append((ids, theirs, self.shared.features(question, candidate)))
            made.append(tuple(own))
        return made, cut

    def read(self, given: Any, where: str) -> RankInput:
        """One input, checked, as ids."""
        question, listed = parted(given, where)
        candidates = tuple(dict.fromkeys(listed))  # duplicates would split the probability of one answer
        (rows,), cut = self.rows([(question, candidates)], where)
        limit, again = self.data.max_length, len(listed) - len(candidates)
        notes = [f"{again} of {len(listed)} candidates are duplicates and left out"] if again else []
        notes += [f"{cut} of {1 + len(rows)} texts {CUT} their first {limit} tokens"] if cut else []
        read = [*rows[0][0], *(token for row in rows for token in row[1])]
        notes += unknown_notes(read, self.tokenizer.UNK)
        return RankInput(question, candidates, rows, tuple(notes), _chosen(given, candidates, where))

    def _fit(self, ids: list[int], where: str) -> tuple[list[int], bool]:
        # A text may be empty after normalisation; a row must not be.
        ids, limit = ids or [self.tokenizer.UNK], self.data.max_length
        if len(ids) > limit and self.data.too_long == "error":
            hint = f"set data.too_long: truncate, or data.max_length: {len(ids)}"
            raise InputError(where, expected=f"at most {limit} tokens", found=f"{len(ids)}", hint=hint)
        return ids[:limit], len(ids) > limit
