"""Generates pictures of a class: a generator and a discriminator train against each other on labelled pictures.

Each batch trains the discriminator, each ``every``-th also the generator (:mod:`saccade.nn.gan`), by two phases:

    discriminator    L_D = E[max(0, 1 − D(x, y))] + E[max(0, 1 + D(G(z, y), y))]
    generator        L_G = −E[D(G(z, y), y)]                                          z ~ N(0, 1)

An input is the name of a class, perhaps with a seed: "circle", "circle 7". A prediction is a picture, drawn from noise that the
seed, the number of the draw and nothing else decide; a trace says for every place of the picture which places it drew from.

Legend: B batch, Z width of the noise, S rows and columns of a picture, N records, D features.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from saccade.bundle_format import load_bundle
from saccade.data.batching import Corpus
from saccade.data.images.batch import IGNORED, ImageBatch, augmented, scaled
from saccade.data.images.pictures import png_of
from saccade.data.images.records import (
    GenerateData,
    LabelledPicture,
)
from saccade.data.labels.classes import Classes
from saccade.data.paths import locate
from saccade.documents import checked
from saccade.errors import InputError, SaccadeError
from saccade.kinds import TEXT
from saccade.metrics.pictures import JUDGED, PICTURE_METRICS, distance_statistics
from saccade.metrics.significance import Statistics, bootstrap, interval
from saccade.models import network_class
from saccade.nn.gan import Gan, discriminator_loss, generator_loss
from saccade.nn.picture_classifier import PictureClassifier
from saccade.nn.search.beam_search import Search
from saccade.nn.search.selection import Sampling
from saccade.plugins import is_own
from saccade.task import Detail, Evaluation, Loss, Phase, Prediction, Progress, eval_mode, keep_best
from saccade.tasks.classify import CLASSES
from saccade.tasks.classify_images import LabelledPictures
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace

CELLS = 4  # rows and columns of the averages that pixel_distance compares
RESAMPLES = 200  # of the bootstrap, each of which takes the roots of two covariances
PNG = "data:image/png;base64,"


@dataclass(frozen=True)
class PictureDetail(Detail):
    """A generated picture: its class, the seed and the number of the draw, and its ``pixels`` [S, S, 3]."""

    label: str = ""
    seed: int = 0
    draw: int = 0
    pixels: UInt8[ndarray, "S S 3"] = field(default_factory=lambda: np.zeros((0, 0, 3), np.uint8))

    def to_json(self) -> dict[str, Any]:
        return {"label": self.label, "seed": self.seed, "draw": self.draw}


@dataclass(frozen=True)
class ClassInput:
    """The class of a picture to be drawn, and its seed, where the input has one."""

    number: int
    seed: int | None = None
    notes: tuple[str, ...] = ()


class Generate(LabelledPictures):
    """The task: the classes that it draws."""

    name = "generate"
    draws = True
    Data = GenerateData
    network_base = Gan
    example = "generates pictures, such as sagan"
    metrics = PICTURE_METRICS
    input = TEXT
    output = "image"
    not_scored = "a picture has no probability"

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        super().check_recipe(recipe)
        if recipe.train.label_smoothing:
            expected, found = "0: the hinge losses have no distribution to smooth", f"{recipe.train.label_smoothing:g}"
            raise InputError("recipe", field="train.label_smoothing", expected=expected, found=found)
        if recipe.data.balance != "none":
            expected = "none: pictures are drawn of the classes of the training records"
            raise InputError("recipe", field="data.balance", expected=expected, found=recipe.data.balance)

    def examples(self, folder: Path, seed: int, test: Sequence[LabelledPicture] | None = None) -> list[str]:
        """Every class, up to ten."""
        return list(self.classes.names[:10])

    @property
    def sample(self) -> str:
        return self.classes.names[0]

    def input_of(self, record: LabelledPicture) -> str:
        return record.target

    # The two phases ------------------------------------------------------------------------------------------------

    def phases(self, network: Gan) -> tuple[Phase, ...]:
        return (
            Phase("discriminator", self._discriminate, ("discriminator",), network.discriminator_settings),
            Phase("generator", self._generate, ("generator",), every=network.every),
        )

    def _discriminate(self, network: Any, batch: ImageBatch, **options: float) -> Loss:
        real = scaled(batch.pixels)
        if network.training and self.data.augment.varies:
            real = augmented(real, self.data.augment)
        labels = batch.labels.clamp(min=0)  # of padding some class; it has no weight
        with torch.no_grad():
            drawn = network.generator(_noise_like(network, labels), labels)
        return _sum(
            discriminator_loss(network.discriminator(real, labels), network.discriminator(drawn, labels)), batch
        )

    def _generate(self, network: Any, batch: ImageBatch, **options: float) -> Loss:
        labels = batch.labels.clamp(min=0)
        drawn = network.generator(_noise_like(network, labels), labels)
        return _sum(generator_loss(network.discriminator(drawn, labels)), batch)

    def loss(self, network: Any, batch: ImageBatch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """The discriminator's loss, with the same noise each time: how well it tells these pictures from generated ones. It is
        logged; which network is better it does not say."""
        labels = batch.labels.clamp(min=0)
        noise = noise_of([(0, index) for index in _indices(batch)], network.noise).to(labels.device)
        real, drawn = scaled(batch.pixels), network.generator(noise, labels)
        return _sum(
            discriminator_loss(network.discriminator(real, labels), network.discriminator(drawn, labels)), batch
        )

    # An input becomes a picture ------------------------------------------------------------------------------------

    def check_search(self, how: Search) -> None:
        sample = how.sample
        if sample is not None and (sample.top_k is not None or sample.top_p < 1):
            raise SaccadeError("the task generate draws from noise: there is no top_k and no top_p of it")

    def read(self, given: Any, where: str, network: Any = None) -> ClassInput:
        """An input is a class, or a class and a seed: "circle 7"."""
        names = self.classes.names
        if isinstance(given, str):
            text = given.strip()
            if text in names:
                return ClassInput(names.index(text))
            label, _, seed = text.rpartition(" ")
            if label.strip() in names and seed.isdecimal() and len(seed) <= 9:
                return ClassInput(names.index(label.strip()), int(seed))
        shown = ", ".join(names[:20]) + " …" * (len(names) > 20)
        found = repr(given[:60]) if isinstance(given, str) else f"a {type(given).__name__}"
        raise InputError(where, expected=f"one of the classes {shown}, with a seed or without", found=found)

    def forward(self, network: Gan, items: Sequence[ClassInput], *, how: Search, lens: Lens | None) -> list[Prediction]:
        """The picture of each input; ``how.n_best`` asks for more draws, as alternatives."""
        return [self._drawn(network, item, how, lens) for item in items]

    def _drawn(self, network: Gan, item: ClassInput, how: Search, lens: Lens | None) -> Prediction:
        """One picture at a time: what is drawn does not depend on what shares a batch, to the last bit."""
        sample = how.sample or Sampling()
        seed = sample.seed if item.seed is None else item.seed
        device = next(network.parameters()).device
        label = torch.tensor([item.number], device=device)
        found: list[Prediction] = []
        for draw in range(how.n_best):
            noise = sample.temperature * noise_of([(seed, draw)], network.noise).to(device)
            own = None if lens is None else lens.fresh()
            pixels = pixels_from(network(noise, label, lens=own))[0]
            detail = PictureDetail(self.classes.names[item.number], seed, draw, pixels.numpy())
            trace = None if own is None else self._trace(network, detail, own, pixels)
            value = PNG + base64.b64encode(png_of(detail.pixels)).decode()
            found.append(Prediction(value, notes=item.notes, detail=detail, trace=trace))
        return keep_best(found)

    def _trace(self, network: Gan, detail: PictureDetail, lens: Lens, pixels: UInt8[Tensor, "S S 3"]) -> Trace:
        trace = lens.trace if lens.records else Trace()
        asked = f"{detail.label} {detail.seed}"
        return trace.labelled(network.axes(pixels), **self.about, input=asked, output=detail.label)

    # Figures ----------------------------------------------------------------------------------------------------------

    @property
    def known_metrics(self) -> tuple[str, ...]:
        return self.metrics if self.data.judge is not None else self.metrics[:1]

    def check_metrics(self, names: Sequence[str]) -> None:
        unjudged = [name for name in names if name in JUDGED and self.data.judge is None]
        if unjudged:
            expected = f"a run of the task classify_images in data.judge, for {unjudged[0]}"
            raise InputError("metrics", expected=expected, found="none")
        super().check_metrics(names)

    def measure(
        self, network: Gan, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """Distances of as many generated pictures as there are records, of their classes, from those of the records."""
        scores = self.picture_statistics(network, corpus, metrics, progress)
        notes = [corpus.cut]
        for found in scores.values():
            if len(corpus) > 1:
                span = interval(bootstrap(found, samples=RESAMPLES))
                notes.append(
                    f"{found.name} {found.value:.4f}: 95 % interval {span.low:.4f} to {span.high:.4f} "
                    f"({RESAMPLES} resamples)"
                )
        return Evaluation.of(scores, (), notes)

    def picture_statistics(
        self, network: Gan, corpus: Corpus, metrics: Sequence[str], progress: Progress | None = None
    ) -> dict[str, Statistics]:
        """The statistics of each metric, by its name: one generated picture per record, of the record's class."""
        judge = self._judge() if set(metrics) & set(JUDGED) else None
        device, N = next(network.parameters()).device, len(corpus)
        features: dict[str, list[tuple[Tensor, Tensor]]] = {"pixel_distance": [], "feature_distance": []}
        right: list[Tensor] = []
        with eval_mode(network), torch.no_grad():
            for start in range(0, N, self.together):
                numbers = list(range(start, min(start + self.together, N)))
                batch = self.batch(corpus, numbers).to(device)
                noise = noise_of([(0, number) for number in numbers], network.noise).to(device)
                drawn = scaled(pixels_from(network(noise, batch.labels)).permute(0, 3, 1, 2)).to(device)
                sets = drawn, scaled(batch.pixels)
                features["pixel_distance"].append(_each(_cells, sets))
                if judge is not None:
                    judge.to(device)
                    features["feature_distance"].append(_each(judge.features, sets))
                    right.append((judge(drawn).argmax(-1) == batch.labels).cpu())
                if progress is not None:
                    progress(numbers[-1] + 1, N)
        scores = dict[str, Statistics]()
        for name in metrics:
            if name == "judged_accuracy":
                hits = torch.cat(right).numpy().astype(float)
                rows = np.stack([hits, np.ones(N)], axis=1)
                found = Statistics(name, rows, lambda sums: float(sums[0] / sums[1]), higher_is_better=True)
            else:
                ours, theirs = (torch.cat(parts).double().numpy() for parts in zip(*features[name], strict=True))
                of = f"features of {self.data.judge}" if name == "feature_distance" else f"{CELLS} × {CELLS} cells"
                found = distance_statistics(name, ours, theirs, f"{of}, {N:,} generated and {N:,} real pictures")
            scores[name] = found
        return scores

    def _judge(self) -> PictureClassifier:
        """The classifier in the run that ``data.judge`` names."""
        where = locate(str(self.data.judge), Path())
        contents = load_bundle(where)
        recipe, classes = contents.config.get("recipe", {}), contents.files.get(CLASSES)
        model = dict(recipe.get("model", {}))
        name = str(model.pop("name", None))
        kind = None if is_own(name) else network_class(name)
        if classes is None or kind is None or not issubclass(kind, PictureClassifier):
            raise InputError(
                where, expected="a run of the task classify_images", found=f"one of {recipe.get('task')!r}"
            )
        names = Classes.from_json(classes, CLASSES).names
        size = recipe.get("data", {}).get("image", {}).get("size")
        if names != self.classes.names or size != self.data.image.size:
            expected = f"a classifier of {', '.join(self.classes.names)}, of pictures of {self.data.image.size} pixels"
            raise InputError(where, expected=expected, found=f"one of {', '.join(names)}, of {size} pixels")
        with torch.random.fork_rng(devices=[]):
            judge: PictureClassifier = kind(checked(kind.config_class, model, where, "model"), size, len(names))
        judge.load_state_dict(dict(contents.tensors))
        return judge.eval()

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return ()

    def source_text(self, record: LabelledPicture) -> str:
        return record.source.name


