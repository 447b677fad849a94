"""The task transcribe: recordings and given frames with transcripts, search with CTC and a language model, traces, errors."""

from __future__ import annotations

import base64
import io
import itertools
import wave
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import saccade
from saccade.data.audio.batch import SpeechBatch
from saccade.data.audio.config import AudioConfig, SoundAugment, SoundFeatures
from saccade.data.audio.features import KeptSound
from saccade.data.audio.records import SpeechColumns, SpeechData, Spoken
from saccade.data.batching import extended
from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from saccade.errors import InputError, SaccadeError
from saccade.explain.erasure import curve
from saccade.models.listen_attend import Config, ListenAttend
from saccade.models.rnnsearch import RNNSearch
from saccade.nn.ctc import loss_by_labels
from saccade.nn.ensemble import Ensemble
from saccade.nn.listener import Focus, Heard, Listener, monotonic_penalty
from saccade.nn.recurrent import mean_of
from saccade.nn.search.beam_search import Sampling, Search
from saccade.nn.search.fusion import Fused, Fusion
from saccade.recipes.recipe import read_recipe
from saccade.task import OutputConstraints
from saccade.tasks import transcribe
from saccade.tasks.transcribe import Transcribe, tokens_in
from saccade.testing import check_task
from saccade.trace import Boost, Lens, Mask, Set, Trace
from saccade.training.config import Train
from saccade.training.graphs import Graphs
from saccade.training.recording import CudaRecorder
from tests.training.recorders import Repeater
from tests.training.small_tasks import DieAt, Died, assert_same_run, checkpoint, train

D, RATE = 5, 8000
SMALL = Config(4, layers=2, state=6, embedding=3, alignment=7, filters=2, reach=2, maxout=5, pooling=(2,), ctc=0.3)
PLAIN = replace(SMALL, ctc=0.0)
GIVEN = SoundFeatures(kind="given", deltas=0, hop=0.02)
LETTERS = "abc d"


def text(draw: np.random.Generator, least: int = 2, most: int = 7) -> str:
    return (
        "".join(draw.choice(list("abcd")) for _ in range(draw.integers(least, most))) + " " + draw.choice(["ad", "ca"])
    )


def frames_of(said: str, draw: np.random.Generator) -> np.ndarray:
    """Each letter is two to four noisy frames of its own."""
    rows = [np.eye(D)[LETTERS.index(letter)] for letter in said for _ in range(draw.integers(2, 5))]
    return (np.stack(rows) + 0.1 * draw.standard_normal((len(rows), D))).astype(np.float32)


def manifest(folder: Path, name: str, count: int, seed: int) -> str:
    draw, lines = np.random.default_rng(seed), ["path\ttext\tspeaker"]
    for number in range(count):
        said = text(draw)
        np.save(folder / f"{name}{number}.npy", frames_of(said, draw))
        lines.append(f"{name}{number}.npy\t{said}\t{'xyz'[number % 3]}")
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / f"{name}.tsv")


@pytest.fixture
def data(tmp_path: Path) -> SpeechData:
    files = {name: manifest(tmp_path, name, count, seed) for seed, (name, count) in enumerate(
        {"train": 23, "valid": 5, "test": 7}.items())}  # fmt: skip
    return SpeechData(**files, features=GIVEN, max_length=14)


def made(data: SpeechData, config: Config = SMALL) -> tuple[Transcribe, Any, Any]:
    splits = Transcribe.load(data, Path("."), 1)
    task = Transcribe.learn(data, splits.train)
    torch.manual_seed(1)
    network = task.network(ListenAttend, config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)
    return task, network.eval(), splits


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    "settings", [{"attention": "content"}, {"attention": "location", "window": 2}, {"normalise": "smoothed"}], ids=str
)
def test_the_task_keeps_its_promises(data: SpeechData, settings: dict[str, Any]) -> None:
    assert check_task("transcribe", data, ListenAttend, replace(SMALL, dropout=0.2, monotonic=0.1, **settings))


@dataclass(frozen=True)
class PlainConfig:
    hidden: int = 5


