"""MAP, MRR and precision at 1: worked by hand, against scikit-learn where there are no ties, and their bootstrap."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.ranking import RANKING_METRICS, by_chance, order, ranking_scores, ranking_statistics
from saccade.metrics.significance import bootstrap, paired_difference

SCORES = [[0.9, 0.5, 0.1, 0.3], [0.2, 0.8], [3.0, 1.0, 2.0]]
RELEVANCE = [[0, 1, 0, 1], [0, 1], [0, 1, 0]]


def test_the_figures_are_those_worked_by_hand() -> None:
    # Relevant ones stand at 2 and 3 of the first question, at 1 of the second, at 3 of the third.
    found = ranking_scores(RANKING_METRICS, SCORES, RELEVANCE)
    assert found["map"].value == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1 + 1 / 3) / 3)
    assert found["mrr"].value == pytest.approx((1 / 2 + 1 + 1 / 3) / 3)
    assert found["precision_at_1"].value == pytest.approx(1 / 3)
    assert all(each.higher_is_better and "ties:last" in each.signature for each in found.values())


def test_average_precision_is_that_of_scikit_learn_where_no_scores_are_equal() -> None:
    average_precision_score = pytest.importorskip("sklearn.metrics").average_precision_score
    generator = np.random.default_rng(3)
    for size in (2, 5, 13):
        scores, relevance = generator.permutation(size).astype(float), np.zeros(size)
        relevance[generator.permutation(size)[: size // 2]] = 1
        found = ranking_statistics("map", [scores.tolist()], [relevance.tolist()]).value
        assert found == pytest.approx(average_precision_score(relevance, scores))


def test_a_tie_is_never_to_ones_advantage() -> None:
    assert ranking_statistics("precision_at_1", [[1.0, 1.0]], [[1, 0]]).value == 0
    assert ranking_statistics("map", [[0.0, 0.0, 0.0]], [[1, 1, 0]]).value == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert order([1.0, 1.0, 1.0]) == [0, 1, 2]  # without relevance: as they came


def test_a_question_without_an_answer_is_left_out_and_one_of_answers_alone_is_not() -> None:
    found = ranking_statistics("map", [[0.1, 0.9], [0.3, 0.2], [0.5]], [[1, 0], [0, 0], [1]])
    assert found.value == pytest.approx((1 / 2 + 1) / 2) and len(found) == 3
    assert ranking_statistics("mrr", [[0.1]], [[0]]).value == 0


def test_grades_above_0_are_relevant() -> None:
    assert ranking_statistics("map", [[0.3, 0.2, 0.1]], [[0.5, 0, 3]]).value == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize("relevance", [[1, 0, 0], [1, 1, 0, 0, 0], [1, 1], [1], [0, 1, 0, 1, 1]])
def test_chance_is_the_mean_over_all_orders(relevance) -> None:
    every = [list(map(float, places)) for places in permutations(range(len(relevance)))]
    mean = np.mean([ranking_statistics("map", [scores], [relevance]).value for scores in every])
    assert by_chance([relevance]) == pytest.approx(mean)


def test_the_bootstrap_draws_questions_and_tells_systems_apart() -> None:
    good = [[2.0, 1.0, 0.0]] * 40
    bad = [[0.0, 1.0, 2.0]] * 40
    relevance = [[1, 0, 0]] * 37 + [[0, 0, 0]] * 3  # three have no answer
    first, other = (ranking_statistics("map", scores, relevance) for scores in (bad, good))
    assert bootstrap(other, samples=20).tolist() == [1.0] * 20
    assert paired_difference(first, other, samples=200).randomisation_p < 0.01


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SaccadeError, match="unknown metric 'f1'"):
        ranking_statistics("f1", SCORES, RELEVANCE)
    for scores in (SCORES[:2], [[1.0], *SCORES[1:]]):
        with pytest.raises(SaccadeError, match="one score per candidate"):
            ranking_statistics("map", scores, RELEVANCE)


def test_scores_that_are_not_numbers_are_never_to_a_systems_advantage() -> None:
    nan = float("nan")
    assert order([nan, nan, 0.1], [1, 0, 0]) == [2, 1, 0]
    assert ranking_statistics("mrr", [[nan, 0.3, nan, -5.0]], [[1, 0, 0, 0]]).value == 1 / 4
