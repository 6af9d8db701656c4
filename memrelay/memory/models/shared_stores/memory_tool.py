"""The operations that run a call of an agent's memory tool: one for reads, one for changes."""

from collections.abc import Mapping
from typing import Any

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused
from memrelay.memory.models.shared_stores.tool.answer import ToolAnswer
from memrelay.memory.models.shared_stores.tool.arguments import is_read
from memrelay.memory.models.shared_stores.tool.file_texts import EDITED
from memrelay.memory.models.shared_stores.tool.run import ToolInput, run_tool
from memrelay.memory.models.shared_stores.tool.scopes import scope_of
from memrelay.memory.operations import CommandAccess, Context, operation


def find_scope(input: Mapping[str, Any]) -> str:
    """Return the scope that the command of a call needs, "" for an unknown command."""
    arguments = input.get("arguments")
    return scope_of(arguments) if isinstance(arguments, dict) else ""


def hide_text(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a change without the stored text around it."""
    value = output["value"]
    if not output["is_error"] and isinstance(value, str):
        first = value.partition("\n")[0]
        value = EDITED.partition(" Here is")[0] if value.startswith(EDITED) else first
    return {**output, "value": value}


# A key needs one of these scopes for the operation, and that of its command for the call.
READS = CommandAccess(("search", "read"), find_scope)
CHANGES = CommandAccess(("write", "delete"), find_scope, hide_text)


@operation("memory_tool.read", access="search", mutates=False, home="stores", commands=READS)
def read_by_tool(tx: Transaction, given: ToolInput, context: Context) -> ToolAnswer:
    """Run a call of the memory tool that views, lists or searches.

    An error of the command is an answer too.

    Raises Refused: when the call changes something.
    Raises VectorPending: when the vector of a query is not computed yet.
    """
    if not is_read(given.arguments, given.dialect):
        raise Refused("memory_tool.read changes nothing; call memory_tool.write for this command")
    return run_tool(tx, given, context)


@operation("memory_tool.write", access="write", mutates=True, home="stores", commands=CHANGES)
def write_by_tool(tx: Transaction, given: ToolInput, context: Context) -> ToolAnswer:
    """Run a call of the memory tool that writes, edits, moves, deletes or shares.

    An error of the command is an answer too.

    Raises Refused: when the call only reads.
    """
    if is_read(given.arguments, given.dialect):
        raise Refused("memory_tool.write does not read; call memory_tool.read for this command")
    return run_tool(tx, given, context)
