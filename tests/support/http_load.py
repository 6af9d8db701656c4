"""Numbered writes over HTTP at a steady rate, each repeated under its id until it is accepted."""

import threading
import time
from collections import Counter
from http.client import HTTPException
from itertools import count, pairwise
from types import TracebackType
from typing import Self

from tests.support.host import Host
from tests.support.waiting import wait_for

THREADS = 8


class HttpLoad:
    """Sends writes to the swarm `chat` of pipelines in turn while the context is open.

    `accepted` has the texts that the server has accepted, and `refusals` when it accepted none, as
    (time.monotonic(), seconds).
    """

    def __init__(self, *hosts: Host, uid: str | list[str], rate: float = 200.0) -> None:
        self._uids = [uid] if isinstance(uid, str) else uid
        self._hosts, self._pause_s = hosts, THREADS / rate
        self._numbers, self._ending = count(), threading.Event()
        self._failed, self._lock = False, threading.Lock()
        self.accepted: list[str] = []
        self.answers = Counter[int]()
        self._accepted_at: list[float] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(THREADS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Send no new writes, and wait until the last ones are accepted."""
        self._ending.set()
        self._failed = error is not None
        for thread in self._threads:
            thread.join()

    def accepted_of(self, uid: str) -> list[str]:
        """Return the accepted texts of one pipeline."""
        return [text for text in self.accepted if self._uid_of(text) == uid]

    def _uid_of(self, text: str) -> str:
        return self._uids[int(text.split()[1]) % len(self._uids)]

    def await_accepted(self, more: int) -> None:
        """Wait until so many more writes are accepted."""
        wanted = len(self.accepted) + more
        wait_for(lambda: len(self.accepted) >= wanted, "writes are accepted")

    @property
    def longest_refusal_s(self) -> float:
        """Return the longest time without an accepted write."""
        times = sorted(self._accepted_at)
        return max((after - before for before, after in pairwise(times)), default=0)

    def _run(self, thread: int) -> None:
        host = self._hosts[thread % len(self._hosts)]
        while not self._ending.is_set():
            with self._lock:
                text = f"write {next(self._numbers)}"
            while not (self._send(host, text) or self._failed):
                time.sleep(0.05)
            time.sleep(self._pause_s)

    def _send(self, host: Host, text: str) -> bool:
        path = f"/v1/pipelines/{self._uid_of(text)}/swarms/chat/messages"
        try:
            answer = host.ask(
                "POST", path, {"text": f"/write {text}"}, webhook_id=text.replace(" ", "-")
            )
        except (OSError, HTTPException):
            return False
        with self._lock:
            self.answers[answer.status] += 1
            if answer.status in (200, 202):
                self.accepted.append(text)
                self._accepted_at.append(time.monotonic())
        return answer.status in (200, 202)
