"""The alignment error rate by hand and as published; links out of weights; two directions into one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade.data.pairs.gold import Gold, read_gold, read_links
from saccade.errors import SaccadeError
from saccade.metrics.alignment import (
    alignment_error_rate,
    links,
    links_of,
    pool,
    symmetrise,
    token_words,
    word_weights,
    words,
)
from saccade.trace.axes import Positions, Tokens
from saccade.trace.maps import AttentionMap, Trace

DATA = Path(os.environ.get("SACCADE_DATA", "")) / "word_alignment"
with_data = pytest.mark.skipif(not (DATA / "enfr.gold").is_file(), reason="needs word_alignment in SACCADE_DATA")


# The error rate -------------------------------------------------------------------------------------------------------


def test_the_error_rate_worked_by_hand() -> None:
    # A = 4 links; A ∩ S = 2 of 3 sure ones; A ∩ P = 3 of 5 possible ones
    found = {(0, 0), (1, 1), (2, 3), (4, 4)}
    sure, possible = {(0, 0), (1, 1), (3, 3)}, {(2, 3), (2, 2)}
    score = alignment_error_rate([found], [sure], [possible])
    assert score.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert (score.precision, score.recall) == (pytest.approx(3 / 4), pytest.approx(2 / 3))
    assert (score.pairs, score.links, score.sure, score.possible) == (1, 4, 3, 5)


def test_sizes_are_summed_over_pairs_before_dividing() -> None:
    found, sure = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [{(0, 0)}, {(0, 1), (1, 0), (2, 2)}]
    assert alignment_error_rate(found, sure, sure).error_rate == pytest.approx(1 - (2 + 2) / (4 + 4))


def test_all_sure_and_some_possible_links_make_no_error() -> None:
    assert alignment_error_rate([{(0, 0), (1, 2)}], [{(0, 0)}], [{(1, 2), (2, 2)}]).error_rate == 0.0


def test_no_links_at_all_are_refused_and_no_found_ones_are_all_wrong() -> None:
    assert alignment_error_rate([set()], [{(0, 0)}], [{(0, 0)}]).error_rate == 1.0
    with pytest.raises(SaccadeError, match=r"links to score, found "):
        alignment_error_rate([set()], [set()], [set()])
    with pytest.raises(SaccadeError, match="pairs: got 1, 2, 2"):
        alignment_error_rate([set()], [set()] * 2, [set()] * 2)


@pytest.fixture(scope="module")
def gold() -> list[Gold]:
    return read_gold(DATA / "enfr.gold", first=1)


def error_of(found: list[frozenset[tuple[int, int]]], gold: list[Gold]) -> float:
    sure, possible = [true.sure for true in gold], [true.possible for true in gold]
    return round(100 * alignment_error_rate(found, sure, possible).error_rate, 2)


def stored(system: str, how: str = "") -> list[frozenset[tuple[int, int]]]:
    return read_links(DATA / "lilt_baselines" / f"{system}.test.enfr{how}.talp", first=0)


def turned(found: list[frozenset[tuple[int, int]]]) -> list[frozenset[tuple[int, int]]]:
    return [frozenset((i, j) for j, i in each) for each in found]


@with_data
@pytest.mark.parametrize(
    ("system", "ahead", "behind", "grown", "final"),
    [("fastalign", 16.39, 15.89, 10.48, 12.09), ("giza", 7.99, 9.75, 5.94, 6.16)],
)
def test_published_outputs_get_their_published_error_rates(
    gold: list[Gold], system: str, ahead: float, behind: float, grown: float, final: float
) -> None:
    assert (len(gold), sum(len(true.sure) for true in gold), sum(len(true.possible) for true in gold)) == (
        447,
        4038,
        17438,
    )
    assert error_of(stored(system), gold) == ahead
    assert error_of(turned(stored(system, ".reverse")), gold) == behind
    assert error_of(stored(system, ".grow-diagonal"), gold) == grown
    assert error_of(stored(system, ".grow-diagonal-final"), gold) == final


@with_data
@pytest.mark.parametrize("system", ["fastalign", "giza"])
@pytest.mark.parametrize(("how", "file"), [("grow-diag", "grow-diagonal"), ("grow-diag-final", "grow-diagonal-final")])
def test_growing_both_published_directions_gives_the_published_symmetrised_ones(
    gold: list[Gold], system: str, how: str, file: str
) -> None:
    published, both = stored(system, f".{file}"), zip(stored(system), turned(stored(system, ".reverse")))
    ours = [symmetrise(ahead, behind, how, needs="both") for ahead, behind in both]
    # The order in which neighbours are tried decides a few pairs; the publishers' program left it to a set.
    assert sum(one == other for one, other in zip(ours, published)) >= 443
    assert error_of(ours, gold) == pytest.approx(error_of(published, gold), abs=0.06)


# Links out of weights -------------------------------------------------------------------------------------------------


def test_each_target_word_is_linked_to_the_source_word_it_looks_at_most() -> None:
    weights = np.array([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.0, 0.0, 0.0]])
    assert links_of(weights) == {(1, 0), (0, 1)}  # the third looks at nothing
    assert links_of(np.zeros((0, 3))) == frozenset()


def test_a_threshold_links_all_that_weigh_as_much() -> None:
    weights = np.array([[0.1, 0.6, 0.3], [0.35, 0.35, 0.3], [0.2, 0.2, 0.2]])
    assert links_of(weights, threshold=0.3) == {(1, 0), (2, 0), (0, 1), (1, 1), (2, 1)}
    for threshold in (0.0, 1.5):
        with pytest.raises(SaccadeError, match="above 0 and at most 1"):
            links_of(weights, threshold)


def test_weights_are_summed_over_source_pieces_and_averaged_over_target_pieces() -> None:
    weights = np.array([[0.2, 0.3, 0.4, 0.1], [0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    # target tokens 0 and 1 make one word, 2 lies in none; source tokens 0 and 1 make one, 3 lies in none
    pooled = pool(weights, [0, 0, -1], [0, 0, 1, -1], (2, 3))
    np.testing.assert_allclose(pooled, [[(0.5 + 0.8) / 2, (0.4 + 0.1) / 2, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(SaccadeError, match="expected weights of 2 × 4 tokens, found 3 × 4"):
        pool(weights, [0, 0], [0, 0, 1, -1], (2, 3))


def test_a_token_belongs_to_the_word_it_is_written_in() -> None:
    text = " ein Mann , ja"
    assert words(text) == [(1, 4), (5, 9), (10, 11), (12, 14)]
    # "ei" "n" " " "Man" "n ," (most of it in the comma's word or in Mann's: the first of equals), the end
    assert token_words(text, [(1, 3), (3, 4), (4, 5), (5, 8), (8, 11), (14, 14)]) == [0, 0, -1, 1, 1, -1]
    assert token_words("", [(0, 0)]) == [-1]


def trace_of(weights: object, source: Tokens, target: Tokens, **maps: torch.Tensor) -> Trace:
    dense = torch.as_tensor(weights, dtype=torch.float32)
    made = [AttentionMap("cross", "target", "source", "dense", {"weights": dense}, head=0, keys=dense.shape[1])]
    for site, more in maps.items():
        made.append(AttentionMap(site, "target", "source", "dense", {"weights": more}, head=1, keys=dense.shape[1]))
    return Trace(axes={"source": source, "target": target}, maps=tuple(made))


SOURCE = Tokens(["a", "b", " ", "c", "<eos>"], text="ab c", spans=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 4)], special=[4])
# What a search wrote has labels and a text, and no spans.
TARGET = Tokens(["x", " ", "yy", "<eos>"], text="x yy", special=[3])
WEIGHTS = torch.tensor(
    [[0.1, 0.1, 0.0, 0.7, 0.1], [0.0, 0.0, 1.0, 0.0, 0.0], [0.3, 0.3, 0.0, 0.4, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]
)


def test_a_traces_links_are_between_words_and_leave_out_blanks_and_the_end() -> None:
    trace = trace_of(WEIGHTS, SOURCE, TARGET)
    np.testing.assert_allclose(word_weights(trace), [[0.2, 0.7], [0.6, 0.4]], rtol=1e-6)
    assert links(trace) == {(1, 0), (0, 1)}


def test_heads_are_averaged_and_of_several_sites_one_must_be_named() -> None:
    trace = trace_of(WEIGHTS, SOURCE, TARGET, cross=WEIGHTS.flip(1))
    np.testing.assert_allclose(word_weights(trace)[0], [(0.2 + 0.8) / 2, (0.7 + 0.1) / 2], rtol=1e-6)
    trace = trace_of(WEIGHTS, SOURCE, TARGET, other=WEIGHTS.flip(1))
    with pytest.raises(SaccadeError, match=r"one site .*target to source, found cross, other"):
        links(trace)
    assert links(trace, site="cross") == {(1, 0), (0, 1)}
    with pytest.raises(SaccadeError, match="expected the site 'crss', found cross, other"):
        links(trace, site="crss")


def test_a_trace_without_texts_says_so() -> None:
    with pytest.raises(SaccadeError, match="expected a trace of texts"):
        links(trace_of(WEIGHTS, Positions.of(5), Positions.of(4)))  # type: ignore[arg-type]


# Two directions into one ----------------------------------------------------------------------------------------------

AHEAD = {(0, 0), (1, 1), (2, 2), (4, 6), (7, 9)}
BEHIND = {(0, 0), (1, 2), (2, 2), (5, 6), (8, 8)}


def test_intersection_and_union() -> None:
    assert symmetrise(AHEAD, BEHIND, "intersection") == {(0, 0), (2, 2)}
    assert symmetrise(AHEAD, BEHIND, "union") == AHEAD | BEHIND


def test_growing_takes_neighbours_that_give_a_word_its_first_link() -> None:
    # (1, 1) touches (0, 0) and both its words are free; (1, 2) touches too, but by then neither of its words is
    assert symmetrise(AHEAD, BEHIND, "grow-diag") == {(0, 0), (1, 1), (2, 2)}
    # where the neighbour shares the target word, only the wary kind leaves it out
    assert symmetrise({(0, 0)}, {(0, 0), (1, 0)}, "grow-diag") == {(0, 0), (1, 0)}
    assert symmetrise({(0, 0)}, {(0, 0), (1, 0)}, "grow-diag", needs="both") == {(0, 0)}


def test_growing_continues_from_what_it_added() -> None:
    chain = {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert symmetrise({(0, 0)}, chain, "grow-diag") == chain
    backwards = {(3, 3), (2, 2), (1, 1), (0, 0)}
    assert symmetrise({(3, 3)}, backwards, "grow-diag") == chain


def test_the_last_step_takes_links_of_words_still_without_one() -> None:
    grown = {(0, 0), (1, 1), (2, 2)}
    assert symmetrise(AHEAD, BEHIND, "grow-diag-final") == grown | {(4, 6), (7, 9), (5, 6), (8, 8)}
    # (5, 6) has a free source word, and a target word that (4, 6) has taken
    assert symmetrise(AHEAD, BEHIND, "grow-diag-final-and") == grown | {(4, 6), (7, 9), (8, 8)}


def test_an_unknown_way_is_named() -> None:
    with pytest.raises(SaccadeError, match=r"expected one of intersection, union, grow-diag, .*, found 'grow'"):
        symmetrise(AHEAD, BEHIND, "grow")
    with pytest.raises(SaccadeError, match="expected either or both, found 'none'"):
        symmetrise(AHEAD, BEHIND, needs="none")


def test_the_metrics_load_no_torch() -> None:
    modules = "saccade.metrics.alignment, saccade.metrics.significance, saccade.metrics.significance"
    program = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
