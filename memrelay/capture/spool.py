"""The spool as the sender reads it: segments of JSON lines, with the offset of what was delivered.

The hook appends to the last segment, and drops the first one of a full spool (hook.py).
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memrelay.capture.configuration import Paths, make_private_folder, write_private

BATCH_LINES, BATCH_BYTES = 100, 512 << 10
# Bytes of turns that were refused and are kept for the user.
MAX_REFUSED = 1 << 20
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the spool: the name of a segment, and bytes from its begin."""

    segment: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of a segment, and the position after them."""

    events: tuple[Json, ...]
    unreadable: int
    """Lines that are no event."""
    end: Position


@dataclass(frozen=True, slots=True)
class SpoolState:
    """What `memrelay capture status` shows. Sizes are in bytes."""

    waiting: int
    """Events that are not delivered yet."""
    size: int
    dropped: int
    """Events that were dropped because the spool was full."""
    refused: int
    """Events that the store refused; the last ones are in refused.jsonl."""
    is_sending: bool


class SenderLock:
    """The lock that the sender holds while it runs."""

    def __init__(self, file: int) -> None:
        self._file = file

    def sign(self) -> None:
        """Write the id of this process, for `find_sender`."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let another sender run. Calling it again has no effect."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class Spool:
    """The spool of a state folder. One sender at a time reads it."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._refused = paths.state / "refused.jsonl"

    def read(self) -> Batch | None:
        """Return the next events in the order of their arrival, None if all are delivered.

        Segments that are delivered, and have a later one, are deleted.
        """
        while names := self._list_segments():
            position = self._position(names[0])
            batch = _read_batch(self._paths.spool / names[0], position)
            if batch is not None or len(names) == 1:
                return batch
            (self._paths.spool / names[0]).unlink(missing_ok=True)
        return None

    def commit(self, end: Position) -> None:
        """Note durably that everything before a position is delivered."""
        values = {"segment": end.segment, "offset": end.offset}
        write_private(self._paths.state / "offset.json", json.dumps(values).encode())

    def refuse(self, events: list[Json], reason: str) -> None:
        """Put events aside that the store does not accept, and count them."""
        self._count("refused", len(events))
        lines = b"".join(json.dumps({**one, "refused": reason}).encode() + b"\n" for one in events)
        with suppress(FileNotFoundError):
            lines = self._refused.read_bytes() + lines
        kept = lines[-MAX_REFUSED:]
        write_private(self._refused, kept if kept == lines else kept.partition(b"\n")[2])

    def end_if_empty(self, sender_lock: SenderLock) -> bool:
        """Delete the delivered segment and release the lock of the sender, unless events came.

        Both happen under the lock of the spool: a hook that appends later finds no sender.
        """
        with self._locked():
            if self.read() is not None:
                return False
            for name in self._list_segments():
                (self._paths.spool / name).unlink(missing_ok=True)
            sender_lock.release()
            return True

    def state(self) -> SpoolState:
        """Return how much waits, and what was dropped and refused."""
        waiting = size = 0
        for name in self._list_segments():
            path = self._paths.spool / name
            with suppress(FileNotFoundError), path.open("rb") as file:
                offset = self._position(name).offset
                size += os.fstat(file.fileno()).st_size - offset
                file.seek(offset)
                waiting += sum(1 for _ in file)
        counts = [self._read_count(name) for name in ("dropped", "refused")]
        lock = take_sender_lock(self._paths)
        if lock is not None:
            lock.release()
        return SpoolState(waiting, size, counts[0], counts[1], lock is None)

    def _list_segments(self) -> list[str]:
        try:
            return sorted(os.listdir(self._paths.spool))
        except FileNotFoundError:
            return []

    def _position(self, segment: str) -> Position:
        try:
            values = json.loads((self._paths.state / "offset.json").read_bytes())
            if values["segment"] == segment:
                return Position(segment, int(values["offset"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            pass
        return Position(segment)

    def _read_count(self, name: str) -> int:
        with suppress(FileNotFoundError, ValueError):
            return int((self._paths.state / name).read_text())
        return 0

    def _count(self, name: str, more: int) -> None:
        total = self._read_count(name) + more
        write_private(self._paths.state / name, str(total).encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self._paths.state / "spool.lock"
        with open(path, "a", opener=open_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def take_sender_lock(paths: Paths) -> SenderLock | None:
    """Return the lock of the sender, None if a sender runs."""
    make_private_folder(paths.state)
    file = os.open(paths.state / "sender.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return SenderLock(file)


def find_sender(paths: Paths) -> int | None:
    """Return the process id of the sender that runs, None if none does."""
    lock = take_sender_lock(paths)
    if lock is not None:
        lock.release()
        return None
    written = (paths.state / "sender.lock").read_text()
    return int(written) if written.isdecimal() else None


def _read_batch(path: Path, position: Position) -> Batch | None:
    """Return the lines after a position that fit into a batch; None without a whole line."""
    events, unreadable, offset = list[Json](), 0, position.offset
    try:
        file = path.open("rb")
    except FileNotFoundError:  # dropped by a hook
        return None
    with file:
        file.seek(offset)
        for line in file:
            is_full = offset + len(line) - position.offset > BATCH_BYTES
            if not line.endswith(b"\n") or len(events) == BATCH_LINES or (is_full and events):
                break
            offset += len(line)
            event = _parse(line)
            events += [event] if event else []
            unreadable += not event
    if offset == position.offset:
        return None
    return Batch(tuple(events), unreadable, Position(position.segment, offset))


def _parse(line: bytes) -> Json:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    texts = ("tool", "session", "turn", "role", "text", "project", "branch")
    if not isinstance(value, dict) or not all(isinstance(value.get(one), str) for one in texts):
        return {}
    return value if isinstance(value.get("at"), int) else {}


def open_private(path: str, flags: int) -> int:
    """Open a file that only the user can read; for the argument `opener` of `open`."""
    return os.open(path, flags, 0o600)
