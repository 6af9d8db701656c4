"""The chat stores of memrelay.integrations.llama_index."""

from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from memrelay.agents.calls import CallSteps, Result
from memrelay.integrations.llama_index_chats import ACTIVE, ALL, Chats


class MemrelayAsyncChatStore(AsyncDBChatStore):
    """The chat store of `Memory`: active messages, and those that left the short-term memory.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose memory it is: keys of other users are other conversations.
      `agent` is the speaker of the answers.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    A key, which is the `session_id` of a Memory, is the thread of its turns. Raises TypeError for
    another `call`.
    """

    _chats: Chats = PrivateAttr()

    def __init__(
        self, call: Any, *, user: str = "", agent: str = "", uid: str = "", store: str = ""
    ) -> None:
        super().__init__()
        self._chats = Chats(call, user, agent, uid, store)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return messages, oldest first: at most `limit`, without the first `offset`."""
        messages = await self._run(self._chats.get(key, _statuses(status)))
        first = offset or 0
        return messages[first:] if limit is None else messages[first : first + limit]

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        """Return the number of messages."""
        return len(await self._run(self._chats.turns(key, _statuses(status))))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add a message."""
        await self._run(self._chats.add(key, [message], status))

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages. Up to 1,000 of them are one transaction."""
        await self._run(self._chats.add(key, messages, status))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace the messages, also those of the other status."""
        await self._run(self._chats.set(key, messages, status))
        await self._run(self._chats.clear(key, [one for one in ALL if one is not status]))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete an active message by its position and return it, or None."""
        return await self._run(self._chats.delete_one(key, idx))

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete messages, by default of both statuses."""
        await self._run(self._chats.clear(key, _statuses(status)))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the oldest active messages and return them."""
        return await self._run(self._chats.delete(key, 0, n))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages and return them."""
        return await self._run(self._chats.archive(key, n))

    async def get_keys(self) -> list[str]:
        """Return the keys by name."""
        return await self._run(self._chats.keys(ALL))

    async def _run(self, steps: CallSteps[Result]) -> Result:
        return await self._chats.calls.arun_steps(steps)


class MemrelayChatStore(BaseChatStore):
    """The chat store of ChatMemoryBuffer and of older memories.

    The arguments are those of MemrelayAsyncChatStore, but `call` is no client of `connect`: use
    `connect_sync`.
    """

    _chats: Chats = PrivateAttr()

    def __init__(
        self, call: Any, *, user: str = "", agent: str = "", uid: str = "", store: str = ""
    ) -> None:
        super().__init__()
        self._chats = Chats(call, user, agent, uid, store)

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Replace the messages of a key."""
        self._run(self._chats.set(key, messages))

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages of a key, oldest first."""
        return self._run(self._chats.get(key))

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message."""
        self._run(self._chats.add(key, [message]))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete the messages of a key and return them, or None if there are none."""
        return self._run(self._chats.clear(key, ACTIVE)) or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete a message by its position and return it, or None."""
        return self._run(self._chats.delete_one(key, idx))

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Delete the newest message and return it, or None."""
        return self._run(self._chats.delete_one(key, -1))

    def get_keys(self) -> list[str]:
        """Return the keys by name."""
        return self._run(self._chats.keys(ACTIVE))

    def _run(self, steps: CallSteps[Result]) -> Result:
        return self._chats.calls.run_steps(steps)


def _statuses(status: MessageStatus | None) -> tuple[MessageStatus, ...]:
    return ALL if status is None else (status,)
