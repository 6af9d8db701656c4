"""Every table of a store is named here, with what erase, export, scrub and salvage do with it.

A new table fails these tests until it has a row here.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from zlib import compress

import apsw
import pytest

from memrelay.memory.engine.copy import copy_database, inspect
from memrelay.memory.engine.idempotency import pack
from memrelay.memory.engine.models import list_rows
from memrelay.memory.engine.store import Store
from memrelay.memory.models.inputs.packing import pack as pack_inputs
from memrelay.memory.models.receipts.packing import pack as pack_receipts
from memrelay.memory.transfer.export import ROW_TABLES, TYPES, export_lines
from memrelay.memory.transfer.salvage import list_tables, salvage_into
from tests.memory.builders import MEMORY_ID, NOW, make_store, perform

# The text of a user, in every column that can hold one.
MARK = "xyzzy-plugh"
PAGE_BYTES = 4096


class Table(NamedTuple):
    """What happens to a table.

    `fill` is SQL that puts MARK into each column that can hold the text of a user, "" for records,
    which operations fill, and for tables without such a column.
    """

    # The lines of an export with its rows, or why it has none.
    export: str
    fill: str = ""
    is_salvaged: bool = True


# Lines that cannot hold the text of a user, or whose table an operation fills.
ONLY_IDS = ("memory", "tally", "evidence")
DERIVED = "derived from records"
HERE = "belongs to the work of this worker and bus"
TABLES = {
    "records": Table("record"),
    "versions": Table("version"),
    "moments": Table("belongs to the states of this file", is_salvaged=False),
    "appended": Table("merged into its record"),
    "origins": Table(
        "an import is an origin of its own",
        "INSERT INTO origins VALUES (NULL, :text, '', '', '', '', '', ''), "
        "(NULL, 'a', :text, :text, :text, :text, :text, :text)",
    ),
    "entries": Table("record"),
    "entry_lines": Table(DERIVED, is_salvaged=False),
    "entries_seen": Table(DERIVED, is_salvaged=False),
    # memories.delete removes their names and descriptions.
    "memories": Table("memory"),
    "memory_versions": Table(
        "an export has the memories of today",
        "INSERT INTO memory_versions VALUES "
        "(NULL, 1, 'mem_a', :text, NULL, NULL, 1, 1, 1, 2, 1), "
        "(NULL, 1, 'mem_a', 'a', :text, NULL, 1, 1, 1, 2, 1), "
        "(NULL, 1, 'mem_a', 'a', NULL, json_array(:text), 1, 1, 1, 2, 1)",
    ),
    "records_fts": Table(DERIVED, is_salvaged=False),
    "parts_fts": Table(DERIVED, is_salvaged=False),
    "vector_sets": Table(DERIVED, is_salvaged=False),
    "vectors_0": Table(DERIVED, is_salvaged=False),
    "vectors_1": Table(DERIVED, is_salvaged=False),
    "vectors_todo": Table(DERIVED, is_salvaged=False),
    "grants": Table(
        "grant",
        "INSERT INTO grants VALUES (:text, 'a2', 'read', 'a1', NULL, 1), "
        "('s', :text, 'read', 's', NULL, 1), ('s', 'a3', 'read', :text, NULL, 1)",
    ),
    "contexts": Table(
        "context",
        "INSERT INTO contexts VALUES (:text, 'chat', 'a1', NULL), ('c', 'chat', :text, NULL)",
    ),
    "agent_settings": Table(
        "agent_settings", "INSERT INTO agent_settings VALUES (:text, 1, 1, 0, 1)"
    ),
    "evidence": Table(
        "evidence", "INSERT INTO evidence SELECT guid, guid FROM records WHERE key IS NOT NULL"
    ),
    "extractors": Table(
        "an import has other rows",
        "INSERT INTO extractors VALUES ('p', 'a', 'extract', '{}', 0, '[]', '', 0, '[]', "
        "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, :text, 1, 1)",
    ),
    "tallies": Table(
        "tally", "INSERT INTO tallies(guid, uses) SELECT guid, 1 FROM records WHERE key IS NOT NULL"
    ),
    "checkpoints": Table(
        "checkpoint",
        "INSERT INTO checkpoints VALUES "
        "(:text, 't', '', 'i', '', 'm', x'00', '{}', '', 1, '[]', ''), "
        "('a', :text, '', 'i', '', 'm', x'00', '{}', '', 1, '[]', ''), "
        "('a', 't1', :text, 'i', '', 'm', x'00', '{}', '', 1, '[]', ''), "
        "('a', 't1', '', 'i', '', 'm', :stored, '{}', '', 1, '[]', ''), "
        "('a', 't2', '', 'i', '', 'm', x'00', json_object('a', :text), :text, 1, '[]', ''), "
        "('a', 't3', '', 'i', '', 'm', x'00', '{}', '', 1, '[[\"messages\",\"m\",3]]', '1-3')",
    ),
    "checkpoint_values": Table(
        "checkpoint_value",
        "INSERT INTO checkpoint_values VALUES "
        "('a', 't3', 1, x'00'), ('a', 't3', 2, :stored), ('a', 't3', 3, :compressed)",
    ),
    "checkpoint_writes": Table(
        "checkpoint_write",
        "INSERT INTO checkpoint_writes VALUES "
        "('a', 't3', '', 'i', :text, 0, '', 'c', 'm', x'00'), "
        "('a', 't3', '', 'i', 'k', 0, :text, 'c', 'm', x'00'), "
        "('a', 't3', '', 'i', 'k', 1, '', :text, 'm', x'00'), "
        "('a', 't3', '', 'i', 'k', 2, '', 'c', 'm', :compressed)",
    ),
    "kv": Table(
        "kv",
        "INSERT INTO kv VALUES (:text, 'n', 'k', '1', 1), ('i', :text, 'k', '1', 1), "
        "('i', 'n', :text, '1', 1), ('i', 'n', 'k', json_array(:text), 1)",
    ),
    "events": Table(
        "event",
        "INSERT INTO events(id, instance, stream, sequence, type, payload, metadata, at) VALUES "
        "('1', :text, 's', 1, 't', '1', '{}', 1), ('2', 'i', :text, 1, 't', '1', '{}', 1), "
        "('3', 'i', 's', 1, :text, '1', '{}', 1), "
        "('4', 'i', 's', 2, 't', json_array(:text), '{}', 1), "
        "('5', 'i', 's', 3, 't', '1', json_object('a', :text), 1)",
    ),
    "edges": Table(
        "edge",
        "INSERT INTO edges(id, instance, kind, from_node, to_node, created_at) VALUES "
        "(:text, 'i', 'k', 'a', 'b', 1), ('1', :text, 'k', 'a', 'b', 1), "
        "('2', 'i', :text, 'a', 'b', 1), ('3', 'i', 'k', :text, 'b', 1), "
        "('4', 'i', 'k', 'a', :text, 1)",
    ),
    "views": Table(
        "view",
        "INSERT INTO views VALUES (:text, 't', 'i', 1), ('1', :text, 'i', 1), ('2', 't', :text, 1)",
    ),
    "changes": Table(
        "has numbers of this store",
        "INSERT INTO changes(at, type, subject, actor, data) VALUES "
        "(1, 'grant.created', :text, '', NULL), (1, 'grant.created', '', :text, NULL), "
        "(1, 'grant.created', '', '', json_array(:text))",
    ),
    # Without texts of records; endpoints.delete removes them.
    "endpoints": Table("has secrets"),
    "delivery_cursors": Table("has numbers of this store"),
    "change_causes": Table("has numbers of this store"),
    "delivery_recoveries": Table("has numbers of this store"),
    "deliveries": Table(
        HERE,
        "INSERT INTO deliveries VALUES (1, 'a', 'e', 's', 1, :text, 's', NULL, 1, 0, 1, 0, NULL), "
        "(2, 'b', 'e', 's', 1, 't', :text, NULL, 1, 0, 1, 0, NULL), "
        "(3, 'c', 'e', 's', 1, 't', 's', json_array(:text), 1, 0, 1, 0, NULL)",
    ),
    "delivery_tries": Table(HERE, "INSERT INTO delivery_tries VALUES (1, 1, 1, 1, 1, 200, :text)"),
    "inputs": Table(
        HERE, "INSERT INTO inputs(first_ms, last_ms, change, data) VALUES (1, 1, 0, :inputs)"
    ),
    "receipts": Table(
        "belongs to the answers of this pipeline",
        "INSERT INTO receipts(first, last, data) VALUES ('1', '2', :receipts)",
    ),
    "policies": Table(
        "policy",
        "INSERT INTO policies(name, policy, changed_at) VALUES "
        """('a', '{"name":"a","match":{},"action":{"tag":"b"}}', 1)""",
    ),
    "declared_policies": Table("a deploy writes them"),
    "policy_keys": Table("belongs to this file"),
    "policy_limits": Table(HERE, "INSERT INTO policy_limits VALUES ('a', :text, 1, 1)"),
    "policy_counts": Table(HERE),
    "defined_views": Table(
        "declared_view",
        "INSERT INTO defined_views(name, view, changed_at) VALUES "
        """('a', '{"name":"a","show":"count"}', 1)""",
    ),
    "declared_views": Table("a deploy writes them"),
    "built_views": Table("computed from the records"),
    "view_members": Table("computed from the records"),
    "view_counts": Table("computed from the records"),
    "policy_verdicts": Table(
        HERE,
        "INSERT INTO policy_verdicts VALUES (1, 1, 'a', 'tag', :text, 'b'), "
        "(2, 1, 'a', 'tag', 'c', :text)",
    ),
    "proposals": Table(
        "waits for review",
        "INSERT INTO proposals(guid, op, input, candidate, policy, actor, origin, source, target, "
        "version, at_ms, until_ms, reason) VALUES "
        "(:text, 'o', '{}', '{}', 'p', 'a', '{}', 's', '', '', 1, 1, ''), "
        "('1', 'o', json_object('content', :text), '{}', 'p', 'a', '{}', 's', '', '', 1, 1, ''), "
        "('2', 'o', '{}', json_object('key', :text), 'p', 'a', '{}', 's', '', '', 1, 1, ''), "
        "('3', 'o', '{}', '{}', 'p', :text, '{}', :text, '', '', 1, 1, ''), "
        "('4', 'o', '{}', '{}', 'p', 'a', '{}', 's', :text, '', 1, 1, ''), "
        "('5', 'o', '{}', '{}', 'p', 'a', '{}', 's', '', '', 1, 1, :text)",
    ),
    # Without texts of users: the alias of an agent, and digests.
    "consolidation_passes": Table(HERE),
    "consolidation_findings": Table(HERE),
    "inbox": Table(HERE, "INSERT INTO inbox(id, bundle, outputs) VALUES ('i', 'b', :blob)"),
    "pending": Table(
        HERE,
        "INSERT INTO pending(id, pipeline, bundle, agent, swarm, hop, data, root, reply, due, "
        "attempts, producer, heard) "
        "VALUES ('p', 'u', 'b', 'a', 's', 1, :blob, 'r', '', 0, 0, :text, 0)",
    ),
    "flow_keys": Table(HERE, is_salvaged=False),
    "attempts": Table(HERE, is_salvaged=True),
    "idempotency_owners": Table(HERE),
    "idempotency_keys": Table(
        HERE,
        "INSERT INTO idempotency_keys(digest, owner, done_at, answer) "
        "VALUES (x'00', 1, 1, :packed)",
    ),
    "erasures": Table(HERE),
    "erasing": Table(HERE, "INSERT INTO erasing(sort, text) VALUES ('text', :text)"),
    "fence": Table(HERE, is_salvaged=False),
    "commits": Table(HERE, is_salvaged=False),
    "journal": Table(HERE, is_salvaged=False),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with MARK wherever a text of a user can be."""
    store = make_store(tmp_path)
    fill_every_table(store)
    yield store
    store.close()


