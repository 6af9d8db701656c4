"""instances.get: reads an instance with its counts."""

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import (
    InstanceTarget,
    InstanceView,
    find_instance,
    view_instance,
)
from memrelay.memory.sqlite.store import Transaction


@operation("instances.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: InstanceTarget, context: Context) -> InstanceView:
    """Return an instance with its counts.

    Raises RecordNotFound: when it does not exist.
    """
    return view_instance(tx, find_instance(tx, wanted.sort, wanted.id).whole)
