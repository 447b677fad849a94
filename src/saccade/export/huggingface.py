"""Reads and writes BERT as a Hugging Face folder: ``config.json``, ``model.safetensors``, ``vocab.txt`` (or
``tokenizer.json``) and ``tokenizer_config.json``.

    theirs                                   ours
    hidden_size, num_hidden_layers, …        Config(width, layers, …)
    bert.embeddings.word_embeddings          trunk.words
    bert.encoder.layer.3.attention.self      trunk.encoder.layers.3.attention
    cls.predictions, cls.seq_relationship    transform, transform_norm, bias, next
    classifier                               output

Tensors are only renamed, so outputs are the same. The output matrix of masked words is tied to the word embeddings in both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.data.tokenizers.wordpiece import WordPieces
from saccade.errors import InputError, SaccadeError
from saccade.models.bert import Bert, BertClassifier, BertTagger, Config
from saccade.storage import read_json, write_bytes, write_json, write_text

CONFIG, WEIGHTS, VOCABULARY, TOKENIZER = "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"
PIPELINE = "tokenizer.json"  # has the vocabulary if there is no vocab.txt: transformers 5 writes only this file
GELU: dict[str, Literal["erf", "tanh"]] = {
    "gelu": "erf", "gelu_python": "erf", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu_fast": "tanh",
}  # fmt: skip
PRETRAINED = ("BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForNextSentencePrediction")
LABELLING: dict[str, type[BertClassifier | BertTagger]] = {
    "BertForSequenceClassification": BertClassifier,
    "BertForTokenClassification": BertTagger,
}
HEADED = {  # by whether the masked-word head and the next-sentence head are there
    (True, True): "BertForPreTraining", (True, False): "BertForMaskedLM",
    (False, True): "BertForNextSentencePrediction", (False, False): "BertModel",
}  # fmt: skip
TIED = ("BertForPreTraining", "BertForMaskedLM")  # the others have no output matrix
# Our names → theirs: of the trunk without its prefix, of a layer without its number.
TRUNK = {
    "words": "embeddings.word_embeddings", "positions": "embeddings.position_embeddings",
    "segments": "embeddings.token_type_embeddings", "norm": "embeddings.LayerNorm", "pooler": "pooler.dense",
}  # fmt: skip
LAYER = {
    "attention.query": "attention.self.query", "attention.key": "attention.self.key",
    "attention.value": "attention.self.value", "attention.output": "attention.output.dense",
    "attention_residual.norm": "attention.output.LayerNorm", "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense", "feed_forward_residual.norm": "output.LayerNorm",
}  # fmt: skip
HEADS = {
    "transform": "cls.predictions.transform.dense", "transform_norm": "cls.predictions.transform.LayerNorm",
    "next": "cls.seq_relationship", "output": "classifier",
}  # fmt: skip
# Parts that may be missing and are then initialised: a bare encoder has no heads, a masked language model and a tagger no
# pooler.
OPTIONAL = ("transform.", "transform_norm.", "bias", "next.", "trunk.pooler.")


@dataclass(frozen=True)
class ImportedBert:
    """The contents of a Hugging Face folder."""

    network: nn.Module
    config: Config
    tokenizer: WordPieces
    labels: tuple[str, ...] | None  # of a classifier or tagger
    anew: tuple[str, ...]  # parts that are missing in the folder, and untrained

    @property
    def model_name(self) -> Literal["bert", "bert_classifier", "bert_tagger"]:
        if isinstance(self.network, BertTagger):
            return "bert_tagger"
        return "bert" if self.labels is None else "bert_classifier"


def read_bert(folder: str | Path) -> ImportedBert:
    """Read a BERT from a Hugging Face folder. Errors name the file and what is missing or does not fit."""
    folder = Path(folder)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        raise InputError(folder, expected=f"a Hugging Face folder ({CONFIG}, {WEIGHTS}, {VOCABULARY})", found=found)
    document = _document(folder / CONFIG)
    config, labels = _config(document, folder / CONFIG), _labels(document, folder / CONFIG)
    tokenizer = _tokenizer(folder, document)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)  # missing parts are initialised the same way each time
        size, kind = tokenizer.size, LABELLING.get(_architecture(document, folder / CONFIG))
        network = Bert(config, size) if kind is None else kind(config, size, len(labels or ()))
    anew = _fill(network, _tensors(folder), folder / WEIGHTS)
    return ImportedBert(network.eval(), config, tokenizer, labels, anew)


def write_bert(
    folder: str | Path,
    network: nn.Module,
    tokenizer: WordPieces,
    labels: tuple[str, ...] | None = None,
    without: Collection[str] = (),
) -> None:
    """Write a folder for ``transformers``: BertForPreTraining; or, with labels, BertForSequenceClassification or
    BertForTokenClassification. Parts of the network named in ``without`` (as :attr:`ImportedBert.anew` names them) are not
    written, and the architecture is the one without them."""
    folder = Path(folder)
    if not isinstance(network, Bert | BertClassifier | BertTagger):
        expected = "a network bert, bert_classifier or bert_tagger to write as BERT"
        raise SaccadeError(f"expected {expected}, found {type(network).__name__}")
    if (folder / CONFIG).exists():
        raise InputError(folder, expected="a new folder", found=f"one with a {CONFIG}")
    state = {name: tensor for name, tensor in network.state_dict().items() if name not in _idle(network)}
    state = {name: tensor for name, tensor in state.items() if _part(name) not in without}
    theirs = {_theirs(name): tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    if "cls.predictions.bias" in theirs:
        theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"].clone()
    write_bytes(folder / WEIGHTS, save(theirs, metadata={"format": "pt"}))
    write_text(folder / VOCABULARY, "\n".join(tokenizer.vocabulary) + "\n")
    lower = tokenizer.config.lower
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lower,
        "model_max_length": network.config.positions,
    }
    write_json(folder / TOKENIZER, {**settings, "tokenize_chinese_chars": True, "strip_accents": None})
    write_json(folder / CONFIG, _written(network, tokenizer, labels, without))


# The config ---------------------------------------------------------------------------------------------------------------


def _document(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(path, expected="the config of a Hugging Face model", found="no such file")
    document = _mapping(path)
    kind = document.get("model_type")
    if kind != "bert":
        raise InputError(path, field="model_type", expected="'bert'", found=repr(kind))
    fixed = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    if _architecture(document, path) in TIED:
        fixed |= {"tie_word_embeddings": True}
    for field, expected in fixed.items():
        if document.get(field, expected) != expected:
            raise InputError(path, field=field, expected=repr(expected), found=repr(document[field]))
    return document


def _mapping(path: Path) -> dict[str, Any]:
    document = read_json(path)
    if not isinstance(document, dict):
        raise InputError(path, expected="a mapping", found=type(document).__name__)
    return document


def _architecture(document: Mapping[str, Any], path: Path) -> str:
    named = document.get("architectures") or ["BertModel"]
    if not isinstance(named, list):
        raise InputError(path, field="architectures", expected="a list of one name", found=repr(named))
    if named[0] not in (*PRETRAINED, *LABELLING):
        expected = f"one of {', '.join((*PRETRAINED, *LABELLING))}"
        raise InputError(path, field="architectures", expected=expected, found=repr(named[0]))
    return str(named[0])


def _config(document: Mapping[str, Any], path: Path) -> Config:
    act = document.get("hidden_act", "gelu")
    if not isinstance(act, str) or act not in GELU:
        raise InputError(path, field="hidden_act", expected=f"one of {', '.join(GELU)}", found=repr(act))
    names = {
        "layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads",
        "feed_forward": "intermediate_size", "positions": "max_position_embeddings", "segments": "type_vocab_size",
    }  # fmt: skip
    sizes: dict[str, Any] = {ours: _number(document, theirs, path, int) for ours, theirs in names.items()}
    shares = {
        "dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob", "eps": "layer_norm_eps",
        "init": "initializer_range",
    }  # fmt: skip
    defaults = {"dropout": 0.1, "attention_dropout": 0.1, "eps": 1e-12, "init": 0.02}
    sizes |= {ours: _number(document, theirs, path, float, defaults[ours]) for ours, theirs in shares.items()}
    try:
        return Config(**sizes, gelu=GELU[act])
    except ValueError as fault:
        message = str(fault)
        for ours, theirs in {**names, **shares}.items():
            message = re.sub(rf"\b{ours}\b", theirs, message)
        raise InputError(path, expected="consistent sizes", found=message) from None


def _number(document: Mapping[str, Any], field: str, path: Path, kind: type, default: Any = None) -> Any:
    value = document.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        expected = "a whole number" if kind is int else "a number"
        raise InputError(path, field=field, expected=expected, found="nothing" if value is None else repr(value))
    return value


def _labels(document: Mapping[str, Any], path: Path) -> tuple[str, ...] | None:
    """The labels of a classifier or tagger, in the order of its outputs; None for a pre-trained network."""
    if _architecture(document, path) not in LABELLING:
        return None
    if document.get("problem_type") not in (None, "single_label_classification"):
        expected, found = "'single_label_classification'", repr(document["problem_type"])
        raise InputError(path, field="problem_type", expected=expected, found=found)
    names = document.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    try:
        ordered = {int(number): str(name) for number, name in names.items()}
        labels = tuple(ordered[number] for number in range(len(ordered)))
    except (AttributeError, KeyError, TypeError, ValueError):
        expected = "names of the labels 0, 1, 2, …"
        raise InputError(path, field="id2label", expected=expected, found=repr(names)[:80]) from None
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise InputError(path, field="id2label", expected="two or more different names", found=repr(list(labels))[:80])
    return labels


def _tokenizer(folder: Path, document: Mapping[str, Any]) -> WordPieces:
    path, settings = folder / VOCABULARY, dict[str, Any]()
    pieces: list[str] | None = None
    if not path.is_file() and (folder / PIPELINE).is_file():
        path = folder / PIPELINE
        pieces, settings = _pipeline(path)
    elif not path.is_file():
        expected = f"the vocabulary, one piece per line, or {PIPELINE}"
        raise InputError(path, expected=expected, found="no such file")
    settings |= _mapping(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    lower = settings.get("do_lower_case", True)
    if not isinstance(lower, bool):
        raise InputError(folder / TOKENIZER, field="do_lower_case", expected="true or false", found=repr(lower))
    if settings.get("strip_accents") not in (None, lower):
        raise InputError(
            folder / TOKENIZER, field="strip_accents", expected="null", found=repr(settings["strip_accents"])
        )
    if settings.get("tokenize_chinese_chars", True) is not True:
        raise InputError(folder / TOKENIZER, field="tokenize_chinese_chars", expected="true", found="false")
    tokens = TokenizerConfig(kind="bert", lower=lower)
    tokenizer = WordPieces.read(path, tokens) if pieces is None else WordPieces.of(pieces, tokens, path)
    size = _number(document, "vocab_size", folder / CONFIG, int)
    if size != tokenizer.size:
        raise InputError(path, expected=f"{size:,} pieces, as {CONFIG} says", found=f"{tokenizer.size:,}")
    return tokenizer


def _pipeline(path: Path) -> tuple[list[str], dict[str, Any]]:
    """The pieces of a ``tokenizer.json`` in the order of their ids, and its settings as in ``tokenizer_config.json``."""
    document = _mapping(path)
    model, normalizer = document.get("model"), document.get("normalizer")
    kinds = [each.get("type") if isinstance(each, dict) else None for each in (model, normalizer)]
    if not isinstance(model, dict) or not isinstance(normalizer, dict) or kinds != ["WordPiece", "BertNormalizer"]:
        found = f"{kinds[0]} and {kinds[1]}"
        raise InputError(path, field="model, normalizer", expected="WordPiece and BertNormalizer", found=found)
    numbers = model.get("vocab")
    if not isinstance(numbers, dict) or sorted(map(str, numbers.values())) != sorted(map(str, range(len(numbers)))):
        raise InputError(path, field="model.vocab", expected="pieces with the ids 0, 1, 2, …", found="other ids")
    names = {
        "lowercase": "do_lower_case",
        "strip_accents": "strip_accents",
        "handle_chinese_chars": "tokenize_chinese_chars",
    }
    settings = {theirs: normalizer[name] for name, theirs in names.items() if name in normalizer}
    return sorted(numbers, key=lambda piece: int(numbers[piece])), settings


def _written(
    network: Bert | BertClassifier | BertTagger,
    tokenizer: WordPieces,
    labels: tuple[str, ...] | None,
    without: Collection[str],
) -> dict[str, Any]:
    config = network.config
    named = [name for name, kind in LABELLING.items() if isinstance(network, kind)]
    document: dict[str, Any] = {
        "architectures": named or [HEADED["transform" not in without, "next" not in without]],
        "model_type": "bert",
        "vocab_size": tokenizer.size,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feed_forward,
        "max_position_embeddings": config.positions,
        "type_vocab_size": config.segments,
        "hidden_act": "gelu" if config.gelu == "erf" else "gelu_pytorch_tanh",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout
        if config.attention_dropout is None
        else config.attention_dropout,
        "layer_norm_eps": config.eps,
        "initializer_range": config.init,
        "pad_token_id": tokenizer.PAD,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }
    if labels is not None:
        document["id2label"] = {str(number): name for number, name in enumerate(labels)}
        document["label2id"] = {name: number for number, name in enumerate(labels)}
    return document


# The tensors --------------------------------------------------------------------------------------------------------------


def _tensors(folder: Path) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    if not path.is_file():
        other = next(
            (name for name in ("model.safetensors.index.json", "pytorch_model.bin") if (folder / name).exists()), None
        )
        hint = "save the model again in one file: model.save_pretrained(folder)" if other else None
        raise InputError(path, expected="the weights", found=f"{other} instead" if other else "no such file", hint=hint)
    try:
        with safe_open(path, framework="pt") as file:
            return {_current(name): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise InputError(path, expected="a whole safetensors file", found=f"a damaged one: {error}") from None


def _current(name: str) -> str:
    """Current names of tensors: older files have gamma and beta, and bare encoders have no prefix."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    return f"bert.{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def _fill(network: nn.Module, theirs: Mapping[str, Tensor], path: Path) -> tuple[str, ...]:
    """Load their tensors into the network; return the missing parts, which stay at their initial values."""
    state, anew = network.state_dict(), list[str]()
    tied = theirs.get("cls.predictions.decoder.weight")
    words = theirs.get("bert.embeddings.word_embeddings.weight")
    if tied is not None and words is not None and not torch.equal(tied, words):
        found = "another matrix (an output layer that is not tied)"
        raise InputError(path, field="cls.predictions.decoder.weight", expected="the word embeddings", found=found)
    for name, ours in state.items():
        tensor = theirs.get(_theirs(name))
        if tensor is None and name == "bias":
            tensor = theirs.get("cls.predictions.decoder.bias")
        if tensor is None and name.startswith(OPTIONAL):
            if name not in _idle(network):
                anew.append(_part(name))
            continue
        if tensor is None:
            raise InputError(path, field=_theirs(name), expected=f"a tensor {list(ours.shape)}", found="no such tensor")
        if tensor.shape != ours.shape:
            expected, found = f"a tensor {list(ours.shape)}, as {CONFIG} says", str(list(tensor.shape))
            raise InputError(path, field=_theirs(name), expected=expected, found=found)
        if not tensor.is_floating_point():
            raise InputError(path, field=_theirs(name), expected="floating-point numbers", found=str(tensor.dtype))
        state[name] = tensor.to(ours.dtype)
    _refuse_others(network, theirs, path)
    network.load_state_dict(state)
    return tuple(dict.fromkeys(anew))


def _part(name: str) -> str:
    """The part of the network that a tensor belongs to."""
    return name.removesuffix(".weight").removesuffix(".bias")


def _idle(network: nn.Module) -> tuple[str, ...]:
    """Our unused tensors, which their models lack: the pooler of a tagger."""
    return network.idle if isinstance(network, BertTagger) else ()


def _refuse_others(network: nn.Module, theirs: Mapping[str, Tensor], path: Path) -> None:
    """Raise if tensors have no place in the network: a dropped layer or head would go unnoticed."""
    placed = {_theirs(name) for name in network.state_dict()} | {"bert.embeddings.position_ids"}
    head = "cls.predictions.decoder." if isinstance(network, Bert) else "cls."  # tied, or not used
    others = [name for name in theirs if name not in placed and not name.startswith(head)]
    if others:
        more = f", nor for {len(others) - 1} more" if len(others) > 1 else ""
        hint = f"num_hidden_layers and architectures in {CONFIG}?"
        expected = f"the tensors of the network that {CONFIG} describes"
        raise InputError(
            path, field=min(others), expected=expected, found=f"a tensor without a place in it{more}", hint=hint
        )


def _theirs(name: str) -> str:
    """Their name of one of our tensors."""
    if name == "bias":
        return "cls.predictions.bias"
    part, _, end = name.rpartition(".")
    if not part.startswith("trunk."):
        return f"{HEADS[part]}.{end}"
    part = part.removeprefix("trunk.")
    inside = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", part)
    if inside is None:
        return f"bert.{TRUNK[part]}.{end}"
    return f"bert.encoder.layer.{inside[1]}.{LAYER[inside[2]]}.{end}"
