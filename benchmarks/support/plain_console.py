"""usage: plain_console.py RECORDS. A plain page of records with aiohttp, sqlite3 and jinja2.

The reference of benchmarks/console.py: one process without a bus, operations, keys or a navigation.
`/?q=` searches a full-text index. It prints its port.
"""

import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web
from jinja2 import Environment

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.recall_latency import Texts
from benchmarks.support.http_server import listen

SCHEMA = """
CREATE TABLE records(
  row INTEGER PRIMARY KEY, guid TEXT UNIQUE, content TEXT, kind TEXT, source TEXT, tag TEXT,
  created_at TEXT
);
CREATE VIRTUAL TABLE records_fts USING fts5(content, content='records', content_rowid='row');
"""
NEWEST = "SELECT * FROM records ORDER BY row DESC LIMIT 50"
FOUND = """
SELECT records.* FROM records_fts JOIN records ON row = records_fts.rowid
WHERE records_fts MATCH ? ORDER BY rank LIMIT 50
"""
PAGE = Environment(autoescape=True).from_string("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Records</title></head>
<body><h1>Records</h1><form><input name="q" value="{{ query }}"><button>Search</button></form>
<p>{{ total }} records</p>
<ol>
{% for record in records %}
<li><a href="/records/{{ record.guid }}">{{ record.content[:280] }}</a>
<p><time datetime="{{ record.created_at }}">{{ record.created_at }}</time>
<a href="/?kind={{ record.kind | urlencode }}">{{ record.kind }}</a>
<a href="/?source={{ record.source | urlencode }}">{{ record.source }}</a>
<a href="/?tag={{ record.tag | urlencode }}">{{ record.tag }}</a></p></li>
{% endfor %}
</ol></body></html>
""")
DATABASE = web.AppKey("database", sqlite3.Connection)


async def show(request: web.Request) -> web.Response:
    """Show the newest 50 records, or the best 50 hits."""
    database, query = request.app[DATABASE], request.query.get("q", "")
    total = database.execute("SELECT count(*) FROM records").fetchone()[0]
    found: Any = database.execute(FOUND, (query,)) if query else database.execute(NEWEST)
    text = PAGE.render(query=query, total=total, records=[dict(one) for one in found])
    return web.Response(text=text, content_type="text/html")


def fill(database: sqlite3.Connection, records: int) -> None:
    """Write the short records of the benchmark."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    rows = (
        (f"note-{at}", text, f"kind{at % 4}", f"speaker{at % 2}", f"tag{at % 8}", now)
        for at, text in enumerate(Texts().make_records(records))
    )
    columns = "guid, content, kind, source, tag, created_at"
    database.executemany(f"INSERT INTO records({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.execute("INSERT INTO records_fts(records_fts) VALUES ('rebuild')")
    database.commit()


async def serve(records: int) -> None:
    """Serve until the process is killed."""
    database = sqlite3.connect("")
    database.row_factory = sqlite3.Row
    database.executescript(SCHEMA)
    fill(database, records)
    app = web.Application()
    app[DATABASE] = database
    app.router.add_get("/", show)
    await listen(app)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
