"""What ``saccade data`` reports of a file: one class per kind of data. No torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.data.survey.survey import Survey

# In the order in which they are asked whether they recognise a file; pairs take what is left.
SURVEYS = {
    "rankings": "saccade.data.survey.rankings:RankingSurvey",
    "tags": "saccade.data.survey.tags:TagSurvey",
    "labels": "saccade.data.survey.labels:LabelSurvey",
    "texts": "saccade.data.survey.texts:TextSurvey",
    "pairs": "saccade.data.survey.pairs:PairSurvey",
}


def surveys() -> Iterator[type[Survey]]:
    """The classes of :data:`SURVEYS`."""
    for name in SURVEYS.values():
        module, _, attribute = name.partition(":")
        yield getattr(importlib.import_module(module), attribute)
