"""instances.update: changes the name or the description of an instance."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.sources.instances import (
    Description,
    InstanceName,
    InstanceView,
    Sort,
    find_instance,
    id_of,
    refuse_taken,
    view_instance,
)
from memrelay.memory.records.data import as_text, kept_data
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class UpdateInstance:
    """The instance to change. Fields that are not set stay unchanged."""

    sort: Sort
    """The sort: kv, events or graph."""
    id: InstanceName
    """The id or the name."""
    name: InstanceName | None = None
    """The new name. The id never changes."""
    description: Description | None = None
    """The new description."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the instance has one of these versions."""


@operation("instances.update", access="write", mutates=True, home="recipes")
def update(tx: Transaction, change: UpdateInstance, context: Context) -> InstanceView:
    """Change the name or the description of an instance.

    Raises RecordNotFound: when it does not exist.
    Raises NameTaken: when another instance of the sort has the name.
    Raises VersionConflict: when it has another version.
    """
    place = find_instance(tx, change.sort, change.id)
    before = place.whole
    check_version(before.record, before.further, change.if_version)
    data = kept_data(before.record, before.further)
    if change.description is not None:
        data = data | {"description": change.description}
    name = before.content if change.name is None else change.name
    refuse_taken(tx, change.sort, name, id_of(place))
    after = before._replace(content=name, data=as_text(data))
    if after != before:
        after = tx.recipes.instances.change(place, after)
    return view_instance(tx, after)
