"""Counters of records, without history."""

from pathlib import Path

from memrelay.memory.engine.counters import Counters, CounterTable
from memrelay.memory.engine.store import Store
from tests.memory.builders import NOW, make_store, perform


def create(store: Store, content: str = "tea") -> str:
    with store.transaction() as tx:
        return str(perform(tx, "records.create", content=content).guid)


def test_a_thousand_uses_leave_one_state_and_no_change_of_the_record(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = create(store)
    with store.transaction() as tx:
        before, number = perform(tx, "records.get", guid=guid), tx.feed.last
    for first in range(0, 1000, 250):
        with store.transaction() as tx:
            tx.records.set_actor(NOW + 5000, "tester")
            for number_of_use in range(first, first + 250):
                tx.table(CounterTable).count_use(guid, NOW + number_of_use)

    with store.transaction() as tx:
        assert tx.table(CounterTable).find(guid) == Counters(uses=1000, used_at=NOW + 999)
        assert perform(tx, "records.get", guid=guid, now_ms=NOW + 5000) == before
        assert len(perform(tx, "records.history", guid=guid).items) == 1
        assert tx.feed.last == number
    store.close()


def test_outcomes_durations_and_the_last_time_seen_are_counted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid, other = create(store), create(store, "coffee")
    with store.transaction() as tx:
        tx.table(CounterTable).count_outcome(guid, is_good=True, took_ms=30)
        tx.table(CounterTable).count_outcome(guid, is_good=True)
        tx.table(CounterTable).count_outcome(guid, is_good=False, took_ms=0)
        tx.table(CounterTable).note_seen(guid, NOW + 2)
        tx.table(CounterTable).note_seen(guid, NOW + 1)
        tx.table(CounterTable).count_use(guid, NOW)

        counters = tx.table(CounterTable).find(guid)
        assert counters == Counters(1, NOW, NOW + 2, good=2, bad=1, timed=2, total_ms=30)
        assert counters.mean_ms == 15
        assert tx.table(CounterTable).find(other) == Counters() and Counters().mean_ms is None
    store.close()


def test_a_rollback_counts_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = create(store)
    store.begin()
    store.table(CounterTable).count_use(guid, NOW)
    store.rollback()

    assert store.table(CounterTable).find(guid) == Counters()
    store.close()


def test_the_counters_end_with_their_record(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    erased, deleted, kept = create(store), create(store), create(store)
    with store.transaction() as tx:
        for guid in (erased, deleted, kept):
            tx.table(CounterTable).count_use(guid, NOW)
        perform(tx, "records.erase", guids=[erased])
        perform(tx, "records.delete", guid=deleted)

        assert [tx.table(CounterTable).find(guid).uses for guid in (erased, deleted, kept)] == [
            0,
            0,
            1,
        ]
    store.close()
