"""One paper = one file = a frozen ``Config`` and the network. A name loads its file when first used.

A name with a colon, ``package.module:Name``, is a user's own network: a torch.nn.Module with a ``config_class``.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from saccade.plugins import FORM, PartError, is_own, load_class

# name → "module:class", so that recipes are checked before torch is loaded
MODELS: dict[str, str] = {
    "seq2seq": "saccade.models.seq2seq:Seq2Seq",
    "rnnsearch": "saccade.models.rnnsearch:RNNSearch",
    "luong": "saccade.models.luong:Luong",
    "pointer": "saccade.models.pointer:Pointer",
    "attentive_classifier": "saccade.models.attentive_classifier:AttentiveClassifier",
    "attentive_tagger": "saccade.models.attentive_tagger:AttentiveTagger",
    "atae_lstm": "saccade.models.atae_lstm:AtaeLstm",
    "att_blstm": "saccade.models.att_blstm:AttBlstm",
    "han": "saccade.models.han:Han",
    "siamese": "saccade.models.siamese:Siamese",
    "transformer": "saccade.models.transformer:Transformer",
    "transformer_lm": "saccade.models.transformer:TransformerLM",
    "transformer_classifier": "saccade.models.transformer_reader:TransformerClassifier",
    "transformer_tagger": "saccade.models.transformer_reader:TransformerTagger",
    "recurrent_lm": "saccade.models.recurrent_lm:RecurrentLM",
    "lstmn": "saccade.models.lstmn:Lstmn",
    "lstmn_lm": "saccade.models.lstmn:LstmnLM",
    "skipgram": "saccade.models.skipgram:Skipgram",
    "bert": "saccade.models.bert:Bert",
    "bert_classifier": "saccade.models.bert:BertClassifier",
    "bert_tagger": "saccade.models.bert:BertTagger",
    "retain": "saccade.models.retain:Retain",
    "show_attend_tell": "saccade.models.show_attend_tell:ShowAttendTell",
    "listen_attend": "saccade.models.listen_attend:ListenAttend",
    "visit_gru": "saccade.models.visit_baselines:VisitGru",
    "visit_logistic": "saccade.models.visit_baselines:VisitLogistic",
    "sagan": "saccade.models.sagan:Sagan",
    "image_classifier": "saccade.models.image_classifier:ImageClassifier",
}

# Networks that can start from the weights of another, pre-trained one.
BEGINS_WITH: dict[str, tuple[str, ...]] = {"bert_classifier": ("bert",), "bert_tagger": ("bert",)}


def network_class(name: str) -> Any:
    """The network class for a recipe's ``model.name``."""
    if is_own(name):
        return _own_network(name)
    if name not in MODELS:
        raise PartError(name, expected=f"one of {', '.join(MODELS)}, or your own ({FORM})", found="no such model")
    module, _, attribute = MODELS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def name_of(network: Any) -> str:
    """The name of a network class in a recipe: the inverse of :func:`network_class`."""
    written = f"{network.__module__}:{network.__name__}"
    return next((name for name, place in MODELS.items() if place == written), written)


def _own_network(name: str) -> Any:
    from torch import nn

    network = load_class(name, nn.Module, "torch.nn.Module")
    config = getattr(network, "config_class", None)
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        found = "none" if config is None else repr(config)
        raise PartError(name, expected="a network with a config_class, the dataclass of its fields", found=found)
    return network