def noise_of(draws: Sequence[tuple[int, int]], width: int) -> Float[Tensor, "B Z"]:
    """The noise of each (seed, number): the same on every machine and in every batch."""
    # numpy guarantees RandomState's stream across releases.
    rows = [
        np.random.RandomState(np.random.MT19937(np.random.SeedSequence(draw))).standard_normal(width) for draw in draws
    ]
    return torch.from_numpy(np.stack(rows)).float()


def pixels_from(pictures: Float[Tensor, "B 3 S S"]) -> UInt8[Tensor, "B S S 3"]:
    """Values from −1 to 1 as pixels, on the CPU."""
    return ((pictures.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu()


def _noise_like(network: Any, labels: Int64[Tensor, " B"]) -> Float[Tensor, "B Z"]:
    return torch.randn(len(labels), network.noise, device=labels.device)


def _indices(batch: ImageBatch) -> list[int]:
    """The positions of all rows, padding included."""
    return [*batch.indices, *range(len(batch.labels) - len(batch.indices))]


def _sum(losses: Float[Tensor, " B"], batch: ImageBatch) -> Loss:
    return Loss(losses.float().masked_fill(batch.labels == IGNORED, 0.0).sum(), batch.tokens)


def _cells(pictures: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B D"]:
    return functional.adaptive_avg_pool2d(pictures, CELLS).flatten(1)


def _each(features: Any, sets: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    ours, theirs = (features(pictures).float().cpu() for pictures in sets)
    return ours, theirs
