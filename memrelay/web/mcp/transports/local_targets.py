"""The targets of a client over stdio: a pipeline over the bus, or a file. Neither needs HTTP."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import orjson
from msgspec import structs
from pydantic import ValidationError

from memrelay.bus.errors import BusError
from memrelay.bus.request import SNAPSHOT_PENDING, UNAVAILABLE, NewCall, Requester
from memrelay.bus.streams.entry import LONGEST_ID, is_valid_id
from memrelay.bus.streams.via import Via
from memrelay.memory.engine.identity import CONTEXTS, VOUCHED
from memrelay.memory.errors import MemoryFault, StoreBusy
from memrelay.memory.operations import Operation, known_operation
from memrelay.memory.seal_keys import SealKeys
from memrelay.pipelines.report import Report
from memrelay.pipelines.rules import report_validation_error
from memrelay.web.api.operation_routes import hide_output, scope_of_command, scopes_of
from memrelay.web.mcp.session import ACTOR
from memrelay.web.mcp.tool import (
    FACT_STORE,
    JsonObject,
    bus_failure,
    check_written,
    describe_faults,
    describe_invalid,
    refuse,
    retry_later,
)


@dataclass(frozen=True, slots=True)
class BusConnection:
    """The state that all calls of one client share. `get_scopes` returns the scopes of its key, and
    `key` is the id of the key, "" for none.
    """

    requester: Requester
    seal_keys: SealKeys
    timeout_s: float
    get_scopes: Callable[[], Collection[str]]
    actor: str = ACTOR
    key: str = ""


@dataclass(frozen=True, slots=True)
class BusTarget:
    """A pipeline, whose owner a client over stdio calls."""

    connection: BusConnection
    uid: str

    def may_call(self, operation: str) -> bool:
        """Return whether the key has the access of an operation."""
        scopes = scopes_of(known_operation(operation))
        return any(scope in self.connection.get_scopes() for scope in scopes)

    async def call(
        self,
        operation: str,
        input: JsonObject,
        *,
        store: str = "",
        idempotency_key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation in the pipeline. Raises ToolError."""
        called = known_operation(operation)
        self._check_scope(called, input)
        if not is_valid_id(idempotency_key):
            raise refuse(f"`idempotency_key` must have at most {LONGEST_ID} printable characters")
        call = NewCall(
            self.uid,
            called.name,
            _encode_input(called, input),
            called.mutates,
            store,
            self.connection.actor,
            idempotency_key if called.mutates else "",
            as_of=as_of,
            via=Via("mcp", key=self.connection.key),
        )
        try:
            output = await self._send(call)
        except BusError as error:
            raise bus_failure(error) from error
        except MemoryFault as error:
            raise refuse(str(error)) from error
        if called.mutates:
            check_written(output)
        return hide_output(self.connection.get_scopes(), called, output)

    def _check_scope(self, operation: Operation, input: JsonObject) -> None:
        scopes = self.connection.get_scopes()
        needed = scope_of_command(operation, input)
        accepted = (needed,) if needed else scopes_of(operation)
        if not any(scope in scopes for scope in accepted):
            owned = ", ".join(sorted(scopes)) or "none"
            raise refuse(f"this needs the scope {' or '.join(accepted)}; the key has {owned}")

    async def _send(self, call: NewCall) -> Any:
        keys, uid = self.connection.seal_keys, self.uid
        data = await keys.seal_input(uid, call.op, call.data, call.producer_id)
        sealed = structs.replace(call, data=data)
        answer = await self.connection.requester.call(sealed, self.connection.timeout_s)
        if (error := answer.get("error")) is None:
            return await keys.open_output(uid, call.op, answer["output"])
        if error["code"] in (UNAVAILABLE, SNAPSHOT_PENDING):
            raise retry_later(error["detail"])
        raise refuse(error["detail"], describe_faults(error.get("faults", ())))


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A store file. `operate` runs an operation on it: `EmbeddedStore.operate`."""

    operate: Callable[..., Any]

    @property
    def uid(self) -> str:
        """A file belongs to no pipeline."""
        return ""

    def may_call(self, operation: str) -> bool:
        """Return True: whoever reads and writes the file may call every operation."""
        return True

    async def call(
        self,
        operation: str,
        input: JsonObject,
        *,
        store: str = "",
        idempotency_key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation on the file. Raises ToolError."""
        if store not in ("", FACT_STORE):
            raise refuse("a file is one store; omit `store`")
        if idempotency_key:
            raise refuse("a file keeps no idempotency keys; omit `idempotency_key`")
        # As a pipeline does. The file alone would accept texts in the place of numbers.
        _encode_input(known_operation(operation), input)
        try:
            output = await asyncio.to_thread(self.operate, operation, input, as_of=as_of)
        except StoreBusy as error:
            raise retry_later(str(error)) from error
        except MemoryFault as error:
            raise refuse(str(error)) from error
        if known_operation(operation).mutates:
            check_written(output)
        return output


def _encode_input(operation: Operation, input: JsonObject) -> bytes:
    """Return the validated input as JSON. Raises ToolError."""
    if operation.has_caller:
        input = input | {VOUCHED: CONTEXTS}
    report = Report()
    try:
        return orjson.dumps(operation.adapter.validate_json(orjson.dumps(input), strict=True))
    except ValidationError as error:
        report_validation_error(error, input, (), report)
    except orjson.JSONEncodeError as error:
        raise refuse(f"the input cannot be encoded as JSON: {error}") from error
    count = len(report.errors)
    raise refuse(
        f"the input of {operation.name} has {count} fault{'s' * (count > 1)}",
        describe_invalid(fault.as_json() for fault in report.errors),
    )
