"""The tools that an agent may have. Each call is an operation with an idempotency key, so it
applies once."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ValidationError, WithJsonSchema

from memrelay.agents.request import Knowledge, TurnRequest
from memrelay.blocks.async_call import OperationFailed, OperationUnavailable
from memrelay.memory.field_descriptions import DescribedModel
from memrelay.memory.models.agent_memory.facts import value_text
from memrelay.memory.models.agent_memory.scopes import GLOBAL
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS
from memrelay.memory.models.named_memories.knowledge import MOST_CHARACTERS

Json = dict[str, Any]
# operate(name, input, store="", key="") returns the output. It raises OperationFailed.
Operate = Callable[..., Awaitable[Any]]
MAX_RESULT = 60_000  # characters
MAX_RECORDS = 10
MAX_CONTENT = 4_000  # characters of a found text
NOT_FOUND = "not_found"
MAX_FACTS, MAX_EPISODES = 10, 5
EMPTY = "Memory is empty — no facts stored."


class ToolFault(Exception):
    """A tool cannot do what the model asks for. The text is for the model."""


class Arguments(DescribedModel):
    """The arguments of a tool."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` takes the parsed arguments and an idempotency key, and returns text."""

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[Any, str], Awaitable[str]]

    @property
    def on_wire(self) -> Json:
        """Return the tool as `/chat/completions` takes it."""
        schema = self.arguments.model_json_schema()
        properties = {
            name: {key: value for key, value in field.items() if key != "title"}
            for name, field in schema["properties"].items()
        }
        required = schema.get("required", [])
        parameters = {"type": "object", "properties": properties, "required": required}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    async def call(self, arguments: Mapping[str, Any], key: str) -> str:
        """Return the result for the model. A fault is a JSON object with `error`.

        Raises OperationUnavailable: the turn runs again later.
        """
        try:
            result = await self.run(self.arguments.model_validate(arguments), key)
        except ValidationError as error:
            detail = error.errors(include_url=False, include_input=False)[0]
            path = ".".join(map(str, detail["loc"]))
            return as_error(f"{path}: {detail['msg']}" if path else detail["msg"])
        except OperationUnavailable:
            raise
        except (ToolFault, OperationFailed) as error:
            return as_error(str(error))
        return result if len(result) <= MAX_RESULT else f"{result[:MAX_RESULT]} …"


class RecallArguments(Arguments):
    """The key or the query to look up."""

    key: str = ""
    """The exact key of a fact"""
    query: str = ""
    """Words to search for. Without key and query, all facts are listed"""


class RememberArguments(Arguments):
    """A fact to store."""

    key: str = ""
    """A short name of the fact, such as user_timezone"""
    value: Annotated[Any, WithJsonSchema({"type": "string"})] = None
    """The value"""
    fact_type: str = ""
    """user_preference, world_knowledge, self_knowledge, correction or relationship"""


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
        "recall": _recall,
        "remember": partial(_remember, execution=execution),
        "records_search": _records_search,
        "knowledge_search": _knowledge_search,
    }
    tools = {name: make[name](request, operate) for name in request.options.tools}
    if target := request.options.knowledge.write_memory_id:
        tools["write_memory"] = _write_memory(target, operate)
    return tools


def _recall(request: TurnRequest, operate: Operate) -> Tool:
    """Return the tool `recall`: it finds facts, a procedure, and episodes of the user."""
    reader = _FactReader(request, operate)

    async def run(arguments: RecallArguments, key: str) -> str:
        try:
            if arguments.key.strip():
                return await reader.find_key(arguments.key.strip(), key)
            if arguments.query.strip():
                return await reader.search(arguments.query.strip())
            return await reader.list_facts()
        except OperationUnavailable:
            raise
        except OperationFailed as error:
            return f"Error reading memory: {error}"

    about = "Recall what is known: a fact by its key, or whatever matches a query."
    return Tool("recall", about, RecallArguments, run)


def _remember(request: TurnRequest, operate: Operate, execution: str) -> Tool:
    """Return the tool `remember`: it stores a fact for everyone. `execution` is its source."""

    async def run(arguments: RememberArguments, key: str) -> str:
        name = arguments.key.strip()
        if not name:
            return "Error: key is required"
        if arguments.value in (None, ""):
            return "Error: value is required"
        fact = {"key": name, "value": arguments.value, "source_episode_id": execution}
        fact |= {"fact_type": arguments.fact_type} if arguments.fact_type else {}
        try:
            written = await operate("facts.set", fact, store=request.store, key=key)
        except OperationUnavailable:
            raise
        except OperationFailed as error:
            return f"Error writing memory: {error}"
        value = value_text(written["fact"]["value"])
        return f"Remembered: {name} = {value} ({written['action']})"

    about = "Remember a lasting fact under a key. It replaces an earlier value of the key."
    return Tool("remember", about, RememberArguments, run)


