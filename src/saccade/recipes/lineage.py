"""Fills in the model and the vocabulary of a recipe that starts from another run (``train.from``). Imports no torch.

The recipe may leave both out. Fields that it sets must equal those of the run, except dropout, the initialisation and whether
texts may lack an aspect, on which no weight depends. A pre-trained network can be the start of another task if the model can
copy its trunk (``saccade.models.BEGINS_WITH``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.documents import join
from saccade.errors import InputError
from saccade.models import BEGINS_WITH
from saccade.recipes.located import Located, locate, node_at, refusal
from saccade.recipes.own import fill
from saccade.recipes.schema import to_plain
from saccade.storage import current_file

if TYPE_CHECKING:
    from saccade.recipes.recipe import Recipe

FREE = ("init", "whole")  # fields of a model that may change, beside every dropout
VOCABULARY = ("tokens", "target_tokens", "shared")  # fields of ``data`` that come with the tokenizers


def parent_folder(root: Located, folder: Path) -> Path | None:
    """The run that ``train.from`` names, if any: relative to ``folder`` if a file names it, to the working folder if the
    command line or a call does; ``~`` and variables are expanded."""
    from saccade.data.paths import locate as locate_path

    node = node_at(root, "train.from")
    if node is not None and node.value is None and node.text == "":  # perhaps a shell variable that is not set
        raise refusal(node, "train.from", "a run's folder", "nothing", "train.from=null starts from random weights")
    if node is None or node.value is None or node.text is None:
        return None
    written_in_a_file = node.line is not None
    place = locate_path(node.text, folder if written_in_a_file else Path.cwd()).resolve()
    if not place.is_dir():
        found = "a file" if place.exists() else "no such folder"
        raise refusal(node, "train.from", "a run's folder", f"{found}: {place}")
    if not current_file(place, "config.json").is_file():
        hint = "a sweep: name one of its runs" if (place / "sweep.json").is_file() else None
        raise refusal(node, "train.from", "a trained run (config.json, model.safetensors)", f"none in {place}", hint)
    return place


def inherit(root: Located, parent: Recipe, place: Path) -> Located:
    """The recipe completed from its parent; fields that it sets itself must agree with the parent."""
    task, name = node_at(root, "task"), node_at(root, "model.name")
    other = task is not None and task.text != parent.task
    if task is not None and other and parent.model_name not in BEGINS_WITH.get((name and name.text) or "", ()):
        begin = [model for model, parents in BEGINS_WITH.items() if parent.model_name in parents]
        hint = f"another task can start from it with model.name {' or '.join(begin)}" if begin else None
        raise refusal(task, "task", f"{parent.task!r}, as in {place}", hint=hint)
    _refuse_vectors(root, place)
    where = str(place / "config.json")
    called = name.text if other and name is not None else parent.model_name
    model = locate({"name": called, **to_plain(parent.model)}, where)
    vocabulary = {name: part for name, part in to_plain(parent.data).items() if name in VOCABULARY}
    filled = _put(root, "model", _merged(model, node_at(root, "model")))
    filled = _put(filled, "data", _merged(locate(vocabulary, where), node_at(root, "data")))
    filled = _put(filled, "train", _put(node_at(root, "train"), "from", Located(str(place), where, text=str(place))))
    _check_model(filled, parent, place, str(called))
    if other:
        _check_tokens(filled, parent, place)
    else:
        _check_vocabulary(filled, parent, place)
    return filled


def _refuse_vectors(root: Located, place: Path) -> None:
    vectors = node_at(root, "data.vectors")
    if vectors is not None and vectors.value is not None:
        hint = "data.vectors=null leaves them out; train.freeze keeps the embeddings as they are"
        expected = f"none: the embeddings are those of {place}, from which the run starts"
        raise refusal(vectors, "data.vectors", expected, "some", hint)


def _check_model(root: Located, parent: Recipe, place: Path, called: str) -> None:
    model = node_at(root, "model")
    name = node_at(root, "model.name")
    if model is None or name is None or name.text != called:
        raise refusal(name or root, "model.name", f"{called!r}, as in {place}")
    fields = {key: part for key, part in model.value.items() if key != "name"} if isinstance(model.value, dict) else {}
    config = fill(type(parent.model), replace(model, value=fields), "model", parent.model_name)
    for keys, expected, found in _differences(config, parent.model):
        if keys[0] not in FREE and "dropout" not in keys[0]:
            raise _disagreement(root, ["model", *keys], expected, found, place)


def _check_vocabulary(root: Located, parent: Recipe, place: Path) -> None:
    node = node_at(root, "data")
    data = fill(type(parent.data), node if node is not None else Located({}, root.where), "data", parent.task)
    for keys, expected, found in _differences(data, parent.data):
        if keys[0] in VOCABULARY:
            raise _disagreement(root, ["data", *keys], expected, found, place)


def _check_tokens(root: Located, parent: Recipe, place: Path) -> None:
    """Check a run of another task: only its tokens must be the same."""
    node = node_at(root, "data.tokens")
    tokens = fill(
        type(parent.data.tokens), node if node is not None else Located({}, root.where), "data.tokens", parent.task
    )
    for keys, expected, found in _differences(tokens, parent.data.tokens):
        raise _disagreement(root, ["data", "tokens", *keys], expected, found, place)


def _disagreement(root: Located, keys: Sequence[str], expected: Any, found: Any, place: Path) -> InputError:
    node, field = root, ""
    for key in keys:
        node, field = node_at(node, key) or node, join(field, key)
    part = "network" if keys[0] == "model" else "vocabulary"
    hint = f"a run that starts from another has the same {part}: leave the field out"
    return refusal(node, field, f"{_shown(expected)}, as in {place}", _shown(found), hint)


def _differences(new: Any, old: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Where two dataclasses of one class differ: field names, the old value, the new value."""
    for field in dataclasses.fields(old):
        expected, found = getattr(old, field.name), getattr(new, field.name)
        keys = (*above, field.name.removesuffix("_"))
        if dataclasses.is_dataclass(expected) and type(found) is type(expected):
            yield from _differences(found, expected, keys)
        elif expected != found:
            yield keys, expected, found


def _shown(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return "a mapping"
    return "nothing" if value is None else repr(value)


def _put(node: Located | None, key: str, entry: Located) -> Located:
    node = node if node is not None else Located({}, entry.where)
    tree = node.value if isinstance(node.value, dict) else {}
    return replace(node, value={**tree, key: entry}, text=None)


def _merged(below: Located, above: Located | None) -> Located:
    """``above``, with the fields that it does not set taken from ``below``."""
    if above is None or (above.value is None and isinstance(below.value, dict)):
        return below
    if not isinstance(above.value, dict) or not isinstance(below.value, dict):
        return above
    parts = {key: _merged(part, above.value.get(key)) for key, part in below.value.items()}
    return replace(above, value={**parts, **{key: part for key, part in above.value.items() if key not in parts}})
