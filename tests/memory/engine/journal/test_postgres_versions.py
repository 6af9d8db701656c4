"""The control plane and the journals on PostgreSQL 14, the oldest version that is supported."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.engine.journal.journal import Journal
from memrelay.memory.engine.journal.projection import Projector
from memrelay.memory.errors import StoreBroken
from memrelay.memory.postgres import SCHEMA
from tests.memory.builders import MEMORY_ID
from tests.memory.engine.journal.conftest import StoresOfHost
from tests.support.postgres import Postgres, oldest_programs

STORAGE = (
    "SELECT relname, attname, attstorage FROM pg_attribute JOIN pg_class ON attrelid = oid "
    "WHERE relname ~ '^(journal|snapshots)_[0-9]+$' AND attname IN ('patch', 'data')"
)


@pytest.fixture(scope="module")
def oldest() -> Iterator[Postgres]:
    """A server of the oldest version."""
    with Postgres(oldest_programs()) as server:
        yield server


@pytest.mark.slow
def test_the_oldest_version_keeps_the_control_plane(oldest: Postgres, tmp_path: Path) -> None:
    async def deploy_and_list() -> None:
        async with Catalog(tmp_path, oldest.create_database()) as catalog:
            deployed = await catalog.deploy("a3d8f1b2", "one", "hash", b"{}", 1)
            assert await catalog.active() == [deployed.after]

    assert oldest.query("SHOW server_version")[0][0].startswith("14.")
    asyncio.run(deploy_and_list())


@pytest.mark.slow
def test_the_oldest_version_keeps_journals(oldest: Postgres, tmp_path: Path) -> None:
    url = oldest.create_database()
    first, second = StoresOfHost(tmp_path / "a", url), StoresOfHost(tmp_path / "b", url)
    first.take_over(1)
    first.write("the first note", "the second note")
    second.take_over(2)
    assert sorted(second.contents()) == ["the first note", "the second note"]
    with closing(Journal(tmp_path / "a", url)) as journal:
        journal.put(MEMORY_ID)  # a snapshot
    partitions = oldest.query(STORAGE, url)
    assert len(partitions) == 32
    assert {storage for *_, storage in partitions} == {"e"}, "compressed again"
    Projector(tmp_path / "a", url).rewrite(MEMORY_ID, 3)
    assert oldest.query("SELECT content FROM memrelay_tables.records ORDER BY 1", url) == [
        ("the first note",),
        ("the second note",),
    ]
    first.stores.close_all()
    second.stores.close_all()


def test_a_refused_statement_stays_out_of_the_message(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.create_database()
    with closing(Journal(tmp_path, url)) as journal:
        assert not journal.exists(MEMORY_ID)
        postgres.query(f"ALTER TABLE {SCHEMA}.stores RENAME COLUMN mark TO label", url)
        with pytest.raises(StoreBroken) as refused:
            journal.exists(MEMORY_ID)
    assert str(refused.value) == (
        'PostgreSQL (storage.url) refuses: column "mark" does not exist (SQLSTATE 42703)'
    )


def test_the_control_plane_names_no_statement_either(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.create_database()

    async def list_without_table() -> None:
        async with Catalog(tmp_path, url) as catalog:
            postgres.query(f"DROP TABLE {SCHEMA}.pipelines", url)
            await catalog.active()

    with pytest.raises(StoreBroken) as refused:
        asyncio.run(list_without_table())
    assert "SELECT" not in str(refused.value)
    assert "\n" not in str(refused.value)
