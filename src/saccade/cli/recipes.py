"""``saccade recipes``: lists the shipped recipes."""

from __future__ import annotations

import json

from saccade.cli.options import Json
from saccade.cli.printing import print


def recipes(as_json: Json = False) -> None:
    """List the shipped recipes."""
    import yaml

    from saccade.recipes.recipe import shipped_recipes

    recipes_by_name = {
        name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in shipped_recipes().items()
    }
    if as_json:
        print(json.dumps(recipes_by_name, ensure_ascii=False))
        return
    width = max(len(name) for name in recipes_by_name)
    for name, recipe in recipes_by_name.items():
        expect = recipe.get("expect") or {}
        bound = f"≥ {expect['at_least']}" if "at_least" in expect else f"≤ {expect.get('at_most')}"
        figure = f"  [{expect['metric']} {bound}]" if expect else ""
        print(f"{name:<{width}}  {recipe.get('about', '')}{figure}")
