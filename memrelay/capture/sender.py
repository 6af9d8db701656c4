"""The sender of captured events, `python -m memrelay.capture.sender CONFIG STATE`.

The hook starts it, detached, if none runs. It delivers the spool in batches and ends. While the
store cannot be reached, it waits longer each time, and ends after about two minutes: the next hook
starts it again.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from memrelay.capture.configuration import BadConfiguration, Configuration, Paths, load, read_key
from memrelay.capture.delivery import (
    Delivery,
    Json,
    Misconfigured,
    NotDelivered,
    ServerDelivery,
    TurnsRefused,
    make_call,
    make_calls,
)
from memrelay.capture.spool import Batch, SenderLock, Spool, open_private, take_sender_lock

# Seconds between the attempts to reach a store.
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
MAX_LOG = 256 << 10  # bytes
FILE_DELIVERY = "memrelay.capture.file_delivery"


class Sender:
    """Delivers the spool to a store. `pauses_s` are the seconds between attempts to reach it."""

    def __init__(
        self, spool: Spool, delivery: Delivery, user: str, pauses_s: Sequence[float]
    ) -> None:
        self._spool, self._delivery, self._user = spool, delivery, user
        self._pauses_s = pauses_s

    async def send_all(self, lock: SenderLock) -> None:
        """Deliver until the spool is empty, and release the lock of the sender.

        Raises NotDelivered and Misconfigured.
        """
        async with self._delivery:
            while not self._spool.end_if_empty(lock):
                while (batch := self._spool.read()) is not None:
                    await self._send_batch(batch)
                    self._spool.commit(batch.end)

    async def _send_batch(self, batch: Batch) -> None:
        if batch.unreadable:
            self._spool.refuse([{}] * batch.unreadable, "the line is no event")
        for call, events in make_calls(batch.events, self._user):
            try:
                await self._add(call)
            except TurnsRefused:
                await self._send_singly(events)

    async def _send_singly(self, events: Sequence[Json]) -> None:
        """Deliver the events of a refused call one by one, and put aside those that are refused."""
        for event in events:
            try:
                await self._add(make_call([event], self._user))
            except TurnsRefused as error:
                self._spool.refuse([event], str(error))

    async def _add(self, call: Json) -> None:
        for pause_s in self._pauses_s:
            try:
                return await self._delivery.add(call)
            except NotDelivered:
                await asyncio.sleep(pause_s)
        await self._delivery.add(call)


def main(arguments: Sequence[str], pauses_s: Sequence[float] = PAUSES_S) -> None:
    """Deliver the spool of the folders in the arguments, unless another sender runs."""
    paths = Paths(Path(arguments[0]), Path(arguments[1]))
    lock = take_sender_lock(paths)
    if lock is None:
        return
    lock.sign()
    try:
        configuration = load(paths)
        delivery = open_delivery(configuration, paths)
        sender = Sender(Spool(paths), delivery, configuration.user, pauses_s)
        asyncio.run(sender.send_all(lock))
    except (BadConfiguration, Misconfigured, NotDelivered) as error:
        log(paths, str(error))
    finally:
        lock.release()


def open_delivery(configuration: Configuration, paths: Paths) -> Delivery:
    """Return the delivery to the server or file of a configuration."""
    if configuration.url:
        return ServerDelivery(configuration, read_key(paths))
    delivery: Delivery = import_module(FILE_DELIVERY).FileDelivery(configuration)
    return delivery


def log(paths: Paths, text: str) -> None:
    """Append a line to the log of capture, which never has texts of a session."""
    is_full = paths.log.exists() and paths.log.stat().st_size > MAX_LOG
    with open(paths.log, "w" if is_full else "a", opener=open_private) as file:
        file.write(f"{time.strftime('%FT%T')} sender {text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
