"""The user memories of memrelay.integrations.agno, as records that searches find."""

import time
from typing import Any
from uuid import uuid4

from agno.db.in_memory.utils import apply_sorting
from agno.db.schemas.memory import UserMemory

from memrelay.agents.calls import Calls
from memrelay.errors import Refused
from memrelay.integrations.agno_runs import take_page, to_json
from memrelay.integrations.conversation import MOST, Json

KIND = "agno.memory"
# The field of `data` with a memory as Agno has it, without its text.
DATA, TEXT = "agno", "memory"


class UserMemories:
    """The methods of BaseDb for user memories. Each is a record: its `content` is the text, `key`
    the memory_id, `owner` the user.
    """

    _calls: Calls

    def get_user_memory(
        self, memory_id: str, deserialize: bool | None = True, user_id: str | None = None
    ) -> UserMemory | Json | None:
        """Return a memory of a user, or None."""
        found = self._find(user_id, memory_id)
        if not found:
            return None
        memory = _read(found[0])
        return UserMemory.from_dict(memory) if deserialize else memory

    def get_user_memories(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        topics: list[str] | None = None,
        *,
        search_content: str | None = None,
        limit: int | None = None,
        page: int | None = None,
        sort_by: str | None = None,
        sort_order: str | None = None,
        deserialize: bool | None = True,
    ) -> list[UserMemory] | tuple[list[Json], int]:
        """Return the memories that fit, and without `deserialize` their number on all pages too."""
        wanted = (search_content or "").lower()
        memories = [
            memory
            for memory in map(_read, self._find(user_id))
            if agent_id is None or memory.get("agent_id") == agent_id
            if team_id is None or memory.get("team_id") == team_id
            if topics is None or set(topics) & set(memory.get("topics") or ())
            if wanted in memory[TEXT].lower()
        ]
        shown = take_page(apply_sorting(memories, sort_by, sort_order), limit, page)
        return [*map(UserMemory.from_dict, shown)] if deserialize else (shown, len(memories))

    def get_all_memory_topics(self, user_id: str | None = None) -> list[str]:
        """Return the topics of the memories of a user."""
        memories = map(_read, self._find(user_id))
        return sorted({topic for memory in memories for topic in memory.get("topics") or ()})

    def get_user_memory_stats(
        self, limit: int | None = None, page: int | None = None, user_id: str | None = None
    ) -> tuple[list[Json], int]:
        """Return the number of memories of each user, the latest change first."""
        users: dict[str, Json] = {}
        for memory in map(UserMemory.from_dict, map(_read, self._find(user_id))):
            if memory.user_id:
                empty = {"total_memories": 0, "last_memory_updated_at": 0}
                user = users.setdefault(memory.user_id, {"user_id": memory.user_id, **empty})
                user["total_memories"] += 1
                latest = max(user["last_memory_updated_at"], memory.updated_at or 0)
                user["last_memory_updated_at"] = latest
        rows = sorted(users.values(), key=lambda user: -user["last_memory_updated_at"])
        return take_page(rows, limit, page), len(rows)

    def upsert_user_memory(self, memory: UserMemory, deserialize: bool | None = True) -> Any:
        """Write a memory, and return it. Without `memory_id` it is new."""
        memory.memory_id = memory.memory_id or str(uuid4())
        memory.updated_at = int(time.time())
        kept = to_json(memory.to_dict())
        record = {"content": kept[TEXT], "owner": memory.user_id or "", "key": memory.memory_id}
        record["data"] = {DATA: {name: kept[name] for name in kept if name != TEXT}}
        found = self._find(None, memory.memory_id)
        if found:
            self._calls.run("records.update", record | {"guid": found[0]["guid"]})
        else:
            agent = {"source": memory.agent_id} if memory.agent_id else {}
            self._calls.run("records.create", record | agent | {"kind": KIND})
        return UserMemory.from_dict(kept) if deserialize else kept

    def upsert_memories(
        self,
        memories: list[UserMemory],
        deserialize: bool | None = True,
        preserve_updated_at: bool = False,
    ) -> list[Any]:
        """Write memories one by one, and return them."""
        return [self.upsert_user_memory(memory, deserialize) for memory in memories]

    def delete_user_memory(self, memory_id: str, user_id: str | None = None) -> None:
        """Delete a memory of a user."""
        self.delete_user_memories([memory_id], user_id)

    def delete_user_memories(self, memory_ids: list[str], user_id: str | None = None) -> None:
        """Delete memories of a user."""
        for memory_id in memory_ids:
            for record in self._find(user_id, memory_id):
                self._calls.run("records.delete", {"guid": record["guid"]})

    def clear_memories(self) -> None:
        """Delete the memories of all users."""
        for record in self._find(None):
            self._calls.run("records.delete", {"guid": record["guid"]})

    def _find(self, user_id: str | None, memory_id: str = "") -> list[Json]:
        """Return the records of memories, the oldest first."""
        conditions: Json = {} if user_id is None else {"owner": {"eq": user_id}}
        if memory_id:
            conditions["key"] = {"eq": memory_id}
        records: list[Json] = []
        cursor: str | None = ""
        while cursor is not None:
            where = {"kind": KIND, "filter": conditions, "limit": MOST, "cursor": cursor}
            page = self._calls.run("records.list", where)
            records += page["items"]
            cursor = page["next_cursor"]
        return records


def _read(record: Json) -> Json:
    """Return the memory of a record. Raises Refused."""
    memory = (record["data"] or {}).get(DATA)
    if not isinstance(memory, dict):
        raise Refused(
            f"the record {record['guid']} is no memory of Agno; change its kind, or remove it with "
            "records.delete"
        )
    return {**memory, TEXT: record["content"]}
