"""Chat stores, a memory block and tools for LlamaIndex. They need the extra `llama-index`."""

from typing import Any

from memrelay.installation import missing_framework
from memrelay.integrations.conversation import Conversation
from memrelay.integrations.memory_tools import MemoryTools
from memrelay.integrations.recall import MOST_RESULTS, Recall

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.tools import BaseTool, FunctionTool
except ImportError as error:
    raise ImportError(missing_framework("LlamaIndex", "llama-index")) from error

from memrelay.integrations.llama_index_chats import make_message
from memrelay.integrations.llama_index_stores import MemrelayAsyncChatStore, MemrelayChatStore

__all__ = ["MemrelayAsyncChatStore", "MemrelayChatStore", "MemrelayMemoryBlock", "memory_tools"]

# Where LlamaIndex keeps the session of a message that leaves the short-term memory.
SESSION = "session_id"


class MemrelayMemoryBlock(BaseMemoryBlock[str]):
    """A memory block with what fits the last message: facts, and messages of other sessions.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose memory it is, by default everyone's. `agent` is the program.
    - `limit` is the number of results.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    `MemrelayAsyncChatStore` keeps the messages that leave the short-term memory. With another chat
    store, `accept_short_term_memory=True` keeps them here. Raises TypeError for another `call`.
    """

    _recall: Recall = PrivateAttr()
    _kept: dict[str, Any] = PrivateAttr()

    def __init__(
        self,
        call: Any,
        *,
        user: str = "",
        agent: str = "",
        limit: int = MOST_RESULTS,
        uid: str = "",
        store: str = "",
        **fields: Any,
    ) -> None:
        super().__init__(**{"name": "memory", "accept_short_term_memory": False, **fields})
        self._recall = Recall(call, user=user, limit=limit, uid=uid, store=store)
        self._kept = {"call": call, "user": user, "agent": agent, "uid": uid, "store": store}

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        **block_kwargs: Any,
    ) -> str:
        """Return what fits the last message of the user, or ""."""
        asked = [one.content for one in messages or () if one.role == "user" and one.content]
        if not asked:
            return ""
        found = self._recall.find(asked[-1] or "", present=session_id or "")
        return await self._recall.calls.arun_steps(found)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Keep messages as turns of their sessions."""
        threads: dict[str, list[dict[str, Any]]] = {}
        for message in messages:
            thread = str(message.additional_kwargs.pop(SESSION, ""))
            threads.setdefault(thread, []).append(make_message(message))
        for thread, kept in threads.items():
            turns = Conversation(thread=thread, **self._kept)
            await turns.calls.arun_steps(turns.add(kept))


def memory_tools(
    call: Any, *, user: str = "", agent: str = "", uid: str = "", store: str = ""
) -> list[BaseTool]:
    """Return the tools `remember` (a fact) and `search` (facts and conversations) of a user.

    The arguments are those of MemrelayMemoryBlock. Without `user` the memory is everyone's.
    """
    tools = MemoryTools(call, user=user, agent=agent, uid=uid, store=store)
    return [
        FunctionTool.from_defaults(async_fn=tools.remember),
        FunctionTool.from_defaults(async_fn=tools.search),
    ]
