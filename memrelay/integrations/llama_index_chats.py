"""Conversations of LlamaIndex by key, as calls of `turns`, for its chat stores."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.storage.chat_store.base_db import MessageStatus

from memrelay.agents.calls import Calls, CallSteps, make_calls
from memrelay.errors import Refused
from memrelay.integrations.conversation import TURN, Conversation

Json = dict[str, Any]
# An archived message is a turn of this kind: it keeps its thread and its position.
KINDS = {MessageStatus.ACTIVE: TURN, MessageStatus.ARCHIVED: "turn.archived"}
# Statuses of messages.
ACTIVE, ALL = (MessageStatus.ACTIVE,), tuple(KINDS)


class Chats:
    """The conversations of LlamaIndex by key. The methods yield calls."""

    def __init__(self, call: Any, user: str, agent: str, uid: str, store: str) -> None:
        self.calls: Calls = make_calls(call, uid=uid, store=store)
        self._make = partial(Conversation, call, user=user, agent=agent, uid=uid, store=store)
        self._user = user

    def open(self, key: str, status: MessageStatus = MessageStatus.ACTIVE) -> Conversation:
        """Return the conversation of a key."""
        return self._make(key, kind=KINDS[status])

    def turns(self, key: str, statuses: Sequence[MessageStatus]) -> CallSteps[list[Json]]:
        """Return the turns of a key, oldest first."""
        turns: list[Json] = []
        for status in statuses:
            turns += yield from self.open(key, status).list()
        return sorted(turns, key=lambda turn: turn["seq"])

    def get(
        self, key: str, statuses: Sequence[MessageStatus] = ACTIVE
    ) -> CallSteps[list[ChatMessage]]:
        """Return the messages of a key, oldest first."""
        turns = yield from self.turns(key, statuses)
        return [_read_message(turn) for turn in turns]

    def add(
        self,
        key: str,
        messages: Sequence[ChatMessage],
        status: MessageStatus = MessageStatus.ACTIVE,
    ) -> CallSteps[None]:
        """Add messages. Up to 1,000 of them are one transaction."""
        yield from self.open(key, status).add([make_message(one) for one in messages])

    def set(
        self,
        key: str,
        messages: Sequence[ChatMessage],
        status: MessageStatus = MessageStatus.ACTIVE,
    ) -> CallSteps[None]:
        """Replace the messages of a key, in one transaction."""
        yield from self.open(key, status).replace([make_message(one) for one in messages])

    def clear(self, key: str, statuses: Sequence[MessageStatus]) -> CallSteps[list[ChatMessage]]:
        """Delete the messages of a key and return them."""
        messages = yield from self.get(key, statuses)
        for status in statuses:
            yield from self.open(key, status).clear()
        return messages

    def delete(self, key: str, start: int, stop: int | None) -> CallSteps[list[ChatMessage]]:
        """Delete active messages from a position to another, and return them."""
        turns = yield from self.turns(key, ACTIVE)
        messages = [_read_message(turn) for turn in turns[start:stop]]
        for turn in turns[start:stop]:
            yield "records.delete", {"guid": turn["guid"]}
        return messages

    def delete_one(self, key: str, position: int) -> CallSteps[ChatMessage | None]:
        """Delete an active message by its position and return it, or None."""
        stop = position + 1 or None
        deleted = yield from self.delete(key, position, stop)
        return deleted[0] if deleted else None

    def archive(self, key: str, count: int) -> CallSteps[list[ChatMessage]]:
        """Archive the oldest active messages and return them."""
        turns = (yield from self.turns(key, ACTIVE))[:count]
        messages = [_read_message(turn) for turn in turns]
        for turn in turns:
            archived = {"guid": turn["guid"], "kind": KINDS[MessageStatus.ARCHIVED]}
            yield "records.update", archived
        return messages

    def keys(self, statuses: Sequence[MessageStatus]) -> CallSteps[list[str]]:
        """Return the names of the conversations."""
        names: dict[str, None] = {}
        for status in statuses:
            after: str | None = ""
            while after is not None:
                where = {"user": self._user, "kind": KINDS[status], "after": after}
                page = yield "turns.threads", where
                names |= dict.fromkeys(one["thread"] for one in page["items"])
                after = page["after"]
        return sorted(names)


def make_message(message: ChatMessage) -> Json:
    """Return a message as `turns.add` takes it."""
    item = message.model_dump(mode="json")
    return {"role": message.role.value, "content": message.content or "", "item": item}


def _read_message(turn: Mapping[str, Any]) -> ChatMessage:
    """Return the message of a turn, also of one that another program added. Raises Refused."""
    item = turn["item"]
    if item is None:
        role = turn["role"] if turn["role"] in set(MessageRole) else MessageRole.USER
        return ChatMessage(role=role, content=turn["content"])
    try:
        return ChatMessage.model_validate(item)
    except ValidationError as error:
        raise Refused(
            f"the turn {turn['guid']} is no message that this version of LlamaIndex reads; if "
            "another framework wrote it, use another key, else update LlamaIndex, or "
            "remove the turn with records.delete"
        ) from error
