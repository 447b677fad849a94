"""A record over time, drawn as Choi et al. (2016) draw it: what each code of each visit adds to the logit, and the risk.

    bar of a code     its contribution ω to the logit: above the line (to the right) where it is positive, below where not
    line              the probability after each visit, from the visits up to it

Which trace is such a record follows from its axes: a signal ``contributions`` over codes that lie in visits; a signal ``risk``
over those visits is drawn with it. Each column of the signals is an outcome, and has a picture of its own.

Legend: T visits, N codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from rich.cells import cell_len

from saccade.trace.axes import Axis, Visits
from saccade.trace.maps import Trace
from saccade.views.terminal.style import Style

SIGNAL, RISK = "contributions", "risk"
MOST_OUTCOMES, MOST_CODES, BAR = 4, 40, 14


@dataclass(frozen=True, eq=False)
class Timeline:
    """The contributions of codes to one outcome, and its probability after each visit where that is known."""

    outcome: str
    visits: Visits
    codes: Axis
    contributions: Float[ndarray, " N"]
    risk: Float[ndarray, " T"] | None

    def inside(self, visit: int) -> list[int]:
        """The codes of a visit."""
        return [place for place, within in enumerate(self.codes.within) if within == visit]

    def time(self, visit: int) -> str:
        return self.visits.times[visit] if visit < len(self.visits.times) else self.visits.labels[visit]

    @property
    def sizes(self) -> Float[ndarray, " N"]:
        """Contributions without their sign; 0 where one is not a number."""
        return np.asarray(np.nan_to_num(np.abs(self.contributions), nan=0.0, posinf=0.0))

    def strongest(self, most: int) -> set[int]:
        """The codes with the largest contributions."""
        return set(np.argsort(-self.sizes, kind="stable")[:most].tolist())


def timelines(trace: Trace) -> list[Timeline]:
    """The records of a trace: one per outcome, the first few."""
    signal = trace.signals.get(SIGNAL)
    codes = trace.axes.get(signal.axis) if signal is not None else None
    visits = trace.axes.get(codes.parent or "") if codes is not None else None
    if signal is None or codes is None or not isinstance(visits, Visits) or len(signal.values) != len(codes):
        return []
    values, risk = signal.values.detach().double().cpu().numpy(), trace.signals.get(RISK)
    curve = None if risk is None or len(risk.values) != len(visits) else risk.values.detach().double().cpu().numpy()
    listed = trace.about.get("outcomes")
    names = [str(name) for name in listed] if isinstance(listed, list | tuple) else []
    names += [f"outcome {number + 1}" for number in range(len(names), values.shape[1])]
    return [
        Timeline(names[number], visits, codes, values[:, number], None if curve is None else curve[:, number])
        for number in range(min(values.shape[1], MOST_OUTCOMES))
    ]


# In a terminal ------------------------------------------------------------------------------------------------------


def timeline_lines(timeline: Timeline, style: Style) -> list[str]:
    """A visit per block: its time and the risk after it, then its codes with a bar to the left or to the right."""
    shown, largest = timeline.strongest(MOST_CODES), float(timeline.sizes.max(initial=0.0)) or 1.0
    names = [style.label(timeline.codes.labels[place]) for place in sorted(shown)]
    half = max(3, min(BAR, (style.width - 24) // 3))
    room = max(4, style.width - 2 * half - 13)
    stub = min(max(map(cell_len, names), default=4), room)
    lines: list[str] = []
    for visit in range(len(timeline.visits)):
        places = timeline.inside(visit)
        head = f"{style.label(timeline.visits.labels[visit])}  {style.label(timeline.time(visit))}"
        if timeline.risk is not None:
            head += f"  risk {_number(timeline.risk[visit])}"
            if cell_len(head) + 9 <= style.width:
                head += f" {style.red(style.bar(float(timeline.risk[visit]), 8))}"
        lines.append(
            head.rstrip() if cell_len(head) <= style.width or "\x1b" in head else style.short(head, style.width)
        )
        for place in places:
            if place in shown:
                size, sign = float(timeline.sizes[place]) / largest, timeline.contributions[place] < 0
                # A bar to the left has whole cells only: eighths are filled from the left.
                sides = (style.bar(round(size * half) / half, half).strip().rjust(half), " " * half)
                sides = sides if sign else (" " * half, style.bar(size, half))
                name = style.fit(style.short(style.label(timeline.codes.labels[place]), stub), stub)
                number = f"{timeline.contributions[place]:+.3f}"
                lines.append(f"  {name} {sides[0]}{'│' if style.unicode else '|'}{sides[1]} {number}")
        hidden = [place for place in places if place not in shown]
        if hidden:
            lines.append(style.quiet(f"  {len(hidden)} more: {timeline.contributions[hidden].sum():+.3f}"))
    total = f"sum {timeline.contributions.sum():+.3f}; with the bias it is the logit of {style.label(timeline.outcome)}"
    return [*lines, "", style.short(total, style.width)]


def _number(risk: float) -> str:
    return f"{risk:.3f}" if np.isfinite(risk) else "?"
