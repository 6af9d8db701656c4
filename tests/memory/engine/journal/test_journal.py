"""The journal of a store in PostgreSQL, and the copies of the store on several hosts."""

import json
import secrets
import shutil
from contextlib import closing, suppress
from pathlib import Path

import apsw
import psycopg
import pytest

from memrelay import open_store
from memrelay.memory.engine import connection as connection_module
from memrelay.memory.engine.journal import journal as journal_module
from memrelay.memory.engine.journal.journal import Journal
from memrelay.memory.engine.journal.patches import write_position
from memrelay.memory.engine.journal.postgres import PostgresJournals
from memrelay.memory.errors import BadBackup, StoreBroken, StoreBusy, StoreFenced
from tests.memory.builders import MEMORY_ID, make_store, perform
from tests.memory.engine.journal.conftest import StoresOfHost, rows_of
from tests.memory.engine.test_every_table import TABLES, fill_every_table
from tests.support.postgres import Postgres
from tests.support.waiting import wait_for

# Commits that are larger than what they leave in the file.
REPLACE_PAIR = "INSERT OR REPLACE INTO kv VALUES ('i', 'n', 'k', ?, 1)"
Hosts = tuple[StoresOfHost, StoresOfHost]


def assert_equal(hosts: Hosts) -> None:
    """Close the stores and compare their files."""
    for host in hosts:
        host.stores.close_all()
    first, second = (rows_of(host.path) for host in hosts)
    assert first == second


def test_another_host_has_the_same_records_and_the_same_search(hosts: Hosts) -> None:
    first, second = hosts
    first.write(*[f"tea number {number}, black-tea from snake_case" for number in range(30)])

    second.take_over(2)

    assert second.contents() == first.contents()
    for query in ("black-tea", "number 17", "snake case"):
        assert second.found(query) == first.found(query) != []
    assert_equal(hosts)


def test_every_table_is_the_same_on_another_host(hosts: Hosts) -> None:
    first, second = hosts
    fill_every_table(first.stores.get(MEMORY_ID))

    second.take_over(2)

    assert_equal(hosts)
    rows = rows_of(second.path)
    assert all(rows[table] for table, about in TABLES.items() if about.fill)


def test_changes_after_the_first_copy_are_applied_to_it(hosts: Hosts) -> None:
    first, second = hosts
    first.write("one", "two", "three")
    second.take_over(2)
    guids = [
        record.guid
        for record in perform(second.stores.get(MEMORY_ID), "records.list", limit=9).items
    ]
    first.take_over(3)
    with first.stores.get(MEMORY_ID).transaction() as tx:
        perform(tx, "records.update", guid=guids[0], content="uno-dos")
        perform(tx, "records.delete", guid=guids[1])
        perform(tx, "records.append", guid=guids[2], content="more")
    first.write("four")

    second.take_over(4)

    assert second.contents() == first.contents() == ["uno-dos", "three\nmore", "four"]
    assert [second.found(word) for word in ("two", "one")] == [[], []]
    assert second.found("uno") == first.found("uno") != []
    assert_equal(hosts)


def test_a_stale_owner_changes_nothing(hosts: Hosts) -> None:
    first, second = hosts
    first.write("one")
    second.take_over(2)

    with pytest.raises(StoreFenced):
        first.write("stale")
    with pytest.raises(StoreFenced):
        first.write("stale")
    second.write("two")

    assert second.contents() == ["one", "two"]
    first.take_over(3)
    assert first.contents() == ["one", "two"]


def test_an_owner_that_opens_its_store_again_keeps_it(hosts: Hosts) -> None:
    first, _ = hosts
    first.write("one")
    first.stores.close_all()

    first.write("two")

    assert first.contents() == ["one", "two"]


def test_a_commit_that_only_the_journal_has_is_applied(hosts: Hosts) -> None:
    first, second = hosts
    store = first.stores.get(MEMORY_ID)
    store.begin()
    perform(store, "records.create", content="journaled")
    first.stores.append_to_journal([store])
    store.rollback()

    first.write("next")

    assert first.contents() == ["journaled", "next"]
    second.take_over(2)
    assert_equal(hosts)


def test_a_batch_over_two_stores_is_appended_to_both_or_to_none(
    hosts: Hosts, postgres: Postgres, url: str
) -> None:
    first, second = hosts
    other = "instances/a3d8f1b2/other"
    first.stores.take_over(other, 1)
    first.write("one")
    with first.stores.get(other).transaction() as tx:
        perform(tx, "records.create", content="one")
    second.take_over(2)  # but not the other store

    stores = [first.stores.get(other), first.stores._open[MEMORY_ID]]
    for store in stores:
        store.begin()
        perform(store, "records.create", content="two")
    with pytest.raises(StoreFenced):
        first.stores.append_to_journal(stores)

    count = f"SELECT n FROM memrelay.stores WHERE store = '{other}'"
    assert postgres.query(count, url) == [(1,)]


