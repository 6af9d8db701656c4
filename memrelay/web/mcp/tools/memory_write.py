"""The tool `memory_write`: creates a record, or appends to one."""

from memrelay.web.mcp.tool import Hints, JsonObject, Target
from memrelay.web.mcp.tools.declaration import (
    Field,
    object_of,
    pick,
    refuse_extra,
    tool,
)

CREATE, APPEND = "records.create", "records.append"
NEW_NAMES = ("content", "kind", "tags", "key", "owner", "thread", "data", "expires_at")
APPEND_NAMES = ("content", "append_to", "idempotency_key")
IDEMPOTENCY_KEY: JsonObject = {
    "type": "string",
    "description": "A repeated call returns the first answer.",
}


@tool(
    title="Write a record",
    operations=(CREATE, APPEND),
    required=("content",),
    arguments={
        **{name: Field(CREATE, name) for name in NEW_NAMES},
        "append_to": {"type": "string", "description": "The guid of the record to append to."},
        "idempotency_key": IDEMPOTENCY_KEY,
    },
    output=object_of({"guid": "string", "created": "boolean"}, "guid"),
    hints=Hints(),
)
async def memory_write(target: Target, given: JsonObject) -> JsonObject:
    """For a fact, use memory_remember."""
    key = given.get("idempotency_key", "")
    if "append_to" in given:
        refuse_extra(given, APPEND_NAMES, "`append_to` only appends text")
        addition = {"guid": given["append_to"], "content": given["content"]}
        grown: JsonObject = await target.call(APPEND, addition, idempotency_key=key)
        return grown
    record = await target.call(CREATE, pick(given, *NEW_NAMES), idempotency_key=key)
    return {"guid": record["guid"], "created": True, "version": record["version"]}
