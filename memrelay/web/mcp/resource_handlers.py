"""Registers resources, completion, prompts and updates with the server of a toolset."""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memrelay.web.mcp.resources.catalog import list_resources, list_templates, read_resource
from memrelay.web.mcp.resources.completion import complete
from memrelay.web.mcp.resources.prompts import get_prompt, list_prompts
from memrelay.web.mcp.session import Session
from memrelay.web.mcp.subscriptions import Follow, Streams, Subscriptions, find_followed
from memrelay.web.mcp.tool import NotAnswered, Target, ToolError
from memrelay.web.mcp.toolsets import GRAPH, MEMORY

Request = ServerRequestContext[Any, Any]
FindSession = Callable[[Request], Session]
Page = types.PaginatedRequestParams | None
Params = TypeVar("Params")
Result = TypeVar("Result")


async def find_targets(session: Session) -> Sequence[Target]:
    """Return the pipelines that the client sees."""
    uids = [session.uid] if session.uid is not None else await session.list_uids()
    return [session.make_target(uid) for uid in uids]


def add_resources(server: Server[Any], toolset: str, find_session: FindSession) -> None:
    """Register what a toolset offers besides tools. The toolset `files` has only its tool."""
    if toolset == GRAPH:
        _add_graph_resource(server, find_session)
    elif toolset == MEMORY:
        _add_resources(server, find_session)
        _add_prompts(server, find_session)
    if toolset in (GRAPH, MEMORY):
        _add_listening(server, find_session, has_graph=toolset == GRAPH)


def _add_graph_resource(server: Server[Any], find_session: FindSession) -> None:
    async def list_(request: Request, params: Page) -> types.ListResourcesResult:
        return await list_resources(await _targets(request), None, has_graph=True)

    async def list_no_templates(
        request: Request, params: Page
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read(
        request: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await read_resource(await _targets(request), params.uri, has_graph=True)

    async def _targets(request: Request) -> Sequence[Target]:
        return await find_targets(find_session(request))

    _register(server, "resources/list", types.PaginatedRequestParams, list_)
    _register(server, "resources/templates/list", types.PaginatedRequestParams, list_no_templates)
    _register(server, "resources/read", types.ReadResourceRequestParams, read)


def _add_resources(server: Server[Any], find_session: FindSession) -> None:
    async def _targets(request: Request) -> Sequence[Target]:
        return await find_targets(find_session(request))

    async def list_(request: Request, params: Page) -> types.ListResourcesResult:
        cursor = None if params is None else params.cursor
        return await list_resources(await _targets(request), cursor)

    async def templates(request: Request, params: Page) -> types.ListResourceTemplatesResult:
        return list_templates(await _targets(request))

    async def read(
        request: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await read_resource(await _targets(request), params.uri)

    async def complete_(
        request: Request, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        return await complete(await _targets(request), params)

    _register(server, "resources/list", types.PaginatedRequestParams, list_)
    _register(server, "resources/templates/list", types.PaginatedRequestParams, templates)
    _register(server, "resources/read", types.ReadResourceRequestParams, read)
    _register(server, "completion/complete", types.CompleteRequestParams, complete_)


def _add_prompts(server: Server[Any], find_session: FindSession) -> None:
    async def list_(request: Request, params: Page) -> types.ListPromptsResult:
        return list_prompts(await find_targets(find_session(request)))

    async def get(request: Request, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await get_prompt(await find_targets(find_session(request)), params)

    _register(server, "prompts/list", types.PaginatedRequestParams, list_)
    _register(server, "prompts/get", types.GetPromptRequestParams, get)


def _add_listening(server: Server[Any], find_session: FindSession, *, has_graph: bool) -> None:
    """Register the stream of updates, and declare it only to clients that can follow a feed."""
    streams = Streams()

    async def listen(
        request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        session = find_session(request)
        if session.readers is None:
            raise MCPError(types.METHOD_NOT_FOUND, "a file has no feed of changes to follow")
        follow = Follow(session.readers, await find_targets(session), has_graph=has_graph)
        return await streams.listen(request, params.notifications, follow, session.transport)

    async def discover(
        request: Request, params: types.RequestParams | None
    ) -> types.DiscoverResult:
        session = find_session(request)
        declared = server.get_capabilities(protocol_version=request.protocol_version)
        can_follow = await _can_follow(session, has_graph=has_graph)
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
    targets = await find_targets(session)
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
    params: type[Any],
    handler: Callable[[Request, Any], Awaitable[Any]],
) -> None:
    """Register a handler; a failed operation call becomes a protocol error."""

    @wraps(handler)
    async def handle(request: Request, given: Any) -> Any:
        try:
            return await handler(request, given)
        except NotAnswered as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        except ToolError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error

    server.add_request_handler(method, params, handle)
