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
from tests.support.system import TestSystem
from tests.support.waiting import LATE_S, PATIENCE_S, wait_for


@contextmanager
def signals_of(system: TestSystem, uid: str) -> Iterator[PubSub]:
    """Listen to the signals of a pipeline."""
    with system.client.redis.pubsub(ignore_subscribe_messages=True) as channels:
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


def redeploy(system: TestSystem, uid: str, *, changes: bool) -> None:
    """Deploy the other version, and wait until it runs."""
    system.deploy(make_notes(uid, changes=changes))

    def is_running() -> bool:
        # The owner may refuse calls while it changes to the new version.
        with suppress(NoOwner):
            return bool(call(system, uid, "changes.list")["enabled"]) is changes
        return False

    wait_for(is_running, "the new version runs")


def list_types(system: TestSystem, uid: str, store: str) -> list[str]:
    items = call(system, uid, "changes.list", store=f"instances/{uid}/{store}")["items"]
    return [one["type"] for one in items]


def test_a_signal_follows_each_batch_that_changes_a_home(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    with signals_of(system, uid) as channels:
        guid = system.client.answer(uid, "/write tea")["guid"]
        assert next_signal(channels) == {"stores": {f"instances/{uid}/memories": 1}}
        system.client.answer(uid, "/read")
        system.client.answer(uid, f"/delete {guid}")
        assert next_signal(channels) == {"stores": {f"instances/{uid}/memories": 2}}

    found = call(system, uid, "changes.list", {"after": 1})
    assert (found["next"], found["last"], found["enabled"]) == (2, 2, True)
    assert [(one["type"], one["subject"], one["actor"]) for one in found["items"]] == [
        ("record.deleted", guid, "memory_delete")
    ]


def test_another_store_has_a_feed_while_its_bundle_asks_for_one(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_notes(uid, changes=False))
    with signals_of(system, uid) as channels:
        system.client.answer(uid, "/write one")
        redeploy(system, uid, changes=True)
        system.client.answer(uid, "/write two")
        assert next_signal(channels) == {"stores": {f"instances/{uid}/notes": 1}}
        redeploy(system, uid, changes=False)
        system.client.answer(uid, "/write three")
        assert next_signal(channels, 0.2) is None

    assert list_types(system, uid, "notes") == ["record.created"]
    assert call(system, uid, "changes.list")["enabled"] is False


def test_a_batch_that_is_rolled_back_for_one_message_adds_each_row_once(system: TestSystem) -> None:
    uid = make_uid()
    # It answers itself until the hop limit, after the first write has run in the same batch.
    endless = make_relay("endless", r"^(/endless.*)", senders="*")
    system.deploy(make_bundle(uid, *make_commands(), endless))
    sent = system.client.enter_together(uid, ["/write one", "/endless", "/write two"])
    system.await_dead_letter(uid, sent[1])
    system.client.await_done(uid, sent[2])

    guids = system.rows(uid, "SELECT guid FROM records ORDER BY row")
    changes = system.rows(uid, "SELECT n, type, subject FROM changes ORDER BY n")
    assert changes == [(number, "record.created", guid) for number, (guid,) in enumerate(guids, 1)]
    assert len(changes) == 2


@pytest.mark.timeout(60)
def test_a_crash_after_the_commit_repeats_the_signal_and_no_row() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(die_on="before sending", bundles=[make_bundle(uid)])
        with signals_of(system, uid) as channels:
            system.client.enter(uid, "/write tea")
            worker.await_end()
            assert next_signal(channels, 0.1) is None
            system.start_worker()
            assert next_signal(channels) == {"stores": {f"instances/{uid}/memories": 1}}

        assert list_types(system, uid, "memories") == ["record.created"]


@pytest.mark.slow
def test_a_signal_follows_the_expiry_of_a_record(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    with signals_of(system, uid) as channels:
        end = format_time(time.time_ns() // 1_000_000 + 300)
        call(system, uid, "records.create", {"content": "tea", "expires_at": end})
        home = f"instances/{uid}/memories"
        assert next_signal(channels) == {"stores": {home: 1}}
        assert next_signal(channels) == {"stores": {home: 2}}

    assert list_types(system, uid, "memories") == ["record.created", "record.expired"]
