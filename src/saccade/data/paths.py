"""Resolves the paths of a recipe: environment variables, the home folder, the recipe's own folder. No torch."""

from __future__ import annotations

import os
from pathlib import Path

from saccade.errors import InputError


def locate(name: str, folder: Path) -> Path:
    """A recipe's path: variables filled in, relative to the recipe's folder."""
    filled = os.path.expanduser(os.path.expandvars(name))
    if "$" in filled:
        variable = filled[filled.index("$") :].split("/")[0]
        hint = f"a folder of your own: export {variable[1:]}=FOLDER"
        raise InputError(name, expected=f"the variable {variable} to be set", found="it is not", hint=hint)
    # What a variable holds was written in the shell, not in the recipe: it starts at the working folder.
    return Path(filled) if name.startswith("$") else folder / filled
