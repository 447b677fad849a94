"""Wishes and unknown words, as text: with words, subwords and characters, over a network that says what it is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import saccade
from saccade.data.pairs.records import PairData
from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from saccade.errors import InputError, SaccadeError
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import Sampling, Search
from saccade.nn.search.constraints import holds
from saccade.task import OutputConstraints
from saccade.tasks.decoding import inputs_together
from saccade.tasks.steering import Spelling
from saccade.tasks.translate import Translate
from saccade.trace import Lens, Site

SITE = Site("decoder.attention", "target", "source")
TEXTS = [
    "das haus ist rot", "die häuser sind rot", "das kleine haus", "ein haus (haus) und hauses", "rathaus am markt",
    "der markt ist klein, das haus ist rot", "hausboot und haus", "der hund, die maus und das haus!",
]  # fmt: skip
KINDS = ("words", "bpe", "wordpiece", "unigram", "characters")


class Told(EncoderDecoder):
    """At step t it prefers the t-th token of what it is told, the rest is noise; it looks at source position t."""

    def __init__(self, size: int, told: list[int], seed: int = 0, preference: float = 6.0) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(()))
        self.size, self.told, self.seed, self.preference = size, [*told, Tokenizer.EOS], seed, preference

    def encode(self, source: Tensor, lengths: Tensor, *, lens: Lens | None = None) -> Any:
        return (source, lengths)

    def start(self, memory: Any) -> Any:
        return (torch.zeros(len(memory[1]), 0, dtype=torch.int64),)

    def step(self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Lens | None = None) -> Any:
        written = torch.cat([state[0], token.unsqueeze(1)], dim=1)
        rows = []
        for prefix in written.tolist():
            generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
            rows.append(torch.randn(self.size, generator=generator))
        logits = torch.stack(rows)
        logits[:, self.told[min(offset, len(self.told) - 1)]] += self.preference
        if lens is not None:
            place = torch.full((len(token),), offset).minimum(memory[1] - 1)
            weights = nn.functional.one_hot(place, memory[0].shape[1]).float()
            lens.observe(SITE, weights.view(len(token), 1, 1, -1), offset=offset)
        return logits, (written,)


def task_of(kind: str, lower: bool = False) -> Translate:
    tokens = TokenizerConfig(kind=kind, lower=lower, size=60)  # type: ignore[arg-type]
    tokenizer = Tokenizer.train(TEXTS, tokens)
    return Translate(PairData(train="-", tokens=tokens), tokenizer, tokenizer)


def said(
    task: Translate,
    told: str,
    wish: OutputConstraints | None = None,
    *,
    how: Search | None = None,
    seed: int = 0,
    **options: Any,
):
    network = Told(task.target.size, task.target.encode(told), seed, options.pop("preference", 6.0))
    wishes = [] if wish is None else [wish]
    text = options.pop("text", "das haus ist rot")
    return task.predict(network, [text], how=how or Search(beam=5), constraints=wishes, **options)[0]


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


@pytest.mark.parametrize("kind", KINDS)
def test_what_tokens_add_to_a_text_spells_it(kind: str) -> None:
    task = task_of(kind)
    for text in TEXTS:
        tokens = task.target.encode(text)
        assert "".join(task.spelling.texts[token] for token in tokens).removeprefix(
            task.spelling.space
        ) == task.target.decode(tokens)
    assert task.spelling.texts[:4] == [""] * 4


# Prefix -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_begins_with_its_prefix_and_continues(kind: str) -> None:
    task = task_of(kind)
    found = said(task, "die maus und das haus", OutputConstraints(prefix="der hund"))
    assert found.value.startswith("der hund")
    assert len(found.value) > len("der hund")
    assert found.notes == ()


@pytest.mark.parametrize("kind", ["words", "bpe", "wordpiece", "unigram"])
def test_a_space_after_a_prefix_closes_its_word(kind: str) -> None:
    task = task_of(kind)
    for seed in range(6):
        found = said(
            task, "", OutputConstraints(prefix="das haus "), seed=seed, preference=0.0, how=Search(block_ngrams=1)
        )
        assert words(found.value)[:2] == ["das", "haus"]


def test_without_a_space_a_subword_prefix_may_be_the_beginning_of_a_word() -> None:
    task = task_of("bpe")
    told = [*task.target.encode("das haus"), *task.target.encode("hauses")[1:]]
    network = Told(task.target.size, told)
    [open_] = task.predict(network, ["ein haus"], how=Search(), constraints=[OutputConstraints(prefix="das haus")])
    assert words(open_.value)[:2] == ["das", "hauses"]
    [closed] = task.predict(network, ["ein haus"], how=Search(), constraints=[OutputConstraints(prefix="das haus ")])
    assert words(closed.value)[:2] == ["das", "haus"]


def test_with_characters_a_prefix_is_a_string_and_its_spaces_count() -> None:
    task = task_of("characters")
    assert said(task, "xxxxxx", OutputConstraints(prefix="das ha")).value.startswith("das ha")
    assert said(task, "xxxxxx", OutputConstraints(prefix="das ")).value.startswith("das ")


def test_each_input_has_its_own_prefix() -> None:
    task = task_of("words")
    network = Told(task.target.size, task.target.encode("rot"))
    texts = ["das haus ist rot", "der hund", "die maus und"]
    found = task.predict(
        network,
        texts,
        how=Search(),
        constraints=[OutputConstraints("der markt"), OutputConstraints(), OutputConstraints("ein")],
    )
    assert [each.value.split()[0] for each in found] == ["der", "rot", "ein"]


def test_an_unknown_word_of_a_prefix_stays_as_it_was_written() -> None:
    found = said(task_of("words"), "x x ist rot", OutputConstraints(prefix="das Zebra"), lens=Lens())
    assert found.value.split()[:2] == ["das", "Zebra"]
    assert found.notes == ("prefix: 'Zebra' is not in the target's vocabulary",)
    assert found.trace.axes["target"].labels[:2] == ("das", "‹Zebra›")


@pytest.mark.parametrize("kind", KINDS)
def test_a_blank_prefix_asks_for_nothing(kind: str) -> None:
    task = task_of(kind)
    assert said(task, "rot", OutputConstraints(prefix="")).value == said(task, "rot").value


# Required and forbidden words ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beam", [1, 6])
def test_required_words_stand_in_the_output_as_whole_words(kind: str, beam: int) -> None:
    task = task_of(kind)
    for seed in range(4):
        found = said(
            task,
            "die maus und der hund",
            OutputConstraints(require=("haus", "am markt")),
            seed=seed,
            how=Search(beam=beam),
        )
        assert "haus" in (words(found.value) if kind != "characters" else found.value)
        assert "am markt" in found.value
        assert not any("required" in note for note in found.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_forbidden_words_are_not_written_however_they_are_cut(kind: str) -> None:
    task = task_of(kind)
    for seed in range(8):
        for told in ("das haus ist rot", "ein haus (haus) und haus!"):
            found = said(task, told, OutputConstraints(forbid=("haus", "ist rot")), seed=seed, preference=3.0)
            assert "haus" not in (words(found.value) if kind != "characters" else found.value)
            assert "ist rot" not in found.value


def test_a_forbidden_word_leaves_longer_words_alone() -> None:
    for kind in ("words", "wordpiece", "bpe"):
        task = task_of(kind)
        lattices = task.spelling.lattices("haus")
        assert holds(task.target.encode("das haus"), lattices)
        assert holds(task.target.encode("(haus)"), lattices)
        assert not holds(task.target.encode("rathaus"), lattices)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (OutputConstraints(require=("Zebra",)), r"require: expected words of the target's vocabulary, found 'Zebra' \("),
        (OutputConstraints(require=(" ",)), "input 1: require: expected words, found whitespace only"),
        (OutputConstraints(forbid=("",)), "input 1: forbid: expected words, found nothing"),
        (OutputConstraints(require=(3,)), "input 1: require: expected words, found int"),  # type: ignore[arg-type]
        (OutputConstraints(prefix=3), "input 1: prefix: expected a text, found int"),  # type: ignore[arg-type]
        (OutputConstraints(prefix="das haus", forbid=("haus",)), "words that are not in prefix or require, found 'haus'"),
        (OutputConstraints(require=("rot", "das haus"), forbid=("haus",)), "found 'haus', which is in require"),
    ],
)  # fmt: skip
def test_wishes_that_cannot_come_true_are_errors(wish: OutputConstraints, message: str) -> None:
    with pytest.raises(InputError, match=message):
        said(task_of("words"), "rot", wish)


def test_what_could_not_be_held_is_noted() -> None:
    found = said(
        task_of("words"), "rot", OutputConstraints(require=("haus haus", "rot")), how=Search(beam=4, block_ngrams=1)
    )
    assert "required but not written: 'haus haus'" in found.notes
    assert "rot" in found.value.split()


def test_required_words_are_not_for_samples() -> None:
    with pytest.raises(SaccadeError, match="required words must be searched for with a plain beam: got sampling"):
        said(task_of("words"), "rot", OutputConstraints(require=("haus",)), how=Search(sample=Sampling()))


def test_a_word_that_is_required_twice_is_required_once() -> None:
    assert (
        said(task_of("words"), "die maus", OutputConstraints(require=("haus", "haus"))).value.split().count("haus") == 1
    )


# Unknown words ------------------------------------------------------------------------------------------------------------


def unknown(task: Translate, *words: str) -> Told:
    """Says these words; those in capitals as <unk>."""
    tokens = [Tokenizer.UNK if word.isupper() else task.target.encode(word)[0] for word in words]
    return Told(task.target.size, tokens, preference=12.0)


def test_an_unknown_word_becomes_the_source_word_looked_at() -> None:
    task = task_of("words")
    network = unknown(task, "das", "X", "ist", "Y")
    texts = ["das Zebra ist gestreift ,", "ein Gnu"]
    [kept, _] = task.predict(network, texts, how=Search())
    assert kept.value == "das <unk> ist <unk>"
    [copied, short] = task.predict(network, texts, how=Search(unknown="copy"), lens=Lens())
    assert copied.value == "das Zebra ist gestreift"
    assert copied.notes[-2:] == (
        "<unk> replaced by 'Zebra', for 'Zebra' in the input",
        "<unk> replaced by 'gestreift', for 'gestreift' in the input",
    )
    assert copied.trace.axes["target"].labels == ("das", "‹Zebra›", "ist", "‹gestreift›", "<eos>")
    assert copied.trace.axes["target"].text == "das Zebra ist gestreift"
    assert short.value == "das Gnu ist <unk>"  # the fourth step looks at the end mark alone: no word


def test_a_dictionary_translates_what_is_copied() -> None:
    task = task_of("words")
    network = unknown(task, "das", "X", "ist", "Y")
    book = {"Zebra": "zèbre", "gestreift": "rayé"}
    [found] = task.predict(network, ["das Zebra ist Gestreift ,"], how=Search(unknown="copy"), dictionary=book)
    assert found.value == "das zèbre ist rayé"
    assert "<unk> replaced by 'zèbre', for 'Zebra' in the input" in found.notes


def test_copies_are_written_as_the_network_writes() -> None:
    task = task_of("words", lower=True)
    [found] = task.predict(unknown(task, "das", "X"), ["das Zebra"], how=Search(unknown="copy"))
    assert found.value == "das zebra"


def test_a_forbidden_word_is_not_copied() -> None:
    task = task_of("words")
    network, how = unknown(task, "das", "X"), Search(unknown="copy")
    [found] = task.predict(network, ["das Zebra"], how=how, constraints=[OutputConstraints(forbid=("Zebra",))])
    assert found.value == "das <unk>"


def test_from_subwords_the_whole_source_word_is_copied() -> None:
    source, target = task_of("bpe").source, task_of("words").target
    task = Translate(PairData(train="-"), source, target)
    place = 1 + len(source.encode("das"))  # the second piece of the second word
    tokens = [*[target.encode("rot")[0]] * place, Tokenizer.UNK]
    network = Told(target.size, tokens, preference=12.0)
    [found] = task.predict(network, ["das markthaus"], how=Search(unknown="copy"))
    assert found.value.split()[-1] == "markthaus"


def test_alternatives_have_copies_of_their_own() -> None:
    task = task_of("words")
    network = unknown(task, "das", "X")
    [found] = task.predict(network, ["das Zebra"], how=Search(beam=4, n_best=4, unknown="copy"))
    assert all("<unk>" not in each.value or each.notes for each in (found, *found.alternatives))
    assert any("Zebra" in each.value for each in (found, *found.alternatives))


# Scores -------------------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_score_make_the_score() -> None:
    task = task_of("words")
    how = Search(beam=3, n_best=3, length_penalty=0.7, coverage=0.4, stop="beam")
    found = said(task, "das haus ist", how=how, text="das haus ist rot und der hund ist klein")
    for each in (found, *found.alternatives):
        parts = each.parts
        assert each.score == pytest.approx(parts["log_prob"] / parts["length_penalty"] + parts["coverage"])
        assert parts["coverage"] <= 0
    assert min(each.parts["coverage"] for each in (found, *found.alternatives)) < 0


def test_the_end_of_the_source_need_not_be_covered() -> None:
    """Four words, looked at one a step, and the end mark never: nothing is left out."""
    task = task_of("words")
    found = said(task, "die maus und der", how=Search(coverage=1.0), text="das haus ist rot", preference=20.0)
    assert len(found.value.split()) == 4
    assert found.parts["coverage"] == pytest.approx(0.0, abs=1e-4)
    found = said(task, "die maus", how=Search(coverage=1.0), text="das haus ist rot", preference=20.0)
    assert found.parts["coverage"] < -10


def test_samples_do_not_depend_on_the_other_inputs() -> None:
    task = task_of("words")
    network = Told(task.target.size, [], preference=0.0)
    texts, how = ["das haus", "der hund und die maus", "ein"], Search(sample=Sampling(), n_best=3)
    together = task.predict(network, texts, how=how)
    for text, found in zip(texts, together, strict=True):
        assert task.predict(network, [text], how=how) == [found]


def test_many_samples_are_drawn_in_several_batches() -> None:
    assert inputs_together(Search(beam=5), 128) == 128
    assert inputs_together(Search(sample=Sampling(), n_best=100), 128) == 20
    assert inputs_together(Search(sample=Sampling(), n_best=9999), 128) == 1


def test_spelling_is_learnt_once() -> None:
    task = task_of("words")
    assert isinstance(task.spelling, Spelling)
    assert task.spelling is task.spelling


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_forbidden_word_is_not_written_first_by_a_piece_that_continues_words(kind):
    task = task_of(kind)
    for token in range(4, task.target.size):
        word = task.target.decode([token])
        if re.fullmatch(r"\w+", word):
            network = Told(task.target.size, [token], preference=20)
            written = task.predict(
                network, ["das haus"], how=Search(), constraints=[OutputConstraints(forbid=(word,))]
            )[0].value
            assert re.search(rf"(?<!\w){word}(?!\w)", written) is None, (word, written)


def test_an_unknown_word_ends_the_word_before_it():
    task = task_of("words")
    told = [*task.target.encode("das haus"), Tokenizer.UNK]
    network = Told(task.target.size, told, preference=20)
    for wishes in ([], [OutputConstraints(require=("haus",))], [OutputConstraints(prefix="das ")]):
        assert task.predict(network, ["das haus"], how=Search(beam=10), constraints=wishes)[0].value == "das haus <unk>"


def test_what_a_prefix_begins_with_cannot_be_forbidden_even_where_it_is_unknown():
    with pytest.raises(InputError, match="forbid: expected words that are not in prefix or require, found 'Zebra'"):
        said(task_of("words"), "das haus", OutputConstraints(prefix="Zebra", forbid=("Zebra",)))


def test_a_copied_word_does_not_complete_a_forbidden_phrase():
    task = task_of("words")
    network = Told(task.target.size, [*task.target.encode("das"), Tokenizer.UNK], preference=20)
    how, wishes = Search(beam=3, unknown="copy"), [OutputConstraints(forbid=("das Zebra",))]
    assert task.predict(network, ["das Zebra"], how=how)[0].value == "das Zebra"
    assert task.predict(network, ["das Zebra"], how=how, constraints=wishes)[0].value == "das <unk>"


def test_an_unknown_word_of_wordpieces_keeps_its_space():
    assert said(task_of("wordpiece"), "das haus", OutputConstraints(prefix="das ☃ haus")).value.startswith("das ☃ haus")


def test_words_are_printed_as_the_training_targets_write_them_and_metrics_use_the_tokens(tmp_path) -> None:
    pairs = [
        (f"le {noun} d'Anne est {how}.", f"L'{noun} d'Anne est {how}, non?") for noun in "abcde" for how in "vwxyz"
    ]
    recipe = {
        "task": "translate",
        "data": {"tokens": {"kind": "words", "lower": True}},
        "model": {"name": "rnnsearch", "embedding": 9, "hidden": 17, "maxout": 9},
        "train": {"epochs": 12, "lr": 0.02, "batch_records": 5, "device": "cpu"},
        "metrics": ["exact_match", "bleu"],
    }
    bundle = saccade.train(recipe, {"train": pairs, "valid": pairs[:3], "test": pairs[:3]}, folder=tmp_path / "run")
    loaded = saccade.load(tmp_path / "run")
    for prediction in loaded.predict([source for source, _ in pairs[:7]]):
        assert prediction.value == prediction.value.lower() and " ' " in prediction.value
        assert (
            prediction.readable.startswith("L'")
            and prediction.readable.endswith("?")
            and "d'Anne" in prediction.readable
        )
        assert prediction.to_json()["readable"] == prediction.readable
        assert loaded.task.target.canonical(prediction.readable) == prediction.value
    figures = loaded.evaluate(pairs[:3])
    loaded.task.writing = None  # as earlier releases saved it
    loaded.save(tmp_path / "earlier")
    assert not (tmp_path / "earlier" / "writing.target.json").exists()
    earlier = saccade.load(tmp_path / "earlier")
    assert earlier.task.writing is None and earlier.evaluate(pairs[:3]) == figures == bundle.figures["test"]
    assert not any(one.readable for one in earlier.predict(pairs[0][0]))
    both = saccade.load([tmp_path / "run", tmp_path / "earlier"]).predict(pairs[0][0])[0]
    assert both.readable.startswith("L'")
