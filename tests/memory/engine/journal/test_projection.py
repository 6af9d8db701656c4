"""The readable tables in PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.journal.journal import Journal
from memrelay.memory.engine.journal.projection import Projector
from memrelay.memory.engine.stores import OpenStores
from tests.memory.builders import MEMORY_ID, perform
from tests.memory.search.embedding.embedders import embed_all, lazy_endpoint
from tests.support.embedding_server import embedding_server
from tests.support.postgres import Postgres
from tests.support.waiting import wait_for


class Projected:
    """A store with readable tables."""

    def __init__(self, root: Path, url: str, server: Postgres) -> None:
        self._url, self._server = url, server
        self.projector = Projector(root, url)
        self.projector.start()
        self.stores = OpenStores(root, 10, None, Journal(root, url, self.projector))
        self.stores.take_over(MEMORY_ID, 1)

    def perform(self, operation: str, /, **given: Any) -> Any:
        with self.stores.get(MEMORY_ID).transaction() as tx:
            return perform(tx, operation, **given)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        exists = "SELECT to_regclass('memrelay_tables.vectors') IS NOT NULL"
        if self._server.query(exists, self._url) == [(False,)]:
            return []
        return self._server.query(sql, self._url)

    def await_rows(self, sql: str, rows: list[tuple[Any, ...]]) -> None:
        wait_for(lambda: self.query(sql) == rows, f"the tables have {rows}")


@pytest.fixture
def projected(tmp_path: Path, postgres: Postgres) -> Iterator[Projected]:
    made = Projected(tmp_path / "a", postgres.create_database(), postgres)
    yield made
    made.stores.close_all()
    made.projector.close()


CONTENTS = "SELECT content FROM memrelay_tables.records ORDER BY row"


def test_the_tables_follow_each_change(projected: Projected) -> None:
    first = projected.perform("records.create", content="one\0", tags=["a"], data={"n": 1})
    second = projected.perform("records.create", content="two")
    projected.await_rows(CONTENTS, [("one\N{SYMBOL FOR NULL}",), ("two",)])

    projected.perform("records.update", guid=first.guid, content="uno")
    projected.perform("records.delete", guid=second.guid)
    projected.perform("records.create", content="x" * 70_000)
    long = projected.perform("records.create", content="y" * 70_000)
    projected.perform("records.append", guid=long.guid, content="more")

    projected.await_rows(
        "SELECT left(content, 3), right(content, 4), tags, data "
        "FROM memrelay_tables.records ORDER BY row",
        [
            ("uno", "uno", ["a"], {"n": 1}),
            ("xxx", "xxxx", [], None),
            ("yyy", "more", [], None),
        ],
    )
    versions = "SELECT guid, what FROM memrelay_tables.versions ORDER BY n"
    projected.await_rows(
        versions, [(first.guid, "update"), (second.guid, "delete"), (long.guid, "append")]
    )


def test_entries_of_named_memories_have_their_table(projected: Projected) -> None:
    memory = projected.perform("memories.create", name="facts")
    projected.perform("entries.create", memory_id=memory.id, content="tea is hot")
    projected.perform("entries.create", memory_id=memory.id, content="tea is hot")

    projected.await_rows(
        "SELECT memory, confirmations FROM memrelay_tables.entries", [(memory.id, 1)]
    )


def test_hidden_values_stay_in_the_store(projected: Projected) -> None:
    place = {"agent": "a1", "store": "a1"}
    projected.perform("items.put", **place, key="seen", value="tea")
    projected.perform("items.put", **place, key="hidden", value="xyzzy", in_context=False)

    projected.await_rows("SELECT key FROM memrelay_tables.records", [("seen",)])


def test_vectors_are_there_for_pgvector(projected: Projected) -> None:
    with embedding_server() as server:
        projected.perform("records.create", content="abc")
        embed_all(projected.stores.get(MEMORY_ID), lazy_endpoint(server).get())

        projected.await_rows(
            "SELECT content, vector_dims(vector) > 1 FROM memrelay_tables.vectors "
            "JOIN memrelay_tables.records USING (store, row)",
            [("abc", True)],
        )


def test_an_erased_text_is_in_no_file_of_postgresql(
    projected: Projected, postgres: Postgres
) -> None:
    made = projected.perform("records.create", content="xyzzy-secret")
    projected.await_rows(CONTENTS, [("xyzzy-secret",)])
    projected.perform("records.erase", guids=[made.guid])

    projected.stores.rewrite(MEMORY_ID)

    assert projected.query(CONTENTS) == []
    postgres.query("CHECKPOINT")
    files = [file for file in (postgres.data / "base").rglob("*") if file.is_file()]
    assert not any(b"xyzzy-secret" in file.read_bytes() for file in files)
