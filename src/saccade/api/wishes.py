"""Wishes as a program writes them, one value for all inputs or one an input, made into one :class:`Wish` an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saccade.errors import InputError
from saccade.task import Wish

Words = str | Sequence[str] | Sequence[Sequence[str] | None] | None


def wishes_of(
    count: int, prefix: str | Sequence[str | None] | None = None, require: Words = None, forbid: Words = None
) -> list[Wish]:
    """One wish for each of ``count`` inputs.

    >>> wishes_of(2, prefix=["the", None], require=["house"])
    [Wish(prefix='the', require=('house',), forbid=()), Wish(prefix='', require=('house',), forbid=())]
    """
    prefixes = [prefix] * count if prefix is None or isinstance(prefix, str) else _one_each("prefix", prefix, count)
    required, forbidden = _words("require", require, count), _words("forbid", forbid, count)
    return [Wish(each or "", *words) for each, *words in zip(prefixes, required, forbidden, strict=True)]


def _words(name: str, given: Words, count: int) -> list[tuple[str, ...]]:
    if given is None:
        return [()] * count
    if isinstance(given, str):
        return [(given,)] * count
    if not isinstance(given, Sequence):
        raise InputError(name, expected="a list of words, or one such list an input", found=type(given).__name__)
    if all(isinstance(each, str) for each in given):
        return [tuple(str(each) for each in given)] * count
    if any(isinstance(each, str) for each in given):
        raise InputError(name, expected="a list of words, or one such list an input", found="a mixture of both")
    lists = _one_each(name, given, count)
    for number, each in enumerate(lists, start=1):
        if each is not None and not isinstance(each, Sequence):
            raise InputError(f"input {number}", field=name, expected="a list of words", found=type(each).__name__)
    return [tuple(each or ()) for each in lists]


def _one_each(name: str, given: Any, count: int) -> list[Any]:
    if not isinstance(given, Sequence):
        raise InputError(name, expected="a text, or a list with one an input", found=type(given).__name__)
    if len(given) != count:
        raise InputError(name, expected=f"one for each of the {count} input(s)", found=str(len(given)))
    return list(given)
