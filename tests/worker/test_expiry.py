"""Versions and expiry of records in a running worker."""

from functools import partial
from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_commands, make_memory, make_relay, make_uid
from tests.support.calls import call, refused
from tests.support.house import House
from tests.support.waiting import wait_for
from tests.support.worker import arm

STATES = "SELECT number, what, actor FROM versions ORDER BY n"


def history(house: House, uid: str, guid: str) -> list[tuple[Any, ...]]:
    found = call(house, uid, "records.history", {"guid": guid})["items"]
    return [
        (one["number"], one["record"] and one["record"]["content"], one["change"], one["actor"])
        for one in found
    ]


def is_done(house: House, uid: str, ident: str) -> bool:
    return not house.client.redis.xrange(f"pipeline:{{{uid}}}:in", ident, ident)


def test_versions_name_the_agent_that_made_the_change(house: House) -> None:
    uid = make_uid()
    house.deploy(
        make_bundle(
            uid,
            *make_commands(),
            make_relay("more", r"^/more\s+(.*)"),
            make_memory("append", hears="dispatch_more", alias="gatherer", kind="log"),
        )
    )
    first = house.client.answer(uid, "/more one")["guid"]
    house.client.answer(uid, "/more two")
    house.client.answer(uid, f"/delete {first}")

    back = call(
        house, uid, "records.restore", {"guid": first, "reason": "still wanted"}, actor="ada"
    )

    assert back["content"] == "one\ntwo"
    assert history(house, uid, first) == [
        (4, "one\ntwo", None, None),
        (3, None, "restore", "ada"),
        (2, "one\ntwo", "delete", "memory_delete"),
        (1, "one", "append", "gatherer"),
    ]


@pytest.mark.slow
def test_a_change_repeated_after_a_crash_has_one_version() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        guids = [house.client.answer(uid, f"/write tea {number}")["guid"] for number in range(6)]
        assert house.workers[-1].stop() == 0

        for step, guid in enumerate(guids, 1):
            worker = house.start_stepping_worker(armed=False, die_at=step)
            arm(worker)
            ident = house.client.enter(uid, f"/delete {guid}")
            if worker.lives_until(partial(is_done, house, uid, ident)):
                worker.stop()
        house.start_worker()
        house.client.await_quiet(uid, 20)

        assert len(set(house.steps)) > 3
        assert house.rows(uid, STATES) == [(1, "delete", "memory_delete")] * len(guids)
        assert [history(house, uid, guid)[1] for guid in guids] == [
            (1, f"tea {number}", "delete", "memory_delete") for number in range(6)
        ]


def test_a_repeated_key_deletes_and_restores_once(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    guid = call(house, uid, "records.create", {"content": "tea"})["guid"]

    for _ in range(3):
        call(house, uid, "records.delete", {"guid": guid}, producer_id="d")
        call(house, uid, "records.restore", {"guid": guid}, producer_id="r")

    assert [one[0] for one in history(house, uid, guid)] == [3, 2, 1]


def test_a_record_with_expiry_is_deleted_after_it(house: House) -> None:
    uid = make_uid()
    house.deploy(
        make_bundle(
            uid,
            *make_commands(),
            make_relay("brief", r"^/brief\s+(.*)"),
            make_memory("write", hears="dispatch_brief", alias="brief_one", ttl_s=1),
        )
    )
    house.client.answer(uid, "/write tea")

    guid = house.client.answer(uid, "/brief secret")["guid"]
    wait_for(
        lambda: [one["content"] for one in house.client.answer(uid, "/read")] == ["tea"],
        "no read returns it",
    )

    assert refused(house, uid, "records.get", {"guid": guid})[0] == "not_found"
    wait_for(lambda: house.contents(uid) == ["tea"], "it is deleted")
    assert house.rows(uid, "SELECT count(*) FROM records_fts WHERE records_fts MATCH 'secret'") == [
        (0,)
    ]


def test_without_history_deleted_records_are_soon_removed() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)], limits={"history_days": 0})
        guid = house.client.answer(uid, "/write tea")["guid"]
        house.client.answer(uid, f"/delete {guid}")

        wait_for(lambda: house.rows(uid, STATES) == [], "nothing is kept")

        assert refused(house, uid, "records.restore", {"guid": guid})[0] == "not_found"
