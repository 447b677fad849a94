"""Reads a recipe: one YAML file with the task, the data, the model, the training settings and the metric to reach.

    task: translate
    data: {source: dates}                       # or train:, valid:, test: files
    model: {name: rnnsearch, hidden: 128}       # a model and its Config; your own: my_package.my_module:MyNetwork
    train: {epochs: 5, lr: 1e-3}                # also from: RUN, to start from its network and vocabulary
    search: {beam: 5}
    metrics: [exact_match]
    expect: {metric: exact_match, at_least: 0.995, source: "…"}

Everything but the model's own fields is checked before torch is loaded; those are checked before any data is read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.data.config import DataConfig
from saccade.data.files.hub import on_hub
from saccade.data.images.config import names_folder
from saccade.errors import InputError
from saccade.models import MODELS, network_class
from saccade.plugins import EVERYTHING, FORM, NOTHING, Trust, is_own, modules_of, searching, trusted
from saccade.recipes.lineage import inherit, parent_folder
from saccade.recipes.located import (
    COMMAND_LINE,
    Located,
    join,
    locate,
    node_at,
    override,
    parse_override,
    read_yaml,
    refusal,
    texts_of,
)
from saccade.recipes.own import fill, located
from saccade.recipes.schema import build, to_plain
from saccade.storage import current_file
from saccade.tasks import TASKS, data_class, metrics_of, task_class
from saccade.training.config import Train

if TYPE_CHECKING:
    from saccade.nn.search.beam_search import Search

SHIPPED = Path(__file__).parent
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")  # given in place of a recipe, they are data files
NAMING = ("task", "data", "model")  # the sections that may name custom parts
RUN_FILES = (
    "run.json",
    "status.json",
    "origin.json",
    "model.safetensors",
    "sweep.json",
)  # beside a recipe that a run saved
BACKBONE = "data.features.backbone"  # a folder, or the name of a network
LANGUAGE_MODEL = "search.lm.run"  # the folder of a run
TOKEN_FILES = ("tokens.vocabulary", "vectors.file")  # of every kind of data that has tokens


@dataclass(frozen=True)
class Expect:
    """The metric that a recipe must reach on the test set, and the source of that number."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("at_least or at_most must be given, and not both")

    def met(self, figure: float) -> bool:
        return figure >= self.at_least if self.at_least is not None else figure <= (self.at_most or 0.0)

    def __str__(self) -> str:
        bound = f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"
        return f"{self.metric} {bound}"


@dataclass(frozen=True)
class _Outline:
    """The sections of a recipe before they are read."""

    task: str
    data: Located
    model: Located | None = None  # required unless train.from names a run
    train: Train = field(default_factory=Train)
    search: Located | None = None
    metrics: tuple[str, ...] | None = None
    expect: Expect | None = None
    about: str = ""


@dataclass(frozen=True)
class Recipe:
    """A checked recipe.

    Attributes:
        folder: the folder that relative paths start from.
        changed: the fields that were overridden.
        beside: the folder of its file, which is searched for custom parts; None if it was read from a run.
        trust: the modules that its names may import.
    """

    name: str
    folder: Path
    task: str
    data: Any
    model_name: str
    model: Any
    train: Train
    search: Search
    metrics: tuple[str, ...]
    expect: Expect | None = None
    about: str = ""
    changed: tuple[str, ...] = ()
    beside: Path | None = field(default=None, compare=False)
    trust: Trust = field(default=NOTHING, compare=False)

    def resolving(self) -> AbstractContextManager[None]:
        """Inside the block, names of parts are resolved as in this recipe, with its trust."""
        return searching(trust=self.trust, beside=self.beside, mentioned=self.folder)

    def to_plain(self) -> dict[str, Any]:
        """The recipe as plain data, every field written out; :func:`from_plain` reads it back."""
        plain: dict[str, Any] = {"about": self.about, "task": self.task, "data": to_plain(self.data)}
        plain["model"] = {"name": self.model_name, **to_plain(self.model)}
        plain |= {"train": to_plain(self.train), "search": to_plain(self.search), "metrics": list(self.metrics)}
        return plain if self.expect is None else {**plain, "expect": to_plain(self.expect)}


RecipeLike = str | Path | Mapping[str, Any] | Recipe  # a file, a shipped name, its sections, or a checked recipe


