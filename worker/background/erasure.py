"""Goes on where records.erase ends: messages, replies and dead letters that quote what was erased,
and the files themselves.

A store says what is still to be done, so that it is done after a crash too, whoever owns the store
then. Each step may be done
twice.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import orjson
import structlog

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import encode
from memrelay.bus.errors import BusError
from memrelay.bus.streams.purge import purge, rewrite_file
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.sqlite.connection import translated
from memrelay.memory.stores import OpenStores
from memrelay.memory.threads import DatabaseThread
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.inputs import Input
from memrelay.worker.run.outcome import silenced
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import wait

# What is to be erased, as messages hold it: which of them quote a record that is gone.
#
# A message does where its JSON has, in any string, the guid of an erased record, a text that was
# asked for, or the whole text of
# one of its states. A text shorter than SHORT characters must be all that a string says, but for a
# command before it: "ok" stands
# in many a message that has nothing to do with the record.

SHORT = 12
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
COMMAND = re.compile(r"/\S+\s+")
MOST_DEEP = 32  # JSON within JSON


class ErasedContent:
    """Looks into messages; the cost is theirs, however much was erased."""

    def __init__(self, wanted: Iterable[tuple[str, str]]) -> None:
        """(sort, text): sort is `guid`, `text` for what was asked for, or `content` for a state's
        whole text."""
        self._guids, self._other_guids, self._asked, self._short = (
            set[str](),
            list[str](),
            list[str](),
            set[str](),
        )
        self._long: dict[str, list[str]] = {}  # by their beginnings
        for sort, text in wanted:
            if sort == "guid":
                self._guids.add(text) if GUID.fullmatch(text) else self._other_guids.append(text)
            elif sort == "text":
                self._asked.append(text)
            elif len(text := text.strip()) >= SHORT:
                self._long.setdefault(text[:SHORT], []).append(text)
            elif text:
                self._short.add(text)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._guids or self._other_guids or self._asked or self._short or self._long)

    def in_json(self, data: bytes) -> bool:
        """Whether an envelope, or another text, holds some of it."""
        return self._in_text(data.decode(errors="replace"), 0)

    def in_msgpack(self, data: bytes) -> bool:
        """Whether what an inbox keeps holds some of it."""
        try:
            return self._in(msgspec.msgpack.decode(data), 0)
        except (msgspec.DecodeError, RecursionError):
            return self.in_json(data)

    def _in(self, value: Any, deep: int) -> bool:
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, str):
            return self._in_text(value, deep)
        if isinstance(value, dict):
            value = [*value, *value.values()]
        return isinstance(value, list) and any(self._in(one, deep + 1) for one in value)

    def _in_text(self, text: str, deep: int) -> bool:
        if text[:1] in ("{", "[", '"') and deep < MOST_DEEP:
            try:
                parsed = orjson.loads(text)
            except orjson.JSONDecodeError:
                parsed = ""
            if self._in(parsed, deep + 1):
                return True
        return self._quoted(text)

    def _quoted(self, text: str) -> bool:
        if any(guid in self._guids for guid in GUID.findall(text)):
            return True
        if any(one in text for one in (*self._asked, *self._other_guids)):
            return True
        said = text.strip()
        if self._short and (
            said in self._short or COMMAND.sub("", said, count=1).strip() in self._short
        ):
            return True
        known = self._long
        return bool(known) and any(
            text.startswith(one, at)
            for at in range(len(text) - SHORT + 1)
            for one in known.get(text[at : at + SHORT], ())
        )


log = structlog.stdlib.get_logger(__name__)
AGAIN_S = 1.0  # after a fault
MOST_PASSES = 10

Result = TypeVar("Result")
Drop = Callable[[Callable[[Input], bool]], None]  # forgets inputs that wait in memory


class _Task(NamedTuple):
    """What a store has still to be rid of elsewhere; with nothing to look for, the files alone are
    left to do."""

    wanted: list[tuple[int, str, str]]  # number, sort, text
    noted: int  # the number of the last note of what is to be looked for
    last: int  # the number of the last erasure
    asked_at: int  # when that was, Unix ms


class ErasureTask:
    """For one group. While nothing was erased it waits."""

    def __init__(
        self,
        plans: Sequence[Plan],
        stores: Sequence[str],
        thread: DatabaseThread,
        shared: WorkerContext,
        drop: Drop,
    ) -> None:
        """`thread` works on the stores; `drop` takes what waits to be tried again out of memory."""
        self._uids, self._public = (
            [plan.uid for plan in plans],
            sorted({name for plan in plans for name in plan.public}),
        )
        self._stores, self._thread, self._shared, self._drop = tuple(stores), thread, shared, drop
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Something was erased, and its call is answered and gone from the input."""
        self._wanted.set()

    async def run(self, control: ReconnectingConnection) -> None:
        """Until it is cancelled, or fenced. It raises nothing: what fails is tried again."""
        try:
            while True:
                self._wanted.clear()
                await wait(self._wanted, await self._round(control))
        except StoreFenced:
            log.warning("erasing_left", stores=self._stores)

    async def _round(self, control: ReconnectingConnection) -> float | None:
        """All that is to be done. After how many seconds it is to be tried again."""
        again = None
        for name in self._stores:
            try:
                if (task := await self._in_thread(_open_task, name)) is not None:
                    await self._finish(control, name, task)
            except (StoreBusy, StoreBroken, BusError) as error:
                log.warning("erasing_put_off", memory_id=name, reason=str(error)[:200])
                again = AGAIN_S
        return again

    async def _finish(self, control: ReconnectingConnection, name: str, task: _Task) -> None:
        """First whatever quotes it, then the files, which forget what was looked for too."""
        if task.wanted:
            await self._sweep(control, name, task)
        self._shared.checkpoint("quotes erased")
        await self._shared.catalog.letters.rewrite()
        await self._in_thread(OpenStores.rewrite, name)
        self._shared.checkpoint("store rewritten")
        left_over = await rewrite_file(control)
        await self._in_thread(partial(_end, task=task, left_over=left_over), name)
        self._shared.checkpoint("erased")
        log.info("erased", memory_id=name, left_over=left_over)

    async def _sweep(self, control: ReconnectingConnection, name: str, task: _Task) -> None:
        """Until nothing is found any more: what is under way meanwhile may be put off, or said,
        once more."""
        erased, total = ErasedContent(one[1:] for one in task.wanted), (0, 0, 0)
        for _ in range(MOST_PASSES):
            found = await self._pass(control, erased, task.asked_at)
            total = total[0] + found[0], total[1] + found[1], total[2] + found[2]
            if not any(found):
                break
        await self._in_thread(partial(_forget, task=task, counts=total), name)

    async def _pass(
        self, control: ReconnectingConnection, erased: ErasedContent, asked_at: int
    ) -> tuple[int, int, int]:
        """How many replies, messages and letters went."""
        self._drop(lambda work: erased.in_json(encode(work.message)))
        messages = await purge(control, self._uids, self._public, asked_at, erased.in_json)
        letters = await self._shared.catalog.letters.erase(self._uids, erased.in_json)
        replies = 0
        for store in self._stores:
            replies += await self._in_thread(partial(_silence, erased=erased), store) or 0
        return replies, messages, letters

    async def _in_thread(
        self, work: Callable[[OpenStores, str], Result], name: str
    ) -> Result | None:
        """A store that is not there has nothing to erase."""

        def act(stores: OpenStores) -> Result | None:
            with translated(name):
                return work(stores, name) if stores.exists(name) else None

        return await self._thread.run(act)


def _open_task(stores: OpenStores, name: str) -> _Task | None:
    erasures = stores.get(name).erasures
    if not erasures.is_open():
        return None
    wanted = erasures.wanted()
    last = erasures.every(1)[0]
    return _Task(wanted, wanted[-1][0] if wanted else 0, last.n, last.asked_at)


def _silence(stores: OpenStores, name: str, erased: ErasedContent) -> int:
    with stores.get(name).transaction() as store:
        return store.erasures.silence(erased.in_json, erased.in_msgpack, silenced)


def _forget(stores: OpenStores, name: str, task: _Task, counts: tuple[int, int, int]) -> None:
    with stores.get(name).transaction() as store:
        store.erasures.forget(task.noted, counts)


def _end(stores: OpenStores, name: str, task: _Task, left_over: str) -> None:
    with stores.get(name).transaction() as store:
        store.erasures.end(task.last, time.time_ns() // 1_000_000, left_over)
