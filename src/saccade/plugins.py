"""Parts that a user wrote, by name: ``package.module:Name`` in a recipe means that name in that module. No torch here.

A module is looked for on the Python path, then beside the recipe that is being read (:func:`searching`), then in the
current folder. The path itself stays as it was. A bundle holds names, never code, and neither its own folder nor one that it
names is searched.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from saccade.errors import InputError, SaccadeError

FORM = "package.module:Name"
LONGEST = 300  # characters of another program's message


class PartError(InputError):
    """A part that cannot be had: it names the part, what was expected of it and what was found."""

    def __init__(self, name: str, *, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(name, expected=expected, found=found, hint=hint)
        self.hint = hint


@dataclass(frozen=True)
class _Places:
    beside: Path | None = None  # searched
    mentioned: Path | None = None  # never searched: a bundle says that its recipe stood there
    never: Path | None = None  # nor searched when it is the current folder: a run's own


_NOWHERE = _Places()
_PLACES: ContextVar[_Places] = ContextVar("places", default=_NOWHERE)
# Top-level packages that parts came from, and for those that are not on the Python path: the file.
_OWN: set[str] = set()
_HOMES: dict[str, str] = {}


def is_own(name: str) -> bool:
    """Whether a name in a recipe means a user's part: it has a colon."""
    return ":" in name


@contextmanager
def searching(
    *, beside: Path | None = None, mentioned: Path | None = None, never: Path | None = None
) -> Iterator[None]:
    """While it lasts, parts are also looked for in ``beside``; ``mentioned`` only helps to word the error. Nothing in
    ``never`` is imported, nor in what lies inside it, even where that is the current folder: it holds while others nest."""
    token = _PLACES.set(_Places(beside, mentioned, never or _PLACES.get().never))
    try:
        yield
    finally:
        _PLACES.reset(token)


def load(name: str) -> Any:
    """What ``package.module:Name`` means.

    >>> load("pathlib:Path").__name__
    'Path'
    """
    dotted, _, attribute = name.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in dotted.split(".")):
        hint = "a module's name, not its file" if "/" in dotted or "\\" in dotted else None
        raise PartError(name, expected=FORM, found=repr(name), hint=hint)
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
    """A user's class; it must derive from ``base``, which people know as ``called``."""
    found = load(name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PartError(name, expected=f"a class derived from {called}", found=kind_of(found))
    return found


def call(name: str, part: Callable[..., Any], *arguments: Any, expected: str) -> Any:
    """``part(*arguments)``; a user's error comes back as one line with the file and line it arose in."""
    try:
        return part(*arguments)
    except SaccadeError:
        raise
    except Exception as fault:
        home = str(getattr(part, "__module__", name))
        raise PartError(name, expected=expected, found=describe(fault, _top(home))) from fault


def kind_of(found: Any) -> str:
    """A thing in a sentence: ``the class Foo``, ``a function``, ``a module``."""
    if isinstance(found, type):
        return f"the class {found.__name__}"
    kind = type(found).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def blame(error: BaseException) -> str | None:
    """The error in one line with its place in a user's part, if one was at work when it arose; else None."""
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


# Finding the module -----------------------------------------------------------------------------------------------------


def _module(name: str, dotted: str) -> ModuleType:
    top, extra = _top(dotted), _extra()
    _refuse_another(name, top, extra)
    fresh = top not in sys.modules
    with _longer_path(extra):
        try:
            module = importlib.import_module(dotted)
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


def _extra() -> list[str]:
    """The folders that are searched after the Python path, in this order."""
    places = _PLACES.get()
    folders = [places.beside]
    with suppress(OSError):  # the current folder may have been removed
        here = Path.cwd().resolve()
        if places.never is None or not here.is_relative_to(places.never.resolve()):
            folders.append(here)
    return list(dict.fromkeys(os.path.realpath(folder) for folder in folders if folder is not None))


@contextmanager
def _longer_path(extra: Sequence[str]) -> Iterator[None]:
    before = list(sys.path)
    # At the end: nothing that is installed can be shadowed by a file that happens to lie in a folder.
    sys.path[:] = [*before, *(folder for folder in extra if folder not in before)]
    importlib.invalidate_caches()  # a file that was written a moment ago
    try:
        yield
    finally:
        sys.path[:] = before


def _refuse_another(name: str, top: str, extra: Sequence[str]) -> None:
    """Two folders may each have a ``parts.py``, but a process knows one module of a name: never the wrong one in silence."""
    if top not in _HOMES or top not in sys.modules:
        return
    meant = _origin(PathFinder.find_spec(top, [*sys.path, *extra]))
    if meant is not None and meant != _HOMES[top]:
        expected = f"one module {top!r} in a process"
        found = f"{meant}, where {_HOMES[top]} is loaded already"
        raise PartError(name, expected=expected, found=found, hint="rename one of them, or start afresh")


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
    said = {os.path.realpath(beside): "beside the recipe"} if beside is not None else {}
    searched = ", ".join(f"in {folder} ({said.get(folder, 'the current folder')})" for folder in extra)
    above = missing.rpartition(".")[0]
    if above:  # the package is there, its module is not
        found = f"no {missing!r} in it" if missing == dotted else f"no {missing!r}"
        return PartError(name, expected=f"a module {dotted!r} in {above!r}", found=found)
    hint = _like(missing, [entry for folder in extra for entry in _modules(folder)])
    if hint is None and places.mentioned is not None and missing in _modules(places.mentioned):
        hint = f"its recipe stood in {places.mentioned}, which has one: if you trust it, set PYTHONPATH to that folder"
    expected = f"a module {missing!r} on the Python path or {searched}"
    return PartError(name, expected=expected, found="none", hint=hint or "start in its folder, or set PYTHONPATH to it")


def _modules(folder: str | Path) -> list[str]:
    """What could be imported from a folder, by name."""
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
