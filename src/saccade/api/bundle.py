"""A trained model in hand: it predicts, it evaluates, and it is saved and loaded as a bundle."""

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
from saccade.task import Calibrates, Evaluation, OutputConstraints, Prediction, Steers, Task
from saccade.tasks import task_class
from saccade.tasks.decoding import PREDICTED_TOGETHER, inputs_together
from saccade.trace.lens import Lens
from saccade.training.devices import choose_threads, cores

NAMED = "--data FILE, or data= in Python"  # how records are named that are to stand in for a run's own


class Bundle:
    """A trained model: it predicts, it evaluates, and it knows its recipe and its figures.

    Attributes:
        recipe: what it was trained by.
        figures: what it reached, by split and metric.
        task: how records become batches, and outputs predictions.
        network: the network that was kept: the best, or the last.
        folder: where it lies.
        members: the bundles that an ensemble is made of.
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
        self.test_records: Sequence[Any] | None = None  # where training has them in hand still

    def __repr__(self) -> str:
        model = f"{self.recipe.model_name}, {self.parameters:,} parameters"
        test = self.figures.get("test", {})
        reached = "".join(f", {name} {figure:.4f}" for name, figure in test.items())
        return f"Bundle({self.recipe.name}: {self.recipe.task} by {model}{reached}; in {self.folder})"

    @property
    def parameters(self) -> int:
        """How many numbers the network learnt."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @property
    def untrained(self) -> Untrained:
        """The parts of the network that were never trained."""
        return untrained_in(self.figures, self.recipe, self.task)

    def predict(
        self,
        inputs: str | Mapping[str, Any] | Sequence[Any],
        lens: Lens | None = None,
        search: Search | None = None,
        *,
        prefix: str | Sequence[str | None] | None = None,
        require: Words = None,
        forbid: Words = None,
        dictionary: Mapping[str, str] | None = None,
    ) -> list[Prediction]:
        """One prediction an input; with a lens each carries its trace (and the lens's edits apply).

        Args:
            search: how to search; the recipe's own way unless given, with a wider beam where words are required.
            prefix: what the output must begin with: one text for all inputs, or a list with one an input.
            require: words and phrases that it must hold: a list for all inputs, or a list of lists, one an input.
            forbid: words and phrases that it may not hold, in the same way.
            dictionary: source word → target word, for unknown words that are copied (``unknown="copy"``).

        >>> # bundle = saccade.load("runs/…"); bundle.predict(["5. Mai 2009"], lens=saccade.Lens())[0].trace.show()
        """
        texts = _inputs_of(inputs)
        _check_kind("lens", lens, Lens, "a saccade.Lens")
        _check_kind("dictionary", dictionary, Mapping, "a mapping, source word → target word")
        constraints = constraints_of(len(texts), prefix, require, forbid)
        constrained = any(each != OutputConstraints() for each in constraints)
        if constrained and not isinstance(self.task, Steers):
            raise SaccadeError(f"the task {self.task.name!r} takes no prefix, require or forbid")
        if dictionary is not None and not (isinstance(self.task, Steers) and self.task.takes_dictionary):
            raise SaccadeError(f"the task {self.task.name!r} does not take a dictionary")
        requiring = any(each.require for each in constraints)
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
        """The inputs that cannot be predicted, by their place, and why: one of them must not cost the others."""
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
        """The trace says whose it is."""
        if prediction.trace is None:
            return prediction
        about = {**prediction.trace.about, "model": self.recipe.model_name, "recipe": self.recipe.name}
        about["parameters"] = self.parameters
        test = self.figures.get("test", {})
        # The recipe's first metric is the one that it is about.
        names = [*(name for name in self.recipe.metrics if name in test), *test]
        reached = {name: test[name] for name in names if isinstance(test[name], float | int)}
        about |= {"metrics": reached} if reached else {}
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
        records, where = self.records_of(data)
        how = self._searching(search)
        with threads(self._threads(len(records), how)):
            corpus = self.task.corpus(records, where)
            evaluation: Evaluation = self.task.evaluate(
                self.network, corpus, how=how, metrics=metrics or self.recipe.metrics
            )
        return evaluation

    def _threads(self, inputs: int, how: Search) -> int:
        """As many as it was trained with, or more where a batch of hypotheses keeps more of them busy."""
        rows = how.lanes * how.width * min(inputs, inputs_together(how, PREDICTED_TOGETHER))
        most = max(self.threads, choose_threads(self.recipe.train, self.network, rows))
        return max(1, min(most, cores()))  # a run may come from a larger machine

    def records_of(self, data: Any, *, instead: str = NAMED) -> tuple[list[Any], str]:
        """The records of ``data``, or of the recipe's test set (None), and what to call them; an error says how others are
        named (``instead``)."""
        recipe = self.recipe
        if data is None and getattr(recipe.data, "train", None) == IN_MEMORY:  # a user's own task has data of its own
            # An ensemble has no figures of its own; one that was trained has those of its validation.
            imported = not self.members and "valid" not in self.figures
            came = "imported" if imported else "trained on data given in memory"
            raise SaccadeError(f"{self.folder}: {came}, so it has no test set of its own; name records: {instead}")
        if data is None:
            return list(self.held_out("test", instead)), "test"
        if isinstance(data, str | Path):
            return self.task.read_file(Path(data), recipe.data), str(data)
        return self.task.records(data, recipe.data), "data"

    def held_out(self, split: str, instead: str = NAMED) -> Sequence[Any]:
        """The run's own records of ``valid`` or ``test``. Without a file of their own they are drawn out of the training file:
        once that has changed, the draw would fall on records that were trained on."""
        recipe = self.recipe
        splits: Splits = self.task.load(recipe.data, recipe.folder, recipe.train.seed)
        if getattr(recipe.data, split, None) is None and checksum_of_data(self.folder) not in (
            None,
            fingerprint(splits),
        ):
            found = f"other data: its {split} records, drawn out of train, would be others than were held out"
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
        card = write_card(self.recipe.name, config, [] if calibration is None else [calibration.described])
        save_bundle(folder, Contents(config, self.network.state_dict(), self.task.files(), card))


