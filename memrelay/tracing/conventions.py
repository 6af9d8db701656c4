"""Names of spans and attributes: the semantic conventions for messaging and gen_ai.memory.

The conventions for memory are not final, so their names stand only here.
"""

from typing import Any

import orjson

SYSTEM = "messaging.system"
OPERATION_TYPE = "messaging.operation.type"
OPERATION_NAME = "messaging.operation.name"
DESTINATION = "messaging.destination.name"
MESSAGE_ID = "messaging.message.id"
BATCH_COUNT = "messaging.batch.message_count"
MEMORY_OPERATION = "gen_ai.operation.name"
STORE = "gen_ai.memory.store.id"
QUERY = "gen_ai.memory.query.text"
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
PIPELINE = "memrelay.pipeline"
AGENT = "memrelay.agent"
BLOCK = "memrelay.block"
OPERATION = "memrelay.operation"
STORES = "memrelay.stores"
# The end of a failed input: one of these values.
FAILURE = "memrelay.failure"
RETRY, DEAD_LETTER = "retry", "dead_letter"
SYSTEM_NAME = "memrelay"

CREATE, UPDATE, UPSERT = "create_memory", "update_memory", "upsert_memory"
DELETE, SEARCH = "delete_memory", "search_memory"
# By block.
BLOCKS = {
    "memory_write": CREATE,
    "memory_entry_write": UPSERT,
    "memory_append": UPDATE,
    "memory_delete": DELETE,
    "memory_read": SEARCH,
    "memory_search": SEARCH,
    "knowledge_search": SEARCH,
    "recall": SEARCH,
    "remember": UPSERT,
}
# Operations that act on a store as a whole.
STORE_OPERATIONS = {
    "memories.create": "create_memory_store",
    "memories.delete": "delete_memory_store",
}
# By the verb of another operation.
VERBS = {
    "create": CREATE,
    "add": CREATE,
    "append": UPDATE,
    "update": UPDATE,
    "edit": UPDATE,
    "put": UPSERT,
    "set": UPSERT,
    "import": UPSERT,
    "delete": DELETE,
    "delete_many": DELETE,
    "remove": DELETE,
    "erase": DELETE,
    "search": SEARCH,
    "recall": SEARCH,
    "find": SEARCH,
    "query": SEARCH,
    "match": SEARCH,
    "list": SEARCH,
    "get": SEARCH,
}
# Nouns whose objects are not memories: recipes and rights, for example.
OTHER_NOUNS = ("changes", "contexts", "grants", "instances", "recipes", "rules", "stores")


def find_memory_operation(operation: str) -> str:
    """Return the gen_ai operation of an operation such as `records.search`, "" if it has none."""
    noun, _, verb = operation.partition(".")
    if noun in OTHER_NOUNS or noun.endswith(("templates", "views")):
        return ""
    return STORE_OPERATIONS.get(operation) or VERBS.get(verb, "")


def describe_operation(operation: str, store: str, pipeline: str) -> dict[str, str]:
    """Return the attributes of an operation's span."""
    attributes = {OPERATION: operation, PIPELINE: pipeline} | ({STORE: store} if store else {})
    if memory_operation := find_memory_operation(operation):
        attributes[MEMORY_OPERATION] = memory_operation
    return attributes


def describe_message(operation: str, destination: str, pipeline: str) -> dict[str, str]:
    """Return the attributes of a producer's or consumer's span: `send` or `process`."""
    return {
        SYSTEM: SYSTEM_NAME,
        OPERATION_TYPE: operation,
        OPERATION_NAME: operation,
        DESTINATION: destination,
        PIPELINE: pipeline,
    }


def find_query(data: bytes) -> str:
    """Return the text that the input of an operation searches, "" if it has none."""
    try:
        given = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ""
    query = given.get("query") if isinstance(given, dict) else None
    return query if isinstance(query, str) else ""


def format_messages(role: str, text: str) -> str:
    """Return one message as JSON, in the form of gen_ai.input.messages."""
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    return orjson.dumps([message]).decode()
