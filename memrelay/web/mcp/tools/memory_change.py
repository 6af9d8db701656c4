"""The tool `memory_change`: changes a record, or restores an earlier state."""

from memrelay.web.mcp.tool import Hints, JsonObject, Target, ToolError
from memrelay.web.mcp.tools.answer_size import fit_record, without_empty
from memrelay.web.mcp.tools.declaration import (
    Field,
    object_of,
    pick,
    refuse_extra,
    tool,
)
from memrelay.web.mcp.tools.entry_ids import refuse_entry_id

UPDATE, RESTORE = "records.update", "records.restore"
CHANGES = ("content", "kind", "tags", "data", "expires_at")
COMMON = ("guid", "if_version", "reason")


@tool(
    title="Change a record",
    operations=(UPDATE, RESTORE),
    required=("guid",),
    arguments={
        "guid": Field(UPDATE, "guid"),
        **{name: Field(UPDATE, name) for name in CHANGES},
        "restore": {
            "type": "integer",
            "minimum": 0,
            "description": "The number of a state in memory_history; 0 undoes a deletion.",
        },
        "if_version": Field(UPDATE, "if_version"),
        "reason": Field(UPDATE, "reason"),
    },
    output=object_of({"guid": "string", "version": "string"}, "guid", "version"),
    hints=Hints(destructive=True),
)
async def memory_change(target: Target, given: JsonObject) -> JsonObject:
    """Returns the record."""
    refuse_entry_id(given["guid"])
    wanted = pick(given, *COMMON)
    if "restore" in given:
        refuse_extra(given, (*COMMON, "restore"), "`restore` makes no other change")
        number = {"number": given["restore"]} if given["restore"] else {}
        record = await target.call(RESTORE, wanted | number)
    elif changes := pick(given, *CHANGES):
        record = await target.call(UPDATE, wanted | changes)
    else:
        raise ToolError(
            f"nothing to change: give one of {', '.join(f'`{name}`' for name in CHANGES)}, or "
            "`restore`"
        )
    return fit_record(without_empty(record))
