"""Tagged sentences from what a program has in hand.

    a list of (words, tags), of dicts with both lists, or of records
    a table with a row a sentence:  tokens, tags                  two columns of lists
    a table with a row a word:      sentence, word, tag           the sentence changes where the first column's value does

A table is a dict of columns, a DataFrame, an Arrow table. In one with a row a word, an empty cell under ``sentence`` belongs to
the sentence above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saccade.data.memory import check_text, columns_in, items_of, made_of, missing, short, values_under
from saccade.data.pairs import Tally
from saccade.data.tagged import LISTS, Tagged, TaggedData, named, tag_fault
from saccade.errors import InputError

WHERE = "data"
BY_WORD = ("sentence", "word", "tag")
ACCEPTED = "tagged sentences: a list of (words, tags), of dicts, a DataFrame or a dict of columns"
Values = tuple[Any, Any, Any]  # words, tags, group: still to be checked


def tagged_of(given: Any, data: TaggedData, left_out: Tally | None = None) -> list[Tagged]:
    """Records from a list of (words, tags) or dicts, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the sentence's number, from 1; faults are counted in ``left_out``
    where that is given.
    """
    values = _values(given, data)
    return made_of(
        values, lambda each, number: _record(each, number, data), left_out, expected="sentences with their tags"
    )


def _record(values: Values, number: int, data: TaggedData) -> Tagged:
    words, tags, group = values
    lists = []
    for name, value in (("words", words), ("tags", tags)):
        each = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(each, list | tuple) or not each:
            found = "an empty list" if isinstance(each, list | tuple) else short(each)
            hint = "a text is no list of words: cut it first" if isinstance(each, str) else None
            raise InputError(WHERE, line=number, field=name, expected="a list", found=found, hint=hint)
        lists.append(list(each))
    if len(lists[0]) != len(lists[1]):
        expected = f"{len(lists[0])} tags, as many as words"
        raise InputError(WHERE, line=number, field="tags", expected=expected, found=str(len(lists[1])))
    for word in lists[0]:
        check_text(word, "words", number, expected="words that are texts", filled="a word")
    names = [_named(tag, number, data) for tag in lists[1]]
    wrong = tag_fault(names, data)
    if wrong is not None:
        place, _, expected = wrong
        raise InputError(WHERE, line=number, field=f"tags[{place}]", expected=expected, found=names[place])
    kept = None if missing(group) else str(group).strip()
    return Tagged(tuple(map(str, lists[0])), tuple(names), kept or None)


def _named(tag: Any, number: int, data: TaggedData) -> str:
    name = "" if missing(tag) else named(tag, data)
    if name.split() != [name]:
        raise InputError(WHERE, line=number, field="tags", expected="a tag without blanks", found=short(tag))
    return name


def _values(given: Any, data: TaggedData) -> Iterator[Values]:
    return items_of(
        given,
        ACCEPTED,
        lambda table, names: _of_table(table, names, data),
        lambda item, number: _of_record(item, number, data),
    )


def _of_record(item: Any, number: int, data: TaggedData) -> Values:
    if isinstance(item, Tagged):
        return item.source, item.target, item.group
    if isinstance(item, Mapping):
        wanted = [*data.columns.of("jsonl"), *(() if data.columns.group is None else (data.columns.group,))]
        values = values_under(item, wanted, number)
        return values[0], values[1], values[2] if len(values) > 2 else None
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1], None
    raise InputError(WHERE, line=number, expected="(words, tags) or a dict", found=short(item))


def _of_table(given: Any, names: Sequence[Any], data: TaggedData) -> Iterator[Values]:
    columns = data.columns
    by_word = columns.sentence is not None or (LISTS[0] not in names and {*BY_WORD} <= {*map(str, names)})
    if not by_word:
        wanted = [*columns.of("jsonl")]
    else:
        own = (columns.sentence, columns.word, columns.tag)
        wanted = [default if column is None else column for column, default in zip(own, BY_WORD, strict=True)]
    grouped = [] if columns.group is None else [columns.group]
    lists = columns_in(given, names, [*wanted, *grouped], [*wanted, *grouped])
    if by_word:
        return _by_word(lists)
    groups = lists[2] if grouped else [None] * len(lists[0])
    return zip(lists[0], lists[1], groups, strict=True)


def _by_word(lists: Sequence[list[Any]]) -> Iterator[Values]:
    """Rows of words, gathered to sentences."""
    sentences, words, tags, *rest = lists
    groups = rest[0] if rest else [None] * len(words)
    found: tuple[list[Any], list[Any], Any] = ([], [], None)
    before: Any = None
    for sentence, word, tag, group in zip(sentences, words, tags, groups, strict=True):
        if found[0] and not missing(sentence) and sentence != "" and sentence != before:
            yield found
            found = ([], [], None)
        before = before if missing(sentence) or sentence == "" else sentence
        found[0].append(word)
        found[1].append(tag)
        found = (found[0], found[1], group if found[2] is None else found[2])
    if found[0]:
        yield found
