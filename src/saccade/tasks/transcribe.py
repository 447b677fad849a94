"""Transcribes speech: a listener reads frames of sound and writes what is said, token by token.

A record is a recording, or frames that were computed elsewhere, with its transcript, and perhaps its speaker and the times of
its symbols. Tokens are characters, words (phonemes are words of transcripts that list them) or subwords. A trace has the
tokens of the transcript and the annotations of the sound, which lie a fixed time apart.

Legend: B batch, N frames, D features per frame, L annotations, T target, V vocabulary.
"""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from saccade.bundle_format import load_bundle
from saccade.data.audio.batch import SpeechBatch, collate_speech, masked, padded_frames
from saccade.data.audio.features import Features, KeptSound, SoundStore, Source, speeds_of
from saccade.data.audio.given import GivenFrames
from saccade.data.audio.recordings import Recording
from saccade.data.audio.records import (
    SpeechData,
    Spoken,
    Times,
    load_speech,
    notes_on,
    read_speech,
    seconds_of,
    source_in,
    speech_of,
)
from saccade.data.batching import CLOSING, Corpus
from saccade.data.config import CUT, fit
from saccade.data.files.records import Name
from saccade.data.paths import locate
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.documents import checked
from saccade.errors import InputError, SaccadeError
from saccade.kinds import AUDIO
from saccade.metrics.baselines import most_frequent
from saccade.metrics.significance import Statistics
from saccade.metrics.text import perplexity
from saccade.metrics.transcripts import (
    ERROR_RATES,
    PAIRED_TRANSCRIPT_METRICS,
    TRANSCRIPT_METRICS,
    Errors,
    transcript_scores,
    transcript_statistics,
)
from saccade.models import name_of, network_class
from saccade.nn.cuda_graphs import leaves
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.ensemble import Ensemble
from saccade.nn.language import LanguageModel
from saccade.nn.listener import Focus, Heard, Listener
from saccade.nn.search.beam_search import Search, is_plain
from saccade.nn.search.fusion import Fused, Fusion
from saccade.plugins import is_own
from saccade.task import Evaluation, Loss, Phase, Prediction, Progress, eval_mode
from saccade.tasks.decoding import Searched, read_and_search, recorder_of, unfinished
from saccade.tasks.steering import TokenConstraints
from saccade.tasks.writing import TOKENIZER, Writes
from saccade.trace.axes import Axis, Frames
from saccade.trace.lens import Lens
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

TRAINING = "data.train"  # what the corpus that is trained on is called
SAME_LENGTH = 64  # frames: with CUDA graphs recordings are padded to multiples of it, so that few shapes are recorded
HELD = 1 << 27  # numbers that the hypotheses of one search hold of the sound: half a gigabyte
BANDS = 40  # of the spectrogram in a trace
AT_ONCE = 600.0  # seconds that a prediction reads at once, unless training recordings were longer


@dataclass(frozen=True, eq=False)
class TranscribeInput:
    """A recording to transcribe: its frames, when they are asked for, how many they are, and the constraints on its
    transcript."""

    source: Source
    frames: Callable[[], Float[Tensor, "N D"]]
    length: int
    times: Times | None = None
    pooling: int = 1
    notes: tuple[str, ...] = ()
    wanted: TokenConstraints = field(default_factory=TokenConstraints)


