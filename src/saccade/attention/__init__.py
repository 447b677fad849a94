"""One core: every attention mechanism is score → window → normalise → read."""

from saccade.attention.choice import Choice, hard
from saccade.attention.core import attend, explain_choice, read, weigh
from saccade.attention.layers import Attention, AttentionPool, MultiHead
from saccade.attention.spatial import SelfAttention2d

__all__ = [
    "Attention", "AttentionPool", "Choice", "MultiHead", "SelfAttention2d", "attend", "explain_choice", "hard", "normalise",
    "read", "scores", "weigh", "windows",
]  # fmt: skip
