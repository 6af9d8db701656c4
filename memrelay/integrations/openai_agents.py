"""Sessions and memory tools of the OpenAI Agents SDK. They need the extra `openai-agents`."""

from collections.abc import Mapping
from typing import Any, cast

from memrelay.errors import Refused
from memrelay.installation import missing_framework
from memrelay.integrations.conversation import Conversation
from memrelay.integrations.memory_tools import MemoryTools

try:
    from agents import SessionSettings, Tool, TResponseInputItem, function_tool
except ImportError as error:
    raise ImportError(missing_framework("the OpenAI Agents SDK", "openai-agents")) from error

# The types of items that are results of tools end so: function_call_output, ...
RESULT = "_output"
# A message of LangChain also has a type.
LANGCHAIN_KEYS = {"type", "data"}


class MemrelaySession:
    """A session (`agents.Session`) whose items are turns of a conversation.

    - `session_id` is the conversation (`thread`).
    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose memory it is: sessions of other users with the same id are others.
      `agent` is the speaker of the answers.
    - `session_settings` has the `limit` of items that a run reads, by default all.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    Raises TypeError for another `call`.
    """

    def __init__(
        self,
        session_id: str,
        call: Any,
        *,
        user: str = "",
        agent: str = "",
        session_settings: SessionSettings | None = None,
        uid: str = "",
        store: str = "",
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._turns = Conversation(call, session_id, user=user, agent=agent, uid=uid, store=store)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, by default those of `session_settings`, oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        turns = await self._turns.calls.arun_steps(self._turns.list(limit))
        return [_read_item(turn) for turn in turns]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items. Up to 1,000 are one transaction: all of them are kept, or none."""
        messages = [_make_message(cast(dict[str, Any], item)) for item in items]
        await self._turns.calls.arun_steps(self._turns.add(messages))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it, or None."""
        turn = await self._turns.calls.arun_steps(self._turns.pop())
        return None if turn is None else _read_item(turn)

    async def clear_session(self) -> None:
        """Delete all items of the session."""
        await self._turns.calls.arun_steps(self._turns.clear())


def memory_tools(
    call: Any, *, user: str = "", agent: str = "", uid: str = "", store: str = ""
) -> list[Tool]:
    """Return the tools `remember` (a fact) and `search` (facts and conversations) of a user.

    The arguments are those of MemrelaySession. Without `user` the memory is everyone's.
    """
    tools = MemoryTools(call, user=user, agent=agent, uid=uid, store=store)
    return [function_tool(tools.remember), function_tool(tools.search)]


def _make_message(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as a message: its role, its text for searches, and the item itself."""
    kind = item.get("type") or ""
    role = item.get("role") or ("tool" if kind.endswith(RESULT) else "assistant")
    text = item.get("output") if kind.endswith(RESULT) else item.get("content")
    return {"role": role, "content": text if isinstance(text, str | list) else "", "item": item}


def _read_item(turn: Mapping[str, Any]) -> TResponseInputItem:
    """Return the item of a turn. A turn of another program is a message. Raises Refused."""
    item = turn["item"]
    if item is None:
        item = {"role": turn["role"], "content": turn["content"]}
    if not isinstance(item, dict) or not _is_item(item):
        raise Refused(
            f"the turn {turn['guid']} is no item of the OpenAI Agents SDK; use another session_id, "
            "or remove the turn with records.delete"
        )
    return cast(TResponseInputItem, item)


def _is_item(item: Mapping[str, Any]) -> bool:
    """Return whether this can be an item. OpenAI's API rejects messages of other frameworks."""
    if "role" in item:
        return "content" in item
    return bool(item.get("type")) and item.keys() != LANGCHAIN_KEYS
