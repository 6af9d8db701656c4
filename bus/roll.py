"""The roll of workers: each tells what it serves every few seconds, and who has been silent for long is gone."""
from typing import Any

import orjson

from bus.connection import Connection
from bus.line import Line
from bus.resp import EXEC, MULTI, pack
from bus.wire import ROLL, roll_key

BEAT_S = 2.0
SILENT_MS = 10_000   # after which a worker is gone


async def call_in(connection: Connection, name: str, report: dict[str, Any], now_ms: int) -> None:
    """Says that the worker `name` lives, and what it serves."""
    payload = (MULTI + pack("SET", roll_key(name), orjson.dumps(report), "PX", SILENT_MS) + pack("ZADD", ROLL, now_ms, name)
               + pack("ZREMRANGEBYSCORE", ROLL, "-inf", now_ms - 100 * SILENT_MS) + EXEC)
    await connection.send(payload, 5)


async def sign_off(connection: Connection, name: str) -> None:
    """The worker ends."""
    await connection.send(MULTI + pack("DEL", roll_key(name)) + pack("ZREM", ROLL, name) + EXEC, 4)


async def read_roll(line: Line) -> list[dict[str, Any]]:
    """What the workers that live have said last, by name. Raises BusUnavailable or BusRefused."""
    names: list[bytes] = await line.call("ZRANGE", ROLL, 0, -1)
    if not names:
        return []
    reports = await line.call("MGET", *[roll_key(name.decode()) for name in sorted(names)])
    return [orjson.loads(report) for report in reports if report is not None]
