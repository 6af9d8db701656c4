"""Sessions and memory of Strands Agents. They need the extra `strands`."""

from typing import Any

from memrelay.installation import missing_framework
from memrelay.integrations.memory_tools import FACT
from memrelay.integrations.recall import MOST_RESULTS, Recall, describe

try:
    from strands.memory import MemoryEntry, MemoryStore, SearchOptions
    from strands.session import RepositorySessionManager
except ImportError as error:
    raise ImportError(missing_framework("Strands Agents", "strands")) from error

from memrelay.integrations.strands_sessions import SEPARATOR, MemrelaySessionRepository

__all__ = ["MemrelayMemoryStore", "MemrelaySessionManager", "MemrelaySessionRepository"]


class MemrelaySessionManager(RepositorySessionManager):
    """The session of an agent, or of a graph or swarm, kept in MemrelaySessionRepository.

    `session_id` is the session. The other arguments are those of the repository.
    """

    def __init__(
        self, session_id: str, call: Any, *, user: str = "", uid: str = "", store: str = ""
    ) -> None:
        super().__init__(
            session_id, MemrelaySessionRepository(call, user=user, uid=uid, store=store)
        )


class MemrelayMemoryStore(MemoryStore):
    """A store of MemoryManager: the facts and the messages of a user.

    - `call` is a store of `open_store`, or a client of `connect_sync`; also one of `connect`, if
      the agent runs in its event loop.
    - `user` is the person whose memory it is, by default everyone's. `agent` is the program.
    - `session_id` is the session of the agent, whose messages it has already.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    The attributes of MemoryStore can be changed: `name`, `max_search_results`, `extraction` and
    `writable`. Raises TypeError for another `call`.
    """

    def __init__(
        self,
        call: Any,
        *,
        user: str = "",
        agent: str = "",
        session_id: str = "",
        uid: str = "",
        store: str = "",
    ) -> None:
        self.name = "memrelay"
        self.description = "Facts about the user, and messages of earlier conversations."
        self.max_search_results = MOST_RESULTS
        self.writable, self.extraction = True, None
        self._recall = Recall(call, user=user, uid=uid, store=store)
        self._fact = {"kind": FACT, "owner": user} | ({"source": agent} if agent else {})
        # Threads are SESSION/AGENT: those between this name and that with the next character.
        first, last = f"{session_id}{SEPARATOR}", f"{session_id}{chr(ord(SEPARATOR) + 1)}"
        self._present = {"thread": {"gte": first, "lt": last}} if session_id else {}

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return what fits a query, the best first."""
        limit = (options or {}).get("max_search_results") or self.max_search_results
        found = self._recall.records(query, limit, self._present)
        shown = [describe(record) for record in await self._recall.calls.arun_steps(found)]
        return [MemoryEntry(one.pop("content"), metadata=one) for one in shown]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Keep a fact, with its metadata as `data`, and return its guid. A fact with the same text
        is kept once, because extractions repeat themselves.
        """
        fact = self._fact | {"content": content}
        conditions = {"kind": FACT, "content": content, "owner": fact["owner"] or None}
        same = {name: {"eq": value} for name, value in conditions.items()}
        calls = self._recall.calls
        known = await calls.arun("records.list", {"filter": same, "limit": 1})
        if known["items"]:
            return str(known["items"][0]["guid"])
        created = await calls.arun("records.create", fact | {"data": metadata})
        return str(created["guid"])
