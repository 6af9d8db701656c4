"""Distinguish ids of entries from guids of records."""

from memrelay.memory.records.ids import uid_of
from memrelay.web.mcp.tool import ToolError


def is_entry_id(given: str) -> bool:
    """Return whether a text is the id of an entry of a named memory."""
    return bool(uid_of("me", given))


def refuse_entry_id(given: str) -> None:
    """Raise ToolError for the id of an entry, where the guid of a record is needed."""
    if is_entry_id(given):
        raise ToolError(
            f"{given} is the id of a remembered fact and not the guid of a record; "
            "memory_recall reads facts, memory_remember changes them, and memory_forget deletes "
            "them"
        )
