"""Shared parts of the abuse tests: how fast the server still answers other clients, and how much
memory it takes.
"""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.http import ask

PAUSE_S = 0.02


class Bystander:
    """Sends requests on separate connections during a test and records the slowest answer. Use
    it as a context.
    """

    def __init__(self, url: str, path: str = "/live") -> None:
        self._url, self._path, self._ended = url, path, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.slowest_s, self.count, self.failures = 0.0, 0, []

    def __enter__(self) -> Self:
        ask(self._url, "GET", self._path)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                if ask(self._url, "GET", self._path).status != 200:
                    self.failures.append("status")
            except OSError as error:
                self.failures.append(type(error).__name__)
            self.slowest_s, self.count = (
                max(self.slowest_s, time.monotonic() - began),
                self.count + 1,
            )
            self._ended.wait(PAUSE_S)


class Footprint:
    """The peak memory growth of a process since the start of the measurement, in MB."""

    def __init__(self, pid: int) -> None:
        """Reset the kernel's high-water mark."""
        self._folder = Path(f"/proc/{pid}")
        (self._folder / "clear_refs").write_text("5")
        self._at_first = self._read("VmRSS")

    @property
    def grown_mb(self) -> float:
        """Return the peak growth since the start."""
        return self._read("VmHWM") - self._at_first

    def _read(self, name: str) -> float:
        for line in (self._folder / "status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        raise LookupError(name)
