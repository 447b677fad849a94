"""Building blocks of networks."""

from saccade.attention.layers import Attention, AttentionPool, MultiHead
from saccade.attention.spatial import SelfAttention2d
from saccade.nn.classifier import Classifier
from saccade.nn.compat.keras import KerasAdditiveAttention, KerasAttention, KerasMultiHeadAttention, from_keras
from saccade.nn.convolution import Convolution
from saccade.nn.crf import CRF
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.language import LanguageModel
from saccade.nn.ranker import Ranker
from saccade.nn.recurrent import GatedUnit, Recurrent
from saccade.nn.search import Search, search
from saccade.nn.tagger import Tagger

__all__ = [
    "CRF", "Attention", "AttentionPool", "Classifier", "Convolution", "EncoderDecoder", "GatedUnit",
    "KerasAdditiveAttention", "KerasAttention", "KerasMultiHeadAttention", "LanguageModel", "MultiHead",
    "Ranker", "Recurrent", "Search", "SelfAttention2d", "Tagger", "from_keras", "search",
]  # fmt: skip
