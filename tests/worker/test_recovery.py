"""Recovery from actions of other programs and from failures of the server."""

import time
from contextlib import ExitStack

import pytest

from tests.support.bundles import STORE, make_bundle, make_memory, make_relay, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.locks import locked
from tests.support.tiers import first_always
from tests.support.told import await_paused, type_command
from tests.support.waiting import wait_for


def test_a_deleted_input_is_created_again(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))

    for number in range(20):
        house.client.redis.delete(input_of(uid))
        house.client.answer(uid, f"/write {number}")

    assert house.contents(uid) == [str(number) for number in range(20)]


@pytest.mark.parametrize(
    ("key", "expected"),
    first_always(
        ("pipeline:{UID}:in", "stream"),
        ("pipeline:{UID}:owner", "hash"),
        ("pipeline:{UID}:stores", "hash"),
        ("memrelay:{workers}", "zset"),
        ("listeners:{public}", "zset"),
    ),
)
def test_a_key_with_the_wrong_type_is_logged_with_its_fix(key: str, expected: str) -> None:
    uid = make_uid()
    key = key.replace("UID", uid)
    with House() as house:
        house.client.redis.set(key, "odd")
        worker = house.start_worker(ready=False, bundles=[make_bundle(uid)])
        wait_for(
            lambda: f"{key} is a string, and should be a {expected}" in worker.said,
            "the worker logs the key",
        )

        house.client.redis.delete(key)
        house.client.enter(uid, "/write tea")
        house.client.await_quiet(uid)

        assert "key_has_wrong_type" in worker.said and f"DEL {key}" in worker.said
        assert house.contents(uid) == ["tea"]


@pytest.mark.parametrize(
    ("name", "field"),
    first_always(
        ("owner", "epoch"),
        ("owner", "heard_until"),
        ("owner", "gaps"),
        ("owner", "deaf_ms"),
        ("stores", STORE),
        ("stores", "odd"),
    ),
)
def test_an_unknown_hash_field_is_ignored(name: str, field: str) -> None:
    uid = make_uid()
    key, field = f"pipeline:{{{uid}}}:{name}", field.replace("${pipeline_uid}", uid)
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)]).stop()
        house.client.redis.hset(
            key,
            mapping={field: "odd", "heard_until": "1"}
            if field != "heard_until"
            else {field: "odd"},
        )

        house.start_worker()
        house.client.ask(uid, "/write tea")
        shown = type_command(house, "status")

        assert (shown.returncode, house.contents(uid)) == (0, ["tea"])


def test_entries_that_another_consumer_took_run_after_a_start() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)]).stop()
        house.client.enter_together(uid, ["/write one", "/write two"])
        house.client.redis.xreadgroup("owner", "stranger", {input_of(uid): ">"})

        house.start_worker()
        house.client.await_quiet(uid)

        assert house.contents(uid) == ["one", "two"]


def test_entries_in_flight_run_in_batches_after_a_start() -> None:
    uid, count = make_uid(), 600
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)]).stop()
        house.client.enter_together(uid, [f"/write {number}" for number in range(count)])
        house.client.redis.xreadgroup("owner", "stranger", {input_of(uid): ">"})

        house.start_stepping_worker()
        house.client.await_quiet(uid)

        assert house.contents(uid) == [str(number) for number in range(count)]
        assert house.steps.count("attempt journaled") < count / 20
        assert house.steps.count("committed") < count / 20


def test_entries_that_came_without_a_worker_run_after_a_start() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)]).stop()
        house.client.enter_together(uid, [f"/write {number}" for number in range(600)])

        house.start_worker()
        house.client.await_quiet(uid)

        assert house.contents(uid) == [str(number) for number in range(600)]


def test_cut_connections_neither_lose_nor_repeat_messages(
    house: House,
) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))

    for start in range(0, 500, 100):
        house.client.enter_together(
            uid, [f"/write {number}" for number in range(start, start + 100)]
        )
        house.client.redis.client_kill_filter(_type="normal", skipme=True)
    house.client.await_quiet(uid)

    assert house.contents(uid) == [str(number) for number in range(500)]
    assert house.client.unacknowledged(uid) == 0


@pytest.mark.slow
def test_the_inbox_shrinks_although_connections_were_cut(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    for _ in range(5):
        house.client.enter_together(uid, ["/write tea"] * 1000)
        wait_for(lambda: house.client.redis.xlen(input_of(uid)) < 900, "it works")
        house.client.redis.client_kill_filter(_type="normal", skipme=True)
        house.client.await_quiet(uid)

    for _ in range(3):  # the next batch deletes the inbox rows of this one
        house.client.ask(uid, "/write more")

    ((left,),) = house.rows(uid, "SELECT count(*) FROM inbox")
    assert left <= 3


def test_a_channel_is_subscribed_again_after_a_cut(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))

    house.client.redis.client_kill_filter(_type="pubsub")
    wait_for(
        lambda: house.client.redis.pubsub_numsub(f"swarm:{{{uid}}}:chat")[0][1],
        "the worker listens again",
    )
    house.client.publish(uid, make_envelope("/write tea"))

    wait_for(lambda: house.contents(uid), "the message is taken")
    assert house.contents(uid) == ["tea"]


