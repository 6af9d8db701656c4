"""The message history of LangChain's chats. It needs the extra `langchain`.

Agents on LangGraph use MemrelaySaver and MemrelayStore instead (docs/langgraph.md).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from memrelay.errors import Refused
from memrelay.installation import missing_framework
from memrelay.integrations.conversation import Conversation

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        ChatMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
        message_to_dict,
        messages_from_dict,
    )
except ImportError as error:
    raise ImportError(missing_framework("LangChain", "langchain")) from error

ROLES: Mapping[type[BaseMessage], str] = {
    HumanMessage: "user",
    AIMessage: "assistant",
    SystemMessage: "system",
    ToolMessage: "tool",
    FunctionMessage: "tool",
}


class MemrelayChatMessageHistory(BaseChatMessageHistory):
    """A chat message history whose messages are turns of a conversation, sync and async.

    - `session_id` is the conversation (`thread`).
    - `call` is a store of `open_store`, or a client of `connect_sync` or `connect`. The sync
      methods need a store or a client of `connect_sync`.
    - `user` is the person whose memory it is: sessions of other users with the same id are others.
      `agent` is the speaker of the answers.
    - `limit` is the number of messages to read, the newest; by default all.
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
        limit: int | None = None,
        uid: str = "",
        store: str = "",
    ) -> None:
        super().__init__()
        self.session_id, self._limit = session_id, limit
        self._turns = Conversation(call, session_id, user=user, agent=agent, uid=uid, store=store)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # LangChain's are so too
        """The messages, oldest first. Each access reads them."""
        turns = self._turns.calls.run_steps(self._turns.list(self._limit))
        return [_read_message(turn) for turn in turns]

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages, oldest first."""
        turns = await self._turns.calls.arun_steps(self._turns.list(self._limit))
        return [_read_message(turn) for turn in turns]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages. Up to 1,000 are one transaction: all of them are kept, or none.

        Raises Refused or TypeError: a message has a value that JSON cannot represent.
        """
        self._turns.calls.run_steps(self._turns.add([_make_message(one) for one in messages]))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages as `add_messages` does."""
        added = [_make_message(one) for one in messages]
        await self._turns.calls.arun_steps(self._turns.add(added))

    def clear(self) -> None:
        """Delete all messages of the session."""
        self._turns.calls.run_steps(self._turns.clear())

    async def aclear(self) -> None:
        """Delete all messages of the session."""
        await self._turns.calls.arun_steps(self._turns.clear())


def _make_message(message: BaseMessage) -> dict[str, Any]:
    """Return a message with its role, its text for searches, and LangChain's own form."""
    roles = (role for type_, role in ROLES.items() if isinstance(message, type_))
    role = message.role if isinstance(message, ChatMessage) else next(roles, message.type)
    return {"role": role, "content": message.content, "item": message_to_dict(message)}


def _read_message(turn: Mapping[str, Any]) -> BaseMessage:
    """Return the message of a turn, also one that another program added. Raises Refused."""
    item = turn["item"]
    try:
        if item is None:
            return convert_to_messages([(turn["role"], turn["content"])])[0]
        return messages_from_dict([item])[0]
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(
            f"the turn {turn['guid']} is no message of this version of langchain-core: {error}; "
            "if another framework wrote it, use another session_id, else update langchain-core, or "
            "remove the turn with records.delete"
        ) from error
