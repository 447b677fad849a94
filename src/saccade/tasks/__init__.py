"""What a network is for. A name loads its page when first used.

A name with a colon, ``package.module:Name``, is a user's own task: it fulfils :class:`saccade.task.Task` and says by
``data_class`` what a recipe's ``data`` is read into, by ``metrics`` which figures it computes.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from saccade.plugins import FORM, PartError, is_own, load_class

TASKS: dict[str, str] = {
    "translate": "saccade.tasks.translate:Translate",
    "point": "saccade.tasks.point:Point",
    "classify": "saccade.tasks.classify:Classify",
    "label": "saccade.tasks.label:Label",
    "rank": "saccade.tasks.rank:Rank",
    "language": "saccade.tasks.language:Language",
    "pretrain": "saccade.tasks.pretrain:Pretrain",
    "vectors": "saccade.tasks.vectors:WordVectors",
    "visits": "saccade.tasks.visits:VisitTask",
}


def task_class(name: str) -> Any:
    """The task that a recipe's ``task`` means."""
    if is_own(name):
        return _own_task(name)
    if name not in TASKS:
        raise PartError(name, expected=f"one of {', '.join(TASKS)}, or your own ({FORM})", found="no such task")
    module, _, attribute = TASKS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _own_task(name: str) -> Any:
    from saccade.task import Task

    task = load_class(name, object, "saccade.task.Task")
    promised = [member for member in vars(Task) if not member.startswith("_") and callable(getattr(Task, member))]
    missing = [member for member in promised if not callable(getattr(task, member, None))]
    if missing:
        raise PartError(name, expected="the methods of saccade.task.Task", found=f"none named {', '.join(missing)}")
    data = getattr(task, "data_class", None)
    if not (isinstance(data, type) and dataclasses.is_dataclass(data)):
        found = "none" if data is None else repr(data)
        raise PartError(name, expected="a task with a data_class, the dataclass of a recipe's data", found=found)
    return task
