"""The change feed of a running worker: its rows, its signals, and which stores have one."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import orjson
import pytest
from redis.client import PubSub

from memrelay.bus.errors import NoOwner
from memrelay.memory.engine.timestamps import format_time
from tests.support.bundles import make_bundle, make_commands, make_relay, make_uid
from tests.support.calls import call
from tests.support.house import House
from tests.support.waiting import LATE_S, PATIENCE_S, wait_for


@contextmanager
def signals_of(house: House, uid: str) -> Iterator[PubSub]:
    """Listen to the signals of a pipeline."""
    with house.client.redis.pubsub(ignore_subscribe_messages=True) as channels:
        channels.subscribe(f"changed:{{{uid}}}")
        channels.get_message(timeout=PATIENCE_S)
        yield channels


def next_signal(channels: PubSub, within_s: float = LATE_S) -> Any:
    """Return the next signal, None if there is none in time."""
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if (message := channels.get_message(timeout=0.05)) is not None:
            return orjson.loads(message["data"])
    return None


def make_notes(uid: str, *, changes: bool) -> dict[str, Any]:
    """Return a bundle with a store that is not built in."""
    notes = "instances/${pipeline_uid}/notes"
    stores = [{"memory_id": notes, "changes": changes}]
    return make_bundle(uid, *make_commands(notes), stores=stores)


def redeploy(house: House, uid: str, *, changes: bool) -> None:
    """Deploy the other version, and wait until it runs."""
    house.deploy(make_notes(uid, changes=changes))

    def is_running() -> bool:
        # The owner may refuse calls while it changes to the new version.
        with suppress(NoOwner):
            return bool(call(house, uid, "changes.list")["enabled"]) is changes
        return False

    wait_for(is_running, "the new version runs")


def list_types(house: House, uid: str, store: str) -> list[str]:
    items = call(house, uid, "changes.list", store=f"instances/{uid}/{store}")["items"]
    return [one["type"] for one in items]


def test_a_signal_follows_each_batch_that_changes_a_home(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    with signals_of(house, uid) as channels:
        guid = house.client.answer(uid, "/write tea")["guid"]
        assert next_signal(channels) == {"stores": {f"instances/{uid}/memories": 1}}
        house.client.answer(uid, "/read")
        house.client.answer(uid, f"/delete {guid}")
        assert next_signal(channels) == {"stores": {f"instances/{uid}/memories": 2}}

    found = call(house, uid, "changes.list", {"after": 1})
    assert (found["next"], found["last"], found["enabled"]) == (2, 2, True)
    assert [(one["type"], one["subject"], one["actor"]) for one in found["items"]] == [
        ("record.deleted", guid, "memory_delete")
    ]


def test_another_store_has_a_feed_while_its_bundle_asks_for_one(house: House) -> None:
    uid = make_uid()
    house.deploy(make_notes(uid, changes=False))
    with signals_of(house, uid) as channels:
        house.client.answer(uid, "/write one")
        redeploy(house, uid, changes=True)
        house.client.answer(uid, "/write two")
        assert next_signal(channels) == {"stores": {f"instances/{uid}/notes": 1}}
        redeploy(house, uid, changes=False)
        house.client.answer(uid, "/write three")
        assert next_signal(channels, 0.2) is None

    assert list_types(house, uid, "notes") == ["record.created"]
    assert call(house, uid, "changes.list")["enabled"] is False


def test_a_batch_that_is_rolled_back_for_one_message_adds_each_row_once(house: House) -> None:
    uid = make_uid()
    # It answers itself until the hop limit, after the first write has run in the same batch.
    endless = make_relay("endless", r"^(/endless.*)", hears="*")
    house.deploy(make_bundle(uid, *make_commands(), endless))
    sent = house.client.enter_together(uid, ["/write one", "/endless", "/write two"])
    house.await_dead_letter(uid, sent[1])
    house.client.await_done(uid, sent[2])

    guids = house.rows(uid, "SELECT guid FROM records ORDER BY row")
    changes = house.rows(uid, "SELECT n, type, subject FROM changes ORDER BY n")
    assert changes == [(number, "record.created", guid) for number, (guid,) in enumerate(guids, 1)]
    assert len(changes) == 2


@pytest.mark.timeout(60)
def test_a_crash_after_the_commit_repeats_the_signal_and_no_row() -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_stepping_worker(die_on="before sending", bundles=[make_bundle(uid)])
        with signals_of(house, uid) as channels:
            house.client.enter(uid, "/write tea")
            worker.await_end()
            assert next_signal(channels, 0.1) is None
            house.start_worker()
            assert next_signal(channels) == {"stores": {f"instances/{uid}/memories": 1}}

        assert list_types(house, uid, "memories") == ["record.created"]


@pytest.mark.slow
def test_a_signal_follows_the_expiry_of_a_record(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    with signals_of(house, uid) as channels:
        end = format_time(time.time_ns() // 1_000_000 + 300)
        call(house, uid, "records.create", {"content": "tea", "expires_at": end})
        home = f"instances/{uid}/memories"
        assert next_signal(channels) == {"stores": {home: 1}}
        assert next_signal(channels) == {"stores": {home: 2}}

    assert list_types(house, uid, "memories") == ["record.created", "record.expired"]
