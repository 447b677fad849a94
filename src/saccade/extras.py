"""Imports optional packages, or says how to install them: ``pip install 'saccade[parquet]'``.

They are imported where they are used, through :func:`need`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from saccade.errors import SaccadeError


def need(package: str, *, extra: str, for_: str) -> ModuleType:
    """The imported package; raises an error that says what it is for and how to install it.

    Args:
        package: the name to import, e.g. ``pyarrow.parquet``.
        extra: the extra of this package that installs it.
        for_: what needs it, as the subject of a sentence: ``reading Parquet``.

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
    raise SaccadeError(
        f"{for_} needs the package '{root}', which is installed but fails to import ({reason}): {install}"
    )
