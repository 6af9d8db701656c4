"""usage: plain_rest.py FILE. A plain REST service with aiohttp and aiosqlite, one connection, and
fsync.

The reference of benchmarks/rest.py. It serves POST and GET on the same paths with the same answers
and a full-text index. It prints its port.
"""

import asyncio
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import aiosqlite
import uvloop
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.support.http_server import listen

SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS records(
  row INTEGER PRIMARY KEY, guid TEXT UNIQUE, content TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE VIRTUAL TABLE IF NOT EXISTS records_fts
  USING fts5(content, content = 'records', content_rowid = 'row');
"""
DATABASE = web.AppKey("database", aiosqlite.Connection)
WRITING = web.AppKey("writing", asyncio.Lock)


async def create(request: web.Request) -> web.Response:
    """Store a record and answer after it is on disk."""
    database, content, guid = (
        request.app[DATABASE],
        (await request.json())["content"],
        str(uuid.uuid4()),
    )
    now_ms = time.time_ns() // 1_000_000
    async with request.app[WRITING]:
        async with database.execute(
            "INSERT INTO records(guid, content, created_at) VALUES (?, ?, ?)",
            (guid, content, now_ms),
        ) as cursor:
            row = cursor.lastrowid
        await database.execute(
            "INSERT INTO records_fts(rowid, content) VALUES (?, ?)", (row, content)
        )
        await database.commit()
    return web.json_response(_as_json((guid, content, now_ms)), status=201)


async def get(request: web.Request) -> web.Response:
    """Return one record."""
    async with request.app[DATABASE].execute(
        "SELECT guid, content, created_at FROM records WHERE guid = ?",
        (request.match_info["guid"],),
    ) as cursor:
        found = await cursor.fetchone()
    if found is None:
        raise web.HTTPNotFound
    return web.json_response(_as_json(tuple(found)))


def _as_json(record: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("guid", "content", "created_at"), record, strict=True))


async def serve(file: str) -> None:
    """Serve until the process is killed."""
    async with aiosqlite.connect(file) as database:
        await database.executescript(SCHEMA)
        app = web.Application()
        app[DATABASE], app[WRITING] = database, asyncio.Lock()
        app.router.add_post("/v1/pipelines/{uid}/records", create)
        app.router.add_get("/v1/pipelines/{uid}/records/{guid}", get)
        await listen(app)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
