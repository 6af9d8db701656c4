"""The past of a store: a copy that is taken back equals the store as it was."""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.engine.as_of import PastState, PastStates, take_back
from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.retention import DAY_MS, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.vectors import Made
from memrelay.memory.engine.versions import MAX_VERSIONS, TOGETHER
from memrelay.memory.errors import Refused, TooOld
from tests.memory.builders import MEMORY_ID, NOW, find, make_store, perform, perform_at

WORDS = (
    "tea coffee meeting monday budget review snake_case café hyphen-ated 日本 sugar milk"
).split()
RECORDS = "SELECT * FROM records ORDER BY row"
VERSIONS = "SELECT * FROM versions ORDER BY n"
# Makes a file as an earlier version wrote it.
UNDO_MIGRATION = """
DROP TABLE memory_versions;
ALTER TABLE memories DROP COLUMN born;
DROP TABLE moments;
ALTER TABLE commits DROP COLUMN changes;
ALTER TABLE appended DROP COLUMN born;
ALTER TABLE records DROP COLUMN born;
ALTER TABLE versions DROP COLUMN born;
ALTER TABLE versions DROP COLUMN ended;
ALTER TABLE versions DROP COLUMN row;
PRAGMA user_version = 33;
"""


class Life:
    """Random changes of a store."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.random = store, random.Random(seed)
        self.guids: list[str] = []
        self.now = NOW

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 8)))

    def change(self) -> None:
        """Make a random change as an operation."""
        self.now += self.random.randint(0, 5000)
        guid = self.random.choice(self.guids) if self.guids else ""
        kind = self.random.choices(
            ("create", "update", "tag", "delete", "restore", "append", "long", "clear"),
            (6, 3, 2, 3, 2, 3, 1, 0.1),
        )[0]
        # What is gone cannot be changed, and what is there cannot be restored.
        with suppress(Refused):
            self._perform(kind, guid)

    def _perform(self, kind: str, guid: str) -> None:
        if kind == "create" or not guid:
            made = self._call("records.create", content=self.text(), kind="note")
            self.guids.append(made.guid)
        elif kind == "long":
            made = self._call("records.create", content=self.text() + " word" * 1500, kind="log")
            self.guids.append(made.guid)
        elif kind == "update":
            self._call("records.update", guid=guid, content=self.text())
        elif kind == "tag":
            self._call("records.update", guid=guid, tags=[self.random.choice(WORDS)])
        elif kind == "append":
            self._call("records.append", guid=guid, content=self.text())
        elif kind == "clear":
            with self.store.transaction() as tx:
                tx.records.set_actor(self.now, "test")
                tx.records.delete_all({"kind": "log"})
        else:
            self._call(f"records.{kind}", guid=guid)

    def _call(self, name: str, **given: Any) -> Any:
        return perform_at(self.store, self.now, name, **given)


def rows(store: Store, sql: str) -> list[Any]:
    with store.transaction():
        store.records.flush()
        return store.connection.execute(sql).fetchall()


def search_all(store: Store, text: str) -> list[Any]:
    with store.transaction() as tx:
        return [
            (one.guid, one.score) for mode in ("fts", "hybrid") for one in find(tx, text, mode=mode)
        ]


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_that_is_taken_back_equals_the_store_as_it_was(seed: int, tmp_path: Path) -> None:
    store = make_store(tmp_path)
    life, kept = Life(store, seed), list[tuple[int, Path]]()
    for number in range(200):
        life.change()
        if number % 20 == 7:
            store.checkpoint()
            copy_database(Path(store.path), path := tmp_path / f"then-{number}")
            kept.append((store.records.versions.last_change, path))
    for change, path in kept:
        copy_database(Path(store.path), taken := tmp_path / f"taken-{change}")
        back, then = Store(MEMORY_ID, taken), Store(MEMORY_ID, path)
        assert take_back(back, change) == 0
        assert rows(back, RECORDS) == rows(then, RECORDS)
        assert rows(back, VERSIONS) == rows(then, VERSIONS)
        assert search_all(back, "tea") == search_all(then, "tea")
        for index in ("records_fts", "parts_fts"):
            back.connection.execute(
                f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)"
            )
        back.close()
        then.close()
    store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with three commits, 10 s apart by a test clock: tea, coffee, and tea is deleted."""
    clock = count(NOW, 10_000)
    store = make_store(tmp_path)
    store.commits.clock = lambda: next(clock)
    tea = perform_at(store, NOW, "records.create", content="tea")
    perform_at(store, NOW, "records.create", content="coffee")
    perform_at(store, NOW, "records.delete", guid=tea.guid)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("as_of", "change"),
    [
        (str(NOW - 1), 0),
        (str(NOW), 1),
        (str(NOW + 9_999), 1),
        (str(NOW + 10_000), 2),
        (str(NOW + 20_000), 3),
        (str(NOW + 99_000), 3),
        ("2023-11-14T22:13:20Z", 1),
        ("2999-01-01", 3),
        ("n:0", 0),
        ("n:2", 2),
    ],
)
def test_a_time_means_the_last_commit_until_then(store: Store, as_of: str, change: int) -> None:
    assert store.table(PastStates).find(as_of).change == change


