"""Messages of LangChain as the JSON of `/chat/completions`, and back."""

from collections.abc import Iterable, Mapping
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


def to_wire(message: BaseMessage) -> Json:
    """Return a message as JSON."""
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.content}
    if isinstance(message, HumanMessage):
        return {"role": "user", "content": message.content}
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": message.content,
        }
    calls = [_call_to_wire(call) for call in _all_calls(message)]
    said = {"role": "assistant", "content": message.content or (None if calls else "")}
    return said | ({"tool_calls": calls} if calls else {})


def from_wire(said: Mapping[str, Any], message_id: str) -> AIMessage:
    """Return a message of the model.

    Tool calls whose arguments are no JSON object become invalid calls. A call without a distinct id
    gets one.
    """
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    seen: set[str] = set()
    for index, given in enumerate(said.get("tool_calls") or ()):
        function = given.get("function") or {} if isinstance(given, dict) else {}
        name, text = str(function.get("name") or ""), function.get("arguments")
        ident = str(given.get("id") or "") if isinstance(given, dict) else ""
        if not ident or ident in seen:
            ident = f"call_{message_id}_{index}"
        seen.add(ident)
        arguments = _parse_arguments(text)
        if arguments is None:
            invalid.append(
                InvalidToolCall(
                    name=name, args=str(text), id=ident, error=None, type="invalid_tool_call"
                )
            )
        calls.append(ToolCall(name=name, args=arguments or {}, id=ident, type="tool_call"))
    return AIMessage(
        content=_content_of(said.get("content")),
        id=message_id,
        tool_calls=calls,
        invalid_tool_calls=invalid,
    )


def text_of(message: BaseMessage) -> str:
    """Return the text of a message: of its blocks of text, if it has blocks."""
    content = message.content
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in content
        if isinstance(block, str) or block.get("type") == "text"
    )


def invalid_ids(message: AIMessage) -> set[str]:
    """Return the ids of the calls whose arguments are no JSON object."""
    return {str(call["id"]) for call in message.invalid_tool_calls}


def _all_calls(message: BaseMessage) -> Iterable[ToolCall]:
    return message.tool_calls if isinstance(message, AIMessage) else ()


def _call_to_wire(call: ToolCall) -> Json:
    function = {"name": call["name"], "arguments": orjson.dumps(call["args"]).decode()}
    return {"id": call["id"], "type": "function", "function": function}


def _parse_arguments(given: object) -> Json | None:
    """Return the arguments of a call, None if they are no JSON object. None of them is {}."""
    if given in (None, ""):
        return {}
    try:
        value = orjson.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _content_of(given: object) -> str | list[str | Json]:
    if isinstance(given, list):
        return [block for block in given if isinstance(block, str | dict)]
    return given if isinstance(given, str) else ""
