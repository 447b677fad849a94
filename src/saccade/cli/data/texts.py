"""``saccade data`` for raw text: data as it stands for the tasks ``language`` and ``pretrain``, and how to train with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from saccade.errors import InputError, SaccadeError

TASKS = ("language", "pretrain", "vectors")
SMALL, MIDDLING = 20_000, 500_000  # words of text up to which a small vocabulary and small batches do
AS_IT_STANDS = "raw text is data as it stands for the tasks language (what comes next) and pretrain (the masked words)"


@dataclass
class RawText:
    """What a text file holds: lines that are not blank, their words, and the first line that cannot be read."""

    path: str
    lines: int = 0
    words: int = 0
    fault: str = ""

    def recipe(self, folder: Path) -> str:
        """A language model for it, to be saved in ``folder``."""
        from saccade.data.survey.recipe import from_folder

        size = 500 if self.words < SMALL else 2000 if self.words < MIDDLING else 8000
        batch = 512 if self.words < SMALL else 4096
        return (
            f"task: language\ndata:\n  train: {from_folder(folder, self.path)}\n  tokens: {{kind: bpe, size: {size}}}\n"
            "  chunk: 64\nmodel: {name: recurrent_lm, hidden: 128, embedding: 64, dropout: 0.2}\n"
            f"train: {{epochs: 20, batch_tokens: {batch}, lr: 3e-3, stop_after: 3}}\n"
            "metrics: [perplexity, word_perplexity, bits_per_character]\n"
        )


def is_raw(files: Sequence[str], recipe: Path | None, format: str | None) -> bool:
    """Whether raw text is meant: one text file, or a recipe of a task that reads such."""
    if recipe is not None:
        from saccade.recipes.located import read_yaml

        root: Any = read_yaml(recipe).value if recipe.is_file() else None
        return isinstance(root, dict) and "task" in root and root["task"].text in TASKS
    from saccade.data.files.lines import unpacked

    return len(files) == 1 and format is None and unpacked(Path(files[0])).suffix.lower() == ".txt"


def shown_as_raw(
    files: Sequence[str], recipe: Path | None, unused: dict[str, Any], format: str | None, save: Path | None,
    force: bool, as_json: bool,
) -> bool:  # fmt: skip
    """Whether raw text was meant; if so, it was said what it is good for, and what to type.

    Exit status 1 where a line of it cannot be read.
    """
    if not is_raw(files, recipe, format) or unused.get("--source") or unused.get("--target"):
        return False
    _show(files[0], recipe, unused, save, force=force, as_json=as_json)
    return True


def _show(
    name: str, recipe: Path | None, unused: dict[str, Any], save: Path | None, *, force: bool, as_json: bool
) -> None:
    given = [option for option, value in unused.items() if value]
    if recipe is not None and (save is not None or force):
        given.append("--recipe" if save is not None else "--force")
    if given:
        raise SaccadeError(f"{given[0]}: expected pairs or labelled texts beside it, found raw text")
    if recipe is not None:
        following = [f"saccade train {shlex.quote(name)} --dry-run", f"saccade train {shlex.quote(name)}"]
        _print({"files": [name], "verdict": {"because": [AS_IT_STANDS]}, "next": following}, as_json,
               [f"{name}: {AS_IT_STANDS}: there is nothing to survey"], following)  # fmt: skip
        return
    found = _count(Path(name))
    if found.lines and not found.fault:
        _write(save, found, force)
    text = found.recipe(Path() if save is None else save.parent)
    command = shlex.quote(str(save or "my.yaml"))
    following = [] if save is not None else [f"saccade data {shlex.quote(name)} --recipe my.yaml"]
    following = [] if found.fault else [*following, f"saccade train {command}"]
    verdict = {"would_train": not found.fault, "because": [found.fault or AS_IT_STANDS]}
    plain = {"files": [name], "lines": found.lines, "words": found.words, "verdict": verdict}
    plain |= {"recipe": None if found.fault else text, "next": following}
    _print(plain, as_json, _page(found, text, save), following)
    if found.fault:
        raise typer.Exit(1)


def _count(path: Path) -> RawText:
    from saccade.data.files.lines import lines_of

    found = RawText(str(path))
    for line in lines_of(path):
        if line.fault is not None:
            found.fault = found.fault or str(line.fault.error)
        elif line.text.strip():
            found.lines, found.words = found.lines + 1, found.words + len(line.text.split())
    if not found.lines and not found.fault:
        raise InputError(path, expected="at least one line of text", found="none")
    return found


def _write(save: Path | None, found: RawText, force: bool) -> None:
    from saccade.storage import write_text

    if save is None:
        return
    if save.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(save, field="--recipe", expected="a name that ends in .yaml", found=repr(save.suffix))
    if save.exists() and not force:
        raise InputError(save, field="--recipe", expected="a new file", found="one that exists", hint="add --force")
    write_text(save, found.recipe(save.parent))


def _page(found: RawText, recipe: str, saved: Path | None) -> Iterator[str]:
    yield f"{found.path}: {found.lines:,} lines of text, {found.words:,} words"
    yield ""
    if found.fault:
        yield f"It would not train: {found.fault}"
        return
    yield f"It would train: {AS_IT_STANDS}."
    yield "  pairs?   two text files whose lines belong together, or --format tsv"
    yield f"  labels?  where each line begins with its label: saccade data {shlex.quote(found.path)} --label label"
    yield ""
    yield "A recipe for a language model:" if saved is None else f"A recipe for a language model, written to {saved}:"
    yield from (f"  {line}" for line in recipe.splitlines())


def _print(plain: dict[str, Any], as_json: bool, page: Any, following: Sequence[str]) -> None:
    if as_json:
        print(json.dumps(plain, ensure_ascii=False))
        return
    for line in page:
        print(line)
    if following:
        print("\nNext:")
        for command in following:
            print(f"  {command}")
