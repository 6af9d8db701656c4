"""The calls of operations with which a page gets its data."""

import asyncio
from collections.abc import Awaitable
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.bus.errors import BusError, NoOwner
from memrelay.web.api.operations import call_operation
from memrelay.web.console.format import capitalize_first, format_pause
from memrelay.web.console.shared_reads import STATUS, find_row
from memrelay.web.server.errors import CallTimeout, NotYet, Problem, Unavailable

# The time for all operations of a page, which run at once.
TIMEOUT_S = 2.0
NO_BUS = "The bus does not respond. Retrying every 5 seconds."
NOT_YET = "The state of then is being prepared. The page shows it when it is ready."
NO_ANSWER = "No response in time."
NO_OWNER = "No worker serves this pipeline."


class Answer(NamedTuple):
    """The output of an operation, or None and the reason why there is none now."""

    output: Any
    fault: str = ""


class Call(NamedTuple):
    """A call of an operation. `store` is a `memory_id`, by default that of the operation. `as_of`
    reads the state of a past time.
    """

    name: str
    input: dict[str, Any]
    store: str = ""
    as_of: str = ""


async def ask(request: web.Request, uid: str, *calls: Call) -> list[Answer]:
    """Call operations at once and return their answers in this order.

    If the owner of the pipeline is absent, paused or slow, the answers state that and the page can
    still be shown. Raises the other errors of operations as Problem.
    """
    return list(await asyncio.gather(*(_ask(request, uid, call) for call in calls)))


async def _ask(request: web.Request, uid: str, call: Call) -> Answer:
    called = call_operation(
        request,
        call.name,
        uid,
        call.input,
        call.store,
        timeout_s=TIMEOUT_S,
        as_of=call.as_of,
    )
    return await attempt(request, uid, called)


async def ask_refusable(
    request: web.Request, uid: str, call: Call, refusal: type[Problem] = Problem
) -> Answer:
    """Call an operation. A refusal of this type is a fault in the answer too.

    Raises the other errors of operations as Problem.
    """
    try:
        return await _ask(request, uid, call)
    except refusal as problem:
        return Answer(None, f"{capitalize_first(problem.detail)}.")


async def attempt(request: web.Request, uid: str, called: Awaitable[Any]) -> Answer:
    """Return the result of a call, or the reason why the owner of the pipeline gives none now.

    Raises the other errors of operations as Problem.
    """
    try:
        return Answer(await called)
    except NoOwner:
        return Answer(None, NO_OWNER)
    except CallTimeout:
        return Answer(None, await _explain_silence(request, uid))
    except NotYet:
        return Answer(None, NOT_YET)
    except (Unavailable, BusError):
        return Answer(None, NO_BUS)


async def _explain_silence(request: web.Request, uid: str) -> str:
    """Return why a pipeline does not answer."""
    try:
        status = await request.config_dict[STATUS].get()
    except BusError:
        return NO_BUS
    row = find_row(status, uid)
    return format_pause(row["paused"]) if row is not None and row["paused"] else NO_ANSWER
