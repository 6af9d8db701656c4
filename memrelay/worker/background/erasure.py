"""Completes records.erase: messages, replies and dead letters that quote erased records, and files.

A store keeps its open erasures, so a later owner completes them after a crash. Each step may run
twice.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError
from memrelay.bus.streams.purge import LogPurge, rewrite_file
from memrelay.logs import get_logger
from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.quotes import Quotes
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.outcome import redact_answer, redact_outputs
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import wait

log = get_logger(__name__)
Result = TypeVar("Result")
# Forgets inputs that wait in memory and have a text that the function accepts.
Drop = Callable[[Callable[[bytes], bool]], None]
# Pauses after failures double from the first to the longest: each attempt may copy a large store.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
MAX_PASSES = 10
# Characters of a reason in reports.
MAX_REASON = 300
# A shorter text must be all of a string, apart from a command in front: "ok" is in many messages
# that have nothing to do with the record.
SHORT = 12
# Up to this many contents are looked for one by one. Beyond, each position of a text is looked up.
FEW = 32
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
COMMAND = re.compile(r"/\S++\s+")
# A pipeline and the id of the first input of a cascade, in the key of what the input led to.
KEY = re.compile(r"([^/\s]+/\d+-\d++)[0-9.+]*+(?:~[0-9a-f]+)?")
# Fields of an envelope that name its sender, which may be called like a person. An agent is also
# the `username` of the parts that it writes.
SENDER_FIELDS = frozenset({"from", "id"})
# Levels of JSON within JSON.
MAX_DEPTH = 32


class ErasedContent:
    """Finds messages that quote erased records. The cost does not grow with their number.

    A message quotes a record if a string in its JSON has the record's guid, a text that the caller
    named, or the whole content of one of its versions. Identifiers of a person count in the parts
    of an envelope, not in the names of its sender. `agents` are the names of agents.

    `wanted` has (sort, text): sort is `guid`, `text` for a named text, `content` for a version,
    `name` for an identifier of a person, or `input` for a pipeline and an input, `UID/ID`, all of
    whose messages are erased.
    """

    def __init__(
        self, wanted: Iterable[tuple[str, str]], agents: Collection[str] = frozenset()
    ) -> None:
        self._agents = agents
        self._guids, self._other_guids = set[str](), list[str]()
        self._texts, self._short = list[str](), set[str]()
        # Contents: all if they are few, else by their first SHORT characters.
        self._contents, self._by_beginning = list[str](), dict[str, list[str]]()
        wanted = list(wanted)
        self._names = Quotes(text for sort, text in wanted if sort == "name")
        self._inputs = {text for sort, text in wanted if sort == "input"}
        for sort, text in wanted:
            if sort in ("name", "input"):
                continue
            if sort == "guid":
                self._guids.add(text) if GUID.fullmatch(text) else self._other_guids.append(text)
            elif sort == "text":
                self._texts.append(text)
            elif len(text := text.strip()) >= SHORT:
                self._contents.append(text)
            elif text:
                self._short.add(text)
        self._contents = list(dict.fromkeys(self._contents))
        if len(self._contents) > FEW:
            for text in self._contents:
                self._by_beginning.setdefault(text[:SHORT], []).append(text)

    def __bool__(self) -> bool:
        found = self._guids or self._other_guids or self._texts or self._short or self._contents
        return bool(found or self._names or self._inputs)

    def in_json(self, data: bytes) -> bool:
        """Return whether an envelope, or another text, quotes a record."""
        return self._in_text(data.decode(errors="replace"), 0)

    def in_log(self, uid: str, data: bytes) -> bool:
        """Return whether a field of a message in a log quotes a record, or is the mid of a message
        of an erased input.
        """
        return self.in_json(data) or (
            bool(self._inputs) and self._has_quote(f"{uid}/{data.decode(errors='replace')}")
        )

    def in_msgpack(self, data: bytes) -> bool:
        """Return whether the outputs of an inbox row quote a record."""
        try:
            return self._in(msgspec.msgpack.decode(data), 0)
        except (msgspec.DecodeError, RecursionError):
            return self.in_json(data)

    def _in(self, value: Any, depth: int) -> bool:
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, str):
            return self._in_text(value, depth)
        if isinstance(value, dict):
            if isinstance(value.get("args"), list):
                value = self._without_sender(value)
            elif self._names.in_fields(value):
                return True
            value = [*value, *value.values()]
        if isinstance(value, int | float):
            return self._names.in_text(str(value))
        return isinstance(value, list) and any(self._in(one, depth + 1) for one in value)

    def _without_sender(self, envelope: dict[str, Any]) -> dict[str, Any]:
        """Return an envelope without the names of its sender, if that is an agent."""
        kept = {name: one for name, one in envelope.items() if name not in SENDER_FIELDS}
        kept["args"] = [_without_names(part, self._agents) for part in envelope["args"]]
        return kept

    def _in_text(self, text: str, depth: int) -> bool:
        if text[:1] in ("{", "[", '"') and depth < MAX_DEPTH:
            try:
                parsed = orjson.loads(text)
            except orjson.JSONDecodeError:
                parsed = None
            if parsed is not None:
                return self._in(parsed, depth + 1) or self._has_quote(text)
        return self._names.in_text(text) or self._has_quote(text)

    def _has_quote(self, text: str) -> bool:
        if self._inputs and (key := KEY.fullmatch(text)) and key[1] in self._inputs:
            return True
        if any(guid in self._guids for guid in GUID.findall(text)):
            return True
        if any(one in text for one in (*self._texts, *self._other_guids)):
            return True
        whole = text.strip()
        if self._short and not self._short.isdisjoint((whole, _without_command(whole).strip())):
            return True
        known = self._by_beginning
        if not known:
            return any(one in text for one in self._contents)
        return any(
            text.startswith(one, start)
            for start in range(len(text) - SHORT + 1)
            for one in known.get(text[start : start + SHORT], ())
        )


def _without_command(text: str) -> str:
    command = COMMAND.match(text)
    return text[command.end() :] if command else text


def _without_names(part: Any, agents: Collection[str]) -> Any:
    name = part.get("username") if isinstance(part, dict) else None
    if isinstance(name, str) and name in agents:
        return {name: one for name, one in part.items() if name != "username"}
    return part


class _OpenErasure(NamedTuple):
    """The erasures of a store that are open elsewhere.

    `wanted` has number, sort and text. If it is empty, only the files are left. `noted` is the
    last number in it. `last` is the number of the last erasure, and `asked_at` its time (Unix ms).
    """

    wanted: list[tuple[int, str, str]]
    noted: int
    last: int
    asked_at: int


class ErasureTask:
    """Completes the erasures of one group. It waits while there are none.

    `thread` works on the stores. `drop` removes waiting retries from memory, and
    `drop_snapshots` the stores as they were. `write_receipts` writes receipts that wait.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        stores: Sequence[str],
        thread: DatabaseThread,
        shared: WorkerContext,
        drop: Drop,
        *,
        drop_snapshots: Callable[[], Awaitable[None]],
        write_receipts: Callable[[], Awaitable[None]],
    ) -> None:
        self._uids = [plan.uid for plan in plans]
        self._agents = frozenset(name for plan in plans for name in plan.programs)
        self._public = sorted({name for plan in plans for name in plan.public})
        self._stores, self._thread, self._shared, self._drop = tuple(stores), thread, shared, drop
        self._drop_snapshots, self._write_receipts = drop_snapshots, write_receipts
        self._wanted = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S
        # Why an erasure cannot be completed now, "" if none waits.
        self.fault = ""
        # Whether no erasure is open.
        self._has_none = False

    @property
    def is_idle(self) -> bool:
        """Whether no erasure is open."""
        return self._has_none and not self._wanted.is_set()

    def rest(self) -> None:
        """Begin with the knowledge that no erasure is open."""
        self._has_none = True

    def wake(self) -> None:
        """Announce an erasure whose call is answered and no longer in the input."""
        self._wanted.set()

    async def run(self, control: ReconnectingConnection) -> None:
        """Work until cancelled or fenced. Raises nothing: failures are retried."""
        try:
            if self._has_none:
                await self._wanted.wait()
            while True:
                self._wanted.clear()
                self._has_none = False
                pause_s = await self._run_round(control)
                self._has_none = pause_s is None
                await wait(self._wanted, pause_s)
        except StoreFenced:
            log.warning("erasure_stopped", stores=self._stores)

    async def _run_round(self, control: ReconnectingConnection) -> float | None:
        """Complete all open erasures. Return the seconds until the next try, None for no limit."""
        fault = ""
        for name in self._stores:
            try:
                if (erasure := await self._in_thread(_find_open, name)) is not None:
                    await self._complete(control, name, erasure)
            except (StoreBusy, StoreBroken, BusError) as error:
                fault = f"{name}: {error}"[:MAX_REASON]
                log.warning("erasing_put_off", memory_id=name, reason=fault, pause_s=self._pause_s)
        self.fault, pause_s = fault, self._pause_s
        self._pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if fault else FIRST_PAUSE_S
        return pause_s if fault else None

    async def _complete(
        self, control: ReconnectingConnection, name: str, erasure: _OpenErasure
    ) -> None:
        """Erase all quotes first, also in receipts that wait. Then rewrite the files, which forget
        the searched texts too.
        """
        await self._write_receipts()
        if erasure.wanted:
            await self._erase_quotes(control, name, erasure)
        self._shared.checkpoint("quotes erased")
        await self._shared.catalog.dead_letters.rewrite()
        await self._in_thread(OpenStores.rewrite, name)
        await self._drop_snapshots()
        self._shared.checkpoint("store rewritten")
        left_over = await rewrite_file(control)
        await self._in_thread(partial(_close, erasure=erasure, left_over=left_over), name)
        self._shared.checkpoint("erased")
        log.info("erased", memory_id=name, left_over=left_over)

    async def _erase_quotes(
        self, control: ReconnectingConnection, name: str, erasure: _OpenErasure
    ) -> None:
        """Repeat until nothing is found: an input that runs meanwhile may quote a record again."""
        content, total = ErasedContent((one[1:] for one in erasure.wanted), self._agents), (0, 0, 0)
        logs = LogPurge(control, erasure.asked_at)
        for _ in range(MAX_PASSES):
            found = await self._pass(logs, content)
            total = total[0] + found[0], total[1] + found[1], total[2] + found[2]
            if not any(found):
                break
        await self._in_thread(partial(_forget_wanted, erasure=erasure, counts=total), name)

    async def _pass(self, logs: LogPurge, content: ErasedContent) -> tuple[int, int, int]:
        """Return the numbers of erased replies, messages and dead letters."""
        self._drop(content.in_json)
        messages = await logs.purge_public(self._public, content.in_json)
        for uid in self._uids:
            messages += await logs.purge_pipeline(uid, partial(content.in_log, uid))
        letters = await self._shared.catalog.dead_letters.erase(self._uids, content.in_json)
        replies = 0
        for store in self._stores:
            replies += await self._in_thread(partial(_redact, content=content), store) or 0
        return replies, messages, letters

    async def _in_thread(
        self, work: Callable[[OpenStores, str], Result], name: str
    ) -> Result | None:
        """Run work on a store; return None if the store does not exist."""

        def run(stores: OpenStores) -> Result | None:
            with translate_errors(name):
                return work(stores, name) if stores.exists(name) else None

        return await self._thread.run(run)


def _find_open(stores: OpenStores, name: str) -> _OpenErasure | None:
    erasures = stores.get(name).erasures
    if not erasures.is_open():
        return None
    wanted = erasures.wanted()
    last = erasures.every(1)[0]
    return _OpenErasure(wanted, wanted[-1][0] if wanted else 0, last.n, last.asked_at)


def _redact(stores: OpenStores, name: str, content: ErasedContent) -> int:
    with stores.get(name).transaction() as store:
        return store.erasures.silence(
            content.in_json, content.in_msgpack, redact_outputs, redact_answer
        )


def _forget_wanted(
    stores: OpenStores, name: str, erasure: _OpenErasure, counts: tuple[int, int, int]
) -> None:
    with stores.get(name).transaction() as store:
        store.erasures.forget(erasure.noted, counts)


def _close(stores: OpenStores, name: str, erasure: _OpenErasure, left_over: str) -> None:
    with stores.get(name).transaction() as store:
        store.erasures.end(erasure.last, time.time_ns() // 1_000_000, left_over)
