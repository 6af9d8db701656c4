"""Replays: a dead letter runs once under its own id, however often it is replayed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

import orjson
import pytest

from memrelay.memory.records.ids import derive_guid, input_time_ms
from memrelay.web.api.dead_letter_json import NoDeadLetter, NotReplayable
from tests.support.blocks import make_waiting
from tests.support.bundles import (
    STORE,
    Json,
    make_agent,
    make_bundle,
    make_memory,
    make_relay,
    make_uid,
)
from tests.support.child import ChildProcess
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.letters import drop, replay
from tests.support.tiers import first_always
from tests.support.waiting import wait_for
from tests.support.worker import arm

NOTES = "instances/${pipeline_uid}/notes"
HEARS = "User"


def keeper(block: str, memory_id: str = STORE, hears: str = HEARS) -> Json:
    return make_agent("keeper", block, {"memory_id": memory_id}, hears=hears)


FAILING, MENDED = keeper("test_fails"), keeper("memory_write")


@contextmanager
def failed(uid: str, *agents: Json, **fields: str) -> Iterator[tuple[House, str]]:
    """Yield a house with a stopped worker and a dead letter, and the id; `fields` are its entry."""
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid, *(agents or [FAILING]))])
        ident = house.client.redis.xadd(
            input_of(uid), {"data": make_envelope("mine")} | (fields or {"swarm": "chat"})
        ).decode()
        house.await_dead_letter(uid, ident)
        assert worker.stop() == 0
        yield house, ident


def mend(house: House, uid: str, *agents: Json) -> None:
    """Deploy a bundle that does not fail, for the next worker."""
    house.deploy(make_bundle(uid, *(agents or [MENDED])), announced=False)


def await_end(house: House, uid: str, worker: ChildProcess | None = None) -> bool:
    """Wait until the input is empty; return whether the worker lives."""
    if worker is not None and not worker.lives_until(
        lambda: not house.client.redis.xlen(input_of(uid))
    ):
        return False
    house.client.await_quiet(uid)
    return True


def test_a_replay_after_a_fix_keeps_the_original_ids() -> None:
    uid = make_uid()
    with failed(uid) as (house, ident):
        mend(house, uid)
        house.start_worker()

        house.client.await_done(uid, replay(house, uid, ident)[0])

        guid, created_at = house.rows(uid, "SELECT guid, created_at FROM records")[0]
        assert (guid, created_at) == (derive_guid(uid, ident, "keeper_", 1), input_time_ms(ident))
        assert [(said.sender, said.input) for said in house.client.log(uid)] == [
            (HEARS, ident),
            ("keeper", ident),
        ]
        assert house.contents(uid) == ["mine"]
        assert not house.dead_letters(uid)
        assert house.client.unacknowledged(uid) == 0
        with pytest.raises(NoDeadLetter):
            replay(house, uid, ident)


@pytest.mark.parametrize("batch", first_always(3, 1, 256))
def test_ten_replays_at_once_have_one_effect(batch: int) -> None:
    uid = make_uid()
    with failed(uid) as (house, ident):
        mend(house, uid)
        replay(house, uid, ident, times=5)
        house.start_worker(limits={"batch": batch})
        try:
            replay(house, uid, ident, times=5)
        except NoDeadLetter:
            print("it had gone through")

        await_end(house, uid)

        assert house.contents(uid) == ["mine"]
        assert len({said.mid for said in house.client.log(uid)}) == 2
        assert not house.dead_letters(uid)


@pytest.mark.parametrize("batch", first_always(4, 1))
def test_repeated_replays_with_other_writes_between_have_one_effect(batch: int) -> None:
    uid = make_uid()
    with failed(uid) as (house, ident):
        mend(house, uid)
        for number in range(10):
            replay(house, uid, ident)
            house.client.enter_together(uid, [f"tea {number}{letter}" for letter in "abc"])
        house.start_worker(limits={"batch": batch})

        await_end(house, uid)

        assert house.contents(uid)[0] == "mine"
        assert sorted(house.contents(uid)[1:]) == [
            f"tea {number}{letter}" for number in range(10) for letter in "abc"
        ]
        assert not house.dead_letters(uid)


def kill_at_each_step(house: House, uid: str, idents: Iterator[str], times: int = 1) -> list[str]:
    """Replay dead letters one by one, and return them.

    The worker is killed at the first step of the first one, at the second step of the second
    one, and so on, until it survives.
    """
    done: list[str] = []
    worker = house.start_stepping_worker(armed=False, die_at=1)
    for ident in idents:
        arm(worker)
        replay(house, uid, ident, times)
        done.append(ident)
        if await_end(house, uid, worker):
            break
        worker = house.start_stepping_worker(armed=False, die_at=len(done) + 1)
        await_end(house, uid)
    print("killed at each of", house.steps)
    assert len(done) > 3 and {
        "before dead letters",
        "dead letters stored",
        "before sending",
        "sent",
    } <= set(house.steps)
    return done


@pytest.mark.slow
def test_a_replay_has_one_effect_when_the_worker_is_killed() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid, FAILING)])
        idents = house.client.enter_together(uid, [f"mine {number}" for number in range(20)])
        house.client.await_quiet(uid)
        assert house.workers[-1].stop() == 0
        mend(house, uid)

        done = kill_at_each_step(house, uid, iter(idents), times=2)

        assert house.contents(uid) == [f"mine {number}" for number in range(len(done))]
        assert [letter.id for letter in house.dead_letters(uid)] == idents[len(done) :]


@pytest.mark.slow
def test_a_failed_replay_counts_once_when_the_worker_is_killed() -> None:
    uid = make_uid()
    with failed(uid) as (house, ident):
        (before,) = house.dead_letters(uid)

        done = kill_at_each_step(house, uid, repeat(ident, 20))

        (letter,) = house.dead_letters(uid)
        assert letter.attempts == 1 + len(done)
        assert (letter.id, letter.data, letter.error) == (before.id, before.data, before.error)
        assert letter.failed_at > before.failed_at
        assert not house.contents(uid)


@pytest.mark.parametrize("step", first_always("committed", "before sending", "sent"))
def test_a_dead_letter_is_deleted_when_its_redelivery_succeeds(
    step: str,
) -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_stepping_worker(
            bundles=[make_bundle(uid, FAILING)], die_on="before sending"
        )
        ident = house.client.enter(uid, "mine")
        worker.await_end()
        assert [letter.id for letter in house.dead_letters(uid)] == [ident]
        mend(house, uid)
        replay(house, uid, ident)  # requested again before it has come back

        house.start_stepping_worker(die_on=step, ready=False).await_end()
        house.start_worker()
        await_end(house, uid)

        assert house.contents(uid) == ["mine"]
        assert not house.dead_letters(uid)


@pytest.mark.parametrize(
    "agents",
    [[FAILING], [keeper("test_fails"), make_memory("write", hears=HEARS, memory_id=NOTES)]],
    ids=["one store", "two stores"],
)
def test_a_fenced_owner_adds_no_dead_letters(agents: list[Json]) -> None:
    uid, limits = make_uid(), {"lease_s": 1}
    with House() as house:
        stale = house.start_stepping_worker(
            bundles=[make_bundle(uid, *agents)],
            limits=limits,
            die_on="before dead letters",
            signal=signal.SIGSTOP,
        )
        house.client.ask(uid, "tea")  # creates the store
        ident = house.client.enter(uid, "mine")
        wait_for(lambda: "before dead letters" in house.steps, "it stands still")
        mend(house, uid, MENDED, *agents[1:])
        house.start_worker(limits=limits)
        house.client.await_done(uid, ident)

        os.kill(stale.pid, signal.SIGCONT)
        wait_for(
            lambda: "bus_lost" in stale.said or "worker_fenced" in stale.said,
            "it knows that it was replaced",
        )
        assert stale.stop() == 0

        assert house.dead_letters(uid) == []
        assert house.contents(uid) == ["tea", "mine"]


def test_a_webhook_replay_goes_only_to_its_agent() -> None:
    uid = make_uid()
    other = make_memory("write", hears=HEARS, memory_id=NOTES)
    with failed(uid, FAILING, other, agent="keeper_") as (house, ident):
        mend(house, uid, MENDED, other)
        house.start_worker()

        house.client.await_done(uid, replay(house, uid, ident)[0])

        assert (house.contents(uid), house.contents(uid, "notes")) == (["mine"], [])
        assert [(said.sender, said.input) for said in house.client.log(uid)] == [("keeper", ident)]


def test_a_chat_replay_is_published_as_its_user() -> None:
    uid, chat = (
        make_uid(),
        {
            "agent_class": "chat_agent",
            "agent_alias": "ann",
            "agent_name": HEARS,
            "agent_rec_swarm": "chat",
            "agent_send_swarm": "chat",
        },
    )
    with failed(uid, chat, FAILING, agent="ann") as (house, ident):
        (letter,) = house.dead_letters(uid)
        mend(house, uid, chat, MENDED)
        house.start_worker()

        house.client.await_done(uid, replay(house, uid, ident)[0])

        assert (letter.agent, letter.data) == ("ann", make_envelope("mine"))
        assert [said.sender for said in house.client.log(uid)] == [HEARS, "keeper"]
        assert house.contents(uid) == ["mine"]


def test_a_continuation_replay_runs_only_its_step() -> None:
    uid = make_uid()
    relay, first = make_relay("all", "(.*)"), make_memory("write", hears="dispatch_all")
    with House() as house:
        failing, mended = (
            keeper(block, NOTES, "dispatch_all") for block in ("test_fails", "memory_write")
        )
        worker = house.start_worker(bundles=[make_bundle(uid, relay, first, failing)])
        ident = house.client.enter(uid, "mine")
        (letter,) = wait_for(lambda: house.dead_letters(uid), "the step is a dead letter")
        wait_for(lambda: not house.rows(uid, "SELECT id FROM pending"), "and forgotten")
        worker.stop()
        mend(house, uid, relay, first, mended)
        house.start_worker()

        replay(house, uid, letter.id, times=3)
        await_end(house, uid)

        assert letter.id.startswith(f"{ident}.") and (letter.agent, letter.hop) == ("keeper_", "1")
        assert (house.contents(uid), house.contents(uid, "notes")) == (["mine"], ["mine"])
        assert house.rows(uid, "SELECT guid FROM records", "notes") == [
            (derive_guid(uid, letter.id, "keeper_", 1),)
        ]
        assert {said.mid.partition("~")[0] for said in house.client.log(uid)} == {
            f"{ident}.0",
            f"{ident}.1",
            f"{ident}.2",
            f"{letter.id}.0",
        }
        assert not house.dead_letters(uid)


def test_a_replay_of_a_repeated_producer_id_has_no_second_effect() -> None:
    uid = make_uid()
    with failed(uid, swarm="chat", id="order-1") as (house, ident):
        mend(house, uid)
        house.start_worker()
        house.client.ask(uid, "mine", id="order-1")

        house.client.await_done(uid, replay(house, uid, ident)[0])
        house.client.ask(uid, "mine", id="order-1")

        assert house.contents(uid) == ["mine"]
        assert not house.dead_letters(uid)


@pytest.mark.parametrize("again", ["1-1", "1-1.1+0"], ids=["an input", "a continuation"])
def test_a_replay_for_a_missing_swarm_ends_if_its_producer_id_is_known(
    house: House, again: str
) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    house.client.ask(uid, "/write tea", id="order-1")

    with house.client.redis.pipeline(transaction=True) as pipe:  # one batch, acknowledged together
        pipe.xadd(
            input_of(uid),
            {
                "swarm": "gone",
                "data": make_envelope("/write tea"),
                "id": "order-1",
                "replay_of": again,
            },
        )
        pipe.xadd(input_of(uid), {"swarm": "chat", "data": make_envelope("/write milk")})
        pipe.execute()
    house.client.await_quiet(uid)

    assert house.contents(uid) == ["tea", "milk"]


def test_dropping_a_dead_letter_cancels_its_replay() -> None:
    uid = make_uid()
    with failed(uid) as (house, ident):
        mend(house, uid)
        replay(house, uid, ident, times=2)

        assert [drop(house, uid, ident) for _ in range(2)] == [True, False]
        worker = house.start_worker()
        await_end(house, uid)

        assert "replay_without_letter" in worker.said
        assert (house.contents(uid), house.client.log(uid), house.dead_letters(uid)) == ([], [], [])


@pytest.mark.parametrize(
    "fields", [{"published": "1"}, {"id": "order-1"}], ids=["published", "order-1"]
)
def test_a_replay_that_waits_for_a_retry_has_one_effect(tmp_path: Path, fields: Json) -> None:
    uid, gate, limits = (
        make_uid(),
        tmp_path / "gate",
        {"first_pause_s": 0.05, "longest_pause_s": 0.1, "retries": 3},
    )
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid, keeper("test_waits"))], limits=limits)
        ident = house.client.enter(uid, make_waiting("tea", gate, tries=6), **fields)
        (letter,) = wait_for(lambda: house.dead_letters(uid), "it is a dead letter")
        assert (letter.id, letter.attempts) == (ident, 4)
        assert (letter.producer_id, letter.published) == (
            fields.get("id", ""),
            "published" in fields,
        )

        assert worker.stop() == 0
        replay(house, uid, ident, times=5)  # in one batch
        house.start_worker(bundles=[make_bundle(uid, keeper("test_waits"))], limits=limits)
        wait_for(lambda: house.contents(uid), "it is done")
        wait_for(
            lambda: house.rows(uid, "SELECT count(*) FROM pending") == [(0,)],
            "no step is pending",
        )
        house.client.await_quiet(uid)
        if "id" in fields:
            house.client.ask(uid, make_waiting("tea", gate, tries=6), **fields)

        assert house.rows(uid, "SELECT guid FROM records") == [
            (derive_guid(uid, ident, "keeper_", 1),)
        ]
        assert {said.input for said in house.client.log(uid)} == {ident}
        assert not house.dead_letters(uid)


BROKEN = {
    "no JSON": {"swarm": "chat", "data": b"\xff\x00{"},
    "no swarm of ours": {"swarm": "caht", "data": make_envelope("tea")},
    "nobody": {"agent": "nobody", "data": make_envelope("tea")},
    "hops": {"swarm": "chat", "data": make_envelope("tea"), "hop": "many"},
}


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
def test_a_replay_that_cannot_run_stays_a_dead_letter(house: House, fields: Json) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid, MENDED))
    ident = house.client.redis.xadd(input_of(uid), fields).decode()
    before = house.await_dead_letter(uid, ident)

    house.client.await_done(uid, replay(house, uid, ident)[0])

    (after,) = house.dead_letters(uid)
    assert after == before._replace(attempts=2, failed_at=after.failed_at, entry=after.entry)
    assert "guid" in orjson.loads(house.client.ask(uid, "tea")[-1].text)


def test_a_dead_letter_without_swarm_and_agent_is_not_replayable(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid, MENDED))
    ident = house.client.redis.xadd(input_of(uid), {"tea": "green"}).decode()
    house.await_dead_letter(uid, ident)

    with pytest.raises(NotReplayable, match="Drop the dead letter"):
        replay(house, uid, ident)


def test_a_dead_letter_without_content_is_not_replayable(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid, MENDED))
    ident = house.client.enter_raw(uid, b"")
    house.await_dead_letter(uid, ident)

    with pytest.raises(NotReplayable, match="has no message"):
        replay(house, uid, ident)


@pytest.mark.parametrize(
    "again",
    ["tea", "1-", "1-1.x", "-1-1", "9" * 30 + "-0", "1-0." + "1" * 2000, "1-0\n", "\uff11-0"],
)
def test_an_invalid_replay_id_becomes_a_dead_letter(house: House, again: str) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid, MENDED))

    ident = house.client.enter(uid, "tea", replay_of=again)

    assert (
        "the field" in (error := house.await_dead_letter(uid, ident).error) and "replay_of" in error
    )
    assert not house.contents(uid)


def test_a_replay_without_a_store_keeps_its_ids(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid, make_agent("plus", "add_1", on="other", to="chat")))
    ident = house.client.enter(uid, "1", swarm="chta")
    house.await_dead_letter(uid, ident)
    house.deploy(make_bundle(uid, make_agent("plus", "add_1", on="chta", to="chat")))
    wait_for(lambda: house.client.ask(uid, "5", swarm="chta"), "the new version is served")

    for entry in replay(house, uid, ident, times=3):
        house.client.await_done(uid, entry)

    texts = {
        (said.mid.rpartition("~")[0], said.text)
        for said in house.client.log(uid)
        if said.input == ident
    }
    assert texts == {(f"{ident}.1", "2")}
    assert not [letter for letter in house.dead_letters(uid) if letter.id == ident]
