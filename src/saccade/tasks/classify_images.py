"""Classifies pictures: what a photo shows, which digit was written, whether two dots have the same colour.

A record becomes a framed picture (:mod:`saccade.data.images.batch`), the network's logits the loss

    loss = Σ_b w(y_b) · −log p(y_b | picture_b),        w(c) = 1, or with ``balance: weights``  N / (C · N_c)

A prediction is the likeliest label with the probabilities of all labels; a trace is labelled with the picture: the row of a
map that belongs to a place of the picture says where that place looks.

Legend: B batch, S rows and columns of a picture, N records, C labels.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from saccade.data.batching import Corpus, group
from saccade.data.files.records import Name
from saccade.data.images.batch import ImageBatch, ImageStore, augmented, collate_images, pixels_of, scaled
from saccade.data.images.pictures import Framing, png_of
from saccade.data.images.places import Picture
from saccade.data.images.records import (
    LabelledImageData,
    LabelledPicture,
    labelled_pictures_of,
    load_labelled_pictures,
    pixels_in,
    read_labelled_pictures,
)
from saccade.data.labels.classes import Classes, described, labels_in
from saccade.errors import InputError
from saccade.kinds import IMAGE
from saccade.metrics.baselines import most_frequent
from saccade.metrics.labels import IMAGE_METRICS, LABEL_METRICS, label_scores, label_statistics
from saccade.metrics.significance import Statistics
from saccade.models import name_of
from saccade.nn.picture_classifier import PictureClassifier
from saccade.nn.search.beam_search import Search
from saccade.task import (
    Calibrates,
    Evaluation,
    Loss,
    Prediction,
    Probabilities,
    Progress,
    Scored,
    Scores,
    Surveys,
    Task,
    eval_mode,
    keep_best,
    rows_of,
)
from saccade.tasks.calibration import Calibration, shares_of
from saccade.tasks.classify import CLASSES, evaluate_labels, label_loss
from saccade.tasks.scoring import TINY, choice_scorer
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Outputs, Trace


@dataclass(frozen=True)
class PictureInput:
    """A picture that was read: its framed pixels, and where the frame lies on the original."""

    pixels: UInt8[Tensor, "3 S S"]
    framing: Framing
    notes: tuple[str, ...] = ()


class LabelledPictures(Surveys, Task):
    """What the tasks share whose records are pictures with a label each: where they are read, the labels, a batch of them."""

    Data = LabelledImageData
    record_types = (LabelledPicture,)
    survey = "pictures"
    length_setting = "data.image.size"
    example: ClassVar[str]  # of a network, for messages

    def __init__(self, data: LabelledImageData, classes: Classes) -> None:
        self.data, self.classes = data, classes

    load = staticmethod(load_labelled_pictures)
    read_file = staticmethod(read_labelled_pictures)
    records = staticmethod(labelled_pictures_of)

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        super().check_recipe(recipe)
        if recipe.data.features is not None:
            expected = f"none: the task {cls.name} reads pixels"
            raise InputError("recipe", field="data.features", expected=expected, found=recipe.data.features.backbone)

    @classmethod
    def learn(cls, data: LabelledImageData, train: Sequence[LabelledPicture]) -> Self:
        return cls(data, Classes.of(train, data.labels))

    @classmethod
    def restore(cls, data: LabelledImageData, files: dict[str, str]) -> Self:
        if CLASSES not in files:
            raise InputError(CLASSES, expected="a file of the bundle", found="no such file")
        return cls(data, Classes.from_json(files[CLASSES], CLASSES))

    def files(self) -> dict[str, str]:
        return {CLASSES: self.classes.to_json()}

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classes.names

    def corpus(self, records: Sequence[LabelledPicture], where: str) -> Corpus:
        """A row is the number of the label; the pictures are read when a batch needs them."""
        rows = [self.classes.number(record.target, f"{where}, {record.source.name}") for record in records]
        occurring = labels_in(records)
        remark = self.classes.remark(occurring, self.data.balance, training=where == "data.train")
        store = ImageStore([record.source for record in records], self.data.image)
        return Corpus(records, rows, [1] * len(rows), f"{where}: {described(occurring)}{remark}", shared=store)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> ImageBatch:
        return collate_images(corpus.shared.pixels(numbers), [corpus.rows[number] for number in numbers], numbers)

    def network(self, network_class: Any, config: Any) -> Any:
        if not issubclass(network_class, self.network_base):
            expected = f"a network that {self.example}"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        return network_class(config, self.data.image.size, len(self.classes.names))

    def monitored(self, network: Any) -> dict[str, float]:
        found: dict[str, float] = network.monitored()
        return found


class ClassifyImages(Calibrates, Scores, LabelledPictures):
    """The task: the labels that it knows, and how pictures are framed."""

    name = "classify_images"
    network_base = PictureClassifier
    example = "classifies pictures, such as image_classifier"
    metrics = IMAGE_METRICS
    input = IMAGE
    output = "label"
    baseline_names = ("most frequent label",)
    calibration: Calibration | None = None

    def examples(self, folder: Path, seed: int, test: Sequence[LabelledPicture] | None = None) -> list[dict[str, str]]:
        """The first test pictures, as a request sends them."""
        test = self.load(self.data, folder, seed).test if test is None else test
        return [{"base64": base64.b64encode(png_of(record.source.read())).decode()} for record in test[:10]]

    @classmethod
    def restore(cls, data: LabelledImageData, files: dict[str, str]) -> Self:
        task = super().restore(data, files)
        task.calibration = Calibration.among(files)
        return task

    def files(self) -> dict[str, str]:
        return {**super().files(), **({} if self.calibration is None else self.calibration.files)}

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def loss(self, network: Any, batch: ImageBatch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """Cross-entropy of the labels; in training pictures are varied as ``data.augment`` says."""
        pictures = scaled(batch.pixels)
        if network.training and self.data.augment.varies:
            pictures = augmented(pictures, self.data.augment)
        weights = self.classes.weights if self.data.balance == "weights" else None
        return Loss(label_loss(network(pictures), batch.labels, weights, smoothing), batch.tokens)

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def inputs(self, given: Any) -> list[Any]:
        return [given] if is_one_picture(given) else super().inputs(given)

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return (self.data.columns.image,) if self.data.columns.image in names else ()

    def read(self, given: Any, where: str, network: Any = None) -> PictureInput:
        """An input is a file, its bytes, {"base64": …}, a PIL image, an array [H, W, 3] or a tensor [3, H, W]."""
        return read_picture_input(given, where, self.data)

    def forward(
        self, network: PictureClassifier, items: Sequence[PictureInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The likeliest label of each picture; ``how.n_best`` asks for the next labels as alternatives."""
        device = next(network.parameters()).device
        batch_lens = lens.fresh() if lens is not None else None
        pixels = torch.stack([item.pixels for item in items]).to(device)
        shares = shares_of(network(scaled(pixels), lens=batch_lens), self.calibration).tolist()
        recorded = rows_of(batch_lens.records if batch_lens is not None else (), len(items), device)
        return [
            self._prediction(network, item, row, None if lens is None else records, how, lens)
            for item, row, records in zip(items, shares, recorded, strict=True)
        ]

    def _prediction(
        self,
        network: PictureClassifier,
        item: PictureInput,
        shares: list[float],
        records: list[Record] | None,
        how: Search,
        lens: Lens | None,
    ) -> Prediction:
        order = sorted(range(len(shares)), key=lambda number: -shares[number])
        named = {self.classes.names[number]: shares[number] for number in order}
        best = [
            Prediction(name, share, float(np.log(max(share, TINY))), notes=item.notes)
            for name, share in list(named.items())[: how.n_best]
        ]
        trace = None if records is None or lens is None else self._trace(network, item, named, order, records, lens)
        return replace(keep_best(best), trace=trace, detail=Probabilities(named))

    def _trace(
        self,
        network: PictureClassifier,
        item: PictureInput,
        shares: dict[str, float],
        order: list[int],
        records: list[Record],
        lens: Lens,
    ) -> Trace:
        value = next(iter(shares))
        image = item.pixels.permute(1, 2, 0).contiguous()
        axes: dict[str, Axis] = {**network.axes(image), "label": Tokens((value,), text=value)}
        outputs = None
        if lens.wants("outputs"):
            likeliest = torch.tensor([list(shares.values())])
            outputs = Outputs("label", (tuple(shares),), likeliest, torch.tensor([order]))
        height, width = item.framing.original
        about = {**self.about, "input": f"a picture of {width} × {height}", "output": value, "score": shares[value]}
        trace = replace(assemble(records, 0) if records else Trace(), outputs=outputs)
        return trace.labelled(axes, **about, probabilities=shares, framing=asdict(item.framing))

    def scorer(self, network: Any, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        return choice_scorer(self, network, given, output)

    # Figures ----------------------------------------------------------------------------------------------------------

    def measure(
        self, network: Any, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """Metrics of the predicted labels and of their probabilities."""
        shares = shares_of(self.logits_of(network, corpus), self.calibration)
        return evaluate_labels(shares, corpus, self.targets_of(corpus), self.classes, metrics, "pictures")

    def baselines(
        self, train: Sequence[LabelledPicture], records: Sequence[LabelledPicture], metrics: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """The most frequent label for every picture."""
        named = [name for name in metrics if name in LABEL_METRICS]
        outputs = [most_frequent(record.target for record in train)] * len(records)
        scores = label_scores(named, outputs, [record.target for record in records])
        return {self.baseline_names[0]: {name: score.value for name, score in scores.items()}} if named else {}

    @torch.no_grad()
    def logits_of(self, network: Any, corpus: Corpus) -> Float[Tensor, "N C"]:
        device = next(network.parameters()).device
        logits = torch.zeros(len(corpus), len(self.classes.names))
        with eval_mode(network):
            for numbers in group(corpus.costs, most=self.together, positions=self.positions):
                batch = self.batch(corpus, numbers).to(device)
                logits[numbers] = network(scaled(batch.pixels)).float().cpu()
        return logits

    def targets_of(self, corpus: Corpus) -> list[int]:
        return list(corpus.rows)

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return ("accuracy", "f1")

    def statistics(self, name: str, outputs: Sequence[str], records: Sequence[LabelledPicture]) -> Statistics:
        return label_statistics(name, outputs, [record.target for record in records])

    def source_text(self, record: LabelledPicture) -> str:
        return record.source.name


def read_picture_input(given: Any, where: str, data: LabelledImageData) -> PictureInput:
    """A picture in any form, framed as the recipe says."""
    if isinstance(given, Mapping):
        given = IMAGE.parse_json(given.get(data.columns.image, given), where)
    pixels, framings = pixels_of([pixels_in(given, where)], data.image)
    return PictureInput(pixels[0], framings[0])


def is_one_picture(given: Any) -> bool:
    """Whether what is handed to ``predict`` is one picture, not a list of several or a table."""
    if isinstance(given, bytes | bytearray | memoryview | Path | Picture):
        return True
    if isinstance(given, np.ndarray | Tensor):
        return given.ndim in (2, 3)
    return hasattr(given, "getexif")  # a PIL image, whose class need not be loaded
