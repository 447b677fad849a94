"""Loads a trained model from a run's folder; it predicts, evaluates and saves itself as a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.api.finetune import Untrained, untrained_in
from saccade.api.runs import checksum_of_data
from saccade.bundle_format import Contents, load_bundle, save_bundle
from saccade.card import write_card
from saccade.data.memory import IN_MEMORY
from saccade.data.splits import Splits, fingerprint
from saccade.errors import InputError, SaccadeError
from saccade.models import network_class
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.ensemble import Ensemble
from saccade.nn.search.beam_search import WIDE, Search
from saccade.nn.search.graph_cache import GraphCache
from saccade.plugins import Trust, trusted
from saccade.recipes.recipe import Recipe, from_plain
from saccade.task import (
    Calibrates,
    Evaluation,
    HasBaselines,
    OutputConstraints,
    Prediction,
    Steers,
    Task,
    in_words,
)
from saccade.tasks import task_class
from saccade.tasks.decoding import PREDICTED_TOGETHER, inputs_together
from saccade.trace.lens import Lens
from saccade.training.devices import choose_threads, cores

NAMED = "--data FILE, or data= in Python"  # how to pass records other than the run's own


class Bundle:
    """A trained model with its recipe and its metrics.

    Attributes:
        recipe: the recipe that it was trained with.
        figures: its metrics, by split and name.
        task: turns records into batches and outputs into predictions.
        network: the best network of the run, or the last one (``train.keep``).
        folder: the run's folder.
        members: the bundles of an ensemble.
    """

    members: tuple[Bundle, ...] = ()

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        network: nn.Module,
        *,
        folder: Path,
        figures: Mapping[str, Any],
        threads: int = 1,
    ) -> None:
        self.recipe, self.task, self.network = recipe, task, network
        self.folder, self.figures, self.threads = folder, dict(figures), threads
        task.untrained = self.untrained.anew
        self._held = GraphCache()
        self.test_records: Sequence[Any] | None = None  # set after training, while they are still in memory

    def __repr__(self) -> str:
        model = f"{self.recipe.model_name}, {self.parameters:,} parameters"
        test = self.figures.get("test", {})
        reached = "".join(f", {name} {figure:.4f}" for name, figure in test.items())
        return f"Bundle({self.recipe.name}: {self.recipe.task} by {model}{reached}; in {self.folder})"

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @property
    def untrained(self) -> Untrained:
        """The parts of the network that were never trained."""
        return untrained_in(self.figures, self.recipe, self.task)

    def predict(
        self,
        inputs: Any,
        lens: Lens | None = None,
        search: Search | None = None,
        *,
        prefix: str | Sequence[str | None] | None = None,
        require: Words = None,
        forbid: Words = None,
        dictionary: Mapping[str, str] | None = None,
    ) -> list[Prediction]:
        """One prediction per input; with a lens each carries its trace, and the lens's edits apply.

        Args:
            inputs: one input, or any iterable of inputs: a list, a Series, an array, a generator. Also a table (a DataFrame, a
                dict of columns) or dicts, with the columns that the recipe reads inputs from; others are not looked at.
            search: search settings; the recipe's unless given, with a wider beam where words are required.
            prefix: what the output must begin with: one text for all inputs, or a list with one per input.
            require: words and phrases that it must contain: a list for all inputs, or a list of lists, one per input.
            forbid: words and phrases that it must not contain, in the same form.
            dictionary: source word → target word, for unknown words that are copied (``unknown="copy"``).

        >>> # bundle = saccade.load("runs/…"); bundle.predict(["5. Mai 2009"], lens=saccade.Lens())[0].trace.show()
        """
        texts = self.task.inputs(inputs)
        _check_kind("lens", lens, Lens, "a saccade.Lens")
        _check_kind("dictionary", dictionary, Mapping, "a mapping, source word → target word")
        constraints = constraints_of(len(texts), prefix, require, forbid)
        constrained = any(constraint != OutputConstraints() for constraint in constraints)
        if constrained and not isinstance(self.task, Steers):
            raise SaccadeError(f"the task {self.task.name!r} does not take prefix, require or forbid")
        if dictionary is not None and not (isinstance(self.task, Steers) and self.task.takes_dictionary):
            raise SaccadeError(f"the task {self.task.name!r} does not take a dictionary")
        requiring = any(constraint.require for constraint in constraints)
        how = self._searching(search, require=requiring, copying=dictionary is not None)
        with threads(self._threads(len(texts), how)), self._held.lent(self.network):
            predictions = self.task.predict(
                self.network,
                texts,
                how=how,
                lens=lens,
                constraints=constraints if constrained else (),
                dictionary=dictionary,
            )
        if lens is None:
            return predictions
        return [self._signed(prediction) for prediction in predictions]

    def refusals(self, inputs: Sequence[Any]) -> dict[int, InputError]:
        """The invalid inputs by position, with their errors, so that the others can still be predicted."""
        refused: dict[int, InputError] = {}
        for number, given in enumerate(inputs):
            try:
                self.task.read(given, f"input {number + 1}", self.network)
            except InputError as error:
                refused[number] = error
        return refused

    def _searching(self, search: Search | None, *, require: bool = False, copying: bool = False) -> Search:
        _check_kind("search", search, Search, "a saccade.nn.Search, as in Search(beam=4)")
        how = search or self.recipe.search
        if search is None and require and how.sample is None and how.diverse is None:
            how = replace(how, beam=max(how.beam, WIDE))
        return replace(how, unknown="copy") if copying else how

    def _signed(self, prediction: Prediction) -> Prediction:
        """The prediction with the model's name and metrics in its trace."""
        if prediction.trace is None:
            return prediction
        about = {**prediction.trace.about, "model": self.recipe.model_name, "recipe": self.recipe.name}
        about["parameters"] = self.parameters
        test = self.figures.get("test", {})
        # The recipe's metrics first, in its order.
        names = [*(name for name in self.recipe.metrics if name in test), *test]
        reached = {name: test[name] for name in names if isinstance(test[name], float | int)}
        about |= {"metrics": reached} if reached else {}
        return replace(prediction, trace=replace(prediction.trace, about=about))

    def evaluate(
        self, data: Any = None, *, metrics: Sequence[str] | None = None, search: Search | None = None
    ) -> dict[str, float]:
        """Metrics on ``data``: a file, a list of records, or the recipe's own test set (None)."""
        return dict(self._evaluated(*self.records_of(data), metrics, search).figures)

    def evaluation(
        self, data: Any = None, *, metrics: Sequence[str] | None = None, search: Search | None = None
    ) -> Evaluation:
        """As :meth:`evaluate`, with signatures, outputs, notes and, where the task has them, the metrics of trivial baselines:
        those kept from training for the run's own test set, else computed if the training records are still there."""
        records, where = self.records_of(data)
        evaluation = self._evaluated(records, where, metrics, search)
        if not isinstance(self.task, HasBaselines):
            return evaluation
        kept: Mapping[str, Mapping[str, float]] = self.figures.get("baselines", {})
        named = [name for name in evaluation.figures if name in self.task.output_metrics]
        if data is None and kept and all(name in figures for figures in kept.values() for name in named):
            return evaluation.beside(kept)
        train = self._training_records()
        if train is not None:
            return evaluation.beside(self.task.baselines(train, records, list(evaluation.figures)))
        shown = "; ".join(f"{name}: {in_words(figures)}" for name, figures in kept.items())
        note = "trivial baselines: not computed, since the training records are not there"
        return replace(
            evaluation, notes=(*evaluation.notes, note + (f"; on its own test set {shown}" if shown else ""))
        )

    def _evaluated(
        self, records: Sequence[Any], where: str, metrics: Sequence[str] | None, search: Search | None
    ) -> Evaluation:
        how = self._searching(search)
        with threads(self._threads(len(records), how)):
            corpus = self.task.corpus(records, where)
            evaluation: Evaluation = self.task.evaluate(
                self.network, corpus, how=how, metrics=metrics or self.recipe.metrics
            )
        return evaluation

    def _training_records(self) -> Sequence[Any] | None:
        """The records that the run was trained on; None if they were given in memory, have moved or have changed."""
        recipe = self.recipe
        if getattr(recipe.data, "train", None) == IN_MEMORY:
            return None
        try:
            splits: Splits = self.task.load(recipe.data, recipe.folder, recipe.train.seed)
        except SaccadeError:
            return None
        return splits.train if checksum_of_data(self.folder) in (None, fingerprint(splits)) else None

    def _threads(self, inputs: int, how: Search) -> int:
        """As many as in training, or more where a batch of hypotheses is large enough to use them."""
        rows = how.lanes * how.width * min(inputs, inputs_together(how, PREDICTED_TOGETHER))
        most = max(self.threads, choose_threads(self.recipe.train, self.network, rows))
        return max(1, min(most, cores()))  # a run may come from a larger machine

    def records_of(self, data: Any, *, instead: str = NAMED) -> tuple[list[Any], str]:
        """The records of ``data``, or of the recipe's test set (None), and their name; ``instead`` tells, in an error, how to
        pass other records."""
        recipe = self.recipe
        if data is None and getattr(recipe.data, "train", None) == IN_MEMORY:  # a user's own task has data of its own
            # A trained run has validation metrics; an ensemble has no metrics of its own.
            imported = not self.members and "valid" not in self.figures
            came = "imported" if imported else "trained on data given in memory"
            raise SaccadeError(f"{self.folder}: {came}, so it has no test set of its own; pass records: {instead}")
        if data is None:
            return list(self.held_out("test", instead)), "test"
        if isinstance(data, str | Path):
            return self.task.read_file(Path(data), recipe.data), str(data)
        return self.task.records(data, recipe.data), "data"

    def held_out(self, split: str, instead: str = NAMED) -> Sequence[Any]:
        """The run's own ``valid`` or ``test`` records. If they were drawn from the training file, that file must be unchanged:
        otherwise the draw would contain records that the network was trained on."""
        recipe = self.recipe
        splits: Splits = self.task.load(recipe.data, recipe.folder, recipe.train.seed)
        if getattr(recipe.data, split, None) is None and checksum_of_data(self.folder) not in (
            None,
            fingerprint(splits),
        ):
            found = f"other data: its {split} records, drawn from train, would differ from those that were held out"
            hint = f"name a file of records instead: {instead}"
            raise InputError(self.folder, expected="the data that the run was trained on", found=found, hint=hint)
        records: Sequence[Any] = getattr(splits, split)
        return records

    def examples(self, count: int) -> list[Any]:
        """Inputs worth looking at."""
        recipe = self.recipe
        examples: list[Any] = self.task.examples(recipe.folder, recipe.train.seed, test=self.test_records)[:count]
        return examples

    def save(self, folder: str | Path) -> None:
        """Write the bundle: config.json, model.safetensors, tokenizers, card.md."""
        if self.members:
            runs = ", ".join(str(member.folder) for member in self.members)
            raise SaccadeError(f"an ensemble has no file of its own: load its runs together ({runs})")
        config = {
            "name": self.recipe.name,
            "folder": str(self.recipe.folder.resolve()),
            "recipe": self.recipe.to_plain(),
            "figures": self.figures,
            "parameters": self.parameters,
            "threads": self.threads,
        }
        calibration = self.task.calibration if isinstance(self.task, Calibrates) else None
        card = write_card(
            self.recipe.name, config, self.task.sample, [] if calibration is None else [calibration.described]
        )
        save_bundle(folder, Contents(config, self.network.state_dict(), self.task.files(), card))