def fill_every_table(store: Store) -> None:
    """Put MARK wherever a text of a user can be."""
    with store.transaction() as tx:
        memory = perform(tx, "memories.create", name="facts")
        perform(tx, "entries.create", memory_id=memory.id, content=f"The word is {MARK}")
        given = {"source": MARK, "tags": [MARK], "key": MARK, "owner": MARK, "thread": MARK}
        made = perform(tx, "records.create", content=MARK, data={"a": MARK}, **given)
        perform(tx, "records.update", guid=made.guid, content=f"{MARK} " + "x" * 70_000)
        perform(tx, "records.append", guid=made.guid, content=MARK)
    values = {
        "text": MARK,
        "blob": MARK.encode(),
        "packed": pack(MARK.encode()),
        "inputs": pack_inputs([(1, 0, "", [b"swarm", b"chat", b"data", MARK.encode()])]),
        "receipts": pack_receipts(
            [
                ("1", 1, "p", "o", {"query": MARK}, "a", "b", "i", "t", [], 0, (1, "", "", "")),
                ("2", 1, "p", "o", {}, MARK, "b", MARK, MARK, [], 0, (1, "", "", "")),
            ]
        ),
        "stored": b"\0" + MARK.encode(),
        "compressed": b"\1" + compress(MARK.encode() * 99),
    }
    with store.transaction():
        for table in TABLES.values():
            store._connection.execute(table.fill, values if table.fill else None)


