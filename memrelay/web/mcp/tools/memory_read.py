"""The tool `memory_read`: reads one record, or lists records."""

from memrelay.web.mcp.tool import JsonObject, Target
from memrelay.web.mcp.tools.answer_size import fit_items, fit_record, without_empty
from memrelay.web.mcp.tools.declaration import (
    READS,
    Field,
    object_of,
    pick,
    refuse_extra,
    tool,
)
from memrelay.web.mcp.tools.entry_ids import refuse_entry_id

GET, LIST = "records.get", "records.list"
DEFAULT_LIMIT = 20
STORE: JsonObject = {"type": "string", "description": "By default the first store."}
OFFSET: JsonObject = {
    "type": "integer",
    "minimum": 0,
    "description": "With guid: the first character.",
}
LIST_NAMES = ("kind", "scope", "tags", "filter", "order", "limit", "cursor", "deleted")


@tool(
    title="Read records",
    operations=(GET, LIST),
    required=(),
    arguments={
        "guid": Field(GET, "guid"),
        "kind": Field(LIST, "kind"),
        "scope": Field(LIST, "scope"),
        "tags": Field(LIST, "tags"),
        "filter": {"type": "object", "description": "As in memory_search."},
        "order": Field(LIST, "order"),
        "limit": Field(LIST, "limit", DEFAULT_LIMIT),
        "cursor": Field(LIST, "cursor"),
        "deleted": Field(LIST, "deleted"),
        "offset": OFFSET,
        "store": STORE,
    },
    output=object_of(
        {"content": "string", "next_offset": "integer", "items": "array", "next_cursor": "string"}
    ),
    hints=READS,
)
async def memory_read(target: Target, given: JsonObject) -> JsonObject:
    """Without `guid` it lists."""
    if "guid" in given:
        return await _read_one(target, given)
    refuse_extra(given, (*LIST_NAMES, "store"), "a list has no part of a text")
    return await _list(target, given)


async def _read_one(target: Target, given: JsonObject) -> JsonObject:
    refuse_extra(given, ("guid", "offset", "store"), "`guid` selects one record")
    refuse_entry_id(given["guid"])
    record = await target.call(GET, pick(given, "guid"), store=given.get("store", ""))
    return fit_record(without_empty(record), given.get("offset", 0))


async def _list(target: Target, given: JsonObject) -> JsonObject:
    """Return a page. If it is too large, ask again for the records that fit, to get the cursor."""
    wanted = {"limit": DEFAULT_LIMIT} | pick(given, *LIST_NAMES)
    while True:
        page = await target.call(LIST, wanted, store=given.get("store", ""))
        views = [without_empty(view) for view in page["items"]]
        items = fit_items(views, lambda view, room: fit_record(view, room=room))
        if len(items) == len(views):
            return without_empty({"next_cursor": page["next_cursor"]}) | {
                "items": items,
                "total": page["total"],
            }
        wanted["limit"] = len(items)
