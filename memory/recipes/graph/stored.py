"""Records whose content is a JSON object: the templates of graphs and of views."""

from typing import Any

import orjson

from memrelay.memory.agents.keyed_table import new_state
from memrelay.memory.errors import NameTaken, RecordNotFound, ValueTooLarge
from memrelay.memory.operation import Context
from memrelay.memory.recipes.records import RecipeRecords
from memrelay.memory.records.data import load_json
from memrelay.memory.sqlite.versions import State, StoredRecord

MAX_BYTES = 256 << 10
# Objects of a list.
MOST = 1000


def create_object(table: RecipeRecords, id_: str, value: dict[str, Any], context: Context) -> State:
    """Store a new object. An id of "" gets a generated one. Raises NameTaken, ValueTooLarge."""
    guid = context.new_guid()
    id_ = id_ or guid
    if table.find_to_write("", id_) is not None:
        raise NameTaken(f"the id {id_!r} is taken; use another one, or update the existing object")
    state = new_state(guid, table.kind, context.now_ms, context.actor)
    return table.insert(state._replace(key=id_, content=_text(value)))


def find_object(table: RecipeRecords, id_: str, noun: str) -> StoredRecord:
    """Return a stored object. Raises RecordNotFound. `noun` names it: "view template"."""
    place = table.find("", id_)
    if place is None:
        raise RecordNotFound(f"no {noun} has the id {id_!r}; list them to see the ids")
    return place


def change_object(table: RecipeRecords, place: StoredRecord, value: dict[str, Any]) -> State:
    """Replace a stored object. An equal one changes nothing. Raises ValueTooLarge."""
    after = place.whole._replace(content=_text(value))
    return place.whole if after == place.whole else table.change(place, after)


def list_objects(table: RecipeRecords) -> list[State]:
    """Return up to 1,000 stored objects, the newest first."""
    states = [place.whole for place in table.page("", "", MOST)]
    return sorted(states, key=lambda state: state.created_at, reverse=True)


def object_of(state: State) -> dict[str, Any]:
    """Return the stored object. Raises RecordDamaged."""
    value: dict[str, Any] = load_json(state.content, state.guid)
    return value


def _text(value: dict[str, Any]) -> str:
    text = orjson.dumps(value).decode()
    if len(text.encode()) > MAX_BYTES:
        raise ValueTooLarge(f"a template has at most {MAX_BYTES} bytes as JSON; shorten it")
    return text
