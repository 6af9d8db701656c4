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

from memrelay.agents.response import MAX_DEPTH, is_deep, join_text, parse_response

Json = dict[str, Any]
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
    return join_text(message.content)


def find_faults(message: AIMessage) -> dict[str, str]:
    """Return what is wrong with the arguments of invalid calls, by the ids of the calls."""
    return {str(call["id"]): call["error"] or NO_OBJECT for call in message.invalid_tool_calls}


def _call_to_wire(call: ToolCall) -> Json:
    function = {"name": call["name"], "arguments": orjson.dumps(call["args"]).decode()}
    return {"id": call["id"], "type": "function", "function": function}


def _parse_arguments(text: str) -> tuple[Json, str]:
    """Return (arguments, "") or ({}, the fault). No text stands for no arguments."""
    try:
        value = orjson.loads(text or "{}")
    except ValueError:
        return {}, NO_OBJECT
    if not isinstance(value, dict):
        return {}, NO_OBJECT
    return ({}, TOO_DEEP) if is_deep(value) else (value, "")