def contains_mark(data: bytes) -> bool:
    return MARK.encode() in data


def emptied(data: bytes) -> bytes:
    return b""


def test_every_table_of_the_schema_is_named(store: Store) -> None:
    with closing(apsw.Connection(store.path)) as connection:
        found = {
            name
            for _, name, sort, *_ in connection.execute("PRAGMA main.table_list")
            if sort in ("table", "virtual") and not name.startswith("sqlite_")
        }
    assert found == TABLES.keys()


def test_an_erasure_leaves_the_text_in_no_table(store: Store) -> None:
    with store.transaction() as tx:
        perform(tx, "records.erase", text=MARK)
        tx.erasures.silence(contains_mark, contains_mark, emptied, emptied)
    with store.transaction() as tx:
        tx.erasures.forget(1 << 40, (0, 0, 0))
    store.rewrite()

    files = [Path(store.path), *Path(store.path).parent.glob("*-wal")]
    assert [file for file in files if MARK.encode() in file.read_bytes()] == []


def test_an_export_has_the_rows_of_every_table_that_belongs_to_the_memory(store: Store) -> None:
    copy = Path(store.path).with_name("copy")
    copy_database(Path(store.path), copy)

    lines = list(export_lines(copy, MEMORY_ID, NOW))

    assert {line.type for line in lines} == set(TYPES)
    assert {table.export for table in TABLES.values() if " " not in table.export} == set(TYPES)
    rows = [line for line in lines if line.row is not None and line.type not in ONLY_IDS]
    with_mark = Counter(line.type for line in rows if MARK in str(line))
    # Compressed values do not show it.
    assert with_mark == {
        "grant": 3,
        "context": 2,
        "agent_settings": 1,
        "checkpoint": 5,
        "checkpoint_value": 1,
        "checkpoint_write": 3,
        "kv": 4,
        "event": 5,
        "edge": 5,
        "view": 3,
    }
    assert len(rows) == 6 + 6 + 3 + 4 + 17 + 2


