"""The tool `memory_search`: finds records."""

from memrelay.web.mcp.tool import JsonObject, Target
from memrelay.web.mcp.tools.answer_size import (
    MARGIN,
    MAX_BYTES,
    fit_items,
    fit_record,
    size_of,
    without_empty,
)
from memrelay.web.mcp.tools.declaration import READS, Field, object_of, pick, tool
from memrelay.web.mcp.tools.memory_read import STORE

OPERATION = "records.search"
DEFAULT_MODE, DEFAULT_LIMIT = "hybrid", 10
NAMES = ("query", "mode", "kind", "scope", "tags", "filter", "limit", "explain")


@tool(
    title="Search records",
    operations=(OPERATION,),
    required=("query",),
    arguments={
        "query": Field(OPERATION, "query"),
        "mode": Field(OPERATION, "mode", DEFAULT_MODE),
        "kind": Field(OPERATION, "kind"),
        "scope": Field(OPERATION, "scope"),
        "tags": Field(OPERATION, "tags"),
        "filter": Field(OPERATION, "filter"),
        "limit": Field(OPERATION, "limit", DEFAULT_LIMIT),
        "explain": Field(OPERATION, "explain"),
        "store": STORE,
    },
    output=object_of({"items": "array", "left_out": "integer"}, "items"),
    hints=READS,
)
async def memory_search(target: Target, given: JsonObject) -> JsonObject:
    """Use it for notes, turns and documents."""
    wanted = {"mode": DEFAULT_MODE, "limit": DEFAULT_LIMIT} | pick(given, *NAMES)
    found = await target.call(OPERATION, wanted, store=given.get("store", ""))
    explanation = found.get("explanation")
    hits = [one | {"record": without_empty(one["record"])} for one in found["items"]]
    answer = {} if explanation is None else {"explanation": explanation}
    room = MAX_BYTES - MARGIN - size_of(answer)
    items = fit_items(hits, _cut, room=room)
    return {"items": items, "left_out": len(hits) - len(items)} | answer


def _cut(hit: JsonObject, room: int) -> JsonObject:
    return hit | {"record": fit_record(hit["record"], room=room)}