def _check_kind(name: str, given: Any, kind: type, expected: str) -> None:
    if given is not None and not isinstance(given, kind):
        raise InputError(name, expected=expected, found=type(given).__name__)


def load(folder: str | Path | Sequence[str | Path], device: str = "auto", *, trust: Sequence[str] = ()) -> Bundle:
    """The bundle in a run's folder, or the ensemble of several runs. A truncated or altered one is refused.

    An ensemble averages its members' probabilities at each step; its recipe and its data are those of the first.

    Args:
        device: ``"cpu"``, ``"cuda"``, …; a GPU if there is one, unless given.
        trust: modules and packages whose parts the run may use, as in ``trust=["my_package"]``. Importing a
            module runs its code, so a run that names custom parts is refused unless you trust their modules.
    """
    if not isinstance(folder, str | Path):
        return _together([load(run, device, trust=trust) for run in folder])
    return load_trusted(folder, device, trusted(trust).of_run(folder))


def load_trusted(folder: str | Path, device: str, trust: Trust) -> Bundle:
    """:func:`load`, for callers that know what the run may import."""
    folder = Path(folder)
    contents = load_bundle(folder)
    try:
        bundle = _bundle(contents, folder, trust)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        words = " ".join(str(error).split())[:400]
        raise InputError(folder, expected="a whole bundle", found=f"one that does not fit together: {words}") from None
    bundle.network.to(_device(device)).eval()
    return bundle


