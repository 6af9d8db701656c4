"""instances.create: creates a key-value store, an event log or a graph."""

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import (
    InstanceView,
    NewInstance,
    create_instance,
    view_instance,
)
from memrelay.memory.sqlite.store import Transaction


@operation("instances.create", access="write", mutates=True, home="recipes")
def create(tx: Transaction, given: NewInstance, context: Context) -> InstanceView:
    """Create a key-value store, an event log or a graph.

    Raises NameTaken: when another instance of the sort has the name.
    Raises Refused: when a template is given for another sort than a graph.
    Raises RecordNotFound: when the template does not exist.
    """
    return view_instance(tx, create_instance(tx, given, context))
