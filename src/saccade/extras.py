"""Packages that only some jobs need: ``pip install 'saccade[parquet]'`` brings what the extra ``parquet`` names.

They are imported where they are used, through :func:`need`, so that one that is not there is one clear line.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from saccade.errors import SaccadeError


def need(package: str, *, extra: str, for_: str) -> ModuleType:
    """The imported package; where it cannot be had, an error that says what for and how to install it.

    Args:
        package: the name to import, e.g. ``pyarrow.parquet``.
        extra: the extra of this package that installs it.
        for_: what wanted it, as the beginning of a sentence: ``reading Parquet``.

    >>> need("pyarow", extra="parquet", for_="reading Parquet")
    Traceback (most recent call last):
    saccade.errors.SaccadeError: reading Parquet needs the package 'pyarow': pip install 'saccade[parquet]'
    """
    root = package.partition(".")[0]
    install = f"pip install 'saccade[{extra}]'"
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == root:
            raise SaccadeError(f"{for_} needs the package '{root}': {install}") from None
        reason = str(error)
    except ImportError as error:
        reason = str(error).partition("\n")[0]
    raise SaccadeError(f"{for_} needs the package '{root}', which is there but does not load ({reason}): {install}")
