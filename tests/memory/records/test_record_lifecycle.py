"""The lifecycle of records compared with a model in memory, over any order of changes, expiries,
deletions, restores and restarts."""

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from memrelay.memory.engine.retention import delete_expired
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.records.deletion import DeleteInput, delete
from tests.memory.builders import FAST_ROOT, NOW, assert_sound, find, make_store, perform, read_all

KINDS = ("observation", "log")
texts = st.sampled_from(("tea", "green tea", "user-name", "x", "tea"))
lives = st.none() | st.integers(1, 30)  # ms
places = st.integers(0, 20)


@dataclass(frozen=True)
class State:
    content: str
    kind: str
    expires_at: int | None = None


@dataclass
class Life:
    """The states of a record, numbered from 1. The last is the current one: None if deleted."""

    states: list[State | None]
    changes: list[str] = field(
        default_factory=list
    )  # the change that ended each state except the last

    @property
    def now(self) -> State | None:
        return self.states[-1]

    @property
    def last(self) -> State:
        return self.states[-1] or self.states[-2] or pytest.fail("two deletions in a row")

    def change(self, what: str, state: State | None) -> None:
        self.changes.append(what)
        self.states.append(state)

    def copy(self) -> "Life":
        return Life(list(self.states), list(self.changes))


class RecordLifecycles(RuleBasedStateMachine):
    """The store and a dictionary of lives by guid. Nothing is ever removed from the dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=FAST_ROOT))
        self.store = make_store(self.root)
        self.now_ms = NOW
        self.lives: dict[str, Life] = {}
        self.committed: dict[str, Life] = {}

    def run(self, name: str, **given: Any) -> Any:
        if not self.store.in_transaction:
            self.store.begin()
        return perform(self.store, name, now_ms=self.now_ms, **given)

    def current(self) -> dict[str, State]:
        return {
            guid: life.now
            for guid, life in self.lives.items()
            if life.now is not None and not self.is_expired(life)
        }

    def is_expired(self, life: Life) -> bool:
        return life.last.expires_at is not None and life.last.expires_at <= self.now_ms

    def pick(self, place: int) -> tuple[str, Life]:
        guids = list(self.lives)
        return guids[place % len(guids)], self.lives[guids[place % len(guids)]]

    @rule(text=texts, kind=st.sampled_from(KINDS), life=lives)
    def create(self, text: str, kind: str, life: int | None) -> None:
        end = None if life is None else self.now_ms + life
        made = self.run(
            "records.create", content=text, kind=kind, expires_at=format_time(end) if end else ""
        )

        assert made.expires_at == (format_time(end) if end else None)
        self.lives[made.guid] = Life([State(text, kind, end)])

    @precondition(lambda self: self.lives)
    @rule(place=places, text=texts)
    def append(self, place: int, text: str) -> None:
        guid, life = self.pick(place)
        if guid in (current := self.current()):
            self.run("records.append", guid=guid, content=text)
            life.change(
                "append", replace(current[guid], content=f"{current[guid].content}\n{text}")
            )
        else:
            with pytest.raises(RecordNotFound):
                self.run("records.append", guid=guid, content=text)

    @precondition(lambda self: self.lives)
    @rule(
        place=places,
        text=texts | st.none(),
        kind=st.sampled_from(KINDS) | st.none(),
        life=lives,
        forever=st.booleans(),
    )
    def update(
        self, place: int, text: str | None, kind: str | None, life: int | None, forever: bool
    ) -> None:
        guid, one = self.pick(place)
        end = self.now_ms + life if life else None
        named = {
            "content": text,
            "kind": kind,
            "expires_at": format_time(end) if end else "" if forever else None,
        }
        given = {name: value for name, value in named.items() if value is not None}
        if guid not in (current := self.current()):
            with pytest.raises(RecordNotFound):
                self.run("records.update", guid=guid, **given)
            return
        before = current[guid]
        after = State(
            text or before.content,
            kind or before.kind,
            end or (None if forever else before.expires_at),
        )
        self.run("records.update", guid=guid, **given)
        if after != before:
            one.change("update", after)

    @precondition(lambda self: self.lives)
    @rule(place=places)
    def delete(self, place: int) -> None:
        guid, life = self.pick(place)
        if guid in self.current():
            self.run("records.delete", guid=guid)
            life.change("delete", None)
        else:
            with pytest.raises(RecordNotFound):
                self.run("records.delete", guid=guid)

    @rule(kind=st.sampled_from(KINDS))
    def delete_kind(self, kind: str) -> None:
        self.run("records.list")
        deleted_guids = [guid for guid, state in self.current().items() if state.kind == kind]

        assert delete(self.store, DeleteInput(kind=kind)) == len(deleted_guids)
        for guid in deleted_guids:
            self.lives[guid].change("delete", None)

    @precondition(lambda self: self.lives)
    @rule(place=places, number=st.none() | st.integers(1, 8))
    def restore(self, place: int, number: int | None) -> None:
        guid, life = self.pick(place)
        current = guid in self.current()
        wanted = (
            life.last
            if number is None
            else life.states[number - 1]
            if number <= len(life.states)
            else None
        )
        if self.is_expired(life) or wanted is None or (current and number is None):
            with pytest.raises(Refused if current and number is None else RecordNotFound):
                self.run("records.restore", guid=guid, **({"number": number} if number else {}))
            return
        back = self.run("records.restore", guid=guid, **({"number": number} if number else {}))
        assert (back.content, back.kind) == (wanted.content, wanted.kind)
        if number != len(life.states):
            life.change("restore", replace(wanted, expires_at=life.last.expires_at))

    @rule(ms=st.integers(1, 20))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @precondition(lambda self: self.lives)
    @rule(place=places)
    def check_history(self, place: int) -> None:
        guid, life = self.pick(place)
        if self.is_expired(life):
            with pytest.raises(RecordNotFound):
                self.run("records.history", guid=guid)
            return
        history = self.run("records.history", guid=guid)

        held = [
            (one.number, one.record and (one.record.content, one.record.kind), one.change)
            for one in history.items
        ]
        assert held == [
            (number, state and (state.content, state.kind), change)
            for number, state, change in reversed(
                list(zip(range(1, 100), life.states, [*life.changes, None], strict=False))
            )
        ]
        assert history.total == len(life.states)

    @rule(kind=st.sampled_from(KINDS) | st.just(""))
    def check_lists(self, kind: str) -> None:
        wanted = {guid: state for guid, state in self.current().items() if kind in ("", state.kind)}
        listed, deleted = (
            self.run("records.list", kind=kind),
            self.run("records.list", kind=kind, deleted=True),
        )
        deleted_guids = {
            guid
            for guid, life in self.lives.items()
            if life.now is None and not self.is_expired(life) and kind in ("", life.last.kind)
        }

        assert {one.guid: one.content for one in listed.items} == {
            guid: one.content for guid, one in wanted.items()
        }
        assert listed.total == len(wanted)
        assert {one.guid for one in deleted.items} == deleted_guids and deleted.total == len(
            deleted_guids
        )
        filters = {"kind": kind} if kind else {}
        assert {one.guid for one in read_all(self.store, filters=filters)} == wanted.keys()

    @rule(mode=st.sampled_from(("fts", "hybrid")), kind=st.sampled_from(KINDS) | st.just(""))
    def search(self, mode: str, kind: str) -> None:
        self.run("records.list")
        wanted = {
            guid
            for guid, state in self.current().items()
            if "tea" in state.content.split() and kind in ("", state.kind)
        }

        assert {
            one.guid
            for one in find(
                self.store, "tea", mode=mode, limit=1000, filters={"kind": kind} if kind else {}
            )
        } == wanted

    @precondition(lambda self: self.store.in_transaction)
    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.committed = {guid: life.copy() for guid, life in self.lives.items()}

    @rule(restarts=st.booleans())
    def rollback(self, restarts: bool) -> None:
        if restarts:
            self.store.close()
            self.store = make_store(self.root)
        else:
            self.store.rollback()
        self.lives = {guid: life.copy() for guid, life in self.committed.items()}

    @precondition(lambda self: not self.store.in_transaction)
    @rule()
    def delete_expired(self) -> None:
        while delete_expired(self.store, self.now_ms, 90).gone:
            pass
        held = self.store.records.expiry.next_ms()
        assert held is None or held > self.now_ms

    def teardown(self) -> None:
        if self.store.in_transaction:
            self.commit()
        self.store.close()
        assert_sound(self.store.path)
        shutil.rmtree(self.root)


class TestRecordLifecycles(RecordLifecycles.TestCase):
    settings = settings(max_examples=20, stateful_step_count=40)


@pytest.mark.slow
class TestManyRecordLifecycles(RecordLifecycles.TestCase):
    settings = settings(max_examples=200, stateful_step_count=40)
