"""Queries: read-only calls that the owner answers between batches."""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import UNSET

from memrelay.bus.errors import MalformedMessage
from memrelay.bus.lease.workers import BusClock
from memrelay.bus.malformed import MALFORMED
from memrelay.bus.request import (
    BROKEN,
    BUSY,
    LEAVING,
    UNAVAILABLE,
    Question,
    error_answer,
    output_answer,
    read_question,
)
from memrelay.logs import get_logger
from memrelay.memory.engine.models import list_hooks, load
from memrelay.memory.engine.open_for_read import ReadableStores, read_only
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import Refused, StoreBroken, StoreBusy, VectorPending
from memrelay.memory.operations import (
    RECEIPT,
    Context,
    Operation,
    Steps,
    all_operations,
    find_operation,
    no_rehearsals,
    no_timings,
)
from memrelay.memory.search.text.languages import DEFAULT_LANGUAGE
from memrelay.pipelines.plan import Plan
from memrelay.worker.errors import describe_error
from memrelay.worker.run.busy_retry import run_guarded
from memrelay.worker.run.calls import (
    CONTINUES,
    MAX_ANSWER_MESSAGES,
    answer_call,
    answer_with,
    begin_call,
    open_second_store,
    resolve_store,
)

if TYPE_CHECKING:
    from memrelay.memory.engine.open_for_read import ReadOnlyStore
    from memrelay.worker.run.past_queries import PastQueries
    from memrelay.worker.run.receipts import ReceiptWriter

log = get_logger(__name__)
MAX_WAITING = 1000
# The access of operations that search.
SEARCH = "search"
RECEIPT_WRITER = "memrelay.worker.run.receipts:ReceiptWriter"
# Queries that share a hand-over to the database thread.
QUERIES_TOGETHER = 16
# Time after which the rest of them waits for the next hand-over, behind other work of the thread.
TOGETHER_S = 0.05
# Time after which a stepwise query waits for the next hand-over.
SLICE_S = 0.01
OWNER_LEAVES = LEAVING, "the owner releases the pipeline; try again in a second"

# Publishes an answer on a channel.
Publish = Callable[[str, bytes], None]


@dataclass(slots=True, eq=False)
class Query:
    """A query of a pipeline that waits. `until` is a time of the event loop's clock."""

    operation: Operation
    question: Question
    memory_id: str
    language: str
    until: float
    plan: Plan
    # The rest of a stepwise query that has begun.
    steps: Steps | None = None
    # The time and the actor of the reads. They stay until the query ends.
    act: tuple[int, str] | None = None
    # What it has read, if it asks for a receipt.
    receipt: Any = None

    def keep_receipt(self, *read: Any) -> None:
        """Keep the receipt of (operation, store, input, output, context)."""
        receipt = load(list_hooks("receipt")[0])(*read)
        self.receipt = receipt.without_question() if self.plan.only_digests else receipt

    def restart(self) -> None:
        """Forget what a stepwise query has done."""
        self.steps = self.act = None


class QueryQueue:
    """Queries that wait, in order of arrival for each pipeline. The pipelines take turns."""

    def __init__(self) -> None:
        self._by_uid: OrderedDict[str, deque[Query]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, query: Query) -> None:
        """Add a query behind those of its pipeline."""
        self._by_uid.setdefault(query.plan.uid, deque()).append(query)
        self._count += 1

    def take(self) -> Query:
        """Remove and return the next query. Its pipeline then waits for its next turn."""
        uid, queries = self._by_uid.popitem(last=False)
        query = queries.popleft()
        if queries:
            self._by_uid[uid] = queries
        self._count -= 1
        return query

    def put_back(self, queries: Sequence[Query]) -> None:
        """Add queries that were taken and did not run, so that they come next in the same order."""
        for query in reversed(queries):
            self._by_uid.setdefault(query.plan.uid, deque()).appendleft(query)
            self._by_uid.move_to_end(query.plan.uid, last=False)
        self._count += len(queries)


