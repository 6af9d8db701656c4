"""A user who may not subscribe gets the error at once, however many channels there are."""

import asyncio
from pathlib import Path

import pytest

from memrelay.bus.client.connection import connect
from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusRefused
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.bus.streams.log_size import LogTrimmer
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.intake.subscriber import Subscriber
from memrelay.worker.limits import WorkerLimits
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import Client
from tests.support.server import running_server


def test_a_user_without_permission_is_refused_at_once(tmp_path: Path) -> None:
    plans = [Plan(check(make_bundle(make_uid())).accepted()) for _ in range(3)]

    async def listening(path: str) -> None:
        connection = await connect(Address(path=path, username="keeper", password="secret"))
        try:
            writer, limits = FencedWriter(connection, "fence"), WorkerLimits()
            subscriber = Subscriber(
                writer, EchoFilter(), asyncio.Event(), limits, LogTrimmer(writer, limits.log_bytes)
            )
            async with asyncio.timeout(2):  # the connection itself would give up after 5
                await subscriber.serve(
                    connection, plans, {plan.uid: lambda _: None for plan in plans}
                )
        finally:
            await connection.close()

    with running_server(tmp_path / "bus") as server, Client(server.socket_path) as client:
        client.redis.execute_command(
            "ACL", "SETUSER", "keeper", "on", ">secret", "~*", "&pipeline:*", "+@all"
        )
        with pytest.raises(BusRefused, match=r"NOPERM .*channel"):
            asyncio.run(listening(str(server.socket_path)))
