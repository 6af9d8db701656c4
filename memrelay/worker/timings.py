"""When the latest batches and deferred calls of a worker ran, for the trace of a message.

A batch adds one entry for all of its inputs. Only batches of a few inputs also note
when each block ended. Everything is in memory, bounded, and gone with the process.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from memrelay.memory.engine.inbox import Pending
from memrelay.memory.records.message_timings import (
    BatchTimingView,
    BlockTimingView,
    CallTimingView,
    MessageTimings,
)
from memrelay.pipelines.plan import Plan

# A batch with at most so many inputs notes the times of their blocks.
SMALL_BATCH = 4
# Batches and deferred calls that are kept, the latest.
SMALL_BATCHES, LARGE_BATCHES, CALLS = 1000, 100, 500
# Batches and calls of one message that are shown, and characters of a target.
MAX_SHOWN, MAX_TARGET = 200, 100
# The key of an input, the alias of the agent whose block ended ("" for the begin of the input), and
# the time in seconds as `time.perf_counter` counts.
Lap = tuple[str, str, float]


class BatchTiming(Struct):
    """One batch. `keys` has a space before and after the name of each input in stores."""

    keys: str
    inputs: int
    # When the batch had committed, Unix ms by the clock of the bus.
    committed_ms: int
    # The time in the database thread, and the part of it for commits, seconds.
    took_s: float
    commit_s: float
    # When the batch began, as `time.perf_counter` counts.
    began_s: float
    laps: list[Lap] | None
    # The time from the commit to the confirmation of the bus; None before it.
    published_s: float | None = None


class CallTiming(Struct):
    """One execution of a deferred call. `target` is a host or model, "" if none is known."""

    key: str
    agent: str
    block: str
    target: str
    # Unix ms by the clock of the bus.
    ended_ms: int
    took_s: float
    is_failed: bool


@dataclass(frozen=True, slots=True)
class Timings:
    """The latest batches and deferred calls of a worker. Any thread may read them."""

    small: deque[BatchTiming] = field(default_factory=lambda: deque(maxlen=SMALL_BATCHES))
    large: deque[BatchTiming] = field(default_factory=lambda: deque(maxlen=LARGE_BATCHES))
    calls: deque[CallTiming] = field(default_factory=lambda: deque(maxlen=CALLS))

    def note_call(
        self, pending: Pending, plan: Plan, ended_ms: int, took_s: float, *, is_failed: bool
    ) -> None:
        """Note that a deferred call has ended."""
        subscriber = plan.subscriber(pending.agent)
        block = subscriber.block if subscriber is not None else ""
        target = _find_target(pending, getattr(subscriber, "args", None))
        call = CallTiming(
            pending.deferred_call_id, pending.agent, block, target, ended_ms, took_s, is_failed
        )
        self.calls.append(call)

    def find(self, uid: str, entry: str) -> MessageTimings:
        """Return the batches and deferred calls of a message and of everything it led to."""
        key = f"{uid}/{entry}"
        batches = sorted(
            (
                (batch, found)
                for batch in [*list(self.small), *list(self.large)]
                for found in _find_keys(batch.keys, key)
            ),
            key=lambda pair: pair[0].committed_ms,
        )
        calls = [call for call in list(self.calls) if _belongs(call.key, key)]
        return MessageTimings(
            tuple(_view_batch(batch, found) for batch, found in batches[:MAX_SHOWN]),
            tuple(map(_view_call, calls[:MAX_SHOWN])),
        )


def _find_target(pending: Pending, args: Any) -> str:
    """Return the host or the model that a deferred call asks, "" for an unknown one.

    A URL may have secrets, so only its host is kept.
    """
    request = orjson.loads(pending.request or b"{}").get("request")
    url = request.get("url", "") if isinstance(request, dict) else ""
    host = _find_host(url) if isinstance(url, str) else ""
    model = getattr(args, "model", "")
    return (host or (model if isinstance(model, str) else ""))[:MAX_TARGET]


def _find_host(url: str) -> str:
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""


def _belongs(key: str, first: str) -> bool:
    return key.startswith(first) and not key[len(first) : len(first) + 1].isdigit()


def _find_keys(keys: str, first: str) -> Iterable[str]:
    """Yield the keys of a batch that belong to a message, without repeats."""
    if f" {first}" in keys:
        yield from dict.fromkeys(key for key in keys.split() if _belongs(key, first))


def _view_batch(batch: BatchTiming, key: str) -> BatchTimingView:
    began_ms = batch.committed_ms - batch.took_s * 1000
    return BatchTimingView(
        _to_id(key),
        batch.inputs,
        began_ms,
        batch.took_s * 1000,
        batch.commit_s * 1000,
        None if batch.published_s is None else batch.published_s * 1000,
        _view_blocks(batch, key),
    )


def _view_blocks(batch: BatchTiming, key: str) -> tuple[BlockTimingView, ...]:
    """Return the blocks of the last run of an input in a batch."""
    blocks, before_s = list[BlockTimingView](), 0.0
    for lap_key, alias, at_s in batch.laps or ():
        if lap_key != key:
            continue
        if not alias:
            blocks.clear()
        else:
            start_ms = (before_s - batch.began_s) * 1000
            blocks.append(BlockTimingView(alias, start_ms, (at_s - before_s) * 1000))
        before_s = at_s
    return tuple(blocks)


def _view_call(call: CallTiming) -> CallTimingView:
    took_ms = call.took_s * 1000
    began_ms = call.ended_ms - took_ms
    place = (_to_id(call.key), call.agent, call.block, call.target)
    return CallTimingView(*place, began_ms, took_ms, call.is_failed)


def _to_id(key: str) -> str:
    return key.partition("/")[2]
