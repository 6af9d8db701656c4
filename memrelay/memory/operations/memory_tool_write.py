"""memory_tool.write: runs a call of an agent's memory tool that changes something."""

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.tool.answer import ToolAnswer
from memrelay.memory.tool.arguments import is_read
from memrelay.memory.tool.run import ToolInput, run_tool


@operation("memory_tool.write", access="write", mutates=True, home="stores")
def write_by_tool(tx: Transaction, given: ToolInput, context: Context) -> ToolAnswer:
    """Run a call of the memory tool that writes, edits, moves, deletes or shares.

    An error of the command is an answer too.

    Raises Refused: when the call only reads.
    """
    if is_read(given.arguments, given.dialect):
        raise Refused("memory_tool.write does not read; call memory_tool.read for this command")
    return run_tool(tx, given, context)
