"""One environment per adapter: Memrelay with the adapter's extra, and the framework.

The folder of an adapter has `constraints.txt`, the versions of all packages, and `checks.py`, the
tests that run in the environment. `packages.txt` lists what the page installs besides the extra,
such as the framework's client of a model. `python -m tests.integrations.environments [NAME ...]`
renews the constraints.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.install import read_pip_sources

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent
PROJECT = ROOT / "pyproject.toml"
ENVIRONMENTS = ROOT / "build/integrations"
ADAPTERS = sorted(path.parent.name for path in FOLDER.glob("*/constraints.txt"))
# Besides the framework.
TOOLS = ("pytest>=9.0", "pytest-timeout>=2.4")
# Frameworks whose page has an example, in place of an adapter with an extra.
WITHOUT_EXTRA = ("autogen",)
INSTALL_TIMEOUT_S = 600
# No framework reports its use.
QUIET = {
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


def uv(*arguments: str) -> None:
    """Run uv with the package sources of pip."""
    subprocess.run(
        [str(Path(sys.executable).with_name("uv")), "pip", *arguments],
        cwd=ROOT,
        env=os.environ | read_pip_sources(),
        check=True,
        timeout=INSTALL_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )


def read_packages(name: str) -> list[str]:
    """Return the packages that the page of an adapter installs besides the extra."""
    packages = FOLDER / name / "packages.txt"
    return packages.read_text().split() if packages.exists() else []


def environment(name: str) -> Path:
    """Return the interpreter of an adapter's environment. Install it if its files changed."""
    constraints = FOLDER / name / "constraints.txt"
    state = hashlib.sha256(constraints.read_bytes() + PROJECT.read_bytes()).hexdigest()
    home = ENVIRONMENTS / name
    home.mkdir(parents=True, exist_ok=True)
    python = home / "bin/python"
    with (home.parent / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        complete = home / ".complete"
        if not complete.exists() or complete.read_text() != state:
            shutil.rmtree(home)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
            extra = "" if name in WITHOUT_EXTRA else f"[{name}]"
            packages = ("-e", f"{ROOT}{extra}", *TOOLS, *read_packages(name))
            uv("install", "-q", "--python", str(python), "-c", str(constraints), *packages)
            complete.write_text(state)
    return python


def renew_constraints(name: str) -> None:
    """Write the newest versions that fit together into the constraints of an adapter."""
    folder = FOLDER / name
    folder.mkdir(exist_ok=True)
    tools = ROOT / f"build/integrations-{name}.in"
    tools.parent.mkdir(exist_ok=True)
    tools.write_text("\n".join((*TOOLS, *read_packages(name))))
    extra = () if name in WITHOUT_EXTRA else ("--extra", name)
    uv(
        *("compile", "-q", "--universal", "--python-version", "3.11", "--no-emit-index-url"),
        *("--no-annotate", "--no-header", "--upgrade", *extra),
        *("pyproject.toml", str(tools), "-o", str(folder / "constraints.txt")),
    )


if __name__ == "__main__":
    for adapter in sys.argv[1:] or ADAPTERS:
        renew_constraints(adapter)
