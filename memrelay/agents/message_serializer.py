"""The serializer of a conversation's checkpoints, which remembers messages between turns."""

from collections import OrderedDict
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

# Messages that are remembered, and their serialized bytes. The objects take some times as much.
MAX_MESSAGES, MAX_BYTES = 2048, 2 << 20

Typed = tuple[str, bytes]


class MessageSerializer(JsonPlusSerializer):
    """Serializes as JsonPlusSerializer, but each message only once while it is remembered.

    Only for programs that never change a message in place. All methods belong to one thread.
    """

    def __init__(self) -> None:
        super().__init__()
        # The least recently used first.
        self._messages: OrderedDict[Typed, BaseMessage] = OrderedDict()
        # By the id of a remembered object.
        self._serialized: dict[int, Typed] = {}
        self._bytes = 0

    def dumps_typed(self, obj: Any) -> Typed:
        """Return the type and bytes of a value."""
        if (known := self._serialized.get(id(obj))) is not None:
            return known
        serialized = super().dumps_typed(obj)
        self._remember(serialized, obj)
        return serialized

    def loads_typed(self, data: Typed) -> Any:
        """Return the value of a type and bytes."""
        if (known := self._messages.get(data)) is not None:
            self._messages.move_to_end(data)
            return known
        value = super().loads_typed(data)
        self._remember(data, value)
        return value

    def _remember(self, serialized: Typed, value: Any) -> None:
        # LangGraph sets the id of a message that has none.
        if not isinstance(value, BaseMessage) or not value.id or serialized in self._messages:
            return
        self._messages[serialized] = value
        self._serialized[id(value)] = serialized
        self._bytes += len(serialized[1])
        while len(self._messages) > MAX_MESSAGES or self._bytes > MAX_BYTES:
            oldest, message = self._messages.popitem(last=False)
            del self._serialized[id(message)]
            self._bytes -= len(oldest[1])
