"""graph_templates.delete: deletes a template of graphs."""

from dataclasses import dataclass

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.graph.instances import users_of_template
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.objects import find_object
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteGraphTemplate:
    """The template to delete."""

    id: SearchId
    """The id of the template."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the template has one of these versions."""


@operation("graph_templates.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteGraphTemplate, context: Context) -> None:
    """Delete a template that no graph uses.

    Raises RecordNotFound: when the template does not exist.
    Raises VersionConflict: when the template has another version.
    Raises Refused: when a graph uses the template.
    """
    place = find_object(tx.recipes.graph_templates, target.id)
    check_version(place.whole.record, place.whole.further, target.if_version)
    uses = users_of_template(tx, target.id)
    if uses:
        raise Refused(f"the graphs {', '.join(uses[:5])} use the template; delete them first")
    tx.records.delete(place)
