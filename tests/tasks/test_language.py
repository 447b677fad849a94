"""The task language: chunks become a perplexity, prompts continuations, and what was looked at a labelled trace."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
import torch

from saccade import api
from saccade.data.texts.records import Text, TextData
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.models.recurrent_lm import Config, RecurrentLM
from saccade.models.rnnsearch import Config as OtherConfig
from saccade.models.rnnsearch import RNNSearch
from saccade.models.transformer import LanguageConfig, TransformerLM
from saccade.nn.ensemble import Ensemble
from saccade.nn.search.beam_search import Search
from saccade.nn.search.selection import Sampling
from saccade.recipes.recipe import Recipe, read_recipe
from saccade.task import OutputConstraints
from saccade.tasks.language import Language
from saccade.trace.edits import Mask
from saccade.trace.lens import Lens
from saccade.training import loop, stepping
from saccade.training.config import Train
from saccade.training.stepping import Stepper
from tests.training.recorders import Repeater

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

TEXTS = [Text(text) for text in ("the dog sees the cat", "some cats sleep", "the cat sleeps", "a bird sings here now")]
SMALL = (
    "data.agreement.train=150", "data.agreement.valid=20", "data.agreement.test=30", "model.hidden=9", "model.embedding=7",
    "train.epochs=2", "train.batch_records=16", "train.device=cpu", "train.save_every=3",
)  # fmt: skip


def small(*overrides: str) -> Recipe:
    return read_recipe("lstm_language_agreement", [*SMALL, *overrides])


def made(kind: str = "words", **fields: object) -> Language:
    return Language.learn(TextData(train="x", tokens=TokenizerConfig(kind=kind, size=60), **fields), TEXTS)  # type: ignore[arg-type]


def lstm(task: Language) -> RecurrentLM:
    torch.manual_seed(1)
    network = task.network(RecurrentLM, Config(hidden=6, embedding=4))
    return network.eval()  # type: ignore[return-value]


def looking(task: Language, **config: object) -> TransformerLM:
    torch.manual_seed(1)
    sizes = {"width": 8, "heads": 2, "hidden": 12, "layers": 1, "dropout": 0.0, **config}
    network = task.network(TransformerLM, LanguageConfig(**sizes))  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)
    return network.eval()  # type: ignore[return-value]


def figures(task: Language, network: object, **options: object) -> dict[str, float]:
    corpus = task.corpus(TEXTS, "here")
    return dict(task.evaluate(network, corpus, how=Search(), metrics=Language.metrics, **options).figures)  # type: ignore[arg-type]


# Figures --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["words", "characters", "bpe"])
@pytest.mark.parametrize(
    "fields", [{}, {"chunk": 3, "context": 50}, {"layout": "stream", "chunk": 4, "context": 90}], ids=["whole", "cut", "stream"]
)  # fmt: skip
def test_perplexity_is_that_of_every_token_once(kind: str, fields: dict[str, object]) -> None:
    """With all that stands before as context, chunks change nothing; the figures share one likelihood."""
    task = made(kind, **fields)
    network = lstm(task)
    if task.data.layout == "records":
        nll = -sum(sum(task.force(network, text.source).log_probs) for text in TEXTS)
    else:
        [ids] = task.corpus(TEXTS, "here").shared.sequences
        log_probs = torch.log_softmax(network(torch.tensor(ids[None, :-1])), dim=-1)[0]
        nll = -float(log_probs.detach().gather(1, torch.tensor(ids[1:, None])).sum())
    tokens = sum(len(task.tokenizer.encode(text.source)) + 1 for text in TEXTS)
    words = sum(len(text.source.split()) + 1 for text in TEXTS)
    characters = sum(len(text.source) + 1 for text in TEXTS)
    found = figures(task, network)
    assert found["perplexity"] == pytest.approx(math.exp(nll / tokens), rel=1e-4)
    assert found["word_perplexity"] == pytest.approx(math.exp(nll / words), rel=1e-4)
    assert found["bits_per_character"] == pytest.approx(nll / math.log(2) / characters, rel=1e-4)


def test_streams_that_carry_their_state_are_one_text() -> None:
    whole = made(layout="stream", chunk=100)
    carried = made(layout="stream", chunk=3, streams=1)
    assert figures(carried, lstm(carried)) == pytest.approx(figures(whole, lstm(whole)), rel=1e-4)
    cut = made(layout="stream", chunk=3)
    assert figures(cut, lstm(cut))["perplexity"] != pytest.approx(figures(whole, lstm(whole))["perplexity"], rel=1e-4)


def test_a_limit_takes_the_first_texts_and_their_words() -> None:
    task = made()
    two = Language(task.data, task.tokenizer)
    network = lstm(task)
    corpus = two.corpus(TEXTS[:2], "here")
    expected = two.evaluate(network, corpus, how=Search(), metrics=Language.metrics).figures
    assert figures(task, network, limit=2) == pytest.approx(dict(expected))


def test_unknown_tokens_and_unknown_metrics_are_reported() -> None:
    task = made()
    network = lstm(task)
    corpus = task.corpus([Text("the zebra sleeps")], "here")
    [note] = task.evaluate(network, corpus, how=Search(), metrics=["perplexity"]).notes
    assert note.startswith("25.0% of the tokens are <unk>")
    with pytest.raises(InputError, match=r"metrics: expected any of perplexity, .*, found 'bleu'"):
        task.evaluate(network, corpus, how=Search(), metrics=["bleu"])


# Prompts --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["words", "characters", "bpe"])
def test_the_prompt_and_its_continuation_are_one_text(kind: str) -> None:
    task = made(kind, longest=5)
    network = looking(task)
    prompts = ["the dog", "", "some cats sleep", "the"]
    for how in (Search(), Search(beam=3, n_best=2), Search(sample=Sampling(seed=3))):
        together = task.predict(network, prompts, how=how)
        for prompt, found in zip(prompts, together, strict=True):
            [alone] = task.predict(network, [prompt], how=how)
            assert found.value == alone.value and len(found.alternatives) == how.n_best - 1
            whole = task.tokenizer.encode(prompt + found.value) if prompt + found.value else []
            assert task.tokenizer.decode(whole, "<unk>").startswith(prompt)
            if found.stopped == "length":
                assert found.notes[-1] == "stopped after 5 tokens (data.longest)"


def test_a_continuation_scores_as_when_it_is_forced() -> None:
    task = made(longest=9)
    network = lstm(task)
    for prompt in ("the dog", ""):
        found = task.predict(network, [prompt], how=Search(beam=4))[0]
        if found.stopped == "eos":
            read = task.force(network, prompt + found.value)
            assert found.log_prob == pytest.approx(sum(read.log_probs[len(prompt.split()) :]), abs=1e-4)


@pytest.mark.parametrize("how", [Search(), Search(beam=3), Search(sample=Sampling()), Search(block_ngrams=4)])
def test_prompts_of_unequal_length_go_on_as_each_alone_up_to_the_last_place(how: Search) -> None:
    """The longest is done first, and its row is stepped on with the others, beyond its last place."""
    task = made(chunk=6, longest=30)
    network, prompts = looking(task, positions="learned", places=8), ["the dog sees the cat sleeps", "the", "a bird"]
    together = task.predict(network, prompts, how=how)
    for prompt, found in zip(prompts, together, strict=True):
        [alone] = task.predict(network, [prompt], how=how)
        assert found.value == alone.value and found.score == pytest.approx(alone.score, abs=1e-4)
    assert together[1].stopped == "length", "else nothing went so far"


def test_a_prompt_that_ends_with_a_blank_is_continued_without_another() -> None:
    task = made(longest=4)
    network = looking(task)
    bare, blank = (task.predict(network, [prompt], how=Search())[0].value for prompt in ("the dog", "the dog "))
    assert bare.startswith(" ") and blank == bare[1:]


def test_wishes_steer_a_continuation() -> None:
    task = made(longest=6)
    network = lstm(task)
    [found] = task.predict(
        network, ["the"], how=Search(beam=10), constraints=[OutputConstraints(require=("bird sings",))]
    )
    assert "bird sings" in found.value
    free = task.predict(network, ["the"], how=Search())[0].value.split()[0]
    [found] = task.predict(network, ["the"], how=Search(), constraints=[OutputConstraints(forbid=(free,))])
    assert free not in found.value.split()


def test_what_is_not_a_prompt_is_refused() -> None:
    task = made()
    with pytest.raises(InputError, match="input 2: expected a text, found int"):
        task.predict(lstm(task), ["x", 3], how=Search())  # type: ignore[list-item]
    short = made(chunk=6)
    network = looking(short, positions="learned", places=8)
    with pytest.raises(InputError, match=r"input 1: expected at most 7 tokens, .* found 8"):
        short.predict(network, ["the " * 8], how=Search())
    assert len(short.predict(network, ["the " * 7], how=Search())[0].value.split()) <= 1, "one place is left"
    assert len(short.force(network, "the " * 7).labels) == 8
    [found] = short.predict(network, ["the " * 5], how=Search(), constraints=[OutputConstraints(forbid=("zebra",))])
    assert len(found.value.split()) <= 3, "no more than it has places for"


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"model.name: expected a language model .* found 'rnnsearch'"):
        made().network(RNNSearch, OtherConfig())
    with pytest.raises(InputError, match=r"data.chunk: expected .* at most 8, .* found 12"):
        looking(made(chunk=8, context=4), positions="learned", places=8)
    with pytest.raises(SaccadeError, match=r"leave data\.streams out"):
        looking(made(layout="stream", streams=2))


# What was looked at ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [Search(), Search(beam=3), Search(sample=Sampling(seed=3))], ids=["greedy", "beam", "sampled"]
)
@pytest.mark.parametrize("prompt", ["the dog sees", "zebra", ""])
def test_a_trace_is_labelled_and_equals_that_of_the_forced_text(how: Search, prompt: str) -> None:
    task = made(longest=5)
    network = looking(task)
    found = task.predict(network, [prompt, "the", prompt], how=how, lens=Lens(detail=["outputs"]))[0]
    trace = found.trace
    assert trace is not None and trace.outputs is not None
    read, said = trace.axes["input"].labels, trace.axes["output"].labels
    assert list(trace.axes) == ["output", "input"] and trace.outputs.axis == "output"
    assert read[0] == "<bos>" and read[1:] == said[:-1], "what was said is read next"
    assert read[1 : 1 + len(prompt.split())] == tuple(prompt.split()), "unknown words are shown as written"
    assert len(trace.outputs.labels) == len(said)
    forced = task.force(network, prompt + found.value, Lens())
    if found.stopped == "eos":
        assert forced.labels == said
    assert forced.trace is not None
    for head in (0, 1):
        ours, theirs = (each.map("decoder.0.self", head).weights for each in (trace, forced.trace))
        if "<unk>" not in found.value:
            torch.testing.assert_close(ours, theirs[: len(said), : len(said)], rtol=1e-4, atol=1e-6)


def test_an_edit_speaks_of_a_place_in_the_whole_text() -> None:
    task = made(longest=4)
    network = looking(task)
    edits = [
        Mask(keys=(1,), step=4, site="decoder.0.self"),
        Mask(keys=(0,), step=2),
    ]  # the first written, one of the prompt
    found = task.predict(network, ["the dog sees the"], how=Search(), lens=Lens(edits=edits))[0]
    assert found.trace is not None
    weights = found.trace.map("decoder.0.self", 0).weights
    assert weights[4, 1] == 0 and weights[3, 1] > 0
    assert weights[2, 0] == 0 and weights[4, 0] > 0
    with pytest.raises(SaccadeError, match="never applied"):
        task.predict(network, ["the"], how=Search(), lens=Lens(edits=[Mask(keys=(1,), step=50)]))


def test_an_edit_without_a_step_holds_from_where_its_word_is_written() -> None:
    task = made(longest=4)
    found = task.predict(looking(task), ["the dog"], how=Search(beam=2), lens=Lens(edits=[Mask(keys=(3,))]))[0]
    assert found.trace is not None
    weights = found.trace.map("decoder.0.self", 0).weights
    assert weights.shape[0] > 4 and bool((weights[:, 3] == 0).all()) and weights[4, 2] > 0


def test_an_ensemble_foresees_prompts_and_texts_by_the_mean_of_its_members() -> None:
    task = made(longest=5)
    members = [looking(task), lstm(task), looking(task, positions="rotary", layers=2)]
    network, prompt = Ensemble(members).eval(), "the dog sees"
    lens = Lens(detail=["outputs"])
    [found] = task.predict(network, [prompt], how=Search(beam=3), lens=lens)  # type: ignore[arg-type]
    assert found.trace is not None and found.trace.outputs is not None
    assert len(found.trace.outputs.labels) == len(found.trace.axes["output"].labels)
    assert not any("outputs" in name for name in found.trace.signals)
    ids = torch.tensor([task.read(prompt, "input 1").ids])
    expected = torch.stack([torch.softmax(member(ids), dim=-1) for member in members]).mean(0)[0, : ids.shape[1]]
    torch.testing.assert_close(found.trace.outputs.probability[: ids.shape[1]], expected.topk(5).values.detach())
    nll, tokens = 0.0, 0
    for text in TEXTS:
        ids = torch.tensor([[*task.read(text.source, "input 1").ids, 2]])
        probable = torch.stack([torch.softmax(member(ids[:, :-1]), dim=-1) for member in members]).mean(0)[0]
        nll -= float(probable.gather(1, ids[0, 1:, None]).log().sum().detach())
        tokens += ids.shape[1] - 1
    assert figures(task, network)["perplexity"] == pytest.approx(math.exp(nll / tokens), rel=1e-4)


def test_members_made_for_other_streams_carry_those_of_the_ensemble() -> None:
    ours, theirs = (made(layout="stream", chunk=3, streams=streams) for streams in (2, 3))
    alone = figures(ours, lstm(ours))
    both = Ensemble([lstm(ours), lstm(theirs), lstm(made())]).eval()  # the same weights
    assert figures(ours, both) == pytest.approx(alone, rel=1e-4)


# Training -------------------------------------------------------------------------------------------------------------------


def losses(folder: Path) -> list[str]:
    with open(folder / "log.csv", newline="") as file:
        return [row["loss"] for row in csv.DictReader(file)]


STREAMED = ("data.layout=stream", "data.chunk=9", "data.streams=5", "model.dropout=0.2")


@pytest.mark.parametrize("options", [STREAMED, ("train.accumulate=3", "train.average=2", "train.average_of=best")])
def test_a_run_that_was_stopped_continues_bit_for_bit(options: tuple[str, ...], tmp_path: Path, monkeypatch) -> None:
    recipe = small(*options)
    whole = api.train(recipe, folder=tmp_path / "whole")
    update = loop._Loop._update

    def stopping(self: loop._Loop, batches: list[list[int]]) -> None:
        update(self, batches)
        if self.progress.update == 4:
            self._save()
            raise Interrupted("stop")

    monkeypatch.setattr(loop._Loop, "_update", stopping)
    with pytest.raises(Interrupted):
        api.train(recipe, folder=tmp_path / "again")
    monkeypatch.setattr(loop._Loop, "_update", update)
    again = api.resume(tmp_path / "again")
    assert losses(tmp_path / "again") == losses(tmp_path / "whole")
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name]), name
    assert again.figures["test"] == whole.figures["test"]


def test_a_state_is_carried_from_update_to_update(tmp_path: Path) -> None:
    """With a rate of nearly nothing, the losses of streams are those of one long text."""
    options = ("data.layout=stream", "data.chunk=9", "train.lr=1e-12", "train.schedule=constant", "train.epochs=1")
    bundle = api.train(small(*options, "data.streams=1"), folder=tmp_path / "run")
    task = bundle.task
    corpus = task.corpus(task.load(task.data, tmp_path, 1).train, "train")
    [ids] = corpus.shared.sequences
    log_probs = torch.log_softmax(bundle.network(torch.tensor(ids[None, :-1])), dim=-1)[0]
    nll = -log_probs.gather(1, torch.tensor(ids[1:, None])).squeeze(1).detach()
    expected = [float(chunk.mean()) for chunk in nll.split(9)]
    assert [float(loss) for loss in losses(tmp_path / "run")] == pytest.approx(expected, rel=1e-4)


def test_a_batch_as_wide_as_all_places_is_recorded_as_it_is(monkeypatch) -> None:
    """Widths are rounded up where updates are recorded: 19 to 20, for which there is no place."""
    task = made(chunk=19)
    corpus, recorder, said = task.corpus([Text("the dog sees " * 9), *TEXTS], "here"), Repeater(), list[str]()
    monkeypatch.setattr(stepping, "recorder_for", lambda device: recorder)
    network = looking(task, positions="learned", places=19).train()
    stepper = Stepper(task, network, Train(device="cpu"), said.append)
    for numbers in task.plan(corpus, tokens=None, records=2, seed=1, epoch=0) * 2:
        stepper.update(task.batch(corpus, numbers), 1e-2).read()
    assert recorder.repeated > recorder.recorded > 0 and not said


@pytest.mark.parametrize("fields", [{}, {"layout": "stream", "chunk": 3, "streams": 2}], ids=["records", "streams"])
def test_recorded_updates_are_the_live_ones_with_what_is_carried(fields: dict[str, object], monkeypatch) -> None:
    task = made(**fields)
    corpus = task.corpus(TEXTS * 3, "here")
    batches = [task.batch(corpus, each) for each in task.plan(corpus, tokens=None, records=4, seed=1, epoch=0)]
    losses, recorders = [], [None, Repeater()]
    for recorder in recorders:
        monkeypatch.setattr(stepping, "recorder_for", lambda device, recorder=recorder: recorder)
        stepper = Stepper(task, lstm(task).train(), Train(device="cpu", label_smoothing=0.1))
        losses.append([list(stepper.update(batch, 1e-2).read()) for batch in batches])
    assert recorders[1].repeated > recorders[1].recorded > 0  # type: ignore[union-attr]
    torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=1e-4, atol=1e-5)


def test_a_bundle_predicts_evaluates_and_is_driven_from_the_command_line(tmp_path: Path, command) -> None:
    (tmp_path / "mine.txt").write_text("\n".join(text.source for text in TEXTS * 9))
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "task: language\ndata: {train: mine.txt, tokens: {kind: words}, longest: 7}\n"
        "model: {name: recurrent_lm, hidden: 8, embedding: 5}\ntrain: {epochs: 1, batch_records: 8, device: cpu}\n"
    )
    run = tmp_path / "run"
    assert command("train", recipe, "--out", run)[0] == 0
    status, out, _ = command("evaluate", run, "--json", "--metric", "perplexity", "--metric", "bits_per_character")
    assert status == 0 and set(json.loads(out)["figures"]) == {"perplexity", "bits_per_character"}
    status, out, _ = command("predict", run, "the cat", "--sample", "--seed", "3", "--json")
    assert status == 0 and json.loads(out)["input"] == "the cat"
    status, _, err = command("view", run, "the cat")
    assert status != 0 and "has no attention" in err
    status, _, err = command("train", recipe, "metrics=[bleu]", "--out", tmp_path / "other")
    assert status != 0 and "expected one of perplexity, word_perplexity, bits_per_character" in err
    assert command("train", recipe, "--dry-run")[0] == 0
    status, _, err = command("compare", run, run)
    assert status != 0 and "saccade evaluate RUN --data FILE" in err
