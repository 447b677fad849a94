"""Alignments of given targets: where the network looked when it was fed them, word by word."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade import api
from saccade.api.alignment import (
    align,
    align_both_ways,
    alignment_error,
    forced_traces,
    read_pairs_to_align,
    score_alignments,
)
from saccade.data.pairs.gold import Gold
from saccade.data.pairs.records import Pair
from saccade.errors import InputError, SaccadeError
from saccade.metrics.alignment import links, links_of, symmetrise
from saccade.recipes.recipe import read_recipe
from saccade.trace import Lens
from tests.tiny import tiny

SITE = "decoder.attention"
PAIRS = [(f"das Haus {number} ist da.", f"the house {number} is there.") for number in range(41)]


pytestmark = pytest.mark.usefixtures("module_unchecked")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> api.Bundle:
    recipe = tiny("train.epochs=2", "train.lr=2e-2", "data.dates.test=3", "data.dates.valid=3")
    return api.train(recipe, folder=tmp_path_factory.mktemp("runs") / "run")


def train(folder: Path, model: str, tokens: str, pairs: list[tuple[str, str]] = PAIRS) -> api.Bundle:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my.yaml").write_text(
        f"task: translate\ndata: {{train: none.tsv, tokens: {{kind: {tokens}, size: 50}}}}\n"
        f"model: {{name: {model}, hidden: 6, embedding: 5}}\ntrain: {{updates: 2, device: cpu}}\n"
    )
    return api.train(read_recipe(folder / "my.yaml"), pairs, folder=folder / "run")


@pytest.fixture(scope="module")
def pieces(tmp_path_factory) -> api.Bundle:
    return train(tmp_path_factory.mktemp("pieces"), "luong", "bpe")


def test_fed_its_own_output_a_network_looks_where_it_looked(bundle) -> None:
    inputs = ["5. Mai 2009", "5 de maio de 2009", "9.9.99"]
    predictions = bundle.predict(inputs, lens=Lens())
    pairs = [Pair(text, prediction.value) for text, prediction in zip(inputs, predictions)]
    for prediction, forced in zip(predictions, forced_traces(bundle, pairs)):
        own, fed = (trace.map(SITE).weights for trace in (prediction.trace, forced))
        steps = min(len(own), len(fed))
        assert steps >= len(prediction.value)
        torch.testing.assert_close(fed[:steps], own[:steps], rtol=1e-4, atol=1e-5)
        assert forced.axes["target"].text == prediction.value


def test_pairs_of_different_lengths_keep_their_order_and_their_own_axes(bundle) -> None:
    pairs = [Pair("5. Mai 2009 und mehr", "2009-05-05"), Pair("9.9.99", "1999"), Pair("2. 2. 22", "2022-02-02 x")]
    alone = [forced_traces(bundle, [pair])[0] for pair in pairs]
    for pair, one, together in zip(pairs, alone, forced_traces(bundle, pairs)):
        assert (len(together.axes["source"]), len(together.axes["target"])) == (
            len(pair.source) + 1,
            len(pair.target) + 1,
        )
        torch.testing.assert_close(together.map(SITE).weights, one.map(SITE).weights, rtol=1e-4, atol=1e-5)


def test_characters_are_pooled_to_the_words_they_are_written_in(bundle) -> None:
    (found,) = align(bundle, [("5. Mai 2009", "2009 05")])
    assert (found.source, found.target) == (("5.", "Mai", "2009"), ("2009", "05"))
    weights = forced_traces(bundle, [Pair("5. Mai 2009", "2009 05")])[0].map(SITE).weights.numpy()
    by_hand = [[weights[rows, columns].sum() / count for columns in (slice(0, 2), slice(3, 6), slice(7, 11))]
               for rows, count in ((slice(0, 4), 4), (slice(5, 7), 2))]  # fmt: skip
    np.testing.assert_allclose(found.weights, by_hand, rtol=1e-5)
    assert found.links == links_of(found.weights)


def test_subwords_align_as_many_words_as_blanks_divide(pieces) -> None:
    for found in align(pieces, PAIRS[:5], threshold=0.05):
        assert found.weights.shape == (5, 5)
        assert {target for _, target in found.links} <= set(range(5))
    assert found.target == ("the", "house", "4", "is", "there.")


def test_the_error_rate_is_that_of_the_links(pieces) -> None:
    found = align(pieces, PAIRS[:5])
    perfect = [Gold(each.links, each.links) for each in found]
    assert alignment_error(pieces, PAIRS[:5], perfect).error_rate == 0.0
    wrong = [Gold(frozenset({((i + 1) % 5, j) for i, j in each.links}), frozenset()) for each in found]
    assert score_alignments(found, wrong).error_rate == 1.0


def test_two_directions_are_symmetrised(pieces, tmp_path: Path) -> None:
    turned = [(target, source) for source, target in PAIRS]
    backward = train(tmp_path, "luong", "words", turned)
    ahead, behind = align(pieces, PAIRS[:3]), align(backward, turned[:3])
    for how in ("intersection", "grow-diag"):
        both = align_both_ways(pieces, backward, PAIRS[:3], how)
        for one, other, found in zip(ahead, behind, both):
            assert found.links == symmetrise(one.links, {(i, j) for j, i in other.links}, how)
    once = align_both_ways(pieces, backward, (pair for pair in PAIRS[:3]), "intersection")
    assert [found.links for found in once] == [
        found.links for found in align_both_ways(pieces, backward, PAIRS[:3], "intersection")
    ]


def test_gold_that_does_not_fit_the_pairs_is_reported(pieces) -> None:
    found = align(pieces, PAIRS[:2])
    with pytest.raises(InputError, match=r"my.gold: expected links for 2 pairs, found 1 lines"):
        score_alignments(found, [Gold(frozenset(), frozenset())], "my.gold")
    beyond = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (5, 1)}))
    with pytest.raises(
        InputError, match=r"my.gold:2: expected links within 5 source and 5 target words, found \(5, 1\)"
    ):
        score_alignments(found, [Gold(frozenset(), frozenset()), beyond], "my.gold")


def test_a_network_that_does_not_look_aligns_nothing(tmp_path: Path) -> None:
    plain = train(tmp_path, "seq2seq", "words")
    with pytest.raises(SaccadeError, match="seq2seq has no attention on its input"):
        align(plain, PAIRS[:2])


def test_a_task_without_words_is_refused(tmp_path: Path) -> None:
    small = ["data.train=40", "data.valid=5", "data.test=7", "model.hidden=7", "train.updates=2", "train.device=cpu"]
    points = api.train(read_recipe("pointer_sorting", small), folder=tmp_path / "run")
    with pytest.raises(SaccadeError, match=r"expected a text-to-text task .*, found point"):
        align(points, [([0.1, 0.2], [0, 1])])


def test_a_searched_traces_links_are_between_its_own_words(bundle) -> None:
    prediction = bundle.predict("5. Mai 2009", lens=Lens())[0]
    found = links(prediction.trace)
    assert {source for source, _ in found} <= {0, 1, 2}
    assert {target for _, target in found} <= set(range(len(prediction.value.split())))


def test_pairs_are_read_from_every_kind_of_file(bundle, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("source\ttarget\na b\tx\n")
    (tmp_path / "a.src-tgt").write_text("a b ||| x\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"source": "a b", "target": "x"}) + "\n")
    (tmp_path / "b.jsonl").write_text(json.dumps({"src_words": ["a", "b"], "tgt_words": ["x"], "alignment": []}) + "\n")
    for name in ("a.tsv", "a.src-tgt", "a.jsonl", "b.jsonl"):
        assert read_pairs_to_align(bundle, tmp_path / name) == [Pair("a b", "x")]