@pytest.mark.parametrize(
    ("as_of", "message"),
    [("n:4", "the last one is n:3"), ("yesterday", "RFC 3339"), ("", "RFC 3339")],
)
def test_what_is_no_time_is_refused(store: Store, as_of: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        store.table(PastStates).find(as_of)


def test_times_never_go_back(store: Store) -> None:
    store.commits.clock = lambda: NOW - 50_000
    perform_at(store, NOW, "records.create", content="milk")

    assert store.table(PastStates).find(str(NOW + 20_000)) == PastState(4, NOW + 20_000)


def test_states_are_known_as_long_as_the_history_is_kept(store: Store) -> None:
    delete_expired(store, NOW + 2 * DAY_MS, 1)

    assert store.table(PastStates).find("n:3").change == 3
    for as_of in ("n:2", str(NOW + 10_000), str(NOW - 1)):
        with pytest.raises(TooOld, match=r"the earliest one is 2023-11-14T22:13:40.000Z \(n:3\)"):
            store.table(PastStates).find(as_of)


def test_records_with_too_many_changes_are_counted_as_incomplete(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = perform_at(store, NOW, "records.create", content="tea").guid
    for number in range(MAX_VERSIONS + TOGETHER):
        perform_at(store, NOW, "records.update", guid=guid, content=f"tea {number}")

    assert take_back(store, 2) == 1
    assert rows(store, RECORDS) == []
    store.close()


def test_a_store_of_an_earlier_version_begins_with_its_present_state(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    perform_at(store, NOW, "records.create", content="tea")
    path = store.path
    store.close()
    with closing(apsw.Connection(path)) as connection:
        connection.execute(UNDO_MIGRATION)

    store = make_store(tmp_path)
    perform_at(store, NOW, "records.create", content="coffee")

    assert take_back(store, 0) == 0
    assert [row[4] for row in rows(store, RECORDS)] == ["tea"]
    store.close()


def test_vectors_of_equal_texts_are_kept(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    one, other = (perform_at(store, NOW, "records.create", content=text).guid for text in "ab")
    with store.transaction() as tx:
        tx.vectors.begin("test", 2)
        tx.vectors.put(tx.vectors.sets()[0], [Made(1, "a", b"\0" * 4), Made(2, "b", b"\0" * 4)])
    perform_at(store, NOW, "records.update", guid=one, tags=["hot"])
    perform_at(store, NOW, "records.update", guid=other, content="c")

    take_back(store, 2)

    assert rows(store, "SELECT row FROM vectors_0") == [(1,)]
    with store.transaction() as tx:
        assert tx.vectors.outstanding(tx.vectors.sets()[0], 10) == [(2, "b")]
    store.close()


@contextmanager
def take_copy_back(store: Store, folder: Path, change: int) -> Iterator[Store]:
    copy_database(Path(store.path), path := folder / f"back-{change}")
    with closing(Store(MEMORY_ID, path)) as copy:
        take_back(copy, change)
        yield copy
    path.unlink()


def change(store: Store, operation: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, operation, **given)


def memories_at(store: Store, folder: Path, change: int) -> list[Any]:
    with take_copy_back(store, folder, change) as copy:
        return rows(copy, "SELECT name, tags FROM memories ORDER BY row")


def test_a_copy_has_the_named_memories_of_then(tmp_path: Path) -> None:
    with closing(make_store(tmp_path)) as store:
        tea = change(store, "memories.create", name="tea", tags=["hot"])
        change(store, "entries.create", memory_id=tea.id, content="Ada likes tea")
        milk = change(store, "memories.create", name="milk")
        change(store, "memories.update", id=tea.id, name="drinks", tags=["cold"])
        change(store, "memories.delete", id=tea.id)
        states = {change: memories_at(store, tmp_path, change) for change in range(7)}

        assert states[0] == []
        assert states[1] == states[2] == [("tea", '["hot"]')]
        assert states[3] == [("tea", '["hot"]'), ("milk", None)]
        assert states[4] == states[5] == [("drinks", '["cold"]'), ("milk", None)]
        assert states[6] == [("milk", None)]
        with take_copy_back(store, tmp_path, 3) as copy, copy.transaction() as tx:
            context = {"query": "what does Ada drink", "memory_tags": ["h*"]}
            found = perform(tx, "knowledge.search", **context).results
            assert [(one.memory_name, one.content) for one in found] == [("tea", "Ada likes tea")]
            assert perform(tx, "memories.get", id=milk.id) == milk

        with store.transaction() as tx:
            tx.records.versions.delete_before(NOW + DAY_MS, 100)
        kept = store.connection.execute("SELECT count(*) FROM memory_versions").get
        assert kept == 0
