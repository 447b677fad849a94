"""Loads a trained model from a run's folder; it predicts, evaluates and saves itself as a bundle."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from saccade.api.finetune import Untrained, untrained_in
from saccade.api.held_out import is_saved, read_saved, write_saved
from saccade.api.runs import checksum_of_data, checksum_of_test
from saccade.bundle_format import CONFIG, WEIGHTS, Contents, load_bundle, save_bundle
from saccade.card import write_card
from saccade.data.config import CUT, DataConfig
from saccade.data.memory import IN_MEMORY
from saccade.data.reading import FaultCounts, located, warnings_about
from saccade.data.splits import Splits, fingerprint
from saccade.data.tokenizers.writing import WRITING
from saccade.errors import DataWarning, InputError, SaccadeError
from saccade.models import network_class
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.ensemble import Ensemble
from saccade.nn.search.beam_search import WIDE, Search
from saccade.nn.search.graph_cache import GraphCache
from saccade.plugins import Trust, is_own, trusted
from saccade.recipes.recipe import Recipe, change_reading, from_plain
from saccade.storage import StoredTensor
from saccade.task import (
    Calibrates,
    Evaluation,
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

WHOLE, UNFIT = "a whole bundle", "one that does not fit together"
LARGEST_GENERATED = 1_000_000  # records, words, …
NAMED = "--data FILE, or data= in Python"  # how to pass records other than the run's own
MOVED = "if the data has moved: saccade evaluate RUN data.train=FILE"


class Bundle:
    """A trained model with its recipe and its metrics.

    Attributes:
        recipe: the recipe that it was trained with.
        figures: its metrics, by split and name.
        task: turns records into batches and outputs into predictions.
        network: the best network of the run, or the last one (``train.keep``).
        folder: the run's folder.
        members: the bundles of an ensemble.
        notes: warnings of its training: records dropped, texts cut, …; empty if it was loaded.
    """

    members: tuple[Bundle, ...] = ()
    notes: tuple[str, ...] = ()

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
        cut = [number for number, prediction in enumerate(predictions) if any(CUT in note for note in prediction.notes)]
        if cut:
            note = next(note for note in predictions[cut[0]].notes if CUT in note)
            counts = f"{len(cut):,} of {len(predictions):,} inputs were cut"
            warnings.warn(f"{counts} (input {cut[0] + 1}: {note}); see prediction.notes", DataWarning, stacklevel=2)
        if lens is None:
            return predictions
        return [self._signed(prediction, given) for given, prediction in zip(texts, predictions, strict=True)]

    def refusals(self, inputs: Sequence[Any], places: Sequence[str] | None = None) -> dict[int, InputError]:
        """The invalid inputs by position, with their errors, so that the others can still be predicted.

        ``places`` is what an error calls each input: "input 1" … unless given.
        """
        refused: dict[int, InputError] = {}
        for number, given in enumerate(inputs):
            try:
                self.task.read(given, f"input {number + 1}" if places is None else places[number], self.network)
            except InputError as error:
                refused[number] = error
        return refused

    def _searching(self, search: Search | None, *, require: bool = False, copying: bool = False) -> Search:
        _check_kind("search", search, Search, "a saccade.nn.Search, as in Search(beam=4)")
        how = search or self.recipe.search
        if search is None and require and how.sample is None and how.diverse is None:
            how = replace(how, beam=max(how.beam, WIDE))
        return replace(how, unknown="copy") if copying else how

    def _signed(self, prediction: Prediction, given: Any) -> Prediction:
        """The prediction with the model's name and metrics in its trace, and with its input if that is shown otherwise."""
        if prediction.trace is None:
            return prediction
        about = {**prediction.trace.about, "model": self.recipe.model_name, "recipe": self.recipe.name}
        if isinstance(given, str) and self.task.input.largest is None and given != about.get("input"):
            about = {"asked": given, "typed": given} | about
        about["parameters"] = self.parameters
        test = self.figures.get("test", {})
        # The recipe's metrics first, in its order.
        names = [*(name for name in self.recipe.metrics if name in test), *test]
        reached = {name: test[name] for name in names if isinstance(test[name], float | int)}
        about |= {"metrics": reached} if reached else {}
        return replace(prediction, trace=replace(prediction.trace, about=about))

    def evaluate(
        self,
        data: Any = None,
        *,
        metrics: str | Sequence[str] | None = None,
        search: Search | None = None,
        **overrides: Any,
    ) -> dict[str, float]:
        """Metrics on ``data``, or on the recipe's own test set (None).

        Args:
            data: a file, or records as ``saccade.train`` takes them. Two line-aligned files are a tuple of two ``Path``.
            metrics: one, or several; those of the recipe unless given.
            overrides: other settings for how records are read, as ``saccade.train`` takes them:
                ``**{"data.faults": "drop", "data.too_long": "truncate"}``.
        """
        evaluation = self.evaluation(data, metrics=metrics, search=search, **overrides)
        for note in evaluation.lost:
            warnings.warn(note, DataWarning, stacklevel=2)
        return dict(evaluation.figures)

    def evaluation(
        self,
        data: Any = None,
        *,
        metrics: str | Sequence[str] | None = None,
        search: Search | None = None,
        **overrides: Any,
    ) -> Evaluation:
        """As :meth:`evaluate`, with signatures, outputs, notes and, where the task has them, the metrics of trivial baselines:
        those kept from training for the run's own test set, else computed if the training records are still there."""
        if overrides:
            return self.reading(**overrides).evaluation(data, metrics=metrics, search=search)
        metrics = [metrics] if isinstance(metrics, str) else metrics
        records, where, notes = self.records_of(data)
        evaluation = self._evaluated(records, where, notes, metrics, search)
        if not self.task.baseline_names:
            return evaluation
        kept: Mapping[str, Mapping[str, float]] = self.figures.get("baselines", {})
        named = [name for name in evaluation.figures if name in self.task.output_metrics]
        if where == "test" and kept and all(name in figures for figures in kept.values() for name in named):
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
        self,
        records: Sequence[Any],
        where: str,
        notes: Sequence[str],
        metrics: Sequence[str] | None,
        search: Search | None,
    ) -> Evaluation:
        how = self._searching(search)
        with threads(self._threads(len(records), how)):
            corpus = self.task.corpus(records, where)
            evaluation: Evaluation = self.task.evaluate(
                self.network, corpus, how=how, metrics=metrics or self.recipe.metrics
            )
        lost = (*notes, *filter(None, [corpus.cut]))
        return replace(evaluation, notes=tuple(dict.fromkeys((*lost, *evaluation.notes))), lost=lost)

    def reading(self, settings: Sequence[str] = (), **overrides: Any) -> Bundle:
        """The same network with other settings for how records are read, as :meth:`evaluate` takes them, or as texts such as
        ``"data.faults=drop"``."""
        recipe = change_reading(self.recipe, settings, overrides)
        with recipe.resolving():
            for member in self.members or (self,):  # some networks cannot read texts of any length
                task = type(self.task).restore(recipe.data, self.task.files())
                with torch.device("meta"):
                    task.network(network_class(member.recipe.model_name), member.recipe.model)
        other = copy(self)
        other.recipe, other.task, task.untrained = recipe, task, self.task.untrained
        return other

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

    def records_of(self, data: Any, *, instead: str = NAMED) -> tuple[list[Any], str, list[str]]:
        """The records of ``data``, or of the recipe's test set (None), their name, and warnings about them; ``instead`` tells,
        in an error, how to pass other records."""
        recipe = self.recipe
        in_memory = getattr(recipe.data, "train", None) == IN_MEMORY  # a user's own task has data of its own
        if data is None and in_memory and self.test_records is not None:
            return list(self.test_records), "test", []
        if data is None and in_memory:
            # A trained run has validation metrics; an ensemble has no metrics of its own.
            imported = not self.members and "valid" not in self.figures
            came = "imported" if imported else "trained on data given in memory"
            raise SaccadeError(f"{self.folder}: {came}, so it has no test set of its own; pass records: {instead}")
        if data is None:
            records, notes = self.held_out("test", instead)
            return list(records), "test", notes
        files = _files(data)
        if isinstance(files, Path) and is_saved(files):
            return self._saved(files)
        faults = getattr(recipe.data, "faults", None)
        dropped = FaultCounts(skipped_only=faults != "drop")
        if files is None:
            records, where = self.task.records(data, recipe.data, dropped), "data"
        else:
            most = getattr(recipe.data, "most_files", 1)
            if isinstance(files, tuple) and len(files) > most:
                expected = "one file" if most == 1 else f"at most {most} files"
                raise InputError(files[0], expected=expected, found=f"{len(files)}")
            counted = () if faults is None else (dropped,)
            records = self.task.read_file(files, recipe.data, *counted)
            where = " and ".join(map(str, files)) if isinstance(files, tuple) else str(files)
        return records, where, warnings_about(where, records, dropped, expected="at least one record")

    def _saved(self, path: Path) -> tuple[list[Any], str, list[str]]:
        """The records that :meth:`save_records` wrote."""
        records, saved = read_saved(path, self.task, self.recipe.data)
        own = checksum_of_test(self.folder)
        if own == saved:
            return records, "test", []
        other = "" if own is None else f"{path}: not the test records that the run in {self.folder} was tested on"
        return records, str(path), [other] if other else []

    def save_records(self, path: str | Path, data: Any = None) -> Path:
        """Write records to a file (.jsonl) that :meth:`evaluate` reads elsewhere, whatever files they came from: those of the
        test set unless ``data`` is given. A run itself keeps none of its records, only their checksum."""
        path = Path(path)
        if path.resolve().is_relative_to(self.folder.resolve()):
            expected = "a file outside the run's folder, which holds no records so that it can be passed on"
            raise InputError(path, expected=expected, found="one in it")
        return write_saved(path, self.records_of(data)[0], self.task)

    def held_out(self, split: str, instead: str = NAMED) -> tuple[Sequence[Any], list[str]]:
        """The run's ``valid`` or ``test`` records, and notes on what was dropped from their file. If they were drawn from the
        training file, that file must be unchanged: otherwise the draw would contain records that the network was trained on."""
        recipe = self.recipe
        try:
            splits: Splits = self.task.load(recipe.data, recipe.folder, recipe.train.seed)
        except InputError as error:
            hint = "; ".join(
                filter(None, (error.hint, f"for other records than the run's own {split} set: {instead}", MOVED))
            )
            raise InputError(
                error.where, line=error.line, field=error.field, expected=error.expected, found=error.found, hint=hint
            ) from error
        if getattr(recipe.data, split, None) is None and checksum_of_data(self.folder) not in (
            None,
            fingerprint(splits),
        ):
            found = f"other data: its {split} records, drawn from train, would differ from those that were held out"
            hint = f"name a file of records instead: {instead}"
            raise InputError(self.folder, expected="the data that the run was trained on", found=found, hint=hint)
        given = recipe.data.files(split) if isinstance(recipe.data, DataConfig) and recipe.data.source is None else None
        files = () if given is None else located(given, recipe.folder)
        starts = tuple(f"{file}: dropped" for file in (files if isinstance(files, tuple) else (files,)))
        records: Sequence[Any] = getattr(splits, split)
        return records, [note for note in splits.notes if note.startswith(starts)]

    def examples(self, count: int) -> list[Any]:
        """Inputs worth looking at: of the test records after training, or of a generated data set. A loaded run whose data are
        files has none: whoever sent it may have named any file of this machine."""
        recipe = self.recipe
        if self.test_records is None and not is_own(recipe.task) and not _generated(recipe.data):
            return []
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


