"""What a survey says about training: how to cut the texts, how long they may be, whether it would train, and a recipe."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from saccade.data.files.hub import on_hub
from saccade.data.pairs.records import PairData
from saccade.data.survey.cleaning import RuleTally
from saccade.data.survey.language_id import WITHOUT_SPACES, usual_scripts
from saccade.data.survey.pairs import Survey
from saccade.data.survey.tallies import Lengths

HERE = Path(".")
FEWEST_SOURCES = 3  # one to train on, one to choose by, one to report on
FEW_PAIRS = 1000
ROOMY = 40  # tokens that are allowed in any case: what comes later is longer than what is at hand
OFTEN = 0.2  # a rule that speaks of more pairs than this may simply describe the data
SENTENCE = 4  # words: from this median on a side consists of sentences rather than of names, dates or terms
LARGEST_WORDS = 30_000  # a vocabulary of words beyond this is better cut into subwords
BATCHED = 64  # pairs of middle length that a batch should hold


@dataclass(frozen=True)
class Limits:
    """`data.max_length`, `data.too_long` and `train.batch_tokens` for one way to cut; `cut` counts pairs beyond it."""

    max_length: int
    too_long: Literal["error", "truncate"]
    cut: int
    batch_tokens: int


@dataclass(frozen=True)
class Cut:
    """How to cut the texts: `data.tokens`, and why."""

    kind: Literal["characters", "words", "bpe"]
    why: str
    size: int | None = None


@dataclass(frozen=True)
class Advice:
    characters: Limits
    words: Limits
    cut: Cut
    would_train: bool
    because: Sequence[str]
    notes: Sequence[str]

    @property
    def limits(self) -> Limits:
        """Those of the recommended cut. A subword is at most a word's part: twice the words is a guess that holds."""
        if self.cut.kind == "characters":
            return self.characters
        if self.cut.kind == "words":
            return self.words
        longer = nice(2 * self.words.max_length)
        return Limits(longer, "truncate", self.words.cut, max(self.words.batch_tokens, power_of_two(longer + 1)))


def advise(survey: Survey, recipe: PairData | None = None) -> Advice:
    """Judge by what would be trained on: the cleaned file where one was written, else the file as it is.

    With the data of a `recipe` that names the file, its own limits and its rule for faults are what counts.
    """
    census, left = survey.census, survey.left
    characters, words = census.longer_characters, Lengths()
    words.add(census.longer_words)
    if survey.cleaned is not None:
        characters, words = left.characters, left.words
    because = [*_against(survey), *(_against_recipe(survey, recipe) if recipe is not None else ())]
    return Advice(
        limits_for(characters),
        limits_for(words),
        _cut(survey),
        not because,
        because or [f"{left.pairs:,} good pairs, {left.sources:,} different sources"],
        _notes(survey, recipe),
    )


def limits_for(longer: Lengths) -> Limits:
    """Limits from the lengths of each pair's longer side: nothing is cut, unless a few are far longer than the rest."""
    usual = longer.within(0.99)
    tail = longer.longest > 2 * usual and longer.longest > 100
    limit = nice(usual if tail else longer.longest)
    batch = power_of_two(BATCHED * (longer.within(0.5) + 1))
    batch = max(min(max(batch, 1024), 8192), power_of_two(limit + 1))
    return Limits(limit, "truncate" if tail else "error", longer.above(limit), batch)


