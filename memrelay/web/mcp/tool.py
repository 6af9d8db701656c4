"""The contract of tools: their declaration, and the calls that they make.

Nothing here imports the SDK, so a tool can be declared and tested without it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

JsonObject = dict[str, Any]


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
        self, operation: str, given: JsonObject, *, store: str = "", idempotency_key: str = ""
    ) -> Any:
        """Call an operation and return its output as JSON values.

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


@dataclass(frozen=True, slots=True)
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
