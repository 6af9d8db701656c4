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
from tests.support.dead_letters import drop, replay
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import wait_for
from tests.support.worker import arm

NOTES = "instances/${pipeline_uid}/notes"
SENDERS = "User"


def keeper(block: str, memory_id: str = STORE, senders: str = SENDERS) -> Json:
    return make_agent("keeper", block, {"memory_id": memory_id}, senders=senders)


FAILING, MENDED = keeper("test_fails"), keeper("memory_write")


@contextmanager
def failed(uid: str, *agents: Json, **fields: str) -> Iterator[tuple[TestSystem, str]]:
    """Yield a system with a stopped worker, and the id of a dead letter. `fields` are its entry."""
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid, *(agents or [FAILING]))])
        ident = system.client.redis.xadd(
            input_of(uid), {"data": make_envelope("mine")} | (fields or {"swarm": "chat"})
        ).decode()
        system.await_dead_letter(uid, ident)
        assert worker.stop() == 0
        yield system, ident


def mend(system: TestSystem, uid: str, *agents: Json) -> None:
    """Deploy a bundle that does not fail, for the next worker."""
    system.deploy(make_bundle(uid, *(agents or [MENDED])), announced=False)


def await_end(system: TestSystem, uid: str, worker: ChildProcess | None = None) -> bool:
    """Wait until the input is empty; return whether the worker lives."""
    if worker is not None and not worker.lives_until(
        lambda: not system.client.redis.xlen(input_of(uid))
    ):
        return False
    system.client.await_quiet(uid)
    return True


def test_a_replay_after_a_fix_keeps_the_original_ids() -> None:
    uid = make_uid()
    with failed(uid) as (system, ident):
        mend(system, uid)
        system.start_worker()

        system.client.await_done(uid, replay(system, uid, ident)[0])

        guid, created_at = system.rows(uid, "SELECT guid, created_at FROM records")[0]
        assert (guid, created_at) == (derive_guid(uid, ident, "keeper_", 1), input_time_ms(ident))
        assert [(said.sender, said.input) for said in system.client.log(uid)] == [
            (SENDERS, ident),
            ("keeper", ident),
        ]
        assert system.contents(uid) == ["mine"]
        assert not system.dead_letters(uid)
        assert system.client.unacknowledged(uid) == 0
        with pytest.raises(NoDeadLetter):
            replay(system, uid, ident)


@pytest.mark.parametrize("batch", first_always(3, 1, 256))
def test_ten_replays_at_once_have_one_effect(batch: int) -> None:
    uid = make_uid()
    with failed(uid) as (system, ident):
        mend(system, uid)
        replay(system, uid, ident, times=5)
        system.start_worker(limits={"batch": batch})
        try:
            replay(system, uid, ident, times=5)
        except NoDeadLetter:
            print("it had gone through")

        await_end(system, uid)

        assert system.contents(uid) == ["mine"]
        assert len({said.mid for said in system.client.log(uid)}) == 2
        assert not system.dead_letters(uid)


@pytest.mark.parametrize("batch", first_always(4, 1))
def test_repeated_replays_with_other_writes_between_have_one_effect(batch: int) -> None:
    uid = make_uid()
    with failed(uid) as (system, ident):
        mend(system, uid)
        for number in range(10):
            replay(system, uid, ident)
            system.client.enter_together(uid, [f"tea {number}{letter}" for letter in "abc"])
        system.start_worker(limits={"batch": batch})

        await_end(system, uid)

        assert system.contents(uid)[0] == "mine"
        assert sorted(system.contents(uid)[1:]) == [
            f"tea {number}{letter}" for number in range(10) for letter in "abc"
        ]
        assert not system.dead_letters(uid)


def kill_at_each_step(
    system: TestSystem, uid: str, idents: Iterator[str], times: int = 1
) -> list[str]:
    """Replay dead letters one by one, and return them.

    The worker is killed at the first step of the first one, at the second step of the second
    one, and so on, until it survives.
    """
    done: list[str] = []
    worker = system.start_stepping_worker(armed=False, die_at=1)
    for ident in idents:
        arm(worker)
        replay(system, uid, ident, times)
        done.append(ident)
        if await_end(system, uid, worker):
            break
        worker = system.start_stepping_worker(armed=False, die_at=len(done) + 1)
        await_end(system, uid)
    print("killed at each of", system.steps)
    assert len(done) > 3 and {
        "before dead letters",
        "dead letters stored",
        "before sending",
        "sent",
    } <= set(system.steps)
    return done


