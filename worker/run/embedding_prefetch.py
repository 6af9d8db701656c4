"""Foresight: the text of a call that wants a vector is embedded before the call runs, outside of
any transaction.

Such calls wait beside the others and lose their place to them, for a bounded time: without a vector
they run too.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import orjson
import structlog

from memrelay.memory.embedding.questions import Questions
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.operation import find_operation
from memrelay.memory.records.entry_text import MOST_CHARACTERS
from memrelay.worker.run.inputs import Entry

log = structlog.stdlib.get_logger(__name__)
MOST_S = 5.0  # that a call waits for its vector
PAUSE_S = 10.0  # for which no vector is asked for after one did not come
TOGETHER = 32  # texts at once, so that the first need not wait for the last
FEWEST_FIELDS = 6  # of an entry that is a call: names and values


class EmbeddingPrefetch:
    """For one group."""

    def __init__(
        self,
        questions: Questions,
        wanted: asyncio.Event,
        fingerprint_of: Callable[[str], str] = lambda store: "",
    ) -> None:
        """`wanted` tells the group that calls may be taken; `fingerprint_of` the vectors that a
        store has, "" for none."""
        self._questions, self._wanted, self._fingerprint_of = questions, wanted, fingerprint_of
        self._aside: set[asyncio.Task[None]] = set()
        self._ready: list[Entry] = []
        self._again_at = 0.0  # by the clock

    @property
    def waits(self) -> bool:
        """Whether there are calls that were not taken yet."""
        return bool(self._aside or self._ready)

    def sift(self, entries: list[Entry]) -> list[Entry]:
        """Those that may run now. The others are given by `take` later."""
        later = [
            (entry, text)
            for entry in entries
            if len(entry.fields) >= FEWEST_FIELDS and (text := self._unknown(entry))
        ]
        if not later:
            return entries
        for at in range(0, len(later), TOGETHER):
            some = later[at : at + TOGETHER]
            self._aside.add(task := asyncio.create_task(self._attend(some)))
            task.add_done_callback(self._aside.discard)
        ids = {entry.id for entry, _ in later}
        return [entry for entry in entries if entry.id not in ids]

    def take(self) -> list[Entry]:
        """Calls that waited, and may run now."""
        ready, self._ready = self._ready, []
        return ready

    async def prepare(self, entries: Iterable[Entry]) -> None:
        """Returns when their vectors are known, or were waited for long enough."""
        if calls := [(entry, text) for entry in entries if (text := self._unknown(entry))]:
            await self._make(calls)

    def close(self) -> None:
        """Nothing is waited for any more; what was not taken is pending."""
        for task in self._aside:
            task.cancel()

    async def _attend(self, calls: Sequence[tuple[Entry, str]]) -> None:
        await self._make(calls)
        self._ready += [entry for entry, _ in calls]
        self._wanted.set()

    async def _make(self, calls: Sequence[tuple[Entry, str]]) -> None:
        """Raises nothing, whatever an embedder does: the calls would neither run nor be given
        up."""
        (fault,) = await asyncio.gather(self._prepared(calls), return_exceptions=True)
        if fault is None:
            return
        self._again_at = time.monotonic() + PAUSE_S
        known = isinstance(fault, EmbeddingFault | TimeoutError)
        log.warning(
            "calls_without_vectors",
            exc_info=None if known else fault,
            count=len(calls),
            reason=str(fault) or f"no answer within {MOST_S:g} s",
        )

    async def _prepared(self, calls: Sequence[tuple[Entry, str]]) -> None:
        """By the embedder of what they are compared with, which may be a former one."""
        texts = defaultdict[str, list[str]](list)
        for entry, text in calls:
            texts[self._fingerprint_of(entry.plan.home)].append(text)
        async with asyncio.timeout(MOST_S):
            await asyncio.gather(
                *[
                    asyncio.wrap_future(self._questions.prepare(some, fingerprint))
                    for fingerprint, some in texts.items()
                ]
            )

    def _unknown(self, entry: Entry) -> str:
        """The text that a call wants a vector of, and that has none yet; "" where nothing is to be
        waited for."""
        embedder = self._questions.embedder
        if (
            b"op" not in entry.fields
            or not embedder.configured
            or time.monotonic() < self._again_at
        ):
            return ""
        fingerprint = self._fingerprint_of(entry.plan.home)
        maker = embedder.ready(fingerprint) if fingerprint else embedder.loaded
        if maker is None and embedder.fault:
            return ""
        text = _text_of(entry)
        return (
            ""
            if maker is not None and self._questions.known(text, str(maker.fingerprint)) is not None
            else text
        )


def _text_of(entry: Entry) -> str:
    """What an operation declares that is to be embedded; "" for what it will refuse."""
    operation = find_operation(entry.text(b"op"))
    if operation is None or not operation.embeds:
        return ""
    try:
        given = orjson.loads(entry.field(b"data"))
    except orjson.JSONDecodeError:
        return ""
    text = given.get(operation.embeds) if isinstance(given, dict) else None
    return text if isinstance(text, str) and len(text) <= MOST_CHARACTERS else ""