def _generated(data: Any) -> bool:
    """Whether data come from a generator, of an ordinary size."""
    settings = getattr(data, data.source or "", data)
    if data.source is None or isinstance(getattr(settings, "words", None), str):  # a file of words
        return False
    numbers = [value for value in vars(settings).values() if isinstance(value, int)]
    return max(numbers, default=0) <= LARGEST_GENERATED


def _files(data: Any) -> Path | tuple[Path, ...] | None:
    """The file or files that ``data`` names, several as a tuple of Path; None if it is something else."""
    if isinstance(data, str | Path):
        return Path(data)
    several = isinstance(data, tuple) and len(data) > 0 and all(isinstance(file, Path) for file in data)
    return None if not several else data if len(data) > 1 else data[0]


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
    if isinstance(folder, bytes | Mapping) or not isinstance(folder, str | Path | Iterable):
        expected = "a run's folder, or a list of such folders to load as an ensemble"
        raise InputError("folder", expected=expected, found=f"a {type(folder).__name__}")
    if not isinstance(folder, str | Path):
        return _together([load(run, device, trust=trust) for run in folder])
    return load_trusted(folder, device, trusted(trust).of_run(folder))


def load_trusted(folder: str | Path, device: str, trust: Trust) -> Bundle:
    """:func:`load`, for callers that know what the run may import."""
    folder = Path(folder)
    restored: list[Bundle] = []  # the last one: a bundle that was replaced meanwhile is read again

    def restore(contents: Contents, stored: Mapping[str, StoredTensor]) -> None:
        restored[:] = [_restored(contents, stored, folder, trust)]

    try:
        contents = load_bundle(folder, restore)
        bundle = restored[0]
        bundle.network.load_state_dict(dict(contents.tensors))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        words = " ".join(str(error).split())[:400]
        raise InputError(folder, expected=WHOLE, found=f"{UNFIT}: {words}") from None
    bundle.network.to(_device(device)).eval()
    return bundle


