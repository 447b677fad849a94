"""Parts that networks are built of."""

from saccade.attention.layers import Attention, AttentionPool, MultiHead
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.keras import KerasAdditiveAttention, KerasAttention, KerasMultiHeadAttention
from saccade.nn.moving import from_keras, from_tfa
from saccade.nn.normed import NormedAttention
from saccade.nn.recurrent import GatedUnit, Recurrent
from saccade.nn.search import Search, search

__all__ = [
    "Attention", "AttentionPool", "EncoderDecoder", "GatedUnit", "KerasAdditiveAttention", "KerasAttention",
    "KerasMultiHeadAttention", "MultiHead", "NormedAttention", "Recurrent", "Search", "from_keras", "from_tfa", "search",
]  # fmt: skip
