"""Updates of resources: streams of `subscriptions/listen`, and `resources/subscribe` over stdio.

Both follow the change feeds of pipelines. A stream ends if its client stops reading.
"""

import asyncio
from asyncio import Transport
from collections.abc import Sequence
from contextlib import ExitStack
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from memrelay.bus.errors import BusError
from memrelay.logs import get_logger
from memrelay.web.mcp.change_reader import ChangeReaders, FeedError, Subscription
from memrelay.web.mcp.resources.catalog import find_target, unknown_resource
from memrelay.web.mcp.resources.uris import ResourceUri, name_of, parse_uri
from memrelay.web.mcp.tool import Target

log = get_logger(__name__)
# How long a client may take to receive one notification.
SEND_TIMEOUT_S = 10.0
# Bytes that the kernel may buffer for one stream.
SEND_BYTES = 64 << 10
# Streams of this process.
MAX_STREAMS = 1000
# Resources that one client may follow.
MAX_URIS = 1000
# Pipelines that are asked whether they have a feed.
MAX_ASKED = 100
OFF = "the pipeline keeps no change feed; set `changes` of its first store in the bundle to true"


async def find_followed(
    readers: ChangeReaders, targets: Sequence[Target], *, has_graph: bool
) -> list[Target]:
    """Return the pipelines whose changes can be followed: those with a change feed."""
    if has_graph:
        return list(targets)
    return [target for target in targets[:MAX_ASKED] if await _has_feed(readers, target.uid)]


async def _has_feed(readers: ChangeReaders, uid: str) -> bool:
    try:
        return await readers.has_feed(uid)
    except (BusError, FeedError) as error:
        log.info("feed_unknown", pipeline=uid, reason=str(error))
        return False


class Streams:
    """The open streams of `subscriptions/listen`."""

    def __init__(self) -> None:
        self._count = 0

    async def listen(
        self,
        request: ServerRequestContext[Any, Any],
        wanted: types.SubscriptionFilter,
        follow: "Follow",
        transport: Transport | None,
    ) -> types.SubscriptionsListenResult:
        """Send what changes until the client disconnects or the process ends.

        Raises MCPError: the stream cannot open. Raises SlowClient.
        """
        if self._count >= MAX_STREAMS:
            raise MCPError(types.INTERNAL_ERROR, "too many streams are open; retry later")
        self._count += 1
        try:
            with ExitStack() as stack:
                subscription, honored = await follow.start(stack, wanted)
                _limit_send_buffer(transport)
                await _Stream(request, subscription, transport).serve(honored)
        finally:
            self._count -= 1
        return types.SubscriptionsListenResult(_meta=_meta_of(request))


class Follow:
    """Selects what a client may follow."""

    def __init__(
        self, readers: ChangeReaders, targets: Sequence[Target], *, has_graph: bool
    ) -> None:
        self._readers, self._targets, self._has_graph = readers, targets, has_graph

    async def start(
        self, stack: ExitStack, wanted: types.SubscriptionFilter
    ) -> tuple[Subscription, types.SubscriptionFilter]:
        """Follow the resources that exist for the client, until the stack closes.

        Raises MCPError: no feed is on, too many resources are given, or nobody answers.
        """
        given = wanted.resource_subscriptions or []
        if len(given) > MAX_URIS:
            raise MCPError(types.INVALID_PARAMS, f"at most {MAX_URIS} resources can be followed")
        followed = await find_followed(self._readers, self._targets, has_graph=self._has_graph)
        if not followed:
            raise MCPError(types.METHOD_NOT_FOUND, OFF)
        uris = {text: self._parse(text, followed) for text in given}
        known = {uri: text for text, uri in uris.items() if uri is not None}
        follows_list = bool(wanted.resources_list_changed) and not self._has_graph
        subscription = Subscription(known, follows_list=follows_list)
        uids = {uri.uid for uri in known}
        for target in followed:
            if follows_list or self._has_graph or name_of(target.uid) in uids:
                await open_reader(stack, self._readers, target.uid, subscription)
        return subscription, types.SubscriptionFilter(
            resources_list_changed=follows_list or None,
            resource_subscriptions=list(known.values()) or None,
        )

    def _parse(self, text: str, followed: Sequence[Target]) -> ResourceUri | None:
        uri = parse_uri(text)
        if uri is None or find_target(followed, uri, has_graph=self._has_graph) is None:
            return None
        return uri


