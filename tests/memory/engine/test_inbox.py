"""The inbox: completed inputs in step with transactions, idempotency keys of producers, and counted
attempts."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memrelay.memory.engine.inbox import Done
from tests.memory.builders import FAST_ROOT, assert_sound, make_store

DONE = Done("hash", b"outputs")


def test_a_done_input_is_found_at_once_and_after_a_restart(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.inbox.add("p/1-0", *DONE)
        at_once = tx.inbox.find("p/1-0")
    store.close()

    again = make_store(tmp_path)

    assert at_once == again.inbox.find("p/1-0") == DONE
    assert "p/1-0" in again.inbox.numbers


def test_an_unknown_input_is_not_done(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    assert store.inbox.find("p/1-0") is None
    assert "p/1-0" not in store.inbox.numbers


def test_outputs_are_stored_byte_for_byte(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    done = Done("", bytes(range(256)) * 1000)

    with store.transaction() as tx:
        tx.inbox.add("p/1-0", *done)
        tx.inbox.add("p/2-0", "hash", b"")

    assert store.inbox.find("p/1-0") == done
    assert store.inbox.find("p/2-0") == Done("hash", b"")


def test_a_rolled_back_input_can_be_added_again(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.begin()
    store.inbox.add("p/1-0", *DONE)
    store.rollback()
    assert "p/1-0" not in store.inbox.numbers

    with store.transaction() as tx:
        tx.inbox.add("p/1-0", *DONE)

    assert list(make_store(tmp_path).inbox.numbers) == ["p/1-0"]


def test_a_forgotten_input_stays_forgotten(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        for number in range(5):
            tx.inbox.add(f"p/{number}-0", *DONE)

    with store.transaction() as tx:
        tx.inbox.forget(["p/3-0", "p/1-0", "p/unknown"])

    left = ["p/0-0", "p/2-0", "p/4-0"]
    assert list(store.inbox.numbers) == list(make_store(tmp_path).inbox.numbers) == left


def test_a_rolled_back_forget_has_no_effect(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.inbox.add("p/1-0", *DONE)
    store.begin()
    store.inbox.forget(["p/1-0"])

    store.rollback()

    assert store.inbox.find("p/1-0") == DONE


def test_a_duplicate_id_in_forget_affects_no_other_input(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        for number in (1, 2, 3):
            tx.inbox.add(f"p/{number}-0", *DONE)

    with store.transaction() as tx:
        tx.inbox.forget(["p/1-0", "p/1-0", "p/3-0"])

    assert list(make_store(tmp_path).inbox.numbers) == ["p/2-0"]


def test_an_input_added_and_forgotten_in_one_transaction_is_gone(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        tx.inbox.add("p/1-0", *DONE)
        tx.inbox.forget(["p/1-0"])

    assert list(store.inbox.numbers) == list(make_store(tmp_path).inbox.numbers) == []


def test_a_lookup_of_a_just_forgotten_input_does_not_fail(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.inbox.add("p/1-0", *DONE)

    with store.transaction() as tx:
        tx.inbox.forget(["p/1-0"])
        found = tx.inbox.find("p/1-0")

    assert found in (None, DONE)


def test_attempts_are_counted_across_restarts_until_they_are_cleared(tmp_path: Path) -> None:
    counts = []
    for _ in range(3):
        store = make_store(tmp_path)
        with store.transaction() as tx:
            tx.inbox.count_attempts(["p/1-0"])
        counts.append(store.inbox.attempts())
        store.close()
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.inbox.clear_attempts()

    assert [*counts, store.inbox.attempts()] == [{"p/1-0": 1}, {"p/1-0": 2}, {"p/1-0": 3}, {}]


def test_attempts_are_counted_per_input_and_rolled_back(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        tx.inbox.count_attempts(["p/1-0"])
    store.begin()
    store.inbox.count_attempts(["p/1-0"])
    store.rollback()

    with store.transaction() as tx:
        tx.inbox.count_attempts(["p/2-0", "p/1-0"])

    assert store.inbox.attempts() == {"p/1-0": 2, "p/2-0": 1}


class InboxHistories(RuleBasedStateMachine):
    """The inbox compared with a dict. A forgotten id never returns, like an acknowledged entry. A
    rolled back id may return."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=FAST_ROOT))
        self.store = make_store(self.root)
        self.committed: dict[str, Done] = {}
        self.expected: dict[str, Done] = {}
        self.forgotten: set[str] = set()

    def ensure_begun(self) -> None:
        if not self.store.in_transaction:
            self.store.begin()

    @rule(number=st.integers(0, 30), outputs=st.binary(max_size=3))
    def add(self, number: int, outputs: bytes) -> None:
        ident = f"p/{number}-0"
        if ident not in self.expected and ident not in self.forgotten:
            self.ensure_begun()
            self.expected[ident] = Done("hash", outputs)
            self.store.inbox.add(ident, *self.expected[ident])

    @rule(numbers=st.lists(st.integers(0, 30), max_size=6))
    def forget(self, numbers: list[int]) -> None:
        idents = [f"p/{number}-0" for number in numbers]
        self.ensure_begun()
        self.store.inbox.forget(idents)
        self.forgotten |= {ident for ident in idents if ident in self.expected}
        self.expected = {
            ident: done for ident, done in self.expected.items() if ident not in idents
        }

    @rule(number=st.integers(0, 30))
    def find(self, number: int) -> None:
        ident = f"p/{number}-0"
        if ident not in self.forgotten:
            assert self.store.inbox.find(ident) == self.expected.get(ident)

    @precondition(lambda self: self.store.in_transaction)
    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.committed = dict(self.expected)

    @rule(restart=st.booleans())
    def give_up(self, restart: bool) -> None:
        if restart:
            self.store.close()
            self.store = make_store(self.root)
        else:
            self.store.rollback()
        self.expected, self.forgotten = dict(self.committed), self.forgotten - self.committed.keys()

    @invariant()
    def equals_the_model(self) -> None:
        if not self.store.in_transaction:
            assert sorted(self.store.inbox.numbers) == sorted(self.expected)

    def teardown(self) -> None:
        if self.store.in_transaction:
            self.commit()
        self.store.close()
        again = make_store(self.root)
        assert {ident: again.inbox.find(ident) for ident in again.inbox.numbers} == self.expected
        again.close()
        assert_sound(again.path)
        shutil.rmtree(self.root)


class TestInboxHistories(InboxHistories.TestCase):
    settings = settings(max_examples=25, stateful_step_count=30)


@pytest.mark.slow
class TestManyInboxHistories(InboxHistories.TestCase):
    settings = settings(max_examples=300, stateful_step_count=30)
