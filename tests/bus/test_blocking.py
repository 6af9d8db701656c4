"""Reads that wait at the server can be called back, whichever of the two connections the server
looks at first."""

import asyncio

from memrelay.bus.client.connection import BlockingReads, Connection, connect
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer

READ = pack("XREAD", "BLOCK", 20_000, "STREAMS", "nothing", "$")


async def make_reads(server: EmbeddedServer) -> tuple[BlockingReads, Connection, Connection]:
    address = Address(path=str(server.socket_path))
    blocking, control = await connect(address), await connect(address)
    return BlockingReads(blocking, control), blocking, control


def test_a_read_that_is_called_back_returns_nothing_at_once(server: EmbeddedServer) -> None:
    async def whole() -> object:
        reads, blocking, control = await make_reads(server)
        reading = asyncio.create_task(reads.read(READ))
        await asyncio.sleep(0.1)
        reads.call_back()
        found = await asyncio.wait_for(reading, 5)
        await blocking.close()
        await control.close()
        return found

    assert asyncio.run(whole()) is None


def test_a_call_that_comes_before_its_read_is_repeated(server: EmbeddedServer) -> None:
    async def whole() -> None:
        reads, blocking, control = await make_reads(server)
        for _ in range(
            200
        ):  # the call is sent in the tick of the read, so that either may come first
            reading = asyncio.create_task(reads.read(READ))
            await asyncio.sleep(0)
            reads.call_back()
            await asyncio.wait_for(reading, 5)
        await blocking.close()
        await control.close()

    asyncio.run(whole())


def test_a_call_without_a_read_does_nothing(server: EmbeddedServer) -> None:
    async def whole() -> object:
        reads, blocking, control = await make_reads(server)
        reads.call_back()
        await control.call("XADD", "something", "*", "a", "b")
        found = await reads.read(pack("XREAD", "BLOCK", 20_000, "STREAMS", "something", "0"))
        await blocking.close()
        await control.close()
        return found

    assert asyncio.run(whole())
