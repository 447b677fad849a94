"""Surveys data files for ``saccade data``: one class per kind of data. No torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.data.survey.survey import Survey

# In the order in which they are asked whether they recognise a file; pairs take what is left.
SURVEYS = {
    "visits": "saccade.data.survey.visits:VisitSurvey",
    "rankings": "saccade.data.survey.rankings:RankingSurvey",
    "tags": "saccade.data.survey.tags:TagSurvey",
    "recordings": "saccade.data.survey.recordings:RecordingSurvey",
    "captions": "saccade.data.survey.pictures:CaptionSurvey",
    "pictures": "saccade.data.survey.pictures:PictureSurvey",
    "labels": "saccade.data.survey.labels:LabelSurvey",
    "texts": "saccade.data.survey.texts:TextSurvey",
    "pairs": "saccade.data.survey.pairs:PairSurvey",
}


def survey_class(kind: str) -> type[Survey]:
    """The survey of a kind of data."""
    module, _, attribute = SURVEYS[kind].partition(":")
    survey: type[Survey] = getattr(importlib.import_module(module), attribute)
    return survey


def surveys() -> Iterator[type[Survey]]:
    """All of them."""
    return map(survey_class, SURVEYS)