@pytest.mark.slow
def test_a_replay_has_one_effect_when_the_worker_is_killed() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid, FAILING)])
        idents = system.client.enter_together(uid, [f"mine {number}" for number in range(20)])
        system.client.await_quiet(uid)
        assert system.workers[-1].stop() == 0
        mend(system, uid)

        done = kill_at_each_step(system, uid, iter(idents), times=2)

        assert system.contents(uid) == [f"mine {number}" for number in range(len(done))]
        assert [letter.id for letter in system.dead_letters(uid)] == idents[len(done) :]


@pytest.mark.slow
def test_a_failed_replay_counts_once_when_the_worker_is_killed() -> None:
    uid = make_uid()
    with failed(uid) as (system, ident):
        (before,) = system.dead_letters(uid)

        done = kill_at_each_step(system, uid, repeat(ident, 20))

        (letter,) = system.dead_letters(uid)
        assert letter.attempts == 1 + len(done)
        assert (letter.id, letter.data, letter.error) == (before.id, before.data, before.error)
        assert letter.failed_at > before.failed_at
        assert not system.contents(uid)


@pytest.mark.parametrize("step", first_always("committed", "before sending", "sent"))
def test_a_dead_letter_is_deleted_when_its_redelivery_succeeds(
    step: str,
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(
            bundles=[make_bundle(uid, FAILING)], die_on="before sending"
        )
        ident = system.client.enter(uid, "mine")
        worker.await_end()
        assert [letter.id for letter in system.dead_letters(uid)] == [ident]
        mend(system, uid)
        replay(system, uid, ident)  # requested again before it has come back

        system.start_stepping_worker(die_on=step, ready=False).await_end()
        system.start_worker()
        await_end(system, uid)

        assert system.contents(uid) == ["mine"]
        assert not system.dead_letters(uid)


@pytest.mark.parametrize(
    "agents",
    [[FAILING], [keeper("test_fails"), make_memory("write", senders=SENDERS, memory_id=NOTES)]],
    ids=["one store", "two stores"],
)
def test_a_fenced_owner_adds_no_dead_letters(agents: list[Json]) -> None:
    uid, limits = make_uid(), {"lease_s": 1}
    with TestSystem() as system:
        stale = system.start_stepping_worker(
            bundles=[make_bundle(uid, *agents)],
            limits=limits,
            die_on="before dead letters",
            signal=signal.SIGSTOP,
        )
        system.client.ask(uid, "tea")  # creates the store
        ident = system.client.enter(uid, "mine")
        wait_for(lambda: "before dead letters" in system.steps, "it stands still")
        mend(system, uid, MENDED, *agents[1:])
        system.start_worker(limits=limits)
        system.client.await_done(uid, ident)

        os.kill(stale.pid, signal.SIGCONT)
        wait_for(
            lambda: "bus_lost" in stale.output or "worker_fenced" in stale.output,
            "it knows that it was replaced",
        )
        assert stale.stop() == 0

        assert system.dead_letters(uid) == []
        assert system.contents(uid) == ["tea", "mine"]


def test_a_webhook_replay_goes_only_to_its_agent() -> None:
    uid = make_uid()
    other = make_memory("write", senders=SENDERS, memory_id=NOTES)
    with failed(uid, FAILING, other, agent="keeper_") as (system, ident):
        mend(system, uid, MENDED, other)
        system.start_worker()

        system.client.await_done(uid, replay(system, uid, ident)[0])

        assert (system.contents(uid), system.contents(uid, "notes")) == (["mine"], [])
        assert [(said.sender, said.input) for said in system.client.log(uid)] == [("keeper", ident)]


def test_a_chat_replay_is_published_as_its_user() -> None:
    uid, chat = (
        make_uid(),
        {
            "agent_class": "chat_agent",
            "agent_alias": "ann",
            "agent_name": SENDERS,
            "agent_rec_swarm": "chat",
            "agent_send_swarm": "chat",
        },
    )
    with failed(uid, chat, FAILING, agent="ann") as (system, ident):
        (letter,) = system.dead_letters(uid)
        mend(system, uid, chat, MENDED)
        system.start_worker()

        system.client.await_done(uid, replay(system, uid, ident)[0])

        assert (letter.agent, letter.data) == ("ann", make_envelope("mine"))
        assert [said.sender for said in system.client.log(uid)] == [SENDERS, "keeper"]
        assert system.contents(uid) == ["mine"]


def test_a_continuation_replay_runs_only_its_step() -> None:
    uid = make_uid()
    relay, first = make_relay("all", "(.*)"), make_memory("write", senders="dispatch_all")
    with TestSystem() as system:
        failing, mended = (
            keeper(block, NOTES, "dispatch_all") for block in ("test_fails", "memory_write")
        )
        worker = system.start_worker(bundles=[make_bundle(uid, relay, first, failing)])
        ident = system.client.enter(uid, "mine")
        (letter,) = wait_for(lambda: system.dead_letters(uid), "the step is a dead letter")
        wait_for(lambda: not system.rows(uid, "SELECT id FROM pending"), "and forgotten")
        worker.stop()
        mend(system, uid, relay, first, mended)
        system.start_worker()

        replay(system, uid, letter.id, times=3)
        await_end(system, uid)

        assert letter.id.startswith(f"{ident}.") and (letter.agent, letter.hop) == ("keeper_", "1")
        assert (system.contents(uid), system.contents(uid, "notes")) == (["mine"], ["mine"])
        assert system.rows(uid, "SELECT guid FROM records", "notes") == [
            (derive_guid(uid, letter.id, "keeper_", 1),)
        ]
        assert {said.mid.partition("~")[0] for said in system.client.log(uid)} == {
            f"{ident}.0",
            f"{ident}.1",
            f"{ident}.2",
            f"{letter.id}.0",
        }
        assert not system.dead_letters(uid)


def test_a_replay_of_a_repeated_producer_id_has_no_second_effect() -> None:
    uid = make_uid()
    with failed(uid, swarm="chat", id="order-1") as (system, ident):
        mend(system, uid)
        system.start_worker()
        system.client.ask(uid, "mine", id="order-1")

        system.client.await_done(uid, replay(system, uid, ident)[0])
        system.client.ask(uid, "mine", id="order-1")

        assert system.contents(uid) == ["mine"]
        assert not system.dead_letters(uid)


@pytest.mark.parametrize("again", ["1-1", "1-1.1+0"], ids=["an input", "a continuation"])
def test_a_replay_for_a_missing_swarm_ends_if_its_producer_id_is_known(
    system: TestSystem, again: str
) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    system.client.ask(uid, "/write tea", id="order-1")

    with system.client.redis.pipeline(transaction=True) as pipe:  # one batch, acknowledged together
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
    system.client.await_quiet(uid)

    assert system.contents(uid) == ["tea", "milk"]


def test_dropping_a_dead_letter_cancels_its_replay() -> None:
    uid = make_uid()
    with failed(uid) as (system, ident):
        mend(system, uid)
        replay(system, uid, ident, times=2)

        assert [drop(system, uid, ident) for _ in range(2)] == [True, False]
        worker = system.start_worker()
        await_end(system, uid)

        assert "replay_without_letter" in worker.output
        assert (system.contents(uid), system.client.log(uid), system.dead_letters(uid)) == (
            [],
            [],
            [],
        )


@pytest.mark.parametrize(
    "fields", [{"published": "1"}, {"id": "order-1"}], ids=["published", "order-1"]
)
def test_a_replay_that_waits_for_a_retry_has_one_effect(tmp_path: Path, fields: Json) -> None:
    uid, gate, limits = (
        make_uid(),
        tmp_path / "gate",
        {"first_pause_s": 0.05, "longest_pause_s": 0.1, "retries": 3},
    )
    with TestSystem() as system:
        worker = system.start_worker(
            bundles=[make_bundle(uid, keeper("test_waits"))], limits=limits
        )
        ident = system.client.enter(uid, make_waiting("tea", gate, tries=6), **fields)
        (letter,) = wait_for(lambda: system.dead_letters(uid), "it is a dead letter")
        assert (letter.id, letter.attempts) == (ident, 4)
        assert (letter.producer_id, letter.published) == (
            fields.get("id", ""),
            "published" in fields,
        )

        assert worker.stop() == 0
        replay(system, uid, ident, times=5)  # in one batch
        system.start_worker(bundles=[make_bundle(uid, keeper("test_waits"))], limits=limits)
        wait_for(lambda: system.contents(uid), "it is done")
        wait_for(
            lambda: system.rows(uid, "SELECT count(*) FROM pending") == [(0,)],
            "no step is pending",
        )
        system.client.await_quiet(uid)
        if "id" in fields:
            system.client.ask(uid, make_waiting("tea", gate, tries=6), **fields)

        assert system.rows(uid, "SELECT guid FROM records") == [
            (derive_guid(uid, ident, "keeper_", 1),)
        ]
        assert {said.input for said in system.client.log(uid)} == {ident}
        assert not system.dead_letters(uid)


BROKEN = {
    "no JSON": {"swarm": "chat", "data": b"\xff\x00{"},
    "no swarm of ours": {"swarm": "caht", "data": make_envelope("tea")},
    "nobody": {"agent": "nobody", "data": make_envelope("tea")},
    "hops": {"swarm": "chat", "data": make_envelope("tea"), "hop": "many"},
}


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
def test_a_replay_that_cannot_run_stays_a_dead_letter(system: TestSystem, fields: Json) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, MENDED))
    ident = system.client.redis.xadd(input_of(uid), fields).decode()
    before = system.await_dead_letter(uid, ident)

    system.client.await_done(uid, replay(system, uid, ident)[0])

    (after,) = system.dead_letters(uid)
    assert after == before._replace(attempts=2, failed_at=after.failed_at, entry=after.entry)
    assert "guid" in orjson.loads(system.client.ask(uid, "tea")[-1].text)


