"""Idempotency keys of producers: their answers, expiry, and move to another store."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from memrelay.memory.engine.connection import APPLICATION_ID, migrations
from memrelay.memory.engine.idempotency import MOST_EXPIRED, ProducerKey, pack, unpack
from memrelay.memory.engine.memory_id import store_path
from tests.memory.builders import MEMORY_ID, make_store

NOW = 1_700_000_000_000
MINE = ProducerKey("p", "mine", False)


def numbered(number: int) -> ProducerKey:
    return ProducerKey("p", f"order-{number}", False)


def test_a_key_keeps_its_first_answer(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        tx.inbox.keys.add(MINE, b"first", NOW)
        tx.inbox.keys.add(MINE, b"second in the transaction", NOW + 1)
        assert tx.inbox.keys.find(MINE.digest) == b"first"
    with store.transaction() as tx:
        tx.inbox.keys.add(MINE, b"second", NOW + 1)

    assert make_store(tmp_path).inbox.keys.find(MINE.digest) == b"first"
    assert store.inbox.keys.find(ProducerKey("q", "mine", False).digest) is None


def test_a_key_of_a_failed_transaction_is_unknown(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.inbox.keys.add(MINE, b"first", NOW)
        raise ZeroDivisionError

    assert store.inbox.keys.find(MINE.digest) is None


def test_keys_expire(tmp_path: Path) -> None:
    store, numbers = make_store(tmp_path), range(3 * MOST_EXPIRED)
    with store.transaction() as tx:
        for number in numbers:
            tx.inbox.keys.add(numbered(number), b"", NOW + number)

    for _ in range(3):
        with store.transaction() as tx:
            tx.inbox.keys.expire(NOW + 2 * MOST_EXPIRED)

    left = [one for one in numbers if store.inbox.keys.find(numbered(one).digest) is not None]
    assert left == list(numbers[2 * MOST_EXPIRED :])


def test_keys_of_messages_move_and_keys_of_calls_stay(tmp_path: Path) -> None:
    old, new = make_store(tmp_path / "old"), make_store(tmp_path / "new")
    call, other = ProducerKey("p", "mine", True), ProducerKey("q", "mine", False)
    with old.transaction() as tx:
        for key in (MINE, call._replace(id="\x1fmine"), other):
            tx.inbox.keys.add(key, key.pipeline.encode(), NOW)

    moving = old.inbox.keys.list_some("p", with_calls=False)
    with new.transaction() as tx:
        tx.inbox.keys.take_in(moving)
    with old.transaction() as tx:
        tx.inbox.keys.forget(moving)

    assert new.inbox.keys.find(MINE.digest) == b"p"
    assert old.inbox.keys.list_some("p", with_calls=False) == []
    assert [key.is_call for key in old.inbox.keys.list_some("p", with_calls=True)] == [1]
    assert old.inbox.keys.find(other.digest) == b"q"


@pytest.mark.parametrize("answer", [b"", b"tea", os.urandom(5000), b'{"guid": ' * 100_000])
def test_any_answer_returns_from_its_packed_form(answer: bytes) -> None:
    assert unpack(pack(answer)) == answer


def test_the_keys_of_an_older_file_are_kept_as_digests(tmp_path: Path) -> None:
    outputs = {
        "p/mine": ("9-0", 0, [1], [("chat", b"mine"), ("chat", b"{}")]),
        "p/\x1fmine": ("9-1", 0, [], [], b'{"output":1}', 7),
    }
    path = make_older_file(tmp_path, outputs)

    keys = make_store(tmp_path).inbox.keys

    found = [keys.find(ProducerKey("p", ident, False).digest) for ident in ("mine", "\x1fmine")]
    assert [msgspec.msgpack.decode(answer or b"") for answer in found] == [
        ["9-0", [[1, "chat", b"{}"]], b"", 0, [], []],
        ["9-1", [], b'{"output":1}', 7, [], []],
    ]
    assert sorted(key.is_call for key in keys.list_some("p", with_calls=True)) == [0, 1]
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'produce%'")
        assert not tables.fetchall()


def make_older_file(root: Path, outputs: dict[str, tuple[object, ...]]) -> Path:
    """Create a file of the schema version that stored the keys themselves."""
    path = store_path(root, MEMORY_ID)
    path.parent.mkdir(parents=True)
    with closing(apsw.Connection(str(path))) as connection:
        connection.create_scalar_function("parts_of", lambda *_: None, 1, deterministic=True)
        for migration in migrations()[:13]:
            connection.execute(migration)
        connection.pragma("user_version", 13)
        connection.pragma("application_id", APPLICATION_ID)
        for ident, kept in outputs.items():
            connection.execute(
                "INSERT INTO producer_ids VALUES (?, 'bundle', ?, ?)",
                (ident, msgspec.msgpack.encode(kept), NOW),
            )
    return path
