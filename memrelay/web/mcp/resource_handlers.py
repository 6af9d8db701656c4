"""Registers resources, completion, prompts and updates with the server of a toolset."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memrelay.web.mcp.resources.catalog import list_resources, list_templates, read_resource
from memrelay.web.mcp.resources.completion import complete
from memrelay.web.mcp.resources.prompts import get_prompt, list_prompts
from memrelay.web.mcp.session import Session, get_session
from memrelay.web.mcp.subscriptions import Follow, Streams, Subscriptions, find_followed
from memrelay.web.mcp.tool import NotAnswered, Target, ToolError
from memrelay.web.mcp.toolsets import GRAPH, MEMORY

Request = ServerRequestContext[Any, Any]
Page = types.PaginatedRequestParams | None
# Answers a request for the pipelines that its client sees.
Answer = Callable[[Sequence[Target], Any], Awaitable[Any]]


async def _find_targets(session: Session) -> Sequence[Target]:
    """Return the pipelines that the client sees."""
    if session.uid is not None:
        return [session.make_target(session.uid)]
    return [session.make_target(one.uid) for one in await session.list_pipelines()]


async def _list_templates(
    targets: Sequence[Target], page: Page
) -> types.ListResourceTemplatesResult:
    return list_templates(targets)


async def _list_no_templates(
    targets: Sequence[Target], page: Page
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[])


async def _list_prompts(targets: Sequence[Target], page: Page) -> types.ListPromptsResult:
    return list_prompts(targets)


# By toolset and method: the type of the parameters, and the answer. The toolset `files` has only
# its tool.
ANSWERS: dict[str, dict[str, tuple[type[Any], Answer]]] = {
    MEMORY: {
        "resources/list": (
            types.PaginatedRequestParams,
            lambda targets, page: list_resources(targets, page and page.cursor),
        ),
        "resources/templates/list": (types.PaginatedRequestParams, _list_templates),
        "resources/read": (
            types.ReadResourceRequestParams,
            lambda targets, params: read_resource(targets, params.uri),
        ),
        "completion/complete": (types.CompleteRequestParams, complete),
        "prompts/list": (types.PaginatedRequestParams, _list_prompts),
        "prompts/get": (types.GetPromptRequestParams, get_prompt),
    },
    GRAPH: {
        "resources/list": (
            types.PaginatedRequestParams,
            lambda targets, page: list_resources(targets, None, has_graph=True),
        ),
        "resources/templates/list": (types.PaginatedRequestParams, _list_no_templates),
        "resources/read": (
            types.ReadResourceRequestParams,
            lambda targets, params: read_resource(targets, params.uri, has_graph=True),
        ),
    },
}


def add_resources(server: Server[Any], toolset: str) -> None:
    """Register what a toolset offers besides tools."""
    if toolset not in ANSWERS:
        return
    for method, (params, answer) in ANSWERS[toolset].items():
        _register(server, method, params, partial(_answer_for_targets, answer))
    _add_listening(server, has_graph=toolset == GRAPH)


async def _answer_for_targets(answer: Answer, request: Request, params: Any) -> Any:
    return await answer(await _find_targets(get_session(request)), params)


def _add_listening(server: Server[Any], *, has_graph: bool) -> None:
    """Register the stream of updates, and declare it only to clients that can follow a feed."""
    streams = Streams()

    async def listen(
        request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        session = get_session(request)
        if session.readers is None:
            raise MCPError(types.METHOD_NOT_FOUND, "a file has no feed of changes to follow")
        follow = Follow(session.readers, await _find_targets(session), has_graph=has_graph)
        return await streams.listen(request, params.notifications, follow, session.transport)

    async def discover(
        request: Request, params: types.RequestParams | None
    ) -> types.DiscoverResult:
        declared = server.get_capabilities(protocol_version=request.protocol_version)
        can_follow = await _can_follow(get_session(request), has_graph=has_graph)
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=_limit_updates(declared, can_follow=can_follow, has_graph=has_graph),
            instructions=server.instructions,
        )

    _register(server, "subscriptions/listen", types.SubscriptionsListenRequestParams, listen)
    _register(server, "server/discover", types.RequestParams, discover)


async def _can_follow(session: Session, *, has_graph: bool) -> bool:
    if session.readers is None:
        return False
    targets = await _find_targets(session)
    return bool(await find_followed(session.readers, targets, has_graph=has_graph))


def _limit_updates(
    declared: types.ServerCapabilities, *, can_follow: bool, has_graph: bool
) -> types.ServerCapabilities:
    """Return the capabilities with the updates that the server sends: those of resources."""
    return declared.model_copy(
        update={
            "tools": types.ToolsCapability(),
            "prompts": declared.prompts and types.PromptsCapability(),
            "resources": types.ResourcesCapability(
                subscribe=can_follow, list_changed=can_follow and not has_graph
            ),
        }
    )


async def add_subscribing(server: Server[Any], session: Session) -> Subscriptions | None:
    """Register `resources/subscribe` for a connection over stdio of a handshake revision.

    Returns the subscriptions, which the connection must close; None if no feed is on.
    """
    has_graph = session.toolset == GRAPH
    if session.toolset not in (GRAPH, MEMORY) or session.uid is None or session.readers is None:
        return None
    if not await _can_follow(session, has_graph=has_graph):
        return None
    target = session.make_target(session.uid)
    subscriptions = Subscriptions(session.readers, target, has_graph=has_graph)

    async def subscribe(
        request: Request, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        await subscriptions.subscribe(request.session, params.uri)
        return types.EmptyResult()

    async def unsubscribe(
        request: Request, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        subscriptions.unsubscribe(params.uri)
        return types.EmptyResult()

    _register(server, "resources/subscribe", types.SubscribeRequestParams, subscribe)
    _register(server, "resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
    return subscriptions


def _register(
    server: Server[Any],
    method: str,
    params_type: type[Any],
    handler: Callable[[Request, Any], Awaitable[Any]],
) -> None:
    """Register a handler; a failed operation call becomes a protocol error."""

    async def handle(request: Request, params: Any) -> Any:
        try:
            return await handler(request, params)
        except NotAnswered as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        except ToolError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error

    server.add_request_handler(method, params_type, handle)