def test_a_dead_letter_without_swarm_and_agent_is_not_replayable(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, MENDED))
    ident = system.client.redis.xadd(input_of(uid), {"tea": "green"}).decode()
    system.await_dead_letter(uid, ident)

    with pytest.raises(NotReplayable, match="Drop the dead letter"):
        replay(system, uid, ident)


def test_a_dead_letter_without_content_is_not_replayable(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, MENDED))
    ident = system.client.enter_raw(uid, b"")
    system.await_dead_letter(uid, ident)

    with pytest.raises(NotReplayable, match="has no message"):
        replay(system, uid, ident)


@pytest.mark.parametrize(
    "again",
    ["tea", "1-", "1-1.x", "-1-1", "9" * 30 + "-0", "1-0." + "1" * 2000, "1-0\n", "\uff11-0"],
)
def test_an_invalid_replay_id_becomes_a_dead_letter(system: TestSystem, again: str) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, MENDED))

    ident = system.client.enter(uid, "tea", replay_of=again)

    assert (
        "the field" in (error := system.await_dead_letter(uid, ident).error)
        and "replay_of" in error
    )
    assert not system.contents(uid)


def test_a_replay_without_a_store_keeps_its_ids(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_agent("plus", "add_1", on="other", to="chat")))
    ident = system.client.enter(uid, "1", swarm="chta")
    system.await_dead_letter(uid, ident)
    system.deploy(make_bundle(uid, make_agent("plus", "add_1", on="chta", to="chat")))
    wait_for(lambda: system.client.ask(uid, "5", swarm="chta"), "the new version is served")

    for entry in replay(system, uid, ident, times=3):
        system.client.await_done(uid, entry)

    texts = {
        (said.mid.rpartition("~")[0], said.text)
        for said in system.client.log(uid)
        if said.input == ident
    }
    assert texts == {(f"{ident}.1", "2")}
    assert not [letter for letter in system.dead_letters(uid) if letter.id == ident]


def test_a_replay_keeps_the_key_of_the_sender() -> None:
    uid = make_uid()
    with failed(uid, swarm="chat", via='["rest", "", "k1"]') as (system, ident):
        mend(system, uid)
        worker = system.start_worker()
        replay(system, uid, ident)
        assert await_end(system, uid)
        assert system.rows(uid, "SELECT profile, key FROM origins") == [("rest", "k1")]
        assert worker.stop() == 0
