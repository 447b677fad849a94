"""Columns by role: names or numbers, two roles in two columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from saccade.data.columns import ColumnNames


@dataclass(frozen=True)
class Three(ColumnNames):
    own: ClassVar[tuple[str, ...]] = ("key",)

    text: str | int = "text"
    key: str | int | None = None
    group: str | int | None = None


def test_roles_that_have_a_column_are_wanted_in_their_order() -> None:
    assert Three().wanted == ("text",) and Three(group=3).wanted == ("text", 3)
    assert str(Three()) == "the column 'text'" and str(Three(key=2, group="g")) == "the columns 'text', 2 and 'g'"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ""}, "^text must be a column's name or its number from 1: got ''"),
        ({"key": 0}, "^key must be a column's name or its number from 1: got 0"),
        ({"key": "text"}, "^key must be another column than text: got 'text'"),
        ({"key": "k", "group": "k"}, "^group must be another column than key: got 'k'"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: dict[str, str | int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Three(**columns)


def test_a_group_may_share_a_column_that_is_not_another_roles_own() -> None:
    assert Three(group="text").wanted == ("text", "text")
