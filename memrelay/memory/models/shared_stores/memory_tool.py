"""Runs calls of the memory tool in a transaction. Errors are answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memrelay.memory.engine.identity import Identity
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import BadValue, Denied, PolicyStop, Refused, TooManyKeys, ValueTooLarge
from memrelay.memory.models.shared_stores.grants import Seconds
from memrelay.memory.models.shared_stores.tool import commands, files
from memrelay.memory.models.shared_stores.tool.arguments import (
    ToolAnswer,
    ToolCall,
    ToolError,
    failure,
    find_key_scope,
    is_read,
    name_verb,
    parse_call,
    unknown_command,
)
from memrelay.memory.models.shared_stores.tool.entries import Entries
from memrelay.memory.operations import CommandAccess, Context, operation

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


def find_scope(input: Mapping[str, Any]) -> str:
    """Return the scope that the command of a call needs, "" for an unknown command."""
    arguments = input.get("arguments")
    return find_key_scope(arguments) if isinstance(arguments, dict) else ""


def hide_text(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a change without the stored text around it."""
    value = output["value"]
    if not output["is_error"] and isinstance(value, str):
        first = value.partition("\n")[0]
        value = files.EDITED.partition(" Here is")[0] if value.startswith(files.EDITED) else first
    return {**output, "value": value}


# A key needs one of these scopes for the operation, and that of its command for the call.
READS = CommandAccess(("search", "read"), find_scope)
CHANGES = CommandAccess(("write", "delete"), find_scope, hide_text)


@operation("memory_tool.read", access="search", mutates=False, store="stores", commands=READS)
def read_by_tool(tx: Transaction, request: ToolInput, context: Context) -> ToolAnswer:
    """Run a call of the memory tool that views, lists or searches.

    An error of the command is an answer too.

    Raises Refused: when the call changes something.
    Raises VectorPending: when the vector of a query is not computed yet.
    """
    if not is_read(request.arguments, request.dialect):
        raise Refused("memory_tool.read changes nothing; call memory_tool.write for this command")
    return run_tool(tx, request, context)


@operation("memory_tool.write", access="write", mutates=True, store="stores", commands=CHANGES)
def write_by_tool(tx: Transaction, request: ToolInput, context: Context) -> ToolAnswer:
    """Run a call of the memory tool that writes, edits, moves, deletes or shares.

    An error of the command is an answer too.

    Raises Refused: when the call only reads.
    """
    if is_read(request.arguments, request.dialect):
        raise Refused("memory_tool.write does not read; call memory_tool.read for this command")
    return run_tool(tx, request, context)


def run_tool(tx: Transaction, request: ToolInput, context: Context) -> ToolAnswer:
    """Run a call and return its answer, also for an error.

    Raises VectorPending: when the vector of a query is not computed yet.
    """
    entries = Entries(tx, request, context, request.default_ttl_s)
    try:
        if request.dialect == "anthropic":
            return ToolAnswer(_run_on_files(entries, request))
        return ToolAnswer(_run(entries, request))
    except ToolError as error:
        text = str(error)
        return ToolAnswer(
            text if request.dialect == "anthropic" else {"error": text}, is_error=True
        )


def _run(entries: Entries, request: ToolInput) -> Any:
    call = parse_call(request.arguments, request, sharing=request.sharing)
    handlers = commands.ACTIONS if call.is_action else commands.HANDLERS
    try:
        return handlers[call.command](entries, call)
    except PolicyStop:
        raise  # the owner of the store settles it
    except Refused as refused:
        raise _make_error(call, refused) from refused


def _make_error(call: ToolCall, refused: Refused) -> ToolError:
    """Return the error of a call that an operation refused."""
    if isinstance(refused, Denied):
        if call.is_action:
            return ToolError(commands.ACTION_DENIED)
        denied = commands.DENIED_TEXTS.get(call.command, "")
        return ToolError(denied) if denied else failure(name_verb(call), refused)
    if isinstance(refused, BadValue):
        return ToolError(str(refused))
    text = LIMIT_TEXTS.get(type(refused), "") if call.command in ("create", "set") else ""
    return ToolError(text) if text else failure(name_verb(call), refused)


def _run_on_files(entries: Entries, request: ToolInput) -> str:
    command = request.arguments.get("command")
    handler = files.HANDLERS.get(command) if isinstance(command, str) else None
    if handler is None:
        raise unknown_command("" if command is None else str(command), [*files.HANDLERS])
    try:
        return handler(entries, request.arguments)
    except Denied as denied:
        raise ToolError(files.DENIED) from denied
    except PolicyStop:
        raise
    except Refused as refused:
        text = LIMIT_TEXTS.get(type(refused), "")
        raise ToolError(text) if text else failure(str(command), refused) from refused
