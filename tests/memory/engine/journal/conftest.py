"""Two hosts with one PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.engine.journal.journal import Journal
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from tests.memory.builders import MEMORY_ID, perform
from tests.support.postgres import Postgres

# Each file has its own fence and index pages.
OWN = ("fence", "sqlite_stat1")


class StoresOfHost:
    """The stores of a database thread on one host."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.stores = OpenStores(root, 10, None, Journal(root, url))

    @property
    def path(self) -> Path:
        return store_path(self.root, MEMORY_ID)

    def take_over(self, epoch: int) -> Store:
        """Own the store from now on, as a worker does that knows its name."""
        self.stores.below("instances/a3d8f1b2")
        self.stores.take_over(MEMORY_ID, epoch)
        return self.stores.get(MEMORY_ID)

    def write(self, *contents: str) -> None:
        """Write each content in its own transaction."""
        for content in contents:
            with self.stores.get(MEMORY_ID).transaction() as tx:
                perform(tx, "records.create", content=content)

    def contents(self) -> list[str]:
        page = perform(self.stores.get(MEMORY_ID), "records.list", limit=500)
        return [record.content for record in page.items]

    def found(self, query: str) -> list[tuple[str, float | None]]:
        """Return the content and score of each hit."""
        hits = perform(self.stores.get(MEMORY_ID), "records.search", query=query).items
        return [(hit.record.content, hit.score) for hit in hits]


def rows_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of all tables, and check the indexes."""
    connection = apsw.Connection(str(path))
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%_fts%'"
        )
        if name not in OWN
    ]
    for index in ("records_fts", "parts_fts"):
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    rows = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
    connection.close()
    return rows


@pytest.fixture
def url(postgres: Postgres) -> str:
    """The URL of an empty database."""
    return postgres.create_database()


@pytest.fixture
def hosts(tmp_path: Path, url: str) -> Iterator[tuple[StoresOfHost, StoresOfHost]]:
    """Two hosts, each with its own memory root. The first one owns the store."""
    first, second = StoresOfHost(tmp_path / "a", url), StoresOfHost(tmp_path / "b", url)
    first.take_over(1)
    yield first, second
    first.stores.close_all()
    second.stores.close_all()
