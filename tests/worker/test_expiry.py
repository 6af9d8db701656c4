"""Versions and expiry of records in a running worker."""

from functools import partial
from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_commands, make_memory, make_relay, make_uid
from tests.support.calls import call, refused
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker import arm

STATES = "SELECT number, what, actor FROM versions ORDER BY n"


def history(system: TestSystem, uid: str, guid: str) -> list[tuple[Any, ...]]:
    found = call(system, uid, "records.history", {"guid": guid})["items"]
    return [
        (one["number"], one["record"] and one["record"]["content"], one["change"], one["actor"])
        for one in found
    ]


def is_done(system: TestSystem, uid: str, ident: str) -> bool:
    return not system.client.redis.xrange(f"pipeline:{{{uid}}}:in", ident, ident)


def test_versions_name_the_agent_that_made_the_change(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(
        make_bundle(
            uid,
            *make_commands(),
            make_relay("more", r"^/more\s+(.*)"),
            make_memory("append", senders="dispatch_more", alias="gatherer", kind="log"),
        )
    )
    first = system.client.answer(uid, "/more one")["guid"]
    system.client.answer(uid, "/more two")
    system.client.answer(uid, f"/delete {first}")

    back = call(
        system, uid, "records.restore", {"guid": first, "reason": "still wanted"}, actor="ada"
    )

    assert back["content"] == "one\ntwo"
    assert history(system, uid, first) == [
        (4, "one\ntwo", None, None),
        (3, None, "restore", "ada"),
        (2, "one\ntwo", "delete", "memory_delete"),
        (1, "one", "append", "gatherer"),
    ]


@pytest.mark.slow
def test_a_change_repeated_after_a_crash_has_one_version() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        guids = [system.client.answer(uid, f"/write tea {number}")["guid"] for number in range(6)]
        assert system.workers[-1].stop() == 0

        for step, guid in enumerate(guids, 1):
            worker = system.start_stepping_worker(armed=False, die_at=step)
            arm(worker)
            ident = system.client.enter(uid, f"/delete {guid}")
            if worker.lives_until(partial(is_done, system, uid, ident)):
                worker.stop()
        system.start_worker()
        system.client.await_quiet(uid, 20)

        assert len(set(system.steps)) > 3
        assert system.rows(uid, STATES) == [(1, "delete", "memory_delete")] * len(guids)
        assert [history(system, uid, guid)[1] for guid in guids] == [
            (1, f"tea {number}", "delete", "memory_delete") for number in range(6)
        ]


def test_a_repeated_key_deletes_and_restores_once(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    guid = call(system, uid, "records.create", {"content": "tea"})["guid"]

    for _ in range(3):
        call(system, uid, "records.delete", {"guid": guid}, producer_id="d")
        call(system, uid, "records.restore", {"guid": guid}, producer_id="r")

    assert [one[0] for one in history(system, uid, guid)] == [3, 2, 1]


def test_a_record_with_expiry_is_deleted_after_it(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(
        make_bundle(
            uid,
            *make_commands(),
            make_relay("brief", r"^/brief\s+(.*)"),
            make_memory("write", senders="dispatch_brief", alias="brief_one", ttl_s=1),
        )
    )
    system.client.answer(uid, "/write tea")

    guid = system.client.answer(uid, "/brief secret")["guid"]
    wait_for(
        lambda: [one["content"] for one in system.client.answer(uid, "/read")] == ["tea"],
        "no read returns it",
    )

    assert refused(system, uid, "records.get", {"guid": guid})[0] == "not_found"
    wait_for(lambda: system.contents(uid) == ["tea"], "it is deleted")
    assert system.rows(
        uid, "SELECT count(*) FROM records_fts WHERE records_fts MATCH 'secret'"
    ) == [(0,)]


def test_without_history_deleted_records_are_soon_removed() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], limits={"history_days": 0})
        guid = system.client.answer(uid, "/write tea")["guid"]
        system.client.answer(uid, f"/delete {guid}")

        wait_for(lambda: system.rows(uid, STATES) == [], "nothing is kept")

        assert refused(system, uid, "records.restore", {"guid": guid})[0] == "not_found"
