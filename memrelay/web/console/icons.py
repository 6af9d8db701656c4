"""The marks of static/icons.svg for kinds of records, blocks, states and actions."""

import re
from pathlib import Path

SPRITE = Path(__file__).resolve().parent / "static" / "icons.svg"
MARKS = frozenset(re.findall(r'<symbol id="([a-z]+)"', SPRITE.read_text()))
NEUTRAL = "other"
ALIASES = {
    # Kinds of records, by the last word of their name.
    "observation": "note",
    "memory": "note",
    "user": "person",
    "people": "person",
    "step": "procedure",
    "checkpoint": "clock",
    "definition": "recall",
    "recipe": "recall",
    "node": "entity",
    "relation": "entity",
    "decision": "fact",
    "preference": "fact",
    "archived": "turn",
    "message": "chat",
    # Groups of blocks.
    "own": "block",
    # States.
    "waiting": "clock",
    "done": "check",
    "delivered": "check",
    "passed": "check",
    "deleted": "erase",
}
BLOCKS = {
    "relay": ("add_1", "agent", "chat_agent", "identify_user", "regex_filter", "viewer_agent"),
    "memory": (
        "memory_append",
        "memory_delete",
        "memory_entry_write",
        "memory_tool",
        "memory_turn",
        "memory_write",
        "remember",
        "consolidate",
    ),
    "recall": ("knowledge_search", "memory_read", "memory_search", "recall", "recipe"),
    "model": ("extract", "summarize"),
    "transform": ("json_map", "json_match", "regex_match", "template"),
    "send": ("http_request", "webhook_send"),
}
GROUP_OF_BLOCK = {block: group for group, blocks in BLOCKS.items() for block in blocks}


STATES = {
    "running": ("running", "active"),
    "waiting": ("waiting", "pending", "unread"),
    "paused": ("paused", "expired", "off", "missing"),
    "failed": ("failed", "error", "refused", "revoked"),
    "done": ("done", "delivered", "passed", "valid", "accepted", "complete", "repeated"),
}
STATE_OF_WORD = {word: state for state, words in STATES.items() for word in words}


def find_state(word: str) -> str:
    """Return running, waiting, paused, failed or done for a state of any page, "" for others."""
    return STATE_OF_WORD.get(word, "")


def find_icon(name: str) -> str:
    """Return the mark of a kind, block, state or action, "other" if it is unknown.

    A kind such as `memory.fact` has the mark of its last word.
    """
    name = GROUP_OF_BLOCK.get(name, name).rpartition(".")[2].lower()
    name = ALIASES.get(name, name)
    return name if name in MARKS else NEUTRAL
