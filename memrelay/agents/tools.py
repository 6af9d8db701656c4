"""The tools that an agent may have. Each call is an operation with an idempotency key, so it
applies once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from memrelay.agents.fact_tools import make_recall, make_remember
from memrelay.agents.request import Knowledge, TurnRequest
from memrelay.agents.tool import Arguments, Operate, Tool, ToolFault
from memrelay.blocks.async_call import OperationFailed
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS
from memrelay.memory.models.named_memories.knowledge import MOST_CHARACTERS

Json = dict[str, Any]
MAX_RECORDS = 10
MAX_CONTENT = 4_000  # characters of a found text
NOT_FOUND = "not_found"


class SearchArguments(Arguments):
    """A search."""

    query: str
    """Words or a question."""


class MemoryArguments(Arguments):
    """A fact."""

    content: str
    """The atomic fact to write to the memory"""


def make_tools(request: TurnRequest, operate: Operate, execution: str) -> dict[str, Tool]:
    """Return the tools of an agent by name. `execution` is the id of the turn."""
    make: dict[str, Callable[[TurnRequest, Operate], Tool]] = {
        "recall": make_recall,
        "remember": partial(make_remember, execution=execution),
        "records_search": _records_search,
        "knowledge_search": _knowledge_search,
    }
    tools = {name: make[name](request, operate) for name in request.options.tools}
    if target := request.options.knowledge.write_memory_id:
        tools["write_memory"] = _write_memory(target, operate)
    return tools


def _records_search(request: TurnRequest, operate: Operate) -> Tool:
    async def run(given: SearchArguments, key: str) -> str:
        wanted = {"query": given.query, "limit": MAX_RECORDS, "mode": "hybrid"}
        found = await operate("records.search", wanted, store=request.store, key=key)
        records = [hit["record"] for hit in found["items"]]
        fields = ("content", "kind", "source", "created_at")
        return _as_text([{name: _short(one[name]) for name in fields} for one in records])

    about = "Search the stored records by words and meaning. Returns the best ones first."
    return Tool("records_search", about, SearchArguments, run)


def _knowledge_search(request: TurnRequest, operate: Operate) -> Tool:
    known = request.options.knowledge

    async def run(given: SearchArguments, key: str) -> str:
        wanted: Json = {"query": given.query, "limit": MAX_RECORDS}
        if known.is_read:
            wanted |= _select_memories(known)
        found = await operate("knowledge.search", wanted, key=key)
        return _as_text(
            [
                {"memory": one["memory_name"], "content": _short(one["content"])}
                for one in found["results"]
            ]
        )

    about = "Search the named memories by words and meaning. Returns the best entries first."
    return Tool("knowledge_search", about, SearchArguments, run)


def _write_memory(memory_id: str, operate: Operate) -> Tool:
    async def run(given: MemoryArguments, key: str) -> str:
        if not given.content.strip():
            raise ToolFault("content is required")
        if len(given.content) > MAX_ENTRY_CHARACTERS:
            raise ToolFault(f"an entry has at most {MAX_ENTRY_CHARACTERS} characters")
        entry = {"memory_id": memory_id, "content": given.content, "source": "agent"}
        try:
            written = await operate("entries.create", entry, key=key)
        except OperationFailed as error:
            if error.code == NOT_FOUND:
                raise ToolFault(f"Memory {memory_id} not found") from error
            raise
        return _as_text({"action": written["action"], "entryId": written["id"]})

    about = "Write a fact to the memory, so that it is known in later conversations."
    return Tool("write_memory", about, MemoryArguments, run)


async def find_knowledge(knowledge: Knowledge, question: str, operate: Operate) -> str:
    """Return what named memories contain about a question, as fenced text; "" for nothing.

    Raises OperationFailed.
    """
    if not knowledge.is_read or not question.strip():
        return ""
    query: Json = {
        "query": question[:MOST_CHARACTERS],
        "min_score": knowledge.min_score,
        "limit": knowledge.limit,
        "token_budget": knowledge.token_budget,
        "with_ids": False,
    }
    context = await operate("knowledge.context", query | _select_memories(knowledge))
    return str(context["text"])


def _select_memories(knowledge: Knowledge) -> Json:
    return {"memory_ids": knowledge.memory_ids or (), "memory_tags": knowledge.memory_tags or ()}


def _as_text(value: object) -> str:
    return orjson.dumps(value).decode()


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_CONTENT:
        return f"{value[:MAX_CONTENT]} …"
    return value
