"""Flows: what asks at a site, what comes of its context, and when the state moves, as the model declares it.

Views draw a step and write its equations from this declaration, and claim nothing where a model declares none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Flow:
    """One step at a site, in the letters of the model's equations.

    A quantity is a letter and its position: ``s[t-1]`` is the state of the step before, ``h[j]`` the key at position j; a
    letter without a position is the same at every step. ``c[t]`` is the context and ``α[t]`` the row of weights of this site.
    The state moves before the query where the query contains it, else after the output.

    Args:
        query: what the scores are computed from, besides the key.
        key: what is scored.
        score: the right side of e = …, where the name of the site's score does not say it.
        output: what the output of the step is computed from; empty where this site's context is not read by the output layer.
        state: the new state, then what it is computed from; empty where there is no recurrence.
        into: where the context goes, as in "The context goes into …".
        recorded: the signal that holds a letter's vectors; of a first state, ``{"s[0]": …}``.
        word: the letter of what is written.
        passed: without attention, how many numbers the decoder gets of the source.
    """

    query: tuple[str, ...] = ()
    key: str = "h[j]"
    score: str = ""
    output: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    into: str = ""
    recorded: Mapping[str, str] = field(default_factory=dict)
    word: str = "y"
    passed: int = 0

    def to_json(self) -> dict[str, Any]:
        """What differs from the defaults, and always the output: its absence says that nothing comes out here."""
        plain = {part.name: getattr(self, part.name) for part in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
        return {name: value for name, value in plain.items() if value or name == "output"}
