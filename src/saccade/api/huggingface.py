"""Models of other programs as bundles, and bundles as theirs: BERT as Hugging Face keeps it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from saccade.api.bundle import Bundle
from saccade.api.runs import is_run
from saccade.data.labels.batch import marks_of
from saccade.data.labels.classes import Classes
from saccade.data.memory import IN_MEMORY
from saccade.data.tags.schemes import Scheme, is_tag
from saccade.data.tags.tagset import Tags
from saccade.data.tokenizers.wordpiece import WordPieces
from saccade.data.tokenizers.words import WordReader
from saccade.errors import InputError, SaccadeError
from saccade.export.huggingface import ImportedBert, read_bert, write_bert
from saccade.recipes.recipe import from_plain
from saccade.recipes.schema import to_plain
from saccade.task import Calibrates
from saccade.tasks.classify import Classify
from saccade.tasks.label import Label
from saccade.tasks.pretrain import Pretrain


def from_huggingface(folder: str | Path, *, pairs: bool = False) -> Bundle:
    """The BERT of a Hugging Face folder (``config.json``, ``model.safetensors``, ``vocab.txt``) as a bundle. Where there is no
    ``vocab.txt`` its ``tokenizer.json`` is read.

    A network that was pre-trained serves the task ``pretrain``, a classifier of texts the task ``classify`` (``pairs`` says
    that it judges two texts together), one of tokens the task ``label``: it says the tags that it says there, whatever follows
    whatever, and where they mark spans these are told as BIO or BIOES. Heads that the folder lacks start anew:
    ``bundle.figures["anew"]`` names them.

    >>> # bundle = from_huggingface("bert-base-uncased"); bundle.predict("the film was [MASK] .")[0].value
    """
    folder = Path(folder)
    found = read_bert(folder)
    if pairs and found.model_name != "bert_classifier":
        other = "a pre-trained network" if found.labels is None else "one that says a tag for each token"
        raise SaccadeError(f"{folder}: expected a classifier where pairs are asked for, found {other}")
    plain = _recipe(found, folder, pairs)
    where = str(folder / "config.json")
    recipe = from_plain(plain, name=folder.resolve().name, folder=Path.cwd(), where=where)
    task: Any
    if found.labels is None:
        task = Pretrain(recipe.data, found.tokenizer)
    elif found.model_name == "bert_tagger":
        tags = Tags(found.labels, (0,) * len(found.labels), scheme=recipe.data.scheme, learn="none")
        task = Label(recipe.data, WordReader(found.tokenizer, recipe.data.tokens), tags)
    else:
        task = Classify(recipe.data, found.tokenizer, Classes(found.labels, (0,) * len(found.labels), pairs))
    figures = {"anew": list(found.anew)} if found.anew else {}
    return Bundle(recipe, task, found.network, folder=folder, figures=figures)


def import_huggingface(folder: str | Path, out: str | Path, *, pairs: bool = False) -> Bundle:
    """:func:`from_huggingface`, written to ``out`` as a run that every command takes."""
    out = Path(out)
    if is_run(out) or (out / "config.json").exists():
        raise InputError(out, expected="a new folder", found="one that holds a model")
    bundle = from_huggingface(folder, pairs=pairs)
    bundle.save(out)
    bundle.folder = out
    return bundle


def to_huggingface(bundle: Bundle, folder: str | Path) -> tuple[str, ...]:
    """Write a bundle of ``bert``, ``bert_classifier`` or ``bert_tagger`` as a folder that ``transformers`` reads.

    Returns the parts that were not written since they were never trained: whoever reads the folder finds them lacking. One
    that was frozen untrained is written: what was trained upon it means nothing without it.
    """
    if bundle.recipe.model_name not in ("bert", "bert_classifier", "bert_tagger"):
        expected = "a run of bert, bert_classifier or bert_tagger, which Hugging Face knows"
        raise InputError(bundle.folder, field="model.name", expected=expected, found=repr(bundle.recipe.model_name))
    tokenizer: Any = next(iter(bundle.task.vocabularies.values()))
    if not isinstance(tokenizer, WordPieces):
        expected, found = "bert, whose vocabulary Hugging Face's BERT reads", repr(tokenizer.config.kind)
        raise InputError(bundle.folder, field="data.tokens.kind", expected=expected, found=found)
    # Nobody misses what a tagger leaves idle, there as here.
    idle = [name.rpartition(".")[0] for name in getattr(bundle.network, "idle", ())]
    untrained = tuple(part for part in bundle.untrained.anew if part not in idle)
    write_bert(folder, _calibrated(bundle), tokenizer, bundle.task.labels or None, without=untrained)
    return untrained


def _calibrated(bundle: Bundle) -> nn.Module:
    """The network, whose logits are divided by the temperature where it is calibrated: others know of no temperature."""
    calibration = bundle.task.calibration if isinstance(bundle.task, Calibrates) else None
    if calibration is None:
        return bundle.network
    network: Any = copy.deepcopy(bundle.network)
    with torch.no_grad():
        for parameter in network.output.parameters():
            parameter.div_(calibration.temperature)
    return cast(nn.Module, network)


def _recipe(found: ImportedBert, folder: Path, pairs: bool) -> dict[str, Any]:
    size, positions = found.tokenizer.size, found.config.positions
    tokens = {"kind": "bert", "lower": found.tokenizer.config.lower, "size": size}
    data: dict[str, Any] = {"train": IN_MEMORY, "tokens": tokens}
    if found.labels is None:
        data["length"] = positions
    elif found.model_name == "bert_tagger":
        data |= {"labels": list(found.labels), "scheme": _scheme(found.labels), "too_long": "split"}
        data["max_length"] = positions - marks_of("marked", False)
    else:
        data |= {
            "labels": list(found.labels),
            "max_length": positions - marks_of("marked", pairs),
            "too_long": "truncate",
        }
    return {
        "about": f"BERT with {found.config.layers} layers of {found.config.width}, imported from {folder.resolve().name}.",
        "task": {"bert": "pretrain", "bert_classifier": "classify", "bert_tagger": "label"}[found.model_name],
        "data": data,
        "model": {"name": found.model_name, **to_plain(found.config)},
    }


def _scheme(labels: tuple[str, ...]) -> Scheme:
    """How these tags mark spans. IOB1 is written with the tags of BIO, and read as spans by the same rule."""
    schemes: tuple[Scheme, ...] = ("bio", "bioes")
    return next((each for each in schemes if all(is_tag(label, each) for label in labels)), "none")
