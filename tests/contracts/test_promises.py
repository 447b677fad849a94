"""The shipped scores, normalisers, windows and tasks keep the promises that are asked of a user's (saccade.testing)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from saccade.attention.normalise import entmax15, sharpened, softmax, sparsemax
from saccade.attention.own import NORMALISERS
from saccade.attention.scores import additive, cosine, dot, general, location, scaled_dot
from saccade.attention.windows import band, causal, everywhere, gaussian, padding
from saccade.data.labels.records import LabelledData
from saccade.data.pairs.records import PairData
from saccade.data.points.records import PointData
from saccade.data.rankings.records import RankedData
from saccade.data.texts.records import CommonWords, TextData, WordData
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.data.toy.agreement import Agreement
from saccade.data.toy.dates import Dates
from saccade.data.toy.facts import Facts
from saccade.data.toy.opinions import Opinions
from saccade.data.toy.topics import Topics
from saccade.models import attentive_classifier, luong, pointer, recurrent_lm, rnnsearch, siamese, skipgram
from saccade.tasks import TASKS
from saccade.testing import check_normaliser, check_score, check_task, check_window

CENTRE = torch.tensor([[0.3, 1.2, 2.7, 3.1], [1.0, 40.0, 0.4, 4.0]], dtype=torch.float64)
LENGTHS = torch.tensor([5, 3])


@pytest.mark.parametrize(
    ("score", "query_width", "key_width"),
    [
        (dot, 5, 5),
        (scaled_dot, 5, 5),
        (general(torch.randn(5, 7)), 5, 7),
        (additive(torch.randn(3), torch.randn(3, 5), torch.randn(3, 7)), 5, 7),
        (additive(torch.randn(5)), 5, 5),
        (location(torch.randn(9, 5)), 5, 7),
        (location(torch.randn(3, 5)), 5, 7),
        (cosine(2.5), 5, 5),
    ],
    ids=repr,
)
def test_a_shipped_score_keeps_its_promises(score, query_width, key_width):
    check_score(score, query_width, key_width)


@pytest.mark.parametrize("normalise", [softmax, sharpened(1.5), sharpened(0.5), sparsemax, entmax15], ids=repr)
def test_a_shipped_normaliser_keeps_its_promises(normalise):
    check_normaliser(normalise)


def test_every_normaliser_that_a_recipe_can_name_is_tried_here():
    assert set(NORMALISERS.values()) == {softmax, sparsemax, entmax15}


@pytest.mark.parametrize(
    "window",
    [everywhere, causal, causal("top-left"), causal("bottom-right"), band(0), band(2), padding(LENGTHS), causal & band(1),
     padding(torch.arange(5) < LENGTHS.unsqueeze(-1)), band(2) & padding(LENGTHS)],
    ids=repr,
)  # fmt: skip
def test_a_shipped_window_keeps_its_promises(window):
    check_window(window)


@pytest.mark.parametrize("make", [lambda c: band(1, c), lambda c: gaussian(c, 2), lambda c: gaussian(c, 1) & causal])
def test_a_shipped_window_around_a_centre_keeps_its_promises(make):
    check_window(make(CENTRE), row=lambda t: make(CENTRE[:, t : t + 1]))


DATES = PairData(source="dates", dates=Dates(train=23, valid=5, test=7, languages=("de",)))
TASK_CASES = {
    "translate": [
        (DATES, "rnnsearch", rnnsearch.Config(6, 4, 3)),
        (replace(DATES, shared=True, tokens=TokenizerConfig(kind="words")), "luong", luong.Config(6, 4, dropout=0.3)),
        (replace(DATES, max_length=9, too_long="truncate"), "luong", luong.Config(6, 4)),
    ],
    "point": [
        (PointData(source="hull", train=23, valid=5, test=7), "pointer", pointer.Config(6)),
        (PointData(source="sorting", train=23, valid=5, test=7), "pointer", pointer.Config(6, revisit=False)),
    ],
    "language": [
        (
            TextData(
                source="agreement", agreement=Agreement(23, 5, 7), tokens=TokenizerConfig(kind="words"), longest=9
            ),
            "recurrent_lm",
            recurrent_lm.Config(6, 4, dropout=0.3),
        ),
    ],
    "classify": [
        (
            LabelledData(source="opinions", opinions=Opinions(train=23, valid=5, test=7)),
            "attentive_classifier",
            attentive_classifier.Config(5, encoder="gru", hidden=4),
        ),
    ],
}
TASK_CASES["rank"] = [
    (RankedData(source="facts", facts=Facts(train=23, valid=5, test=7), loss=loss), "siamese", config)
    for loss, config in (
        ("listwise", siamese.Config(5, encoder="gru", hidden=4, mlp=3)),
        ("pointwise", siamese.Config(5, encoder="none", mlp=3, compare="alignment", overlap=True)),
    )
]
TASK_CASES["vectors"] = [
    (
        WordData(source="topics", topics=Topics(train=150, valid=5, test=7), tokens=CommonWords(size=300, min_count=1)),
        "skipgram",
        skipgram.Config(5),
    )
]


# Tasks that their own tests check. pretrain: its loss is a sum of two means, which depends on how records are cut into batches;
# label: its metrics depend on its tags.
TRIED_BY_ITSELF = {"pretrain", "label", "visits", "caption", "classify_images", "generate", "transcribe"}


def test_every_task_is_tried_here():
    assert set(TASK_CASES) | TRIED_BY_ITSELF == set(TASKS)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(("task", "case"), [(task, case) for task, cases in TASK_CASES.items() for case in cases])
def test_a_shipped_task_keeps_its_promises(task, case):
    assert len(check_task(task, *case)) == 16
