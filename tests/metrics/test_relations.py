"""The official score of directed relations, by hand and on the scorer's own example."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest

from saccade.metrics.labels import label_scores, label_statistics, relation_of, relation_statistics

SHARED = Path(os.environ.get("SACCADE_DATA", ""))
TRUE = ["A(e1,e2)", "A(e2,e1)", "A(e1,e2)", "B(e1,e2)", "B(e1,e2)", "Other", "Other"]
WAYS = ("e1,e2", "e2,e1")
SAID = ["A(e1,e2)", "A(e1,e2)", "Other", "B(e1,e2)", "A(e2,e1)", "B(e2,e1)", "Other"]


def test_a_case_by_hand() -> None:
    # A: 1 hit, said 3 times, true 3 times; the wrong direction is no hit but was said. B: 1 hit, said twice, true twice.
    assert relation_statistics(SAID, TRUE).value == pytest.approx((2 / 6 + 2 / 4) / 2)


def test_other_is_left_out_of_the_mean_but_costs_where_it_is_wrong() -> None:
    assert relation_statistics(["A(e1,e2)", "Other"], ["A(e1,e2)", "Other"]).value == 1
    assert relation_statistics(["A(e1,e2)", "A(e1,e2)"], ["A(e1,e2)", "Other"]).value == pytest.approx(2 / 3)
    assert relation_statistics(["A(e1,e2)", "Other"], ["A(e1,e2)", "A(e1,e2)"]).value == pytest.approx(2 / 3)


def test_the_right_relation_the_wrong_way_round_is_wrong_twice() -> None:
    assert relation_statistics(["A(e2,e1)"], ["A(e1,e2)"]).value == 0
    assert relation_statistics(["A(e2,e1)", "A(e1,e2)"], ["A(e1,e2)", "A(e1,e2)"]).value == pytest.approx(1 / 2)


def test_a_relation_without_a_direction_is_one_too() -> None:
    assert relation_of(" Part-Whole ") == "Part-Whole"
    assert relation_statistics(["C", "Other"], ["C", "C"]).value == pytest.approx(2 / 3)


def test_it_is_a_metric_of_labels_with_a_signature() -> None:
    score = label_scores(["accuracy", "relation_f1"], SAID, TRUE)["relation_f1"]
    assert (score.higher_is_better, score.signature) == (True, "macro, directed, without Other")
    some = label_statistics("relation_f1", SAID, TRUE).select([0, 5])
    assert some.value == 1  # B is predicted, but no relation of these two records


def test_a_relation_that_is_never_true_has_no_f1_of_its_own() -> None:
    assert relation_statistics(["A(e1,e2)", "B(e1,e2)"], ["A(e1,e2)", "Other"]).value == 1
    assert relation_statistics(["A(e1,e2)", "B(e1,e2)"], ["A(e1,e2)", "A(e1,e2)"]).value == pytest.approx(2 / 3)
    assert relation_statistics(["A(e1,e2)"], ["Other"]).value == 0.0


def test_any_labels_are_scored_as_by_the_procedure_of_the_official_scorer() -> None:
    chance = random.Random(0)
    for _ in range(100):
        key, proposed = (
            [f"{name}({way})" for name in "ABC" for way in WAYS],
            [f"{name}({way})" for name in "BCDE" for way in WAYS],
        )
        true = ["A(e1,e2)", *chance.choices([*key, "Other"], k=6)]
        said = chance.choices([*proposed, "Other"], k=7)
        assert relation_statistics(said, true).value == pytest.approx(_official(said, true), abs=1e-12)


def _official(said: list[str], true: list[str]) -> float:
    """Step by step, as the scorer's own output reports it: P = hits / (proposed + wrong direction), R = hits / actual."""
    figures = []
    for relation in {label[0] for label in true if label != "Other"}:
        pairs = list(zip(said, true, strict=True))
        hits = sum(one == other and other[0] == relation for one, other in pairs)
        wrong_way = sum(one != other and one[0] == other[0] == relation for one, other in pairs)
        elsewhere = sum(one[0] == relation != other[0] for one, other in pairs)
        actual = sum(other[0] == relation for _, other in pairs)
        precision = hits / (hits + elsewhere + wrong_way) if hits else 0.0
        recall = hits / actual
        figures.append(2 * precision * recall / (precision + recall) if hits else 0.0)
    return sum(figures) / len(figures)


def test_a_few_records_of_nothing_but_other_stop_no_training() -> None:
    assert relation_statistics(["Other"], ["Other"]).value == 0.0


@pytest.mark.skipif(not SHARED.name, reason="SACCADE_DATA names no folder with the SemEval-2010 set")
def test_the_example_of_the_official_scorer_gives_its_official_score() -> None:
    def read(name: str) -> dict[str, str]:
        with gzip.open(SHARED / f"semeval10_task8/{name}.txt.gz", "rt") as file:
            return dict(line.split() for line in file)

    key, proposed = read("answer_key2"), read("proposed_answer2")
    found = relation_statistics([proposed.get(number, "") for number in key], list(key.values()))  # 53 are skipped
    assert f"{100 * found.value:.2f}" == "6.35"
    hits, said, true = found.rows.sum(0).reshape(3, 9)
    # Cause-Effect first, Product-Producer last: P = 76/(940 + 54), R = 76/1003; P = 34/(677 + 34), R = 34/717.
    assert (hits[0], said[0], true[0], hits[-1], said[-1], true[-1]) == (76, 994, 1003, 34, 711, 717)
