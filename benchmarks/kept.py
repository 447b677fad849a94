"""Networks that a benchmark trains once and keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import saccade
from saccade.recipes.recipe import SHIPPED, read_recipe


def trained(folder: Path, recipe: str, **sections: Mapping[str, Any]) -> Any:
    """The bundle in a folder: a shipped recipe with some fields of its sections changed, trained unless it is there.

    A section with a name, that of another model, takes the place of the recipe's own.
    """
    if (folder / "metrics.json").is_file():
        return saccade.load(folder)
    changed = yaml.safe_load((SHIPPED / f"{recipe}.yaml").read_text(encoding="utf-8"))
    for section, fields in sections.items():
        kept = {} if "name" in fields else changed.get(section) or {}
        changed[section] = {**kept, **fields}
    file = folder.with_suffix(".yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({**changed, "expect": None}), encoding="utf-8")
    print(f"training {folder.name}", flush=True)
    return saccade.train(read_recipe(file), folder=folder, progress=False)
