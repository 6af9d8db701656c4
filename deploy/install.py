"""Install Memrelay into a virtual environment, with the versions of requirements.lock.

    python3 deploy/install.py --into .venv --extra local --extra mcp --group checkout

requirements.lock holds every package that the project uses, with hashes. The options choose extras
and dependency groups of pyproject.toml, and nothing else is installed. uv installs in seconds. If
uv cannot be had or fails, pip installs the same versions and checks the same hashes.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT, LOCK = "pyproject.toml", "requirements.lock"
# uv reads no pip.conf, so it gets the package sources of pip by these names.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "no-index": "UV_NO_INDEX",
}
PROJECT_OPTIONS = {
    "editable": ["--no-build-isolation", "-e", "."],
    "copy": ["--no-build-isolation", "."],
    "none": [],
}
PIP_INSTALL = ("install", "--no-user", "--disable-pip-version-check")
# One locked package: its pin, hashes and the packages that need it.
LOCKED_PACKAGE = re.compile(r"^(\S+?)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def main() -> None:
    options = parse_arguments()
    project = tomllib.loads((ROOT / PROJECT).read_text())
    lock = (ROOT / LOCK).read_text()
    names = list_direct_packages(project, options.extra, options.group)
    with tempfile.TemporaryDirectory() as folder:
        chosen = Path(folder) / "chosen.lock"
        chosen.write_text(pick_locked(lock, names))
        tool = Path(folder) / "tool.lock"
        tool.write_text(pick_locked(lock, {"uv"}))
        environment = os.environ | read_pip_sources()
        tools = options.tools or options.into
        python = options.into / "bin" / "python"
        uv = find_uv(tools, tool)
        if uv is not None:
            command = [uv, "pip", "install", "--python", str(python)]
            if install(command, chosen, environment, PROJECT_OPTIONS[options.project]):
                return
        print("uv cannot install here; pip does, which takes some minutes", file=sys.stderr)
        pip = [*make_pip(tools), "--python", str(python), *PIP_INSTALL]
        if not install(pip, chosen, dict(os.environ), PROJECT_OPTIONS[options.project]):
            sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=absolute, required=True, help="a virtual environment")
    parser.add_argument("--tools", type=absolute, help="another one, for a uv that is missing")
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument(
        "--project",
        choices=PROJECT_OPTIONS,
        default="editable",
        help="how to install Memrelay itself after its packages",
    )
    return parser.parse_args()


def absolute(path: str) -> Path:
    return Path(path).absolute()


def list_direct_packages(
    project: dict[str, Any], extras: Iterable[str], groups: Iterable[str]
) -> set[str]:
    """Return the packages that the project, these extras and these groups name."""
    requirements = list(project["project"]["dependencies"])
    for extra in extras:
        requirements += project["project"]["optional-dependencies"][extra]
    waiting = list(groups)
    while waiting:
        for item in project["dependency-groups"][waiting.pop()]:
            if isinstance(item, dict):
                waiting.append(item["include-group"])
            else:
                requirements.append(item)
    return {
        normalize(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in requirements
    }


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pick_locked(lock: str, names: set[str]) -> str:
    """Return the part of a lock file with these packages and their dependencies.

    The comments `# via` of the lock file name the packages that need a package.
    """
    packages = [(match[1], match[0]) for match in LOCKED_PACKAGE.finditer(lock)]
    parents = {
        (name, parent)
        for name, text in packages
        for parent in re.findall(r"^ +#(?: via)? +([a-z0-9-]+)$", text, re.MULTILINE)
    }
    picked: set[str] = set()
    new = set(names)
    while new:
        picked |= new
        new = {name for name, parent in parents if parent in new} - picked
    return "".join(text for name, text in packages if name in picked)


def read_pip_sources() -> dict[str, str]:
    """Return the package sources that pip is configured with, as settings of uv.

    A setting that uv has already stays. Each download is checked by its hash, so the source with
    the wanted version may be any of them.
    """
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    # The environment has precedence over the files.
    lines = sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:"))
    settings = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for line in lines:
        key, _, value = line.partition("=")
        name = UV_NAMES.get(key.rpartition(".")[2])
        if name is not None:
            separator = "," if name == "UV_FIND_LINKS" else " "
            settings[name] = separator.join(value.strip("'\"").replace("\\n", " ").split())
    return {name: value for name, value in settings.items() if name not in os.environ}


def find_uv(tools: Path, lock: Path) -> str | None:
    """Return the command of uv. If the machine has none, pip installs it into `tools`."""
    local = tools / "bin" / "uv"
    program = shutil.which("uv") or (str(local) if local.exists() else None)
    if program is None:
        command = [*make_pip(tools), *PIP_INSTALL, "-q", "--require-hashes", "-r", str(lock)]
        if subprocess.run(command, check=False).returncode:
            return None
        program = str(local)
    return program


def make_pip(tools: Path) -> list[str]:
    """Return the command of the pip of `tools`. Python brings one along if there is none."""
    python = str(tools / "bin" / "python")
    pip = [python, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        subprocess.run([python, "-m", "ensurepip"], capture_output=True, check=False)
    return pip


def install(
    command: list[str], lock: Path, environment: dict[str, str], project: list[str]
) -> bool:
    """Install the locked packages, then the project. Return whether both succeeded."""
    if not sys.stderr.isatty():
        command = [*command, "-q"]
    packages = ["--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
    for what in (packages, project):
        words = [*command, "--no-deps", *what]
        if what and subprocess.run(words, env=environment, cwd=ROOT, check=False).returncode:
            return False
    return True


if __name__ == "__main__":
    main()
