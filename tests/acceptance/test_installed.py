"""What `pip install .` leaves: the product without its checkout, in a folder where nothing is."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sessions import CHECKOUT
from tests.support.waiting import wait_for

ROOMS = ("blocks", "bus", "cli", "memory", "pipelines", "web", "worker")
RUN = "import sys; from memrelay.cli.main import main; sys.argv[0] = 'memrelay'; main()"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the packages; the others that they need are this environment's."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("packages")
    for name in ROOMS:
        shutil.copytree(CHECKOUT / name, source / name)
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "--target",
            target,
            source,
        ],
        check=True,
        timeout=120,
    )
    return target


class Elsewhere:
    """Someone in an empty folder. Use it as a context: at its end nothing runs."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self.folder = folder
        given = {
            name: value for name, value in os.environ.items() if not name.startswith("MEMRELAY_")
        }
        self._environment = given | {"PYTHONPATH": str(packages), "MEMRELAY_WEB__PORT": "0"}

    def __enter__(self) -> "Elsewhere":
        self._up: subprocess.Popen[bytes] | None = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._up is not None:
            self._up.terminate()
            self._up.wait(60)

    def up(self) -> str:
        """`memrelay up`, in the background; returns its log when it is ready."""
        log = self.folder / "log"
        with log.open("wb") as out:
            self._up = subprocess.Popen(
                [sys.executable, "-c", RUN, "up"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        up = self._up
        wait_for(lambda: "Ctrl-C ends it" in log.read_text() or up.poll() is not None, "it is up")
        return log.read_text()

    def run(self, *words: str) -> str:
        """What a command prints."""
        return subprocess.run(
            [sys.executable, "-c", RUN, *words],
            cwd=self.folder,
            env=self._environment,
            timeout=60,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout


@pytest.fixture
def elsewhere(tmp_path: Path, installed: Path) -> Iterator[Elsewhere]:
    """Nothing runs yet."""
    with Elsewhere(tmp_path, installed) as someone:
        yield someone


@pytest.mark.timeout(180)
def test_without_a_checkout_the_settings_have_their_defaults_and_the_data_is_in_the_current_folder(
    elsewhere: Elsewhere, installed: Path
) -> None:
    assert elsewhere.run("--version").startswith("memrelay ")
    log = elsewhere.up()

    assert "Ctrl-C ends it" in log, log
    assert '"guid"' in elsewhere.run("say", "memory_test", "/write The meeting is at 3pm")
    assert "The meeting is at 3pm" in elsewhere.run("search", "memory_test", "meeting")
    assert re.search(
        r"^ok +settings +the defaults, and the environment$", elsewhere.run("doctor"), re.MULTILINE
    )
    assert (elsewhere.folder / "data/memory/system.db").is_file()
    assert not (installed / "data").exists()


def test_what_others_wrote_comes_with_its_licence(installed: Path) -> None:
    for name in ("memory/embedding/vocab.txt", "memory/embedding/word_signs.bin"):
        assert (installed / f"{name}.license").is_file(), name
    assert list(installed.glob("web/console/static/htmx-*.license.txt"))
