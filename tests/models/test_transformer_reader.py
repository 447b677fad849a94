"""The Transformer's encoder as a reader: part by part against its formulas, and through the tasks that it serves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import saccade
from saccade.data.labels.records import Labelled, LabelledData
from saccade.errors import InputError
from saccade.models.transformer_reader import ClassifierConfig, TaggerConfig, TransformerClassifier, TransformerTagger
from saccade.nn.positions import sinusoids
from saccade.recipes.recipe import read_recipe
from saccade.tasks.classify import Classify
from saccade.testing import check_classifier, check_tagger
from saccade.trace import Lens

SIZES = {"width": 12, "heads": 3, "hidden": 7, "layers": 2, "places": 11}
CONFIG, TAGS = ClassifierConfig(**SIZES), TaggerConfig(**SIZES)
V, C, S = 23, 5, 9
LENGTHS = torch.tensor([9, 4, 7])
POOLS = ("additive", "dot", "mean", "max", "first")


@pytest.fixture
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(4, V, (3, S))
    segments = (torch.arange(S) >= 3).long().expand(3, S).clone()
    return tokens, segments


def classifier(**changes) -> TransformerClassifier:
    torch.manual_seed(3)
    return TransformerClassifier(replace(CONFIG, **changes), V, C).eval()


def tagger(**changes) -> TransformerTagger:
    torch.manual_seed(3)
    return TransformerTagger(replace(TAGS, **changes), V, C).eval()


# Promises ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_the_classifier_keeps_every_promise_with_every_pool_and_all_positions(pool, positions) -> None:
    check_classifier(TransformerClassifier, replace(CONFIG, pool=pool, positions=positions))


@pytest.mark.parametrize("fields", [{"norm": "post"}, {"embedding": 5}, {"activation": "gelu", "layers": 1}])
def test_it_does_so_with_either_norm_and_words_of_another_width(fields) -> None:
    check_classifier(TransformerClassifier, replace(CONFIG, **fields))
    check_tagger(TransformerTagger, replace(TAGS, **fields))


@pytest.mark.parametrize("output", ["softmax", "crf"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.usefixtures("shapes_unchecked")
def test_the_tagger_keeps_every_promise(output, positions) -> None:
    check_tagger(TransformerTagger, replace(TAGS, output=output, positions=positions))


# Part by part ---------------------------------------------------------------------------------------------------------


def test_what_enters_are_scaled_words_and_their_places(rows) -> None:
    tokens, _ = rows
    network = classifier()
    seen = []
    network.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(tokens, LENGTHS)
    expected = 12**0.5 * network.embedding.weight[tokens] + sinusoids(torch.arange(S), 12)
    torch.testing.assert_close(seen[0], expected)


def test_words_of_another_width_are_brought_to_it_as_they_are(rows) -> None:
    tokens, _ = rows
    network = classifier(embedding=5, positions="rotary")
    assert network.embedding.weight.shape == (V, 5)
    torch.testing.assert_close(network.words(tokens), network.embedding.weight[tokens] @ network.widen.weight.mT)


@pytest.mark.parametrize("pool", POOLS)
def test_each_pool_is_its_formula_over_the_words_that_are_there(rows, pool) -> None:
    tokens, _ = rows
    network = classifier(pool=pool)
    states = network.states(network.words(tokens), LENGTHS)[1, :4]  # [S, D]
    match pool:
        case "additive":
            hidden = torch.tanh(states @ network.pool.key_weight.mT + network.pool.bias)
            vector = torch.softmax(hidden @ network.pool.v, 0) @ states
        case "dot":
            vector = torch.softmax(states @ network.pool.query, 0) @ states
        case "mean":
            vector = states.mean(0)
        case "max":
            vector = states.amax(0)
        case "first":
            vector = states[0]
    torch.testing.assert_close(network(tokens, LENGTHS)[1], network.output(vector))


def test_the_second_text_of_a_pair_is_told_apart_from_the_first(rows) -> None:
    tokens, segments = rows
    network = classifier()
    torch.testing.assert_close(network(tokens, LENGTHS, segments), network(tokens, LENGTHS))  # at first alike
    with torch.no_grad():
        network.second.normal_()
    words = network.words(tokens)
    words[:, 3:] += network.second
    expected = network.output(network.pooled(network.states(words, LENGTHS), LENGTHS))
    torch.testing.assert_close(network(tokens, LENGTHS, segments), expected)
    assert not torch.allclose(expected, network(tokens, LENGTHS), atol=1e-4)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_the_order_of_words_matters_by_their_positions_alone(rows, positions) -> None:
    tokens, _ = rows
    network, whole = classifier(positions=positions, pool="mean"), torch.tensor([S, S, S])
    mirrored = tokens.flip(1)
    assert not torch.allclose(network(tokens, whole), network(mirrored, whole), atol=1e-4)
    network.positions.add = lambda words, places: words
    network.positions.rotation = lambda places, dtype: None
    torch.testing.assert_close(network(tokens, whole), network(mirrored, whole))


def test_only_learned_positions_end_somewhere() -> None:
    assert classifier(positions="learned").longest == tagger(positions="learned").longest == 11
    assert classifier().longest is None and tagger(positions="rotary").longest is None


def test_a_lens_sees_every_layer_and_head_and_the_pool(rows) -> None:
    tokens, segments = rows
    lens = Lens(detail=["state"])
    network = classifier()
    network(tokens, LENGTHS, segments, lens=lens)
    trace = lens.traces[1]
    looks = {(f"encoder.{layer}.self", head) for layer in range(2) for head in range(3)}
    assert {(map.site, map.head) for map in trace.maps if map.site != "pool"} == looks
    assert [site.name for site in network.sites] == ["encoder.0.self", "encoder.1.self", "pool"]
    for layer in range(2):
        weights = trace.map(f"encoder.{layer}.self", head=2).weights  # [S, S]
        torch.testing.assert_close(weights[:4].sum(-1), torch.ones(4))
        assert not weights[:, 4:].any() and not weights[4:].any()
    pool = trace.map("pool")
    assert (pool.query, pool.key) == ("label", "text")
    torch.testing.assert_close(pool.weights.sum(-1), torch.ones(1))
    assert not pool.weights[0, 4:].any()
    assert trace.signals["encoder.state"].values.shape == (S, 12)


def test_a_pool_that_looks_nowhere_has_no_site() -> None:
    assert [site.name for site in classifier(pool="max").sites] == ["encoder.0.self", "encoder.1.self"]
    assert [site.name for site in tagger().sites] == ["encoder.0.self", "encoder.1.self"]


def counted(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_parameters_are_those_of_the_parts() -> None:
    D, hidden, m = 12, 7, 5
    layer = 4 * (D * D + D) + (hidden * D + hidden) + (D * hidden + D) + 2 * 2 * D
    common = V * D + 2 * layer + 2 * D + D * C + C  # pre-norm has one more LN at the end
    assert counted(classifier(pool="mean")) == common + D
    assert counted(classifier()) == common + D + D * D + 2 * D
    assert counted(classifier(pool="dot", norm="post")) == common - 2 * D + D + D
    assert counted(tagger(positions="learned")) == common + 11 * D
    assert counted(tagger(embedding=m)) == common - V * D + V * m + m * D
    assert counted(tagger(output="crf")) == common + (C + 1) ** 2


def test_dropout_acts_in_training_alone(rows) -> None:
    tokens, _ = rows
    for network in (classifier(dropout=0.3), tagger(dropout=0.3)):
        assert torch.equal(network(tokens, LENGTHS), network(tokens, LENGTHS))
        network.train()
        assert not torch.equal(network(tokens, LENGTHS), network(tokens, LENGTHS))


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (ClassifierConfig, {"pool": "last"}, "pool must be one of additive, dot, mean, max, first: got 'last'"),
        (TaggerConfig, {"positions": "none"}, "positions must be one of sinusoidal, learned, rotary: got 'none'"),
        (TaggerConfig, {"output": "mean"}, "output must be one of softmax, crf: got 'mean'"),
        (TaggerConfig, {"embedding": 0}, "embedding must be at least 1: got 0"),
        (ClassifierConfig, {"heads": 3}, "heads must divide width=128: got 3"),
        (TaggerConfig, {"width": 12, "positions": "rotary"}, "must be even with rotary positions: got 12"),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_what_cannot_be_is_refused(kind, fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**fields)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_nothing_is_asked_of_the_numbers_while_it_reads(rows, positions) -> None:
    tokens, segments = (part.to("meta") for part in rows)  # there are none: to ask for one is an error
    for pool in POOLS:
        network = classifier(pool=pool, positions=positions).to("meta")
        assert network(tokens, LENGTHS.to("meta"), segments).shape == (3, C)
    assert tagger(positions=positions).to("meta")(tokens, LENGTHS.to("meta")).shape == (3, S, C)


# Through the tasks ----------------------------------------------------------------------------------------------------

TEXTS = [(f"a {('cat', 'dog')[n % 2]} sat by {n % 7}", ("cats", "dogs")[n % 2]) for n in range(80)]
PAIRS = [(f"{a} and {b}", f"{a if n % 2 else b} came", ("last", "first")[n % 2]) for n in range(15)
         for a in "klmn" for b in "klmn" if a != b]  # fmt: skip
TAGGED = [([("see", "meet")[n % 2], ("Porto", "Faro", "me")[n % 3], f"at{n % 5}"],
           ["O", "O" if n % 3 == 2 else "B-TOWN", "O"]) for n in range(80)]  # fmt: skip
QUESTIONS = [
    (f"{kind} on day {day} ?", ["at home", "it was ann"], [int(kind == "where"), int(kind == "who")])
    for day in range(40)
    for kind in ("who", "where")
]


def run(folder, task: str, model: str, records, data: str = "", epochs: int = 12) -> saccade.Bundle:
    """A small run over what is in hand."""
    path = folder / "recipe.yaml"
    path.write_text(
        f"task: {task}\n"
        f"data: {{train: unread.jsonl, hold_out: 0.2, max_length: 12{data}}}\n"
        f"model: {{name: {model}, width: 16, heads: 2, hidden: 16, layers: 2, dropout: 0.0}}\n"
        f"train: {{epochs: {epochs}, batch_records: 16, lr: 1e-2, watch: loss, device: cpu, threads: 1}}\n"
    )
    return saccade.train(read_recipe(path), records, folder=folder / "run")


@pytest.mark.usefixtures("shapes_unchecked")
def test_it_learns_labels_of_texts_and_says_the_same_once_loaded(tmp_path) -> None:
    made = run(tmp_path, "classify", "transformer_classifier", TEXTS)
    texts = ["a dog sat by 3", "a cat sat by 6"]
    assert [found.value for found in made.predict(texts)] == ["dogs", "cats"]
    again = saccade.load(made.folder, device="cpu")
    assert [one.probabilities for one in again.predict(texts)] == [one.probabilities for one in made.predict(texts)]
    trace = again.predict(texts[0], lens=Lens())[0].trace
    assert trace.axes["text"].labels == ("a", "dog", "sat", "by", "3")
    assert trace.map("pool").weights.shape == (1, 5) and trace.map("encoder.1.self", head=1).weights.shape == (5, 5)


@pytest.mark.usefixtures("shapes_unchecked")
def test_it_learns_labels_of_pairs(tmp_path) -> None:
    made = run(tmp_path, "classify", "transformer_classifier", PAIRS)
    assert made.evaluate([("k and l", "k came", "first"), ("n and m", "m came", "last")])["accuracy"] == 1.0
    assert made.network.second.abs().min() > 0  # it was taught what is second
    trace = made.predict([("k and l", "k came")], lens=Lens())[0].trace
    assert trace.axes["text"].labels == ("k", "and", "l", "<eos>", "k", "came")


@pytest.mark.parametrize("scheme", ["", ", scheme: bio, learn: bioes"])
@pytest.mark.usefixtures("shapes_unchecked")
def test_it_learns_tags_and_says_the_same_once_loaded(tmp_path, scheme) -> None:
    made = run(tmp_path, "label", "transformer_tagger", TAGGED, scheme)
    words = ["meet", "Faro", "at2"]
    (found,), (again,) = made.predict([words]), saccade.load(made.folder, device="cpu").predict([words])
    assert found.value == again.value == ["O", "B-TOWN", "O"]
    assert found.score == again.score


@pytest.mark.usefixtures("shapes_unchecked")
def test_it_learns_to_rank(tmp_path) -> None:
    made = run(tmp_path, "rank", "transformer_classifier", QUESTIONS)
    asked = [(f"{kind} on day 7 ?", ["it was ann", "at home"]) for kind in ("where", "who")]
    found, other = made.predict(asked, lens=Lens())
    assert (found.value, other.value) == ("at home", "it was ann") and made.network.output.out_features == 1
    assert found.trace.axes["text"].labels == ("where", "on", "day", "7", "?", "<eos>", "at", "home")
    assert {map.site for map in found.trace.maps} == {"encoder.0.self", "encoder.1.self", "pool"}


@pytest.mark.parametrize(("model", "task", "records"), [
    ("transformer_classifier", "classify", TEXTS), ("transformer_tagger", "label", TAGGED),
])  # fmt: skip
@pytest.mark.usefixtures("shapes_unchecked")
def test_embeddings_begin_with_vectors_from_elsewhere(tmp_path, model, task, records) -> None:
    vectors = tmp_path / "v.txt"
    vectors.write_text("cat 1 2 3\nPorto -1 0.5 4\nat2 0 0 7\nzebra 3 2 1\n")
    recipe = (
        f"task: {task}\ndata: {{train: x.tsv, hold_out: 0.2, vectors: {{file: {vectors}, extend: true, frozen: true}}}}\n"
        f"model: {{name: {model}, width: 8, heads: 2, hidden: 8, layers: 1, embedding: WIDE}}\n"
        "train: {updates: 2, batch_records: 16, lr: 1e-2, device: cpu, threads: 1}\n"
    )
    (tmp_path / "r.yaml").write_text(recipe.replace("WIDE", "3"))
    made = saccade.train(read_recipe(tmp_path / "r.yaml"), records, folder=tmp_path / "run")
    number = made.task.tokenizer.encode("zebra")[0]
    assert made.network.embedding.weight[number].tolist() == [3, 2, 1]
    (tmp_path / "r.yaml").write_text(recipe.replace("WIDE", "5"))
    with pytest.raises(InputError, match=r"model\.embedding: expected 3, as many numbers as the vectors of .* found 5"):
        saccade.train(read_recipe(tmp_path / "r.yaml"), records, folder=tmp_path / "other")


def test_texts_longer_than_the_learned_places_are_refused_before_training() -> None:
    data = LabelledData(train="x", max_length=12)
    of = Classify.learn(data, [Labelled("one two", "a"), Labelled("three", "b")])
    with pytest.raises(InputError, match=r"data\.max_length: expected at most 11: the network has 11 positions"):
        of.network(TransformerClassifier, replace(CONFIG, positions="learned"))
    of.network(TransformerClassifier, CONFIG)
