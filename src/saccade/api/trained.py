"""A trained model in hand: it predicts, it evaluates, and it is saved and loaded as a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.bundle import Contents, load_bundle, save_bundle
from saccade.card import write_card
from saccade.errors import InputError, SaccadeError
from saccade.models import network_class
from saccade.nn.search import Search
from saccade.recipes.recipe import Recipe, from_plain
from saccade.task import Evaluation, Prediction
from saccade.tasks import task_class
from saccade.trace.lens import Lens

IN_MEMORY = "(given in memory)"


class Bundle:
    """A trained model: it predicts, it evaluates, and it knows its recipe and its figures.

    Attributes:
        recipe: what it was trained by. ``figures``: what it reached, by split and metric.
        task, network: the two halves; ``folder``: where it lies.
    """

    def __init__(
        self,
        recipe: Recipe,
        task: Any,
        network: nn.Module,
        *,
        folder: Path,
        figures: Mapping[str, Any],
        threads: int = 1,
    ) -> None:
        self.recipe, self.task, self.network = recipe, task, network
        self.folder, self.figures, self.threads = folder, dict(figures), threads

    @property
    def parameters(self) -> int:
        """How many numbers the network learnt."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def predict(
        self, inputs: str | Sequence[Any], lens: Lens | None = None, search: Search | None = None
    ) -> list[Prediction]:
        """One prediction an input; with a lens each carries its trace (and the lens's edits apply).

        >>> # bundle = saccade.load("runs/…"); bundle.predict(["5. Mai 2009"], lens=saccade.Lens())[0].trace.show()
        """
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        with threads(self.threads):
            predictions: list[Prediction] = self.task.predict(
                self.network, texts, how=search or self.recipe.search, lens=lens
            )
        if lens is None:
            return predictions
        return [self._signed(prediction) for prediction in predictions]

    def _signed(self, prediction: Prediction) -> Prediction:
        """The trace says whose it is."""
        if prediction.trace is None:
            return prediction
        about = {**prediction.trace.about, "model": self.recipe.model_name, "recipe": self.recipe.name}
        about["parameters"] = self.parameters
        return replace(prediction, trace=replace(prediction.trace, about=about))

    def evaluate(
        self, data: Any = None, *, metrics: Sequence[str] | None = None, search: Search | None = None
    ) -> dict[str, float]:
        """Figures on ``data``: a file of pairs, a list of pairs, or the recipe's own test set (None)."""
        return dict(self.evaluation(data, metrics=metrics, search=search).figures)

    def evaluation(
        self, data: Any = None, *, metrics: Sequence[str] | None = None, search: Search | None = None
    ) -> Evaluation:
        """As :meth:`evaluate`, with signatures, outputs and notes."""
        records, where = self._records(data)
        with threads(self.threads):
            corpus = self.task.corpus(records, where)
            evaluation: Evaluation = self.task.evaluate(
                self.network, corpus, how=search or self.recipe.search, metrics=metrics or self.recipe.metrics
            )
        return evaluation

    def _records(self, data: Any) -> tuple[list[Any], str]:
        recipe = self.recipe
        if data is None and recipe.data.train == IN_MEMORY:
            raise SaccadeError("this model was trained on data given in memory: pass data= to evaluate it")
        if data is None:
            return self.task.load(recipe.data, recipe.folder, recipe.train.seed).test, "test"
        if isinstance(data, str | Path):
            return self.task.read_file(Path(data), recipe.data), str(data)
        return self.task.records(data), "data"

    def examples(self, count: int) -> list[Any]:
        """Inputs worth looking at."""
        examples: list[Any] = self.task.examples(self.recipe.folder, self.recipe.train.seed)[:count]
        return examples

    def save(self, folder: str | Path) -> None:
        """Write the bundle: config.json, model.safetensors, tokenizers, card.md."""
        config = {
            "name": self.recipe.name,
            "folder": str(self.recipe.folder.resolve()),
            "recipe": self.recipe.to_plain(),
            "figures": self.figures,
            "parameters": self.parameters,
            "threads": self.threads,
        }
        card = write_card(self.recipe.name, config)
        save_bundle(folder, Contents(config, self.network.state_dict(), self.task.files(), card))


def load(folder: str | Path, device: str = "auto") -> Bundle:
    """The bundle in a run's folder. A truncated or altered one is refused."""
    folder = Path(folder)
    contents = load_bundle(folder)
    config = contents.config
    try:
        home = Path(config["folder"])
        recipe = from_plain(config["recipe"], name=config["name"], folder=home, where=str(folder / "config.json"))
        task = task_class(recipe.task).restore(recipe.data, dict(contents.files))
        network = task.network(network_class(recipe.model_name), recipe.model)
        network.load_state_dict(dict(contents.tensors))
    except (KeyError, TypeError, RuntimeError) as error:
        raise InputError(folder, expected="a whole bundle", found=f"one that does not fit together: {error}") from None
    network.to(_device(device)).eval()
    figures, threads = config.get("figures", {}), int(config.get("threads", 1))
    return Bundle(recipe, task, network, folder=folder, figures=figures, threads=threads)


def _device(name: str) -> str:
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Small recurrent steps are slower on many threads; the caller's setting comes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
