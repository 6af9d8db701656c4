"""`pip install .` installs one package, memrelay, which works without the checkout."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.architecture.source import PACKAGES
from tests.support.sessions import CHECKOUT
from tests.support.waiting import wait_for

PROGRAM = "import sys; from memrelay.cli.main import main; sys.argv[0] = 'memrelay'; main()"
# Prints which of these names a folder has, since another library may have one of them too.
RESOLVE = """
import importlib.util, sys
folder, *names = sys.argv[1:]
specs = {name: importlib.util.find_spec(name) for name in names}
print(*[name for name, spec in specs.items() if spec and spec.origin.startswith(folder)])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed package; its dependencies are in this environment."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("packages")
    shutil.copytree(CHECKOUT / "memrelay", source / "memrelay")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *options, str(source)],
        check=True,
        timeout=120,
    )
    return target


@pytest.fixture(scope="module")
def bare_environment(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment that finds the package and its dependencies, but not the checkout.

    The editable install of this virtual environment is one .pth file, which only `site` reads.
    """
    folders = [path for path in sys.path if path.endswith("site-packages")]
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("MEMRELAY_")
    }
    return inherited | {
        "PYTHONPATH": os.pathsep.join([str(installed), *folders]),
        "PYTHONNOUSERSITE": "1",
        "MEMRELAY_WEB__PORT": "0",
    }


def read_page(url: str) -> str:
    with urlopen(url) as answer:
        return str(answer.read().decode())


class User:
    """A user in a folder without a checkout. Use it as a context: at its end no process runs."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self._environment = folder, environment
        self._up: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "User":
        return self

    def __exit__(self, *_: object) -> None:
        if self._up is not None:
            self._up.terminate()
            self._up.wait(60)

    def up(self) -> str:
        """Run `memrelay up` in the background and return its log when it is ready."""
        log = self.folder / "log"
        with log.open("wb") as out:
            self._up = subprocess.Popen(
                self._command(PROGRAM, "up"),
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        up = self._up
        wait_for(
            lambda: "Press Ctrl-C to stop" in log.read_text() or up.poll() is not None, "it is up"
        )
        return log.read_text()

    def memrelay(self, *words: str) -> str:
        """Return the output of a command, stdout and stderr."""
        return self.python(PROGRAM, *words)

    def python(self, program: str, *words: str) -> str:
        """Return the output of a Python program, stdout and stderr."""
        return subprocess.run(
            self._command(program, *words),
            cwd=self.folder,
            env=self._environment,
            timeout=240,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout

    @staticmethod
    def _command(program: str, *words: str) -> list[str]:
        return [sys.executable, "-S", "-c", program, *words]


@pytest.fixture
def user(tmp_path: Path, bare_environment: dict[str, str]) -> Iterator[User]:
    with User(tmp_path, bare_environment) as user:
        yield user


def test_the_installation_adds_one_name(installed: Path) -> None:
    names = {path.name for path in installed.iterdir()} - {"bin", "__pycache__"}
    (information,) = installed.glob("memrelay-*.dist-info")

    assert names == {"memrelay", information.name}
    assert (information / "top_level.txt").read_text().split() == ["memrelay"]
    assert {path.name for path in (installed / "memrelay").iterdir()} >= set(PACKAGES)


def test_no_short_name_resolves_next_to_the_installed_package(user: User, installed: Path) -> None:
    names = ("memrelay", "memrelay.memory", *PACKAGES)

    assert user.python(RESOLVE, str(installed), *names).split() == ["memrelay", "memrelay.memory"]


def test_without_a_checkout_settings_have_their_defaults_and_data_is_in_the_current_folder(
    user: User, installed: Path
) -> None:
    assert user.memrelay("--version").startswith("memrelay ")
    log = user.up()

    assert "Press Ctrl-C to stop" in log, log
    assert '"guid"' in user.memrelay("say", "memory_test", "/write The meeting is at 3pm")
    assert "The meeting is at 3pm" in user.memrelay("search", "memory_test", "meeting")
    assert re.search(
        r"^ok +settings +the defaults, and the environment$", user.memrelay("doctor"), re.MULTILINE
    )
    assert (user.folder / "data/memory/system.db").is_file()
    assert not (installed / "data").exists()
    # A copy has no .venv of a checkout: commands and install hints name what exists.
    url = re.search(r"http://[\d.:]+", log)
    assert url is not None
    user.memrelay("keys", "create", "me", "--scope", "read", "--pipeline", "*")
    login = wait_for(
        lambda: page if "Log in" in (page := read_page(f"{url[0]}/login")) else "", "a key is asked"
    )
    assert "<code>memrelay keys create" in login and "docker compose exec" in login
    assert ".venv/bin/memrelay" not in log + login.partition("<details")[0]
    hint = "from memrelay.installation import install_extra as hint; print(hint('jwt'))"
    assert "pip install 'memrelay[jwt]'" in user.python(hint)


def test_it_works_in_a_folder_with_packages_of_the_same_names(user: User) -> None:
    for name in ("memory", "cli"):
        (user.folder / name).mkdir()
        (user.folder / name / "__init__.py").write_text("raise SystemExit('the wrong package')")
    (user.folder / "web.py").write_text("raise SystemExit('the wrong module')")

    shown = user.python("import memrelay; print(memrelay.open_store.__module__)")
    assert shown == "memrelay.embedded.store\n"
    assert "Messages:" in user.memrelay("--help")
    log = user.up()

    assert "Press Ctrl-C to stop" in log, log
    assert '"guid"' in user.memrelay("say", "memory_test", "/write tea")


def test_files_by_other_authors_come_with_their_licenses(installed: Path) -> None:
    package = installed / "memrelay"
    for name in (
        "memory/search/embedding/vocab.txt",
        "memory/search/embedding/word_signs.bin",
        "memory/search/embedding/word_neighbors.bin",
    ):
        assert (package / f"{name}.license").is_file(), name
    assert list(package.glob("web/console/static/idiomorph-*.license.txt"))


def test_the_types_are_installed(installed: Path) -> None:
    for name in ("py.typed", "client/nouns.pyi"):
        assert (installed / "memrelay" / name).is_file(), name