class _FactReader:
    """Reads what an agent may see: facts that are global, its own, and those of the user and the
    session; procedures; and episodes of the user.
    """

    def __init__(self, request: TurnRequest, operate: Operate) -> None:
        self._request, self._operate = request, operate
        self._ids = {
            "agent_id": request.agent_id,
            "user_id": request.user_id,
            "session_id": request.session_id,
        }

    async def find_key(self, name: str, key: str) -> str:
        """Return the fact with a key, else facts that a search for the key finds."""
        try:
            fact = await self._call("facts.recall", {"key": name, **self._ids}, key)
        except OperationFailed as error:
            if error.code != NOT_FOUND:
                raise
        else:
            return f"{name} = {value_text(fact['value'])}"
        facts = await self._search_facts(name)
        return as_json(facts) if facts else f"No memory found for key: {name}"

    async def search(self, query: str) -> str:
        """Return the facts, the procedure and the episodes that match a query."""
        memories = await self._search_facts(query)
        matched = await self._call("procedures.match", {"goal": query, "agent_id": GLOBAL})
        if (procedure := matched["procedure"]) is not None:
            named = {name: procedure[name] for name in ("name", "description")}
            memories.append({"type": "procedure", **named})
        memories += await self._search_episodes(query)
        return as_json(memories) if memories else f"No memories found for query: {query}"

    async def list_facts(self) -> str:
        """Return the facts with the newest changes."""
        queries = [{"scope": GLOBAL}, *({name: id_} for name, id_ in self._ids.items() if id_)]
        pages = [await self._call("facts.list", {**one, "limit": MAX_FACTS}) for one in queries]
        facts = [fact for page in pages for fact in page["items"]]
        facts.sort(key=lambda fact: str(fact["updated_at"]), reverse=True)
        return as_json(_shown(facts[:MAX_FACTS])) if facts else EMPTY

    async def _search_facts(self, query: str) -> list[Json]:
        output = await self._call("facts.search", {"query": query, "limit": MAX_FACTS, **self._ids})
        return _shown(output["items"])

    async def _search_episodes(self, query: str) -> list[Json]:
        user = self._request.user_id
        # Others of a chat were not part of the user's own conversations.
        if not user or self._request.chat_id:
            return []
        output = await self._call("episodes.list", {"user_id": user, "limit": MAX_EPISODES})
        summaries = [str(one["summary"] or "") for one in output["items"]]
        return [
            {"type": "episode", "summary": summary}
            for summary in summaries
            if query.casefold() in summary.casefold()
        ]

    async def _call(self, name: str, arguments: Mapping[str, Any], key: str = "") -> Any:
        return await self._operate(name, arguments, store=self._request.store, key=key)


def _shown(facts: Iterable[Mapping[str, Any]]) -> list[Json]:
    return [{name: fact[name] for name in ("key", "value", "confidence")} for fact in facts]


def _records_search(request: TurnRequest, operate: Operate) -> Tool:
    async def run(arguments: SearchArguments, key: str) -> str:
        query = {
            "query": arguments.query,
            "limit": MAX_RECORDS,
            "mode": "hybrid",
            "timezone": request.timezone,
        }
        output = await operate("records.search", query, store=request.store, key=key)
        records = [hit["record"] for hit in output["items"]]
        fields = ("content", "kind", "source", "created_at")
        return as_json([{name: _short(one[name]) for name in fields} for one in records])

    about = "Search the stored records by words and meaning. Returns the best ones first."
    return Tool("records_search", about, SearchArguments, run)


def _knowledge_search(request: TurnRequest, operate: Operate) -> Tool:
    knowledge = request.options.knowledge

    async def run(arguments: SearchArguments, key: str) -> str:
        query: Json = {
            "query": arguments.query,
            "limit": MAX_RECORDS,
            "timezone": request.timezone,
        }
        if knowledge.is_read:
            query |= _select_memories(knowledge)
        output = await operate("knowledge.search", query, key=key)
        return as_json(
            [
                {"memory": one["memory_name"], "content": _short(one["content"])}
                for one in output["results"]
            ]
        )

    about = "Search the named memories by words and meaning. Returns the best entries first."
    return Tool("knowledge_search", about, SearchArguments, run)


def _write_memory(memory_id: str, operate: Operate) -> Tool:
    async def run(arguments: MemoryArguments, key: str) -> str:
        if not arguments.content.strip():
            raise ToolFault("content is required")
        if len(arguments.content) > MAX_ENTRY_CHARACTERS:
            raise ToolFault(f"an entry has at most {MAX_ENTRY_CHARACTERS} characters")
        entry = {"memory_id": memory_id, "content": arguments.content, "source": "agent"}
        try:
            written = await operate("entries.create", entry, key=key)
        except OperationFailed as error:
            if error.code == NOT_FOUND:
                raise ToolFault(f"Memory {memory_id} not found") from error
            raise
        return as_json({"action": written["action"], "entryId": written["id"]})

    about = "Write a fact to the memory, so that it is known in later conversations."
    return Tool("write_memory", about, MemoryArguments, run)


async def find_knowledge(request: TurnRequest, operate: Operate) -> str:
    """Return what named memories contain about the question, as fenced text; "" for nothing.

    Raises OperationFailed.
    """
    knowledge, question = request.options.knowledge, request.question
    if not knowledge.is_read or not question.strip():
        return ""
    query: Json = {
        "query": question[:MOST_CHARACTERS],
        "min_score": knowledge.min_score,
        "limit": knowledge.limit,
        "token_budget": knowledge.token_budget,
        "with_ids": False,
        "timezone": request.timezone,
    }
    context = await operate("knowledge.context", query | _select_memories(knowledge))
    return str(context["text"])


def _select_memories(knowledge: Knowledge) -> Json:
    return {"memory_ids": knowledge.memory_ids or (), "memory_tags": knowledge.memory_tags or ()}


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_CONTENT:
        return f"{value[:MAX_CONTENT]} …"
    return value


def as_error(text: str) -> str:
    """Return the result of a call that failed."""
    return as_json({"error": text})


def as_json(value: object) -> str:
    """Return a JSON value as text."""
    return orjson.dumps(value).decode()
