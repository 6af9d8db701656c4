"""The contract of tools: their declaration, the calls that they make, and the texts of failures.

Nothing here imports the SDK, so a tool can be declared and tested without it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from memrelay.bus.errors import BusBusy, BusError, CallFailed, NoAnswer, NoOwner
from memrelay.installation import install_extra
from memrelay.memory.stopped_writes import describe_stopped, read_stopped

JsonObject = dict[str, Any]
# Faults of one call that its error lists.
MAX_FAULTS = 20
RETRY_AFTER_S = 1.0
SDK = "mcp"
# Advice that names operations, in the names that a client of MCP knows.
ADVICE = {
    "records.list or records.search": "memory_read or memory_search",
    "records.history": "memory_history",
    "entries.list lists them": "memory_read with `memory` lists them",
}
# The built-in store of the facts.
FACT_STORE = "memories"
NOT_INSTALLED = f"the MCP server needs an extra package: {install_extra('mcp')}"


class ToolError(Exception):
    """A tool call failed. The text names the rule and the fix, so that a model can correct it."""


class NotAnswered(ToolError):
    """Nobody answered the call, or the owner is overloaded. The same call may succeed later."""


class Target(Protocol):
    """One pipeline, or one file, in which tools call operations.

    The client's key, the bus and the time limit are those of the connection.
    """

    @property
    def uid(self) -> str:
        """The pipeline; "" for a file."""

    def may_call(self, operation: str) -> bool:
        """Return whether the client's key has the access of an operation."""

    async def call(
        self,
        operation: str,
        input: JsonObject,
        *,
        store: str = "",
        idempotency_key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation and return its output as JSON values. `as_of` reads the state of a
        past time.

        Raises ToolError: the operation refused the call, the key lacks its access, or nobody
        answered in time.
        """


@dataclass(frozen=True, slots=True)
class Hints:
    """The annotations of a tool. No tool reaches outside the memory (`openWorldHint` is false).

    None leaves an annotation out of the list.
    """

    read_only: bool = False
    destructive: bool | None = False
    idempotent: bool | None = False


# Compared by identity, so that a tool with its schemas is a key of a cache.
@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool. The server validates the arguments against `input_schema` before it runs."""

    name: str
    title: str
    description: str
    input_schema: JsonObject
    # The schema of the value that `run` returns, an object.
    output_schema: JsonObject
    # A client sees the tool if its key may call at least one of them.
    operations: tuple[str, ...]
    hints: Hints
    run: Callable[[Target, JsonObject], Awaitable[JsonObject]]
    # The text of the result. By default the JSON of the value.
    to_text: Callable[[JsonObject], str] | None = None


def refuse(detail: str, faults: Iterable[str] = ()) -> ToolError:
    """Return the error of a call that broke a rule. `faults` are lines such as `/tags: ...`."""
    for given, shown in ADVICE.items():
        detail = detail.replace(given, shown)
    lines = list(faults)
    more = [f"and {len(lines) - MAX_FAULTS} more"] if len(lines) > MAX_FAULTS else []
    return ToolError("\n".join((detail, *lines[:MAX_FAULTS], *more)))


def check_written(output: Any) -> None:
    """Raise ToolError if a policy of the store has stopped the write of a call.

    The output fits the schema of no tool, so the model gets a text.
    """
    if read_stopped(output) is not None:
        raise ToolError(
            f"Not stored, and the call has no fault: {describe_stopped(output)}. Tell the user, "
            "and do not write it again."
        )


def retry_later(detail: str, after_s: float = RETRY_AFTER_S) -> ToolError:
    """Return the error of a call that may succeed later."""
    return NotAnswered(f"{detail.rstrip('.')}. Retry in {ceil(after_s)} s")


def bus_failure(error: BusError) -> ToolError:
    """Return the error of a call that the bus or the pipeline's owner did not answer."""
    if isinstance(error, BusBusy | NoOwner | NoAnswer):
        return retry_later(str(error))
    if isinstance(error, CallFailed):
        return refuse(f"the call failed, and would fail again: {error}")
    return retry_later(
        f"the bus does not answer: {error}. A change may have arrived; repeat it with the same "
        "idempotency_key"
    )


def describe_invalid(faults: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one line per fault of a validated input: its pointer, the rule and the fix."""
    return [
        f"{one['pointer']}: {one['rule']}"
        + (f" ({one['suggestion']})" if one.get("suggestion") else "")
        for one in faults
    ]


def describe_faults(faults: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one line per fault of an operation's answer."""
    return [f"{one['path']}: {one['message']}" for one in faults]