def nice(length: int) -> int:
    """A round number that is no less, and leaves some room: 3 → 40, 83 → 90, 217 → 250, 1234 → 1500."""
    step = next(step for bound, step in ((100, 10), (1000, 50), (10**9, 500)) if length <= bound)
    return max(ROOMY, -(-length // step) * step)


def power_of_two(number: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << max(0, number - 1).bit_length()


def _cut(survey: Survey) -> Cut:
    census = survey.census
    if unspaced(survey.source.scripts) or unspaced(survey.target.scripts):
        return Cut("characters", "a side is written without spaces between words")
    medians = [side.word_lengths.within(0.5) for side in (census.source, census.target)]
    if min(medians) < SENTENCE:
        return Cut("characters", "short texts")
    covering = [side.vocabulary.covering(0.99)[0] for side in (census.source, census.target)]
    sizes = [size for size in covering if size is not None and size <= LARGEST_WORDS]
    if len(sizes) < 2:
        return Cut("bpe", f"99 % of the words need a vocabulary of more than {LARGEST_WORDS:,}", 8000)
    return Cut("words", "sentences, and 99 % of the words fit into a vocabulary", max(1000, nice(max(sizes))))


def unspaced(scripts: Mapping[str, float]) -> bool:
    """Whether texts with these shares of scripts are written without spaces between words: their words are whole clauses."""
    return bool(usual_scripts(scripts) & WITHOUT_SPACES)


def _against(survey: Survey) -> list[str]:
    reasons = []
    if survey.census.broken is not None:
        reasons.append(f"it cannot be read to its end: {survey.census.broken}")
    group = survey.reading.columns.group
    if group is not None and survey.census.pairs and not survey.census.grouped:
        reasons.append(f"no record has the group {group!r}")
    if survey.cleaned is None and _fault_count(survey) > OFTEN * survey.census.read:
        worst = max(
            (tally for tally in survey.census.faults.values() if not tally.skipped), key=lambda tally: tally.count
        )
        reasons.append(
            f"{_fault_count(survey):,} of {survey.census.read:,} lines are no pairs, mostly {worst.reason}: mend the file, or "
            f"leave them out with --clean ({worst.example})"
        )
    if survey.left.sources < FEWEST_SOURCES:
        reasons.append(
            f"at least {FEWEST_SOURCES} different sources are needed, to train on, to choose by and to report on; "
            f"{survey.left.sources} would be left"
        )
    return reasons


def _against_recipe(survey: Survey, recipe: PairData) -> list[str]:
    if survey.cleaned is not None:
        return []
    reasons = [_faulty(survey)] if _fault_count(survey) and recipe.faults == "error" else []
    shared = sum(held.exact for held in survey.held_out)
    if shared and recipe.overlap == "error":
        reasons.append(f"{shared:,} held-out pairs have a source that is trained on, and data.overlap is error")
    if recipe.too_long == "truncate":
        return reasons
    sides = (
        ("source", survey.census.source, recipe.tokens),
        ("target", survey.census.target, recipe.target_tokens or recipe.tokens),
    )
    for name, side, tokens in sides:
        if tokens.subwords:  # how many pieces there are is only known once they are learnt
            continue
        lengths = side.character_lengths if tokens.kind == "characters" else side.word_lengths
        beyond = lengths.above(recipe.max_length)
        if beyond:
            reasons.append(
                f"{beyond:,} {name}s have more than data.max_length, {recipe.max_length} {tokens.kind}, the longest "
                f"{lengths.longest:,}: raise it, or set data.too_long: truncate"
            )
    return reasons


def _fault_count(survey: Survey) -> int:
    return sum(tally.count for tally in survey.census.faults.values() if not tally.skipped)


def _faulty(survey: Survey) -> str:
    first = min(tally.line for tally in survey.census.faults.values() if not tally.skipped)
    return f"{_no_pairs(survey)}, the first is line {first}: training stops there unless data.faults is drop"


def _no_pairs(survey: Survey) -> str:
    count = _fault_count(survey)
    return "1 line is no pair" if count == 1 else f"{count:,} lines are no pairs"


def _notes(survey: Survey, recipe: PairData | None) -> list[str]:
    census = survey.census
    notes = []
    if _fault_count(survey) and survey.cleaned is None and recipe is None:
        notes.append(_faulty(survey))
    if survey.left.sources >= FEWEST_SOURCES and survey.left.pairs < FEW_PAIRS:
        notes.append(f"{survey.left.pairs:,} pairs are few: a network will learn them by heart rather than a rule")
    for tally in doubted(survey):
        share = tally.found / census.pairs
        notes.append(
            f"{tally.rule.name} speaks of {share:.0%} of the pairs: if that is how they should be, "
            f"--keep {tally.rule.name}"
        )
    for held in survey.held_out:
        settled = recipe is not None and recipe.overlap != "keep"
        if held.near and survey.cleaned is None and not settled:
            notes.append(
                f"{held.near:,} of {held.read:,} pairs of {held.name} have a source that is trained on: "
                "its figure would flatter"
            )
    return notes


def doubted(survey: Survey) -> list[RuleTally]:
    """Rules that would leave out so much that they may simply describe the data."""
    most = OFTEN * survey.census.pairs
    return [tally for tally in survey.rules if tally.rule.on and tally.found > most and tally.rule.name != "leaked"]


def recipe_text(survey: Survey, advice: Advice, folder: Path = HERE) -> str:
    """A recipe for the cleaned file where one was written, else for the file as it is, to be saved in ``folder``."""
    cut, limits = advice.cut, advice.limits
    lines = ["task: translate", "data:"]
    if survey.cleaned is not None:
        lines.append(f"  train: {from_folder(folder, survey.cleaned.out)}")
        lines += ["  columns: {group: group}"] if "group" in survey.cleaned.names else []
    else:
        lines += _as_read(survey, folder)
    tokens = {"characters": "kind: characters", "words": f"kind: words, size: {cut.size}, min_count: 2"}
    lines.append(f"  tokens: {{{tokens.get(cut.kind, f'kind: {cut.kind}, size: {cut.size}')}}}")
    estimated = "  # an estimate: pieces are counted when they are learnt" if cut.kind == "bpe" else ""
    lines.append(f"  max_length: {limits.max_length}{estimated}")
    if limits.too_long == "truncate":
        beyond = f"  # {limits.cut:,} pairs are longer" if cut.kind != "bpe" else ""
        lines.append(f"  too_long: truncate{beyond}")
    lines += ["model:", "  name: rnnsearch", "train:", f"  batch_tokens: {limits.batch_tokens}"]
    lines += ["search: {beam: 5}", f"metrics: [{'exact_match, cer' if cut.kind == 'characters' else 'bleu, chrf'}]"]
    return "\n".join(lines) + "\n"


def from_folder(folder: Path, file: Path | str) -> str:
    """A file's path in a recipe of that folder, where relative paths start."""
    return quoted(seen_from(None if folder == HERE else folder, str(Path(file))))


def _as_read(survey: Survey, folder: Path) -> list[str]:
    reading, files = survey.reading, survey.reading.files
    if isinstance(files, tuple):
        source, target = (from_folder(folder, file) for file in files)
        return [f"  train: {{source: {source}, target: {target}}}", *_faults(survey)]
    lines = [f"  train: {quoted(str(files)) if on_hub(files) else from_folder(folder, files)}"]
    if reading.format is not None:
        lines.append(f"  format: {reading.format}")
    columns = reading.columns
    if columns.named or columns.group is not None:
        group = "" if columns.group is None else f", group: {quoted(columns.group)}"
        lines.append(f"  columns: {{source: {quoted(columns.source)}, target: {quoted(columns.target)}{group}}}")
    return [*lines, *_faults(survey)]


def _faults(survey: Survey) -> list[str]:
    return [f"  faults: drop  # {_no_pairs(survey)}"] if _fault_count(survey) else []


def quoted(value: str | int) -> str:
    """A YAML scalar: bare where it is a number, or can be nothing but text."""
    if isinstance(value, int) or (re.fullmatch(r"[A-Za-z_./$][\w./$-]*", value) and value.lower() != "null"):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def seen_from(folder: Path | None, path: str) -> str:
    """A file as a recipe in ``folder`` names it: relative to it, unless it says itself where it starts."""
    if folder is None or on_hub(path) or Path(path).is_absolute():
        return path
    return os.path.relpath(path, folder)
