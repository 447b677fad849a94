"""Imports custom parts by name: ``package.module:Name`` in a recipe is that name in that module. No torch.

Importing a module runs its code. Whether a name may be imported depends on its source (:class:`Trust`):

| source of the name | modules it may import |
|---|---|
| a recipe that a person passes | any |
| a saved run (config.json, recipe.yaml, sweep.json) | those that the caller trusts by name, none unless given |
| a Python program | those that the program has imported itself |

A module is searched on the Python path, then beside the recipe that is being read (:func:`searching`), then in the current
folder. ``sys.path`` is restored afterwards. A run's own folder is never searched, nor one that it names.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from saccade.errors import InputError, SaccadeError

FORM = "package.module:Name"
LONGEST = 300  # characters of another program's message


class PartError(InputError):
    """A part that cannot be loaded: names the part, what was expected and what was found."""

    def __init__(self, name: str, *, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(name, expected=expected, found=found, hint=hint)
        self.hint = hint


@dataclass(frozen=True)
class Trust:
    """Which modules names may import.

    Attributes:
        modules: modules and packages that are trusted, each with the modules below it.
        everything: any module may be imported: the user wrote the names, as they would write an import statement.
        never: folders from which nothing is ever imported: those of runs.
    """

    modules: tuple[str, ...] = ()
    everything: bool = False
    never: tuple[Path, ...] = ()

    def allows(self, module: str) -> bool:
        """
        >>> trust = Trust(("mine",))
        >>> trust.allows("mine"), trust.allows("mine.score"), trust.allows("mine_too"), trust.allows("min")
        (True, True, False, False)
        """
        return self.everything or any(module == name or module.startswith(f"{name}.") for name in self.modules)

    def of_run(self, folder: str | Path) -> Trust:
        """The trust for names that the run in ``folder`` saved: only the modules, and nothing from that folder."""
        return Trust(self.modules, never=(*self.never, Path(folder).resolve()))

    def also(self, modules: Sequence[str]) -> Trust:
        """The same trust with further modules."""
        return replace(self, modules=tuple(dict.fromkeys((*self.modules, *modules))))


def trusted(modules: Sequence[str]) -> Trust:
    """The trust that a caller expresses by ``trust=[…]`` or ``--trust``: names of modules and packages."""
    if isinstance(modules, str):
        expected, found = "a list of modules' names", repr(modules)
        raise InputError("trust", expected=expected, found=found, hint=f"write trust=[{modules!r}]")
    for name in modules:
        if not isinstance(name, str) or not _is_dotted(name):
            hint = "a module's name, not a file or a folder" if "/" in str(name) or str(name).endswith(".py") else None
            expected = "the name of a module or package, such as my_package or my_package.parts"
            raise InputError("trust", expected=expected, found=repr(name), hint=hint)
    return Trust(tuple(modules))


NOTHING, EVERYTHING = Trust(), Trust(everything=True)


@dataclass(frozen=True)
class _Places:
    beside: Path | None = None  # searched
    mentioned: Path | None = None  # not searched: where a saved run says that its recipe was
    trust: Trust | None = None  # None: the name stands in a Python program


_NOWHERE = _Places()
_PLACES: ContextVar[_Places] = ContextVar("places", default=_NOWHERE)
# Top-level packages that parts came from, and for those that are not on the Python path: the file.
_OWN: set[str] = set()
_HOMES: dict[str, str] = {}


def is_own(name: str) -> bool:
    """Whether a name in a recipe names a custom part: it contains a colon."""
    return ":" in name


@contextmanager
def searching(*, trust: Trust, beside: Path | None = None, mentioned: Path | None = None) -> Iterator[None]:
    """Inside the block, names may import what ``trust`` allows and are also searched in ``beside``; ``mentioned`` is only for
    error messages. Of nested blocks the innermost applies, but excluded folders of runs stay excluded."""
    outer = _PLACES.get().trust
    never = (*(() if outer is None else outer.never), *trust.never)
    token = _PLACES.set(_Places(beside, mentioned, replace(trust, never=tuple(dict.fromkeys(never)))))
    try:
        yield
    finally:
        _PLACES.reset(token)


def load(name: str) -> Any:
    """The object that ``package.module:Name`` names. Trust is checked before anything is imported.

    >>> load("pathlib:Path").__name__
    'Path'
    """
    dotted, _, attribute = name.partition(":")
    if not attribute.isidentifier() or not _is_dotted(dotted):
        hint = "a module's name, not its file" if "/" in dotted or "\\" in dotted else None
        raise PartError(name, expected=FORM, found=repr(name), hint=hint)
    _refuse_untrusted(name, dotted)
    module = _module(name, dotted)
    try:
        return getattr(module, attribute)
    except AttributeError:
        known = [known for known in vars(module) if not known.startswith("_")]
        where = getattr(module, "__file__", None) or dotted
        found = f"no such name in {where}"
        raise PartError(
            name, expected=f"{dotted!r} to have {attribute!r}", found=found, hint=_like(attribute, known)
        ) from None


def load_class(name: str, base: type, called: str) -> Any:
    """A custom class; it must derive from ``base``, whose public name is ``called``."""
    found = load(name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PartError(name, expected=f"a class derived from {called}", found=kind_of(found))
    return found


def call(name: str, part: Callable[..., Any], *arguments: Any, expected: str) -> Any:
    """``part(*arguments)``; an exception in custom code becomes one line with its file and line."""
    try:
        return part(*arguments)
    except SaccadeError:
        raise
    except Exception as fault:
        home = str(getattr(part, "__module__", name))
        raise PartError(name, expected=expected, found=describe(fault, _top(home))) from fault


def kind_of(found: Any) -> str:
    """The description of an object in a message: ``the class Foo``, ``a function``, ``a module``."""
    if isinstance(found, type):
        return f"the class {found.__name__}"
    kind = type(found).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def blame(error: BaseException) -> str | None:
    """The error in one line with its place in custom code, if it was raised there; else None."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    tops = [_top(str(frame.f_globals.get("__name__", ""))) for frame in frames]
    own = [top for top in tops if top in _OWN]
    return describe(error, own[-1]) if own else None


