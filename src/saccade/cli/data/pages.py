"""The page that ``saccade data`` prints: plain aligned text that reads the same with and without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from saccade.data.survey.cleaning import RuleTally
from saccade.data.survey.columns import Column
from saccade.data.survey.language_id import NAMES
from saccade.data.survey.pairs import HeldOut, Survey, Tongue
from saccade.data.survey.recipe import Advice, Limits
from saccade.data.survey.tallies import Side

LABEL, CELL = 28, 34  # widths of the table of the two sides
SHOWN = 44  # characters of an example
NOTED = 0.05  # a second language among this share of the lines is told


def page(
    survey: Survey, advice: Advice, recipe: str | None, following: Sequence[str], saved: Path | None = None
) -> Iterator[str]:
    """The whole page, line by line; ``saved`` is where the recipe was written."""
    yield from _head(survey)
    if survey.census.pairs:
        yield from _sides(survey)
    yield from _faults(survey)
    yield from _leakage(survey.held_out)
    yield from _rules(survey)
    if survey.census.pairs:
        yield from _lengths_to_set(advice)
    yield from _verdict(survey, advice)
    if recipe is not None and advice.would_train:
        yield ""
        yield "A recipe for it:" if saved is None else f"A recipe for it, written to {saved}:"
        yield from (f"  {line}" for line in recipe.splitlines())
    if following:
        yield ""
        yield "Next:"
        yield from (f"  {command}" for command in following)


def column_page(files: str, error: str, columns: Sequence[Column], following: str) -> Iterator[str]:
    """What to say when the pair's columns are not known: which there are, and what to type."""
    yield f"{files}: which columns hold the pair is not known"
    yield f"({error})"
    yield ""
    width = max([len(_safe(str(column.name))) for column in columns] + [len("column")])
    yield f"  {'column':<{width}}  for example"
    for column in columns:
        sample = "no text in the first lines" if column.sample is None else _shown(column.sample)
        yield f"  {_safe(str(column.name)):<{width}}  {sample}"
    yield ""
    yield "Say which two, for instance:"
    yield f"  {following}"


def _head(survey: Survey) -> Iterator[str]:
    census, reading = survey.census, survey.reading
    if isinstance(reading.files, tuple):
        yield f"{reading.files[0]} → {reading.files[1]}: {_pairs(census.pairs)} of lines"
    elif survey.headless:
        yield f"{reading.files}: {_pairs(census.pairs)} in two columns without a header"
    else:
        columns = reading.columns
        counted = "columns " if isinstance(columns.source, int) else ""
        yield f"{reading.files}: {_pairs(census.pairs)}, {counted}{_safe(str(columns.source))} → {_safe(str(columns.target))}"
    if census.broken is not None:
        yield f"Reading stopped before its end: {census.broken}"


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count:,} pairs"


def _sides(survey: Survey) -> Iterator[str]:
    sides = ((survey.census.source, survey.source), (survey.census.target, survey.target))
    yield ""
    yield _row("", "source", "target", indent="")
    rows = (("language (a guess)", _language), ("lines in others", _other_lines), ("script, of the letters", _scripts))
    for label, cell in rows:
        cells = [cell(tongue) for _, tongue in sides]
        if any(cells):
            yield _row(label, *cells)
    for title, place in (("characters", "character_lengths"), ("words and marks", "word_lengths")):
        yield _row(f"{title} a text", indent="")
        lengths = [getattr(side, place) for side, _ in sides]
        yield _row("mean", *(f"{each.mean:.1f}" for each in lengths))
        for name, share in (("median", 0.5), ("95 % have at most", 0.95), ("99 % have at most", 0.99)):
            yield _row(name, *(f"{each.within(share):,}" for each in lengths))
        yield _row("longest", *(f"{each.longest:,}" for each in lengths))
    yield _row("vocabulary", indent="")
    for label, count in _VOCABULARY.items():
        yield _row(label, *(count(side) for side, _ in sides))
    yield _row("repeats", indent="")
    partners = f"{survey.several_targets:,} with several targets", f"{survey.several_sources:,} with several sources"
    yield _row("different texts", *partners)


def _row(label: str, one: str = "", other: str = "", indent: str = "  ") -> str:
    return f"{indent + label:<{LABEL}} {one:<{CELL}} {other}".rstrip()


def _covering(share: float) -> Callable[[Side], str]:
    def cell(side: Side) -> str:
        count = side.vocabulary.covering(share)[0]
        return f"{count:,} words" if count is not None else f"more than {len(side.vocabulary.counts):,} words"

    return cell


def _once(side: Side) -> str:
    vocabulary = side.vocabulary
    share = vocabulary.once / len(vocabulary.counts) if vocabulary.counts else 0.0
    return f"{vocabulary.once:,} ({_share(share)})"


_VOCABULARY: dict[str, Callable[[Side], str]] = {
    "running words": lambda side: f"{side.vocabulary.running:,}",
    "different words": lambda side: (
        f"{len(side.vocabulary.counts):,}" + (" and more (counting stopped)" if side.vocabulary.full else "")
    ),
    "seen once": _once,
    "95 % are made of": _covering(0.95),
    "99 % are made of": _covering(0.99),
    "different characters": lambda side: f"{len(side.characters.counts):,}",
}