def _bundle(contents: Contents, folder: Path, trust: Trust) -> Bundle:
    config = contents.config
    home = Path(config["folder"])
    where = str(folder / "config.json")
    recipe = from_plain(config["recipe"], name=config["name"], folder=home, where=where, trust=trust)
    with recipe.resolving():
        task = task_class(recipe.task).restore(recipe.data, dict(contents.files))
        network = task.network(network_class(recipe.model_name), recipe.model)
    network.load_state_dict(dict(contents.tensors))
    figures, threads = config.get("figures", {}), int(config.get("threads", 1))
    return Bundle(recipe, task, network, folder=folder, figures=figures, threads=threads)


def _together(members: Sequence[Bundle]) -> Bundle:
    if not members:
        raise SaccadeError("expected one run, or several to load as an ensemble, found none")
    first = members[0]
    if len(members) == 1:
        return first
    for other in members[1:]:
        _check_alike(first, other)
    name = " + ".join(member.recipe.name for member in members)
    model_name = " + ".join(member.recipe.model_name for member in members)
    recipe = replace(first.recipe, name=name, model_name=model_name)
    network = Ensemble([member.network for member in members if isinstance(member.network, EncoderDecoder)]).eval()
    most = max(member.threads for member in members)
    bundle = Bundle(recipe, first.task, network, folder=first.folder, figures={}, threads=most)
    bundle.members = tuple(members)
    return bundle