class Queries:
    """Answers the queries of one group. They wait until it has recovered.

    `stores` belong to `thread`. `database` is the number of the server's database that has the
    inputs. Records expire by `clock`, as they do when they are deleted.
    """

    def __init__(
        self,
        thread: DatabaseThread,
        stores: Collection[str],
        publish: Publish,
        message_bytes: int,
        *,
        clock: BusClock,
        database: int,
        load_past: Callable[[], "PastQueries"],
        find_rehearsals: Callable[[Plan], Any],
        find_timings: Callable[[str, str], Any] = no_timings,
    ) -> None:
        self._thread, self._stores, self._publish = thread, list(stores), publish
        self._message_bytes = message_bytes
        self._answer_bytes = MAX_ANSWER_MESSAGES * message_bytes
        self._clock, self._database = clock, database
        self._load_past, self._find_rehearsals = load_past, find_rehearsals
        self._find_timings = find_timings
        # Loaded with the first query with `as_of`.
        self._past: PastQueries | None = None
        # Loaded with the first query that asks for a receipt.
        self._receipts: ReceiptWriter | None = None
        self._waiting = QueryQueue()
        # Searches that were accepted, by pipeline.
        self.searches: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()
        self._is_open = self._has_ended = False
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._is_open = True
        self._start()

    def end(self) -> None:
        """Refuse what waits. Queries that already run in the thread are answered."""
        self._has_ended = True
        while self._waiting:
            self._refuse(self._waiting.take().question, *OWNER_LEAVES)
        if self._past is not None:
            self._past.close()

    async def _keep_receipts(self, queries: Sequence[Query]) -> None:
        """Take the receipts of answered queries. Those that name the answer that uses them are on
        disk before their caller gets its own answer.
        """
        if self._receipts is None:
            self._receipts = load(RECEIPT_WRITER)(self._thread, self._stores)
            assert self._receipts is not None
        for query in queries:
            self._receipts.add(query.memory_id, query.receipt)
        if any(query.receipt.input for query in queries):
            await self._receipts.write()

    async def write_receipts(self) -> None:
        """Write the receipts that wait."""
        if self._receipts is not None:
            await self._receipts.write()

    async def drop_snapshots(self) -> None:
        """Remove the stores as they were, because something was erased."""
        if self._past is not None:
            await self._past.drop()

    def accept(self, plan: Plan, payload: bytes) -> None:
        """Take one query from the channel. A malformed one is counted and dropped."""
        try:
            question = read_question(payload, plan.uid, self._message_bytes)
        except MalformedMessage as error:
            MALFORMED.drop("question", error, plan.uid)
            return
        if question.database not in (None, self._database):
            return  # channels are shared by all databases; the owner in that one answers
        if self._has_ended:
            self._refuse(question, *OWNER_LEAVES)
        elif len(self._waiting) >= MAX_WAITING:
            self._refuse(
                question, BUSY, f"{MAX_WAITING} calls wait for the owner; try again in a second"
            )
        else:
            self._enqueue(plan, question)

    def _enqueue(self, plan: Plan, question: Question) -> None:
        try:
            operation = _find_read_only(question.op)
            memory_id = resolve_store(plan, question.store, operation)
            if question.as_of is not UNSET:
                _check_as_of(operation)
        except Refused as error:
            self._refuse(question, error.code, str(error))
            return
        if operation.access == SEARCH:
            self.searches[plan.uid] += 1
        language = plan.languages.get(memory_id, DEFAULT_LANGUAGE)
        until = self._loop.time() + question.within_ms / 1000
        query = Query(operation, question, memory_id, language, until, plan)
        if question.as_of is UNSET:
            self._waiting.add(query)
            self._start()
        elif self._is_open:
            self._past = self._past or self._load_past()
            self._past.accept(query)
        else:
            reason = "the pipeline has not recovered yet; try again in a second"
            self._refuse(question, BUSY, reason)

    def _refuse(self, question: Question, code: str, detail: str) -> None:
        self._publish(question.reply, output_answer(error_answer(code, detail)))

    def _start(self) -> None:
        if self._is_open and self._waiting and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._work())

    async def _work(self) -> None:
        while self._waiting and not self._has_ended:
            count = min(QUERIES_TOGETHER, len(self._waiting))
            taken = [self._waiting.take() for _ in range(count)]
            queries = [query for query in taken if query.until > self._loop.time()]
            answers = await self._answer(queries)
            self._waiting.put_back(queries[len(answers) :])
            kept = [query for query in queries[: len(answers)] if query.receipt is not None]
            if kept:
                await self._keep_receipts(kept)
            if self._has_ended:
                self.end()
            for query, answer in zip(queries, answers, strict=False):
                if query.steps is not None:
                    self._repeat(query)
                elif answer is not None:
                    self._publish(query.question.reply, output_answer(answer))

    async def _answer(self, queries: Sequence[Query]) -> list[bytes | None]:
        """Answer queries together, or one by one if one of them raises.

        They change nothing, so they may run twice. None stands for a query that runs later, or
        continues. The last queries have no answer if the first ones took too long.
        """
        work = partial(
            answer_all,
            queries=queries,
            answer_bytes=self._answer_bytes,
            now_ms=self._clock.now_ms,
            find_rehearsals=self._find_rehearsals,
            find_timings=self._find_timings,
        )
        running = self._thread.run(partial(run_guarded, work=work, names=self._stores))
        (answers,) = await asyncio.gather(running, return_exceptions=True)
        if not isinstance(answers, BaseException):
            return list(answers)
        for query in queries:
            query.restart()
        if len(queries) > 1:
            return [answer for query in queries for answer in await self._answer([query])]
        if isinstance(answers, VectorPending):
            self._loop.call_later(answers.after_s, self._repeat, queries[0])
            return [None]
        if isinstance(answers, StoreBusy | StoreBroken):
            return [error_answer(UNAVAILABLE, str(answers))]
        name = queries[0].operation.name
        log.error("call_failed", operation=name, exc_info=answers)
        reason = f"{name} failed: {type(answers).__name__}: {describe_error(answers)}"
        return [error_answer(BROKEN, reason)]

    def _repeat(self, query: Query) -> None:
        if self._has_ended:
            self._refuse(query.question, *OWNER_LEAVES)
            return
        self._waiting.add(query)
        self._start()


