"""Resolves relative paths: those in a recipe's file from its folder, those of overrides from the working folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from saccade.data.config import DataConfig
from saccade.data.files.hub import on_hub
from saccade.recipes.located import Located
from saccade.tasks import TASKS, data_class

TOKEN_FILES = ("tokens.vocabulary", "vectors.file")  # of every kind of data that has tokens


def from_here(root: Located, changed: Sequence[str]) -> Located:
    """The tree with the relative paths among its changed fields made absolute from the working folder."""
    for key in changed:
        for path in _paths_of(root):
            if f"{key}.".startswith(f"{path}."):
                root = _at(root, key.split("."))
            elif path.startswith(f"{key}."):  # data={train: …}, whole
                root = _at(root, path.split("."))
    return root


def _paths_of(root: Located) -> list[str]:
    """The fields of this recipe that name files."""
    named = root.value.get("task") if isinstance(root.value, dict) else None
    shipped = named is not None and named.text in TASKS
    config = data_class(str(named.text)) if named is not None and shipped else DataConfig
    return [f"data.{field}" for field in (*config.paths, *TOKEN_FILES)]


def with_vocabulary(root: Located, folder: Path) -> Located:
    """The tree with ``data.tokens.vocabulary``, ``data.vectors`` and ``data.judge`` made absolute: the code that learns tokens
    or measures pictures does not know the recipe's folder."""
    fields = (["data", "tokens", "vocabulary"], ["data", "vectors"], ["data", "vectors", "file"], ["data", "judge"])
    for keys in fields:
        root = _under(root, keys, folder)
    return root


def _under(node: Located, keys: Sequence[str], folder: Path) -> Located:
    if keys:
        if not isinstance(node.value, dict) or keys[0] not in node.value:
            return node
        return replace(node, value={**node.value, keys[0]: _under(node.value[keys[0]], keys[1:], folder)})
    if not isinstance(node.value, str) or not node.text or node.text[0] in "$~" or Path(node.text).is_absolute():
        return node
    whole = str(folder.resolve() / node.text)
    return replace(node, value=whole, text=whole)


def _at(node: Located, keys: Sequence[str]) -> Located:
    if isinstance(node.value, dict):
        wanted = [key for key in keys[:1] if key in node.value] if keys else list(node.value)  # {source: …, target: …}
        return replace(node, value={**node.value, **{key: _at(node.value[key], keys[1:]) for key in wanted}})
    if isinstance(node.value, list):
        return replace(node, value=[_at(entry, keys) for entry in node.value])
    text = node.text
    # Other than text: null, which unsets, or the number of records to generate. data.vectors may be the file itself.
    if not isinstance(node.value, str) or not text or keys not in ([], ["file"]):
        return node
    if text[0] in "$~" or on_hub(text) or Path(text).is_absolute():
        return node
    whole = str(Path.cwd() / text)
    return replace(node, value=whole, text=whole)
