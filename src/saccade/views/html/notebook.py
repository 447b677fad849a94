"""A trace in a notebook: the explorer's page in a frame of its own, which a saved or converted notebook still shows."""

from __future__ import annotations

import sys

from saccade.trace.maps import Trace
from saccade.views.html.page import frame


def show(trace: Trace) -> None:
    """Display the trace under the cell; a console that draws no HTML gets its description."""
    # Whoever runs a kernel has it imported.
    display = sys.modules["IPython"].display.display
    display({"text/html": frame(trace), "text/plain": repr(trace)}, raw=True)
