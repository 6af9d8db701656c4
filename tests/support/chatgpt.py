"""Exports of ChatGPT, in the structure that its web page writes."""

from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import orjson

BEGAN = 1_700_000_000.25  # Unix s


def node(
    ident: str, parent: str | None, *children: str, message: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A node of `mapping`."""
    return {"id": ident, "message": message, "parent": parent, "children": list(children)}


def message(ident: str, role: str, *parts: Any, **changes: Any) -> dict[str, Any]:
    """A message of a role with these parts."""
    kind = "text" if all(isinstance(part, str) for part in parts) else "multimodal_text"
    return {
        "id": ident,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": BEGAN,
        "update_time": None,
        "content": {"content_type": kind, "parts": list(parts)},
        "status": "finished_successfully",
        "end_turn": True,
        "weight": 1.0,
        "metadata": {"model_slug": "gpt-4o"} if role == "assistant" else {},
        "recipient": "all",
        "channel": None,
    } | changes


def said(ident: str, parent: str, role: str, text: str, *children: str) -> dict[str, Any]:
    """A node with a text message."""
    return node(ident, parent, *children, message=message(ident, role, text))


def chat(ident: str, nodes: list[dict[str, Any]], current: str, **changes: Any) -> dict[str, Any]:
    """A conversation of nodes."""
    return {
        "title": f"Chat {ident}",
        "create_time": BEGAN,
        "update_time": BEGAN,
        "mapping": {one["id"]: one for one in nodes},
        "moderation_results": [],
        "current_node": current,
        "conversation_id": ident,
        "default_model_slug": "gpt-4o",
        "id": ident,
    } | changes


def branched(ident: str = "trip") -> dict[str, Any]:
    """A conversation with an edited question: q1 a1, then q2 a2, or q3 a3, which is current."""
    nodes = [
        node("root", None, "sys"),
        node("sys", "root", "q1", message=message("sys", "system", "")),
        said("q1", "sys", "user", "Where is Oslo?", "a1"),
        said("a1", "q1", "assistant", "In Norway.", "q2", "q3"),
        said("q2", "a1", "user", "How big is it?", "a2"),
        said("a2", "q2", "assistant", "454 square kilometers."),
        said("q3", "a1", "user", "How old is it?", "a3"),
        said("a3", "q3", "assistant", "About 1,000 years."),
    ]
    return chat(ident, nodes, "a3")


def long_chat(number: int, turns: int, text: str) -> dict[str, Any]:
    """A conversation without branches."""
    names = [f"{number}-{place}" for place in range(turns)]
    nodes = [node("root", None, names[0])]
    for place, name in enumerate(names):
        parent = names[place - 1] if place else "root"
        role = ("user", "assistant")[place % 2]
        nodes.append(said(name, parent, role, f"{name} {text}", *names[place + 1 : place + 2]))
    return chat(f"chat-{number}", nodes, names[-1])


def write_chats(path: Path, *chats: Any) -> Path:
    """Write `conversations.json`, and return its path."""
    path.write_bytes(orjson.dumps(chats))
    return path


def write_zip(path: Path, entries: dict[str, bytes], compression: int = ZIP_STORED) -> Path:
    """Write a zip file with these entries, and return its path."""
    with ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path
