"""Messages of LangChain as the JSON of `/chat/completions`, and back."""

from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

Json = dict[str, Any]
# Levels of JSON that the model may send. The encoder refuses 255.
MAX_DEPTH = 100
DEEP_JSON = '{"":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}"
NO_OBJECT = "the arguments are no JSON object"
TOO_DEEP = f"the arguments have more than {MAX_DEPTH} levels of arrays and objects"


def to_wire(message: BaseMessage) -> Json:
    """Return a message as JSON."""
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.content}
    if isinstance(message, HumanMessage):
        return {"role": "user", "content": message.content}
    if isinstance(message, ToolMessage):
        ident = message.tool_call_id
        return {"role": "tool", "tool_call_id": ident, "content": message.content}
    tool_calls = message.tool_calls if isinstance(message, AIMessage) else ()
    calls = [_call_to_wire(call) for call in tool_calls]
    response = {"role": "assistant", "content": message.content or (None if calls else "")}
    return response | ({"tool_calls": calls} if calls else {})


def parse_response(message: Mapping[str, Any]) -> Json:
    """Return `content` and `tool_calls` of a message as the API defines them.

    Blocks of another shape are dropped. So are `tool_calls` that are no array; parts of a call that
    are missing become "".
    """
    calls = message.get("tool_calls")
    parsed = [_parse_call(call) for call in calls] if isinstance(calls, list) else []
    return {"content": _convert_content(message.get("content")), "tool_calls": parsed}


def from_wire(message: Mapping[str, Any], message_id: str) -> AIMessage:
    """Return a message of the model.

    Tool calls whose arguments are no JSON object become invalid calls. A call without a distinct id
    gets one.
    """
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    seen: set[str] = set()
    response = parse_response(message)
    for index, call in enumerate(response["tool_calls"]):
        name, text = call["function"]["name"], call["function"]["arguments"]
        ident = call["id"]
        if not ident or ident in seen:
            ident = f"call_{message_id}_{index}"
        seen.add(ident)
        arguments, fault = _parse_arguments(text)
        if fault:
            invalid.append(
                InvalidToolCall(
                    name=name, args=text, id=ident, error=fault, type="invalid_tool_call"
                )
            )
        calls.append(ToolCall(name=name, args=arguments, id=ident, type="tool_call"))
    return AIMessage(
        content=response["content"], id=message_id, tool_calls=calls, invalid_tool_calls=invalid
    )


def read_text(message: BaseMessage) -> str:
    """Return the text of a message: of its blocks of text, if it has blocks."""
    content = message.content
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in content
        if isinstance(block, str) or block.get("type") == "text"
    )


def find_faults(message: AIMessage) -> dict[str, str]:
    """Return what is wrong with the arguments of invalid calls, by the ids of the calls."""
    return {str(call["id"]): call["error"] or NO_OBJECT for call in message.invalid_tool_calls}


def is_readable(block: object) -> bool:
    """Return whether a block of a message has a type, and a text only if it is a string."""
    if not isinstance(block, dict):
        return isinstance(block, str)
    return isinstance(block.get("type"), str) and isinstance(block.get("text", ""), str)


def _call_to_wire(call: ToolCall) -> Json:
    function = {"name": call["name"], "arguments": orjson.dumps(call["args"]).decode()}
    return {"id": call["id"], "type": "function", "function": function}


def _parse_call(value: object) -> Json:
    call = value if isinstance(value, dict) else {}
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        # Some services send the object itself.
        arguments = DEEP_JSON if _is_deep(arguments) else orjson.dumps(arguments).decode()
    named = {"name": _text(function.get("name")), "arguments": arguments or ""}
    return {"id": _text(call.get("id")), "type": "function", "function": named}


def _parse_arguments(text: str) -> tuple[Json, str]:
    """Return (arguments, "") or ({}, the fault). No text stands for no arguments."""
    try:
        value = orjson.loads(text or "{}")
    except ValueError:
        return {}, NO_OBJECT
    if not isinstance(value, dict):
        return {}, NO_OBJECT
    return ({}, TOO_DEEP) if _is_deep(value) else (value, "")


def _convert_content(content: object) -> str | list[str | Json]:
    if isinstance(content, list):
        return [block for block in content if is_readable(block) and not _is_deep(block)]
    return _text(content)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_deep(value: object, depth: int = MAX_DEPTH) -> bool:
    """Return whether a JSON value has more than `depth` levels of arrays and objects."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deep(part, depth - 1) for part in parts)
