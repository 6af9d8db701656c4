"""The tool `memory_remember`: writes a fact to a named memory."""

from memrelay.web.mcp.tool import Hints, JsonObject, Target
from memrelay.web.mcp.tools.declaration import Field, object_of, pick, tool

OPERATION = "entries.create"
DEFAULT_MEMORY = "notes"
FIELDS = ("id", "memory_id", "action", "version", "score", "why")


@tool(
    title="Remember a fact",
    operations=(OPERATION,),
    required=("text",),
    arguments={
        "text": Field(OPERATION, "content"),
        "memory": Field(OPERATION, "memory", DEFAULT_MEMORY),
        "tags": Field(OPERATION, "tags"),
        "metadata": Field(OPERATION, "metadata"),
        "mode": Field(OPERATION, "mode"),
    },
    output=object_of({"id": "string", "action": "string"}, "id", "action"),
    hints=Hints(idempotent=True),
)
async def memory_remember(target: Target, given: JsonObject) -> JsonObject:
    """Use it for facts, preferences and decisions, one per call."""
    entry = pick(given, "tags", "metadata", "mode") | {
        "content": given["text"],
        "memory": given.get("memory") or DEFAULT_MEMORY,
        "source": "agent",
    }
    return pick(await target.call(OPERATION, entry), *FIELDS)
