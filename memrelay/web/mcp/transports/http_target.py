"""The target of a request over HTTP: one operation call over the bus, as REST makes it."""

from dataclasses import dataclass
from typing import Any

from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.bus.request import NewCall
from memrelay.bus.streams.entry import LONGEST_ID, is_valid_id
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.memory.operations import all_operations
from memrelay.web.api.operation_scopes import scopes_of
from memrelay.web.api.operations import (
    hide_stored_text,
    send_call,
    validate_input,
)
from memrelay.web.api.tool_scopes import check_command
from memrelay.web.auth.access import get_caller
from memrelay.web.mcp.failures import bus_failure, describe_invalid, refuse, retry_later
from memrelay.web.mcp.session import ACTOR
from memrelay.web.mcp.tool import JsonObject, ToolError
from memrelay.web.server.errors import Problem, RetryLater
from memrelay.web.server.services import get_services

# The errors of REST name this header; a tool has an argument in its place.
IDEMPOTENCY_HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A pipeline, in which the caller of a request calls operations."""

    request: web.Request
    uid: str

    def may_call(self, operation: str) -> bool:
        """Return whether the caller's key has the access of an operation."""
        scopes = scopes_of(all_operations()[operation])
        return not get_caller(self.request).scopes.isdisjoint(scopes)

    async def call(
        self, operation: str, given: JsonObject, *, store: str = "", idempotency_key: str = ""
    ) -> Any:
        """Call an operation in the pipeline. Raises ToolError."""
        if not is_valid_id(idempotency_key):
            raise refuse(f"`idempotency_key` must have at most {LONGEST_ID} printable characters")
        try:
            return await self._call(operation, given, store, idempotency_key)
        except Problem as problem:
            raise _as_tool_error(problem) from problem
        except BusError as error:
            raise bus_failure(error) from error
        except (StoreBusy, StoreBroken) as error:
            raise retry_later(str(error)) from error

    async def _call(self, name: str, given: JsonObject, store: str, call_id: str) -> Any:
        operation, request = all_operations()[name], self.request
        caller = get_caller(request)
        caller.check_any(scopes_of(operation), self.uid)
        check_command(caller, name, given)
        await get_services(request).directory.find(self.uid)
        call = NewCall(
            self.uid,
            name,
            validate_input(operation, given),
            operation.mutates,
            store,
            caller.name or ACTOR,
            call_id if operation.mutates else "",
        )
        return hide_stored_text(request, operation, await send_call(request, call))


def _as_tool_error(problem: Problem) -> ToolError:
    detail = problem.detail.replace(IDEMPOTENCY_HEADER, "idempotency_key")
    if isinstance(problem, RetryLater):
        return retry_later(detail, problem.retry_after_s)
    faults = describe_invalid(problem.members.get("faults", ()))
    return refuse(detail.removesuffix("; see `faults`"), faults)
