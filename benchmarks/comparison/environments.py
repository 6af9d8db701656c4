"""One environment per system, installed by uv with an empty cache and the versions of
`constraints/`.

    python -m benchmarks.comparison.environments

renews the constraints.
"""

import os
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.comparison.systems import EMBEDDER, SYSTEMS, System
from tests.integrations.environments import uv

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = Path(__file__).parent / "constraints"
BUILD = ROOT / "build/comparison"


class Installation(NamedTuple):
    """An environment, and what it cost."""

    python: Path
    seconds: float  # with an empty cache, downloads included
    size_bytes: int  # of the installed packages
    version: str  # of the first package; "" without packages


def install(name: str, interpreter: str = sys.executable) -> Installation:
    """Make the environment of a system again."""
    system, home = SYSTEMS[name], BUILD / name
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin/python"
    before = measure_size(home)
    packages = [locate(package) for package in system.packages]
    began = time.perf_counter()
    if packages:
        install_packages(name, python, packages)
    seconds = time.perf_counter() - began
    size_bytes = measure_size(home) - before
    if system.embedder == "function":
        install_packages(name, python, list(EMBEDDER))
    return Installation(python, seconds, size_bytes, read_version(python, system))


def install_packages(name: str, python: Path, packages: list[str]) -> None:
    """Install packages with an empty cache."""
    cache = BUILD / f"{name}-cache"
    options = ["-q", "--cache-dir", str(cache), "--python", str(python)]
    try:
        uv("install", *options, "-c", str(constraints(name)), *packages)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def constraints(name: str) -> Path:
    return CONSTRAINTS / f"{name}.txt"


def locate(package: str) -> str:
    """Return a requirement that uv can install; the checkout is "." in the table of systems."""
    if not package.startswith("."):
        return package
    return f"memrelay{package[1:]} @ {build_wheel().as_uri()}"


@cache
def build_wheel() -> Path:
    """Return a wheel of the checkout. Others install wheels too, so building it is not timed."""
    folder = BUILD / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", "-q", "wheel", *options], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def measure_size(home: Path) -> int:
    """Return the bytes of all files of a folder."""
    return sum(
        os.lstat(path).st_size for path in home.rglob("*") if path.is_file() or path.is_symlink()
    )


def read_version(python: Path, system: System) -> str:
    """Return the version of the system's package, and of SQLite for FTS5."""
    if not system.packages:
        program = "import sqlite3; print(sqlite3.sqlite_version)"
    else:
        package = "memrelay" if system.packages[0].startswith(".") else system.packages[0]
        program = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def renew_constraints(name: str) -> None:
    """Write the newest versions that fit together."""
    packages = [*SYSTEMS[name].packages]
    if SYSTEMS[name].embedder == "function":
        packages += EMBEDDER
    needed = BUILD / f"{name}.in"
    needed.parent.mkdir(parents=True, exist_ok=True)
    needed.write_text("\n".join(map(locate, packages)))
    uv(
        *("compile", "-q", "--universal", "--python-version", "3.11", "--no-emit-index-url"),
        *("--no-annotate", "--no-header", "--upgrade", "--no-emit-package", "memrelay"),
        *(str(needed), "-o", str(constraints(name))),
    )


if __name__ == "__main__":
    for chosen in SYSTEMS:
        if SYSTEMS[chosen].packages:
            renew_constraints(chosen)
