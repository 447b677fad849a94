"""Parts that networks are built of."""

from saccade.attention.layers import Attention, AttentionPool, MultiHead
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import GatedUnit, Recurrent
from saccade.nn.search import Search, search

__all__ = ["Attention", "AttentionPool", "EncoderDecoder", "GatedUnit", "MultiHead", "Recurrent", "Search", "search"]
