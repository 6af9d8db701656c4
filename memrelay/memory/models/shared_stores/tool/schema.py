"""The JSON Schema of the memory tool (G3), for the tool list of a model."""

from typing import Any

from memrelay.memory.engine.identity import MAX_ID_CHARACTERS
from memrelay.memory.models.shared_stores.tool.arguments import MAX_KEY_CHARACTERS, SCOPES

DESCRIPTIONS = {
    "view": "read one entry by its key; without a key, list the entries of the store",
    "create": "write `content` under a key; an existing entry is overwritten",
    "edit": "replace `old_str`, which must occur exactly once in the entry, with `new_str`",
    "delete": "delete an entry",
    "rename": "move an entry to the key or path `new_str`",
    "search": "find entries in all accessible stores, or in one, that match `query`",
    "stores": "list the stores that you can access",
}


def tool_schema() -> dict[str, Any]:
    """Return the schema of the arguments.

    Share and unshare work too. They are not listed, because a text that a model reads could ask it
    to share a store.
    """
    lines = [f"- {name}: {text}." for name, text in DESCRIPTIONS.items()]
    properties = {
        "command": {
            "type": "string",
            "enum": list(DESCRIPTIONS),
            "description": "\n".join(["What to do:", *lines]),
        },
        **_address_properties(),
        "content": _text("The text to write, for create."),
        "old_str": _text("The text to replace, for edit."),
        "new_str": _text("The new text, for edit. The new key or path, for rename."),
        "query": _text("The question or words to find, for search."),
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }


def _address_properties() -> dict[str, Any]:
    return {
        "scope": {
            "type": "string",
            "enum": list(SCOPES),
            "description": "The store: your own (agent, the default), or that of the current user "
            "or chat.",
        },
        "store": {
            "type": "string",
            "maxLength": MAX_ID_CHARACTERS,
            "description": "The id of another store, as listed by stores. It wins over scope.",
        },
        "key": {
            "type": "string",
            "maxLength": MAX_KEY_CHARACTERS,
            "description": "The key of the entry, like `todo` or `people/ann`.",
        },
        "path": {
            "type": "string",
            "pattern": "^/memories(/.*)?$",
            "maxLength": 256,
            "description": "Deprecated: use scope or store, and key. "
            "/memories/KEY or /memories/shared/STORE/KEY, with %2F for a slash in STORE.",
        },
    }


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}
