"""Leases: live workers, ownership and epochs of pipelines, fencing."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from memrelay.bus.client.connection import connect
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import Fenced
from memrelay.bus.keys import fence_key, owner_key
from memrelay.bus.lease.lease import Grant, Lease
from memrelay.bus.lease.workers import read_workers
from tests.support.client import Client
from tests.support.names import new_name

Register = Callable[..., Awaitable[Lease]]


def run_leases(
    server: EmbeddedServer, act: Callable[[ReconnectingConnection, Register], Awaitable[Any]]
) -> Any:
    """Return the result of `act` with a client and a function that registers a new lease."""

    async def run() -> Any:
        async with AsyncExitStack() as stack:
            address = Address(path=str(server.socket_path))
            client = await stack.enter_async_context(ReconnectingConnection(address))

            async def register(lease_ms: int = 60_000) -> Lease:
                control = await stack.enter_async_context(ReconnectingConnection(address))
                data, name = await connect(address), new_name("worker")
                stack.push_async_callback(data.close)
                lease = Lease(control, name, lease_ms)
                await lease.register([data], {"name": name})
                return lease

            return await act(client, register)

    return asyncio.run(run())


async def acquire(lease: Lease, uids: list[str], at_least: int = 0) -> Grant:
    (grant,) = await lease.acquire_each([uids], at_least)
    return grant


def test_each_grant_has_a_higher_epoch(server: EmbeddedServer) -> None:
    async def act(_: ReconnectingConnection, register: Register) -> None:
        lease, uid = await register(), new_name("uid")

        assert [await acquire(lease, [uid]) for _ in range(3)] == [(1, ""), (2, ""), (3, "")]
        assert await acquire(lease, [uid], at_least=10) == (11, "")

    run_leases(server, act)


def test_pipelines_of_a_live_worker_are_not_granted_to_another(server: EmbeddedServer) -> None:
    async def act(_: ReconnectingConnection, register: Register) -> None:
        first, second, uid, free = (
            await register(),
            await register(),
            new_name("uid"),
            new_name("uid"),
        )
        await acquire(first, [uid])

        assert await acquire(second, [free, uid]) == (0, first.name)
        assert await acquire(first, [free]) == (1, ""), "all or none"

    run_leases(server, act)


def test_the_time_between_two_owners_is_counted_as_a_gap(
    server: EmbeddedServer,
) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(), await register(), new_name("uid")
        await acquire(first, [uid])
        await first.release([uid])
        await asyncio.sleep(0.05)

        assert await acquire(second, [uid]) == (2, "")
        gaps, deaf_ms = await client.call("HMGET", owner_key(uid), "gaps", "deaf_ms")
        assert int(gaps) == 1
        assert 50 <= int(deaf_ms) < 5000

    run_leases(server, act)


def test_releasing_pipelines_of_another_worker_does_nothing(server: EmbeddedServer) -> None:
    async def act(_: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(), await register(), new_name("uid")
        await acquire(first, [uid])

        await second.release([uid])
        await second.release([])

        assert await acquire(second, [uid]) == (0, first.name)

    run_leases(server, act)


def test_an_expired_lease_is_fenced_by_its_successor(
    server: EmbeddedServer,
) -> None:
    async def act(_: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(lease_ms=50), await register(), new_name("uid")
        await acquire(first, [uid])
        await asyncio.sleep(0.1)

        assert await acquire(second, [uid]) == (2, "")
        for late in (first.send_heartbeat({}), acquire(first, [new_name("uid")])):
            with pytest.raises(Fenced):
                await late

    run_leases(server, act)


def test_an_expired_lease_without_a_successor_continues(server: EmbeddedServer) -> None:
    async def act(_: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(lease_ms=50), await register(), new_name("uid")
        await acquire(first, [uid])
        await asyncio.sleep(0.1)

        await first.send_heartbeat({"name": "a"})

        assert await acquire(second, [uid]) == (0, first.name)

    run_leases(server, act)


def test_a_heartbeat_restores_a_deleted_owner_key(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, second, uid, released = (
            await register(),
            await register(),
            new_name("uid"),
            new_name("uid"),
        )
        await acquire(first, [uid, released], at_least=6)
        await first.release([released])
        await client.call("DEL", owner_key(uid), owner_key(released))

        await first.send_heartbeat({})

        assert await acquire(second, [uid]) == (0, first.name)
        assert await client.call("HGET", owner_key(uid), "epoch") == b"7"
        assert await acquire(second, [released]) == (1, "")

    run_leases(server, act)


def test_a_worker_is_fenced_if_another_took_a_pipeline_with_a_deleted_owner_key(
    server: EmbeddedServer,
) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(), await register(), new_name("uid")
        await acquire(first, [uid])
        await client.call("DEL", owner_key(uid))
        await acquire(second, [uid])

        with pytest.raises(Fenced):
            await first.send_heartbeat({})

    run_leases(server, act)


def test_an_owner_key_of_another_type_does_not_stop_heartbeats(
    server: EmbeddedServer,
) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, uid = await register(), new_name("uid")
        await acquire(first, [uid])
        await client.call("DEL", owner_key(uid))
        await client.call("SET", owner_key(uid), "tea")

        await first.send_heartbeat({})

    run_leases(server, act)


def test_the_data_connections_of_a_fenced_worker_are_closed(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(lease_ms=50), await register(), new_name("uid")
        name = f" name={first.name} ".encode()
        await acquire(first, [uid])
        assert name in await client.call("CLIENT", "LIST")
        await asyncio.sleep(0.1)

        await acquire(second, [uid])

        assert name not in await client.call("CLIENT", "LIST")
        with pytest.raises(Fenced):
            await first.send_heartbeat({})

    run_leases(server, act)


def test_a_worker_that_is_declared_dead_is_replaced_at_once(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(), await register(), new_name("uid")
        await acquire(first, [uid])

        await second.declare_dead(first.name)

        assert (await acquire(second, [uid])).epoch == 2
        assert not await client.call("EXISTS", fence_key(first.name))

    run_leases(server, act)


def test_a_flushed_server_fences_its_workers(
    server: EmbeddedServer,
) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        lease = await register()
        await client.call("FLUSHALL")

        with pytest.raises(Fenced):
            await lease.send_heartbeat({})
        with pytest.raises(Fenced):
            await acquire(lease, [new_name("uid")])

    run_leases(server, act)


def test_pipelines_are_granted_without_the_permission_to_close_connections(
    server: EmbeddedServer,
) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, uid, user = await register(lease_ms=50), new_name("uid"), new_name("user")
        await acquire(first, [uid])
        await asyncio.sleep(0.1)
        rules = ["on", ">secret", "~*", "&*", "+@all", "-client|kill", "-client|list"]
        await client.call("ACL", "SETUSER", user, *rules)
        address = Address(path=str(server.socket_path), username=user, password="secret")
        async with ReconnectingConnection(address) as confined:
            second = Lease(confined, new_name("worker"), 60_000)
            await second.register([], {"name": "second"})

            assert (await acquire(second, [uid])).epoch == 2
        with pytest.raises(Fenced):
            await first.send_heartbeat({})

    run_leases(server, act)


def test_an_unregistered_worker_is_not_listed_and_owns_nothing(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection, register: Register) -> None:
        first, second, uid = await register(), await register(), new_name("uid")
        await acquire(first, [uid])
        await first.unregister()

        assert first.name not in [report["name"] for report in await read_workers(client)]
        assert (await acquire(second, [uid])).epoch == 2

    run_leases(server, act)


def test_a_thousand_pipelines_are_acquired_at_once(server: EmbeddedServer) -> None:
    async def act(_: ReconnectingConnection, register: Register) -> None:
        lease, uids = await register(), [new_name("uid") for _ in range(1000)]

        assert await acquire(lease, uids) == (1, "")
        await lease.release(uids)

    run_leases(server, act)
    with Client(server.socket_path) as client:
        assert client.redis.ping()
