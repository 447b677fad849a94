"""The build backend: setuptools', with the explorer built first, so that wheel, sdist and editable install have it.

Where the explorer must be built and the system has no Node, the Node of PyPI is a requirement of the build.
"""

from __future__ import annotations

import shutil
from typing import Any

import build_web
from setuptools import build_meta
from setuptools.build_meta import prepare_metadata_for_build_editable, prepare_metadata_for_build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    if build_web.is_built() or build_web.system_node():
        return []
    return [build_web.PACKAGE]


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    build_web.build()
    # setuptools would also pack what an earlier build left there of files that are gone.
    shutil.rmtree(build_web.ROOT / "build" / "lib", ignore_errors=True)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    build_web.build()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    build_web.build()
    return build_meta.build_sdist(sdist_directory, config_settings)
