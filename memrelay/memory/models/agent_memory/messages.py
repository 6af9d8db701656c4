"""Messages of conversations, read from the values of checkpoints without LangGraph.

LangGraph's serializer writes a message as a msgpack extension with [module, class, fields, method].
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from memrelay.memory.engine.timestamps import LAST_MS, parse_ms
from memrelay.memory.models.agent_memory.checkpoint_table import unpack

MSGPACK = "msgpack"
# Extensions with a class: the fields are at this place.
FIELDS = 2
DELTA_SNAPSHOT = 7
ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "user": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "assistant": "assistant",
}
# Messages that an agent adds: the repeated system prompt, and the summary of old turns.
HIDDEN = frozenset({"system_prompt_fallback", "conversation_summary"})
# Numbers from here on are milliseconds, lower ones are seconds.
FIRST_MS = 10**11


class ShownMessage(NamedTuple):
    """A message of a user or an assistant. `at` is Unix ms, None if it is not known."""

    role: str
    text: str
    at: int | None


def decode_value(data: bytes) -> Any:
    """Return a serialized value, with the fields of objects as dictionaries. None if it is
    damaged.
    """
    try:
        return msgspec.msgpack.decode(data, ext_hook=_decode_extension)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def shown_messages(values: Iterable[Any]) -> Iterator[ShownMessage]:
    """Yield the messages that a chat shows: of users, and of assistants with a text.

    A message without a time has the time of the one before it.
    """
    last: int | None = None
    for value in values:
        if not isinstance(value, dict) or value.get("id") in HIDDEN:
            continue
        role = ROLES.get(str(value.get("type") or value.get("role")), "")
        text = text_of(value.get("content"))
        if role and (text or role == "user"):
            found = _time_of(value)
            last = last if found is None else found
            yield ShownMessage(role, text, last)


def text_of(content: Any) -> str:
    """Return the text of a message, whose content may be a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [
        block if isinstance(block, str) else block.get("text", "")
        for block in blocks
        if isinstance(block, str | dict)
    ]
    return "".join(text for text in texts if isinstance(text, str))


def is_of_user(stored: bytes) -> bool:
    """Return whether a stored value is a message of a user, which begins a turn."""
    message = _message_of(stored)
    return ROLES.get(str(message.get("type") or message.get("role"))) == "user"


def calls_in(stored: bytes) -> set[str]:
    """Return the ids of the tool calls in a stored message, or of the call that it answers."""
    message = _message_of(stored)
    calls = message.get("tool_calls")
    named = calls if isinstance(calls, list) else []
    idents = [one.get("id") for one in named if isinstance(one, dict)]
    return {one for one in (*idents, message.get("tool_call_id")) if isinstance(one, str)}


def _message_of(stored: bytes) -> dict[str, Any]:
    try:
        message = decode_value(unpack(stored))
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _decode_extension(code: int, data: memoryview) -> Any:
    value = msgspec.msgpack.decode(data, ext_hook=_decode_extension)
    if code == DELTA_SNAPSHOT:
        return value
    is_object = isinstance(value, list) and len(value) > FIELDS
    return value[FIELDS] if is_object else None


def _time_of(message: dict[str, Any]) -> int | None:
    for name, key in (("additional_kwargs", "timestamp"), ("response_metadata", "created")):
        fields = message.get(name)
        value = fields.get(key) if isinstance(fields, dict) else None
        if (found := _to_ms(value)) is not None:
            return found
    return None


def _to_ms(value: Any) -> int | None:
    if isinstance(value, str):
        # Some programs write both an offset and a Z.
        return parse_ms(value.removesuffix("Z") if "+" in value else value)
    if type(value) in (int, float) and 0 <= value <= LAST_MS:
        return int(value if value >= FIRST_MS else value * 1000)
    return None
