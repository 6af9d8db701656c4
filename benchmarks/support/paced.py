"""Requests at a fixed rate. Latency counts from the scheduled time, even if the server is slow."""

import asyncio
import time
from collections import deque
from collections.abc import Callable


async def paced(
    port: int,
    request: bytes | Callable[[int], bytes],
    rate: float,
    seconds: float,
    connections: int = 64,
) -> list[float]:
    """Send requests at `rate` per second. Return the sorted latencies in seconds.

    `request` may be a function of the request's number. It is called when the request is due.

    A request that finds no free connection waits for one, and the wait counts. Raises
    ConnectionError: for an answer without success status.
    """
    loop, free = (
        asyncio.get_running_loop(),
        deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]](),
    )
    for _ in range(connections):
        free.append(await asyncio.open_connection("127.0.0.1", port))
    idle, times = asyncio.Semaphore(connections), list[float]()

    async def one(number: int, due: float) -> None:
        content = request if isinstance(request, bytes) else request(number)
        async with idle:
            reader, writer = free.popleft()
            writer.write(content)
            await _answer(reader)
            free.append((reader, writer))
        times.append(loop.time() - due)

    started_s, tasks = loop.time(), list[asyncio.Task[None]]()
    for number in range(int(rate * seconds)):
        due = started_s + number / rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        tasks.append(loop.create_task(one(number, due)))
    await asyncio.gather(*tasks)
    for _, writer in free:
        writer.close()
    return sorted(times)


async def _answer(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 2"):
        raise ConnectionError(f"request failed: {head[:200]!r}")
    await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))


def one_by_one(port: int, request: bytes, count: int) -> list[float]:
    """Send requests one after the other. Return the sorted latencies in seconds."""

    async def measure() -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        times = []
        for _ in range(count):
            started_s = time.perf_counter()
            writer.write(request)
            await _answer(reader)
            times.append(time.perf_counter() - started_s)
        writer.close()
        return sorted(times)

    return asyncio.run(measure())
