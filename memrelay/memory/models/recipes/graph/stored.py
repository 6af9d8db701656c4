"""The templates of graphs and of views as stored objects."""

from typing import Any

import orjson

from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import ValueTooLarge
from memrelay.memory.models.recipes.objects import SCOPE, add_object
from memrelay.memory.models.recipes.records import RecipeRecords
from memrelay.memory.operations import Context
from memrelay.memory.records.data import load_json

MAX_BYTES = 256 << 10
# Templates of a list.
MOST = 1000


def create_template(
    table: RecipeRecords, id_: str, value: dict[str, Any], context: Context
) -> State:
    """Store a new template. An id of "" gets a generated one. Raises NameTaken, ValueTooLarge."""
    guid = context.new_guid()
    return add_object(table, id_ or guid, _text(value), context, guid)


def change_template(table: RecipeRecords, place: StoredRecord, value: dict[str, Any]) -> State:
    """Replace a stored template. An equal one changes nothing. Raises ValueTooLarge."""
    after = place.state._replace(content=_text(value))
    return place.state if after == place.state else table.change(place, after)


def stored_templates(table: RecipeRecords) -> list[State]:
    """Return up to 1,000 stored templates, the newest first."""
    states = [place.state for place in table.page(SCOPE, "", MOST)]
    return sorted(states, key=lambda state: state.created_at, reverse=True)


def object_of(state: State) -> dict[str, Any]:
    """Return the object of a stored template. Raises RecordDamaged."""
    value: dict[str, Any] = load_json(state.content, state.guid)
    return value


def _text(value: dict[str, Any]) -> str:
    text = orjson.dumps(value).decode()
    if len(text.encode()) > MAX_BYTES:
        raise ValueTooLarge(f"a template has at most {MAX_BYTES} bytes as JSON; shorten it")
    return text
