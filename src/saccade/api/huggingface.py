"""Converts BERT models between Hugging Face folders and bundles."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from saccade.api.bundle import Bundle
from saccade.api.runs import is_run
from saccade.data.labels.batch import marks_of
from saccade.data.memory import IN_MEMORY
from saccade.data.tags.schemes import Scheme, is_tag
from saccade.data.tokenizers.wordpiece import WordPieces
from saccade.errors import InputError, SaccadeError
from saccade.export.huggingface import ImportedBert, read_bert, write_bert
from saccade.recipes.recipe import from_plain
from saccade.recipes.schema import to_plain
from saccade.task import Calibrates
from saccade.tasks import task_class


def from_huggingface(folder: str | Path, *, pairs: bool = False) -> Bundle:
    """The BERT of a Hugging Face folder (``config.json``, ``model.safetensors``, ``vocab.txt``) as a bundle. Where there is no
    ``vocab.txt`` its ``tokenizer.json`` is read.

    A pre-trained network serves the task ``pretrain``, a sequence classifier the task ``classify`` (``pairs``: it classifies
    two texts together), a token classifier the task ``label``: its tags are predicted independently, and BIO or BIOES tags
    are also reported as spans. Heads that the folder lacks are initialised at random; ``bundle.figures["anew"]`` names them.

    >>> # bundle = from_huggingface("bert-base-uncased"); bundle.predict("the film was [MASK] .")[0].value
    """
    folder = Path(folder)
    imported = read_bert(folder)
    if pairs and imported.model_name != "bert_classifier":
        other = "a pre-trained network" if imported.labels is None else "a token classifier"
        raise SaccadeError(f"{folder}: pairs=True expects a text classifier, found {other}")
    plain = _recipe(imported, folder, pairs)
    where = str(folder / "config.json")
    recipe = from_plain(plain, name=folder.resolve().name, folder=Path.cwd(), where=where)
    task = task_class(recipe.task).of_import(recipe.data, imported.tokenizer, imported.labels or (), pairs=pairs)
    figures = {"anew": list(imported.anew)} if imported.anew else {}
    return Bundle(recipe, task, imported.network, folder=folder, figures=figures)


def import_huggingface(folder: str | Path, out: str | Path, *, pairs: bool = False) -> Bundle:
    """Import as :func:`from_huggingface` does, and save to ``out`` as a run that every command takes."""
    out = Path(out)
    if is_run(out) or (out / "config.json").exists():
        raise InputError(out, expected="a new folder", found="one that holds a model")
    bundle = from_huggingface(folder, pairs=pairs)
    bundle.save(out)
    bundle.folder = out
    return bundle


def to_huggingface(bundle: Bundle, folder: str | Path) -> tuple[str, ...]:
    """Write a bundle of ``bert``, ``bert_classifier`` or ``bert_tagger`` as a folder that ``transformers`` reads.

    Returns the parts that were left out because they were never trained. A part that was frozen untrained is written, since
    the parts trained on top of it need it.
    """
    if bundle.recipe.model_name not in ("bert", "bert_classifier", "bert_tagger"):
        expected = "a run of bert, bert_classifier or bert_tagger, which Hugging Face can load"
        raise InputError(bundle.folder, field="model.name", expected=expected, found=repr(bundle.recipe.model_name))
    tokenizer: Any = next(iter(bundle.task.vocabularies.values()))
    if not isinstance(tokenizer, WordPieces):
        expected, found = "bert, whose vocabulary Hugging Face's BERT reads", repr(tokenizer.config.kind)
        raise InputError(bundle.folder, field="data.tokens.kind", expected=expected, found=found)
    # Parts that a tagger does not use are not missed in Hugging Face either.
    idle = [name.rpartition(".")[0] for name in getattr(bundle.network, "idle", ())]
    untrained = tuple(part for part in bundle.untrained.anew if part not in idle)
    write_bert(folder, _calibrated(bundle), tokenizer, bundle.task.labels or None, without=untrained)
    return untrained


def _calibrated(bundle: Bundle) -> nn.Module:
    """The network; if it is calibrated, a copy whose output layer is divided by the temperature."""
    calibration = bundle.task.calibration if isinstance(bundle.task, Calibrates) else None
    if calibration is None:
        return bundle.network
    network: Any = copy.deepcopy(bundle.network)
    with torch.no_grad():
        for parameter in network.output.parameters():
            parameter.div_(calibration.temperature)
    return cast(nn.Module, network)


def _recipe(imported: ImportedBert, folder: Path, pairs: bool) -> dict[str, Any]:
    config, positions = imported.config, imported.config.positions
    tokens = {"kind": "bert", "lower": imported.tokenizer.config.lower, "size": imported.tokenizer.size}
    data: dict[str, Any] = {"train": IN_MEMORY, "tokens": tokens}
    if imported.labels is None:
        data["length"] = positions
    elif imported.model_name == "bert_tagger":
        data |= {"labels": list(imported.labels), "scheme": _scheme(imported.labels), "too_long": "split"}
        data["max_length"] = positions - marks_of("marked", False)
    else:
        data |= {
            "labels": list(imported.labels),
            "max_length": positions - marks_of("marked", pairs),
            "too_long": "truncate",
        }
    return {
        "about": f"BERT with {config.layers} layers of {config.width}, imported from {folder.resolve().name}.",
        "task": {"bert": "pretrain", "bert_classifier": "classify", "bert_tagger": "label"}[imported.model_name],
        "data": data,
        "model": {"name": imported.model_name, **to_plain(config)},
    }


def _scheme(labels: tuple[str, ...]) -> Scheme:
    """The scheme by which these tags mark spans. IOB1 uses the tags of BIO and is read by the same rule."""
    schemes: tuple[Scheme, ...] = ("bio", "bioes")
    return next((scheme for scheme in schemes if all(is_tag(label, scheme) for label in labels)), "none")
