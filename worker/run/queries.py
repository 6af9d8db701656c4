"""Asks: calls that change nothing, answered by the owner between batches, each within bounds of its
own."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import structlog

from memrelay.bus.errors import MalformedMessage
from memrelay.bus.lease.workers import BusClock
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
from memrelay.memory.errors import Refused, StoreBroken, StoreBusy, VectorAwaited
from memrelay.memory.operation import Context, Operation, all_operations, find_operation
from memrelay.memory.stores import OpenStores
from memrelay.memory.text.languages import DEFAULT_LANGUAGE
from memrelay.memory.threads import DatabaseThread
from memrelay.pipelines.plan import Plan
from memrelay.worker.background.store_tasks import guarded
from memrelay.worker.errors import describe_error
from memrelay.worker.run.calls import RESULT_SHARE, perform, store_of

log = structlog.stdlib.get_logger(__name__)
MOST_WAITING = 1000
TOGETHER = 16  # that share a hand-over to the database thread
GOES = LEAVING, "the owner lets the pipeline go; ask again in a second"

Tell = Callable[[str, bytes], None]  # publishes an answer on a channel


class _Asked(NamedTuple):
    """A question that waits."""

    operation: Operation
    question: Question
    memory_id: str
    language: str  # of the store
    until: float  # by the loop's clock


class Queries:
    """Those of one group. They wait until it has recovered, and are refused when it ends."""

    def __init__(
        self,
        thread: DatabaseThread,
        stores: Collection[str],
        tell: Tell,
        message_bytes: int,
        *,
        clock: BusClock,
        database: int,
    ) -> None:
        """`stores` are the group's, which work in `thread`; `database` is the one of the server
        that its inputs are in.

        What has expired is so by the `clock` by which it is deleted, and by which those who write
        are describe_error it.
        """
        self._thread, self._stores, self._tell = thread, stores, tell
        self._clock = clock
        self._result_bytes, self._database = RESULT_SHARE * message_bytes, database
        self._waiting: deque[_Asked] = deque()
        self._loop = asyncio.get_running_loop()
        self._open = self._over = False
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """From now on questions are answered."""
        self._open = True
        self._begin()

    def end(self) -> None:
        """Nothing is answered any more, but for what is under way in the thread."""
        self._over = True
        while self._waiting:
            self._refuse(self._waiting.popleft().question, *GOES)

    def hear(self, plan: Plan, payload: bytes) -> None:
        """One question from the channel. What is no question has nobody to be describe_error."""
        try:
            question = read_question(payload, plan.uid)
        except MalformedMessage as error:
            log.warning("question_malformed", pipeline=plan.uid, reason=str(error)[:200])
            return
        if question.database not in (None, self._database):
            return  # an owner in that one hears it too
        if self._over:
            self._refuse(question, *GOES)
        elif len(self._waiting) >= MOST_WAITING:
            self._refuse(
                question, BUSY, f"{MOST_WAITING} calls wait for the owner; ask again in a second"
            )
        else:
            self._take(plan, question)

    def _take(self, plan: Plan, question: Question) -> None:
        try:
            operation = _operation(question.op)
            memory_id = store_of(plan, question.store, operation)
        except Refused as error:
            self._refuse(question, error.code, str(error))
            return
        language = plan.languages.get(memory_id, DEFAULT_LANGUAGE)
        self._waiting.append(
            _Asked(
                operation,
                question,
                memory_id,
                language,
                self._loop.time() + question.within_ms / 1000,
            )
        )
        self._begin()

    def _refuse(self, question: Question, code: str, detail: str) -> None:
        self._tell(question.reply, output_answer(error_answer(code, detail)))

    def _begin(self) -> None:
        if self._open and self._waiting and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._work())

    async def _work(self) -> None:
        while self._waiting and not self._over:
            asked = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            awaited = [one for one in asked if one.until > self._loop.time()]
            for one, answer in zip(awaited, await self._answers(awaited), strict=True):
                if answer is not None:
                    self._tell(one.question.reply, output_answer(answer))

    async def _answers(self, asked: Sequence[_Asked]) -> list[bytes | None]:
        """All together, and where one raises each alone: they change nothing, so they may run
        twice.

        None where something has to be awaited: that question is asked again then.
        """
        (answers,) = await asyncio.gather(self._in_thread(asked), return_exceptions=True)
        if not isinstance(answers, BaseException):
            return list(answers)
        if len(asked) > 1:
            return [answer for one in asked for answer in await self._answers([one])]
        if isinstance(answers, VectorAwaited):
            self._loop.call_later(answers.after_s, self._again, asked[0])
            return [None]
        if isinstance(answers, StoreBusy | StoreBroken):
            return [error_answer(UNAVAILABLE, str(answers))]
        log.error("call_failed", operation=asked[0].operation.name, exc_info=answers)
        return [
            error_answer(
                BROKEN,
                f"{asked[0].operation.name} failed: {type(answers).__name__}: {describe_error(answers)}",
            )
        ]

    def _again(self, one: _Asked) -> None:
        if self._over:
            self._refuse(one.question, *GOES)
            return
        self._waiting.append(one)
        self._begin()

    async def _in_thread(self, asked: Sequence[_Asked]) -> list[bytes]:
        answer = partial(
            _answer_all, asked=asked, result_bytes=self._result_bytes, now_ms=self._clock.now_ms
        )
        return await self._thread.run(partial(guarded, work=answer, names=list(self._stores)))


def _operation(name: str) -> Operation:
    """One that changes nothing. Raises Refused."""
    operation = find_operation(name)
    if operation is None or operation.mutates:
        known = ", ".join(name for name, one in all_operations().items() if not one.mutates)
        raise Refused(
            f"no operation {name[:100]!r} can be asked for on this channel; those that can are {known}"
        )
    return operation


def _answer_all(
    stores: OpenStores, asked: Sequence[_Asked], result_bytes: int, now_ms: int
) -> list[bytes]:
    return [
        perform(
            operation,
            bytes(question.input),
            stores.get(memory_id),
            Context(now_ms, question.actor, result_bytes, _no_guid, language),
        )
        for operation, question, memory_id, language, _ in asked
    ]


def _no_guid() -> str:
    raise AssertionError("an operation that changes nothing makes no ids")