def _restored(contents: Contents, stored: Mapping[str, StoredTensor], folder: Path, trust: Trust) -> Bundle:
    """The bundle with random weights, if those of the file fit."""
    config = contents.config
    where = str(folder / CONFIG)
    home = Path(config["folder"])
    recipe = from_plain(config["recipe"], name=config["name"], folder=home, where=where, trust=trust)
    with recipe.resolving():
        task = task_class(recipe.task).restore(recipe.data, dict(contents.files))
        with _no_larger_than(stored):
            network = task.network(network_class(recipe.model_name), recipe.model)
    _check_fit(network, stored, folder)
    return Bundle(
        recipe, task, network, folder=folder, figures=config.get("figures", {}), threads=config.get("threads", 1)
    )


def _check_fit(network: nn.Module, stored: Mapping[str, StoredTensor], folder: Path) -> None:
    """Raise unless the stored tensors are those of the network."""
    needed = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tensor.shape for name, tensor in stored.items()}
    name = next((name for name in (*needed, *found) if needed.get(name) != found.get(name)), None)
    if name is not None:
        sizes = (" × ".join(map(str, shapes[name])) if name in shapes else "none" for shapes in (needed, found))
        expected, there = sizes
        words = f"{name} is {there} in {WEIGHTS}, where the recipe's network has {expected}"
        raise InputError(folder, expected=WHOLE, found=f"{UNFIT}: {words}")


@contextmanager
def _no_larger_than(stored: Mapping[str, StoredTensor]) -> Iterator[None]:
    """Inside the block, a network that this thread makes raises once it is much larger than the stored tensors: a recipe may
    ask for a million layers, or for wide ones. A parameter is noticed before it is initialised, which is what takes memory.
    Tied and replaced parameters count more than once."""
    mine, count, numbers = threading.get_ident(), 0, 0
    most, largest = 100 + 4 * len(stored), 1_000_000 + 4 * sum(math.prod(tensor.shape) for tensor in stored.values())

    def made(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal count, numbers
        if threading.get_ident() != mine or parameter is None:
            return
        count, numbers = count + 1, numbers + parameter.numel()
        if count > most or numbers > largest:
            raise ValueError(f"the recipe's network has more parameters than {WEIGHTS}")

    hook = register_module_parameter_registration_hook(made)
    try:
        yield
    finally:
        hook.remove()


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
    names = {*ours, *theirs} - {WRITING}  # that of the first counts; earlier releases have none
    differing = sorted(name for name in names if ours.get(name) != theirs.get(name))
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
