"""Load during a fault: numbered writes from a thread."""

import threading
import time
from collections.abc import Iterable
from itertools import count
from typing import Self

import redis

from tests.support.client import Client, input_of, make_envelope
from tests.support.system import TestSystem

CHUNK = 100


class WriteLoad(threading.Thread):
    """Appends numbered writes to an input in chunks; after an error it sends the same chunk
    again with the same IDs.
    """

    def __init__(
        self,
        system: TestSystem,
        uid: str,
        writes: int,
        *,
        with_ids: bool = False,
        pause_s: float = 0.0,
        goes_on: bool = False,
    ) -> None:
        """`pause_s` between two chunks spreads the writes over the faults. A chunk is sent again
        only `with_ids`.

        With `goes_on`, more writes follow after `writes` until the context ends, for faults
        whose duration depends on the machine.
        """
        super().__init__()
        self._goes_on, self._enough = goes_on, threading.Event()
        self._client, self._uid, self._with_ids, self._pause_s = (
            Client(system.client.socket),
            uid,
            with_ids,
            pause_s,
        )
        self.texts = [str(number) for number in range(writes)]
        self.entered: list[str] = []  # IDs of the acknowledged entries
        self.fault: Exception | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the thread and raise its error."""
        self._enough.set()
        self.join()
        if self.fault is not None:
            raise self.fault

    def run(self) -> None:
        """Run in the thread."""
        try:
            with self._client:
                self._enter_all()
        except (AssertionError, redis.RedisError) as error:
            self.fault = error

    def _enter_all(self) -> None:
        for start in count(step=CHUNK):
            if start >= len(self.texts) and not self._more():
                return
            while not self._enter(self.texts[start : start + CHUNK]):
                time.sleep(0.02)
            time.sleep(self._pause_s)

    def _more(self) -> bool:
        if more := self._goes_on and not self._enough.is_set():
            self.texts += [str(len(self.texts) + number) for number in range(CHUNK)]
        return more

    def _enter(self, texts: Iterable[str]) -> bool:
        pipe = self._client.redis.pipeline(transaction=False)
        for text in texts:
            fields = {"swarm": "chat", "data": make_envelope(f"/write {text}")}
            pipe.xadd(input_of(self._uid), fields | ({"id": f"n{text}"} if self._with_ids else {}))
        try:
            self.entered += [ident.decode() for ident in pipe.execute()]
        except redis.RedisError:
            assert self._with_ids, "without ids nobody may ask again"
            return False
        return True
