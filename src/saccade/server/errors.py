"""A request that is not served: its HTTP status, and one line in JSON that says why."""

from __future__ import annotations

import re

from fastapi.responses import JSONResponse

from saccade.errors import InputError, SaccadeError

LONGEST = 400  # characters of a message: an error may quote what was sent, and must not send it all back
INPUT = re.compile(r"input (\d+)")


class Refusal(Exception):
    """Answered as ``{"error": {"message", "field"}}``."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field

    @classmethod
    def of(cls, error: SaccadeError) -> Refusal:
        """An error meant for a person, as the fault of a request."""
        field = None
        if isinstance(error, InputError):
            place = INPUT.fullmatch(str(error.where))
            field = error.field or (f"inputs[{int(place[1]) - 1}]" if place else None)
        return cls(422, str(error), field)

    def response(self) -> JSONResponse:
        headers = {"Retry-After": "1"} if self.status == 503 else None
        return JSONResponse(
            {"error": {"message": shortened(self.message), "field": self.field}}, self.status, headers=headers
        )


def shortened(message: str) -> str:
    """One line of at most ``LONGEST`` characters, its beginning and its end: what an error expects often stands last."""
    line = "".join(letter if letter.isprintable() else " " for letter in message)
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]} … {line[-(LONGEST // 2 - 3) :]}"
