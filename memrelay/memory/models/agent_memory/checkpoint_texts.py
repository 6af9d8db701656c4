"""The texts of messages in stored values of checkpoints, as policies let them in."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.checkpoint_table import pack, unpack

# The fields of a message with its texts. A message is a dictionary with the first one.
CONTENT, TOOL_CALLS = "content", "tool_calls"
KIND = "checkpoint"
TOO_DEEP = (
    "a value of the checkpoint is nested too deep for the policies of the store to look at it; "
    "keep less depth in the state of the graph"
)


def admit_stored(records: RecordTable, stored: bytes) -> bytes:
    """Return a stored value with the texts of its messages as the policies let them in. Other
    values, and what is no msgpack, are not looked at. Raises PolicyStop, and Refused if a value is
    nested too deep to look at.
    """
    try:
        value = msgspec.msgpack.decode(unpack(stored))
    except (ValueError, msgspec.MsgspecError, UnicodeDecodeError):
        return stored
    except RecursionError as error:
        raise Refused(TOO_DEEP) from error
    try:
        texts = list(dict.fromkeys(_find_texts(value, is_text=False)))
        admitted = records.admit_texts(KIND, texts)
        if admitted == texts:
            return stored
        changes = dict(zip(texts, admitted, strict=True))
        changed = _replace_texts(value, changes.__getitem__, is_text=False)
        return pack(msgspec.msgpack.encode(changed))
    except RecursionError as error:
        raise Refused(TOO_DEEP) from error


def _find_texts(value: Any, *, is_text: bool) -> Iterator[str]:
    if isinstance(value, str):
        if is_text:
            yield value
    elif isinstance(value, Ext):
        yield from _find_texts(_decode_inner(value), is_text=is_text)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _find_texts(inner, is_text=is_text or _is_text(value, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _find_texts(inner, is_text=is_text)


def _replace_texts(value: Any, replace: Callable[[str], str], *, is_text: bool) -> Any:
    if isinstance(value, str):
        return replace(value) if is_text else value
    if isinstance(value, Ext):
        inner = _decode_inner(value)
        changed = _replace_texts(inner, replace, is_text=is_text)
        return value if changed == inner else Ext(value.code, msgspec.msgpack.encode(changed))
    if isinstance(value, dict):
        return {
            key: _replace_texts(inner, replace, is_text=is_text or _is_text(value, key))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_replace_texts(inner, replace, is_text=is_text) for inner in value]
    return value


def _decode_inner(value: Ext) -> Any:
    """Return what an extension type holds, None if that is no msgpack."""
    try:
        return msgspec.msgpack.decode(value.data)
    except (ValueError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_text(message: dict[Any, Any], key: Any) -> bool:
    return CONTENT in message and key in (CONTENT, TOOL_CALLS)