def test_the_lines_of_a_table_have_all_its_columns(store: Store) -> None:
    row_numbers = {rows.table: rows.row for rows in list_rows()}
    with closing(apsw.Connection(store.path)) as connection:
        for table in ROW_TABLES.values():
            columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table.table,))
            # Changes have numbers of their file.
            expected = {name for (name,) in columns} - {row_numbers[table.table], "born"}
            assert set(table.struct.__struct_encode_fields__) == expected
            assert expected >= {*table.lines.key, *table.lines.ids, *table.lines.equal}


def test_a_salvage_copies_every_table_that_is_not_derived(store: Store, tmp_path: Path) -> None:
    assert list_tables().keys() == {name for name, table in TABLES.items() if table.is_salvaged}
    with closing(apsw.Connection(store.path)) as connection:
        there = {
            name: connection.execute(f"SELECT count(*) FROM {name}").get for name in list_tables()
        }

    assert salvage_into(tmp_path / "new.db", Path(store.path)).rows == there
    assert all(there[name] for name, table in TABLES.items() if table.fill)


def test_a_scrub_finds_damage_in_every_table(store: Store, tmp_path: Path) -> None:
    whole, damaged = tmp_path / "whole.db", tmp_path / "damaged.db"
    copy_database(Path(store.path), whole)
    assert inspect(whole).faults == []
    with closing(apsw.Connection(str(whole))) as connection:
        pages = connection.execute(
            "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
        ).fetchall()
    for name, page in pages:
        data = bytearray(whole.read_bytes())
        data[(page - 1) * PAGE_BYTES : page * PAGE_BYTES] = b"\xff" * PAGE_BYTES
        damaged.write_bytes(data)
        assert inspect(damaged).faults, name
