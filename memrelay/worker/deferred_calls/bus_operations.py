"""Operations that async blocks call over the bus, and the secrets that they may read."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import orjson

from memrelay.blocks.async_call import OperationFailed, OperationUnavailable
from memrelay.blocks.contract import Shared
from memrelay.bus.client.url import Address
from memrelay.bus.codec import find_via
from memrelay.bus.errors import (
    BusBusy,
    BusError,
    BusRefused,
    BusUnavailable,
    CallFailed,
    MalformedMessage,
    NoOwner,
)
from memrelay.bus.request import REFUSED, SNAPSHOT_PENDING, UNAVAILABLE, NewCall, Requester
from memrelay.bus.streams.ingress import IngressLimits
from memrelay.guarded_http.rules import PUBLIC_ONLY, OutgoingRules
from memrelay.logs import get_logger
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.origins import TURN
from memrelay.memory.operations import RECEIPT, all_operations, find_operation
from memrelay.pipelines.plan import PlannedAgent
from memrelay.pipelines.secret_references import SecretResolver

log = get_logger(__name__)
# The longest time for one operation, and the pause before it is tried again while no worker serves
# the pipeline, as during a deploy, or the bus is lost.
CALL_S, PAUSE_S = 30.0, 0.1
# What callers see. The log has the reason, which may contain paths of the host.
NO_ANSWER = "the pipeline does not answer now; try again later"
# A full input must accept the operations of deferred calls: its messages may wait until these calls
# end.
LIMITS = IngressLimits(backlog=sys.maxsize, backlog_bytes=sys.maxsize)


class BusOperations:
    """Sends calls to pipelines. It opens its connections with the first call.

    All methods belong to the event loop of the deferred calls. `outgoing` are the rules for their
    requests.
    """

    def __init__(
        self, address: Address, secrets: SecretResolver, outgoing: OutgoingRules = PUBLIC_ONLY
    ) -> None:
        self._address, self.secrets, self._stack = address, secrets, AsyncExitStack()
        self.outgoing = outgoing
        # Ids of deferred calls whose operations are refused.
        self.cancelled: set[str] = set()
        self.requester_class = Requester
        self._requester: Requester | None = None
        self._shared: dict[str, Any] = {}
        self._opening = asyncio.Lock()

    async def send(self, call: NewCall) -> dict[str, Any]:
        """Return the answer to a call. Raises OperationFailed and OperationUnavailable.

        A call whose answer was lost is sent again: one that changes data has an idempotency key.
        """
        async with self._opening:
            if self._requester is None:
                self._requester = self.requester_class(self._address, LIMITS)
                await self._stack.enter_async_context(self._requester)
        until = asyncio.get_running_loop().time() + CALL_S
        while True:
            left_s = until - asyncio.get_running_loop().time()
            try:
                return await self._requester.call(call, max(left_s, PAUSE_S))
            except (NoOwner, BusBusy, BusUnavailable, BusRefused) as error:
                if left_s <= 0:
                    raise _make_unavailable(call.uid, call.op, str(error)) from error
            except MalformedMessage as error:
                raise OperationFailed(REFUSED, str(error)) from error
            except CallFailed as error:
                text = f"{call.op} failed; the dead letters of the pipeline have the reason"
                raise OperationFailed(UNAVAILABLE, text) from error
            except BusError as error:
                raise _make_unavailable(call.uid, call.op, str(error)) from error
            await asyncio.sleep(PAUSE_S)

    async def share(
        self, key: str, open_it: Callable[[], AbstractAsyncContextManager[Shared]]
    ) -> Shared:
        """Return what `open_it` has opened under this key. `close` closes it."""
        async with self._opening:
            if key not in self._shared:
                self._shared[key] = await self._stack.enter_async_context(open_it())
        shared: Shared = self._shared[key]
        return shared

    async def close(self) -> None:
        await self._stack.aclose()


class CallOperations:
    """The operations that one deferred call calls on its pipeline, as its agent. If the
    agent has `receipts`, its reads leave receipts with the id of the call. `via` is how the message
    came in to which the agent answers.
    """

    def __init__(self, bus: BusOperations, subscriber: PlannedAgent, pending: Pending) -> None:
        agent, deferred_call_id = subscriber.agent, pending.id
        via = find_via(pending.data)
        self._bus, self._uid, self._actor = bus, agent.pipeline, agent.name
        self._deferred_call_id, self._count = deferred_call_id, 0
        self._receipts = subscriber.receipts
        model = getattr(subscriber.args, "model", "")
        profile = f"{TURN}{deferred_call_id.partition('/')[2]}" if model else via.profile
        self._via = via._replace(profile=profile, agent=agent.alias, model=model)

    async def call(
        self, name: str, given: Mapping[str, Any], store: str, key: str, as_of: str = ""
    ) -> Any:
        """Return the output of an operation. Raises OperationFailed and OperationUnavailable."""
        if self._deferred_call_id in self._bus.cancelled:
            raise OperationFailed(REFUSED, "the deferred call was cancelled")
        self._count += 1
        operation = find_operation(name)
        if operation is None:
            known = ", ".join(all_operations())
            raise OperationFailed(REFUSED, f"unknown operation {name!r}; known are {known}")
        if as_of and not operation.takes_as_of:
            raise OperationFailed(REFUSED, f"{name} has no `as_of`; omit it")
        if self._receipts and operation.takes_receipt:
            given = {RECEIPT: self._deferred_call_id, **given}
        number = f"={key}" if key else str(self._count)
        call = NewCall(
            self._uid,
            name,
            orjson.dumps(dict(given)),
            operation.mutates,
            store,
            self._actor,
            f"{self._deferred_call_id}/{number}" if operation.mutates else "",
            as_of=as_of,
            via=self._via,
        )
        answer = await self._bus.send(call)
        if (error := answer.get("error")) is not None:
            if error["code"] in (UNAVAILABLE, SNAPSHOT_PENDING):
                raise _make_unavailable(self._uid, name, error["detail"])
            raise OperationFailed(error["code"], error["detail"])
        return answer["output"]


def _make_unavailable(uid: str, name: str, reason: str) -> OperationUnavailable:
    """Log why an operation got no answer, and return the error."""
    log.warning("operation_unavailable", pipeline=uid, operation=name, reason=reason)
    return OperationUnavailable(UNAVAILABLE, NO_ANSWER)
