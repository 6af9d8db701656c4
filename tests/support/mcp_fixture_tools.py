"""The diagnostic tools that the MCP conformance suite calls by name."""

import asyncio
import base64
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

Context = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult
Run = Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": False}

_PAUSE_S = 0.05
_CHANGES = InMemorySubscriptionBus()


def changes() -> InMemorySubscriptionBus:
    """Return the bus on which the tools announce changed lists."""
    return _CHANGES


def red_pixel() -> str:
    """Return a PNG image of one red pixel as base64."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    parts = [(b"IHDR", header), (b"IDAT", pixels), (b"IEND", b"")]
    chunks = (_png_chunk(kind, body) for kind, body in parts)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)


def silence() -> str:
    """Return a WAV sound of four silent samples as base64."""
    samples = b"\x00" * 8
    layout = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    body = b"WAVE" + layout + struct.pack("<4sI", b"data", len(samples)) + samples
    return base64.b64encode(struct.pack("<4sI", b"RIFF", len(body)) + body).decode()


def text(value: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)])


def embedded(uri: str, mime_type: str, value: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=value)
    return types.EmbeddedResource(type="resource", resource=contents)


async def simple_text(_: Context, __: types.CallToolRequestParams) -> Answer:
    return text("This is a simple text response for testing.")


async def image(_: Context, __: types.CallToolRequestParams) -> Answer:
    picture = types.ImageContent(type="image", data=red_pixel(), mime_type="image/png")
    return types.CallToolResult(content=[picture])


async def audio(_: Context, __: types.CallToolRequestParams) -> Answer:
    sound = types.AudioContent(type="audio", data=silence(), mime_type="audio/wav")
    return types.CallToolResult(content=[sound])


async def embedded_resource(_: Context, __: types.CallToolRequestParams) -> Answer:
    note = "This is an embedded resource content."
    return types.CallToolResult(content=[embedded("test://embedded-resource", "text/plain", note)])


async def mixed(_: Context, __: types.CallToolRequestParams) -> Answer:
    return types.CallToolResult(
        content=[
            types.TextContent(type="text", text="Multiple content types test:"),
            types.ImageContent(type="image", data=red_pixel(), mime_type="image/png"),
            embedded("test://mixed-content-resource", "application/json", '{"value":123}'),
        ]
    )


async def failing(_: Context, __: types.CallToolRequestParams) -> Answer:
    answer = text("This tool intentionally returns an error for testing")
    return answer.model_copy(update={"is_error": True})


async def with_logging(context: Context, _: types.CallToolRequestParams) -> Answer:
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", step, related_request_id=context.request_id)
        await asyncio.sleep(_PAUSE_S)
    return text("Logged three messages")


async def with_progress(context: Context, _: types.CallToolRequestParams) -> Answer:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await asyncio.sleep(_PAUSE_S)
    return text("Reported progress")


async def sampling(context: Context, params: types.CallToolRequestParams) -> Answer:
    prompt = str((params.arguments or {})["prompt"])
    answer = await context.session.send_request(
        sampling_request(prompt, 100),
        types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=context.request_id),
    )
    return text(f"LLM response: {answer.content}")


async def elicitation(context: Context, params: types.CallToolRequestParams) -> Answer:
    schema = form({"username": {"type": "string"}, "email": {"type": "string"}}, required=True)
    return await _elicit(context, str((params.arguments or {})["message"]), schema)


async def elicitation_defaults(context: Context, _: types.CallToolRequestParams) -> Answer:
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicit(context, "Check the defaults", form(fields))


async def elicitation_enums(context: Context, _: types.CallToolRequestParams) -> Answer:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _elicit(context, "Choose one of each", form(fields))


async def _elicit(context: Context, message: str, schema: dict[str, Any]) -> Answer:
    answer = await context.session.elicit_form(message, schema, context.request_id)
    return text(f"Elicitation completed: action={answer.action}, content={answer.content}")


async def missing_capability(context: Context, _: types.CallToolRequestParams) -> Answer:
    declared = context.session.client_capabilities
    if declared is None or declared.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs the client capability sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return text("The client can sample")


async def announce_tools(_: Context, __: types.CallToolRequestParams) -> Answer:
    await _CHANGES.publish(ToolsListChanged())
    return text("Announced")


async def announce_prompts(_: Context, __: types.CallToolRequestParams) -> Answer:
    await _CHANGES.publish(PromptsListChanged())
    return text("Announced")


def form(fields: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    """Return the schema of a form with these fields."""
    schema = {"type": "object", "properties": fields}
    return schema | ({"required": list(fields)} if required else {})


def form_request(message: str, field: str, kind: str = "string") -> types.ElicitRequest:
    """Return a request for a form with one required field."""
    schema = form({field: {"type": kind}}, required=True)
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def sampling_request(prompt: str, max_tokens: int) -> types.CreateMessageRequest:
    """Return a request for a completion of one user message."""
    message = types.SamplingMessage(
        role="user", content=types.TextContent(type="text", text=prompt)
    )
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


TOOLS: dict[str, Run] = {
    "test_simple_text": simple_text,
    "test_image_content": image,
    "test_audio_content": audio,
    "test_embedded_resource": embedded_resource,
    "test_multiple_content_types": mixed,
    "test_error_handling": failing,
    "test_tool_with_logging": with_logging,
    "test_logging_tool": with_logging,
    "test_tool_with_progress": with_progress,
    "test_sampling": sampling,
    "test_elicitation": elicitation,
    "test_elicitation_sep1034_defaults": elicitation_defaults,
    "test_elicitation_sep1330_enums": elicitation_enums,
    "test_missing_capability": missing_capability,
    "test_trigger_tool_change": announce_tools,
    "test_trigger_prompt_change": announce_prompts,
}
