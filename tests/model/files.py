"""Checks that the tables of a store file agree, from outside."""

import sqlite3
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

from memrelay.memory.engine.copy import inspect
from tests.model.lives import says

NONE_OF = {
    "rows beside entries that are no entries": "SELECT e.guid FROM entries AS e LEFT JOIN records "
    "AS r ON r.guid = e.guid "
    "AND r.kind = 'entry' AND r.scope = e.memory WHERE r.guid IS NULL",
    "entries that no later write would look at": "SELECT guid FROM records WHERE kind = 'entry' "
    "AND row <= (SELECT row FROM "
    "entries_seen) AND guid NOT IN (SELECT guid FROM entries)",
    "lines of nothing": "SELECT guid FROM entry_lines WHERE guid NOT IN (SELECT guid FROM entries "
    "WHERE digested)",
    "vectors of nothing": "SELECT row FROM vectors_0 WHERE row NOT IN (SELECT row FROM records)",
    "vectors to make of nothing": "SELECT row FROM vectors_todo WHERE row NOT IN (SELECT row FROM "
    "records)",
    "records without vectors that nobody makes": "SELECT r.row FROM records AS r, vector_sets AS s "
    "WHERE r.row <= s.looked_at "
    "AND r.row NOT IN (SELECT row FROM vectors_0) AND r.row NOT IN (SELECT row FROM vectors_todo)",
    "states that are there twice": "SELECT guid FROM versions GROUP BY guid, number HAVING "
    "count(*) > 1",
    "states after the last one": "SELECT v.guid FROM versions AS v JOIN records AS r ON r.guid = "
    "v.guid "
    "WHERE v.number >= r.number",
    "records that lack a state": "SELECT r.guid FROM records AS r WHERE r.number - 1 <> (SELECT "
    "count(*) FROM versions AS v "
    "WHERE v.guid = r.guid)",
    "continuations": "SELECT id FROM pending",
}
LINES = (
    "SELECT r.guid, r.content, (SELECT group_concat(hex(l.digest)) FROM entry_lines AS l WHERE "
    "l.guid = r.guid AND "
    "l.memory = e.memory) FROM entries AS e JOIN records AS r ON r.guid = e.guid WHERE e.digested"
)
MADE_OF = (
    "SELECT r.guid, CASE WHEN r.thread IS NULL THEN '' ELSE r.source || ' said: ' END || "
    "r.content, v.made_of "
    "FROM vectors_0 AS v JOIN records AS r ON r.row = v.row"
)


def assert_tables_agree(file: Path) -> None:
    """Check the tables; the worker may have the file open."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as connection:
        rows = connection.execute
        rows("BEGIN")
        for what, sql in NONE_OF.items():
            found = rows(sql).fetchall()
            assert not found, f"{len(found)} {what}: {found[:5]}"
        for guid, content, digests in rows(LINES):
            wanted = {
                blake2b(one.encode(), digest_size=16).hexdigest().upper() for one in says(content)
            }
            assert set((digests or "").split(",")) == wanted, (
                f"the lines of {guid} are not those of {content!r}"
            )
        for guid, text, made_of in rows(MADE_OF):
            assert crc32(text.encode()) == made_of, f"the vector of {guid} is not of {text!r}"
        assert rows("PRAGMA integrity_check").fetchone() == ("ok",)


def assert_whole(file: Path) -> None:
    """Check every page, checksum and index of a closed file."""
    found = inspect(file)
    assert not found.faults and not found.guids, found


def count_of(file: Path, sql: str) -> Any:
    """Return a count."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as connection:
        return connection.execute(sql).fetchone()[0]