def _inputs_of(given: Any) -> list[Any]:
    """One input, or several in whatever holds them."""
    if isinstance(given, str | Mapping):
        return [given]
    try:
        each = iter(given)
    except TypeError:
        raise InputError("inputs", expected="a text, or a list of inputs", found=type(given).__name__) from None
    return list(each)


def _check_kind(name: str, given: Any, kind: type, expected: str) -> None:
    if given is not None and not isinstance(given, kind):
        raise InputError(name, expected=expected, found=type(given).__name__)


def load(folder: str | Path | Sequence[str | Path], device: str = "auto", *, trust: Sequence[str] = ()) -> Bundle:
    """The bundle in a run's folder, or the ensemble of several runs. A truncated or altered one is refused.

    An ensemble averages its members' probabilities at each step; its recipe and its data are those of the first.

    Args:
        device: ``"cpu"``, ``"cuda"``, …; the best one that there is unless given.
        trust: modules and packages whose parts the run may use, as in ``trust=["my_package"]``. To import a module is to
            run it, so a run that names parts of its author's own is refused unless you trust their modules.
    """
    if not isinstance(folder, str | Path):
        return _together([load(each, device, trust=trust) for each in folder])
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
        raise SaccadeError("expected a run or several to load together, found none")
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
    """Members of an ensemble read and write the same tokens."""
    if type(first.task) is not type(other.task):
        expected = f"a run of the task {first.recipe.task!r}, as {first.folder}"
        raise InputError(other.folder, expected=expected, found=f"one of {other.recipe.task!r}")
    for each in (first, other):
        if not isinstance(each.network, EncoderDecoder):
            expected, found = "a network that writes token by token", type(each.network).__name__
            raise InputError(each.folder, expected=expected, found=found, hint="others cannot be averaged here")
    ours, theirs = first.task.files(), other.task.files()
    differing = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    if differing:
        side = next((side for side in ("source", "target") if f".{side}." in differing[-1]), "same")
        what = f"the {side} vocabulary of {first.folder}".replace("same ", "")
        hint = "train members on the same records; those held out by chance change with train.seed: name valid and test"
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
    """Small recurrent steps are slower on many threads; the caller's setting comes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ----------------------------------------------------------------------------------------------------
# Wishes as a program writes them, one value for all inputs or one an input, made into one :class:`Wish` an input.

Words = str | Sequence[str] | Sequence[Sequence[str] | None] | None


def constraints_of(
    count: int, prefix: str | Sequence[str | None] | None = None, require: Words = None, forbid: Words = None
) -> list[OutputConstraints]:
    """One wish for each of ``count`` inputs.

    >>> constraints_of(2, prefix=["the", None], require=["house"])
    [Wish(prefix='the', require=('house',), forbid=()), Wish(prefix='', require=('house',), forbid=())]
    """
    prefixes = [prefix] * count if prefix is None or isinstance(prefix, str) else _one_each("prefix", prefix, count)
    required, forbidden = _words("require", require, count), _words("forbid", forbid, count)
    return [OutputConstraints(each or "", *words) for each, *words in zip(prefixes, required, forbidden, strict=True)]


def _words(name: str, given: Words, count: int) -> list[tuple[str, ...]]:
    if given is None:
        return [()] * count
    if isinstance(given, str):
        return [(given,)] * count
    if not isinstance(given, Sequence):
        raise InputError(name, expected="a list of words, or one such list an input", found=type(given).__name__)
    if all(isinstance(each, str) for each in given):
        return [tuple(str(each) for each in given)] * count
    if any(isinstance(each, str) for each in given):
        raise InputError(name, expected="a list of words, or one such list an input", found="a mixture of both")
    lists = _one_each(name, given, count)
    for number, each in enumerate(lists, start=1):
        if each is not None and not isinstance(each, Sequence):
            raise InputError(f"input {number}", field=name, expected="a list of words", found=type(each).__name__)
    return [tuple(each or ()) for each in lists]


def _one_each(name: str, given: Any, count: int) -> list[Any]:
    if not isinstance(given, Sequence):
        raise InputError(name, expected="a text, or a list with one an input", found=type(given).__name__)
    if len(given) != count:
        raise InputError(name, expected=f"one for each of the {count} input(s)", found=str(len(given)))
    return list(given)
