"""A recipe: one YAML file that says what is trained on what, and the figure it must reach.

    task: translate
    data: {source: dates}                       # or train:, valid:, test: files
    model: {name: rnnsearch, hidden: 128}       # a model and its Config
    train: {epochs: 5, lr: 1e-3}
    search: {beam: 5}
    metrics: [exact_match]
    expect: {metric: exact_match, at_least: 0.995, source: "…"}

Everything but the model's own fields is checked before torch is loaded; those are checked before any data is read.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError
from saccade.models import MODELS, network_class
from saccade.recipes.located import Located, locate, override, parse_override, read_yaml
from saccade.recipes.schema import build, to_plain
from saccade.tasks import TASKS
from saccade.training.config import Train

if TYPE_CHECKING:
    from saccade.nn.search import Search

SHIPPED = Path(__file__).parent
# The dataclass that a task's ``data`` is read into; light, so that it can be checked before torch is loaded.
DATA = {"translate": "saccade.data.sources:PairData", "point": "saccade.data.points:PointData"}
METRICS = ("exact_match", "cer", "bleu", "chrf", "ter", "perplexity")


@dataclass(frozen=True)
class Expect:
    """The figure a recipe must reach on the test set, and where it comes from."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("at_least or at_most must be given, and not both")
        if self.metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)}: got {self.metric}")

    def met(self, figure: float) -> bool:
        return figure >= self.at_least if self.at_least is not None else figure <= (self.at_most or 0.0)

    def __str__(self) -> str:
        bound = f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"
        return f"{self.metric} {bound}"


@dataclass(frozen=True)
class _Outline:
    """The top of a recipe, its parts not yet read."""

    task: str
    data: Located
    model: Located
    train: Train = field(default_factory=Train)
    search: Located | None = None
    metrics: tuple[str, ...] = ("exact_match",)
    expect: Expect | None = None
    about: str = ""

    def __post_init__(self) -> None:
        unknown = [name for name in self.metrics if name not in METRICS]
        if unknown:
            raise ValueError(f"metrics must be any of {', '.join(METRICS)}: got {unknown[0]}")
        if self.train.watch not in (*METRICS, "loss"):
            raise ValueError(f"train must watch loss or one of {', '.join(METRICS)}: got {self.train.watch}")


@dataclass(frozen=True)
class Recipe:
    """A checked recipe. ``folder`` is where its relative paths start; ``changed`` lists what was overridden."""

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

    def to_plain(self) -> dict[str, Any]:
        """The recipe as plain data, every field written out; :func:`from_plain` reads it back."""
        plain: dict[str, Any] = {"about": self.about, "task": self.task, "data": to_plain(self.data)}
        plain["model"] = {"name": self.model_name, **to_plain(self.model)}
        plain |= {"train": to_plain(self.train), "search": to_plain(self.search), "metrics": list(self.metrics)}
        return plain if self.expect is None else {**plain, "expect": to_plain(self.expect)}


def read_recipe(name: str | Path, overrides: Sequence[str] = (), changes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe in a file, or the shipped one of that bare name, with ``key=value`` overrides."""
    path = find(name)
    root = override(read_yaml(path), overrides)
    for key, change in _flat(changes or {}):
        root = _put(root, key.split("."), change)
    changed = [".".join(parse_override(text)[0]) for text in overrides] + [key for key, _ in _flat(changes or {})]
    recipe = _read(root, path.stem, path.parent)
    return replace(recipe, changed=tuple(key for key in changed if not key.startswith("expect")))


def from_plain(plain: Mapping[str, Any], *, name: str, folder: Path, where: str) -> Recipe:
    """The recipe that :meth:`Recipe.to_plain` wrote, checked again: the file may have been edited since."""
    return _read(locate(plain, where), name, folder)


def find(name: str | Path) -> Path:
    """A file, or the bare name of a shipped recipe."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return path
    shipped = shipped_recipes()
    if str(name) in shipped:
        return shipped[str(name)]
    close = difflib.get_close_matches(str(name), shipped, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"shipped: {', '.join(shipped)}"
    raise InputError(name, expected="a recipe's file (.yaml) or the name of a shipped one", found="neither", hint=hint)


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def _read(root: Located, name: str, folder: Path) -> Recipe:
    outline = build(_Outline, root)
    tree: Any = root.value
    _choose(tree["task"], "task", TASKS)
    data = build(_data_class(outline.task), outline.data, "data")
    model_name, rest = _model(outline.model)
    # From here on torch is needed: the model's Config lives beside its network.
    from saccade.nn.search import Search

    model = build(network_class(model_name).config_class, rest, "model")
    search = Search() if outline.search is None else build(Search, outline.search, "search")
    return Recipe(
        name, folder, outline.task, data, model_name, model, outline.train, search, outline.metrics, outline.expect,
        outline.about,
    )  # fmt: skip


def _data_class(task: str) -> Any:
    module, _, attribute = DATA[task].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _model(node: Located) -> tuple[str, Located]:
    if not isinstance(node.value, dict) or "name" not in node.value:
        found = "nothing" if isinstance(node.value, dict) else repr(node.text)
        expected = f"one of {', '.join(MODELS)}"
        raise InputError(node.where, line=node.line, field="model.name", expected=expected, found=found)
    name = _choose(node.value["name"], "model.name", MODELS)
    return name, replace(node, value={key: part for key, part in node.value.items() if key != "name"})


def _choose(node: Located, field: str, known: Mapping[str, Any]) -> str:
    if node.text not in known:
        close = difflib.get_close_matches(node.text or "", known, n=1)
        raise InputError(
            node.where,
            line=node.line,
            field=field,
            expected=f"one of {', '.join(known)}",
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