class Plain(Listener):
    """The least that a listener of one's own defines: no attention, no CTC."""

    config_class = PlainConfig

    def __init__(self, config: PlainConfig, size: int, width: int, start: int) -> None:
        super().__init__()
        self.read, self.written = torch.nn.Linear(width, config.hidden), torch.nn.Embedding(size, config.hidden)
        self.output = torch.nn.Linear(config.hidden, size)

    def encode(self, source: Tensor, lengths: Tensor, *, lens: Lens | None = None) -> tuple[Tensor]:
        return (mean_of(self.read(source), lengths),)

    def start(self, memory: tuple[Tensor]) -> tuple[Tensor]:
        return memory

    def step(self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Lens | None = None) -> Any:
        state = (torch.tanh(state[0] + self.written(token)),)
        return self.output(state[0]), state


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_listener_of_ones_own_keeps_them_too(data: SpeechData) -> None:
    assert check_task("transcribe", data, Plain)
    task, _, splits = made(data)
    network, given = task.network(Plain, PlainConfig()), [splits.test[0].source]
    for how, message in (
        (Search(ctc=0.3), r"search\.ctc: expected a network .* found Plain without"),
        (Search(focus=Focus(top=3)), r"search\.focus: .* found Plain"),
    ):
        with pytest.raises(SaccadeError, match=message):
            task.predict(network, given, how=how)


# Records become batches ---------------------------------------------------------------------------------------------


def test_a_batch_has_the_normalised_frames_and_the_tokens_of_each_record(data: SpeechData) -> None:
    task, network, splits = made(data)
    corpus = task.corpus(splits.train, "data.train")
    assert len(corpus) == 23 and corpus.note.startswith("data.train: 23 recordings, 0.00 hours")
    batch = task.batch(corpus, [4, 0])
    sizes = [splits.train[number].source.count for number in (4, 0)]
    assert batch.frame_lengths.tolist() == sizes and corpus.costs[4][0] == sizes[0]
    assert [task.tokenizer.decode(row.tolist()) for row in batch.target_out] == [splits.train[n].target for n in (4, 0)]
    whole = torch.cat([task.batch(corpus, [number]).frames[0] for number in range(23)])
    torch.testing.assert_close(whole.mean(0), torch.zeros(D), atol=2e-3, rtol=0)
    assert len(task.first(corpus, 2)) == 2 and task.token_counts(corpus)["target"] == sum(
        len(record.target) + 1 for record in splits.train
    )
    found = task.evaluate(network, corpus, how=Search(), metrics=["wer", "perplexity"], limit=3)
    assert len(found.outputs) == 3
    nll = float(task.loss(network, task.batch(corpus, range(3))).mean.detach())
    assert found.figures["perplexity"] == pytest.approx(np.exp(nll), rel=1e-4)