def _find_read_only(name: str) -> Operation:
    """Raises Refused for an operation that changes data or does not exist."""
    operation = find_operation(name)
    if operation is None or operation.mutates:
        known = ", ".join(name for name, one in all_operations().items() if not one.mutates)
        raise Refused(
            f"no operation {name[:100]!r} can be called on this channel; these can: {known}"
        )
    return operation


def _check_as_of(operation: Operation) -> None:
    """Raise Refused: the operation has no `as_of`."""
    if not operation.takes_as_of:
        known = ", ".join(name for name, one in all_operations().items() if one.takes_as_of)
        raise Refused(f"{operation.name} has no `as_of`; these have: {known}")


def answer_all(
    stores: ReadableStores,
    queries: Sequence[Query],
    answer_bytes: int,
    now_ms: int,
    find_rehearsals: Callable[[Plan], Any] = no_rehearsals,
    *,
    find_timings: Callable[[str, str], Any] = no_timings,
) -> list[bytes | None]:
    """Return the answers of the first queries, until their time is over.

    None stands for a stepwise query that continues in a later hand-over.
    """
    answers: list[bytes | None] = []
    until_s = time.perf_counter() + TOGETHER_S
    for query in queries:
        act = query.act = query.act or (now_ms, query.question.actor)
        open_for_read = partial(open_second_store, stores, query.plan, act=act, touched={})
        context = Context(
            *act,
            answer_bytes,
            _no_guid,
            query.language,
            open_for_read=open_for_read,
            timezone=query.plan.timezone,
            pipeline=query.plan.uid,
            open_existing=partial(_open_existing, stores, query.plan),
            rehearsals=no_rehearsals
            if find_rehearsals is None
            else partial(find_rehearsals, query.plan),
            keep_receipt=query.keep_receipt,
            timings=partial(find_timings, query.plan.uid),
        )
        store = stores.get(query.memory_id)
        if query.operation.begin is None:
            answers.append(
                answer_call(query.operation, bytes(query.question.input), store, context)
            )
        else:
            answers.append(_continue(query, store, context))
        if query.receipt is not None and answers[-1] is not None:
            answers[-1] = add_member(answers[-1], RECEIPT, query.receipt.view())
        if time.perf_counter() > until_s:
            break
    return answers


def add_member(answer: bytes, name: str, value: Any) -> bytes:
    """Return an answer as JSON with a further member."""
    return b"".join((answer[:-1], f',"{name}":'.encode(), orjson.dumps(value), b"}"))


def _open_existing(stores: ReadableStores, plan: Plan) -> list[tuple[int, "ReadOnlyStore"]]:
    """Return the existing stores of a pipeline for reads, each with its position in the plan."""
    return [
        (at, read_only(stores.get(name)))
        for at, name in enumerate(plan.all_stores)
        if stores.exists(name)
    ]


def _continue(query: Query, store: Store, context: Context) -> bytes | None:
    """Run a part of a stepwise query. Return its answer, None if the query is not at its end."""
    store.records.set_actor(context.now_ms, context.actor)
    until_s = time.perf_counter() + SLICE_S
    return answer_with(query.operation, partial(_advance, query, store, context, until_s))


def _advance(query: Query, store: Store, context: Context, until_s: float) -> Any:
    """Return the output of a stepwise query, CONTINUES if its time is over before."""
    steps, query.steps = query.steps, None
    try:
        if steps is None:
            steps = begin_call(query.operation, bytes(query.question.input), store, context)
            next(steps)
        while time.perf_counter() < until_s:
            steps.send(store)
    except StopIteration as end:
        return end.value
    query.steps = steps
    return CONTINUES


def _no_guid() -> str:
    raise AssertionError("a read-only operation creates no records")
