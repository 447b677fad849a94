"""``print`` for the command line: control characters are written as escapes, as JSON writes them.

What commands print is often from files: labels, outputs, names of runs. Printed as it stands, it could clear the screen, set
the terminal's title or hide what is above it.
"""

from __future__ import annotations

import builtins
import re
from typing import Any

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and line ends; half surrogates


def printable(text: str) -> str:
    r"""The text with control characters as escapes.

    >>> print(printable("\x1b[2Jgone"))
    \u001b[2Jgone
    """
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print(*values: object, **options: Any) -> None:
    """As the built-in ``print``, with every value printable."""
    builtins.print(*(printable(str(value)) for value in values), **options)