def test_a_file_with_lost_commits_is_kept_and_made_anew(hosts: Hosts, url: str) -> None:
    first, _ = hosts
    first.write("one", "two")
    saved = first.path.parent / "saved"
    first.stores.close_all()
    shutil.copy(first.path, saved)
    first.write("three")
    first.stores.close_all()
    newer = rows_of(first.path)

    # PostgreSQL was set back, and went on without the third commit.
    with_journal = first.path.read_bytes()
    shutil.copy(saved, first.path)
    set_back(url, MEMORY_ID, 2)
    first.write("another")
    first.stores.close_all()
    first.path.write_bytes(with_journal)

    first.take_over(9)

    assert first.contents() == ["one", "two", "another"]
    (kept,) = first.path.parent.glob("*.diverged-*")
    assert rows_of(kept)["records"] == newer["records"]


def set_back(url: str, store: str, n: int) -> None:
    """Delete the commits of a journal after the commit `n`, as an old backup of it would."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO memrelay")
        connection.execute("DELETE FROM journal WHERE store = %s AND n > %s", (store, n))
        connection.execute(
            "UPDATE stores SET n = journal.n, mark = journal.mark FROM journal "
            "WHERE stores.store = %s AND journal.store = %s AND journal.n = %s",
            (store, store, n),
        )


def test_a_snapshot_replaces_old_commits(
    hosts: Hosts, postgres: Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = hosts
    monkeypatch.setattr(journal_module, "LEAST_BYTES", 1000)
    first.write("first")

    for _ in range(20):
        with first.stores.get(MEMORY_ID).transaction() as tx:
            tx._connection.execute(REPLACE_PAIR, (json.dumps(secrets.token_hex(100_000)),))

    def has_snapshot() -> bool:
        return postgres.query("SELECT snapshot > 0 FROM memrelay.stores", url) == [(True,)]

    wait_for(has_snapshot, "a snapshot is complete")
    first.write("last")
    assert postgres.query("SELECT count(*) FROM memrelay.journal", url)[0][0] < 22
    second.take_over(2)
    assert second.contents() == ["first", "last"]
    assert_equal(hosts)


def test_the_journal_holds_no_text_and_a_new_generation_no_old_key(
    hosts: Hosts, postgres: Postgres, url: str
) -> None:
    first, second = hosts
    first.write("xyzzy-secret")
    keys = "SELECT key FROM memrelay.generations"
    before = postgres.query(keys, url)
    second.take_over(2)
    second.stores.close_all()
    first.take_over(3)

    first.stores.rewrite(MEMORY_ID)
    first.write("later")

    assert len(postgres.query(keys, url)) == 1 and postgres.query(keys, url) != before
    postgres.query("CHECKPOINT")
    files = [file for file in postgres.data.rglob("*") if file.is_file()]
    assert not any(b"xyzzy-secret" in file.read_bytes() for file in files)
    second.take_over(4)
    assert second.contents() == ["xyzzy-secret", "later"]
    assert_equal(hosts)


def test_a_store_from_before_gets_a_journal(tmp_path: Path, url: str) -> None:
    with make_store(tmp_path / "a").transaction() as tx:
        perform(tx, "records.create", content="from before")

    first, second = StoresOfHost(tmp_path / "a", url), StoresOfHost(tmp_path / "b", url)
    first.take_over(1)
    first.write("later")
    second.take_over(2)

    assert second.contents() == ["from before", "later"]
    assert_equal((first, second))


def test_an_interrupted_upload_of_a_store_is_repeated(tmp_path: Path, url: str) -> None:
    store = make_store(tmp_path / "a")
    with store.transaction() as tx:
        perform(tx, "records.create", content="from before")
    store.close()
    first, second = StoresOfHost(tmp_path / "a", url), StoresOfHost(tmp_path / "b", url)

    # Before and after PostgreSQL has it.
    for epoch in (1, 2):
        with closing(apsw.Connection(str(first.path))) as connection:
            write_position(connection, journal_module.UPLOADING)
        first.take_over(epoch)
        assert first.contents() == ["from before"]
        first.stores.close_all()

    second.take_over(3)
    assert second.contents() == ["from before"]
    assert_equal((first, second))


def test_a_foreign_file_is_refused(hosts: Hosts) -> None:
    first, second = hosts
    first.write("one")
    make_store(second.root).close()

    with pytest.raises(StoreBroken, match="is not the copy of the journal"):
        second.take_over(2)


def test_a_newer_version_takes_a_store_over(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = hosts
    first.write("one")
    current = connection_module.migrations()
    newer = (
        *current,
        "CREATE TABLE further(n INTEGER PRIMARY KEY); INSERT INTO further VALUES (7)",
    )
    for module in (connection_module, journal_module):
        monkeypatch.setattr(module, "migrations", lambda: newer)

    second.take_over(2)
    second.write("two")
    second.stores.close_all()
    assert rows_of(second.path)["further"] == [(7,)]

    first.take_over(3)  # from the older file, in the newer version
    assert first.contents() == ["one", "two"]
    assert_equal(hosts)
    for module in (connection_module, journal_module):
        monkeypatch.setattr(module, "migrations", lambda: current)
    with pytest.raises(StoreBroken, match="newer Memrelay"):
        second.take_over(4)


@pytest.mark.slow
def test_a_host_that_is_paused_in_a_transaction_does_not_stop_the_next_owner(
    hosts: Hosts, url: str
) -> None:
    first, second = hosts
    first.write("one")
    with closing(PostgresJournals(url)) as paused, paused._guarded("") as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT store FROM stores FOR UPDATE")

        def has_taken_over() -> bool:
            with suppress(StoreBusy):
                second.take_over(2)
                return True
            return False

        wait_for(has_taken_over, "the locks are released")

    assert second.contents() == ["one"]


def test_an_unreachable_server_is_retried(tmp_path: Path) -> None:
    with Postgres() as server:
        host = StoresOfHost(tmp_path / "a", server.create_database())
        host.take_over(1)
        host.write("one")
        server.kill()

        for _ in range(2):
            with pytest.raises(StoreBusy, match="PostgreSQL"):
                host.write("two")
            assert host.contents() == ["one"]
        server.start()

        def is_written() -> bool:
            with suppress(StoreBusy):
                host.write("two")
                return True
            return False

        wait_for(is_written, "PostgreSQL is reached again")
        assert host.contents() == ["one", "two"]
        host.stores.close_all()


def test_a_copy_is_not_written_without_its_journal(hosts: Hosts) -> None:
    first, _ = hosts
    first.write("one")
    first.stores.close_all()

    with pytest.raises(StoreBroken, match="journal is in PostgreSQL"):
        make_store(first.root)
    with pytest.raises(StoreBroken, match="journal is in PostgreSQL"), open_store(first.path):
        pass

    first.write("two")
    assert first.contents() == ["one", "two"]


def test_a_copy_of_a_store_is_made_from_its_journal(hosts: Hosts, tmp_path: Path, url: str) -> None:
    first, second = hosts
    first.write("one")
    journal = Journal(second.root, url)

    assert journal.list() == [MEMORY_ID] and journal.exists(MEMORY_ID)
    journal.copy(MEMORY_ID, tmp_path / "copy.db")

    first.stores.close_all()
    assert rows_of(tmp_path / "copy.db") == rows_of(first.path)
    with pytest.raises(BadBackup):
        journal.copy("instances/a3d8f1b2/none", tmp_path / "none.db")
    journal.close()


def test_a_restored_file_becomes_a_new_generation(hosts: Hosts, tmp_path: Path, url: str) -> None:
    first, second = hosts
    first.write("one")
    other = make_store(tmp_path / "other")
    with other.transaction() as tx:
        perform(tx, "records.create", content="restored")
    other.close()
    second.path.parent.mkdir(parents=True)
    shutil.copy(other.path, second.path)
    journal = Journal(second.root, url)

    journal.put(MEMORY_ID)
    journal.close()

    with pytest.raises(StoreFenced):
        first.write("two")
    first.take_over(2)
    assert first.contents() == ["restored"]


def test_records_that_swap_their_keys_are_copied(hosts: Hosts) -> None:
    first, second = hosts
    with first.stores.get(MEMORY_ID).transaction() as tx:
        for number in "12":
            perform(tx, "facts.set", key=f"fact{number}", value=number)
    second.take_over(2)
    first.take_over(3)
    with first.stores.get(MEMORY_ID).transaction() as tx:
        for before, after in (("fact1", "x"), ("fact2", "fact1"), ("x", "fact2")):
            tx._connection.execute("UPDATE records SET key = ? WHERE key = ?", (after, before))

    second.take_over(4)

    assert_equal(hosts)
