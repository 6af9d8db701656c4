"""Runs one call of the memory tool in a transaction. Errors are answers."""

from dataclasses import dataclass, field
from typing import Any, Literal

from memrelay.memory.engine.identity import Identity
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import BadValue, Denied, Refused, TooManyKeys, ValueTooLarge
from memrelay.memory.models.shared_stores.grants import Seconds
from memrelay.memory.models.shared_stores.tool import actions, commands, files
from memrelay.memory.models.shared_stores.tool.answer import ToolAnswer, ToolError, failure
from memrelay.memory.models.shared_stores.tool.arguments import (
    ToolCall,
    parse_call,
    unknown_command,
    verb_of,
)
from memrelay.memory.models.shared_stores.tool.entries import Entries
from memrelay.memory.operations import Context

Dialect = Literal["robutler", "anthropic"]
LIMIT_TEXTS: dict[type[Refused], str] = {
    ValueTooLarge: "Value too large",
    TooManyKeys: "Key limit reached for this store",
}


@dataclass(frozen=True, slots=True)
class ToolInput(Identity):
    """A call of the memory tool."""

    arguments: dict[str, Any] = field(default_factory=dict)
    """The arguments that the model gave."""
    dialect: Dialect = "robutler"
    """The tool that the model knows: `robutler`, or `anthropic` for memory_20250818."""
    default_ttl_s: Seconds = 0
    """Seconds until an entry expires that is created without `ttl`. 0: it keeps its end."""
    sharing: bool = True
    """Whether share and unshare work."""


def run_tool(tx: Transaction, given: ToolInput, context: Context) -> ToolAnswer:
    """Run a call and return its answer, also for an error.

    Raises VectorPending: when the vector of a query is not computed yet.
    """
    entries = Entries(tx, given, context, given.default_ttl_s)
    try:
        if given.dialect == "anthropic":
            return ToolAnswer(_run_on_files(entries, given))
        return ToolAnswer(_run(entries, given))
    except ToolError as error:
        text = str(error)
        return ToolAnswer(text if given.dialect == "anthropic" else {"error": text}, is_error=True)


def _run(entries: Entries, given: ToolInput) -> Any:
    call = parse_call(given.arguments, given, sharing=given.sharing)
    handlers = actions.HANDLERS if call.is_action else commands.HANDLERS
    try:
        return handlers[call.command](entries, call)
    except Refused as refused:
        raise _error_of(call, refused) from refused


def _error_of(call: ToolCall, refused: Refused) -> ToolError:
    """Return the error of a call that an operation refused."""
    if isinstance(refused, Denied):
        denied = actions.DENIED if call.is_action else commands.DENIED_TEXTS.get(call.command, "")
        return ToolError(denied) if denied else failure(verb_of(call), refused)
    if isinstance(refused, BadValue):
        return ToolError(str(refused))
    text = LIMIT_TEXTS.get(type(refused), "") if call.command in ("create", "set") else ""
    return ToolError(text) if text else failure(verb_of(call), refused)


def _run_on_files(entries: Entries, given: ToolInput) -> str:
    command = given.arguments.get("command")
    handler = files.HANDLERS.get(command) if isinstance(command, str) else None
    if handler is None:
        raise unknown_command("" if command is None else str(command), [*files.HANDLERS])
    try:
        return handler(entries, given.arguments)
    except Denied as denied:
        raise ToolError(files.DENIED) from denied
    except Refused as refused:
        text = LIMIT_TEXTS.get(type(refused), "")
        raise ToolError(text) if text else failure(str(command), refused) from refused
