"""The card of a trained model: what it is, what it was trained on, what it reached, how to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from saccade.plugins import packages_of


def write_card(name: str, config: Mapping[str, Any], remarks: Sequence[str] = ()) -> str:
    """A page of Markdown from a bundle's config; ``remarks`` are sentences to add to what it reached."""
    recipe, figures = config["recipe"], config["figures"]
    model, data = recipe["model"], recipe["data"]
    trained_on = f", trained on the source `{data['source']}`" if data.get("source") else ""
    if data.get("train") and not trained_on:  # a user's own task may have neither
        trained_on = f", trained on `{_file(data['train'])}`"
    lines = [
        f"# {name}",
        "",
        recipe.get("about") or f"A {model['name']} network for the task {recipe['task']}.",
        "",
        f"- Model: `{model['name']}`, {config['parameters']:,} parameters",
        f"- Task: `{recipe['task']}`{trained_on}",
    ]
    origin = recipe.get("train", {}).get("from")
    if origin:
        told = "; ".join([f"network and vocabulary of `{PurePath(origin).name}`", *figures.get("taken", ())])
        lines.append(f"- Begun from the {told}")
    if figures.get("vectors"):
        lines.append(f"- Word vectors: {figures['vectors'].removeprefix('data.vectors: ')}")
    averaged = figures.get("averaged")
    if averaged:
        after = ", ".join(f"{update:,}" for update in averaged)
        lines.append(f"- Weights: the mean of {len(averaged)} networks of one run, those after updates {after}")
    elif recipe.get("train", {}).get("keep") == "last":
        lines.append("- Weights: the last of the run; none was chosen by the validation records")
    if figures.get("anew"):
        imported = not origin and "valid" not in figures
        why = "what was imported lacks them" if imported else "no training asked for them"
        lines.append(f"- Never trained, since {why}: {', '.join(figures['anew'])}")
    if figures.get("frozen_anew"):
        lines.append(f"- Never trained, but frozen as they were drawn: {', '.join(figures['frozen_anew'])}")
    for split in ("valid", "test"):
        if split in figures:
            shown = ", ".join(f"{metric} {value:.4f}" for metric, value in figures[split].items())
            lines.append(f"- Figures on {split}: {shown}")
    for metric, signature in figures.get("signatures", {}).items():
        lines.append(f"- {metric} signature: `{signature}`")
    lines += [f"- {remark}" for remark in remarks]
    packages = packages_of(recipe)
    if packages:
        named = ", ".join(f"`{name}`" for name in packages)
        lines.append(
            f"- Needs parts of its author's own, from {named}: loading it runs that code, so name what you trust"
        )
    trust = f", trust={json.dumps(packages)}" if packages else ""
    lines += ["", "```python", "import saccade", "", f'bundle = saccade.load("this folder"{trust})']
    lines += ['print(bundle.predict("…")[0].value)', "```", ""]
    return "\n".join(lines)


def _file(files: Any) -> str:
    return str(files["source"]) if isinstance(files, Mapping) else str(files)