def read_recipe(
    name: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    *,
    trust: Sequence[str] = (),
) -> Recipe:
    """The recipe in a file, the shipped one of that bare name, or one as a dict, with ``key=value`` overrides.

    Relative paths in a dict start at the current folder. It may name any module: the caller is responsible for the recipe. The
    run that it starts from (``train.from``) may use only modules that the recipe names and those in ``trust``. A
    ``recipe.yaml`` inside a run's folder may use only ``trust``.
    """
    if isinstance(name, Mapping):
        given = locate(dict(name), "recipe")
        path = Path(_name_of(given))
    elif isinstance(name, str | Path):
        path = find(name)
        given = read_yaml(path)
    else:
        expected = "a recipe's file, the name of a shipped one, or a dict"
        raise InputError("recipe", expected=expected, found=f"a {type(name).__name__}")
    root, changed = _overridden(given, overrides, changes or {})
    saved = not isinstance(name, Mapping) and _is_saved(path)
    named = _named_in_changes(overrides, changes or {}) if saved else _named_in(root)
    start = NOTHING.of_run(path.parent) if saved else EVERYTHING
    trusts = start.also((*trusted(trust).modules, *named))
    beside = None if saved else path.parent
    whole = _with_parent(root, path.parent, beside, trusts)
    recipe = _read(whole, path.stem, path.parent, trust=trusts, beside=beside, check_search=True, fresh=True)
    return replace(recipe, changed=changed)


def read_written(path: Path, *, name: str, folder: Path, trust: Trust = NOTHING) -> Recipe:
    """The recipe that a run saved. It is complete, so the run that it started from is not read again."""
    return _read(read_yaml(path), name, folder, trust=trust)


def change(
    recipe: Recipe,
    overrides: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    *,
    trust: Sequence[str] = (),
) -> Recipe:
    """A recipe with some fields changed, as :func:`read_recipe` changes those of a file. The changes may name any module."""
    plain = recipe.to_plain()
    trusts = recipe.trust.also((*trusted(trust).modules, *_named_in_changes(overrides, changes or {})))
    with recipe.resolving():
        searches = _searches(task_class(recipe.task))
    if not searches:
        del plain["search"]["beam"]  # it is as large as n_best, which may change
    root, changed = _overridden(locate(plain, recipe.name), overrides, changes or {})
    whole = _with_parent(root, recipe.folder, recipe.beside, trusts)
    searching_changed = any(key.partition(".")[0] == "search" for key in changed)
    again = _read(
        whole,
        recipe.name,
        recipe.folder,
        trust=trusts,
        beside=recipe.beside,
        check_search=searching_changed,
        fresh=True,
    )
    return replace(again, changed=tuple(dict.fromkeys((*recipe.changed, *changed))))


def _name_of(root: Located) -> str:
    """A name for a recipe without a file, after which its run is named: task-model."""
    parts = [node_at(root, field) for field in ("task", "model.name")]
    texts = [node.text.rpartition(":")[2] for node in parts if node is not None and node.text]
    return re.sub(r"[^\w-]+", "_", "-".join(texts)) or "recipe"


