"""The pairs of models that are measured beside JoeyNMT 2.3, and the settings of each for either tool."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

SPLITS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
LONGEST = 100
LAYERS, HEADS, DROPOUT = 3, 8, 0.2  # layers and heads of the Transformer; dropout of all
TOGETHER, TOGETHER_ON_A_CPU = 256, 32  # sentences decoded in one batch
PEER, OURS = "JoeyNMT", "saccade"
WAYS: dict[str, dict[str, dict[str, str]]] = {  # what of ``train`` is changed
    "cpu": {OURS: {}},
    "cuda": {
        f"{OURS}, live": {"graphs": "off"},
        OURS: {},
        f"{OURS}, tf32": {"precision": "tf32"},
        f"{OURS}, bf16": {"precision": "bf16"},
    },
}


@dataclass(frozen=True)
class Pair:
    """Two models side by side: the name of ours; JoeyNMT's cell and attention, nothing for a Transformer."""

    ours: str
    cell: str = ""
    attention: str = ""
    lr: float = 1e-3


PAIRS = {
    "GRU, additive": Pair("rnnsearch", "gru", "bahdanau"),
    "LSTM, Luong's general": Pair("luong", "lstm", "luong"),
    "Transformer 3+3": Pair("transformer", lr=5e-4),
}


class Sizes(Protocol):
    """The options that both tools' settings are made of."""

    device: str
    width: int
    tokens: int
    updates: int
    window: int


def write_text(data: Path, folder: Path, first: int) -> None:
    """The texts in words, and the ``first`` sentences of the test once more as ``few``."""
    for name, file in SPLITS.items():
        for language in ("de", "en"):
            with gzip.open(data / "multi30k" / f"{file}.{language}.gz", "rt", encoding="utf-8") as lines:
                words = [" ".join(re.findall(r"\w+|[^\w\s]", line.lower())) for line in lines]
            (folder / f"{name}.{language}").write_text("\n".join(words) + "\n", encoding="utf-8")
            if name == "test" and first:
                (folder / f"few.{language}").write_text("\n".join(words[:first]) + "\n", encoding="utf-8")


# ---- JoeyNMT


def joey_config(sizes: Sizes, pair: Pair, text: Path, folder: Path) -> dict[str, Any]:
    """Train, and decode with a beam of 5."""
    side = {"level": "word", "lowercase": False, "max_length": LONGEST, "voc_limit": 12000, "voc_min_freq": 2}
    testing = {"beam_size": 5, "beam_alpha": 1.0, "batch_size": TOGETHER, "batch_type": "sentence", "n_best": 1}
    return {
        "name": "peer", "joeynmt_version": "2.3.0", "model_dir": str(folder), "use_cuda": sizes.device == "cuda",
        "random_seed": 1, "fp16": False,
        "data": {"train": str(text / "train"), "dev": str(text / "dev"), "test": str(text / "test"), "dataset_type": "plain",
                 "src": {"lang": "de", **side}, "trg": {"lang": "en", **side}},
        "testing": {**testing, "max_output_length": LONGEST, "eval_metrics": ["bleu"], "sacrebleu_cfg": {"tokenize": "none"}},
        "training": {"optimizer": "adamw", "learning_rate": pair.lr, "scheduling": "plateau", "clip_grad_norm": 1.0,
                     "batch_size": sizes.tokens, "batch_type": "token", "normalization": "tokens", "epochs": 1000,
                     "updates": sizes.updates, "validation_freq": 100 * sizes.updates // sizes.window * sizes.window,
                     "logging_freq": sizes.window, "print_valid_sents": [], "overwrite": True, "shuffle": True},
        "model": {"initializer": "xavier_uniform", "tied_embeddings": False, "tied_softmax": False,
                  **(joey_recurrent(sizes.width, pair) if pair.cell else joey_transformer(sizes.width))},
    }  # fmt: skip


def joey_recurrent(width: int, pair: Pair) -> dict[str, Any]:
    embeddings = {"embedding_dim": width, "scale": False, "dropout": DROPOUT}
    both = {"type": "recurrent", "rnn_type": pair.cell, "embeddings": embeddings, "hidden_size": width, "num_layers": 1}
    looking = {"input_feeding": True, "init_hidden": "bridge", "attention": pair.attention}
    return {"encoder": {**both, "bidirectional": True, "dropout": DROPOUT},
            "decoder": {**both, "dropout": DROPOUT, "hidden_dropout": DROPOUT, **looking}}  # fmt: skip


def joey_transformer(width: int) -> dict[str, Any]:
    embeddings = {"embedding_dim": width, "scale": True, "dropout": DROPOUT}
    part = {"type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "embeddings": embeddings, "hidden_size": width,
            "ff_size": 4 * width, "dropout": DROPOUT, "layer_norm": "pre"}  # fmt: skip
    return {"embed_initializer": "xavier_uniform", "encoder": part, "decoder": {**part}}


def joey_greedy(config: dict[str, Any], text: Path) -> dict[str, Any]:
    """The same network, greedily, on a CPU, over a few sentences."""
    data = {name: value for name, value in config["data"].items() if name != "dev"}
    testing = config["testing"] | {"beam_size": 1, "batch_size": TOGETHER_ON_A_CPU}
    return config | {"use_cuda": False, "data": data | {"test": str(text / "few")}, "testing": testing}


# ---- saccade


def saccade_recipe(sizes: Sizes, pair: Pair, text: Path, way: dict[str, str]) -> dict[str, Any]:
    files = {ours: {"source": str(text / f"{theirs}.de"), "target": str(text / f"{theirs}.en")}
             for ours, theirs in (("train", "train"), ("valid", "dev"), ("test", "test"))}  # fmt: skip
    return {
        "task": "translate",
        "data": {**files, "tokens": {"kind": "words", "size": 12000, "min_count": 2}, "max_length": LONGEST},
        "model": {"name": pair.ours, "dropout": DROPOUT, **saccade_model(sizes.width, pair.ours)},
        "train": {"epochs": 1000, "updates": sizes.updates, "batch_tokens": sizes.tokens, "optimiser": "adamw",
                  "lr": pair.lr, "clip": 1.0, "device": sizes.device, "save_every": None, **way},
        "search": {"beam": 5, "length_penalty": 1.0, "stop": "beam"},  # JoeyNMT ends so too
        "metrics": ["bleu"],
    }  # fmt: skip


def saccade_model(width: int, name: str) -> dict[str, Any]:
    if name == "transformer":
        return {"width": width, "heads": HEADS, "hidden": 4 * width, "layers": LAYERS, "norm": "pre", "tied": "none"}
    recurrent = {"hidden": width, "embedding": width, "init": "torch"}  # as the tables were measured
    return recurrent | ({"maxout": width} if name == "rnnsearch" else {"score": "general", "bidirectional": True})
