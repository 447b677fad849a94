"""Registers the tasks by name, one line per task, and nowhere else.

A line has the module of the task and, so that torch need not be loaded, its data class and its metrics; the first metric is the
default. A name with a colon, ``package.module:Name``, is a custom task: a class that derives from :class:`saccade.task.Task`.
"""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass
from typing import Any

from saccade.plugins import FORM, PartError, is_own, load_class


@dataclass(frozen=True)
class Spec:
    """The parts of a task as ``module:name``; the modules of ``data`` and ``metrics`` do not import torch."""

    page: str
    data: str
    metrics: str


TASKS: dict[str, Spec] = {
    "translate": Spec("translate:Translate", "pairs.records:PairData", "text:TEXT_METRICS"),
    "point": Spec("point:Point", "points.records:PointData", "text:POINT_METRICS"),
    "classify": Spec("classify:Classify", "labels.records:LabelledData", "labels:CLASSIFIER_METRICS"),
    "label": Spec("label:Label", "tags.records:TaggedData", "labels:TAG_METRICS"),
    "rank": Spec("rank:Rank", "rankings.records:RankedData", "ranking:RANKING_METRICS"),
    "language": Spec("language:Language", "texts.records:TextData", "text:LANGUAGE_METRICS"),
    "pretrain": Spec("pretrain:Pretrain", "texts.records:PretrainData", "text:MASKED_METRICS"),
    "vectors": Spec("vectors:WordVectors", "texts.records:WordData", "text:VECTOR_METRICS"),
    "caption": Spec("caption:Caption", "images.records:CaptionData", "captions:CAPTION_METRICS"),
    "transcribe": Spec("transcribe:Transcribe", "audio.records:SpeechData", "transcripts:TRANSCRIPT_METRICS"),
    "visits": Spec("visits:VisitTask", "visits.records:VisitData", "outcomes:OUTCOME_METRICS"),
    "classify_images": Spec(
        "classify_images:ClassifyImages", "images.records:LabelledImageData", "labels:IMAGE_METRICS"
    ),
    "generate": Spec("generate:Generate", "images.records:GenerateData", "pictures:PICTURE_METRICS"),
}


def task_class(name: str) -> Any:
    """The class of the task with this name."""
    return _own_task(name) if is_own(name) else _loaded("saccade.tasks", _spec(name).page)


def data_class(name: str) -> Any:
    """The dataclass of a recipe's ``data`` section for this task."""
    return task_class(name).Data if is_own(name) else _loaded("saccade.data", _spec(name).data)


def metrics_of(name: str) -> tuple[str, ...]:
    """The metrics that a recipe for this task may name."""
    metrics: tuple[str, ...] = (
        task_class(name).metrics if is_own(name) else _loaded("saccade.metrics", _spec(name).metrics)
    )
    return metrics


def _spec(name: str) -> Spec:
    if name not in TASKS:
        raise PartError(name, expected=f"one of {', '.join(TASKS)}, or your own ({FORM})", found="no such task")
    return TASKS[name]


def _loaded(package: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(f"{package}.{module}"), attribute)


def _own_task(name: str) -> Any:
    from saccade.task import Task

    task = load_class(name, Task, "saccade.task.Task")
    missing = sorted(task.__abstractmethods__)
    missing += [part for part in ("name", "Data", "metrics", "input", "output") if not hasattr(task, part)]
    if missing:
        raise PartError(
            name, expected="the methods and attributes of saccade.task.Task", found=f"none named {', '.join(missing)}"
        )
    if not dataclasses.is_dataclass(task.Data):
        expected = "a task whose Data is the dataclass of a recipe's data"
        raise PartError(name, expected=expected, found=repr(task.Data))
    return task
