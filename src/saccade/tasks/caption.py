"""Describes pictures: a captioner looks at a grid of cells and writes a sentence, word by word.

A record is a picture with one or many captions. Each caption is a row of its own in training; a picture is predicted once, and
compared with all of its captions. A trace has the words of the caption and the cells of the grid, on the original picture.

Legend: B batch, T target, L cells, V vocabulary.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import CLOSING, Corpus
from saccade.data.config import CUT, fit
from saccade.data.files.records import Name
from saccade.data.images.batch import CaptionBatch, ImageStore, augmented, collate_captions, scaled
from saccade.data.images.features import FeatureStore, KeptFeatures, TunedFeatures
from saccade.data.images.pictures import Framing, framing_of, png_of
from saccade.data.images.places import Picture
from saccade.data.images.records import CaptionData, Captioned, captions_of, load_captions, read_captions
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import InputError
from saccade.extras import need
from saccade.kinds import IMAGE
from saccade.metrics.baselines import most_frequent
from saccade.metrics.captions import CAPTION_METRICS, PAIRED_CAPTION_METRICS, caption_scores, caption_statistics
from saccade.metrics.significance import Statistics
from saccade.metrics.text import Score, perplexity
from saccade.models import name_of
from saccade.nn.backbones import TunedBackbone
from saccade.nn.captioner import Captioner, Looks, Seen
from saccade.nn.search.beam_search import Search
from saccade.task import Evaluation, Loss, Phase, Prediction, Progress, refuse_rate
from saccade.tasks.classify_images import is_one_picture
from saccade.tasks.decoding import Searched, read_and_search, recorder_of, unfinished
from saccade.tasks.steering import TokenConstraints
from saccade.tasks.writing import TOKENIZER, Writes
from saccade.trace.axes import Axis, Grid
from saccade.trace.lens import Lens
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

SHOWN = 1024  # pixels of the longer side of a picture in a trace


@dataclass(frozen=True, eq=False)
class CaptionInput:
    """A picture to describe, the constraints on its caption, and the rows and columns of the cells that it is read as."""

    source: Picture
    grid: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = ()
    wanted: TokenConstraints = field(default_factory=TokenConstraints)

    @cached_property
    def original(self) -> tuple[UInt8[ndarray, "H W 3"], tuple[int, int]]:
        """The picture as a trace keeps it, a large one made smaller, and its true height and width."""
        pixels = self.source.read()
        size = pixels.shape[:2]
        step = SHOWN / max(size)
        if step < 1:
            height, width = (max(1, round(side * step)) for side in size)
            pillow = need("PIL.Image", extra="images", for_="reading pictures")
            pixels = np.asarray(pillow.fromarray(pixels).resize((width, height)))
        return pixels, size


class Caption(Writes):
    """The task: the vocabulary of captions, and how pictures are framed."""

    name = "caption"
    Data = CaptionData
    record_types = (Captioned,)
    network_base = Captioner
    metrics = CAPTION_METRICS
    input = IMAGE
    output = "text"
    thing = "a picture"
    survey = "captions"
    length_setting = "data.max_length"
    baseline_names = ("most frequent caption",)
    lengths = ("reference_words",)

    def __init__(
        self, data: CaptionData, tokenizer: Tokenizer, features: KeptFeatures | TunedFeatures | None = None
    ) -> None:
        self.data, self.tokenizer = data, tokenizer
        self.kept = features if isinstance(features, KeptFeatures) else None  # read in place of pixels
        self.tuned = features if isinstance(features, TunedFeatures) else None

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        refuse_rate(recipe, "sampling", "captions are taught by their true words")
        super().check_recipe(recipe)

    load = staticmethod(load_captions)
    read_file = staticmethod(read_captions)
    records = staticmethod(captions_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Captioned] | None = None) -> list[dict[str, str]]:
        """The first test pictures, as a request sends them."""
        test = self.load(self.data, folder, seed).test if test is None else test
        return [{"base64": base64.b64encode(png_of(record.source.read())).decode()} for record in test[:10]]

    @classmethod
    def learn(cls, data: CaptionData, train: Sequence[Captioned]) -> Caption:
        """The task of these training records: its vocabulary is learnt from their captions alone."""
        tokenizer = Tokenizer.train([caption for record in train for caption in record.target], data.tokens)
        return cls(data, tokenizer, _features_of(data))

    @classmethod
    def restore(cls, data: CaptionData, files: dict[str, str]) -> Caption:
        return cls(data, cls.tokenizer_in(files), _features_of(data, files))

    def files(self) -> dict[str, str]:
        features = self.kept or self.tuned
        return {TOKENIZER: self.tokenizer.to_json(), **({} if features is None else features.files())}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Captioned], where: str) -> Corpus:
        """A row is (number of the record, ids of one of its captions)."""
        owners = [number for number, record in enumerate(records) for _ in record.target]
        captions = [caption for record in records for caption in record.target]
        rows, cut, most = [], 0, self.data.max_length
        for owner, caption, ids in zip(owners, captions, self.tokenizer.encode_all(captions), strict=True):
            ids, over = fit(ids, most, self.data.too_long, f"{where}, record {owner + 1} ({caption[:40]!r})")
            cut += over
            rows.append((owner, ids))
        shortened = f"{where}: {cut:,} of {len(rows):,} captions {CUT} their first {most} tokens" if cut else ""
        counted = f"{where}: {len(records):,} pictures, {len(rows):,} captions" if len(rows) > len(records) else ""
        note = "; ".join(filter(None, (counted, shortened)))
        pictures = [record.source for record in records]
        store = ImageStore(pictures, self.data.image) if self.kept is None else self.kept.store(pictures)
        return Corpus(records, rows, [len(ids) + CLOSING for _, ids in rows], note, shortened, shared=store)

    def row_name(self, corpus: Corpus, number: int) -> str:
        owner, ids = corpus.rows[number]
        return f"a caption of {len(ids)} tokens, of {corpus.records[owner].source.name},"

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> CaptionBatch:
        owners, captions = zip(*(corpus.rows[number] for number in numbers), strict=True)
        store: ImageStore | FeatureStore = corpus.shared
        sources = store.pixels(owners) if isinstance(store, ImageStore) else store.features(owners)
        return collate_captions(sources, captions, numbers)

    def token_counts(self, corpus: Corpus) -> dict[str, int]:
        return {"target": sum(corpus.costs)}

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> Captioner:
        if not (isinstance(network_class, type) and issubclass(network_class, Captioner)):
            expected = "a network that describes pictures, such as show_attend_tell"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        made: Captioner = network_class(config, self.tokenizer.size, self._seen(), Tokenizer.BOS)
        if self.tuned is not None and _backbone_in(made) is None:
            expected = (
                "a network that takes seen.backbone as a module, such as show_attend_tell, with data.features.tune"
            )
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        return made

    def _seen(self) -> Seen:
        if self.kept is not None:
            return Seen(features=self.kept.grid)
        if self.tuned is not None:
            return Seen(self.data.image.size, self.tuned.grid, self.tuned.module())
        return Seen(pixels=self.data.image.size)

    def brought(self, network: Any) -> dict[str, Tensor]:
        """The weights of the backbone: a run on its kept features has none of them."""
        name = _backbone_in(network)
        return {} if name is None else network.get_submodule(name).state_dict(prefix=f"{name}.")

    def sources(self, pictures: Sequence[Picture]) -> Tensor:
        """What a network is given of pictures: their pixels [B, 3, S, S], or features [B, L, D] in float16."""
        if self.kept is not None:
            return self.kept.features(pictures)
        return ImageStore(pictures, self.data.image).pixels(range(len(pictures)))

    def _scaled(self, sources: Tensor) -> Tensor:
        """What a network reads: values of pixels, or features, which are kept and sent to the device in half precision."""
        return scaled(sources) if self.kept is None else sources.float()

    def loss(self, network: Any, batch: CaptionBatch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """−Σ log p(y | picture)."""
        logits = network(self._scaled(batch.source), batch.target_lengths, batch.target_in, sampling=sampling)
        return Loss(sequence_loss(logits, batch.target_out, padding=Tokenizer.PAD, smoothing=smoothing), batch.tokens)

    def phases(self, network: Any) -> tuple[Phase, ...]:
        """One phase: the loss and the network's regulariser, with what that keeps between updates."""
        state, rates = network.state_of_training(), dict[str, float]()
        backbone, features = _backbone_in(network), self.data.features
        if backbone is not None and features is not None and features.tune is not None:
            if not any(parameter.requires_grad for parameter in network.get_submodule(backbone).parameters()):
                expected = f"parameters of the backbone that are trained: it is {backbone} in the network"
                found, hint = "none, or all are frozen", "without tune the features of a frozen backbone are kept"
                raise InputError("recipe", field="data.features.tune", expected=expected, found=found, hint=hint)
            rates = {backbone: features.tune.lr}
        return (Phase("train", partial(self._objective, state), state=state, rates=rates),)

    def _objective(
        self,
        state: dict[str, Tensor],
        network: Any,
        batch: CaptionBatch,
        *,
        smoothing: float = 0.0,
        sampling: float = 0.0,
    ) -> Loss:
        """The loss, and what the network adds to it from what it looked at."""
        looks, pictures = Looks(), self._scaled(batch.source)
        if network.training and self.data.augment.varies:
            pictures = augmented(pictures, self.data.augment)
        logits = network(pictures, batch.target_lengths, batch.target_in, sampling=sampling, looks=looks)
        total = sequence_loss(logits, batch.target_out, padding=Tokenizer.PAD, smoothing=smoothing)
        with torch.no_grad():
            flat = functional.cross_entropy(logits.flatten(0, 1).float(), batch.target_out.flatten(), reduction="none")
        real = batch.target_out != Tokenizer.PAD
        extra = network.regulariser(looks, -flat.view_as(batch.target_out), real, state)
        return Loss(total + extra, batch.tokens)

    # A picture becomes a caption -----------------------------------------------------------------------------------

    def inputs(self, given: Any) -> list[Any]:
        return [given] if is_one_picture(given) else super().inputs(given)

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return (self.data.columns.image,) if self.data.columns.image in names else ()

    def read(self, given: Any, where: str, network: Any = None) -> CaptionInput:
        """An input is a file, its bytes, {"base64": …}, a PIL image, an array [H, W, 3] or a tensor [3, H, W]."""
        if isinstance(given, Mapping):
            given = IMAGE.parse_json(given.get(self.data.columns.image, given), where)
        return CaptionInput(Picture.in_memory(given, where))

    def forward(
        self, network: Any, items: Sequence[CaptionInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        grid = next(
            part.grid for part in network.modules() if isinstance(part, Captioner)
        )  # of an ensemble the first's
        return super().forward(network, [replace(item, grid=grid) for item in items], how=how, lens=lens)

    def search_batch(
        self, network: Captioner, items: Sequence[CaptionInput], how: Search, lens: Lens | None
    ) -> list[Searched]:
        sources = self.sources([item.source for item in items])
        limits = [self.data.max_length + CLOSING + item.wanted.length for item in items]
        constrains = any(item.wanted != TokenConstraints() for item in items)
        return read_and_search(
            network, self._scaled(sources), torch.full((len(items),), len(sources[0])), limits, how, bos=Tokenizer.BOS,
            eos=Tokenizer.EOS, forbidden=(Tokenizer.PAD, Tokenizer.BOS), lens=lens,
            constraints=[item.wanted.constraints for item in items] if constrains else None,
            begins=self.spelling.begins if constrains else None, recorder=recorder_of(network),
        )  # fmt: skip

    # Attention becomes a labelled trace -------------------------------------------------------------------------------

    def source_axes(self, item: CaptionInput, names: set[str]) -> dict[str, Axis]:
        return {"image": self.image_axis(item)} if "image" in names else {}

    def image_axis(self, item: CaptionInput) -> Grid:
        """The cells, row by row, over the picture."""
        pixels, (height, width) = item.original
        return grid_over(pixels, framing_of(height, width, self.data.image), *item.grid)

    def teach(
        self, network: Any, item: CaptionInput, ids: list[int]
    ) -> tuple[Callable[[int, Lens], Float[Tensor, "B T V"]], Tensor]:
        batch = collate_captions(self.sources([item.source]), [ids], [0]).to(next(network.parameters()).device)

        def logits_of(count: int, lens: Lens) -> Tensor:
            logits: Tensor = network(
                self._scaled(batch.source), batch.target_lengths, batch.target_in[:, :count], lens=lens
            )
            return logits

        return logits_of, batch.target_out[0]

    # Figures ----------------------------------------------------------------------------------------------------------

    def measure(
        self, network: Any, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """The named metrics of one caption per picture; ``perplexity`` is that of the true captions."""
        scores, notes, outputs = dict[str, Score](), [corpus.note], list[str]()
        if "perplexity" in metrics:
            scores["perplexity"] = perplexity(*corpus_loss(self, network, corpus))
        named = [name for name in metrics if name != "perplexity"]
        if named:
            items = [CaptionInput(record.source) for record in corpus.records]
            predictions = self.predict_items(network, items, how=how, progress=progress)
            outputs = [prediction.value for prediction in predictions]
            notes += unfinished(predictions)
            scores |= self._scores(named, outputs, corpus.records)
        return Evaluation.of({name: scores[name] for name in metrics}, outputs, notes)

    def _scores(self, names: Sequence[str], outputs: Sequence[str], records: Sequence[Captioned]) -> dict[str, Score]:
        return caption_scores(names, outputs, self._references(records))

    def _references(self, records: Sequence[Captioned]) -> list[list[str]]:
        return [[self.tokenizer.canonical(caption) for caption in record.target] for record in records]

    def statistics(self, name: str, outputs: Sequence[str], records: Sequence[Captioned]) -> Statistics:
        return caption_statistics(name, outputs, self._references(records))

    def baselines(
        self, train: Sequence[Captioned], records: Sequence[Captioned], metrics: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """The most frequent caption for every picture."""
        named = [name for name in metrics if name in PAIRED_CAPTION_METRICS]
        if not named:
            return {}
        usual = self.tokenizer.canonical(most_frequent(caption for record in train for caption in record.target))
        scores = self._scores(named, [usual] * len(records), records)
        return {self.baseline_names[0]: {name: found.value for name, found in scores.items()}}

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return PAIRED_CAPTION_METRICS

    def reference(self, record: Captioned) -> str:
        """The first of a record's captions."""
        return self.tokenizer.canonical(record.target[0])

    def length_of(self, record: Captioned, by: str) -> int:
        """The words of the first caption."""
        return len(record.target[0].split())


def _features_of(data: CaptionData, files: Mapping[str, str] | None = None) -> KeptFeatures | TunedFeatures | None:
    """The features of ``data.features``: kept ones, or those of a backbone that is trained."""
    if data.features is not None and data.features.tune is not None:
        return TunedFeatures.of(data.features, data.image, files)
    return KeptFeatures.of(data.features, data.image, files)


def _backbone_in(network: Any) -> str | None:
    """The name of the backbone that a network trains, if it trains one."""
    return next((name for name, part in network.named_modules() if isinstance(part, TunedBackbone)), None)


def grid_over(pixels: UInt8[ndarray, "H W 3"], framing: Framing, height: int, width: int) -> Grid:
    """The cells of a frame on the picture that was framed, which may have been made smaller since."""
    labels = tuple(f"{row},{column}" for row in range(height) for column in range(width))
    (rows, columns), (left, top, right, bottom) = framing.original, framing.box
    box = (left / columns, top / rows, right / columns, bottom / rows)
    return Grid(labels, height=height, width=width, image=torch.from_numpy(pixels.copy()), box=box)
