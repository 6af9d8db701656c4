"""Leases: who lives, who owns which pipelines under which epoch, and who is fenced."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from memrelay.bus.client.connection import Connection, connect
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusUnavailable, Fenced
from memrelay.bus.keys import fence_key, owner_key
from memrelay.bus.lease.lease import Lease
from memrelay.bus.lease.workers import read_workers
from tests.support.client import Client
from tests.support.names import new_name

Desk = Callable[..., Awaitable[Lease]]  # signs a worker on


def talk(server: EmbeddedServer, about: Callable[[Connection, Desk], Awaitable[Any]]) -> Any:
    """What comes of it, with a connection of its own and workers that sign on when they are asked
    for."""

    async def whole() -> Any:
        async with AsyncExitStack() as stack:

            async def open_one() -> Connection:
                connection = await connect(Address(path=str(server.socket_path)))
                stack.push_async_callback(connection.close)
                return connection

            async def sign_on(lease_ms: int = 60_000) -> Lease:
                control, name = await open_one(), new_name("worker")
                lease = Lease(control, name, lease_ms)
                await lease.sign_on([control], {"name": name})
                return lease

            return await about(await open_one(), sign_on)

    return asyncio.run(whole())


def test_what_nobody_owns_is_granted_with_a_higher_epoch_each_time(server: EmbeddedServer) -> None:
    async def about(_: Connection, sign_on: Desk) -> None:
        lease, uid = await sign_on(), new_name("uid")

        assert [await lease.acquire([uid]) for _ in range(3)] == [(1, ""), (2, ""), (3, "")]
        assert await lease.acquire([uid], at_least=10) == (11, "")

    talk(server, about)


def test_what_a_living_worker_owns_is_granted_to_no_other(server: EmbeddedServer) -> None:
    async def about(_: Connection, sign_on: Desk) -> None:
        first, second, uid, free = (
            await sign_on(),
            await sign_on(),
            new_name("uid"),
            new_name("uid"),
        )
        await first.acquire([uid])

        assert await second.acquire([free, uid]) == (0, first.name)
        assert await first.acquire([free]) == (1, ""), "all or none"

    talk(server, about)


def test_what_is_let_go_is_granted_to_the_next_and_the_time_between_is_a_gap(
    server: EmbeddedServer,
) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(), await sign_on(), new_name("uid")
        await first.acquire([uid])
        await first.release([uid])
        await asyncio.sleep(0.05)

        assert await second.acquire([uid]) == (2, "")
        gaps, deaf_ms = await connection.call("HMGET", owner_key(uid), "gaps", "deaf_ms")
        assert int(gaps) == 1
        assert 50 <= int(deaf_ms) < 5000

    talk(server, about)


def test_one_may_let_go_only_what_it_owns(server: EmbeddedServer) -> None:
    async def about(_: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(), await sign_on(), new_name("uid")
        await first.acquire([uid])

        await second.release([uid])
        await second.release([])

        assert await second.acquire([uid]) == (0, first.name)

    talk(server, about)


def test_whoever_was_silent_for_the_time_of_its_lease_is_fenced_by_its_successor(
    server: EmbeddedServer,
) -> None:
    async def about(_: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(lease_ms=50), await sign_on(), new_name("uid")
        await first.acquire([uid])
        await asyncio.sleep(0.1)

        assert await second.acquire([uid]) == (2, "")
        for late in (first.call_in({}), first.acquire([new_name("uid")])):
            with pytest.raises((Fenced, BusUnavailable)):
                await late

    talk(server, about)


def test_whoever_was_silent_and_was_followed_by_nobody_goes_on(server: EmbeddedServer) -> None:
    async def about(_: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(lease_ms=50), await sign_on(), new_name("uid")
        await first.acquire([uid])
        await asyncio.sleep(0.1)

        await first.call_in({"name": "a"})

        assert await second.acquire([uid]) == (0, first.name)

    talk(server, about)


def test_what_it_owns_is_told_again_where_somebody_deletes_the_key(server: EmbeddedServer) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        first, second, uid, given_up = (
            await sign_on(),
            await sign_on(),
            new_name("uid"),
            new_name("uid"),
        )
        await first.acquire([uid, given_up], at_least=6)
        await first.release([given_up])
        await connection.call("DEL", owner_key(uid), owner_key(given_up))

        await first.call_in({})

        assert await second.acquire([uid]) == (0, first.name)
        assert await connection.call("HGET", owner_key(uid), "epoch") == b"7"
        assert await second.acquire([given_up]) == (1, "")

    talk(server, about)


def test_where_another_took_what_had_no_owner_any_more_the_first_begins_anew(
    server: EmbeddedServer,
) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(), await sign_on(), new_name("uid")
        await first.acquire([uid])
        await connection.call("DEL", owner_key(uid))
        await second.acquire([uid])

        with pytest.raises(Fenced):
            await first.call_in({})

    talk(server, about)


def test_a_key_of_another_type_at_what_it_owns_does_not_keep_it_from_calling_in(
    server: EmbeddedServer,
) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        first, uid = await sign_on(), new_name("uid")
        await first.acquire([uid])
        await connection.call("DEL", owner_key(uid))
        await connection.call("SET", owner_key(uid), "tea")

        await first.call_in({})

    talk(server, about)


def test_the_connections_of_a_dead_worker_are_closed_so_that_what_they_sent_late_is_not_read(
    server: EmbeddedServer,
) -> None:
    async def about(_: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(lease_ms=50), await sign_on(), new_name("uid")
        await first.acquire([uid])
        await asyncio.sleep(0.1)
        await second.acquire([uid])

        with pytest.raises(BusUnavailable):
            await first.call_in({})

    talk(server, about)


def test_a_worker_that_is_declared_dead_need_not_be_waited_for(server: EmbeddedServer) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(), await sign_on(), new_name("uid")
        await first.acquire([uid])

        await second.declare_dead(first.name)

        assert (await second.acquire([uid])).epoch == 2
        assert not await connection.call("EXISTS", fence_key(first.name))

    talk(server, about)


def test_after_everything_is_flushed_a_worker_knows_that_it_must_begin_anew(
    server: EmbeddedServer,
) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        lease = await sign_on()
        await connection.call("FLUSHALL")

        with pytest.raises(Fenced):
            await lease.call_in({})
        with pytest.raises(Fenced):
            await lease.acquire([new_name("uid")])

    talk(server, about)


def test_a_server_that_lets_nobody_close_connections_grants_all_the_same(
    server: EmbeddedServer,
) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        first, uid, user = await sign_on(lease_ms=50), new_name("uid"), new_name("user")
        await first.acquire([uid])
        await asyncio.sleep(0.1)
        await connection.call(
            "ACL",
            "SETUSER",
            user,
            "on",
            ">secret",
            "~*",
            "&*",
            "+@all",
            "-client|kill",
            "-client|list",
        )
        confined = await connect(
            Address(path=str(server.socket_path), username=user, password="secret")
        )
        second = Lease(confined, new_name("worker"), 60_000)
        await second.sign_on([confined], {"name": "second"})

        assert (await second.acquire([uid])).epoch == 2
        with pytest.raises(Fenced):
            await first.call_in({})
        await confined.close()

    talk(server, about)


def test_who_signs_off_is_off_the_roll_at_once_and_owns_nothing(server: EmbeddedServer) -> None:
    async def about(connection: Connection, sign_on: Desk) -> None:
        first, second, uid = await sign_on(), await sign_on(), new_name("uid")
        await first.acquire([uid])
        await first.sign_off()

        assert first.name not in [report["name"] for report in await read_workers(connection)]
        assert (await second.acquire([uid])).epoch == 2

    talk(server, about)


def test_a_thousand_pipelines_are_asked_for_at_once(server: EmbeddedServer) -> None:
    async def about(_: Connection, sign_on: Desk) -> None:
        lease, uids = await sign_on(), [new_name("uid") for _ in range(1000)]

        assert await lease.acquire(uids) == (1, "")
        await lease.release(uids)

    talk(server, about)
    with Client(server.socket_path) as client:
        assert client.redis.ping()
