"""The operations as methods of a call: `call.records.create` in a block."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memrelay import Call
from memrelay.blocks.async_call import AsyncCall
from memrelay.blocks.receipts import keep_receipts
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import PolicyStop, RecordNotFound, Refused
from memrelay.memory.models.policies.table import PolicyTable
from memrelay.memory.operations import Read
from memrelay.memory.policy_rules import check_policy
from memrelay.memory.records.view import RecordView
from tests.blocks.calls import MEMORY_ID, NOW, make_call, make_message
from tests.memory.builders import perform

INPUT = f"{NOW}-7"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(MEMORY_ID, tmp_path / "memories.db")
    yield store
    store.close()


def start(tx: Store, text: str = "tea") -> Call:
    """Return a call as the worker makes it, with the origin of the message."""
    tx.records.set_actor(
        NOW, "dispatch", "", ("dispatch", "User", "", "", "k1", "keeper", ""), INPUT
    )
    return make_call(make_message(text), tx, input_id=INPUT)


def test_a_block_writes_and_reads_in_its_transaction(store: Store) -> None:
    with store.transaction() as tx:
        call = start(tx)
        made = call.records.create("Ada likes tea", tags=["people"])
        assert call.records.get(made.guid) == made
        assert call.records.list(kind="observation").total == 1
        assert call.records.search("tea").items[0].record.guid == made.guid
        call.facts.set("user:drink", "tea")
        assert call.facts.get("user:drink").value == "tea"
        assert (made.source, made.created_at[:10]) == ("dispatch", "2023-11-14")


def test_a_replay_makes_the_same_records(store: Store) -> None:
    class Undone(Exception):
        pass

    guids = set()
    for _ in range(2):
        with pytest.raises(Undone), store.transaction() as tx:
            call = start(tx)
            guids.add((call.records.create("a").guid, call.records.create("b").guid))
            raise Undone
    assert len(guids) == 1
    assert len(set(guids.pop())) == 2


def test_the_origin_of_the_message_stays_that_of_its_records(store: Store) -> None:
    with store.transaction() as tx:
        call = start(tx)
        guid = call.records.create("a").guid
        call.records.update(guid, content="b", reason="because")
        assert tx.records.versions.current_act == (NOW, "dispatch", "")
    with store.transaction() as tx:
        assert perform(tx, "records.origin", guid=guid).items[0].key == "k1"
        assert [one.reason for one in perform(tx, "records.history", guid=guid).items] == [
            None,
            "because",
        ]


def test_what_a_block_cannot_do_is_refused_with_the_reason(store: Store) -> None:
    with pytest.raises(Refused, match="memory_id is missing"):
        make_call(make_message()).records.create("a")
    with store.transaction() as tx:
        call = start(tx)
        with pytest.raises(Refused, match="admins"):
            call.records.erase(text="tea")
        with pytest.raises(Refused, match="dry_run"):
            call.records.undo(since="0", dry_run=True)
        with pytest.raises(Refused, match="as_of"):
            call.records.list(as_of="n:1")
        with pytest.raises(Refused, match=r"instances/.*/stores"):
            call.items.put("a1", "key", "value", agent="a1")
        with pytest.raises(Refused, match=r"records\.create: content"):
            call.records.create("")
        with pytest.raises(RecordNotFound):
            call.records.get("nobody")
        with pytest.raises(AttributeError, match="no attribute 'recods'"):
            call.recods  # type: ignore[attr-defined]  # noqa: B018


def test_a_refused_call_that_a_block_catches_has_changed_nothing(store: Store) -> None:
    with store.transaction() as tx:
        call = start(tx)
        call.turns.add([{"content": "tea"}], thread="t")
        with pytest.raises(Refused, match="JSON value"):
            beyond_json = {"content": "milk", "item": {"a": 2**70}}
            call.turns.add([{"content": "coffee"}, beyond_json], thread="t", replace=True)
        assert [one.content for one in call.turns.list(thread="t").items] == ["tea"]


def test_a_write_that_waits_for_review_becomes_the_call(store: Store) -> None:
    with store.transaction() as tx:
        policy = {"name": "look", "match": {}, "action": "review"}
        tx.table(PolicyTable).put(check_policy(policy), NOW)
    store.refresh_features()
    with pytest.raises(PolicyStop) as stopped, store.transaction() as tx:
        start(tx).records.create("a", kind="note")
    name, given = stopped.value.call or ("", {})
    assert (name, given["content"], given["kind"]) == ("records.create", "a", "note")


def test_a_search_is_noted_if_the_agent_has_receipts(store: Store) -> None:
    reads: list[Read] = []

    def look(call: Call, _: object) -> None:
        call.records.search("tea", limit=5)
        call.records.list()
        reads.extend(call.reads or ())

    with store.transaction() as tx:
        guid = start(tx).records.create("Ada likes tea").guid
        keep_receipts(look)(start(tx), None)
    (read,) = reads
    assert (read.operation, [one for one, _ in read.found]) == ("records.search", [guid])
    assert read.given == {"query": "tea", "limit": 5}


class _Operations:
    """The operations of a pipeline, of which the test sees the calls."""

    def __init__(self, output: Any) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._output = output

    async def call(
        self, name: str, given: Mapping[str, Any], store: str, key: str, as_of: str = ""
    ) -> Any:
        self.calls.append((name, given))
        return self._output


def test_an_async_block_calls_the_same_methods(store: Store) -> None:
    with store.transaction() as tx:
        view = start(tx).records.create("a")
    plain = make_call(make_message())
    fields = {name: getattr(view, name) for name in view.__dataclass_fields__}
    operations = _Operations(fields)
    call = AsyncCall(
        plain.agent,
        plain.message,
        NOW,
        plain.limits,
        plain.ids,
        operations=operations,
        deferred_call="d",
    )

    made = asyncio.run(call.records.create("a", tags=["b"]))

    assert isinstance(made, RecordView)
    assert made == view
    ((name, given),) = operations.calls
    assert (name, given["content"], given["tags"]) == ("records.create", "a", ["b"])
