"""What holds for EVERY task: TASKS and the task's page agree, and no code outside tasks/ asks a task what it is."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import saccade
from saccade import task as contract
from saccade.data.texts.records import PieceTokens, PretrainData
from saccade.data.toy.topics import Topics
from saccade.kinds import InputKind, OutputKind
from saccade.models import bert
from saccade.task import Surveys, Task
from saccade.tasks import TASKS, data_class, metrics_of, task_class
from saccade.testing.promises import keep
from saccade.testing.tasks import PROMISES, _loss, _records, _Subject

SOURCE = Path(saccade.__file__).parent
CAPABILITIES = {"Searches", "Steers", "Calibrates", "FineTunes", "Scores", "Surveys"}
TASK_PARTS = ("tasks/", "task.py", "testing/")
CHOOSES_A_SURVEY = "cli/data.py"  # by the text of a recipe, before there is a task


@pytest.mark.parametrize("name", TASKS)
def test_a_line_of_the_register_agrees_with_the_tasks_page(name: str) -> None:
    task = task_class(name)
    assert issubclass(task, Task) and not task.__abstractmethods__
    assert task.name == name
    assert task.Data is data_class(name)
    assert task.metrics == metrics_of(name) and task.metrics
    assert isinstance(task.input, InputKind)
    assert task.output in get_args(OutputKind)


@pytest.mark.parametrize("name", TASKS)
def test_what_a_task_can_do_is_a_type_and_its_methods_are_written(name: str) -> None:
    task = task_class(name)
    for capability in CAPABILITIES:
        kind = getattr(contract, capability)
        declared = [method for method, value in vars(kind).items() if inspect.isfunction(value)]
        written = {method for method in declared if getattr(task, method, None) not in (None, vars(kind)[method])}
        if issubclass(task, kind):
            assert not set(declared) - written, f"{name} is one of the {capability} without {set(declared) - written}"
        else:
            assert not written, f"{name} has {written}, and is not one of the {capability}"
    if issubclass(task, Surveys):
        assert isinstance(task.survey, str)


def test_the_capabilities_tried_here_are_all_there_are() -> None:
    bases = {base for name in TASKS for base in task_class(name).__mro__ if base.__module__ == contract.__name__}
    assert {base.__name__ for base in bases} - {"Task"} == CAPABILITIES


@pytest.mark.parametrize("name", TASKS)
def test_data_and_metrics_are_known_without_torch(name: str) -> None:
    program = f"""
import sys
from saccade.tasks import data_class, metrics_of
data_class({name!r}), metrics_of({name!r})
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.usefixtures("shapes_unchecked")
def test_pretraining_keeps_every_promise_but_those_of_one_row_per_record() -> None:
    """A document is several rows, and the loss is a sum of two means: it depends on the cut (tests/tasks/test_pretrain.py)."""
    data = PretrainData(
        source="topics", topics=Topics(train=23, valid=5, test=7), length=32, tokens=PieceTokens(size=300)
    )
    config = bert.Config(layers=1, width=6, heads=2, feed_forward=8, positions=40, dropout=0.0)
    inputs = ("this [MASK] waits .", "these dogs wait .\tthis cat waits .")
    subject = _Subject(task_class("pretrain"), data, bert.Bert, config, inputs, metrics_of("pretrain"), SOURCE)
    keep("pretrain", subject, {told: show for told, show in PROMISES.items() if show not in (_records, _loss)})


# No code outside tasks/ asks a task what it is ------------------------------------------------------------------------------


def is_task(node: ast.AST) -> bool:
    """Whether an expression is a task, its class or its name: task, bundle.task, recipe.task, task.name, task_class(…)."""
    if isinstance(node, ast.Call):
        return is_task(node.func) and ast.unparse(node.func).endswith("task_class")
    text = ast.unparse(node)
    return isinstance(node, ast.Name | ast.Attribute) and (
        text.rpartition(".")[2] in ("task", "task_class", "task_name") or text.endswith("task.name")
    )


def names_a_task(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and part.value in TASKS for part in ast.walk(node))


def questions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where code asks a task what it is: the line, and the expression."""
    for node in ast.walk(tree):
        asked = False
        if isinstance(node, ast.Call) and node.args:
            called, first = ast.unparse(node.func).rpartition(".")[2], node.args[0]
            owner = first.value if isinstance(first, ast.Attribute) and not is_task(first) else first
            if called in ("getattr", "hasattr", "signature"):
                asked = is_task(owner)
            elif called in ("isinstance", "issubclass") and is_task(first):
                classes = {ast.unparse(part).rpartition(".")[2] for part in parts_of(node.args[1])}
                asked = not classes <= CAPABILITIES
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asked = any(map(is_task, sides)) and any(map(names_a_task, sides))
        elif isinstance(node, ast.Match):
            asked = is_task(node.subject)
        elif isinstance(node, ast.Subscript):
            asked = is_task(node.slice) and names_a_task(node.value)
        if asked:
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def parts_of(node: ast.AST) -> list[ast.AST]:
    """The classes of an isinstance: one, a tuple, or joined by |."""
    if isinstance(node, ast.Tuple):
        return [part for element in node.elts for part in parts_of(element)]
    return parts_of(node.left) + parts_of(node.right) if isinstance(node, ast.BinOp) else [node]


def test_no_code_outside_tasks_asks_a_task_what_it_is() -> None:
    paths = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
    outside = {name: path for name, path in paths.items() if not name.startswith((*TASK_PARTS, CHOOSES_A_SURVEY))}
    assert len(outside) > 100, "the package was not found"
    found = [
        f"{name}:{line}: {text}"
        for name, path in outside.items()
        for line, text in questions(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(["ask for a capability or declare a fact in saccade.task.Task instead of:", *found])


@pytest.mark.parametrize(
    "line",
    [
        'getattr(bundle.task, "searches", True)',
        'hasattr(task_class(recipe.task), "judgements")',
        "inspect.signature(self.task.predict)",
        "isinstance(contest.task, Classify)",
        "issubclass(task_class(name), Label | Rank)",
        "isinstance(task, (Searches, Translate))",
        'recipe.task == "classify"',
        'task.name in ("language", "pretrain")',
        '"rank" != bundle.task.name',
        '{"classify": 1, "rank": 2}[recipe.task]',
    ],
)
def test_such_questions_are_found(line: str) -> None:
    assert list(questions(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(bundle.task, Searches)",
        "isinstance(task, Steers) and task.takes_dictionary",
        'bundle.task.output == "label"',
        'getattr(recipe.data, "train", None)',
        "first.recipe.task != other.recipe.task",
        'kind == "label"',
        "name in TASKS",
    ],
)
def test_what_the_contract_declares_may_be_asked(line: str) -> None:
    assert not list(questions(ast.parse(line)))