def change_reading(recipe: Recipe, overrides: Sequence[str] = (), changes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a trained network with other settings for how records are read, as :func:`change` takes them. What the
    network has learnt from its data (tokens, labels …) cannot be changed."""
    given = [(reduce(join, keys), COMMAND_LINE) for keys, _ in map(parse_override, overrides)]
    given += [(key, "overrides") for key, _ in _flat(changes or {})]
    known = getattr(recipe.data, "rereads", None)  # a user's own task has data of its own
    for key, where in given:
        section, _, name = key.partition(".")
        if section != "data" or (known is not None and name.partition(".")[0] not in known):
            fields = ", ".join(f"data.{field}" for field in known or ("FIELD",))
            hint = "the rest is fixed by training"
            raise InputError(where, field=key, expected=f"one of {fields}", found="another field", hint=hint)
    root, _ = _overridden(locate(recipe.to_plain(), recipe.name), overrides, changes or {})
    changed = _read(root, recipe.name, recipe.folder, trust=recipe.trust, beside=recipe.beside)
    return replace(recipe, data=changed.data)


def _overridden(root: Located, overrides: Sequence[str], changes: Mapping[str, Any]) -> tuple[Located, tuple[str, ...]]:
    """The tree with ``key=value`` texts and values set, and the names of these fields, without those of ``expect``."""
    root = override(root, overrides)
    for key, change in _flat(changes):
        root = _put(root, key.split("."), change)
    changed = [".".join(parse_override(text)[0]) for text in overrides] + [key for key, _ in _flat(changes)]
    return from_here(root, changed), tuple(key for key in changed if not key.startswith("expect"))


def _named_in_changes(overrides: Sequence[str], changes: Mapping[str, Any]) -> list[str]:
    """The modules that a person names on the command line or in a call."""
    nodes = [(keys[0], node) for keys, node in map(parse_override, overrides)]
    nodes += [(key.partition(".")[0], locate(value, "overrides")) for key, value in _flat(changes)]
    return [module for key, node in nodes for module in _named_in(Located({key: node}, "overrides"))]


def _named_in(root: Located) -> list[str]:
    """The modules named in the sections of a recipe that may name parts."""
    tree: Any = root.value
    return modules_of(text for key in NAMING if key in tree for text in texts_of(tree[key]))


def _is_saved(path: Path) -> bool:
    """Whether a file is in the folder of a run, also by a link: such a recipe is trusted no more than the run."""
    path = path.resolve()
    named = ("config.json", "metrics.json", "checkpoints") if path.name.lower() == "recipe.yaml" else ()
    beside = any((path.parent / name).exists() for name in (*RUN_FILES, *named))
    return beside or current_file(path.parent, "model.safetensors").exists()


def from_plain(plain: Mapping[str, Any], *, name: str, folder: Path, where: str, trust: Trust = NOTHING) -> Recipe:
    """The recipe that :meth:`Recipe.to_plain` wrote, checked again: the file may have been edited since."""
    return _read(locate(plain, where), name, folder, trust=trust)


def find(name: str | Path) -> Path:
    """A file, or the bare name of a shipped recipe."""
    path = Path(name)
    if path.suffix.lower() in TABLES and path.is_file():
        hint = f"saccade data {path} --recipe my.yaml writes one for it"
        raise InputError(path, expected="a recipe (.yaml)", found="a data file", hint=hint)
    shipped = shipped_recipes()
    # A folder is not a recipe: a run's folder that has the name of a shipped recipe does not hide it.
    if path.suffix in (".yaml", ".yml") or path.is_file() or (path.exists() and str(name) not in shipped):
        return path
    if str(name) in shipped:
        return shipped[str(name)]
    beside = [str(path) + suffix for suffix in (".yaml", ".yml") if Path(str(path) + suffix).is_file()]
    close = beside or difflib.get_close_matches(str(name), shipped, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "saccade recipes lists them"
    raise InputError(name, expected="a recipe's file (.yaml) or the name of a shipped one", found="neither", hint=hint)


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def _with_parent(root: Located, folder: Path, beside: Path | None, trust: Trust) -> Located:
    """The recipe completed from the run that ``train.from`` names, if any. That run may use only the modules in ``trust``, even
    if the recipe may use others."""
    # Checks that need no torch come before the run is read.
    _outline(root)
    place = parent_folder(root, folder)
    if place is None:
        return root
    from saccade.bundle_format import read_config

    where, config = str(place / "config.json"), read_config(place)
    try:
        plain, name, home = config["recipe"], config["name"], Path(config["folder"])
        # Its custom parts are searched beside the new recipe, never where the run says that they were.
        parent = _read(locate(plain, where), name, home, trust=trust.of_run(place), beside=beside)
    except (KeyError, TypeError) as error:
        raise InputError(where, expected="the config of a whole bundle", found=f"one that lacks {error}") from None
    with searching(trust=trust.of_run(place), beside=beside):
        return inherit(root, parent, place)


def _read(
    root: Located,
    name: str,
    folder: Path,
    *,
    trust: Trust,
    beside: Path | None = None,
    check_search: bool = False,
    fresh: bool = False,
) -> Recipe:
    """A recipe from its tree; its names may import what ``trust`` allows, also from the folder ``beside``.

    Settings that the task does not use raise: those of the search if ``check_search``, the others if the recipe is ``fresh``.
    The recipe of a run that was trained with such settings is read as it is.
    """
    root = with_vocabulary(root, folder)
    outline = _outline(root)
    if outline.model is None:
        hint = "this field is required, unless train.from names a run"
        raise InputError(
            root.where, field="model", expected="a mapping with a model's name", found="nothing", hint=hint
        )
    with searching(trust=trust, beside=beside, mentioned=folder):
        data = _data(root, outline)
        model_name, model = _model(outline.model, outline.task)
        task = task_class(outline.task)
    # This import loads torch.
    from saccade.nn.search.beam_search import Search

    search = Search()
    if outline.search is not None:
        if check_search:
            _check_searched(outline.search, task)
        search = build(Search, outline.search if _searches(task) else _as_wide(outline.search), "search")
    metrics = metrics_of(outline.task)[:1] if outline.metrics is None else outline.metrics
    recipe = Recipe(
        name, folder, outline.task, data, model_name, model, outline.train, search, metrics, outline.expect,
        outline.about, beside=beside, trust=trust,
    )  # fmt: skip
    if fresh:
        with recipe.resolving():
            _check_task(root, recipe, task)
    return recipe


def _check_task(root: Located, recipe: Recipe, task: Any) -> None:
    """Run the task's check of the recipe; its errors name a field, to which the file and line are added."""
    try:
        task.check_recipe(recipe)
    except InputError as error:
        if error.where != "recipe" or error.field is None:
            raise
        node = node_at(root, error.field) or Located(None, root.where)
        raise refusal(node, error.field, error.expected, error.found, error.hint) from None


def _as_wide(node: Located) -> Located:
    """The search section of a task without a search: the beam is set to n_best, which :class:`Search` requires."""
    names = ("n_best", "beam", "sample", "diverse")
    settings = {name: entry.value for name in names for entry in _entry(node, name)}
    wanted = settings.pop("n_best", None)
    searched = settings.pop("beam", 1) != 1 or any(value is not None for value in settings.values())
    if searched or not isinstance(wanted, int) or wanted < 2:
        return node
    tree: Any = node.value
    return replace(node, value={**tree, "beam": tree["n_best"]})


def _check_searched(node: Located, task: Any) -> None:
    """Raise on search settings that the task has no use for; the values of the others are checked afterwards."""
    tree: dict[str, Located] = node.value if isinstance(node.value, dict) else {}
    for name, expected in task.unused_settings({name: part.value for name, part in tree.items()}).items():
        raise refusal(tree[name], f"search.{name}", expected)


def _outline(root: Located) -> _Outline:
    """The sections that are read without torch: all but the model's fields, the search, and a custom task's settings."""
    outline = build(_Outline, root)
    tree: Any = root.value
    if not is_own(_choose(tree["task"], "task", TASKS)):
        _check_metrics(root, metrics_of(outline.task))
    return outline


def _check_metrics(root: Located, known: Sequence[str]) -> None:
    """Raise if a named metric is not one of the task's; train.watch may also be the loss."""
    tree: Any = root.value
    named = [(f"metrics[{number}]", node) for number, node in enumerate(_items(tree.get("metrics")))]
    named += [("expect.metric", node) for node in _entry(tree.get("expect"), "metric")]
    watched = [("train.watch", node) for node in _entry(tree.get("train"), "watch") if node.text != "loss"]
    for name, node in (*named, *watched):
        if node.text not in known:
            expected = f"{'loss or ' if name == 'train.watch' else ''}one of {', '.join(known)}"
            close = difflib.get_close_matches(node.text or "", known, n=1)
            raise refusal(node, name, expected, hint=f"did you mean {close[0]!r}?" if close else None)


def _items(node: Located | None) -> list[Located]:
    return node.value if node is not None and isinstance(node.value, list) else []


def _entry(node: Located | None, key: str) -> list[Located]:
    return [node.value[key]] if node is not None and isinstance(node.value, dict) and key in node.value else []


def _data(root: Located, outline: _Outline) -> Any:
    if not is_own(outline.task):
        return build(data_class(outline.task), outline.data, "data")
    tree: Any = root.value
    task = located(tree["task"], "task", task_class)
    _check_metrics(root, task.metrics)
    return fill(task.Data, outline.data, "data", outline.task)


def _searches(task: Any) -> bool:
    from saccade.task import Searches

    return issubclass(task, Searches)


def _model(node: Located, task: str) -> tuple[str, Any]:
    """The model's name, and its Config filled from the other fields. Loads torch."""
    if not isinstance(node.value, dict) or "name" not in node.value:
        found = "nothing" if isinstance(node.value, dict) else repr(node.text)
        expected = f"one of {', '.join(MODELS)}, or your own ({FORM})"
        raise InputError(node.where, line=node.line, field="model.name", expected=expected, found=found)
    named = node.value["name"]
    name = _choose(named, "model.name", MODELS)
    network = located(named, "model.name", network_class)
    if is_own(name) and not is_own(task):
        base = task_class(task).network_base
        if not issubclass(network, base):
            expected = f"a class derived from saccade.nn.{base.__name__} for the task {task}"
            raise refusal(named, "model.name", expected, f"the class {network.__name__}")
    rest = {key: part for key, part in node.value.items() if key != "name"}
    for key, names in getattr(network.config_class, "former", {}).items():
        if key in rest and rest[key].text in names:
            rest[key] = replace(rest[key], text=names[rest[key].text])
    return name, fill(network.config_class, replace(node, value=rest), "model", name)


def _choose(node: Located, field: str, known: Mapping[str, Any]) -> str:
    if node.text is not None and is_own(node.text):
        return node.text
    if node.text not in known:
        close = difflib.get_close_matches(node.text or "", known, n=1)
        raise InputError(
            node.where,
            line=node.line,
            field=field,
            expected=f"one of {', '.join(known)}, or your own ({FORM})",
            found=repr(node.text) if node.text is not None else "a mapping or a list",
            hint=f"did you mean {close[0]!r}?" if close else None,
        )
    return node.text or ""


def _flat(changes: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """{"model": {"hidden": 3}} and {"model.hidden": 3} → [("model.hidden", 3)]."""
    flat: list[tuple[str, Any]] = []
    for key, change in changes.items():
        flat += _flat(change, f"{above}{key}.") if isinstance(change, Mapping) else [(f"{above}{key}", change)]
    return flat


def _put(node: Located, keys: list[str], change: Any) -> Located:
    if not keys:
        return locate(change, "overrides")
    tree = node.value if isinstance(node.value, dict) else {}
    child = tree.get(keys[0], Located({}, "overrides"))
    return replace(node, value={**tree, keys[0]: _put(child, keys[1:], change)}, text=None)


def from_here(root: Located, changed: Sequence[str]) -> Located:
    """The tree with the relative paths among its changed fields made absolute from the working folder."""
    for key in changed:
        for path in _paths_of(root):
            if f"{key}.".startswith(f"{path}."):
                root = _absolute(root, key.split("."))
            elif path.startswith(f"{key}."):  # data={train: …}, whole
                root = _absolute(root, path.split("."))
    return root


def _paths_of(root: Located) -> list[str]:
    """The fields of this recipe that name files."""
    named = root.value.get("task") if isinstance(root.value, dict) else None
    shipped = named is not None and named.text in TASKS
    config = data_class(str(named.text)) if named is not None and shipped else DataConfig
    fields = [f"data.{field}" for field in (*config.paths, *TOKEN_FILES)]
    return [field for field in fields if field != BACKBONE or _backbone_is_folder(root)] + [LANGUAGE_MODEL]


def _backbone_is_folder(root: Located) -> bool:
    named = node_at(root, BACKBONE)
    return named is not None and names_folder(named.text or "")


def with_vocabulary(root: Located, folder: Path) -> Located:
    """The tree with ``data.tokens.vocabulary``, ``data.vectors``, ``data.judge``, the paths of ``data.features`` and
    ``search.lm.run`` made absolute: the code that uses them does not know the recipe's folder."""
    paths = ["tokens.vocabulary", "vectors", "vectors.file", "features.weights", "features.cache", "judge"]
    if _backbone_is_folder(root):
        paths.append("features.backbone")
    for keys in (*(["data", *path.split(".")] for path in paths), LANGUAGE_MODEL.split(".")):
        root = _under(root, keys, folder)
    return root


def _under(node: Located, keys: Sequence[str], folder: Path) -> Located:
    """The tree with the relative path at ``keys`` made absolute from ``folder``."""
    if keys:
        if not isinstance(node.value, dict) or keys[0] not in node.value:
            return node
        return replace(node, value={**node.value, keys[0]: _under(node.value[keys[0]], keys[1:], folder)})
    if not isinstance(node.value, str) or not node.text or node.text[0] in "$~" or Path(node.text).is_absolute():
        return node
    whole = str(folder.resolve() / node.text)
    return replace(node, value=whole, text=whole)


def _absolute(node: Located, keys: Sequence[str]) -> Located:
    """The tree with the path at ``keys`` made absolute from the working folder."""
    if isinstance(node.value, dict):
        wanted = [key for key in keys[:1] if key in node.value] if keys else list(node.value)  # {source: …, target: …}
        return replace(node, value={**node.value, **{key: _absolute(node.value[key], keys[1:]) for key in wanted}})
    if isinstance(node.value, list):
        return replace(node, value=[_absolute(entry, keys) for entry in node.value])
    text = node.text
    # Other than text: null, which unsets, or the number of records to generate. data.vectors may be the file itself.
    if not isinstance(node.value, str) or not text or keys not in ([], ["file"]):
        return node
    if text[0] in "$~" or on_hub(text) or Path(text).is_absolute():
        return node
    whole = str(Path.cwd() / text)
    return replace(node, value=whole, text=whole)
