"""The past of a store: a copy that is taken back equals the store as it was."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
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
from memrelay.memory.engine.versions import MAX_VERSIONS, TOGETHER, stored_records
from memrelay.memory.errors import Refused, TooOld
from memrelay.memory.models.named_memories.table import EntryTable
from memrelay.memory.records.ids import guid_of
from memrelay.memory.search.pool import SemanticResources
from memrelay.memory.transfer.backup import replace
from memrelay.memory.transfer.export import export_lines, to_json
from memrelay.memory.transfer.salvage import salvage_store
from tests.memory.builders import MEMORY_ID, NOW, make_store, perform, perform_at, write_all
from tests.memory.search.embedding.embedders import embed_all
from tests.memory.search.test_int8_vectors import (
    Numbered,
    open_store,
    random_vectors,
    record_text,
    results,
)

WORDS = [
    *("tea", "coffee", "meeting", "monday", "budget", "review", "snake_case", "café"),
    *("hyphen-ated", "日本", "sugar", "milk"),
]
RECORDS = "SELECT * FROM records ORDER BY row"
VERSIONS = "SELECT * FROM versions ORDER BY n"
# Makes a file as an earlier version wrote it.
UNDO_MIGRATION = """
DROP INDEX records_owner;
DROP TABLE memory_versions;
ALTER TABLE memories DROP COLUMN born;
DROP TABLE IF EXISTS receipts;
DROP TABLE origins;
ALTER TABLE records DROP COLUMN origin;
ALTER TABLE versions DROP COLUMN origin;
ALTER TABLE versions DROP COLUMN ended_by;
ALTER TABLE versions DROP COLUMN input;
ALTER TABLE appended DROP COLUMN origin;
DROP TABLE IF EXISTS policies;
DROP TABLE IF EXISTS declared_policies;
DROP TABLE IF EXISTS policy_keys;
DROP TABLE IF EXISTS policy_limits;
DROP TABLE IF EXISTS policy_counts;
DROP TABLE IF EXISTS policy_verdicts;
DROP TABLE IF EXISTS proposals;
DROP TABLE IF EXISTS defined_views;
DROP TABLE IF EXISTS declared_views;
DROP TABLE IF EXISTS built_views;
DROP TABLE IF EXISTS view_members;
DROP TABLE IF EXISTS view_counts;
DROP TABLE IF EXISTS consolidation_passes;
DROP TABLE IF EXISTS consolidation_findings;
DROP TABLE IF EXISTS evidence;
DROP TABLE IF EXISTS extractors;
DROP TABLE moments;
ALTER TABLE commits DROP COLUMN changes;
ALTER TABLE appended DROP COLUMN born;
ALTER TABLE records DROP COLUMN born;
ALTER TABLE versions DROP COLUMN born;
ALTER TABLE versions DROP COLUMN ended;
ALTER TABLE versions DROP COLUMN row;
DROP INDEX records_validity;
ALTER TABLE records DROP COLUMN valid_from;
ALTER TABLE records DROP COLUMN valid_to;
ALTER TABLE versions DROP COLUMN valid_from;
ALTER TABLE versions DROP COLUMN valid_to;
PRAGMA user_version = 33;
"""


# Changes by weight. Each is a method of Life.
CHANGES = {
    "create": 6,
    "update": 3,
    "tag": 2,
    "delete": 3,
    "restore": 2,
    "append": 3,
    "long": 1,
    "delete_all": 0.4,
    "turn": 2,
    "brief": 1,
    "retain": 1,
    "erase": 0.3,
    "import_lines": 0.5,
    "entry": 4,
    "edit_entry": 1,
    "delete_entry": 1,
    "fact": 3,
    "delete_fact": 1,
    "item": 3,
    "rename_item": 2,
    "delete_item": 1,
    "swap_items": 1,
}
ENTRIES = [
    f"{name} {verb} {what}"
    for name in ("Ada", "Ben")
    for verb in ("likes", "drinks")
    for what in ("tea", "coffee", "green tea in the morning", "milk")
]
KEYS = "abcdefg"
ITEMS = {"agent": "a1", "store": "a1"}


class Life:
    """Random changes of a store."""

    def __init__(self, store: Store, seed: int, lines: Sequence[str] = ()) -> None:
        self.store, self.random, self.lines = store, random.Random(seed), lines
        self.guids: list[str] = []
        self.memories: list[str] = []
        self.entries: list[str] = []
        self.now = NOW
        # The number of changes by kind that were not refused.
        self.done = Counter[str]()

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 8)))

    def change(self) -> None:
        """Make a random change as an operation."""
        self.now += self.random.randint(0, 5000)
        (kind,) = self.random.choices(list(CHANGES), list(CHANGES.values()))
        # What is gone cannot be changed, and what is there cannot be restored.
        with suppress(Refused):
            getattr(self, kind)()
            self.done[kind] += 1

    def create(self, kind: str = "note", more: str = "", **given: Any) -> None:
        made = self._call("records.create", content=self.text() + more, kind=kind, **given)
        self.guids.append(made.guid)

    def long(self) -> None:
        self.create("log", " word" * 1500)

    def turn(self) -> None:
        self.create("turn", thread=self.random.choice("xy"))

    def brief(self) -> None:
        until = self.now + self.random.randint(1, 200_000)
        self.guids += write_all(self.store, self.text(), now_ms=self.now, expires_at=until)

    def update(self) -> None:
        self._call("records.update", guid=self._guid(), content=self.text())

    def tag(self) -> None:
        self._call("records.update", guid=self._guid(), tags=[self.random.choice(WORDS)])

    def append(self) -> None:
        self._call("records.append", guid=self._guid(), content=self.text())

    def delete(self) -> None:
        self._call("records.delete", guid=self._guid())

    def restore(self) -> None:
        self._call("records.restore", guid=self._guid())

    def delete_all(self) -> None:
        with self.store.transaction() as tx:
            tx.records.set_actor(self.now, "test")
            tx.records.delete_all({"kind": "log"})

    def retain(self) -> None:
        delete_expired(self.store, self.now, 90)

    def erase(self) -> None:
        self._call("records.erase", guids=[self._guid()])

    def import_lines(self) -> None:
        if self.lines:
            self._call("records.import", lines=self.lines)
            self.lines = ()

    def entry(self) -> None:
        if len(self.memories) < 2:
            self.memories.append(
                self._call("memories.create", name=f"facts {len(self.memories)}").id
            )
        memory = self.random.choice(self.memories)
        lines = self.random.choices(ENTRIES, k=self.random.randint(1, 2))
        made = self._call("entries.create", memory_id=memory, content="\n".join(lines))
        self.entries.append(made.id)
        self.guids.append(guid_of("me", MEMORY_ID, made.id))

    def edit_entry(self) -> None:
        if self.entries:
            text, ident = self.random.choice(ENTRIES), self.random.choice(self.entries)
            self._call("entries.update", id=ident, content=text)

    def delete_entry(self) -> None:
        if self.entries:
            self._call("entries.delete", id=self.random.choice(self.entries))

    def fact(self) -> None:
        self._call("facts.set", key=self.random.choice(KEYS), value=self.text(), scope="global")

    def delete_fact(self) -> None:
        found = self._call("facts.list").items
        self._call("facts.delete", id=self.random.choice(found).id if found else "none")

    def item(self) -> None:
        given = {"in_context": True} if self.random.random() < 0.5 else {}
        self._call("items.put", **ITEMS, key=self.random.choice(KEYS), value=self.text(), **given)

    def delete_item(self) -> None:
        self._call("items.delete", **ITEMS, key=self.random.choice(KEYS))

    def rename_item(self) -> None:
        key, to_key = self.random.sample(KEYS, 2)
        self._call("items.rename", **ITEMS, key=key, to_store="a1", to_key=to_key)

    def swap_items(self) -> None:
        one, other = self.random.sample(KEYS, 2)
        for key, to_key in ((one, "free"), (other, one), ("free", other)):
            with suppress(Refused):
                self._call("items.rename", **ITEMS, key=key, to_store="a1", to_key=to_key)

    def _guid(self) -> str:
        return self.random.choice(self.guids) if self.guids else "none"

    def _call(self, name: str, /, **given: Any) -> Any:
        return perform_at(self.store, self.now, name, **given)


def rows(store: Store, sql: str) -> list[Any]:
    with store.transaction():
        store.records.flush()
        return store.connection.execute(sql).fetchall()


def read_all(life: Life, store: Store, now_ms: int) -> list[Any]:
    """Return the answers of a store to reads of all kinds. A refusal is an answer too."""
    words = [{"query": text} for text in ("tea", "snake", "coffee OR milk", "-tea", "日本")]
    modes = [one | {"mode": mode, "explain": True} for one in words for mode in ("fts", "hybrid")]
    memories = [{"memory_id": memory, "limit": 100} for memory in life.memories]
    facts = [{"query": text, "limit": 100} for text in WORDS[:3]]
    reads: list[tuple[str, list[dict[str, Any]]]] = [
        ("records.get", [{"guid": guid} for guid in life.guids]),
        ("records.list", [{"limit": 1000}, {"deleted": True, "limit": 1000}]),
        ("records.list", [{"kind": "turn", "sort": "updated_at"}, {"tags": ["tea"]}]),
        ("records.history", [{"guid": guid} for guid in life.guids[::5]]),
        ("records.search", modes),
        ("entries.list", memories),
        ("knowledge.search", words[:3]),
        ("facts.list", [{"limit": 100}]),
        ("facts.search", facts),
        ("items.list", [{**ITEMS, "limit": 100}]),
        ("items.get", [{**ITEMS, "key": key} for key in KEYS]),
    ]
    answers = list[Any]()
    for name, inputs in reads:
        for given in inputs:
            try:
                answers.append((name, given, perform_at(store, now_ms, name, **given)))
            except Refused as refused:
                answers.append((name, given, str(refused)))
    return answers


def forget_what_is_gone(then: Store, now: Store) -> None:
    """Remove from a stopped store what does not come back, and give both the counters of none."""
    kept = "SELECT guid FROM records UNION SELECT guid FROM versions"
    there = {guid for (guid,) in rows(now, kept)}
    with then.transaction() as tx:
        then.records.flush()
        for guid in {guid for (guid,) in tx.connection.execute(kept)} - there:
            for place in list(stored_records(tx.connection, " WHERE guid = ?", [guid])):
                tx.records.remove(place)
            tx.records.versions.forget(guid)
    for store in (then, now):
        with store.transaction():
            store.connection.execute("DELETE FROM tallies")
            store.connection.execute("UPDATE entries SET confirmations = 0, confirmed_at = NULL")


def live(
    root: Path, seed: int, changes: int, times: int, meaning: SemanticResources | None = None
) -> None:
    """Let a store live, and compare its past at some times with copies made then."""
    store = Store(MEMORY_ID, root / "live.db", meaning)
    life, kept = Life(store, seed, export_other(root, seed)), list[tuple[int, int, Path]]()
    moments = set(random.Random(seed).sample(range(changes), times))
    for number in range(changes):
        life.change()
        if number in moments:
            store.checkpoint()
            copy_database(Path(store.path), path := root / f"then-{number}")
            kept.append((store.records.versions.last_change, life.now, path))
    life.retain()
    if changes >= 1000:
        assert life.done.keys() == CHANGES.keys()
    store.checkpoint()
    for change, now_ms, path in kept:
        copy_database(Path(store.path), taken := root / "taken")
        with (
            closing(Store(MEMORY_ID, taken, meaning)) as back,
            closing(Store(MEMORY_ID, path, meaning)) as then,
        ):
            assert take_back(back, change) == 0
            forget_what_is_gone(then, back)
            assert rows(back, RECORDS) == rows(then, RECORDS)
            assert rows(back, VERSIONS) == rows(then, VERSIONS)
            for ours, theirs in zip(
                read_all(life, back, now_ms), read_all(life, then, now_ms), strict=True
            ):
                assert ours == theirs
            for index in ("records_fts", "parts_fts"):
                back.connection.execute(
                    f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)"
                )
            assert digests(back) == digests(then)
        path.unlink()
        taken.unlink()
    store.close()


def digests(store: Store) -> list[Any]:
    """Return the digests of all entries, as the next write of an entry finds them."""
    with store.transaction() as tx:
        for (memory,) in tx.connection.execute("SELECT id FROM memories").fetchall():
            tx.table(EntryTable).digest(memory)
    return rows(store, "SELECT * FROM entry_lines ORDER BY memory, digest, guid") + rows(
        store, "SELECT guid, memory FROM entries ORDER BY guid"
    )


def export_other(root: Path, seed: int) -> list[str]:
    """Return the lines of an export of another store of the pipeline, with a history."""
    with closing(Store(MEMORY_ID, root / "other.db")) as other:
        life = Life(other, seed + 1000)
        for change in (life.create, life.create, life.update, life.tag, life.delete) * 3:
            with suppress(Refused):
                change()
        other.checkpoint()
        return [
            to_json(line).decode() for line in export_lines(Path(other.path), MEMORY_ID, life.now)
        ]


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_is_taken_back_equals_the_store_as_it_was(seed: int, tmp_path: Path) -> None:
    live(tmp_path, seed, 250, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_the_past_of_a_long_life_equals_the_store_as_it_was(seed: int, tmp_path: Path) -> None:
    live(tmp_path, seed, 1000, 5)


def test_a_search_by_meaning_finds_what_it_found_then(tmp_path: Path) -> None:
    embedder = Numbered(random_vectors)
    with closing(open_store(tmp_path, embedder)) as store:
        guids = write_all(store, *map(record_text, range(60)))
        perform_at(store, NOW, "records.delete", guid=guids[7])
        embed_all(store, embedder)
        found, change = results(store, "hybrid"), store.records.versions.last_change
        for guid in guids[10:20]:
            perform_at(store, NOW, "records.delete", guid=guid)
            perform_at(store, NOW, "records.update", guid=guids[30], tags=[guid])
        for number in range(20, 30):
            text = record_text(number + 100)
            perform_at(store, NOW, "records.update", guid=guids[number], content=text)
        perform_at(store, NOW, "records.restore", guid=guids[7])
        write_all(store, *map(record_text, range(60, 90)))
        embed_all(store, embedder)
        assert results(store, "hybrid") != found
    with closing(open_store(tmp_path, embedder)) as store:
        assert take_back(store, change) == 0
        embed_all(store, embedder)
        assert results(store, "hybrid") == found


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


def test_a_change_within_a_commit_has_a_state_too(tmp_path: Path) -> None:
    with closing(make_store(tmp_path)) as store:
        write_all(store, "tea", "coffee", "milk")

        state = store.table(PastStates).find("n:2")
        take_back(store, state.change)

        assert [row[4] for row in rows(store, RECORDS)] == ["tea", "coffee"]


def test_moments_are_forgotten_with_the_history(store: Store) -> None:
    clock = count(NOW + DAY_MS, 1)
    store.commits.clock = lambda: next(clock)
    for _ in range(3):
        perform_at(store, NOW + DAY_MS, "records.create", content="milk")

    step = delete_expired(store, NOW + 2 * DAY_MS + 2, 1)

    # The history is as old as the last moment before it.
    assert rows(store, "SELECT change FROM moments") == [(5,), (6,)]
    assert step.next_ms == NOW + 2 * DAY_MS + 2
    assert store.table(PastStates).find(str(NOW + DAY_MS + 1)).change == 5
    with pytest.raises(TooOld, match=r"the earliest one is .* \(n:5\)"):
        store.table(PastStates).find(str(NOW + DAY_MS))
    delete_expired(store, NOW + 9 * DAY_MS, 1)
    assert rows(store, "SELECT change FROM moments") == [(6,)]
    assert store.table(PastStates).find(str(NOW + 8 * DAY_MS)).change == 6


@pytest.mark.parametrize("gap", [1, 7, 1000])
def test_a_time_among_many_moments_is_found_by_bisection(store: Store, gap: int) -> None:
    moments, numbers = 1_000_000 if gap == 7 else 5000, random.Random(gap)
    with store.transaction():
        store.connection.execute("DELETE FROM moments")
        # Two moments share each time.
        store.connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO moments SELECT i * ?, ? + i / 2 * 10 FROM n",
            (moments - 1, gap, NOW),
        )
    statements = list[str]()
    states = store.table(PastStates)
    store.connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"]))

    for _ in range(50):
        at = numbers.randrange(moments // 2)
        statements.clear()
        assert states.find(str(NOW + at * 10 + 9)) == PastState((2 * at + 1) * gap, NOW + at * 10)
        assert 0 < len(statements) <= 2 * 24
    store.connection.trace_v2(0)


def test_a_restored_store_gives_no_number_a_second_meaning(store: Store, tmp_path: Path) -> None:
    store.checkpoint()
    copy_database(Path(store.path), tmp_path / "backup")
    perform_at(store, NOW, "records.create", content="lost")
    lost = store.records.versions.last_change
    store.close()
    for _ in range(2):
        copy_database(tmp_path / "backup", draft := tmp_path / "draft")
        replace(Path(store.path), draft)
        with closing(make_store(tmp_path)) as restored:
            assert restored.records.versions.last_change > lost
            perform_at(restored, NOW, "records.create", content="milk")
            states, last = restored.table(PastStates), restored.records.versions.last_change
            assert [states.find(f"n:{n}").change for n in (2, 3, last - 1, last)] == [
                *(2, 3, last - 1, last)
            ]
            with pytest.raises(Refused, match="was lost when a backup from after n:3 was restored"):
                states.find(f"n:{lost}")
            lost = last


def test_the_past_of_a_salvaged_store_begins_with_the_salvage(store: Store, tmp_path: Path) -> None:
    store.close()

    salvage_store(Path(store.path), empty=False)

    with closing(make_store(tmp_path)) as salvaged:
        states = salvaged.table(PastStates)
        change = states.find("2999-01-01").change
        for as_of in ("n:3", "n:0", str(NOW)):
            with pytest.raises(TooOld):
                states.find(as_of)
        perform_at(salvaged, NOW, "records.create", content="milk")
        assert take_back(salvaged, change) == 0
        assert [row[4] for row in rows(salvaged, RECORDS)] == ["coffee"]


def test_a_record_that_an_import_replaced_is_incomplete_before_it(tmp_path: Path) -> None:
    with closing(make_store(tmp_path)) as store:
        guid = perform_at(store, NOW, "records.create", content="tea").guid
        perform_at(store, NOW, "records.update", guid=guid, content="green tea")
        store.checkpoint()
        exported = list(export_lines(Path(store.path), MEMORY_ID, NOW))
        lines = [to_json(line).decode() for line in exported if line.record is not None]
        perform_at(store, NOW, "records.update", guid=guid, content="black tea")
        perform_at(store, NOW, "records.import", lines=lines, replace=True)

        assert take_back(store, 3) == 1
        assert rows(store, RECORDS) == []


def test_what_a_snapshot_knows_of_its_records_is_that_of_then(tmp_path: Path) -> None:
    with closing(make_store(tmp_path)) as store:
        write_all(store, "brief", expires_at=NOW + 10)
        fact = perform_at(store, NOW, "facts.set", key="a", value="tea", scope="global").fact
        change = store.records.versions.last_change
        perform_at(store, NOW, "facts.delete", id=fact.id)
        perform_at(store, NOW, "records.delete", guid=rows(store, RECORDS)[0][1])
        store.close()
        store = make_store(tmp_path)

        take_back(store, change)

        assert perform_at(store, NOW + 20, "records.list").items == ()
        assert len(perform_at(store, NOW, "records.list").items) == 1
        store.close()


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
