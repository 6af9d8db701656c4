"""An MCP server with everything that the conformance suite calls by name.

The product's tools act on memory, so the suite cannot use them to exercise images, progress or
questions to the client. This server has the suite's diagnostic tools, resources and prompts.
"""

import json
import re
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from tests.support import mcp_fixture_rounds as rounds
from tests.support import mcp_fixture_tools as tools
from tests.support.mcp_fixture_tools import NO_ARGUMENTS, Context

_TEMPLATE = re.compile(r"test://template/([^/]+)/data")
_WATCHED = "test://watched-resource"
_RUNS = tools.TOOLS | rounds.TOOLS
_MODERN_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_HEADER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "test_sampling": tools.form({"prompt": {"type": "string"}}, required=True),
    "test_elicitation": tools.form({"message": {"type": "string"}}, required=True),
    "json_schema_2020_12_tool": _MODERN_SCHEMA,
    "test_custom_header": _HEADER_SCHEMA,
}
_RESOURCES = {
    "test://static-text": "text/plain",
    "test://static-binary": "image/png",
    _WATCHED: "text/plain",
}
_PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def fixture_server() -> Server[Any]:
    """Return a server that has every tool, resource and prompt of the suite."""
    hint = CacheHint(ttl_ms=0, scope="private")
    server: Server[Any] = Server(
        "memrelay-conformance",
        version="1",
        cache_hints={
            "tools/list": hint,
            "prompts/list": hint,
            "resources/list": hint,
            "resources/templates/list": hint,
            "resources/read": hint,
        },
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
        on_subscribe_resource=_accept,
        on_unsubscribe_resource=_accept,
        on_subscriptions_listen=ListenHandler(tools.changes()),
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
        on_completion=_complete,
    )
    # The constructor's argument for this handler warns that logging is deprecated.
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _accept)
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


async def _accept(_: Context, __: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def _list_tools(_: Context, __: Any) -> types.ListToolsResult:
    names = [*_RUNS, "json_schema_2020_12_tool", "test_custom_header"]
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=name,
                description=f"Diagnostic tool {name}",
                input_schema=_SCHEMAS.get(name, NO_ARGUMENTS),
            )
            for name in names
        ]
    )


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> tools.Answer:
    if params.name in ("json_schema_2020_12_tool", "test_custom_header"):
        return tools.text(json.dumps(params.arguments or {}))
    if params.name not in _RUNS:
        raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name}")
    return await _RUNS[params.name](context, params)


async def _list_resources(_: Context, __: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=uri, name=uri, description=f"Diagnostic resource {uri}", mime_type=kind
            )
            for uri, kind in _RESOURCES.items()
        ]
    )


async def _list_templates(_: Context, __: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="template", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _read_resource(
    _: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = params.uri
    if uri == "test://static-binary":
        picture = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=tools.red_pixel())
        return types.ReadResourceResult(contents=[picture])
    if match := _TEMPLATE.fullmatch(uri):
        body = json.dumps({"id": match[1], "templateTest": True})
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=body)]
        )
    if uri not in _RESOURCES:
        raise MCPError(types.INVALID_PARAMS, f"no resource {uri}", {"uri": uri})
    body = "This is the content of the static text resource."
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=body)]
    )


async def _list_prompts(_: Context, __: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=f"Diagnostic prompt {name}",
                arguments=[types.PromptArgument(name=each, required=True) for each in arguments],
            )
            for name, arguments in _PROMPTS.items()
        ]
    )


async def _get_prompt(
    _: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    if params.name not in _PROMPTS:
        raise MCPError(types.INVALID_PARAMS, f"unknown prompt {params.name}")
    if params.name == "test_input_required_result_prompt":
        answer = rounds.form_answer(params, "user_context")
        if answer is None:
            question = tools.form_request("What context should the prompt use?", "context")
            return rounds.ask({"user_context": question})
        return _messages(f"Context: {answer.get('context')}")
    if params.name == "test_prompt_with_embedded_resource":
        note = "Embedded resource content for testing."
        resource = tools.embedded(given["resourceUri"], "text/plain", note)
        return _messages(resource, "Please process the embedded resource above.")
    if params.name == "test_prompt_with_image":
        picture = types.ImageContent(type="image", data=tools.red_pixel(), mime_type="image/png")
        return _messages(picture, "Please analyze the image above.")
    if params.name == "test_prompt_with_arguments":
        return _messages(f"Arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
    return _messages("This is a simple prompt for testing.")


def _messages(*contents: str | types.ContentBlock) -> types.GetPromptResult:
    blocks = [
        types.TextContent(type="text", text=each) if isinstance(each, str) else each
        for each in contents
    ]
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=block) for block in blocks]
    )


async def _complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    value = params.argument.value
    return types.CompleteResult(completion=types.Completion(values=[f"{value}-1", f"{value}-2"]))
