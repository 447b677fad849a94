"""Expands several values per field into a grid of recipes; every member is read and checked before any is trained.

model.hidden=128,256 train.lr=1e-3,3e-4      →    4 recipes
train.betas=[0.9,0.98]                       →    one: brackets are a list
train.betas=[0.9,0.98],[0.9,0.999]           →    2
data.train="a,b.tsv"                         →    one: quotes protect a comma
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saccade.documents import quote
from saccade.errors import InputError
from saccade.recipes.located import COMMAND_LINE, parse_override
from saccade.recipes.recipe import Recipe, RecipeLike, change, read_recipe

MOST = 1000  # members; more is probably a typing error
PAIRS = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Member:
    """One recipe of a sweep, and its settings as written."""

    settings: Mapping[str, str]
    recipe: Recipe


def is_sweep(overrides: Sequence[str]) -> bool:
    """Whether any override gives several values."""
    return any(len(split_values(text.partition("=")[2])) > 1 for text in overrides)


def split_values(written: str) -> list[str]:
    """A value split at its commas, except those inside brackets or quotes that open it.

    >>> split_values("1,2"), split_values("[1,2],[3]"), split_values("'a,b'")
    (['1', '2'], ['[1,2]', '[3]'], ["'a,b'"])
    """
    values, start = list[str](), 0
    while True:
        opened = start + len(written[start:]) - len(written[start:].lstrip())
        end = written.find(",", _closed(written, opened))
        if end < 0:
            return [*values, written[start:].strip()]
        values.append(written[start:end].strip())
        start = end + 1


def _closed(written: str, start: int) -> int:
    """The end of the bracket or quotation that opens at ``start``; ``start`` itself if none opens there."""
    if written[start : start + 1] in ("'", '"'):
        end = written.find(written[start], start + 1)
        return len(written) if end < 0 else end
    if written[start : start + 1] not in PAIRS:
        return start
    expected: list[str] = []
    for place in range(start, len(written)):
        if written[place] in PAIRS:
            expected.append(PAIRS[written[place]])
        elif expected and written[place] == expected[-1]:
            expected.pop()
            if not expected:
                return place
    return len(written)  # it never closes: reading the value will raise


def read_grid(
    recipe: RecipeLike, overrides: Sequence[str] | Mapping[str, Any], *, trust: Sequence[str] = ()
) -> list[Member]:
    """The members of a sweep, in the order written, the last field changing fastest.

    Args:
        overrides: as on the command line, ``["model.hidden=128,256", "train.epochs=2"]``; or by dotted names or nested,
            where a list holds the values to try: ``{"model.hidden": [128, 256], "train.epochs": 2}``. There a tuple is
            one value, and a field that is itself a list takes a list of lists.
        trust: as :func:`saccade.recipes.recipe.read_recipe` takes it.
    """
    axes = _written_axes(overrides) if not isinstance(overrides, Mapping) else _given_axes(overrides)
    count = math.prod(len(values) for values in axes.values())
    if count > MOST:
        raise InputError(COMMAND_LINE, expected=f"at most {MOST:,} runs in a sweep", found=f"{count:,}")
    swept = [key for key, values in axes.items() if len(values) > 1]
    members = []
    for chosen in itertools.product(*axes.values()):
        by_key = dict(zip(axes, chosen, strict=True))
        given = {key: value for key, (_, value) in by_key.items()}
        try:
            members.append(Member({key: by_key[key][0] for key in swept}, _read(recipe, given, overrides, trust)))
        except InputError as fault:
            raise _list_meant(fault, axes) from None
    _check_watch(members)
    return members


def _read(
    recipe: RecipeLike,
    chosen: Mapping[str, Any],
    overrides: Sequence[str] | Mapping[str, Any],
    trust: Sequence[str],
) -> Recipe:
    read = change if isinstance(recipe, Recipe) else read_recipe
    if isinstance(overrides, Mapping):
        return read(recipe, changes=chosen, trust=trust)  # type: ignore[arg-type]
    return read(recipe, [f"{key}={text}" for key, text in chosen.items()], trust=trust)  # type: ignore[arg-type]


def _list_meant(fault: InputError, axes: Mapping[str, list[tuple[str, Any]]]) -> InputError:
    """Several values for a field that is a list: add the hint that one list may have been meant."""
    values = axes.get(fault.field or "", [])
    if len(values) < 2 or not fault.expected.startswith("a list"):
        return fault
    meant = f"[{','.join(shown for shown, _ in values)}]"
    hint = f"values separated by commas are tried one after another; for one list write {fault.field}={meant}"
    return InputError(fault.where, field=fault.field, expected=fault.expected, found=fault.found, hint=hint)


def _written_axes(overrides: Sequence[str]) -> dict[str, list[tuple[str, Any]]]:
    """Field → (as shown, as given) of each value."""
    axes: dict[str, list[tuple[str, Any]]] = {}
    for text in overrides:
        name, _, written = text.partition("=")
        values = split_values(written)
        key = ".".join(parse_override(f"{name}={values[0]}" if written else text)[0])
        if len(values) > 1 and not all(values):
            raise InputError(COMMAND_LINE, field=key, expected="a value on each side of a comma", found=quote(text))
        # If a field is set twice, the last value wins, as everywhere; but several values are not dropped silently.
        if len(axes.get(key, ())) > 1:
            raise InputError(COMMAND_LINE, field=key, expected="its values once, with commas", found="the field again")
        axes[key] = _distinct(key, [(value, value) for value in values], COMMAND_LINE)
    return axes


def _given_axes(overrides: Mapping[str, Any], above: str = "") -> dict[str, list[tuple[str, Any]]]:
    axes: dict[str, list[tuple[str, Any]]] = {}
    for name, given in overrides.items():
        key = f"{above}{name}"
        if isinstance(given, Mapping):
            axes |= _given_axes(given, f"{key}.")
            continue
        if isinstance(given, list) and not given:
            raise InputError("overrides", field=key, expected="values to try", found="an empty list")
        values = given if isinstance(given, list) else [given]
        axes[key] = _distinct(key, [(_shown(value), value) for value in values], "overrides")
    return axes


def _distinct(key: str, values: list[tuple[str, Any]], where: str) -> list[tuple[str, Any]]:
    shown = [text for text, _ in values]
    twice = next((text for text in shown if shown.count(text) > 1), None)
    if twice is not None:
        raise InputError(where, field=key, expected="each value once", found=f"{twice} twice")
    return values


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _check_watch(members: Sequence[Member]) -> None:
    """Raise if the members watch different metrics: they could not be ranked."""
    watched = list(dict.fromkeys(member.recipe.train.watch for member in members))
    if len(watched) > 1:
        found = " and ".join(watched[:2])
        raise InputError("sweep", field="train.watch", expected="one metric to compare the runs by", found=found)
