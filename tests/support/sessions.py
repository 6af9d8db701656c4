"""Console sessions of the documentation: commands and their output, run in order as a reader
would.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.support.waiting import wait_for

CHECKOUT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UID, GUID = "3f9c2a71", re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ENTRY = re.compile(r"\b\d{13}-\d+")  # IDs of messages
NAMED = re.compile(r"\b(mem|me)_[A-Za-z0-9-]+_[0-9a-f]{32}\b")  # IDs of named memories and entries
# The parts that differ between runs: GUIDs, times, entry IDs, digests, rates.
CHANGING = (
    (NAMED, "ID"),
    (GUID, "GUID"),
    (re.compile(r"\b\d{13}(-\d+)?"), "TIME"),
    (re.compile(r"~[0-9a-f]{8}"), "~DIGEST"),
    (re.compile(r"\b[0-9.]+ a second"), "RATE"),
)


class Step(NamedTuple):
    """One command of a page and its expected output; "" if the page shows none."""

    command: str
    shown: str


def fences(page: Path) -> list[tuple[str, str]]:
    """Return (language, text) of each code block of a page."""
    return FENCE.findall(page.read_text())


def steps(page: Path) -> Iterator[Step]:
    """Yield the commands of the console blocks."""
    for language, text in fences(page):
        for part in (
            re.split(r"^\$ ", text, flags=re.MULTILINE)[1:] if language == "console" else ()
        ):
            command, _, shown = part.partition("\n")
            yield Step(command, shown)


class Reader:
    """A reader at a checkout who types what a page shows. Use it as a context: at its end all
    processes have ended.
    """

    def __enter__(self) -> Self:
        """Create a folder that looks like a checkout, with its own data."""
        self._folder = tempfile.TemporaryDirectory(prefix="memrelay-test-")
        self.folder = Path(self._folder.name)
        self.log_file = (self.folder / "log").open("ab")
        self._running: list[subprocess.Popen[bytes]] = []
        for name in ("pipelines", "Procfile", "config.yaml"):
            (self.folder / name).symlink_to(CHECKOUT / name)
        (self.folder / ".venv").symlink_to(Path(sys.prefix))
        ours = {
            "MEMRELAY_MEMORY__ROOT": "data/memory",
            "MEMRELAY_BUS__DATA": "data/bus",
            "MEMRELAY_WEB__PORT": "0",
        }
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("MEMRELAY_")
        } | ours
        self._changed = {UID: UID}
        # The GUIDs and message IDs of this run by those of the page.
        self._ids: dict[str, str] = {}
        self._named: dict[str, str] = {}  # the first printed ID of each kind
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._running):
            process.terminate()
            process.wait(60)
        self.log_file.close()
        self._folder.cleanup()

    @property
    def log(self) -> str:
        """Return the output of the background processes."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self, command: str, mark: str) -> subprocess.Popen[bytes]:
        """Start a serving command and wait until its output contains `mark`."""
        began = len(self.log)
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self.adapted(command)}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log_file,
            stderr=self.log_file,
        )
        self._running.append(process)
        wait_for(
            lambda: mark in self.log[began:] or process.poll() is not None, f"{command}: {mark}"
        )
        assert process.poll() is None, self.log[began:]
        if url := re.search(r"web_ready .*?\burl=(\S+)", self.log[began:]):
            self._changed["http://127.0.0.1:8765"] = url[1]
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self._running.remove(process)

    def up(self) -> None:
        """Run `memrelay up` as make does. From then on, the page's UID stands for the UID of its
        sample pipeline.
        """
        self.start(".venv/bin/memrelay up", "Press Ctrl-C to stop")
        uid = re.search(r"pipeline memory_test \((\w+)\)", self.log)
        assert uid is not None
        self._changed[UID] = uid[1]

    def type(self, command: str) -> str:
        """Run a command and return its output: stdout and stderr."""
        done = subprocess.run(
            ["bash", "-c", self.adapted(command)],
            cwd=self.folder,
            env=self.environment,
            timeout=120,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        for named in NAMED.finditer(done.stdout):
            self._named.setdefault(named[1], named[0])
        return done.stdout

    def learn(self, shown: str, printed: str) -> None:
        """Note which IDs of this run stand for those that a page shows as a command's output."""
        for ids in (GUID, ENTRY):
            for was, now in zip(ids.findall(shown), ids.findall(printed), strict=False):
                self._ids.setdefault(was, now)

    def adapted(self, text: str) -> str:
        """Return a page's text with the UID, URL and IDs of this run."""
        for was, now in self._changed.items():
            text = text.replace(was, now)
        for ids in (GUID, ENTRY):
            text = ids.sub(lambda found: self._ids.get(found[0], found[0]), text)
        return NAMED.sub(lambda named: self._named.get(named[1], named[0]), text)


def looks_like(shown: str, printed: str) -> bool:
    """Return whether the output matches, apart from the parts that differ between runs; `...`
    matches anything.
    """
    pattern = ".*".join(re.escape(part) for part in _steady(shown).strip().split("..."))
    return re.fullmatch(pattern, _steady(printed).strip(), re.DOTALL) is not None


def _steady(text: str) -> str:
    for changing, name in CHANGING:
        text = changing.sub(name, text)
    return text
