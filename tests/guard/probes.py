"""Count what a worker does, inside its process: Python calls, SQL statements, disk syncs, blocks.

`install` runs before the first import of `memrelay`. So all of its parts use the counting queue,
the clock that can stand still, and the counting file system of SQLite.
"""

import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar, NamedTuple

import apsw
import uvloop

# The first moment of the worker's clock: 2026-01-01.
EPOCH_NS = 1_767_225_600 * 10**9
# The parts of the guard that run in counted threads.
OWN_MODULES = {f"tests.guard.{name}" for name in ("probes", "relay", "measured_worker", "planted")}
_SimpleQueue = queue.SimpleQueue
_wait_ns = time.monotonic_ns


class Reading(NamedTuple):
    """The counts since the start, for the difference of two readings."""

    calls: Counter[str]  # by module
    statements: Counter[str]  # by the first word
    syncs: int

    def since(self, before: "Reading") -> "Reading":
        """Return what was counted after another reading."""
        return Reading(
            self.calls - before.calls,
            self.statements - before.statements,
            self.syncs - before.syncs,
        )


class Probes:
    """The counts of this process. There is one, `probes`."""

    def __init__(self) -> None:
        # One counter for each thread: two threads may not add to one number at the same time.
        self._calls: list[Counter[str]] = []
        self._totals: list[list[int]] = []
        self._statements: list[str] = []
        self._syncs: list[int] = []
        self._frozen_ns: int | None = None
        self._started_ns = _wait_ns()
        self._blocks_before = self._most_blocks = 0

    def install(self) -> None:
        """Count from now on. The calling thread and all threads that start later are counted."""
        queue.SimpleQueue = CountingQueue  # type: ignore[misc]
        for name in ("time", "monotonic", "perf_counter"):
            setattr(time, name, self._seconds if name == "time" else self._elapsed_s)
            setattr(time, f"{name}_ns", self._now_ns if name == "time" else self._elapsed_ns)
        apsw.connection_hooks.append(self._trace)
        self._file_system = CountingFileSystem(self._syncs)
        threading.setprofile(self._begin_thread)
        sys.setprofile(self._begin_thread)

    @staticmethod
    def exempt_thread() -> None:
        """Stop counting in the calling thread."""
        sys.setprofile(None)

    def freeze(self) -> None:
        """Stop the clock."""
        self._frozen_ns = self._elapsed_ns()

    def advance(self, seconds: int) -> None:
        """Move the clock that stands still."""
        assert self._frozen_ns is not None
        self._frozen_ns += seconds * 10**9

    def read(self) -> Reading:
        """Return the counts since the start."""
        calls: Counter[str] = Counter()
        for of_thread in self._calls:
            calls.update(dict(of_thread.items()))
        return Reading(calls, Counter(self._statements), len(self._syncs))

    def activity(self) -> tuple[int, int]:
        """Return two numbers. They stay the same while the worker does nothing."""
        calls = sum(total for (total,) in self._totals)
        return calls, CountingQueue.count_unfinished()

    def start_blocks(self) -> None:
        """Begin to watch the allocated blocks."""
        self._blocks_before = self._most_blocks = sys.getallocatedblocks()

    def sample_blocks(self) -> None:
        """Note how many blocks are allocated while the worker waits.

        While it works, its threads free their blocks in an order that changes from run to run.
        """
        self._most_blocks = max(self._most_blocks, sys.getallocatedblocks())

    @property
    def blocks(self) -> int:
        """The most blocks that were allocated in a wait, above those at `start_blocks`."""
        return self._most_blocks - self._blocks_before

    def _begin_thread(self, frame: FrameType, event: str, argument: Any) -> None:
        counts, total = Counter[str](), [0]
        self._calls.append(counts)
        self._totals.append(total)
        count = _count_in(counts, total)
        sys.setprofile(count)
        count(frame, event, argument)

    def _trace(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._note_statement)

    def _note_statement(self, event: dict[str, Any]) -> None:
        # A statement of a trigger is "-- " and its text.
        words = event["sql"].removeprefix("-- ").split(None, 1)
        # Interned: otherwise each statement would add an allocated block.
        self._statements.append(sys.intern(words[0].upper().rstrip(";") if words else ""))

    def _elapsed_ns(self) -> int:
        return _wait_ns() - self._started_ns if self._frozen_ns is None else self._frozen_ns

    def _elapsed_s(self) -> float:
        return self._elapsed_ns() / 1e9

    def _now_ns(self) -> int:
        return EPOCH_NS + self._elapsed_ns()

    def _seconds(self) -> float:
        return self._now_ns() / 1e9


def _count_in(counts: Counter[str], total: list[int]) -> Callable[[FrameType, str, Any], None]:
    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (module := frame.f_globals.get("__name__", "")) not in OWN_MODULES:
            counts[module] += 1
            total[0] += 1

    return count


class CountingQueue(_SimpleQueue):  # type: ignore[type-arg]
    """A queue for threads that work off its items.

    A thread has finished an item when it asks for the next one, or has ended.
    """

    _queued = 0
    _working: ClassVar[set[int]] = set()
    _lock = threading.Lock()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put in an item."""
        with self._lock:
            CountingQueue._queued += 1
        super().put(item)

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next item."""
        thread = threading.get_native_id()
        self._working.discard(thread)
        item = super().get(block, timeout)  # type: ignore[arg-type]
        self._working.add(thread)
        with self._lock:
            CountingQueue._queued -= 1
        return item

    @classmethod
    def count_unfinished(cls) -> int:
        """Return how many items of all queues wait or are worked on."""
        queued = cls._queued
        living = {thread.native_id for thread in threading.enumerate()}
        return queued + len(living & cls._working)


class CountingFileSystem(apsw.VFS):
    """SQLite's access to files, with a note of each sync."""

    def __init__(self, syncs: list[int]) -> None:
        super().__init__("guard", "unix", makedefault=True)
        self._syncs = syncs

    def xOpen(self, name: Any, flags: list[int]) -> "CountingFile":
        return CountingFile(self._syncs, name, flags)


class CountingFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, syncs: list[int], name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._syncs = syncs

    def xSync(self, flags: int) -> None:
        self._syncs.append(flags)
        super().xSync(flags)


class GuardLoop(uvloop.Loop):
    """The worker's event loop. While it is frozen, no timer fires."""

    is_frozen = False

    def call_later(self, delay: Any, callback: Any, *args: Any, context: Any = None) -> Any:
        """Call after a delay, unless the loop is frozen then."""
        return super().call_later(delay, self._fire, callback, args, context=context)

    def call_at(self, when: Any, callback: Any, *args: Any, context: Any = None) -> Any:
        """Call at a time of the loop's clock, unless the loop is frozen then."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _fire(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if not self.is_frozen:
            callback(*args)


probes = Probes()
