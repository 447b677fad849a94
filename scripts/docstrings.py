"""Docstrings on their way to the site: reStructuredText's few habits become Markdown. Used by zensical.toml alone."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?([^`]+)`")
EXAMPLE = re.compile(r"(?:^[ ]*(?:>>>|\.\.\.).*\n?(?:^(?![ ]*(?:>>>|\.\.\.|$)).+\n?)*)+", re.MULTILINE)


class Markdown(griffe.Extension):
    """``:class:`Lens``` → `Lens`; an example (``>>> …``) → a block of code, its commented-out lines as they are meant."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    return EXAMPLE.sub(_fenced, ROLE.sub(r"`\1`", text))


def _fenced(found: re.Match[str]) -> str:
    lines = [re.sub(r"^\s*(>>>|\.\.\.) ?(# )?", "", line) for line in found[0].rstrip().splitlines()]
    return "```python\n" + "\n".join(lines) + "\n```\n"
