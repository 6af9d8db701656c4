"""Embeds the text of a call before the call runs, outside of any transaction.

An entry's merged text is known only while its call runs. If an endpoint embeds it, the call is
rolled back and runs again when the vector is there.

Such calls wait while other inputs run and lose their place to them, for a bounded time. They run
without a vector if none was made in time.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import orjson

from memrelay.logs import get_logger
from memrelay.memory.engine.vectors import MAX_CHARACTERS
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.operations import Operation, find_operation
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.inputs import Entry

log = get_logger(__name__)
# How long a call waits for its vector.
MAX_WAIT_S = 5.0
# How long no vector is requested after a failure.
PAUSE_S = 10.0
# Texts that are embedded together, so that the first need not wait for the last.
TEXTS_TOGETHER = 32
# Names and values in the entry of a call, at least.
CALL_FIELDS = 6


class EmbeddingPrefetch:
    """Prepares the calls of one group.

    `wanted` is set when prepared calls can be taken. `fingerprint_of` returns the fingerprint of a
    store's vectors, "" for none.
    """

    def __init__(
        self,
        questions: QuestionEmbedder,
        wanted: asyncio.Event,
        fingerprint_of: Callable[[str], str] = lambda store: "",
    ) -> None:
        self._questions, self._wanted, self._fingerprint_of = questions, wanted, fingerprint_of
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: list[Entry] = []
        # When vectors are requested again, by time.monotonic().
        self._paused_until = 0.0

    @property
    def has_calls(self) -> bool:
        """Whether some calls were not taken yet."""
        return bool(self._tasks or self._ready)

    def sift(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries that can run now. `take` returns the others later."""
        later = [
            (entry, text)
            for entry in entries
            if len(entry.fields) >= CALL_FIELDS and (text := self._missing_text(entry))
        ]
        if not later:
            return entries
        for start in range(0, len(later), TEXTS_TOGETHER):
            self._start(self._prepare_later(later[start : start + TEXTS_TOGETHER]))
        ids = {entry.id for entry, _ in later}
        return [entry for entry in entries if entry.id not in ids]

    def take(self) -> list[Entry]:
        """Remove and return the calls that waited and can run now."""
        ready, self._ready = self._ready, []
        return ready

    def postpone(self, calls: Iterable[tuple[Entry, float]]) -> None:
        """Return calls from `take` again after their seconds have passed."""
        for entry, after_s in calls:
            self._start(self._take_later(entry, after_s))

    async def prepare(self, entries: Iterable[Entry]) -> None:
        """Return when the vectors of these entries are known, or the wait is over."""
        if calls := [(entry, text) for entry in entries if (text := self._missing_text(entry))]:
            await self._embed(calls)

    def close(self) -> None:
        """Stop waiting. Calls that were not taken stay pending."""
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_later(self, entry: Entry, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._ready.append(entry)
        self._wanted.set()

    async def _prepare_later(self, calls: Sequence[tuple[Entry, str]]) -> None:
        await self._embed(calls)
        self._ready += [entry for entry, _ in calls]
        self._wanted.set()

    async def _embed(self, calls: Sequence[tuple[Entry, str]]) -> None:
        """Request the vectors. Never raises, whatever an embedder does: the calls must run."""
        (fault,) = await asyncio.gather(self._request(calls), return_exceptions=True)
        if fault is None:
            return
        self._paused_until = time.monotonic() + PAUSE_S
        known = isinstance(fault, EmbeddingFault | TimeoutError)
        log.warning(
            "calls_without_vectors",
            exc_info=None if known else fault,
            count=len(calls),
            reason=str(fault) or f"no answer within {MAX_WAIT_S:g} s",
        )

    async def _request(self, calls: Sequence[tuple[Entry, str]]) -> None:
        """Use the embedder of the vectors in each store, which may be an earlier one."""
        texts = defaultdict[str, list[str]](list)
        for entry, text in calls:
            operation = find_operation(entry.text(b"op"))
            store = "" if operation is None else _find_store(entry.plan, operation)
            texts[self._fingerprint_of(store)].append(text)
        async with asyncio.timeout(MAX_WAIT_S):
            await asyncio.gather(
                *[
                    asyncio.wrap_future(self._questions.prepare(some, fingerprint))
                    for fingerprint, some in texts.items()
                ]
            )

    def _missing_text(self, entry: Entry) -> str:
        """Return the text of a call that lacks a vector; "" if there is nothing to wait for."""
        embedder = self._questions.embedder
        if b"op" not in entry.fields or not embedder.configured:
            return ""
        if time.monotonic() < self._paused_until:
            return ""
        operation = find_operation(entry.text(b"op"))
        if operation is None or not operation.embeds:
            return ""
        fingerprint = self._fingerprint_of(_find_store(entry.plan, operation))
        maker = embedder.ready(fingerprint) if fingerprint else embedder.loaded
        if maker is None and embedder.fault:
            return ""
        text = _text_to_embed(entry, operation)
        if maker is not None and self._questions.known(text, str(maker.fingerprint)) is not None:
            return ""
        return text


def _find_store(plan: Plan, operation: Operation) -> str:
    """Return the store whose vectors a call needs.

    Every operation that embeds has a built-in store.
    """
    return plan.built_in_stores[operation.store] if operation.store else plan.stores[0]


def _text_to_embed(entry: Entry, operation: Operation) -> str:
    """Return the input that the operation embeds; "" if there is none or the call is invalid."""
    try:
        given = orjson.loads(entry.field(b"data"))
    except orjson.JSONDecodeError:
        return ""
    text = given.get(operation.embeds) if isinstance(given, dict) else None
    return text if isinstance(text, str) and len(text) <= MAX_CHARACTERS else ""
