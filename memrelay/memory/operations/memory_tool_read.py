"""memory_tool.read: runs a call of an agent's memory tool that changes nothing."""

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.tool.answer import ToolAnswer
from memrelay.memory.tool.arguments import is_read
from memrelay.memory.tool.run import ToolInput, run_tool


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