def test_speeds_are_rows_of_their_own_in_training_alone(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    heard = [((0.1 * draw.standard_normal(n)).astype(np.float32), RATE) for n in (2400, 1600, 4000)]
    data = SpeechData(
        train="unused", audio=AudioConfig(rate=RATE), augment=SoundAugment(speeds=(0.9, 1.0, 1.1)),
        features=SoundFeatures(mels=8, cache=str(tmp_path)),
    )  # fmt: skip
    records = Transcribe.records([(sound, said) for sound, said in zip(heard, ("ab", "b", "cab"), strict=True)], data)
    task = Transcribe.learn(data, records)
    corpus = task.corpus(records, "data.train")
    assert [owner for owner, _, _ in corpus.rows] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert "3 recordings at 3 speeds" in corpus.note
    slow, usual, fast = (task.batch(corpus, [number]).frame_lengths.item() for number in (6, 7, 8))
    assert slow > usual > fast and len(task.corpus(records, "data.valid")) == 3
    some = task.first(corpus, 2)
    assert (len(some.records), len(some)) == (2, 6)
    network = task.network(ListenAttend, SMALL).eval()
    assert len(task.evaluate(network, corpus, how=Search(), metrics=["cer"]).outputs) == 3, "one per recording"


def test_a_transcript_that_is_too_long_names_its_recording(data: SpeechData) -> None:
    task, _, splits = made(data)
    task.data = replace(data, max_length=3)
    with pytest.raises(InputError, match=r"data.train, record 1 \(train0.npy\): expected at most 3 tokens"):
        task.corpus(splits.train, "data.train")


# A batch becomes a loss ---------------------------------------------------------------------------------------------


def test_training_minimises_the_shares_of_the_decoder_and_of_ctc(data: SpeechData) -> None:
    task, network, splits = made(data, replace(SMALL, monotonic=0.2))
    batch = task.batch(task.corpus(splits.train, "data.train"), range(7))
    (phase,) = task.phases(network)
    heard = Heard()
    network(batch.frames, batch.frame_lengths, batch.target_in, heard=heard)
    real = torch.ones(7, dtype=torch.bool)
    extra = network.regulariser(heard, batch.target_out, batch.target_lengths, real)
    log_probs = network.ctc_log_probs(network.encode(batch.frames, batch.frame_lengths))
    nll = torch.nn.functional.ctc_loss(
        log_probs.transpose(0, 1), batch.target_out, -(-batch.frame_lengths // 2), batch.target_lengths - 1,
        reduction="none",
    )  # fmt: skip
    steps = batch.target_out != Tokenizer.PAD
    penalty = monotonic_penalty(torch.stack(heard.weights, dim=1), steps)
    assert float(penalty.detach()) > 1
    torch.testing.assert_close(extra, 0.3 * nll.sum() + 0.2 * penalty)
    plain, trained = task.loss(network, batch), phase.loss(network, batch)
    torch.testing.assert_close(trained.total, 0.7 * plain.total + extra)
    assert trained.count == plain.count == batch.tokens


def test_padding_to_one_of_few_shapes_changes_no_loss(data: SpeechData) -> None:
    task, network, splits = made(data, replace(SMALL, monotonic=0.2))
    batch = task.batch(task.corpus(splits.train, "data.train"), [0, 5, 3])
    wider = batch.bucketed()
    assert wider.frames.shape[0] > 3
    (phase,) = task.phases(network)
    torch.testing.assert_close(task.loss(network, wider).total, task.loss(network, batch).total)
    torch.testing.assert_close(phase.loss(network, wider).total, phase.loss(network, batch).total)


def assert_recorded_as_live(task: Transcribe, network: Any, corpus: Any, recorder: Any, device: str) -> list[str]:
    """Two batches of one shape, the first of which is recorded; what was said about it."""
    (phase,), said = task.phases(network), list[str]()
    graphs = Graphs(
        recorder, task, network, Train(), backward=lambda mean: mean.backward(), say=said.append, loss=phase.loss
    )
    for numbers in ([0, 1, 2], [3, 4, 5, 6, 7]):
        batch = task.batch(corpus, numbers).to(device)
        with recorder.entered():
            loss = graphs.gradient(batch)
        assert loss is not None, said
        recorded = {name: part.grad.clone() for name, part in network.named_parameters() if part.grad is not None}
        network.zero_grad(set_to_none=True)
        expected = phase.loss(network, batch).mean
        expected.backward()
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-5)
        for name, part in network.named_parameters():
            torch.testing.assert_close(recorded[name], part.grad, rtol=1e-3, atol=1e-5)
        network.zero_grad(set_to_none=True)
    assert len(graphs.recorded) == 1
    return said


@pytest.mark.parametrize("attention", ["content", "hybrid"])
def test_recorded_updates_have_the_gradients_of_live_ones(
    data: SpeechData, attention: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a GPU: lengths are not read on the host.
    monkeypatch.setattr("saccade.models.listen_attend.ctc_loss", loss_by_labels)
    task, network, splits = made(data, replace(SMALL, attention=attention, monotonic=0.1))
    corpus = task.corpus(splits.train, "data.train")
    monkeypatch.setattr(SpeechBatch, "bucketed", lambda batch: widened(batch, 8, 48, 14))
    assert not assert_recorded_as_live(task, network.train(), corpus, Repeater(), "cpu")


def widened(batch: SpeechBatch, rows: int, frames: int, tokens: int) -> SpeechBatch:
    """The batch in this shape."""
    (B, N, _), T = batch.frames.shape, batch.target_in.shape[1]
    targets = {name: extended(getattr(batch, name), rows - B, tokens - T) for name in ("target_in", "target_out")}
    lengths = {
        name: torch.nn.functional.pad(getattr(batch, name), (0, rows - B), value=1)
        for name in ("frame_lengths", "target_lengths")
    }
    sound = torch.nn.functional.pad(batch.frames, (0, 0, 0, frames - N, 0, rows - B))
    return replace(batch, frames=sound, **targets, **lengths)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("attention", ["content", "location", "hybrid"])
def test_a_gpu_records_training_and_searches_as_a_cpu_does(
    data: SpeechData, attention: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, network, splits = made(data, replace(SMALL, attention=attention, monotonic=0.1))
    inputs = [record.source for record in splits.test]
    ways = (Search(beam=3, n_best=2), Search(beam=3, ctc=0.3), Search(beam=3, ctc=0.3, focus=Focus(top=4, window=5)))
    expected = [task.predict(network, inputs, how=how) for how in ways]
    network.cuda()
    for how, there in zip(ways, expected, strict=True):
        found = task.predict(network, inputs, how=how)
        assert [one.value for one in found] == [one.value for one in there]
        for one, other in zip(found, there, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-2)
    corpus = task.corpus(splits.train, "data.train")
    monkeypatch.setattr(SpeechBatch, "bucketed", lambda batch: widened(batch, 8, 48, 14))
    assert not assert_recorded_as_live(task, network.train(), corpus, CudaRecorder(torch.device("cuda")), "cuda")


def test_masks_vary_training_alone(data: SpeechData) -> None:
    task, network, splits = made(replace(data, augment=SoundAugment(time_masks=2, time_width=5)))
    batch = task.batch(task.corpus(splits.train, "data.train"), range(7))
    (phase,) = task.phases(network)
    with torch.no_grad():
        assert torch.equal(phase.loss(network, batch).total, phase.loss(network, batch).total)
        network.train()
        assert not torch.equal(phase.loss(network, batch).total, phase.loss(network, batch).total)


def test_a_run_that_dies_resumes_bit_for_bit(data: SpeechData, tmp_path: Path) -> None:
    task, _, splits = made(replace(data, augment=SoundAugment(time_masks=1, time_width=3)))
    corpus = task.corpus(splits.train, "data.train")

    def network() -> Any:
        torch.manual_seed(6)
        return task.network(ListenAttend, replace(SMALL, dropout=0.2))

    train(task, tmp_path / "whole", corpus, network=network())
    assert checkpoint(tmp_path / "whole")
    with pytest.raises(Died):
        train(task, tmp_path / "cut", corpus, network=network(), report=DieAt(5))
    torch.manual_seed(99)
    train(task, tmp_path / "cut", corpus, network=network(), resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


# A recording becomes a transcript -------------------------------------------------------------------------------------


def wav(samples: np.ndarray, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((samples * 32767).astype("<i2").tobytes())
    return file.getvalue()


def test_a_recording_is_the_same_in_every_form(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    samples = (0.2 * draw.standard_normal(3000)).clip(-1, 1)
    data = SpeechData(
        train="unused", audio=AudioConfig(rate=RATE), features=SoundFeatures(mels=8, cache=str(tmp_path / "kept"))
    )
    records = Transcribe.records([((samples.astype(np.float32), RATE), "ab cd", "x")] * 3, data)
    task = Transcribe.learn(data, records)
    torch.manual_seed(2)
    network = task.network(ListenAttend, PLAIN).eval()
    content, path = wav(samples), tmp_path / "a.wav"
    path.write_bytes(content)
    stored = (samples * 32767).astype("<i2") / 32768
    forms = [
        path,
        str(path),
        content,
        {"base64": base64.b64encode(content).decode()},
        (stored.astype(np.float32), RATE),
    ]
    found = [task.predict(network, task.inputs(form), how=Search(), lens=Lens())[0] for form in forms]
    assert len({one.value for one in found}) == 1
    named = Transcribe(replace(data, columns=SpeechColumns(audio="clip")), task.tokenizer, task.sound)  # of a table
    assert named.predict(network, named.inputs(forms[3]), how=Search())[0].value == found[0].value
    for one in found:
        assert one.log_prob == pytest.approx(found[0].log_prob, abs=1e-3)
    axis = found[0].trace.axes["sound"]
    assert len(axis) == found[0].trace.maps[0].weights.shape[1] == -(-(1 + 3000 // 80) // 2)
    assert axis.seconds == pytest.approx(0.02) and axis.rate == RATE and len(axis.audio) == 3000
    assert axis.spectrogram.shape == (8, 2 * len(axis))
    assert len(task.predict(network, task.inputs([path, content]), how=Search())) == 2
    assert len(task.inputs({"audio": [str(path)] * 3})) == 3, "a table has a column of recordings"
    (shown,) = task.examples(tmp_path, 1, test=records[:1])
    assert task.predict(network, [shown], how=Search())[0].value == found[0].value


def test_a_prediction_says_how_the_recording_was_read_and_that_it_is_silent(tmp_path: Path) -> None:
    samples = 0.2 * np.random.default_rng(5).standard_normal(3000).astype(np.float32)
    features = SoundFeatures(mels=8, cache=str(tmp_path / "kept"), normalise="speaker")
    data = SpeechData(train="unused", audio=AudioConfig(rate=RATE), features=features)
    task = Transcribe.learn(data, Transcribe.records([((samples, RATE), "ab", "x")] * 3, data))
    network = task.network(ListenAttend, PLAIN).eval()
    both, silent, short = np.stack([samples, samples], 1), np.zeros(900, np.float32), samples[:7]
    notes = [
        task.predict(network, [given], how=Search(beam=1))[0].notes
        for given in ((samples, RATE), (both, 2 * RATE), (silent, RATE), (short, RATE))
    ]
    assert not any("rate" in note or "resampled" in note or "silent" in note for note in notes[0])
    assert {f"resampled from {2 * RATE:,} to {RATE:,} Hz", "2 channels mixed into one"} <= {*notes[1]}
    assert "the recording is silent" in notes[2] and "the recording is silent" not in notes[3], "of one frame"


def test_what_is_no_recording_is_refused_by_its_place(data: SpeechData) -> None:
    task, network, splits = made(data)
    good = splits.test[0].source
    for given in (7, None, np.zeros((3, 2, 1)), np.full((4, D), np.nan, np.float32), np.zeros((4, D + 1), np.float32)):
        with pytest.raises(InputError, match="input 2"):
            task.predict(network, [good, given], how=Search())


def test_a_recording_of_hours_is_refused_in_one_piece(data: SpeechData, tmp_path: Path) -> None:
    task, network, splits = made(data)
    hour = np.zeros((180_001, D), np.float32)  # of 20 ms
    with pytest.raises(InputError, match=r"input 2: expected at most 600 s, found 3,600 s \(saccade predict --chunk"):
        task.predict(network, [splits.test[0].source, hour], how=Search())
    heard = SpeechData(train="unused", audio=AudioConfig(rate=RATE), features=SoundFeatures(normalise="none"))
    other = Transcribe(heard, task.tokenizer, KeptSound.learn(heard.features, RATE, []))
    with pytest.raises(InputError, match="found 601 s"):
        other.read((np.zeros(601 * RATE, np.int16), RATE), "input 1")
    with pytest.raises(InputError, match=r"input 1: expected a file, its bytes.* found a BytesIO"):
        other.predict(network, other.inputs(io.BytesIO(b"RIFF")), how=Search())


def test_true_times_and_given_frames_are_in_the_trace(data: SpeechData, tmp_path: Path) -> None:
    task, network, _ = made(data)
    given = frames_of("ab ad", np.random.default_rng(1))
    record = Spoken(Transcribe.records([(given, "ab ad")], data)[0].source, "ab ad", times=(("a", 0.0, 0.06),))
    (found,) = task.predict(network, [record], how=Search(), lens=Lens(detail=["state", "outputs", "beam"]))
    axis = found.trace.axes["sound"]
    assert axis.segments == (("a", 0.0, 0.06),) and axis.seconds == pytest.approx(0.04) and axis.audio is None
    assert len(axis) == -(-len(given) // 2)
    assert len(found.trace.signals["encoder.state"].values) == len(axis)
    words = found.trace.axes["target"]
    assert words.text == found.value and found.trace.maps[0].weights.shape == (len(words), len(axis))
    assert Trace.load(found.trace.save(tmp_path / "a.trace")).axes["sound"] == axis


def test_a_search_holds_no_more_of_the_sound_than_memory_does(
    data: SpeechData, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, network, splits = made(data)
    inputs = [record.source for record in splits.train]
    items = [replace(item, pooling=2) for item in task.read_all(inputs)]
    longest = -(-max(item.length for item in items) // 2)
    per_annotation = 8 + 7 + task.tokenizer.size  # both ways, the scorer's width, the labels
    how = Search(beam=3, ctc=0.2)
    decoder = task.decoder(network, how)
    assert len(list(task.group(decoder, items, how, None))) == 1
    whole = task.predict(network, inputs, how=how)
    monkeypatch.setattr(transcribe, "HELD", 5 * 3 * longest * per_annotation)
    groups = list(task.group(decoder, items, how, None))
    assert sorted(number for numbers in groups for number in numbers) == list(range(23))
    assert max(map(len, groups)) == 5 and len(groups) == 5
    assert [one.value for one in task.predict(network, inputs, how=how)] == [one.value for one in whole]


def test_searches_are_steered_and_sampled(data: SpeechData) -> None:
    task, network, splits = made(data)
    given = [splits.test[0].source, splits.test[1].source]
    wishes = [OutputConstraints(prefix="ab", require=("dd",)), OutputConstraints(forbid=("a", "c"))]
    first, second = task.predict(network, given, how=Search(beam=10), constraints=wishes)
    assert first.value.startswith("ab") and "dd" in first.value
    assert not {"a", "c"} & set(second.value)
    drawn = task.predict(network, given[:1], how=Search(sample=Sampling(), n_best=3))[0]
    assert len(drawn.alternatives) == 2
    for how in (Search(unknown="copy"), Search(coverage=0.2, beam=2)):
        with pytest.raises(SaccadeError, match=r"search\.(unknown|coverage): expected .* sound has no words"):
            task.predict(network, given, how=how)


@pytest.mark.parametrize("attention", ["content", "hybrid"])
def test_every_hypothesis_has_the_maps_of_forced_decoding(data: SpeechData, attention: Any) -> None:
    task, network, splits = made(data, replace(SMALL, attention=attention))
    with torch.no_grad():
        network.output.bias[Tokenizer.EOS] += 2.0
        network.output.bias[Tokenizer.UNK] -= 50.0
    compared = 0
    edits = [Boost([3], factor=40.0, site="decoder.attention", step=1)]
    for record, lens in itertools.product(splits.test, (Lens(), Lens(edits=edits))):
        (best,) = task.predict(network, [record.source], how=Search(beam=3, n_best=3), lens=lens)
        for found in (best, *best.alternatives):
            if found.stopped == "length":
                continue
            compared += 1
            forced = task.scorer(network, record.source, found.value)(Lens(edits=lens.edits))
            assert sum(forced.log_probs) == pytest.approx(found.log_prob, abs=1e-4)
            torch.testing.assert_close(found.trace.maps[0].weights, forced.trace.maps[0].weights, rtol=1e-4, atol=1e-5)
    assert compared >= 9


def test_what_if_it_had_looked_there(data: SpeechData) -> None:
    task, network, splits = made(data)
    given = splits.test[1].source
    (plain,) = task.predict(network, [given], how=Search(), lens=Lens())
    there = [float(place == 5) for place in range(len(plain.trace.axes["sound"]))]
    (told,) = task.predict(
        network, [given], how=Search(), lens=Lens(edits=[Set(there, site="decoder.attention", step=1)])
    )
    assert told.trace.maps[0].weights[1, 5] == 1 and told.log_prob != plain.log_prob
    second = told.trace.maps[0].weights[2] - plain.trace.maps[0].weights[2]
    assert bool(second.abs().max() > 1e-4), "where it looked last goes into where it looks next"
    with pytest.raises(SaccadeError, match="keys"):
        task.predict(network, [given], how=Search(), lens=Lens(edits=[Mask([999], site="decoder.attention")]))


def test_an_ensemble_has_the_maps_of_each_member(data: SpeechData) -> None:
    task, network, splits = made(data)
    torch.manual_seed(8)
    both = Ensemble([network, task.network(ListenAttend, replace(SMALL, attention="content"))]).eval()
    (found,) = task.predict(both, [splits.test[0].source], how=Search(beam=2), lens=Lens())
    assert {map.site for map in found.trace.maps} == {"1/decoder.attention", "2/decoder.attention"}
    assert found.trace.maps[0].weights.shape[1] == len(found.trace.axes["sound"])


def test_hiding_frames_is_measured(data: SpeechData) -> None:
    task, network, splits = made(data)
    bundle = SimpleNamespace(
        task=task, network=network, predict=lambda given: task.predict(network, given, how=Search())
    )
    assert curve(bundle, splits.test[0].source, splits.test[0].target, draws=2)["curves"]


# CTC, a language model and sharper attention in the search ------------------------------------------------------------


def run_of_language_model(folder: Path, texts: list[str], **data: Any) -> Path:
    folder.mkdir()
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    recipe = {
        "task": "language",
        "data": {"train": str(folder / "texts.txt"), "tokens": {"kind": "characters"}, **data},
        "model": {"name": "recurrent_lm", "hidden": 5, "embedding": 3},
        "train": {"epochs": 1, "device": "cpu"},
    }
    saccade.train(recipe, folder=folder / "lm", progress=False)
    return folder / "lm"


def test_a_language_model_is_found_by_its_tokens(data: SpeechData, tmp_path: Path) -> None:
    task, network, splits = made(data)
    draw = np.random.default_rng(9)
    run = run_of_language_model(tmp_path / "all", ["zz" + text(draw) for _ in range(30)])
    how = Search(beam=3, ctc=0.3, lm=Fusion(str(run), 0.5), focus=Focus(sharpen=2.0))
    decoder = task.decoder(network, how)
    assert isinstance(decoder, Fused) and decoder.tokens is not None
    assert decoder.tokens[Tokenizer.BOS] == Tokenizer.BOS
    theirs = Tokenizer.from_json((run / "tokenizer.json").read_text(encoding="utf-8"))
    for letter in "abcd ":
        assert decoder.tokens[task.tokenizer.encode(letter)[0]] == theirs.encode(letter)[0]
    found = task.predict(network, [record.source for record in splits.test], how=how, lens=Lens())
    plain = task.predict(network, [record.source for record in splits.test], how=Search(beam=3))
    assert [one.value for one in found] != [one.value for one in plain]
    both = task.predict(Ensemble([network, network]), [splits.test[0].source], how=how)[0]
    assert both.value == found[0].value and both.score == pytest.approx(found[0].score, abs=1e-4)
    stream = run_of_language_model(tmp_path / "stream", [text(draw) for _ in range(30)], layout="stream", chunk=9)
    decoder = task.decoder(network, Search(lm=Fusion(str(stream))))
    assert decoder.tokens[Tokenizer.BOS] == Tokenizer.EOS, "what a stream reads before a text"
    without = run_of_language_model(
        tmp_path / "some", [f"{a}{b}c {c}" for a, b, c in itertools.product("abc", repeat=3)]
    )
    with pytest.raises(
        InputError, match=r"lm: tokenizer.json: expected every token of the transcripts, found 1 of 9 missing, 'd'"
    ):
        made(data)[0].predict(network, [splits.test[0].source], how=Search(lm=Fusion(str(without))))
    with pytest.raises(SaccadeError, match=r"search\.ctc: expected a network that was trained with model\.ctc"):
        task.predict(made(data, PLAIN)[1], [splits.test[0].source], how=Search(ctc=0.3))


def test_tokens_of_another_kind_are_refused() -> None:
    texts = ["the cat sat on the mat", "a cat and a dog", "the dog sat"]
    ours, theirs = Tokenizer.train(texts, TokenizerConfig("words")), Tokenizer.train(texts, TokenizerConfig())
    with pytest.raises(InputError, match="expected tokens of the kind words, found characters"):
        tokens_in(theirs, ours, Path("lm"))
    pieces = [Tokenizer.train(part, TokenizerConfig("bpe", size=30)) for part in (texts, texts[:2], texts)]
    assert tokens_in(pieces[2], pieces[0], Path("lm")).tolist() == list(range(pieces[0].size))
    with pytest.raises(InputError, match=r"lm: tokenizer.json: expected"):
        tokens_in(pieces[1], pieces[0], Path("lm"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("search.ctc=0.3", r"search\.ctc: expected 0, or a network that is trained with model\.ctc, found 0\.3"),
        ("search.coverage=0.3", r"search\.coverage: expected 0\.0: sound has no words"),
        ("search.focus.sharpen=0", r"search\.focus\.sharpen: expected sharpen to be above 0"),
        ("search.lm.run=", r"search\.lm"),
        ("metrics=[bleu]", "bleu"),
    ],
)
def test_a_recipe_is_checked_before_training(data: SpeechData, override: str, message: str) -> None:
    recipe = {"task": "transcribe", "data": {"train": data.train, "features": {"kind": "given"}}}
    recipe["model"] = {"name": "listen_attend"}
    assert read_recipe(recipe).metrics == ("wer",)
    with pytest.raises(InputError, match=message):
        read_recipe(recipe, [override])


def test_only_listeners_may_be_asked_for_ctc(data: SpeechData) -> None:
    recipe = {"task": "translate", "data": {"source": "dates"}, "model": {"name": "rnnsearch"}, "search": {"ctc": 0.2}}
    with pytest.raises(InputError, match=r"search\.ctc: expected nothing: the task translate does not listen"):
        read_recipe(recipe)
    task, _, _ = made(data)
    with pytest.raises(InputError, match=r"model\.name: expected a network that listens, such as listen_attend"):
        task.network(RNNSearch, RNNSearch.config_class())


# Figures --------------------------------------------------------------------------------------------------------------


def test_an_evaluation_lists_the_errors(data: SpeechData) -> None:
    task, network, splits = made(data)
    corpus = task.corpus(splits.test, "test")
    found = task.evaluate(network, corpus, how=Search(), metrics=["wer", "cer", "per", "exact_match", "perplexity"])
    assert list(found.figures) == ["wer", "cer", "per", "exact_match", "perplexity"]
    whole = found.details["all"]
    errors = whole["substituted"] + whole["deleted"] + whole["inserted"]
    assert errors / whole["count"] == pytest.approx(found.figures["wer"]) and found.confusion.unit == "words"
    assert any("most frequent errors (words, true → heard)" in note for note in found.notes)
    letters = task.evaluate(network, corpus, how=Search(), metrics=["cer"])
    assert letters.confusion.unit == "characters" and "␣" in letters.details
    for name in ("wer", "cer"):
        again = task.statistics(name, found.outputs, splits.test)
        assert again.value == pytest.approx(found.figures[name]) and len(again) == 7
    usual = task.baselines(splits.train, splits.test, ["wer", "perplexity"])
    assert set(usual) == {"most frequent transcript"} and set(usual["most frequent transcript"]) == {"wer"}
    assert task.length_of(splits.test[0], "reference_words") == 2 and task.length_of(splits.test[0], "seconds") <= 1


def test_it_learns_to_hear(data: SpeechData) -> None:
    config = Config(16, layers=1, state=24, embedding=8, alignment=16, filters=4, reach=3, maxout=16, ctc=0.3)
    splits = Transcribe.load(data, Path("."), 1)
    task = Transcribe.learn(data, splits.train)
    torch.manual_seed(6)
    network, corpus = task.network(ListenAttend, config), task.corpus(splits.train, "data.train")
    (phase,), batch = task.phases(network), task.batch(corpus, range(23))
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(120):
        optimiser.zero_grad()
        phase.loss(network, batch).mean.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
    test = task.corpus(splits.test, "test")
    found = task.evaluate(network.eval(), test, how=Search(beam=3), metrics=["cer"])
    joint = task.evaluate(network, test, how=Search(beam=3, ctc=0.4), metrics=["cer"])
    assert found.figures["cer"] < 0.25 and joint.figures["cer"] <= found.figures["cer"] + 0.02