async def open_reader(
    stack: ExitStack, readers: ChangeReaders, uid: str, subscription: Subscription
) -> None:
    """Follow a pipeline until the stack closes. Raises MCPError if nobody answers."""
    reader = stack.enter_context(readers.follow(uid, subscription))
    try:
        await reader.open()
    except (BusError, FeedError) as error:
        raise MCPError(types.INTERNAL_ERROR, f"{error}; retry later") from error


class SlowClient(Exception):
    """A client stopped reading its stream."""


class _Stream:
    """One response that sends notifications."""

    def __init__(
        self,
        request: ServerRequestContext[Any, Any],
        subscription: Subscription,
        transport: Transport | None,
    ) -> None:
        self._request, self._subscription = request, subscription
        self._transport, self._meta = transport, _meta_of(request)

    async def serve(self, honored: types.SubscriptionFilter) -> None:
        """Send the acknowledgement and then changes, until the subscription ends."""
        params = types.SubscriptionsAcknowledgedNotificationParams(
            notifications=honored, _meta=self._meta
        )
        await self._send(types.SubscriptionsAcknowledgedNotification(params=params))
        while True:
            uris, is_list_changed = await self._subscription.wait()
            for uri in uris:
                updated = types.ResourceUpdatedNotificationParams(uri=uri, _meta=self._meta)
                await self._send(types.ResourceUpdatedNotification(params=updated))
            if is_list_changed:
                listed = types.NotificationParams(_meta=self._meta)
                await self._send(types.ResourceListChangedNotification(params=listed))
            if self._subscription.is_ended:
                return

    async def _send(self, notification: types.ServerNotification) -> None:
        """Send a notification. Raises SlowClient after it aborted the connection."""
        related = self._request.request_id
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._request.session.send_notification(notification, related)
        except TimeoutError as error:
            log.warning("stream_dropped", reason="too slow", timeout_s=SEND_TIMEOUT_S)
            if self._transport is not None:
                self._transport.abort()
            raise SlowClient(f"nothing was read for {SEND_TIMEOUT_S:g} s") from error


def _meta_of(request: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    return {SUBSCRIPTION_ID_META_KEY: request.request_id}


def _limit_send_buffer(transport: Transport | None) -> None:
    """Limit the kernel's send buffer, which grows to 4 MB if a client stops reading."""
    if transport is not None and not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BYTES)


class Subscriptions:
    """The subscriptions of the one client of a stdio connection of a handshake revision.

    Use it as an asynchronous context manager.
    """

    def __init__(self, readers: ChangeReaders, target: Target, *, has_graph: bool) -> None:
        self._readers, self._target, self._has_graph = readers, target, has_graph
        self._subscription = Subscription({}, follows_list=False)
        self._stack = ExitStack()
        self._session: ServerSession | None = None
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Subscriptions":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        self._stack.close()

    async def subscribe(self, session: ServerSession, text: str) -> None:
        """Send updates of a resource from now on. Raises MCPError."""
        uri = parse_uri(text)
        if uri is None or find_target([self._target], uri, has_graph=self._has_graph) is None:
            raise unknown_resource(text)
        if len(self._subscription.uris) >= MAX_URIS:
            raise MCPError(types.INVALID_PARAMS, f"at most {MAX_URIS} resources can be followed")
        self._session = session
        self._subscription.uris[uri] = text
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_updates())
            reader = self._readers.follow(self._target.uid, self._subscription)
            self._reader = self._stack.enter_context(reader)
        try:
            await self._reader.open()
        except (BusError, FeedError) as error:
            self.unsubscribe(text)
            raise MCPError(types.INTERNAL_ERROR, f"{error}; retry later") from error

    def unsubscribe(self, text: str) -> None:
        """Send no more updates of a resource."""
        uri = parse_uri(text)
        if uri is not None:
            self._subscription.uris.pop(uri, None)

    async def _send_updates(self) -> None:
        while True:
            uris, _ = await self._subscription.wait()
            for uri in uris:
                if self._session is not None:
                    await self._session.send_resource_updated(uri)
