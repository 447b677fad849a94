"""How much one request may ask for, and how long it may take: said once, told by ``GET /v1/models``, kept everywhere."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """What a request may ask for.

    Attributes:
        body: bytes of a request, counted before they are read as JSON.
        inputs: texts of one request; ``traced``: of one that asks for traces.
        characters: of each input; ``prefix``: of what outputs begin with.
        dense: characters of the longest input up to which a trace keeps every weight; above, the 16 largest of each row.
        edits: changes of the attention.
        beam: hypotheses that a search follows, or samples that it draws.
        seconds: from the request to its answer, waiting included.
        waiting: requests that wait for one model; more are turned away.
    """

    body: int = 1_000_000
    inputs: int = 64
    traced: int = 8
    characters: int = 20_000
    prefix: int = 2_000
    dense: int = 4_000
    edits: int = 1_000
    beam: int = 64
    seconds: float = 60.0
    waiting: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{field.name} must be positive: got {getattr(self, field.name)}")
