"""The documentation hangs together: links lead somewhere, every page can be found, and the site needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import FENCE, PAGES, ROOT

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def prose(page: Path) -> list[tuple[int, str]]:
    """The numbered lines outside fenced blocks, code in the line left out."""
    lines, fence = [], ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        opened = FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opened:
            fence = opened["fence"]
        else:
            lines.append((number, line))
    return lines


def anchors(page: Path) -> set[str]:
    """The names that headings get: lower case, punctuation dropped, a hyphen for each blank; one named twice is numbered."""
    found: set[str] = set()
    for _, line in prose(page):
        heading = HEADING.match(line)
        if heading:
            text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = first = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())
            number = 0
            while slug in found:
                number += 1
                slug = f"{first}_{number}"
            found.add(slug)
    return found


def faults(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for number, line in prose(page):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"https?://|mailto:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists():
                found.append(f"{page.name}:{number}: no file {target}")
            elif anchor and anchor not in anchors(path):
                found.append(f"{page.name}:{number}: no heading {target}")
    return found


def navigation() -> list[str]:
    """The pages that zensical.toml lists, in order."""

    def flat(node: object) -> list[str]:
        if isinstance(node, str):
            return [node]
        inner = node.values() if isinstance(node, dict) else node
        return [page for part in inner for page in flat(part)]

    return flat(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert faults(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, two\n[a](page.md#one-two) [b](#one) `[c](no)`\n![d](no.png)\n```\n[e](no.md)\n```\n")
    assert faults(page) == ["page.md:2: no heading #one", "page.md:3: no file no.png"]


def test_every_page_is_on_the_map_and_in_the_navigation():
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")}
    linked = {target.partition("#")[0] for _, line in prose(ROOT / "docs/index.md") for target in LINK.findall(line)}
    assert pages - linked == {"index.md"}
    assert sorted(navigation()) == sorted(pages)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Built strictly, from a copy: a build leaves a cache behind where it runs."""
    pytest.importorskip("zensical", reason="the site is built by zensical")
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src").symlink_to(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build/docs"


def test_the_site_has_every_page(site):
    for page in navigation():
        assert (site / page).with_suffix(".html").is_file(), page


def test_the_site_fetches_nothing(site):
    script = r'<(?:script|img|iframe|source)[^>]*\ssrc="https?:[^"]*'
    sheet = r'<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*https?:'
    for page in site.rglob("*.html"):
        assert not re.findall(f"{script}|{sheet}", page.read_text(encoding="utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?https?:|@import", style.read_text(encoding="utf-8")), style


def test_the_python_page_is_made_from_the_docstrings(site):
    page = (site / "reference/python.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page))
    assert "Train a recipe (a file, or the name of a shipped one) and return the best network as a bundle." in text
    assert not re.findall(r":(?:class|func|meth|mod):|&gt;&gt;&gt;|>>>", text)
