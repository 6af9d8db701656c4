"""Write the fixtures of Redis agent-memory-server with the models of its own client.

Run it in an environment with `agent-memory-client==0.14.0`: `python redis_ams.py FOLDER`.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent_memory_client.models import (
    MemoryMessage,
    MemoryRecordResult,
    MemoryRecordResults,
    WorkingMemoryResponse,
)

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
# Fields that the server sends and the model of the client ignores.
OF_THE_SERVER = {"access_count": 0, "extraction_strategy": "discrete"}


def write(folder: Path) -> None:
    """Write the answer of a long-term search and a working memory."""
    found = [
        memory(0, "Ada prefers metric units.", topics=["preferences"], entities=["Ada"]),
        memory(1, "Ada visited Kyōto in spring 🌸.", "episodic", event_date=START),
        memory(2, "Which train goes to Kyōto?", "message", session_id="trip-1"),
        memory(3, "The API allows 100 requests per minute.", user_id=None, namespace="docs"),
        memory(4, "Ada is allergic to peanuts.", user_id="ada"),
    ]
    results = MemoryRecordResults(memories=found, total=len(found), next_offset=None)
    answer = results.model_dump(mode="json")
    for number, one in enumerate(answer["memories"]):
        one |= {"pinned": number == 4} | OF_THE_SERVER
    dump(folder / "redis_ams_search.json", answer)
    messages = [
        MemoryMessage(id="01HZ0", role="user", content="Which train?", created_at=START),
        MemoryMessage(
            id="01HZ1",
            role="assistant",
            content="The Nozomi.",
            created_at=START + timedelta(seconds=2),
        ),
    ]
    working = WorkingMemoryResponse(
        session_id="trip-2",
        user_id="ada",
        namespace="travel",
        messages=messages,
        memories=[memory(5, "Ada travels by train.", session_id="trip-2")],
        context="Ada plans a trip.",
        data={"budget": 900},
        last_accessed=START,
    )
    dump(folder / "redis_ams_working.json", working.model_dump(mode="json"))


def memory(number: int, text: str, kind: str = "semantic", **given: Any) -> MemoryRecordResult:
    """Return a memory of the user `ada`, created `number` days after START."""
    at = START + timedelta(days=number)
    fields = {"user_id": "ada", "namespace": "travel"} | given
    return MemoryRecordResult(
        id=f"01J00{number}",
        text=text,
        memory_type=kind,
        created_at=at,
        updated_at=at,
        last_accessed=at,
        persisted_at=at,
        dist=0.25,
        **fields,
    )


def dump(path: Path, document: Any) -> None:
    """Write indented JSON."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
