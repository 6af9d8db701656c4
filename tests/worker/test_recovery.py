"""Recovery from actions of other programs and from failures of the server."""

import time
from contextlib import ExitStack

import pytest

from tests.support.bundles import STORE, make_bundle, make_memory, make_relay, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.locks import locked
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import wait_for
from tests.support.worker_reports import await_paused, type_command


def test_a_deleted_input_is_created_again(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    for number in range(20):
        system.client.redis.delete(input_of(uid))
        system.client.answer(uid, f"/write {number}")

    assert system.contents(uid) == [str(number) for number in range(20)]


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
    with TestSystem() as system:
        system.client.redis.set(key, "odd")
        worker = system.start_worker(ready=False, bundles=[make_bundle(uid)])
        wait_for(
            lambda: f"{key} is a string, and should be a {expected}" in worker.output,
            "the worker logs the key",
        )

        system.client.redis.delete(key)
        system.client.enter(uid, "/write tea")
        system.client.await_quiet(uid)

        assert "key_has_wrong_type" in worker.output and f"DEL {key}" in worker.output
        assert system.contents(uid) == ["tea"]


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
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        system.client.redis.hset(
            key,
            mapping={field: "odd", "heard_until": "1"}
            if field != "heard_until"
            else {field: "odd"},
        )

        system.start_worker()
        system.client.ask(uid, "/write tea")
        shown = type_command(system, "status")

        assert (shown.returncode, system.contents(uid)) == (0, ["tea"])


def test_entries_that_another_consumer_took_run_after_a_start() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        system.client.enter_together(uid, ["/write one", "/write two"])
        system.client.redis.xreadgroup("owner", "stranger", {input_of(uid): ">"})

        system.start_worker()
        system.client.await_quiet(uid)

        assert system.contents(uid) == ["one", "two"]


def test_entries_in_flight_run_in_batches_after_a_start() -> None:
    uid, count = make_uid(), 600
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        system.client.enter_together(uid, [f"/write {number}" for number in range(count)])
        system.client.redis.xreadgroup("owner", "stranger", {input_of(uid): ">"})

        system.start_stepping_worker()
        system.client.await_quiet(uid)

        assert system.contents(uid) == [str(number) for number in range(count)]
        assert system.steps.count("attempt journaled") < count / 20
        assert system.steps.count("committed") < count / 20


def test_entries_that_came_without_a_worker_run_after_a_start() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        system.client.enter_together(uid, [f"/write {number}" for number in range(600)])

        system.start_worker()
        system.client.await_quiet(uid)

        assert system.contents(uid) == [str(number) for number in range(600)]


def test_cut_connections_neither_lose_nor_repeat_messages(
    system: TestSystem,
) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    for start in range(0, 500, 100):
        system.client.enter_together(
            uid, [f"/write {number}" for number in range(start, start + 100)]
        )
        system.client.redis.client_kill_filter(_type="normal", skipme=True)
    system.client.await_quiet(uid)

    assert system.contents(uid) == [str(number) for number in range(500)]
    assert system.client.unacknowledged(uid) == 0


@pytest.mark.slow
def test_the_inbox_shrinks_although_connections_were_cut(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    for _ in range(5):
        system.client.enter_together(uid, ["/write tea"] * 1000)
        wait_for(lambda: system.client.redis.xlen(input_of(uid)) < 900, "it works")
        system.client.redis.client_kill_filter(_type="normal", skipme=True)
        system.client.await_quiet(uid)

    for _ in range(3):  # the next batch deletes the inbox rows of this one
        system.client.ask(uid, "/write more")

    ((left,),) = system.rows(uid, "SELECT count(*) FROM inbox")
    assert left <= 3


def test_a_channel_is_subscribed_again_after_a_cut(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    system.client.redis.client_kill_filter(_type="pubsub")
    wait_for(
        lambda: system.client.redis.pubsub_numsub(f"swarm:{{{uid}}}:chat")[0][1],
        "the worker listens again",
    )
    system.client.publish(uid, make_envelope("/write tea"))

    wait_for(lambda: system.contents(uid), "the message is taken")
    assert system.contents(uid) == ["tea"]


@pytest.mark.slow
def test_idle_connections_survive_the_servers_timeout() -> None:
    with TestSystem() as system:
        system.client.redis.config_set("timeout", 7)
        worker = system.start_worker(bundles=[make_bundle(uid := make_uid())])

        time.sleep(10)

        assert "bus_lost" not in worker.output
        assert "guid" in system.client.answer(uid, "/write tea")


@pytest.mark.slow
def test_the_worker_waits_for_a_store_locked_for_2_s(system: TestSystem) -> None:
    uid, other = make_uid(), make_uid()
    system.deploy(make_bundle(uid), make_bundle(other))
    system.client.answer(uid, "/write before")

    with locked(system.store_file(uid)):
        system.client.enter_together(uid, [f"/write {number}" for number in range(300)])
        began = time.monotonic()
        system.client.answer(other, "/write not disturbed")
        other_waited_s = time.monotonic() - began
        time.sleep(max(0.0, 2 - other_waited_s))
        assert system.client.redis.xlen(input_of(uid)) == 300
    system.client.await_quiet(uid)

    print(f"another pipeline waited {other_waited_s * 1000:.0f} ms")
    assert system.contents(uid) == ["before", *[str(number) for number in range(300)]]
    assert not system.dead_letters(uid)


def test_the_worker_waits_for_a_store_locked_at_its_start() -> None:
    uid, other = make_uid(), make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(
            die_on="sent", bundles=[make_bundle(uid), make_bundle(other)]
        )
        system.client.enter(uid, "/write tea")
        worker.await_end()

        with locked(system.store_file(uid)):
            worker = system.start_worker(ready=False)
            time.sleep(1)
            assert worker.lives, worker.output
        system.client.await_quiet(uid)

        assert system.contents(uid) == ["tea"]
        assert not system.dead_letters(uid)


def test_a_store_locked_at_the_start_delays_no_other_pipeline() -> None:
    uid, other = make_uid(), make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        system.client.answer(uid, "/write before")
        system.client.answer(other, "/write before")
        system.workers[0].kill()
        system.client.enter_together(uid, ["/write tea"] * 3)

        with locked(system.store_file(uid)):
            system.start_worker(ready=False)
            system.client.ask(other, "/write not disturbed")


def test_a_store_locked_during_a_deploy_delays_no_other_pipeline(
    system: TestSystem,
) -> None:
    uid, other = make_uid(), make_uid()
    system.deploy(make_bundle(uid), make_bundle(other))
    system.client.answer(uid, "/write before")

    with locked(system.store_file(uid)):
        system.client.enter_together(uid, ["/write tea"] * 3)
        system.deploy(make_bundle(uid, name="changed"))
        time.sleep(0.2)
        system.client.ask(other, "/write not disturbed")
    system.client.await_quiet(uid)

    assert system.contents(uid) == ["before", "tea", "tea", "tea"]


def test_a_store_with_a_missing_file_takes_nothing_until_it_is_back(
    system: TestSystem,
) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    system.client.ask(uid, "/write before")
    files = list(system.store_file(uid).parent.glob("memories.db*"))

    for file in files:
        file.rename(file.with_name(f"away-{file.name}"))
    ident = system.client.enter(uid, "/write after")
    await_paused(system, uid, "removed")
    waiting = system.client.redis.xrange(input_of(uid), ident, ident)
    for file in files:
        file.with_name(f"away-{file.name}").rename(file)
    system.client.await_quiet(uid)

    assert waiting
    assert system.contents(uid) == ["before", "after"]


def test_the_worker_waits_for_a_store_locked_after_a_continuation() -> None:
    uid = make_uid()
    search = make_memory("search", senders="dispatch_note", memory_id=STORE)
    note = make_memory(
        "write", senders="memory_search", memory_id="instances/${pipeline_uid}/notes"
    )
    with TestSystem() as system:
        worker = system.start_worker(
            bundles=[make_bundle(uid, make_relay("note", r"^/note\s+(.*)"), search, note)]
        )
        system.client.ask(uid, "/note first")
        wait_for(lambda: system.contents(uid, "notes"), "both stores are there")

        with ExitStack() as stack:
            with locked(system.store_file(uid, "notes")):
                system.client.ask(uid, "/note second")
                stack.enter_context(locked(system.store_file(uid)))
            wait_for(lambda: len(system.contents(uid, "notes")) == 2, "the continuation is done")
            time.sleep(0.5)

        assert worker.lives, worker.output
        wait_for(
            lambda: not system.rows(uid, "SELECT * FROM pending"), "the continuation is forgotten"
        )


def test_the_worker_waits_for_a_locked_control_plane(
    system: TestSystem,
) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    with locked(system.root / "system.db"):
        ident = system.client.enter_raw(uid, b"broken")
        time.sleep(1)

    assert system.await_dead_letter(uid, ident)
    assert "guid" in system.client.answer(uid, "/write tea")


@pytest.mark.parametrize("way", ["enter", "publish"])
def test_the_worker_reconnects_to_a_restarted_server(way: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")

        system.server.stop()
        system.server.start()
        wait_for(
            lambda: system.client.redis.pubsub_numsub(f"swarm:{{{uid}}}:chat")[0][1],
            "the worker is back",
        )
        getattr(system.client, way)(
            uid, "/write after" if way == "enter" else make_envelope("/write after")
        )

        wait_for(lambda: len(system.contents(uid)) == 2, "the message is done")
        assert system.contents(uid) == ["before", "after"]