def _check_alike(first: Bundle, other: Bundle) -> None:
    """Raise unless both runs can be members of one ensemble: same task, same vocabularies, step-by-step decoding."""
    if type(first.task) is not type(other.task):
        expected = f"a run of the task {first.recipe.task!r}, as {first.folder}"
        raise InputError(other.folder, expected=expected, found=f"one of {other.recipe.task!r}")
    for member in (first, other):
        if not isinstance(member.network, EncoderDecoder):
            expected, found = "a network that decodes token by token", type(member.network).__name__
            raise InputError(member.folder, expected=expected, found=found, hint="others cannot be averaged here")
    ours, theirs = first.task.files(), other.task.files()
    differing = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    if differing:
        side = next((side for side in ("source", "target") if f".{side}." in differing[-1]), "same")
        what = f"the {side} vocabulary of {first.folder}".replace("same ", "")
        hint = "train members on the same records: randomly held-out ones depend on train.seed, so name valid and test files"
        raise InputError(other.folder, expected=what, found=f"another one ({differing[-1]})", hint=hint)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        found = f"{name!r} ({' '.join(str(error).split())[:120]})"
        raise SaccadeError(f"device: expected auto, cpu, or one that this machine has, found {found}") from None
    return name


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use ``count`` CPU threads, then restore the caller's setting. Small recurrent steps are slower on many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ----------------------------------------------------------------------------------------------------
# Constraints on outputs: one value for all inputs, or one per input, become one OutputConstraints per input.

Words = str | Sequence[str] | Sequence[Sequence[str] | None] | None


def constraints_of(
    count: int, prefix: str | Sequence[str | None] | None = None, require: Words = None, forbid: Words = None
) -> list[OutputConstraints]:
    """The constraints of each of ``count`` inputs.

    >>> constraints_of(2, prefix=["the", None], require=["house"])[1]
    OutputConstraints(prefix='', require=('house',), forbid=())
    """
    prefixes = [prefix] * count if prefix is None or isinstance(prefix, str) else _one_each("prefix", prefix, count)
    required, forbidden = _words("require", require, count), _words("forbid", forbid, count)
    return [OutputConstraints(start or "", *words) for start, *words in zip(prefixes, required, forbidden, strict=True)]


def _words(name: str, given: Words, count: int) -> list[tuple[str, ...]]:
    if given is None:
        return [()] * count
    if isinstance(given, str):
        return [(given,)] * count
    if not isinstance(given, Sequence):
        raise InputError(name, expected="a list of words, or one such list per input", found=type(given).__name__)
    if all(isinstance(word, str) for word in given):
        return [tuple(str(word) for word in given)] * count
    if any(isinstance(part, str) for part in given):
        raise InputError(name, expected="a list of words, or one such list per input", found="a mixture of both")
    lists = _one_each(name, given, count)
    for number, words in enumerate(lists, start=1):
        if words is not None and not isinstance(words, Sequence):
            raise InputError(f"input {number}", field=name, expected="a list of words", found=type(words).__name__)
    return [tuple(words or ()) for words in lists]


def _one_each(name: str, given: Any, count: int) -> list[Any]:
    if not isinstance(given, Sequence):
        raise InputError(name, expected="a text, or a list with one per input", found=type(given).__name__)
    if len(given) != count:
        raise InputError(name, expected=f"one for each of the {count} input(s)", found=str(len(given)))
    return list(given)
