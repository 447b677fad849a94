"""What ``saccade train --json`` must not keep to itself."""

from __future__ import annotations

from saccade.api.calibrating import UNCALIBRATED
from saccade.training.report import Silence


class Notes(Silence):
    """Says nothing, and remembers what was asked for and not done."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        if text.startswith(UNCALIBRATED):
            self.notes.append(text)
