"""Write the fixture of mem0 with its own `get_all`.

Run it in an environment with `mem0ai==2.2.1`: `python -P mem0.py FOLDER`. The imports of `mem0`
need this folder off `sys.path`.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mem0.memory.main import Memory

STORED = [
    {"data": "Ada prefers email.", "user_id": "ada", "run_id": "chat-1", "topic": "contact"},
    {"data": "Ada lives in Zürich 🏔.", "user_id": "ada", "actor_id": "ada", "role": "user"},
    {"data": "Ben owns a boat.", "user_id": "ben", "expiration_date": "2199-12-31"},
    {"data": "The build takes 4 minutes.", "agent_id": "ci"},
    {"data": "The session is about taxes.", "run_id": "chat-2"},
]


class VectorStore:
    """Returns the stored payloads, as the vector stores of mem0 do."""

    def list(self, **_: Any) -> list[list[SimpleNamespace]]:
        """Return one page."""
        return [[SimpleNamespace(id=ident(at), payload=payload(at)) for at in range(len(STORED))]]


def ident(number: int) -> str:
    """Return the id of a memory."""
    return f"00000000-0000-4000-8000-{number:012}"


def payload(number: int) -> dict[str, Any]:
    """Return a memory as the vector store has it."""
    created_at = f"2026-02-0{number + 1}T08:00:00.123456+00:00"
    return {"hash": f"{number:032x}", "created_at": created_at, **STORED[number]}


def write(folder: Path) -> None:
    """Write the answer of `get_all`."""
    memory: Any = SimpleNamespace(vector_store=VectorStore())
    results = Memory._get_all_from_vector_store(memory, {}, 100)
    text = json.dumps({"results": results}, indent=1, ensure_ascii=False)
    (folder / "mem0.json").write_text(f"{text}\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
