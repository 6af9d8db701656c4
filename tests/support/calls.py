"""Operation calls over the bus of a test, as every interface makes them."""

import asyncio
from typing import Any

import orjson

from memrelay.bus.client.url import Address
from memrelay.bus.request import NewCall, Requester
from memrelay.memory.operations import all_operations
from tests.support.system import TestSystem

WITHIN_S = 60.0


def make_call(uid: str, name: str, given: dict[str, Any] | None = None, **how: Any) -> NewCall:
    return NewCall(
        uid,
        name,
        orjson.dumps(given or {}),
        all_operations()[name].mutates,
        **{"actor": "tester"} | how,
    )


def call_all(
    system: TestSystem, *calls: NewCall, within_s: float = WITHIN_S
) -> list[dict[str, Any]]:
    """Return the answers to calls that are sent at once."""

    async def whole() -> list[dict[str, Any]]:
        address = Address(path=str(system.client.socket), password=system.client.password)
        async with Requester(address) as requester:
            return await asyncio.gather(*[requester.call(call, within_s) for call in calls])

    return asyncio.run(whole())


def call(
    system: TestSystem, uid: str, name: str, given: dict[str, Any] | None = None, **how: Any
) -> Any:
    """Return the output of an operation. Raises AssertionError if it is refused."""
    (answer,) = call_all(system, make_call(uid, name, given, **how))
    assert "output" in answer, answer
    return answer["output"]


def refused(
    system: TestSystem, uid: str, name: str, given: dict[str, Any] | None = None, **how: Any
) -> tuple[str, str]:
    """Return (code, detail) of a call that must be refused."""
    (answer,) = call_all(system, make_call(uid, name, given, **how))
    return answer["error"]["code"], answer["error"]["detail"]
