"""One core: every attention mechanism is score → window → normalise → read."""

from saccade.attention import normalise, scores, windows
from saccade.attention.core import attend, explain_choice, read, weigh
from saccade.attention.layers import Attention, AttentionPool, MultiHead

__all__ = [
    "Attention", "AttentionPool", "MultiHead", "attend", "explain_choice", "normalise", "read", "scores", "weigh",
    "windows",
]  # fmt: skip
