"""Pending continuations: stored with the transaction that made them, in due order."""

from pathlib import Path

from memrelay.memory.engine.inbox import PARKED_MS, Pending
from memrelay.memory.engine.retention import delete_expired
from tests.memory.builders import NOW, make_store


def make_pending(ident: str = "p/1-0.1+0>keeper", due: int = NOW, data: bytes = b"{}") -> Pending:
    return Pending(ident, "p", "hash", "keeper", "chat", 1, data, "1-0", "", due)


def test_a_continuation_survives_a_restart_unchanged(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    pending = make_pending(data=bytes(range(256)))

    with store.transaction() as tx:
        tx.pending.add(pending)
    store.close()

    assert make_store(tmp_path).pending.all() == [pending]


def test_a_continuation_added_twice_is_stored_once(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        tx.pending.add(make_pending())
        tx.pending.add(make_pending(due=NOW + 1))

    assert store.pending.all() == [make_pending()]


def test_continuations_are_ordered_by_due_time_then_by_creation(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        for ident, due in (("c", NOW + 1), ("b", NOW), ("a", NOW), ("d", 0)):
            tx.pending.add(make_pending(ident, due))

    assert [pending.id for pending in store.pending.all()] == ["d", "b", "a", "c"]


def test_removing_a_continuation_ignores_unknown_ids(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.pending.add(make_pending("a"))
        tx.pending.add(make_pending("b"))

    with store.transaction() as tx:
        tx.pending.remove(["a", "a", "unknown"])

    assert [pending.id for pending in store.pending.all()] == ["b"]


def test_a_rollback_undoes_additions_and_removals(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.pending.add(make_pending("a"))
    store.begin()
    store.pending.add(make_pending("b"))
    store.pending.remove(["a"])

    store.rollback()

    assert [pending.id for pending in store.pending.all()] == ["a"]


def test_a_postponed_continuation_has_a_new_due_time_and_attempt_count(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        for ident in ("a", "b"):
            tx.pending.add(make_pending(ident))

    with store.transaction() as tx:
        tx.pending.put_off(make_pending("a")._replace(due=NOW + 9, attempts=3, data=b"another"))

    assert store.pending.find("a") == make_pending("a")._replace(due=NOW + 9, attempts=3)
    assert (store.pending.find("b"), store.pending.find("c")) == (make_pending("b"), None)


def test_what_a_replay_needs_is_parked(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.pending.add(make_pending("a"))
        tx.pending.add(make_pending("b")._replace(request=b"{}"))
        tx.pending.add(make_pending("c.again", data=b'{"vouched":["user_id"]}'))
        assert tx.pending.keep_result(make_pending("b")._replace(result=b"1"))
        tx.pending.park(["a", "b", "c.again"], NOW)

    assert (store.pending.all(), store.pending.has_cascade("p", "1-0")) == ([], False)
    assert store.pending.find_parked("a") == []
    assert [one.result for one in store.pending.find_parked("b")] == [b"1"]
    assert [one.id for one in store.pending.find_parked("c")] == ["c.again"]
    assert delete_expired(store, NOW + PARKED_MS - 1, 90) == (0, NOW + PARKED_MS)
    assert delete_expired(store, NOW + PARKED_MS, 90) == (2, None)
    assert store.pending.find_parked("b") == []


def test_attempts_of_a_deferred_call_end_with_its_row(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        for ident in ("a", "b"):
            tx.pending.add(make_pending(ident)._replace(request=b"{}"))
        tx.inbox.count_deferred_call_attempts({"a": 1, "b": 1})
        tx.pending.remove(["a"])

        assert tx.inbox.count_deferred_call_attempts({"b": 10}) == {"b": 11}
        assert tx.inbox.attempts() == {"b.errand": 11}
