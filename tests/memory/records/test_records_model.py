"""The records of a store compared with a plain list, over any sequence of writes, appends,
deletions, commits, rollbacks and restarts."""

import re
import shutil
import tempfile
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import AppendInput, WriteInput, append, write
from tests.memory.builders import (
    FAST_ROOT,
    NOW,
    assert_sound,
    find,
    make_record,
    make_store,
    read_all,
)

WORDS = (
    "tea",
    "Tea",
    "green",
    "café",
    "cafe",
    "user-name",
    "user",
    "name",
    "x",
    "—",
    '"quoted"',
    "AND",
)
KEYS = {"kind": ("observation", "log"), "scope": ("s", "t"), "source": ("keeper", "user")}

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
tag_sets = st.lists(st.sampled_from("ab"), unique=True).map(tuple)
all_keys = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in KEYS.items()})
some_keys = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in KEYS.items()}
)
places = st.integers(0, 20)


class ModelRecord(NamedTuple):
    """A record in the model."""

    guid: str
    scope: str
    kind: str
    content: str
    source: str
    tags: tuple[str, ...]
    updated_at: int

    @classmethod
    def of(cls, new: WriteInput) -> "ModelRecord":
        return cls(new.guid, new.scope, new.kind, new.content, new.source, new.tags, new.now_ms)


class Model:
    """The model of a store: a list that is searched from end to end."""

    def __init__(self, records: Iterable[ModelRecord] = ()) -> None:
        self.records = list(records)

    def copy(self) -> "Model":
        return Model(self.records)

    def at(self, place: int) -> str:
        """Return the guid at a place, or an unknown guid if the list is empty."""
        return self.records[place % len(self.records)].guid if self.records else "unknown"

    def append(self, guid: str, keys: dict[str, str], new: WriteInput) -> tuple[str, bool]:
        matches = [at for at, one in enumerate(self.records) if one.guid == guid]
        matches += [at for at, one in enumerate(self.records) if keys and matches_keys(one, keys)]
        if not matches:
            self.records.append(ModelRecord.of(new))
            return new.guid, False
        old = self.records[matches[0]]
        grown = f"{old.content}\n{new.content}"
        self.records[matches[0]] = old._replace(content=grown, updated_at=new.now_ms)
        return old.guid, True

    def delete(self, keys: dict[str, str]) -> int:
        before = len(self.records)
        self.records = [one for one in self.records if not matches_keys(one, keys)]
        return before - len(self.records)

    def matching(self, keys: dict[str, str], query: str, tags: tuple[str, ...]) -> set[str]:
        wanted = [word for word in query.split() if tokens(word)]
        return {
            one.guid
            for one in self.records
            if wanted
            and matches_keys(one, keys)
            and set(tags) <= set(one.tags)
            and all(contains(one.content, word) for word in wanted)
        }


def matches_keys(record: ModelRecord, keys: dict[str, str]) -> bool:
    return all(getattr(record, name) == value for name, value in keys.items())


def tokens(text: str) -> list[str]:
    """Tokenize like unicode61 with remove_diacritics, for the texts of this file."""
    bare = "".join(
        char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char)
    )
    return re.findall(r"[a-z0-9]+", bare.lower())


def contains(content: str, word: str) -> bool:
    """Return whether the tokens of `word` are adjacent in `content`."""
    phrase, found = tokens(word), tokens(content)
    return any(found[at : at + len(phrase)] == phrase for at in range(len(found)))


class RecordHistories(RuleBasedStateMachine):
    """The store and the model after the same actions."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=FAST_ROOT))
        self.store = make_store(self.root)
        self.now_ms = NOW
        self.committed, self.model = Model(), Model()

    def tx(self) -> Any:
        self.now_ms += 1
        if not self.store.in_transaction:
            self.store.begin()
        return self.store

    @rule(text=texts, keys=all_keys, tags=tag_sets)
    def write(self, text: str, keys: dict[str, str], tags: tuple[str, ...]) -> None:
        tx = self.tx()
        new = make_record(text, tags=tags, now_ms=self.now_ms, **keys)
        self.model.records.append(ModelRecord.of(new))

        assert write(tx, new) == new.guid

    @rule(text=texts, keys=some_keys, place=places | st.none(), new_keys=all_keys)
    def append(
        self, text: str, keys: dict[str, str], place: int | None, new_keys: dict[str, str]
    ) -> None:
        tx = self.tx()
        guid = "" if place is None else self.model.at(place)
        new = make_record(text, now_ms=self.now_ms, **new_keys)

        assert append(tx, AppendInput(new, guid, keys)) == self.model.append(guid, keys, new)

    @rule(place=places)
    def delete_one(self, place: int) -> None:
        guid = self.model.at(place)

        assert delete(self.tx(), DeleteInput(guid=guid)) == self.model.delete({"guid": guid})

    @rule(kind=st.sampled_from(KEYS["kind"]))
    def delete_kind(self, kind: str) -> None:
        assert delete(self.tx(), DeleteInput(kind=kind)) == self.model.delete({"kind": kind})

    @rule(
        keys=some_keys,
        order=st.sampled_from(("asc", "desc")),
        limit=places | st.none(),
        offset=st.integers(0, 5),
    )
    def read(self, keys: dict[str, str], order: str, limit: int | None, offset: int) -> None:
        expected = [one.guid for one in self.model.records if matches_keys(one, keys)]
        expected = expected[:: 1 if order == "asc" else -1][offset:][:limit]

        found = read_all(self.store, filters=keys, order=order, limit=limit, offset=offset)

        assert [record.guid for record in found] == expected

    @rule(query=texts, keys=some_keys, tags=tag_sets, limit=places | st.none())
    def search(
        self, query: str, keys: dict[str, str], tags: tuple[str, ...], limit: int | None
    ) -> None:
        expected = self.model.matching(keys, query, tags)

        found = find(self.store, query, filters=keys, tags=tags, limit=limit)

        assert len(found) == min(len(expected), len(expected) if limit is None else limit)
        assert {record.guid for record in found} <= expected
        assert [record.score for record in found] == sorted(
            (record.score for record in found), reverse=True
        )

    @precondition(lambda self: self.store.in_transaction)
    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.committed = self.model.copy()

    @rule()
    def rollback(self) -> None:
        self.store.rollback()
        self.model = self.committed.copy()

    @rule()
    def restart(self) -> None:
        """Reopen the store. Closing rolls back the open transaction."""
        self.store.close()
        self.store = make_store(self.root)
        self.model = self.committed.copy()

    @invariant()
    def transaction_is_known(self) -> None:
        assert self.store.in_transaction or self.model.records == self.committed.records

    def teardown(self) -> None:
        if self.store.in_transaction:
            self.commit()
        held = [(one.guid, one.content, one.updated_at) for one in read_all(self.store)]
        self.store.close()
        assert held == [(one.guid, one.content, one.updated_at) for one in self.model.records]
        assert_sound(self.store.path)
        shutil.rmtree(self.root)


class TestRecordHistories(RecordHistories.TestCase):
    settings = settings(max_examples=25, stateful_step_count=40)


@pytest.mark.slow
class TestManyRecordHistories(RecordHistories.TestCase):
    settings = settings(max_examples=300, stateful_step_count=40)