def describe(error: BaseException, top: str) -> str:
    """``NameError: name 'nn' is not defined (mine/score.py, line 12)``: the last line that package ``top`` ran."""
    words = " ".join(str(error).split())
    text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}…"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    steps = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _top(str(frame.f_globals.get("__name__", ""))) == top
    ]
    return f"{text} ({steps[-1][0]}, line {steps[-1][1]})" if steps else text


# May it be imported? ----------------------------------------------------------------------------------------------------


def modules_of(names: Iterable[str]) -> list[str]:
    """The modules of those ``names`` that have the form ``package.module:Name``.

    >>> modules_of(["mine.score:Twice", "softmax", "hf://owner/name"])
    ['mine.score']
    """
    parted = [name.partition(":") for name in names]
    return [dotted for dotted, _, attribute in parted if _is_dotted(dotted) and attribute.isidentifier()]


def packages_of(recipe: Mapping[str, Any]) -> list[str]:
    """The packages of the custom parts in a recipe (as plain data), which must be trusted to load its run."""
    names = [text for part in ("task", "data", "model") for text in _texts_in(recipe.get(part))]
    return list(dict.fromkeys(_top(module) for module in modules_of(names)))


def _texts_in(value: Any) -> Iterator[str]:
    """Every text in plain data, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(part)


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _refuse_untrusted(name: str, dotted: str) -> None:
    trust = _PLACES.get().trust
    if trust is None:
        if dotted not in sys.modules:
            expected, found = "a module that this program has imported", f"{dotted!r}, which it has not"
            raise PartError(name, expected=expected, found=found, hint=f"import {dotted} first, or name it in a recipe")
    elif not trust.allows(dotted):
        found = f"{_short(name)!r}, which would import the module {_short(dotted)!r}"
        top = _short(_top(dotted))
        hint = f'if you know its code and trust it: --trust {top}, or trust=["{top}"] in Python'
        raise PartError(name, expected="a part that comes with saccade", found=found, hint=hint)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"


# Finding the module -----------------------------------------------------------------------------------------------------


def _module(name: str, dotted: str) -> ModuleType:
    top, extra = _top(dotted), _extra()
    _refuse_another(name, top, extra)
    fresh = top not in sys.modules
    with _longer_path(extra):
        try:
            _import_packages(name, dotted)
            module = importlib.import_module(dotted)
        except PartError:
            raise
        except ModuleNotFoundError as fault:
            if fault.name is not None and f"{dotted}.".startswith(f"{fault.name}."):
                raise _absent(name, dotted, fault.name, extra) from None
            raise _failed(name, dotted, fault) from fault
        except (Exception, SystemExit) as fault:
            raise _failed(name, dotted, fault) from fault
        finally:
            # A package whose module failed is loaded all the same.
            if fresh and top in sys.modules and (home := _origin(sys.modules[top].__spec__)) and _in(home, extra):
                _HOMES[top] = home
    if top != _top(__name__):
        _OWN.add(top)
    return module


def _import_packages(name: str, dotted: str) -> None:
    """Import the parent packages of a module; raise before any code in a run's folder is executed.

    The Python path may lead there too: ``python -m`` puts the current folder on it, and from the folder above, a run's folder
    is a package.
    """
    never = _never()
    parts = dotted.split(".")
    for count in range(1, len(parts) + 1) if never else ():
        package = ".".join(parts[:count])
        loaded = sys.modules.get(package)
        spec = importlib.util.find_spec(package) if loaded is None else getattr(loaded, "__spec__", None)
        file = getattr(loaded, "__file__", None) or (spec.origin if spec is not None and spec.has_location else None)
        folder = (
            None if file is None else next((folder for folder in never if _in(os.path.realpath(file), [folder])), None)
        )
        if folder is not None:
            found = f"{file}, in the folder of the run that names it"
            raise PartError(name, expected=f"a module {package!r} of your own", found=found)
        if count < len(parts):
            importlib.import_module(package)


def _never() -> list[str]:
    trust = _PLACES.get().trust
    return [] if trust is None else [os.path.realpath(folder) for folder in trust.never]


def _extra() -> list[str]:
    """The folders that are searched after the Python path, in this order."""
    folders = [_PLACES.get().beside]
    with suppress(OSError):  # the current folder may have been removed
        folders.append(Path.cwd())
    never = _never()
    real = [os.path.realpath(folder) for folder in folders if folder is not None]
    return [folder for folder in dict.fromkeys(real) if folder not in never and not _in(folder, never)]


@contextmanager
def _longer_path(extra: Sequence[str]) -> Iterator[None]:
    before = list(sys.path)
    # At the end, so that a file in one of the folders cannot shadow an installed module.
    sys.path[:] = [*before, *(folder for folder in extra if folder not in before)]
    importlib.invalidate_caches()  # for files that were just written
    try:
        yield
    finally:
        sys.path[:] = before


def _refuse_another(name: str, top: str, extra: Sequence[str]) -> None:
    """Raise if another module of the same name is loaded already, instead of silently using the wrong one."""
    if top not in _HOMES or top not in sys.modules:
        return
    meant = _origin(PathFinder.find_spec(top, [*sys.path, *extra]))
    if meant is not None and meant != _HOMES[top]:
        expected = f"one module {top!r} in a process"
        found = f"{meant}, but {_HOMES[top]} is loaded already"
        raise PartError(name, expected=expected, found=found, hint="rename one of them, or start a new process")


def _origin(spec: ModuleSpec | None) -> str | None:
    """The file a module comes from, or the folder of a package without ``__init__.py``."""
    if spec is None:
        return None
    places = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    return os.path.realpath(places[0]) if places else None


def _in(home: str, folders: Sequence[str]) -> bool:
    return any(home.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def _absent(name: str, dotted: str, missing: str, extra: Sequence[str]) -> PartError:
    places, beside = _PLACES.get(), _PLACES.get().beside
    names = {os.path.realpath(beside): "beside the recipe"} if beside is not None else {}
    searched = ", ".join(f"in {folder} ({names.get(folder, 'the current folder')})" for folder in extra)
    above = missing.rpartition(".")[0]
    if above:  # the package is there, its module is not
        found = f"no {missing!r} in it" if missing == dotted else f"no {missing!r}"
        return PartError(name, expected=f"a module {dotted!r} in {above!r}", found=found)
    hint = _like(missing, [entry for folder in extra for entry in _modules(folder)])
    if hint is None and places.mentioned is not None and missing in _modules(places.mentioned):
        hint = (
            f"its recipe was in {places.mentioned}, which contains one: if you trust it, set PYTHONPATH to that folder"
        )
    expected = f"a module {missing!r} on the Python path" + (f" or {searched}" if searched else "")
    return PartError(name, expected=expected, found="none", hint=hint or "start in its folder, or set PYTHONPATH to it")


def _modules(folder: str | Path) -> list[str]:
    """The names of the modules in a folder."""
    try:
        entries = list(Path(folder).iterdir())
    except OSError:
        return []
    files = [entry.stem for entry in entries if entry.suffix == ".py"]
    return [*files, *(entry.name for entry in entries if (entry / "__init__.py").is_file())]


def _failed(name: str, dotted: str, fault: BaseException) -> PartError:
    return PartError(name, expected=f"{dotted!r} to import", found=describe(fault, _top(name)))


def _top(name: str) -> str:
    """The top-level package of ``package.module:Name``."""
    return name.partition(":")[0].partition(".")[0]


def _like(name: str, known: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else None