@pytest.mark.slow
def test_idle_connections_survive_the_servers_timeout() -> None:
    with House() as house:
        house.client.redis.config_set("timeout", 7)
        worker = house.start_worker(bundles=[make_bundle(uid := make_uid())])

        time.sleep(10)

        assert "bus_lost" not in worker.said
        assert "guid" in house.client.answer(uid, "/write tea")


@pytest.mark.slow
def test_the_worker_waits_for_a_store_locked_for_2_s(house: House) -> None:
    uid, other = make_uid(), make_uid()
    house.deploy(make_bundle(uid), make_bundle(other))
    house.client.answer(uid, "/write before")

    with locked(house.store_file(uid)):
        house.client.enter_together(uid, [f"/write {number}" for number in range(300)])
        began = time.monotonic()
        house.client.answer(other, "/write not disturbed")
        other_waited_s = time.monotonic() - began
        time.sleep(max(0.0, 2 - other_waited_s))
        assert house.client.redis.xlen(input_of(uid)) == 300
    house.client.await_quiet(uid)

    print(f"another pipeline waited {other_waited_s * 1000:.0f} ms")
    assert house.contents(uid) == ["before", *[str(number) for number in range(300)]]
    assert not house.dead_letters(uid)


def test_the_worker_waits_for_a_store_locked_at_its_start() -> None:
    uid, other = make_uid(), make_uid()
    with House() as house:
        worker = house.start_stepping_worker(
            die_on="sent", bundles=[make_bundle(uid), make_bundle(other)]
        )
        house.client.enter(uid, "/write tea")
        worker.await_end()

        with locked(house.store_file(uid)):
            worker = house.start_worker(ready=False)
            time.sleep(1)
            assert worker.lives, worker.said
        house.client.await_quiet(uid)

        assert house.contents(uid) == ["tea"]
        assert not house.dead_letters(uid)


def test_a_store_locked_at_the_start_delays_no_other_pipeline() -> None:
    uid, other = make_uid(), make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        house.client.answer(uid, "/write before")
        house.client.answer(other, "/write before")
        house.workers[0].kill()
        house.client.enter_together(uid, ["/write tea"] * 3)

        with locked(house.store_file(uid)):
            house.start_worker(ready=False)
            house.client.ask(other, "/write not disturbed")


def test_a_store_locked_during_a_deploy_delays_no_other_pipeline(
    house: House,
) -> None:
    uid, other = make_uid(), make_uid()
    house.deploy(make_bundle(uid), make_bundle(other))
    house.client.answer(uid, "/write before")

    with locked(house.store_file(uid)):
        house.client.enter_together(uid, ["/write tea"] * 3)
        house.deploy(make_bundle(uid, name="changed"))
        time.sleep(0.2)
        house.client.ask(other, "/write not disturbed")
    house.client.await_quiet(uid)

    assert house.contents(uid) == ["before", "tea", "tea", "tea"]


def test_a_store_with_a_missing_file_takes_nothing_until_it_is_back(
    house: House,
) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    house.client.ask(uid, "/write before")
    files = list(house.store_file(uid).parent.glob("memories.db*"))

    for file in files:
        file.rename(file.with_name(f"away-{file.name}"))
    ident = house.client.enter(uid, "/write after")
    await_paused(house, uid, "removed")
    waiting = house.client.redis.xrange(input_of(uid), ident, ident)
    for file in files:
        file.with_name(f"away-{file.name}").rename(file)
    house.client.await_quiet(uid)

    assert waiting
    assert house.contents(uid) == ["before", "after"]


def test_the_worker_waits_for_a_store_locked_after_a_continuation() -> None:
    uid = make_uid()
    search = make_memory("search", hears="dispatch_note", memory_id=STORE)
    note = make_memory("write", hears="memory_search", memory_id="instances/${pipeline_uid}/notes")
    with House() as house:
        worker = house.start_worker(
            bundles=[make_bundle(uid, make_relay("note", r"^/note\s+(.*)"), search, note)]
        )
        house.client.ask(uid, "/note first")
        wait_for(lambda: house.contents(uid, "notes"), "both stores are there")

        with ExitStack() as stack:
            with locked(house.store_file(uid, "notes")):
                house.client.ask(uid, "/note second")
                stack.enter_context(locked(house.store_file(uid)))
            wait_for(lambda: len(house.contents(uid, "notes")) == 2, "the continuation is done")
            time.sleep(0.5)

        assert worker.lives, worker.said
        wait_for(
            lambda: not house.rows(uid, "SELECT * FROM pending"), "the continuation is forgotten"
        )


def test_the_worker_waits_for_a_locked_control_plane(
    house: House,
) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))

    with locked(house.root / "system.db"):
        ident = house.client.enter_raw(uid, b"broken")
        time.sleep(1)

    assert house.await_dead_letter(uid, ident)
    assert "guid" in house.client.answer(uid, "/write tea")


@pytest.mark.parametrize("way", ["enter", "publish"])
def test_the_worker_reconnects_to_a_restarted_server(way: str) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write before")

        house.server.stop()
        house.server.start()
        wait_for(
            lambda: house.client.redis.pubsub_numsub(f"swarm:{{{uid}}}:chat")[0][1],
            "the worker is back",
        )
        getattr(house.client, way)(
            uid, "/write after" if way == "enter" else make_envelope("/write after")
        )

        wait_for(lambda: len(house.contents(uid)) == 2, "the message is done")
        assert house.contents(uid) == ["before", "after"]
