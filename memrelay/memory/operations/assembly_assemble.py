"""assembly.assemble: runs recipes and combines their items into a context."""

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.assembly.assemble import Assembly
from memrelay.memory.recipes.assembly.assemble import assemble as start_assembly
from memrelay.memory.recipes.assembly.request import AssemblyRequest, read_request
from memrelay.memory.sqlite.store import Transaction


@operation("assembly.assemble", access="search", mutates=False, home="recipes", stepwise=True)
def assemble(tx: Transaction, wanted: AssemblyRequest, context: Context) -> Assembly:
    """Run the given recipes and those that rules add, and combine their items into a context.

    Raises InvalidInput: with every fault of the request.
    Raises ResultTooLarge: when the context does not fit into an answer.
    """
    return start_assembly(tx, read_request(tx, wanted), context)
