"""Numbered commands over HTTP without ids, for what must hold without idempotency keys."""

import threading
import time
from http.client import HTTPException
from itertools import count
from types import TracebackType
from typing import NamedTuple, Self

from tests.support.host import Host
from tests.support.waiting import wait_for

PAUSE_S = 0.02


class Span(NamedTuple):
    """When a message was sent and accepted (time.monotonic())."""

    sent_s: float
    accepted_s: float


class PlainLoad(threading.Thread):
    """Sends `/COMMAND <NUMBER>` to the swarm `chat` while the context is open, each once and one
    after another. `accepted` has the numbers that the server has accepted.
    """

    def __init__(self, host: Host, uid: str, command: str) -> None:
        super().__init__()
        self._host, self._uid, self._command = host, uid, command
        self._ending = threading.Event()
        self.accepted: dict[int, Span] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self.join()

    def await_accepted(self, more: int) -> None:
        """Wait until so many more commands are accepted."""
        wanted = len(self.accepted) + more
        wait_for(lambda: len(self.accepted) >= wanted, "commands are accepted")

    def run(self) -> None:
        """Run in the thread."""
        path = f"/v1/pipelines/{self._uid}/swarms/chat/messages"
        for number in count():
            if self._ending.is_set():
                return
            sent_s = time.monotonic()
            if self._send(path, {"text": f"/{self._command} <{number}>"}):
                self.accepted[number] = Span(sent_s, time.monotonic())
            time.sleep(PAUSE_S)

    def _send(self, path: str, message: dict[str, str]) -> bool:
        try:
            return self._host.ask("POST", path, message).status in (200, 202)
        except (OSError, HTTPException):
            return False
