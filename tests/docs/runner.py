"""Runs a page of documentation from top to bottom in a folder of its own, as a patient reader would.

Python blocks share one namespace; one that the prose calls ``name.py`` is saved under that name too. Lines that call
``saccade`` are run in this process. A YAML block is a recipe, or a part of one, and is checked; a whole one is saved under
the name that the page gives it. A ``text`` block right after a Python block is what it prints (``…`` stands for anything).
Training is cut to two updates on a few records: see :func:`hasten`.
"""

from __future__ import annotations

import functools
import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
import yaml

from saccade.cli import app, main
from saccade.recipes.recipe import find, read_recipe
from tests.docs.blocks import ROOT, Block

MINIMAL = {"task": "translate", "data": {"train": "pairs.tsv"}, "model": {"name": "rnnsearch"}}
OPERATORS = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "&"}
RUN_FOLDER = re.compile(r"\bruns/[\w.-]+(?:/[\w.-]+)*")


@dataclass
class Reader:
    """Someone who works through a page: ``supplies`` has the files and runs that pages take for granted."""

    supplies: Path
    variables: dict[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    lent: set[str] = field(default_factory=set)  # runs that the page did not train itself
    printed: str = ""

    def follow(self, blocks: list[Block]) -> None:
        for number, block in enumerate(blocks):
            act = {"python": self.python, "sh": self.shell, "yaml": self.recipe, "text": self.output}.get(
                block.language
            )
            if act is None:
                continue
            try:
                act(block, blocks[number + 1 :])
            except Exception as error:
                raise AssertionError(f"{block.place}: {type(error).__name__}: {error}") from error

    def python(self, block: Block, _: list[Block]) -> None:
        text = block.text
        if block.mark == "shortened":
            long, short = (part.strip() for part in block.reason.split("→"))
            if long not in text:
                raise AssertionError(f"expected {long!r} in the block, which is to be shortened")
            text = text.replace(long, short)
        code = compile("\n" * (block.line - 1) + text, str(block.page), "exec")
        saved = re.findall(r"`([\w./-]+\.py)`", block.before.strip().rpartition("\n\n")[2])
        if saved:
            Path(saved[-1]).parent.mkdir(parents=True, exist_ok=True)
            Path(saved[-1]).write_text(text, encoding="utf-8")
        if block.mark == "not run":
            return
        self.lend(block.text)
        heard = io.StringIO()
        try:
            with redirect_stdout(heard):
                exec(code, self.names)
        except Exception:
            if block.mark != "fails":
                raise
        else:
            if block.mark == "fails":
                raise AssertionError(f"expected an error ({block.reason}), found none")
        self.printed = heard.getvalue()

    def output(self, block: Block, _: list[Block]) -> None:
        if not block.touching or block.mark or not self.printed:
            return
        wanted = ".*?".join(re.escape(part) for part in block.text.strip().split("…"))
        if not re.fullmatch(wanted, self.printed.strip(), re.DOTALL):
            raise AssertionError(f"the page says that this is printed, but it was\n{self.printed}")

    def recipe(self, block: Block, after: list[Block]) -> None:
        if block.mark == "not run":
            return
        tree = yaml.safe_load(block.text)
        if not isinstance(tree, dict):
            raise AssertionError("expected a recipe or a part of one")
        whole = "task" in tree
        path = Path(_file_name(block, after)) if whole else Path("part-of-a-recipe.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text if whole else yaml.safe_dump(_completed(tree), allow_unicode=True), encoding="utf-8")
        try:
            read_recipe(path)
        except Exception:
            if block.mark != "fails":
                raise
        else:
            if block.mark == "fails":
                raise AssertionError(f"expected a refusal ({block.reason}), found none")

    def shell(self, block: Block, _: list[Block]) -> None:
        for line in _commands(block.text):
            assigned = re.fullmatch(r"(?:export )?([A-Z_]+)=(.*)", line)
            if assigned and " saccade " not in line:
                self.variables[assigned[1]] = self._assigned(assigned[1], line)
                continue
            check_install(line)
            words = _words(line, self.variables)
            if words is None:
                continue
            recipe, overrides = check_command(words)
            if words[0].startswith("-"):
                continue
            if block.mark != "not run" and not (recipe and _needs_downloads(recipe)):
                self._run(words, fails=block.mark == "fails")
            elif recipe and find(recipe).exists():
                # Several values, as of a sweep, are not for one recipe; each field is checked by its first.
                read_recipe(recipe, [text if "[" in text else text.partition(",")[0] for text in overrides])

    def _assigned(self, name: str, line: str) -> str:
        found = subprocess.run(
            ["bash", "-c", f'{line}\nprintf %s "${name}"'], capture_output=True, text=True, check=True
        )
        return found.stdout

    def _run(self, words: list[str], *, fails: bool) -> None:
        line = shlex.join(["saccade", *words])
        if "--serve" in words:
            raise AssertionError(f"{line} serves until it is stopped: mark it <!-- not run: … -->")
        out = words[words.index("--out") + 1] if "--out" in words else ""
        if words[0] == "train" and out in self.lent:
            shutil.rmtree(out)
            self.lent.remove(out)
        spoken_of = [word for word in words if words[0] != "train" or word != out]
        self.lend(" ".join(["runs/my" if word == "runs" else word for word in spoken_of]))
        said = io.StringIO()
        before, sys.argv, sys.stdin = (sys.argv, sys.stdin), ["saccade", *words], io.StringIO("seven\nforty-two\n")
        try:
            with redirect_stdout(said), redirect_stderr(said):
                main()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            sys.argv, sys.stdin = before
        if bool(status) != fails:
            raise AssertionError(f"{line}: exit status {status}\n{said.getvalue()}")

    def lend(self, text: str) -> None:
        """Runs that the text speaks of and nothing made yet."""
        for name in RUN_FOLDER.findall(text):
            known = self.supplies / name if (self.supplies / name).is_dir() else self.supplies / "runs/my"
            if not Path(name).exists() and not Path(name).suffix:
                shutil.copytree(known, name)
                self.lent.add(name)


def check_command(words: list[str]) -> tuple[str, list[str]]:
    """Command, options and arguments are those there are; returns the recipe to train by and its overrides, if any."""
    command: Any = typer.main.get_command(app)
    if words[0].startswith("-"):
        # Only by name: to parse --install-completion is to install it.
        if not any(words[0] in (*option.opts, *option.secondary_opts) for option in command.params):
            raise AssertionError(f"saccade has no option {words[0]!r}")
        return "", []
    with command.make_context("saccade", list(words), resilient_parsing=False) as context:
        name, inner, rest = command.resolve_command(context, words)
        with inner.make_context(name, list(rest), parent=context) as given:
            recipe, overrides = given.params.get("recipe") or "", given.params.get("overrides") or []
    if recipe:
        find(recipe)
    return str(recipe), list(overrides)


def check_install(line: str) -> None:
    """``make TARGET`` and ``pip install 'saccade[EXTRA]'`` name what there is."""
    for target in re.findall(r"^make ([a-z]+)", line):
        if not re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
            raise AssertionError(f"the Makefile has no target {target!r}")
    if "pip install" in line:
        offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for extras in re.findall(r"\[([a-z, ]+)\]", line):
            unknown = [extra for extra in re.split(r"[ ,]+", extras) if extra not in offered]
            if unknown:
                raise AssertionError(f"pyproject.toml has no extra {unknown[0]!r}")


def hasten(monkeypatch: Any) -> None:
    """Recipes are read and checked as they stand; then what would take long is cut down, and no figure is expected."""
    from saccade.data.points.records import PointData
    from saccade.data.toy.agreement import Agreement
    from saccade.data.toy.contrasts import Contrasts
    from saccade.data.toy.dates import Dates
    from saccade.data.toy.facts import Facts
    from saccade.data.toy.needles import Needles
    from saccade.data.toy.opinions import Opinions
    from saccade.data.toy.phonemes import Phonemes
    from saccade.data.toy.relations import Verbs
    from saccade.data.toy.repeats import Repeats
    from saccade.data.toy.spelling import Spelling
    from saccade.data.toy.tones import Tones
    from saccade.data.toy.topics import Topics
    from saccade.recipes.recipe import Expect
    from saccade.training.config import Train

    _limit(monkeypatch, Train, {"epochs": 1, "updates": 2, "watch_records": 7}, device="cpu", watch="loss")
    _limit(monkeypatch, Dates, {"train": 99, "valid": 7, "test": 7}, languages=("de", "pt"))
    _limit(monkeypatch, Agreement, {"train": 200, "valid": 7, "test": 7})
    _limit(monkeypatch, Facts, {"train": 60, "valid": 7, "test": 7})
    _limit(monkeypatch, Needles, {"train": 60, "valid": 7, "test": 7})
    _limit(monkeypatch, Opinions, {"train": 99, "valid": 7, "test": 7})
    _limit(monkeypatch, Contrasts, {"train": 60, "valid": 7, "test": 7})
    _limit(monkeypatch, Verbs, {"train": 60, "valid": 7, "test": 7})
    _limit(monkeypatch, Repeats, {"train": 60, "valid": 7, "test": 7})
    _limit(monkeypatch, Spelling, {"train": 99, "valid": 7, "test": 7})
    _limit(monkeypatch, Phonemes, {"words": 200})
    _limit(monkeypatch, Tones, {"train": 60, "valid": 7, "test": 7})
    _limit(monkeypatch, Topics, {"train": 60, "valid": 7, "test": 7})
    _limit(monkeypatch, PointData, {"train": 64, "valid": 16, "test": 16}, when=lambda data: data.source is not None)
    monkeypatch.setattr(Expect, "met", lambda self, figure: True)


def _limit(monkeypatch: Any, kind: type, most: dict[str, int], *, when: Any = lambda made: True, **fixed: Any) -> None:
    begin = kind.__init__

    @functools.wraps(begin)
    def begin_small(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        if when(self):
            for name, number in most.items():
                now = getattr(self, name)
                object.__setattr__(self, name, number if now is None else min(number, now))
            for name, value in fixed.items():
                object.__setattr__(self, name, value)

    monkeypatch.setattr(kind, "__init__", begin_small)


def _commands(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        yield line.strip().removeprefix("$ ")


def _words(line: str, variables: dict[str, str]) -> list[str] | None:
    """The arguments of the line's ``saccade`` command; None where it has none."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return None
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if "|" in words and words[0] != "saccade":
        words = words[words.index("|") + 1 :]
    if not words or words[0] != "saccade":
        return None
    end = next((number for number, word in enumerate(words) if word in OPERATORS), len(words))
    filled = [re.sub(r"\$(\w+)", lambda found: variables.get(found[1], found[0]), word) for word in words[1:end]]
    return ["runs/my" if word == "RUN" else word for word in filled]


def _needs_downloads(recipe: str) -> bool:
    """Its files are not the page's: their folder is named by a variable."""
    path = find(recipe)
    return path.exists() and "$" in path.read_text(encoding="utf-8")


def _file_name(block: Block, after: list[Block]) -> str:
    """What the prose in front calls the file, or the commands behind it."""
    named = re.findall(r"`([\w./-]+\.yaml)`", block.before)
    if named:
        return str(named[-1])
    trained = [
        found for later in after if later.language == "sh" for found in re.findall(r"([\w-]+\.yaml)", later.text)
    ]
    return next((name for name in trained if not Path(name).exists()), "my.yaml")


def _completed(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a recipe with the least that makes it whole."""
    data = {
        **({} if {"train", "source"} & set(part.get("data") or {}) else MINIMAL["data"]),
        **(part.get("data") or {}),
    }
    return {**MINIMAL, **part, "data": data, "model": {**MINIMAL["model"], **(part.get("model") or {})}}
