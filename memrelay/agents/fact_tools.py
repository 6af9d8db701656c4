"""The tools `recall` and `remember`, which read and write facts as the blocks of these names do."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import orjson
from pydantic import WithJsonSchema

from memrelay.agents.request import TurnRequest
from memrelay.agents.tool import Arguments, Operate, Tool
from memrelay.blocks.async_call import OperationFailed
from memrelay.memory.models.agent_memory.facts import value_text
from memrelay.memory.models.agent_memory.scopes import GLOBAL

Json = dict[str, Any]
NOT_FOUND = "not_found"
MAX_FACTS, MAX_EPISODES = 10, 5
EMPTY = "Memory is empty — no facts stored."


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


def make_recall(request: TurnRequest, operate: Operate) -> Tool:
    """Return the tool `recall`: it finds facts, a procedure, and episodes of the user."""
    reader = _Reader(request, operate)

    async def run(arguments: RecallArguments, key: str) -> str:
        try:
            if arguments.key.strip():
                return await reader.find_key(arguments.key.strip(), key)
            if arguments.query.strip():
                return await reader.search(arguments.query.strip())
            return await reader.list_facts()
        except OperationFailed as error:
            return f"Error reading memory: {error}"

    about = "Recall what is known: a fact by its key, or whatever matches a query."
    return Tool("recall", about, RecallArguments, run)


def make_remember(request: TurnRequest, operate: Operate, execution: str) -> Tool:
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
        except OperationFailed as error:
            return f"Error writing memory: {error}"
        value = value_text(written["fact"]["value"])
        return f"Remembered: {name} = {value} ({written['action']})"

    about = "Remember a lasting fact under a key. It replaces an earlier value of the key."
    return Tool("remember", about, RememberArguments, run)


class _Reader:
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
            found = await self._call("facts.recall", {"key": name, **self._ids}, key)
        except OperationFailed as error:
            if error.code != NOT_FOUND:
                raise
        else:
            return f"{name} = {value_text(found['value'])}"
        facts = await self._search_facts(name)
        return _as_text(facts) if facts else f"No memory found for key: {name}"

    async def search(self, query: str) -> str:
        """Return the facts, the procedure and the episodes that match a query."""
        found = await self._search_facts(query)
        matched = await self._call("procedures.match", {"goal": query, "agent_id": GLOBAL})
        if (procedure := matched["procedure"]) is not None:
            named = {name: procedure[name] for name in ("name", "description")}
            found.append({"type": "procedure", **named})
        found += await self._search_episodes(query)
        return _as_text(found) if found else f"No memories found for query: {query}"

    async def list_facts(self) -> str:
        """Return the facts with the newest changes."""
        scopes = {"agent": "agent_id", "user": "user_id", "session": "session_id"}
        queries: list[Json] = [{"scope": GLOBAL}]
        queries += [{name: self._ids[name]} for name in scopes.values() if self._ids[name]]
        pages = [await self._call("facts.list", one | {"limit": MAX_FACTS}) for one in queries]
        facts = [fact for page in pages for fact in page["items"]]
        facts.sort(key=lambda fact: str(fact["updated_at"]), reverse=True)
        return _as_text(_shown(facts[:MAX_FACTS])) if facts else EMPTY

    async def _search_facts(self, query: str) -> list[Json]:
        found = await self._call("facts.search", {"query": query, "limit": MAX_FACTS, **self._ids})
        return _shown(found["items"])

    async def _search_episodes(self, query: str) -> list[Json]:
        user = self._request.user_id
        if not user:
            return []
        found = await self._call("episodes.list", {"user_id": user, "limit": MAX_EPISODES})
        summaries = [str(one["summary"] or "") for one in found["items"]]
        return [
            {"type": "episode", "summary": summary}
            for summary in summaries
            if query.casefold() in summary.casefold()
        ]

    async def _call(self, name: str, arguments: Mapping[str, Any], key: str = "") -> Any:
        return await self._operate(name, arguments, store=self._request.store, key=key)


def _shown(facts: Iterable[Mapping[str, Any]]) -> list[Json]:
    return [{name: fact[name] for name in ("key", "value", "confidence")} for fact in facts]


def _as_text(value: object) -> str:
    return orjson.dumps(value).decode()