def _language(tongue: Tongue) -> str:
    return str(tongue.language)


def _other_lines(tongue: Tongue) -> str:
    language = tongue.language.language
    others = [(code, share) for code, share in tongue.lines.items() if code != language and share >= NOTED]
    return ", ".join(f"{NAMES[code]} {_share(share)}" for code, share in others) if language else ""


def _scripts(tongue: Tongue) -> str:
    shown = [f"{script} {_share(share)}" for script, share in list(tongue.scripts.items())[:2]]
    more = len(tongue.scripts) - len(shown)
    return (", ".join(shown) or "no letters") + (f" +{more}" if more > 0 else "")


def _share(share: float) -> str:
    """A share in percent, with some never rounded to none and most never to all."""
    percent = 100 * share
    if 0 < percent < 0.1 or 99.9 < percent < 100:
        return "< 0.1 %" if percent < 1 else "> 99.9 %"
    return f"{percent:.3g} %"


def _faults(survey: Survey) -> Iterator[str]:
    tallies = sorted(survey.census.faults.values(), key=lambda tally: -tally.count)
    if not tallies:
        return
    yield ""
    yield f"Lines that are no pairs: {survey.census.fault_count:,}"
    for tally in tallies:
        passed = ", passed over" if tally.skipped else ""
        yield f"  {tally.count:>9,}  {tally.reason}{passed}, the first in line {tally.line}"
        if not tally.skipped:
            yield f"             {_safe(tally.example)[:110]}"


def _leakage(held_out: Sequence[HeldOut]) -> Iterator[str]:
    for held in held_out:
        yield ""
        kind = "sources" if held.sources_only else "pairs"
        faults = f", {held.faults:,} lines are none" if held.faults else ""
        yield f"What {held.name} shares with it ({held.read:,} {kind}{faults})"
        for count, what in (
            (held.exact, "sources that are here too"),
            (held.near, "sources that are here too but for case, blanks and marks, those above among them"),
            (held.whole, "whole pairs that are here too"),
        ):
            if count is not None:
                share = f" ({_share(count / held.read)})" if count else ""
                yield f"  {count:>9,}  {what}{share}"
        if held.line is not None:
            yield f"             line {held.line}: {_shown(held.example)}"


def _rules(survey: Survey) -> Iterator[str]:
    met = [tally for tally in survey.rules if tally.found]
    silent = [tally.rule.name for tally in survey.rules if not tally.found]
    yield ""
    yield "What cleaning would leave out" if survey.cleaned is None else "What cleaning left out"
    if survey.census.fault_count:
        yield f"  {survey.census.fault_count:>9,}  fault         a line that is no pair"
    for tally in [tally for tally in met if tally.rule.on]:
        yield from _rule(tally, tally.left_out)
    if not survey.census.fault_count and not any(tally.rule.on for tally in met):
        yield "          0  nothing"
    if any(not tally.rule.on for tally in met):
        yield "What it keeps unless --drop NAME says otherwise"
        for tally in [tally for tally in met if not tally.rule.on]:
            yield from _rule(tally, tally.found)
    if silent:
        yield f"Looked for and not found: {', '.join(silent)}"
    left, read = survey.left.pairs, survey.census.read
    verb = "would be left" if survey.cleaned is None else "are left"
    yield f"{left:,} of {read:,} {verb} ({_share(left / read)})"


def _rule(tally: RuleTally, count: int) -> Iterator[str]:
    also = f" (of {tally.found:,}; the others go for a reason above)" if tally.found > count else ""
    yield f"  {count:>9,}  {tally.rule.name:<12}  {tally.rule.why}{also}"
    yield f"             line {tally.line}: {_shown(tally.source)} → {_shown(tally.target)}"


def _lengths_to_set(advice: Advice) -> Iterator[str]:
    yield ""
    yield "Lengths to set           max_length   batch_tokens"
    for name, limits in (("characters", advice.characters), ("words", advice.words)):
        yield f"  tokens.kind {name:<12} {limits.max_length:>8,} {limits.batch_tokens:>14,}{_cutting(limits)}"


def _cutting(limits: Limits) -> str:
    return f"   with too_long: truncate, which cuts {limits.cut:,} pairs" if limits.too_long == "truncate" else ""


def _verdict(survey: Survey, advice: Advice) -> Iterator[str]:
    yield ""
    yield f"Would train: {'yes' if advice.would_train else 'no'}: {'; '.join(advice.because)}"
    for note in advice.notes:
        yield f"  note: {note}"
    if survey.cleaned is not None:
        cleaned = survey.cleaned
        yield f"Written: {cleaned.written:,} pairs to {cleaned.out}; {cleaned.left_out:,} left out, each in {cleaned.log}"


def _shown(text: str) -> str:
    """An example, cut and quoted, safe to print."""
    cut = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return f'"{_safe(cut)}"'


def _safe(text: str) -> str:
    """What a terminal would obey rather than show is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
