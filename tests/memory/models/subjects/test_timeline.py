"""records.subjects and records.timeline: who is in a store, and all records of one of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.models.subjects import table as subject_table
from tests.memory.builders import make_store, perform, perform_at
from tests.memory.engine.test_origins import perform as perform_as

HOSTILE = "a/b?<script>\u202ex"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        perform(tx, "records.create", content="tea", owner="Ada", kind="note")
        perform(tx, "records.create", content="rain", owner=HOSTILE)
        perform(tx, "facts.set", key="city", value="Rome", scope="user", user_id="Ada")
        message = {"content": "hello", "name": "Ada"}
        perform(tx, "turns.add", messages=[message], thread="t/1", user="Ada")
        perform(tx, "records.create", content="ok", source="bot")
        perform(tx, "facts.set", key="tone", value="calm", scope="agent", agent_id="bot")
    yield store
    store.close()


def read(store: Store, name: str, sort: str = "user", **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, "records.timeline", name=name, sort=sort, **given)


def contents(timeline: Any) -> list[str]:
    return [one.record.content for one in timeline.items]


def test_a_user_has_all_kinds_of_records_newest_first(store: Store) -> None:
    found = read(store, "Ada")

    assert contents(found) == ["hello", "city: Rome", "tea"]
    assert {one.kind: one.records for one in found.kinds} == dict.fromkeys(
        ("memory.fact", "note", "turn"), 1
    )
    assert found.first_at and found.last_at and found.is_whole and found.next_cursor is None
    assert contents(read(store, "Ada", kind="note")) == ["tea"]
    assert contents(read(store, HOSTILE)) == ["rain"] and contents(read(store, "Nemo")) == []


def test_threads_and_agents_have_theirs(store: Store) -> None:
    assert contents(read(store, "t/1", "thread")) == ["hello"]
    assert contents(read(store, "bot", "agent")) == ["tone: calm", "ok"]


def test_pages_lose_and_repeat_nothing(store: Store) -> None:
    with store.transaction() as tx:
        for number in range(25):
            kind = f"kind {number % 3}"
            perform(tx, "records.create", content=str(number), owner="Ben", kind=kind)
            perform(tx, "records.create", content=str(number), source="bot", kind=kind)
    for name, sort, ends in (("Ben", "user", []), ("bot", "agent", ["tone: calm", "ok"])):
        found, cursor = list[str](), ""
        while cursor is not None:
            page = read(store, name, sort, limit=7, cursor=cursor)
            found, cursor = found + contents(page), page.next_cursor
        assert found == [*map(str, reversed(range(25))), *ends]


def test_an_agent_is_followed_through_windows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject_table, "NEWEST", 2)
    first = read(store, "bot", "agent")

    assert contents(first) == ["tone: calm", "ok"] and not first.is_whole
    last = read(store, "bot", "agent", cursor=first.next_cursor)
    assert contents(last) == [] and last.next_cursor is not None


def test_expired_and_deleted_records_are_left_out(store: Store) -> None:
    note = read(store, "Ada", kind="note").items[0].record.guid
    with store.transaction() as tx:
        perform(tx, "records.create", content="x", owner="Ada", expires_at="2030-01-01")
        perform(tx, "records.delete", guid=note)
    found = perform_at(store, 1_900_000_000_000, "records.timeline", name="Ada")

    assert contents(found) == ["hello", "city: Rome"]
    assert sum(one.records for one in found.kinds) == 2


def test_subjects_are_listed_by_name_and_beginning(store: Store) -> None:
    with store.transaction() as tx:
        perform(tx, "episodes.begin", agent_id="bot")

        def names(**given: Any) -> list[str]:
            return [one.name for one in perform(tx, "records.subjects", **given).items]

        assert names() == ["Ada", HOSTILE] and names(beginning="A") == ["Ada"]
        assert names(sort="agent") == ["bot"] and names(sort="thread") == ["t/1"]
        first = perform(tx, "records.subjects", limit=1)
        assert (first.items[0].records, first.after) == (3, "Ada")
        assert names(after="Ada") == [HOSTILE] and names(beginning="Z") == []


def test_a_bad_cursor_is_refused(store: Store) -> None:
    with pytest.raises(Refused, match="cursor"):
        read(store, "Ada", cursor="x")


def test_a_user_of_many_records_is_read_by_the_index(store: Store) -> None:
    with store.transaction() as tx:
        steps: list[str] = []
        tx.connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(f"{event['sql']} {event['stmt_status']}"),
        )
        perform(tx, "records.timeline", name="Ada", sort="user")
        tx.connection.trace_v2(0, None)
    reads = [one for one in steps if "records_owner" in one]
    assert reads and all("'SQLITE_STMTSTATUS_FULLSCAN_STEP': 0" in one for one in reads)


def test_an_undo_takes_a_merge_of_users_back(store: Store) -> None:
    with store.transaction() as tx:
        for channel_id in ("8", "9"):
            perform(tx, "users.identify", channel="slack", channel_id=channel_id)
        perform(tx, "records.create", content="his note", owner="slack:8")
        perform_as(tx, Origin("merger"), "users.merge", id="slack:8", into="slack:9")
        assert "his note" in contents(perform(tx, "records.timeline", name="slack:9"))
        perform_as(tx, Origin("admin"), "records.undo", source="merger")

        assert contents(perform(tx, "records.timeline", name="slack:8")) == ["his note", ""]
        assert contents(perform(tx, "records.timeline", name="slack:9")) == [""]
