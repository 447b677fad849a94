"""Writes the model card: what the model is, what it was trained on, its metrics, how to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from saccade.plugins import packages_of


def write_card(name: str, config: Mapping[str, Any], sample: Any, remarks: Sequence[str] = ()) -> str:
    """A page of Markdown from a bundle's config; ``sample`` is an input, ``remarks`` are added after the metrics."""
    recipe, figures = config["recipe"], config["figures"]
    model, data = recipe["model"], recipe["data"]
    trained_on = f", trained on the source `{data['source']}`" if data.get("source") else ""
    if data.get("train") and not trained_on:  # a custom task may have neither
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
        origins = "; ".join([f"network and vocabulary of `{PurePath(origin).name}`", *figures.get("taken", ())])
        lines.append(f"- Started from the {origins}")
    if figures.get("vectors"):
        lines.append(f"- Word vectors: {figures['vectors'].removeprefix('data.vectors: ')}")
    averaged = figures.get("averaged")
    if averaged:
        after = ", ".join(f"{update:,}" for update in averaged)
        lines.append(f"- Weights: the mean of {len(averaged)} networks of one run, those after updates {after}")
    elif recipe.get("train", {}).get("keep") == "last":
        lines.append("- Weights: the last of the run; the validation records were not used to choose them")
    if figures.get("anew"):
        imported = not origin and "valid" not in figures
        why = "the imported model lacks them" if imported else "no training used them"
        lines.append(f"- Never trained, since {why}: {', '.join(figures['anew'])}")
    if figures.get("frozen_anew"):
        lines.append(f"- Never trained, but frozen at their random initial values: {', '.join(figures['frozen_anew'])}")
    for split in ("valid", "test"):
        if split in figures:
            shown = ", ".join(f"{metric} {value:.4f}" for metric, value in figures[split].items())
            lines.append(f"- Metrics on {split}: {shown}")
    for name, reached in figures.get("baselines", {}).items():
        lines.append(f"- Trivial baseline on test, {name}: {', '.join(f'{m} {v:.4f}' for m, v in reached.items())}")
    for metric, signature in figures.get("signatures", {}).items():
        lines.append(f"- {metric} signature: `{signature}`")
    lines += [f"- {remark}" for remark in remarks]
    packages = packages_of(recipe)
    if packages:
        named = ", ".join(f"`{name}`" for name in packages)
        lines.append(f"- Needs custom code from {named}: loading it runs that code, so pass the modules that you trust")
    trust = f", trust={json.dumps(packages)}" if packages else ""
    lines += ["", "```python", "import saccade", "", f'bundle = saccade.load("this folder"{trust})']
    shown = json.dumps(sample, ensure_ascii=False)
    lines += [f"print(bundle.predict({shown if isinstance(sample, str | dict) else f'[{shown}]'})[0].value)", "```", ""]
    return "\n".join(lines)


def _file(files: Any) -> str:
    return str(files["source"]) if isinstance(files, Mapping) else str(files)
