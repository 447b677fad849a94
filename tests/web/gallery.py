"""Which generated trace shows which view, and all of them on one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from saccade.trace.maps import Trace
from tests.web import made, made_sources
from tests.web.made_hostile import broken, empty, hostile

WELL = (
    made.nothing,
    made.decode,
    made.other_decode,
    made.transformer,
    made.bottleneck,
    made.long,
    made_sources.document,
    made_sources.sentence,
    made_sources.picture,
    made_sources.sound,
    made_sources.graph,
    made_sources.visits,
    made_sources.reviews,
)
SHOWN: dict[str, tuple[str, ...]] = {
    "steps": ("decode", "transformer", "bottleneck", "picture", "sound"),
    "alignment": ("decode", "long"),
    "heads": ("transformer",),
    "arcs": ("decode", "transformer", "long"),
    "document": ("document", "sentence"),
    "image": ("picture",),
    "audio": ("sound",),
    "graph": ("graph",),
    "timeline": ("visits", "reviews"),
    "beam": ("decode",),
    "truth": ("decode",),
    "compare": ("decode",),
}
"""The traces that each view is looked at with."""


@dataclass(frozen=True)
class Place:
    """A view of a trace, as an address says it."""

    view: str
    trace: str

    def __str__(self) -> str:
        return f"{self.view}-{self.trace}"

    @property
    def state(self) -> dict[str, object]:
        other = {"other": NAMES.index("other_decode")} if self.view == "compare" else {}
        return {"view": self.view, **other}


PLACES = [Place(view, trace) for view, traces in SHOWN.items() for trace in traces]
FIRST = [Place(view, traces[0]) for view, traces in SHOWN.items()]
HARMED = {"hostile": hostile, "broken": broken, "empty": empty}

GALLERY: dict[str, Callable[[], Trace]] = {make.__name__: make for make in WELL} | {
    f"{harm} {place.trace}": partial(
        lambda harmed, make: harmed(make()), harmed, {m.__name__: m for m in WELL}[place.trace]
    )
    for harm, harmed in HARMED.items()
    for place in PLACES
}
NAMES = list(GALLERY)
