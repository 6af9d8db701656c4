"""The tool `memory_forget`: deletes a record, or an entry of a named memory."""

from memrelay.web.mcp.tool import Hints, JsonObject, Target
from memrelay.web.mcp.tools.declaration import Field, object_of, pick, tool
from memrelay.web.mcp.tools.entry_ids import is_entry_id

RECORD, ENTRY = "records.delete", "entries.delete"


@tool(
    title="Forget",
    operations=(RECORD, ENTRY),
    required=("guid",),
    arguments={
        "guid": {"type": "string", "description": "The guid of a record, or the id of an entry."},
        "if_version": Field(RECORD, "if_version"),
        "reason": Field(RECORD, "reason"),
    },
    output=object_of({"deleted": "string"}, "deleted"),
    hints=Hints(destructive=True, idempotent=True),
)
async def memory_forget(target: Target, given: JsonObject) -> JsonObject:
    """memory_change can restore a record."""
    guid, others = given["guid"], pick(given, "if_version", "reason")
    if is_entry_id(guid):
        await target.call(ENTRY, {"id": guid} | others)
    else:
        await target.call(RECORD, {"guid": guid} | others)
    return {"deleted": guid}
