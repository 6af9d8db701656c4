"""`deploy/install.py` installs the chosen packages of the lock file: with uv, else with pip."""

import contextlib
import hashlib
import os
import pty
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy.install import list_direct_packages, normalize, pick_locked
from tests.support.child import CHECKOUT

LOCK = (CHECKOUT / "requirements.lock").read_text()
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
# Needed only by packages of which a file is read, and what these need.
EXCLUDED = {*PROJECT["tool"]["uv"]["exclude-dependencies"], "numkong"}
# The other extras are adapters with environments of their own.
EXTRAS = re.findall(r"^EXTRAS := (.*)", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)[
    0
].split()


class Checkout:
    """A small project whose one dependency, `tiny`, lies as a wheel in a folder."""

    def __init__(self, folder: Path) -> None:
        self.wheels, self.root, self.into = folder / "wheels", folder / "a checkout", folder / "env"
        (self.root / "deploy").mkdir(parents=True)
        self.wheels.mkdir()
        program = (CHECKOUT / "deploy" / "install.py").read_text()
        (self.root / "deploy" / "install.py").write_text(program)
        (self.root / "sample.py").write_text("")
        (self.root / "pyproject.toml").write_text(
            '[project]\nname = "sample"\nversion = "1"\ndependencies = ["tiny"]\n'
            '[project.optional-dependencies]\nmore = ["other"]\n'
            '[tool.setuptools]\npy-modules = ["sample"]\n'
        )
        self.write_lock(hashlib.sha256(make_wheel(self.wheels).read_bytes()).hexdigest())
        venv.create(self.into)
        # The build backend and pip are those of this environment.
        (package,) = (self.into / "lib").glob("python*/site-packages")
        (package / "backend.pth").write_text(str(Path(pytest.__file__).parents[1]))

    def write_lock(self, digest: str) -> None:
        (self.root / "requirements.lock").write_text(
            "".join(
                f"{name}==1.0 \\\n    --hash=sha256:{digest}\n    # via sample (pyproject.toml)\n"
                for name in ("tiny", "other", "uv")
            )
        )

    def install(
        self, path: str, stderr: int = subprocess.PIPE, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Install as pip is configured: from the folder of wheels, with no network."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "UV_")) and name != "PATH"
        }
        sources = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        return subprocess.run(
            [sys.executable, self.root / "deploy" / "install.py", "--into", self.into],
            env=kept | sources | {"PATH": path} | environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=120,
        )

    def has(self, package: str) -> bool:
        return bool(list((self.into / "lib").glob(f"python*/site-packages/{package}-*.dist-info")))


def read_terminal(terminal: int) -> bytes:
    """Read until the other end is closed, which Linux reports as an error. One read has at most
    4 KiB."""
    data = b""
    with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as stream:
        while part := stream.read(1 << 16):
            data += part
    return data


def make_wheel(folder: Path) -> Path:
    path = folder / "tiny-1.0-py3-none-any.whl"
    information = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(
            f"{information}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def path_with_uv(tmp_path: Path) -> str:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "uv").symlink_to(Path(sys.executable).parent / "uv")
    return f"{folder}:/usr/bin:/bin"


PATH_WITHOUT_UV = "/usr/bin:/bin"


def test_uv_installs_from_the_sources_of_pip(checkout: Checkout, path_with_uv: str) -> None:
    done = checkout.install(path_with_uv)

    assert done.returncode == 0, done.stderr
    assert checkout.has("tiny") and checkout.has("sample")
    assert not checkout.has("other")
    assert "pip does" not in done.stderr


def test_progress_is_visible_on_a_terminal_and_nowhere_else(
    checkout: Checkout, path_with_uv: str
) -> None:
    terminal, other_end = pty.openpty()

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(read_terminal, terminal)
        shown = checkout.install(path_with_uv, stderr=other_end)
        os.close(other_end)
    text = reading.result().decode()
    silent = checkout.install(path_with_uv)

    assert shown.returncode == silent.returncode == 0
    assert "packages" in text and "\x1b" in text
    assert silent.stderr == ""


def test_pip_installs_if_uv_cannot_be_had(checkout: Checkout) -> None:
    done = checkout.install(PATH_WITHOUT_UV)

    assert done.returncode == 0, done.stderr
    assert "pip does" in done.stderr
    assert checkout.has("tiny") and checkout.has("sample")
    assert not checkout.has("other")


def test_uv_and_then_pip_refuse_a_package_with_another_hash(
    checkout: Checkout, path_with_uv: str
) -> None:
    checkout.write_lock("0" * 64)

    done = checkout.install(path_with_uv)

    assert done.returncode == 1
    assert "Hash mismatch" in done.stderr and "DO NOT MATCH THE HASHES" in done.stderr
    assert not checkout.has("tiny")


@pytest.mark.parametrize(
    "extras", [[], ["bge", "local", "mcp"], EXTRAS], ids=["none", "make", "all"]
)
def test_the_picked_packages_need_no_others(extras: list[str]) -> None:
    names = list_direct_packages(PROJECT, extras, ["checkout"])

    picked = set(re.findall(r"^([a-z0-9.-]+)==", pick_locked(LOCK, names), re.MULTILINE))

    assert needed_here(names) - EXCLUDED <= picked
    assert not EXCLUDED & picked
    assert ("onnxruntime" in picked) == ("local" in extras)
    assert "pytest" not in picked


def needed_here(names: set[str]) -> set[str]:
    """Return the names and all that they require in this environment, without their extras."""
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        try:
            required = map(Requirement, metadata.requires(name) or ())
        except metadata.PackageNotFoundError:
            continue  # not for this platform
        needed.add(name)
        waiting += [
            normalize(requirement.name)
            for requirement in required
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return needed


def test_the_lock_file_has_hashes_and_names_no_host() -> None:
    packages = len(re.findall(r"^[a-z0-9.-]+==", LOCK, re.MULTILINE))

    assert packages > 150
    assert (
        len(re.findall(r"^[a-z0-9.-]+==.*\\\n    --hash=sha256:", LOCK, re.MULTILINE)) == packages
    )
    assert "://" not in LOCK


def test_the_lock_file_has_all_direct_packages() -> None:
    names = list_direct_packages(PROJECT, EXTRAS, list(PROJECT["dependency-groups"]))

    locked = set(re.findall(r"^([a-z0-9.-]+)==", LOCK, re.MULTILINE))
    assert names <= locked
