"""A survey as plain data, for programs: the keys stay as they are, new ones may come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from saccade.data.advice import Advice
from saccade.data.census import HeldOut
from saccade.data.columns import Column
from saccade.data.sieve import RuleTally
from saccade.data.survey import Survey, Tongue
from saccade.data.tallies import Lengths, Side

CUT = 200  # characters of an example


def summary(survey: Survey, advice: Advice, recipe: str | None, following: Sequence[str]) -> dict[str, Any]:
    """All that a survey found; `recipe` is the one to paste, `following` are commands to type next."""
    census, reading, cleaned = survey.census, survey.reading, survey.cleaned
    columns = None if isinstance(reading.files, tuple) else asdict(reading.columns)
    return {
        "files": [str(path) for path in (reading.files if isinstance(reading.files, tuple) else (reading.files,))],
        "format": reading.format,
        "columns": columns,
        "headless": survey.headless,
        "tidied": reading.tidy,
        "read": census.read,
        "pairs": census.pairs,
        "faults": [asdict(tally) for tally in census.faults.values()],
        "broken": None if census.broken is None else str(census.broken),
        "source": _side(census.source, survey.source),
        "target": _side(census.target, survey.target),
        "repeats": {
            "pairs": next(tally.found for tally in survey.rules if tally.rule.name == "duplicate"),
            "sources_with_several_targets": survey.several_targets,
            "targets_with_several_sources": survey.several_sources,
        },
        "rules": [_rule(tally) for tally in survey.rules],
        "left": {"pairs": survey.left.pairs, "sources": survey.left.sources},
        "leakage": [_leakage(held) for held in survey.held_out],
        "advice": {
            "characters": asdict(advice.characters),
            "words": asdict(advice.words),
            "tokens": asdict(advice.cut),
        },
        "verdict": {
            "would_train": advice.would_train,
            "because": list(advice.because),
            "notes": list(advice.notes),
        },
        "recipe": recipe,
        "next": list(following),
        "cleaned": None
        if cleaned is None
        else {
            "out": str(cleaned.out),
            "log": str(cleaned.log),
            "pairs": cleaned.written,
            "left_out": cleaned.left_out,
        },
    }


def without_columns(files: Sequence[str], error: str, columns: Sequence[Column], following: str) -> dict[str, Any]:
    """What can be said of a file whose pair of columns is not known."""
    return {
        "files": list(files),
        "columns": None,
        "available": [{"column": column.name, "sample": (column.sample or "")[:CUT] or None} for column in columns],
        "verdict": {"would_train": False, "because": [error], "notes": []},
        "next": [following],
    }


def _side(side: Side, tongue: Tongue) -> dict[str, Any]:
    vocabulary = side.vocabulary
    cover_95, cover_99 = vocabulary.covering(0.95, 0.99)
    return {
        "language": tongue.language.language,
        "candidates": list(tongue.language.near),
        "line_languages": {code: round(share, 4) for code, share in tongue.lines.items()},
        "scripts": {script: round(share, 6) for script, share in tongue.scripts.items()},
        "characters": {**_lengths(side.character_lengths), "different": len(side.characters.counts)},
        "words": {
            **_lengths(side.word_lengths),
            "running": vocabulary.running,
            "different": len(vocabulary.counts),
            "once": vocabulary.once,
            "cover_95": cover_95,
            "cover_99": cover_99,
            "capped": vocabulary.full,
        },
    }


def _lengths(lengths: Lengths) -> dict[str, Any]:
    return {
        "mean": round(lengths.mean, 2),
        "median": lengths.within(0.5),
        "p95": lengths.within(0.95),
        "p99": lengths.within(0.99),
        "longest": lengths.longest,
    }


def _rule(tally: RuleTally) -> dict[str, Any]:
    example = {"line": tally.line, "source": tally.source, "target": tally.target} if tally.found else None
    rule = tally.rule
    return {
        "name": rule.name,
        "why": rule.why,
        "on": rule.on,
        "found": tally.found,
        "left_out": tally.left_out,
        "example": example,
    }


def _leakage(held: HeldOut) -> dict[str, Any]:
    return {
        "name": held.name,
        "pairs": held.read,
        "faults": held.faults,
        "exact_sources": held.exact,
        "plain_sources": held.near,
        "whole_pairs": held.whole,
        "example": None if held.line is None else {"line": held.line, "source": held.example[:CUT]},
    }
