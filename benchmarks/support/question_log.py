"""Record the read-only calls of a page on the bus, to repeat them without the page."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.keys import ask_channel, reply_channel
from memrelay.bus.request import NewCall, read_question

MESSAGE_BYTES = 8 << 20
# How long nothing may arrive until the recording ends.
SILENCE_S = 0.3
# The calls of a page. Those of a stage run at the same time.
Stages = list[list[NewCall]]


async def record_questions(socket: Path, uid: str, act: Callable[[], Awaitable[object]]) -> Stages:
    """Return the calls that reach the owner of a pipeline during an action.

    A stage ends when all its calls are answered.
    """
    async with ReconnectingConnection(Address(path=str(socket))) as line:
        subscription = await line.subscribe("*")
        await act()
        messages = list[Any]()
        while message := await subscription.get_message(True, SILENCE_S):
            messages.append(message)
        await subscription.aclose()
    return _list_stages(uid, messages)


def _list_stages(uid: str, messages: Iterable[Any]) -> Stages:
    asked, replied = ask_channel(uid).encode(), reply_channel(uid, "").encode()
    stages, waiting = Stages(), 0
    for message in messages:
        if message["channel"].startswith(replied):
            waiting -= 1
        if message["channel"] != asked:
            continue
        if not waiting:
            stages.append([])
        stages[-1].append(_to_call(uid, message["data"]))
        waiting += 1
    return stages


def _to_call(uid: str, data: bytes) -> NewCall:
    question = read_question(data, uid, MESSAGE_BYTES)
    return NewCall(uid, question.op, bytes(question.input), False, question.store, question.actor)
