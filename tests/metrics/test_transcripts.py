"""Error rates of transcripts, and the list of their errors."""

from __future__ import annotations

import random

import pytest
from rapidfuzz.distance import Levenshtein

from saccade.errors import SaccadeError
from saccade.metrics.significance import paired_difference
from saccade.metrics.transcripts import (
    FOLDED,
    NOTHING,
    PAIRED_TRANSCRIPT_METRICS,
    Errors,
    folded,
    transcript_scores,
    transcript_statistics,
)

TRUE = ["go to the red house", "stop", "one two two three", "yes"]
HEARD = ["go the the red mouse", "stop it", "one two three", ""]


def test_error_rates_count_substitutions_deletions_and_insertions_over_the_corpus() -> None:
    found = transcript_scores(["wer", "cer", "per", "exact_match"], HEARD, TRUE)
    assert found["wer"].value == found["per"].value == (2 + 1 + 1 + 1) / (5 + 1 + 4 + 1)
    edits = sum(Levenshtein.distance(one, other) for one, other in zip(HEARD, TRUE, strict=True))
    assert found["cer"].value == edits / sum(map(len, TRUE))
    assert found["exact_match"].value == 0
    assert [found[name].higher_is_better for name in found] == [False, False, False, True]
    assert transcript_scores(["wer"], ["a b c d"], ["a"])["wer"].value == 3, "above 1"


def test_every_error_is_listed_with_what_was_heard() -> None:
    errors = Errors.of(HEARD, TRUE)
    assert errors.substituted == {("to", "the"): 1, ("house", "mouse"): 1}
    assert errors.deleted == {"two": 1, "yes": 1} and errors.inserted == {"it": 1}
    rows = errors.by_unit()
    assert rows["all"] == {"count": 11, "substituted": 2, "deleted": 2, "inserted": 1}
    assert rows["two"] == {"count": 2, "substituted": 0, "deleted": 1, "inserted": 0}
    assert rows["it"] == {"count": 0, "substituted": 0, "deleted": 0, "inserted": 1}
    assert list(rows)[1:4] == ["two", "house", "to"], "most errors, then most frequent, then in order"
    assert set(errors.confused) == {
        ("to", "the", 1), ("house", "mouse", 1), ("two", NOTHING, 1), ("yes", NOTHING, 1), (NOTHING, "it", 1),
    }  # fmt: skip
    confusion = errors.confusion("words")
    row = confusion.counts[confusion.labels.index("two")]
    assert row[confusion.labels.index("two")] == 1 and row[confusion.labels.index(NOTHING)] == 1
    assert "two → ∅ 1" in errors.note("words") and Errors.of(TRUE, TRUE).note("words") == ""


def test_the_errors_add_up_to_the_rate() -> None:
    draw = random.Random(3)
    texts = [["".join(draw.choices("ab c", k=draw.randint(1, 17))) for _ in range(23)] for _ in range(2)]
    for unit, name in (("words", "wer"), ("characters", "cer")):
        whole = Errors.of(*texts, unit).by_unit()["all"]
        rate = transcript_scores([name], *texts)[name].value
        assert (whole["substituted"] + whole["deleted"] + whole["inserted"]) / whole["count"] == pytest.approx(rate)


def test_a_space_that_was_heard_is_visible() -> None:
    errors = Errors.of(["a b"], ["ab"], "characters")
    assert "∅ → ␣ 1" in errors.note("characters") and "␣" in errors.by_unit()


def test_timits_phones_are_folded_into_39() -> None:
    listed = """aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv ih ix iy jh k kcl
    l m n ng nx ow oy p pau pcl q r s sh t tcl th uh uw ux v w y z zh"""
    phones = listed.split()
    assert len(phones) == 61
    assert len({*folded(" ".join(phones)).split()}) == 39
    assert not {*FOLDED} & {*folded(" ".join(phones)).split()}, "folding again changes nothing"
    found = transcript_scores(["per", "per_39"], ["h# sh ih h#"], ["pau zh q ix h#"])
    assert (found["per"].value, found["per_39"].value) == (0.8, 0.0)


@pytest.mark.parametrize("name", PAIRED_TRANSCRIPT_METRICS)
def test_two_runs_can_be_compared_by_each_metric(name: str) -> None:
    ours, theirs = (transcript_statistics(name, texts, TRUE) for texts in (HEARD, TRUE))
    assert ours.name == name and len(ours) == 4
    paired = paired_difference(ours, theirs, samples=50)
    assert paired.better == 1.0 and paired.difference != 0


def test_unknown_metrics_and_unpaired_texts_are_refused() -> None:
    with pytest.raises(SaccadeError, match="unknown metric 'wder'"):
        transcript_statistics("wder", HEARD, TRUE)
    with pytest.raises(SaccadeError, match="one prediction per reference"):
        Errors.of(HEARD[:2], TRUE)
