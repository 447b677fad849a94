"""Which columns of a table, or keys of a record, hold what: the base of every kind's ``data.columns``. No torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from saccade.data.files.records import Name, column_names


@dataclass(frozen=True)
class ColumnNames:
    """Each field is a role, and its value the column that has it: a name, or a number from 1. A role that is None is not read.

    Two roles need two columns; only ``group``, which keeps records together when splits are held out, may share one.
    """

    own: ClassVar[tuple[str, ...]] = ()  # roles whose column the group may not share
    from_end: ClassVar[bool] = False  # whether negative numbers count columns from the last

    def __post_init__(self) -> None:
        taken: dict[Name, str] = {}
        for role, column in self.roles.items():
            if column == "" or (isinstance(column, int) and (column == 0 if self.from_end else column < 1)):
                numbers = "its number, from 1 or from the end with -1" if self.from_end else "its number from 1"
                raise ValueError(f"{role} must be a column's name or {numbers}: got {column!r}")
            other = taken.setdefault(column, role)
            if other != role and role != "group":
                raise ValueError(f"{role} must be another column than {other}: got {column!r}")
            if other in self.own and role == "group":
                raise ValueError(f"group must be another column than {other}: got {column!r}")

    @property
    def roles(self) -> dict[str, Name]:
        """The column of each role that has one."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {role: column for role, column in named.items() if column is not None}

    @property
    def wanted(self) -> tuple[Name, ...]:
        """The columns to look for, in the order of the roles."""
        return tuple(self.roles.values())

    def __str__(self) -> str:
        return column_names(self.wanted)
