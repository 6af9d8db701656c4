"""Ingress stops well before the server's memory is full, and goes on when there is room again."""

import asyncio

import pytest

from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusBusy
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import FRESH_S, MEMORY_SHARE, Ingress
from tests.bus.test_ingress import run
from tests.support.client import Client, input_of


def test_messages_are_refused_above_a_share_of_the_memory(server: EmbeddedServer) -> None:
    entry = NewEntry("room", b"{}", "chat")
    with Client(server.socket_path) as client:
        redis = client.redis
        limit = redis.config_get("maxmemory")["maxmemory"]

        async def act(ingress: Ingress) -> None:
            used = redis.info("memory")["used_memory"]
            redis.config_set("maxmemory", int(used / MEMORY_SHARE) - 100_000)
            await ingress.append(entry)
            await asyncio.sleep(FRESH_S)
            with pytest.raises(BusBusy, match=r"accepts new messages below 80%; retry later"):
                await ingress.append(entry)
            redis.config_set("maxmemory", limit)
            await asyncio.sleep(FRESH_S)
            await ingress.append(entry)

        try:
            run(server.socket_path, act)
        finally:
            redis.config_set("maxmemory", limit)
        assert redis.xlen(input_of("room")) == 2
