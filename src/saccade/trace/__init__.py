"""Lens and trace: record, edit and save what a model attends to, over named axes."""

from saccade.trace.axes import Axis, Frames, Grid, Nodes, Positions, Reviews, Sentences, Tokens, Visits
from saccade.trace.edits import Boost, Edit, Even, Mask, Set
from saccade.trace.file import same
from saccade.trace.lens import DETAILS, Lens, Record, Site, assemble
from saccade.trace.maps import AttentionMap, Outputs, Signal, Trace, Tree

__all__ = [
    "DETAILS", "AttentionMap", "Axis", "Boost", "Edit", "Even", "Frames", "Grid", "Lens", "Mask", "Nodes", "Outputs",
    "Positions", "Record", "Reviews", "Sentences", "Set", "Signal", "Site", "Tokens", "Trace", "Tree", "Visits", "assemble",
    "same",
]  # fmt: skip
