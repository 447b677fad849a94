"""Models of other programs as bundles, and bundles as theirs: BERT as Hugging Face keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saccade.api.runs import is_run
from saccade.api.trained import IN_MEMORY, Bundle
from saccade.data.classes import Classes
from saccade.data.documents import marks_of
from saccade.data.wordpieces import WordPieces
from saccade.errors import InputError, SaccadeError
from saccade.export.huggingface import Found, read_bert, write_bert
from saccade.recipes.recipe import from_plain
from saccade.recipes.schema import to_plain
from saccade.tasks.classify import Classify
from saccade.tasks.pretrain import Pretrain


def from_huggingface(folder: str | Path, *, pairs: bool = False) -> Bundle:
    """The BERT of a Hugging Face folder (``config.json``, ``model.safetensors``, ``vocab.txt``) as a bundle. Where there is no
    ``vocab.txt`` its ``tokenizer.json`` is read.

    A network that was pre-trained serves the task ``pretrain``, a classifier of texts the task ``classify``; ``pairs`` says
    that it judges two texts together. Heads that the folder lacks start anew: ``bundle.figures["anew"]`` names them.

    >>> # bundle = from_huggingface("bert-base-uncased"); bundle.predict("the film was [MASK] .")[0].value
    """
    folder = Path(folder)
    found = read_bert(folder)
    if pairs and found.labels is None:
        raise SaccadeError(f"{folder}: expected a classifier where pairs are asked for, found a pre-trained network")
    plain = _recipe(found, folder, pairs)
    recipe = from_plain(plain, name=folder.resolve().name, folder=Path.cwd(), where=str(folder / "config.json"))
    task: Any
    if found.labels is None:
        task = Pretrain(recipe.data, found.tokenizer)
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


def to_huggingface(bundle: Bundle, folder: str | Path) -> None:
    """Write a bundle of ``bert`` or ``bert_classifier`` as a folder that ``transformers`` reads."""
    if bundle.recipe.model_name not in ("bert", "bert_classifier"):
        expected = "a run of bert or bert_classifier, which Hugging Face knows"
        raise InputError(bundle.folder, field="model.name", expected=expected, found=repr(bundle.recipe.model_name))
    tokenizer = bundle.task.tokenizer
    if not isinstance(tokenizer, WordPieces):
        expected, found = "bert, whose vocabulary Hugging Face's BERT reads", repr(tokenizer.config.kind)
        raise InputError(bundle.folder, field="data.tokens.kind", expected=expected, found=found)
    labels = bundle.task.classes.names if isinstance(bundle.task, Classify) else None
    write_bert(folder, bundle.network, tokenizer, labels)


def _recipe(found: Found, folder: Path, pairs: bool) -> dict[str, Any]:
    size, positions = found.tokenizer.size, found.config.positions
    tokens = {"kind": "bert", "lower": found.tokenizer.config.lower, "size": size}
    data: dict[str, Any] = {"train": IN_MEMORY, "tokens": tokens}
    if found.labels is None:
        data["length"] = positions
    else:
        data |= {
            "labels": list(found.labels),
            "max_length": positions - marks_of("marked", pairs),
            "too_long": "truncate",
        }
    return {
        "about": f"BERT with {found.config.layers} layers of {found.config.width}, imported from {folder.resolve().name}.",
        "task": "pretrain" if found.labels is None else "classify",
        "data": data,
        "model": {"name": found.model_name, **to_plain(found.config)},
    }
