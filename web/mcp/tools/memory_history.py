"""The tool `memory_history`: the earlier versions of a record."""

from memrelay.web.mcp.tool import Hints, JsonObject, Target, Tool


async def _run(target: Target, arguments: JsonObject) -> JsonObject:
    output: JsonObject = await target.call("records.history", arguments)
    return output


TOOL = Tool(
    name="memory_history",
    title="Show earlier versions",
    description="List all versions of a record, newest first, with the time and the actor of each.",
    input_schema={
        "type": "object",
        "properties": {
            "guid": {"type": "string", "description": "The guid of the record."},
            "limit": {"type": "integer", "description": "The maximum number of versions."},
            "cursor": {"type": "string", "description": "The `next_cursor` of the previous page."},
        },
        "required": ["guid"],
        "additionalProperties": False,
    },
    output_schema={"type": "object"},
    operations=("records.history",),
    hints=Hints(read_only=True, idempotent=True),
    run=_run,
)
