"""memory_tool.read: runs a call of an agent's memory tool that changes nothing."""

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused
from memrelay.memory.models.shared_stores.tool.answer import ToolAnswer
from memrelay.memory.models.shared_stores.tool.arguments import is_read
from memrelay.memory.models.shared_stores.tool.run import ToolInput, run_tool
from memrelay.memory.operations import Context, operation


@operation("memory_tool.read", access="search", mutates=False, home="stores")
def read_by_tool(tx: Transaction, given: ToolInput, context: Context) -> ToolAnswer:
    """Run a call of the memory tool that views, lists or searches.

    An error of the command is an answer too.

    Raises Refused: when the call changes something.
    Raises VectorPending: when the vector of a query is not computed yet.
    """
    if not is_read(given.arguments, given.dialect):
        raise Refused("memory_tool.read changes nothing; call memory_tool.write for this command")
    return run_tool(tx, given, context)


@operation("memory_tool.write", access="write", mutates=True, home="stores")
def write_by_tool(tx: Transaction, given: ToolInput, context: Context) -> ToolAnswer:
    """Run a call of the memory tool that writes, edits, moves, deletes or shares.

    An error of the command is an answer too.

    Raises Refused: when the call only reads.
    """
    if is_read(given.arguments, given.dialect):
        raise Refused("memory_tool.write does not read; call memory_tool.read for this command")
    return run_tool(tx, given, context)
