"""Objects that are records of the home `recipes`: recipes, rule engines and templates.

The key of the record is the id, and its content the object as JSON. It has no scope.
"""

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import NameTaken, RecordNotFound
from memrelay.memory.models.recipes import (
    GRAPH_TEMPLATE_KIND,
    RECIPE_KIND,
    RULE_ENGINE_KIND,
    VIEW_TEMPLATE_KIND,
)
from memrelay.memory.models.recipes.records import RecipeRecords
from memrelay.memory.operations import Context

SCOPE = ""
# The noun of each kind, and that of its operations.
NOUNS = {
    RECIPE_KIND: ("recipe", "recipes"),
    RULE_ENGINE_KIND: ("rule engine", "rules"),
    GRAPH_TEMPLATE_KIND: ("graph template", "graph_templates"),
    VIEW_TEMPLATE_KIND: ("view template", "view_templates"),
}


def find_object(table: RecipeRecords, id_: str) -> StoredRecord:
    """Return a stored object. Raises RecordNotFound."""
    found = table.find(SCOPE, id_)
    if found is None:
        noun, operations = NOUNS[table.kind]
        raise RecordNotFound(f"no {noun} has the id {id_[:64]!r}; {operations}.list lists them")
    return found


def add_object(
    table: RecipeRecords, id_: str, content: str, context: Context, guid: str = ""
) -> State:
    """Store a new object. `guid` is that of its record, by default a new one. Raises NameTaken."""
    if table.find_to_write(SCOPE, id_) is not None:
        noun, _ = NOUNS[table.kind]
        raise NameTaken(f"a {noun} has the id {id_!r}; use another id, or update that {noun}")
    state = new_state(guid or context.new_guid(), table.kind, context.now_ms, context.actor)
    return table.insert(state._replace(scope=SCOPE, key=id_, content=content))
