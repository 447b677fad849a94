"""The code that the pages of papers name beside each equation exists, and stands where they say."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from torch import nn
from torch.nn import functional

from saccade.models import MODELS
from tests.docs.blocks import ROOT

SOURCE = ROOT / "src/saccade"
PAGES = sorted((ROOT / "docs/papers").glob("*.md"))
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_][\w.]*")
RECIPE = re.compile(r"(train|data|model|search)\.\w+(: .*)?|\w+: .*")  # fields and settings, which other tests hold


@dataclass
class Defined:
    """What a class or a function is made of: the names it defines, and all that occur in it."""

    members: set[str] = field(default_factory=set)
    inside: dict[str, set[str]] = field(default_factory=dict)  # method → the names in it
    bases: list[str] = field(default_factory=list)


@cache
def classes() -> dict[str, list[Defined]]:
    found: dict[str, list[Defined]] = {}
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(defined(node))
    return found


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


@cache
def top_level() -> dict[str, set[str]]:
    """Module or package → what it offers."""
    offered: dict[str, set[str]] = {}
    for path, tree in trees().items():
        module = path.parent.name if path.name == "__init__.py" else path.stem
        names = offered.setdefault(module, set())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.ImportFrom):
                names |= {alias.asname or alias.name for alias in node.names}
            names |= {
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
        offered.setdefault(path.parent.name, set()).add(path.stem)
    return offered


def occurring(node: ast.AST) -> set[str]:
    names = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name):
                names.add(name)
    return names


def defined(node: ast.ClassDef) -> Defined:
    made = Defined(bases=[base.id for base in node.bases if isinstance(base, ast.Name)])
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            made.members.add(each.name)
            made.inside[each.name] = occurring(each)
        else:
            made.members |= {part.id for part in ast.walk(each) if isinstance(part, ast.Name)}
    made.members |= {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"
    }
    return made


def members(name: str) -> set[str]:
    found = set[str]()
    for each in classes().get(name, []):
        found |= each.members.union(*(members(base) for base in each.bases if base != name))
    return found


def rows(page: Path) -> list[tuple[int, str]]:
    """The code beside each equation: the last column of the tables under "Equations and code"."""
    found, within = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            within = line == "## Equations and code"
        if within and line.startswith("|") and not line.startswith("|---"):
            found.append((number, re.split(r"(?<!\\)\|", line)[-2]))
    return found[1:]


def prose(page: Path) -> list[tuple[int, str]]:
    """What stands elsewhere on the page: files, and members of classes."""
    lines = re.sub(
        r"```.*?```", lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"), flags=re.S
    )
    table = {number for number, _ in rows(page)}
    found = [
        (number, f"`{code}`")
        for number, line in enumerate(lines.splitlines(), 1)
        for code in CODE.findall(line)
        if number not in table and re.fullmatch(r"src/[\w/.]+|[A-Z]\w*\.\w+", code)
    ]
    return [(number, code) for number, code in found if "/" in code or code[1:].partition(".")[0] in classes()]


def faults(cell: str) -> list[str]:
    """What a cell names and nobody finds. Its first ``Class.method`` says where the names without a place stand."""
    codes = [code for code in CODE.findall(cell) if not RECIPE.fullmatch(code)]
    placed = [name[0].removeprefix("saccade.").split(".") for code in codes if (name := NAME.match(code))]
    owner, method = next((parts[-2:] for parts in placed if len(parts) > 1 and parts[-2] in classes()), ("", ""))
    here = inside(owner, method) | members(owner)
    wrong = [code for code in codes if "/" in code and not any((folder / code).exists() for folder in (ROOT, SOURCE))]
    for code in codes:
        name = NAME.match(code)
        if name is None or "/" in code:
            continue
        *before, last = name[0].removeprefix("saccade.").split(".")
        if not before:
            found = last in here or last in classes() or any(last in names for names in top_level().values())
            found = found or hasattr(functional, last)
        elif (holder := before[-1]) in here or holder == "self":
            found = last in set().union(*map(members, classes()))
        else:
            found = last in members(holder) or last in top_level().get(holder, ())
            found = found or (holder == "nn" and hasattr(nn, last))
        if not found:
            wrong.append(code)
    for name, holder, last in re.findall(r"`(?:\w+\.)*(\w+)(?:\([^`]*)?` in `(\w+)\.(\w+)`", cell):
        if holder in classes() and name not in inside(holder, last):
            wrong.append(f"{name} in {holder}.{last}")
    return wrong


def inside(owner: str, method: str) -> set[str]:
    """The names that occur in a method."""
    return set().union(*(each.inside.get(method, set()) for each in classes().get(owner, [])))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_that_a_paper_page_names_exists(page: Path) -> None:
    assert rows(page), "a table of equations and code"
    named = [*rows(page), *prose(page)]
    assert [f"{page.name}:{line}: {fault}" for line, cell in named for fault in faults(cell)] == []


@pytest.mark.parametrize(
    "cell",
    [
        "`RNNSearch.encode`: `weights_of`",
        "`RNNSearch.align`",
        "`windows.trapezoid(radius)`",
        "`additive(self.v)` in `RNNSearch._look_and_move`",
        "`_near_by`",
        "`_chosen` in `data/texts/gone.py`",
    ],
)
def test_code_that_is_gone_is_found(cell: str) -> None:
    assert faults(cell)


def test_every_model_of_a_paper_has_a_page_that_names_its_file() -> None:
    said = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    files = {str(entry).partition(":")[0].rpartition(".")[2] for entry in MODELS.values()}
    assert files
    own = {"attentive_classifier", "recurrent_lm", "visit_baselines"}  # of no paper, described in the guides
    assert {name for name in files - own if f"src/saccade/models/{name}.py" not in said} == set()