class Transcribe(Writes):
    """The task: the vocabulary of transcripts, and the features of sound."""

    name = "transcribe"
    Data = SpeechData
    record_types = (Spoken,)
    network_base = Listener
    metrics = TRANSCRIPT_METRICS
    input = AUDIO
    output = "text"
    thing = "sound"
    survey = "recordings"
    fuses = True
    length_setting = "data.audio.max_seconds"
    baseline_names = ("most frequent transcript",)
    lengths = ("reference_words", "seconds")

    def __init__(self, data: SpeechData, tokenizer: Tokenizer, sound: KeptSound) -> None:
        self.data, self.tokenizer, self.sound = data, tokenizer, sound
        self._language_models: dict[str, tuple[LanguageModel, Tensor]] = {}

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        super().check_recipe(recipe)
        if recipe.search.ctc and not getattr(recipe.model, "ctc", 0.0):
            expected = "0, or a network that is trained with model.ctc"
            raise InputError("recipe", field="search.ctc", expected=expected, found=f"{recipe.search.ctc:g}")

    load = staticmethod(load_speech)
    read_file = staticmethod(read_speech)
    records = staticmethod(speech_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Spoken] | None = None) -> list[dict[str, str]]:
        """The first test recordings, as a request sends them."""
        test = self.load(self.data, folder, seed).test if test is None else test
        return [
            {"base64": base64.b64encode(_file_of(record.source, self.data.audio.rate)).decode()} for record in test[:10]
        ]

    @property
    def sample(self) -> str:
        return "frames.npy" if self.data.features.kind == "given" else str(self.input.sample)

    @classmethod
    def learn(cls, data: SpeechData, train: Sequence[Spoken]) -> Transcribe:
        """The task of these training records: its vocabulary and the scale of its features are learnt from them alone."""
        tokenizer = Tokenizer.train([record.target or "" for record in train], data.tokens)
        sound = KeptSound.learn(data.features, data.audio.rate, train, speeds=speeds_of(data.augment, data.features))
        return cls(data, tokenizer, sound)

    @classmethod
    def restore(cls, data: SpeechData, files: dict[str, str]) -> Transcribe:
        sound = KeptSound.restore(data.features, data.audio.rate, files)
        return cls(data, cls.tokenizer_in(files), sound)

    def files(self) -> dict[str, str]:
        return {TOKENIZER: self.tokenizer.to_json(), **self.sound.files()}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Spoken], where: str) -> Corpus:
        """A row is (number of the record, row of the store, ids of its transcript): in training one per record and speed."""
        speeds = speeds_of(self.data.augment, self.data.features) if where == TRAINING else (1.0,)
        store = self.sound.store(records, speeds)
        encoded, cut, most = [], 0, self.data.max_length
        ids_of = self.tokenizer.encode_all([record.target or "" for record in records])
        for number, (record, ids) in enumerate(zip(records, ids_of, strict=True), start=1):
            ids, over = fit(ids, most, self.data.too_long, f"{where}, record {number} ({record.source.name})")
            cut += over
            encoded.append(ids)
        rows = [(owner, row, encoded[owner]) for row, (owner, _) in enumerate(store.rows)]
        lengths = store.lengths.tolist()
        costs = [(length, len(ids)) for length, (_, _, ids) in zip(lengths, rows, strict=True)]
        shortened = f"{where}: {cut:,} of {len(records):,} transcripts {CUT} their first {most} tokens" if cut else ""
        hours = sum(lengths) / self.sound.frames_per_second / 3600
        listed = (
            f"{len(rows):,} recordings" if len(speeds) == 1 else f"{len(records):,} recordings at {len(speeds)} speeds"
        )
        note = "; ".join(filter(None, (f"{where}: {listed}, {hours:.2f} hours", shortened)))
        return Corpus(records, rows, costs, note, shortened, shared=store)

    def row_name(self, corpus: Corpus, number: int) -> str:
        owner, row, _ = corpus.rows[number]
        return f"{corpus.records[owner].source.name}, of {int(corpus.shared.lengths[row]):,} frames,"

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> SpeechBatch:
        _, rows, transcripts = zip(*(corpus.rows[number] for number in numbers), strict=True)
        store: SoundStore = corpus.shared
        return collate_speech(store.frames(rows), transcripts, numbers)

    def token_counts(self, corpus: Corpus) -> dict[str, int]:
        return {"target": sum(len(ids) + CLOSING for _, _, ids in corpus.rows)}

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, made: Any, config: Any) -> Listener:
        if not (isinstance(made, type) and issubclass(made, Listener)):
            expected = "a network that listens, such as listen_attend"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(made)))
        network: Listener = made(config, self.tokenizer.size, self.sound.width, Tokenizer.BOS)
        return network

    def loss(self, network: Any, batch: SpeechBatch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """−Σ log p(y | frames)."""
        logits = network(batch.frames, batch.frame_lengths, batch.target_in, sampling=sampling)
        return Loss(sequence_loss(logits, batch.target_out, padding=Tokenizer.PAD, smoothing=smoothing), batch.tokens)

    def phases(self, network: Any) -> tuple[Phase, ...]:
        """One phase: the decoder's share of the loss, and what the network adds to it."""
        return (Phase("train", self._objective),)

    def _objective(self, network: Any, batch: SpeechBatch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        frames, heard = batch.frames, Heard()
        if network.training and self.data.augment.masks:
            frames = masked(frames, batch.frame_lengths, self.data.augment, self.data.features)
        logits = network(frames, batch.frame_lengths, batch.target_in, sampling=sampling, heard=heard)
        total = sequence_loss(logits, batch.target_out, padding=Tokenizer.PAD, smoothing=smoothing)
        real = (batch.target_out != Tokenizer.PAD).any(1)
        extra = network.regulariser(heard, batch.target_out, batch.target_lengths, real)
        return Loss((1 - network.ctc) * total + extra, batch.tokens)

    # A recording becomes a transcript --------------------------------------------------------------------------------

    def inputs(self, given: Any) -> list[Any]:
        return [given] if self._is_one_recording(given) else super().inputs(given)

    def _is_one_recording(self, given: Any) -> bool:
        """Whether what is handed to ``predict`` is one recording, not a list of several or a table."""
        if isinstance(given, bytes | bytearray | memoryview | Path | Recording | GivenFrames | Spoken):
            return True
        if hasattr(given, "read"):  # an open file has lines, which are no recordings
            return True
        if isinstance(given, ndarray | Tensor):
            return given.ndim == 2 and self.data.features.kind == "given"
        pair = isinstance(given, tuple) and len(given) == 2
        return pair and hasattr(given[0], "shape") and isinstance(given[1], int | float | np.number)

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        column = self.data.columns.found(names).get("audio")
        # {"base64": …} is a recording as a request sends it, whatever the column of a table is called.
        return () if column is None or list(names) == ["base64"] else (column,)

    def read(self, given: Any, where: str, network: Any = None) -> TranscribeInput:
        """An input is a file, its bytes, {"base64": …}, (samples, rate), or with given features frames [N, D]."""
        if isinstance(given, Mapping) and set(given) == {"base64"}:
            given = AUDIO.parse_json(given, where)
        source = source_in(given, self.data, where)
        seconds, most = seconds_of(source, self.data), max(AT_ONCE, self.data.audio.max_seconds)
        if seconds > most:
            hint = "saccade predict --chunk and saccade.transcribe read recordings window by window"
            raise InputError(where, expected=f"at most {most:,.0f} s", found=f"{seconds:,.0f} s", hint=hint)
        speaker, times = (given.speaker, given.times) if isinstance(given, Spoken) else ("", None)
        (frames,) = self.sound.frames([(source, speaker)])
        notes = notes_on(source, self.data)
        if len(frames) > 1 and bool((frames == frames[0]).all()):
            notes = (*notes, "the recording is silent")
        return TranscribeInput(source, lambda: frames, len(frames), times, notes=notes)

    def cost(self, item: TranscribeInput) -> int:
        return item.length

    def predict_items(
        self,
        network: Any,
        items: Sequence[TranscribeInput],
        *,
        how: Any,
        lens: Lens | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        pooling = next(part.pooling for part in network.modules() if isinstance(part, Listener))
        items = [replace(item, pooling=pooling) for item in items]  # of an ensemble the first's
        with eval_mode(network):
            return super().predict_items(self.decoder(network, how), items, how=how, lens=lens, progress=progress)

    def group(
        self, network: Any, items: Sequence[TranscribeInput], how: Search, lens: Lens | None
    ) -> Iterator[list[int]]:
        """As of every decoder, but no more together than memory holds: each hypothesis has the annotations of its recording,
        what attention makes of them, and with ``how.ctc`` the probabilities of all labels."""
        parts = [
            part for part in leaves(network.encode(*_nothing(network, self.sound.width))) if isinstance(part, Tensor)
        ]
        width = sum(part.shape[-1] for part in parts if part.dim() == 3)  # numbers per annotation
        for numbers in super().group(network, items, how, lens):
            annotations = max(-(-items[number].length // items[number].pooling) for number in numbers)
            most = max(1, HELD // max(1, how.lanes * how.width * annotations * width))
            yield from (numbers[start : start + most] for start in range(0, len(numbers), most))

    def decoder(self, network: Any, how: Search) -> EncoderDecoder:
        """What is searched: the network, or several, with the attention, the CTC scores and the language model of ``how``."""
        decoder: EncoderDecoder = network if how.focus is None else _focused(network, how.focus)
        if not how.ctc and how.lm is None:
            return decoder
        lm, tokens = (None, None) if how.lm is None else self._language_model(how.lm, next(network.parameters()).device)
        return Fused(
            decoder, ctc=how.ctc, labels=lambda memory: _ctc_log_probs(decoder, memory), lm=lm,
            weight=0.0 if how.lm is None else how.lm.weight, tokens=tokens, bos=Tokenizer.BOS, eos=Tokenizer.EOS,
        ).eval()  # fmt: skip

    def search_batch(
        self, network: EncoderDecoder, items: Sequence[TranscribeInput], how: Search, lens: Lens | None
    ) -> list[Searched]:
        frames, lengths = padded_frames([item.frames() for item in items])
        # No more tokens than frames: a search of an untrained network would not end before.
        limits = [min(self.data.max_length, item.length) + CLOSING + item.wanted.length for item in items]
        constrains = any(item.wanted != TokenConstraints() for item in items)
        constraints = [item.wanted.constraints for item in items] if constrains else None
        recorder = recorder_of(network)
        if recorder is not None and is_plain(how, lens, constraints):
            frames = functional.pad(frames, (0, 0, 0, -frames.shape[1] % SAME_LENGTH))
        return read_and_search(
            network, frames, lengths, limits, how, bos=Tokenizer.BOS, eos=Tokenizer.EOS,
            forbidden=(Tokenizer.PAD, Tokenizer.BOS), lens=lens, constraints=constraints,
            begins=self.spelling.begins if constrains else None, recorder=recorder,
        )  # fmt: skip

    # Attention becomes a labelled trace -------------------------------------------------------------------------------

    def source_axes(self, item: TranscribeInput, names: set[str]) -> dict[str, Axis]:
        return {"sound": self.sound_axis(item)} if "sound" in names else {}

    def sound_axis(self, item: TranscribeInput) -> Frames:
        """The annotations of a recording, with its sound and its spectrogram; of given frames these frames."""
        annotations, seconds = -(-item.length // item.pooling), item.pooling / self.sound.frames_per_second
        rate, samples = 0, None
        if isinstance(item.source, Recording):
            rate = self.data.audio.rate
            samples = torch.from_numpy(item.source.read(rate))
            features = self._bands(samples)
        else:
            features = item.frames()[:, : self.sound.features.plain]
        return Frames.of(
            annotations, seconds, samples=samples, rate=rate, features=features, pooling=item.pooling,
            segments=item.times or (),
        )  # fmt: skip

    def _bands(self, samples: Float[Tensor, " n"]) -> Float[Tensor, "N M"]:
        """Log-mel bands of samples, whatever features the network reads, a row per frame."""
        features = self.data.features
        plain = replace(features, kind="log_mel", mels=min(BANDS, features.mels), deltas=0, energy=False, archive=None)
        frames: Tensor = Features(plain, self.data.audio.rate)(samples.unsqueeze(0), torch.tensor([len(samples)]))[0]
        return frames[0]

    def teach(
        self, network: Any, item: TranscribeInput, ids: list[int]
    ) -> tuple[Callable[[int, Lens], Float[Tensor, "B T V"]], Tensor]:
        batch = collate_speech([item.frames()], [ids], [0]).to(next(network.parameters()).device)

        def logits_of(count: int, lens: Lens) -> Tensor:
            logits: Tensor = network(batch.frames, batch.frame_lengths, batch.target_in[:, :count], lens=lens)
            return logits

        return logits_of, batch.target_out[0]

    # A language model beside the network -----------------------------------------------------------------------------

    def _language_model(self, fusion: Fusion, device: torch.device) -> tuple[LanguageModel, Int[Tensor, " V"]]:
        """The network in the run of ``search.lm``, and its token for each of ours."""
        if fusion.run not in self._language_models:
            self._language_models[fusion.run] = self._load_language_model(locate(fusion.run, Path()))
        lm, tokens = self._language_models[fusion.run]
        return lm.to(device), tokens.to(device)

    def _load_language_model(self, where: Path) -> tuple[LanguageModel, Int[Tensor, " V"]]:
        contents = load_bundle(where)
        recipe = contents.config.get("recipe", {})
        model = dict(recipe.get("model", {}))
        name = str(model.pop("name", None))
        kind = None if is_own(name) else network_class(name)
        if TOKENIZER not in contents.files or kind is None or not issubclass(kind, LanguageModel):
            raise InputError(where, expected="a run of the task language", found=f"one of {recipe.get('task')!r}")
        theirs = Tokenizer.from_json(contents.files[TOKENIZER], f"{where}/{TOKENIZER}")
        opening = Tokenizer.EOS if recipe.get("data", {}).get("layout") == "stream" else Tokenizer.BOS
        tokens = tokens_in(theirs, self.tokenizer, where)
        tokens[Tokenizer.BOS] = opening
        with torch.random.fork_rng(devices=[]):
            lm: LanguageModel = kind(checked(kind.config_class, model, where, "model"), theirs.size)
        lm.load_state_dict(dict(contents.tensors))
        if lm.longest is not None and lm.longest < self.data.max_length + CLOSING:
            expected = (
                f"a language model of at least {self.data.max_length + CLOSING} positions (data.max_length and one)"
            )
            raise InputError(where, expected=expected, found=f"one of {lm.longest}")
        return lm.eval(), tokens

    # Figures ----------------------------------------------------------------------------------------------------------

    def measure(
        self, network: Any, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """The named metrics, with the errors of words, or of characters where only their rate is asked for."""
        scores, notes, outputs = dict[str, Any](), [corpus.cut], list[str]()
        details: dict[str, Mapping[str, float]] = {}
        confusion = None
        if "perplexity" in metrics:
            scores["perplexity"] = perplexity(*corpus_loss(self, network, corpus))
        named = [name for name in metrics if name != "perplexity"]
        if named:
            predictions = self.predict_items(network, self._items(corpus), how=how, progress=progress)
            outputs = [prediction.value for prediction in predictions]
            references = [self.reference(record) for record in corpus.records]
            scores |= transcript_scores(named, outputs, references)
            notes += unfinished(predictions)
            if set(named) & set(ERROR_RATES):
                unit = "characters" if set(named) & set(ERROR_RATES) == {"cer"} else "words"
                errors = Errors.of(outputs, references, unit)
                details, confusion = {**errors.by_unit()}, errors.confusion(unit)
                notes.append(errors.note(unit))
        return Evaluation.of({name: scores[name] for name in metrics}, outputs, notes, details, confusion)

    def _items(self, corpus: Corpus) -> list[TranscribeInput]:
        """The records of a corpus as inputs, whose frames the corpus has."""
        store: SoundStore = corpus.shared
        rows = {owner: row for row, (owner, speed) in enumerate(store.rows) if speed == 1.0}

        def item(number: int, record: Spoken) -> TranscribeInput:
            if number not in rows:
                (frames,) = self.sound.frames([(record.source, record.speaker)])
                return TranscribeInput(record.source, lambda: frames, len(frames), record.times)
            row = rows[number]
            return TranscribeInput(record.source, lambda: store.frames([row])[0], int(store.lengths[row]), record.times)

        return [item(number, record) for number, record in enumerate(corpus.records)]

    def statistics(self, name: str, outputs: Sequence[str], records: Sequence[Spoken]) -> Statistics:
        return transcript_statistics(name, outputs, [self.reference(record) for record in records])

    def baselines(
        self, train: Sequence[Spoken], records: Sequence[Spoken], metrics: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """The most frequent transcript for every recording."""
        named = [name for name in metrics if name in PAIRED_TRANSCRIPT_METRICS]
        if not named:
            return {}
        usual = self.tokenizer.canonical(most_frequent(record.target or "" for record in train))
        found = transcript_scores(named, [usual] * len(records), [self.reference(record) for record in records])
        return {self.baseline_names[0]: {name: score.value for name, score in found.items()}}

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return PAIRED_TRANSCRIPT_METRICS

    def reference(self, record: Spoken) -> str:
        return self.tokenizer.canonical(record.target or "")

    def length_of(self, record: Spoken, by: str) -> int:
        """Words of the transcript, or whole seconds of the recording."""
        if by == "reference_words":
            return len(self.reference(record).split())
        return round(seconds_of(record.source, self.data))


def tokens_in(theirs: Tokenizer, ours: Tokenizer, where: Path) -> Int[Tensor, " V"]:
    """The number that another tokenizer has for each of our tokens; raises where it lacks some, or cuts words otherwise."""
    kind, other = ours.config.kind, theirs.config.kind
    if kind != other:
        raise InputError(where, field=TOKENIZER, expected=f"tokens of the kind {kind}", found=other)
    numbers = {text: number for number, text in enumerate(theirs.raw_tokens)}
    missing = [text for text in ours.raw_tokens if text not in numbers]
    if missing:
        found = f"{len(missing):,} of {ours.size:,} missing, {missing[0]!r} among them"
        raise InputError(where, field=TOKENIZER, expected="every token of the transcripts", found=found)
    if ours.config.subwords and theirs.merges != ours.merges:
        expected, hint = "subwords that were learnt as those of the transcripts", "train both on the same texts"
        raise InputError(where, field=TOKENIZER, expected=expected, found="others", hint=hint)
    return torch.tensor([numbers[text] for text in ours.raw_tokens])


def _nothing(network: Any, width: int) -> tuple[Float[Tensor, "1 1 D"], Int[Tensor, " 1"]]:
    """A recording of one frame of zeros, and its length."""
    parameter = next(network.parameters())
    return torch.zeros(1, 1, width, device=parameter.device), torch.ones(1, dtype=torch.int64, device=parameter.device)


def _focused(network: Any, focus: Focus) -> EncoderDecoder:
    if isinstance(network, Ensemble):
        return Ensemble([_focused(member, focus) for member in network.members]).eval()
    focused: Listener = network.focused(focus)
    return focused


def _ctc_log_probs(decoder: Any, memory: Any) -> Float[Tensor, "B L V"]:
    """log p of CTC's labels; of an ensemble the mean of its members'."""
    if not isinstance(decoder, Ensemble):
        found: Tensor = decoder.ctc_log_probs(memory)
        return found
    members = [_ctc_log_probs(member, part) for member, part in zip(decoder.members, memory, strict=True)]
    sizes = {each.shape[1] for each in members}
    if len(sizes) > 1:
        raise SaccadeError(f"search.ctc: expected networks that pool time alike, found {sorted(sizes)} annotations")
    return torch.stack(members).logsumexp(0) - float(np.log(len(members)))


def _file_of(source: Source, rate: int) -> bytes:
    """A recording as a .wav file, or given frames as a .npy file."""
    file = io.BytesIO()
    if isinstance(source, GivenFrames):
        np.save(file, source.read())
        return file.getvalue()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(rate)
        wav.writeframes((source.read(rate).clip(-1, 1) * 32767).round().astype("<i2").tobytes())
    return file.getvalue()
