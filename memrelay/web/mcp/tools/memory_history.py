"""The tool `memory_history`: lists the states of a record."""

from memrelay.web.mcp.tool import JsonObject, Target
from memrelay.web.mcp.tools.answer_size import fit_items, fit_record, without_empty
from memrelay.web.mcp.tools.declaration import (
    READS,
    Field,
    object_of,
    pick,
    tool,
)
from memrelay.web.mcp.tools.entry_ids import refuse_entry_id

OPERATION = "records.history"


@tool(
    title="Read history",
    operations=(OPERATION,),
    required=("guid",),
    arguments={name: Field(OPERATION, name) for name in ("guid", "limit", "cursor")},
    output=object_of({"items": "array", "next_cursor": "string"}, "items"),
    hints=READS,
)
async def memory_history(target: Target, given: JsonObject) -> JsonObject:
    """Use it to see who did what, and why."""
    refuse_entry_id(given["guid"])
    page = await target.call(OPERATION, pick(given, "guid", "limit", "cursor"))
    states = [_short(state) for state in page["items"]]
    items = fit_items(states, _cut)
    cursor = page["next_cursor"] if len(items) == len(states) else str(items[-1]["number"])
    return without_empty({"next_cursor": cursor}) | {"items": items, "total": page["total"]}


def _short(state: JsonObject) -> JsonObject:
    record = {} if state["record"] is None else {"record": without_empty(state["record"])}
    return without_empty(state) | record


def _cut(state: JsonObject, room: int) -> JsonObject:
    if "record" not in state:
        return state
    record = fit_record(state["record"], room=room)
    if "change" in state and "to_continue" in record:
        number = state["number"]
        record["to_continue"] = f"memory_change with restore {number} brings back the whole text"
    return state | {"record": record}
