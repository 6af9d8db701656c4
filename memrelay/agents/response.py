"""Messages of a model as `/chat/completions` answers them, checked. It needs no LangChain."""

from collections.abc import Mapping
from typing import Any

import orjson

Json = dict[str, Any]
# Levels of JSON that the model may send. The encoder refuses 255.
MAX_DEPTH = 100
DEEP_JSON = '{"":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}"


def parse_response(message: Mapping[str, Any]) -> Json:
    """Return `content` and `tool_calls` of a message as the API defines them.

    Blocks of another shape are dropped. So are `tool_calls` that are no array; parts of a call that
    are missing become "".
    """
    calls = message.get("tool_calls")
    parsed = [_parse_call(call) for call in calls] if isinstance(calls, list) else []
    return {"content": _convert_content(message.get("content")), "tool_calls": parsed}


def is_readable(block: object) -> bool:
    """Return whether a block of a message has a type, and a text only if it is a string."""
    if not isinstance(block, dict):
        return isinstance(block, str)
    return isinstance(block.get("type"), str) and isinstance(block.get("text", ""), str)


def is_deep(value: object, depth: int = MAX_DEPTH) -> bool:
    """Return whether a JSON value has more than `depth` levels of arrays and objects."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(is_deep(part, depth - 1) for part in parts)


def join_text(content: str | list[str | Json]) -> str:
    """Return the text of a parsed content: of its blocks of text, if it has blocks."""
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in content
        if isinstance(block, str) or block.get("type") == "text"
    )


def _parse_call(value: object) -> Json:
    call = value if isinstance(value, dict) else {}
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        # Some services send the object itself.
        arguments = DEEP_JSON if is_deep(arguments) else orjson.dumps(arguments).decode()
    named = {"name": _text(function.get("name")), "arguments": arguments or ""}
    return {"id": _text(call.get("id")), "type": "function", "function": named}


def _convert_content(content: object) -> str | list[str | Json]:
    if isinstance(content, list):
        return [block for block in content if is_readable(block) and not is_deep(block)]
    return _text(content)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
